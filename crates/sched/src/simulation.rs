//! Users who send to a [`Scheduler`], in simulated time: what tests and `weir bench shaping` hold its promises to.
//!
//! Every arrival, and every moment that the scheduler asks for, is an event; nothing depends on the machine. Frames are those of 64
//! bytes, the shortest, so that there are as many of them as can be.

mod calendar;
mod holding;
mod source;
mod windows;

use std::sync::Arc;

use weir_table::indexed::Indexed;

use crate::class::ClassQueue;
use crate::profile::{ClassProfile, Profile, Profiles};
use crate::rate::Bucket;
use crate::scheduler::{Leaving, Offer, Scheduler, Setup};

use calendar::Calendar;
pub use holding::{Holding, holding};
pub use source::{Random, Source, Tokens};
pub use windows::Windows;

/// A 64-byte frame, without its check sequence and with the usual overhead.
pub const SMALL: u16 = 60 + 24;

/// Frames of [`SMALL`] that a user's token bucket holds.
pub const BUCKET: u64 = 4;

/// Waits are told apart by this many nanoseconds.
const STEP: u64 = 1_000;

/// Packets that are asked for at once.
const AT_ONCE: usize = 64;

/// The longest wait that is told apart from longer ones, in [`STEP`]s.
const LONGEST: usize = 65_536;

/// The time between small frames at `times` a rate in bit/s, nanoseconds.
pub fn gap(rate: u64, times: f64) -> f64 {
    f64::from(SMALL) * 8.0 * 1e9 / (rate as f64 * times)
}

/// What a simulation is made of.
#[derive(Clone, Debug)]
pub struct World {
    /// The port's rate, bit/s. It may send two frames at once.
    pub port: u64,
    /// The rate of each user, bit/s, with a bucket of [`BUCKET`] frames.
    pub rate: u64,
    /// Packets that wait at most.
    pub buffers: u32,
    /// Packets that each user may hold whatever the others do.
    pub minimum: u32,
    /// What each user sends.
    pub sources: Vec<Source>,
    /// What chance begins with.
    pub seed: u64,
    /// A packet that waits longer than this is late, nanoseconds.
    pub late: u64,
}

/// What became of a user's packets.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Packets offered.
    pub offered: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that found no room, or were pushed out.
    pub lost: u64,
    /// Packets sent that were late.
    pub late: u64,
}

/// How long packets waited.
#[derive(Clone, Debug)]
pub struct Waits {
    counts: Vec<u64>,
    all: u64,
    /// The longest, nanoseconds.
    pub longest: u64,
}

impl Waits {
    fn new() -> Waits {
        Waits { counts: vec![0; LONGEST + 1], all: 0, longest: 0 }
    }

    fn add(&mut self, wait: u64) {
        if let Some(count) = self.counts.get_mut(((wait / STEP) as usize).min(LONGEST)) {
            *count += 1;
        }
        self.all += 1;
        self.longest = self.longest.max(wait);
    }

    /// The wait that no more than `share` of the packets exceed, nanoseconds, to the microsecond above.
    pub fn exceeded_by(&self, share: f64) -> u64 {
        let mut above = (self.all as f64 * share) as u64;
        for (n, count) in self.counts.iter().enumerate().rev() {
            if *count > above {
                return if n == LONGEST { self.longest } else { self.longest.min((n as u64 + 1) * STEP) };
            }
            above -= count;
        }
        0
    }
}

/// A user.
#[derive(Clone, Debug)]
struct User {
    source: Source,
    seen: Seen,
    /// Packets that wait in the scheduler.
    waiting: u32,
    windows: Windows,
}

/// Users who send to a scheduler, each of them in the lowest class.
#[derive(Debug)]
pub struct Simulation {
    scheduler: Scheduler<(u32, u64), 4, 11>,
    users: Indexed<User>,
    arrivals: Calendar,
    random: Random,
    late: u64,
    buffers: u32,
    due: u64,
    /// Waits of users below this number are counted, from [`Simulation::watch`] on.
    watched: u32,
    waits: Waits,
    /// Of the packets that may wait, the fewest that there was room for.
    least_left: u32,
}

