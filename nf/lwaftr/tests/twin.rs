//! The relay against slower ones that do the same. The fast path against the border that decides packet by packet: a relay without a fast path must
//! send the same, byte by byte, count the same, and drop the same. And several workers against one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use std::collections::BTreeMap;

use common::{ACCESS, AFTR, INTERNET, MACS, ROUTERS, Rig, SECOND, four, framed, six, two, udp, usual};
use proptest::prelude::*;
use serde_json::{Value, json};

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
            // One that asks for segments of 1,460 bytes.
            if tos & 1 == 0 && payload.len() >= 24 {
                payload[12..24].copy_from_slice(&[0x60, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4]);
            }
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
    of(usual(), is_fast)
}

/// A relay of a configuration.
fn of(config: Value, is_fast: bool) -> Rig {
    if is_fast { Rig::new(config) } else { Rig::by_the_letter(config) }
}

/// Configurations whose packets are looked at more closely.
fn closer() -> impl Strategy<Value = Value> {
    let with = |keys: Value| {
        let mut config = usual();
        config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        config
    };
    let filter = |text: &str| json!({ "ingress_filter": text });
    let leaving = |text: &str| json!({ "egress_filter": text });
    prop_oneof![
        // The lengths of what leaves, and what is read of it behind no addresses of stations.
        Just(with(json!({ "ipv4": leaving("udp and ether src 00:00:00:00:00:00") }))),
        Just(with(json!({ "ipv6": leaving("ip6 dst 2001:db8:c::1 or len > 1000") }))),
        Just(with(json!({ "ipv4": leaving("len < 100"), "ipv6": leaving("not ip6 dst 2001:db8:c::2"), "mss": 536 }))),
        Just(with(json!({ "mss": 1200 }))),
        Just(with(json!({ "ipv4": filter("udp"), "ipv6": filter("len < 200") }))),
        Just(with(json!({ "ipv6": filter("ip6 src 2001:db8:c::1"), "mss": 536 }))),
        Just(with(json!({ "hairpinning": false }))),
        // All addresses are divided alike.
        Just(with(json!({ "softwires": [
            { "ipv4": "203.0.113.1", "psid": 1, "psid_length": 4, "b4": "2001:db8:c::1" },
            { "ipv4": "203.0.113.1", "psid": 2, "psid_length": 4, "b4": "2001:db8:c::2", "aftr": "2001:db8:a::2" },
            { "ipv4": "203.0.113.7", "psid": 1, "psid_length": 4, "b4": "2001:db8:c::9" },
        ] }))),
    ]
}

/// All that a relay did: frames of each port, sorted; what it counted; its drops by reason; its softwires.
type Outcome = ([Vec<Vec<u8>>; 2], BTreeMap<String, u64>, BTreeMap<String, u64>, Vec<Value>);

/// What a relay makes of packets, and of those that wait for others until their time is over.
fn outcome(rig: &mut Rig, all: &[Sent]) -> Outcome {
    for one in all {
        let ethertype = if one.port == ACCESS { [0x86, 0xdd] } else { [8, 0] };
        let mut frame = [&MACS[one.port][..], &ROUTERS[one.port], &ethertype, &one.packet].concat();
        frame.extend(vec![0xee; one.padding]);
        rig.handles[one.port].send(frame);
    }
    rig.settle();
    rig.run(61 * SECOND);
    // In one batch, packets that go the fast way overtake others: those of a flow keep their order.
    let sent = [0, 1].map(|port| {
        let mut frames = rig.handles[port].received();
        frames.iter_mut().for_each(|frame| {
            // Fragments of packets that were cut have random identifications.
            if frame[12..14] == [0x86, 0xdd] && frame[20] == 44 {
                frame[58..62].fill(0);
            }
            // The router's own errors are numbered in the order of the slow path.
            if frame[12..14] == [8, 0] && frame[26..30] == [192, 0, 2, 1] {
                frame[18..20].fill(0);
                frame[24..26].fill(0);
            }
        });
        frames.sort();
        frames
    });
    let mut drops = BTreeMap::new();
    for (name, count) in rig.drops() {
        *drops.entry(name.rsplit('/').next().unwrap_or_default().to_owned()).or_default() += count;
    }
    (sent, rig.counts(), drops, rig.show("softwires", None))
}

