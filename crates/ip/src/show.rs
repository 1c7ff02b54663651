//! The tables that a running router shows.

mod interfaces;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_config::OneOrMany;
use weir_net::neighbor::own::OwnAddress;
use weir_net::neighbor::{Neighbor, State};
use weir_net::nexthop::Towards;
use weir_net::rib::Hop;
use weir_net::{RouteSource, VrfId};
use weir_stage::{Entry as _, RequestError, Show, ShowRows, columns, whole};

use crate::config::{Route, StatedNeighbor};
use crate::host::Differences;
use crate::pieces::{AllRoutes, pieces};
use crate::state::routing::{Network, Traffic, in_family};
use crate::state::shared::{Shared, lock};
use crate::state::{Control, Routable};

/// What can be shown.
pub static SHOWS: &[Show] = &[
    Show {
        what: "routes",
        columns: columns!(Route, "source", "active", "vrf"),
        help: "Routes. Filter: a prefix, an address (the routes that cover it), a VRF, a source, or `learned` for known hosts",
    },
    Show {
        what: "route-differences",
        columns: &["prefix", "linux", "weir", "vrf"],
        help: "What differs between the routes of Linux, where it speaks for a VRF, and those that Weir has of it: compared when it is asked for",
    },
    Show {
        what: "neighbors",
        columns: columns!(StatedNeighbor, "interface", "state", "source", "age", "vrf"),
        help: "Neighbours and where ARP or neighbour discovery stands with each; age in seconds. Filter: an address, interface, state, source or VRF",
    },
    Show {
        what: "nexthops",
        columns: &["index", "via", "interface", "packets", "bytes"],
        help: "Next hops, and inlets of the function, with what was forwarded by them. Filter: an address, an inlet or an interface",
    },
    Show {
        what: "addresses",
        columns: &["address", "interface", "link", "mtu", "mac", "probing", "usable", "rival", "vrf"],
        help: "The router's own addresses; one of IPv6 is usable once it was found to be nobody else's; `rival` is another station that was \
               heard using one",
    },
    Show {
        what: "vrfs",
        columns: &["name", "interfaces", "ipv4_routes", "ipv6_routes", "neighbors", "lookup_bytes"],
        help: "VRFs with what is in each: interfaces, prefixes that workers look up, neighbours, and memory for lookups",
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
            "vrf",
            "rx_packets",
            "rx_bytes",
            "tx_packets",
            "tx_bytes",
            "source",
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
            let others = [("a state", &states()[..]), ("a source", &sources()[..]), ("a VRF", &vrfs(control)[..])];
            check_word(control, what, filter, &others)?;
            Ok(pieces(shared, neighbors(control, filter), row))
        }
        "nexthops" => {
            let inlets: Vec<String> = control.function.inlets.iter().map(|inlet| format!("@{inlet}")).collect();
            let inlets: Vec<&str> = inlets.iter().map(String::as_str).collect();
            let others: &[_] = if inlets.is_empty() { &[] } else { &[("an inlet", inlets.as_slice())] };
            check_word(control, what, filter, others)?;
            Ok(pieces(shared, next_hops(control, filter), |control, traffic| Some(hop_row(control, traffic))))
        }
        "interfaces" => interfaces::rows(shared, control, filter),
        "addresses" | "fib" | "vrfs" | "route-differences" if filter.is_some() => {
            let word = filter.unwrap_or_default();
            Err(RequestError(format!(
                "\"{word}\" selects nothing: the table '{what}' is shown whole; leave the word out"
            )))
        }
        "addresses" => {
            let four = addresses(control, control.four.neighbors.own_addresses());
            let six = addresses(control, control.six.neighbors.own_addresses());
            Ok(whole(four.into_iter().chain(six).collect()))
        }
        "route-differences" if !control.hosts.are_any() => Err(RequestError(
            "no Linux speaks for a VRF of this function: give it `linux = { netns = \"...\" }`, see docs/linux.md"
                .to_owned(),
        )),
        "route-differences" => Ok(Box::new(Differences::new(shared))),
        "vrfs" => Ok(whole((0..control.vrfs.len() as VrfId).map(|vrf| vrf_row(control, vrf)).collect())),
        "fib" => Ok(whole(vec![fib(control)])),
        _ => Err(RequestError(format!("there is no table '{what}'"))),
    }
}

/// Names that a refusal lists at most.
const NAMED: usize = 16;

