//! What workers read and the control side writes: prefixes, adjacencies, counters.

pub(crate) mod fib;
pub(crate) mod prefixes;

pub(crate) use weir_acl::counters;
