//! IEEE 802.1Q tags: the four bytes after the MAC addresses (the tag's own EtherType stands before them).

use crate::{U16, View, ethernet};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The tag control information and the EtherType of what follows, 4 bytes; it lies right after an EtherType of
/// [`crate::ethernet::CVLAN`] or [`crate::ethernet::SVLAN`].
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Vlan {
    /// Priority (3 bits), drop eligible (1 bit), VLAN identifier (12 bits).
    pub control: U16,
    /// What follows the tag.
    pub ethertype: U16,
}

impl View for Vlan {}

impl Vlan {
    /// A tag; of `id` 12 bits are used and of `priority` 3.
    pub const fn new(id: u16, priority: u8, drop_eligible: bool, ethertype: u16) -> Self {
        let control = (priority as u16 & 7) << 13 | (drop_eligible as u16) << 12 | id & 0xfff;
        Vlan { control: U16::new(control), ethertype: U16::new(ethertype) }
    }

    /// VLAN identifier, 0..=4095; 0 means priority only, 4095 is reserved.
    #[inline]
    pub fn id(&self) -> u16 {
        self.control.get() & 0xfff
    }

    /// Priority code point, 0..=7.
    #[inline]
    pub fn priority(&self) -> u8 {
        (self.control.get() >> 13) as u8
    }

    /// Drop eligible indicator.
    #[inline]
    pub fn drop_eligible(&self) -> bool {
        self.control.get() & 0x1000 != 0
    }
}

/// Whether an EtherType announces a tag.
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethernet::CVLAN | ethernet::SVLAN | ethernet::OLD_SVLAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_is_read_as_it_was_written() {
        for id in 0..4096 {
            for priority in 0..8 {
                for drop_eligible in [false, true] {
                    let tag = Vlan::new(id, priority, drop_eligible, 0x0800);
                    assert_eq!((tag.id(), tag.priority(), tag.drop_eligible()), (id, priority, drop_eligible));
                }
            }
        }
    }

    #[test]
    fn bits_lie_where_802_1q_puts_them() {
        let tag = Vlan::view(&[0b1011_0000, 0x2a, 0x08, 0x00]).unwrap();
        assert_eq!((tag.priority(), tag.drop_eligible(), tag.id()), (5, true, 42));
        assert_eq!(tag.ethertype.get(), crate::ethernet::IPV4);
        assert!(Vlan::view(&[0; 3]).is_none());
        assert!(is_tag(0x8100) && is_tag(0x88a8) && is_tag(0x9100) && !is_tag(0x0800));
    }
}
