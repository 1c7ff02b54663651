//! The stage: packets in, packets per way out, and changes while it runs.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_config::{Nanos, Rate, Size};
use weir_packet::{Key, Slot};
use weir_sched::class::ClassQueue;
use weir_sched::codel::CodelConfig;
use weir_sched::config::{AssignConfig, ClassConfig, FlowOrder, ProfileConfig, SchedulerConfig, SubportConfig};
use weir_sched::red::RedConfig;
use weir_sched::shaping::Shaping;
use weir_stage::Stage;
use weir_stage::harness::{Boxed, Harness, Outcome};

fn class(queue_size: u16) -> ClassConfig {
    ClassConfig {
        tc_rate: None,
        tc_guarantee: None,
        tc_period: Nanos::new(10_000_000),
        queue_size,
        red: None,
        codel: None,
        flows: FlowOrder::Fifo,
        l4s: None,
        weights: vec![],
    }
}

/// A subport that promises nothing and forbids nothing.
fn bare() -> SubportConfig {
    SubportConfig { tb_rate: None, ceil: None, tb_size: Size::new(100), weight: 1, parent: None, classes: Vec::new() }
}

fn profile(rate: u64, classes: Vec<ClassConfig>) -> ProfileConfig {
    ProfileConfig { tb_rate: Rate::new(rate), tb_size: Size::new(100), ceil: None, weight: 1, classes, weights: vec![] }
}

/// Profiles `slow`, at which a frame of 76 bytes takes 1 ms, `fast`, ten times that, and `patient`, with CoDel in its class 0.
fn config() -> SchedulerConfig {
    let codel = CodelConfig { target: Nanos::new(1_000), interval: Nanos::new(10_000), ecn: false };
    let managed = ClassConfig { codel: Some(codel), ..class(64) };
    let profiles = [
        ("slow", profile(800_000, vec![class(3); 4])),
        ("fast", profile(8_000_000, vec![])),
        ("patient", profile(800_000, vec![managed])),
    ];
    SchedulerConfig {
        rate: Rate::new(1_000_000_000),
        burst: Size::new(65_536),
        overhead: 24,
        classes: 4,
        users: 8,
        buffers: 16,
        minimum: Some(1),
        subports: BTreeMap::new(),
        spare_subports: 0,
        profiles: profiles.into_iter().map(|(name, profile)| (name.to_owned(), profile)).collect(),
        assign: vec![
            AssignConfig { first: 0, last: Some(3), profile: "slow".into(), subport: None },
            AssignConfig { first: 4, last: None, profile: "patient".into(), subport: None },
        ],
    }
}

fn key() -> Key<u32> {
    Key::new(0).unwrap()
}

fn stage(config: &SchedulerConfig) -> (Arc<Shaping>, Harness<Boxed>) {
    let shaping = Shaping::new(config).unwrap();
    let stage = Boxed(shaping.stage(key()));
    (shaping, Harness::small(stage, 256))
}

const MS: u64 = 1_000_000;

/// As [`offer`], while there is no room ahead: all of them wait until the next poll.
fn run(harness: &mut Harness<Boxed>, now: u64, packets: &[(u32, u8)]) -> Outcome {
    harness.set_room("out", 0);
    let outcome = offer(harness, now, packets);
    harness.set_room("out", u32::MAX);
    outcome
}

/// Hands over frames of 76 bytes (100 with overhead) of these users and classes; the first byte is a number.
fn offer(harness: &mut Harness<Boxed>, now: u64, packets: &[(u32, u8)]) -> Outcome {
    let bytes: Vec<Vec<u8>> = (0..packets.len()).map(|n| vec![n as u8; 76]).collect();
    for (n, (user, class)) in packets.iter().enumerate() {
        harness.lanes().set(key(), Slot::new(n), *user);
        harness.lanes().class[Slot::new(n)] = ClassQueue::new(*class, 0).to_lane();
    }
    harness.run(now, &bytes)
}

fn numbers(outcome: &Outcome, way: &str) -> Vec<u8> {
    outcome.way(way).iter().map(|bytes| bytes[0]).collect()
}

