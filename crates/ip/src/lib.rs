//! The network layer, where functions meet: interfaces and VRFs, routes of both families, neighbours, and the stages that forward packets
//! and answer for the addresses of the house.
//!
//! - [`Described`], [`Running`]: the layer of a function, as it is configured ([`Settings`]) and as it runs: its graph, verbs and shows.
//! - [`steps`]: steps of the fast path as kinds of stages that a configuration wires by hand.
//! - [`Tags`]: the VLAN tags that tell the interfaces of a port apart, and what stands in front of a network header.
//! - [`Ingress`]: to which interface a frame belongs that came in, as workers look it up.
//! - [`Egress`]: what stands in front of a packet that leaves by an interface.
//! - [`Demultiplex`]: hands the packets of a port that functions share to the one that has the interface.
//! - [`Interfaces`]: all interfaces by name and number; the control side's, the only writer of both.

#![forbid(unsafe_code)]

mod acl;
mod config;
pub mod demultiplex;
pub mod egress;
mod explain;
mod fast;
mod flows;
mod function_routes;
mod graph;
mod host;
pub mod ingress;
pub mod interfaces;
mod layer;
pub mod lines;
mod load;
mod onward;
mod pieces;
mod request;
mod save;
mod show;
mod slow;
mod state;
pub mod steps;
mod tables;
pub mod tags;
mod urpf;

pub use acl::{ACL_SHOWS, ACL_VERBS, AclConfig, AclSettings, Action, Rule};
pub use config::{Function, Limits, LinuxConfig, NO_FUNCTION, NeighborTimers, Settings, TableKind, Virtual, VrfConfig};
pub use demultiplex::{Demultiplex, infos_of, tags_of};
pub use egress::Egress;
pub use fast::inlet::InletKeys;
pub use fast::punt::{BatchPolicer, PuntPolicer, PuntReason, Punts};
pub use fast::received::{Arrivals, Arrived};
pub use fast::untag::{Came, Inward, Untagged};
pub use flows::{Discern, Discerned, FLOW_SHOWS, FlowExportConfig, Goes, Seen, flow_needs};
pub use function_routes::{FunctionRoutes, RouteChange};
pub use graph::{Below, Doors, Inlets, Stages};
pub use host::linux_needs;
pub use ingress::{Entered, Ingress, PortView};
pub use interfaces::{Fresh, Interface, Interfaces, Port, Refused, Tunnel};
pub use layer::{Described, Reach, Running};
pub use lines::{Line, LineLink, LineTally, Lines, Lost, Punt, Side};
pub use onward::{Behind, Departures, Fate, Leaving, Onward, OnwardView, Place};
pub use request::{EXAMPLES, VERBS, requested_tags};
pub use show::SHOWS;
pub use state::advertise::{Advertise, AdvertisedPrefix};
pub use state::via::{NamedNeighbor, Via};
pub use tags::{Front, Tag, Tags};
pub use urpf::ReversePath;
pub use weir_net::nexthop::Inlet;

/// The ways out of the slow path, by code: what became of packets there.
pub fn slow_ways() -> &'static [weir_stage::WayInfo] {
    <slow::Exit as weir_stage::Ways>::LIST
}

/// The number of an interface, below [`MAX_INTERFACES`].
pub type InterfaceId = u16;

/// The port that packets have which stages of a function hand to its own first ones, as if they had come in: that of no port.
pub const INSIDE: u16 = u16::MAX;

/// Interfaces of a function at most: the numbers above are words of their own in tables.
pub const MAX_INTERFACES: u16 = 0xff00;

/// The number of no interface.
pub const NO_INTERFACE: InterfaceId = u16::MAX;

/// Ports of a function at most.
pub const MAX_PORTS: usize = 64;
