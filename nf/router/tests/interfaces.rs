//! Interfaces with VLAN tags, and loopbacks: what comes in by one leaves by another as its definition says.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use crate::common;

use common::sides::*;
use common::*;
use serde_json::{Value, json};
use weir_stage::InterfaceInfo;
use weir_wire::arp::{ArpFields, Operation};
use weir_wire::{MacAddr, checksum, ipv4, validity};

fn interfaces() -> Vec<InterfaceInfo> {
    let tagged = SIDES.iter().filter(|side| !side.tags.is_empty());
    let mut all: Vec<InterfaceInfo> = tagged
        .map(|side| {
            let address = side.host.replace(".9", ".1") + "/24";
            interface(side.interface, Some(PORTS[side.port].0), side.tags, &[&address])
        })
        .collect();
    all.push(interface("lo0", None, &[], &["203.0.113.1/32"]));
    all
}

fn config() -> Value {
    let neighbors: serde_json::Map<_, _> =
        SIDES.iter().map(|side| (side.host.to_owned(), json!(side.mac.to_string()))).collect();
    json!({ "neighbors": neighbors, "neighbor_timers": { "own_probes": 0 } })
}

fn rig() -> Rig {
    let mut rig = Rig::with(PORTS, interfaces(), config());
    rig.settle();
    forget(&mut rig);
    rig
}

/// Forgets what was sent so far.
fn forget(rig: &mut Rig) {
    for port in 0..2 {
        rig.sent(port);
    }
}

#[test]
fn every_interface_reaches_every_other() {
    let mut rig = rig();
    for count in [1, 64] {
        for from_side in SIDES {
            for to in SIDES.iter().filter(|to| to.host != from_side.host) {
                let frame = from(&rig, from_side, to.host, &[7; 30]);
                (0..count).for_each(|_| rig.send(from_side.port, frame.clone()));
                rig.settle();
                let sent = rig.sent(to.port);
                assert_eq!(sent.len(), count, "{} to {}", from_side.interface, to.interface);
                let right = expected(&rig, &frame, from_side, to);
                assert!(sent.iter().all(|frame| *frame == right), "{} to {}", from_side.interface, to.interface);
            }
        }
    }
    assert_eq!(rig.drops(), Default::default());
    rig.finish();
}

#[test]
fn packets_of_one_batch_come_and_go_by_all_interfaces() {
    let mut rig = rig();
    let mut right: [Vec<Vec<u8>>; 2] = Default::default();
    let mut counts = std::collections::BTreeMap::<&str, [u64; 4]>::new();
    for n in 0..64 * 8 {
        let (from_side, to) = (&SIDES[n * 5 % SIDES.len()], &SIDES[(n / 3) % SIDES.len()]);
        if from_side.host == to.host {
            continue;
        }
        let frame = from(&rig, from_side, to.host, &[n as u8; 30]);
        let out = expected(&rig, &frame, from_side, to);
        let received = counts.entry(from_side.interface).or_default();
        (received[0], received[1]) = (received[0] + 1, received[1] + frame.len() as u64);
        let sent = counts.entry(to.interface).or_default();
        (sent[2], sent[3]) = (sent[2] + 1, sent[3] + out.len() as u64);
        right[to.port].push(out);
        rig.send(from_side.port, frame);
    }
    rig.settle();
    for (port, right) in right.iter_mut().enumerate() {
        let mut sent = rig.sent(port);
        sent.sort();
        right.sort();
        assert_eq!(sent, *right, "port {port}");
    }
    for row in rig.show("interfaces") {
        let shown = ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes"].map(|key| row[key].as_u64().unwrap());
        // What an interface says of its own address when it comes up is counted, too.
        let [rx_packets, rx_bytes, tx_packets, tx_bytes] =
            counts.get(row["name"].as_str().unwrap()).copied().unwrap_or_default();
        assert_eq!(shown[..2], [rx_packets, rx_bytes], "{row}");
        assert!(shown[2] >= tx_packets && shown[2] <= tx_packets + 2 && shown[3] >= tx_bytes, "{row}");
    }
    rig.finish();
}

