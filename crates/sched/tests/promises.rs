//! What subports guarantee classes: what the manual promises (docs/functions/qos.md, "What is guaranteed to classes of subports"), in simulated time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::Arc;

use weir_sched::class::ClassQueue;
use weir_sched::profile::{Profile, Profiles, SubportProfile};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Scheduler, Setup};
use weir_sched::simulation::Windows;

const SECOND: u64 = 1_000_000_000;
const MBIT: u64 = 1_000_000;
const FRAME: u16 = 1_250;
const SIZE: u64 = 12_500;
const USERS: u32 = 20;

/// Users in a subport that may send 100 Mbit/s, and one beside them, below a port of 1 Gbit/s.
struct World<const TREE: bool> {
    scheduler: Scheduler<(u32, u8), 4, 11, TREE>,
    profiles: Profiles,
    now: u64,
    /// Bytes of a packet, by class.
    lengths: [u16; 4],
    waiting: Vec<[u32; 4]>,
    /// Bytes that each user has sent, by class.
    sent: Vec<[u64; 4]>,
    /// What the subport sends, and what its class 3 does, in any window.
    windows: [Windows; 2],
}

fn subport() -> SubportProfile {
    SubportProfile::new(Bucket::new(100 * MBIT, SIZE), 1)
}

fn guarantee(rate: u64) -> Bucket {
    Bucket::new(rate * MBIT, SIZE)
}

/// A user who is guaranteed so many Mbit/s, and shares up to 100 Mbit/s with this weight, if it does.
fn user(rate: u64, weight: Option<u8>) -> Profile {
    let profile = Profile::new(Bucket::new(rate * MBIT, 4_096), Vec::new(), &[]);
    weight.map_or(profile.clone(), |weight| profile.sharing(Bucket::new(100 * MBIT, 4_096), weight))
}

impl<const TREE: bool> World<TREE> {
    /// Class 3 may send `most` Mbit/s.
    fn new(profile: Profile, subport: SubportProfile, most: u64) -> World<TREE> {
        World::below(1_000, profile, subport, most)
    }

    /// The same below a port of so many Mbit/s.
    fn below(port: u64, profile: Profile, subport: SubportProfile, most: u64) -> World<TREE> {
        let setup = Setup { users: USERS + 1, buffers: 4_096, minimum: 8, overhead: 24, wheel: Setup::WHEEL };
        let subports = vec![subport, SubportProfile::new(Bucket::UNLIMITED, 1)];
        let profiles = Profiles::new(Bucket::new(port * MBIT, SIZE), subports, vec![profile]);
        let mut scheduler = Scheduler::new(setup, Arc::new(profiles.clone()));
        (0..=USERS).for_each(|user| scheduler.assign(user, Some((0, u16::from(user == USERS))), 0));
        let windows = [Windows::new(100 * MBIT, SIZE, FRAME), Windows::new(most * MBIT, SIZE, FRAME)];
        let none = vec![[0; 4]; USERS as usize + 1];
        World {
            scheduler,
            profiles,
            now: 0,
            lengths: [FRAME; 4],
            waiting: vec![[0; 4]; USERS as usize + 1],
            sent: none,
            windows,
        }
    }

    /// Goes on for a second; each of these users always has packets of these classes waiting. Mbit/s of each class of the subport, without the first tenth.
    fn run(&mut self, senders: &[(u32, u8)]) -> [f64; 4] {
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
                if user < USERS {
                    windows[0].sent(*now, length);
                }
                if user < USERS && class == 3 {
                    windows[1].sent(*now, length);
                }
            });
            self.now = due.max(self.now + 1).min(end);
        }
        let (since, before) = before.unwrap();
        let of = |class: usize| -> u64 {
            let users = self.sent.iter().zip(&before).take(USERS as usize);
            users.map(|(now, before)| now[class] - before[class]).sum()
        };
        std::array::from_fn(|class| of(class) as f64 * 8e3 / (self.now - since) as f64)
    }

    fn set(&mut self, subport: SubportProfile) {
        self.profiles = self.profiles.with_subport(0, subport);
        self.scheduler.set_profiles(Arc::new(self.profiles.clone()), self.now);
    }

    fn finish(&self) {
        assert_eq!(self.windows.each_ref().map(|windows| windows.early), [0, 0], "more than a ceiling in some window");
    }
}

/// Within a hundredth, or 0.2 Mbit/s.
fn assert_rates(found: [f64; 4], expected: [f64; 4]) {
    let fits = |(found, expected): (&f64, &f64)| (found - expected).abs() <= (expected / 100.0).max(0.2);
    assert!(found.iter().zip(&expected).all(fits), "{found:?} Mbit/s, not {expected:?}");
}

fn all(class: u8) -> impl Iterator<Item = (u32, u8)> {
    (0..USERS).map(move |user| (user, class))
}

