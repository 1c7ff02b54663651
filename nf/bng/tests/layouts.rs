//! Gateways on several workers: every layout carries the same packets, loses none without a name, and keeps each subscriber's order and rate,
//! while subscribers come, change and go.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::collections::BTreeMap;

use common::*;
use serde_json::{Value, json};
use weir_wire::{MacAddr, ethernet, ipv4};

/// Workers and layouts.
const LAYOUTS: &[(&str, usize)] = &[
    ("run-to-completion", 1),
    ("distributor", 2),
    ("distributor", 4),
    ("pipeline", 2),
    ("pipeline", 3),
    ("pipeline", 5),
];

/// A configuration on so many workers.
fn arranged(mut config: Value, (layout, workers): (&str, usize)) -> Value {
    config["layout"] = json!(layout);
    config["workers"] = json!((0..workers).collect::<Vec<usize>>());
    config
}

/// Tunnels, or plain IP, with a next router that need not be asked for, and punts that nobody polices.
fn base(has_keys: bool) -> Value {
    let mut config = if has_keys { tunnels() } else { plain() };
    config["gateways"]["west"]["mac"] = json!(ROUTER_MAC.to_string());
    config["subscribers"] = json!([]);
    config["punt_rate"] = json!("100 Mpps");
    config["subscriber_punt_rate"] = json!("1 Mpps");
    config
}

/// A subscriber of the tests, by its number.
#[derive(Clone, Copy)]
struct Line(u32);

impl Line {
    fn tags(self) -> (u16, u16) {
        (1 + (self.0 / 4000) as u16, 1 + (self.0 % 4000) as u16)
    }

    /// One in seven has a key that is far from the others'.
    fn key(self) -> u32 {
        if self.0.is_multiple_of(7) { 0xf000_0000 + self.0 } else { self.0 }
    }

    fn address(self) -> String {
        format!("10.{}.{}.{}", 1 + self.0 / 40_000, self.0 / 200 % 200, 1 + self.0 % 200)
    }

    fn mac(self) -> MacAddr {
        MacAddr::from_bits(0x0200_0100_0000 | u64::from(self.0))
    }

    fn entry(self) -> Value {
        let (svlan, cvlan) = self.tags();
        json!({ "svlan": svlan, "cvlan": cvlan, "key": self.key(), "ipv4": [self.address()], "mac": self.mac().to_string() })
    }

    fn name(self) -> Value {
        let (svlan, cvlan) = self.tags();
        json!({ "svlan": svlan, "cvlan": cvlan })
    }

    /// A packet from it, of so many bytes of Ethernet, with a number.
    fn up(self, gateway: MacAddr, bytes: usize, number: u32) -> Vec<u8> {
        let (svlan, cvlan) = self.tags();
        let packet = numbered(&self.address(), "203.0.113.1", bytes - 22, number);
        let mut frame = tagged(gateway, self.mac(), cvlan, ethernet::IPV4, &packet);
        frame[14..16].copy_from_slice(&svlan.to_be_bytes());
        frame
    }

    /// A packet to it.
    fn down(self, rig: &Rig, has_keys: bool, bytes: usize, number: u32) -> Vec<u8> {
        let packet = numbered("203.0.113.1", &self.address(), bytes - 22, number);
        if has_keys { rig.tunneled(self.key(), &packet) } else { rig.untunneled(&packet) }
    }
}

/// An IPv4 packet whose identification and the last bytes of whose addresses tell it from all others.
fn numbered(source: &str, destination: &str, bytes: usize, number: u32) -> Vec<u8> {
    let mut packet = udp(source, destination, bytes.max(32));
    packet[28..32].copy_from_slice(&number.to_be_bytes());
    ipv4::write_checksum(&mut packet[..20]);
    packet
}

/// Tags and number of a packet to a customer.
fn delivered(frame: &[u8]) -> ((u16, u16), u32) {
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]) & 0xfff;
    ((word(14), word(18)), u32::from_be_bytes(frame[50..54].try_into().unwrap()))
}

/// The source and the number of a packet to the core.
fn forwarded(frame: &[u8], has_keys: bool) -> ([u8; 4], u32) {
    let at = if has_keys { 14 + 4 + 28 } else { 14 };
    (frame[at + 12..at + 16].try_into().unwrap(), u32::from_be_bytes(frame[at + 28..at + 32].try_into().unwrap()))
}

/// Whether numbers only rise for each.
fn in_order<K: Ord + Clone + std::fmt::Debug>(seen: impl Iterator<Item = (K, u32)>, last: &mut BTreeMap<K, u32>) {
    for (who, number) in seen {
        let before = last.insert(who.clone(), number);
        assert!(before.is_none_or(|before| before < number), "{who:?}: {number} came after {before:?}");
    }
}

