//! A receive ring that is shared with the kernel (`TPACKET_V2`, packet(7)): slots of one size, each with a word that says whose
//! it is.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::socket::set_option;
use crate::memory::longest_frame;

/// Slots in a block: sixteen multiples of 256 bytes are whole pages.
const SLOTS_PER_BLOCK: usize = 16;
/// Slots of a ring for usual frames; a ring for longer ones has a quarter.
const SLOTS: usize = 2048;
/// What stands in front of a frame at most: `TPACKET2_HDRLEN`, what is known of its checksum, and alignment up to the network
/// header.
const IN_FRONT: u32 = 80;
/// Bytes of `struct virtio_net_hdr`, which ends where the frame begins.
const VIRTIO_HEADER: usize = 10;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;

/// The size of a slot for frames of this MTU.
const fn slot_size(mtu: u16) -> usize {
    let least = (longest_frame(mtu) + IN_FRONT).next_multiple_of(256) as usize;
    if least < 2048 { 2048 } else { least }
}

/// A frame as the kernel handed it over.
pub(super) struct Arrived<'a> {
    /// What was received, less a tag that the kernel took off.
    pub(super) bytes: &'a [u8],
    /// How long it was.
    pub(super) length: usize,
    /// The outermost tag: its EtherType and its TCI.
    pub(super) tag: Option<(u16, u16)>,
    /// Several segments of a stream in one frame (TSO or GRO).
    pub(super) merged: bool,
    /// Where a checksum is unfinished: from where on it sums up, and where it stands.
    pub(super) checksum: Option<(usize, usize)>,
}

/// The ring of one socket, mapped.
pub(super) struct Ring {
    memory: NonNull<u8>,
    slot: usize,
    slots: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Ring {}
// SAFETY: what is not an atomic is read only while the slot is ours.
unsafe impl Sync for Ring {}

impl Ring {
    /// Gives a socket a ring for frames of this MTU.
    pub(super) fn make(socket: &OwnedFd, mtu: u16) -> io::Result<Ring> {
        let slot = slot_size(mtu);
        let slots = if slot > 2048 { SLOTS / 4 } else { SLOTS };
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let request = libc::tpacket_req {
            tp_block_size: small(slot * SLOTS_PER_BLOCK),
            tp_block_nr: small(slots / SLOTS_PER_BLOCK),
            tp_frame_size: small(slot),
            tp_frame_nr: small(slots),
        };
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (both, fd) = (libc::PROT_READ | libc::PROT_WRITE, socket.as_raw_fd());
        // SAFETY: a new mapping at a place of the kernel's choice.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), slot * slots, both, libc::MAP_SHARED, fd, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(memory.cast()).map(|memory| Ring { memory, slot, slots }).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// The slot after this one.
    pub(super) fn after(&self, at: usize) -> usize {
        (at + 1) % self.slots
    }

    /// The frame in a slot, if the kernel has put one there. `None` inside when what the kernel says of it makes no sense.
    pub(super) fn look(&self, at: usize) -> Option<Option<Arrived<'_>>> {
        // R1: with the kernel's write barrier before it sets the word.
        let status = self.status(at).load(Ordering::Acquire);
        (status & libc::TP_STATUS_USER != 0).then(|| self.read(at, status))
    }

    fn read(&self, at: usize, status: u32) -> Option<Arrived<'_>> {
        let start = self.start(at);
        // SAFETY: the header begins a slot, which is inside the mapping, aligned to 256, and ours until it is given back.
        let header = unsafe { start.cast::<libc::tpacket2_hdr>().read_volatile() };
        let (from, kept) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        if from < VIRTIO_HEADER || from + kept > self.slot || kept < 14 {
            return None;
        }
        // SAFETY: from `from - VIRTIO_HEADER` to `from + kept` is inside the slot (checked above).
        let known = unsafe { start.add(from - VIRTIO_HEADER) };
        // SAFETY: as above; the kernel writes no slot that is ours, and nobody else does.
        let known = unsafe { std::slice::from_raw_parts(known.as_ptr(), VIRTIO_HEADER + kept) };
        let (facts, bytes) = known.split_at_checked(VIRTIO_HEADER)?;
        let pair = |at: usize| Some(u16::from_ne_bytes(*facts.get(at..)?.first_chunk()?));
        let (&flags, &merged) = (facts.first()?, facts.get(1)?);
        let (first, offset) = (usize::from(pair(6)?), usize::from(pair(8)?));
        let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { header.tp_vlan_tpid } else { 0x8100 };
        Some(Arrived {
            bytes,
            length: header.tp_len as usize,
            tag: (status & libc::TP_STATUS_VLAN_VALID != 0).then_some((tpid, header.tp_vlan_tci)),
            merged: merged != 0,
            checksum: (flags & NEEDS_CHECKSUM != 0).then_some((first, first + offset)),
        })
    }

    /// Hands a slot to the kernel, once its frame has been copied.
    pub(super) fn give_back(&self, at: usize) {
        // R2: with the kernel's read of the word before it writes the slot.
        self.status(at).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// Frames that nobody has looked at.
    pub(super) fn waiting(&self) -> u64 {
        let is_full = |at: &usize| self.status(*at).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        (0..self.slots).filter(is_full).count() as u64
    }

    fn start(&self, at: usize) -> NonNull<u8> {
        // SAFETY: below `slots`, so inside the mapping.
        unsafe { self.memory.add(at % self.slots * self.slot) }
    }

    fn status(&self, at: usize) -> &AtomicU32 {
        // SAFETY: a slot begins with this word (`struct tpacket2_hdr`), aligned, which both sides use as an atomic.
        unsafe { self.start(at).cast::<AtomicU32>().as_ref() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and used by nobody after this.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.slot * self.slots) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_whole_pages_and_hold_the_frame() {
        for mtu in 64..=9200 {
            let slot = slot_size(mtu);
            assert_eq!(slot * SLOTS_PER_BLOCK % 4096, 0, "{mtu}: sixteen of them are whole pages");
            assert!(slot >= (longest_frame(mtu) + IN_FRONT) as usize);
        }
        assert_eq!((slot_size(1500), slot_size(9000)), (2048, 9216));
    }
}
