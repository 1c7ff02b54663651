//! What becomes of the packets of a few users whom somebody asks about, second by second and minute by minute: how many and how long they waited.
//!
//! Nobody is watched before he is asked about, and he is forgotten [`PATIENCE`] after that was so last. Whether a user is watched is a bit of its
//! standing, which every packet of it reads anyway: for all others a packet costs the look at that bit. The control side says who is to be watched; the
//! scheduler alone writes what it sees.

use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::gates::Loss;

/// Users of one scheduler who are watched at once.
pub const WATCHED: usize = 64;

/// For so long a user is watched after somebody asked, nanoseconds.
pub const PATIENCE: u64 = 15 * MINUTE;

/// Seconds that are told, and minutes.
pub const TOLD: u64 = 10;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

/// Spans that are kept: those that are told, the one that is not over yet, and one between, so that none is told while it is written.
const KEPT: usize = TOLD as usize + 2;

/// Times are counted in units of 1.024 us.
const UNIT_BITS: u32 = 10;

/// Times of one power of two are told apart in so many steps: what is told is no more than an eighth, and a unit, above what is true.
const STEP_BITS: u32 = 3;
const STEPS: u64 = 1 << STEP_BITS;

/// The longest time that is told apart from longer ones is 17 s.
const LONGEST: u64 = 1 << 24;
const BINS: usize = ((24 - STEP_BITS as usize) << STEP_BITS) + STEPS as usize;

const NOBODY: u32 = u32::MAX;

/// The bin of a time.
fn bin(nanos: u64) -> usize {
    let units = (nanos >> UNIT_BITS).min(LONGEST - 1);
    if units < STEPS {
        return units as usize;
    }
    let octave = units.ilog2() - STEP_BITS;
    ((u64::from(octave + 1) << STEP_BITS) + (units >> octave) - STEPS) as usize
}

/// The first time that is too long for a bin, nanoseconds.
fn end(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < STEPS {
        return (bin + 1) << UNIT_BITS;
    }
    let octave = (bin >> STEP_BITS) - 1;
    ((STEPS + bin % STEPS + 1) << octave) << UNIT_BITS
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// So many bytes were sent, without overhead, so many nanoseconds after they came.
    Sent(u16, u64),
    /// It was dropped.
    Lost(Loss),
    /// It was marked, and what else becomes of it is told on its own.
    Marked,
}

/// What became of a user's packets in one second or one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, without overhead.
    pub bytes: u64,
    /// Packets dropped, by reason.
    pub lost: [u64; Loss::ALL.len()],
    /// Packets marked as such that have met congestion.
    pub marked: u64,
    /// How long half of the packets that were sent waited at most, nanoseconds; `None` where there were none.
    pub p50: Option<u64>,
    /// The same of 99 of 100.
    pub p99: Option<u64>,
}

/// A second or a minute.
#[derive(Debug)]
struct Span {
    /// Its number since the clock's zero, from 1; 0 for none yet.
    number: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: [AtomicU64; Loss::ALL.len()],
    marked: AtomicU64,
    bins: [AtomicU32; BINS],
}

