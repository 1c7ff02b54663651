//! The Linux side of the host that Weir runs on: its network interfaces, and what becomes of them; and its files.
//!
//! DPDK's AF_XDP and AF_PACKET drivers never notice that their interface went down or was deleted;
//! the kernel tells by netlink, and [`links::Watch`] listens.

#![forbid(unsafe_code)]

pub mod features;
pub mod files;
pub mod links;
mod netlink;
