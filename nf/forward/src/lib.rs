//! The function `forward`: what comes in by one port goes out by another, untouched or with its MAC addresses swapped.
//!
//! The baseline of everything: what a packet costs before anything is done with it.

#![forbid(unsafe_code)]

mod cases;
mod function;
mod swap;
mod untouched;

pub use function::{Forward, ForwardConfig};
pub use swap::Swap;
pub use untouched::Untouched;
use weir_stage::Plain;

/// The stages as kinds for configurations that wire stages by hand.
pub static KINDS: [Plain; 2] = [
    Plain::of::<Untouched>(
        "pass",
        "Passes packets on as they are: for counting, tracing and capturing at a place of one's own.",
    ),
    Plain::of::<Swap>(
        "swap-macs",
        "Exchanges the source and destination MAC addresses, so that a packet goes back to where it came from.",
    ),
];
