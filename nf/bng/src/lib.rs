//! The function `bng`: a broadband network gateway. Customers come by two VLAN tags, and leave for the core in GRE and MPLS, or as
//! plain IP.

#![forbid(unsafe_code)]

mod absent;
mod config;
mod down;
mod encap;
mod examine;
#[allow(dead_code, reason = "the slow path that uses all of it comes next")]
mod fib;
mod function;
#[allow(dead_code, unused_imports, reason = "the slow path that uses all of it comes next")]
mod load;
mod loss;
mod ports;
mod punt;
#[allow(dead_code, unused_imports, reason = "the slow path that uses all of it comes next")]
mod registry;
#[allow(dead_code, unused_imports, reason = "the slow path that uses all of it comes next")]
mod request;
#[allow(dead_code, reason = "the slow path that uses all of it comes next")]
mod state;
#[allow(dead_code, unused_imports, reason = "the slow path that uses all of it comes next")]
mod table;
#[cfg(test)]
mod tests;
mod unwrap;
mod up;
mod wanted;
mod words;

pub use config::BngConfig;
pub use function::Bng;
