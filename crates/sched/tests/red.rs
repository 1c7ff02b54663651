//! RED against the pseudo-code of Floyd and Jacobson, figure 2, in floating point.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use proptest::prelude::*;
use weir_config::Nanos;
use weir_sched::manage::{Arrival, Manage, State, Verdict};
use weir_sched::red::{Red, RedConfig, RedThresholds};

const PACKET_TIME: u64 = 1_000_000;

fn config(min: u32, max: u32, probability: f64, weight: u8) -> RedConfig {
    let packet_time = Nanos::new(PACKET_TIME);
    RedConfig { min, max, probability, weight, packet_time, ecn: false, yellow: None, red: None }
}

fn arrival(now: u64, queued: u32, colour: u8, random: u32) -> Arrival {
    Arrival { now, queued, bytes: 84, colour, random }
}

/// The algorithm with its names; one count for each colour.
struct Twin {
    min: f64,
    max: f64,
    max_p: f64,
    w_q: f64,
    avg: f64,
    count: [f64; 3],
    q_time: Option<u64>,
}

impl Twin {
    /// Whether it drops; `None` where rounding could decide.
    fn arrive(&mut self, now: u64, queued: u32, colour: u8, random: f64) -> Option<bool> {
        match self.q_time.take() {
            Some(since) if queued == 0 => {
                let m = (now - since) / PACKET_TIME;
                self.avg *= (1.0 - self.w_q).powf(m as f64);
            }
            _ => self.avg += self.w_q * (f64::from(queued) - self.avg),
        }
        let count = &mut self.count[colour as usize];
        let close = |a: f64, b: f64| (a - b).abs() < 1e-5;
        if close(self.avg, self.min) && self.avg != 0.0 || close(self.avg, self.max) {
            return None;
        }
        if self.min <= self.avg && self.avg < self.max {
            *count += 1.0;
            let p_b = self.max_p * (self.avg - self.min) / (self.max - self.min);
            let p_a = if *count * p_b >= 1.0 { 1.0 } else { p_b / (1.0 - *count * p_b) };
            if close(random, p_a) || close(*count * p_b, 1.0) {
                return None;
            }
            let drops = random < p_a;
            if drops {
                *count = 0.0;
            }
            Some(drops)
        } else if self.max <= self.avg {
            *count = 0.0;
            Some(true)
        } else {
            *count = -1.0;
            Some(false)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_the_paper(
        min in 0u32..40,
        room in 1u32..60,
        probability in 0.001f64..1.0,
        weight in 1u8..10,
        ecn in any::<bool>(),
        steps in prop::collection::vec((0u64..4 * PACKET_TIME, 0u32..120, 0u8..3, any::<u32>()), 1..400),
    ) {
        let max = min + room;
        let red = Red::new(&RedConfig { ecn, ..config(min, max, probability, weight) }).unwrap();
        let mut twin = Twin {
            min: min.into(), max: max.into(), max_p: probability, w_q: 0.5f64.powi(weight.into()),
            avg: 0.0, count: [-1.0; 3], q_time: None,
        };
        let (mut state, mut now) = (State::default(), 0);
        for (gap, queued, colour, random) in steps {
            now += gap;
            let queued = queued.saturating_sub(20);
            let verdict = red.arrive(&mut state, &arrival(now, queued, colour, random));
            let expected = twin.arrive(now, queued, colour, f64::from(random) / 4_294_967_296.0);
            // They may differ in what comes after that, too.
            let Some(drops) = expected else { break };
            // From the upper threshold on, all are dropped, whatever their ends know.
            let expected = match drops {
                true if ecn && twin.avg < twin.max => Verdict::Mark,
                true => Verdict::Drop,
                false => Verdict::Pass,
            };
            prop_assert_eq!(verdict, expected, "average {}", twin.avg);
            let average = Red::average(&state) as f64 / 4_294_967_296.0;
            prop_assert!((average - twin.avg).abs() < 1e-5, "{} and {}", average, twin.avg);
            if queued == 0 {
                red.emptied(&mut state, now);
                twin.q_time = Some(now);
            }
        }
    }
}

/// Section 7: with a constant average, the distances between drops are spread evenly; with the count as in figure 2,
/// from 1 to 1/p - 1.
#[test]
fn drops_are_spread_evenly() {
    let red = Red::new(&config(0, 100, 0.1, 1)).unwrap();
    let (mut state, mut random, mut last, mut distances) = (State::default(), 1u64, None, Vec::new());
    for n in 0..200_000u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // 50 packets on average: p is 1/20, so distances from 1 to 19.
        let verdict = red.arrive(&mut state, &arrival(n, 50, 0, (random >> 32) as u32));
        if verdict == Verdict::Drop {
            distances.extend(last.map(|last| n - last));
            last = Some(n);
        }
    }
    let mean = distances.iter().sum::<u64>() as f64 / distances.len() as f64;
    assert!((mean - 10.0).abs() < 0.2, "{mean}");
    assert!(distances.iter().all(|distance| (1..=19).contains(distance)));
    for distance in 1..=19u64 {
        let share = distances.iter().filter(|one| **one == distance).count() as f64 / distances.len() as f64;
        assert!((share - 1.0 / 19.0).abs() < 0.01, "{distance}: {share}");
    }
}

#[test]
fn colours_have_thresholds_of_their_own() {
    let mut config = config(10, 20, 0.1, 1);
    config.yellow = Some(RedThresholds { min: 5, max: 10, probability: 1.0 });
    config.red = Some(RedThresholds { min: 0, max: 1, probability: 1.0 });
    let red = Red::new(&config).unwrap();
    let at = |colour, queued| {
        let mut state = State::default();
        (0..100).for_each(|n| _ = red.arrive(&mut state, &arrival(n, queued, colour, u32::MAX)));
        red.arrive(&mut state, &arrival(100, queued, colour, u32::MAX))
    };
    assert_eq!([at(0, 8), at(1, 12), at(2, 2)], [Verdict::Pass, Verdict::Drop, Verdict::Drop]);
    assert_eq!([at(0, 21), at(1, 4), at(2, 0)], [Verdict::Drop, Verdict::Pass, Verdict::Pass]);
}

#[test]
fn an_idle_queue_forgets() {
    let red = Red::new(&config(5, 50, 0.1, 2)).unwrap();
    let mut state = State::default();
    (0..1_000).for_each(|n| _ = red.arrive(&mut state, &arrival(n, 40, 0, u32::MAX)));
    let before = Red::average(&state);
    assert!(before >> 32 >= 39);
    red.emptied(&mut state, 1_000);
    let mut soon = state;
    red.arrive(&mut soon, &arrival(1_000 + PACKET_TIME, 0, 0, 0));
    assert_eq!(Red::average(&soon), before - (before >> 2) - u64::from(!before.is_multiple_of(4)));
    // Wild times do no harm.
    red.arrive(&mut state, &arrival(u64::MAX, 0, 0, 0));
    assert_eq!(Red::average(&state), 0);
    red.emptied(&mut state, u64::MAX);
    red.arrive(&mut state, &arrival(0, u32::MAX, 9, 0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert_eq!(RedConfig::schema().defects(), Vec::<String>::new());
    assert_eq!(Red::new(&config(20, 20, 0.1, 9)).unwrap_err().0, "max");
    let mut wrong = config(1, 20, 0.1, 9);
    wrong.red = Some(RedThresholds { min: 2, max: 1, probability: 0.1 });
    assert_eq!(Red::new(&wrong).unwrap_err().0, "red");
}
