//! Users that send to a scheduler, in simulated time: every arrival and every moment that the scheduler asks for is an event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use weir_sched::class::ClassQueue;
use weir_sched::profile::{ClassProfile, Profile, Profiles};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Scheduler, Setup};

/// A 64-byte frame, without its FCS and with the usual overhead.
pub(crate) const SMALL: u16 = 60 + 24;

/// Random numbers: splitmix64 (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// The time to the next of events that come at random, on average `mean` apart.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        -mean * (1.0 - uniform).ln()
    }
}

/// A token bucket as it is defined, in bit-nanoseconds, exactly.
pub(crate) struct Tokens {
    rate: u64,
    full: u128,
    tokens: u128,
    at: u64,
}

const BYTE: u128 = 8_000_000_000;

impl Tokens {
    pub(crate) fn new(rate: u64, size: u64) -> Tokens {
        let full = u128::from(size) * BYTE;
        Tokens { rate, full, tokens: full, at: 0 }
    }

    /// Takes the tokens for so many bytes, if it has them.
    pub(crate) fn take(&mut self, now: u64, bytes: u16) -> bool {
        let grown = u128::from(now - self.at) * u128::from(self.rate);
        (self.tokens, self.at) = ((self.tokens + grown).min(self.full), now);
        let enough = self.tokens >= u128::from(bytes) * BYTE;
        if enough {
            self.tokens -= u128::from(bytes) * BYTE;
        }
        enough
    }

    /// When it has the tokens for so many bytes, from `now` on.
    pub(crate) fn has_at(&self, now: u64, bytes: u16) -> u64 {
        let need = (u128::from(bytes) * BYTE).saturating_sub(self.tokens);
        now.max(self.at + need.div_ceil(self.rate.into()) as u64)
    }
}

/// What users do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Sends packets that are so many nanoseconds apart.
    Constant(f64),
    /// Sends packets at random times, on average so many nanoseconds apart, each put off until it conforms.
    Conforming(f64),
}

/// What a user saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) offered: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) lost: u64,
}

/// A packet: its user, and when it came.
type Item = (u32, u64);

pub(crate) struct Sim {
    pub(crate) scheduler: Scheduler<Item, 4, 11>,
    pub(crate) sources: Vec<Source>,
    pub(crate) seen: Vec<Seen>,
    /// How long packets of users below this number waited, nanoseconds.
    pub(crate) watched: u32,
    pub(crate) waits: Vec<u64>,
    pub(crate) least_left: u32,
    arrivals: BinaryHeap<Reverse<(u64, u32)>>,
    conforming: Vec<(Tokens, f64)>,
    random: Random,
    buffers: u32,
}

/// What a simulation is made of.
pub(crate) struct World {
    pub(crate) port: u64,
    pub(crate) rate: u64,
    pub(crate) buffers: u32,
    pub(crate) minimum: u32,
    pub(crate) sources: Vec<Source>,
    pub(crate) seed: u64,
}

impl Sim {
    /// Users of the same rate, each with a bucket of four small frames, on a port that may send two frames at once.
    pub(crate) fn new(world: World) -> Sim {
        let users = world.sources.len() as u32;
        let size = 4 * u64::from(SMALL);
        let profile = Profile::new(Bucket::new(world.rate, size), vec![ClassProfile::default(); 4], &[]);
        let profiles = Profiles::new(Bucket::new(world.port, 2 * u64::from(SMALL)), vec![], vec![profile]);
        let setup = Setup { users, buffers: world.buffers, minimum: world.minimum, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler = Scheduler::new(setup, Arc::new(profiles));
        let mut random = Random(world.seed);
        let mut arrivals = BinaryHeap::new();
        for (user, source) in world.sources.iter().enumerate() {
            scheduler.assign(user as u32, Some((0, 0)), 0);
            let (Source::Constant(gap) | Source::Conforming(gap)) = source;
            arrivals.push(Reverse((random.below(*gap as u64 + 1), user as u32)));
        }
        let conforming = world.sources.iter().map(|_| (Tokens::new(world.rate, size), 0.0)).collect();
        Sim {
            scheduler,
            seen: vec![Seen::default(); users as usize],
            sources: world.sources,
            watched: 0,
            waits: Vec::new(),
            least_left: world.buffers,
            arrivals,
            conforming,
            random,
            buffers: world.buffers,
        }
    }

    /// Goes on until `end`, nanoseconds.
    pub(crate) fn run(&mut self, end: u64) {
        let mut due = u64::MAX;
        while let Some(&Reverse((arrival, user))) = self.arrivals.peek() {
            let now = arrival.min(due);
            if now >= end {
                return;
            }
            if arrival <= due {
                self.arrivals.pop();
                self.arrive(user, now);
            }
            due = self.send(now);
        }
    }

    fn arrive(&mut self, user: u32, now: u64) {
        let at = user as usize;
        let offer = Offer { user, class: ClassQueue::new(3, 0), length: SMALL, colour: 0 };
        self.seen[at].offered += 1;
        match self.scheduler.enqueue(offer, now, || Some((user, now))) {
            Ok(None) => {}
            Ok(Some((pushed_out, _))) => self.seen[pushed_out as usize].lost += 1,
            Err(_) => self.seen[at].lost += 1,
        }
        self.least_left = self.least_left.min(self.buffers - self.scheduler.held());
        let next = match self.sources[at] {
            // Not all at the same distance for ever: by 1 % more or less.
            Source::Constant(gap) => now + (gap * 0.99) as u64 + self.random.below((gap * 0.02) as u64 + 1),
            Source::Conforming(gap) => {
                let (tokens, wished) = &mut self.conforming[at];
                assert!(tokens.take(now, SMALL));
                *wished += self.random.exponential(gap);
                tokens.has_at(now.max(*wished as u64), SMALL)
            }
        };
        self.arrivals.push(Reverse((next, user)));
    }

    fn send(&mut self, now: u64) -> u64 {
        let (seen, waits, watched) = (&mut self.seen, &mut self.waits, self.watched);
        self.scheduler.dequeue(now, 64, |leaving| {
            let Leaving::Sent((user, since)) = leaving else { return };
            seen[user as usize].sent_bytes += u64::from(SMALL);
            if user < watched {
                waits.push(now - since);
            }
        })
    }

    /// The wait that one packet in a thousand exceeds.
    pub(crate) fn wait_p999(&mut self) -> u64 {
        self.waits.sort_unstable();
        self.waits[(self.waits.len() - 1) * 999 / 1000]
    }
}