impl Simulation {
    /// A world at its beginning: all buckets are full, nothing waits.
    pub fn new(world: World) -> Simulation {
        let count = world.sources.len() as u32;
        let size = BUCKET * u64::from(SMALL);
        let profile = Profile::new(Bucket::new(world.rate, size), vec![ClassProfile::default(); 4], &[]);
        let profiles = Profiles::new(Bucket::new(world.port, 2 * u64::from(SMALL)), vec![], vec![profile]);
        let (buffers, minimum) = (world.buffers, world.minimum);
        let setup = Setup { users: count, buffers, minimum, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler = Scheduler::new(setup, Arc::new(profiles));
        let mut random = Random(world.seed);
        let mut arrivals = Calendar::new();
        let windows = Windows::new(world.rate, size, SMALL);
        let user = |source| User { source, seen: Seen::default(), waiting: 0, windows: windows.clone() };
        let spare = user(Source::constant(1.0));
        let mut sources = world.sources.into_iter();
        let next = |_| sources.next().map_or_else(|| spare.clone(), user);
        let users = Indexed::from_fn(count as usize, next, spare.clone());
        for (number, user) in (0..).zip(users.items()) {
            scheduler.assign(number, Some((0, 0)), 0);
            arrivals.insert(random.below(user.source.gap() as u64 + 1), number);
        }
        Simulation {
            scheduler,
            users,
            arrivals,
            random,
            late: world.late,
            buffers,
            due: u64::MAX,
            watched: 0,
            waits: Waits::new(),
            least_left: buffers,
        }
    }

    /// From now on packets of users below `count` that are late count, and how long they wait.
    pub fn watch(&mut self, count: u32) {
        self.watched = count;
    }

    /// What became of each user's packets.
    pub fn seen(&self) -> impl ExactSizeIterator<Item = &Seen> {
        self.users.items().iter().map(|user| &user.seen)
    }

    /// How the packets of each user left.
    pub fn windows(&self) -> impl ExactSizeIterator<Item = &Windows> {
        self.users.items().iter().map(|user| &user.windows)
    }

    /// How long packets of those waited who are watched.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Of the packets that may wait, the fewest that there ever was room for.
    pub fn least_left(&self) -> u32 {
        self.least_left
    }

    /// Packets of a user that wait.
    pub fn held_by(&self, user: u32) -> u32 {
        self.scheduler.held_by(user)
    }

    /// Goes on until `end`, nanoseconds from the beginning.
    pub fn run(&mut self, end: u64) {
        while let Some((arrival, user)) = self.arrivals.first() {
            let now = arrival.min(self.due);
            if now >= end {
                return;
            }
            // Who has packets waiting already may not send the earlier for one more.
            if arrival > self.due || self.arrive(user, now) {
                self.send(now);
            }
        }
    }

    /// A packet comes. Answers whether it may go at once, as far as is known.
    fn arrive(&mut self, number: u32, now: u64) -> bool {
        let user = self.users.at_mut(number);
        user.seen.offered += 1;
        self.arrivals.replace_first(user.source.next(now, &mut self.random), number);
        let offer = Offer { user: number, class: ClassQueue::new(3, 0), length: SMALL, colour: 0 };
        // As the stage does: what need not wait goes straight through.
        if let Ok(true) = self.scheduler.pass(&offer, now) {
            self.users.at_mut(number).windows.begins(now);
            self.left(number, now, now);
            return false;
        }
        match self.scheduler.enqueue(offer, now, || Some((number, now))) {
            Ok(displaced) => {
                self.joins(number, now);
                if let Some((loser, _)) = displaced.map(|displaced| displaced.item) {
                    let loser = self.users.at_mut(loser);
                    loser.seen.lost += 1;
                    loser.waiting -= 1;
                }
            }
            Err(_) => {
                self.users.at_mut(number).seen.lost += 1;
                return false;
            }
        }
        self.least_left = self.least_left.min(self.buffers - self.scheduler.held());
        self.users.at(number).waiting == 1
    }

    fn joins(&mut self, number: u32, now: u64) {
        let user = self.users.at_mut(number);
        if user.waiting == 0 {
            user.windows.begins(now);
        }
        user.waiting += 1;
    }

    fn send(&mut self, now: u64) {
        let mut sent = [(0, 0); AT_ONCE];
        let mut count = 0;
        self.due = self.scheduler.dequeue(now, AT_ONCE, |leaving| {
            if let (Leaving::Sent(packet), Some(place)) = (leaving, sent.get_mut(count)) {
                *place = packet;
                count += 1;
            }
        });
        for (number, since) in sent.into_iter().take(count) {
            self.users.at_mut(number).waiting -= 1;
            self.left(number, since, now);
        }
    }

    /// A packet that came at `since` leaves.
    fn left(&mut self, number: u32, since: u64, now: u64) {
        let user = self.users.at_mut(number);
        user.seen.sent += 1;
        user.windows.sent(now, SMALL);
        if number < self.watched {
            self.waits.add(now - since);
            user.seen.late += u64::from(now - since > self.late);
        }
    }
}
