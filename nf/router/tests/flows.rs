//! Samples of flows: which packets are taken, and where they are said to go, against what the router does with them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use crate::common;

use std::collections::BTreeMap;

use common::acl_twin::Dice;
use common::sides::{C, tagged};
use common::six::udp6;
use common::*;
use serde_json::{Value, json};
use weir_rig::{interface_id, waiting_samples};
use weir_stage::{Exported, FlowHop, InterfaceInfo, Output};

const PORTS: &[PortSpec] = &[
    PortSpec("lan", &["10.0.0.1/24", "2001:db8:0::1/64"], 1500),
    PortSpec("wan", &["10.0.1.1/24", "2001:db8:1::1/64"], 1500),
    PortSpec("up", &["10.0.2.1/24", "2001:db8:2::1/64"], 1500),
];

fn config(sample: u32, interfaces: &[&str]) -> Value {
    json!({
        "neighbors": { "10.0.1.9": "02:00:00:00:01:09", "10.0.2.9": "02:00:00:00:02:09",
                       "2001:db8:1::9": "02:00:00:00:01:09", "2001:db8:2::9": "02:00:00:00:02:09" },
        "neighbor_timers": { "own_probes": 0 },
        "routes": { "203.0.113.0/24": ["10.0.1.9", "10.0.2.9"], "2001:db8:f::/48": ["2001:db8:1::9", "2001:db8:2::9"],
                    "192.0.2.0/24": "blackhole", "172.16.0.0/12": "10.0.0.9", "2001:db8:e::/48": "2001:db8::9" },
        "vrfs": { "blue": { "routes": { "203.0.113.0/24": "10.0.1.9%wan" } } },
        "flow_export": { "collector": "127.0.0.1:6343", "protocol": "sflow", "sample": sample, "interfaces": interfaces },
    })
}

fn rig(config: Value) -> Rig {
    let blue =
        InterfaceInfo { vrf: Some("blue".to_owned()), ..interface("lan.7", Some("lan"), &[(C, 7)], &["10.7.0.1/24"]) };
    let mut rig = Rig::with(PORTS, vec![blue], config);
    rig.run(5 * SECOND);
    waiting_samples(&*rig.instance);
    rig
}

fn number(frame: &[u8]) -> u16 {
    let ports = if frame[12] == 8 { 34 } else { 54 };
    u16::from_be_bytes([frame[ports], frame[ports + 1]])
}

fn udp(rig: &Rig, to: &str, number: u16) -> Vec<u8> {
    let mut frame = if to.contains(':') {
        udp6(rig, 0, "2001:db8:e::7", to, 9, 18)
    } else {
        rig.udp(0, "172.16.0.7", to).to_vec(&[0; 18])
    };
    let ports = if to.contains(':') { 54 } else { 34 };
    frame[ports..ports + 2].copy_from_slice(&number.to_be_bytes());
    frame
}

#[test]
fn samples_say_by_which_of_several_next_hops_packets_go() {
    let mut rig = rig(config(1, &[]));
    let ids: Vec<u16> = ["lan", "wan", "up"].map(|name| interface_id(&*rig.instance, name)).into();
    for (to, hops) in [("203.0.113.9", ["10.0.1.9", "10.0.2.9"]), ("2001:db8:f::9", ["2001:db8:1::9", "2001:db8:2::9"])]
    {
        (0..60).for_each(|n| rig.send(0, udp(&rig, to, n)));
        rig.settle();
        let mut went: BTreeMap<u16, usize> = BTreeMap::new();
        for port in [1, 2] {
            let frames: Vec<u16> = rig.sent(port).iter().map(|frame| number(frame)).collect();
            went.extend(frames.into_iter().filter(|n| *n < 60).map(|n| (n, port)));
        }
        let samples = waiting_samples(&*rig.instance);
        assert_eq!((samples.len(), went.len()), (60, 60));
        let lengths = if to.contains(':') { (48, 48) } else { (12, 24) };
        for sample in &samples {
            let port = went[&number(sample.head())];
            let hop = FlowHop {
                output: Output::Interface(ids[port]),
                vrf: 0,
                next_hop: Some(hops[port - 1].parse().unwrap()),
                vlans: [0; 2],
                source_len: lengths.0,
                destination_len: lengths.1,
            };
            assert_eq!((sample.hop, sample.input, sample.vrf, sample.vlans), (hop, ids[0], 0, [0; 2]));
        }
        assert!([1, 2].iter().all(|port| went.values().filter(|went| *went == port).count() > 10), "{went:?}");
    }
    rig.finish();
}

