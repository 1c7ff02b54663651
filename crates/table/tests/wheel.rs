//! The wheel against a sorted list.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_table::wheel::{Shape, Wheel};

/// What is due when, in a sorted list that is searched.
struct Twin {
    due: BTreeMap<u32, u64>,
    tick_bits: u32,
    now: u64,
}

impl Twin {
    fn insert(&mut self, id: u32, due: u64) {
        let tick = due.div_ceil(1 << self.tick_bits);
        self.due.insert(id, tick.max(self.now));
    }

    /// What is due by `now`, with the tick of each, in order.
    fn advance(&mut self, now: u64) -> Vec<(u64, u32)> {
        self.now = self.now.max(now >> self.tick_bits);
        let mut out: Vec<(u64, u32)> =
            self.due.iter().filter(|(_, due)| **due <= self.now).map(|(id, due)| (*due, *id)).collect();
        out.sort_unstable();
        self.due.retain(|_, due| *due > self.now);
        out
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64),
    Remove(u32),
    Advance(u64, usize),
}

fn step() -> impl Strategy<Value = Step> {
    // Spans of the shapes below are from a few ticks to thousands: all levels, and what lies beyond.
    let ahead = prop_oneof![0..40_u64, 0..2_000_u64, 0..20_000_u64];
    prop_oneof![
        4 => (0..40_u32, ahead.clone()).prop_map(|(id, ahead)| Step::Insert(id, ahead)),
        1 => (0..40_u32).prop_map(Step::Remove),
        3 => (ahead, 1..20_usize).prop_map(|(ahead, steps)| Step::Advance(ahead, steps)),
    ]
}

proptest! {
    #[test]
    fn it_hands_out_what_a_sorted_list_does(
        tick_bits in 0..4_u32, near_bits in 0..5_u32, far_bits in 2..5_u32, start in prop_oneof![Just(0), 0..1_u64 << 40],
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut wheel = Wheel::new(32, Shape { tick_bits, near_bits, far_bits });
        let mut twin = Twin { due: BTreeMap::new(), tick_bits, now: 0 };
        let mut now = start;
        wheel.advance(start, 1, |_| {});
        twin.advance(start);
        for step in steps {
            match step {
                Step::Insert(id, ahead) => {
                    wheel.insert(id, now + ahead);
                    if id < 32 {
                        twin.insert(id, now + ahead);
                    }
                }
                Step::Remove(id) => prop_assert_eq!(wheel.remove(id), twin.due.remove(&id).is_some()),
                Step::Advance(ahead, budget) => {
                    now += ahead;
                    let mut out = Vec::new();
                    let mut rounds = 0;
                    loop {
                        let before = out.len();
                        let left = wheel.advance(now, budget, |id| out.push((twin.due[&id], id)));
                        prop_assert!(out.len() - before + left <= budget);
                        if left > 0 {
                            break;
                        }
                        rounds += 1;
                        prop_assert!(rounds < 1_000_000, "no progress");
                    }
                    prop_assert!(out.is_sorted_by_key(|(due, _)| *due), "{:?}", out);
                    out.sort_unstable();
                    prop_assert_eq!(out, twin.advance(now));
                }
            }
            prop_assert_eq!(wheel.len(), twin.due.len());
            prop_assert_eq!(wheel.is_empty(), wheel.next().is_none());
            let first = twin.due.values().min().map(|tick| tick << tick_bits);
            prop_assert!(wheel.next() <= first, "{:?} after {:?}", wheel.next(), first);
            for id in 0..40 {
                prop_assert_eq!(wheel.contains(id), twin.due.contains_key(&id));
            }
        }
    }

    /// Whoever calls when it is told to gets everything on its tick, in few calls.
    #[test]
    fn calling_when_told_misses_nothing(dues in prop::collection::vec(0..1_u64 << 24, 1..60)) {
        let shape = Shape { tick_bits: 4, near_bits: 6, far_bits: 6 };
        let mut wheel = Wheel::new(64, shape);
        for (id, due) in dues.iter().enumerate() {
            wheel.insert(id as u32, *due);
        }
        let mut calls = 0;
        while let Some(next) = wheel.next() {
            calls += 1;
            prop_assert!(calls < 60 * 100, "too many calls");
            wheel.advance(next, usize::MAX, |id| {
                let due = dues[id as usize];
                assert!(due <= next && next < due + 16, "due at {due}, out at {next}");
            });
        }
    }
}

proptest! {
    /// Those who are told to be next are the first twelve that come out of each tick.
    #[test]
    fn who_is_next_is_known(dues in prop::collection::vec(0..200_u64, 1..60), start in 0..1_u64 << 40, ticks in 1..70_u32) {
        let mut wheel = Wheel::new(64, Shape { tick_bits: 0, near_bits: 8, far_bits: 4 });
        wheel.advance(start, 1, |_| {});
        for (id, due) in dues.iter().enumerate() {
            wheel.insert(id as u32, start + due);
        }
        let mut told = Vec::new();
        wheel.next_ones(ticks, |id| told.push(id));
        let mut out = Vec::new();
        let last = start + u64::from(ticks.min(64)) - 1;
        wheel.advance(last, usize::MAX, |id| out.push(id));
        let due = |id: u32| dues.get(id as usize).copied();
        let first = |group: &[u32]| group.iter().copied().take(12).collect::<Vec<_>>();
        let firsts: Vec<u32> = out.chunk_by(|a, b| due(*a) == due(*b)).flat_map(first).collect();
        prop_assert_eq!(told, firsts);
    }
}

#[test]
fn a_number_among_the_farthest_waits_its_turn() {
    let mut wheel = Wheel::new(2, Shape { tick_bits: 0, near_bits: 2, far_bits: 1 });
    wheel.insert(0, u64::MAX);
    wheel.insert(1, 1_000_000);
    let mut out = Vec::new();
    while wheel.advance(1_000_000, 64, |id| out.push(id)) == 0 {}
    assert_eq!((out, wheel.len()), (vec![1], 1));
    assert!(wheel.remove(0) && wheel.next().is_none());
    wheel.insert(0, 3); // the past
    assert_eq!(wheel.next(), Some(1_000_000));
}
