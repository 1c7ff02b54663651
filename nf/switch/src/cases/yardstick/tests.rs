//! The yardstick against the switch: by the same flows and groups, the same becomes of any frame.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::cell::RefCell;

use proptest::prelude::*;
use serde_json::json;
use weir_packet::Slot;
use weir_rig::Rig;
use weir_stage::harness::Harness;

use super::*;
use crate::cases::{fill, paper, table};
use crate::function::Running;
use crate::{Switch, forward::Forward};

/// Prefixes of the router.
const PREFIXES: usize = 500;

/// IPv4 with a header of so many words, and up to 30 bytes behind it.
fn ipv4(destination: u32, ttl: u8, words: u8, length: usize) -> Vec<u8> {
    let mut packet = vec![0x40 | words, 0, 0, 60, 0, 1, 0, 0, ttl, 17, 0x12, 0x34, 192, 0, 2, 1];
    packet.extend(destination.to_be_bytes());
    packet.resize(20 + length % 64, 7);
    packet
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let known = (0..PREFIXES, any::<u8>())
        .prop_map(|(n, host)| table(PREFIXES).get(n).map_or(0, |(prefix, _)| prefix | u32::from(host)));
    let to = prop_oneof![8 => known, 1 => any::<u32>()];
    let kind = prop_oneof![12 => Just(0x0800_u16), 1 => Just(0x86dd), 1 => Just(0x0806), 1 => any::<u16>()];
    let tag = || prop_oneof![4 => Just(None), 1 => any::<u16>().prop_map(|tag| Some((0x8100_u16, tag))), 1 => Just(Some((0x88a8, 0)))];
    let ttl = prop_oneof![0..4_u8, any::<u8>()];
    let words = prop_oneof![12 => Just(5_u8), 1 => 0..16_u8];
    let cut = prop_oneof![4 => Just(usize::MAX), 1 => 0..80_usize];
    (to, kind, (tag(), tag(), tag()), ttl, words, 0..64_usize, cut).prop_map(
        |(to, kind, (one, two, three), ttl, words, length, cut)| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            for (kind, tag) in [one, two, three].into_iter().flatten() {
                frame.extend([kind.to_be_bytes(), tag.to_be_bytes()].concat());
            }
            frame.extend(kind.to_be_bytes());
            frame.extend(ipv4(to, ttl, words, length));
            frame.truncate(cut);
            frame
        },
    )
}

#[test]
fn the_same_becomes_of_frames_as_by_the_switch() {
    let rig = Rig::new(&Switch, json!({ "ports": ["a", "b", "c"], "fail": "secure" }));
    let (groups, flows) = paper::router(&table(PREFIXES), 0).unwrap();
    fill(&*rig.instance, |switch| {
        groups.iter().try_for_each(|group| switch.group_mod(group, 0).map(drop))?;
        flows.iter().try_for_each(|flow| switch.flow_mod(flow, 0).map(drop))
    })
    .unwrap();
    let running = rig.instance.downcast_ref::<Running>().unwrap();
    let switch = Harness::new(Forward::new(Arc::clone(&running.shared), running.ports()));
    let router = Arc::new(Router::new(Work::Whole, &groups, &flows).unwrap());
    let yardstick = Harness::new(Yardstick::new(router, running.ports().len()).unwrap());
    let both = RefCell::new((switch, yardstick, 0));
    let packets = proptest::collection::vec((0..3_u16, frame()), 1..BATCH);
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) }, |(packets in packets)| {
        let frames: Vec<&Vec<u8>> = packets.iter().map(|(_, frame)| frame).collect();
        let (switch, yardstick, forwarded) = &mut *both.borrow_mut();
        for lanes in [switch.lanes(), yardstick.lanes()] {
            packets.iter().zip((0..).map(Slot::new)).for_each(|((port, _), slot)| lanes.port[slot] = *port);
        }
        let [one, other] = [switch.run(1, &frames), yardstick.run(1, &frames)];
        prop_assert_eq!(&one.ways, &other.ways);
        *forwarded += one.way("port[1]").len();
        // Machine code changes some of them by now.
        running.shared.compile();
    });
    let (_, yardstick, forwarded) = both.into_inner();
    assert!(forwarded > 1000, "{forwarded} packets went on");
    // And both have counted the same.
    let core = running.shared.core();
    let counted = |number| core.agent.switch.groups.get(number).map(weir_flow_tables::groups::Group::counted);
    for ([all, only], number) in yardstick.stage.groups.iter().zip(0..) {
        let counted = counted(number).map(|counted| [counted.packets, counted.bytes]);
        assert_eq!((counted, only), (Some(*all), all), "the group, and its only bucket");
    }
}
