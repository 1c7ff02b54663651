//! An IPv6 prefix.

use std::fmt;
use std::net::Ipv6Addr;

/// An address and how many of its leading bits count; the others are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix6 {
    address: u128,
    length: u8,
}

impl Prefix6 {
    /// ::/0.
    pub const DEFAULT: Self = Self { address: 0, length: 0 };

    /// The prefix of an address (in host order) and a length; `None` when the length is above 128 or bits behind it are set.
    pub const fn new(address: u128, length: u8) -> Option<Self> {
        match Self::covering(address, length) {
            Some(prefix) if prefix.address == address => Some(prefix),
            _ => None,
        }
    }

    /// The prefix of that length that covers an address (in host order); `None` when the length is above 128.
    pub const fn covering(address: u128, length: u8) -> Option<Self> {
        if length > 128 { None } else { Some(Self { address: address & mask(length), length }) }
    }

    /// Its first address, in host order.
    pub const fn address(self) -> u128 {
        self.address
    }

    /// How many bits count: 0 to 128.
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Its last address, in host order.
    pub const fn last(self) -> u128 {
        self.address | !mask(self.length)
    }

    /// Whether it covers an address (in host order).
    pub const fn covers(self, address: u128) -> bool {
        address & mask(self.length) == self.address
    }
}

/// A mask of the first `length` bits, at most 128.
const fn mask(length: u8) -> u128 {
    match u128::MAX.checked_shl(128 - length as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from_bits(self.address), self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_prefixes_exist() {
        assert_eq!((Prefix6::new(0, 129), Prefix6::covering(0, 129), Prefix6::new(1, 127)), (None, None, None));
        assert_eq!(Prefix6::new(0, 0), Some(Prefix6::DEFAULT));
        for length in 0..=128u8 {
            let prefix = Prefix6::covering(u128::MAX, length).unwrap();
            assert_eq!(prefix.last(), u128::MAX);
            assert_eq!((prefix.last() - prefix.address()).count_ones(), 128 - u32::from(length));
            assert!(prefix.covers(prefix.address()) && prefix.covers(prefix.last()));
            assert!(length == 0 || !prefix.covers(prefix.address() - 1));
        }
    }

    #[test]
    fn reads_as_written() {
        assert_eq!(Prefix6::new(0x2001_0db8 << 96, 32).unwrap().to_string(), "2001:db8::/32");
    }
}
