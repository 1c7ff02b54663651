//! Samples of flows: what is told of each packet, against what the relay does with it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use common::{ACCESS, AFTR, INTERNET, PortSpec, Rig, four, framed, interface, six, two, udp, usual};
use serde_json::{Value, json};
use weir_rig::{interface_id, waiting_samples};
use weir_stage::{InterfaceInfo, Output, Random};

/// The relay of these tests has two routers on each side, which share the traffic, the second of each behind a VLAN.
fn config(sample: u32) -> Value {
    let mut config = usual();
    // One has an address alone, the others parts of addresses.
    let softwires = (1..60_u16).map(|n| match n % 3 {
        0 => json!({ "ipv4": format!("203.0.113.{n}"), "b4": format!("2001:db8:c::{n:x}") }),
        psid => json!({ "ipv4": format!("203.0.113.{n}"), "psid": psid, "psid_length": 2, "b4": format!("2001:db8:c::{n:x}"), "aftr": AFTR }),
    });
    config["softwires"] = softwires.collect();
    config["routes"] = json!({
        "0.0.0.0/0": ["192.0.2.9", "192.0.3.9"], "2001:db8:c::/48": ["2001:db8:f::9", "2001:db8:e::9"],
        "198.51.100.128/25": "blackhole",
    });
    config["neighbors"] = json!({
        "192.0.2.9": "02:00:00:00:02:01", "192.0.3.9": "02:00:00:00:02:03",
        "2001:db8:f::9": "02:00:00:00:02:02", "2001:db8:e::9": "02:00:00:00:02:04",
    });
    config["flow_export"] = json!({ "collector": "127.0.0.1:6343", "protocol": "sflow", "sample": sample });
    config
}

fn interfaces() -> Vec<InterfaceInfo> {
    vec![
        interface("internet.10", "internet", 10, &["192.0.3.1/24"]),
        interface("access.20", "access", 20, &["2001:db8:e::1/64"]),
    ]
}

fn rig(config: Value) -> Rig {
    let rig = Rig::with(&two(), interfaces(), config);
    waiting_samples(&*rig.instance);
    rig
}

/// Where a frame went, as who saw it leave tells it: interface, next hop, VLAN.
fn seen(port: usize, frame: &[u8]) -> (&'static str, IpAddr, u16) {
    let (name, vlan, l3) = match (port, frame[12] == 0x81) {
        (INTERNET, false) => ("internet", 0, 14),
        (INTERNET, true) => ("internet.10", 10, 18),
        (_, false) => ("access", 0, 14),
        (_, true) => ("access.20", 20, 18),
    };
    let packet = &frame[l3..];
    // In a tunnel the next hop of the packet inside is the other end; all else goes to the router of that link.
    let next_hop = match packet[0] >> 4 {
        6 => IpAddr::from(<[u8; 16]>::try_from(&packet[24..40]).unwrap()),
        _ => IpAddr::from([192, 0, if vlan == 0 { 2 } else { 3 }, 9]),
    };
    (name, next_hop, vlan)
}

/// The bytes by which a packet is found again wherever it leaves: its datagram.
fn is_in(frame: &[u8], datagram: &[u8]) -> bool {
    frame.windows(datagram.len()).any(|bytes| bytes == datagram)
}

/// Packets of all kinds, each with whether it was told as it was, or without the tunnel around it.
fn any(random: &mut Random, n: u16) -> (usize, Vec<u8>, Vec<u8>) {
    let datagram = |from: u16, to: u16| udp(from, to, 40);
    let (softwire, port) = (1 + random.below(63), random.next() as u16);
    let (shared, host) = (format!("203.0.113.{softwire}"), format!("198.51.100.{}", n % 256));
    let other = format!("203.0.113.{}", 1 + random.below(62));
    let b4 = format!("2001:db8:c::{softwire:x}");
    let tunnel = |inner: &[u8]| six(&b4, AFTR, 4, 64, inner);
    match random.below(8) {
        0..=2 => {
            let (inner, said) = (four(&host, &shared, 17, 64, &datagram(n, port)), datagram(n, port));
            (INTERNET, inner, said)
        }
        3..=5 => (ACCESS, tunnel(&four(&shared, &host, 17, 64, &datagram(port, n))), datagram(port, n)),
        6 => (ACCESS, tunnel(&four(&shared, &other, 17, 64, &datagram(port, n))), datagram(port, n)),
        _ => (INTERNET, four("10.9.9.9", &host, 17, 64, &datagram(n, port)), datagram(n, port)),
    }
}

