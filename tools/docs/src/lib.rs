//! The code that the documentation shows, so that it is compiled and tested. The tests of this crate see to it that every piece of
//! Rust in a Markdown file is found in a source file, word by word, and that links lead somewhere.
//!
//! The function hop: takes one hop off the TTL of what goes from one port to another.

#![forbid(unsafe_code)]

pub mod hop;
pub mod ttl;

pub use hop::Hop;
pub use ttl::Ttl;
