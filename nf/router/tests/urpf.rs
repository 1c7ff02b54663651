//! Unicast reverse path forwarding (RFC 3704): which sources pass, against a twin that goes through a list of routes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use common::acl_twin::{Dice, four, is_in, prefix, six};
use common::six::udp6;
use common::*;
use serde_json::{Value, json};

const PORTS: &[PortSpec] = &[
    PortSpec("lan", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500),
    PortSpec("wan", &["10.0.1.1/24", "2001:db8:1::1/64"], 1500),
    PortSpec("up", &["10.0.2.1/24", "2001:db8:2::1/64"], 1500),
];

/// What leads to whom packets are for, in the default VRF, whatever else its table says.
const BEYOND: [(&str, &str); 2] = [("203.0.113.9", "10.0.2.9"), ("2001:db8:ffff::9", "2001:db8:2::9")];

/// A route at random, and the ports by which it leads out. The neighbours on `lan` are known, those on `wan` are not.
fn random_via(dice: &mut Dice, is_six: bool) -> (Value, Vec<usize>) {
    let [lan, wan] = if is_six { ["2001:db8:0::9", "2001:db8:1::9"] } else { ["10.0.0.9", "10.0.1.9"] };
    let [lan, wan] = [format!("{lan}%lan"), format!("{wan}%wan")];
    match dice.below(6) {
        0 | 1 => (json!(lan), vec![0]),
        2 => (json!(wan), vec![1]),
        3 => (json!([lan, wan]), vec![0, 1]),
        4 => (json!(dice.one_of(&["blackhole", "unreachable", "prohibit"])), Vec::new()),
        _ => (json!("%wan"), vec![1]),
    }
}

/// Routes at random to the networks that packets are from, and where they lead.
fn random_routes(dice: &mut Dice) -> (Value, BTreeMap<String, Vec<usize>>) {
    let (mut stated, mut known) = (json!({}), BTreeMap::new());
    for n in 0..24 {
        let net = prefix(dice, n % 2 == 0, 0);
        let (via, ports) = random_via(dice, n % 2 == 0);
        stated[&net] = via;
        known.insert(net, ports);
    }
    (stated, known)
}

/// The networks of the ports, whose own addresses and broadcasts lead nowhere.
fn connected() -> BTreeMap<String, Vec<usize>> {
    let mut all = BTreeMap::new();
    for n in 0..3 {
        all.insert(format!("10.0.{n}.0/24"), vec![n]);
        all.insert(format!("2001:db8:{n}::/64"), vec![n]);
        for own in [format!("10.0.{n}.1/32"), format!("10.0.{n}.0/32"), format!("10.0.{n}.255/32")] {
            all.insert(own, Vec::new());
        }
        all.insert(format!("2001:db8:{n}::1/128"), Vec::new());
    }
    all
}

/// The ports by which the longest of some routes to an address leads out; `None` without any.
fn longest(routes: &BTreeMap<String, Vec<usize>>, source: IpAddr) -> Option<&Vec<usize>> {
    let (bits, is_six) = match source {
        IpAddr::V4(source) => (u128::from(source.to_bits()), false),
        IpAddr::V6(source) => (source.to_bits(), true),
    };
    let length = |net: &str| net.split_once('/').unwrap().1.parse::<u32>().unwrap();
    let covering = routes.iter().filter(|(net, _)| is_in(net, bits, is_six));
    covering.max_by_key(|(net, _)| length(net)).map(|(_, ports)| ports)
}

/// A source at random: of a routed network, of a connected one, or one that counts on a link only, which always passes.
fn random_source(dice: &mut Dice) -> (IpAddr, bool) {
    let text = match dice.below(12) {
        0 => dice.one_of(&["10.0.0.7", "10.0.1.7", "10.0.0.1", "10.0.1.255", "10.0.0.0"]),
        1 => dice.one_of(&["2001:db8:0::7", "2001:db8:1::7", "2001:db8:0::1", "2001:db8:9::1"]),
        2 => return (dice.one_of(&["fe80::7", "169.254.0.7"]).parse().unwrap(), true),
        other if other % 2 == 0 => return (four(dice, 0).into(), false),
        _ => return (six(dice, 0).into(), false),
    };
    (text.parse().unwrap(), false)
}

/// A packet to beyond, whose UDP source port is its number.
fn frame(rig: &Rig, source: IpAddr, number: u16) -> Vec<u8> {
    let [four, six] = BEYOND.map(|(to, _)| to);
    let (mut frame, ports) = match source {
        IpAddr::V4(source) => (rig.udp(0, &source.to_string(), four).to_vec(&[0; 18]), 34),
        IpAddr::V6(source) => (udp6(rig, 0, &source.to_string(), six, 9, 18), 54),
    };
    frame[ports..ports + 2].copy_from_slice(&number.to_be_bytes());
    frame
}

fn config(urpf: &str, routes: Value, blue: &Value) -> Value {
    let mut config = json!({
        "neighbors": { "10.0.0.9": "02:00:00:00:00:09", "2001:db8:0::9": "02:00:00:00:00:09",
                       "10.0.2.9": "02:00:00:00:02:09", "2001:db8:2::9": "02:00:00:00:02:09" },
        "neighbor_timers": { "own_probes": 0 },
        "routes": routes,
        "urpf": { "lan": urpf },
        "vrfs": { "blue": { "routes": blue } },
        "icmp_rate": "1 Mpps",
    });
    for (to, via) in BEYOND {
        config["routes"][format!("{to}/{}", if to.contains(':') { 128 } else { 32 })] = json!(via);
    }
    config
}

