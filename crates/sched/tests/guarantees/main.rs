//! What the scheduler promises, in simulated time.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod sim;

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use sim::{Random, SMALL, Sim, Source, Tokens, World};
use weir_sched::class::ClassQueue;
use weir_sched::profile::{ClassProfile, Profile, Profiles};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Scheduler, Setup};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const MBIT: u64 = 1_000_000;

/// A port on which the rates of the users are so much of the whole as those of 32,768 of 1 Mbit/s are of 40 Gbit/s.
fn port_for(users: u64) -> u64 {
    40_000 * MBIT / 32_768 * users
}

/// The time between small frames at `times` the rate of 1 Mbit/s.
fn gap(times: f64) -> f64 {
    f64::from(SMALL) * 8.0 * 1000.0 / times
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In any window T a user sends at most tb_size + rate * T; one who always has packets waiting sends at least
    /// rate * T - tb_size - one frame.
    #[test]
    fn every_window_is_within_bounds(
        users in prop::collection::vec((1_000..50_000_u64, 2..20_u64, 84..1562_u16), 1..6), seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        // tb_size is two of the user's frames or more.
        let of = |(kbit, frames, frame): &(u64, u64, u16)| (kbit * 1000, frames * u64::from(*frame), *frame);
        let users: Vec<(u64, u64, u16)> = users.iter().map(of).collect();
        let profiles = users.iter().map(|(rate, size, _)| {
            Profile::new(Bucket::new(*rate, *size), vec![ClassProfile::default(); 4], &[])
        });
        // While a frame of each other user goes by, none fills a bucket to the brim.
        let table = Profiles::new(Bucket::new(10_000 * MBIT, 4000), vec![], profiles.collect());
        let setup = Setup { users: users.len() as u32, buffers: 1000, minimum: 1, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler: Scheduler<(u32, u16), 4, 11> = Scheduler::new(setup, Arc::new(table));
        for user in 0..users.len() as u32 {
            scheduler.assign(user, Some((user as u16, 0)), 0);
        }
        let mut sent = vec![Vec::new(); users.len()];
        let mut now = 0;
        for _ in 0..2000 {
            // Everybody always has packets of all sizes up to its own waiting.
            for (user, (.., frame)) in users.iter().enumerate() {
                while scheduler.held_by(user as u32) < 8 {
                    let length = 84 + random.below(u64::from(frame - 84) + 1) as u16;
                    let offer = Offer { user: user as u32, class: ClassQueue::new(2, 0), length, colour: 0 };
                    prop_assert!(scheduler.enqueue(offer, now, || Some((user as u32, length))).is_ok());
                }
            }
            let next = scheduler.dequeue(now, 4, |leaving| {
                if let Leaving::Sent((user, length)) = leaving {
                    sent[user as usize].push((now, length));
                }
            });
            now = next.max(now + 1);
        }
        for (sent, (rate, size, frame)) in sent.iter().zip(&users) {
            check_windows(sent, *rate, *size, *frame)?;
        }
    }
}

/// All windows from just before one packet to just after another, and from just after one to just before another.
fn check_windows(sent: &[(u64, u16)], rate: u64, size: u64, frame: u16) -> Result<(), TestCaseError> {
    let unit = 8 * u128::from(SECOND);
    for (n, (start, _)) in sent.iter().enumerate() {
        let mut bytes = 0;
        for (end, length) in sent.iter().skip(n) {
            let fair = u128::from(end - start) * u128::from(rate);
            // Without the first and the last.
            let inner = if bytes > 0 { bytes - u128::from(sent[n].1) } else { 0 };
            prop_assert!(
                inner * unit + (u128::from(size) + u128::from(frame)) * unit >= fair,
                "{inner} bytes in {} ns",
                end - start
            );
            bytes += u128::from(*length);
            prop_assert!(bytes * unit <= u128::from(size) * unit + fair, "{bytes} bytes in {} ns", end - start);
        }
    }
    Ok(())
}

/// Every user offered twice its rate gets it within 0.5 %.
fn twice_the_rate(users: u64, time: u64) {
    let sources = vec![Source::Constant(gap(2.0)); users as usize];
    let mut sim =
        Sim::new(World { port: port_for(users), rate: MBIT, buffers: 2 * users as u32, minimum: 1, sources, seed: 1 });
    sim.run(time);
    for (user, seen) in sim.seen.iter().enumerate() {
        let rate = seen.sent_bytes as f64 * 8.0 / (time as f64 / SECOND as f64);
        let off = rate / MBIT as f64 - 1.0;
        assert!(off.abs() <= 0.005, "user {user} got {rate} bit/s");
    }
}

#[test]
fn users_get_their_rates() {
    twice_the_rate(96, 10 * SECOND);
}

#[test]
#[ignore = "half an hour of work: cargo test --release -p weir-sched --test guarantees -- --ignored"]
fn users_get_their_rates_at_40_gbit() {
    twice_the_rate(32_768, 10 * SECOND);
}

/// While others send `times` their rates, those who conform lose nothing and hardly wait.
fn conforming_users_are_left_alone(users: usize, conforming: usize, times: f64, time: u64) {
    let source = |n| if n < conforming { Source::Conforming(gap(0.9)) } else { Source::Constant(gap(times)) };
    let sources = (0..users).map(source).collect();
    // Whoever conforms may send four packets at once, and needs buffers for them.
    let (buffers, minimum) = (8 * users as u32, 4);
    let mut sim = Sim::new(World { port: port_for(users as u64), rate: MBIT, buffers, minimum, sources, seed: 7 });
    // All buckets are full at the beginning: for a moment nobody can be told from those who conform.
    sim.run(10 * MS);
    sim.watched = conforming as u32;
    sim.run(time);
    let lost: u64 = sim.seen.iter().take(conforming).map(|seen| seen.lost).sum();
    assert_eq!(lost, 0, "{conforming} of {users} conform, the others send {times} times their rate");
    let others: u64 = sim.seen.iter().skip(conforming).map(|seen| seen.lost).sum();
    assert!(others > 0, "nobody sent too much");
    let wait = sim.wait_p999();
    assert!(wait < MS, "{wait} ns at p99.9 while {} users send {times} times their rate", users - conforming);
}

#[test]
fn one_greedy_user_harms_nobody() {
    conforming_users_are_left_alone(1024, 1023, 2.0, SECOND / 4);
    conforming_users_are_left_alone(1024, 1023, 10.0, SECOND / 4);
}

#[test]
fn a_hundredth_of_greedy_users_harms_nobody() {
    conforming_users_are_left_alone(1024, 1014, 2.0, SECOND / 4);
    conforming_users_are_left_alone(1024, 1014, 10.0, SECOND / 4);
}

#[test]
fn all_others_being_greedy_harms_nobody() {
    conforming_users_are_left_alone(1024, 16, 2.0, SECOND / 2);
    conforming_users_are_left_alone(1024, 16, 10.0, SECOND / 4);
}

#[test]
#[ignore = "an hour of work: cargo test --release -p weir-sched --test guarantees -- --ignored"]
fn conforming_users_are_left_alone_at_40_gbit() {
    for (conforming, times) in [(32_767, 2.0), (32_767, 10.0), (32_440, 2.0), (32_440, 10.0), (64, 2.0), (64, 10.0)] {
        conforming_users_are_left_alone(32_768, conforming, times, SECOND);
    }
}

/// Poisson arrivals at 95 % of the port's rate, all users conforming: what the scheduler holds on average and at p99.9, at the
/// times of arrivals.
fn holding(users: u64, packets: usize) -> (f64, u32) {
    let port = port_for(users);
    let rate = port * 95 / 100 / users;
    let size = 4 * u64::from(SMALL);
    let profile = Profile::new(Bucket::new(rate, size), vec![ClassProfile::default(); 4], &[]);
    // The port may save up no more than a frame, so that what waits for it waits here.
    let table = Profiles::new(Bucket::new(port, u64::from(SMALL)), vec![], vec![profile]);
    let setup = Setup { users: users as u32, buffers: 65_536, minimum: 1, overhead: 24, wheel: Setup::WHEEL };
    let mut scheduler: Scheduler<u64, 4, 11> = Scheduler::new(setup, Arc::new(table));
    (0..users as u32).for_each(|user| scheduler.assign(user, Some((0, 0)), 0));
    let mut tokens: Vec<Tokens> = (0..users).map(|_| Tokens::new(rate, size)).collect();
    // Users take turns, and whoever would not conform is passed over: the process stays that of all together.
    let mut turns: VecDeque<u32> = (0..users as u32).collect();
    let mut random = Random(3);
    let mean = f64::from(SMALL) * 8.0 * 1e9 / (port as f64 * 0.95);
    let (mut at, mut due, mut held) = (0.0, u64::MAX, vec![0_u64; 65_537]);
    for packet in 0..packets {
        at += random.exponential(mean);
        let now = at as u64;
        while due <= now {
            due = scheduler.dequeue(due, 64, |_| {}).max(due + 1);
        }
        held[scheduler.held() as usize] += 1;
        let place = turns.iter().position(|user| tokens[*user as usize].take(now, SMALL));
        let user = turns.remove(place.unwrap()).unwrap();
        turns.push_back(user);
        let offer = Offer { user, class: ClassQueue::new(3, 0), length: SMALL, colour: 0 };
        assert_eq!(scheduler.enqueue(offer, now, || Some(packet as u64)), Ok(None));
        due = scheduler.dequeue(now, 64, |_| {}).max(now + 1);
    }
    let sum: u64 = held.iter().enumerate().map(|(n, times)| n as u64 * times).sum();
    let mut above = packets as u64 / 1000;
    let most = held.iter().enumerate().rev().find(|(_, times)| {
        above = above.saturating_sub(**times);
        above == 0
    });
    (sum as f64 / packets as f64, most.unwrap().0 as u32)
}

#[test]
fn little_is_held_where_little_waits() {
    let (average, most) = holding(1024, 1_000_000);
    assert!(average < 64.0 && most < 256, "{average} on average, {most} at p99.9");
    // Not by sending faster than the port: about what a queue with such arrivals holds (M/D/1: 0.95 + 0.95^2 / 0.1 = 10).
    assert!(average > 5.0, "{average} on average");
}

/// 65,536 buffers for 32,768 users, in small: two for each. The scheduler never has more, so that what the rings need is left.
#[test]
fn buffers_are_shared_evenly_among_those_who_send_too_much() {
    let users = 1024;
    let sources = vec![Source::Constant(gap(10.0)); users];
    let port = port_for(users as u64);
    let mut sim = Sim::new(World { port, rate: MBIT, buffers: 2048, minimum: 1, sources, seed: 11 });
    sim.run(SECOND / 4);
    assert_eq!(sim.least_left, 0, "of what is there, all is used");
    assert!((0..users as u32).all(|user| (1..=3).contains(&sim.scheduler.held_by(user))));
    assert!(sim.seen.iter().all(|seen| seen.sent_bytes > 0 && seen.lost > 0));
}

#[test]
fn an_oversubscribed_port_is_full_and_its_users_get_even_shares() {
    // Rates that add up to twice the port's.
    let users = 64;
    let sources = vec![Source::Constant(gap(4.0)); users];
    let port = 32 * MBIT;
    let mut sim = Sim::new(World { port, rate: MBIT, buffers: 512, minimum: 1, sources, seed: 5 });
    sim.run(2 * SECOND);
    let sent: u64 = sim.seen.iter().map(|seen| seen.sent_bytes).sum();
    let off = sent as f64 * 8.0 / 2.0 / port as f64 - 1.0;
    assert!(off.abs() < 0.005, "{off}");
    for seen in &sim.seen {
        let off = seen.sent_bytes as f64 * users as f64 / sent as f64 - 1.0;
        assert!(off.abs() < 0.01, "{off}");
    }
}

#[test]
fn queues_of_the_lowest_class_share_by_weight_and_classes_by_priority_and_cap() {
    let mut classes = vec![ClassProfile::default(); 4];
    classes[0].cap = Bucket::of_period(2 * MBIT, 10 * MS);
    let profile = Profile::new(Bucket::new(10 * MBIT, 3000), classes, &[1, 2, 5]);
    let table = Profiles::new(Bucket::new(1000 * MBIT, 3000), vec![], vec![profile]);
    let setup = Setup { users: 1, buffers: 256, minimum: 64, overhead: 24, wheel: Setup::WHEEL };
    let mut scheduler: Scheduler<(u8, u16), 4, 11> = Scheduler::new(setup, Arc::new(table));
    scheduler.assign(0, Some((0, 0)), 0);
    let mut random = Random(9);
    let (mut waiting, mut sent, mut now) = ([0_u32; 4], [0_u64; 4], 0);
    while now < 4 * SECOND {
        // Class 0, and queues 0, 1, 2 of the lowest, always have packets of all sizes.
        for (n, (class, queue)) in [(0, 0), (3, 0), (3, 1), (3, 2)].into_iter().enumerate() {
            while waiting[n] < 8 {
                let length = 84 + random.below(1478) as u16;
                let offer = Offer { user: 0, class: ClassQueue::new(class, queue), length, colour: 0 };
                assert_eq!(scheduler.enqueue(offer, now, || Some((n as u8, length))), Ok(None));
                waiting[n] += 1;
            }
        }
        let next = scheduler.dequeue(now, 4, |leaving| {
            if let Leaving::Sent((n, length)) = leaving {
                waiting[usize::from(n)] -= 1;
                sent[usize::from(n)] += u64::from(length);
            }
        });
        now = next.max(now + 1);
    }
    let mbit: Vec<f64> = sent.iter().map(|bytes| *bytes as f64 * 8.0 / 4.0 / 1e6).collect();
    for (got, fair) in mbit.iter().zip([2.0, 1.0, 2.0, 5.0]) {
        assert!((got / fair - 1.0).abs() < 0.01, "{mbit:?} Mbit/s");
    }
}
