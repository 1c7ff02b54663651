//! Everything in Weir that parses bytes from outside, put to arbitrary bytes.
//!
//! - [`targets`]: what is fuzzed. A target takes any bytes; it panics where a promise is broken, and says whether the bytes got
//!   past the first check, so that a run can tell that it did not only knock at the door.
//! - [`mutate`]: makes inputs from a corpus; each is a function of seed and number only.
//!
//! The program `weir-fuzz` runs the targets on stable Rust, each in a process of its own, with a fixed number of inputs.
//! cargo-fuzz runs the same targets: see `fuzz/fuzz_targets`.

#![forbid(unsafe_code)]

pub mod mutate;
pub mod targets;
