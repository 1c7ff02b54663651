//! The relay's tests, in one program: each file is a module.

mod acceptance;
mod changes;
mod common;
mod filters;
mod flows;
mod mutated;
mod relay;
mod routes;
mod tunnels;
mod twin;
