//! What is left is shared by weight: the scheduler against a fluid model of the definition in docs/functions/qos.md, and the promises of
//! guarantees and ceilings.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use proptest::prelude::*;
use weir_sched::class::ClassQueue;
use weir_sched::profile::{ClassProfile, Profile, Profiles, SubportProfile};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Scheduler, Setup};
use weir_sched::simulation::Windows;

const PORT: f64 = 1e9;
const SIZE: u64 = 16_384;
const SUBPORT_SIZE: u64 = 65_536;
const MILLISECOND: u64 = 1_000_000;

/// A user who sends all it can, or nothing.
#[derive(Clone, Copy, Debug)]
struct User {
    subport: usize,
    rate: f64,
    ceil: f64,
    weight: u8,
    frame: u16,
    sends: bool,
}

#[derive(Clone, Copy, Debug)]
struct Subport {
    rate: Option<f64>,
    ceil: f64,
    weight: u8,
    above: Option<usize>,
}

/// Shares `left` by weight among those who have room for more; what each gets.
fn fill(left: f64, claims: &[(f64, f64)]) -> Vec<f64> {
    let mut got = vec![0.0; claims.len()];
    let mut left = left;
    for _ in 0..=claims.len() {
        let open: Vec<usize> = (0..claims.len()).filter(|n| claims[*n].1 - got[*n] > 1.0).collect();
        let weights: f64 = open.iter().map(|n| claims[*n].0).sum();
        if open.is_empty() || left < 1.0 {
            break;
        }
        let each = left / weights;
        for n in open {
            let more = (each * claims[n].0).min(claims[n].1 - got[n]);
            got[n] += more;
            left -= more;
        }
    }
    got
}

/// The definition, for users who send without end, as rates in bit/s.
struct Fluid<'a> {
    users: &'a [User],
    subports: &'a [Subport],
    rates: Vec<f64>,
    /// What counts against what each subport is guaranteed.
    guaranteed: Vec<f64>,
}

/// Who has a part of what a subport has.
#[derive(Clone, Copy)]
enum Member {
    User(usize),
    Subport(usize),
}

impl Fluid<'_> {
    fn path(&self, subport: usize) -> Vec<usize> {
        std::iter::successors(Some(subport), |at| self.subports[*at].above).collect()
    }

    /// The users and subports right below one, or the port.
    fn members(&self, above: Option<usize>) -> Vec<Member> {
        let users = (0..self.users.len()).filter(|n| Some(self.users[*n].subport) == above && self.users[*n].sends);
        let subports = (0..self.subports.len()).filter(|n| self.subports[*n].above == above);
        users.map(Member::User).chain(subports.map(Member::Subport)).collect()
    }

    fn used(&self, member: Member) -> f64 {
        match member {
            Member::User(user) => self.rates[user],
            Member::Subport(at) => self.members(Some(at)).into_iter().map(|member| self.used(member)).sum(),
        }
    }

    /// How much more one wants and may have.
    fn room(&self, member: Member) -> f64 {
        match member {
            Member::User(user) => self.users[user].ceil - self.rates[user],
            Member::Subport(at) => {
                let below: f64 = self.members(Some(at)).into_iter().map(|member| self.room(member)).sum();
                below.min(self.subports[at].ceil - self.used(member))
            }
        }
    }

    /// What is left goes to those right below a subport, or the port, by weight, and in each of them so on.
    fn share(&mut self, above: Option<usize>, left: f64) {
        let members = self.members(above);
        let weight = |member: &Member| match member {
            Member::User(user) => self.users[*user].weight,
            Member::Subport(at) => self.subports[*at].weight,
        };
        let claims: Vec<_> =
            members.iter().map(|member| (f64::from(weight(member)), self.room(*member).max(0.0))).collect();
        for (more, member) in fill(left, &claims).into_iter().zip(members) {
            match member {
                Member::User(user) => self.rates[user] += more,
                Member::Subport(at) => self.share(Some(at), more),
            }
        }
    }
}

