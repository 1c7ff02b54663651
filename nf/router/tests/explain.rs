//! What is told of a packet's route a moment after the packet has gone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::json;

const AS_IT_IS_NOW: &str = ", as it is now: routes to there have changed since";

#[test]
fn a_route_that_came_after_the_packet_is_not_told_as_the_one_it_took() {
    let mut rig = Rig::new(
        TWO,
        json!({
            "neighbors": { "10.0.1.9": "02:00:00:00:01:09" },
            "routes": { "192.0.0.0/8": "10.0.1.9" },
            "neighbor_timers": { "own_probes": 0 },
        }),
    );
    rig.settle();
    let frame = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(&[]);
    rig.send(0, frame);
    rig.settle();
    let left = rig.sent_ip(1).remove(0);
    let told =
        |rig: &Rig, then: u64| rig.instance.explain("router.forward", "port[1]", &left, then).unwrap_or_default();
    let then = rig.engine.now();
    assert_eq!(told(&rig, then), "route 192.0.0.0/8 via 10.0.1.9 on right");
    rig.run(SECOND);
    // Another prefix changes nothing.
    rig.request("route add", json!({ "prefix": "198.51.100.0/24", "via": "10.0.1.9" })).unwrap();
    assert_eq!(told(&rig, then), "route 192.0.0.0/8 via 10.0.1.9 on right");
    rig.request("route add", json!({ "prefix": "192.0.2.0/24", "via": "10.0.1.9" })).unwrap();
    assert_eq!(told(&rig, then), format!("route 192.0.2.0/24 via 10.0.1.9 on right{AS_IT_IS_NOW}"));
    rig.run(SECOND);
    assert_eq!(told(&rig, rig.engine.now()), "route 192.0.2.0/24 via 10.0.1.9 on right", "one that came later took it");
    assert!(told(&rig, then).ends_with(AS_IT_IS_NOW));
    rig.request("route del", json!({ "prefix": "192.0.2.0/24" })).unwrap();
    rig.reload(&json!({ "neighbors": { "10.0.1.9": "02:00:00:00:01:09" } }));
    assert_eq!(told(&rig, then), "its route is gone since");
    rig.finish();
}
