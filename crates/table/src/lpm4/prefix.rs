//! An IPv4 prefix.

use std::fmt;
use std::net::Ipv4Addr;

/// An address and how many of its leading bits count; the others are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix4 {
    address: u32,
    length: u8,
}

impl Prefix4 {
    /// 0.0.0.0/0.
    pub const DEFAULT: Self = Self { address: 0, length: 0 };

    /// The prefix of an address (in host order) and a length; `None` when the length is above 32 or bits behind it are
    /// set.
    pub const fn new(address: u32, length: u8) -> Option<Self> {
        match Self::covering(address, length) {
            Some(prefix) if prefix.address == address => Some(prefix),
            _ => None,
        }
    }

    /// The prefix of that length that covers an address (in host order); `None` when the length is above 32.
    pub const fn covering(address: u32, length: u8) -> Option<Self> {
        if length > 32 { None } else { Some(Self { address: address & mask(length), length }) }
    }

    /// Its first address, in host order.
    #[inline]
    pub const fn address(self) -> u32 {
        self.address
    }

    /// How many bits count: 0 to 32.
    #[inline]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Its last address, in host order.
    #[inline]
    pub const fn last(self) -> u32 {
        self.address | !mask(self.length)
    }

    /// Whether it covers an address (in host order).
    #[inline]
    pub const fn covers(self, address: u32) -> bool {
        address & mask(self.length) == self.address
    }
}

/// A mask of the first `length` bits, at most 32.
const fn mask(length: u8) -> u32 {
    match u32::MAX.checked_shl(32 - length as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

impl fmt::Display for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.address), self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_prefixes_exist() {
        assert_eq!(Prefix4::new(0, 33), None);
        assert_eq!(Prefix4::covering(0, 33), None);
        assert_eq!(Prefix4::new(1, 31), None);
        assert_eq!(Prefix4::new(0, 0), Some(Prefix4::DEFAULT));
        for length in 0..=32u8 {
            let prefix = Prefix4::covering(u32::MAX, length).unwrap();
            let bits = u64::from(prefix.last() - prefix.address()) + 1;
            assert_eq!(bits, 1u64 << (32 - length));
            assert_eq!(prefix.last(), u32::MAX);
            assert!(prefix.covers(prefix.address()) && prefix.covers(prefix.last()));
            assert!(length == 0 || !prefix.covers(prefix.address() - 1));
        }
    }

    #[test]
    fn reads_as_written() {
        assert_eq!(Prefix4::new(0xc000_0200, 24).unwrap().to_string(), "192.0.2.0/24");
    }
}
