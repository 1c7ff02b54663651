//! Datagrams byte by byte, written down by hand from the definitions.

use weir_flows::{Cache, Ipfix, Limits, Names, Sflow};
use weir_stage::{FlowHop, Output};

use crate::{hop, icmp6, interface, sample, tcp4, tunnelled};

/// Bytes of words of 32 bits.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Bytes of words of 16 bits.
fn halves(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The frame of [`sample`] with [`tcp4`]: what was kept of it.
fn frame(flags: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 100, 0x08, 0];
    frame.extend(tcp4(flags));
    frame.resize(128, 0);
    frame
}

/// sFlow version 5 (sflow.org, July 2004), section 5: a sample of a packet that goes by a router, one of a packet for the router itself, and the counters
/// of an interface.
#[test]
fn a_datagram_of_sflow() {
    let mut sflow = Sflow::new("2001:db8::1".parse().unwrap(), 9, 1000);
    sflow.sample(&sample(&tcp4(0x12), 0x0800, 218, hop(Some("198.51.100.7"))));
    sflow.sample(&sample(&tcp4(0x12), 0x0800, 218, FlowHop { output: Output::Here, ..hop(None) }));
    sflow.counters(&interface());
    let raw = [words(&[1, 16 + 128, 1, 222, 4, 128]), frame(0x12)].concat();
    let switched = |out: u32| words(&[1001, 16, 100, u32::MAX, out, u32::MAX]);
    let routed = words(&[1002, 16, 1, 0xc633_6407, 24, 16]);
    let expected = [
        // Version; the agent, which has an IPv6 address; its part, the datagram's number, uptime, samples.
        words(&[5, 2, 0x2001_0db8, 0, 0, 1, 9, 1, 777, 3]),
        // A flow sample: the first one of interface 5, its rate, pool and losses, in and out, three records.
        words(&[1, 32 + 152 + 24 + 24, 1, 5, 1000, 5000, 3, 5, 7, 3]),
        raw.clone(),
        switched(200),
        routed,
        // The second one is for the agent itself.
        words(&[1, 32 + 152 + 24, 2, 5, 1000, 5000, 3, 5, 0x3fff_ffff, 2]),
        raw,
        switched(u32::MAX),
        // A counter sample: the first one of interface 5, two records.
        words(&[2, 12 + 96 + 20, 1, 5, 2]),
        // Its number and type (l2vlan), no speed, full duplex, up.
        words(&[1, 88, 5, 135, 0, 0, 1, 3]),
        // Octets and packets in, and what is not counted apart; the same out; not known to be promiscuous.
        words(&[0, 1100, 11, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX]),
        words(&[1, 705_032_704, 22, u32::MAX, u32::MAX, u32::MAX, u32::MAX, 2]),
        words(&[1005, 12, 7]),
        b"lan.100\0".to_vec(),
    ];
    assert_eq!(sflow.take(777), [expected.concat()]);
    assert!(sflow.take(778).is_empty(), "nothing is left");
    sflow.counters(&interface());
    let next = sflow.take(779).remove(0);
    assert_eq!(next[..40], words(&[5, 2, 0x2001_0db8, 0, 0, 1, 9, 2, 779, 1]));
    assert_eq!(next[48..52], words(&[2]), "the second counter sample of the interface");
}

/// Section 5.3: "header_protocol" is that of what is told, "frame_length" that of the packet as it came with its check sequence, and "stripped" says how much
/// of it is missing in front and behind.
#[test]
fn a_packet_that_was_in_a_tunnel_is_told_as_such() {
    let mut sflow = Sflow::new("192.0.2.1".parse().unwrap(), 9, 1);
    for (packet, protocol) in [(tcp4(0x10), 11), (icmp6(), 12)] {
        sflow.sample(&tunnelled(&packet, FlowHop { output: Output::Unknown, ..hop(None) }));
        let datagram = sflow.take(0).remove(0);
        let mut kept = packet;
        kept.resize(128, 0);
        let raw = [words(&[1, 16 + 128, protocol, 258, 58, 128]), kept].concat();
        // Behind the headers of datagram, sample and records.
        assert_eq!(datagram[28 + 8 + 32..][..raw.len()], raw);
    }
}

