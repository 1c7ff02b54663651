//! Per-stream statistics: what a packet carries to be measured, and what its receiver makes of it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`signature`] | stream, sequence number and time stamp at the end of a packet's payload, in 18, 14 or 10 bytes |
//! | [`StreamStats`], [`Receiver`] | loss, copies, order, delay and its variation, gaps: of one stream, of all |
//! | [`StreamReport`] | the same as numbers with units |
//! | [`Distribution`], [`Spread`] | how values are distributed |
//! | [`Series`] | packets and bytes over time |
//! | [`TokenBucket`] | whether packets keep to a rate and a burst |

#![forbid(unsafe_code)]

mod conformance;
mod delay;
mod distribution;
mod order;
mod receiver;
mod report;
mod series;
pub mod signature;
mod sparse;
mod stream;
mod window;

pub use conformance::{Conformance, TokenBucket};
pub use distribution::{Distribution, Spread};
pub use receiver::{MAX_STREAMS, Receiver};
pub use report::{LossReport, OrderReport, StreamReport};
pub use series::Series;
pub use stream::{Counts, Rules, StreamStats};
