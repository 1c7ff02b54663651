//! What became of one subscriber's packets at its schedulers lately, second by second and minute by minute.

use serde_json::Value;
use weir_sched::history;
use weir_stage::RequestError;

use crate::registry::{Registry, Subscriber};

/// The columns.
pub(crate) const COLUMNS: &[&str] = &[
    "port",
    "svlan",
    "cvlan",
    "user",
    "direction",
    "span",
    "ago",
    "packets",
    "rate",
    "dropped",
    "drops",
    "marked",
    "p50_ms",
    "p99_ms",
];

/// Has the user of a subscriber watched from now on, unless too many others are, or nothing is shaped.
pub(crate) fn watch(registry: &Registry, subscriber: &Subscriber, now: u64) {
    if let Some(schedulers) = registry.schedulers() {
        drop(schedulers.watch(subscriber.tags.port, subscriber.user(), now));
    }
}

/// Has the user of a subscriber watched from now on. What was seen of it so far, up before down, the latest first.
pub(crate) fn rows(registry: &Registry, subscriber: &Subscriber, now: u64) -> Result<Vec<Value>, RequestError> {
    let Some(schedulers) = registry.schedulers() else {
        return Err(RequestError("nothing is shaped, so that nobody is watched: give the gateway `qos`".to_owned()));
    };
    let told = schedulers.watch(subscriber.tags.port, subscriber.user(), now);
    let told = told.map_err(|_| RequestError(history::full()))?;
    let tags = subscriber.tags;
    let rows = told.iter().flat_map(|(direction, told)| {
        let whose = [
            ("port", registry.settings().ports.get(usize::from(tags.port)).cloned().into()),
            ("svlan", tags.svlan.into()),
            ("cvlan", tags.cvlan.into()),
            ("user", subscriber.user().into()),
            ("direction", direction.name().into()),
        ];
        history::rows(told, &whose)
    });
    Ok(rows.collect())
}
