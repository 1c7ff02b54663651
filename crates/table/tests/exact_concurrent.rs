//! Readers find what is there all the time, and of what changes the old or the new, while a writer changes the index.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use weir_table::exact::{Exact, Hash, Index};

/// Keys that stay, whose index is replaced by another; keys that come and go share their buckets.
const STAYING: u32 = 16;
const COMING: u32 = 40;
/// Changes that the writer makes at least.
const ROUNDS: u32 = 20_000;
/// It goes on until the reader has looked so often, for a bounded number of changes.
const LOOKS: u32 = 1000;
const MOST_ROUNDS: u32 = 500_000;
/// Says that the index is of a key that stays; the rest of it is the key and a version.
const STAYS: u64 = 1 << 31;

fn hash(key: u32) -> Hash {
    // Four tags and two buckets for all of them, so that buckets overflow.
    Hash::from_bits(u64::from(key % 4) << 45 | u64::from(key / 4 % 2) << 32 | u64::from(key % 2))
}

fn key_of(value: u64) -> u32 {
    value as u32 & 0xffff
}

/// Looks up all keys that stay until told to stop; says what was wrong.
fn watch(index: &Index, stop: &AtomicBool, looks: &AtomicU32) -> Option<String> {
    let mut newest = [0; STAYING as usize];
    while !stop.load(Ordering::Relaxed) {
        for key in 0..STAYING {
            let found = index.find(hash(key), |found| found & STAYS != 0 && key_of(found) == key);
            let Some(found) = found else { return Some(format!("key {key} was not found")) };
            let version = found & !STAYS;
            // One writer: versions of a key only grow, and a later look never sees an earlier one.
            if version < newest[key as usize] {
                return Some(format!("key {key} went back to {version:#x}"));
            }
            newest[key as usize] = version;
        }
        looks.fetch_add(1, Ordering::Relaxed);
    }
    None
}

#[test]
fn what_stays_is_always_found() {
    let mut table = Exact::new(STAYING + COMING, 0).unwrap();
    for key in 0..STAYING {
        table.insert(hash(key), STAYS | u64::from(key)).unwrap();
    }
    let (stop, looks) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let (index, stop, looks) = (Arc::clone(table.index()), &stop, &looks);
        let reading = scope.spawn(move || watch(&index, stop, looks));
        let mut there = [false; COMING as usize];
        for round in 0..MOST_ROUNDS {
            if round >= ROUNDS {
                if looks.load(Ordering::Relaxed) >= LOOKS || reading.is_finished() {
                    break;
                }
                std::thread::yield_now();
            }
            let key = round % STAYING;
            let version = |round: u32| STAYS | u64::from((round / STAYING) << 16 | key);
            assert!(table.replace(hash(key), version(round), version(round + STAYING)));
            // In a stride without common divisor: all come and go, in changing company.
            let coming = round.wrapping_mul(7) % COMING;
            let is_there = &mut there[coming as usize];
            if *is_there {
                assert!(table.remove(hash(coming), coming.into()));
            } else {
                table.insert(hash(coming), coming.into()).unwrap();
            }
            *is_there = !*is_there;
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(reading.join().unwrap(), None);
    });
}
