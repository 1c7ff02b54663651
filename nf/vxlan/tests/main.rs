//! The tests of tunnels, in one program: each file is a module.

mod common;
mod config;
mod hostile;
mod tunnels;
mod twin;
