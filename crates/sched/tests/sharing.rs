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
fn fluid(users: &[User], subports: &[Subport]) -> Vec<f64> {
    let mut rates: Vec<f64> = users.iter().map(|user| if user.sends { user.rate } else { 0.0 }).collect();
    let of = |s: usize| (0..users.len()).filter(move |n| users[*n].subport == s && users[*n].sends).collect::<Vec<_>>();
    let share = |rates: &mut Vec<f64>, s: usize, left: f64| {
        let members = of(s);
        let claims: Vec<(f64, f64)> =
            members.iter().map(|n| (f64::from(users[*n].weight), users[*n].ceil - rates[*n])).collect();
        fill(left, &claims).into_iter().zip(members).for_each(|(more, n)| rates[n] += more);
    };
    let used = |rates: &[f64], s: usize| of(s).into_iter().map(|n| rates[n]).sum::<f64>();
    for (s, subport) in subports.iter().enumerate() {
        let left = subport.rate.map_or(0.0, |rate| rate - used(&rates, s));
        share(&mut rates, s, left.max(0.0));
    }
    let left = PORT - rates.iter().sum::<f64>();
    let claims: Vec<(f64, f64)> = subports
        .iter()
        .enumerate()
        .map(|(s, subport)| {
            let room: f64 = of(s).into_iter().map(|n| users[n].ceil - rates[n]).sum();
            (f64::from(subport.weight), room.min(subport.ceil - used(&rates, s)))
        })
        .collect();
    for (s, more) in fill(left, &claims).into_iter().enumerate() {
        share(&mut rates, s, more);
    }
    rates
}

struct World {
    scheduler: Scheduler<u32, 4, 11>,
    users: Vec<User>,
    now: u64,
    due: u64,
    waiting: Vec<u32>,
    offered: u64,
    sent: u64,
    /// Of users, then of subports: each packet against the ceiling.
    ceilings: Vec<Windows>,
}

impl World {
    fn new(users: &[User], subports: &[Subport]) -> World {
        let bucket = |rate: f64, size| Bucket::new(rate as u64, size);
        let profile = |user: &User| {
            let profile = Profile::new(bucket(user.rate, SIZE), vec![ClassProfile::default(); 4], &[]);
            profile.sharing(bucket(user.ceil, SIZE), user.weight)
        };
        let subport = |subport: &Subport| {
            let profile = SubportProfile::new(bucket(subport.ceil, SUBPORT_SIZE), subport.weight);
            subport.rate.map_or(profile, |rate| profile.guaranteed(bucket(rate, SUBPORT_SIZE)))
        };
        let profiles = Profiles::new(
            bucket(PORT, 4_000),
            subports.iter().map(subport).collect(),
            users.iter().map(profile).collect(),
        );
        let setup = Setup { users: users.len() as u32, buffers: 4_096, minimum: 16, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler = Scheduler::new(setup, Arc::new(profiles));
        for (n, user) in users.iter().enumerate() {
            scheduler.assign(n as u32, Some((n as u16, user.subport as u16)), 0);
        }
        let of_users = users.iter().map(|user| Windows::new(user.ceil as u64, SIZE, user.frame));
        let of_subports = subports.iter().map(|subport| Windows::new(subport.ceil as u64, SUBPORT_SIZE, 1524));
        let ceilings = of_users.chain(of_subports).collect();
        let waiting = vec![0; users.len()];
        World { scheduler, users: users.to_vec(), now: 0, due: 0, waiting, offered: 0, sent: 0, ceilings }
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
                Leaving::Sent(user) | Leaving::Managed(user) => went.push(user as usize),
            });
            for user in went {
                let User { frame, subport, .. } = self.users[user];
                self.waiting[user] -= 1;
                self.sent += 1;
                bits[user] += f64::from(frame) * 8.0;
                self.ceilings[user].sent(self.now, frame);
                self.ceilings[self.users.len() + subport].sent(self.now, frame);
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
    let mut world = World::new(users, subports);
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

const OPEN: Subport = Subport { rate: None, ceil: PORT, weight: 1 };

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
    let mut world = World::new(&users, &[OPEN, Subport { rate: Some(100e6), weight: 2, ..OPEN }]);
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
        };
        let subports: Vec<Subport> = subports.into_iter().map(of_subport).collect();
        let of_user = |(subport, rate, more, weight, is_small, sends): (usize, u32, u32, u8, bool, u8)| User {
            subport: subport % subports.len(),
            rate: f64::from(rate) * 1e6,
            ceil: f64::from(rate) * 1e6 + f64::from(more * more) * 1e6,
            weight,
            frame: if is_small { 424 } else { 1524 },
            sends: sends > 0,
        };
        let users: Vec<User> = users.into_iter().map(of_user).collect();
        assert_close(&users, &subports);
    }
}