/// Where all packets belong to one interface with a tag, the next batch is expected to be like that; what is not is found out all the same.
#[test]
fn strangers_among_packets_of_one_interface() {
    let mut rig = rig();
    let target = &SIDES[0];
    let received = |rig: &Rig, side: &Side| {
        let row = rig.show("interfaces").into_iter().find(|row| row["name"] == side.interface).unwrap();
        ["rx_packets", "rx_bytes"].map(|key| row[key].as_u64().unwrap())
    };
    for usual in &SIDES[2..4] {
        for stranger in SIDES.iter().filter(|side| side.port == usual.port) {
            for (place, spoiled) in [(0, None), (1, None), (63, None), (9, Some(0)), (9, Some(3)), (63, Some(5))] {
                let frame = from(&rig, usual, target.host, &[7; 30]);
                let mut other = from(&rig, stranger, target.host, &[9; 31]);
                (0..64).for_each(|_| rig.send(usual.port, frame.clone()));
                rig.settle();
                forget(&mut rig);
                let right = expected(&rig, &frame, usual, target);
                let mut outcome = vec![right; 63];
                match spoiled {
                    Some(byte) => other[byte] ^= 4,
                    None => outcome.insert(place, expected(&rig, &other, stranger, target)),
                }
                let before = [usual, stranger].map(|side| received(&rig, side));
                (0..64).for_each(|n| rig.send(usual.port, if n == place { other.clone() } else { frame.clone() }));
                rig.settle();
                let mut sent = rig.sent(target.port);
                [&mut sent, &mut outcome].into_iter().for_each(|frames| frames.sort());
                assert_eq!(sent, outcome, "{} among {}, {place}, {spoiled:?}", stranger.interface, usual.interface);
                let more = [(usual, 63 * frame.len() as u64, 63), (stranger, other.len() as u64, 1)];
                for (side, before) in [usual, stranger].into_iter().zip(before) {
                    let of = more.iter().filter(|(of, ..)| of.interface == side.interface);
                    let all = of.fold([0, 0], |all, (_, bytes, packets)| [all[0] + packets, all[1] + bytes]);
                    assert_eq!(received(&rig, side), [before[0] + all[0], before[1] + all[1]], "{}", side.interface);
                }
            }
        }
    }
    rig.finish();
}

#[test]
fn a_priority_is_no_vlan() {
    let mut rig = rig();
    for (tags, side) in [(&[(C, 0xa000)][..], &SIDES[0]), (&[(S, 0x2000), (C, 0xe000)], &SIDES[0])] {
        let frame = tagged(&from(&rig, side, "10.1.0.9", &[1; 30]), tags);
        rig.send(0, frame);
        rig.settle();
        let sent = rig.sent(1);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0][12..18], [0x81, 0, 0, 100, 8, 0], "the tag of the interface, without a priority");
    }
    // Beside a VLAN it says nothing more about whose the frame is.
    let frame = tagged(&from(&rig, &SIDES[1], "10.0.0.9", &[1; 30]), &[(C, 0x6064)]);
    rig.send(1, frame);
    rig.settle();
    assert_eq!(rig.sent(0).len(), 1);
    rig.finish();
}

#[test]
fn tags_that_no_interface_has_are_dropped_by_name_and_shown() {
    let mut rig = rig();
    let shown = |rig: &Rig| {
        let rows = rig.show("interfaces");
        let of = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["unknown_tags"].clone();
        (of("left"), of("right"))
    };
    assert_eq!(shown(&rig), (Value::Null, Value::Null));
    for (port, tags) in
        [(0, &[(C, 100)][..]), (1, &[(C, 7)]), (1, &[(S, 7)]), (1, &[(S, 7), (C, 11)]), (1, &[(C, 100), (C, 9)])]
    {
        let frame = tagged(&from(&rig, &SIDES[port], "10.1.2.9", &[1; 30]), tags);
        rig.send(port, frame);
        rig.settle();
    }
    assert_eq!(rig.drops(), [("router.forward/unknown-tag".to_owned(), 5)].into());
    assert_eq!(shown(&rig), (json!("100"), json!("0x8100:100.9")));
    rig.finish();
}

