//! Links that many routes lead over go down and up, while the slow path has its turn and packets flow: what is worked on at once is
//! counted, and nothing goes over a dead link in any state between.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};
use weir_wire::MacAddr;
use weir_wire::arp::{ArpFields, Operation};

const THREE: &[PortSpec] = &[
    PortSpec("left", &["10.0.0.1/24"], 1500),
    PortSpec("right", &["10.0.1.1/24"], 1500),
    PortSpec("spare", &["10.0.2.1/24"], 1500),
];

/// Routes that lead over the link.
const ROUTES: u32 = 20_000;

/// The most that the slow path has to wait for.
const MOST: f64 = 256.0;

fn prefix(n: u32) -> String {
    format!("{}.{}.{}.0/24", 20 + n / 65_536, n / 256 % 256, n % 256)
}

fn gauge(rig: &Rig, name: &str) -> f64 {
    rig.instance.gauges().iter().find(|gauge| gauge.0 == name).unwrap().2
}

/// A router at rest, all of whose routes but one lead over its link `right`, the last resort over `spare`.
fn rig() -> Rig {
    let mut rig = Rig::new(
        THREE,
        json!({
            "neighbors": { "10.0.1.9": "02:00:00:00:01:09", "10.0.2.9": "02:00:00:00:02:09", "10.0.0.9": "02:00:00:00:00:09" },
            "routes": { "0.0.0.0/0": "10.0.2.9" },
            "neighbor_timers": { "own_probes": 0 },
        }),
    );
    let all: Vec<Value> = (0..ROUTES).map(|n| json!({ "prefix": prefix(n), "via": "10.0.1.9" })).collect();
    all.chunks(8192).for_each(|piece| drop(rig.request("route add", piece.into()).unwrap()));
    rig.run(SECOND);
    (0..3).for_each(|port| drop(rig.sent(port)));
    rig
}

/// Where packets went.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    right: usize,
    spare: usize,
    /// Dropped as their route led over the dead link.
    dropped: u64,
    /// Moments at which some routes had followed the link, and others had not.
    between: usize,
}

/// Sends a packet to some route in every turn of the worker until `prefixes` are in the table, and then a few more.
fn follow(rig: &mut Rig, prefixes: f64) -> Seen {
    let (mut seen, mut sent, mut after) = (Seen::default(), 0, 0);
    let dropped = |rig: &mut Rig| rig.drops().get("router.forward/port-down").copied().unwrap_or(0);
    let (before, start) = (dropped(rig), gauge(rig, "fib_prefixes"));
    rig.engine.rouse();
    // Under the virtual clock the slow path looks at what others left it when nobody is busy.
    (0..2).for_each(|_| _ = rig.engine.step());
    while after < 50 {
        let destination = prefix(sent * 7919 % ROUTES).replace(".0/24", ".5");
        let frame = rig.udp(0, "10.0.0.9", &destination).to_vec(&[]);
        rig.send(0, frame);
        sent += 1;
        rig.engine.step();
        rig.account();
        seen.right += rig.sent_ip(1).len();
        seen.spare += rig.sent_ip(2).len();
        let now = gauge(rig, "fib_prefixes");
        seen.between += usize::from(now != start && now != prefixes);
        after += usize::from(now == prefixes);
        assert!(sent < 10_000, "{now} of {prefixes} prefixes");
    }
    rig.settle();
    seen.right += rig.sent_ip(1).len();
    seen.spare += rig.sent_ip(2).len();
    seen.dropped = dropped(rig) - before;
    assert_eq!(seen.right as u64 + seen.spare as u64 + seen.dropped, u64::from(sent), "every packet is somewhere");
    seen
}

#[test]
fn routes_follow_a_link_by_the_piece_and_nothing_goes_over_a_dead_one() {
    let mut rig = rig();
    let (all, pieces) = (gauge(&rig, "fib_prefixes"), (ROUTES / 256) as usize);
    for _ in 0..2 {
        rig.instance.link_changed(1, false, rig.engine.now());
        // The network of the link itself is gone, too, and its host.
        let down = follow(&mut rig, all - f64::from(ROUTES) - 2.0);
        assert_eq!(down.right, 0, "{down:?}");
        assert!(down.dropped > 0 && down.spare > 50 && down.between >= pieces / 2, "{down:?}");
        rig.instance.link_changed(1, true, rig.engine.now());
        let up = follow(&mut rig, all);
        assert_eq!(up.dropped, 0, "{up:?}");
        assert!(up.right > 50 && up.between >= pieces / 2, "{up:?}");
    }
    // One that goes while the routes still follow its coming, and the other way round.
    for up in [false, true, false, true] {
        rig.instance.link_changed(1, up, rig.engine.now());
        rig.engine.step();
    }
    assert_eq!(follow(&mut rig, all).dropped, 0);
    assert_eq!(gauge(&rig, "longest_hold"), MOST);
    rig.finish();
}

#[test]
fn a_network_that_is_disconnected_takes_its_routes_along_by_the_piece() {
    let mut rig = rig();
    let config = json!({ "routes": { "0.0.0.0/0": "10.0.2.9" } });
    rig.reload(&config);
    let all = gauge(&rig, "fib_prefixes");
    let addresses = |rig: &mut Rig, text: &str| {
        rig.infos[1].addresses = vec![weir_config::Scalar::parse(text).unwrap()];
        rig.reload(&config);
    };
    addresses(&mut rig, "10.0.3.1/24");
    assert_eq!(gauge(&rig, "fib_prefixes"), all - f64::from(ROUTES), "done when the reload is");
    addresses(&mut rig, "10.0.1.1/24");
    assert_eq!((gauge(&rig, "fib_prefixes"), gauge(&rig, "longest_hold")), (all, MOST));
    rig.settle();
    rig.finish();
}

#[test]
fn neighbours_that_a_link_takes_along_are_forgotten_by_the_piece() {
    let ports = [PortSpec("left", &["10.0.0.1/16"], 1500), PortSpec("right", &["10.1.0.1/24"], 1500)];
    let mut rig = Rig::new(&ports, json!({ "neighbor_timers": { "own_probes": 0 } }));
    rig.settle();
    let few = gauge(&rig, "fib_prefixes");
    for n in 0..1000u16 {
        let [high, low] = n.to_be_bytes();
        let request = ArpFields {
            operation: Operation::Request,
            sender_mac: MacAddr([2, 0, 0, 0, high, low]),
            sender: Ipv4Addr::new(10, 0, 1 + high, low),
            target_mac: MacAddr::ZERO,
            target: Ipv4Addr::new(10, 0, 0, 1),
        };
        let mut frame = vec![0; 60];
        request.write(MacAddr::BROADCAST, &mut frame).unwrap();
        rig.send(0, frame);
        rig.settle();
    }
    let hosts = gauge(&rig, "neighbors");
    assert!(hosts > 900.0 && gauge(&rig, "fib_prefixes") == few + hosts, "{hosts}");
    rig.instance.link_changed(0, false, rig.engine.now());
    assert!(gauge(&rig, "fib_prefixes") > few, "not all at once");
    rig.settle();
    // The network of the link is gone, too.
    assert_eq!((gauge(&rig, "neighbors"), gauge(&rig, "fib_prefixes")), (0.0, few - 1.0));
    assert_eq!(gauge(&rig, "longest_hold"), MOST);
    rig.finish();
}
