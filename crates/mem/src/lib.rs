//! Memory and time, below everything else.
//!
//! This crate is an unsafe island: it holds the few things a data plane needs that safe Rust cannot say, each behind
//! a safe interface, so that the crates above it can forbid unsafe code.
//!
//! | module | what |
//! |---|---|
//! | [`prefetch`] | cache hints |
//! | [`tsc`] | the time stamp counter, and nanoseconds from it |
//! | [`cell`] | values that share no cache line with others |
//! | [`arena`] | large zeroed slices, in huge pages when there are any |
//! | [`mod@ring`] | bounded single-producer, single-consumer queue |
//! | [`qsbr`] | grace periods: when may what readers could see be freed |

pub mod arena;
pub mod cell;
pub mod prefetch;
pub mod qsbr;
pub mod ring;
mod sync;
pub mod tsc;

pub use arena::HugeSlice;
pub use cell::CacheAligned;
pub use qsbr::{Domain, Published, Reader};
pub use ring::{Consumer, Producer, ring};
pub use tsc::Clock;