impl Span {
    fn new() -> Span {
        Span {
            number: AtomicU64::new(0),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lost: Default::default(),
            marked: AtomicU64::new(0),
            bins: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    fn clear(&self, number: u64) {
        self.number.store(0, Ordering::Relaxed);
        let all = [&self.packets, &self.bytes, &self.marked].into_iter().chain(&self.lost);
        all.for_each(|count| count.store(0, Ordering::Relaxed));
        self.bins.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        self.number.store(number, Ordering::Release);
    }

    fn note(&self, fate: Fate) {
        match fate {
            Fate::Sent(bytes, waited) => {
                add(&self.packets, 1);
                add(&self.bytes, u64::from(bytes));
                if let Some(count) = self.bins.get(bin(waited)) {
                    count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                }
            }
            Fate::Marked => add(&self.marked, 1),
            Fate::Lost(loss) => self.lost.get(loss as usize).into_iter().for_each(|count| add(count, 1)),
        }
    }

    fn seen(&self) -> Seen {
        let bins = self.bins.each_ref().map(|count| count.load(Ordering::Relaxed));
        Seen {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            lost: self.lost.each_ref().map(|count| count.load(Ordering::Relaxed)),
            marked: self.marked.load(Ordering::Relaxed),
            p50: percentile(&bins, 50),
            p99: percentile(&bins, 99),
        }
    }
}

/// The end of the first bin up to which there are so many of a hundred.
fn percentile(bins: &[u32], of_hundred: u64) -> Option<u64> {
    let all: u64 = bins.iter().copied().map(u64::from).sum();
    let mut rank = (all * of_hundred).div_ceil(100);
    (all > 0).then_some(())?;
    bins.iter().copied().map(u64::from).enumerate().find_map(|(bin, count)| {
        let is_here = rank <= count;
        rank = rank.saturating_sub(count);
        is_here.then(|| end(bin))
    })
}

/// Adds where there is one writer.
fn add(to: &AtomicU64, count: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// The last seconds, or minutes.
#[derive(Debug)]
struct Spans {
    /// Nanoseconds.
    length: NonZeroU64,
    spans: [Span; KEPT],
}

impl Spans {
    fn new(length: u64) -> Spans {
        let length = NonZeroU64::new(length).unwrap_or(NonZeroU64::MIN);
        Spans { length, spans: std::array::from_fn(|_| Span::new()) }
    }

    fn span(&self, number: u64) -> Option<&Span> {
        self.spans.get((number % KEPT as u64) as usize)
    }

    fn clear(&self) {
        self.spans.iter().for_each(|span| span.clear(0));
    }

    fn note(&self, fate: Fate, now: u64) {
        let number = now / self.length + 1;
        let Some(span) = self.span(number) else { return };
        if span.number.load(Ordering::Relaxed) != number {
            span.clear(number);
        }
        span.note(fate);
    }

    /// What was seen in those that are over, the latest first, as far back as `begun`.
    fn told(&self, begun: u64, now: u64) -> Vec<Seen> {
        let current = now / self.length + 1;
        let whole =
            |back: &u64| current.checked_sub(*back + 1).is_some_and(|before| before * self.length.get() >= begun);
        let seen = |back: u64| {
            let span = self.span(current - back).filter(|span| span.number.load(Ordering::Acquire) == current - back);
            span.map_or_else(Seen::default, Span::seen)
        };
        (1..=TOLD).take_while(whole).map(seen).collect()
    }
}

/// Of one user.
#[derive(Debug)]
struct Watch {
    /// Who is to be watched: written by the control side.
    user: AtomicU32,
    /// When somebody asked last.
    asked: AtomicU64,
    /// Who is watched: written by the scheduler, as all that follows.
    is: AtomicU32,
    begun: AtomicU64,
    seconds: Spans,
    minutes: Spans,
}

impl Watch {
    fn new() -> Watch {
        Watch {
            user: AtomicU32::new(NOBODY),
            asked: AtomicU64::new(0),
            is: AtomicU32::new(NOBODY),
            begun: AtomicU64::new(0),
            seconds: Spans::new(SECOND),
            minutes: Spans::new(MINUTE),
        }
    }

    fn is_for(&self, user: u32) -> bool {
        self.user.load(Ordering::Acquire) == user
    }

    fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.asked.load(Ordering::Relaxed)) >= PATIENCE
    }
}

/// What was seen of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The last seconds that are over, at most [`TOLD`], the latest first; only those in which the user was watched from their beginning.
    pub seconds: Vec<Seen>,
    /// The same of minutes.
    pub minutes: Vec<Seen>,
}

/// What becomes of a question about a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is watched already.
    Goes,
    /// It is to be watched from now on: the scheduler has to be told.
    Begins,
    /// [`WATCHED`] others are.
    Full,
}

/// The users of one scheduler who are watched.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// Made when somebody is asked about for the first time.
    all: OnceLock<Box<[Watch]>>,
}

impl Watches {
    fn all(&self) -> &[Watch] {
        self.all.get().map_or(&[], |all| all)
    }

