//! What was [seen](crate::watch) of one user lately, second by second and minute by minute, as rows of a table.

use serde_json::Value;

use crate::gates::Loss;
use crate::watch::{Seen, Told, WATCHED};

/// Rows of what was seen: the seconds that are over, then the minutes, the latest first. `whose` says in each of them whose it is.
pub fn rows(told: &Told, whose: &[(&'static str, Value)]) -> Vec<Value> {
    let spans = [("second", 1, &told.seconds), ("minute", 60, &told.minutes)];
    let row = |(name, seconds), (ago, seen)| {
        let of: [(&str, Value); 2] = [("span", Value::from(name)), ("ago", Value::from(ago))];
        whose.iter().cloned().chain(of).chain(columns(seen, seconds)).collect()
    };
    spans
        .into_iter()
        .flat_map(|(name, seconds, all)| (1_u64..).zip(all).map(move |past| row((name, seconds), past)))
        .collect()
}

/// What became of packets in so many seconds.
fn columns(seen: &Seen, seconds: u64) -> [(&'static str, Value); 7] {
    let lost = Loss::ALL.into_iter().zip(seen.lost).filter(|(_, count)| *count > 0);
    // Microseconds are as fine as times are told apart.
    let millis = |nanos: Option<u64>| nanos.map(|nanos| nanos.div_ceil(1_000) as f64 / 1e3).into();
    [
        ("packets", seen.packets.into()),
        ("rate", (seen.bytes * 8 / seconds).into()),
        ("dropped", seen.lost.iter().sum::<u64>().into()),
        ("drops", lost.map(|(loss, count)| (loss.name(), count)).collect()),
        ("marked", seen.marked.into()),
        ("p50_ms", millis(seen.p50)),
        ("p99_ms", millis(seen.p99)),
    ]
}

/// What is said to who asks about one user too many ([`Asked::Full`](crate::watch::Asked::Full)).
pub fn full() -> String {
    format!("{WATCHED} other users are watched; ask again when one of them is forgotten, after 15 minutes")
}
