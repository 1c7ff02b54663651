//! Changes at run time: of routes, neighbours and interfaces.

mod interface;

pub(crate) use interface::saved as saved_interface;

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::Value;
use weir_config::MacAddress;
use weir_ip::InterfaceId;
use weir_net::rib::Hop;
use weir_net::{Author, DEFAULT_VRF};
use weir_stage::{Argument, Collection, Entries, RequestError, Verb, entries};
use weir_wire::MacAddr;

use crate::load::{check_gateway, networks};
use crate::shared::{CHANGES, Shared, lock};
use crate::state::Control;

const PREFIX: Argument =
    Argument { name: "prefix", keyword: None, required: true, many: false, help: "The prefix, such as 10.1.0.0/16" };

const VIA: Argument = Argument {
    name: "via",
    keyword: Some("via"),
    required: true,
    many: true,
    help: "The address of the next router; several share the traffic",
};

const ADDRESS: Argument =
    Argument { name: "address", keyword: None, required: true, many: false, help: "The neighbour's IPv4 address" };

const MAC: Argument = Argument {
    name: "mac",
    keyword: Some("mac"),
    required: true,
    many: false,
    help: "Its Ethernet address, such as 02:00:00:00:00:01",
};

/// The routes.
pub(crate) static ROUTES: Collection = Collection {
    noun: "route",
    key: "routes",
    is_list: false,
    file_key: "routes_csv",
    fields: &[PREFIX, VIA],
    has_labels: false,
};

/// Neighbours whose Ethernet addresses are entered, and not asked for.
pub(crate) static NEIGHBORS: Collection = Collection {
    noun: "neighbor",
    key: "neighbors",
    is_list: false,
    file_key: "neighbors",
    fields: &[ADDRESS, MAC],
    has_labels: false,
};

/// What can be asked for.
pub(crate) static VERBS: &[Verb] = &[
    Verb {
        noun: ROUTES.noun,
        action: "add",
        arguments: ROUTES.fields,
        help: "Adds a route, or replaces the one that was added to the same prefix before",
        batch: true,
    },
    Verb {
        noun: ROUTES.noun,
        action: "del",
        arguments: &[
            PREFIX,
            Argument { required: false, help: "Only these next hops; the whole route otherwise", ..VIA },
        ],
        help: "Deletes a route that was added at run time",
        batch: true,
    },
    Verb {
        noun: NEIGHBORS.noun,
        action: "add",
        arguments: NEIGHBORS.fields,
        help: "Enters a neighbour's Ethernet address, which is then not asked for by ARP",
        batch: true,
    },
    Verb {
        noun: NEIGHBORS.noun,
        action: "del",
        arguments: &[ADDRESS],
        help: "Forgets a neighbour; if packets want to go there it is asked for again",
        batch: true,
    },
    interface::ADD,
    interface::SET,
    interface::DEL,
];

/// How that is written.
pub(crate) static EXAMPLES: &[&str] = &[
    "route add 10.1.0.0/16 via 192.0.2.9  # by one next hop",
    "route add 10.2.0.0/16 via 192.0.2.9 192.0.2.10  # by two, which share the flows",
    "route del 10.2.0.0/16 via 192.0.2.10  # leaves the other",
    "route del 10.1.0.0/16  # takes it back",
    "route add --from routes.txt  # one in each line: 10.3.0.0/16 via 192.0.2.9",
    "neighbor add 192.0.2.9 mac 02:00:00:00:00:09  # without ARP",
    "neighbor del 192.0.2.9  # it is asked for again",
    "interface add lan.100 on lan vlan 100 address 10.0.100.1/24  # packets with the tag 100",
    "interface add lan.7.9 on lan vlan 7 inner-vlan 9 address 10.0.79.1/24  # with two: a service tag and a customer's",
    "interface set lan.100 mtu 1400  # longer packets are taken apart, or their sources told",
    "interface set lan.100 state down  # nothing comes or goes by it",
    "interface del lan.100  # with its addresses, neighbours, and routes by them",
];

/// One change, understood.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// Adds a route, or replaces its next hops.
    Route(Ipv4Net, Vec<Hop>),
    /// Deletes a route.
    NoRoute(Ipv4Net),
    Neighbor(InterfaceId, Ipv4Addr, MacAddr),
    NoNeighbor(InterfaceId, Ipv4Addr),
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
            Some(Change::Route(prefix, hops)) => {
                self.missing.replace(&mut self.routing, prefix, Author::Cli, &hops);
            }
            Some(other) => drop(apply(self, other, now)),
            None => {}
        }
    }
}