/// What leaves is what is told, for whichever of several routers; what the relay does not let on is told as such where the packet itself says so.
#[test]
fn samples_say_what_the_relay_does() {
    let mut rig = rig(config(1));
    let mut random = Random::new(7);
    let (mut left, mut stopped, mut inside) = (0, 0, 0);
    for n in 0..3000 {
        let (port, packet, datagram) = any(&mut random, n);
        let sent = rig.pass(port, std::slice::from_ref(&packet));
        let samples = waiting_samples(&*rig.instance);
        assert_eq!(samples.len(), 1, "{n}");
        let sample = &samples[0];
        // The IPv4 packet is what is told, from its first byte on.
        let is_tunnel = packet[0] >> 4 == 6;
        let expected = if is_tunnel { &packet[40..] } else { &packet[..] };
        let kept = expected.len().min(sample.packet().len());
        assert_eq!((&sample.packet()[..kept], kept), (expected, expected.len()), "{n}");
        assert_eq!((usize::from(sample.stripped), sample.l3), if is_tunnel { (54, 0) } else { (0, 14) });
        assert_eq!(
            (sample.len as usize, sample.input),
            (14 + packet.len(), interface_id(&*rig.instance, ["internet", "access"][port]))
        );
        inside += usize::from(is_tunnel);
        // ICMP quotes packets, but not to where they went.
        let whole = |frame: &&Vec<u8>| is_in(frame, &datagram) && frame.len() >= 14 + expected.len() && !quotes(frame);
        let found: Vec<_> = [INTERNET, ACCESS]
            .into_iter()
            .flat_map(|port| sent[port].iter().filter(whole).map(move |frame| seen(port, frame)))
            .collect();
        match (found.as_slice(), sample.hop.output) {
            ([(name, next_hop, vlan)], Output::Interface(id)) => {
                assert_eq!(
                    (id, sample.hop.next_hop),
                    (interface_id(&*rig.instance, name), Some(*next_hop)),
                    "{n}: {packet:x?}"
                );
                assert_eq!((sample.hop.vlans, sample.hop.vrf), ([*vlan, 0], 0));
                left += 1;
            }
            ([], Output::Nowhere) => stopped += 1,
            // The source of what came from a customer is looked at by the relay alone.
            ([], Output::Interface(_)) if is_tunnel => stopped += 1,
            other => panic!("{n}: {other:?} of {packet:x?}"),
        }
    }
    assert!(left > 800 && stopped > 500 && inside > 1000, "{left} {stopped} {inside}");
    rig.finish();
}

/// Whether a frame has an ICMP message in it, of either version, or in a tunnel.
fn quotes(frame: &[u8]) -> bool {
    let packet = &frame[if frame[12] == 0x81 { 18 } else { 14 }..];
    match (packet[0] >> 4, packet[6]) {
        (6, 4) => packet[40 + 9] == 1,
        (6, next) => next == 58,
        _ => packet[9] == 1,
    }
}