fn fluid(users: &[User], subports: &[Subport]) -> Vec<f64> {
    let rates: Vec<f64> = users.iter().map(|user| if user.sends { user.rate } else { 0.0 }).collect();
    let mut fluid = Fluid { users, subports, rates, guaranteed: vec![0.0; subports.len()] };
    for (n, user) in users.iter().enumerate() {
        fluid.path(user.subport).into_iter().for_each(|at| fluid.guaranteed[at] += fluid.rates[n]);
    }
    // The lowest lend first.
    let mut all: Vec<usize> = (0..subports.len()).collect();
    all.sort_by_key(|at| std::cmp::Reverse(fluid.path(*at).len()));
    for at in all {
        let left = subports[at].rate.map_or(0.0, |rate| rate - fluid.guaranteed[at]).max(0.0);
        let before = fluid.used(Member::Subport(at));
        fluid.share(Some(at), left);
        let lent = fluid.used(Member::Subport(at)) - before;
        fluid.path(at).into_iter().for_each(|at| fluid.guaranteed[at] += lent);
    }
    let left = PORT - fluid.rates.iter().sum::<f64>();
    fluid.share(None, left);
    fluid.rates
}

struct World<const TREE: bool> {
    scheduler: Scheduler<u32, 4, 11, TREE>,
    profiles: Arc<Profiles>,
    users: Vec<User>,
    subports: Vec<Subport>,
    now: u64,
    due: u64,
    waiting: Vec<u32>,
    offered: u64,
    sent: u64,
    /// Of users, then of subports: each packet against the ceiling.
    ceilings: Vec<Windows>,
}

impl<const TREE: bool> World<TREE> {
    fn new(users: &[User], subports: &[Subport]) -> World<TREE> {
        let bucket = |rate: f64, size| Bucket::new(rate as u64, size);
        let profile = |user: &User| {
            let profile = Profile::new(bucket(user.rate, SIZE), vec![ClassProfile::default(); 4], &[]);
            profile.sharing(bucket(user.ceil, SIZE), user.weight)
        };
        let subport = |subport: &Subport| {
            let profile = SubportProfile::new(bucket(subport.ceil, SUBPORT_SIZE), subport.weight);
            let profile = subport.rate.map_or(profile, |rate| profile.guaranteed(bucket(rate, SUBPORT_SIZE)));
            subport.above.map_or(profile, |above| profile.below(above as u16))
        };
        let profiles = Profiles::new(
            bucket(PORT, 4_000),
            subports.iter().map(subport).collect(),
            users.iter().map(profile).collect(),
        );
        let setup = Setup { users: users.len() as u32, buffers: 4_096, minimum: 16, overhead: 24, wheel: Setup::WHEEL };
        let profiles = Arc::new(profiles);
        let mut scheduler = Scheduler::new(setup, Arc::clone(&profiles));
        for (n, user) in users.iter().enumerate() {
            scheduler.assign(n as u32, Some((n as u16, user.subport as u16)), 0);
        }
        let of_users = users.iter().map(|user| Windows::new(user.ceil as u64, SIZE, user.frame));
        let of_subports = subports.iter().map(|subport| Windows::new(subport.ceil as u64, SUBPORT_SIZE, 1524));
        let ceilings = of_users.chain(of_subports).collect();
        let waiting = vec![0; users.len()];
        let (users, subports) = (users.to_vec(), subports.to_vec());
        World { scheduler, profiles, users, subports, now: 0, due: 0, waiting, offered: 0, sent: 0, ceilings }
    }

    /// Goes on until `end`; the bits that each user sent.
    fn run(&mut self, end: u64) -> Vec<f64> {
        let mut bits = vec![0.0; self.users.len()];
        while self.now < end {
            for (n, user) in self.users.iter().enumerate() {
                while user.sends && self.waiting[n] < 12 {
                    let class = ClassQueue::new(3, 0);
                    let offer = Offer { user: n as u32, class, length: user.frame, colour: 0 };
                    assert_eq!(self.scheduler.enqueue(offer, self.now, || Some(n as u32)), Ok(None));
                    self.waiting[n] += 1;
                    self.offered += 1;
                }
            }
            let mut went = Vec::new();
            self.due = self.scheduler.dequeue(self.now, 4, |leaving| match leaving {
                Leaving::Sent(user) | Leaving::Managed(user) | Leaving::Coupled(user) => went.push(user as usize),
            });
            for user in went {
                let User { frame, subport, .. } = self.users[user];
                self.waiting[user] -= 1;
                self.sent += 1;
                bits[user] += f64::from(frame) * 8.0;
                self.ceilings[user].sent(self.now, frame);
                let above = |at: &usize| self.subports[*at].above;
                for at in std::iter::successors(Some(subport), above) {
                    self.ceilings[self.users.len() + at].sent(self.now, frame);
                }
            }
            self.now = self.due.max(self.now + 1).min(self.now + MILLISECOND);
        }
        bits
    }

