//! Stages that are hard for the contract: each shows that something can be said in it, and that no packet is lost when it is.
//!
//! They are as small as they can be and stand for what real functions do: a switch floods, a router holds packets for a
//! neighbour and cuts them to size, a scheduler releases by time, a generator makes packets from nothing.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod again;
mod flood;
mod fragment;
mod generator;
mod lanes;
mod mirror;
mod neighbour;
mod shaper;
mod tally;
