//! The function `bng`: a broadband network gateway. Customers come by two VLAN tags, and leave for the core in GRE and MPLS, or as
//! plain IP.

#![forbid(unsafe_code)]

#[allow(dead_code, unused_imports, reason = "the stages that use all of it come next")]
mod load;
#[allow(dead_code, unused_imports, reason = "the stages that use all of it come next")]
mod registry;
#[allow(dead_code, unused_imports, reason = "the stages that use all of it come next")]
mod request;
#[allow(dead_code, unused_imports, reason = "the stages that use all of it come next")]
mod table;
#[allow(dead_code, unused_imports, reason = "the stages that use all of it come next")]
mod words;

pub use words::{Source4, Source6};
