//! Any bytes, from ports and from controllers: nothing panics, every frame is accounted for, and buffers may run out.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use proptest::prelude::*;
use serde_json::json;
use weir_openflow::flow::{NO_BUFFER, PacketOut};
use weir_openflow::port::number;
use weir_openflow::{Action, Body, Field, Instruction, Message, Oxm};

/// Requests that do much, to be sent whole, cut or changed.
fn requests() -> Vec<Vec<u8>> {
    let ip = [Oxm::exact(Field::EthType, 0x0800)];
    let all =
        [Action::DecNwTtl, Action::PushVlan(0x8100), Action::PushMpls(0x8847), out(number::FLOOD), out(number::NORMAL)];
    let bodies = [
        Body::FlowMod(flow(0, 9, &ip, apply(&all))),
        Body::FlowMod(flow(0, 1, &[], vec![Instruction::GotoTable(1)])),
        Body::FlowMod(flow(
            1,
            1,
            &[],
            apply(&[Action::PopVlan, Action::PopMpls(0x0800), out(number::ALL), out(number::CONTROLLER)]),
        )),
        Body::PacketOut(PacketOut { buffer: NO_BUFFER, in_port: 1, actions: vec![out(number::TABLE)], data: udp(3) }),
        Body::EchoRequest(vec![1; 9]),
        Body::FeaturesRequest,
    ];
    bodies.into_iter().map(|body| Message::new(1, body).write().unwrap()).collect()
}

/// Frames that are looked into, changed at random.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    (proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), 0_usize..70, any::<bool>()).prop_map(
        |(changes, length, is_cut)| {
            let mut frame = udp(64);
            changes.into_iter().for_each(|(at, byte)| frame[at.index(60)] = byte);
            frame.truncate(if is_cut { length } else { 60 });
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_accounted_for(
        frames in proptest::collection::vec((0_usize..3, any_frame()), 1..60),
        changes in proptest::collection::vec((0_usize..6, any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 0..20),
        standalone in any::<bool>(),
    ) {
        let fail = if standalone { "standalone" } else { "secure" };
        let mut rig = Rig::with_buffers(&weir_switch::Switch, json!({ "ports": ["a", "b", "c"], "tables": 2, "fail": fail }), 400);
        rig.run(MS);
        let controller = Controller::new(&*rig.instance);
        let side = rig.instance.channel_side().unwrap();
        for (which, at, byte, kind) in changes {
            let mut bytes = requests().swap_remove(which);
            let length = bytes.len();
            match kind {
                0 => bytes.truncate(at.index(length)),
                1 => bytes[at.index(length)] = byte,
                _ => {}
            }
            side.receive(controller.number, &bytes);
        }
        for (port, frame) in frames {
            rig.send(port, frame);
        }
        rig.run(SECOND);
        rig.finish();
    }
}

/// A flood to more ports than there are buffers for: what is missing is counted, and so is what controllers did not take.
#[test]
fn what_cannot_be_copied_or_told_is_counted() {
    let mut rig = Rig::with_buffers(&weir_switch::Switch, json!({ "ports": ["a", "b", "c", "d", "e", "f"] }), 100);
    rig.run(MS);
    let mut controller = Controller::new(&*rig.instance);
    let frames: Vec<Vec<u8>> = (0..600).map(|n| frame(2, 1, n)).collect();
    // Four copies each, of the packet or of what is changed behind its first port.
    let changed = Action::SetField(Oxm::exact(Field::EthSrc, 0x0200_0000_0007));
    let lists =
        [vec![out(number::FLOOD)], vec![out(2), changed, out(3), out(4), Action::PushVlan(0x8100), out(5), out(6)]];
    for list in lists {
        controller.does(Body::FlowMod(flow(0, 1, &[], apply(&list))));
        let before = rig.gauge("switch_copies_missed");
        let came = rig.pass(0, &frames);
        let copies: usize = came[2..].iter().map(Vec::len).sum();
        let missed = rig.gauge("switch_copies_missed") - before;
        assert!(came[1] == frames && missed > 0.0 && copies as f64 + missed == 2400.0, "{copies} and {missed}");
        let is_changed = |frame: &Vec<u8>| list.len() == 1 || frame[11] == 7;
        assert!(came[2..].iter().flatten().all(is_changed));
    }
    controller.does(Body::FlowMod(flow(0, 1, &[], apply(&[out(number::CONTROLLER)]))));
    for _ in 0..10 {
        rig.pass(0, &frames);
    }
    let busy = rig.drops()["switch.tables/controller-busy"];
    assert_eq!(rig.gauge("switch_packets_in_dropped"), busy as f64);
    let account = rig.finish();
    assert!(busy > 0 && busy + account.consumed == 6000, "{busy} and {}", account.consumed);
}