    fn never_above_a_ceiling(&self) -> bool {
        self.ceilings.iter().all(|windows| windows.early == 0)
    }
}

/// Lets users send for a second; the rates they had after the first 200 ms, and those of the fluid model.
fn shares(users: &[User], subports: &[Subport]) -> (Vec<f64>, Vec<f64>) {
    match subports.iter().any(|subport| subport.above.is_some()) {
        true => shares_of::<true>(users, subports),
        false => shares_of::<false>(users, subports),
    }
}

fn shares_of<const TREE: bool>(users: &[User], subports: &[Subport]) -> (Vec<f64>, Vec<f64>) {
    let mut world = World::<TREE>::new(users, subports);
    world.run(200 * MILLISECOND);
    let bits = world.run(1_200 * MILLISECOND);
    assert!(world.never_above_a_ceiling());
    assert_eq!(world.offered, world.sent + u64::from(world.scheduler.held()));
    (bits, fluid(users, subports))
}

fn assert_close(users: &[User], subports: &[Subport]) {
    let (found, expected) = shares(users, subports);
    for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
        // A part in a hundred, or two frames for those who have next to nothing.
        let slack = (expected * 0.01).max(2.0 * 8.0 * f64::from(users[n].frame));
        assert!((found - expected).abs() <= slack, "user {n}: {found} for {expected} of {users:?} {subports:?}");
    }
}

fn user(subport: usize, rate: f64, ceil: f64, weight: u8) -> User {
    User { subport, rate, ceil, weight, frame: 1524, sends: true }
}

const OPEN: Subport = Subport { rate: None, ceil: PORT, weight: 1, above: None };

#[test]
fn what_is_left_is_shared_by_weight() {
    let users: Vec<User> = [1, 2, 5, 10].map(|weight| user(0, 1e6, PORT, weight)).to_vec();
    assert_close(&users, &[OPEN]);
    let (found, _) = shares(&users, &[OPEN]);
    // By hand: 996 Mbit/s are left, in parts of 1, 2, 5 and 10 of 18.
    assert!((found[3] - (1e6 + 996e6 * 10.0 / 18.0)).abs() < 5.6e6, "{found:?}");
}

#[test]
fn subports_share_by_weight_first() {
    let small = User { frame: 164, ..user(1, 1e6, PORT, 1) };
    let users = [user(0, 1e6, PORT, 1), user(0, 1e6, PORT, 9), small, user(1, 1e6, PORT, 3)];
    assert_close(&users, &[OPEN, Subport { weight: 3, ..OPEN }]);
}

#[test]
fn what_somebody_may_not_have_goes_to_others() {
    let users = [user(0, 1e6, 50e6, 1), user(0, 1e6, PORT, 1), user(1, 1e6, PORT, 1), user(1, 1e6, PORT, 1)];
    assert_close(&users, &[OPEN, Subport { ceil: 300e6, ..OPEN }]);
    let idle = User { sends: false, ..user(0, 400e6, PORT, 1) };
    assert_close(&[idle, user(0, 1e6, PORT, 1), user(0, 1e6, PORT, 3)], &[OPEN]);
}

