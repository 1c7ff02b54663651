//! Sequence numbers, and when flows end.

use std::net::IpAddr;

use weir_flows::{Cache, DATAGRAM, EndReason, Ipfix, Limits, Names, Sflow};
use weir_stage::{Random, Sample};

use crate::{hop, icmp6, sample, tcp4, tunnelled};

/// Every record of data counts, those of options too, and those of templates do not (RFC 7011 section 3.1); no datagram is too long.
#[test]
fn sequence_numbers_count_records_over_messages() {
    let mut ipfix = Ipfix::new(1, 10);
    ipfix.describe(&Names { interfaces: (0..100).map(|n| (n, format!("interface-{n}"))).collect(), vrfs: Vec::new() });
    let mut cache = Cache::new(Limits { flows: 0, active: 1, inactive: 1 });
    for _ in 0..50 {
        let flow = cache.add(&sample(&tcp4(0), 0x0800, 218, hop(None)), 5).unwrap();
        assert_eq!(flow.reason, EndReason::NoRoom);
        ipfix.flow(&flow);
    }
    let messages = ipfix.take(9);
    assert!(messages.len() > 2 && messages.iter().all(|message| message.len() <= DATAGRAM));
    // By the definition: records of sets from 256 on, whose lengths are known or said.
    let mut expected = 0;
    for message in &messages {
        let word = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
        let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        assert_eq!((word(0), usize::from(word(2)), long(4), long(8), long(12)), (10, message.len(), 9, expected, 1));
        let mut at = 16;
        while at < message.len() {
            let (set, end) = (word(at), at + usize::from(word(at + 2)));
            at += 4;
            while set >= 256 && at < end {
                at += match set {
                    256 => 23,
                    257 | 258 => 5 + usize::from(message[at + 4]),
                    _ => 4 + 4 + 4 + 1 + 1 + 2 + 16 + 12 + 2 + 2 + 32 + 1,
                };
                expected += 1;
            }
            at = end;
        }
        assert_eq!(at, message.len());
    }
    assert_eq!(expected, 1 + 100 + 50);
}

#[test]
fn a_flow_that_goes_on_is_told_of() {
    let mut cache = Cache::new(Limits { flows: 1, active: 1000, inactive: 500 });
    let one = sample(&tcp4(0), 0x0800, 218, hop(None));
    for time in (0..1000).step_by(100) {
        assert!(cache.add(&one, time).is_none() && cache.expire(time).is_empty());
    }
    let ended = cache.expire(1000);
    assert_eq!((ended.len(), ended[0].packets, ended[0].reason), (1, 10, EndReason::Active));
    cache.add(&one, 1100);
    assert_eq!(cache.end()[0].reason, EndReason::Forced);
}

/// Fragments but the first have no ports; a header that says more than there is is not believed.
#[test]
fn what_headers_say_is_not_believed_beyond_the_frame() {
    let mut packet = tcp4(0);
    packet[6..8].copy_from_slice(&[0, 9]);
    packet[2..4].copy_from_slice(&[0xff, 0xff]);
    let mut cache = Cache::new(Limits { flows: 0, active: 1, inactive: 1 });
    let flow = cache.add(&sample(&packet, 0x0800, 218, hop(None)), 1).unwrap();
    assert_eq!((flow.key.ports, flow.flags, flow.bytes), ([0, 0], 0, 200));
    assert_eq!(flow.key.addresses[0], IpAddr::from([10, 0, 0, 1]));
}

/// What was in a tunnel has the bytes and the flow of its own, and that of the customer whose tags it had.
#[test]
fn a_packet_that_was_in_a_tunnel_is_of_its_own_flow() {
    let mut cache = Cache::new(Limits { flows: 8, active: 1, inactive: 1 });
    assert_eq!(cache.add(&tunnelled(&tcp4(0x02), hop(None)), 1), None);
    assert_eq!(cache.add(&tunnelled(&icmp6(), hop(None)), 1), None);
    let other = Sample { vlans: [100, 8], ..tunnelled(&tcp4(0x02), hop(None)) };
    assert_eq!(cache.add(&other, 1), None);
    let mut ended = cache.end();
    ended.sort_by_key(|flow| (flow.key.addresses, flow.key.vlans));
    let told = ended.iter().map(|flow| (flow.key.vlans[1], flow.key.ports, flow.key.protocol, flow.bytes, flow.flags));
    let (tcp, icmp) = ([1000, 443], [0, 0]);
    assert_eq!(told.collect::<Vec<_>>(), [(8, tcp, 6, 200, 2), (9, tcp, 6, 200, 2), (9, icmp, 58, 56, 0)]);
}

/// Of a function that was built anew: what it counts begins again, and goes on for collectors.
#[test]
fn pools_and_losses_never_fall_for_collectors() {
    let mut sflow = Sflow::new("192.0.2.1".parse().unwrap(), 1, 10);
    let one = sample(&tcp4(0), 0x0800, 218, hop(None));
    let mut told = Vec::new();
    for (pool, lost) in [(100, 1), (150, 1), (20, 0), (30, 2)] {
        sflow.sample(&Sample { pool, lost, ..one });
        let datagram = sflow.take(0).remove(0);
        // Behind the header of 28 bytes, a kind and a length, a number, a source and a rate.
        told.push([48, 52].map(|at| u32::from_be_bytes(*datagram[at..].first_chunk().unwrap())));
    }
    assert_eq!(told, [[100, 1], [150, 1], [170, 1], [180, 3]]);
}

/// Whatever bytes came, of whatever length: flows are bounded, no flow has more bytes than came, and both protocols stay within their datagrams.
#[test]
fn any_bytes_are_told() {
    let mut random = Random::new(11);
    let mut cache = Cache::new(Limits { flows: 64, active: 1000, inactive: 500 });
    let (mut ipfix, mut sflow) = (Ipfix::new(1, 1), Sflow::new("192.0.2.1".parse().unwrap(), 1, 1));
    for n in 0..20_000 {
        let mut one = sample(&tcp4(0), [0x0800, 0x86dd, 0x0806][random.position(3)], 0, hop(None));
        one.len = random.below(200) as u32;
        (0..random.below(12)).for_each(|_| one.head[18 + random.position(110)] = random.next() as u8);
        let flow = cache.add(&one, n / 20);
        let ended: Vec<_> = flow.into_iter().chain(cache.expire(n / 20)).collect();
        assert!(cache.load().0 <= 64);
        assert!(ended.iter().all(|flow| flow.bytes <= flow.packets * 200 && flow.packets > 0), "{ended:?}");
        ended.iter().for_each(|flow| ipfix.flow(flow));
        sflow.sample(&one);
    }
    let (messages, datagrams) = (ipfix.take(0), sflow.take(0));
    assert!(messages.len() > 100 && messages.iter().chain(&datagrams).all(|one| one.len() <= DATAGRAM));
}