#[test]
fn samples_say_what_else_becomes_of_packets() {
    let mut rig = rig(config(1, &[]));
    let mut arp = vec![0; 60];
    arp[..6].fill(0xff);
    arp[12..14].copy_from_slice(&[8, 6]);
    let frames = [
        udp(&rig, "10.0.0.1", 1),
        udp(&rig, "192.0.2.1", 2),
        udp(&rig, "100.64.0.1", 3),
        udp(&rig, "10.0.1.77", 4),
        udp(&rig, "224.0.0.9", 5),
        arp,
        tagged(&udp(&rig, "203.0.113.9", 6), &[(C, 7)]),
    ];
    frames.iter().for_each(|frame| rig.send(0, frame.clone()));
    rig.settle();
    let samples = waiting_samples(&*rig.instance);
    let (wan, blue) = (Output::Interface(interface_id(&*rig.instance, "wan")), interface_id(&*rig.instance, "lan.7"));
    let outputs: Vec<Output> = samples.iter().map(|sample| sample.hop.output).collect();
    let expected = [Output::Here, Output::Nowhere, Output::Nowhere, wan, Output::Unknown, Output::Unknown, wan];
    assert_eq!(outputs, expected);
    assert_eq!(samples[3].hop.next_hop, None, "on the link");
    let last = samples.last().unwrap();
    assert_eq!((last.input, last.vlans, last.vrf, last.hop.vrf, last.l3), (blue, [7, 0], 1, 0, 18));
    assert_eq!(last.hop.destination_len, 24);
    assert!(samples.iter().zip(&frames).all(|(sample, frame)| sample.head() == frame.as_slice()));
    rig.finish();
}

/// Of each block of packets of an interface one is taken: a twin counts each interface's packets by itself.
#[test]
fn of_each_block_of_packets_of_an_interface_one_is_taken() {
    for rate in [1_u32, 3, 7, 100] {
        let mut rig = rig(config(rate, &["lan", "lan.7"]));
        let mut dice = Dice(u64::from(rate) + 1);
        let (mut sent, mut taken) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        let blue = interface_id(&*rig.instance, "lan.7");
        for n in 0..1500_u16 {
            let is_tagged = dice.below(3) == 0;
            let frame = udp(&rig, "203.0.113.9", n);
            rig.send(0, if is_tagged { tagged(&frame, &[(C, 7)]) } else { frame });
            sent[usize::from(is_tagged)].push(n);
            // Nobody looks at those.
            rig.send(1, rig.udp(1, "10.0.1.9", "10.0.0.7").to_vec(&[0; 18]));
            if dice.below(40) == 0 || n == 1499 {
                rig.settle();
                for sample in waiting_samples(&*rig.instance) {
                    let at = usize::from(sample.l3) + 20;
                    let number = u16::from_be_bytes([sample.head()[at], sample.head()[at + 1]]);
                    taken[usize::from(sample.input == blue)].push(number);
                }
            }
        }
        for (sent, taken) in sent.iter().zip(&taken) {
            let blocks: Vec<usize> =
                sent.chunks(rate as usize).map(|block| block.iter().filter(|n| taken.contains(n)).count()).collect();
            let (last, whole) = blocks.split_last().unwrap();
            assert!(whole.iter().all(|count| *count == 1) && *last <= 1, "one in {rate}: {blocks:?}");
            assert!(taken.is_sorted(), "in their order");
        }
        let row = &rig.show("collectors")[0];
        let all = (sent[0].len() + sent[1].len(), taken[0].len() + taken[1].len());
        assert_eq!((&row["packets"], &row["samples"], &row["lost"]), (&json!(all.0), &json!(all.1), &json!(0)));
        rig.finish();
    }
}

