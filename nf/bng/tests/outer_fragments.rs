//! Outer packets in fragments: ours towards the core where something does not fit, and those that come from it. By RFC 791,
//! 6864, 7588, and 5722 for what overlaps.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::{CORE, CPE, Rig, SECOND, TWO, host, tagged, tunnels, udp};
use serde_json::{Value, json};
use weir_net::fragment::Fragments;
use weir_wire::{Ipv4, View, checksum, ethernet, ipv4};

/// Ethernet header and one label.
const HEAD: usize = 18;
/// Outer IPv4 and GRE.
const TUNNEL: usize = 28;

fn rig(change: impl Fn(&mut Value)) -> Rig {
    let mut config = tunnels();
    change(&mut config);
    let mut rig = Rig::new(TWO, config);
    rig.settle();
    rig.router_answers();
    rig.arp_request(1, "10.0.0.7", "10.0.0.1");
    rig.settle();
    rig.sent(CORE);
    rig.sent(CPE);
    rig
}

fn fragmenting(config: &mut Value) {
    config["tunnel"] = json!({ "fragment": true });
    config["gateways"]["west"]["mtu"] = json!(1000);
}

/// The packet that fragments in frames make, by RFC 791: identification, no DF, in order, without gaps; its header is the first's.
fn whole(frames: &[Vec<u8>]) -> (u16, Vec<u8>) {
    let mut packet = frames[0][HEAD..HEAD + 20].to_vec();
    let identification = Ipv4::view(&packet).unwrap().identification.get();
    for (n, frame) in frames.iter().enumerate() {
        assert_eq!(frame[..HEAD], frames[0][..HEAD]);
        let piece = &frame[HEAD..];
        assert!(piece.len() + 4 <= 1000 && checksum::is_valid(&piece[..20]));
        let ip = Ipv4::view(piece).unwrap();
        assert_eq!((ip.total_len(), ip.identification.get(), ip.dont_fragment()), (piece.len(), identification, false));
        assert_eq!((ip.fragment_offset(), ip.more_fragments()), (packet.len() - 20, n + 1 < frames.len()));
        packet.extend(&piece[20..]);
    }
    (identification, packet)
}

fn up(rig: &mut Rig, ethertype: u16, packet: &[u8]) -> Vec<Vec<u8>> {
    let frame = tagged(rig.mac(CPE), host(1), 1, ethertype, packet);
    rig.send(CPE, frame);
    rig.settle();
    rig.sent(CORE)
}

/// A packet that must not be fragmented itself.
fn whole_or_nothing(bytes: usize) -> Vec<u8> {
    let mut packet = udp("10.0.0.7", "203.0.113.1", bytes);
    packet[6] = 0x40;
    ipv4::write_checksum(&mut packet[..20]);
    packet
}

#[test]
fn what_does_not_fit_is_wrapped_whole_and_fragmented() {
    let mut rig = rig(fragmenting);
    let mut identifications = Vec::new();
    for mut packet in
        [whole_or_nothing(1000 - 4 - TUNNEL + 1), whole_or_nothing(1500), udp("10.0.0.7", "203.0.113.1", 1400)]
    {
        let (identification, outer) = whole(&up(&mut rig, ethernet::IPV4, &packet));
        identifications.push(identification);
        packet[8] -= 1;
        ipv4::write_checksum(&mut packet[..20]);
        assert_eq!(outer[TUNNEL..], packet, "one hop less, and nothing else");
        assert_eq!((outer[9], &outer[12..20]), (47, &[192, 0, 2, 1, 198, 51, 100, 9][..]));
        assert_eq!(outer[20..TUNNEL], [0x20, 0, 8, 0, 0, 0, 0, 7]);
    }
    identifications.dedup();
    assert_eq!(identifications.len(), 3, "each has an identification of its own");
    // What fits goes whole, with DF.
    let fits = up(&mut rig, ethernet::IPV4, &whole_or_nothing(1000 - 4 - TUNNEL));
    assert_eq!((fits.len(), fits[0][HEAD + 6] & 0x40), (1, 0x40));
    assert_eq!(rig.sent(CPE), Vec::<Vec<u8>>::new(), "nobody is told to send less");
    let rows = rig.show("subscribers");
    let bytes = 22 * 4 + (1000 - 4 - TUNNEL + 1) + 1500 + 1400 + (1000 - 4 - TUNNEL);
    assert_eq!((rows[0]["up_packets"].as_u64(), rows[0]["up_bytes"].as_u64()), (Some(4), Some(bytes as u64)));
    assert_eq!(rig.fates().get("fragmented"), Some(&3));
    rig.finish();
}

#[test]
fn ipv6_that_does_not_fit_is_wrapped_whole_too() {
    let mut rig = rig(|config| {
        fragmenting(config);
        config["addresses"] = json!(["10.0.0.1/16", "2001:db8::1/64"]);
        config["routes_ipv6"] = json!({ "2001:db8:ffff::/48": "west" });
        config["subscribers"][0]["ipv6"] = json!(["2001:db8:0:7::/64"]);
    });
    let (source, far) = ("2001:db8:0:7::9", "2001:db8:ffff::9");
    let mut packet = vec![0x6b, 0x80, 0, 0];
    packet.extend(1300_u16.to_be_bytes());
    packet.extend([17, 64]);
    packet.extend([source, far].map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().octets()).concat());
    packet.extend((0..1300).map(|n| n as u8));
    let (_, outer) = whole(&up(&mut rig, ethernet::IPV6, &packet));
    packet[7] -= 1;
    assert_eq!(outer[TUNNEL..], packet);
    assert_eq!((outer[1], &outer[20..24]), (0xb8, &[0x20, 0, 0x86, 0xdd][..]), "the customer's DSCP");
    assert_eq!(rig.sent(CPE), Vec::<Vec<u8>>::new());
    rig.finish();
}