fn guarantees_hold_among_those_who_send_at_their_own_rate<const TREE: bool>() {
    // 10 Mbit/s each are twice what the subport may send. All have packets of both classes, or half of them of each.
    let both: Vec<(u32, u8)> = all(0).chain(all(3)).collect();
    let half: Vec<(u32, u8)> = (0..USERS).map(|user| (user, if user % 2 == 0 { 0 } else { 3 })).collect();
    for senders in [both, half] {
        let mut world = World::<TREE>::new(user(10, None), subport().promising(3, guarantee(20)), 100);
        assert_rates(world.run(&senders), [80.0, 0.0, 0.0, 20.0]);
        // Those who claim take turns.
        let with: Vec<u64> = world.sent.iter().map(|sent| sent[3]).filter(|bytes| *bytes > 0).collect();
        let (least, most) = (with.iter().min().unwrap(), with.iter().max().unwrap());
        assert!(most - least <= 3 * u64::from(FRAME), "{with:?}");
        // While it changes, packets wait.
        world.set(subport().promising(3, guarantee(40)).promising(0, guarantee(10)));
        assert_rates(world.run(&senders), [60.0, 0.0, 0.0, 40.0]);
        world.set(subport());
        assert_rates(world.run(&senders), [100.0, 0.0, 0.0, 0.0]);
        world.finish();
    }
}

#[test]
fn guarantees_hold_among_those_who_send_at_their_own_rate_on_one_level() {
    guarantees_hold_among_those_who_send_at_their_own_rate::<false>();
}

#[test]
fn guarantees_hold_among_those_who_send_at_their_own_rate_on_several() {
    guarantees_hold_among_those_who_send_at_their_own_rate::<true>();
}

fn guarantees_hold_among_those_who_share<const TREE: bool>() {
    // One has packets of class 3, nine times as many as share with it have those of class 0: of what is left beyond 20 Mbit/s it has its tenth, as the others.
    let senders: Vec<(u32, u8)> = (0..10).map(|user| (user, if user == 0 { 3 } else { 0 })).collect();
    let small = || user(1, Some(1));
    let mut world = World::<TREE>::new(small(), subport().promising(3, guarantee(20)), 100);
    // Each of them is guaranteed 1 Mbit/s, which is among the 20 for the one: 71 are left.
    assert_rates(world.run(&senders), [72.9, 0.0, 0.0, 27.1]);
    // One beside them changes nothing.
    let beside: Vec<(u32, u8)> = senders.iter().copied().chain([(USERS, 0)]).collect();
    assert_rates(world.run(&beside), [72.9, 0.0, 0.0, 27.1]);
    world.finish();
    // The rate of the class is the most it sends, in any window.
    let limited = subport().promising(3, guarantee(20)).class(3, guarantee(25));
    let mut world = World::<TREE>::new(small(), limited, 25);
    assert_rates(world.run(&senders), [75.0, 0.0, 0.0, 25.0]);
    world.finish();
}

#[test]
fn guarantees_hold_among_those_who_share_on_one_level() {
    guarantees_hold_among_those_who_share::<false>();
}

#[test]
fn guarantees_hold_among_those_who_share_on_several() {
    guarantees_hold_among_those_who_share::<true>();
}

#[test]
fn what_a_class_leaves_of_its_guarantee_is_the_others() {
    let mut world = World::<false>::new(user(10, None), subport().promising(3, guarantee(60)), 100);
    assert_rates(world.run(&all(0).collect::<Vec<_>>()), [100.0, 0.0, 0.0, 0.0]);
    // Two of them have 20 Mbit/s at most: the rest is for what is guaranteed, and beyond that for the highest of those who want it.
    let senders: Vec<(u32, u8)> = (0..2).map(|user| (user, 0)).chain((2..USERS).map(|user| (user, 3))).collect();
    assert_rates(world.run(&senders), [20.0, 0.0, 0.0, 80.0]);
    // Class 1 comes between: it has what the guarantee of class 3 leaves.
    let with_one: Vec<(u32, u8)> = senders.into_iter().chain((2..USERS).map(|user| (user, 1))).collect();
    assert_rates(world.run(&with_one), [20.0, 20.0, 0.0, 60.0]);
    world.finish();
}

fn a_subport_has_its_share_whatever_its_classes_are_guaranteed<const TREE: bool>() {
    // Of what ten users of 1 Mbit/s and one beside them leave of the port, both subports have a half.
    let senders: Vec<(u32, u8)> = (0..10).flat_map(|user| [(user, 0), (user, 3)]).chain([(USERS, 0)]).collect();
    let mut world = World::<TREE>::below(100, user(1, Some(1)), subport().promising(3, guarantee(60)), 100);
    // What claims is longer than that whose turn it is.
    world.lengths[0] = 125;
    let found = world.run(&senders);
    assert_rates([found.iter().sum(), 0.0, 0.0, 0.0], [54.5, 0.0, 0.0, 0.0]);
    // All that is left is less than what class 3 is guaranteed.
    assert!(found[3] > 44.0, "{found:?}");
    world.finish();
}

#[test]
fn a_subport_has_its_share_whatever_its_classes_are_guaranteed_on_one_level() {
    a_subport_has_its_share_whatever_its_classes_are_guaranteed::<false>();
}

#[test]
fn a_subport_has_its_share_whatever_its_classes_are_guaranteed_on_several() {
    a_subport_has_its_share_whatever_its_classes_are_guaranteed::<true>();
}
