//! The hierarchical scheduler: who may send when, and what waits.
//!
//! | module | what |
//! |---|---|
//! | [`ahead`] | what will be needed of memory, asked for ahead |
//! | [`class`] | traffic class and queue as the lane between classification and scheduler has them |
//! | [`classify`] | class and queue of a frame, by DSCP, 802.1p and rules |
//! | [`codel`] | controlled delay (RFC 8289) |
//! | [`config`] | what a user writes about shaping |
//! | [`dual`] | queues with two lines (L4S, RFC 9332) |
//! | [`ecn`] | the mark of congestion (RFC 3168) |
//! | [`flows`] | the flows of fair queues (FQ-CoDel, RFC 8290) |
//! | [`fork`] | the stage that tells directions apart behind a scheduler of both |
//! | [`gates`] | what became of each user's packets, beside what lets them pass |
//! | [`history`] | what was seen of one user lately, as it is told |
//! | [`hold`] | what holds a user back, and since when |
//! | [`l4s`] | what couples the two lines of a queue (RFC 9332) |
//! | [`levels`] | what must hold of subports below others |
//! | [`limit`] | the stage that lets so many packets a second through |
//! | [`manage`] | what decides about packets of one queue beside its size: RED, CoDel |
//! | [`offer`] | what is offered to the scheduler, and what becomes of it |
//! | [`police`] | the stage that colours packets of users by meters |
//! | [`profile`] | what users may send |
//! | [`rate`] | token buckets as times |
//! | [`red`] | random early detection, by colour |
//! | [`remark`] | the stage that gives packets other DSCPs and priorities |
//! | [`scheduler`] | the scheduler as a plain data structure over anything that has a length |
//! | [`shaper`] | the stage around it |
//! | [`shaping`] | its control side: who has which profile |
//! | [`watch`] | what becomes of the packets of a few users whom somebody asks about |
//! | [`simulation`] | users who send to a scheduler in simulated time, to hold it to its promises |
#![forbid(unsafe_code)]

mod admit;
pub mod ahead;
mod aside;
mod claimed;
pub mod class;
pub mod classify;
pub mod codel;
pub mod config;
mod dequeue;
pub mod dual;
pub mod ecn;
mod enqueue;
mod fair;
mod flow;
pub mod flows;
pub mod fork;
pub mod gates;
mod heavy;
pub mod history;
pub mod hold;
mod inside;
mod judge;
pub mod l4s;
pub mod levels;
pub mod limit;
mod lines;
pub mod manage;
mod nest;
pub mod offer;
mod orders;
mod parts;
mod plain;
pub mod police;
pub mod profile;
mod promises;
pub mod rate;
pub mod red;
pub mod remark;
pub mod scheduler;
pub mod shaper;
pub mod shaping;
mod share;
mod sharing;
pub mod simulation;
mod slab;
mod splits;
mod standing;
mod state;
mod straight;
mod tree;
mod users;
pub mod watch;
