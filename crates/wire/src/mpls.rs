//! MPLS label stack entries (RFC 3032 section 2.1).

use crate::{U32, View};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An entry of a label stack, 4 bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Label {
    /// Label (20 bits), traffic class (3 bits), bottom of stack (1 bit), TTL (8 bits).
    pub entry: U32,
}

impl View for Label {}

impl Label {
    /// An entry; of `value` 20 bits are used and of `class` 3.
    pub const fn new(value: u32, class: u8, bottom: bool, ttl: u8) -> Label {
        Label { entry: U32::new(value << 12 | (class as u32 & 7) << 9 | (bottom as u32) << 8 | ttl as u32) }
    }

    /// The label, 20 bits.
    #[inline]
    pub fn value(&self) -> u32 {
        self.entry.get() >> 12
    }

    /// Traffic class (RFC 5462), once called EXP, 0..=7.
    #[inline]
    pub fn class(&self) -> u8 {
        (self.entry.get() >> 9 & 7) as u8
    }

    /// Whether no entry follows.
    #[inline]
    pub fn is_bottom(&self) -> bool {
        self.entry.get() & 0x100 != 0
    }

    /// Hops that are left.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.entry.get() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_lie_where_rfc_3032_puts_them() {
        let label = Label::view(&[0x12, 0x34, 0x5b, 0x40]).unwrap();
        assert_eq!((label.value(), label.class(), label.is_bottom(), label.ttl()), (0x12345, 5, true, 64));
        assert_eq!(*label, Label::new(0x12345, 5, true, 64));
        assert_eq!(Label::new(0xf_ffff, 7, false, 255).entry.get(), 0xffff_feff);
        assert!(Label::view(&[0; 3]).is_none());
    }
}
