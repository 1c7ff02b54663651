//! The packets that layers stand for: byte for byte from the standards, checksums by their definition.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::{checksum, frames, frames_of};
use serde_json::json;

/// Whether the checksums of an IPv4 packet of UDP or TCP are right, by the definition.
fn is_right(packet: &[u8]) -> bool {
    let header = usize::from(packet[0] & 15) * 4;
    let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let datagram = &packet[header..length];
    let pseudo = [&packet[12..20], &[0, packet[9]], &(datagram.len() as u16).to_be_bytes(), datagram].concat();
    checksum(&packet[..header]) == 0 && checksum(&pseudo) == 0
}

#[test]
fn the_usual_packet_is_udp_in_the_shortest_frame() {
    let frames = frames(
        &json!({ "port": "a", "layers": [
        { "ethernet": { "source": "02:00:00:00:00:01", "destination": "02:00:00:00:00:02" } },
        { "ipv4": { "source": "198.18.0.1", "destination": "198.19.0.1" } },
        { "udp": { "source": 49184, "destination": 9 } },
    ] }),
        70,
    );
    let expected = weir_wire::build::UdpFrame::default().to_vec(&[0; 18]);
    assert_eq!(expected.len(), 60);
    assert!(frames.iter().all(|frame| *frame == expected));
}

#[test]
fn fields_vary_and_checksums_follow() {
    for size in ["64", "65", "64-1518 random", "imix"] {
        let stream = json!({ "port": "a", "size": size, "layers": [
            { "ethernet": {} },
            { "ipv4": { "source": "10.0.0.0/8 random", "destination": ["192.0.2.0/24", "198.51.100.7"], "ttl": "2-255",
                        "dscp": "0-63", "identification": "random" } },
            { "udp": { "source": "random", "destination": "1-65535 step 7" } },
        ] });
        for signature in [false, true] {
            let mut stream = stream.clone();
            stream["signature"] = signature.into();
            let frames = frames(&stream, 1000);
            assert_eq!(frames.len(), 1000);
            for (n, frame) in frames.iter().enumerate() {
                let packet = &frame[14..];
                assert!(is_right(packet), "{size} {signature} {n}: {frame:02x?}");
                assert_ne!(packet[26..28], [0, 0], "a UDP checksum of zero means none");
                assert_eq!(usize::from(packet[8]), 2 + n % 254, "the TTL counts");
                assert_eq!(usize::from(packet[1] >> 2), n % 64, "so does the code point");
                assert_eq!(packet[12], 10);
                let port = usize::from(u16::from_be_bytes([packet[22], packet[23]]));
                assert_eq!(port, 1 + 7 * (n % 9363));
                let read = weir_measure::signature::read(frame);
                assert!(!signature || read.is_some_and(|read| read.intact && read.sequence == n as u64));
            }
            let last = |n: usize| frames[n][33];
            assert_eq!(
                (last(0), last(253), last(254), last(255)),
                (1, 254, 7, 1),
                "a prefix's hosts, then the next entry"
            );
        }
    }
}

#[test]
fn tags_and_labels() {
    let frames = frames(
        &json!({ "port": "a", "size": "70", "layers": [
        { "ethernet": {} },
        { "vlan": { "id": "100-101", "priority": 5 } },
        { "vlan": { "id": 4095, "drop_eligible": 1 } },
        { "mpls": { "label": "16-17", "class": 3 } },
        { "mpls": { "label": 1048575, "ttl": 9 } },
        { "ipv4": {} },
    ] }),
        2,
    );
    // 802.1ad outside, 802.1Q inside, MPLS without and with the bottom of the stack (RFC 3032), protocol 253 (RFC 3692).
    let expected = |n: u8| {
        [
            &[0x88, 0xa8, 0xa0, 100 + n, 0x81, 0x00, 0x1f, 0xff, 0x88, 0x47][..],
            &[0x00, 0x01, 0x06 | n << 4, 64],
            &[0xff, 0xff, 0xf1, 9],
            &[0x45, 0, 0, 36, 0, 0, 0, 0, 64, 253],
        ]
        .concat()
    };
    assert_eq!(frames[0][12..40], expected(0));
    assert_eq!(frames[1][12..40], expected(1));
    assert_eq!(checksum(&frames[0][30..50]), 0);
}

