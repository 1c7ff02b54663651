//! What is shown of controllers, flows, groups and meters; and that a dump of many flows comes by pieces.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use serde_json::json;
use weir_openflow::group::{Bucket, GroupCommand, GroupKind, GroupMod};
use weir_openflow::{Body, Field, Oxm, group};
use weir_stage::Instance;

#[test]
fn controllers_are_shown_with_their_channels() {
    let rig = switch(json!({ "ports": ["a", "b"] }));
    let side = rig.instance.channel_side().unwrap();
    side.set_state(&connecting(), Some("not connected: refused".to_owned()));
    let states = |instance: &dyn Instance| -> Vec<String> {
        all_rows(instance.show("controllers", None, 0).unwrap())
            .iter()
            .map(|row| row["state"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(states(&*rig.instance), ["not connected: refused"]);
    let silent = Controller::silent(&*rig.instance);
    assert_eq!(states(&*rig.instance), ["greeting"]);
    let controller = Controller::new(&*rig.instance);
    assert_eq!(states(&*rig.instance), ["greeting", "connected"]);
    assert_eq!(rig.gauge("switch_controllers"), 1.0);
    silent.leave();
    controller.leave();
    assert!(states(&*rig.instance).is_empty());
    rig.finish();
}

#[test]
fn a_peer_that_speaks_something_else_is_sent_away() {
    let mut rig = switch(json!({ "ports": ["a"] }));
    rig.run(MS);
    let [controller, patient] = [0, 1].map(|_| Controller::silent(&*rig.instance));
    let side = rig.instance.channel_side().unwrap();
    // A message is eight bytes long at least.
    side.receive(controller.number, &[4, 0, 0, 7, 0, 0, 0, 0]);
    assert_eq!(controller.closing(), Some("what it sends is not OpenFlow"));
    // What looks like a long message is waited for, but not for long.
    side.receive(patient.number, b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(patient.closing(), None);
    rig.run(11 * SECOND);
    assert!(patient.closing().unwrap().contains("silent"));
    [controller, patient].into_iter().for_each(Controller::leave);
    // There are no more than there may be.
    let all: Vec<u64> = std::iter::from_fn(|| side.connect(&listening(), "x")).take(100).collect();
    assert_eq!(all.len(), 16);
    rig.finish();
}

#[test]
fn flows_are_shown_in_the_order_in_which_they_are_tried() {
    let mut rig = switch(json!({ "ports": ["a", "b"], "tables": 254 }));
    rig.run(MS);
    let mut controller = Controller::new(&*rig.instance);
    let to = |n: u32| [Oxm::exact(Field::EthType, 0x0800), Oxm::exact(Field::Ipv4Dst, n.into())];
    for n in 0..1500_u16 {
        controller.does(Body::FlowMod(flow(3, n, &to(n.into()), apply(&[out(2)]))));
    }
    controller.does(Body::FlowMod(flow(0, 1, &[], vec![weir_openflow::Instruction::GotoTable(3)])));
    controller.does(Body::FlowMod(flow(253, 1, &to(7), apply(&[out(1)]))));
    rig.ways(0, udp(64));
    let rows = rig.show("flows", None);
    assert_eq!(rows.len(), 1502);
    let priorities: Vec<u64> = rows[1..1501].iter().map(|row| row["priority"].as_u64().unwrap()).collect();
    assert!(priorities.iter().rev().copied().eq(0..1500));
    assert_eq!((&rows[0]["packets"], &rows[0]["instructions"]), (&json!(1), &json!("goto_table:3")));
    assert_eq!(rows[1501]["match"], "eth_type=0x0800,ipv4_dst=0.0.0.7");
    let counts = |filter: &str| rig.show("flows", Some(filter)).len();
    assert_eq!(["0", "3", "4", "253", "254", "300"].map(counts), [1, 1500, 0, 1, 0, 0]);
    assert!(rig.instance.show("flows", Some("x"), 0).is_err());
    let tables = rig.show("flow-tables", None);
    assert_eq!(tables.iter().map(|row| row["flows"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 1500, 1]);
    assert!(tables.iter().all(|row| row["lookup_ns"].is_u64()), "{tables:?}");
    rig.finish();
}

#[test]
fn groups_are_shown_with_what_they_got() {
    let mut rig = switch(json!({ "ports": ["a", "b", "c"] }));
    rig.run(MS);
    let mut controller = Controller::new(&*rig.instance);
    let bucket = |port| Bucket { weight: 0, watch_port: group::ANY, watch_group: group::ANY, actions: vec![out(port)] };
    let group =
        GroupMod { command: GroupCommand::Add, kind: GroupKind::All, group: 5, buckets: vec![bucket(2), bucket(3)] };
    controller.does(Body::GroupMod(group));
    controller.does(Body::FlowMod(flow(0, 1, &[], apply(&[weir_openflow::Action::Group(5)]))));
    assert_eq!(rig.ways(0, udp(64)), "bc");
    let rows = rig.show("flow-groups", Some("5"));
    assert_eq!((&rows[0]["buckets"], &rows[0]["packets"]), (&json!("(output:2) (output:3)"), &json!(1)));
    assert!(rig.show("flow-groups", Some("6")).is_empty() && rig.show("flow-meters", None).is_empty());
    rig.finish();
}
