//! Flows that take turns in the queues of a user (FQ-CoDel, RFC 8290), as they come out and as it is told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use crate::common;

use common::*;
use serde_json::{Value, json};

/// Where the ports of a frame with two tags and a usual header of IPv4 begin.
const PORTS: usize = 42;

/// A frame of 1,000 bytes of a flow.
fn packet(flow: u16, number: u32) -> Vec<u8> {
    let mut bytes = frame((1, 1), 0, number, 1_000);
    bytes[PORTS..PORTS + 2].copy_from_slice(&flow.to_be_bytes());
    bytes
}

fn flow_of(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[PORTS], bytes[PORTS + 1]])
}

/// A user with this rate, in Mbit/s, and packets that are all of the lowest class.
fn keys(rate: u64, class: Value) -> Value {
    let profile = json!({ "tb_rate": format!("{rate} Mbit/s"), "tb_size": "2 KiB", "classes": [{}, {}, {}, class] });
    json!({ "users": [{ "tags": "1.1", "profile": "one" }], "scheduler": scheduler(json!({ "one": profile })) })
}

/// The flow that sends much, and those that send little. Of 1,024 numbers two may have the same, but hardly more than one of them that of the first.
const MUCH: u16 = 1;
const LITTLE: [u16; 5] = [100, 200, 300, 400, 500];

#[test]
fn a_burst_of_one_flow_does_not_hold_up_the_others() {
    for (flows, soon) in [("fair", true), ("fifo", false)] {
        let mut rig = Rig::new(keys(20, json!({ "flows": flows, "queue_size": 600 })));
        (0..400).for_each(|n| rig.send(0, packet(MUCH, n)));
        rig.run(MS);
        (400..).zip(LITTLE).for_each(|(n, flow)| rig.send(0, packet(flow, n)));
        // 5 ms are 12 frames; those that were there before take 160 ms.
        rig.run(5 * MS);
        let came = rig.sent(1);
        let little = came.iter().filter(|bytes| flow_of(bytes) != MUCH).count();
        assert!(if soon { little >= 4 } else { little == 0 }, "{flows}: {little} of {}", came.len());
        rig.run(SECOND);
        let all = came.len() + rig.sent(1).len();
        let row = &rig.show("users", Some("1.1"))[0];
        // What waited for too long was dropped, where somebody sees to it.
        assert_eq!(row["packets"], json!(all));
        assert_eq!(row["dropped"].as_u64().unwrap() + all as u64, 405);
        assert_eq!(row["drops"].get("codel").is_some(), soon, "{row}");
        assert_eq!(rig.held(), 0);
        rig.finish();
    }
}

#[test]
fn a_full_queue_takes_from_who_has_most() {
    let mut rig = Rig::new(keys(1, json!({ "flows": "fair", "queue_size": 20, "codel": { "target": "1 s" } })));
    (0..100).for_each(|n| rig.send(0, packet(MUCH, n)));
    rig.run(MS);
    (100..).zip(LITTLE).for_each(|(n, flow)| rig.send(0, packet(flow, n)));
    rig.run(MS);
    assert_eq!(rig.held(), 20);
    rig.run(SECOND);
    let came: BTreeMap<u32, u16> = rig.sent(1).iter().map(|bytes| (number(bytes), flow_of(bytes))).collect();
    // One that shares its number with the first is treated as that.
    let little = came.values().filter(|flow| **flow != MUCH).count();
    assert!(little >= 4, "{came:?}");
    let row = &rig.show("users", Some("1.1"))[0];
    let lost = 105 - came.len() as u64;
    assert_eq!((&row["drops"], &row["dropped"]), (&json!({ "queue-full": lost }), &json!(lost)));
    assert_eq!(rig.drops(), BTreeMap::from([("qos.shape/queue-full".to_owned(), lost)]));
    // The first of what waited was lost, the last of it is there.
    assert!(came.contains_key(&99) && !came.contains_key(&5), "{came:?}");
    rig.finish();
}

#[test]
fn flows_are_told_of_congestion_one_by_one() {
    let codel = json!({ "target": "1 ms", "interval": "10 ms", "ecn": true });
    let mut rig = Rig::new(keys(20, json!({ "flows": "fair", "queue_size": 400, "codel": codel })));
    let marked = |mut bytes: Vec<u8>| {
        bytes[23] |= 2;
        bytes
    };
    for n in 0..200 {
        rig.send(0, marked(packet(MUCH, n)));
        if n % 40 == 0 {
            rig.send(0, marked(packet(LITTLE[n as usize / 40], 1_000 + n)));
        }
    }
    rig.run(SECOND);
    let came = rig.sent(1);
    assert_eq!(came.len(), 205);
    let with = |much: bool| came.iter().filter(|bytes| (flow_of(bytes) == MUCH) == much && bytes[23] & 3 == 3).count();
    assert!(with(true) > 5 && with(false) <= 1, "{} {}", with(true), with(false));
    let row = &rig.show("users", Some("1.1"))[0];
    assert_eq!(
        (&row["marked"], &row["marks"]),
        (&json!(with(true) + with(false)), &json!({ "3": with(true) + with(false) }))
    );
    rig.finish();
}

