//! Frames at random against a slow model of forwarding by IEEE 802.1Q: the same come out of the same ports.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::collections::BTreeMap;

use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A port of the model.
#[derive(Clone, Debug)]
struct Port {
    /// The VLAN of untagged frames.
    vlan: Option<u16>,
    tagged: Vec<u16>,
    accept: &'static str,
    isolated: bool,
    learn: bool,
}

#[derive(Clone, Debug)]
struct Model {
    /// The TPID that it is aware of.
    tpid: Option<u16>,
    ports: Vec<Port>,
    known: BTreeMap<(u16, [u8; 6]), usize>,
}

impl Model {
    fn keys(&self) -> Value {
        let port = |port: &Port| {
            let mut keys = json!({ "isolated": port.isolated, "learn": port.learn });
            if self.tpid.is_some() {
                keys["accept"] = json!(port.accept);
                keys["vlan"] = json!(port.vlan);
                if !port.tagged.is_empty() {
                    let all: Vec<String> = port.tagged.iter().map(ToString::to_string).collect();
                    keys["tagged"] = json!(all.join(","));
                }
            }
            keys
        };
        let ports: serde_json::Map<String, Value> =
            PORTS.iter().zip(&self.ports).map(|(name, one)| ((*name).to_owned(), port(one))).collect();
        let tagging = match self.tpid {
            None => "none",
            Some(0x8100) => "802.1q",
            Some(_) => "802.1ad",
        };
        json!({ "ports": ports, "tagging": tagging })
    }

    /// The ingress rules: the VLAN of a frame, the priority bits of its tag if it has one, and what follows.
    fn classify(&self, port: &Port, frame: &[u8]) -> Option<(u16, Option<u16>, Vec<u8>)> {
        let Some(tpid) = self.tpid else { return Some((0, None, frame[12..].to_vec())) };
        let is_tagged = frame[12..14] == tpid.to_be_bytes();
        let (vid, priority, rest) = match is_tagged {
            true => {
                let tci = u16::from_be_bytes([frame[14], frame[15]]);
                (tci & 0xfff, Some(tci & 0xf000), frame[16..].to_vec())
            }
            false => (0, None, frame[12..].to_vec()),
        };
        let takes = match port.accept {
            "tagged" => vid != 0,
            "untagged" => vid == 0,
            _ => true,
        };
        let vlan = if vid == 0 { port.vlan? } else { vid };
        let is_member = port.vlan == Some(vlan) || port.tagged.contains(&vlan);
        (takes && is_member).then_some((vlan, priority, rest))
    }

    fn pass(&mut self, from: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let (to, source): ([u8; 6], [u8; 6]) = (frame[..6].try_into().unwrap(), frame[6..12].try_into().unwrap());
        let is_kept = to[..5] == [1, 0x80, 0xc2, 0, 0] && to[5] < 16;
        let ingress = self.ports[from].clone();
        if source[0] & 1 == 1 || source == [0; 6] || is_kept {
            return Vec::new();
        }
        let Some((vlan, priority, rest)) = self.classify(&ingress, frame) else { return Vec::new() };
        if ingress.learn {
            self.known.insert((vlan, source), from);
        }
        let known = self.known.get(&(vlan, to)).filter(|_| to[0] & 1 == 0).copied();
        let is_member = |port: &Port| self.tpid.is_none() || port.vlan == Some(vlan) || port.tagged.contains(&vlan);
        let mut out = Vec::new();
        for (number, port) in self.ports.iter().enumerate() {
            let may = number != from && is_member(port) && !(port.isolated && ingress.isolated);
            if !may || known.is_some_and(|known| known != number) {
                continue;
            }
            let tag = match self.tpid.filter(|_| port.tagged.contains(&vlan)) {
                Some(tpid) => [tpid.to_be_bytes(), (priority.unwrap_or(0) | vlan).to_be_bytes()].concat(),
                None => Vec::new(),
            };
            out.push((number, [&to[..], &source[..], &tag[..], &rest[..]].concat()));
        }
        out
    }
}

