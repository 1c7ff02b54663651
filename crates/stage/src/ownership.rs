//! Ownership: state that packets write has one owning worker, and this says whose it is and how packets get there.
//!
//! - [`Owners`], [`Own`]: whose a user is, and how a table says so in a word.
//! - [`Arrangement`]: what runs on which worker, where users have owners.
//! - [`Whose`], [`Balancer`]: the stage that brings packets to owners. A function says whose a packet is; all else is here.

pub mod arrangement;
pub mod balance;
pub mod owner;

pub use arrangement::Arrangement;
pub use balance::{Balancer, Whose};
pub use owner::{MAX_OWNERS, Own, Owners};
