//! What became of one subscriber's packets at its schedulers lately, second by second and minute by minute.

use serde_json::{Value, json};
use weir_sched::history::{self, Past};
use weir_stage::RequestError;

use crate::qos::Direction;
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
    let rows = told.iter().flat_map(|(direction, told)| told.past().map(|past| (*direction, past)));
    Ok(rows.map(|(direction, past)| row(registry, subscriber, (direction, &past))).collect())
}

fn row(registry: &Registry, subscriber: &Subscriber, (direction, past): (Direction, &Past)) -> Value {
    let tags = subscriber.tags;
    json!({
        "port": registry.settings().ports.get(usize::from(tags.port)),
        "svlan": tags.svlan,
        "cvlan": tags.cvlan,
        "user": subscriber.user(),
        "direction": direction.name(),
        "span": past.span,
        "ago": past.ago,
        "packets": past.packets,
        "rate": past.rate,
        "dropped": past.dropped,
        "drops": past.drops,
        "marked": past.marked,
        "p50_ms": past.p50_ms,
        "p99_ms": past.p99_ms,
    })
}