#[test]
fn guarantees_hold_while_everybody_else_takes_all_they_can() {
    let mut users = vec![user(0, 200e6, 200e6, 1), user(0, 10e6, PORT, 1), user(1, 50e6, 60e6, 1)];
    users.extend((0..20).map(|_| user(2, 1e6, PORT, 10)));
    let lender = Subport { rate: Some(300e6), ..OPEN };
    let greedy = Subport { weight: 100, ..OPEN };
    assert_close(&users, &[lender, OPEN, greedy]);
    let (found, _) = shares(&users, &[lender, OPEN, greedy]);
    assert!(found[0] >= 199e6 && found[0] + found[1] >= 299e6 && found[2] >= 49.9e6, "{found:?}");
}

#[test]
fn nothing_is_lost_while_users_change_and_move() {
    let users: Vec<User> = (0..8).map(|n| user(n % 2, 10e6, PORT, 1 + n as u8)).collect();
    let mut world = World::<false>::new(&users, &[OPEN, Subport { rate: Some(100e6), weight: 2, ..OPEN }]);
    for change in 0..1_000_u32 {
        let (number, profile, subport) = (change % 8, (change * 7 % 8) as u16, (change / 8 % 2) as u16);
        world.scheduler.assign(number, Some((profile, subport)), world.now);
        world.run(world.now + MILLISECOND);
    }
    assert_eq!(world.offered, world.sent + u64::from(world.scheduler.held()));
    let bits = world.sent as f64 * 1524.0 * 8.0;
    // Nobody waits while the port may send.
    assert!(bits > 0.98 * PORT * world.now as f64 / 1e9, "{bits} in {} ns", world.now);
}

/// Below one of those before it, or below the port.
fn below(above: usize, subport: Subport) -> Subport {
    Subport { above: Some(above), ..subport }
}

#[test]
fn every_level_shares_by_weight() {
    // Two sites, of weights 1 and 2; below the second two of its own, of 1 and 3, and below the latter of those one more, beside a user.
    let subports =
        [OPEN, Subport { weight: 2, ..OPEN }, below(1, OPEN), below(1, Subport { weight: 3, ..OPEN }), below(3, OPEN)];
    let users: Vec<User> = [0, 2, 3, 4, 4].map(|subport| user(subport, 1e6, PORT, 1)).to_vec();
    assert_close(&users, &subports);
    let (found, _) = shares(&users, &subports);
    // By hand: 995 Mbit/s are left. A third, a sixth, and of the half that is left one half, and two quarters.
    for (found, part) in found.iter().zip([1.0 / 3.0, 1.0 / 6.0, 0.25, 0.125, 0.125]) {
        assert!((found - (1e6 + 995e6 * part)).abs() < 0.01 * found, "{found} {part}");
    }
}

#[test]
fn no_level_exceeds_its_ceiling_and_what_it_may_not_have_goes_to_others() {
    let site = Subport { ceil: 300e6, ..OPEN };
    let subports = [site, below(0, Subport { ceil: 100e6, ..OPEN }), below(0, OPEN), OPEN];
    let users: Vec<User> = [1, 1, 2, 2, 3].map(|subport| user(subport, 1e6, PORT, 1)).to_vec();
    assert_close(&users, &subports);
    let (found, _) = shares(&users, &subports);
    assert!((found[0] + found[1] - 100e6).abs() < 1e6 && (found[4] - 700e6).abs() < 7e6, "{found:?}");
}

#[test]
fn every_level_keeps_its_guarantee_while_others_take_all_they_can() {
    let site = Subport { rate: Some(400e6), ..OPEN };
    let subports =
        [site, below(0, Subport { rate: Some(250e6), ..OPEN }), below(0, OPEN), Subport { weight: 100, ..OPEN }];
    let mut users = vec![user(1, 10e6, PORT, 1), user(2, 10e6, PORT, 1), user(2, 20e6, 20e6, 1)];
    users.extend((0..20).map(|_| user(3, 1e6, PORT, 10)));
    assert_close(&users, &subports);
    let (found, _) = shares(&users, &subports);
    assert!(found[0] >= 249e6 && found[..3].iter().sum::<f64>() >= 399e6, "{found:?}");
}

/// Who has used up its rate stands behind those who have not, and behind subports, for eight turns at most.
#[test]
fn a_subport_does_not_starve_users_beside_it() {
    let users = [user(0, 200e6, 200e6, 1), user(1, PORT, PORT, 1)];
    let (found, _) = shares(&users, &[OPEN, below(0, OPEN)]);
    assert!(found[0] > 0.99 * PORT / 9.0 && found[0] + found[1] > 0.99 * PORT, "{found:?}");
}

