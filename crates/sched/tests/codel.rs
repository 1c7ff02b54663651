//! CoDel against the pseudo-code of RFC 8289, appendix A.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_config::Nanos;
use weir_sched::codel::{Codel, CodelConfig};
use weir_sched::manage::{Departure, Manage, State, Verdict};

const MS: u64 = 1_000_000;

fn config(target: u64, interval: u64) -> CodelConfig {
    CodelConfig { target: Nanos::new(target), interval: Nanos::new(interval), ecn: true }
}

/// The RFC's queue, with its names. Where it drops a packet that may be marked (ECN), that is marked and goes, and the control law counts it as
/// it does the others.
struct Twin {
    target: u64,
    interval: u64,
    /// Numbers and times of coming; packets with odd numbers may be marked.
    queue: VecDeque<(u64, u64)>,
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    lastcount: u32,
    dropping: bool,
    dropped: Vec<u64>,
    marked: Vec<u64>,
}

fn may_be_marked(packet: Option<u64>) -> bool {
    packet.is_some_and(|packet| packet % 2 == 1)
}

impl Twin {
    fn new(target: u64, interval: u64) -> Twin {
        Twin {
            target,
            interval,
            queue: VecDeque::new(),
            first_above_time: 0,
            drop_next: 0,
            count: 0,
            lastcount: 0,
            dropping: false,
            dropped: Vec::new(),
            marked: Vec::new(),
        }
    }

    fn control_law(&self, t: u64, count: u32) -> u64 {
        // The largest whole x with x * x * count <= interval * interval.
        let square = u128::from(self.interval) * u128::from(self.interval);
        let (mut low, mut high) = (0u128, u128::from(self.interval));
        while low < high {
            let middle = (low + high).div_ceil(2);
            if middle * middle * u128::from(count) <= square { low = middle } else { high = middle - 1 }
        }
        t + low as u64
    }

    fn dodequeue(&mut self, now: u64) -> (Option<u64>, bool) {
        let Some((packet, stamp)) = self.queue.pop_front() else {
            self.first_above_time = 0;
            return (None, false);
        };
        let mut ok_to_drop = false;
        // "bytes_ <= maxpacket_", in packets.
        if now - stamp < self.target || self.queue.is_empty() {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + self.interval;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(packet), ok_to_drop)
    }

    fn deque(&mut self, now: u64) -> Option<u64> {
        let mut r = self.dodequeue(now);
        if self.dropping {
            if !r.1 {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.count += 1;
                if may_be_marked(r.0) {
                    self.marked.extend(r.0);
                    self.drop_next = self.control_law(self.drop_next, self.count);
                    break;
                }
                self.dropped.extend(r.0);
                r = self.dodequeue(now);
                if !r.1 {
                    self.dropping = false;
                } else {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                }
            }
        } else if r.1 {
            if may_be_marked(r.0) {
                self.marked.extend(r.0);
            } else {
                self.dropped.extend(r.0);
                r = self.dodequeue(now);
            }
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && (now as i128) - i128::from(self.drop_next) < 16 * i128::from(self.interval) {
                self.count = delta;
            }
            self.drop_next = self.control_law(now, self.count);
            self.lastcount = self.count;
        }
        r.0
    }
}

/// A queue that asks as the scheduler does.
struct Ours {
    codel: Codel,
    state: State,
    queue: VecDeque<(u64, u64)>,
    dropped: Vec<u64>,
    marked: Vec<u64>,
}

