//! Routes, next hops and neighbours of both families as data, and the control messages that go with them.
//!
//! Nothing here does I/O, reads a clock or knows a packet buffer: a caller feeds what happened (`now` in nanoseconds
//! where time matters) and carries out what is answered.
//!
//! | module | what it holds |
//! |---|---|
//! | [`family`] | IPv4 and IPv6 by one name |
//! | [`vrf`] | the numbers of VRFs |
//! | [`route_source`] | who made an entry, and who is preferred |
//! | [`interface`] | an address on an interface: own, broadcast, network, on link |
//! | [`rib`] | the routes of all sources; what of them the FIB must hold, as a list of changes |
//! | [`nexthop`] | (interface, gateway) pairs, and inlets of functions, behind numbers that know when they were reused |
//! | [`group`] | equal-cost sets with sticky buckets |
//! | [`neighbor`] | ARP (RFC 826) and neighbour discovery with the states of RFC 4861, own addresses after RFC 5227 and RFC 4862 |
//! | [`advertise`] | when a router tells hosts of itself, RFC 4861 section 6.2 |
//! | [`icmp`] | echo replies and errors, and when none may be sent |
//! | [`icmp6`] | the same for IPv6 |
//! | [`fragment`] | fragmentation: RFC 791, and RFC 8200 section 4.5 |
//! | [`reassembly`] | reassembly: RFC 791, and RFC 8200 section 4.5 |
//! | [`limit`] | token buckets |
//! | [`listener`] | multicast groups that the router listens to, RFC 3810 |
//! | [`mirror`] | what messages tell of another routing table, the kernel's or a daemon's |
//! | [`pending`] | what waits for an answer |

#![forbid(unsafe_code)]

pub mod advertise;
pub mod family;
pub mod fragment;
pub mod group;
pub mod icmp;
pub mod icmp6;
pub mod interface;
pub mod limit;
pub mod listener;
pub mod mirror;
pub mod neighbor;
pub mod nexthop;
pub mod pending;
pub mod reassembly;
pub mod rib;
pub mod route_source;
pub mod vrf;

mod slots;
mod spread;

pub use family::{Family, Prefix};
pub use interface::{InterfaceAddress, InterfaceId};
pub use route_source::RouteSource;
pub use vrf::{DEFAULT_VRF, VrfId};
