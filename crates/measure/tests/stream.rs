//! Statistics of a stream against their definitions, taken literally: lists, searched from end to end.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use proptest::prelude::*;
use weir_measure::signature::{Form, Signature};
use weir_measure::{Distribution, LossReport, OrderReport, Rules, Spread, StreamReport, StreamStats};

/// A packet that arrives.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u64,
    delay: Option<i64>,
    now: u64,
}

/// How far the smallest window reaches.
const REACH: u64 = 64;
const REMEMBERED: u64 = 1024;

/// Of the values, by sorting them. Quantiles of magnitudes from 2,048 up are known to 11 bits.
fn spread(values: &[i64]) -> Option<Spread> {
    spread_of_bits(values, 11)
}

fn spread_of_bits(values: &[i64], bits: u32) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort();
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let at = |share: f64| {
        let value = sorted[((values.len() as f64 * share).ceil() as usize).max(1) - 1];
        let magnitude = value.unsigned_abs();
        let known = (64 - magnitude.leading_zeros()).saturating_sub(bits);
        let highest = (magnitude | ((1 << known) - 1)) as i64;
        (highest * value.signum()).clamp(min, max)
    };
    let mean = values.iter().map(|&value| i128::from(value)).sum::<i128>() as f64 / values.len() as f64;
    let (p1, p25, p50, p75, p90) = (at(0.01), at(0.25), at(0.5), at(0.75), at(0.9));
    let (p99, p99_9, p99_99) = (at(0.99), at(0.999), at(0.9999));
    Some(Spread { count: values.len() as u64, min, mean, p1, p25, p50, p75, p90, p99, p99_9, p99_99, max })
}

/// The arrivals that count, and the figures of those that do not.
fn accept(arrivals: &[Arrival], reach: u64, wait: Option<u64>, report: &mut StreamReport) -> Vec<Arrival> {
    let mut accepted: Vec<Arrival> = Vec::new();
    for arrival in arrivals {
        let next = accepted.iter().map(|other| other.number + 1).max().unwrap_or(0);
        let slow = wait.is_some_and(|wait| arrival.delay.is_some_and(|delay| delay > wait as i64));
        if slow || arrival.number + reach < next {
            report.late += 1;
        } else if accepted.iter().any(|other| other.number == arrival.number) {
            report.duplicated += 1;
        } else {
            accepted.push(*arrival);
        }
    }
    accepted
}

fn loss_periods(accepted: &[Arrival], sent: u64) -> Vec<i64> {
    let mut periods = Vec::new();
    let mut run = 0;
    for number in 0..=sent {
        if number < sent && !accepted.iter().any(|arrival| arrival.number == number) {
            run += 1;
        } else if run > 0 {
            periods.push(std::mem::take(&mut run));
        }
    }
    periods
}

/// RFC 4737 sections 3.3, 4.2.2 and 4.3.1.
fn reordering(accepted: &[Arrival]) -> OrderReport {
    let (mut extents, mut late_times) = (Vec::new(), Vec::new());
    for (i, arrival) in accepted.iter().enumerate() {
        if let Some(j) = accepted[..i].iter().position(|earlier| earlier.number > arrival.number) {
            extents.push((i - j) as i64);
            late_times.push(arrival.now as i64 - accepted[j].now as i64);
        }
    }
    let ratio = if accepted.is_empty() { 0.0 } else { extents.len() as f64 / accepted.len() as f64 };
    let (reordered, extent) = (extents.len() as u64, spread(&extents));
    OrderReport { reordered, ratio, extent, late_time_ns: spread(&late_times) }
}

fn ipdv(accepted: &[Arrival]) -> Vec<i64> {
    let mut values = Vec::new();
    for (i, first) in accepted.iter().enumerate() {
        for (j, second) in accepted.iter().enumerate().filter(|(_, second)| second.number == first.number + 1) {
            let (earlier, later) = (i.min(j), i.max(j));
            let next = accepted[..=later].iter().map(|arrival| arrival.number + 1).max().unwrap();
            if next - accepted[earlier].number <= REMEMBERED {
                values.extend(second.delay.zip(first.delay).map(|(second, first)| second - first));
            }
        }
    }
    values
}

