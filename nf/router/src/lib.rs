//! The function `router`: interfaces and VRFs of the network layer, and nothing beside them.

#![forbid(unsafe_code)]

mod cases;
mod config;
mod function;

pub use config::RouterConfig;
pub use function::Router;