#[test]
fn frames_that_end_within_their_tags_are_too_short() {
    let mut rig = rig();
    let whole = from(&rig, &SIDES[4], "10.0.0.9", &[1; 30]);
    for length in 14..22 {
        rig.send(1, whole[..length].to_vec());
        rig.settle();
    }
    for length in 22..42 {
        rig.send(1, whole[..length].to_vec());
        rig.settle();
    }
    let drops = rig.drops();
    assert_eq!(drops["router.forward/too-short"], 8, "{drops:?}");
    assert_eq!(drops["router.forward/ip-too-short"], 20, "{drops:?}");
    rig.finish();
}

#[test]
fn arp_echo_and_errors_carry_the_tags_of_their_interface() {
    let mut rig = rig();
    for side in SIDES {
        let own: Ipv4Addr = side.host.replace(".9", ".1").parse().unwrap();
        let host: Ipv4Addr = side.host.parse().unwrap();
        let own_mac = rig.mac(side.port);
        let request = ArpFields {
            operation: Operation::Request,
            sender_mac: side.mac,
            sender: host,
            target_mac: MacAddr::ZERO,
            target: own,
        };
        let mut frame = vec![0; 60];
        request.write(MacAddr::BROADCAST, &mut frame).unwrap();
        frame[6..12].copy_from_slice(&side.mac.0);
        rig.send(side.port, tagged(&frame, side.tags));
        rig.settle();
        let sent = rig.sent(side.port);
        assert_eq!(sent.len(), 1, "{}", side.interface);
        let header = 14 + 4 * side.tags.len();
        assert_eq!(sent[0][12..header], tagged(&frame, side.tags)[12..header], "{}", side.interface);
        let answer = ArpFields::parse(&sent[0][header..]).unwrap();
        assert_eq!((answer.sender, answer.sender_mac, answer.target), (own, own_mac, host));

        // To its own address, to the loopback, and to nowhere.
        for (to, wants) in [(own, 0), ("203.0.113.1".parse().unwrap(), 0), ("8.8.8.8".parse().unwrap(), 3)] {
            let mut frame = from(&rig, side, &to.to_string(), &[0; 22]);
            let ip = header;
            if wants == 0 {
                frame[ip + 9] = ipv4::ICMP;
                frame[ip + 20..].fill(0);
                frame[ip + 20] = 8;
                let sum = checksum::checksum(&frame[ip + 20..]);
                frame[ip + 22..ip + 24].copy_from_slice(&sum.to_be_bytes());
                ipv4::write_checksum(&mut frame[ip..]);
            }
            rig.send(side.port, frame);
            rig.settle();
            let sent = rig.sent(side.port);
            assert_eq!(sent.len(), 1, "{} to {to}", side.interface);
            let packet = &sent[0][header..];
            validity::check_slice(packet).unwrap();
            assert_eq!(packet[20], wants, "{} to {to}: the type of the message", side.interface);
            assert_eq!(packet[16..20], host.octets());
            let source = if to == "8.8.8.8".parse::<Ipv4Addr>().unwrap() { own } else { to };
            assert_eq!(packet[12..16], source.octets());
        }
    }
    rig.finish();
}

