//! What was [seen](crate::watch) of one user lately, second by second and minute by minute, as it is told.

use std::collections::BTreeMap;

use crate::gates::Loss;
use crate::watch::{Seen, Told, WATCHED};

/// A second or a minute that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// `second` or `minute`.
    pub span: &'static str,
    /// How many ago: 1 is the latest.
    pub ago: u64,
    /// Packets that were sent.
    pub packets: u64,
    /// Their bits per second, without overhead.
    pub rate: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// The same by reason, where there were any.
    pub drops: BTreeMap<&'static str, u64>,
    /// Packets that were marked (RFC 3168).
    pub marked: u64,
    /// How long half of those that were sent waited at most, milliseconds; `None` where there were none.
    pub p50_ms: Option<f64>,
    /// The same of 99 of 100.
    pub p99_ms: Option<f64>,
}

impl Told {
    /// The seconds, then the minutes, the latest first.
    pub fn past(&self) -> impl Iterator<Item = Past> {
        [("second", 1, &self.seconds), ("minute", 60, &self.minutes)]
            .into_iter()
            .flat_map(|(span, seconds, all)| (1..).zip(all).map(move |(ago, seen)| past(span, (ago, seconds), seen)))
    }
}

fn past(span: &'static str, (ago, seconds): (u64, u64), seen: &Seen) -> Past {
    let lost = Loss::ALL.into_iter().zip(seen.lost).filter(|(_, count)| *count > 0);
    // Microseconds are as fine as times are told apart.
    let millis = |nanos: Option<u64>| nanos.map(|nanos| nanos.div_ceil(1_000) as f64 / 1e3);
    Past {
        span,
        ago,
        packets: seen.packets,
        rate: seen.bytes * 8 / seconds,
        dropped: seen.lost.iter().sum(),
        drops: lost.map(|(loss, count)| (loss.name(), count)).collect(),
        marked: seen.marked,
        p50_ms: millis(seen.p50),
        p99_ms: millis(seen.p99),
    }
}

/// What is said to who asks about one user too many ([`Asked::Full`](crate::watch::Asked::Full)).
pub fn full() -> String {
    format!("{WATCHED} other users are watched; ask again when one of them is forgotten, after 15 minutes")
}
