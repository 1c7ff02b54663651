//! What became of samples, for people and for metrics.

use serde_json::{Value, json};
use weir_stage::{Exported, RequestError, Show, ShowRows, whole};

use super::{Flows, collectors};

/// What a function shows beside [`SHOWS`](crate::SHOWS) that samples flows.
pub static FLOW_SHOWS: &[Show] = &[Show {
    what: "collectors",
    columns: &[
        "collector",
        "protocol",
        "sample",
        "packets",
        "samples",
        "lost",
        "flows",
        "datagrams",
        "bytes",
        "unsent",
        "why",
    ],
    help: "Collectors of flows: of how many packets one is sampled; packets that were looked at, samples of them, and samples that found no room, \
           of all interfaces; flows under way (IPFIX); datagrams to each collector, those that Linux did not take, and why",
}];

/// The rows of the table.
pub(crate) fn rows(flows: &Flows, what: &str, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
    if let Some(word) = filter {
        return Err(RequestError(format!(
            "\"{word}\" selects nothing: the table '{what}' is shown whole; leave the word out"
        )));
    }
    let [packets, lost] = flows.counted(None);
    let book = flows.book();
    let Some(config) = &book.wanted.0 else {
        return Err(RequestError(
            "no flows are exported by this function: give it `flow_export = { collector = \"...\" }`, see docs/flow-export.md"
                .to_owned(),
        ));
    };
    let row = |collector| -> Value {
        let told = |of: fn(&Exported) -> u64| book.exported.iter().find(|one| one.collector == collector).map_or(0, of);
        let why = book.exported.iter().find(|one| one.collector == collector).and_then(|one| one.why.as_deref());
        json!({
            "collector": collector.to_string(),
            "protocol": config.protocol.as_str(),
            "sample": config.sample,
            "packets": packets,
            "samples": book.taken,
            "lost": lost,
            "flows": book.flows,
            "datagrams": told(|one| one.datagrams),
            "bytes": told(|one| one.bytes),
            "unsent": told(|one| one.unsent),
            "why": why,
        })
    };
    Ok(whole(collectors(config).into_iter().map(row).collect()))
}

/// Facts for metrics.
pub(crate) fn gauges(flows: &Flows) -> [(&'static str, &'static str, f64); 3] {
    let [_, lost] = flows.counted(None);
    let book = flows.book();
    let unsent: u64 = book.exported.iter().map(|one| one.unsent).sum();
    [
        ("flow_samples", "Packets sampled for collectors of flows", book.taken as f64),
        ("flow_samples_lost", "Samples that found no room before they were taken", lost as f64),
        ("flow_datagrams_unsent", "Datagrams to collectors of flows that Linux did not take", unsent as f64),
    ]
}
