//! The rings that DPDK's AF_XDP driver shares with the kernel. The driver neither tells how many buffers
//! are in them nor gives them back when it closes, so Weir maps the same rings, counts, and takes them home.
//!
//! See Documentation/networking/af_xdp.rst in the kernel. Buffers go round: *fill* ring (free, for the kernel
//! to receive into), *receive* ring (a packet); *transmit* ring (a packet), *completion* ring (free again).

mod probe;

pub(crate) use probe::is_taken;

use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_packet::header::Header;

use crate::patience::wait_until;
use crate::pool::Mempool;

/// `XDP_MMAP_OFFSETS` and `XDP_PGOFF_*` of `linux/if_xdp.h`.
const MMAP_OFFSETS: libc::c_int = 1;
const PAGE_RX: i64 = 0;
const PAGE_TX: i64 = 0x8000_0000;
const PAGE_FILL: i64 = 0x1_0000_0000;
const PAGE_COMPLETION: i64 = 0x1_8000_0000;
/// Entries of the fill and completion rings are addresses; those of the others have a length, too
/// (`struct xdp_desc`).
const ADDRESS: usize = 8;
const DESCRIPTOR: usize = 16;
/// In unaligned mode the upper bits of an address are an offset into the buffer
/// (`XSK_UNALIGNED_BUF_OFFSET_SHIFT`).
const ADDRESS_MASK: u64 = (1 << 48) - 1;
/// The most entries that a ring is looked for with.
const LARGEST: u32 = 1 << 16;

/// `struct xdp_ring_offset`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Offsets {
    producer: u64,
    consumer: u64,
    desc: u64,
    flags: u64,
}

/// `struct xdp_mmap_offsets`: receive, transmit, fill, completion.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct AllOffsets([Offsets; 4]);

