//! Any bytes: nothing panics, every frame is accounted for, and buffers may run out.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use proptest::prelude::*;
use serde_json::json;

fn keys(tagging: &str) -> serde_json::Value {
    let ports = match tagging {
        "none" => json!({ "a": {}, "b": {}, "c": {} }),
        _ => {
            json!({ "a": { "vlan": 1, "tagged": "2-4094" }, "b": { "vlan": 2, "tagged": "1" }, "c": { "tagged": "1-3" } })
        }
    };
    let mut querier = json!({ "enabled": true, "interval": "2s", "response": "1s" });
    if tagging != "none" {
        querier["vlans"] = json!("1-3");
    }
    json!({ "tagging": tagging, "ports": ports, "snooping": { "enabled": true, "querier": querier }, "control_frames": "all",
            "limits": { "macs": 20, "groups": 3 } })
}

/// The beginnings of frames that are looked into.
fn start() -> impl Strategy<Value = Vec<u8>> {
    let igmp = vec![1, 0, 0x5e, 1, 2, 3, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 1, 2];
    let mld = [
        &[0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 36, 0, 1, 0xfe, 0x80][..],
        &[0; 14],
        &[0xff, 2],
        &[0; 13],
        &[1],
        &[58, 0, 5, 2, 0, 0, 1, 0, 143, 0],
    ]
    .concat();
    let tag = vec![0xff; 12].into_iter().chain([0x81, 0]).collect::<Vec<u8>>();
    prop_oneof![Just(Vec::new()), Just(igmp), Just(mld), Just(tag)]
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    (start(), proptest::collection::vec(any::<u8>(), 0..100), any::<bool>(), any::<usize>()).prop_map(
        |(start, rest, tag, cut)| {
            let mut frame = [start, rest].concat();
            if tag && frame.len() > 12 {
                frame = tagged(frame, &[(0x8100, 1)]);
            }
            frame.truncate(if cut % 4 == 0 { cut / 4 % (frame.len() + 1) } else { frame.len() });
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_accounted_for(
        tagging in prop_oneof![Just("none"), Just("802.1q"), Just("802.1ad")],
        frames in proptest::collection::vec((0_usize..3, any_frame()), 1..120),
    ) {
        let mut rig = bridge(keys(tagging));
        for (port, frame) in frames {
            rig.send(port, frame);
        }
        rig.run(10 * SECOND);
        rig.finish();
    }
}

/// A flood to more ports than there are buffers for: the frames themselves go, and what is missing is counted.
#[test]
fn copies_that_cannot_be_made_are_counted() {
    let mut rig = Rig::with_buffers(
        &weir_bridge::Bridge,
        json!({ "ports": { "a": {}, "b": {}, "c": {}, "d": {}, "e": {}, "f": {} } }),
        100,
    );
    let frames: Vec<Vec<u8>> = (0..600).map(|n| frame(BROADCAST, mac(1), n)).collect();
    let out = rig.pass(0, &frames);
    let copies: usize = out[2..].iter().map(Vec::len).sum();
    assert_eq!(out[1].len(), 600);
    assert!(copies < 2400 && rig.gauge("bridge_copies_missed") > 0.0);
    rig.finish();
}
