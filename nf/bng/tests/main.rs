//! The gateway's tests, in one program: each file is a module.

mod access_interfaces;
mod both_directions;
mod common;
mod conditioning;
mod config;
mod core;
mod flow_export;
mod flows;
mod history;
mod hostile;
mod hosts;
mod identifications;
mod ipv6;
mod layouts;
mod mutated;
mod notices;
mod outer_fragments;
mod routes;
mod save;
mod slow_path;
mod tags;