fn states() -> Vec<&'static str> {
    State::ALL.iter().map(|state| state.name()).collect()
}

/// Of neighbours; a function has none.
fn sources() -> Vec<&'static str> {
    let others = RouteSource::ALL.iter().filter(|source| **source != RouteSource::Function);
    others.map(|source| source.name()).collect()
}

fn vrfs(control: &Control) -> Vec<&str> {
    control.vrfs.iter().map(String::as_str).collect()
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
    if is_port || is_other || word.parse::<IpAddr>().is_ok() {
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
    let Some(word) = filter else {
        // Hosts that were found by ARP are shown as neighbours, as elsewhere.
        return Ok(Box::new(AllRoutes::new(shared, |_, source| source != RouteSource::Learned, route_row)));
    };
    if let Some(wanted) = control.source(word) {
        return Ok(Box::new(AllRoutes::new(shared, move |_, source| source == wanted, route_row)));
    }
    if let Some(wanted) = control.vrf(word) {
        let is_wanted = move |(vrf, _): Network, source| vrf == wanted && source != RouteSource::Learned;
        return Ok(Box::new(AllRoutes::new(shared, is_wanted, route_row)));
    }
    if let Ok(address) = word.parse::<IpAddr>() {
        let longest = IpNet::from(address).max_prefix_len();
        let around = (0..=longest).rev().filter_map(|length| IpNet::new(address, length).ok());
        return Ok(whole(rows_to(control, around.map(|net| net.trunc()))));
    }
    match <IpNet as weir_config::Scalar>::parse(word) {
        Ok(prefix) => Ok(whole(rows_to(control, [prefix].into_iter()))),
        Err(_) => Err(RequestError(format!(
            "\"{word}\" selects no routes; write a prefix, an address, a source ({}), or a VRF ({})",
            route_sources(control).join(", "),
            control.vrfs.join(", ")
        ))),
    }
}

/// What the sources of routes are called.
fn route_sources(control: &Control) -> Vec<&str> {
    let has_routes = !control.function.name.is_empty();
    let all = RouteSource::ALL.into_iter().filter(|source| has_routes || *source != RouteSource::Function);
    all.map(|source| control.source_name(source)).collect()
}

/// The routes of all sources to these prefixes, VRF by VRF.
fn rows_to(control: &Control, prefixes: impl Iterator<Item = IpNet> + Clone) -> Vec<Value> {
    let mut rows = Vec::new();
    for (vrf, prefix) in (0..control.vrfs.len() as VrfId).flat_map(|vrf| prefixes.clone().map(move |net| (vrf, net))) {
        let rib = control.routing.rib();
        let sources: Vec<RouteSource> =
            in_family!(prefix, net => rib.routes_to(vrf, net).map(|route| route.source()).collect());
        rows.extend(sources.into_iter().filter_map(|source| route_row(control, (vrf, prefix), source)));
    }
    rows
}

fn route_row(control: &Control, network: Network, source: RouteSource) -> Option<Value> {
    let (vrf, prefix) = network;
    let rib = control.routing.rib();
    let is_active = in_family!(prefix, net => {
        rib.routes_to(vrf, net).find(|route| route.source() == source).map(|route| route.is_installed())
    })?;
    let route = Route { prefix, via: OneOrMany(control.stated(network, source)?) };
    Some(route.row(json!({ "source": control.source_name(source), "active": is_active, "vrf": control.vrf_name(vrf) })))
}

fn neighbors(control: &Control, filter: Option<&str>) -> Vec<Neighbor<IpAddr>> {
    let chosen = control.neighbors().filter(|neighbor| {
        filter.is_none_or(|word| {
            let (address, port) = (neighbor.address.to_string(), control.name_of(neighbor.interface));
            let vrf = control.vrf_name(control.vrf_of(neighbor.interface));
            [address.as_str(), port, neighbor.state.name(), neighbor.source.name(), vrf].contains(&word)
        })
    });
    chosen.collect()
}

fn neighbor_row(control: &Control, neighbor: Neighbor<IpAddr>, now: u64) -> Value {
    json!({
        "address": neighbor.address.to_string(),
        "mac": neighbor.mac.map(|mac| mac.to_string()),
        "interface": control.name_of(neighbor.interface),
        "state": neighbor.state.name(),
        "source": neighbor.source.name(),
        "age": now.saturating_sub(neighbor.since) / 1_000_000_000,
        "vrf": control.vrf_name(control.vrf_of(neighbor.interface)),
    })
}

fn vrf_row(control: &Control, vrf: VrfId) -> Value {
    let tables = control.routing.table(vrf);
    let interfaces = control.interfaces.iter().filter(|interface| interface.wanted.vrf == vrf).count();
    let neighbors = control.neighbors().filter(|neighbor| control.vrf_of(neighbor.interface) == vrf).count();
    json!({
        "name": control.vrf_name(vrf),
        "interfaces": interfaces,
        "ipv4_routes": tables.map(|tables| tables.lens().0),
        "ipv6_routes": tables.map(|tables| tables.lens().1),
        "neighbors": neighbors,
        "lookup_bytes": tables.map(|tables| tables.memory().lookup),
    })
}

fn next_hops(control: &Control, filter: Option<&str>) -> Vec<Traffic> {
    let chosen = control.routing.traffic().filter(|traffic| {
        filter.is_none_or(|word| {
            let (via, interface) = hop_words(control, traffic.towards);
            // Of an inlet, all that the function is told.
            let is_of =
                |via: &str| word.starts_with('@') && via.split_once(':').is_some_and(|(inlet, _)| inlet == word);
            via.is_some_and(|via| via == word || is_of(&via)) || interface == Some(word)
        })
    });
    chosen.collect()
}

/// A next hop's gateway and interface, or an inlet.
fn hop_words(control: &Control, towards: Towards) -> (Option<String>, Option<&str>) {
    match towards {
        Towards::Link(hop) => (hop.gateway.map(|gateway| gateway.to_string()), Some(control.name_of(hop.interface))),
        Towards::Function(inlet) => (Some(control.via_of(Hop::Into(inlet)).to_string()), None),
    }
}

fn hop_row(control: &Control, traffic: Traffic) -> Value {
    let (via, interface) = hop_words(control, traffic.towards);
    json!({
        "index": traffic.index,
        "via": via,
        "interface": interface,
        "packets": traffic.packets,
        "bytes": traffic.bytes,
    })
}

fn addresses<A: Routable>(control: &Control, all: impl Iterator<Item = OwnAddress<A>>) -> Vec<Value> {
    let rows = all.map(|own| {
        let port = control.interfaces.get(own.assigned.interface());
        json!({
            "address": own.assigned.net().to_string(),
            "interface": port.map(|port| port.name()),
            "link": port.map(|port| if port.up { "up" } else { "down" }),
            "mtu": port.map(|port| port.mtu),
            "mac": port.map(|port| port.mac.to_string()),
            "probing": own.probing,
            "usable": own.usable,
            "rival": own.rival.map(|mac| mac.to_string()),
            "vrf": control.vrf_name(control.vrf_of(own.assigned.interface())),
        })
    });
    rows.collect()
}

fn fib(control: &Control) -> Value {
    let memory = control.routing.memory();
    json!({
        "prefixes": control.routing.prefixes(),
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
    let memory = control.routing.memory();
    let losses = control.hosts.all_frames().map(|frames| frames.losses());
    let (refused, lost) = losses.fold((0, 0), |(refused, lost), more| (refused + more.0, lost + more.1));
    vec![
        ("routes", "Routes of all sources", control.routing.rib().len() as f64),
        ("fib_prefixes", "Prefixes that workers look up in", control.routing.prefixes() as f64),
        ("fib_bytes", "Bytes that lookups touch at most", memory.lookup as f64),
        ("fib_unsettled", "Prefixes whose change waits for room in the table", control.routing.unsettled() as f64),
        ("next_hops", "Next hops in use", control.routing.rib().next_hop_count() as f64),
        ("neighbors", "Neighbours in the table", control.neighbors().count() as f64),
        (
            "longest_hold",
            "Most routes, hops and neighbours worked on at once, for which the slow path had to wait",
            shared.longest() as f64,
        ),
        (
            "linux_route_differences",
            "Routes that differed between Linux and Weir at the last comparison",
            control.hosts.differences() as f64,
        ),
        ("linux_frames_refused", "Frames for Linux that it did not take", refused as f64),
        ("linux_frames_lost", "Frames of Linux's that there was no buffer or interface for", lost as f64),
        ("duplicate_addresses", "Own addresses that another station was heard using", control.duplicates() as f64),
    ]
}