#[test]
fn packets_leave_when_their_users_may() {
    let (shaping, mut harness) = stage(&config());
    let outcome = run(&mut harness, 5 * MS, &[(0, 3), (0, 3), (0, 3), (0, 3), (1, 0), (9, 0), (5, 0)]);
    assert_eq!(numbers(&outcome, "queue-full"), [3]);
    assert_eq!(numbers(&outcome, "no-such-user"), [5, 6]);
    assert_eq!(harness.stage.held(), 4);
    let outcome = harness.poll(5 * MS);
    // Of the best class first.
    assert_eq!(numbers(&outcome, "out"), [4, 0]);
    // When the next packet may leave, to within the wheel's step.
    let next = outcome.next_poll.unwrap();
    assert!((6 * MS..6 * MS + 256).contains(&next), "{next}");
    let outcome = harness.poll(6 * MS - 1);
    assert_eq!(outcome.way("out").len(), 0);
    let next = outcome.next_poll.unwrap();
    assert!((6 * MS..6 * MS + 256).contains(&next), "{next}");
    assert_eq!(numbers(&harness.poll(next), "out"), [1]);
    let outcome = harness.poll(7 * MS + 1000);
    assert_eq!((numbers(&outcome, "out"), outcome.next_poll), (vec![2], Some(u64::MAX)));
    let count = shaping.count(0);
    assert_eq!((count.packets, count.bytes, count.dropped()), (3, 3 * 76, 1));
}

#[test]
fn packets_that_need_not_wait_go_at_once() {
    let (shaping, mut harness) = stage(&config());
    // User 0 may send one packet, user 1 another; what is second of its user waits, and others pass it by.
    let outcome = offer(&mut harness, 5 * MS, &[(0, 3), (0, 3), (1, 0), (9, 0), (0, 0)]);
    assert_eq!((numbers(&outcome, "out"), numbers(&outcome, "no-such-user")), (vec![0, 2], vec![3]));
    assert_eq!((harness.stage.held(), shaping.count(0).packets, shaping.count(1).bytes), (2, 1, 76));
    // Its turn comes by class, and nothing of it goes before what waits.
    assert_eq!(numbers(&offer(&mut harness, 6 * MS + 256, &[(0, 0), (2, 3)]), "out"), [1]);
    assert_eq!(numbers(&harness.poll(6 * MS + 256), "out"), [4]);
    // Not more than there is room for: who stands in line goes first from then on.
    harness.set_room("out", 2);
    assert_eq!(numbers(&offer(&mut harness, 20 * MS, &[(1, 3), (2, 3), (3, 3)]), "out"), [0, 1]);
    harness.set_room("out", u32::MAX);
    // Of those who may, by class: user 0, who has stood in the wheel all the time, and user 3; then user 1 may pass.
    assert_eq!(numbers(&offer(&mut harness, 30 * MS, &[(1, 0)]), "out"), [0, 0, 2]);
    assert_eq!((shaping.count(1).packets, shaping.count(3).packets), (3, 1));
    assert_eq!(harness.clear().len(), 1);
}

#[test]
fn a_port_that_is_busy_lets_nobody_pass() {
    let mut config = config();
    (config.rate, config.burst) = (Rate::new(8_000_000), Size::new(200)); // a frame in 0.1 ms, two at once
    let (_, mut harness) = stage(&config);
    assert_eq!(numbers(&offer(&mut harness, MS, &[(0, 3), (1, 3), (2, 3)]), "out"), [0, 1]);
    // There is room for another by now, but user 2 was there before.
    assert_eq!(numbers(&offer(&mut harness, MS + MS / 10 + 1, &[(3, 0)]), "out"), [2]);
    assert_eq!(numbers(&harness.poll(MS + MS / 10 + 1), "out").len(), 0);
    assert_eq!(numbers(&harness.poll(MS + MS / 5 + 2), "out"), [0]);
}

