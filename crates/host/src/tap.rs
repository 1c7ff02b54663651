//! TAP devices: Ethernet interfaces of the kernel's whose other end is a descriptor.
#![allow(unsafe_code, reason = "requests to TAP devices have no safe wrapper; see SAFETY.md")]

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl};
use rustix::net::{AddressFamily, SocketType, netdevice};
use weir_wire::segments::{Cut, Left};

/// `TUNSETIFF` of `linux/if_tun.h`: `_IOW('T', 202, int)`, though it takes a `struct ifreq`.
const TUNSETIFF: Opcode = 0x4004_54ca;

/// `TUNSETVNETHDRSZ`: `_IOW('T', 216, int)`.
const TUNSETVNETHDRSZ: Opcode = 0x4004_54d8;

/// `TUNSETOFFLOAD`: `_IOW('T', 208, unsigned int)`, though it takes the number itself.
const TUNSETOFFLOAD: Opcode = 0x4004_54d0;

/// `IFF_TAP`, without the four bytes in front of frames (`IFF_NO_PI`), but with a `struct virtio_net_hdr` (`IFF_VNET_HDR`).
const FLAGS: u16 = 0x0002 | 0x1000 | 0x4000;

/// Bytes of `struct virtio_net_hdr` of `linux/virtio_net.h`.
const OFFLOAD: usize = 10;

/// Bytes of an interface's name with the 0 behind it.
const NAME: usize = 16;

/// `struct ifreq` as far as the request looks at it.
#[repr(C)]
struct Request {
    name: [u8; NAME],
    flags: u16,
    rest: [u8; 22],
}

/// The length of `struct ifreq` on 64-bit Linux.
const _: () = assert!(size_of::<Request>() == 40);

/// A TAP device in the network namespace that it was opened in. One that was made for this is gone when it is dropped; one that was there before
/// (`ip tuntap add`) stays.
#[derive(Debug)]
pub struct Tap {
    file: OwnedFd,
    index: u32,
}

impl Tap {
    /// Makes the TAP device of a name, or takes the one that is there.
    ///
    /// # Errors
    ///
    /// The name is too long for Linux, something else has it, or the process may not.
    pub fn open(name: &str) -> io::Result<Tap> {
        let mut request = Request { name: [0; NAME], flags: FLAGS, rest: [0; 22] };
        if name.is_empty() || name.len() >= NAME {
            return Err(Errno::NAMETOOLONG.into());
        }
        request.name.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
        let file = open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
        // SAFETY: TUNSETIFF reads and writes a `struct ifreq` at the pointer that it gets and keeps none of it; `Request` has that struct's
        // layout and length, and any bytes that the kernel leaves in it are values of its fields.
        let updater = unsafe { Updater::<TUNSETIFF, Request>::new(&mut request) };
        // SAFETY: the descriptor is open, and the request is the one that the updater was made for.
        unsafe { ioctl(&file, updater) }?;
        agree_on_offload(&file)?;
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let index = netdevice::name_to_index(socket, name)?;
        take_no_advertisements(name);
        Ok(Tap { file, index })
    }

    /// Its number as an interface of the kernel's.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The next frame that the kernel sends, as many bytes of it as `buffer` takes, and what it has left to be done of it; `None` if there is none
    /// now.
    ///
    /// # Errors
    ///
    /// The device is gone, or set down.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Option<Left>)>> {
        let mut offload = [0; OFFLOAD];
        let mut read =
            || rustix::io::readv(&self.file, &mut [IoSliceMut::new(&mut offload), IoSliceMut::new(&mut *buffer)]);
        match rustix::io::retry_on_intr(&mut read) {
            Ok(length) => Ok(Some((length.saturating_sub(OFFLOAD), left(offload)))),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands the kernel a frame, in pieces, which stands for several segments of TCP where it is said how to cut it; false if it does not take it
    /// now. At most 1,000 pieces.
    ///
    /// # Errors
    ///
    /// The device is gone, or set down.
    pub fn write<'p>(&self, cut: Option<Cut>, pieces: impl IntoIterator<Item = &'p [u8]>) -> io::Result<bool> {
        let offload = cut.map_or([0; OFFLOAD], offload);
        let mut all = vec![IoSlice::new(&offload)];
        for piece in pieces {
            all.push(IoSlice::new(piece));
        }
        match rustix::io::retry_on_intr(|| rustix::io::writev(&self.file, &all)) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: where the checksum belongs is the sum of the pseudo header alone.
const NEEDS_CSUM: u8 = 1;

/// The `struct virtio_net_hdr` of a frame that stands for several: in the machine's byte order, as TAP devices have it unless asked otherwise.
fn offload(cut: Cut) -> [u8; OFFLOAD] {
    /// `VIRTIO_NET_HDR_GSO_TCPV4`.
    const TCP4: u8 = 1;
    /// `VIRTIO_NET_HDR_GSO_TCPV6`.
    const TCP6: u8 = 4;
    /// Where the checksum lies in the header of TCP.
    const CHECKSUM: u16 = 16;
    let words = [cut.headers, cut.size, cut.transport, CHECKSUM].map(u16::to_ne_bytes);
    let [[a, b], [c, d], [e, f], [g, h]] = words;
    [NEEDS_CSUM, if cut.is_six { TCP6 } else { TCP4 }, a, b, c, d, e, f, g, h]
}

/// What the kernel has left to be done, by a `struct virtio_net_hdr` of its. A frame that is to be cut needs its checksum, too.
fn left([flags, kind, _, _, c, d, e, f, g, h]: [u8; OFFLOAD]) -> Option<Left> {
    let size = if kind == 0 { 0 } else { u16::from_ne_bytes([c, d]) };
    let left = Left { start: u16::from_ne_bytes([e, f]), offset: u16::from_ne_bytes([g, h]), size };
    (flags & NEEDS_CSUM != 0).then_some(left)
}

/// Lets frames have the header that [`offload`] writes, and lets the kernel leave to us what [`left`] reads; whatever whoever had the device before
/// asked for.
fn agree_on_offload(file: &OwnedFd) -> io::Result<()> {
    /// `TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`.
    const LEFT_TO_US: usize = 0x1 | 0x2 | 0x4;
    // SAFETY: TUNSETVNETHDRSZ reads an `int` at the pointer that it gets.
    let length = unsafe { Setter::<TUNSETVNETHDRSZ, i32>::new(OFFLOAD as i32) };
    // SAFETY: the descriptor is open, and the request is the one that the setter was made for.
    unsafe { ioctl(file, length) }?;
    // SAFETY: TUNSETOFFLOAD takes a number, no pointer.
    let features = unsafe { IntegerSetter::<TUNSETOFFLOAD>::new_usize(LEFT_TO_US) };
    // SAFETY: as above.
    unsafe { ioctl(file, features) }?;
    Ok(())
}

/// Lets an interface be a router's: it takes no addresses and routes from other routers' advertisements (RFC 4861 section 6.2.7), though it hears
/// them. Where there is no IPv6, there is nothing to be said.
fn take_no_advertisements(name: &str) {
    let path = format!("/proc/sys/net/ipv6/conf/{name}/accept_ra");
    if let Ok(file) = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        _ = rustix::io::write(file, b"0");
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_linux_cannot_have_are_refused() {
        for name in ["", "sixteen-letters!"] {
            assert_eq!(Tap::open(name).unwrap_err().raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()));
        }
    }
}
