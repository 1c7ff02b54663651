//! The function `router`: an IPv4 router, and the steps of its fast path as kinds of stages that a configuration may wire by hand.

#![forbid(unsafe_code)]

mod addresses;
mod answer;
mod bad;
mod cases;
mod check;
mod checker;
mod classify;
mod config;
mod control;
mod counters;
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
mod options;
mod pieces;
mod punt;
mod received;
mod recent;
mod request;
mod rewrite;
mod routing;
mod save;
mod shared;
mod show;
mod state;
mod static_routes;
mod steps;
mod table;

pub use config::{NeighborTimers, RouterConfig, RouterLimits, TableKind};
pub use function::Router;
pub use steps::{CheckConfig, Ipv4Check, Ipv4Rewrite, Ipv4Route, RewriteConfig, RouteConfig};
