//! How many buffers devices can hold, how large they must be, and how much memory that takes: known
//! before anything is started.

use std::fmt;

use crate::{Device, Kind};

/// Ethernet header and two VLAN tags: what a frame has on top of its MTU.
const FRAME_OVERHEAD: u32 = 14 + 8;
/// What the kernel keeps free in front of a frame that AF_XDP delivers (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM: u32 = 256;
/// The kernel takes buffers of at most a page for AF_XDP: the pool's header, rte_mbuf, our private area,
/// the headroom, and this. One cache line less than the page, for the pool wants an odd number of them.
#[cfg(feature = "dpdk")]
pub(crate) const XDP_DATA_ROOM: usize =
    4096 - 64 - (64 + 128 + weir_packet::header::PRIVATE_SIZE + weir_packet::HEADROOM);
/// Descriptors that the AF_XDP driver takes in either direction, whatever it is told.
const XDP_RING: u32 = 2048;
/// The longest frame of a link with this MTU, VLAN tags included.
pub(crate) const fn longest_frame(mtu: u16) -> u32 {
    mtu as u32 + FRAME_OVERHEAD
}

/// Bytes that buffers must hold behind their headroom for a device to run with this MTU.
pub fn data_room_needed(device: &Device, mtu: u16) -> usize {
    let room = match device.kind() {
        Kind::AfXdp => longest_frame(mtu) + XDP_HEADROOM,
        _ => longest_frame(mtu),
    };
    room as usize
}

/// The largest MTU that a device can run with when buffers have such a data room.
pub fn longest_mtu(device: &Device, data_room: usize) -> u16 {
    let fits = |mtu: &u16| data_room_needed(device, *mtu) <= data_room;
    let room = u16::try_from(data_room).unwrap_or(u16::MAX);
    (0..=room).rev().find(fits).unwrap_or(0)
}

/// Buffers that the rings of a device can hold, with so many queues and descriptors per queue: its
/// part of `rings` in [`weir_packet::buffers_needed`].
pub fn ring_buffers(device: &Device, rx_queues: u16, tx_queues: u16, descriptors: u16) -> usize {
    let (rx, tx) = (u32::from(rx_queues), u32::from(tx_queues));
    let held = match device.kind() {
        // The fill ring is kept full, and what was sent stays until the kernel gives it back. While a
        // burst is received its replacement is at hand already.
        Kind::AfXdp => rx.max(tx) * 2 * XDP_RING,
        // Both copy, and have nothing when a call returns.
        Kind::AfPacket | Kind::Null => 0,
        // One buffer waits for each packet to come; what is sent is copied.
        Kind::Tap => rx * u32::from(descriptors),
        // The rings hold the peer's buffers or copies; with zero-copy they hold ours.
        Kind::Memif | Kind::Vhost | Kind::VirtioUser | Kind::Vdev | Kind::Pci => (rx + tx) * u32::from(descriptors),
    };
    held as usize
}

/// Megabytes that DPDK needs, by the pages it gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Megabytes {
    /// In huge pages.
    pub huge: u32,
    /// In ordinary memory: enough for pages of 4 KiB, in which no buffer that is smaller than a page begins in one and ends in another, should
    /// the kernel have no huge pages to put it into.
    pub ordinary: u32,
}

impl Megabytes {
    /// Those of one kind.
    pub fn of(self, huge: bool) -> u32 {
        if huge { self.huge } else { self.ordinary }
    }
}

/// The pages that buffers are in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pages {
    /// Huge ones, which somebody had reserved.
    Reserved,
    /// Huge ones, which the kernel made of ordinary memory when it was asked (Linux 6.1).
    Made,
    /// Of 4 KiB: each packet costs more.
    Small,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pages::Reserved => "huge, reserved",
            Pages::Made => "huge, made by the kernel",
            Pages::Small => "4 KiB",
        })
    }
}