fn twin(arrivals: &[Arrival], reach: u64, wait: Option<u64>, sent: Option<u64>) -> StreamReport {
    let mut report = StreamReport { window: reach, receivers: u32::from(!arrivals.is_empty()), ..Default::default() };
    let accepted = accept(arrivals, reach, wait, &mut report);
    let seen = accepted.iter().map(|arrival| arrival.number + 1).max().unwrap_or(0);
    report.sent = sent.unwrap_or(0).max(seen);
    report.sent_known = sent.is_some();
    report.lost_at_end = report.sent - seen;
    report.received = accepted.len() as u64;
    report.lost = report.sent - report.received;
    report.loss_ratio = if report.sent == 0 { 0.0 } else { report.lost as f64 / report.sent as f64 };
    let periods = loss_periods(&accepted, report.sent);
    report.loss = Some(LossReport { periods: periods.len() as u64, lengths: spread(&periods) });
    report.order = Some(reordering(&accepted));
    let delays: Vec<i64> = accepted.iter().filter_map(|arrival| arrival.delay).collect();
    report.latency_ns = spread(&delays);
    report.pdv_ns = report.latency_ns.map(|latency| latency.above(latency.min));
    report.ipdv_ns = spread(&ipdv(&accepted));
    let gaps: Vec<i64> = arrivals.windows(2).map(|pair| (pair[1].now - pair[0].now) as i64).collect();
    report.gaps_ns = spread(&gaps);
    report
}

fn measured(arrivals: &[Arrival], rules: Rules, sent: Option<u64>) -> StreamReport {
    let mut stats = StreamStats::new(rules);
    for arrival in arrivals {
        stats.record(arrival.number + rules.first, arrival.delay, arrival.now);
    }
    stats.report(sent)
}

/// The precision that `spread` looks at: the last run of values may need one bit less.
fn settled_bits(sparse: &Distribution, values: &[i64], limit: usize) -> u32 {
    let rounded = |value: i64, bits: u32| {
        let known = (64 - value.unsigned_abs().leading_zeros()).saturating_sub(bits);
        (value.unsigned_abs() | ((1 << known) - 1)) as i64 * value.signum()
    };
    let room = |bits: &u32| {
        let distinct: std::collections::BTreeSet<i64> = values.iter().map(|&value| rounded(value, *bits)).collect();
        distinct.len() <= limit
    };
    let bits = (1..=11).rev().find(room).unwrap_or(1);
    assert!(sparse.precision() >= bits);
    bits
}

/// What happens to a packet on its way.
#[derive(Clone, Debug)]
enum Fate {
    Through { delay: i64 },
    Lost,
    Copied { delays: Vec<i64> },
    Untimed,
}

fn fate(longest: i64) -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => (0..5i64).prop_map(|delay| Fate::Through { delay }),
        2 => (0..longest).prop_map(|delay| Fate::Through { delay }),
        2 => Just(Fate::Lost),
        1 => proptest::collection::vec(0..longest, 2..4).prop_map(|delays| Fate::Copied { delays }),
        1 => Just(Fate::Untimed),
    ]
}

/// Packets with consecutive numbers but for leaps, one every `apart` ns, in the order in which they arrive.
fn arrivals(fates: &[(Fate, u64)], apart: u64, skew: i64) -> (Vec<Arrival>, u64) {
    let (mut all, mut number) = (Vec::new(), 0);
    for (n, (fate, leap)) in fates.iter().enumerate() {
        number += leap;
        let sent = 1_000_000 + n as u64 * apart;
        let delays = match fate {
            Fate::Through { delay } => vec![Some(*delay)],
            Fate::Lost => Vec::new(),
            Fate::Copied { delays } => delays.iter().copied().map(Some).collect(),
            Fate::Untimed => vec![None],
        };
        for delay in delays {
            let now = sent.saturating_add_signed(delay.unwrap_or(3));
            all.push(Arrival { number, delay: delay.map(|delay| delay - skew), now });
        }
        number += 1;
    }
    all.sort_by_key(|arrival| arrival.now);
    (all, number)
}

