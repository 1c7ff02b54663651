//! The function `wiring`: stages wired by hand in the configuration, for experiments.
//!
//! It knows no kind of stage itself: the program hands it those of its catalogue. Beside it stand a few kinds that no other
//! function has a use for: [`Match`], [`Copy`], [`Discard`].

#![forbid(unsafe_code)]

mod cases;
mod copy;
mod discard;
mod function;
mod matching;
mod request;
mod running;
mod target;

pub use copy::Copy;
pub use discard::Discard;
pub use function::{Wiring, WiringConfig};
pub use matching::{Match, MatchConfig};
