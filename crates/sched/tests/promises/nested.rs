//! What subports guarantee classes where others are below them: what the manual promises (docs/functions/qos.md, "Guarantees within guarantees"), in simulated time.

use weir_sched::profile::{Profile, Profiles, SubportProfile};
use weir_sched::rate::Bucket;

use crate::world::{self, MBIT, SIZE, guarantee, subport};

/// Users of each subport.
const USERS: u32 = 10;
const CITY: usize = 0;
const NORTH: usize = 1;
const SOUTH: usize = 2;
const STREET: usize = 3;

/// A city of 100 Mbit/s below a port of 1 Gbit/s, with two parts below it, and a street below the north; ten users are in each.
struct World(world::World<true>);

fn part() -> SubportProfile {
    subport().below(CITY as u16)
}

fn street() -> SubportProfile {
    subport().below(NORTH as u16)
}

/// A user who is guaranteed so many kbit/s, and shares up to 100 Mbit/s, if it does.
fn user(kbit: u64, shares: bool) -> Profile {
    let profile = Profile::new(Bucket::new(kbit * 1_000, 4_096), Vec::new(), &[]);
    if shares { profile.sharing(Bucket::new(100 * MBIT, 4_096), 1) } else { profile }
}

impl World {
    fn new(profile: Profile, subports: [SubportProfile; 4]) -> World {
        let profiles = Profiles::new(Bucket::new(1_000 * MBIT, SIZE), subports.to_vec(), vec![profile]);
        let world = world::World::new(profiles, 4 * USERS, |user| (user / USERS) as u16);
        World(world.bounding(100, |_, _| true))
    }

    /// Mbit/s of each subport's own users, by class.
    fn run(&mut self, senders: &[(u32, u8)]) -> [[f64; 4]; 4] {
        let rates = self.0.run(senders);
        [0, 1, 2, 3].map(|subport| rates.of(subport * USERS..(subport + 1) * USERS))
    }
}

/// Within a hundredth, or 0.2 Mbit/s: of class 0 and class 3, of the city's own users, the north's, the south's and the street's.
fn assert_rates(found: [[f64; 4]; 4], expected: [[f64; 2]; 4]) {
    let fits = |found: f64, expected: f64| (found - expected).abs() <= (expected / 100.0).max(0.2);
    let both = found.iter().zip(&expected);
    let all = both.into_iter().all(|(found, [top, low])| fits(found[0], *top) && fits(found[3], *low));
    assert!(all, "{found:?} Mbit/s, not {expected:?}");
}

/// The same of class 0 and class 3 of all together.
fn assert_classes(found: [[f64; 4]; 4], [top, low]: [f64; 2]) {
    let sum = |class: usize| found.iter().map(|rates| rates[class]).sum::<f64>();
    let fits = |found: f64, expected: f64| (found - expected).abs() <= expected / 100.0;
    assert!(fits(sum(0), top) && fits(sum(3), low), "{found:?} Mbit/s, not {top} and {low}");
}

/// All users of a subport with a class.
fn all(subport: usize, class: u8) -> impl Iterator<Item = (u32, u8)> {
    let first = subport as u32 * USERS;
    (first..first + USERS).map(move |user| (user, class))
}

const NONE: [f64; 2] = [0.0, 0.0];

#[test]
fn a_class_has_its_guarantee_of_all_that_is_below() {
    // Rates of their own, four times what the city may send. Higher classes would leave nothing to the south.
    let subports = [subport().promising(3, guarantee(20)), part(), part(), street()];
    let mut world = World::new(user(10_000, false), subports);
    let senders: Vec<_> = all(NORTH, 0).chain(all(SOUTH, 3)).collect();
    assert_rates(world.run(&senders), [NONE, [80.0, 0.0], [0.0, 20.0], NONE]);
    // Who claims takes turns with the others right there: two parts, and ten users.
    let senders: Vec<_> = senders.into_iter().chain(all(CITY, 3)).chain(all(STREET, 3)).collect();
    assert_rates(world.run(&senders), [[0.0, 20.0 * 10.0 / 12.0], [80.0, 0.0], [0.0, 20.0 / 12.0], [0.0, 20.0 / 12.0]]);
    // While it changes, packets wait.
    world.0.set(CITY, subport().promising(3, guarantee(40)).promising(0, guarantee(10)));
    let senders: Vec<_> = all(NORTH, 0).chain(all(SOUTH, 3)).chain(all(STREET, 3)).collect();
    assert_rates(world.run(&senders), [NONE, [60.0, 0.0], [0.0, 20.0], [0.0, 20.0]]);
    world.0.set(CITY, subport());
    assert_rates(world.run(&senders), [NONE, [100.0, 0.0], NONE, NONE]);
    world.0.finish();
}

