//! Samples of flows: what is told of each packet, against what the gateway does with it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::net::{IpAddr, Ipv4Addr};

use common::*;
use serde_json::{Value, json};
use weir_rig::{interface_id, waiting_samples};
use weir_stage::{FlowHop, Output, Random, Sample};
use weir_wire::{ethernet, ipv4};

/// Two ports on each side.
const FOUR: &[PortSpec] = &[
    PortSpec("cpe", &[], 1500),
    PortSpec("cpe2", &[], 1500),
    PortSpec("core", &["192.0.2.1/30"], 1500),
    PortSpec("core2", &["192.0.2.5/30"], 1500),
];

/// Positions of the core ports.
const CORES: [usize; 2] = [2, 3];

/// Customers behind tags (100, 1) to (100, 20), one after the other on either port.
const CUSTOMERS: u16 = 20;

const fn port_of(cvlan: u16) -> usize {
    (cvlan % 2) as usize
}

fn address(cvlan: u64) -> String {
    format!("10.0.1.{cvlan}")
}

/// A gateway that shares its traffic among two of the core, in tunnels or not.
fn config(is_tunnel: bool, export: Value) -> Value {
    let mut config = if is_tunnel { tunnels() } else { plain() };
    (config["access"], config["core"]) = (json!(["cpe", "cpe2"]), json!(["core", "core2"]));
    config["addresses"] = json!(["10.0.0.1/16", "2001:db8::1/64"]);
    let customers = (1..=CUSTOMERS).map(|n| {
        let port = ["cpe", "cpe2"][port_of(n)];
        json!({ "port": port, "svlan": 100, "cvlan": n, "key": 100 + n, "ipv4": [address(n.into())],
                "ipv6": [format!("2001:db8:1:{n:x}00::/56")], "mac": host(n).to_string() })
    });
    config["subscribers"] = customers.collect();
    let mac = ROUTER_MAC.to_string();
    config["gateways"] = match is_tunnel {
        true => json!({
            "west": { "port": "core", "address": "198.51.100.9", "via": "192.0.2.2", "mac": mac, "labels": [17, 18] },
            "east": { "port": "core2", "address": "198.51.100.13", "via": "192.0.2.6", "mac": mac },
        }),
        false => json!({
            "west": { "port": "core", "address": "192.0.2.2", "mac": mac },
            "east": { "port": "core2", "address": "192.0.2.6", "mac": mac },
        }),
    };
    config["routes"] = json!({ "0.0.0.0/0": ["west", "east"] });
    config["routes_ipv6"] = json!({ "2001:db8:ffff::/48": ["west", "east"] });
    if !is_tunnel {
        // IPv6 goes by IPv4 addresses.
        config["routes_ipv6"] = json!({});
    }
    config["learn"] = json!({});
    config["limits"] = json!({ "subscribers": 64 });
    (config["punt_rate"], config["subscriber_punt_rate"]) = (json!("100 Mpps"), json!("1 Mpps"));
    config["flow_export"] = export;
    config
}

fn export(sample: u32, interfaces: &[&str]) -> Value {
    json!({ "collector": "127.0.0.1:4739", "protocol": "ipfix", "sample": sample, "interfaces": interfaces })
}

fn rig(config: Value) -> Rig {
    let mut rig = Rig::new(FOUR, config);
    rig.run(3 * SECOND);
    waiting_samples(&*rig.instance);
    (0..4).for_each(|port| drop(rig.handles[port].received()));
    rig
}

/// A frame from a customer.
fn up(rig: &Rig, cvlan: u16, packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
    tagged(rig.mac(port_of(cvlan)), host(cvlan), cvlan, ethertype, packet)
}

/// A frame from the core, in a tunnel with or without labels, or in none.
fn down(rig: &Rig, port: usize, key: Option<u32>, packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
    let mut frame = match key {
        Some(key) => rig.tunneled_as(ethertype, key, packet),
        None => [&rig.mac(port).0[..], &ROUTER_MAC.0, &ethertype.to_be_bytes(), packet].concat(),
    };
    frame[..6].copy_from_slice(&rig.mac(port).0);
    if key.is_some() && port == CORES[1] {
        frame.splice(12..18, [8, 0]);
    }
    frame
}