#[test]
fn caps_and_managements_know_of_packets_that_pass() {
    let mut config = config();
    let capped = ClassConfig { tc_rate: Some(Rate::new(80_000)), tc_period: Nanos::new(10 * MS), ..class(64) };
    let red = RedConfig {
        min: 0,
        max: 1,
        probability: 1.0,
        weight: 1,
        packet_time: Nanos::new(MS),
        ecn: false,
        yellow: None,
        red: None,
    };
    let managed = ClassConfig { red: Some(red), ..class(64) };
    let mut fast = profile(8_000_000, vec![capped, managed]);
    fast.tb_size = Size::new(1000);
    config.profiles.insert("fast".to_owned(), fast);
    config.assign = vec![AssignConfig { first: 0, last: Some(7), profile: "fast".into(), subport: None }];
    let (shaping, mut harness) = stage(&config);
    // 80 kbit/s are one frame of class 0 in 10 ms; the others of the user do not mind.
    let at = |harness: &mut _, now, packets: &[_]| numbers(&offer(harness, now, packets), "out");
    assert_eq!(at(&mut harness, MS, &[(0, 0), (1, 2)]), [0, 1]);
    assert_eq!(at(&mut harness, 2 * MS, &[(0, 2), (0, 0), (1, 0)]), [0, 2]);
    assert_eq!(harness.poll(11 * MS).way("out").len(), 0);
    assert_eq!(harness.poll(11 * MS + 1000).way("out").len(), 1);
    // RED hears of those that pass: its average forgets what was there, at a half for each.
    run(&mut harness, 20 * MS, &[(2, 1), (2, 1), (2, 1), (2, 1)]);
    let waiting = harness.stage.held();
    assert_eq!(harness.poll(20 * MS).way("out").len() as u64, waiting);
    let dropped = shaping.count(2).dropped();
    assert!(dropped > 0, "with an average above one, RED drops all");
    let outcome = offer(&mut harness, 20 * MS, &[(2, 1); 8]);
    assert_eq!(outcome.way("red").len() + outcome.way("out").len(), 8);
    assert_eq!(shaping.count(2).dropped(), dropped + outcome.way("red").len() as u64);
    assert_eq!(at(&mut harness, 200 * MS, &[(2, 1)]), [0]);
}

#[test]
fn it_sends_no_more_than_there_is_room_for() {
    let (_, mut harness) = stage(&config());
    run(&mut harness, 0, &[(0, 0), (1, 0), (2, 0)]);
    harness.set_room("out", 1);
    let outcome = harness.poll(0);
    assert_eq!((numbers(&outcome, "out"), outcome.next_poll), (vec![0], Some(0)));
    harness.set_room("out", 0);
    let outcome = harness.poll(0);
    assert_eq!((numbers(&outcome, "out").len(), outcome.next_poll), (0, Some(0)));
    harness.set_room("out", 8);
    assert_eq!(numbers(&harness.poll(0), "out"), [1, 2]);
}

#[test]
fn lanes_survive_waiting_and_what_waits_is_given_up_in_order() {
    let (_, mut harness) = stage(&config());
    run(&mut harness, 0, &[(1, 3), (1, 0), (0, 1)]);
    harness.poll(0);
    run(&mut harness, 10, &[(2, 3), (2, 2)]);
    run(&mut harness, 20, &[(0, 3)]);
    assert_eq!(harness.stage.held(), 4);
    let left: Vec<u8> = harness.clear().iter().map(|bytes| bytes[0]).collect();
    assert_eq!((left.len(), left[0], left[3], harness.stage.held()), (4, 0, 0, 0));
}

#[test]
fn the_heaviest_gives_way_by_name_and_the_share_shrinks() {
    let mut config = config();
    config.buffers = 16;
    config.profiles.get_mut("slow").unwrap().classes = vec![class(64); 4];
    config.minimum = Some(2);
    let (shaping, mut harness) = stage(&config);
    // One user alone gets half of what there is beyond its minimum.
    let outcome = run(&mut harness, 0, &[(0, 3); 16]);
    assert_eq!(outcome.way("over-share").len(), 7);
    assert_eq!(harness.stage.held(), 9);
    // Others find room, up to their share of what is left, and in the end only by pushing out.
    let mut others = Vec::new();
    for user in [1, 2, 3] {
        others.extend([(user, 0); 4]);
    }
    let outcome = run(&mut harness, 1, &others);
    let pushed_out = outcome.way("pushed-out").len();
    assert!(pushed_out > 0, "{:?}", outcome.counts());
    assert_eq!(harness.stage.held(), 16);
    assert_eq!(shaping.count(0).dropped(), 7 + pushed_out as u64);
    harness.clear();
}

#[test]
fn controlled_delay_drops_by_name() {
    let (_, mut harness) = stage(&config());
    run(&mut harness, 0, &[(4, 0); 8]);
    let mut counts = BTreeMap::new();
    for ms in 0..20 {
        let outcome = harness.poll(ms * MS);
        for (way, count) in outcome.counts() {
            *counts.entry(way.to_owned()).or_insert(0) += count;
        }
    }
    assert!(counts["codel"] > 0 && counts["out"] + counts["codel"] == 8, "{counts:?}");
}

