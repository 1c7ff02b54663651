//! The switch's tests, in one program: each file is a module.

mod channel;
mod common;
mod config;
mod decisions;
mod hostile;
mod twin;
