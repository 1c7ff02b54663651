//! What the scheduler promises, in simulated time.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use proptest::prelude::*;
use weir_sched::class::ClassQueue;
use weir_sched::profile::{ClassProfile, Profile, Profiles};
use weir_sched::rate::Bucket;
use weir_sched::scheduler::{Leaving, Offer, Scheduler, Setup};
use weir_sched::simulation::{Random, SMALL, Simulation, Source, World, gap, holding};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const MBIT: u64 = 1_000_000;

/// A port on which the rates of the users are so much of the whole as those of 32,768 of 1 Mbit/s are of 40 Gbit/s.
fn port_for(users: u64) -> u64 {
    40_000 * MBIT / 32_768 * users
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
                    match scheduler.pass(&offer, now) {
                        Ok(true) => sent[user].push((now, length)),
                        _ => prop_assert!(scheduler.enqueue(offer, now, || Some((user as u32, length))).is_ok()),
                    }
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

/// Users of 1 Mbit/s with these sources, on a port that has for each what one of 40 Gbit/s has for 32,768.
fn world(sources: Vec<Source>, buffers: u32, minimum: u32, seed: u64) -> World {
    World { port: port_for(sources.len() as u64), rate: MBIT, buffers, minimum, sources, seed, late: MS }
}

/// No window of any user has more than it may, and none of those who always have packets waiting has less.
fn assert_windows(sim: &Simulation) {
    assert!(sim.windows().all(|windows| (windows.early, windows.late) == (0, 0)));
}

#[test]
fn users_get_their_rates() {
    let sources = vec![Source::constant(gap(MBIT, 2.0)); 96];
    let mut sim = Simulation::new(world(sources, 192, 1, 1));
    sim.run(10 * SECOND);
    for (user, seen) in sim.seen().enumerate() {
        let rate = (seen.sent * u64::from(SMALL) * 8) as f64 / 10.0;
        let off = rate / MBIT as f64 - 1.0;
        assert!(off.abs() <= 0.005, "user {user} got {rate} bit/s");
    }
    assert_windows(&sim);
}

/// While others send `times` their rates, those who conform lose nothing and hardly wait.
fn conforming_users_are_left_alone(users: u32, conforming: u32, times: f64, time: u64) {
    let source = |n| {
        if n < conforming { Source::conforming(gap(MBIT, 0.9), MBIT) } else { Source::constant(gap(MBIT, times)) }
    };
    // Whoever conforms may send four packets at once, and needs buffers for them.
    let mut sim = Simulation::new(world((0..users).map(source).collect(), 8 * users, 4, 7));
    // All buckets are full at the beginning: for a moment nobody can be told from those who conform.
    sim.run(10 * MS);
    sim.watch(conforming);
    sim.run(time);
    let greedy = conforming as usize;
    let lost: u64 = sim.seen().take(greedy).map(|seen| seen.lost).sum();
    assert_eq!(lost, 0, "{conforming} of {users} conform, the others send {times} times their rate");
    let others: u64 = sim.seen().skip(greedy).map(|seen| seen.lost).sum();
    assert!(others > 0, "nobody sent too much");
    let wait = sim.waits().exceeded_by(0.001);
    assert!(
        wait > 0 && wait < MS,
        "{wait} ns at p99.9 while {} users send {times} times their rate",
        users - conforming
    );
    assert_windows(&sim);
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
fn little_is_held_where_little_waits() {
    let held = holding(port_for(1024), 1024, 1_000_000, &mut |_| true);
    assert!(held.average < 64.0 && held.p999 < 256 && held.lost == 0, "{held:?}");
    // Not by sending faster than the port: about what a queue with such arrivals holds (M/D/1: 0.95 + 0.95^2 / 0.1 = 10).
    assert!(held.average > 5.0, "{held:?}");
}

/// 65,536 buffers for 32,768 users, in small: two for each. The scheduler never has more, so that what the rings need is left.
#[test]
fn buffers_are_shared_evenly_among_those_who_send_too_much() {
    let users = 1024;
    let sources = vec![Source::constant(gap(MBIT, 10.0)); users as usize];
    let mut sim = Simulation::new(world(sources, 2048, 1, 11));
    sim.run(SECOND / 4);
    assert_eq!(sim.least_left(), 0, "of what is there, all is used");
    assert!((0..users).all(|user| (1..=3).contains(&sim.held_by(user))));
    assert!(sim.seen().all(|seen| seen.sent > 0 && seen.lost > 0));
}

#[test]
fn an_oversubscribed_port_is_full_and_its_users_get_even_shares() {
    // Rates that add up to twice the port's.
    let users = 64;
    let sources = vec![Source::constant(gap(MBIT, 4.0)); users];
    let port = 32 * MBIT;
    let mut sim = Simulation::new(World { port, ..world(sources, 512, 1, 5) });
    sim.run(2 * SECOND);
    let sent: u64 = sim.seen().map(|seen| seen.sent).sum();
    let off = (sent * u64::from(SMALL) * 8) as f64 / 2.0 / port as f64 - 1.0;
    assert!(off.abs() < 0.005, "{off}");
    for seen in sim.seen() {
        let off = (seen.sent * users as u64) as f64 / sent as f64 - 1.0;
        assert!(off.abs() < 0.01, "{off}");
    }
}

/// Classes 0, 2 and 3 of a user of 10 Mbit/s always have packets of all sizes; 2 and 3 are guaranteed 2 and 1 Mbit/s. In any window each of these gets what it is guaranteed,
/// but for its bucket's size and a frame of each class; and what is left is the highest class's.
#[test]
fn classes_get_what_they_are_guaranteed_in_every_window() {
    const FRAME: u64 = 1562;
    const SIZE: u64 = 3200;
    let guaranteed = [(2_usize, 2 * MBIT), (3, MBIT)];
    let mut classes = vec![ClassProfile::default(); 4];
    for (class, rate) in guaranteed {
        classes[class].guarantee = Some(Bucket::new(rate, SIZE));
    }
    // Of what it is guaranteed itself, and of what others leave.
    let all = Bucket::new(10 * MBIT, 3000);
    let own = Profile::new(all, classes.clone(), &[]);
    let shares = Profile::new(Bucket::new(8_000, 3000), classes, &[]).sharing(all, 1);
    for profile in [own, shares] {
        let table = Profiles::new(Bucket::new(1000 * MBIT, 3000), vec![], vec![profile]);
        let setup = Setup { users: 1, buffers: 256, minimum: 64, overhead: 24, wheel: Setup::WHEEL };
        let mut scheduler: Scheduler<(u8, u16), 4, 11> = Scheduler::new(setup, Arc::new(table));
        scheduler.assign(0, Some((0, 0)), 0);
        let (mut random, mut waiting, mut now) = (Random(5), [0_u32; 4], 0);
        // When packets were sent, and what each class had sent by then.
        let mut sums = vec![(0, [0_u64; 4])];
        while now < 2 * SECOND {
            for class in [0_u8, 2, 3] {
                while waiting[usize::from(class)] < 8 {
                    let length = 84 + random.below(FRAME - 84) as u16;
                    let offer = Offer { user: 0, class: ClassQueue::new(class, 0), length, colour: 0 };
                    assert_eq!(scheduler.enqueue(offer, now, || Some((class, length))), Ok(None));
                    waiting[usize::from(class)] += 1;
                }
            }
            let next = scheduler.dequeue(now, 4, |leaving| {
                if let Leaving::Sent((class, length)) = leaving {
                    waiting[usize::from(class)] -= 1;
                    let mut sum = sums.last().unwrap().1;
                    sum[usize::from(class)] += u64::from(length);
                    sums.push((now, sum));
                }
            });
            now = next.max(now + 1);
        }
        let mbits = sums.last().unwrap().1.map(|bytes| bytes as f64 * 8e-6 / 2.0);
        for (found, fair) in mbits.iter().zip([7.0, 0.0, 2.0, 1.0]) {
            assert!((found - fair).abs() <= 0.01 * fair, "{mbits:?}");
        }
        for (n, (from, before)) in sums.iter().enumerate().step_by(7) {
            for (to, after) in sums.iter().skip(n).step_by(5) {
                for (class, rate) in guaranteed {
                    let due = (to - from) * rate / (8 * SECOND);
                    let least = due.saturating_sub(SIZE + 3 * FRAME);
                    assert!(after[class] - before[class] >= least, "{due} in {} ns", to - from);
                }
            }
        }
    }
}

/// In any second, and in all: each of three queues of class 0 that always have packets of all sizes sends its weight's part, to within its quantum and a frame.
#[test]
fn queues_of_a_higher_class_share_by_weight_in_every_window() {
    let weights: [u64; 3] = [1, 3, 6];
    let mut classes = vec![ClassProfile::default(); 4];
    classes[0].weights = weights.map(|weight| weight as u8).into();
    let profile = Profile::new(Bucket::new(10 * MBIT, 3000), classes, &[]);
    let table = Profiles::new(Bucket::new(1000 * MBIT, 3000), vec![], vec![profile]);
    let setup = Setup { users: 1, buffers: 256, minimum: 64, overhead: 24, wheel: Setup::WHEEL };
    let mut scheduler: Scheduler<(u8, u16), 4, 11> = Scheduler::new(setup, Arc::new(table));
    scheduler.assign(0, Some((0, 0)), 0);
    let (mut random, mut waiting, mut now) = (Random(3), [0_u32; 3], 0);
    // Bytes that each has sent, after each packet.
    let mut sums = vec![[0_u64; 3]];
    while now < SECOND {
        for (n, waiting) in waiting.iter_mut().enumerate() {
            while *waiting < 8 {
                let length = 84 + random.below(1478) as u16;
                let offer = Offer { user: 0, class: ClassQueue::new(0, n as u8), length, colour: 0 };
                assert_eq!(scheduler.enqueue(offer, now, || Some((n as u8, length))), Ok(None));
                *waiting += 1;
            }
        }
        let next = scheduler.dequeue(now, 4, |leaving| {
            if let Leaving::Sent((n, length)) = leaving {
                waiting[usize::from(n)] -= 1;
                let mut sum = *sums.last().unwrap();
                sum[usize::from(n)] += u64::from(length);
                sums.push(sum);
            }
        });
        now = next.max(now + 1);
    }
    let last = *sums.last().unwrap();
    let all: u64 = last.iter().sum();
    assert!((all as f64 * 8e-6 / 10.0 - 1.0).abs() < 0.01, "{all}");
    // Of two queues, what they send in any window for each unit of weight differs by no more than a round of both, and a frame.
    for (n, from) in sums.iter().enumerate().step_by(17) {
        for to in sums.iter().skip(n).step_by(13) {
            for (one, other) in [(0, 1), (0, 2), (1, 2)] {
                let each = |at: usize| (to[at] - from[at]) as f64 / weights[at] as f64;
                let apart = (each(one) - each(other)).abs();
                assert!(apart <= 1600.0 + 1562.0 / weights[one] as f64 + 1562.0 / weights[other] as f64, "{apart}");
            }
        }
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