fn port() -> impl Strategy<Value = Port> {
    let vlan = proptest::option::weighted(0.7, 1_u16..5);
    let tagged = proptest::collection::btree_set(1_u16..5, 0..4);
    let words = (0_u8..6, prop::bool::weighted(0.3), prop::bool::weighted(0.9));
    (vlan, tagged, words).prop_map(|(vlan, tagged, (accept, isolated, learn))| {
        let tagged: Vec<u16> = tagged.into_iter().filter(|one| Some(*one) != vlan).collect();
        let vlan = if tagged.is_empty() { vlan.or(Some(1)) } else { vlan };
        let accept = match accept {
            0 if !tagged.is_empty() => "tagged",
            1 if vlan.is_some() => "untagged",
            _ => "all",
        };
        Port { vlan, tagged, accept, isolated, learn }
    })
}

fn address() -> impl Strategy<Value = [u8; 6]> {
    prop_oneof![
        12 => (0_u8..6).prop_map(mac),
        2 => Just(BROADCAST),
        1 => Just([1, 0, 0x5e, 1, 2, 3]),
        1 => Just([0x33, 0x33, 0, 0, 0, 1]),
        1 => (0_u8..18).prop_map(|last| [1, 0x80, 0xc2, 0, 0, last]),
        1 => Just([0; 6]),
    ]
}

fn tags() -> impl Strategy<Value = Vec<(u16, u16)>> {
    let tpid = prop_oneof![4 => Just(0x8100_u16), 3 => Just(0x88a8), 1 => Just(0x9100)];
    let tag = (tpid, 0_u16..6, 0_u16..16).prop_map(|(tpid, vlan, high)| (tpid, vlan | high << 12));
    proptest::collection::vec(tag, 0..3)
}

fn a_frame() -> impl Strategy<Value = Vec<u8>> {
    (address(), address(), any::<u32>(), tags()).prop_map(|(to, from, n, tags)| tagged(frame(to, from, n), &tags))
}

/// A frame within a train.
#[derive(Clone, Debug)]
enum Within {
    Same,
    /// From and to the same stations, with other tags.
    Tagged(Vec<(u16, u16)>),
    Other(Vec<u8>),
}

/// Frames that come at once: any, or a train between two stations, with others in between.
fn burst() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let within = prop_oneof![
        5 => Just(Within::Same),
        1 => tags().prop_map(Within::Tagged),
        1 => a_frame().prop_map(Within::Other),
    ];
    let within = proptest::collection::vec(within, 1..40);
    let train = (address(), address(), tags(), within).prop_map(|(to, from, tags, mut within)| {
        // It is taken for a train by its first two.
        within.splice(0..0, [Within::Same, Within::Same]);
        let frame = |one| match one {
            Within::Same => tagged(frame(to, from, 0), &tags),
            Within::Tagged(tags) => tagged(frame(to, from, 0), &tags),
            Within::Other(frame) => frame,
        };
        within.into_iter().map(frame).collect()
    });
    prop_oneof![2 => proptest::collection::vec(a_frame(), 1..20), 1 => train]
}