fn leap() -> impl Strategy<Value = u64> {
    prop_oneof![30 => Just(0u64), 1 => 0..200u64]
}

/// A few packets that are far out of order, many that are a little, and whatever numbers leap over.
fn run() -> impl Strategy<Value = (Vec<(Fate, u64)>, u64, i64, bool)> {
    let longest = prop_oneof![Just(10i64), Just(100), Just(1_000), Just(100_000)];
    longest.prop_flat_map(|longest| {
        let fates = proptest::collection::vec((fate(longest), leap()), 0..200);
        (fates, 0..20u64, prop_oneof![Just(0i64), 0..5_000i64], any::<bool>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_figure_is_what_its_definition_says(
        (fates, apart, skew, known) in run(), more in 0..100u64, first: u32,
        wait in proptest::option::of(0..2_000u64), wide: bool, sparse: bool,
    ) {
        let (arrivals, numbers) = arrivals(&fates, apart, skew);
        let (window, reach) = if wide { (1 << 12, (1 << 13) - 64) } else { (1, REACH) };
        let rules = Rules { first: first.into(), window, wait, distinct: sparse.then_some(4096), ..Rules::default() };
        let sent = known.then_some(numbers + more);
        prop_assert_eq!(measured(&arrivals, rules, sent), twin(&arrivals, reach, wait, sent));
    }

    #[test]
    fn counts_cover_every_packet((fates, apart, skew, _) in run()) {
        let (arrivals, _) = arrivals(&fates, apart, skew);
        let rules = Rules { first: 20, window: 64, wait: Some(50), ..Rules::default() };
        let mut stats = StreamStats::new(rules);
        for arrival in &arrivals {
            stats.record(arrival.number, arrival.delay, arrival.now);
        }
        let counts = stats.counts();
        let all = counts.received + counts.duplicated + counts.late + counts.corrupt + counts.stale;
        prop_assert_eq!(all, arrivals.len() as u64);
    }

    #[test]
    fn a_distribution_is_its_values_sorted(values: Vec<(i64, u8)>, scale in 0..64u32, split: prop::sample::Index) {
        // Magnitudes beyond 2^44 are counted as that.
        let values: Vec<i64> = values
            .iter()
            .flat_map(|&(value, times)| vec![(value >> scale).clamp(-(1 << 43), 1 << 43); usize::from(times % 4)])
            .collect();
        let mut whole = Distribution::default();
        values.iter().for_each(|&value| whole.record(value));
        prop_assert_eq!(whole.spread(), spread(&values));
        let at = split.index(values.len() + 1);
        let mut parts = [Distribution::default(), Distribution::default()];
        values[..at].iter().for_each(|&value| parts[0].record(value));
        values[at..].iter().for_each(|&value| parts[1].record(value));
        let [mut merged, other] = parts;
        merged.merge(&other);
        prop_assert_eq!(merged.spread(), spread(&values));
        prop_assert_eq!(merged.steps(), whole.steps());
        prop_assert_eq!(merged.count(), values.len() as u64);
    }

    #[test]
    fn a_sparse_distribution_is_as_exact_as_it_has_room(
        values in proptest::collection::vec((-(1i64 << 43)..1 << 43, 0..44u32), 0..300), limit in 128usize..400,
        split: prop::sample::Index,
    ) {
        let values: Vec<i64> = values.iter().map(|&(value, scale)| value >> scale).collect();
        let mut sparse = Distribution::sparse(limit);
        values.iter().for_each(|&value| sparse.record(value));
        prop_assert_eq!(sparse.spread(), spread_of_bits(&values, settled_bits(&sparse, &values, limit)));
        prop_assert!(sparse.steps().len() <= limit + 1);
        // Merged, it is at least as coarse as either part.
        let at = split.index(values.len() + 1);
        let mut parts = [Distribution::sparse(limit), Distribution::sparse(limit)];
        values[..at].iter().for_each(|&value| parts[0].record(value));
        values[at..].iter().for_each(|&value| parts[1].record(value));
        let [mut merged, other] = parts;
        merged.merge(&other);
        let (merged, whole) = (merged.spread(), spread(&values));
        prop_assert_eq!(merged.map(|spread| (spread.count, spread.min, spread.max)),
            whole.map(|spread| (spread.count, spread.min, spread.max)));
    }

    #[test]
    fn numbers_are_extended_from_what_a_packet_carries(
        (fates, apart, _, _) in run(), first: u64, form in proptest::sample::select(&Form::ALL[..]),
    ) {
        let first = first >> 1;
        let (arrivals, numbers) = arrivals(&fates, apart, 0);
        let mut stats = StreamStats::new(Rules { first, window: 64, ..Rules::default() });
        for arrival in &arrivals {
            let cut = |number: u64, bits: u32| number & ((1 << bits) - 1);
            let sent = arrival.now.saturating_add_signed(-arrival.delay.unwrap_or(0));
            let (sequence, nanos) = (first + arrival.number, cut(sent, form.time_bits()));
            let sequence = cut(sequence, form.sequence_bits());
            stats.receive(&Signature { form, stream: 0, sequence, nanos, intact: true }, arrival.now);
        }
        let delay = |arrival: &Arrival| (form != Form::Untimed).then_some(arrival.delay.unwrap_or(0));
        let arrivals: Vec<_> = arrivals.iter().map(|arrival| Arrival { delay: delay(arrival), ..*arrival }).collect();
        prop_assert_eq!(stats.report(Some(numbers)), twin(&arrivals, REACH, None, Some(numbers)));
    }

    #[test]
    fn receivers_that_share_a_stream_add_up((fates, apart, skew, _) in run(), side: Vec<bool>) {
        let (arrivals, numbers) = arrivals(&fates, apart, skew);
        let mut parts = [StreamStats::new(Rules::default()), StreamStats::new(Rules::default())];
        for arrival in &arrivals {
            let side = side.get(arrival.number as usize).copied().unwrap_or(false);
            parts[usize::from(side)].record(arrival.number, arrival.delay, arrival.now);
        }
        let shared = parts.iter().all(|part| part.counts().received > 0);
        let whole = measured(&arrivals, Rules::default(), Some(numbers));
        let [mut merged, other] = parts;
        merged.merge(&other);
        let report = merged.report(Some(numbers));
        prop_assert_eq!(report.loss.is_none(), shared);
        if shared {
            prop_assert_eq!(report.order, None);
            prop_assert_eq!(report.gaps_ns, None);
            prop_assert_eq!((report.received, report.lost), (whole.received, whole.lost));
            prop_assert_eq!(report.duplicated, whole.duplicated);
            prop_assert_eq!(report.latency_ns, whole.latency_ns);
        } else {
            prop_assert_eq!(report, whole);
        }
    }
}

#[test]
fn a_leap_as_far_as_numbers_go_takes_no_time() {
    let mut stats = StreamStats::new(Rules::default());
    let far = 1 << 62;
    for number in [0, 1, far, 2, far + 1] {
        stats.record(number, None, number);
    }
    let report = stats.report(None);
    assert_eq!((report.sent, report.received, report.late), (far + 2, 4, 1));
    assert_eq!(report.lost, far - 2);
    assert_eq!(report.loss.unwrap().periods, 1);
}

#[test]
fn corrupt_and_stale_packets_are_told_apart() {
    let mut stats = StreamStats::new(Rules { first: 100, ..Rules::default() });
    let signature = Signature { form: Form::Full, stream: 0, sequence: 100, nanos: 5, intact: true };
    stats.receive(&signature, 10);
    stats.receive(&Signature { intact: false, ..signature }, 11);
    stats.receive(&Signature { sequence: 99, ..signature }, 12);
    let report = stats.report(Some(2));
    assert_eq!((report.received, report.corrupt, report.stale, report.lost), (1, 1, 1, 1));
    assert_eq!(report.latency_ns.unwrap().max, 5);
}