/// Packets as in [`sent`], some of them in pieces in any order, some of which are missing or come twice.
fn pieces() -> impl Strategy<Value = Vec<Sent>> {
    let cuts = prop::collection::vec(1_usize..12, 0..4);
    let order = prop::collection::vec(any::<prop::sample::Index>(), 4);
    (sent(), cuts, order, any::<bool>(), any::<u8>()).prop_map(|(one, cuts, order, is_outer, id)| {
        let mut all = match one.port {
            INTERNET => four_in_pieces(&one.packet, &cuts, id),
            _ if is_outer => six_in_pieces(&one.packet, &cuts, id),
            _ => {
                let around = |piece: Vec<u8>| {
                    [&one.packet[..4], &(piece.len() as u16).to_be_bytes(), &one.packet[6..40], &piece].concat()
                };
                four_in_pieces(&one.packet[40..], &cuts, id).into_iter().map(around).collect()
            }
        };
        for (n, index) in order.iter().enumerate().take(all.len()) {
            let other = index.index(all.len());
            // Now and then one takes the place of another.
            if id % 8 == 0 { all[n] = all[other].clone() } else { all.swap(n, other) }
        }
        all.into_iter().map(|packet| Sent { packet, ..one.clone() }).collect()
    })
}

/// Where the payload of a packet is cut, in bytes, from cuts in units of fragments.
fn parts(payload: usize, cuts: &[usize]) -> Vec<(usize, usize)> {
    let mut ends: Vec<usize> = cuts
        .iter()
        .scan(0, |at, cut| {
            *at += cut * 8;
            Some(*at)
        })
        .filter(|at| *at < payload)
        .collect();
    ends.push(payload);
    let starts = [0].into_iter().chain(ends.clone());
    starts.zip(ends).collect()
}

fn four_in_pieces(packet: &[u8], cuts: &[usize], id: u8) -> Vec<Vec<u8>> {
    // One that is damaged, or a fragment already, stays as it is.
    if cuts.is_empty() || weir_wire::validity::check_slice(packet).is_err() || packet[6] & 0x20 != 0 {
        return vec![packet.to_vec()];
    }
    let all = parts(packet.len() - 20, cuts);
    let last = all.len() - 1;
    let piece = |(n, (start, end)): (usize, (usize, usize))| {
        let mut piece = [&packet[..20], &packet[20 + start..20 + end]].concat();
        let (total, field) = ((20 + end - start) as u16, (start / 8) as u16 | u16::from(n < last) << 13);
        piece[2..4].copy_from_slice(&total.to_be_bytes());
        piece[5] = id;
        piece[6..8].copy_from_slice(&field.to_be_bytes());
        weir_wire::ipv4::write_checksum(&mut piece);
        piece
    };
    all.into_iter().enumerate().map(piece).collect()
}

