//! Meters against the definitions of RFC 2697, 2698 and 4115.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use proptest::prelude::*;
use weir_table::meter::{Bucket, Colour, Error, MAX_BURST, Meter, Parameters, Profile};

const SECOND: u64 = 1_000_000_000;

fn bucket(rate: u64, burst: u64) -> Bucket {
    Bucket { rate, burst }
}

/// The RFCs, read literally, in whole numbers without bound: tokens are counted in billionths of a bit, and buckets are filled by
/// what has come since the beginning, each billionth of a bit finding its place by the RFC's rule.
struct Twin {
    parameters: Parameters,
    committed: u128,
    other: u128,
    at: u64,
}

fn scaled(bytes: u64) -> u128 {
    u128::from(bytes) * 8 * 1_000_000_000
}

impl Twin {
    fn new(parameters: Parameters) -> Twin {
        let (committed, other) = match parameters {
            Parameters::SingleRate { committed, excess_burst } => (committed.burst, excess_burst),
            Parameters::TwoRate { committed, peak: other }
            | Parameters::Differentiated { committed, excess: other } => (committed.burst, other.burst),
        };
        Twin { parameters, committed: scaled(committed), other: scaled(other), at: 0 }
    }

    fn fill(&mut self, now: u64) {
        let elapsed = u128::from(now.saturating_sub(self.at));
        self.at = self.at.max(now);
        let (first, second) = match self.parameters {
            Parameters::SingleRate { committed, excess_burst } => {
                // "If Tc is less than CBS, Tc is incremented by one, else if Te is less then EBS, Te is incremented by one,
                // else neither Tc nor Te is incremented."
                let tokens = elapsed * u128::from(committed.rate);
                let first = tokens.min(scaled(committed.burst) - self.committed);
                (first, (tokens - first).min(scaled(excess_burst) - self.other))
            }
            Parameters::TwoRate { committed, peak: other }
            | Parameters::Differentiated { committed, excess: other } => {
                let first = (elapsed * u128::from(committed.rate)).min(scaled(committed.burst) - self.committed);
                (first, (elapsed * u128::from(other.rate)).min(scaled(other.burst) - self.other))
            }
        };
        self.committed += first;
        self.other += second;
    }

    fn colour(&mut self, now: u64, length: u32, before: Colour) -> Colour {
        self.fill(now);
        let b = scaled(length.into());
        match self.parameters {
            Parameters::SingleRate { .. } | Parameters::Differentiated { .. } => {
                if before == Colour::Green && self.committed >= b {
                    self.committed -= b;
                    return Colour::Green;
                }
                if before != Colour::Red && self.other >= b {
                    self.other -= b;
                    return Colour::Yellow;
                }
                Colour::Red
            }
            Parameters::TwoRate { .. } => {
                if before == Colour::Red || self.other < b {
                    return Colour::Red;
                }
                if before == Colour::Yellow || self.committed < b {
                    self.other -= b;
                    return Colour::Yellow;
                }
                self.other -= b;
                self.committed -= b;
                Colour::Green
            }
        }
    }
}

fn some_rate() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..100, 1_000u64..10_000_000, Just(100_000_000_000), Just(u64::MAX)]
}

fn some_burst() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..3, 40u64..20_000, Just(MAX_BURST)]
}

fn some_bucket() -> impl Strategy<Value = Bucket> {
    (some_rate(), some_burst()).prop_map(|(rate, burst)| bucket(rate, burst))
}

fn some_parameters() -> impl Strategy<Value = Parameters> {
    prop_oneof![
        (some_bucket(), some_burst())
            .prop_map(|(committed, excess_burst)| Parameters::SingleRate { committed, excess_burst }),
        (some_bucket(), some_bucket()).prop_map(|(committed, peak)| Parameters::TwoRate { committed, peak }),
        (some_bucket(), some_bucket()).prop_map(|(committed, excess)| Parameters::Differentiated { committed, excess }),
    ]
}

fn some_colour() -> impl Strategy<Value = Colour> {
    prop::sample::select(Colour::ALL.to_vec())
}

