//! Receive and transmit queues on packet sockets.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_packet::{BATCH, Batch, Burst, Packet, Pool};
use weir_stage::{Rx, Traffic, Tx};

use super::group::Group;
use super::ring::{Arrived, Ring};
use super::socket;

/// A receive queue: the ring of one socket.
pub(super) struct PacketRx {
    group: Arc<Group>,
    queue: usize,
    /// Packets that are received at once, at most.
    most: usize,
    /// The slot that is looked at next.
    at: usize,
    lost: Lost,
}

/// What was lost at receive.
#[derive(Debug, Default)]
struct Lost {
    long: u64,
    merged: u64,
    unfit: u64,
}

/// What became of a frame.
enum Taken {
    Packet(Packet),
    Lost,
    NoBuffer,
}

impl PacketRx {
    pub(super) fn new(group: Arc<Group>, queue: usize, most: usize) -> PacketRx {
        PacketRx { group, queue, most, at: 0, lost: Lost::default() }
    }
}

impl Lost {
    /// Makes a packet of what is in a slot, as it was on the wire.
    fn take(&mut self, arrived: Option<&Arrived<'_>>, pool: &mut dyn Pool) -> Taken {
        let Some(arrived) = arrived else {
            self.unfit += 1;
            return Taken::Lost;
        };
        if arrived.merged {
            self.merged += 1;
            return Taken::Lost;
        }
        if arrived.length > arrived.bytes.len() {
            self.long += 1;
            return Taken::Lost;
        }
        let Some(mut packet) = pool.alloc() else { return Taken::NoBuffer };
        if !packet.fill(arrived.bytes) {
            pool.free(packet);
            self.long += 1;
            return Taken::Lost;
        }
        if let Some((from, at)) = arrived.checksum {
            finish_checksum(packet.bytes_mut(), from, at);
        }
        if let Some((kind, tag)) = arrived.tag {
            put_tag_back(&mut packet, kind, tag);
        }
        Taken::Packet(packet)
    }
}

