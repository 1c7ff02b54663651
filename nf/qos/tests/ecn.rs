//! Packets that are marked in place of being dropped (ECN, RFC 3168), as they come out and as it is told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use crate::common;

use common::*;
use serde_json::{Value, json};
use weir_wire::{Ipv4, View, checksum, ipv4};

/// Where the network header of a frame with two tags begins.
const L3: usize = 22;

/// The packet of a number: its two lowest bits are its ECN field, the next is its family; of IPv4, every second one has options.
fn packet(number: u32) -> Vec<u8> {
    let mut bytes = frame((1, 1), 10, number, 100);
    let field = number as u8 & 3;
    if number & 4 != 0 {
        bytes[20..L3].copy_from_slice(&[0x86, 0xdd]);
        let header = [0x60, (10 << 2 | field) << 4, 0, 0, 0, 38, 17, 64];
        bytes[L3..L3 + 8].copy_from_slice(&header);
        bytes[L3] |= (10 << 2 | field) >> 4;
        return bytes;
    }
    bytes[L3 + 1] |= field;
    if number & 8 != 0 {
        bytes[L3] = 0x47;
        bytes[L3 + 20..L3 + 28].fill(1);
    }
    assert!(ipv4::write_checksum(&mut bytes[L3..]));
    bytes
}

/// The same with the mark.
fn marked(number: u32) -> Vec<u8> {
    let mut bytes = packet(number);
    if number & 4 != 0 {
        bytes[L3 + 1] |= 3 << 4;
    } else {
        bytes[L3 + 1] |= 3;
        assert!(ipv4::write_checksum(&mut bytes[L3..]));
    }
    bytes
}

/// A user at 1 Mbit/s, whose packets are all of the lowest of three classes, which is managed so.
fn keys(managed: Value) -> Value {
    let mut scheduler = scheduler(json!({
        "slow": { "tb_rate": "1 Mbit/s", "tb_size": "248 B", "classes": [{}, {}, managed] },
    }));
    scheduler["classes"] = json!(3);
    json!({ "users": [{ "tags": "1.1", "profile": "slow" }], "scheduler": scheduler })
}

/// What is told of the user: drops by reason, marks, marks by class.
fn told(rig: &Rig) -> (Value, u64, Value) {
    let row = &rig.show("users", Some("1.1"))[0];
    (row["drops"].clone(), row["marked"].as_u64().unwrap(), row["marks"].clone())
}

/// What came out by number: whether it is as it was sent, or as it is to be with the mark. Anything else fails the test.
fn came(rig: &mut Rig) -> BTreeMap<u32, bool> {
    let look = |bytes: Vec<u8>| {
        let number = number(&bytes);
        assert!(bytes == packet(number) || bytes == marked(number), "{number}: {bytes:x?}");
        assert!(number & 4 != 0 || checksum::is_valid(&bytes[L3..L3 + Ipv4::view(&bytes[L3..]).unwrap().header_len()]));
        (number, bytes == marked(number))
    };
    rig.sent(1).into_iter().map(look).collect()
}

#[test]
fn controlled_delay_marks_what_it_may_and_drops_the_rest() {
    let codel = |ecn| json!({ "codel": { "target": "100 us", "interval": "2 ms", "ecn": ecn } });
    let mut rig = Rig::new(keys(codel(true)));
    rig.run(SECOND);
    (0..60).for_each(|n| rig.send(0, packet(n)));
    rig.run(SECOND);
    let came = came(&mut rig);
    let (drops, marks, by_class) = told(&rig);
    let lost: Vec<u32> = (0..60).filter(|n| !came.contains_key(n)).collect();
    assert!(!lost.is_empty() && lost.iter().all(|n| n & 3 == 0), "{lost:?}");
    assert_eq!(drops, json!({ "codel": lost.len() }));
    // What came with the mark has it in any case.
    let new: Vec<u32> = came.iter().filter(|(n, marked)| **marked && *n & 3 != 3).map(|(n, _)| *n).collect();
    assert!(new.len() > 5 && new.len() as u64 <= marks && new.iter().all(|n| n & 3 != 0), "{new:?}");
    for (bits, name) in [(1, "ECT(1)"), (2, "ECT(0)")] {
        for family in [0, 4] {
            assert!(new.iter().any(|n| n & 3 == bits && n & 4 == family), "{name} {family}: {new:?}");
        }
    }
    assert_eq!(by_class, json!({ "2": marks }));
    let seen = rig.show("history", Some("1.1"));
    assert!(seen.is_empty(), "nobody has asked before");
    // Without the option, all are alike from the next packet on.
    rig.reload(keys(codel(false)));
    rig.run(SECOND);
    (0..60).for_each(|n| rig.send(0, packet(n)));
    rig.run(2 * SECOND);
    let came = self::came(&mut rig);
    let lost: Vec<u32> = (0..60).filter(|n| !came.contains_key(n)).collect();
    assert!(lost.iter().any(|n| n & 3 != 0) && came.iter().all(|(n, marked)| *marked == (n & 3 == 3)), "{lost:?}");
    assert_eq!(told(&rig).1, marks);
    let seen = rig.show("history", Some("1.1"));
    assert!(seen.iter().all(|row| row["marked"] == json!(0)) && !seen.is_empty(), "{seen:?}");
    // And marks are told second by second.
    rig.reload(keys(codel(true)));
    (0..60).for_each(|n| rig.send(0, packet(n)));
    rig.run(3 * SECOND);
    let sum: u64 = rig.show("history", Some("1.1")).iter().filter_map(|row| row["marked"].as_u64()).sum();
    assert_eq!(sum, told(&rig).1 - marks);
    assert!(sum > 0);
    rig.finish();
}

#[test]
fn random_early_detection_marks_until_the_queue_is_too_long() {
    // The queue has room for 50 packets, so that their average never comes to 60.
    let red =
        |max| json!({ "red": { "min": 1, "max": max, "probability": 1, "weight": 1, "ecn": true }, "queue_size": 50 });
    let mut rig = Rig::new(keys(red(60)));
    rig.run(SECOND);
    (0..100).for_each(|n| rig.send(0, packet(2 * n + 1)));
    rig.run(SECOND);
    let (drops, marks, _) = told(&rig);
    // All may be marked, so none is dropped before the queue is full.
    let full = drops["queue-full"].as_u64().unwrap();
    assert_eq!(drops, json!({ "queue-full": full }));
    assert!(full > 30 && marks > 0, "{full} {marks}");
    assert_eq!(came(&mut rig).len() as u64 + full, 100);
    // Beyond the upper threshold of the average they are dropped, whatever their ends know.
    rig.reload(keys(red(10)));
    rig.run(SECOND);
    (0..100).for_each(|n| rig.send(0, packet(2 * n + 1)));
    rig.run(SECOND);
    assert!(told(&rig).0["red"].as_u64().unwrap() > 50, "{:?}", told(&rig));
    rig.finish();
}