/// The memory for so many buffers of such a data room, and for what DPDK and its drivers need beside them.
pub fn memory_needed(buffers: usize, data_room: usize) -> Megabytes {
    /// EAL's and the drivers' own tables.
    const BESIDE: usize = 48 << 20;
    /// The pool's header in front of each buffer, rte_mbuf, our private area, the headroom, and the
    /// lines that spread buffers over memory channels.
    const PER_BUFFER: usize = 64 + 128 + weir_packet::header::PRIVATE_SIZE + weir_packet::HEADROOM + 4 * 64;
    const PAGE: usize = 4096;
    let each = data_room.saturating_add(PER_BUFFER);
    // As rte_mempool_op_calc_mem_size_helper has it.
    let paged = match PAGE / each {
        0 => each.next_multiple_of(PAGE),
        in_a_page => PAGE.div_ceil(in_a_page),
    };
    let megabytes = |each: usize| {
        let bytes = buffers.saturating_mul(each).saturating_add(BESIDE);
        u32::try_from(bytes >> 20).unwrap_or(u32::MAX).saturating_add(1)
    };
    Megabytes { huge: megabytes(each), ordinary: megabytes(paged.max(each)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(text: &str) -> Device {
        Device::parse(text).unwrap()
    }

    #[test]
    fn usual_frames_fit_usual_buffers_on_every_device() {
        for text in ["af_xdp:a", "af_packet:a", "tap:a", "null", "memif:1", "vhost:/v", "virtio_user:/v"] {
            let room = data_room_needed(&device(text), 1500);
            assert!((1514..=weir_packet::DATA_ROOM).contains(&room), "{text}: {room}");
        }
    }

    #[test]
    fn jumbo_frames_fit_the_largest_buffers() {
        for text in ["af_packet:a", "tap:a", "pci:0000:01:00.0"] {
            let room = data_room_needed(&device(text), 9000);
            assert!((9014..=weir_packet::MAX_FRAME).contains(&room), "{text}: {room}");
        }
    }

    #[test]
    fn the_longest_mtu_is_the_last_that_fits() {
        for text in ["af_xdp:a", "af_packet:a", "tap:a"] {
            for room in [0, 256, 2048, 9216] {
                let most = longest_mtu(&device(text), room);
                assert!(most == 0 || data_room_needed(&device(text), most) <= room, "{text} {room}");
                assert!(data_room_needed(&device(text), most + 1) > room, "{text} {room}");
            }
        }
    }

    #[test]
    fn devices_that_copy_hold_nothing() {
        assert_eq!(ring_buffers(&device("af_packet:a"), 4, 4, 1024), 0);
        assert_eq!(ring_buffers(&device("af_xdp:a"), 1, 1, 64), 4096);
        assert_eq!(ring_buffers(&device("pci:0000:01:00.0"), 2, 3, 512), 5 * 512);
    }

    #[test]
    fn memory_follows_the_buffers() {
        assert_eq!(memory_needed(0, 2048), Megabytes { huge: 49, ordinary: 49 });
        let one_gigabyte = memory_needed(400_000, 2048).huge;
        assert!((1024..1124).contains(&one_gigabyte), "{one_gigabyte}");
        assert_eq!(memory_needed(usize::MAX, 9216).huge, u32::MAX);
    }

    /// One buffer after the other, none across the end of a page if a page can hold it.
    #[test]
    fn ordinary_pages_have_room_for_all_buffers() {
        for room in [128, 512, 1024, 2048, 9216] {
            let each = memory_needed(1 << 20, room).huge as usize - 49;
            let (mut pages, mut left) = (0, 0);
            for _ in 0..10_000 {
                if left < each {
                    pages += each.div_ceil(4096);
                    left = 4096;
                }
                left = left.saturating_sub(each);
            }
            let needed = memory_needed(10_000, room).ordinary as usize - 48;
            assert!((pages * 4096).div_ceil(1 << 20) <= needed, "{room}: {pages} pages, {needed} MB");
            assert!(pages * 4096 > (needed - 2) << 20, "{room}: {pages} pages, {needed} MB");
        }
    }
}