#[test]
fn each_interface_has_an_mtu_of_its_own() {
    let mut interfaces = interfaces();
    interfaces.iter_mut().find(|info| info.name == "right.7.9").unwrap().mtu = Some(600);
    let mut rig = Rig::with(PORTS, interfaces, config());
    rig.settle();
    forget(&mut rig);
    let to = &SIDES[4];
    let fits = from(&rig, &SIDES[0], to.host, &[1; 600 - 28]);
    rig.send(0, fits.clone());
    rig.settle();
    assert_eq!(rig.sent(1), [expected(&rig, &fits, &SIDES[0], to)]);
    // Beyond it, packets are taken apart, each piece behind both tags; by a wider interface of the same port they are not.
    let long = from(&rig, &SIDES[0], to.host, &[1; 601 - 28]);
    rig.send(0, long);
    rig.settle();
    let pieces = rig.sent(1);
    assert_eq!(pieces.len(), 2);
    for piece in &pieces {
        assert_eq!(piece[12..22], [0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0]);
        validity::check_slice(&piece[22..]).unwrap();
        assert!(piece.len() <= 22 + 600);
    }
    let long = from(&rig, &SIDES[0], "10.1.3.9", &[1; 1500 - 28]);
    rig.send(0, long.clone());
    rig.settle();
    assert_eq!(rig.sent(1), [expected(&rig, &long, &SIDES[0], &SIDES[5])]);
    rig.finish();
}

#[test]
fn a_loopback_is_no_network() {
    let wrong = |interfaces: &[InterfaceInfo]| wrong_interfaces(PORTS, interfaces, &json!({}));
    assert_eq!(
        wrong(&[interface("lo0", None, &[], &["203.0.113.1/24"])]),
        [
            "test.lua:3: interface[\"lo0\"].address: 203.0.113.1/24 is a network, and none is connected to a loopback; write 203.0.113.1/32"
        ]
    );
    let mut wide = interface("right.5", Some("right"), &[(C, 5)], &["10.0.1.7/25"]);
    wide.mtu = Some(1501);
    assert_eq!(
        wrong(&[wide, interface("left.5", Some("left"), &[(C, 5)], &["10.0.0.1/32", "2001:db8::ff:1/128", "::1/64"])]),
        [
            "test.lua:3: interface[\"right.5\"].mtu: 1501 is more than the MTU of port \"right\" behind these tags, which is 1500; give the port a larger one, or this a smaller one",
            "test.lua:3: interface[\"left.5\"].address: interface \"left.5\" has the address 10.0.0.1/32, and port \"left\" has the same address; give each interface a network of its own",
            "test.lua:3: interface[\"left.5\"].address: interface \"left.5\": ::1 is not a unicast address",
        ]
    );
}

#[test]
fn nothing_comes_or_goes_by_an_interface_that_is_down() {
    let mut rig = rig();
    let there_and_back = |rig: &mut Rig| {
        let out = from(rig, &SIDES[0], "10.1.0.9", &[1; 30]);
        let back = from(rig, &SIDES[2], "10.0.0.9", &[1; 30]);
        rig.send(0, out);
        rig.send(1, back);
        rig.settle();
        (rig.sent_ip(0).len(), rig.sent(1).iter().filter(|frame| frame[12..16] == [0x81, 0, 0, 100]).count())
    };
    assert_eq!(there_and_back(&mut rig), (1, 1));
    rig.request("interface set", json!({ "name": "right.100", "state": "down" })).unwrap();
    rig.settle();
    // The packet that goes there has no route any more, of which its source is told.
    assert_eq!(there_and_back(&mut rig), (1, 0));
    let drops = rig.drops();
    assert_eq!(drops["router.forward/interface-down"], 1, "{drops:?}");
    assert_eq!(drops["router.control/no-route"], 1, "{drops:?}");
    // Its untagged neighbours on the port notice nothing.
    let other = from(&rig, &SIDES[0], "10.0.1.9", &[1; 30]);
    rig.send(0, other);
    rig.settle();
    assert_eq!(rig.sent_ip(1).len(), 1);
    rig.request("interface set", json!({ "name": "right.100", "state": "up" })).unwrap();
    rig.settle();
    rig.sent(1);
    assert_eq!(there_and_back(&mut rig), (1, 1), "its static neighbours are there still");
    rig.request("interface set", json!({ "name": "right", "state": "down" })).unwrap();
    rig.settle();
    let untagged = from(&rig, &SIDES[1], "10.0.0.9", &[1; 30]);
    rig.send(1, untagged);
    rig.settle();
    assert_eq!(rig.drops()["router.forward/interface-down"], 2);
    assert_eq!(there_and_back(&mut rig), (1, 1));
    rig.finish();
}