/// Where a packet went, as who saw it leave tells it: the port, its next hop, its tags.
type Way = (usize, Option<IpAddr>, [u16; 2]);

/// The way of the packet in a frame that a port sent, if it is the one from `addresses` with these ports.
fn way(port: usize, frame: &[u8], is_tunnel: bool, packet: &[u8]) -> Option<Way> {
    let end = packet.len();
    // Its hops and checksum have changed.
    let is_it = |bytes: &[u8]| bytes.len() >= end && bytes[12..end] == packet[12..];
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    if port < CORES[0] {
        return is_it(&frame[22..]).then(|| (port, None, [word(14) & 0xfff, word(18) & 0xfff]));
    }
    let router = Ipv4Addr::new(192, 0, 2, if port == CORES[0] { 2 } else { 6 });
    if !is_tunnel {
        return is_it(&frame[14..]).then(|| (port, Some(router.into()), [0; 2]));
    }
    let outer = if word(12) == ethernet::MPLS { &frame[22..] } else { &frame[14..] };
    let end: [u8; 4] = outer.get(16..20)?.try_into().ok()?;
    is_it(outer.get(28..)?).then_some((port, Some(end.into()), [0; 2]))
}

/// What becomes of a frame: the only way that its packet was seen on, and the only sample.
fn pass(rig: &mut Rig, port: usize, frame: Vec<u8>, is_tunnel: bool, packet: &[u8]) -> (Option<Way>, Sample) {
    rig.handles[port].send(frame);
    rig.settle();
    let mut ways = Vec::new();
    for port in 0..4 {
        let sent = rig.handles[port].received();
        ways.extend(sent.iter().filter_map(|frame| way(port, frame, is_tunnel, packet)));
    }
    let samples = waiting_samples(&*rig.instance);
    assert!(ways.len() < 2 && samples.len() == 1, "{ways:?} {samples:?}");
    (ways.pop(), samples[0])
}

fn told(rig: &Rig, hop: &FlowHop) -> Option<Way> {
    let ports = ["cpe", "cpe2", "core", "core2"];
    match hop.output {
        Output::Interface(id) => {
            let port = ports.iter().position(|name| interface_id(&*rig.instance, name) == id).unwrap();
            Some((port, hop.next_hop, hop.vlans))
        }
        Output::Nowhere => None,
        other => panic!("{other:?}"),
    }
}

/// What leaves is what is told, with tunnels and without, from customers, to them, and among them; of tunnels the packet inside is told.
#[test]
fn samples_say_what_the_gateway_does() {
    for is_tunnel in [true, false] {
        let mut rig = rig(config(is_tunnel, export(1, &[])));
        let mut random = Random::new(3);
        let mut counts = [0; 4];
        for n in 0..1200_u64 {
            let cvlan = 1 + random.below(CUSTOMERS.into()) as u16;
            let far = format!("203.0.113.{}", n % 251);
            let other = address(1 + random.below(25));
            let (kind, packet) = match random.below(5) {
                0 | 1 => (0, udp(&address(cvlan.into()), &far, 60)),
                // To another customer: in a tunnel that is the core's to know.
                2 => (0, udp(&address(cvlan.into()), &other, 60)),
                _ => (1, udp(&far, &other, 60 + n as usize % 900)),
            };
            let mut packet = packet;
            packet[20..22].copy_from_slice(&(n as u16).to_be_bytes());
            let (port, frame) = if kind == 0 {
                (port_of(cvlan), up(&rig, cvlan, &packet))
            } else {
                let port = CORES[random.position(2)];
                let whose: u32 = other[7..].parse().unwrap();
                // Now and then a key that is another's.
                let key = is_tunnel.then_some(100 + whose + u32::from(random.below(8) == 0));
                (port, down(&rig, port, key, &packet))
            };
            let len = frame.len();
            let (went, sample) = pass(&mut rig, port, frame.clone(), is_tunnel, &packet);
            assert_eq!(told(&rig, &sample.hop), went, "{n}: {packet:x?}");
            let (is_up, is_inside) = (kind == 0, kind == 1 && is_tunnel);
            assert_eq!((sample.len as usize, sample.vlans), (len, if is_up { [100, cvlan] } else { [0; 2] }));
            let name = ["cpe", "cpe2", "core", "core2"][port];
            assert_eq!((sample.input, sample.vrf, sample.hop.vrf), (interface_id(&*rig.instance, name), 0, 0));
            let expected = if is_inside { len - packet.len() } else { 0 };
            assert_eq!(usize::from(sample.stripped), expected);
            assert_eq!(sample.packet()[..60], packet[..60], "{n}");
            assert_eq!(sample.head()[..60], if is_inside { packet[..60].to_vec() } else { frame[..60].to_vec() });
            counts[kind * 2 + usize::from(went.is_some())] += 1;
        }
        // All that customers send goes on in tunnels.
        let least = if is_tunnel { [0, 600, 50, 200] } else { [0, 500, 50, 300] };
        assert!(counts.iter().zip(least).all(|(count, least)| *count >= least), "{counts:?}");
        rig.finish();
    }
}

