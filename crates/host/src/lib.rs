//! The Linux side of the host that Weir runs on: its network interfaces, and what becomes of them; and its files.
//!
//! DPDK's AF_XDP and AF_PACKET drivers never notice that their interface went down or was deleted;
//! the kernel tells by netlink, and [`links::Watch`] listens.
//!
//! For routing daemons: [`tap`] makes the interfaces that they see, in a [`namespace`]; [`kernel`] and [`fpm`] tell the routes that they have
//! found.

#![deny(unsafe_code)]

pub mod features;
pub mod files;
pub mod fpm;
pub mod kernel;
pub mod links;
pub mod namespace;
mod netlink;
pub mod tap;
