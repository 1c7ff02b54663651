//! Changes at run time: of routes, neighbours and interfaces.

mod interface;

pub use interface::requested_tags;
pub(crate) use interface::saved as saved_interface;

use std::net::IpAddr;

use serde_json::Value;
use weir_config::OneOrMany;
use weir_net::{DEFAULT_VRF, RouteSource, VrfId};
use weir_stage::{Argument, Collection, Entries, Entry as _, RequestError, Verb, entries};
use weir_wire::MacAddr;

use crate::InterfaceId;
use crate::config::{Route, StatedNeighbor};
use crate::state::Control;
use crate::state::checks::{check_family, check_gateway, networks};
use crate::state::routing::{Network, in_family};
use crate::state::shared::{CHANGES, Shared, lock};
use crate::state::via::{NamedNeighbor, Via};

const VRF: Argument = Argument {
    name: "vrf",
    keyword: Some("vrf"),
    required: false,
    many: false,
    help: "The VRF; the default one when absent",
};

/// The routes.
pub(crate) static ROUTES: Collection = Collection {
    is_list: false,
    has_labels: false,
    ..Collection::of::<Route>("route", "routes").in_file("routes_csv")
};

/// Neighbours whose Ethernet addresses are entered, and not asked for.
pub(crate) static NEIGHBORS: Collection =
    Collection { is_list: false, has_labels: false, ..Collection::of::<StatedNeighbor>("neighbor", "neighbors") };

/// What can be asked for.
pub static VERBS: &[Verb] = &[
    ROUTES.verb(
        "add",
        const { &[Route::FIELDS[0], Route::FIELDS[1], VRF] },
        "Adds a route, or replaces the one that was added to the same prefix before",
    ),
    ROUTES.verb(
        "del",
        const {
            &[
                Route::FIELDS[0],
                Argument {
                    required: false,
                    help: "Only these next hops; the whole route otherwise",
                    ..Route::FIELDS[1]
                },
                VRF,
            ]
        },
        "Deletes a route that was added at run time",
    ),
    NEIGHBORS.verb(
        "add",
        const { &[StatedNeighbor::FIELDS[0], StatedNeighbor::FIELDS[1], VRF] },
        "Enters a neighbour's Ethernet address, which is then not asked for by ARP or neighbour discovery",
    ),
    NEIGHBORS.verb(
        "del",
        const { &[StatedNeighbor::FIELDS[0], VRF] },
        "Forgets a neighbour; if packets want to go there it is asked for again",
    ),
    interface::ADD,
    interface::SET,
    interface::DEL,
];

/// How that is written.
pub static EXAMPLES: &[&str] = &[
    "route add 10.1.0.0/16 via 192.0.2.9  # by one next hop",
    "route add 10.2.0.0/16 via 192.0.2.9 192.0.2.10  # by two, which share the flows",
    "route del 10.2.0.0/16 via 192.0.2.10  # leaves the other",
    "route del 10.1.0.0/16  # takes it back",
    "route add --from routes.txt  # one in each line: 10.3.0.0/16 via 192.0.2.9",
    "route add 2001:db8:1::/48 via fe80::9%lan  # by a link-local address, with its interface",
    "route add 10.4.0.0/16 via blackhole  # nowhere, silently; unreachable and prohibit tell the sender",
    "route add 10.5.0.0/16 via 198.51.100.9 vrf blue  # in another VRF",
    "neighbor add 192.0.2.9 mac 02:00:00:00:00:09  # without ARP",
    "neighbor del 192.0.2.9  # it is asked for again",
    "interface add lan.100 on lan vlan 100 address 10.0.100.1/24  # packets with the tag 100",
    "interface add lan.7.9 on lan vlan 7 inner-vlan 9 address 10.0.79.1/24  # with two: a service tag and a customer's",
    "interface set lan.100 mtu 1400  # longer packets are taken apart, or their sources told",
    "interface set lan.100 state down  # nothing comes or goes by it",
    "acl add edge rule deny from 203.0.113.0/24  # in front of all rules of the list edge",
    "acl add edge at 3 rule permit protocol tcp to 192.0.2.0/24 to-port 80,443  # as the third",
    "acl del edge at 3  # one that was added so",
    "prefix-set add bogons prefix 203.0.113.0/24 2001:db8:bad::/48  # rules with @bogons match these, too",
    "prefix-set del bogons prefix 203.0.113.0/24  # one that was added so",
    "interface del lan.100  # with its addresses, neighbours, and routes by them",
];

