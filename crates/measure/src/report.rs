//! What is said of a stream: numbers with units, in a form that can be stored.

use serde::{Deserialize, Serialize};

use crate::distribution::Spread;

/// What became of the packets of one stream. Ratios are from 0 to 1, times in nanoseconds. What is not known is absent (null).
///
/// `sent` is always `received` and `lost` together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// Packets sent.
    pub sent: u64,
    /// Whether the sender said so. If not, the stream is taken to end with the greatest number that came.
    pub sent_known: bool,
    /// Packets that came intact and in time, each counted once.
    pub received: u64,
    /// Packets that did not (RFC 7680).
    pub lost: u64,
    /// The share of the sent packets that was lost.
    pub loss_ratio: f64,
    /// How losses lie together; absent if several receivers shared the stream.
    pub loss: Option<LossReport>,
    /// The last ones of them: packets behind the greatest number that came.
    pub lost_at_end: u64,
    /// Further copies that came (RFC 5560).
    pub duplicated: u64,
    /// Reordering; absent if several receivers shared the stream.
    pub order: Option<OrderReport>,
    /// Packets that came after they had been given up, because they took longer than the waiting time or were overtaken by more than
    /// `window` others. They count as lost.
    pub late: u64,
    /// Packets that came changed. They count as lost.
    pub corrupt: u64,
    /// Packets left over from an earlier run.
    pub stale: u64,
    /// One-way delay (RFC 7679). Negative values tell of clocks that differ.
    pub latency_ns: Option<Spread>,
    /// Packet delay variation (RFC 5481 section 4.2): delays less the least of them.
    pub pdv_ns: Option<Spread>,
    /// Inter-packet delay variation (RFC 5481 section 4.1): the delay of each packet less that of the one sent just before it, of all such
    /// pairs of which both came, the second to come while the first was among the latest 1,024 numbers.
    pub ipdv_ns: Option<Spread>,
    /// Times between packets as they arrived, whatever their order, copies and late ones too; absent if several receivers shared
    /// the stream.
    pub gaps_ns: Option<Spread>,
    /// Packets of others between packets of this stream as they arrived, where the receiver saw them.
    #[serde(default)]
    pub gap_packets: Option<Spread>,
    /// So many packets behind the greatest number, copies are told from late packets.
    pub window: u64,
    /// Receivers that got packets of this stream.
    pub receivers: u32,
}

/// Loss periods (RFC 3357): packets in a row, as sent, that are all lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossReport {
    /// How many.
    pub periods: u64,
    /// How long they are, packets; absent if there are none.
    pub lengths: Option<Spread>,
}

/// Reordering (RFC 4737).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderReport {
    /// Packets that came after one with a greater number (section 3.3).
    pub reordered: u64,
    /// Their share of the received packets (section 4.1).
    pub ratio: f64,
    /// Reordering extents (section 4.2): how many packets earlier the first one with a greater number came.
    pub extent: Option<Spread>,
    /// Late time offsets (section 4.3): how much earlier it came.
    pub late_time_ns: Option<Spread>,
}
