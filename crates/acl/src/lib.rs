//! What access lists of all functions have in common, whatever their rules look at: a router's look at IP packets, a bridge's at frames.
//!
//! | module | what |
//! |---|---|
//! | [`request`] | `weir acl add` and `del`, the file of rules, and what is saved |
//! | [`numbered`] | the rules of a list as workers look them up, changed one by one |
//! | [`counters`] | packets and bytes by place, kept by each worker for itself; next hops are counted so, too |
//! | [`police`] | a rate that all workers keep together |
//! | [`recent`] | the last of what rules say to keep in mind |

#![forbid(unsafe_code)]

pub mod counters;
pub mod numbered;
pub mod police;
pub mod recent;
pub mod request;
