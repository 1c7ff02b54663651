//! The function `forward`: what comes in by one port goes out by another, untouched or with its MAC addresses swapped.
//!
//! The baseline of everything: what a packet costs before anything is done with it.

#![forbid(unsafe_code)]

mod function;
mod no_path;
mod swap;
mod untouched;

pub use function::{Forward, ForwardConfig};
pub use no_path::NoPath;
pub use swap::Swap;
pub use untouched::Untouched;