#[test]
fn what_is_below_a_subport_moves_with_it_and_nothing_is_lost() {
    let users: Vec<User> = (0..8).map(|n| user(n % 4, 10e6, PORT, 1 + n as u8)).collect();
    let guaranteed = Subport { rate: Some(100e6), ..OPEN };
    let trees: Vec<Vec<Subport>> =
        [[None; 4], [None, Some(0), Some(1), None], [Some(3), Some(0), None, None], [Some(1), None, Some(1), Some(2)]]
            .map(|above| above.map(|above| Subport { above, ..guaranteed }).to_vec())
            .to_vec();
    let mut world = World::<true>::new(&users, &trees[0]);
    for change in 0..1_000_u32 {
        let number = change % 8;
        world.scheduler.assign(number, Some(((change * 7 % 8) as u16, (change / 8 % 4) as u16)), world.now);
        let other = World::<true>::new(&users, &trees[change as usize * 5 % 4]);
        world.scheduler.set_profiles(other.profiles, world.now);
        world.run(world.now + MILLISECOND);
    }
    assert_eq!(world.offered, world.sent + u64::from(world.scheduler.held()));
    let bits = world.sent as f64 * 1524.0 * 8.0;
    assert!(bits > 0.98 * PORT * world.now as f64 / 1e9, "{bits} in {} ns", world.now);
}

/// A user as random numbers have it, in one of so many subports.
fn any_user((subport, rate, more, weight, is_small, sends): (usize, u32, u32, u8, bool, u8), subports: usize) -> User {
    User {
        subport: subport % subports,
        rate: f64::from(rate) * 1e6,
        ceil: f64::from(rate) * 1e6 + f64::from(more * more) * 1e6,
        weight,
        frame: if is_small { 424 } else { 1524 },
        sends: sends > 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn anybody_gets_what_the_fluid_model_says(
        subports in prop::collection::vec((1..10_u8, prop::option::of(1..20_u32), 10..40_u32), 1..4),
        users in prop::collection::vec((0..3_usize, 1..20_u32, 1..40_u32, 1..10_u8, any::<bool>(), 0..6_u8), 2..12),
    ) {
        // Guarantees are at most 240 Mbit/s together, so that they can be kept.
        let of_subport = |(weight, rate, ceil): (u8, Option<u32>, u32)| Subport {
            rate: rate.map(|rate| f64::from(rate) * 10e6),
            ceil: 260e6 + f64::from(ceil) * 10e6,
            weight,
            above: None,
        };
        let subports: Vec<Subport> = subports.into_iter().map(of_subport).collect();
        let users: Vec<User> = users.into_iter().map(|said| any_user(said, subports.len())).collect();
        assert_close(&users, &subports);
    }

    #[test]
    fn anybody_gets_what_the_fluid_model_says_in_a_tree(
        subports in prop::collection::vec((1..10_u8, prop::option::of(1..8_u32), 0..40_u32, 0..5_usize), 2..6),
        users in prop::collection::vec((0..6_usize, 1..12_u32, 1..40_u32, 1..10_u8, any::<bool>(), 0..6_u8), 2..12),
    ) {
        // Guarantees are at most 11 * 11 + 5 * 70 Mbit/s together, and no level may send less.
        let mut depths: Vec<usize> = Vec::new();
        let mut tree: Vec<Subport> = Vec::new();
        for (weight, rate, ceil, above) in subports {
            let above = (above < depths.len() && depths[above] < 3).then_some(above);
            depths.push(above.map_or(1, |above| depths[above] + 1));
            let (rate, ceil) = (rate.map(|rate| f64::from(rate) * 10e6), 480e6 + f64::from(ceil) * 10e6);
            tree.push(Subport { rate, ceil, weight, above });
        }
        let users: Vec<User> = users.into_iter().map(|said| any_user(said, tree.len())).collect();
        assert_close(&users, &tree);
    }
}
