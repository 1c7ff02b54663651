//! The function `router`: a router of IPv4 and IPv6, and the steps of its fast path as kinds of stages that a configuration may wire by hand.

#![forbid(unsafe_code)]

mod addresses;
mod advertise;
mod answer;
mod bad;
mod cases;
mod check;
mod checker;
mod checks;
mod classify;
mod config;
mod control;
mod counters;
mod examine;
mod explain;
mod fib;
mod forward;
mod function;
mod graph;
mod hairpin;
mod links;
mod load;
mod lookups;
mod missing;
mod named;
mod options;
mod own;
mod path;
mod pieces;
mod punt;
mod received;
mod recent;
mod request;
mod rewrite;
mod routing;
mod save;
mod scope;
mod shared;
mod show;
mod six;
mod state;
mod static_routes;
mod steps;
mod table;
mod via;

pub use advertise::{Advertise, AdvertisedPrefix};
pub use config::{NeighborTimers, RouterConfig, RouterLimits, TableKind, VrfConfig};
pub use function::Router;
pub use steps::{CheckConfig, Ipv4Check, Ipv4Rewrite, Ipv4Route, RewriteConfig, RouteConfig};
pub use via::{NamedNeighbor, Via};