/// A host that sends to another kernel leaves checksums to its device: the field has the sum of the pseudo header only.
fn finish_checksum(bytes: &mut [u8], from: usize, at: usize) {
    let Some(covered) = bytes.get(from..) else { return };
    let sum = covered.chunks(2).fold(0_u64, |sum, pair| {
        let high = pair.first().copied().unwrap_or(0);
        sum + u64::from(u16::from_be_bytes([high, pair.get(1).copied().unwrap_or(0)]))
    });
    let mut folded = sum;
    while folded > 0xffff {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    // 0 would say that there is none (RFC 768).
    let checksum = match !(folded as u16) {
        0 => 0xffff,
        checksum => checksum,
    };
    if let Some(field) = bytes.get_mut(at..at.saturating_add(2)) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The kernel takes the outermost tag off and hands it over beside the frame.
fn put_tag_back(packet: &mut Packet, kind: u16, tag: u16) {
    // A fresh packet has headroom for 32 of them.
    if packet.prepend(4) {
        let bytes = packet.bytes_mut();
        bytes.copy_within(4..16, 0);
        if let Some(place) = bytes.get_mut(12..16) {
            let [a, b] = kind.to_be_bytes();
            let [c, d] = tag.to_be_bytes();
            place.copy_from_slice(&[a, b, c, d]);
        }
    }
}

impl Rx for PacketRx {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, _now: u64) -> Traffic {
        let mut traffic = Traffic::default();
        let Some(ring) = self.group.ring(self.queue) else { return traffic };
        while batch.room() > 0 && traffic.packets < self.most as u64 {
            let Some(arrived) = ring.look(self.at) else { break };
            let taken = self.lost.take(arrived.as_ref(), pool);
            if matches!(taken, Taken::NoBuffer) {
                // It stays where it is.
                break;
            }
            self.at = pass(ring, self.at);
            let Taken::Packet(packet) = taken else { continue };
            let bytes = packet.len() as u64;
            match batch.push(packet) {
                Ok(_) => {
                    traffic.packets += 1;
                    traffic.bytes += bytes;
                }
                Err(packet) => pool.free(packet),
            }
        }
        traffic
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.group.socket(self.queue)
    }

    fn lost(&self) -> Vec<(&'static str, &'static str, u64)> {
        vec![
            ("long", "The frame is longer than the port's MTU has room for: raise it.", self.lost.long),
            (
                "merged",
                "Several segments came as one frame: switch segmentation off where they come from (ethtool -K DEV tso off gso off).",
                self.lost.merged,
            ),
            ("unfit", "The kernel handed over something that is no frame.", self.lost.unfit),
        ]
    }
}

fn pass(ring: &Ring, at: usize) -> usize {
    ring.give_back(at);
    ring.after(at)
}

/// A transmit queue: a socket of its own.
pub(super) struct PacketTx {
    socket: OwnedFd,
    alive: Arc<AtomicBool>,
    errors: Arc<AtomicU64>,
    /// How long packets may wait for others, nanoseconds.
    max_wait: u64,
}

impl PacketTx {
    pub(super) fn new(socket: OwnedFd, alive: Arc<AtomicBool>, errors: Arc<AtomicU64>, max_wait: u64) -> PacketTx {
        PacketTx { socket, alive, errors, max_wait }
    }

    /// Packets from the front that leave the burst, sent or refused for good.
    fn send(&self, packets: &[Packet]) -> usize {
        let mut done = 0;
        while let Some(rest) = packets.get(done..).filter(|rest| !rest.is_empty()) {
            match send_some(&self.socket, rest) {
                Ok(sent) => done += sent,
                // No room now, or the interface is down.
                Err(error) if is_for_all(&error) => break,
                // What is wrong with this one: it is longer than the interface takes.
                Err(_) => {
                    self.errors.fetch_add(1, Ordering::Relaxed);
                    done += 1;
                }
            }
        }
        done
    }
}

/// Whether the next packet would fare no better.
fn is_for_all(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ENOBUFS
                | libc::EAGAIN
                | libc::EINTR
                | libc::ENOMEM
                | libc::ENETDOWN
                | libc::ENXIO
                | libc::ENODEV
                | libc::EBADF
        )
    )
}

/// Sends a batch at most.
fn send_some(socket: &OwnedFd, packets: &[Packet]) -> io::Result<usize> {
    // SAFETY: a structure of numbers and pointers, for which null is a value.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
    let n = packets.len().min(BATCH);
    for ((message, piece), packet) in messages.iter_mut().zip(&mut pieces).zip(packets) {
        let bytes = packet.bytes();
        // Only read by the kernel.
        *piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        message.msg_hdr.msg_iov = piece;
        message.msg_hdr.msg_iovlen = 1;
    }
    socket::send(socket, messages.get_mut(..n).unwrap_or_default())
}

impl Tx for PacketTx {
    /// Takes nothing while the link is down.
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, _now: u64) -> Traffic {
        if !self.alive() {
            return Traffic::default();
        }
        let sent = self.send(burst.packets());
        Traffic::drain(burst, sent, |packet| pool.free(packet))
    }

    fn alive(&mut self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    fn max_wait(&self) -> u64 {
        self.max_wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071's words, at the end of a frame, with a field of zeros.
    #[test]
    fn an_unfinished_checksum_is_finished() {
        let mut bytes = [0xaa, 0xaa, 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0, 0];
        finish_checksum(&mut bytes, 2, 10);
        assert_eq!(bytes[10..], [0x22, 0x0d], "RFC 1071, section 3: ddf2, inverted");
        let mut odd = [0x12, 0x34, 0x56, 0, 0];
        finish_checksum(&mut odd, 0, 3);
        let before = odd;
        finish_checksum(&mut odd, 9, 12);
        assert_eq!(odd, before, "outside the frame nothing happens");
        let mut none = [0xff, 0xff, 0, 0];
        finish_checksum(&mut none, 0, 2);
        assert_eq!(none, [0xff, 0xff, 0xff, 0xff], "no checksum is 0");
    }
}
