//! The tables that a running router shows.

mod interfaces;

use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::Ipv4Net;
use serde_json::{Value, json};
use weir_net::neighbor::{Neighbor, State};
use weir_net::rib::{Hop, RouteView};
use weir_net::{Author, DEFAULT_VRF};
use weir_stage::{RequestError, Show, ShowRows, whole};

use crate::pieces::{AllRoutes, pieces};
use crate::routing::Traffic;
use crate::shared::{Shared, lock};
use crate::state::Control;

/// What can be shown.
pub(crate) static SHOWS: &[Show] = &[
    Show {
        what: "routes",
        columns: &["prefix", "via", "author", "active"],
        help: "Routes. Filter: a prefix, an address (the routes that cover it), an author, or `learned` for known hosts",
    },
    Show {
        what: "neighbors",
        columns: &["address", "mac", "port", "state", "author", "age"],
        help: "Neighbours and where ARP stands with each; age in seconds. Filter: an address, port, state or author",
    },
    Show {
        what: "nexthops",
        columns: &["index", "via", "port", "packets", "bytes"],
        help: "Next hops with what was forwarded by them. Filter: an address or a port",
    },
    Show {
        what: "addresses",
        columns: &["address", "port", "link", "mtu", "mac", "probing", "rival"],
        help: "The router's own addresses; `rival` is another station that was heard using one",
    },
    Show {
        what: "interfaces",
        columns: &[
            "name",
            "port",
            "tags",
            "state",
            "link",
            "mtu",
            "mac",
            "addresses",
            "rx_packets",
            "rx_bytes",
            "tx_packets",
            "tx_bytes",
            "author",
            "unknown_tags",
        ],
        help: "Interfaces with what came in and left by each; `unknown_tags`: those that came last and no interface of the port has. \
               Filter: a name or a port",
    },
    Show {
        what: "fib",
        columns: &["prefixes", "next_hops", "groups", "lookup_bytes", "used_bytes", "control_bytes", "waiting"],
        help: "The tables that workers look up in, and the memory they take",
    },
];

/// The rows of a table.
pub(crate) fn rows(
    shared: &Arc<Shared>,
    what: &str,
    filter: Option<&str>,
    now: u64,
) -> Result<Box<dyn ShowRows>, RequestError> {
    let control = &*lock(shared);
    match what {
        "routes" => routes(shared, control, filter),
        "neighbors" => {
            let row = move |control: &Control, neighbor| Some(neighbor_row(control, neighbor, now));
            check_word(control, what, filter, &[("a state", &states()), ("an author", &authors())])?;
            Ok(pieces(shared, neighbors(control, filter), row))
        }
        "nexthops" => {
            check_word(control, what, filter, &[])?;
            Ok(pieces(shared, next_hops(control, filter), |control, traffic| Some(hop_row(control, traffic))))
        }
        "interfaces" => interfaces::rows(shared, control, filter),
        "addresses" | "fib" if filter.is_some() => {
            let word = filter.unwrap_or_default();
            Err(RequestError(format!(
                "\"{word}\" selects nothing: the table '{what}' is shown whole; leave the word out"
            )))
        }
        "addresses" => Ok(whole(addresses(control))),
        "fib" => Ok(whole(vec![fib(control)])),
        _ => Err(RequestError(format!("there is no table '{what}'"))),
    }
}

/// Names that a refusal lists at most.
const NAMED: usize = 16;

fn states() -> Vec<&'static str> {
    State::ALL.iter().map(|state| state.name()).collect()
}

fn authors() -> Vec<&'static str> {
    Author::ALL.iter().map(|author| author.name()).collect()
}

/// Whether a filter of `what` means something: an address, a port, or one of other words, by what they are. What it means may
/// have no rows at present.
fn check_word(
    control: &Control,
    what: &str,
    filter: Option<&str>,
    others: &[(&str, &[&str])],
) -> Result<(), RequestError> {
    let Some(word) = filter else { return Ok(()) };
    let is_port = control.interfaces.find(word).is_some();
    let is_other = others.iter().any(|(_, words)| words.contains(&word));
    if is_port || is_other || word.parse::<Ipv4Addr>().is_ok() {
        return Ok(());
    }
    let ports: Vec<&str> = control.interfaces.iter().take(NAMED).map(|interface| interface.name()).collect();
    let others = others.iter().map(|(kind, words)| format!(", {kind} ({})", words.join(", ")));
    Err(RequestError(format!(
        "\"{word}\" selects no {what}; write an address, an interface ({}){}",
        ports.join(", "),
        others.collect::<String>()
    )))
}

