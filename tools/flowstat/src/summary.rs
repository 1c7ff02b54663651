//! From streams to the report.

use weir_measure::{Distribution, Series, Spread, StreamStats};

use crate::fields::Fields;
use crate::options::{Clock, Order};
use crate::report::{Piece, SeriesReport, Stream, Total};
use crate::streams::{Receiving, Sending, Streams};

/// Streams whose distributions are kept whole, for plots.
const PLOTTED: usize = 16;

/// How streams are summed up.
pub(crate) struct Summary<'a> {
    pub(crate) by: &'a Fields,
    pub(crate) clock: Clock,
    pub(crate) order: Order,
}

/// Distributions of all streams.
#[derive(Debug, Default)]
struct Sums {
    latency: Distribution,
    pdv: Distribution,
    ipdv: Distribution,
    gaps: Distribution,
    gap_packets: Distribution,
    losses: Distribution,
    extents: Distribution,
    sent: Series,
    received: Series,
    arrived: Series,
}

impl Summary<'_> {
    /// The streams in order, and what they are together. `total` has the counts already.
    pub(crate) fn streams(&self, streams: &Streams, total: &mut Total) -> Vec<Stream> {
        let mut sums = Sums::default();
        let mut all: Vec<(usize, Stream)> = Vec::new();
        for (id, sending) in streams.sent.iter().enumerate() {
            let receiving = streams.received.get(id).and_then(|receiving| receiving.as_deref());
            let stream = self.stream(streams, id, sending, receiving);
            // What lies outside of what both captures cover is no stream of its own.
            if stream.report.sent == 0 {
                continue;
            }
            total.reordered += stream.report.order.as_ref().map_or(0, |order| order.reordered);
            total.sent_bytes += stream.sent_bytes;
            total.received_bytes += stream.received_bytes;
            sums.add(sending, receiving, stream.report.sent);
            all.push((id, stream));
        }
        self.total(&sums, total);
        all.sort_by(|(_, a), (_, b)| {
            let (one, other) = (self.worth(a), self.worth(b));
            other.total_cmp(&one).then_with(|| a.key.cmp(&b.key))
        });
        for (id, stream) in all.iter_mut().take(PLOTTED) {
            if let Some(Some(receiving)) = streams.received.get(*id) {
                stream.delays = receiving.stats.latencies();
                stream.gaps = receiving.stats.gap_packets().steps();
            }
        }
        all.into_iter().map(|(_, stream)| stream).collect()
    }

    fn stream(&self, streams: &Streams, id: usize, sending: &Sending, receiving: Option<&Receiving>) -> Stream {
        let sent = u64::from(sending.packets - sending.before - sending.after);
        let (first, last) = sending.covered.unwrap_or((sending.first, sending.last));
        let mut report = match receiving {
            Some(receiving) => receiving.stats.report(Some(sent)),
            None => StreamStats::new(streams.rules(sending)).report(Some(sent)),
        };
        if self.clock != Clock::Same {
            // By clocks that are not the same, delays say nothing but how they vary (RFC 7679 section 3.7).
            report.latency_ns = None;
        }
        Stream {
            key: self.by.show(streams.key(id)),
            ambiguous: receiving.map_or(0, |receiving| receiving.ambiguous),
            sent_bytes: sending.bytes,
            received_bytes: receiving.map_or(0, |receiving| receiving.bytes),
            first_ns: first,
            sent_bps: rate(sending.bytes, sent, first, last),
            received_bps: receiving.and_then(|receiving| {
                let packets = report.received + report.duplicated;
                rate(receiving.bytes, packets, receiving.first, receiving.last)
            }),
            sent_conformance: sending.bucket.as_ref().map(|bucket| bucket.conformance()),
            received_conformance: receiving.and_then(|receiving| Some(receiving.bucket.as_ref()?.conformance())),
            series: series(&sending.series, receiving.map(|receiving| (&receiving.series, &receiving.arrived))),
            delays: Vec::new(),
            gaps: Vec::new(),
            report,
        }
    }

    fn total(&self, sums: &Sums, total: &mut Total) {
        total.latency_ns = sums.latency.spread().filter(|_| self.clock == Clock::Same);
        total.pdv_ns = sums.pdv.spread();
        total.ipdv_ns = sums.ipdv.spread();
        total.gaps_ns = sums.gaps.spread();
        total.gap_packets = sums.gap_packets.spread();
        total.loss_lengths = sums.losses.spread();
        total.reordering_extent = sums.extents.spread();
        total.series = series(&sums.sent, Some((&sums.received, &sums.arrived)));
    }

    /// What streams are put in order by.
    fn worth(&self, stream: &Stream) -> f64 {
        let report = &stream.report;
        let delays = report.latency_ns.as_ref().or(report.pdv_ns.as_ref());
        let delay = |of: fn(&Spread) -> i64| delays.map_or(f64::NEG_INFINITY, |delays| of(delays) as f64);
        match self.order {
            Order::Loss => report.loss_ratio,
            Order::Lost => report.lost as f64,
            Order::P50 => delay(|delays| delays.p50),
            Order::P99 => delay(|delays| delays.p99),
            Order::Max => delay(|delays| delays.max),
            Order::Reordered => report.order.as_ref().map_or(0.0, |order| order.reordered as f64),
            Order::Duplicated => report.duplicated as f64,
            Order::Sent => stream.sent_bytes as f64,
            Order::Received => stream.received_bytes as f64,
            Order::Exceeding => stream.sent_conformance.map_or(0.0, |found| found.exceeding as f64),
            Order::Key => 0.0,
        }
    }
}