    /// Somebody asks about a user. By the control side, one at a time.
    pub(crate) fn ask(&self, user: u32, now: u64) -> Asked {
        let all = self.all.get_or_init(|| (0..WATCHED).map(|_| Watch::new()).collect());
        let known = all.iter().find(|watch| watch.is_for(user));
        let goes = known.is_some_and(|watch| watch.is.load(Ordering::Relaxed) == user);
        let free = || all.iter().find(|watch| watch.is_for(NOBODY) || watch.is_over(now));
        let Some(watch) = known.or_else(free) else { return Asked::Full };
        watch.asked.store(now, Ordering::Relaxed);
        watch.user.store(user, Ordering::Release);
        if goes { Asked::Goes } else { Asked::Begins }
    }

    /// Whether a user is to be watched by the scheduler, which calls this whenever it is told of the user.
    pub(crate) fn begin(&self, user: u32, now: u64) -> bool {
        let Some(watch) = self.all().iter().find(|watch| watch.is_for(user)) else { return false };
        if watch.is.load(Ordering::Relaxed) != user {
            watch.seconds.clear();
            watch.minutes.clear();
            watch.begun.store(now, Ordering::Relaxed);
            watch.is.store(user, Ordering::Release);
        }
        true
    }

    /// Something became of a packet of a user. Whether it is still watched.
    #[cold]
    pub(crate) fn note(&self, user: u32, fate: Fate, now: u64) -> bool {
        let Some(watch) = self.all().iter().find(|watch| watch.is.load(Ordering::Relaxed) == user) else {
            return false;
        };
        if !watch.is_for(user) || watch.is_over(now) {
            watch.is.store(NOBODY, Ordering::Relaxed);
            return false;
        }
        watch.seconds.note(fate, now);
        watch.minutes.note(fate, now);
        true
    }

    /// What was seen of a user, if it is watched.
    pub(crate) fn told(&self, user: u32, now: u64) -> Option<Told> {
        let watch = self.all().iter().find(|watch| watch.is.load(Ordering::Acquire) == user && watch.is_for(user))?;
        let begun = watch.begun.load(Ordering::Relaxed);
        Some(Told { seconds: watch.seconds.told(begun, now), minutes: watch.minutes.told(begun, now) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bins_are_as_fine_as_is_said(nanos in prop_oneof![0..20_000_u64, 0..LONGEST << UNIT_BITS]) {
            let told = end(bin(nanos));
            prop_assert!(bin(nanos) < BINS && told > nanos && told - nanos <= nanos / 8 + (1 << UNIT_BITS), "{nanos}: {told}");
            prop_assert!(bin(nanos) == 0 || end(bin(nanos) - 1) <= nanos);
        }
    }

    #[test]
    fn what_is_longer_than_the_longest_is_in_the_last_bin() {
        assert_eq!([bin((LONGEST << UNIT_BITS) - 1), bin(u64::MAX)], [BINS - 1; 2]);
    }

    #[test]
    fn so_many_are_watched_until_nobody_has_asked_for_long() {
        let watches = Watches::default();
        assert!(!watches.begin(7, 0) && !watches.note(7, Fate::Sent(1, 1), 0));
        for user in 0..WATCHED as u32 {
            assert_eq!(watches.ask(user, u64::from(user)), Asked::Begins);
            assert!(watches.begin(user, 0));
        }
        assert_eq!((watches.ask(3, 100), watches.ask(900, 100)), (Asked::Goes, Asked::Full));
        // The first that was asked about is the first to go.
        let later = PATIENCE;
        assert_eq!((watches.ask(900, later), watches.ask(901, later)), (Asked::Begins, Asked::Full));
        assert!(!watches.note(0, Fate::Sent(1, 1), later) && watches.begin(900, later));
        assert!(watches.note(3, Fate::Sent(1, 1), later) && watches.note(900, Fate::Sent(1, 1), later));
        // Who is forgotten and asked about again begins anew.
        assert!(!watches.note(3, Fate::Sent(1, 1), 100 + PATIENCE));
        assert_eq!((watches.ask(3, 100 + PATIENCE), watches.told(3, 100 + PATIENCE)), (Asked::Begins, None));
        assert!(watches.begin(3, 100 + PATIENCE));
        assert_eq!(watches.told(3, 100 + PATIENCE + 2 * SECOND).unwrap().seconds.len(), 1);
    }
}
