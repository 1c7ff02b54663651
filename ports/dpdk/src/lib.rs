//! Ports driven by DPDK: Linux interfaces by AF_XDP, TAP, memif, vhost-user, virtio-user, DPDK's virtual devices, and network
//! cards. Linux interfaces by AF_PACKET have sockets of our own: DPDK's driver has the kernel put fragments together, and loses
//! what kind of tag a frame had.
//!
//! [`eal::Eal`] is started once per process, with memory of the size that [`ring_buffers`] and
//! [`memory_needed`] tell. [`DpdkPool`] is the pool of all packets then. [`attach`] makes a port of a [`Device`].
//!
//! Without the feature `dpdk` (on by default) the names are the same, and starting EAL says what to build.

mod device;
mod error;
mod memory;
mod options;

#[cfg(not(feature = "dpdk"))]
mod absent;

#[cfg(feature = "dpdk")]
mod access;
#[cfg(feature = "dpdk")]
mod bpf;
#[cfg(feature = "dpdk")]
mod claim;
#[cfg(feature = "dpdk")]
mod devargs;
#[cfg(feature = "dpdk")]
pub mod eal;
#[cfg(feature = "dpdk")]
mod ethdev;
#[cfg(feature = "dpdk")]
mod figures;
#[cfg(feature = "dpdk")]
mod gate;
#[cfg(feature = "dpdk")]
mod layout;
#[cfg(feature = "dpdk")]
mod netif;
#[cfg(feature = "dpdk")]
mod packet;
#[cfg(feature = "dpdk")]
mod patience;
#[cfg(feature = "dpdk")]
mod pool;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod queue;
#[cfg(feature = "dpdk")]
mod rx_interrupt;
#[cfg(feature = "dpdk")]
mod sockets;
#[cfg(feature = "dpdk")]
mod xsk;

pub use device::{Device, DeviceError, Kind, words};
pub use error::DpdkError;
pub use memory::{Megabytes, Pages, data_room_needed, longest_mtu, memory_needed, ring_buffers};
pub use options::{DESCRIPTORS, PortConfig};

#[cfg(not(feature = "dpdk"))]
pub use absent::{DpdkPool, attach, eal, usual_mtu};
#[cfg(feature = "dpdk")]
pub use pool::DpdkPool;
#[cfg(feature = "dpdk")]
pub use port::{attach, usual_mtu};
