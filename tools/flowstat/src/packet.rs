//! A packet of a capture, and where packets come from.

use std::cell::OnceCell;

use weir_capture::decode::Layers;
use weir_capture::{LinkType, Merged, Record};

/// Which of the two captures a packet is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What was sent.
    Sent,
    /// What was received.
    Received,
}

/// A packet of a capture.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    /// What was captured of it.
    pub data: &'a [u8],
    /// Bytes that it had on the wire.
    pub length: u32,
    /// What its bytes begin with.
    pub link: LinkType,
    /// The number of its file among those of its side, from 0.
    pub file: usize,
    layers: OnceCell<Layers<'a>>,
}

impl<'a> Packet<'a> {
    /// A packet of `length` bytes of which `data` was captured, from the file of that number.
    #[inline]
    pub fn new(data: &'a [u8], length: u32, link: LinkType, file: usize) -> Packet<'a> {
        Packet { data, length, link, file, layers: OnceCell::new() }
    }

    /// What lies where in it. It is found out when it is first asked for.
    #[inline]
    pub fn layers(&self) -> &Layers<'a> {
        self.layers.get_or_init(|| Layers::of(self.data, self.link))
    }
}

/// What comes out of a [`Source`].
#[derive(Debug)]
pub enum Next<'a> {
    /// A packet, and when it was captured: ns since 1970 (UTC).
    Packet(i64, Packet<'a>),
    /// A file that cannot be read any further, in a sentence. Others go on.
    Damaged(String),
    /// All has been read.
    End,
}

/// Packets by time.
pub trait Source {
    /// The next packet.
    fn next(&mut self) -> Next<'_>;

    /// How much was read, and how much there is, bytes.
    fn progress(&self) -> (u64, u64);
}

impl Source for Merged {
    #[inline]
    fn next(&mut self) -> Next<'_> {
        match Merged::next(self) {
            Ok(Some((file, record))) => {
                let Record { nanos, data, length, link, .. } = record;
                Next::Packet(nanos, Packet::new(data, length, link, file))
            }
            Ok(None) => Next::End,
            Err(damage) => Next::Damaged(damage.to_string()),
        }
    }

    fn progress(&self) -> (u64, u64) {
        (self.position(), self.size())
    }
}