impl Sums {
    fn add(&mut self, sending: &Sending, receiving: Option<&Receiving>, sent: u64) {
        self.sent.merge(&sending.series);
        let Some(receiving) = receiving else {
            self.losses.record_count(sent);
            return;
        };
        let stats = &receiving.stats;
        self.latency.merge(stats.latency());
        self.pdv.merge_above(stats.latency());
        self.ipdv.merge(stats.ipdv());
        self.gaps.merge(stats.gaps());
        self.gap_packets.merge(stats.gap_packets());
        self.losses.merge(&stats.losses(sent));
        self.extents.merge(stats.extents());
        self.received.merge(&receiving.series);
        self.arrived.merge(&receiving.arrived);
    }
}

/// Bits per second of so many packets from the first to the last: the last one's own are not sent within that time.
fn rate(bytes: u64, packets: u64, first: i64, last: i64) -> Option<f64> {
    let nanos = last.checked_sub(first).filter(|&nanos| nanos > 0)?;
    let share = packets.checked_sub(1)? as f64 / packets as f64;
    Some(bytes as f64 * share * 8e9 / nanos as f64)
}

/// What was sent, what arrived, and what of what was sent arrived, in pieces of one width.
fn series(sent: &Series, others: Option<(&Series, &Series)>) -> SeriesReport {
    let nothing = Series::default();
    let (received, arrived) = others.unwrap_or((&nothing, &nothing));
    let width = sent.width().max(received.width()).max(arrived.width());
    let mut pieces: std::collections::BTreeMap<u32, Piece> = std::collections::BTreeMap::new();
    let mut each = |series: &Series, take: fn(&mut Piece, u32, u64)| {
        let scale = width / series.width();
        for (at, packets, bytes) in series.pieces() {
            let at = (u64::from(at) / scale) as u32;
            take(pieces.entry(at).or_insert(Piece { at, ..Piece::default() }), packets, bytes);
        }
    };
    each(sent, |piece, packets, bytes| {
        piece.sent += packets;
        piece.lost += packets;
        piece.sent_bytes += bytes;
    });
    each(received, |piece, packets, bytes| {
        piece.received += packets;
        piece.received_bytes += bytes;
    });
    each(arrived, |piece, packets, _| piece.lost = piece.lost.saturating_sub(packets));
    SeriesReport { width_ns: width, pieces: pieces.into_values().collect() }
}
