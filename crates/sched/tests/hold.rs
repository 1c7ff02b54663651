//! What holds a user back, and since when, by the definition in docs/functions/qos.md, in simulated time.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use weir_sched::class::ClassQueue;
use weir_sched::gates::Loss;
use weir_sched::hold::{Hold, Level, SHORTAGE};
use weir_sched::profile::{ClassProfile, Profile, Profiles, SubportProfile};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Refused, Scheduler, Setup};

const MS: u64 = 1_000_000;
/// Bytes of every packet, with overhead: at 1 Mbit/s it takes a millisecond.
const LENGTH: u16 = 125;

/// Profiles by number.
const SLOW: u16 = 0;
const FAST: u16 = 1;
const CAPPED: u16 = 2;
const SHARES: u16 = 3;

/// Subports by number.
const OPEN: u16 = 0;
const NARROW: u16 = 1;

struct World {
    scheduler: Scheduler<u32, 4, 11>,
    now: u64,
    due: u64,
}

impl World {
    /// User n has the nth profile and subport; the port sends at `port` bit/s.
    fn new(port: u64, buffers: u32, users: &[(u16, u16)]) -> World {
        let class = |cap| ClassProfile { cap, ..ClassProfile::default() };
        let bucket = |rate| Bucket::new(rate, 2 * u64::from(LENGTH));
        let profile = |rate, cap| {
            Profile::new(bucket(rate), vec![class(cap), class(Bucket::UNLIMITED), class(cap), class(cap)], &[])
        };
        let capped = Profile::new(
            bucket(1_000_000_000),
            [Bucket::UNLIMITED, bucket(1_000_000), Bucket::UNLIMITED, Bucket::UNLIMITED].map(class).to_vec(),
            &[],
        );
        let profiles = vec![
            profile(1_000_000, Bucket::UNLIMITED),
            profile(1_000_000_000, Bucket::UNLIMITED),
            capped,
            profile(1_000_000, Bucket::UNLIMITED).sharing(Bucket::new(2_000_000, 4 * u64::from(LENGTH)), 1),
        ];
        let subports = vec![SubportProfile::new(Bucket::UNLIMITED, 1), SubportProfile::new(bucket(5_000_000), 1)];
        let setup = Setup { users: users.len() as u32, buffers, minimum: 1, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler = Scheduler::new(setup, Arc::new(Profiles::new(bucket(port), subports, profiles)));
        for (user, to) in (0..).zip(users) {
            scheduler.assign(user, Some(*to), 0);
        }
        World { scheduler, now: 0, due: u64::MAX }
    }

    fn offer(&mut self, user: u32, class: u8) -> Result<(), Refused> {
        let offer = Offer { user, class: ClassQueue::new(class, 0), length: LENGTH, colour: 0 };
        if !self.scheduler.pass(&offer, self.now)? {
            self.scheduler.enqueue(offer, self.now, || Some(user))?;
            self.due = self.now;
        }
        Ok(())
    }

    /// Goes on until `end`; each of these users always has eight packets of a class waiting.
    fn run(&mut self, end: u64, senders: &[(u32, u8)]) {
        while self.now < end {
            for (user, class) in senders {
                while self.scheduler.held_by(*user) < 8 && self.offer(*user, *class) == Ok(()) {}
            }
            self.due = self.scheduler.dequeue(self.now, 64, |leaving| assert!(matches!(leaving, Leaving::Sent(_))));
            self.now = self.due.max(self.now + 1).min(end);
        }
    }

    fn hold(&self, user: u32) -> Option<Hold> {
        self.scheduler.gates().hold(user, self.now)
    }

    /// What holds a user, and the millisecond since when.
    fn held(&self, user: u32) -> Option<(Level, u64)> {
        self.hold(user).map(|hold| (hold.level, hold.since / MS))
    }
}

#[test]
fn whoever_sends_more_than_its_rate_is_held_by_it() {
    let mut world = World::new(1_000_000_000, 64, &[(SLOW, OPEN), (FAST, OPEN)]);
    world.run(10 * MS, &[]);
    assert_eq!(world.held(0), None);
    for end in [11, 50, 1_000] {
        world.run(end * MS, &[(0, 3)]);
        assert_eq!((world.held(0), world.held(1)), (Some((Level::Rate, 10)), None));
    }
    // Its queue runs empty: it may have waited, but does no longer.
    world.run(1_020 * MS, &[]);
    assert_eq!((world.scheduler.held(), world.held(0)), (0, None));
    world.run(1_030 * MS, &[(0, 3)]);
    assert_eq!(world.held(0), Some((Level::Rate, 1_020)));
}

/// A port that is busy for a moment ends nothing: own rates of many are due at once.
#[test]
fn a_moment_in_line_is_passed_over() {
    let users: Vec<(u16, u16)> = (0..8).map(|_| (SLOW, OPEN)).collect();
    let all: Vec<(u32, u8)> = (0..8).map(|user| (user, 3)).collect();
    // Together they send 8 Mbit/s; at 20 Mbit/s the last waits for 7 packets of 50 us each.
    let mut world = World::new(20_000_000, 128, &users);
    world.run(500 * MS, &all);
    for user in 0..8 {
        assert_eq!(world.held(user), Some((Level::Rate, 0)), "{user}");
    }
}

#[test]
fn in_a_full_subport_it_is_the_subport() {
    let mut world = World::new(1_000_000_000, 64, &[(FAST, NARROW), (FAST, OPEN), (SLOW, NARROW)]);
    world.run(7 * MS, &[]);
    for end in [8, 20, 500] {
        world.run(end * MS, &[(0, 3)]);
        assert_eq!((world.held(0), world.held(1)), (Some((Level::Subport, 7)), None));
    }
    // Beside it one whose own rate is less than its part of the subport; then nobody.
    world.run(600 * MS, &[(0, 3), (2, 3)]);
    assert_eq!((world.held(0), world.held(2)), (Some((Level::Subport, 7)), Some((Level::Rate, 500))));
    world.run(700 * MS, &[]);
    assert_eq!((world.held(0), world.held(2)), (None, None));
}

#[test]
fn where_the_port_is_full_it_is_the_port() {
    let mut world = World::new(2_000_000, 64, &[(FAST, NARROW), (FAST, OPEN), (SLOW, OPEN)]);
    for end in [2, 20, 500] {
        world.run(end * MS, &[(0, 3), (1, 3)]);
        // The subport may send more than the port gives it.
        assert_eq!((world.held(0), world.held(1)), (Some((Level::Port, 0)), Some((Level::Port, 0))));
    }
    world.run(600 * MS, &[]);
    assert_eq!((world.held(0), world.held(1)), (None, None));
}

#[test]
fn the_cap_of_a_class_is_told_by_its_number() {
    let mut world = World::new(1_000_000_000, 64, &[(CAPPED, OPEN)]);
    world.run(100 * MS, &[(0, 1)]);
    assert_eq!(world.held(0), Some((Level::Class(1), 0)));
    world.run(200 * MS, &[]);
    assert_eq!(world.held(0), None);
}

#[test]
fn who_shares_is_held_by_its_ceiling_or_by_what_is_left() {
    let mut world =
        World::new(1_000_000_000, 64, &[(SHARES, OPEN), (SHARES, NARROW), (SHARES, NARROW), (SHARES, NARROW)]);
    world.run(500 * MS, &[(0, 3), (1, 3), (2, 3), (3, 3)]);
    // Three may have 2 Mbit/s each, and their subport 5.
    assert_eq!(world.held(0), Some((Level::Ceil, 0)));
    let levels = [1, 2, 3].map(|user| world.hold(user).unwrap().level);
    assert!(levels.contains(&Level::Subport) && !levels.contains(&Level::Port), "{levels:?}");
    world.run(600 * MS, &[]);
    assert_eq!([0, 1, 2, 3].map(|user| world.held(user)), [None; 4]);
}

#[test]
fn a_user_without_a_buffer_says_so_for_a_second() {
    let mut world = World::new(8_000, 2, &[(FAST, OPEN), (FAST, OPEN), (FAST, OPEN)]);
    world.run(MS, &[]);
    // Two go; two wait, of a user each, so that nobody holds more than another.
    assert_eq!([0, 0, 0, 1].map(|user| world.offer(user, 3)), [Ok(()); 4]);
    assert_eq!(world.offer(2, 3), Err(Refused::OverShare));
    assert_eq!((world.held(2), world.held(1)), (Some((Level::Buffers, 1)), Some((Level::Port, 1))));
    world.now += SHORTAGE / 2;
    assert_eq!(world.offer(2, 3), Err(Refused::OverShare));
    world.now += SHORTAGE - 1;
    assert_eq!(world.held(2), Some((Level::Buffers, 1)));
    world.now += 1;
    assert_eq!(world.held(2), None);
    let lost: Vec<(Loss, u64)> = world.scheduler.gates().count(2).losses().filter(|(_, count)| *count > 0).collect();
    assert_eq!(lost, [(Loss::OverShare, 2)]);
    // What has left says nothing.
    world.scheduler.clear(world.now, &mut |_| {});
    assert_eq!([0, 1, 2].map(|user| world.held(user)), [None; 3]);
}

/// A reload assigns everybody again: whoever was held since then is so still.
#[test]
fn an_assignment_does_not_begin_anew() {
    let mut world = World::new(1_000_000_000, 64, &[(SLOW, OPEN)]);
    world.run(100 * MS, &[(0, 3)]);
    world.scheduler.assign(0, Some((SLOW, OPEN)), world.now);
    assert_eq!(world.held(0), Some((Level::Rate, 0)));
    // With another profile, it is another level, from then on.
    world.scheduler.assign(0, Some((FAST, NARROW)), world.now);
    world.run(200 * MS, &[(0, 3)]);
    let (level, since) = world.held(0).unwrap();
    assert!(level == Level::Subport && (100..103).contains(&since), "{level:?} since {since}");
}
