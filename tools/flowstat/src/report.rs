//! What was found out, in a form that can be stored.

use serde::{Serialize, Serializer};
use weir_measure::{Conformance, Spread, StreamReport};

use crate::packet::Packet;

/// Version of the form of [`Report`].
pub const FORM: u32 = 1;

/// What happened to the packets of two captures. Times are nanoseconds, ratios from 0 to 1; what is not known is absent (null).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Version of this form: [`FORM`].
    pub version: u32,
    /// Why it is not whole, a sentence each: files that are damaged. What stands before the damage is in it.
    pub partial: Vec<String>,
    /// What the device was taken to do to packets.
    pub model: String,
    /// What streams are told apart by.
    pub by: Vec<String>,
    /// What is known of the clocks.
    pub clock: ClockReport,
    /// A packet that takes longer is not taken for the one that was sent.
    pub window_ns: u64,
    /// What was sent.
    pub sent: CaptureReport,
    /// What was received.
    pub received: CaptureReport,
    /// All streams together.
    pub total: Total,
    /// By what the streams are in order, the worst first.
    pub order: String,
    /// How many streams there are.
    pub stream_count: u64,
    /// The streams.
    pub streams: Vec<Stream>,
    /// What a reader must know to judge the figures, a sentence or two each.
    pub notes: Vec<String>,
}

/// What is known of the clocks of the two captures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClockReport {
    /// `same`, `offset` or `drift`.
    pub mode: &'static str,
    /// Whether latencies can be told.
    pub synchronised: bool,
    /// How far the receiver's clock is ahead, when the first packet was sent, plus the least delay.
    pub offset_ns: Option<i64>,
    /// How much faster it runs, millionths.
    pub drift_ppm: Option<f64>,
    /// Packets that this rests on.
    pub packets: Option<u64>,
}

/// A capture, and which of its packets count. All packets are in exactly one of those that do not, or in `counted`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CaptureReport {
    /// The files.
    pub files: Vec<String>,
    /// Packets in them.
    pub packets: u64,
    /// Bytes that these had on the wire.
    pub bytes: u64,
    /// When the first was captured, since 1970 (UTC).
    pub first_ns: Option<i64>,
    /// When the last was captured.
    pub last_ns: Option<i64>,
    /// Did not match the filter.
    pub filtered: u64,
    /// Leave the device where nothing was captured.
    pub elsewhere: u64,
    /// Have nothing in them that the model knows them by.
    pub unidentified: u64,
    /// Have addresses that contradict the table of the model: spoofed where they were sent, for somebody else where they were received.
    pub misaddressed: u64,
    /// Were not captured in full, so that they cannot be known.
    pub cut: u64,
    /// Say themselves that they were changed on their way.
    pub corrupt: u64,
    /// Were captured when the other capture did not run; only with `--trim`.
    pub outside: u64,
    /// All others: those that were looked for in the other capture.
    pub counted: u64,
    /// The least that was captured of a packet that was cut, bytes.
    #[serde(skip)]
    pub shortest_cut: usize,
    /// Of those filtered: were captured on a link that filters do not know.
    #[serde(skip)]
    pub foreign: u64,
    /// What is wrong with files, a sentence each.
    #[serde(skip)]
    pub damage: Vec<String>,
}

impl CaptureReport {
    pub(crate) fn count(&mut self, time: i64, packet: &Packet<'_>) {
        self.packets += 1;
        self.bytes += u64::from(packet.length);
        self.first_ns = Some(self.first_ns.map_or(time, |first| first.min(time)));
        self.last_ns = Some(self.last_ns.map_or(time, |last| last.max(time)));
    }

    pub(crate) fn cut(&mut self, packet: &Packet<'_>) {
        self.shortest_cut = if self.cut == 0 { packet.data.len() } else { self.shortest_cut.min(packet.data.len()) };
        self.cut += 1;
    }

    /// Takes off whatever does not count.
    pub(crate) fn settle(&mut self) {
        let unknown = self.unidentified + self.misaddressed + self.cut + self.corrupt;
        let others = self.filtered + self.elsewhere + unknown + self.outside;
        self.counted = self.packets - others;
    }
}