#[test]
fn arp_gre_vxlan_and_tunnels() {
    let arp = frames(
        &json!({ "port": "a", "layers": [
        { "ethernet": { "destination": "ff:ff:ff:ff:ff:ff" } },
        { "arp": { "sender_mac": "02:00:00:00:00:07", "sender": "192.0.2.7", "target": "192.0.2.1-192.0.2.9" } },
    ] }),
        2,
    );
    assert_eq!(
        arp[1][12..42],
        [8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 7, 192, 0, 2, 7, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2,]
    );
    let gre = frames(
        &json!({ "port": "a", "size": "90", "layers": [
        { "ethernet": {} }, { "ipv4": {} }, { "gre": { "key": "7-8" } }, { "ipv4": {} }, { "udp": { "source": "random" } },
    ] }),
        2,
    );
    assert_eq!(gre[1][23], 47);
    assert_eq!(gre[1][34..42], [0x20, 0, 8, 0, 0, 0, 0, 8]);
    assert!(is_right(&gre[1][42..]));
    assert_eq!(checksum(&gre[1][14..34]), 0);
    let vxlan = frames(
        &json!({ "port": "a", "size": "200", "layers": [
        { "ethernet": {} }, { "ipv4": {} }, { "udp": { "source": "49152-65535 random" } }, { "vxlan": { "vni": "random" } },
        { "ethernet": {} }, { "ipv6": { "source": "2001:db8::/64 random", "flow_label": "random" } },
        { "tcp": { "source": "random", "sequence": "random", "flags": 2 } },
    ] }),
        100,
    );
    for frame in &vxlan {
        assert_eq!((frame[23], &frame[36..38], &frame[40..42]), (17, &[0x12, 0xb5][..], &[0, 0][..]), "RFC 7348");
        assert_eq!(frame[42..46], [8, 0, 0, 0]);
        assert_eq!(checksum(&frame[14..34]), 0);
        let inner = &frame[64..];
        let segment = &inner[40..];
        assert_eq!(usize::from(u16::from_be_bytes([inner[4], inner[5]])), segment.len());
        let pseudo = [&inner[8..40], &[0, 0], &(segment.len() as u16).to_be_bytes(), &[0, 0, 0, 6], segment].concat();
        assert_eq!((inner[6], checksum(&pseudo)), (6, 0));
    }
    let softwire = frames(
        &json!({ "port": "a", "size": "100", "layers": [
        { "ethernet": {} }, { "ipv6": {} }, { "ipv4": {} }, { "icmp": { "sequence": "0-9" } },
    ] }),
        3,
    );
    let packet = &softwire[2][54..];
    assert_eq!((softwire[2][20], packet[9]), (4, 1));
    assert_eq!((checksum(&packet[..20]), checksum(&packet[20..])), (0, 0));
    assert_eq!(packet[20..28][6..], [0, 2]);
}

#[test]
fn icmpv6_has_a_pseudo_header() {
    let frames = frames(
        &json!({ "port": "a", "size": "70", "layers": [
        { "ethernet": {} }, { "ipv6": { "destination": "2001:db8::1-2001:db8::ff" } }, { "icmp": { "identifier": "random" } },
        { "raw": { "bytes": "de ad be ef" } },
    ] }),
        50,
    );
    for (n, frame) in frames.iter().enumerate() {
        let (ip, message) = (&frame[14..54], &frame[54..]);
        let pseudo = [&ip[8..], &(message.len() as u32).to_be_bytes(), &[0, 0, 0, 58], message].concat();
        assert_eq!((message[0], checksum(&pseudo)), (128, 0));
        assert_eq!(message[8..12], [0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(usize::from(ip[39]), 1 + n);
    }
}

#[test]
fn a_seed_gives_the_same_packets() {
    let config = |seed: u64| {
        json!({ "seed": seed, "streams": [
        { "port": "a", "size": "64-128 random", "rate": "1 Mpps", "gaps": "poisson", "signature": true,
          "layers": [{ "ethernet": {} }, { "ipv4": { "source": "random" } }, { "udp": {} }] },
        { "port": "a", "rate": "700 kpps" },
    ] })
    };
    assert_eq!(frames_of(&config(7), 2000), frames_of(&config(7), 2000));
    assert_ne!(frames_of(&config(7), 2000), frames_of(&config(8), 2000));
}

/// All bits of an IPv6 address vary: in a list, in a prefix shorter than 64 bits, and in a column of a table.
#[test]
fn addresses_of_ipv6_vary_in_all_their_bits() {
    let sources = ["2001:db8:1::1", "2001:db8:2:3::4", "fd00::5"];
    let layers = json!([
        { "ethernet": {} }, { "ipv6": { "source": sources, "destination": "2001:db8::/32 random" } }, { "udp": { "source": "random" } },
    ]);
    let frames = frames(&json!({ "port": "a", "size": "90", "layers": layers }), 300);
    let mut uppers = std::collections::BTreeSet::new();
    for (n, frame) in frames.iter().enumerate() {
        let ip = &frame[14..54];
        let source = std::net::Ipv6Addr::from_octets(ip[8..24].try_into().unwrap());
        assert_eq!(source.to_string(), sources[n % sources.len()]);
        assert_eq!(ip[24..28], [0x20, 1, 0xd, 0xb8]);
        uppers.insert(ip[28..32].to_vec());
        let datagram = &frame[54..];
        let pseudo = [&ip[8..40], &[0, 0], &(datagram.len() as u16).to_be_bytes(), &[0, 0, 0, 17], datagram].concat();
        assert_eq!(checksum(&pseudo), 0, "the checksum follows");
    }
    assert!(uppers.len() > 290, "only {} networks", uppers.len());
}

#[test]
fn a_column_of_addresses_is_taken_whole() {
    let path = std::env::temp_dir().join(format!("weir-gen-columns-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let rows = [("2001:db8:1::1", "10.0.0.1"), ("2001:db8:ffff::2", "10.0.0.2"), ("fd00::3", "10.0.0.3")];
    let lines: String = rows.iter().map(|(six, four)| format!("{six},{four}\n")).collect();
    std::fs::write(path.join("t.csv"), format!("ipv6.destination,ipv4.source\n{lines}")).unwrap();
    let layers = json!([
        { "ethernet": {} }, { "ipv6": { "destination": "column" } }, { "ipv4": { "source": "column" } }, { "udp": {} },
    ]);
    let config = json!({ "streams": [{ "port": "a", "size": "110", "table": "t.csv", "layers": layers }] });
    let frames = common::frames_in(&path, &config, 7);
    assert_eq!(frames.len(), 7);
    for (n, frame) in frames.iter().enumerate() {
        let destination = std::net::Ipv6Addr::from_octets(frame[38..54].try_into().unwrap());
        let source = std::net::Ipv4Addr::from_octets(frame[66..70].try_into().unwrap());
        let (six, four) = rows[n % rows.len()];
        assert_eq!((destination.to_string(), source.to_string()), (six.to_owned(), four.to_owned()));
    }
    std::fs::remove_dir_all(&path).unwrap();
}
