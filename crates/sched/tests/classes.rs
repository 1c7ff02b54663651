//! Rates of classes of subports: what the manual promises (docs/functions/qos.md, "Classes of subports"), in simulated time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use weir_sched::class::ClassQueue;
use weir_sched::hold::Level;
use weir_sched::profile::{Profile, Profiles, SubportProfile};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Scheduler, Setup};
use weir_sched::simulation::Windows;

const MILLISECOND: u64 = 1_000_000;
const FRAME: u16 = 1_250;
/// What the class may send at once.
const SIZE: u64 = 12_500;
const USERS: u32 = 64;

/// Users who always have packets waiting in classes 0 and 3, in a subport whose class 0 may send 100 Mbit/s, and one beside them.
struct World {
    scheduler: Scheduler<(u32, u8), 4, 11>,
    now: u64,
    due: u64,
    /// Bytes that each user has sent, by class.
    sent: Vec<[u64; 4]>,
    /// What class 0 of the subport sends, in any window.
    windows: Windows,
}

impl World {
    fn new(profiles: Vec<Profile>, of: impl Fn(u32) -> u16) -> World {
        let bucket = |rate| Bucket::new(rate, SIZE);
        let subports = vec![
            SubportProfile::new(Bucket::UNLIMITED, 1).class(0, bucket(100_000_000)),
            SubportProfile::new(Bucket::UNLIMITED, 1),
        ];
        let setup = Setup { users: USERS + 1, buffers: 8_192, minimum: 8, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler = Scheduler::new(setup, Arc::new(Profiles::new(bucket(1_000_000_000), subports, profiles)));
        for user in 0..=USERS {
            scheduler.assign(user, Some((of(user), u16::from(user == USERS))), 0);
        }
        let windows = Windows::new(100_000_000, SIZE, FRAME);
        World { scheduler, now: 0, due: 0, sent: vec![[0; 4]; USERS as usize + 1], windows }
    }

    /// Goes on until `end`; each of these users always has packets of these classes waiting.
    fn run(&mut self, end: u64, senders: &[(u32, u8)]) {
        let mut waiting = vec![[0_u32; 4]; USERS as usize + 1];
        while self.now < end {
            for (user, class) in senders {
                let waits = &mut waiting[*user as usize][usize::from(*class)];
                while *waits < 4 {
                    let offer = Offer { user: *user, class: ClassQueue::new(*class, 0), length: FRAME, colour: 0 };
                    let item = (*user, *class);
                    assert!(self.scheduler.enqueue(offer, self.now, || Some(item)).is_ok_and(|lost| lost.is_none()));
                    *waits += 1;
                }
            }
            let World { scheduler, now, sent, windows, .. } = self;
            self.due = scheduler.dequeue(*now, 32, |leaving| {
                let Leaving::Sent((user, class)) = leaving else { panic!("something is dropped") };
                waiting[user as usize][usize::from(class)] -= 1;
                sent[user as usize][usize::from(class)] += u64::from(FRAME);
                if user < USERS && class == 0 {
                    windows.sent(*now, FRAME);
                }
            });
            self.now = self.due.max(self.now + 1).min(end);
        }
    }

    fn mbits(&self, users: impl Iterator<Item = u32>, class: usize) -> f64 {
        let bytes: u64 = users.map(|user| self.sent[user as usize][class]).sum();
        bytes as f64 * 8e3 / self.now as f64
    }
}

fn bucket(rate: u64) -> Bucket {
    Bucket::new(rate, 4_096)
}

#[test]
fn a_class_sends_its_rate_and_no_more_and_its_users_take_turns() {
    let mut world = World::new(vec![Profile::new(bucket(50_000_000), Vec::new(), &[])], |_| 0);
    let all: Vec<(u32, u8)> = (0..USERS).map(|user| (user, 0)).collect();
    world.run(500 * MILLISECOND, &all);
    let class = world.mbits(0..USERS, 0);
    assert!((99.0..=100.3).contains(&class), "{class}");
    assert_eq!((world.windows.early, world.windows.late), (0, 0));
    let each: Vec<u64> = (0..USERS).map(|user| world.sent[user as usize][0]).collect();
    let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
    assert!(most - least <= 2 * u64::from(FRAME), "{least} to {most}");
    assert!((0..USERS).all(|user| {
        let level = world.scheduler.gates().hold(user, world.now).map(|hold| hold.level);
        level == Some(Level::SubportClass(0))
    }));
}

#[test]
fn other_classes_and_other_subports_go_on_meanwhile() {
    let mut world = World::new(vec![Profile::new(bucket(50_000_000), Vec::new(), &[])], |_| 0);
    let mut all: Vec<(u32, u8)> = (0..16).flat_map(|user| [(user, 0), (user, 3)]).collect();
    all.push((USERS, 0));
    world.run(500 * MILLISECOND, &all);
    let (class, rest, beside) = (world.mbits(0..16, 0), world.mbits(0..16, 3), world.mbits(USERS..=USERS, 0));
    // Together they may send 16 times 50 Mbit/s, of which class 0 gets its hundred; who is beside them has a rate of 50, too.
    assert!((99.0..=100.3).contains(&class) && (690.0..=702.0).contains(&rest), "{class} {rest}");
    assert!(beside > 49.5, "{beside}");
    assert_eq!((world.windows.early, world.windows.late), (0, 0));
}

/// Sixteen users in each of two subports below one whose class 0 may send 100 Mbit/s; that of the first may send 30.
#[test]
fn rates_of_classes_hold_at_each_level_and_users_take_turns_below_them() {
    let bucket = |rate| Bucket::new(rate, SIZE);
    let open = || SubportProfile::new(Bucket::UNLIMITED, 1);
    let subports =
        vec![open().class(0, bucket(100_000_000)), open().class(0, bucket(30_000_000)).below(0), open().below(0)];
    let profile = Profile::new(Bucket::new(50_000_000, 4_096), Vec::new(), &[]);
    let setup = Setup { users: 32, buffers: 8_192, minimum: 8, overhead: 24, wheel: Setup::WHEEL };
    let table = Profiles::new(bucket(1_000_000_000), subports, vec![profile]);
    let mut scheduler: Scheduler<u32, 4, 11, true> = Scheduler::new(setup, Arc::new(table));
    (0..32).for_each(|user| scheduler.assign(user, Some((0, 1 + user as u16 / 16)), 0));
    let (mut whole, mut part) = (Windows::new(100_000_000, SIZE, FRAME), Windows::new(30_000_000, SIZE, FRAME));
    let (mut sent, mut now) = ([0_u64; 32], 0);
    while now < 500 * MILLISECOND {
        for user in 0..32 {
            while scheduler.held_by(user) < 4 {
                let offer = Offer { user, class: ClassQueue::new(0, 0), length: FRAME, colour: 0 };
                assert!(scheduler.enqueue(offer, now, || Some(user)).is_ok());
            }
        }
        let due = scheduler.dequeue(now, 32, |leaving| {
            let Leaving::Sent(user) = leaving else { panic!("something is dropped") };
            sent[user as usize] += u64::from(FRAME);
            whole.sent(now, FRAME);
            if user < 16 {
                part.sent(now, FRAME);
            }
        });
        now = due.max(now + 1);
    }
    let mbits = |users: std::ops::Range<usize>| sent[users].iter().sum::<u64>() as f64 * 8e3 / now as f64;
    assert!((29.7..=30.3).contains(&mbits(0..16)) && (99.0..=100.3).contains(&mbits(0..32)), "{sent:?}");
    for users in [0..16, 16..32] {
        let (least, most) = (sent[users.clone()].iter().min().unwrap(), sent[users].iter().max().unwrap());
        assert!(most - least <= 3 * u64::from(FRAME), "{least} to {most}");
    }
    assert_eq!([whole.early, whole.late, part.early, part.late], [0; 4]);
    let level = |user| scheduler.gates().hold(user, now).map(|hold| hold.level);
    // Who has come back from one of its levels may have to wait for the other.
    let own = (0..16).filter(|user| level(*user) == Some(Level::SubportClass(0))).count();
    assert!(
        own >= 8 && (0..16).all(|user| matches!(level(user), Some(Level::SubportClass(0) | Level::AboveClass(0, 0))))
    );
    assert!((16..32).all(|user| level(user) == Some(Level::AboveClass(0, 0))));
}

/// Two users whose guarantees the class can keep; all others want of what is left.
#[test]
fn guarantees_come_first_and_what_is_left_of_the_class_is_shared() {
    let shares = |rate| Profile::new(bucket(rate), Vec::new(), &[]).sharing(bucket(900_000_000), 1);
    let mut world = World::new(vec![shares(10_000), shares(30_000_000)], |user| u16::from(user < 2));
    let all: Vec<(u32, u8)> = (0..32).map(|user| (user, 0)).collect();
    world.run(1_000 * MILLISECOND, &all);
    let guaranteed = [0, 1].map(|user| world.mbits(user..user + 1, 0));
    assert!(guaranteed.iter().all(|rate| *rate > 29.7), "{guaranteed:?}");
    let class = world.mbits(0..32, 0);
    assert!((99.0..=100.3).contains(&class), "{class}");
    assert_eq!((world.windows.early, world.windows.late), (0, 0));
    let others = (2..32).map(|user| world.mbits(user..user + 1, 0)).fold(f64::MAX, f64::min);
    assert!(others > 0.99, "{others}");
}
