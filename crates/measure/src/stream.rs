//! Everything that the receiver of one stream finds out: [`StreamStats`].

use crate::delay::Delay;
use crate::distribution::Distribution;
use crate::order::Order;
use crate::report::{LossReport, OrderReport, StreamReport};
use crate::signature::{Signature, distance};
use crate::window::Window;

/// How a stream is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The number of the first packet. Whatever has a lower one is left over from an earlier run.
    pub first: u64,
    /// So many packets behind the greatest number, copies are told from packets that come late; what comes even later is
    /// taken for lost. Rounded up, 64 to 2^26. A packet costs a bit, and up to 24 bytes more if packets are skipped.
    pub window: usize,
    /// The waiting time of RFC 7680 section 2.4, ns: packets that take longer are lost, though they may come.
    pub wait: Option<u64>,
    /// Packets before the greatest number whose delays are remembered for IPDV. Rounded up to a power of two, 16 to 2^20; 8 bytes each.
    pub remembered: usize,
    /// Values that each distribution keeps apart at most ([`Distribution::sparse`]), for where there are many streams; `None`: as
    /// many as it takes to know them to 0.1 %.
    pub distinct: Option<usize>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { first: 0, window: 1 << 20, wait: None, remembered: 1024, distinct: None }
    }
}

/// What has come so far. All packets that come are in exactly one of these, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Came for the first time, intact and in time.
    pub received: u64,
    /// Came again (RFC 5560).
    pub duplicated: u64,
    /// Of `received`: came after a packet with a greater number (RFC 4737 section 3).
    pub reordered: u64,
    /// Came after it had been given up: they stay lost.
    pub late: u64,
    /// Came changed: they stay lost (RFC 7680 section 2.4).
    pub corrupt: u64,
    /// Left over from before the first packet.
    pub stale: u64,
}

/// The statistics of one stream at one receiver.
///
/// A packet in order costs no search and no allocation; one that was overtaken costs a search among the skips within the
/// window. Memory is bounded by [`Rules::window`] and by [`Distribution`].
#[derive(Clone, Debug)]
pub struct StreamStats {
    rules: Rules,
    counts: Counts,
    window: Window,
    order: Order,
    delay: Delay,
    /// Between packets as they arrive, ns.
    gaps: Distribution,
    /// Packets of others between them.
    gap_packets: Distribution,
    /// The place of the last packet among all that arrived, of this stream or others.
    place: Option<u64>,
    /// When the last packet arrived, ns.
    latest: Option<u64>,
    /// Receivers that got packets of this stream.
    receivers: u32,
    /// One more than the greatest number that any of the others got.
    elsewhere: u64,
}

impl StreamStats {
    /// Of a stream of which nothing came yet.
    pub fn new(rules: Rules) -> StreamStats {
        let empty = rules.distinct.map_or_else(Distribution::default, Distribution::sparse);
        StreamStats {
            rules,
            counts: Counts::default(),
            window: Window::new(rules.window, &empty),
            order: Order::new(&empty),
            delay: Delay::new(rules.remembered, &empty),
            gaps: empty.clone(),
            gap_packets: empty,
            place: None,
            latest: None,
            receivers: 0,
            elsewhere: 0,
        }
    }

    /// What has come so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes a packet of this stream that arrived at `now`, ns on the sender's clock, or on one that it is to be compared with.
    #[inline]
    pub fn receive(&mut self, signature: &Signature, now: u64) {
        if signature.intact {
            let next = self.rules.first.wrapping_add(self.window.next());
            let offset = distance(signature.sequence, signature.form.sequence_bits(), next);
            match self.window.next().checked_add_signed(offset) {
                Some(number) => self.packet(number, signature.age(now), now),
                None => self.counts.stale += 1,
            }
        } else {
            self.counts.corrupt += 1;
        }
    }

    /// Takes a packet whose number is known in full: intact, arrived at `now` (ns), `delay` ns after it was sent.
    #[inline]
    pub fn record(&mut self, sequence: u64, delay: Option<i64>, now: u64) {
        match sequence.checked_sub(self.rules.first) {
            Some(number) => self.packet(number, delay, now),
            None => self.counts.stale += 1,
        }
    }

    /// Notes that a packet of this stream arrived as number `place` among all packets, whose streams may be others'.
    #[inline]
    pub fn record_place(&mut self, place: u64) {
        if let Some(before) = self.place.replace(place) {
            self.gap_packets.record_count(place.saturating_sub(before + 1));
        }
    }

    /// `number` counts from the first packet.
    #[inline]
    fn packet(&mut self, number: u64, delay: Option<i64>, now: u64) {
        self.receivers = self.receivers.max(1);
        if let Some(latest) = self.latest.replace(now) {
            self.gaps.record(now.wrapping_sub(latest) as i64);
        }
        if let (Some(wait), Some(delay)) = (self.rules.wait, delay)
            && delay > 0
            && delay.unsigned_abs() > wait
        {
            self.counts.late += 1;
        } else if number == self.window.next() {
            self.window.push();
            self.delay.next(number, delay);
            self.counts.received += 1;
        } else {
            self.out_of_order(number, delay, now);
        }
    }

