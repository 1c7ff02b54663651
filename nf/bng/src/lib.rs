//! The function `bng`: a broadband network gateway. Customers come by two VLAN tags, and leave for the core in GRE and MPLS, or as
//! plain IP.

#![forbid(unsafe_code)]

mod across;
mod balance;
mod cases;
mod config;
mod control;
mod core;
mod decapsulate;
mod downstream;
mod encap;
mod examine;
mod flows;
mod frame;
mod function;
mod graph;
mod history;
mod identification;
mod identify;
mod led;
mod lines;
mod load;
mod loss;
mod marking;
mod notice;
mod ports;
mod punt;
mod qos;
mod registry;
mod request;
mod round;
mod running;
mod save;
mod shared_ports;
mod show;
mod six;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod upstream;
mod wanted;
mod words;

pub use config::BngConfig;
pub use function::Bng;