/// All packets of subscribers that stay arrive, in order, whatever the others do; and the account is exact.
#[test]
fn every_layout_carries_the_same() {
    for has_keys in [true, false] {
        for &layout in LAYOUTS {
            let mut rig = Rig::new(TWO, arranged(base(has_keys), layout));
            let lines: Vec<Line> = (0..500).map(|n| Line(n * 37)).collect();
            rig.request("subscriber add", lines.iter().map(|line| line.entry()).collect()).unwrap();
            rig.settle();
            let gateway = rig.mac(CPE);
            let (mut up, mut down) = (BTreeMap::new(), BTreeMap::new());
            let (mut sent, mut arrived) = (0, [0; 2]);
            for number in 1..20 {
                for line in &lines {
                    let bytes = 60 + (number as usize * 61 + line.0 as usize) % 1400;
                    rig.send(CPE, line.up(gateway, bytes, number));
                    let frame = line.down(&rig, has_keys, bytes, number);
                    rig.send(CORE, frame);
                    sent += 1;
                }
                rig.settle();
                let core: Vec<Vec<u8>> = rig.sent(CORE).into_iter().filter(|frame| frame[12..14] != [8, 6]).collect();
                let cpe = rig.sent(CPE);
                arrived[0] += core.len();
                arrived[1] += cpe.len();
                in_order(core.iter().map(|frame| forwarded(frame, has_keys)), &mut up);
                in_order(cpe.iter().map(|frame| delivered(frame)), &mut down);
            }
            assert_eq!(arrived, [sent; 2], "{layout:?}, keys: {has_keys}: {:?}", rig.drops());
            assert_eq!((up.len(), down.len()), (lines.len(), lines.len()));
            rig.finish();
        }
    }
}

/// Ports for the longest frames there are.
const JUMBO: &[PortSpec] = &[PortSpec("cpe", &[], 9000), PortSpec("core", &["192.0.2.1/30"], 9000)];

/// With a scheduler each way.
fn shaped(mut config: Value, scheduler: Value) -> Value {
    config["qos"] = json!({ "up": scheduler, "down": scheduler, "usual": "usual" });
    config
}

/// 65,536 subscribers of whom one in 64 comes, changes and goes, a thousand changes a second, while frames of all sizes flow both ways: nothing is lost
/// without a name, and of those who stay nothing at all.
fn churn(layout: (&str, usize), is_shaped: bool, has_keys: bool) {
    const SUBSCRIBERS: u32 = 65_536;
    let mut config = arranged(base(has_keys), layout);
    if is_shaped {
        let profiles = json!({ "usual": { "tb_rate": "400 Mbit/s" }, "other": { "tb_rate": "300 Mbit/s" } });
        let scheduler =
            json!({ "rate": "1 Tbit/s", "users": SUBSCRIBERS, "buffers": 2048, "minimum": 0, "profiles": profiles });
        config = shaped(config, scheduler);
    }
    let mut rig = Rig::new(JUMBO, config);
    let all: Vec<Value> = (0..SUBSCRIBERS).map(|n| Line(n).entry()).collect();
    all.chunks(8192).for_each(|some| drop(rig.request("subscriber add", json!(some)).unwrap()));
    rig.settle();
    let comes_and_goes = |line: u32| line % 64 == 63;
    let gateway = rig.mac(CPE);
    let (mut number, mut dice) = (0, 12_345_u64);
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let (mut sent, mut staying, mut arrived) = (1, 0, [0; 2]);
    let (mut up, mut down) = (BTreeMap::new(), BTreeMap::new());
    for change in 0..600_u32 {
        let line = Line(64 * (change / 3 % (SUBSCRIBERS / 64)) + 63);
        match change % 3 {
            0 => {
                rig.request("subscriber set", merged(line.name(), json!({ "profile": "other", "user": roll(60_000) })))
            }
            1 => rig.request("subscriber del", json!([line.name()])),
            _ => rig.request("subscriber add", json!([line.entry()])),
        }
        .unwrap();
        for _ in 0..24 {
            number += 1;
            // A few send much more than the others.
            let line = Line(if roll(4) == 0 { roll(8) as u32 } else { roll(u64::from(SUBSCRIBERS)) as u32 });
            let bytes = if number % 40 == 0 { 1500 + roll(7400) } else { 60 + u64::from(number) % 1459 };
            rig.send(CPE, line.up(gateway, bytes as usize, number));
            let frame = line.down(&rig, has_keys, bytes as usize, number);
            rig.send(CORE, frame);
            sent += 2;
            staying += usize::from(!comes_and_goes(line.0));
        }
        rig.settle();
        let staying_line = |((svlan, cvlan), _): &((u16, u16), u32)| {
            !comes_and_goes(u32::from(svlan - 1) * 4000 + u32::from(cvlan - 1))
        };
        let cpe: Vec<_> = rig.sent(CPE).iter().map(|frame| delivered(frame)).filter(staying_line).collect();
        let core = rig.sent(CORE).into_iter().filter(|frame| frame[12..14] != [8, 6]);
        let stays = |(address, _): &([u8; 4], u32)| {
            let [_, b, c, d] = address.map(u32::from);
            !comes_and_goes((b - 1) * 40_000 + c * 200 + d - 1)
        };
        let core: Vec<_> = core.map(|frame| forwarded(&frame, has_keys)).filter(stays).collect();
        arrived[0] += core.len();
        arrived[1] += cpe.len();
        in_order(core.into_iter(), &mut up);
        in_order(cpe.into_iter(), &mut down);
        if change % 100 == 0 {
            rig.account();
        }
    }
    rig.run(100_000_000);
    let account = rig.account();
    let drops = rig.drops();
    let what = format!("{layout:?}, shaped: {is_shaped}, keys: {has_keys}: {drops:?}");
    assert_eq!(account.received, sent - 1, "{what}");
    assert_eq!(account.held, 0, "{what}");
    assert_eq!(arrived, [staying; 2], "{what}");
    rig.finish();
}