    #[cold]
    fn out_of_order(&mut self, number: u64, delay: Option<i64>, now: u64) {
        let next = self.window.next();
        if number > next {
            self.window.leap(number);
            let horizon = self.window.next().saturating_sub(self.window.reach());
            self.order.skipped(next, self.counts.received, now, horizon);
            self.delay.leap(number, delay);
        } else if !self.window.covers(number) {
            self.counts.late += 1;
            return;
        } else if self.window.has(number) {
            self.counts.duplicated += 1;
            return;
        } else {
            self.window.set(number);
            self.order.reordered(number, self.counts.received, now);
            self.delay.overtaken(number, delay, &self.window);
            self.counts.reordered += 1;
        }
        self.counts.received += 1;
    }

    /// Adds what another receiver of the same stream found, such as one at another queue of the same port.
    ///
    /// If both got packets of it, the order in which these arrived between the receivers is not known: what depends on it (loss
    /// periods, reordering, gaps) is left out of the report, and a packet of which either got a copy counts as two.
    pub fn merge(&mut self, other: &StreamStats) {
        if other.receivers == 0 {
            self.add_counts(&other.counts);
        } else if self.receivers == 0 {
            let counts = self.counts;
            *self = other.clone();
            self.add_counts(&counts);
        } else {
            self.receivers = self.receivers.saturating_add(other.receivers);
            self.add_counts(&other.counts);
            self.elsewhere = self.elsewhere.max(other.elsewhere).max(other.window.next());
            self.delay.latency.merge(&other.delay.latency);
            self.delay.ipdv.merge(&other.delay.ipdv);
        }
    }

    fn add_counts(&mut self, other: &Counts) {
        let mine = &mut self.counts;
        mine.received += other.received;
        mine.duplicated += other.duplicated;
        mine.reordered += other.reordered;
        mine.late += other.late;
        mine.corrupt += other.corrupt;
        mine.stale += other.stale;
    }

    /// What to say of the stream if `sent` packets of it were sent and nothing more comes. Without `sent`, packets are taken to have
    /// been sent up to the greatest number that came.
    pub fn report(&self, sent: Option<u64>) -> StreamReport {
        let counts = self.counts;
        let seen = self.window.next().max(self.elsewhere);
        let all = sent.unwrap_or(0).max(seen);
        let alone = self.receivers <= 1;
        let losses = alone.then(|| self.window.losses(all));
        let lost = all.saturating_sub(counts.received);
        let latency = self.delay.latency.spread();
        StreamReport {
            sent: all,
            sent_known: sent.is_some(),
            received: counts.received,
            lost,
            loss_ratio: share(lost, all),
            loss: losses.map(|losses| LossReport { periods: losses.lengths.count(), lengths: losses.lengths.spread() }),
            lost_at_end: all - seen,
            duplicated: counts.duplicated,
            order: alone.then(|| OrderReport {
                reordered: counts.reordered,
                ratio: share(counts.reordered, counts.received),
                extent: self.order.extent.spread(),
                late_time_ns: self.order.late_time.spread(),
            }),
            late: counts.late,
            corrupt: counts.corrupt,
            stale: counts.stale,
            latency_ns: latency,
            pdv_ns: latency.map(|latency| latency.above(latency.min)),
            ipdv_ns: self.delay.ipdv.spread(),
            gaps_ns: self.gaps.spread().filter(|_| alone),
            gap_packets: self.gap_packets.spread().filter(|_| alone),
            window: self.window.reach(),
            receivers: self.receivers,
        }
    }

    /// One-way delays, ns (RFC 7679).
    pub fn latency(&self) -> &Distribution {
        &self.delay.latency
    }

    /// Differences of the delays of packets sent one after the other, ns (RFC 5481 section 4.1).
    pub fn ipdv(&self) -> &Distribution {
        &self.delay.ipdv
    }

    /// Times between packets as they arrived, ns.
    pub fn gaps(&self) -> &Distribution {
        &self.gaps
    }

    /// Packets of others between packets as they arrived.
    pub fn gap_packets(&self) -> &Distribution {
        &self.gap_packets
    }

    /// Reordering extents, packets (RFC 4737 section 4.2.2).
    pub fn extents(&self) -> &Distribution {
        &self.order.extent
    }

    /// Late time offsets, ns (RFC 4737 section 4.3.1).
    pub fn late_times(&self) -> &Distribution {
        &self.order.late_time
    }

    /// The lengths of loss periods, packets (RFC 3357), if `sent` packets were sent.
    pub fn losses(&self, sent: u64) -> Distribution {
        self.window.losses(sent.max(self.window.next())).lengths
    }

    /// The cumulative distribution of latencies, for plots: ns in rising order, each with how many packets took no longer.
    pub fn latencies(&self) -> Vec<(i64, u64)> {
        self.delay.latency.steps()
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