fn some_packets() -> impl Strategy<Value = Vec<(u64, u32, Colour)>> {
    let gap = prop_oneof![Just(0u64), 0u64..1_000, 0u64..50_000_000, 0u64..100 * SECOND];
    let length = prop_oneof![0u32..3, 64u32..1_519, Just(u32::MAX)];
    prop::collection::vec((gap, length, some_colour()), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_its_twin(parameters in some_parameters(), packets in some_packets()) {
        let Ok(profile) = Profile::new(parameters) else { return Ok(()) };
        let (mut meter, mut twin, mut now) = (profile.meter(0), Twin::new(parameters), 0u64);
        for (gap, length, before) in packets {
            now += gap;
            prop_assert_eq!(
                profile.colour(&mut meter, now, length, before),
                twin.colour(now, length, before),
                "{} bytes, {:?}, at {}", length, before, now
            );
        }
    }

    /// In no window can more be green than the committed bucket lets through, nor more be coloured than both.
    #[test]
    fn no_window_has_more_than_its_buckets(
        rates in (1_000u64..1_000_000, 1_000u64..1_000_000),
        bursts in (100u64..5_000, 100u64..5_000),
        gaps in prop::collection::vec(0u64..20_000_000, 1..80),
        which in 0u8..3,
    ) {
        let (committed, other) = (bucket(rates.0.min(rates.1), bursts.0), bucket(rates.0.max(rates.1), bursts.1));
        let parameters = match which {
            0 => Parameters::SingleRate { committed, excess_burst: other.burst },
            1 => Parameters::TwoRate { committed, peak: other },
            _ => Parameters::Differentiated { committed, excess: other },
        };
        let profile = Profile::new(parameters).unwrap();
        let (mut meter, mut now, mut seen) = (profile.meter(0), 0, Vec::new());
        for (n, gap) in gaps.into_iter().enumerate() {
            now += gap;
            let length = 64 + (n as u32 * 97) % 1_000;
            seen.push((now, length, profile.colour(&mut meter, now, length, Colour::Green)));
        }
        let allowed = |bucket: Bucket, time: u64| scaled(bucket.burst) + u128::from(bucket.rate) * u128::from(time);
        for (first, (from, ..)) in seen.iter().enumerate() {
            let (mut green, mut coloured) = (0, 0);
            for (to, length, colour) in &seen[first..] {
                green += if *colour == Colour::Green { scaled((*length).into()) } else { 0 };
                coloured += if *colour == Colour::Red { 0 } else { scaled((*length).into()) };
                prop_assert!(green <= allowed(committed, to - from));
                let both = match which {
                    0 => allowed(committed, to - from) + scaled(other.burst),
                    1 => allowed(other, to - from),
                    _ => allowed(committed, to - from) + allowed(other, to - from),
                };
                prop_assert!(coloured <= both);
            }
        }
    }
}

/// RFC 2697, section 3, token by token: "the token counts Tc and Te are updated CIR times per second".
#[test]
fn single_rate_is_the_rfc_token_by_token() {
    // 1,000 bytes per second: a token each millisecond.
    let (cbs, ebs) = (200u64, 300u64);
    let profile = Profile::new(Parameters::SingleRate { committed: bucket(8_000, cbs), excess_burst: ebs }).unwrap();
    let mut meter = profile.meter(0);
    let (mut tc, mut te, mut seen) = (cbs, ebs, [0; 3]);
    for ms in 1..20_000u64 {
        if tc < cbs {
            tc += 1;
        } else if te < ebs {
            te += 1;
        }
        // Silence now and then, so that both buckets fill up.
        if ms % 37 != 0 || ms % 5_000 < 1_500 {
            continue;
        }
        let (length, before) = (20 + ms % 61, Colour::of((ms % 7 / 5) as u8));
        let expected = if before == Colour::Green && tc >= length {
            tc -= length;
            Colour::Green
        } else if te >= length {
            te -= length;
            Colour::Yellow
        } else {
            Colour::Red
        };
        assert_eq!(profile.colour(&mut meter, ms * 1_000_000, length as u32, before), expected, "at {ms} ms");
        seen[expected as usize] += 1;
    }
    assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
}

/// RFC 2698 and 4115: their buckets fill on their own, each by one token at its rate.
#[test]
fn two_rates_are_the_rfcs_token_by_token() {
    for differentiated in [false, true] {
        let (committed, other) = (bucket(8_000, 200), bucket(16_000, 300));
        let profile = Profile::new(if differentiated {
            Parameters::Differentiated { committed, excess: other }
        } else {
            Parameters::TwoRate { committed, peak: other }
        });
        let profile = profile.unwrap();
        let mut meter = profile.meter(0);
        let (mut tc, mut tp, mut seen) = (200u64, 300u64, [0; 3]);
        for ms in 1..20_000u64 {
            tc = (tc + 1).min(200);
            tp = (tp + 2).min(300);
            if ms % 17 != 0 {
                continue;
            }
            let (length, before) = (20 + ms % 101, Colour::of((ms % 9 / 6 % 2) as u8));
            let expected = match (differentiated, before) {
                (true, Colour::Green) if tc >= length => Colour::Green,
                (true, _) if tp >= length => Colour::Yellow,
                (false, Colour::Green) if tp >= length && tc >= length => Colour::Green,
                (false, _) if tp >= length => Colour::Yellow,
                _ => Colour::Red,
            };
            tc -= if expected == Colour::Green { length } else { 0 };
            let from_other = expected == Colour::Yellow || expected == Colour::Green && !differentiated;
            tp -= if from_other { length } else { 0 };
            assert_eq!(profile.colour(&mut meter, ms * 1_000_000, length as u32, before), expected, "at {ms} ms");
            seen[expected as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 20), "{differentiated}: {seen:?}");
    }
}

/// What RFC 4115 is for: packets that are yellow already cost the committed bucket nothing.
#[test]
fn yellow_traffic_leaves_the_committed_rate_alone() {
    let (committed, excess) = (bucket(8_000, 1_000), bucket(8_000, 1_000));
    let profile = Profile::new(Parameters::Differentiated { committed, excess }).unwrap();
    let mut meter = profile.meter(0);
    let yellow = (0..20).filter(|_| profile.colour(&mut meter, 0, 100, Colour::Yellow) == Colour::Yellow).count();
    assert_eq!(yellow, 10);
    let green = (0..10).filter(|_| profile.colour(&mut meter, 0, 100, Colour::Green) == Colour::Green).count();
    assert_eq!(green, 10);
}

#[test]
fn time_never_runs_backwards() {
    let profile = Profile::new(Parameters::SingleRate { committed: bucket(8_000, 100), excess_burst: 0 }).unwrap();
    let mut meter = profile.meter(SECOND);
    assert_eq!(profile.colour(&mut meter, SECOND, 100, Colour::Green), Colour::Green);
    assert_eq!(profile.colour(&mut meter, 0, 1, Colour::Green), Colour::Red);
    assert_eq!(profile.colour(&mut meter, SECOND + 999_999, 1, Colour::Green), Colour::Red);
    assert_eq!(profile.colour(&mut meter, SECOND + 1_000_000, 1, Colour::Green), Colour::Green);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let single = |rate, cbs, ebs| Parameters::SingleRate { committed: bucket(rate, cbs), excess_burst: ebs };
    let two = |c, p| Parameters::TwoRate { committed: c, peak: p };
    for (parameters, error) in [
        (single(1, 0, 0), Error::NoBurst),
        (single(1, MAX_BURST + 1, 0), Error::BurstTooLarge),
        (single(1, 1, MAX_BURST + 1), Error::BurstTooLarge),
        (two(bucket(2, 1), bucket(1, 1)), Error::PeakBelowCommitted),
        (two(bucket(1, 0), bucket(1, 1)), Error::RateWithoutBurst),
        (Parameters::Differentiated { committed: bucket(0, 0), excess: bucket(0, 0) }, Error::NoBurst),
    ] {
        assert_eq!(Profile::new(parameters), Err(error), "{parameters:?}");
        assert!(!error.to_string().is_empty());
    }
    assert!(Profile::new(single(1, 0, 1)).is_ok());
    assert!(Error::BurstTooLarge.to_string().contains(&MAX_BURST.to_string()));
}

#[test]
fn a_new_profile_keeps_what_was_saved() {
    let of =
        |rate, burst| Profile::new(Parameters::SingleRate { committed: bucket(rate, burst), excess_burst: 0 }).unwrap();
    let (slow, fast) = (of(8_000, 100), of(80_000, 50));
    let mut meter = slow.meter(0);
    assert_eq!(slow.colour(&mut meter, 0, 100, Colour::Green), Colour::Green);
    // 20 bytes have come by then; the new rate counts from there.
    let mut meter: Meter = fast.adopt(&slow, &meter, SECOND / 50);
    assert_eq!(fast.colour(&mut meter, SECOND / 50, 20, Colour::Green), Colour::Green);
    assert_eq!(fast.colour(&mut meter, SECOND / 50, 1, Colour::Green), Colour::Red);
    // And no more stays than it has room for.
    let mut meter = fast.adopt(&slow, &slow.meter(0), 0);
    assert_eq!(fast.colour(&mut meter, 0, 51, Colour::Green), Colour::Red);
    assert_eq!(fast.colour(&mut meter, 0, 50, Colour::Green), Colour::Green);
    assert_eq!(std::mem::size_of::<Meter>(), 24);
}
