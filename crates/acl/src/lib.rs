//! What access lists of all functions have in common, whatever their rules look at: a router's look at IP packets, a bridge's at frames.
//!
//! | module | what |
//! |---|---|
//! | [`request`] | `weir acl add` and `del`, the file of rules, and what is saved |
//! | [`numbered`] | the rules of a list as workers look them up, changed one by one |
//! | [`police`] | a rate that all workers keep together |
//! | [`recent`] | the last of what rules say to keep in mind |

#![forbid(unsafe_code)]

pub mod numbered;
pub mod police;
pub mod recent;
pub mod request;