/// One change, understood.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// Adds a route, or replaces its next hops.
    Route(Network, Vec<Via>),
    /// Deletes a route.
    NoRoute(Network),
    Neighbor(InterfaceId, IpAddr, MacAddr),
    NoNeighbor(InterfaceId, IpAddr),
    Interface(interface::Change),
}

/// Carries out a request for one or many entries: in the end all of it or nothing. Nobody else changes what was added at run time, so
/// that others may have their turn in between.
pub(crate) fn carry_out(shared: &Shared, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
    entries::carry_out(|| lock(shared), CHANGES, (verb, arguments), now)
}

impl Entries for Control {
    type Undo = Option<Change>;

    fn change(&mut self, verb: &str, arguments: &Value, now: u64) -> Result<Self::Undo, String> {
        self.routing.tell_time(now);
        let change = understand(self, verb, arguments)?;
        apply(self, change, now)
    }

    /// A route that there is no room for any more is missing until there is.
    fn take_back(&mut self, undo: Self::Undo, now: u64) {
        match undo {
            Some(Change::Route(network, vias)) => self.want_route(network, RouteSource::Cli, &vias),
            Some(other) => drop(apply(self, other, now)),
            None => {}
        }
    }
}

fn understand(control: &Control, verb: &str, arguments: &Value) -> Result<Change, String> {
    match verb {
        "route add" => {
            let (network, via) = route_of(control, arguments)?;
            if via.is_empty() {
                return Err("via is missing; name at least one next hop".to_owned());
            }
            via.iter().try_for_each(|via| check_via(control, network, via))?;
            Ok(Change::Route(network, via))
        }
        "route del" => {
            let (network, via) = route_of(control, arguments)?;
            let left = left_without(control, network, &via)?;
            Ok(if left.is_empty() { Change::NoRoute(network) } else { Change::Route(network, left) })
        }
        "neighbor add" => {
            let vrf = vrf_of(control, arguments)?;
            let mut arguments = NEIGHBORS.arguments(arguments);
            let neighbor = StatedNeighbor::read_from(&mut arguments, None);
            let StatedNeighbor { address, mac } = arguments.finish(neighbor)?;
            let (port, mac) = (place_of(control, vrf, &address)?, MacAddr(mac.octets()));
            if mac.is_unicast() {
                Ok(Change::Neighbor(port, address.address, mac))
            } else {
                Err(format!("{mac} is not the address of one station"))
            }
        }
        "neighbor del" => {
            let vrf = vrf_of(control, arguments)?;
            let mut arguments = NEIGHBORS.arguments(arguments);
            let station = StatedNeighbor::read_key(&mut arguments);
            let (station,) = arguments.finish(station)?;
            let is_it = |port: InterfaceId| match &station.on {
                Some(name) => control.name_of(port) == &**name,
                None => control.vrf_of(port) == vrf,
            };
            let mut known =
                control.neighbors().filter(|known| known.address == station.address && is_it(known.interface));
            let neighbor =
                known.next().ok_or_else(|| format!("{station} is no neighbour; `show neighbors` lists them"))?;
            if known.next().is_some() {
                return Err(format!("{station} is a neighbour on several interfaces; write {station}%INTERFACE"));
            }
            if neighbor.source == RouteSource::Config {
                return Err(format!("neighbour {station} stands in the configuration; delete it there and reload"));
            }
            Ok(Change::NoNeighbor(neighbor.interface, neighbor.address))
        }
        verb => match verb.strip_prefix("interface ") {
            Some(action) => interface::understand(control, action, arguments).map(Change::Interface),
            None => Err(format!("there is no request '{verb}'")),
        },
    }
}