/// The keys of both.
fn merged(mut one: Value, other: Value) -> Value {
    one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    one
}

#[test]
fn churn_with_schedulers_loses_nothing_of_others() {
    for &layout in LAYOUTS {
        churn(layout, true, true);
    }
}

#[test]
fn churn_without_schedulers_loses_nothing_of_others() {
    for &layout in LAYOUTS.iter().chain(&[("run-to-completion", 3)]) {
        churn(layout, false, layout.1 % 2 == 0);
    }
}

/// Users whose rates are 95 % of the port's together, and who all offer twice as much: each gets its rate, no more and no less, in its order,
/// however the users are divided among schedulers.
#[test]
fn each_user_has_its_rate_in_every_layout() {
    const RATES: [u64; 20] = [1, 1, 2, 8, 1, 1, 1, 16, 1, 1, 3, 1, 1, 1, 5, 1, 1, 2, 1, 46];
    const TB_SIZE: u64 = 3_000;
    const BYTES: usize = 726;
    assert_eq!(RATES.iter().sum::<u64>(), 95);
    for &layout in LAYOUTS {
        let mut profiles = json!({ "usual": { "tb_rate": "1 Mbit/s" } });
        for rate in RATES {
            profiles[format!("r{rate}")] =
                json!({ "tb_rate": format!("{rate} Mbit/s"), "tb_size": format!("{TB_SIZE} B") });
        }
        let scheduler = json!({ "rate": "100 Mbit/s", "users": 32, "buffers": 2048, "profiles": profiles });
        let mut config = shaped(arranged(base(true), layout), scheduler);
        config["limits"] = json!({ "subscribers": 32 });
        let mut rig = Rig::new(TWO, config);
        let line = |user: usize| Line(user as u32 * 3 + 1);
        let entry = |(user, rate): (usize, &u64)| {
            merged(line(user).entry(), json!({ "user": user, "profile": format!("r{rate}") }))
        };
        rig.request("subscriber add", RATES.iter().enumerate().map(entry).collect()).unwrap();
        rig.settle();
        let gateway = rig.mac(CPE);
        let (mut up, mut down) = (BTreeMap::new(), BTreeMap::new());
        let (mut counted_up, mut counted_down) = (BTreeMap::new(), BTreeMap::new());
        let (mut start, mut last) = (rig.engine.now(), rig.engine.now());
        let mut number = 0;
        let mut owed = [0_u64; 20];
        for round in 0..460 {
            let now = rig.engine.now();
            let passed = now - std::mem::replace(&mut last, now);
            // From when on everybody has packets that wait.
            if round == 60 {
                (counted_up, counted_down, start) = (BTreeMap::new(), BTreeMap::new(), now);
            }
            for (user, rate) in RATES.iter().enumerate() {
                owed[user] += 2 * rate * passed / 8_000;
                while owed[user] >= (BYTES + 24) as u64 {
                    owed[user] -= (BYTES + 24) as u64;
                    number += 1;
                    rig.send(CPE, line(user).up(gateway, BYTES, number));
                    let frame = line(user).down(&rig, true, BYTES, number);
                    rig.send(CORE, frame);
                }
            }
            rig.settle();
            let core: Vec<_> = rig.sent(CORE).into_iter().filter(|frame| frame[12..14] != [8, 6]).collect();
            let core: Vec<_> = core.iter().map(|frame| forwarded(frame, true)).collect();
            let cpe: Vec<_> = rig.sent(CPE).iter().map(|frame| delivered(frame)).collect();
            core.iter().for_each(|(who, _)| *counted_up.entry(*who).or_insert(0_u64) += 1);
            cpe.iter().for_each(|(who, _)| *counted_down.entry(*who).or_insert(0_u64) += 1);
            in_order(core.into_iter(), &mut up);
            in_order(cpe.into_iter(), &mut down);
        }
        // All of them send twice what they may: each is held by its own rate, in both directions.
        for row in rig.show("subscribers") {
            assert_eq!(
                (&row["up_held_by"], &row["down_held_by"]),
                (&json!("rate"), &json!("rate")),
                "{layout:?}: {row}"
            );
            assert!(row["up_held_for"].as_f64() > Some(0.2) && row["down_held_for"].as_f64() > Some(0.2), "{row}");
            assert_eq!(row["shaped_off_by"]["queue-full"], row["shaped_off"]);
        }
        let nanos = rig.engine.now() - start;
        assert!((300_000_000..SECOND).contains(&nanos), "{nanos} ns");
        for (user, rate) in RATES.iter().enumerate() {
            let address: std::net::Ipv4Addr = line(user).address().parse().unwrap();
            let both = [counted_up[&address.octets()], counted_down[&line(user).tags()]];
            for packets in both {
                let (bytes, frame) = (packets * (BYTES + 24) as u64, (BYTES + 24) as u64);
                let at_rate = rate * nanos / 8_000;
                assert!(bytes <= TB_SIZE + at_rate, "{layout:?}, {rate} Mbit/s: {bytes} of {at_rate}");
                let least = at_rate.saturating_sub(TB_SIZE + frame);
                assert!(bytes >= least, "{layout:?}, {rate} Mbit/s: {bytes} of {at_rate}, {both:?}, {:?}", rig.drops());
            }
        }
        rig.run(SECOND);
        for row in rig.show("subscribers") {
            assert!(row["up_held_by"].is_null() && row["down_held_for"].is_null(), "{row}");
        }
        rig.finish();
    }
}