fn dropped(rig: &mut Rig) -> u64 {
    let drops = rig.drops();
    drops.iter().filter(|(name, _)| name.starts_with("router.urpf/")).map(|(_, count)| count).sum()
}

#[test]
fn sources_pass_to_which_a_route_leads() {
    let mut dice = Dice(0x0ddba11);
    for (round, urpf) in ["strict", "loose", "strict vrf blue", "loose vrf blue", "strict", "loose"].iter().enumerate()
    {
        let ((routes, mut known), (blue, known_blue)) = (random_routes(&mut dice), random_routes(&mut dice));
        known.extend(connected());
        let known = if urpf.ends_with("blue") { known_blue } else { known };
        let mut rig = Rig::new(PORTS, config(urpf, routes, &blue));
        rig.run(5 * SECOND);
        drop(rig.sent(2));
        let (mut passed, mut refused) = (0, 0);
        for batch in 0..25_u16 {
            let mut expected = BTreeSet::new();
            for number in batch * 20..batch * 20 + 20 {
                let (source, is_of_link) = random_source(&mut dice);
                let is_right = match longest(&known, source) {
                    _ if is_of_link => true,
                    None => false,
                    Some(ports) if urpf.starts_with("strict") => ports.contains(&0),
                    Some(ports) => !ports.is_empty(),
                };
                if is_right && !is_of_link {
                    expected.insert(number);
                }
                (passed, refused) = if is_right { (passed + 1, refused) } else { (passed, refused + 1) };
                let frame = frame(&rig, source, number);
                rig.send(0, frame);
            }
            rig.settle();
            let is_udp = |frame: &[u8]| (frame[12], frame[23]) == (8, 17) || (frame[12], frame[20]) == (0x86, 17);
            let number = |frame: &[u8]| {
                let ports = if frame[12] == 8 { 34 } else { 54 };
                u16::from_be_bytes([frame[ports], frame[ports + 1]])
            };
            let sent: BTreeSet<u16> =
                rig.sent(2).iter().filter(|frame| is_udp(frame)).map(|frame| number(frame)).collect();
            assert_eq!(sent, expected, "round {round}, {urpf}");
        }
        assert_eq!(dropped(&mut rig), refused, "round {round}, {urpf}");
        assert!(passed > 50 && refused > 20, "round {round}: {passed} passed, {refused} did not");
        // Nobody asks of what comes in by others.
        let mut other = rig.udp(1, "100.64.0.1", BEYOND[0].0);
        other.source_port = 9999;
        rig.send(1, other.to_vec(&[0; 18]));
        rig.settle();
        assert_eq!((rig.sent_ip(2).len(), dropped(&mut rig)), (1, refused));
        rig.finish();
    }
}

#[test]
fn a_source_passes_as_soon_as_a_route_leads_there() {
    let mut rig = Rig::new(PORTS, config("strict", json!({}), &json!({})));
    rig.run(5 * SECOND);
    drop(rig.sent(2));
    let passes = |rig: &mut Rig| {
        let frame = rig.udp(0, "172.16.0.9", BEYOND[0].0).to_vec(&[0; 18]);
        rig.send(0, frame);
        rig.settle();
        !rig.sent_ip(2).is_empty()
    };
    assert!(!passes(&mut rig));
    rig.request("route add", json!({ "prefix": "172.16.0.0/12", "via": "10.0.0.9" })).unwrap();
    assert!(passes(&mut rig));
    // Who is to be cut off from everywhere gets a route that drops (RFC 5635 section 4).
    rig.request("route add", json!({ "prefix": "172.16.0.9/32", "via": "blackhole" })).unwrap();
    assert!(!passes(&mut rig));
    assert_eq!(rig.drops()["router.urpf/urpf-strict"], 2);
    // Another check, live.
    let mut other = config("loose", json!({}), &json!({}));
    rig.reload(&other);
    assert!(!passes(&mut rig));
    assert_eq!(rig.drops()["router.urpf/urpf-loose"], 1);
    rig.request("route del", json!({ "prefix": "172.16.0.9/32" })).unwrap();
    assert!(passes(&mut rig));
    other["urpf"] = json!({ "wan": "loose" });
    rig.reload(&other);
    rig.request("route del", json!({ "prefix": "172.16.0.0/12" })).unwrap();
    assert!(passes(&mut rig), "nobody asks any more");
    rig.finish();
}

#[test]
fn what_is_not_there_is_told() {
    let told = |urpf: Value| -> Vec<String> {
        let mut config = config("loose", json!({}), &json!({}));
        config["urpf"] = urpf;
        build(PORTS, &config).err().unwrap().iter().map(ToString::to_string).collect()
    };
    let all = told(json!({ "lna": "strict", "wan": "loose vrf bleu" }));
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].contains("there is no interface \"lna\""), "{all:?}");
    assert!(all[1].contains("there is no VRF \"bleu\"") && all[1].contains("one of default, blue"), "{all:?}");
    let all = told(json!({ "lan": "strikt" }));
    assert!(all[0].contains("write strict or loose"), "{all:?}");
}
