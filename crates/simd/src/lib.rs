//! Vector kernels, each beside its scalar twin.
//!
//! This crate is an unsafe island. One binary serves every CPU: a [`Kernel`] says what the CPU has been found to have,
//! the kernels take it as an argument and choose by it, and tests force each by name against the scalar twin.
//!
//! | module | what |
//! |---|---|
//! | [`cpu`] | what this CPU has, and running safe code compiled for it |
//! | [`eight`] | the first of eight rules that each of up to 64 keys matches |
//! | [`frame_check`] | validates up to 64 Ethernet frames that carry plain IPv4 to this station |
//! | [`plain6`] | the same for IPv6 |

pub mod cpu;
pub mod eight;
pub mod frame_check;
mod ipv4;
pub mod plain4;
pub mod plain6;

pub use cpu::Kernel;
