//! A reader sees each change of the table of IPv6 prefixes at once, for all addresses, however short the prefix is.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use weir_mem::{Domain, Reader};
use weir_table::lpm6::{Compiled, Config, Lookup6, Lpm6, Prefix6, Refused, Trie};

/// The writer goes on until the reader has seen so many states.
const SEEN: u32 = 4_000;
/// For at most so many changes, else the test fails.
const STATES: u32 = 4_000_000;
/// Values of prefixes that stay are above those that count states.
const FIXED: u32 = 1 << 30;

fn settle(mut change: impl FnMut() -> Result<Option<u32>, Refused>) {
    // Refused while what was freed last waits for the reader.
    while let Err(refused) = change() {
        assert!(matches!(refused, Refused::NoRoom { .. }));
        std::thread::yield_now();
    }
}

/// Networks of many lengths below a prefix.
fn networks(around: Prefix6) -> Vec<Prefix6> {
    let step = |n: u32| u128::from(n.wrapping_mul(0x9e37_79b9)) << 88;
    let inside = |n: u32| around.address() | step(n) & (around.last() - around.address());
    (0..300).map(|n| Prefix6::covering(inside(n), [30, 32, 36, 40, 48, 56, 64, 128][n as usize % 8]).unwrap()).collect()
}

/// Follows addresses that have no other prefixes than those that count: states never go back. Those below others are always theirs.
fn watch(trie: &Trie, mut reader: Reader, free: &[u128], fixed: &[(u128, u32)], done: &AtomicBool, seen: &AtomicU32) {
    let mut state = 0;
    let mut values = vec![0; free.len()];
    while !done.load(Ordering::Relaxed) {
        let before = state;
        for &address in free {
            let value = trie.lookup(address);
            assert!(value >= state && value < FIXED, "{address:#x}: state {value} after {state}");
            if value > state {
                (state, _) = (value, seen.fetch_add(1, Ordering::Relaxed));
            }
        }
        trie.lookup_batch(free, &mut values);
        let last = trie.lookup(free[0]);
        // Each of a batch on its own, between its begin and its end.
        assert!(values.iter().all(|value| (state..=last).contains(value)), "{state} to {last}: {values:?}");
        for &(address, value) in fixed {
            assert_eq!(trie.lookup(address), value, "{address:#x} in state {before}");
        }
        state = last;
        reader.quiescent();
    }
}

fn changes_are_seen_at_once(length: u8) {
    let domain = Domain::new();
    let mut table = Compiled::new(&Config { max_lines: 1 << 15, ..Config::new(0) }, &domain).unwrap();
    let prefix = |length| Prefix6::covering(0x2a00 << 112, length).unwrap();
    let (short, shorter) = (prefix(length), prefix(length - 1));
    let networks = networks(short);
    let fixed: Vec<(u128, u32)> = (FIXED..).zip(&networks).map(|(value, network)| (network.address(), value)).collect();
    for (&(_, value), network) in fixed.iter().zip(&networks) {
        table.insert(*network, value).unwrap();
    }
    // The longest one at an address says.
    let fixed: Vec<(u128, u32)> =
        fixed.iter().map(|(address, _)| (*address, table.reader().lookup(*address))).collect();
    let spread = |n: u32| u128::from(n.wrapping_mul(0x85eb_ca6b)) << 80 & (short.last() - short.address());
    let everywhere = (0..400_u32).map(|n| short.address() | spread(n));
    let free: Vec<u128> = everywhere.filter(|a| short.covers(*a) && table.reader().lookup(*a) == 0).collect();
    assert!(free.len() > 20 && table.len() > 150);
    table.insert(shorter, 1).unwrap();
    let (done, seen) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let (trie, reader, done, seen) = (Arc::clone(table.reader()), domain.reader().unwrap(), &done, &seen);
        let reading = scope.spawn({
            let (free, fixed) = (&free, &fixed);
            move || watch(&trie, reader, free, fixed, done, seen)
        });
        for state in 1..STATES {
            if seen.load(Ordering::Relaxed) >= SEEN || reading.is_finished() {
                break;
            }
            match state % 3 {
                0 => {
                    // Nobody sees the one behind until the other one is gone.
                    settle(|| table.insert(shorter, state));
                    settle(|| table.remove(short));
                }
                _ => settle(|| table.insert(short, state)),
            }
        }
        done.store(true, Ordering::Relaxed);
        reading.join().unwrap();
        assert!(seen.load(Ordering::Relaxed) >= SEEN, "the reader saw too few changes");
    });
}

#[test]
fn a_change_of_a_short_prefix_is_one() {
    changes_are_seen_at_once(11);
}

#[test]
fn a_change_between_arrays_is_one() {
    changes_are_seen_at_once(20);
}
