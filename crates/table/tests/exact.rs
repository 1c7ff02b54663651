//! The exact-match index against a plain list of its entries.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::HashMap;

use proptest::prelude::*;
use weir_table::exact::{BUCKET, Exact, Hash, PROBES, Refused, VALUE_BITS};

/// What the index is to do, as an obvious list of (hash, record); each record is of one key.
#[derive(Default)]
struct Twin(Vec<(Hash, u64)>);

/// The records that the index offers for a hash: none is told to be the right one, so that it looks at all.
fn offered(table: &Exact, hash: Hash) -> Vec<u64> {
    let mut seen = Vec::new();
    let none = table.index().find(hash, |index| {
        seen.push(index);
        false
    });
    assert_eq!(none, None);
    seen.sort_unstable();
    seen
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Replace(usize),
    Remove(usize),
    /// Of something that is not there.
    RemoveOther(u64),
}

/// A hash with this tag, of one of two buckets and either half of it.
fn bits(tag: u64, half: u64) -> u64 {
    tag << 45 | half >> 1 << 32 | half & 1
}

/// Few tags and buckets: entries share both, and buckets overflow.
fn hashes() -> impl Iterator<Item = Hash> {
    (0..3).flat_map(|tag| (0..4).map(move |half| Hash::from_bits(bits(tag, half))))
}

fn step() -> impl Strategy<Value = Step> {
    let hash = (0u64..3, 0u64..4).prop_map(|(tag, half)| bits(tag, half));
    prop_oneof![
        4 => hash.clone().prop_map(Step::Insert),
        1 => any::<usize>().prop_map(Step::Replace),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => hash.prop_map(Step::RemoveOther),
    ]
}

proptest! {
    #[test]
    fn does_what_a_list_does(steps in prop::collection::vec(step(), 0..300)) {
        let capacity = 40;
        let mut table = Exact::new(capacity, 1).unwrap();
        let mut twin = Twin::default();
        for (step, fresh) in steps.into_iter().zip(0..) {
            match step {
                Step::Insert(bits) => match table.insert(Hash::from_bits(bits), fresh) {
                    Ok(()) => twin.0.push((Hash::from_bits(bits), fresh)),
                    // 40 entries are fewer than the words of all buckets that one may stand in.
                    Err(refused) => {
                        prop_assert_eq!(refused, Refused::Full { capacity });
                        prop_assert_eq!(twin.0.len(), capacity as usize);
                    }
                },
                Step::Replace(which) if !twin.0.is_empty() => {
                    let at = which % twin.0.len();
                    let (hash, old) = twin.0[at];
                    prop_assert!(table.replace(hash, old, fresh));
                    twin.0[at].1 = fresh;
                }
                Step::Remove(which) if !twin.0.is_empty() => {
                    let (hash, index) = twin.0.swap_remove(which % twin.0.len());
                    prop_assert!(table.remove(hash, index));
                }
                Step::RemoveOther(bits) => {
                    prop_assert!(!table.remove(Hash::from_bits(bits), fresh));
                    prop_assert!(!table.replace(Hash::from_bits(bits), fresh, fresh));
                }
                Step::Replace(_) | Step::Remove(_) => {}
            }
            prop_assert_eq!(table.len() as usize, twin.0.len());
        }
        for hash in hashes() {
            let offered = offered(&table, hash);
            let mut of_hash = twin.0.iter().filter(|(other, _)| *other == hash);
            prop_assert!(of_hash.all(|(_, index)| offered.contains(index)), "a key is not found");
            // Others with the same tag may be offered, but nothing that is not there, and nothing twice.
            prop_assert!(offered.iter().all(|index| twin.0.iter().any(|(_, there)| there == index)));
            prop_assert!(offered.is_sorted_by(|one, other| one < other));
            if let Some(candidate) = table.index().candidate(hash) {
                prop_assert!(offered.contains(&candidate));
            }
        }
    }

    #[test]
    fn each_bit_of_a_key_and_of_the_seed_changes_the_hash(high: u64, low: u64, seed: u64, bit in 0u32..64) {
        let table = Exact::new(1, seed).unwrap();
        let hash = table.index().hash(high, low);
        prop_assert_ne!(hash, table.index().hash(high ^ 1 << bit, low));
        prop_assert_ne!(hash, table.index().hash(high, low ^ 1 << bit));
        prop_assert_ne!(hash, Exact::new(1, seed ^ 1 << bit).unwrap().index().hash(high, low));
    }
}

/// Keys as a gateway has them: few scopes, addresses in a row.
fn keys(count: u32) -> impl Iterator<Item = (u64, u64)> {
    (0..count).map(|n| (u64::from(n % 3), u64::from(0x0a00_0000 + n)))
}

#[test]
fn a_full_index_finds_everything_nearly_always_at_once() {
    let count = 100_000;
    for seed in [0, 1, 0x1234_5678_9abc_def0] {
        let mut table = Exact::new(count, seed).unwrap();
        for ((high, low), n) in keys(count).zip(0..) {
            table.insert(table.index().hash(high, low), n).unwrap();
        }
        let one_more = table.index().hash(99, 99);
        assert_eq!(table.insert(one_more, 0), Err(Refused::Full { capacity: count }));
        let mut at_once = 0;
        for ((high, low), n) in keys(count).zip(0..) {
            let hash = table.index().hash(high, low);
            at_once += u32::from(table.index().candidate(hash) == Some(n));
            assert_eq!(table.index().find(hash, |index| index == n), Some(n));
        }
        assert!(at_once > count / 100 * 97, "{at_once} of {count}");
        for ((high, low), n) in keys(count).zip(0..) {
            assert!(table.remove(table.index().hash(high, low), n));
        }
        assert!(table.is_empty());
    }
}

#[test]
fn keys_in_a_row_hash_to_all_buckets_and_tags() {
    let table = Exact::new(1, 7).unwrap();
    let mut hashes = HashMap::new();
    for (high, low) in keys(1 << 16) {
        *hashes.entry(table.index().hash(high, low)).or_insert(0) += 1;
    }
    assert_eq!(hashes.len(), 1 << 16);
}

#[test]
fn crowded_keys_are_refused_and_change_nothing() {
    let mut table = Exact::new(10_000, 0).unwrap();
    let hash = Hash::from_bits(5);
    let room = u64::from(PROBES) * BUCKET as u64;
    for n in 0..room {
        table.insert(hash, n).unwrap();
    }
    assert_eq!(table.insert(hash, room), Err(Refused::Crowded));
    assert_eq!(offered(&table, hash), (0..room).collect::<Vec<_>>());
    assert!(table.remove(hash, 3));
    table.insert(hash, room).unwrap();
    assert_eq!(u64::from(table.len()), room);
}

#[test]
fn the_smallest_index_holds_one() {
    const MOST: u64 = (1 << VALUE_BITS) - 1;
    let mut table = Exact::new(1, 0).unwrap();
    let hash = table.index().hash(1, 2);
    table.index().prefetch(hash);
    assert_eq!(table.index().candidate(hash), None);
    table.insert(hash, MOST).unwrap();
    assert_eq!(table.index().candidate(hash), Some(MOST));
    assert_eq!(table.insert(hash, 1), Err(Refused::Full { capacity: 1 }));
}
