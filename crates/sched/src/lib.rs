//! The hierarchical scheduler: who may send when, and what waits.
//!
//! | module | what |
//! |---|---|
//! | [`class`] | traffic class and queue as the lane between classification and scheduler has them |
//! | [`classify`] | class and queue of a frame, by DSCP, 802.1p and rules |
//! | [`codel`] | controlled delay (RFC 8289) |
//! | [`manage`] | what decides about packets of one queue beside its size: RED, CoDel |
//! | [`police`] | the stage that colours packets of users by meters |
//! | [`red`] | random early detection, by colour |
#![forbid(unsafe_code)]

pub mod class;
pub mod classify;
pub mod codel;
pub mod manage;
pub mod police;
pub mod red;