/// `interface add` with these arguments.
fn add(rig: &Rig, arguments: Value) -> Result<Value, String> {
    rig.request("interface add", arguments)
}

#[test]
fn interfaces_come_and_go_at_run_time() {
    let mut rig = Rig::new(PORTS, json!({ "neighbor_timers": { "own_probes": 0 } }));
    add(&rig, json!({ "name": "right.5", "on": "right", "vlan": "5", "address": ["10.5.0.1/24"] })).unwrap();
    rig.request("neighbor add", json!({ "address": "10.5.0.9", "mac": "02:00:00:00:05:09" })).unwrap();
    rig.request("route add", json!({ "prefix": "20.0.0.0/8", "via": ["10.5.0.9"] })).unwrap();
    rig.settle();
    forget(&mut rig);
    let send = |rig: &mut Rig| {
        let frame = from(rig, &SIDES[0], "20.1.2.3", &[1; 30]);
        rig.send(0, frame);
        rig.settle();
        rig.sent(1).iter().filter(|frame| frame[12..16] == [0x81, 0, 0, 5]).count()
    };
    assert_eq!(send(&mut rig), 1);
    let saved: Vec<(String, Value)> =
        all_rows(rig.instance.save()).into_iter().map(|saved| (saved.verb, saved.arguments)).collect();
    assert_eq!(
        saved[0],
        (
            "interface add".to_owned(),
            json!({ "name": "right.5", "on": "right", "vlan": 5, "address": ["10.5.0.1/24"], "up": true })
        )
    );
    // It is there after a reload, be it one that changes or one that rebuilds; the configuration does not know it.
    rig.reload(&json!({ "neighbor_timers": { "own_probes": 0 }, "icmp_rate": "5 pps" }));
    rig.settle();
    rig.sent(1);
    assert_eq!(send(&mut rig), 1);
    rig.rebuild(&json!({ "neighbor_timers": { "own_probes": 0 }, "hash_seed": 7 }));
    rig.settle();
    rig.sent(1);
    assert_eq!(send(&mut rig), 1);
    let again: Vec<(String, Value)> =
        all_rows(rig.instance.save()).into_iter().map(|saved| (saved.verb, saved.arguments)).collect();
    assert_eq!(again, saved);
    rig.request("interface del", json!({ "name": "right.5" })).unwrap();
    rig.settle();
    assert_eq!(send(&mut rig), 0);
    assert_eq!(rig.drops()["router.control/no-route"], 1);
    // What is saved makes it all again.
    for (verb, arguments) in saved {
        // The route outlived its interface, without a way.
        if verb != "route add" {
            rig.request(&verb, arguments).unwrap();
        }
    }
    rig.settle();
    rig.sent(1);
    assert_eq!(send(&mut rig), 1);
    rig.finish();
}