#[test]
fn profiles_change_while_packets_wait() {
    let (shaping, mut harness) = stage(&config());
    run(&mut harness, 0, &[(0, 3); 3]);
    assert_eq!(harness.poll(0).way("out").len(), 1);
    // At a tenth of a millisecond each from now on.
    shaping.assign(0, "fast", None).unwrap();
    let mut sent = 0;
    for step in 1..=3 {
        sent += harness.poll(step * (MS / 10 + 500)).way("out").len();
    }
    assert_eq!(sent, 2);
    assert_eq!(shaping.assigned(0), Some(("fast".to_owned(), None)));
    // The profile itself changes for all who have it.
    run(&mut harness, MS, &[(1, 3); 3]);
    assert_eq!(harness.poll(MS).way("out").len(), 1);
    let mut config = config();
    config.profiles.get_mut("slow").unwrap().tb_rate = Rate::new(8_000_000);
    shaping.apply(shaping.prepare(&config).unwrap());
    assert_eq!(harness.poll(MS + 1).way("out").len(), 0);
    assert_eq!(harness.poll(MS + MS / 10 + 500).way("out").len(), 1);
    assert_eq!(harness.poll(MS + MS / 5 + 1000).way("out").len(), 1);
    // Whoever is dismissed is sent what waits, and no more.
    run(&mut harness, 2 * MS, &[(2, 3); 2]);
    shaping.dismiss(2);
    let outcome = run(&mut harness, 3 * MS, &[(2, 3)]);
    assert_eq!(outcome.way("no-such-user").len(), 1);
    assert_eq!(harness.poll(3 * MS).way("out").len() + harness.poll(4 * MS).way("out").len(), 2);
    assert_eq!((harness.stage.held(), shaping.assigned(2)), (0, None));
    assert!(shaping.assign(0, "gold", None).unwrap_err().contains("gold"));
    assert!(shaping.assign(8, "fast", None).unwrap_err().contains("users are 0 to 7"));
}

#[test]
fn stages_that_are_gone_are_told_nothing() {
    let (shaping, mut harness) = stage(&config());
    drop(shaping.stage(key()));
    // More changes than would wait for a stage that never looks; each seen by the one that does.
    for n in 0..10_000_u64 {
        shaping.assign(0, if n % 2 == 0 { "fast" } else { "slow" }, None).unwrap();
        harness.poll(n);
    }
    shaping.dismiss(0);
    harness.poll(10_000);
    assert_eq!(run(&mut harness, 10_001, &[(0, 3)]).way("no-such-user").len(), 1);
}

#[test]
fn a_subport_holds_all_of_its_users_back() {
    let mut config = config();
    let subport = SubportConfig { tb_rate: Some(Rate::new(800_000)), tb_size: Size::new(100), ..bare() };
    config.subports = BTreeMap::from([("a".to_owned(), subport), ("b".to_owned(), bare())]);
    config.assign = vec![
        AssignConfig { first: 0, last: Some(3), profile: "fast".into(), subport: Some("a".into()) },
        AssignConfig { first: 4, last: Some(7), profile: "fast".into(), subport: Some("b".into()) },
    ];
    let (_, mut harness) = stage(&config);
    run(&mut harness, 0, &[(0, 0), (1, 0), (2, 1), (4, 0), (5, 0)]);
    let outcome = harness.poll(0);
    assert_eq!(numbers(&outcome, "out"), [0, 3, 4]);
    assert_eq!(numbers(&harness.poll(MS + 500), "out"), [1]);
    assert_eq!(numbers(&harness.poll(2 * MS + 1000), "out"), [2]);
}

#[test]
fn eight_classes_are_strict_and_fewer_have_their_lowest_last() {
    for classes in [1, 3, 5, 8_u8] {
        let mut config = config();
        config.classes = classes;
        config.profiles = BTreeMap::from([("slow".to_owned(), profile(80_000_000, vec![]))]);
        config.assign = vec![AssignConfig { first: 0, last: Some(7), profile: "slow".into(), subport: None }];
        let (_, mut harness) = stage(&config);
        let packets: Vec<(u32, u8)> = (0..classes).rev().map(|class| (0, class)).collect();
        run(&mut harness, 0, &packets);
        let mut out = Vec::new();
        for step in 0..20 {
            out.extend(numbers(&harness.poll(step * 20_000), "out"));
        }
        let best_first: Vec<u8> = (0..classes).rev().collect();
        assert_eq!(out, best_first, "{classes} classes");
    }
}