/// An IPv6 packet with UDP.
fn udp6(source: &str, destination: &str, number: u16) -> Vec<u8> {
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let mut packet = vec![0x60, 0, 0, 0, 0, 12, ipv4::UDP, 64];
    packet.extend(octets(source));
    packet.extend(octets(destination));
    packet.extend(number.to_be_bytes());
    packet.extend([0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
    packet
}

#[test]
fn ipv6_is_told_as_well() {
    let mut rig = rig(config(true, export(1, &[])));
    let ends = ["198.51.100.9", "198.51.100.13"].map(|end| Some(end.parse().unwrap()));
    for n in 0..40 {
        let customer = format!("2001:db8:1:{:x}00::7", 1 + n % CUSTOMERS);
        let packet = udp6(&customer, "2001:db8:ffff::1", n);
        let frame = up(&rig, 1 + n % CUSTOMERS, &packet);
        let (went, sample) = pass(&mut rig, port_of(1 + n % CUSTOMERS), frame, true, &packet);
        let (port, next_hop, vlans) = told(&rig, &sample.hop).unwrap();
        assert!(vlans == [0; 2] && ends[port - CORES[0]] == next_hop, "{sample:?}");
        // What is not known of customers' stations yet is asked for; whatever goes on goes as was told.
        assert!(went.is_none_or(|went| went == (port, next_hop, vlans)), "{went:?}");
        assert_eq!((sample.hop.source_len, sample.hop.destination_len, sample.stripped), (0, 48, 0));
        let packet = udp6("2001:db8:ffff::1", &customer, n);
        let frame = down(&rig, CORES[0], Some(101 + u32::from(n % CUSTOMERS)), &packet);
        let (_, sample) = pass(&mut rig, CORES[0], frame, true, &packet);
        assert_eq!(told(&rig, &sample.hop), Some((port_of(1 + n % CUSTOMERS), None, [100, 1 + n % CUSTOMERS])));
        assert_eq!((sample.stripped, sample.packet()), (14 + 4 + 28, packet.as_slice()));
    }
    rig.finish();
}

#[test]
fn what_is_no_customers_is_told_as_a_router_tells_it() {
    let mut rig = rig(config(true, export(1, &[])));
    let mut fragment = rig.tunneled(101, &udp("203.0.113.1", "10.0.1.1", 60));
    fragment[18 + 6] = 0x20;
    ipv4::write_checksum(&mut fragment[18..38]);
    fragment[..6].copy_from_slice(&rig.mac(CORES[0]).0);
    let mut no_key = rig.tunneled(101, &udp("203.0.113.1", "10.0.1.1", 60));
    no_key[38] = 0;
    let mut arp = vec![0; 60];
    arp[..6].fill(0xff);
    arp[12..14].copy_from_slice(&[8, 6]);
    let from_core = |packet: &[u8]| down(&rig, CORES[0], None, packet);
    let bytes_from_customer_2 = up(&rig, 2, &udp(&address(2), "10.0.0.1", 60)).len() as u64;
    let cases = [
        // For the gateway itself, by either side; a fragment of a tunnel's packet is put together there.
        (0, up(&rig, 2, &udp(&address(2), "10.0.0.1", 60)), Output::Here),
        (2, from_core(&udp("203.0.113.1", "192.0.2.1", 60)), Output::Here),
        // Labels are no IP: of such packets nothing is known that are no customer's.
        (2, fragment, Output::Unknown),
        (2, no_key, Output::Unknown),
        (2, arp, Output::Unknown),
        (0, vec![0x5a; 64], Output::Unknown),
    ];
    for (port, frame, output) in cases {
        rig.handles[port].send(frame.clone());
        rig.settle();
        let samples = waiting_samples(&*rig.instance);
        assert_eq!((samples.len(), samples[0].hop.output, samples[0].stripped), (1, output, 0), "{frame:x?}");
        assert_eq!(samples[0].head()[..60], frame[..60]);
    }
    // Who has an address in a network where some are learned is found out by asking.
    let mut learns = config(false, export(1, &[]));
    learns["learn"] = json!({ "networks": ["10.0.0.0/16"] });
    let mut other = self::rig(learns);
    for (to, output) in [("10.0.9.9", Output::Unknown), ("10.1.9.9", Output::Nowhere)] {
        let frame = down(&other, CORES[0], None, &udp("203.0.113.1", to, 60));
        other.handles[CORES[0]].send(frame);
        other.settle();
        assert_eq!(waiting_samples(&*other.instance)[0].hop.output, output, "{to}");
    }
    other.finish();
    // Access ports are interfaces, by which customers' frames are counted.
    let interface = |rig: &Rig, name: &str| {
        let all = rig.instance.flow_source().unwrap().interfaces(0);
        assert!(all.is_sorted_by_key(|one| one.id) && all.len() > 4);
        let found = all.into_iter().find(|one| one.name == name).unwrap();
        (found.received, found.sent, found.up)
    };
    let sent = bytes_from_customer_2 + 64;
    // He was told that nothing listens there.
    let told = bytes_from_customer_2 + 28;
    assert_eq!(interface(&rig, "cpe"), ([2, sent], [1, told], true));
    assert_eq!(interface(&rig, "cpe2"), ([0, 0], [0, 0], true));
    rig.instance.link_changed(0, false, 0);
    assert!(!interface(&rig, "cpe").2 && interface(&rig, "cpe2").2);
    rig.finish();
}

/// Frames are cut off anywhere, behind tags too: each is told as far as it is there.
#[test]
fn frames_of_any_length_are_told() {
    let core = PortSpec("core", &["192.0.2.1/30"], 1500);
    let tag = weir_stage::TagInfo { tpid: 0x8100, vlan: 9 };
    let mut config = tunnels();
    config["flow_export"] = export(1, &[]);
    let mut rig = Rig::tagged(&[TWO[0], core], config, &[tag]);
    rig.run(3 * SECOND);
    waiting_samples(&*rig.instance);
    let mut frames = vec![(CPE, rig.customer(1, "10.0.0.7", "203.0.113.1"))];
    let mut tunneled = rig.tunneled(7, &udp("203.0.113.1", "10.0.0.7", 60));
    frames.push((CORE, tunneled.clone()));
    tunneled.splice(12..12, [0x81, 0, 0, 9]);
    frames.push((CORE, tunneled));
    let mut told = 0;
    for (port, frame) in frames {
        for len in 1..=frame.len() {
            rig.send_as_is(port, frame[..len].to_vec());
            rig.settle();
            for sample in waiting_samples(&*rig.instance) {
                assert_eq!(sample.len as usize, len);
                let at = usize::from(sample.stripped);
                assert_eq!(sample.head(), &frame[at..len.min(at + 128)]);
                told += 1;
            }
        }
    }
    assert!(told > 200, "{told}");
    rig.finish();
}

/// Whichever workers there are, and whether packets are shaped first: each packet has the same chance, and each interface is counted by itself.
#[test]
fn every_layout_takes_samples() {
    for (layout, workers) in [("run-to-completion", 1), ("distributor", 3), ("pipeline", 2), ("pipeline", 4)] {
        for is_shaped in [false, true] {
            let mut config = config(true, export(5, &["cpe2", "core"]));
            (config["layout"], config["workers"]) = (json!(layout), json!((0..workers).collect::<Vec<usize>>()));
            if is_shaped {
                let scheduler = json!({ "rate": "10 Gbit/s", "users": 64, "buffers": 2048,
                                        "profiles": { "home": { "tb_rate": "10 Gbit/s", "tb_size": "1 MiB" } } });
                config["qos"] = json!({ "up": scheduler, "usual": "home" });
            }
            let stages = |config: &Value| -> Vec<String> {
                let instance = build(FOUR, config).unwrap_or_else(|errors| panic!("{}", errors[0]));
                let names =
                    instance.sketch(0).unwrap().nodes().iter().map(|node| node.name.clone()).collect::<Vec<_>>();
                names.into_iter().filter(|name| name.contains("sample")).collect()
            };
            let mut names = stages(&config);
            names.sort();
            let access: &[&str] = if is_shaped { &["bng.sample.cpe", "bng.sample.cpe2"] } else { &["bng.sample"] };
            assert_eq!(names, [&["bng.core.sample"], access].concat());
            let mut without = config.clone();
            without.as_object_mut().unwrap().remove("flow_export");
            assert_eq!(stages(&without), Vec::<String>::new(), "nothing on anybody's way");
            let mut rig = rig(config.clone());
            for n in 0..500 {
                let (cvlan, key) = (1 + n % CUSTOMERS, 101 + u32::from(n % CUSTOMERS));
                let frame = up(&rig, cvlan, &udp(&address(cvlan.into()), "203.0.113.1", 60));
                rig.handles[port_of(cvlan)].send(frame);
                let packet = udp("203.0.113.1", &address(u64::from(cvlan)), 60);
                let frame = down(&rig, CORES[usize::from(n % 2)], Some(key), &packet);
                rig.handles[CORES[usize::from(n % 2)]].send(frame);
                if n % 25 == 24 {
                    rig.settle();
                }
            }
            rig.run(SECOND / 10);
            let samples = waiting_samples(&*rig.instance);
            for name in ["cpe", "cpe2", "core", "core2"] {
                let count = samples.iter().filter(|sample| sample.input == interface_id(&*rig.instance, name)).count();
                // 250 packets of each in blocks of five; what came before, when the gateway began, may be in the first.
                let expected = if ["cpe2", "core"].contains(&name) { 49..=51 } else { 0..=0 };
                assert!(expected.contains(&count), "{layout} {name}: {count}");
            }
            assert!(samples.iter().all(|sample| matches!(sample.hop.output, Output::Interface(_))));
            rig.reload(&self::config(true, Value::Null).as_object().map_or(Value::Null, |keys| {
                let mut keys = keys.clone();
                for key in ["layout", "workers", "qos"] {
                    keys.extend(config.get(key).map(|value| (key.to_owned(), value.clone())));
                }
                keys["flow_export"] = export(1, &["cpe"]);
                Value::Object(keys)
            }));
            let frame = up(&rig, 2, &udp(&address(2), "203.0.113.1", 60));
            rig.handles[0].send(frame);
            rig.run(SECOND / 10);
            assert_eq!(waiting_samples(&*rig.instance).len(), 1, "{layout}");
            rig.finish();
        }
    }
}

#[test]
fn what_cannot_be_exported_is_told() {
    let wrong = build(FOUR, &config(true, export(1, &["cpe", "cpee"]))).err().unwrap();
    let text = wrong[0].to_string();
    assert!(text.contains("flow_export.interfaces[2]") && text.contains("there is no interface \"cpee\""), "{text}");
    assert!(text.contains("one of cpe, cpe2") && text.contains("core2"), "{text}");
    let mut without = config(true, export(1, &[]));
    without.as_object_mut().unwrap().remove("flow_export");
    let refused = build(FOUR, &without).unwrap().show("collectors", None, 0).err().unwrap().0;
    assert!(refused.contains("docs/flow-export.md"), "{refused}");
}
