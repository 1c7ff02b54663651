//! Generic lookup tables, each beside its slow twin.
//!
//! Tables know nothing of what their values mean. One control thread writes them ([`mac`]: workers, too); workers read them at the same
//! time, without locks. Looking up is by batch.
//!
//! | module | what |
//! |---|---|
//! | [`bits`] | a set of numbers whose next and last are found at once |
//! | [`classifier`] | the first of many rules that matches: masks and ranges over several words |
//! | [`counters`] | packets and bytes by place, kept by each worker for itself |
//! | [`exact`] | from the hash of a key to its record |
//! | [`free_list`] | numbers of records that nobody has, or of which readers may still look at the last content |
//! | [`indexed`] | slices in which a wrong index does no harm |
//! | [`links`] | lists over numbers, with one link per number |
//! | [`lpm4`] | longest prefix match for IPv4 |
//! | [`lpm6`] | longest prefix match for IPv6 |
//! | [`mac`] | where stations are: from an Ethernet address and a VLAN to a port; workers learn |
//! | [`meter`] | colours packets by rate (RFC 2697, 2698, 4115) |
//! | [`numbers`] | values of whole numbers, written while workers look up |
//! | [`rates`] | rates that single meters have of their own |
//! | [`wheel`] | numbers that come out again when they are due |
#![forbid(unsafe_code)]

pub mod bits;
pub mod classifier;
pub mod counters;
pub mod exact;
pub mod free_list;
pub mod indexed;
pub mod links;
pub mod lpm4;
pub mod lpm6;
pub mod mac;
pub mod meter;
pub mod numbers;
mod quarantine;
pub mod rates;
mod unrolled;
pub mod wheel;
