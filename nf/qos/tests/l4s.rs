//! Queues with two lines (L4S, RFC 9332), as packets come out of them and as it is told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::{Value, json};
use weir_wire::ipv4;

/// Where the network header of a frame with two tags begins.
const L3: usize = 22;

/// Fields of explicit congestion notification.
const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// A frame of 976 bytes with such a field: at 8 Mbit/s it takes 1 ms. Every second one is of IPv6.
fn packet(number: u32, field: u8) -> Vec<u8> {
    let mut bytes = frame((1, 1), 0, number, 976);
    if number & 1 == 1 {
        bytes[20..L3].copy_from_slice(&[0x86, 0xdd]);
        bytes[L3..L3 + 8].copy_from_slice(&[0x60, field << 4, 0, 0, 3, 0x92, 17, 64]);
    } else {
        bytes[L3 + 1] |= field;
        assert!(ipv4::write_checksum(&mut bytes[L3..]));
    }
    bytes
}

/// Numbers and fields of frames as they came.
fn seen(frames: &[Vec<u8>]) -> Vec<(u32, u8)> {
    let field = |bytes: &[u8]| if bytes[L3] >> 4 == 6 { bytes[L3 + 1] >> 4 & 3 } else { bytes[L3 + 1] & 3 };
    frames.iter().map(|bytes| (number(bytes), field(bytes))).collect()
}

/// A user at 8 Mbit/s, whose packets are all of the lowest of four classes.
fn keys(class: Value) -> Value {
    let profile = json!({ "tb_rate": "8 Mbit/s", "tb_size": "1000 B", "classes": [{}, {}, {}, class] });
    json!({ "users": [{ "tags": "1.1", "profile": "one" }], "scheduler": scheduler(json!({ "one": profile })) })
}

/// What comes while others wait goes by them, of either family, if its sender is scalable; and it is marked when it has waited for too long.
#[test]
fn what_is_to_wait_little_goes_by_the_rest() {
    let mut rig = Rig::new(keys(json!({ "l4s": {}, "queue_size": 500 })));
    (0..40).for_each(|n| rig.send(0, packet(n, if n & 2 == 0 { NOT_ECT } else { ECT_0 })));
    rig.run(MS);
    (100..108).for_each(|n| rig.send(0, packet(n, if n < 104 { ECT_1 } else { CE })));
    rig.run(12 * MS);
    let came = seen(&rig.sent(1));
    let low: Vec<(u32, u8)> = came.iter().filter(|(n, _)| *n >= 100).copied().collect();
    assert_eq!(low.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (100..108).collect::<Vec<_>>(), "{came:?}");
    let place = |wanted| came.iter().position(|(n, _)| *n == wanted).unwrap();
    assert!(place(107) - place(100) <= 8, "no more than one of the others between: {came:?}");
    // Whatever waited for more than 1 ms has the mark; the last one has nothing behind it, and came with it.
    assert!(low.iter().skip(2).all(|(_, field)| *field == CE), "{low:?}");
    let row = &rig.show("users", Some("1.1"))[0];
    assert!(row["marks"]["3"].as_u64().unwrap() >= 5, "{row}");
    assert_eq!(row["held_by"], json!("rate"));
    rig.run(SECOND);
    rig.finish();
}

/// Classic packets that wait for too long are dropped, or marked where they say that they may be; the reason is told.
#[test]
fn classic_packets_are_dropped_or_marked() {
    let l4s = json!({ "l4s": { "target": "2 ms", "tupdate": "1 ms", "beta": 10 }, "queue_size": 500 });
    let mut rig = Rig::new(keys(l4s));
    rig.show("history", Some("1.1"));
    (0..200).for_each(|n| rig.send(0, packet(n, if n & 2 == 0 { NOT_ECT } else { ECT_0 })));
    rig.run(3 * SECOND);
    let came = seen(&rig.sent(1));
    let row = &rig.show("users", Some("1.1"))[0];
    let lost = row["drops"]["l4s"].as_u64().unwrap();
    assert!(lost > 10 && lost + came.len() as u64 == 200, "{row}");
    assert_eq!(row["drops"], json!({ "l4s": lost }));
    let marked = came.iter().filter(|(_, field)| *field == CE).count();
    assert_eq!(row["marked"], json!(marked));
    assert!(marked > 0 && came.iter().all(|(n, field)| (*field == NOT_ECT) == (n & 2 == 0)), "{came:?}");
    let told: u64 = rig.show("history", Some("1.1")).iter().filter_map(|row| row["drops"]["l4s"].as_u64()).sum();
    assert!(told > 0 && told <= lost, "{told} {lost}");
    rig.finish();
}