/// All streams together. `sent` is `matched` and `lost` together; `received` is `matched`, `duplicated` and `unmatched`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Total {
    /// Packets sent that count.
    pub sent: u64,
    /// Packets received that count.
    pub received: u64,
    /// Packets sent that were received, each counted once.
    pub matched: u64,
    /// Of the matched and the duplicated: several packets had been sent within the window that look like them, so that which
    /// of them it was is a guess: the one sent first.
    pub ambiguous: u64,
    /// Packets sent that were not received.
    pub lost: u64,
    /// Their share.
    pub loss_ratio: f64,
    /// Packets received again.
    pub duplicated: u64,
    /// Packets that came after one of their stream that was sent after them.
    pub reordered: u64,
    /// Packets received that were not sent, as far as the capture knows.
    pub unmatched: u64,
    /// Of these: a packet that looks like them was sent, but longer before than the window.
    pub too_old: u64,
    /// Of these: a packet that looks like them was sent, but after they had come.
    pub too_early: u64,
    /// Packets sent that did not match the filter, or leave the device elsewhere.
    pub filtered_sent: u64,
    /// Packets received that did not match the filter.
    pub filtered_received: u64,
    /// Flows whose names on both sides were learned; null if the model knows no such.
    pub bindings: Option<u64>,
    /// Bytes of the packets sent.
    pub sent_bytes: u64,
    /// Bytes of the packets received, copies included.
    pub received_bytes: u64,
    /// Loss periods of all streams, packets.
    pub loss_lengths: Option<Spread>,
    /// Reordering extents of all streams, packets.
    pub reordering_extent: Option<Spread>,
    /// One-way delay.
    pub latency_ns: Option<Spread>,
    /// Delays, each less the least of its stream.
    pub pdv_ns: Option<Spread>,
    /// Differences of the delays of packets sent one after the other in a stream.
    pub ipdv_ns: Option<Spread>,
    /// Times between packets of a stream, as they arrived.
    pub gaps_ns: Option<Spread>,
    /// Packets of others between packets of a stream, as they arrived.
    pub gap_packets: Option<Spread>,
    /// All packets over time.
    pub series: SeriesReport,
}

/// A stream: packets that have something in common.
#[derive(Clone, Debug, Serialize)]
pub struct Stream {
    /// What they have in common: fields and their values.
    #[serde(serialize_with = "as_map")]
    pub key: Vec<(String, String)>,
    /// What became of them; `received` counts each packet once.
    #[serde(flatten)]
    pub report: StreamReport,
    /// Of those received, copies included: several packets had been sent that look like them.
    pub ambiguous: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received, copies included.
    pub received_bytes: u64,
    /// When the first packet was sent, since 1970 (UTC).
    pub first_ns: i64,
    /// Bits per second sent, from the first packet to the last.
    pub sent_bps: Option<f64>,
    /// Bits per second received.
    pub received_bps: Option<f64>,
    /// How what was sent keeps to the rate and the burst.
    pub sent_conformance: Option<Conformance>,
    /// How what was received keeps to it.
    pub received_conformance: Option<Conformance>,
    /// Its packets over time.
    pub series: SeriesReport,
    /// The cumulative distribution of delays, for plots: ns in rising order, each with how many packets took no longer. Of the first
    /// streams only.
    #[serde(skip)]
    pub delays: Vec<(i64, u64)>,
    /// The same of gaps in packets.
    #[serde(skip)]
    pub gaps: Vec<(i64, u64)>,
}

/// Packets in equal pieces of time, from when the first packet of all was sent. Pieces in which nothing happened are left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SeriesReport {
    /// How long a piece is.
    pub width_ns: u64,
    /// The pieces.
    pub pieces: Vec<Piece>,
}

/// A piece of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// Its number, from 0.
    pub at: u32,
    /// Packets sent in it.
    pub sent: u32,
    /// Bytes of these.
    pub sent_bytes: u64,
    /// Of the packets sent in it: those that were not received.
    pub lost: u32,
    /// Packets received in it, copies included.
    pub received: u32,
    /// Bytes of these.
    pub received_bytes: u64,
}

fn as_map<S: Serializer>(key: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(key.iter().map(|(name, value)| (name, value)))
}