fn understand(control: &Control, verb: &str, arguments: &Value) -> Result<Change, String> {
    match verb {
        "route add" => {
            let (prefix, via) = route_of(control, arguments)?;
            if via.is_empty() {
                Err("via is missing; name at least one next hop".to_owned())
            } else {
                Ok(Change::Route(prefix, via))
            }
        }
        "route del" => {
            let (prefix, via) = route_of(control, arguments)?;
            let left = left_without(control, prefix, &via)?;
            Ok(if left.is_empty() { Change::NoRoute(prefix) } else { Change::Route(prefix, left) })
        }
        "neighbor add" => {
            let mut arguments = NEIGHBORS.arguments(arguments);
            let both = arguments.required::<Ipv4Addr>("address").zip(arguments.required::<MacAddress>("mac"));
            let (address, mac) = arguments.finish(both).map(|(address, mac)| (address, MacAddr(mac.octets())))?;
            let port = gateway(control, address)?;
            if mac.is_unicast() {
                Ok(Change::Neighbor(port, address, mac))
            } else {
                Err(format!("{mac} is not the address of one station"))
            }
        }
        "neighbor del" => {
            let mut arguments = NEIGHBORS.arguments(arguments);
            let address = arguments.required::<Ipv4Addr>("address");
            let address = arguments.finish(address)?;
            let known = control.neighbors.iter().find(|neighbor| neighbor.address == address);
            let neighbor = known.ok_or_else(|| format!("{address} is no neighbour; `show neighbors` lists them"))?;
            if neighbor.author == Author::Config {
                return Err(format!("neighbour {address} stands in the configuration; delete it there and reload"));
            }
            Ok(Change::NoNeighbor(neighbor.port, address))
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
        Change::Route(prefix, hops) => {
            let before = hops_of(control, prefix);
            let done = control.routing.replace(prefix, Author::Cli, &hops);
            done.map_err(|refusal| format!("{prefix}: {refusal}"))?;
            control.missing.forget(prefix, Author::Cli);
            Ok(Some(before.map_or(Change::NoRoute(prefix), |hops| Change::Route(prefix, hops))))
        }
        Change::NoRoute(prefix) => {
            let before = hops_of(control, prefix);
            let was_missing = control.missing.forget(prefix, Author::Cli);
            let done = control
                .routing
                .remove(prefix, Author::Cli)
                .or_else(|error| if was_missing { Ok(()) } else { Err(error) });
            done.map_err(|refusal| format!("{prefix}: {refusal}"))?;
            Ok(before.map(|hops| Change::Route(prefix, hops)))
        }
        Change::Neighbor(port, address, mac) => {
            let mut events = Vec::new();
            let before = control.neighbors.get(port, address).filter(|before| before.author == Author::Cli);
            let back = before.and_then(|before| Some(Change::Neighbor(port, address, before.mac?)));
            let added = control.neighbors.add_static(now, port, address, mac, Author::Cli, &mut events);
            control.absorb(events);
            if added {
                Ok(Some(back.unwrap_or(Change::NoNeighbor(port, address))))
            } else {
                Err(format!("{address} can not be a neighbour: the table is full, or no host can have the address"))
            }
        }
        Change::NoNeighbor(port, address) => {
            let mut events = Vec::new();
            let before = control.neighbors.get(port, address).filter(|before| before.author == Author::Cli);
            control.neighbors.remove(port, address, &mut events);
            control.absorb(events);
            Ok(before.and_then(|before| Some(Change::Neighbor(port, address, before.mac?))))
        }
        Change::Interface(change) => Ok(interface::apply(control, change, now)?.map(Change::Interface)),
    }
}

/// The prefix and the next hops that a request names.
fn route_of(control: &Control, arguments: &Value) -> Result<(Ipv4Net, Vec<Hop>), String> {
    let mut arguments = ROUTES.arguments(arguments);
    let (prefix, via) = (arguments.required::<Ipv4Net>("prefix"), arguments.list::<Ipv4Addr>("via"));
    let (prefix, via) = arguments.finish(prefix.zip(via))?;
    let hop = |address| gateway(control, address).map(|_| Hop::Via(address.into()));
    Ok((prefix, via.into_iter().map(hop).collect::<Result<_, _>>()?))
}

fn gateway(control: &Control, address: Ipv4Addr) -> Result<InterfaceId, String> {
    check_gateway(&control.addresses, address).map_err(|problem| format!("{problem}; {}", networks(&control.addresses)))
}

/// The next hops of the route that was added to this prefix at run time.
fn hops_of(control: &Control, prefix: Ipv4Net) -> Option<Vec<Hop>> {
    // One that there was no room for was added all the same, and replaces what was there.
    let missing = control.missing.hops(prefix, Author::Cli);
    missing.or_else(|| {
        let mut routes = control.routing.rib().routes_to(DEFAULT_VRF, prefix);
        let route = routes.find(|route| route.author() == Author::Cli)?;
        Some(route.hops().map(|(hop, _)| hop).collect())
    })
}

/// What is left of a route without some of its next hops; nothing if none are named.
fn left_without(control: &Control, prefix: Ipv4Net, via: &[Hop]) -> Result<Vec<Hop>, String> {
    let Some(hops) = hops_of(control, prefix) else {
        let other = control.routing.rib().routes_to(DEFAULT_VRF, prefix).next();
        return Err(match other.map(|route| route.author()) {
            Some(Author::Config) => {
                format!("the route to {prefix} stands in the configuration; delete it there and reload")
            }
            Some(author) => format!("the route to {prefix} is {author}; only those added at run time can be deleted"),
            None => format!("there is no route to {prefix}"),
        });
    };
    if let Some(stranger) = via.iter().find(|hop| !hops.contains(hop)) {
        return Err(format!("the route to {prefix} is not {stranger}"));
    }
    Ok(if via.is_empty() { Vec::new() } else { hops.into_iter().filter(|hop| !via.contains(hop)).collect() })
}