fn routes(shared: &Arc<Shared>, control: &Control, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
    let rib = control.routing.rib();
    let row = |route: RouteView<'_>| route_row(control, &route);
    let Some(word) = filter else {
        // Hosts that were found by ARP are shown as neighbours, as elsewhere.
        return Ok(Box::new(AllRoutes::new(shared, |author| author != Author::Learned, route_row)));
    };
    if let Ok(wanted) = Author::from_str(word) {
        return Ok(Box::new(AllRoutes::new(shared, move |author| author == wanted, route_row)));
    }
    if let Ok(address) = word.parse::<Ipv4Addr>() {
        let lengths = (0..=32).rev().filter_map(|length| Ipv4Net::new(address, length).ok());
        return Ok(whole(lengths.flat_map(|prefix| rib.routes_to(DEFAULT_VRF, prefix)).map(row).collect()));
    }
    match <Ipv4Net as weir_config::Scalar>::parse(word) {
        Ok(prefix) => Ok(whole(rib.routes_to(DEFAULT_VRF, prefix).map(row).collect())),
        Err(_) => Err(RequestError(format!(
            "\"{word}\" selects no routes; write a prefix, an address, or an author: connected, config, cli, linux, learned"
        ))),
    }
}

fn route_row(control: &Control, route: &RouteView<'_>) -> Value {
    let via = route.hops().map(|(hop, _)| match hop {
        Hop::On(port) => format!("port {}", control.name_of(port)),
        Hop::Via(gateway) => gateway.to_string(),
        Hop::Discard(discard) => discard.to_string(),
        Hop::ViaOn(gateway, port) => format!("{gateway} port {}", control.name_of(port)),
    });
    json!({
        "prefix": route.prefix().to_string(),
        "via": via.collect::<Vec<_>>(),
        "author": route.author().name(),
        "active": route.is_installed(),
    })
}

fn neighbors(control: &Control, filter: Option<&str>) -> Vec<Neighbor> {
    let chosen = control.neighbors.iter().filter(|neighbor| {
        filter.is_none_or(|word| {
            let address = neighbor.address.to_string();
            [address.as_str(), control.name_of(neighbor.port), neighbor.state.name(), neighbor.author.name()]
                .contains(&word)
        })
    });
    chosen.collect()
}

fn neighbor_row(control: &Control, neighbor: Neighbor, now: u64) -> Value {
    json!({
        "address": neighbor.address.to_string(),
        "mac": neighbor.mac.map(|mac| mac.to_string()),
        "port": control.name_of(neighbor.port),
        "state": neighbor.state.name(),
        "author": neighbor.author.name(),
        "age": now.saturating_sub(neighbor.since) / 1_000_000_000,
    })
}

fn next_hops(control: &Control, filter: Option<&str>) -> Vec<Traffic> {
    let chosen = control.routing.traffic().filter(|traffic| {
        filter.is_none_or(|word| {
            let via = traffic.next_hop.gateway.map(|gateway| gateway.to_string());
            via.as_deref() == Some(word) || control.name_of(traffic.next_hop.port) == word
        })
    });
    chosen.collect()
}

fn hop_row(control: &Control, traffic: Traffic) -> Value {
    json!({
        "index": traffic.index,
        "via": traffic.next_hop.gateway.map(|gateway| gateway.to_string()),
        "port": control.name_of(traffic.next_hop.port),
        "packets": traffic.packets,
        "bytes": traffic.bytes,
    })
}

fn addresses(control: &Control) -> Vec<Value> {
    let rows = control.neighbors.own_addresses().map(|own| {
        let port = control.interfaces.get(own.interface.port());
        json!({
            "address": own.interface.net().to_string(),
            "port": port.map(|port| port.name()),
            "link": port.map(|port| if port.up { "up" } else { "down" }),
            "mtu": port.map(|port| port.mtu),
            "mac": port.map(|port| port.mac.to_string()),
            "probing": own.probing,
            "rival": own.rival.map(|mac| mac.to_string()),
        })
    });
    rows.collect()
}

fn fib(control: &Control) -> Value {
    let memory = control.routing.table().memory();
    json!({
        "prefixes": control.routing.table().len(),
        "next_hops": control.routing.rib().next_hop_count(),
        "groups": control.routing.rib().group_count(),
        "lookup_bytes": memory.lookup + control.routing.fib().bytes(),
        "used_bytes": memory.used,
        "control_bytes": memory.control,
        "waiting": memory.waiting + control.routing.unsettled(),
    })
}

/// Facts for metrics.
pub(crate) fn gauges(shared: &Shared) -> Vec<(&'static str, &'static str, f64)> {
    let control = &*lock(shared);
    let memory = control.routing.table().memory();
    vec![
        ("routes", "Routes of all authors", control.routing.rib().len() as f64),
        ("fib_prefixes", "Prefixes that workers look up in", control.routing.table().len() as f64),
        ("fib_bytes", "Bytes that lookups touch at most", memory.lookup as f64),
        ("fib_unsettled", "Prefixes whose change waits for room in the table", control.routing.unsettled() as f64),
        ("next_hops", "Next hops in use", control.routing.rib().next_hop_count() as f64),
        ("neighbors", "Neighbours in the table", control.neighbors.len() as f64),
        (
            "longest_hold",
            "Most routes, hops and neighbours worked on at once, for which the slow path had to wait",
            shared.longest() as f64,
        ),
        ("duplicate_addresses", "Own addresses that another station was heard using", control.duplicates.len() as f64),
    ]
}
