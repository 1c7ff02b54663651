//! The code that the documentation shows, so that it is compiled and tested: a stage, and a function around it.
//!
//! The tests of this crate see to it that every piece of Rust in a Markdown file is found in a source file, word by word,
//! and that links lead somewhere.

#![forbid(unsafe_code)]

pub mod hop;
pub mod ttl;

pub use hop::Hop;
pub use ttl::Ttl;
