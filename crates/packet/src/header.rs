//! The buffer header: `rte_mbuf`'s layout (DPDK 22.11 to 25.11 on x86-64 and aarch64), so that DPDK's drivers and our
//! stages look at the same bytes. `ports/dpdk` asserts every offset against DPDK's own declaration.
//!
//! A buffer is `Header`, [`Private`], headroom, data: in this order, in one piece of memory.

use crate::lanes::Far;

/// The first 128 bytes of a buffer.
///
/// # Invariants
///
/// Whoever owns a buffer, as a [`crate::Packet`] or inside a [`crate::Batch`] or [`crate::Burst`], may rely on these:
///
/// 1. `buf_addr` points to `buf_len` bytes that are initialised, belong to this buffer alone and live as long as its pool.
/// 2. `data_off + REACH <= buf_len`: the fixed windows are inside the buffer, whatever the packet's length.
/// 3. `data_off + data_len <= buf_len`, and `pkt_len == data_len`.
/// 4. `refcnt == 1`, `nb_segs == 1`, `next` is null: one owner, one segment.
/// 5. A [`Private`] follows the header directly, and its `home` was set by the pool that made the buffer.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Header {
    /// Where the data room (headroom included) starts.
    pub buf_addr: *mut u8,
    /// Its address as devices see it.
    pub buf_iova: u64,
    /// Offset of the packet's first byte from `buf_addr`.
    pub data_off: u16,
    /// Owners; always 1 here.
    pub refcnt: u16,
    /// Segments; always 1 here.
    pub nb_segs: u16,
    /// The device port that a driver received it from; of a packet that is held, the [port](crate::Lanes::port) that it came in by.
    pub port: u16,
    /// Offload flags, `RTE_MBUF_F_*`.
    pub ol_flags: u64,
    /// Packet type as a driver reported it; of a packet that is held, lanes of a byte each.
    pub packet_type: [u8; 4],
    /// Bytes in all segments.
    pub pkt_len: u32,
    /// Bytes in this segment.
    pub data_len: u16,
    /// VLAN tag that a driver stripped.
    pub vlan_tci: u16,
    /// RSS hash and flow director union; of a packet that is held, the first claimed lanes.
    pub hash: [u32; 2],
    /// Outer VLAN tag that a driver stripped.
    pub vlan_tci_outer: u16,
    /// Bytes from `buf_addr` to the end of the buffer.
    pub buf_len: u16,
    /// The pool that DPDK knows; null in heap buffers.
    pub pool: *mut u8,
    /// Next segment; always null here.
    pub next: *mut Header,
    /// Lengths of the headers, for transmit offloads.
    pub tx_offload: u64,
    /// Shared information of external buffers; unused here.
    pub shinfo: *mut u8,
    /// Bytes between this header and the data room.
    pub priv_size: u16,
    /// Time-sync flags; unused here.
    pub timesync: u16,
    /// Dynamic fields of DPDK.
    pub dynfield1: [u32; 9],
}

const _: () = assert!(size_of::<Header>() == 128);

/// Our private area, directly behind [`Header`]: where lanes are saved while a packet is held or crosses a link, as far as there is no room for them
/// in the header's first line, which is at hand then.
#[repr(C, align(64))]
pub struct Private {
    /// Takes the buffer home when its owner lost it; set once by the pool.
    pub home: unsafe fn(*mut Header),
    pub(crate) far: Far,
}

/// Bytes of the private area: what a foreign pool (DPDK's) must be created with.
pub const PRIVATE_SIZE: usize = size_of::<Private>();

const _: () = assert!(PRIVATE_SIZE == 64);

impl Private {
    /// A private area with nothing saved in it.
    ///
    /// # Safety
    ///
    /// `home` must accept any buffer that satisfies the invariants of [`Header`] and carries this private area, from any
    /// thread.
    pub const unsafe fn new(home: unsafe fn(*mut Header)) -> Private {
        Private { home, far: Far::EMPTY }
    }
}