fn model() -> impl Strategy<Value = Model> {
    let tpid = prop_oneof![1 => Just(None), 3 => Just(Some(0x8100_u16)), 2 => Just(Some(0x88a8))];
    (tpid, proptest::collection::vec(port(), 1..=6)).prop_map(|(tpid, ports)| Model {
        tpid,
        ports,
        known: BTreeMap::new(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]
    #[test]
    fn the_same_frames_come_out(
        model in model(),
        bursts in proptest::collection::vec((any::<usize>(), burst()), 1..12),
    ) {
        let mut model = model;
        let mut rig = bridge(model.keys());
        for (port, frames) in &bursts {
            let port = port % model.ports.len();
            let mut due = vec![Vec::new(); PORTS.len()];
            for frame in frames {
                model.pass(port, frame).into_iter().for_each(|(to, frame)| due[to].push(frame));
            }
            let mut out = rig.pass(port, frames);
            due.iter_mut().chain(&mut out).for_each(|frames| frames.sort());
            prop_assert_eq!(out, due);
        }
        // What is known is the same, too.
        let rows = rig.show("macs", None);
        let known: BTreeMap<(u16, String), String> = rows.iter().map(|row| {
            let vlan = row["vlan"].as_u64().unwrap_or(0) as u16;
            ((vlan, row["mac"].as_str().unwrap().to_owned()), row["port"].as_str().unwrap().to_owned())
        }).collect();
        let text = |mac: &[u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        let due = model.known.iter().map(|((vlan, mac), port)| ((*vlan, text(mac)), PORTS[*port].to_owned())).collect();
        prop_assert_eq!(known, due);
        prop_assert_eq!(rig.gauge("bridge_macs"), model.known.len() as f64);
        rig.finish();
    }
}

/// Known ways of frames with tags, one by one, as IEEE 802.1Q sections 6.9 and 8.6 have them.
#[test]
fn tags_come_and_go_by_the_rules() {
    let mut rig = bridge(json!({ "tagging": "802.1q", "ports": {
        "a": { "vlan": 10 },
        "b": { "vlan": 10, "tagged": "20,30" },
        "c": { "tagged": "10,20" },
        "d": { "vlan": 20 },
    } }));
    let plain = frame(BROADCAST, mac(1), 7);
    // An access port's frame: untagged where VLAN 10 is native, with a tag on the trunk.
    let out = rig.pass(0, std::slice::from_ref(&plain));
    assert_eq!(
        (&out[1], &out[2], out[3].len()),
        (&vec![plain.clone()], &vec![tagged(plain.clone(), &[(0x8100, 10)])], 0)
    );
    // The priority of a tag stays from trunk to trunk, and a tag of another kind is payload.
    let inner = tagged(plain.clone(), &[(0x88a8, 5)]);
    let out = rig.pass(2, &[tagged(inner.clone(), &[(0x8100, 0xb014)])]);
    assert_eq!((out[0].len(), &out[1], &out[3]), (0, &vec![tagged(inner.clone(), &[(0x8100, 0xb014)])], &vec![inner]));
    // A tag of a priority alone: the native VLAN, in which it keeps its priority.
    let out = rig.pass(0, &[tagged(plain.clone(), &[(0x8100, 0xa000)])]);
    assert_eq!((&out[1], &out[2]), (&vec![plain.clone()], &vec![tagged(plain.clone(), &[(0x8100, 0xa00a)])]));
    for (port, tags, reason) in [
        (0, &[(0x8100, 20)][..], "not-in-vlan"),
        (0, &[(0x8100, 4095)], "not-in-vlan"),
        (2, &[], "tag-not-accepted"),
        (2, &[(0x8100, 0)], "tag-not-accepted"),
    ] {
        let before = rig.drops().get(&format!("bridge.forward/{reason}")).copied().unwrap_or(0);
        assert_eq!(rig.ways(port, tagged(plain.clone(), tags)), "");
        assert_eq!(rig.drops()[&format!("bridge.forward/{reason}")], before + 1, "{tags:x?}");
    }
    rig.finish();
}

/// Within a train between two stations, a frame in another VLAN goes its own way.
#[test]
fn a_train_ends_where_a_frame_is_another_one() {
    let mut rig = bridge(json!({ "tagging": "802.1q", "ports": {
        "a": { "tagged": "1,2" },
        "b": { "tagged": "1,2" },
        "c": { "tagged": "1,2" },
    } }));
    let (from, to) = (mac(1), mac(2));
    let in_vlan = |vlan: u16, to, from, n| tagged(frame(to, from, n), &[(0x8100, vlan)]);
    // The station is behind one port in the one VLAN, and behind the other one in the other.
    rig.pass(1, &[in_vlan(1, from, to, 0)]);
    rig.pass(2, &[in_vlan(2, from, to, 0)]);
    let train: Vec<Vec<u8>> = (0..33).map(|n| in_vlan(if n % 5 == 3 { 2 } else { 1 }, to, from, n)).collect();
    for _ in 0..2 {
        let out = rig.pass(0, &train);
        let due = |vlan: u16| train.iter().filter(|frame| frame[15] == vlan as u8).cloned().collect::<Vec<_>>();
        // Until the sender is known in a VLAN its frames go the longer way, to the same ports.
        assert_eq!((out[0].len(), &out[1], &out[2]), (0, &due(1), &due(2)));
    }
    rig.finish();
}