#[test]
fn what_is_not_the_relays_is_told_as_a_router_tells_it() {
    let mut rig = rig(config(1));
    let mut fragment = four("198.51.100.3", "203.0.113.1", 17, 64, &udp(1, 2, 40));
    fragment[6..8].copy_from_slice(&[0, 9]);
    weir_wire::ipv4::write_checksum(&mut fragment[..20]);
    let mut whole = fragment.clone();
    whole[19] = 3;
    weir_wire::ipv4::write_checksum(&mut whole[..20]);
    let tunnel = |inner: &[u8]| six("2001:db8:c::1", AFTR, 4, 64, inner);
    let cases: [(usize, Vec<u8>, Option<Output>); 8] = [
        // A later fragment has no ports: only where one has the address alone is it known whose it is.
        (INTERNET, fragment, Some(Output::Unknown)),
        (INTERNET, whole, None),
        (INTERNET, four("198.51.100.3", "192.0.2.1", 17, 64, &udp(1, 2, 9)), Some(Output::Here)),
        (ACCESS, six("2001:db8:c::1", AFTR, 17, 64, &udp(1, 2, 9)), Some(Output::Here)),
        (ACCESS, six("2001:db8:c::1", "2001:db8:77::1", 17, 64, &udp(1, 2, 9)), Some(Output::Nowhere)),
        (INTERNET, four("198.51.100.3", "198.51.100.200", 17, 64, &udp(1, 2, 9)), Some(Output::Nowhere)),
        (ACCESS, tunnel(&four("203.0.113.3", "198.51.100.200", 17, 64, &udp(1, 2, 9))), Some(Output::Nowhere)),
        // What is in the tunnel is cut off: the frame is told.
        (ACCESS, tunnel(&[0x45; 9]), Some(Output::Here)),
    ];
    for (port, packet, output) in cases {
        rig.pass(port, std::slice::from_ref(&packet));
        let samples = waiting_samples(&*rig.instance);
        let hop = samples[0].hop;
        match output {
            Some(output) => assert_eq!(hop.output, output, "{packet:x?}"),
            None => assert_eq!(hop.next_hop, Some("2001:db8:c::3".parse().unwrap()), "{packet:x?}"),
        }
        let is_inside = packet[0] >> 4 == 6 && packet[6] == 4 && packet.len() > 60;
        assert_eq!(samples[0].stripped, if is_inside { 54 } else { 0 });
    }
    rig.finish();
}

/// Each side in a VRF of its own, tags in front, extension headers in between: what is inside is found all the same, and VRFs are told.
#[test]
fn sides_in_vrfs_and_extension_headers() {
    let ports: Vec<PortSpec> = two().into_iter().map(|port| PortSpec { addresses: Vec::new(), ..port }).collect();
    let inside = |vrf: &str, one: InterfaceInfo| InterfaceInfo { vrf: Some(vrf.to_owned()), ..one };
    let interfaces = vec![
        inside("outside", interface("out", "internet", 10, &["192.0.2.1/24"])),
        inside("inside", interface("in", "access", 20, &["2001:db8:f::1/64"])),
    ];
    let mut config = config(1);
    ["routes", "neighbors"].into_iter().for_each(|key| drop(config.as_object_mut().unwrap().remove(key)));
    (config["ipv4"], config["ipv6"]) = (json!({ "vrf": "outside" }), json!({ "vrf": "inside" }));
    config["vrfs"] = json!({
        "outside": { "routes": { "0.0.0.0/0": "192.0.2.9" }, "neighbors": { "192.0.2.9": "02:00:00:00:02:01" } },
        "inside": { "routes": { "2001:db8:c::/48": "2001:db8:f::9" }, "neighbors": { "2001:db8:f::9": "02:00:00:00:02:02" } },
    });
    let mut rig = Rig::with(&ports, interfaces, config);
    waiting_samples(&*rig.instance);
    let [outside, inside] = ["outside", "inside"].map(|name| {
        let vrfs = rig.instance.flow_source().unwrap().vrfs();
        vrfs.iter().position(|vrf| vrf == name).unwrap() as u16
    });
    let tagged = |port: usize, vlan: u8, packet: &[u8]| {
        let mut frame = framed(port, packet);
        frame.splice(12..12, [0x81, 0, 0, vlan]);
        frame
    };
    let inner = four("203.0.113.3", "198.51.100.3", 17, 64, &udp(5, 6, 9));
    // A destination options header of 24 bytes.
    let options = [&[4, 2, 1, 20][..], &[0; 20], &inner].concat();
    rig.pass_frames(ACCESS, vec![tagged(ACCESS, 20, &six("2001:db8:c::3", AFTR, 60, 64, &options))]);
    let sample = waiting_samples(&*rig.instance)[0];
    assert_eq!((sample.stripped, sample.packet()), (18 + 40 + 24, inner.as_slice()));
    assert_eq!((sample.vrf, sample.vlans, sample.hop.vrf, sample.hop.vlans), (inside, [20, 0], outside, [10, 0]));
    assert_eq!(sample.hop.next_hop, Some(Ipv4Addr::new(192, 0, 2, 9).into()));
    rig.pass_frames(INTERNET, vec![tagged(INTERNET, 10, &four("198.51.100.3", "203.0.113.3", 17, 64, &udp(6, 5, 9)))]);
    let sample = waiting_samples(&*rig.instance)[0];
    assert_eq!((sample.vrf, sample.vlans, sample.hop.vrf, sample.hop.vlans), (outside, [10, 0], inside, [20, 0]));
    let b4: Ipv6Addr = "2001:db8:c::3".parse().unwrap();
    // The relay's routes are joined: one is for 203.0.113.2 and this.
    assert_eq!((sample.hop.next_hop, sample.hop.destination_len), (Some(b4.into()), 31));
    rig.finish();
}

