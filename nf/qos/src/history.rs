//! What became of one user's packets lately, second by second and minute by minute.

use serde_json::{Value, json};
use weir_sched::gates::Loss;
use weir_sched::watch::{Seen, WATCHED};
use weir_stage::RequestError;

use crate::find::OTHERS;
use crate::state::Control;

/// The columns.
pub(crate) const COLUMNS: &[&str] =
    &["user", "direction", "span", "ago", "packets", "rate", "dropped", "drops", "marked", "p50_ms", "p99_ms"];

/// Has a user watched from now on, unless too many others are.
pub(crate) fn watch(control: &Control, number: u32, now: u64) {
    control.schedulers.iter().for_each(|(_, shaping)| drop(shaping.watch(number, now)));
}

/// Has a user watched from now on. What was seen of it so far, the latest first.
pub(crate) fn rows(control: &Control, number: u32, now: u64) -> Result<Vec<Value>, RequestError> {
    let user = match control.users.get(number).and_then(|user| user.keys.first()) {
        Some(key) => key.to_string(),
        None if number == OTHERS => "others".to_owned(),
        None => return Ok(Vec::new()),
    };
    let mut rows = Vec::new();
    for (direction, shaping) in &control.schedulers {
        let full = |_| {
            RequestError(format!(
                "{WATCHED} other users are watched; ask again when one of them is forgotten, after 15 minutes"
            ))
        };
        let told = shaping.watch(number, now).map_err(full)?;
        for (span, seconds, all) in [("second", 1, told.seconds), ("minute", 60, told.minutes)] {
            rows.extend((1..).zip(&all).map(|(ago, seen)| row((&user, direction.name()), (span, seconds, ago), seen)));
        }
    }
    Ok(rows)
}

fn row((user, direction): (&str, &str), (span, seconds, ago): (&str, u64, u64), seen: &Seen) -> Value {
    let drops: serde_json::Map<String, Value> = Loss::ALL
        .into_iter()
        .zip(seen.lost)
        .filter(|(_, count)| *count > 0)
        .map(|(loss, count)| (loss.name().to_owned(), count.into()))
        .collect();
    // Microseconds are as fine as times are told apart.
    let millis = |nanos: Option<u64>| nanos.map(|nanos| nanos.div_ceil(1_000) as f64 / 1e3);
    json!({
        "user": user,
        "direction": direction,
        "span": span,
        "ago": ago,
        "packets": seen.packets,
        "rate": seen.bytes * 8 / seconds,
        "dropped": seen.lost.iter().sum::<u64>(),
        "drops": drops,
        "marked": seen.marked,
        "p50_ms": millis(seen.p50),
        "p99_ms": millis(seen.p99),
    })
}
