//! What stands in front of packets that leave by an interface.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_wire::{Ethernet, MacAddr, View, ethernet};

use crate::tags::Tags;

/// What forwarding needs to know of an interface that packets leave by: single words, each of which a reader sees whole.
///
/// ```text
/// source  bytes 6 to 14 of the frame: source MAC address, then the EtherType or the first TPID
/// behind  bytes 14 to 22 of the frame, where there are tags
/// shape   bits 0..32 bytes of the longest IP packet, 32..40 the way to the port, 40..48 bytes of the header
/// ```
#[derive(Debug, Default)]
#[repr(align(32))]
pub struct Egress {
    source: AtomicU64,
    behind: AtomicU64,
    shape: AtomicU64,
}

/// The shape of an [`Egress`], at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape(u64);

impl Shape {
    /// Bytes of the longest IP packet: the MTU; 0 while nothing may leave, so that none fits.
    #[inline(always)]
    pub const fn longest(self) -> usize {
        self.0 as u32 as usize
    }

    /// The port's position among those of the function: the number of the way there.
    #[inline(always)]
    pub const fn way(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// Bytes of the Ethernet header: 14, 18 or 22.
    #[inline(always)]
    pub const fn header_len(self) -> usize {
        (self.0 >> 40) as u8 as usize
    }
}

impl Egress {
    /// What packets that leave by the interface carry: IPv4, from `mac`, with these tags, at most `mtu` bytes long.
    pub fn set(&self, way: u8, mac: MacAddr, tags: Tags, mtu: u16) {
        let [a, b, c, d, e, f] = mac.0;
        let [g, h, behind @ ..] = tags.bytes(ethernet::IPV4);
        let header = tags.header_len() as u64;
        self.source.store(u64::from_le_bytes([a, b, c, d, e, f, g, h]), Ordering::Relaxed);
        self.behind.store(u64::from_le_bytes(behind), Ordering::Relaxed);
        self.shape.store(header << 40 | u64::from(way) << 32 | u64::from(mtu), Ordering::Relaxed);
    }

    /// Lets nothing leave any more, whatever leads here: one word stops all of it, be it a million routes.
    pub fn close(&self) {
        self.shape.store(self.shape().0 >> 32 << 32, Ordering::Relaxed);
    }

    /// Whether nothing may leave.
    pub fn is_closed(&self) -> bool {
        self.shape().longest() == 0
    }

    /// Takes over what is known of another.
    pub fn become_like(&self, other: &Egress) {
        for (to, from) in [(&self.source, &other.source), (&self.behind, &other.behind), (&self.shape, &other.shape)] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Longest packet, way and length of the header.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        Shape(self.shape.load(Ordering::Relaxed))
    }

    /// Bytes 6 to 14 of the frame as a little-endian word.
    #[inline(always)]
    pub fn source_word(&self) -> u64 {
        self.source.load(Ordering::Relaxed)
    }

    /// Bytes 14 to 22 of the frame as a little-endian word: those of them that belong to the header are meant.
    #[inline(always)]
    pub fn behind_word(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }
}

const _: () = assert!(size_of::<Egress>() == 32 && Ethernet::LEN == 14);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tags::Tag;

    #[test]
    fn an_egress_is_the_header_that_it_was_told() {
        let mac = MacAddr([2, 3, 4, 5, 6, 7]);
        for list in [&[][..], &[(0x8100, 100)], &[(0x88a8, 7), (0x8100, 9)]] {
            let tags = Tags::of(list.iter().map(|&(tpid, vlan)| Tag { tpid, vlan }));
            let egress = Egress::default();
            assert!(egress.is_closed());
            egress.set(9, mac, tags, 1500);
            let shape = egress.shape();
            assert_eq!((shape.way(), shape.header_len()), (9, tags.header_len()));
            assert_eq!(shape.longest(), 1500);
            let words = [egress.source_word().to_le_bytes(), egress.behind_word().to_le_bytes()].concat();
            assert_eq!(words[..6], mac.0);
            assert_eq!(words[6..], tags.bytes(0x0800));
            egress.close();
            assert!(egress.is_closed());
            assert_eq!((egress.shape().way(), egress.shape().header_len()), (9, tags.header_len()));
            let other = Egress::default();
            other.become_like(&egress);
            assert_eq!(other.source_word(), egress.source_word());
            assert_eq!(other.shape(), egress.shape());
        }
    }
}