/// The slow path is one for all workers: hosts are learned and found, and what waited goes on, whichever worker it came from; counts of all workers
/// are summed.
#[test]
fn the_slow_path_serves_all_workers() {
    for (layout, is_shaped) in
        LAYOUTS.iter().flat_map(|layout| [(*layout, false), (*layout, true)]).chain([(("run-to-completion", 3), false)])
    {
        let mut config = arranged(tunnels(), layout);
        if is_shaped {
            let profiles = json!({ "usual": { "tb_rate": "100 Mbit/s" } });
            config = shaped(config, json!({ "rate": "1 Gbit/s", "users": 16, "buffers": 256, "profiles": profiles }));
            config["limits"] = json!({ "subscribers": 16 });
        }
        let mut rig = Rig::new(TWO, config);
        rig.settle();
        // The router is not known: what is for it waits.
        for (cvlan, source) in [(1, "10.0.0.77"), (2, "10.0.0.8"), (1, "10.0.0.78")] {
            let frame = rig.customer(cvlan, source, "203.0.113.1");
            rig.send(CPE, frame);
            rig.settle();
        }
        rig.router_answers();
        rig.run(50_000_000);
        let core = rig.sent(CORE);
        let tunneled = core.iter().filter(|frame| frame[12..14] == [0x88, 0x47]).count();
        assert_eq!(tunneled, 3, "{layout:?}, shaped: {is_shaped}: {:?}", rig.drops());
        // One that was learned, and one that is asked for while a packet waits for it.
        for (key, address) in [(7, "10.0.0.77"), (7, "10.0.0.7")] {
            let frame = rig.tunneled(key, &udp("203.0.113.1", address, 100));
            rig.send(CORE, frame);
        }
        rig.run(50_000_000);
        rig.arp_reply(1, "10.0.0.7", host(1));
        rig.arp_request(2, "10.0.0.8", "10.0.0.1");
        rig.run(50_000_000);
        let cpe = rig.sent(CPE);
        let delivered = cpe.iter().filter(|frame| frame[20..22] == [8, 0] && frame[..6] == host(1).0).count();
        assert_eq!(delivered, 2, "{layout:?}, shaped: {is_shaped}: {:?}", rig.drops());
        let answered = arps(&cpe).iter().filter(|(to, cvlan, _)| *to == host(2) && *cvlan == 2).count();
        assert_eq!(answered, 1, "{layout:?}, shaped: {is_shaped}");
        let rows = rig.show("subscribers");
        let of = |cvlan: u16| rows.iter().find(|row| row["cvlan"] == cvlan).unwrap();
        assert_eq!((&of(1)["up_packets"], &of(1)["down_packets"]), (&json!(2), &json!(2)), "{layout:?}");
        assert_eq!((&of(2)["up_packets"], &of(2)["down_packets"]), (&json!(1), &json!(0)), "{layout:?}");
        assert!(rig.drops().values().all(|count| *count == 0), "{layout:?}: {:?}", rig.drops());
        rig.finish();
    }
}
