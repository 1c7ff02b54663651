//! A scheduler in simulated time, some of whose users always have packets waiting.

use std::ops::Range;
use std::sync::Arc;

use weir_sched::class::ClassQueue;
use weir_sched::profile::{Profiles, SubportProfile};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Scheduler, Setup};
use weir_sched::simulation::Windows;

const SECOND: u64 = 1_000_000_000;
pub(crate) const MBIT: u64 = 1_000_000;
pub(crate) const FRAME: u16 = 1_250;
pub(crate) const SIZE: u64 = 12_500;

/// Whether a packet of a user and a class is among those that are bounded together.
type Counts = fn(u32, u8) -> bool;

pub(crate) struct World<const TREE: bool> {
    scheduler: Scheduler<(u32, u8), 4, 11, TREE>,
    profiles: Profiles,
    now: u64,
    /// Bytes of a packet, by class.
    pub(crate) lengths: [u16; 4],
    waiting: Vec<[u32; 4]>,
    /// Bytes that each user has sent, by class.
    pub(crate) sent: Vec<[u64; 4]>,
    windows: Vec<(Windows, Counts)>,
}

/// Mbit/s of each user, by class.
#[derive(Debug)]
pub(crate) struct Rates(Vec<[f64; 4]>);

impl Rates {
    /// Of some users together.
    pub(crate) fn of(&self, users: Range<u32>) -> [f64; 4] {
        let users = &self.0[users.start as usize..users.end as usize];
        std::array::from_fn(|class| users.iter().map(|rates| rates[class]).sum())
    }
}

/// A subport of 100 Mbit/s.
pub(crate) fn subport() -> SubportProfile {
    SubportProfile::new(Bucket::new(100 * MBIT, SIZE), 1)
}

pub(crate) fn guarantee(rate: u64) -> Bucket {
    Bucket::new(rate * MBIT, SIZE)
}

impl<const TREE: bool> World<TREE> {
    /// With so many users of the first profile, each in the subport that is said.
    pub(crate) fn new(profiles: Profiles, users: u32, subport: impl Fn(u32) -> u16) -> World<TREE> {
        let setup = Setup { users, buffers: 4_096, minimum: 8, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler = Scheduler::new(setup, Arc::new(profiles.clone()));
        (0..users).for_each(|user| scheduler.assign(user, Some((0, subport(user))), 0));
        let (waiting, sent) = (vec![[0; 4]; users as usize], vec![[0; 4]; users as usize]);
        World { scheduler, profiles, now: 0, lengths: [FRAME; 4], waiting, sent, windows: Vec::new() }
    }

    /// In which some packets are no more than so many Mbit/s together, in any window.
    pub(crate) fn bounding(mut self, rate: u64, counts: Counts) -> World<TREE> {
        self.windows.push((Windows::new(rate * MBIT, SIZE, FRAME), counts));
        self
    }

    /// Goes on for a second, in which these users always have packets of these classes waiting. What they send, without the first tenth.
    pub(crate) fn run(&mut self, senders: &[(u32, u8)]) -> Rates {
        let (begin, end) = (self.now + SECOND / 10, self.now + SECOND / 10 + SECOND);
        let mut before = None;
        while self.now < end {
            if self.now >= begin && before.is_none() {
                before = Some((self.now, self.sent.clone()));
            }
            for (user, class) in senders {
                while self.waiting[*user as usize][usize::from(*class)] < 4 {
                    let length = self.lengths[usize::from(*class)];
                    let offer = Offer { user: *user, class: ClassQueue::new(*class, 0), length, colour: 0 };
                    let item = (*user, *class);
                    assert!(self.scheduler.enqueue(offer, self.now, || Some(item)).is_ok_and(|lost| lost.is_none()));
                    self.waiting[*user as usize][usize::from(*class)] += 1;
                }
            }
            let World { scheduler, now, sent, windows, waiting, lengths, .. } = self;
            let due = scheduler.dequeue(*now, 32, |leaving| {
                let Leaving::Sent((user, class)) = leaving else { panic!("something is dropped") };
                waiting[user as usize][usize::from(class)] -= 1;
                let length = lengths[usize::from(class)];
                sent[user as usize][usize::from(class)] += u64::from(length);
                let counting = windows.iter_mut().filter(|(_, counts)| counts(user, class));
                counting.for_each(|(windows, _)| windows.sent(*now, length));
            });
            self.now = due.max(self.now + 1).min(end);
        }
        let (since, before) = before.unwrap();
        let mbits = |bytes: u64| bytes as f64 * 8e3 / (self.now - since) as f64;
        let rates =
            |(now, before): (&[u64; 4], [u64; 4])| std::array::from_fn(|class| mbits(now[class] - before[class]));
        Rates(self.sent.iter().zip(before).map(rates).collect())
    }

    pub(crate) fn set(&mut self, number: usize, subport: SubportProfile) {
        self.profiles = self.profiles.with_subport(number, subport);
        self.scheduler.set_profiles(Arc::new(self.profiles.clone()), self.now);
    }

    pub(crate) fn finish(&self) {
        let early: Vec<_> = self.windows.iter().map(|(windows, _)| windows.early).collect();
        assert!(
            !early.is_empty() && early.iter().all(|early| *early == 0),
            "more than a ceiling in some window: {early:?}"
        );
    }
}
