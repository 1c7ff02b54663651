//! The generator's tests, in one program: each file is a module.

mod common;
mod config;
mod neighbors;
mod packets;
mod softwires;
mod time;
