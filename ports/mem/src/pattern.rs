//! What a replaying source puts into its packets.

use weir_packet::{HEADROOM, Packet};

/// Bytes at a packet's start that a path may change and that are restored each time round.
pub const HEADER: usize = 64;

/// A sequence of packets, written into buffers that have been round before.
pub trait Pattern: Send {
    /// Packets in the sequence before it starts anew; `None` when it never does.
    fn period(&self) -> Option<u64>;

    /// Bytes of the longest packet.
    fn longest(&self) -> usize;

    /// Makes `packets` the packets number `first` (counted from 0, without end), `first + 1`, and so on, whatever was in them.
    /// Returns their bytes together. No packet's buffer is smaller than [`Pattern::longest`].
    fn write(&mut self, first: u64, packets: &mut [Packet]) -> u64;
}

/// Whether a buffer still holds a frame of this length where a source put it, so that restoring its header is enough.
#[inline(always)]
fn in_place(packet: &Packet, len: usize) -> bool {
    packet.len() == len && packet.headroom() == HEADROOM
}

/// Frames one after the other, then again from the first.
pub struct Frames {
    frames: Vec<Frame>,
    next: usize,
    restore: Restore,
    longest: usize,
}

struct Frame {
    header: [u8; HEADER],
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Restore {
    Whole,
    Header,
}

impl Frames {
    /// Frames that are copied whole, each time.
    pub fn whole(frames: Vec<Vec<u8>>) -> Frames {
        Frames::new(frames, Restore::Whole)
    }

    /// Frames of which only the first [`HEADER`] bytes are restored in a buffer that holds a frame of the same length already:
    /// for measurements. What follows the header should be alike in frames of one length.
    pub fn headers(frames: Vec<Vec<u8>>) -> Frames {
        Frames::new(frames, Restore::Header)
    }

    fn new(frames: Vec<Vec<u8>>, restore: Restore) -> Frames {
        let longest = frames.iter().map(Vec::len).max().unwrap_or(0);
        let frames = frames.into_iter().map(|bytes| Frame { header: head_of(&bytes), bytes }).collect();
        Frames { frames, next: 0, restore, longest }
    }
}

fn head_of(bytes: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    header
}

impl Pattern for Frames {
    fn period(&self) -> Option<u64> {
        Some(self.frames.len() as u64)
    }

    fn longest(&self) -> usize {
        self.longest
    }

    fn write(&mut self, first: u64, packets: &mut [Packet]) -> u64 {
        let count = self.frames.len() as u64;
        if count == 0 {
            return 0;
        }
        // Calls nearly always go on where the last one ended, which saves the division.
        if self.next as u64 != first {
            self.next = (first % count) as usize;
        }
        let mut bytes = 0;
        for packet in packets {
            let Some(frame) = self.frames.get(self.next) else { break };
            if self.restore == Restore::Header && in_place(packet, frame.bytes.len()) {
                *packet.window_mut(0) = frame.header;
            } else {
                packet.fill(&frame.bytes);
            }
            bytes += frame.bytes.len() as u64;
            self.next += 1;
            if self.next == self.frames.len() {
                self.next = 0;
            }
        }
        bytes
    }
}

/// Frames of one length whose headers a function makes: for sets too large to be kept as frames.
pub struct Generated<F> {
    len: usize,
    period: Option<u64>,
    header: F,
}

impl<F: FnMut(u64) -> [u8; HEADER] + Send> Generated<F> {
    /// Frames of `len` bytes: what `header` returns for the packet's number, cut to `len`, and zeros.
    /// Bytes of the header past `len` must be zero. `period` is how many packets the set has, where it has an end.
    pub fn new(len: usize, period: Option<u64>, header: F) -> Generated<F> {
        Generated { len, period, header }
    }
}

impl<F: FnMut(u64) -> [u8; HEADER] + Send> Pattern for Generated<F> {
    fn period(&self) -> Option<u64> {
        self.period
    }

    fn longest(&self) -> usize {
        self.len
    }

    fn write(&mut self, first: u64, packets: &mut [Packet]) -> u64 {
        let mut bytes = 0;
        for (number, packet) in (first..).zip(packets) {
            if !in_place(packet, self.len) {
                packet.reset();
                packet.set_len(self.len);
            }
            *packet.window_mut(0) = (self.header)(number);
            bytes += self.len as u64;
        }
        bytes
    }
}