/// A class comes to have two lines, flows that take turns, and one line again, while packets wait in it: none is lost, and all go.
#[test]
fn classes_change_while_packets_wait() {
    let mut rig = Rig::new(keys(json!({ "queue_size": 500 })));
    let mut came = Vec::new();
    let classes = [json!({ "l4s": {} }), json!({ "flows": "fair" }), json!({ "l4s": { "coupling": 4 } }), json!({})];
    for (round, class) in (0..).zip(classes) {
        (0..20).for_each(|n| rig.send(0, packet(100 * round + n, if n % 3 == 0 { ECT_1 } else { ECT_0 })));
        rig.run(6 * MS);
        let mut class = class;
        class["queue_size"] = json!(500);
        rig.reload(keys(class));
        rig.run(6 * MS);
        came.extend(seen(&rig.sent(1)));
    }
    assert!(rig.held() > 0);
    rig.run(SECOND);
    came.extend(seen(&rig.sent(1)));
    let row = &rig.show("users", Some("1.1"))[0];
    assert_eq!(came.len() as u64 + row["dropped"].as_u64().unwrap(), 80, "{row}");
    assert!(
        row["drops"].as_object().unwrap().keys().all(|reason| ["l4s", "codel"].contains(&reason.as_str())),
        "{row}"
    );
    assert_eq!(rig.held(), 0);
    rig.finish();
}

/// Class 1 has two queues with two lines each: the pair of lines is one queue among those that share by weight, and what is to wait little goes by the rest of its own queue.
#[test]
fn each_of_several_queues_has_two_lines_of_its_own() {
    let class = json!({ "l4s": { "target": "1 s" }, "weights": [1, 3], "queue_size": 300 });
    let profile = json!({ "tb_rate": "20 Mbit/s", "tb_size": "2 KiB", "classes": [{}, class] });
    let mut rig = Rig::new(json!({
        "users": [{ "tags": "1.1", "profile": "one" }],
        "classify": { "dscp": { "cs1": "1", "cs2": "1.1" } },
        "scheduler": scheduler(json!({ "one": profile })),
    }));
    let packet = |queue: u32, number: u32, field: u8| {
        let mut bytes = frame((1, 1), if queue == 0 { 8 } else { 16 }, 10_000_000 * queue + number, 976);
        bytes[L3 + 1] |= field;
        assert!(ipv4::write_checksum(&mut bytes[L3..]));
        bytes
    };
    let (mut next, mut bytes, mut low) = (0, [0_u64; 2], Vec::new());
    for round in 0..120 {
        // A little more than each sends, so that neither is full, nor empty.
        for (queue, packets) in [(0, 7), (1, 19)] {
            (0..packets + if round == 0 { 100 } else { 0 }).for_each(|n| rig.send(0, packet(queue, next + n, NOT_ECT)));
            next += 200;
        }
        if round % 10 == 9 {
            // That of weight 1 has the fewer turns.
            for n in next..next + 3 {
                low.push(n);
                rig.send(0, packet(0, n, ECT_1));
            }
            next += 3;
        }
        rig.run(10 * MS);
        for frame in rig.sent(1) {
            let queue = number(&frame) / 10_000_000;
            bytes[queue as usize] += u64::from(round >= 20) * frame.len() as u64;
            low.retain(|wanted| *wanted != number(&frame));
        }
        assert!(low.is_empty(), "{low:?} in round {round}");
    }
    let share = bytes[0] as f64 / (bytes[0] + bytes[1]) as f64;
    assert!((share * 4.0 - 1.0).abs() < 0.01, "{share} of {bytes:?}");
    let row = &rig.show("users", Some("1.1"))[0];
    assert!(row["marks"]["1"].as_u64().unwrap() > 10, "whatever waited for more than 1 ms has the mark: {row}");
    rig.run(SECOND);
    rig.finish();
}

#[test]
fn two_lines_are_alone_in_their_class() {
    for (key, other, words) in [
        ("red", json!({ "min": 1, "max": 2 }), "red"),
        ("codel", json!({}), "codel"),
        ("flows", json!("fair"), "flows = \"fair\""),
    ] {
        let told = messages(&config(keys(json!({ "l4s": {}, key: other }))), None);
        assert_eq!(told.len(), 1, "{told:?}");
        let words = format!("a class has l4s or {words}, not both: leave one out, or use another class");
        assert!(told[0].contains("scheduler: profiles.one.classes[4].l4s: ") && told[0].contains(&words), "{told:?}");
    }
    let told = messages(&config(keys(json!({ "l4s": { "target": "1 ms" } }))), None);
    let words = "classes[4].l4s.target: a packet of 1600 bytes takes 1600 us at 8 Mbit/s, so that nearly all would be dropped: give 1600 us or more";
    assert!(told.len() == 1 && told[0].contains(words), "{told:?}");
    for (key, value) in
        [("coupling", json!(0)), ("classic", json!(91)), ("tupdate", json!("999 us")), ("alpha", json!(0))]
    {
        let told = messages(&config(keys(json!({ "l4s": { key: value } }))), None);
        assert!(told.len() == 1 && told[0].contains(key), "{key}: {told:?}");
    }
}
