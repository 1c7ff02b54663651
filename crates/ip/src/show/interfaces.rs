//! The table of interfaces.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_stage::{RequestError, ShowRows};

use super::NAMED;
use crate::pieces::pieces;
use crate::state::Control;
use crate::state::own::nets;
use crate::state::shared::Shared;
use crate::{Interface, InterfaceId, Tags};

/// The rows of all interfaces, or of the one that has a name, and all on the port that has it.
pub(super) fn rows(
    shared: &Arc<Shared>,
    control: &Control,
    filter: Option<&str>,
) -> Result<Box<dyn ShowRows>, RequestError> {
    let is_wanted = |interface: &&Interface| {
        filter.is_none_or(|word| interface.name() == word || port_of(control, interface) == Some(word))
    };
    let ids: Vec<InterfaceId> = control.interfaces.iter().filter(is_wanted).map(|interface| interface.id).collect();
    if let (Some(word), true) = (filter, ids.is_empty()) {
        let names: Vec<&str> = control.interfaces.iter().take(NAMED).map(Interface::name).collect();
        let more = if control.interfaces.len() > NAMED { ", ..." } else { "" };
        let names = names.join(", ");
        return Err(RequestError(format!("\"{word}\" selects no interfaces; write a name or a port ({names}{more})")));
    }
    let sent = control.routing.sent(ids.iter().copied());
    Ok(pieces(shared, ids, move |control: &Control, id| Some(row(control, control.interfaces.get(id)?, &sent))))
}

fn port_of<'c>(control: &'c Control, interface: &Interface) -> Option<&'c str> {
    let port = control.interfaces.ports().get(usize::from(interface.wanted.port?))?;
    Some(&port.name)
}

fn row(control: &Control, interface: &Interface, sent: &HashMap<InterfaceId, (u64, u64)>) -> Value {
    let port = interface.wanted.port.and_then(|port| control.interfaces.ports().get(usize::from(port)));
    let (rx_packets, rx_bytes) = control.ledger.received(interface.id);
    let (tx_packets, tx_bytes) = sent.get(&interface.id).copied().unwrap_or_default();
    let addresses: Vec<String> = nets(control, interface.id).iter().map(ToString::to_string).collect();
    // Of a port, not of each interface there: its untagged one stands for it.
    let unknown = port.filter(|_| interface.tags() == Tags::NONE);
    let unknown = unknown.and_then(|port| control.routing.fib().ingress().last_unknown(port.index));
    json!({
        "name": interface.name(),
        "port": port.map(|port| port.name.as_str()),
        "tags": (!interface.is_virtual()).then(|| interface.tags().to_string()),
        "state": if interface.wanted.enabled { "up" } else { "down" },
        "link": port.map(|port| if port.link { "up" } else { "down" }),
        "mtu": port.map(|_| interface.mtu),
        "mac": port.map(|port| port.mac.to_string()),
        "addresses": addresses,
        "vrf": control.vrf_name(interface.wanted.vrf),
        "rx_packets": rx_packets,
        "rx_bytes": rx_bytes,
        "tx_packets": tx_packets,
        "tx_bytes": tx_bytes,
        "source": control.ledger.source(interface.id).name(),
        "unknown_tags": unknown.map(|tags| tags.to_string()),
    })
}
