//! Packets, the batches they travel in, their metadata and the pools they come from.
//!
//! - [`header`]: the buffer header, in the layout of DPDK's `rte_mbuf`, and our private area behind it.
//! - [`Packet`]: the unique owner of one buffer. Not `Clone`; dropped by accident it goes home and is counted as a defect.
//! - [`Batch`]: up to 64 packets with a mask of the live ones, and the [`Lanes`] that hold what is known about each.
//! - [`Held`]: a packet that left its batch for a while, with its lanes saved in its buffer.
//! - [`Pool`]: where buffers come from; [`HeapPool`] is the one that needs nothing but memory.
//!
//! This crate is an unsafe island: it alone turns buffer addresses into byte slices. The invariants that make this sound are
//! written at [`header::Header`].

mod batch;
mod burst;
pub mod header;
mod heap;
mod lane_set;
mod lanes;
mod packet;
mod pool;

pub use batch::{Batch, Slots};
pub use burst::Burst;
pub use heap::HeapPool;
pub use lane_set::LaneSet;
pub use lanes::{Key, Lane, LaneId, Lanes, Slot, USER_LANES};
pub use packet::{Held, Packet, defects};
pub use pool::{Pool, buffers_needed};

/// Packets in a batch at most.
pub const BATCH: usize = 64;

/// Free bytes in front of the first byte of a fresh packet, for headers that are prepended (DPDK's default).
pub const HEADROOM: usize = 128;

/// Bytes behind the first byte of a packet that are inside its buffer whatever its length: what the fixed windows rest on.
pub const REACH: usize = 256;

/// The largest frame Weir handles: jumbo Ethernet as most devices have it.
pub const MAX_FRAME: usize = 9216;

/// The data room that every buffer has at least: DPDK's default, which holds any frame of a link with an MTU of 1500.
pub const DATA_ROOM: usize = 2048;