#[test]
fn requests_have_the_words_of_the_configuration_and_some_beside() {
    let rig = Rig::new(PORTS, json!({ "neighbor_timers": { "own_probes": 0 } }));
    let saved = |rig: &Rig| -> Vec<Value> {
        let saved = all_rows(rig.instance.save());
        saved.iter().for_each(|saved| assert_eq!(saved.entry.as_ref(), Some(&saved.arguments), "as it is declared"));
        saved.into_iter().map(|saved| saved.arguments).collect()
    };
    let both = [
        json!({ "name": "x", "on": "right", "vlan": 7, "inner_vlan": 9, "inner_tpid": 0x88a8, "mtu": 1400, "up": false }),
        json!({ "name": "x", "on": "right", "vlan": "7", "inner-vlan": "9", "inner-tpid": "0x88a8", "mtu": "1400", "state": "down" }),
    ];
    for arguments in both {
        add(&rig, arguments).unwrap();
        let all = json!({
            "name": "x", "on": "right", "vlan": 7, "tpid": 0x88a8, "inner_vlan": 9, "inner_tpid": 0x88a8, "mtu": 1400, "up": false,
        });
        assert_eq!(saved(&rig), [all]);
        rig.request("interface set", json!({ "name": "x", "mtu": "port", "state": "up" })).unwrap();
        let set = saved(&rig).remove(0);
        assert_eq!((set.get("mtu"), &set["up"]), (None, &json!(true)));
        rig.request("interface set", json!({ "name": "x", "mtu": "1300", "up": "false", "address": "10.5.0.1/24" }))
            .unwrap();
        rig.request("interface set", json!({ "name": "x", "mtu": "none" })).unwrap();
        let set = saved(&rig).remove(0);
        assert_eq!((set.get("mtu"), &set["up"], &set["address"]), (None, &json!(false), &json!(["10.5.0.1/24"])));
        rig.request("interface del", json!({ "name": "x" })).unwrap();
    }
    rig.finish();
}

#[test]
fn an_interface_that_was_added_carries_packets_when_the_request_is_answered() {
    let mut rig = Rig::new(PORTS, json!({ "neighbor_timers": { "own_probes": 0 } }));
    rig.settle();
    for turn in 1..=3 {
        add(&rig, json!({ "name": "right.5", "on": "right", "vlan": "5", "address": ["10.5.0.1/24"] })).unwrap();
        rig.request("neighbor add", json!({ "address": "10.5.0.9", "mac": "02:00:00:00:05:09" })).unwrap();
        forget(&mut rig);
        let frame = from(&rig, &SIDES[0], "10.5.0.9", &[1; 30]);
        rig.send(0, frame);
        rig.settle();
        assert_eq!(rig.drops(), BTreeMap::new(), "turn {turn}");
        assert!(rig.sent(1).iter().any(|frame| frame[12..16] == [0x81, 0, 0, 5] && frame[16..18] == [8, 0]));
        rig.request("interface del", json!({ "name": "right.5" })).unwrap();
    }
    rig.finish();
}