/// Carries out a change; answers what undoes it.
fn apply(control: &mut Control, change: Change, now: u64) -> Result<Option<Change>, String> {
    match change {
        Change::Route(network, vias) => {
            let before = control.stated(network, RouteSource::Cli);
            let done = control.set_route(network, RouteSource::Cli, &vias);
            done.map_err(|refusal| format!("{}: {refusal}", network.1))?;
            Ok(Some(before.map_or(Change::NoRoute(network), |vias| Change::Route(network, vias))))
        }
        Change::NoRoute(network) => {
            let before = control.stated(network, RouteSource::Cli);
            let was_missing = control.missing.forget(network, RouteSource::Cli);
            control.named.forget(network, RouteSource::Cli);
            let done = control
                .routing
                .remove(network, RouteSource::Cli)
                .or_else(|error| if was_missing { Ok(()) } else { Err(error) });
            done.map_err(|refusal| format!("{}: {refusal}", network.1))?;
            Ok(before.map(|vias| Change::Route(network, vias)))
        }
        Change::Neighbor(port, address, mac) => {
            let before = control.neighbor(port, address).filter(|before| before.source == RouteSource::Cli);
            let back = before.and_then(|before| Some(Change::Neighbor(port, address, before.mac?)));
            if control.add_neighbor(now, (port, address), mac, RouteSource::Cli) {
                Ok(Some(back.unwrap_or(Change::NoNeighbor(port, address))))
            } else {
                Err(format!("{address} can not be a neighbour: the table is full, or no host can have the address"))
            }
        }
        Change::NoNeighbor(port, address) => {
            let before = control.neighbor(port, address).filter(|before| before.source == RouteSource::Cli);
            control.remove_neighbors(&[(port, address)]);
            Ok(before.and_then(|before| Some(Change::Neighbor(port, address, before.mac?))))
        }
        Change::Interface(change) => Ok(interface::apply(control, change, now)?.map(Change::Interface)),
    }
}

/// The VRF that a request names.
fn vrf_of(control: &Control, arguments: &Value) -> Result<VrfId, String> {
    match arguments.get("vrf").filter(|value| !value.is_null()) {
        None => Ok(DEFAULT_VRF),
        Some(name) => find_vrf(control, name.as_str().unwrap_or_default()),
    }
}

/// The number of a VRF.
fn find_vrf(control: &Control, name: &str) -> Result<VrfId, String> {
    let found = control.vrf(name);
    found.ok_or_else(|| format!("there is no VRF \"{name}\"; write one of {}", control.vrfs.join(", ")))
}

/// The prefix and the next hops that a request names, of which there may be none.
fn route_of(control: &Control, arguments: &Value) -> Result<(Network, Vec<Via>), String> {
    let vrf = vrf_of(control, arguments)?;
    let mut arguments = ROUTES.arguments(arguments);
    let none = Route::read_key(&mut arguments).map(|(prefix,)| Route { prefix, via: OneOrMany::default() });
    let route = none.and_then(|none| Route::read_from(&mut arguments, Some(&none)));
    let Route { prefix, via } = arguments.finish(route)?;
    Ok(((vrf, prefix), via.0))
}

/// Whether a route may lead there.
fn check_via(control: &Control, (vrf, prefix): Network, via: &Via) -> Result<(), String> {
    check_family(prefix, via)?;
    match via {
        Via::Gateway(address) => gateway(control, vrf, *address).map(drop),
        Via::GatewayOn(_, name) | Via::On(name) => interface::find(control, name).map(drop),
        Via::Into(inlet, _) => control.function.check(inlet),
        Via::Discard(_) => Ok(()),
    }
}

/// The interface on whose link a neighbour is.
fn place_of(control: &Control, vrf: VrfId, station: &NamedNeighbor) -> Result<InterfaceId, String> {
    match &station.on {
        Some(name) => interface::find(control, name),
        None => gateway(control, vrf, station.address),
    }
}

fn gateway(control: &Control, vrf: VrfId, address: IpAddr) -> Result<InterfaceId, String> {
    let (four, six) = (control.four.addresses(vrf), control.six.addresses(vrf));
    let found = match address {
        IpAddr::V4(address) => check_gateway(four, address),
        IpAddr::V6(address) => check_gateway(six, address),
    };
    found.map_err(|problem| format!("{problem}; {}", networks(four, six)))
}

/// What is left of a route without some of its next hops; nothing if none are named.
fn left_without(control: &Control, network: Network, without: &[Via]) -> Result<Vec<Via>, String> {
    let (vrf, prefix) = network;
    // One that there was no room for was added all the same.
    let Some(stated) = control.stated(network, RouteSource::Cli) else {
        let rib = control.routing.rib();
        let other = in_family!(prefix, net => rib.routes_to(vrf, net).next().map(|route| route.source()));
        return Err(match other {
            Some(RouteSource::Config) => {
                format!("the route to {prefix} stands in the configuration; delete it there and reload")
            }
            Some(source) => format!("the route to {prefix} is {source}; only those added at run time can be deleted"),
            None => format!("there is no route to {prefix}"),
        });
    };
    if let Some(stranger) = without.iter().find(|via| !stated.contains(via)) {
        return Err(format!("the route to {prefix} is not via {stranger}"));
    }
    Ok(match without.is_empty() {
        true => Vec::new(),
        false => stated.into_iter().filter(|via| !without.contains(via)).collect(),
    })
}