fn six_in_pieces(packet: &[u8], cuts: &[usize], id: u8) -> Vec<Vec<u8>> {
    if cuts.is_empty() {
        return vec![packet.to_vec()];
    }
    let all = parts(packet.len() - 40, cuts);
    let last = all.len() - 1;
    let piece = |(n, (start, end)): (usize, (usize, usize))| {
        let field = start as u16 | u16::from(n < last);
        let head = [&[packet[6], 0][..], &field.to_be_bytes(), &[0, 0, 0, id]].concat();
        let mut piece = [&packet[..40], &head, &packet[40 + start..40 + end]].concat();
        let length = (8 + end - start) as u16;
        piece[4..6].copy_from_slice(&length.to_be_bytes());
        piece[6] = 44;
        piece
    };
    all.into_iter().enumerate().map(piece).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    #[test]
    fn the_fast_path_does_what_the_border_says(all in prop::collection::vec(sent(), 1..200)) {
        let mut rigs = [rig(true), rig(false)];
        let [fast, slow] = rigs.each_mut().map(|rig| outcome(rig, &all));
        prop_assert_eq!(fast, slow);
        for rig in rigs {
            rig.finish();
        }
    }

    #[test]
    fn the_fast_path_does_so_whatever_is_configured(
        all in prop::collection::vec(sent(), 1..150),
        config in closer(),
    ) {
        let mut rigs = [of(config.clone(), true), of(config, false)];
        let [fast, slow] = rigs.each_mut().map(|rig| outcome(rig, &all));
        prop_assert_eq!(fast, slow);
        for rig in rigs {
            rig.finish();
        }
    }

    #[test]
    fn several_workers_do_what_one_does(all in prop::collection::vec(pieces(), 1..150), workers in 2_u8..6) {
        let all: Vec<Sent> = all.into_iter().flatten().collect();
        // Each worker has a share for the slow path of its own: here all of them have enough.
        let mut config = usual();
        config["punt_rate"] = json!("1 Mpps");
        let mut rigs = [Rig::new(config.clone()), Rig::on(workers, &two(), Vec::new(), config)];
        let [one, several] = rigs.each_mut().map(|rig| outcome(rig, &all));
        prop_assert_eq!(one, several);
        for rig in rigs {
            rig.finish();
        }
    }
}

/// Packets of each softwire keep their order, whichever way they go, and all workers have some.
#[test]
fn softwires_keep_their_order_on_several_workers() {
    const WORKERS: u8 = 4;
    let mut config = usual();
    let part = |psid: u16| json!({ "ipv4": "203.0.113.1", "psid": psid, "psid_length": 4, "b4": b4_of(psid) });
    config["softwires"] = (0..16).map(part).collect();
    let mut rig = Rig::on(WORKERS, &two(), Vec::new(), config);
    let number = |n: u32| n.to_be_bytes();
    let datagram = |from: u16, to: u16, n: u32| {
        let mut datagram = udp(from, to, 30);
        datagram[8..12].copy_from_slice(&number(n));
        datagram
    };
    for n in 0..4000_u32 {
        let psid = (n * 7 % 16) as u16;
        let port = psid << 12 | (n % 4096) as u16;
        let down = four("198.51.100.3", "203.0.113.1", 17, 64, &datagram(53, port, n));
        let inside = four("203.0.113.1", "198.51.100.3", 17, 64, &datagram(port, 53, n));
        rig.handles[INTERNET].send(framed(INTERNET, &down));
        rig.handles[ACCESS].send(framed(ACCESS, &six(&b4_of(psid), AFTR, 4, 64, &inside)));
    }
    rig.settle();
    let word = |frame: &[u8], at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    // By the port of the customer, behind the headers of the link, of the tunnel, and of IPv4.
    for (side, at, port_at) in [(INTERNET, 42, 34), (ACCESS, 82, 76)] {
        let frames = rig.handles[side].received();
        assert_eq!(frames.len(), 4000);
        for psid in 0..16 {
            let of: Vec<u32> =
                frames.iter().filter(|frame| frame[port_at] >> 4 == psid).map(|frame| word(frame, at)).collect();
            assert!(of.len() == 250 && of.is_sorted(), "{side} {psid}: {of:?}");
        }
    }
    let relayed = |worker: usize| rig.engine.snapshot()[worker].stages.first().map_or(0, |stage| stage.packets);
    let each: Vec<u64> = (1..=usize::from(WORKERS)).map(relayed).collect();
    assert!(each.iter().sum::<u64>() == 8000 && each.iter().all(|packets| *packets > 0), "{each:?}");
    rig.finish();
}

fn b4_of(psid: u16) -> String {
    format!("2001:db8:c::{psid:x}")
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
