//! What workers read and the control side writes: prefixes, adjacencies.

pub(crate) mod fib;
pub(crate) mod prefixes;