/// One ring, mapped to be read.
struct Ring {
    memory: NonNull<u8>,
    length: usize,
    offsets: Offsets,
    entries: u32,
    entry: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Ring {}
// SAFETY: it is only read, the indices atomically.
unsafe impl Sync for Ring {}

impl Ring {
    /// Maps a ring at its full size: the largest power of two that the kernel lets us map.
    fn map(fd: RawFd, page: i64, offsets: Offsets, entry: usize) -> Option<Ring> {
        let desc = usize::try_from(offsets.desc).ok()?;
        let mut entries = LARGEST;
        while entries > 0 {
            let length = desc + entries as usize * entry;
            // SAFETY: a new mapping at a place of the kernel's choice.
            let memory =
                unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, fd, page) };
            if memory != libc::MAP_FAILED {
                let memory = NonNull::new(memory.cast())?;
                return Some(Ring { memory, length, offsets, entries, entry });
            }
            entries /= 2;
        }
        None
    }

    fn index(&self, offset: u64) -> u32 {
        let offset = usize::try_from(offset).unwrap_or(0);
        // SAFETY: the kernel says that the index is there, in front of the entries.
        let place = unsafe { self.memory.add(offset) }.cast::<AtomicU32>();
        // SAFETY: aligned by the kernel, mapped while this lives, shared with the kernel as an atomic.
        unsafe { place.as_ref() }.load(Ordering::Acquire)
    }

    fn producer(&self) -> u32 {
        self.index(self.offsets.producer)
    }

    fn consumer(&self) -> u32 {
        self.index(self.offsets.consumer)
    }

    /// The addresses of what was put in and not taken out, when nobody uses the ring any more.
    fn addresses(&self) -> Vec<u64> {
        let (first, end) = (self.consumer(), self.producer());
        let n = end.wrapping_sub(first).min(self.entries);
        (0..n).map(|at| self.address(first.wrapping_add(at))).collect()
    }

    fn address(&self, index: u32) -> u64 {
        let at = (index & (self.entries - 1)) as usize * self.entry;
        let offset = usize::try_from(self.offsets.desc).unwrap_or(0) + at;
        // SAFETY: below `length`: an entry of the ring.
        let place = unsafe { self.memory.add(offset) }.cast::<u64>();
        // SAFETY: mapped while this lives; entries start with an address, aligned to 8.
        unsafe { place.read_volatile() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and used by nobody after this.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

/// One AF_XDP socket of the driver's, and its rings.
struct Socket {
    fd: RawFd,
    /// The kernel's number for the socket, which no other ever has (`SO_COOKIE`).
    cookie: u64,
    rx: Ring,
    tx: Ring,
    fill: Ring,
    completion: Ring,
}

impl Socket {
    fn map(fd: RawFd) -> Option<Socket> {
        let AllOffsets([rx, tx, fill, completion]) = offsets(fd)?;
        Some(Socket {
            fd: not_inherited(fd),
            cookie: cookie(fd)?,
            rx: Ring::map(fd, PAGE_RX, rx, DESCRIPTOR)?,
            tx: Ring::map(fd, PAGE_TX, tx, DESCRIPTOR)?,
            fill: Ring::map(fd, PAGE_FILL, fill, ADDRESS)?,
            completion: Ring::map(fd, PAGE_COMPLETION, completion, ADDRESS)?,
        })
    }

    /// Buffers that are somewhere between the driver and the kernel. Each that was sent is completed once,
    /// so what is on its way out is the difference of those two rings.
    fn held(&self) -> u32 {
        let fill = self.fill.producer().wrapping_sub(self.fill.consumer());
        let rx = self.rx.producer().wrapping_sub(self.rx.consumer());
        let tx = self.tx.producer().wrapping_sub(self.completion.consumer());
        fill.wrapping_add(rx).wrapping_add(tx)
    }
}

impl Socket {
    /// Waits until what the kernel has taken out of the transmit ring is in the completion ring; at most so long that nobody
    /// minds. What it keeps longer is lost to us.
    fn let_send(&self) {
        const LONGEST: Duration = Duration::from_millis(100);
        wait_until(LONGEST, || self.tx.consumer() == self.completion.producer());
    }
}

/// The rings of a device.
#[derive(Default)]
pub(crate) struct Rings(Vec<Socket>);

impl Rings {
    /// Maps the rings of the AF_XDP sockets that were opened since `before` was taken.
    pub(crate) fn opened_since(before: &[RawFd]) -> Rings {
        Rings(sockets().into_iter().filter(|fd| !before.contains(fd)).filter_map(Socket::map).collect())
    }

    /// Buffers in them; exact when packets neither come nor go.
    pub(crate) fn held(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.iter().map(|socket| u64::from(socket.held())).sum())
    }

    /// Closes what the driver left open of a device that it closed, and takes the buffers home that are in the rings.
    ///
    /// DPDK 22.11 forgets the sockets (it compares its count of users with one too few), and nobody could bind another one to their
    /// queues while the process lives.
    ///
    /// # Safety
    ///
    /// The driver uses the sockets of these rings no more, and does not give back their buffers itself; they
    /// belonged to `pool`.
    pub(crate) unsafe fn recover(self, pool: &Mempool) {
        let mut found = BTreeSet::new();
        for socket in &self.0 {
            socket.let_send();
            for ring in [&socket.rx, &socket.tx, &socket.fill, &socket.completion] {
                let offsets = ring.addresses().into_iter().map(|address| address & ADDRESS_MASK);
                found.extend(offsets.filter_map(|offset| pool.at_offset(usize::try_from(offset).ok()?)));
            }
        }
        let buffers: Vec<NonNull<Header>> = found.into_iter().collect();
        // A mapping keeps its socket alive, too. When the last goes the kernel waits until nobody writes to a buffer any more
        // (`xsk_unbind_dev`): only then they are free.
        let sockets: Vec<(RawFd, u64)> = self.0.into_iter().map(|socket| (socket.fd, socket.cookie)).collect();
        for (fd, number) in sockets {
            if cookie(fd) == Some(number) {
                // SAFETY: still the driver's socket, as its number says, and the driver has forgotten it. Only the driver could have
                // closed it in between, and who calls this is the only one that calls the driver.
                unsafe { libc::close(fd) };
            }
        }
        // SAFETY: buffers of this pool that were the driver's, each once; it has forgotten them, and the
        // kernel the rings.
        unsafe { pool.put(&buffers) };
    }
}

/// Every AF_XDP socket of the process.
pub(crate) fn sockets() -> Vec<RawFd> {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    open.filter_map(|fd| fd.file_name().to_str()?.parse().ok()).filter(|fd| is_xdp(*fd)).collect()
}

/// A program that takes this one's place does not inherit the socket: it would have the queue, and not know.
fn not_inherited(fd: RawFd) -> RawFd {
    // SAFETY: sets a flag; any number is accepted for the descriptor.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    fd
}

fn is_xdp(fd: RawFd) -> bool {
    let mut domain: libc::c_int = 0;
    let mut length = size_of_val(&domain) as libc::socklen_t;
    // SAFETY: room for an int, as is said. Any number is accepted for the descriptor.
    let rc =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast(), &raw mut length) };
    rc == 0 && domain == libc::AF_XDP
}

/// The kernel's number for a socket.
fn cookie(fd: RawFd) -> Option<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: room for the number, as is said. Any number is accepted for the descriptor.
    let rc =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut cookie).cast(), &raw mut length) };
    (rc == 0 && is_xdp(fd)).then_some(cookie)
}

fn offsets(fd: RawFd) -> Option<AllOffsets> {
    let mut all = AllOffsets::default();
    let mut length = size_of_val(&all) as libc::socklen_t;
    // SAFETY: room for the offsets, as is said.
    let rc = unsafe { libc::getsockopt(fd, libc::SOL_XDP, MMAP_OFFSETS, (&raw mut all).cast(), &raw mut length) };
    (rc == 0 && length as usize == size_of_val(&all)).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_sockets_are_left_alone() {
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(!is_xdp(std::os::fd::AsRawFd::as_raw_fd(&udp)));
        assert!(!is_xdp(-1));
        assert_eq!(Rings::opened_since(&[]).held(), None);
    }
}