/// Rates, and whether flows take turns, change while packets wait: nothing is lost, and the account is exact all the while.
#[test]
fn what_waits_outlives_changes_of_how_it_waits() {
    let class = |flows: &str| json!({ "flows": flows, "queue_size": 1_000, "codel": { "target": "1 s" } });
    let mut rig = Rig::new(keys(2, class("fifo")));
    let (mut next, mut came) = (0, BTreeMap::new());
    for round in 0..60_u64 {
        let flows = if round % 3 == 1 { "fair" } else { "fifo" };
        rig.reload(keys([2, 5, 1, 20][round as usize % 4], class(flows)));
        for flow in [MUCH, MUCH, LITTLE[0], MUCH, LITTLE[round as usize % 5]] {
            rig.send(0, packet(flow, next));
            next += 1;
        }
        rig.run(2 * MS);
        rig.account();
        rig.sent(1).iter().for_each(|bytes| assert!(came.insert(number(bytes), flow_of(bytes)).is_none()));
    }
    assert!(rig.held() > 50, "{} wait", rig.held());
    rig.run(5 * SECOND);
    rig.sent(1).iter().for_each(|bytes| assert!(came.insert(number(bytes), flow_of(bytes)).is_none()));
    assert_eq!((came.len(), rig.held(), rig.drops()), (next as usize, 0, BTreeMap::new()));
    rig.finish();
}

/// Class 1 has two queues, each with flows of its own: the queues share by weight, however many flows they have, and the flows of each take turns.
#[test]
fn each_of_several_queues_has_flows_of_its_own() {
    let class = json!({ "flows": "fair", "weights": [1, 3], "queue_size": 300, "codel": { "target": "1 s" } });
    let profile = json!({ "tb_rate": "20 Mbit/s", "tb_size": "2 KiB", "classes": [{}, class] });
    let mut rig = Rig::new(json!({
        "users": [{ "tags": "1.1", "profile": "one" }],
        "classify": { "dscp": { "cs1": "1", "cs2": "1.1" } },
        "scheduler": scheduler(json!({ "one": profile })),
    }));
    let packet = |queue: u32, flow: u16, number: u32| {
        let mut bytes = frame((1, 1), if queue == 0 { 8 } else { 16 }, 10_000_000 * queue + number, 1_000);
        bytes[PORTS..PORTS + 2].copy_from_slice(&flow.to_be_bytes());
        bytes
    };
    let queue_of = |bytes: &[u8]| number(bytes) as usize / 10_000_000;
    // One flow sends much in each queue, which is always full; in that of weight 1 five others send a packet now and then.
    let (mut next, mut bytes, mut little, mut delays) = (0, [0_u64; 2], BTreeMap::new(), Vec::new());
    for round in 0..200_u32 {
        for _ in 0..40 {
            (0..2).for_each(|queue| rig.send(0, packet(queue, MUCH, next)));
            next += 1;
        }
        if round % 10 == 9 {
            let flow = LITTLE[round as usize / 10 % 5];
            little.insert(next, (flow, rig.engine.now()));
            rig.send(0, packet(0, flow, next));
            next += 1;
        }
        rig.run(10 * MS);
        let now = rig.engine.now();
        for frame in rig.sent(1) {
            bytes[queue_of(&frame)] += u64::from(round >= 20) * frame.len() as u64;
            delays.extend(little.remove(&number(&frame)).map(|(flow, since)| (flow, (now - since) / MS)));
        }
    }
    // Of each second's four parts one is the first queue's, within a hundredth.
    let share = bytes[0] as f64 / (bytes[0] + bytes[1]) as f64;
    assert!((share * 4.0 - 1.0).abs() < 0.01, "{share} of {bytes:?}");
    // 300 packets before it take 480 ms at a quarter of the rate; it passes them by, and waits for one of its queue and those of the other one meanwhile.
    // One flow of the five may have the number of the one that sends much; of the others all four packets came.
    let soon = |flow: &u16| delays.iter().filter(|(of, delay)| of == flow && *delay <= 10).count() == 4;
    assert!(LITTLE.iter().filter(|flow| soon(flow)).count() >= 4, "{delays:?}");
    let row = &rig.show("users", Some("1.1"))[0];
    assert_eq!(row["drops"].as_object().unwrap().keys().collect::<Vec<_>>(), ["queue-full"], "{row}");
    // A reload makes one line of all of them: nothing is lost.
    let waiting = rig.held();
    assert!(waiting > 500, "{waiting}");
    let profile = json!({ "tb_rate": "20 Mbit/s", "tb_size": "2 KiB", "classes": [{}, { "queue_size": 1_000 }] });
    rig.reload(json!({
        "users": [{ "tags": "1.1", "profile": "one" }],
        "classify": { "dscp": { "cs1": "1", "cs2": "1" } },
        "scheduler": scheduler(json!({ "one": profile })),
    }));
    rig.run(SECOND);
    assert_eq!((rig.sent(1).len() as u64, rig.held()), (waiting, 0));
    rig.finish();
}

#[test]
fn memory_for_flows_is_told_where_there_are_any() {
    let bytes = |class| {
        let rig = Rig::new(keys(20, class));
        let row = rig.show("schedulers", None).remove(0);
        rig.finish();
        (row["state_bytes"].as_u64().unwrap(), row["buffer_bytes"].as_u64().unwrap())
    };
    let (fifo, fair) = (bytes(json!({})), bytes(json!({ "flows": "fair" })));
    assert!(fair.0 == fifo.0 && fair.1 > fifo.1, "{fifo:?} {fair:?}");
}