impl Ours {
    fn deque(&mut self, now: u64) -> Option<u64> {
        loop {
            let (packet, stamp) = self.queue.pop_front()?;
            let departure = Departure { now, sojourn: now - stamp, behind: self.queue.len() as u32, bytes: 84 };
            let verdict = self.codel.depart(&mut self.state, &departure);
            let marks = verdict == Verdict::Mark && may_be_marked(Some(packet));
            if marks {
                self.codel.marked(&mut self.state, now);
                self.marked.push(packet);
            }
            if self.queue.is_empty() {
                self.codel.emptied(&mut self.state, now);
            }
            match verdict {
                Verdict::Pass => return Some(packet),
                Verdict::Mark if marks => return Some(packet),
                Verdict::Mark => self.dropped.push(packet),
                Verdict::Drop => unreachable!("it marks"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_rfc_does(
        target in 1u64..20,
        interval in 5u64..200,
        // (microseconds until it, packets that come first, packets that go then)
        steps in prop::collection::vec((0u64..40_000, 0usize..6, 0usize..5), 1..600),
    ) {
        let (target, interval) = (target * MS, interval * MS);
        let mut twin = Twin::new(target, interval);
        let codel = Codel::new(&config(target, interval));
        let mut ours = Ours { codel, state: State::default(), queue: VecDeque::new(), dropped: Vec::new(), marked: Vec::new() };
        let (mut now, mut next) = (MS, 0);
        for (gap, come, go) in steps {
            now += gap * 1_000;
            for _ in 0..come {
                twin.queue.push_back((next, now));
                ours.queue.push_back((next, now));
                next += 1;
            }
            for _ in 0..go {
                prop_assert_eq!(ours.deque(now), twin.deque(now), "at {}", now);
            }
            prop_assert_eq!((&ours.dropped, &ours.marked), (&twin.dropped, &twin.marked));
        }
    }
}

/// Section 3.2: under a load that does not react, the drops come at intervals of `INTERVAL / sqrt(n)`.
#[test]
fn drops_come_faster_and_faster() {
    let codel = Codel::new(&config(5 * MS, 100 * MS));
    let (mut state, mut drops) = (State::default(), Vec::new());
    for now in (1_000 * MS..2_000 * MS).step_by(MS as usize / 10) {
        let departure = Departure { now, sojourn: 50 * MS, behind: 100, bytes: 84 };
        if codel.depart(&mut state, &departure) != Verdict::Pass {
            drops.push(now);
        }
    }
    assert_eq!(drops.first(), Some(&(1_100 * MS)));
    let mut expected = 1_100.0;
    for (n, drop) in drops.iter().enumerate().skip(1) {
        expected += 100.0 / (n as f64).sqrt();
        assert!((*drop as f64 / MS as f64 - expected).abs() < 0.2, "drop {n} at {drop}, not {expected} ms");
    }
    assert!(drops.len() > 20, "{drops:?}");
}

/// Figure 1's good queue: a burst that drains within an interval loses nothing.
#[test]
fn a_burst_is_let_through() {
    let codel = Codel::new(&config(5 * MS, 100 * MS));
    let mut ours =
        Ours { codel, state: State::default(), queue: VecDeque::new(), dropped: Vec::new(), marked: Vec::new() };
    for round in 0..20 {
        let begin = (1 + round) * 1_000 * MS;
        ours.queue.extend((0..90).map(|n| (n, begin)));
        for n in 0..90 {
            assert_eq!(ours.deque(begin + n * MS), Some(n));
        }
    }
    assert!(ours.dropped.is_empty() && ours.marked.is_empty());
}

/// Without the option nothing is marked.
#[test]
fn who_does_not_ask_for_marks_gets_drops() {
    let codel = Codel::new(&CodelConfig { ecn: false, ..config(5 * MS, 100 * MS) });
    assert!(!codel.marks() && Codel::new(&config(5 * MS, 100 * MS)).marks());
    let mut state = State::default();
    let verdicts = (1_000 * MS..2_000 * MS)
        .step_by(MS as usize)
        .map(|now| codel.depart(&mut state, &Departure { now, sojourn: 50 * MS, behind: 100, bytes: 84 }));
    let verdicts: Vec<Verdict> = verdicts.collect();
    assert!(verdicts.contains(&Verdict::Drop) && !verdicts.contains(&Verdict::Mark));
}

#[test]
fn its_schema_is_sound() {
    assert_eq!(CodelConfig::schema().defects(), Vec::<String>::new());
}

proptest! {
    /// Where it says that a packet is nothing to it as long as it remembers nothing, it passes that, and still remembers nothing.
    #[test]
    fn what_it_does_not_note_is_nothing_to_it(
        now in 0..1_u64 << 60, sojourn in 0..20 * MS, behind in 0..3_u32, target in 1_000..10 * MS,
    ) {
        let codel = Codel::new(&config(target, 100 * MS));
        let departure = Departure { now, sojourn, behind, bytes: 84 };
        let mut state = State::default();
        let verdict = codel.depart(&mut state, &departure);
        prop_assert_eq!(verdict, Verdict::Pass);
        prop_assert_eq!(codel.notes(&departure), state != State::default());
    }
}

/// What is asked by time alone, before anything else is, says the same.
#[test]
fn packets_are_nothing_to_it_until_they_have_waited_for_the_target() {
    let codel = Codel::new(&config(5 * MS, 100 * MS));
    for (sojourn, behind) in [(0, 0), (0, 9), (5 * MS - 1, 9), (5 * MS, 0), (5 * MS, 1), (50 * MS, 3)] {
        let departure = Departure { now: 200 * MS, sojourn, behind, bytes: 1_000 };
        assert_eq!(codel.notes(&departure), sojourn >= 5 * MS && behind > 0, "{sojourn} {behind}");
        assert!(sojourn >= codel.patience() || !codel.notes(&departure));
        let mut state = State::default();
        assert_eq!(codel.depart(&mut state, &departure), Verdict::Pass);
        assert_eq!(state != State::default(), codel.notes(&departure));
    }
    assert_eq!(codel.patience(), 5 * MS);
}