#[test]
fn what_is_wrong_with_an_interface_is_said_and_changes_nothing() {
    let rig = rig();
    let before = rig.show("interfaces");
    let wrong = |arguments| add(&rig, arguments).unwrap_err();
    let with = |key: &str, value: Value| {
        let mut arguments = json!({ "name": "right.5", "on": "right", "vlan": "5" });
        arguments[key] = value;
        arguments
    };
    for (arguments, told) in [
        (with("name", json!("right")), "there is an interface right already; `interface set` changes it"),
        (
            with("name", json!("5")),
            "\"5\" is not a name (a letter, then up to 31 letters, digits, -, _, . or :); write one such as lan.100",
        ),
        (with("on", json!("middle")), "\"middle\" is no port of this router; its ports are left, right"),
        (with("vlan", json!("0")), "vlan: \"0\" is not an integer from 1 to 4094"),
        (with("vlan", json!("4095")), "vlan: \"4095\" is not an integer from 1 to 4094"),
        (with("vlan", json!("100")), "right.5: interface \"right.100\" has the same tags on the same port"),
        (with("tpid", json!("0x0599")), "tpid: \"0x0599\" is not an integer from 1536 to 65535"),
        (
            with("tpid", json!("0x0800")),
            "tpid: announces what interfaces carry themselves, and not a tag; write another EtherType, such as 0x8100 or 0x88a8",
        ),
        (with("inner-tpid", json!("0x8100")), "inner_tpid: is that of no tag; write inner_vlan, or leave it out"),
        (
            with("mtu", json!("1501")),
            "mtu: 1501 is more than the MTU of port \"right\" behind these tags, which is 1500; give the port a larger one, or this a smaller one",
        ),
        (with("mtu", json!("67")), "mtu: \"67\" is not an integer from 68 to 9198"),
        (with("state", json!("on")), "state \"on\" is not allowed; write up or down"),
        (with("address", json!("10.0.0.7/24")), "10.0.0.7/24: interface left has the same network; choose another"),
        (with("address", json!(["10.9.0.1/24", "10.9.0.1/25"])), "10.9.0.1/25 is given twice; leave one out"),
        (
            json!({ "name": "lo1", "address": "10.9.0.1/24" }),
            "address: 10.9.0.1/24 is a network, and none is connected to a loopback; write 10.9.0.1/32",
        ),
        (json!({ "name": "lo1", "vlan": "5" }), "on: is missing: tags are those of packets on a port; name the port"),
        (
            json!({ "name": "x", "on": "right" }),
            "vlan is missing: interface right has the untagged packets of its port",
        ),
    ] {
        assert_eq!(wrong(arguments.clone()), told, "{arguments}");
    }
    let of_config = rig.request("interface del", json!({ "name": "right.100" })).unwrap_err();
    assert_eq!(of_config, "interface right.100 stands in the configuration; delete it there and reload");
    let nobody = rig.request("interface set", json!({ "name": "right.999", "state": "up" })).unwrap_err();
    assert_eq!(nobody, "there is no interface right.999; `show interfaces` lists them");
    // Of a list all or nothing.
    let list = json!([with("vlan", json!("5")), with("name", json!("right.6")), with("name", json!("right.7"))]);
    assert_eq!(
        add(&rig, list).unwrap_err(),
        "entry 2: right.6: interface \"right.5\" has the same tags on the same port"
    );
    assert_eq!(rig.show("interfaces"), before);
    rig.finish();
}

#[test]
fn thousands_come_and_go_while_packets_flow_by_others() {
    const ROUNDS: u32 = 40;
    const EACH: u32 = 50;
    let mut rig = rig();
    let mut sent = 0;
    let address = |n: u32| format!("10.{}.{}.1/24", 64 + n / 256, n % 256);
    for round in 0..ROUNDS {
        let names: Vec<String> = (0..EACH).map(|n| format!("right.x{n}")).collect();
        let fresh: Vec<Value> = names
            .iter()
            .zip(0..)
            .map(|(name, n)| {
                let vlan = (1000 + (round * EACH + n) % 2000).to_string();
                json!({ "name": name, "on": "right", "vlan": vlan, "address": address(n) })
            })
            .collect();
        add(&rig, fresh.into()).unwrap();
        let routes: Vec<Value> = (0..EACH)
            .map(|n| json!({ "prefix": format!("30.{n}.0.0/16"), "via": [address(n).replace(".1/24", ".9")] }))
            .collect();
        rig.request("route add", routes.into()).unwrap();
        for to in [&SIDES[1], &SIDES[2], &SIDES[4]] {
            let frame = from(&rig, &SIDES[0], to.host, &[1; 30]);
            (0..10).for_each(|_| rig.send(0, frame.clone()));
            sent += 10;
        }
        rig.settle();
        let gone: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        rig.request("interface del", gone.into()).unwrap();
        rig.settle();
    }
    let arrived = rig.sent_ip(1).len();
    assert_eq!(arrived, sent / 3, "what went out untagged");
    let row = |name: &str| rig.show("interfaces").into_iter().find(|row| row["name"] == name).unwrap();
    for name in ["right", "right.100", "right.7.9"] {
        assert!(row(name)["tx_packets"].as_u64().unwrap() >= (sent / 3) as u64, "{}", row(name));
    }
    assert_eq!(rig.show("interfaces").len(), SIDES.len() + 1);
    let drops = rig.drops();
    assert_eq!(drops, Default::default(), "nothing was lost");
    rig.finish();
}
