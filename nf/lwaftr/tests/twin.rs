//! The fast path against the border that decides packet by packet: a relay whose packets have to match a capture expression has no fast path, and
//! must send the same, byte by byte, count the same, and drop the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{ACCESS, AFTR, INTERNET, MACS, ROUTERS, Rig, four, six, udp, usual};
use proptest::prelude::*;
use serde_json::json;

/// A packet of a test, from the Internet or from a customer.
#[derive(Clone, Debug)]
struct Sent {
    port: usize,
    packet: Vec<u8>,
    /// Bytes behind it, as short frames have them.
    padding: usize,
}

const HOSTS: [&str; 5] = ["203.0.113.1", "203.0.113.9", "203.0.113.7", "198.51.100.3", "192.0.2.1"];
const B4S: [&str; 4] = ["2001:db8:c::1", "2001:db8:c::2", "2001:db8:c::9", "2001:db8:c::77"];
const AFTRS: [&str; 3] = [AFTR, "2001:db8:a::2", "2001:db8:a::3"];
const PORTS: [u16; 6] = [0, 4096, 5000, 8191, 8192, 60_000];

prop_compose! {
    fn inner(from_customer: bool)(
        shared in prop::sample::select(&HOSTS[..]),
        other in prop::sample::select(&HOSTS[..]),
        shared_port in prop::sample::select(&PORTS[..]),
        other_port in any::<u16>(),
        protocol in prop::sample::select(&[17_u8, 17, 17, 6, 6, 1, 47][..]),
        ttl in prop::sample::select(&[64_u8, 64, 64, 2, 1, 0][..]),
        tos in any::<u8>(),
        length in prop::sample::select(&[0_usize, 18, 30, 1000, 1440, 1472][..]),
        flags in prop::sample::select(&[0_u8, 0, 0x40, 0x40, 0x20][..]),
        damage in prop::option::weighted(0.1, 0_usize..28),
    ) -> Vec<u8> {
        let (ends, ports) = match from_customer {
            true => ([shared, other], [shared_port, other_port]),
            false => ([other, shared], [other_port, shared_port]),
        };
        let mut payload = udp(ports[0], ports[1], length.max(16));
        if protocol == 6 {
            (payload[12], payload[13]) = (0x50, 0x10);
        }
        let mut packet = four(ends[0], ends[1], protocol, ttl, &payload);
        (packet[1], packet[6]) = (tos, flags);
        weir_wire::ipv4::write_checksum(&mut packet);
        if let Some(byte) = damage.and_then(|at| packet.get_mut(at)) {
            *byte ^= 0x10;
        }
        packet
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    let padding = prop::sample::select(&[0_usize, 0, 6, 46][..]);
    let internet =
        (inner(false), padding.clone()).prop_map(|(packet, padding)| Sent { port: INTERNET, packet, padding });
    let b4 = prop::sample::select(&B4S[..]);
    let aftr = prop::sample::select(&AFTRS[..]);
    let class = any::<u8>();
    let customer = (inner(true), b4, aftr, class, padding).prop_map(|(inner, b4, aftr, class, padding)| {
        let mut packet = six(b4, aftr, 4, 64, &inner);
        (packet[0], packet[1]) = (0x60 | class >> 4, class << 4);
        Sent { port: ACCESS, packet, padding }
    });
    prop_oneof![internet, customer]
}

fn rig(is_fast: bool) -> Rig {
    let mut config = usual();
    if !is_fast {
        config["ipv4"] = json!({ "ingress_filter": "ip" });
    }
    Rig::new(config)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn the_fast_path_does_what_the_border_says(all in prop::collection::vec(sent(), 1..200)) {
        let mut rigs = [rig(true), rig(false)];
        let results = rigs.each_mut().map(|rig| {
            for one in &all {
                let ethertype = if one.port == ACCESS { [0x86, 0xdd] } else { [8, 0] };
                let mut frame = [&MACS[one.port][..], &ROUTERS[one.port], &ethertype, &one.packet].concat();
                frame.extend(vec![0xee; one.padding]);
                rig.handles[one.port].send(frame);
            }
            rig.settle();
            // In one batch, packets that go the fast way overtake others: those of a flow keep their order.
            let sent = [0, 1].map(|port| {
                let mut frames = rig.handles[port].received();
                frames.iter_mut().for_each(|frame| {
                    // Fragments of packets that were cut have random identifications.
                    if frame[12..14] == [0x86, 0xdd] && frame[20] == 44 {
                        frame[58..62].fill(0);
                    }
                });
                frames.sort();
                frames
            });
            (sent, rig.counts(), rig.drops(), rig.show("softwires", None))
        });
        prop_assert_eq!(&results[0], &results[1]);
        for rig in rigs {
            rig.finish();
        }
    }
}

/// The usual packets, byte by byte.
#[test]
fn usual_packets_pass_either_way() {
    for is_fast in [true, false] {
        let mut rig = rig(is_fast);
        let down: Vec<Vec<u8>> =
            (0..100).map(|_| four("198.51.100.3", "203.0.113.1", 17, 64, &udp(53, 5000, 30))).collect();
        let up: Vec<Vec<u8>> = (0..100)
            .map(|_| {
                six("2001:db8:c::1", AFTR, 4, 64, &four("203.0.113.1", "198.51.100.3", 17, 64, &udp(5000, 53, 30)))
            })
            .collect();
        let [none, wrapped] = rig.pass(INTERNET, &down);
        assert_eq!((none.len(), wrapped.len()), (0, 100));
        let expected =
            six(AFTR, "2001:db8:c::1", 4, 255, &four("198.51.100.3", "203.0.113.1", 17, 63, &udp(53, 5000, 30)));
        assert!(wrapped.iter().all(|frame| frame[14..] == expected), "{is_fast}");
        assert!(wrapped.iter().all(|frame| frame[..12] == [ROUTERS[1], MACS[1]].concat()));
        let [plain, none] = rig.pass(ACCESS, &up);
        assert_eq!((plain.len(), none.len()), (100, 0));
        let expected = four("203.0.113.1", "198.51.100.3", 17, 64, &udp(5000, 53, 30));
        assert!(plain.iter().all(|frame| frame[14..] == expected), "{is_fast}");
        let rows = rig.show("softwires", Some("203.0.113.1:5000"));
        assert_eq!((rows.len(), &rows[0]["psid"]), (1, &json!(1)));
        assert_eq!([&rows[0]["up_packets"], &rows[0]["down_packets"]], [&json!(100), &json!(100)]);
        assert_eq!([&rows[0]["up_bytes"], &rows[0]["down_bytes"]], [&json!(5800), &json!(5800)]);
        rig.finish();
    }
}
