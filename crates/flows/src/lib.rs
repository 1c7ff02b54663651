//! Sampled packets in the words of collectors: sFlow version 5 and IPFIX (RFC 7011). Data in, datagrams out: nothing here opens a socket or
//! reads a clock.
//!
//! - [`Sflow`]: samples and counters of interfaces in datagrams of sFlow version 5 (sflow.org, July 2004).
//! - [`Cache`]: samples of one flow ([`FlowKey`]) put together, within bounds.
//! - [`Ipfix`]: flows in messages of RFC 7011, with their templates and what collectors need to know beside.

#![forbid(unsafe_code)]

mod cache;
mod ipfix;
mod key;
mod sflow;

pub use cache::{Cache, EndReason, Ended, Limits};
pub use ipfix::{Ipfix, Names};
pub use key::FlowKey;
pub use sflow::Sflow;

/// Bytes of a datagram at most: it is to reach collectors in one piece, through tunnels too.
pub const DATAGRAM: usize = 1400;

/// The number of an interface as collectors see it: 0 is none.
const fn if_index(id: u16) -> u32 {
    id as u32 + 1
}
