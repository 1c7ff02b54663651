//! The function `forward`: what comes in by one port goes out by another, untouched or with its MAC addresses swapped.
//!
//! The baseline of everything: what a packet costs before anything is done with it.

#![forbid(unsafe_code)]

mod cases;
mod function;
mod no_path;
mod swap;
mod untouched;

pub use function::{Forward, ForwardConfig};
pub use no_path::NoPath;
pub use swap::Swap;
pub use untouched::Untouched;

/// The stages as kinds for configurations that wire stages by hand.
pub static KINDS: [weir_stage::Plain; 2] = [
    weir_stage::Plain {
        kind: "pass",
        doc: "Passes packets on as they are: for counting, tracing and capturing at a place of one's own.",
        make: || Box::new(Untouched),
    },
    weir_stage::Plain {
        kind: "swap-macs",
        doc: "Exchanges the source and destination MAC addresses, so that a packet goes back to where it came from.",
        make: || Box::new(Swap),
    },
];
