//! What became of one user's packets lately, second by second and minute by minute.

use serde_json::Value;
use weir_sched::history;
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
        let told = shaping.watch(number, now).map_err(|_| RequestError(history::full()))?;
        let whose = [("user", user.as_str().into()), ("direction", direction.name().into())];
        rows.extend(history::rows(&told, &whose));
    }
    Ok(rows)
}