#[test]
fn fewer_are_fragmented_than_identifications_come_round() {
    let mut rig = rig(|config| {
        fragmenting(config);
        config["punt_rate"] = json!("100 Mpps");
        config["subscriber_punt_rate"] = json!("1 Mpps");
    });
    let packet = whole_or_nothing(1200);
    for _ in 0..100 {
        for _ in 0..10 {
            let frame = tagged(rig.mac(CPE), host(1), 1, ethernet::IPV4, &packet);
            rig.send(CPE, frame);
        }
        rig.run(SECOND / 100);
    }
    let sent = rig.sent(CORE).len() as u64;
    let refused = rig.drops()["bng.control/no-identification"];
    // 545 in a second, 64 at once, two fragments each.
    assert!((2 * 600..=2 * 620).contains(&sent), "{sent}");
    assert_eq!(sent / 2 + refused, 1000);
    assert_eq!(rig.show("subscribers")[0]["drops"]["no-identification"], json!(refused));
    rig.finish();
}

/// A packet for the first subscriber in a tunnel, as frames with fragments of the outer packet, none longer than `mtu`.
fn pieces(rig: &Rig, identification: u16, bytes: usize, mtu: u16) -> Vec<Vec<u8>> {
    let mut frame = rig.tunneled(7, &udp("203.0.113.1", "10.0.0.7", bytes));
    let (head, outer) = frame.split_at_mut(HEAD);
    let ip = Ipv4::view_mut(outer).unwrap();
    ip.identification = identification.into();
    ip.set_fragment(false, false, 0);
    ipv4::write_checksum(outer);
    let fragments = Fragments::new(outer, mtu).unwrap();
    fragments.map(|fragment| [head, fragment.header(), fragment.payload()].concat()).collect()
}

fn arrives(rig: &mut Rig, bytes: usize) {
    let mut expected = udp("203.0.113.1", "10.0.0.7", bytes);
    expected[8] -= 1;
    ipv4::write_checksum(&mut expected[..20]);
    let sent = rig.sent(CPE);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][22..22 + bytes], expected);
}

#[test]
fn fragments_from_the_core_are_put_together_in_any_order() {
    let mut rig = rig(|_| {});
    for (n, order) in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].iter().enumerate() {
        let pieces = pieces(&rig, n as u16, 1300, 600);
        assert_eq!(pieces.len(), 3);
        for place in order {
            assert_eq!(rig.sent(CPE), Vec::<Vec<u8>>::new());
            rig.send(CORE, pieces[*place].clone());
            rig.settle();
        }
        arrives(&mut rig, 1300);
    }
    let fates = rig.fates();
    assert_eq!((fates["reassembled"], fates["whole"]), (18, 6));
    assert_eq!(rig.drops().values().sum::<u64>(), 0);
    rig.finish();
}

/// RFC 3168 section 5.3, and 6040 section 4.2 for the tunnel.
#[test]
fn congestion_of_one_fragment_is_that_of_the_packet() {
    let mut rig = rig(|_| {});
    let mut pieces = pieces(&rig, 1, 1300, 600);
    pieces[1][HEAD + 1] |= 3;
    ipv4::write_checksum(&mut pieces[1][HEAD..HEAD + 20]);
    for piece in pieces {
        rig.send(CORE, piece);
    }
    rig.settle();
    // The customer's packet does not know of congestion marks.
    assert_eq!(rig.drops().get("bng.down/congestion"), Some(&1));
    rig.finish();
}

#[test]
fn fragments_that_make_no_packet_are_dropped_by_name() {
    let mut rig = rig(|config| config["limits"] = json!({ "fragments": 8 }));
    let [first, second, third] = pieces(&rig, 1, 1300, 600).try_into().unwrap();
    // Twice the same; then one that overlaps, after which nothing of that packet is taken.
    rig.send(CORE, first.clone());
    rig.send(CORE, first);
    let mut overlapping = second.clone();
    Ipv4::view_mut(&mut overlapping[HEAD..]).unwrap().set_fragment(false, true, 64);
    ipv4::write_checksum(&mut overlapping[HEAD..HEAD + 20]);
    rig.send(CORE, overlapping);
    rig.send(CORE, second);
    rig.send(CORE, third);
    rig.settle();
    let drops = rig.drops();
    assert_eq!((drops["bng.control/outer-fragment-duplicate"], drops["bng.control/outer-fragment-overlap"]), (1, 4));
    // As many as there is room for, until their time is over.
    for identification in 10..20 {
        let piece = pieces(&rig, identification, 1300, 600).swap_remove(1);
        rig.send(CORE, piece);
    }
    rig.settle();
    assert_eq!(rig.account().held, 7, "the packet that was given up takes the place of one");
    assert_eq!(rig.drops()["bng.control/outer-fragment-queue-full"], 3);
    rig.run(61 * SECOND);
    assert_eq!(rig.drops()["bng.control/outer-fragment-timeout"], 7);
    assert_eq!(rig.account().held, 0);
    for piece in pieces(&rig, 1, 1300, 600) {
        rig.send(CORE, piece);
    }
    rig.settle();
    arrives(&mut rig, 1300);
    rig.finish();
}

#[test]
fn none_are_put_together_where_none_may_wait() {
    let mut rig = rig(|config| config["limits"] = json!({ "fragments": 0 }));
    for piece in pieces(&rig, 1, 1300, 600) {
        rig.send(CORE, piece);
    }
    rig.settle();
    assert_eq!(rig.drops(), [("bng.control/outer-fragment-queue-full".to_owned(), 3)].into());
    rig.finish();
}
