//! The fast path: the stages that forward packets, and what they are made of.

pub(crate) mod bad;
pub(crate) mod by_interface;
pub(crate) mod check;
pub(crate) mod checker;
pub(crate) mod classify;
pub(crate) mod ends;
pub(crate) mod examine;
pub(crate) mod expected;
pub(crate) mod forward;
pub(crate) mod hairpin;
pub(crate) mod host;
pub(crate) mod inlet;
pub(crate) mod lookups;
pub(crate) mod path;
pub(crate) mod punt;
pub(crate) mod received;
pub(crate) mod rewrite;
pub(crate) mod scope;
pub(crate) mod send;
pub(crate) mod six;
pub(crate) mod untag;
