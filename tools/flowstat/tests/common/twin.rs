//! Every figure of a report by its definition.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use weir_flowstat::{Piece, Profile, Report, SeriesReport, Stream, Total};
use weir_measure::{Conformance, LossReport, OrderReport, Spread, StreamReport};

/// A packet as the model sees it: equal keys, equal packets.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) time: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) length: u32,
    /// Of a packet sent: what its stream is told apart by.
    pub(crate) stream: Vec<(String, String)>,
}

/// What a packet received is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    First(usize, bool),
    Copy(usize, bool),
    TooOld,
    TooEarly,
    Unknown,
}

/// How the twin judges.
pub(crate) struct Judge {
    pub(crate) window: i64,
    pub(crate) after: i64,
    /// From a time of the receiver's clock to one of the sender's.
    pub(crate) corrected: Box<dyn Fn(i64) -> i64>,
    pub(crate) synchronised: bool,
    pub(crate) profile: Option<Profile>,
}

/// First in, first out, of those that look alike and were sent within the window.
fn identify(judge: &Judge, sent: &[Seen], received: &[Seen]) -> Vec<Is> {
    let mut taken = vec![false; sent.len()];
    let mut all = Vec::new();
    for packet in received {
        let now = (judge.corrected)(packet.time);
        let alike: Vec<usize> = (0..sent.len()).filter(|&n| sent[n].key == packet.key).collect();
        let old = |n: usize| now - sent[n].time > judge.window;
        let early = |n: usize| sent[n].time - now > judge.after;
        let candidates: Vec<usize> = alike.iter().copied().filter(|&n| !old(n) && !early(n)).collect();
        let ambiguous = candidates.len() > 1;
        all.push(match candidates.iter().find(|&&n| !taken[n]) {
            Some(&first) => {
                taken[first] = true;
                Is::First(first, ambiguous)
            }
            None if !candidates.is_empty() => Is::Copy(*candidates.last().unwrap(), ambiguous),
            None if alike.is_empty() => Is::Unknown,
            None if alike.iter().all(|&n| old(n)) => Is::TooOld,
            None => Is::TooEarly,
        });
    }
    all
}

