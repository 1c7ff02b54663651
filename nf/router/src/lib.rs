//! The function `router`: an IPv4 router.

#![forbid(unsafe_code)]

mod answer;
mod cases;
mod classify;
mod config;
mod control;
mod counters;
mod fib;
mod forward;
mod function;
mod hairpin;
mod load;
mod options;
mod pieces;
mod punt;
mod request;
mod routing;
mod show;
mod state;
mod table;

pub use config::{NeighborTimers, RouterConfig, RouterLimits, TableKind};
pub use function::Router;