/// Section 5.3, `extended_router`: what is on the link has no next hop, which is told as an address of its family without a bit.
#[test]
fn a_packet_to_the_link_has_no_next_hop() {
    let mut sflow = Sflow::new("192.0.2.1".parse().unwrap(), 9, 1);
    let packets = [(tcp4(0x10), 0x0800, words(&[1, 0])), (icmp6(), 0x86dd, words(&[2, 0, 0, 0, 0]))];
    for (packet, ethertype, address) in packets {
        sflow.sample(&sample(&packet, ethertype, 218, hop(None)));
        let datagram = sflow.take(0).remove(0);
        let routed = [words(&[1002, address.len() as u32 + 8]), address, words(&[24, 16])].concat();
        assert_eq!(datagram[datagram.len() - routed.len()..], routed);
    }
}

/// RFC 7011 section 3: templates, options and a flow, each in a set of its own, in one message.
#[test]
fn a_message_of_ipfix() {
    let mut ipfix = Ipfix::new(77, 1000);
    ipfix.describe(&Names { interfaces: vec![(4, "lan".to_owned())], vrfs: vec!["default".to_owned()] });
    let mut cache = Cache::new(Limits { flows: 8, active: 60_000, inactive: 15_000 });
    cache.add(&sample(&tcp4(0x02), 0x0800, 218, hop(Some("198.51.100.7"))), 1000);
    cache.add(&sample(&tcp4(0x10), 0x0800, 218, hop(Some("198.51.100.7"))), 3000);
    cache.end().iter().for_each(|flow| ipfix.flow(flow));
    let first = |next_hop: u16, length: u16| halves(&[8, 4, 12, 4, next_hop, length, 9, 1, 13, 1, 32, 2]);
    // Interfaces, VRFs, VLANs, ports, protocol, class, TCP flags, packets, bytes, first and last time, why it ended, who selected it.
    let rest = halves(&[
        10, 4, 14, 4, 234, 4, 235, 4, 58, 2, 245, 2, 59, 2, 255, 2, 7, 2, 11, 2, 4, 1, 5, 1, 6, 2, 2, 8, 1, 8, 152, 8,
        153, 8, 136, 1,
    ]);
    let six = halves(&[27, 16, 28, 16, 62, 16, 29, 1, 30, 1, 139, 2, 31, 4]);
    let templates = [
        halves(&[259, 24]),
        first(15, 4),
        rest.clone(),
        halves(&[260, 24]),
        first(62, 16),
        rest.clone(),
        halves(&[261, 25]),
        six,
        rest,
    ]
    .concat();
    let options = [
        // How packets are sampled, by selector; interfaces and VRFs by number, with names of any length.
        halves(&[256, 6, 1, 302, 8, 304, 2, 309, 4, 310, 4, 34, 4, 35, 1]),
        halves(&[257, 2, 1, 10, 4, 82, 0xffff]),
        halves(&[258, 2, 1, 234, 4, 236, 0xffff]),
    ]
    .concat();
    let set = |id: u16, content: Vec<u8>| [halves(&[id, content.len() as u16 + 4]), content].concat();
    let flow = [
        vec![10, 0, 0, 1, 192, 0, 2, 9, 198, 51, 100, 7, 24, 16, 0, 0],
        words(&[5, 7, 0, 2]),
        halves(&[100, 0, 200, 7, 1000, 443]),
        vec![6, 0x28, 0, 0x12],
        // Two packets of 200 bytes, from second 1 to second 3; somebody ended it.
        words(&[0, 2, 0, 400, 0, 1000, 0, 3000]),
        vec![4],
    ];
    let body = [
        set(2, templates),
        set(3, options),
        // Random one out of 1000.
        set(256, [words(&[0, 1]), halves(&[3]), words(&[1, 1000, 1000]), vec![2]].concat()),
        set(257, [words(&[5]), vec![3], b"lan".to_vec()].concat()),
        set(258, [words(&[0]), vec![7], b"default".to_vec()].concat()),
        set(259, flow.concat()),
    ]
    .concat();
    let header =
        |len: usize, sequence: u32| [halves(&[10, len as u16]), words(&[1_700_000_000, sequence, 77])].concat();
    assert_eq!(ipfix.take(1_700_000_000), [[header(body.len() + 16, 0), body].concat()]);
    // Four records of data went before the next message.
    ipfix.describe(&Names::default());
    assert_eq!(ipfix.take(1_700_000_001)[0][4..16], words(&[1_700_000_001, 4, 77]));
}