/// Where several workers relay, each takes samples of what it has; the key comes and goes with a relay that is built anew.
#[test]
fn workers_take_samples_and_the_key_comes_and_goes() {
    let mut without = config(1);
    without.as_object_mut().unwrap().remove("flow_export");
    let mut rig = Rig::on(3, &two(), interfaces(), without.clone());
    let names = |rig: &Rig| -> Vec<String> {
        rig.instance.sketch(0).unwrap().nodes().iter().map(|node| node.name.clone()).collect()
    };
    assert!(names(&rig).iter().all(|name| !name.contains("sample")), "{:?}", names(&rig));
    let wrong = rig.instance.show("collectors", None, 0).err().unwrap().0;
    assert!(wrong.contains("docs/flow-export.md"), "{wrong}");
    rig.rebuild(&config(4));
    assert!(names(&rig).contains(&"lwaftr.sample".to_owned()));
    rig.settle();
    waiting_samples(&*rig.instance);
    let before = rig.show("collectors", None)[0].clone();
    let packets: Vec<Vec<u8>> = (0..600)
        .map(|n| four("198.51.100.3", &format!("203.0.113.{}", 3 * (1 + n % 19)), 17, 64, &udp(n, 9, 9)))
        .collect();
    packets.chunks(100).for_each(|some| drop(rig.pass(INTERNET, some)));
    let samples = waiting_samples(&*rig.instance);
    let row = &rig.show("collectors", None)[0];
    let passed = row["packets"].as_u64().unwrap() - before["packets"].as_u64().unwrap();
    assert_eq!((passed, &row["lost"]), (600, &json!(0)));
    // One of each four of each worker, rounded either way.
    assert!(samples.len().abs_diff(150) <= 3, "{}", samples.len());
    assert!(samples.iter().all(|sample| matches!(sample.hop.output, Output::Interface(_))));
    rig.reload(&config(1));
    packets[..100].chunks(50).for_each(|some| drop(rig.pass(INTERNET, some)));
    assert_eq!(waiting_samples(&*rig.instance).len(), 100);
    let told = common::wrong(
        &{
            let mut config = usual();
            config["flow_export"] =
                json!({ "collector": "127.0.0.1:6343", "protocol": "sflow", "interfaces": ["acces"] });
            config
        },
        None,
    );
    assert!(told[0].contains("there is no interface \"acces\"") && told[0].contains("internet"), "{told:?}");
    rig.finish();
}
