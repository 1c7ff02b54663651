//! What is seen of a user who is watched, against a full list of its packets, in simulated time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use weir_sched::class::ClassQueue;
use weir_sched::gates::Loss;
use weir_sched::profile::{ClassProfile, Profile, Profiles};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Refused, Scheduler, Setup};
use weir_sched::watch::{Asked, Seen, TOLD};

const SECOND: u64 = 1_000_000_000;
const OVERHEAD: u16 = 24;

/// A packet that was sent, and how long it waited; or that was dropped.
#[derive(Clone, Copy, Debug)]
struct Event {
    at: u64,
    sent: Option<(u64, u64)>,
    lost: Option<Loss>,
}

struct World {
    /// Items are the moments when they came, with their users.
    scheduler: Scheduler<(u32, u64), 4, 11>,
    now: u64,
    due: u64,
    random: u64,
    /// Of user 0.
    events: Vec<Event>,
}

impl World {
    fn new() -> World {
        let class = ClassProfile { queue_size: 20, ..ClassProfile::default() };
        let profile = Profile::new(Bucket::new(2_000_000, 6_000), vec![class; 4], &[]);
        let profiles = Profiles::new(Bucket::new(3_000_000, 6_000), vec![], vec![profile]);
        let setup = Setup { users: 2, buffers: 80, minimum: 2, overhead: OVERHEAD, wheel: Setup::WHEEL };
        let mut scheduler = Scheduler::new(setup, Arc::new(profiles));
        (0..2).for_each(|user| scheduler.assign(user, Some((0, 0)), 0));
        World { scheduler, now: 0, due: u64::MAX, random: 0x9e37_79b9_7f4a_7c15, events: Vec::new() }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn watch(&mut self) {
        assert_eq!(self.scheduler.gates().ask(0, self.now), Asked::Begins);
        self.scheduler.assign(0, Some((0, 0)), self.now);
    }

    fn offer(&mut self, user: u32) {
        let (at, length) = (self.now, 88 + self.random(1400) as u16);
        let class = ClassQueue::new(self.random(4) as u8, 0);
        let offer = Offer { user, class, length, colour: 0 };
        let lost = match self.scheduler.pass(&offer, at) {
            Ok(true) => {
                let sent = Some((u64::from(length - OVERHEAD), 0));
                self.events.extend((user == 0).then_some(Event { at, sent, lost: None }));
                return;
            }
            Ok(false) => match self.scheduler.enqueue(offer, at, || Some((user | u32::from(length) << 8, at))) {
                Ok(None) => None,
                Ok(Some(displaced)) => Some((displaced.item.0 & 1, displaced.loss)),
                Err(Refused::QueueFull) => Some((user, Loss::QueueFull)),
                Err(Refused::OverShare) => Some((user, Loss::OverShare)),
                Err(refused) => panic!("{refused:?}"),
            },
            Err(refused) => panic!("{refused:?}"),
        };
        self.due = at;
        if let Some((0, loss)) = lost {
            self.events.push(Event { at, sent: None, lost: Some(loss) });
        }
    }

    /// Goes on until `end`; both users send bursts after pauses of up to so many nanoseconds.
    fn run(&mut self, end: u64, pause: u64) {
        let mut burst = self.now;
        while self.now < end {
            if burst <= self.now {
                for _ in 0..self.random(90) {
                    let user = self.random(2) as u32;
                    self.offer(user);
                }
                burst = self.now + 1 + self.random(pause);
            }
            let (now, events) = (self.now, &mut self.events);
            self.due = self.scheduler.dequeue(now, 64, |leaving| {
                let Leaving::Sent((user, came)) = leaving else { panic!("nothing is managed") };
                let sent = Some((u64::from((user >> 8) as u16 - OVERHEAD), now - came));
                events.extend((user & 1 == 0).then_some(Event { at: now, sent, lost: None }));
            });
            self.now = self.due.max(self.now + 1).min(burst).min(end);
        }
    }

    /// That what was seen in a span is what the list says.
    fn check(&self, seen: &Seen, (from, to): (u64, u64)) -> usize {
        let events = self.events.iter().filter(|event| (from..to).contains(&event.at));
        let mut waited: Vec<u64> = events.clone().filter_map(|event| event.sent).map(|(_, waited)| waited).collect();
        waited.sort_unstable();
        let bytes: u64 = events.clone().filter_map(|event| event.sent).map(|(bytes, _)| bytes).sum();
        assert_eq!((seen.packets, seen.bytes), (waited.len() as u64, bytes), "{from}");
        let lost = Loss::ALL.map(|loss| events.clone().filter(|event| event.lost == Some(loss)).count() as u64);
        assert_eq!(seen.lost, lost);
        for (told, of_hundred) in [(seen.p50, 50), (seen.p99, 99)] {
            // The nearest rank: as many of a hundred waited no longer.
            let rank = (waited.len() * of_hundred).div_ceil(100);
            let exact = rank.checked_sub(1).map(|rank| waited[rank]);
            assert_eq!(told.is_some(), exact.is_some());
            if let Some((told, exact)) = told.zip(exact) {
                assert!(told > exact && told <= exact + exact / 8 + 1_024, "{told} of {exact}");
            }
        }
        waited.len()
    }
}

#[test]
fn what_is_seen_is_what_a_full_list_says() {
    let mut world = World::new();
    world.run(SECOND * 3 / 2, SECOND / 20);
    world.watch();
    let (mut spans, mut lost) = (0, [0; 5]);
    for end in 3..20 {
        world.run(end * SECOND + SECOND / 3, SECOND / 20);
        let told = world.scheduler.gates().told(0, world.now).unwrap();
        // From the first second on at whose beginning it was watched.
        assert_eq!(told.seconds.len() as u64, (end - 2).min(TOLD));
        for (seen, back) in told.seconds.iter().zip(1..) {
            spans += usize::from(world.check(seen, ((end - back) * SECOND, (end - back + 1) * SECOND)) > 50);
            lost.iter_mut().zip(seen.lost).for_each(|(all, lost)| *all += lost);
        }
        assert!(told.minutes.is_empty());
    }
    // It was no idle second, and of each kind that may be there was some loss.
    assert!(spans > 50 && lost[0] > 0 && lost[1] + lost[2] > 0, "{spans} {lost:?}");
    assert_eq!(world.scheduler.gates().told(1, world.now), None);
}

#[test]
fn minutes_and_seconds_without_packets_are_told_too() {
    let mut world = World::new();
    world.run(SECOND, SECOND / 10);
    world.watch();
    world.run(200 * SECOND, 10 * SECOND);
    let told = world.scheduler.gates().told(0, world.now).unwrap();
    assert_eq!((told.seconds.len(), told.minutes.len()), (10, 2));
    for (seen, back) in told.minutes.iter().zip(1..) {
        assert!(world.check(seen, ((3 - back) * 60 * SECOND, (4 - back) * 60 * SECOND)) > 100);
    }
    let idle = told.seconds.iter().zip(1..).filter(|(seen, back)| {
        world.check(seen, ((200 - back) * SECOND, (201 - back) * SECOND));
        seen.packets == 0 && seen.p50.is_none()
    });
    assert!(idle.count() > 0);
}
