//! Whether a queue of an interface has an AF_XDP socket, found out by binding one to it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Buffers of the smallest size that the kernel takes, and entries of each ring.
const CHUNK: u32 = 2048;
const ENTRIES: u32 = 2;
const MEMORY: usize = (CHUNK * ENTRIES) as usize;

/// Memory for the buffers of the socket, a page of its own.
#[repr(align(4096))]
struct Memory([u8; MEMORY]);

/// Whether somebody's socket, this process's or another's, has a queue. The kernel frees it again a moment after this.
pub(crate) fn is_taken(index: u32, queue: u32) -> bool {
    let memory = Box::new(Memory([0; MEMORY]));
    bind(index, queue, &memory).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

fn bind(index: u32, queue: u32, memory: &Memory) -> io::Result<()> {
    // SAFETY: takes numbers, gives a descriptor or -1.
    let fd = checked(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new, so nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let buffers = libc::xdp_umem_reg_v1 {
        addr: memory.0.as_ptr().expose_provenance() as u64,
        len: MEMORY as u64,
        chunk_size: CHUNK,
        headroom: 0,
    };
    // The kernel writes to the memory only when it receives, and no program sends anything to this socket.
    set(&socket, libc::XDP_UMEM_REG, &buffers)?;
    for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING] {
        set(&socket, ring, &ENTRIES)?;
    }
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // Else a card would be set up for it.
        sxdp_flags: libc::XDP_COPY,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address of the length that is said.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(())
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: a value of the length that is said, to be read.
    let rc = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, std::ptr::from_ref(value).cast(), length)
    };
    checked(rc).map(drop)
}

fn checked(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_taken() {
        assert!(!is_taken(u32::MAX >> 1, 0));
    }
}
