//! What couples the two lines of a queue: DualPI2, the dual-queue coupled active queue management of RFC 9332, appendix A.
//!
//! A base probability p' follows how long packets wait (a proportional-integral controller). A packet of the classic line is dropped, or marked, with
//! probability p'^2, and one of the low-latency line marked with probability k p': the former is what halves the window of a classic sender as often as the
//! latter reduces that of a scalable one (section 2.1), so that both come to about the same rate.

use std::num::NonZeroU64;

use weir_config::{Nanos, config};

use crate::manage::{State, Verdict};

config! {
    /// Two lines in each queue of a class (L4S, RFC 9332): what says that its sender is scalable (ECT(1) or CE) hardly waits, and is marked early; everything
    /// else is dropped or marked (ECT(0)) by PI2. Marks and drops are coupled, so that both kinds of senders come to about the same rate.
    pub struct L4sConfig {
        /// How long packets of the classic line wait in the long run.
        pub target: Nanos = default(Nanos::new(15_000_000)), live, range(Nanos::new(100_000)..=Nanos::new(1_000_000_000));
        /// How often the base probability is brought up to date.
        pub tupdate: Nanos = default(Nanos::new(15_000_000)), live, range(Nanos::new(1_000_000)..=Nanos::new(1_000_000_000));
        /// What each second that packets wait for longer than `target` adds to the base probability at each update.
        pub alpha: f64 = default(0.15), live, range(0.000_001..=100.0);
        /// What each second that packets wait for longer than at the last update adds to the base probability.
        pub beta: f64 = default(3.0), live, range(0.0..=100.0);
        /// So many times the base probability a packet of the low-latency line is marked with, while one of the classic line is with its square.
        pub coupling: u8 = default(2), live, range(1..=16);
        /// Packets of the low-latency line that have waited for so long are marked in any case, while others wait behind them in that line.
        pub step: Nanos = default(Nanos::new(1_000_000)), live, range(Nanos::new(10_000)..=Nanos::new(1_000_000_000));
        /// So many hundredths of what the class sends are the classic line's at least while packets wait in both.
        pub classic: u8 = default(10), live, range(1..=90);
    }
}

/// One of the two lines of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Of packets whose senders are not scalable, as far as these say (Not-ECT and ECT(0)).
    Classic,
    /// Of those that are to wait as little as can be (ECT(1) and CE).
    Low,
}

impl Line {
    /// That of a packet with this field of explicit congestion notification: the classifier of `dualpi2_enqueue`.
    pub fn of(ecn: u8) -> Line {
        if ecn & 1 == 1 { Line::Low } else { Line::Classic }
    }

    /// The other one.
    pub fn other(self) -> Line {
        match self {
            Line::Classic => Line::Low,
            Line::Low => Line::Classic,
        }
    }
}

/// A packet of a queue with two lines that is about to go.
#[derive(Clone, Copy, Debug)]
pub struct Going {
    /// The time, nanoseconds.
    pub now: u64,
    /// How long it has waited, nanoseconds.
    pub sojourn: u64,
    /// When the one came that has waited for longest of those that are first in a line, nanoseconds.
    pub oldest: u64,
    /// Packets behind it in its line.
    pub behind: u32,
    /// Its line.
    pub line: Line,
}

/// What couples the two lines of queues whose state it is handed; one value serves the queues of many users.
///
/// The base probability is kept as if there were a timer: what is due is made up for when a packet is about to go, for each moment with the wait
/// of the packet that was first then, as it is first now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L4s {
    target: i128,
    tupdate: NonZeroU64,
    /// Parts of [`ONE`] per nanosecond.
    alpha: i128,
    beta: i128,
    coupling: u64,
    step: u64,
    classic: u8,
}

/// 1 as a base probability.
const ONE: i128 = 1 << 60;

/// 1 as the probability of a mark or a drop, and bits of a base probability below its unit.
const SURE: u64 = 1 << 32;
const FINE_BITS: u32 = 28;

// What is remembered of a queue: its base probability, when that was brought up to date last, how long packets waited then (and that there is
// something to remember), and what of the likelihoods of its packets has not come to a whole one yet: of the low-latency line in the upper half.
const BASE: usize = 0;
const UPDATED: usize = 1;
const WAITED: usize = 2;
const COUNTS: usize = 3;

const KNOWN: u64 = 1 << 63;

/// Times beyond that, 13 days, are all the same, nanoseconds.
const LONGEST: u64 = 1 << 50;

/// Updates, and with how long packets waited at the first of them and how much longer at each that follows.
struct Updates {
    count: u64,
    waited: u64,
    more: u64,
}

impl L4s {
    /// From a configuration.
    pub fn new(config: &L4sConfig) -> L4s {
        // At most 2^37 with what the schema allows.
        let part = |per_second: f64| (per_second.clamp(0.0, 100.0) * (ONE as f64) / 1e9) as i128;
        L4s {
            target: config.target.nanos().min(LONGEST).into(),
            tupdate: NonZeroU64::new(config.tupdate.nanos().clamp(1_000_000, LONGEST)).unwrap_or(NonZeroU64::MIN),
            alpha: part(config.alpha),
            beta: part(config.beta),
            coupling: config.coupling.clamp(1, 16).into(),
            step: config.step.nanos(),
            classic: config.classic.clamp(1, 90),
        }
    }