#[test]
fn samples_that_nobody_takes_are_counted_and_no_packet_suffers() {
    let mut rig = rig(config(1, &[]));
    for n in 0..5000_u16 {
        rig.send(0, udp(&rig, "203.0.113.9", n));
        if n % 500 == 499 {
            rig.settle();
        }
    }
    assert_eq!(rig.sent_ip(1).len() + rig.sent_ip(2).len(), 5000);
    let samples = waiting_samples(&*rig.instance);
    let row = &rig.show("collectors")[0];
    assert_eq!((samples.len(), &row["packets"], &row["lost"]), (4096, &json!(5000), &json!(904)));
    assert_eq!((samples[0].pool, samples[0].lost), (5000, 904));
    let collector = "127.0.0.1:6343".parse().unwrap();
    let exported = Exported { collector, datagrams: 7, bytes: 700, unsent: 2, why: Some("no".to_owned()) };
    rig.instance.flow_source().unwrap().set_exported(&[exported], 3);
    let row = &rig.show("collectors")[0];
    assert_eq!(
        (&row["datagrams"], &row["unsent"], &row["why"], &row["flows"]),
        (&json!(7), &json!(2), &json!("no"), &json!(3))
    );
    let gauges: BTreeMap<_, _> = rig.instance.gauges().into_iter().map(|(name, _, value)| (name, value)).collect();
    assert_eq!(
        (gauges["flow_samples"], gauges["flow_samples_lost"], gauges["flow_datagrams_unsent"]),
        (4096.0, 904.0, 2.0)
    );
    rig.finish();
}

#[test]
fn a_rate_changes_while_packets_flow() {
    let mut rig = rig(config(1_000_000, &[]));
    let pass = |rig: &mut Rig| {
        (0..400).for_each(|n| rig.send(0, udp(rig, "203.0.113.9", n)));
        rig.settle();
        waiting_samples(&*rig.instance).len()
    };
    assert!(pass(&mut rig) <= 1);
    rig.reload(&config(4, &[]));
    assert_eq!(pass(&mut rig), 100);
    rig.reload(&config(4, &["wan"]));
    assert_eq!(pass(&mut rig), 0);
    rig.request("interface add", json!({ "name": "lan.9", "on": "lan", "vlan": "9", "address": ["10.9.0.1/24"] }))
        .unwrap();
    rig.reload(&config(2, &[]));
    rig.send(0, tagged(&udp(&rig, "203.0.113.9", 1), &[(C, 9)]));
    rig.send(0, tagged(&udp(&rig, "203.0.113.9", 2), &[(C, 9)]));
    rig.settle();
    assert_eq!(waiting_samples(&*rig.instance).len(), 1, "an interface that came later");
    rig.finish();
}

#[test]
fn what_cannot_be_exported_is_told() {
    let told = |change: &dyn Fn(&mut Value)| -> Vec<String> {
        let mut config = config(1, &[]);
        change(&mut config["flow_export"]);
        build(PORTS, &config).err().unwrap().iter().map(ToString::to_string).collect()
    };
    let all = told(&|export| (export["interfaces"], export["source"]) = (json!(["lna", "wan"]), json!("2001:db8::1")));
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].contains("interfaces[1]") && all[0].contains("there is no interface \"lna\""), "{all:?}");
    assert!(all[1].contains("127.0.0.1:6343, which is of the other family"), "{all:?}");
    assert!(told(&|export| export["collector"] = json!("127.0.0.1"))[0].contains("write 127.0.0.1:6343"));
    assert!(told(&|export| export["sample"] = json!(0))[0].contains("sample"));
    let mut config = config(1, &[]);
    config.as_object_mut().unwrap().remove("flow_export");
    let rig = Rig::new(PORTS, config);
    let wrong = rig.instance.show("collectors", None, 0).err().unwrap();
    assert!(wrong.0.contains("docs/flow-export.md"), "{wrong:?}");
    rig.finish();
}