#[test]
fn what_is_guaranteed_further_below_is_part_of_it() {
    let north = part().promising(3, guarantee(15));
    let subports = [subport().promising(3, guarantee(20)), north, part(), street()];
    let mut world = World::new(user(10_000, false), subports);
    let senders: Vec<_> = all(NORTH, 0).chain(all(SOUTH, 3)).chain(all(STREET, 3)).collect();
    // By turns alone, each would have ten: now they take turns at what is more than the fifteen of the north.
    assert_rates(world.run(&senders), [NONE, [80.0, 0.0], [0.0, 2.5], [0.0, 17.5]]);
    // Within that of the north, the street has its own, and all together have no more than twenty.
    let senders: Vec<_> = senders.into_iter().chain(all(NORTH, 3)).collect();
    world.0.set(STREET, street().promising(3, guarantee(12)));
    let found = world.run(&senders);
    assert_classes(found, [80.0, 20.0]);
    assert!(found[NORTH][3] + found[STREET][3] > 14.8 && found[STREET][3] > 11.9, "{found:?}");
    // All of it is promised, to other classes too: each has what it is guaranteed, wherever.
    let south = part().promising(0, guarantee(30));
    world.0.set(CITY, subport().promising(3, guarantee(20)).promising(0, guarantee(80)));
    world.0.set(SOUTH, south);
    let senders: Vec<_> = senders.into_iter().chain(all(SOUTH, 0)).chain(all(STREET, 0)).collect();
    let found = world.run(&senders);
    assert_classes(found, [80.0, 20.0]);
    assert!(found[NORTH][3] + found[STREET][3] > 14.8 && found[STREET][3] > 11.9, "{found:?}");
    assert!(found[SOUTH][0] > 29.7, "{found:?}");
    // What nobody wants of a guarantee is the others'.
    let senders: Vec<_> = all(NORTH, 0).chain(all(SOUTH, 3)).collect();
    assert_rates(world.run(&senders), [NONE, [80.0, 0.0], [0.0, 20.0], NONE]);
    let senders: Vec<_> = all(SOUTH, 3).collect();
    assert_rates(world.run(&senders), [NONE, NONE, [0.0, 100.0], NONE]);
    world.0.finish();
}

#[test]
fn what_goes_for_a_guarantee_costs_nobody_below_of_its_share() {
    // 1 Mbit/s is guaranteed to each of twenty users. One of the north has packets of class 3, which have 19 of what is left; of the other 61, both parts have a half, and each user of the
    // north a tenth of that.
    let subports = [subport().promising(3, guarantee(20)), part(), part(), street()];
    let mut world = World::new(user(1_000, true), subports);
    let senders: Vec<_> = all(NORTH, 0).map(|(user, _)| (user, if user == USERS { 3 } else { 0 })).collect();
    let senders: Vec<_> = senders.into_iter().chain(all(SOUTH, 0)).collect();
    assert_rates(world.run(&senders), [NONE, [9.0 + 27.45, 20.0 + 3.05], [10.0 + 30.5, 0.0], NONE]);
    world.0.finish();
}

#[test]
fn what_a_subport_lends_is_for_its_own_users() {
    // The north is guaranteed 60 Mbit/s, which it lends. Of the other 40, 20 are for class 3, which the south alone has; the rest is shared.
    let subports = [subport().promising(3, guarantee(20)), part().guaranteed(guarantee(60)), part(), street()];
    let mut world = World::new(user(8, true), subports);
    let senders: Vec<_> = all(NORTH, 0).chain(all(SOUTH, 3)).collect();
    assert_rates(world.run(&senders), [NONE, [70.0, 0.0], [0.0, 30.0], NONE]);
    world.0.finish();
}

#[test]
fn the_rates_of_classes_are_kept() {
    // The street may send 5 Mbit/s of class 3, the north 14, and no guarantee goes beyond.
    let subports = [
        subport().promising(3, guarantee(30)),
        part().promising(3, guarantee(20)).class(3, guarantee(14)),
        part(),
        street().promising(3, guarantee(12)).class(3, guarantee(5)),
    ];
    let mut world = World::new(user(10_000, false), subports);
    let senders: Vec<_> = all(NORTH, 3).chain(all(STREET, 3)).chain(all(SOUTH, 0)).collect();
    assert_rates(world.run(&senders), [NONE, [0.0, 9.0], [86.0, 0.0], [0.0, 5.0]]);
    world.0.finish();
}
