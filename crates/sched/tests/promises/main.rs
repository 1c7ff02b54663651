//! What subports guarantee classes: what the manual promises (docs/functions/qos.md, "What is guaranteed to classes of subports"), in simulated time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod nested;
mod world;

use weir_sched::profile::{Profile, Profiles, SubportProfile};
use weir_sched::rate::Bucket;

use world::{FRAME, MBIT, SIZE, guarantee, subport};

const USERS: u32 = 20;

/// Users in a subport that may send 100 Mbit/s, and one beside them.
struct World<const TREE: bool>(world::World<TREE>);

/// A user who is guaranteed so many Mbit/s, and shares up to 100 Mbit/s with this weight, if it does.
fn user(rate: u64, weight: Option<u8>) -> Profile {
    let profile = Profile::new(Bucket::new(rate * MBIT, 4_096), Vec::new(), &[]);
    weight.map_or(profile.clone(), |weight| profile.sharing(Bucket::new(100 * MBIT, 4_096), weight))
}

impl<const TREE: bool> World<TREE> {
    /// Below a port of 1 Gbit/s. Class 3 may send `most` Mbit/s.
    fn new(profile: Profile, subport: SubportProfile, most: u64) -> World<TREE> {
        World::below(1_000, profile, subport, most)
    }

    /// The same below a port of so many Mbit/s.
    fn below(port: u64, profile: Profile, subport: SubportProfile, most: u64) -> World<TREE> {
        let subports = vec![subport, SubportProfile::new(Bucket::UNLIMITED, 1)];
        let profiles = Profiles::new(Bucket::new(port * MBIT, SIZE), subports, vec![profile]);
        let world = world::World::new(profiles, USERS + 1, |user| u16::from(user == USERS));
        World(world.bounding(100, |user, _| user < USERS).bounding(most, |user, class| user < USERS && class == 3))
    }

    /// Mbit/s of each class of the subport.
    fn run(&mut self, senders: &[(u32, u8)]) -> [f64; 4] {
        self.0.run(senders).of(0..USERS)
    }

    fn set(&mut self, subport: SubportProfile) {
        self.0.set(0, subport);
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
        let with: Vec<u64> = world.0.sent.iter().map(|sent| sent[3]).filter(|bytes| *bytes > 0).collect();
        let (least, most) = (with.iter().min().unwrap(), with.iter().max().unwrap());
        assert!(most - least <= 3 * u64::from(FRAME), "{with:?}");
        // While it changes, packets wait.
        world.set(subport().promising(3, guarantee(40)).promising(0, guarantee(10)));
        assert_rates(world.run(&senders), [60.0, 0.0, 0.0, 40.0]);
        world.set(subport());
        assert_rates(world.run(&senders), [100.0, 0.0, 0.0, 0.0]);
        world.0.finish();
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
    world.0.finish();
    // The rate of the class is the most it sends, in any window.
    let limited = subport().promising(3, guarantee(20)).class(3, guarantee(25));
    let mut world = World::<TREE>::new(small(), limited, 25);
    assert_rates(world.run(&senders), [75.0, 0.0, 0.0, 25.0]);
    world.0.finish();
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
    world.0.finish();
}

fn a_subport_has_its_share_whatever_its_classes_are_guaranteed<const TREE: bool>() {
    // Of what ten users of 1 Mbit/s and one beside them leave of the port, both subports have a half.
    let senders: Vec<(u32, u8)> = (0..10).flat_map(|user| [(user, 0), (user, 3)]).chain([(USERS, 0)]).collect();
    let mut world = World::<TREE>::below(100, user(1, Some(1)), subport().promising(3, guarantee(60)), 100);
    // What claims is longer than that whose turn it is.
    world.0.lengths[0] = 125;
    let found = world.run(&senders);
    assert_rates([found.iter().sum(), 0.0, 0.0, 0.0], [54.5, 0.0, 0.0, 0.0]);
    // All that is left is less than what class 3 is guaranteed.
    assert!(found[3] > 44.0, "{found:?}");
    world.0.finish();
}

#[test]
fn a_subport_has_its_share_whatever_its_classes_are_guaranteed_on_one_level() {
    a_subport_has_its_share_whatever_its_classes_are_guaranteed::<false>();
}

#[test]
fn a_subport_has_its_share_whatever_its_classes_are_guaranteed_on_several() {
    a_subport_has_its_share_whatever_its_classes_are_guaranteed::<true>();
}
