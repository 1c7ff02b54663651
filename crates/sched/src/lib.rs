//! The hierarchical scheduler: who may send when, and what waits.
//!
//! | module | what |
//! |---|---|
//! | [`class`] | traffic class and queue as the lane between classification and scheduler has them |
//! | [`manage`] | what decides about packets of one queue beside its size: RED, CoDel |
#![forbid(unsafe_code)]

pub mod class;
pub mod manage;
