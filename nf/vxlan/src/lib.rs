//! The function `vxlan`: carries Ethernet frames between its ports and VXLAN end points at other places (RFC 7348), as the far ends of tunnels that
//! look like ports to whatever is at the near ones. What users should know stands in its [manual](../../../docs/functions/vxlan.md).

#![forbid(unsafe_code)]

mod cases;
mod config;
mod decap;
mod encap;
mod function;
mod inner;
mod running;
mod tunnels;

pub use config::VxlanConfig;
pub use function::{Described, Vxlan};
pub use running::Running;