/// Of the values, by sorting them. Quantiles of magnitudes from 2,048 up are known to 11 bits.
pub(crate) fn spread(values: &[i64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort();
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let at = |share: f64| rounded(sorted[((values.len() as f64 * share).ceil() as usize).max(1) - 1]).clamp(min, max);
    let mean = values.iter().map(|&value| i128::from(value)).sum::<i128>() as f64 / values.len() as f64;
    let (p1, p25, p50, p75, p90) = (at(0.01), at(0.25), at(0.5), at(0.75), at(0.9));
    let (p99, p99_9, p99_99) = (at(0.99), at(0.999), at(0.9999));
    Some(Spread { count: values.len() as u64, min, mean, p1, p25, p50, p75, p90, p99, p99_9, p99_99, max })
}

/// The greatest magnitude of the same leading bits.
fn rounded(value: i64) -> i64 {
    let magnitude = value.unsigned_abs();
    let known = (64 - magnitude.leading_zeros()).saturating_sub(11);
    (magnitude | ((1 << known) - 1)) as i64 * value.signum()
}

/// A packet of a stream that arrived, copies too.
#[derive(Clone, Copy)]
struct Arrival {
    place: usize,
    number: usize,
    is_first: bool,
    ambiguous: bool,
    time: i64,
    delay: i64,
    length: u32,
}

/// What the distributions of all streams are made of.
#[derive(Default)]
struct Values {
    delays: Vec<i64>,
    pdv: Vec<i64>,
    ipdv: Vec<i64>,
    gaps: Vec<i64>,
    gap_packets: Vec<i64>,
    losses: Vec<i64>,
    extents: Vec<i64>,
    late: Vec<i64>,
}

fn values(sent: usize, arrivals: &[Arrival]) -> Values {
    let mut values = Values::default();
    let firsts: Vec<Arrival> = arrivals.iter().copied().filter(|arrival| arrival.is_first).collect();
    let of = |number: usize| firsts.iter().find(|arrival| arrival.number == number);
    values.delays = firsts.iter().map(|arrival| arrival.delay).collect();
    // Delays are known to 11 bits when the least of their stream is taken off.
    if let (Some(&least), Some(&most)) = (values.delays.iter().min(), values.delays.iter().max()) {
        values.pdv = values.delays.iter().map(|&delay| rounded(delay).clamp(least, most) - least).collect();
    }
    for number in 1..sent {
        if let (Some(one), Some(other)) = (of(number - 1), of(number)) {
            values.ipdv.push(other.delay - one.delay);
        }
    }
    for pair in arrivals.windows(2) {
        values.gaps.push(pair[1].time - pair[0].time);
        values.gap_packets.push((pair[1].place - pair[0].place - 1) as i64);
    }
    let mut run = 0;
    for number in 0..=sent {
        if number < sent && of(number).is_none() {
            run += 1;
        } else if run > 0 {
            values.losses.push(std::mem::take(&mut run));
        }
    }
    for (i, arrival) in firsts.iter().enumerate() {
        if let Some(j) = firsts[..i].iter().position(|earlier| earlier.number > arrival.number) {
            values.extents.push((i - j) as i64);
            values.late.push(arrival.time - firsts[j].time);
        }
    }
    values
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn stream_report(judge: &Judge, sent: usize, arrivals: &[Arrival], values: &Values, window: u64) -> StreamReport {
    let received = values.delays.len() as u64;
    let seen = arrivals.iter().map(|arrival| arrival.number + 1).max().unwrap_or(0) as u64;
    let (sent, reordered) = (sent as u64, values.extents.len() as u64);
    StreamReport {
        sent,
        sent_known: true,
        received,
        lost: sent - received,
        loss_ratio: share(sent - received, sent),
        loss: Some(LossReport { periods: values.losses.len() as u64, lengths: spread(&values.losses) }),
        lost_at_end: sent - seen,
        duplicated: arrivals.len() as u64 - received,
        order: Some(OrderReport {
            reordered,
            ratio: share(reordered, received),
            extent: spread(&values.extents),
            late_time_ns: spread(&values.late),
        }),
        latency_ns: spread(&values.delays).filter(|_| judge.synchronised),
        pdv_ns: spread(&values.delays).map(|delays| delays.above(delays.min)),
        ipdv_ns: spread(&values.ipdv),
        gaps_ns: spread(&values.gaps),
        gap_packets: spread(&values.gap_packets),
        window,
        receivers: u32::from(!arrivals.is_empty()),
        ..StreamReport::default()
    }
}

fn rate(packets: &[(i64, u32)]) -> Option<f64> {
    let (first, last) = (packets.first()?.0, packets.last()?.0);
    let bytes: u64 = packets.iter().map(|&(_, length)| u64::from(length)).sum();
    let all = packets.len() as f64;
    (last > first).then(|| bytes as f64 * ((all - 1.0) / all) * 8e9 / (last - first) as f64)
}

/// Fluid: what may have been sent up to a packet is what it and all that conformed before it took.
fn conformance(profile: Profile, packets: &[(i64, u32)]) -> Conformance {
    let mut found = Conformance::default();
    let bit = |bytes: u64| u128::from(bytes) * 8_000_000_000;
    let (mut tokens, mut before) = (bit(profile.burst), None);
    for &(time, length) in packets {
        let elapsed = (time - before.unwrap_or(time)) as u128;
        before = Some(time);
        tokens = (tokens + elapsed * u128::from(profile.rate)).min(bit(profile.burst));
        if tokens >= bit(length.into()) {
            tokens -= bit(length.into());
            found.conforming += 1;
            found.conforming_bytes += u64::from(length);
        } else {
            found.exceeding += 1;
            found.exceeding_bytes += u64::from(length);
        }
    }
    // Of any packets in a row: what they are less what flows off from the first to the last.
    for (i, first) in packets.iter().enumerate() {
        let mut sum = 0;
        for last in &packets[i..] {
            sum += u64::from(last.1);
            let off = (last.0 - first.0) as u128 * u128::from(profile.rate);
            let left = bit(sum).saturating_sub(off).div_ceil(8_000_000_000) as u64;
            found.burst_needed = found.burst_needed.max(left);
        }
    }
    found
}

fn series(zero: i64, sent: &[(i64, u32)], received: &[(i64, u32)], arrived: &[i64]) -> SeriesReport {
    let after = |time: i64| (time - zero).max(0);
    let all = sent.iter().chain(received).map(|&(time, _)| time).chain(arrived.iter().copied());
    let longest = all.map(after).max().unwrap_or(0);
    let mut width = 65_536;
    while longest / width >= 256 {
        width *= 2;
    }
    let mut pieces: BTreeMap<i64, Piece> = BTreeMap::new();
    for &(time, length) in sent {
        let piece = pieces.entry(after(time) / width).or_default();
        piece.sent += 1;
        piece.lost += 1;
        piece.sent_bytes += u64::from(length);
    }
    for &(time, length) in received {
        let piece = pieces.entry(after(time) / width).or_default();
        piece.received += 1;
        piece.received_bytes += u64::from(length);
    }
    for &time in arrived {
        pieces.entry(after(time) / width).or_default().lost -= 1;
    }
    let pieces = pieces.into_iter().map(|(at, piece)| Piece { at: at as u32, ..piece }).collect();
    SeriesReport { width_ns: width as u64, pieces }
}

/// The totals and the streams, by key.
pub(crate) fn twin(judge: &Judge, sent: &[Seen], received: &[Seen]) -> (Total, Vec<Stream>) {
    let is = identify(judge, sent, received);
    let zero = sent.first().map_or(0, |first| first.time);
    let mut keys: Vec<_> = sent.iter().map(|packet| packet.stream.clone()).collect();
    keys.sort();
    keys.dedup();
    let count = |what: fn(&Is) -> bool| is.iter().filter(|is| what(is)).count() as u64;
    let mut total = Total {
        sent: sent.len() as u64,
        received: received.len() as u64,
        matched: count(|is| matches!(is, Is::First(..))),
        ambiguous: count(|is| matches!(is, Is::First(_, true) | Is::Copy(_, true))),
        duplicated: count(|is| matches!(is, Is::Copy(..))),
        unmatched: count(|is| matches!(is, Is::TooOld | Is::TooEarly | Is::Unknown)),
        too_old: count(|is| *is == Is::TooOld),
        too_early: count(|is| *is == Is::TooEarly),
        ..Total::default()
    };
    total.lost = total.sent - total.matched;
    total.loss_ratio = share(total.lost, total.sent);
    let mut streams = Vec::new();
    let mut sums = Values::default();
    let (mut all_sent, mut all_received, mut all_arrived) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        let members: Vec<usize> = (0..sent.len()).filter(|&n| sent[n].stream == key).collect();
        let mut arrivals = Vec::new();
        for (place, (packet, is)) in received.iter().zip(&is).enumerate() {
            let (of, is_first, ambiguous) = match *is {
                Is::First(of, ambiguous) => (of, true, ambiguous),
                Is::Copy(of, ambiguous) => (of, false, ambiguous),
                _ => continue,
            };
            if let Some(number) = members.iter().position(|&n| n == of) {
                let delay = (judge.corrected)(packet.time) - sent[of].time;
                let (time, length) = (packet.time, packet.length);
                arrivals.push(Arrival { place, number, is_first, ambiguous, time, delay, length });
            }
        }
        let went: Vec<(i64, u32)> = members.iter().map(|&n| (sent[n].time, sent[n].length)).collect();
        let came: Vec<(i64, u32)> = arrivals.iter().map(|arrival| (arrival.time, arrival.length)).collect();
        let came_then: Vec<(i64, u32)> = came.iter().map(|&(time, length)| ((judge.corrected)(time), length)).collect();
        let arrived: Vec<i64> = arrivals
            .iter()
            .filter(|arrival| arrival.is_first)
            .map(|arrival| sent[members[arrival.number]].time)
            .collect();
        let values = values(members.len(), &arrivals);
        let bytes = |packets: &[(i64, u32)]| packets.iter().map(|&(_, length)| u64::from(length)).sum::<u64>();
        // As far as whole words reach.
        let window = (members.len().clamp(64, 1 << 26).div_ceil(64) + 1).next_power_of_two() as u64 * 64 - 64;
        let report = stream_report(judge, members.len(), &arrivals, &values, window);
        total.reordered += report.order.as_ref().unwrap().reordered;
        total.sent_bytes += bytes(&went);
        total.received_bytes += bytes(&came);
        streams.push(Stream {
            key,
            ambiguous: arrivals.iter().filter(|arrival| arrival.ambiguous).count() as u64,
            sent_bytes: bytes(&went),
            received_bytes: bytes(&came),
            first_ns: went[0].0,
            sent_bps: rate(&went),
            received_bps: rate(&came),
            sent_conformance: judge.profile.map(|profile| conformance(profile, &went)),
            received_conformance: judge.profile.filter(|_| !came.is_empty()).map(|profile| conformance(profile, &came)),
            series: series(zero, &went, &came_then, &arrived),
            delays: Vec::new(),
            gaps: Vec::new(),
            report,
        });
        all_sent.extend(went);
        all_received.extend(came_then);
        all_arrived.extend(arrived);
        sums.delays.extend(values.delays);
        sums.pdv.extend(values.pdv);
        sums.ipdv.extend(values.ipdv);
        sums.gaps.extend(values.gaps);
        sums.gap_packets.extend(values.gap_packets);
        sums.losses.extend(values.losses);
        sums.extents.extend(values.extents);
    }
    total.loss_lengths = spread(&sums.losses);
    total.reordering_extent = spread(&sums.extents);
    total.latency_ns = spread(&sums.delays).filter(|_| judge.synchronised);
    total.pdv_ns = spread(&sums.pdv);
    total.ipdv_ns = spread(&sums.ipdv);
    total.gaps_ns = spread(&sums.gaps);
    total.gap_packets = spread(&sums.gap_packets);
    total.series = series(zero, &all_sent, &all_received, &all_arrived);
    (total, streams)
}

/// Compares a report with what the twin finds.
pub(crate) fn agree(report: &Report, judge: &Judge, sent: &[Seen], received: &[Seen]) -> Result<(), String> {
    let (mut total, streams) = twin(judge, sent, received);
    total.bindings = report.total.bindings;
    total.filtered_sent = report.total.filtered_sent;
    total.filtered_received = report.total.filtered_received;
    compare("total", &report.total, &total)?;
    compare("streams", &report.streams, &streams)
}

fn compare(what: &str, found: &impl serde::Serialize, expected: &impl serde::Serialize) -> Result<(), String> {
    let (found, expected) = (serde_json::to_value(found).unwrap(), serde_json::to_value(expected).unwrap());
    difference(what, &found, &expected).map_or(Ok(()), Err)
}

fn difference(path: &str, found: &serde_json::Value, expected: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().find_map(|(key, value)| difference(&format!("{path}.{key}"), value, &b[key]))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(n, (a, b))| difference(&format!("{path}[{n}]"), a, b))
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (x, y) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            ((x - y).abs() > 1e-9 * x.abs().max(1.0)).then(|| format!("{path}: {x} is not {y}"))
        }
        (a, b) if a == b => None,
        (a, b) => Some(format!("{path}: {a} is not {b}")),
    }
}