    /// So many hundredths of what both lines send while both have packets are the classic line's.
    pub fn classic(&self) -> u8 {
        self.classic
    }

    /// Whether a state is one of these, and not what another management has left.
    pub(crate) fn knows(state: &State) -> bool {
        state[WAITED] & KNOWN != 0
    }

    /// The base probability p' of a queue.
    pub fn base(state: &State) -> f64 {
        state[BASE] as f64 / ONE as f64
    }

    /// A queue in which nothing waits lets a packet go at `now` whatever it is: its base probability is 0.
    pub fn rests(&self, state: &mut State, now: u64) -> bool {
        if L4s::knows(state) {
            self.update(state, now, u64::MAX);
        }
        state[BASE] >> FINE_BITS == 0
    }

    /// What becomes of a packet that is about to go: `dualpi2_dequeue` of appendix A.2. A packet of the classic line that cannot be marked is to be dropped instead.
    pub fn go(&self, state: &mut State, going: &Going) -> Verdict {
        self.update(state, going.now, going.oldest);
        let base = (state[BASE] >> FINE_BITS).min(SURE);
        let (squared, coupled) = ((base * (base >> 1)) >> 31, base * self.coupling);
        let is_saturated = coupled >= SURE;
        match going.line {
            // "revert to Classic drop due to overload", and "linear marking of remaining packets", with a probability of 1.
            Line::Low if is_saturated => {
                if recur(state, Line::Low, squared) {
                    Verdict::Drop
                } else {
                    Verdict::Mark
                }
            }
            Line::Low => {
                let late = going.behind > 0 && going.sojourn >= self.step;
                let likelihood = if late { SURE } else { coupled };
                if recur(state, Line::Low, likelihood) { Verdict::Mark } else { Verdict::Pass }
            }
            Line::Classic => match recur(state, Line::Classic, squared) {
                false => Verdict::Pass,
                // "Overload disables ECN": p'^2 is at least 1 / k^2.
                true if is_saturated => Verdict::Drop,
                true => Verdict::Mark,
            },
        }
    }

    /// Brings the base probability up to date, where the packet came at `oldest` that is the first now.
    fn update(&self, state: &mut State, now: u64, oldest: u64) {
        if !L4s::knows(state) {
            *state = [0, oldest.min(now), KNOWN, 0];
        }
        let last = state[UPDATED].min(now);
        let passed = now - last;
        let due = passed.min(LONGEST) / self.tupdate;
        if due == 0 {
            state[UPDATED] = last;
            return;
        }
        // Nothing waited at those before it came.
        let idle = oldest.saturating_sub(1).saturating_sub(last).min(LONGEST) / self.tupdate;
        let idle = idle.min(due);
        self.run(state, &Updates { count: idle, waited: 0, more: 0 });
        let first = (last + (idle + 1) * self.tupdate.get()).saturating_sub(oldest).min(LONGEST);
        self.run(state, &Updates { count: due - idle, waited: first, more: self.tupdate.get() });
        state[UPDATED] = now - passed % self.tupdate;
    }

    /// `dualpi2_update`, so many times: what is added to the base probability grows with each, so that it falls first and rises then. None of the factors and
    /// sums here comes near to what they are held in: times have 50 bits, parts 37, and there are at most 2^30 updates.
    fn run(&self, state: &mut State, updates: &Updates) {
        let Updates { count, waited, more } = *updates;
        if count == 0 {
            return;
        }
        let (waited, more, count) = (i128::from(waited), i128::from(more), i128::from(count));
        let before = i128::from(state[WAITED] & !KNOWN);
        let base = i128::from(state[BASE]) + self.alpha * (waited - self.target) + self.beta * (waited - before);
        let base = base.clamp(0, ONE);
        // Of those that follow, the n-th adds `each + n * growth`.
        let (each, growth) = (self.alpha * (waited - self.target) + self.beta * more, self.alpha * more);
        let rest = count - 1;
        let falls = if growth == 0 { if each < 0 { rest } else { 0 } } else { ((-each).max(0) / growth).min(rest) };
        let sum = |n: i128| n * each + growth * (n * (n + 1) / 2);
        let base = (base + sum(falls)).clamp(0, ONE);
        let base = (base + sum(rest) - sum(falls)).clamp(0, ONE);
        state[BASE] = base as u64;
        let waited = (waited + more * rest).min(LONGEST.into());
        state[WAITED] = waited as u64 | KNOWN;
    }
}

/// Answers yes for a share of the packets of a line, as evenly as can be: `recur` of appendix A.1, which is true as soon as likelihoods come to 1.
fn recur(state: &mut State, line: Line, likelihood: u64) -> bool {
    let shift = if line == Line::Low { 32 } else { 0 };
    let sum = (state[COUNTS] >> shift & (SURE - 1)) + likelihood.min(SURE);
    let rest = sum & (SURE - 1);
    state[COUNTS] = state[COUNTS] & !((SURE - 1) << shift) | rest << shift;
    sum >= SURE
}
