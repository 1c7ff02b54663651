//! Port sets: which ports of a shared IPv4 address are a customer's (RFC 7597 section 5.1).
//!
//! ```text
//!  0          a            a + k          16
//! +----------+-------------+--------------+
//! |    A     |    PSID     |      j       |   A > 0 unless a = 0
//! +----------+-------------+--------------+
//!   a bits      k bits        m bits
//! ```

use std::fmt;

/// How the ports of an address are divided among those who share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSets {
    length: u8,
    offset: u8,
}

impl PortSets {
    /// The whole address is one customer's.
    pub const WHOLE: PortSets = PortSets { length: 0, offset: 0 };

    /// PSIDs of `length` bits (k) behind the first `offset` bits (a) of ports. `None` if both are more than the 16 bits of a port.
    pub const fn new(length: u8, offset: u8) -> Option<PortSets> {
        if length <= 16 && offset <= 16 && length + offset <= 16 { Some(PortSets { length, offset }) } else { None }
    }

    /// Bits of a PSID.
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Bits in front of it.
    pub const fn offset(self) -> u8 {
        self.offset
    }

    /// The highest PSID.
    pub const fn highest(self) -> u16 {
        (((1_u32) << self.length) - 1) as u16
    }

    /// The PSID of a port; `None` if it is nobody's: "values of A that are 0 are excluded" where `a` is more than 0, so that ports below
    /// 2 to the power of 16 - a are in no set.
    #[inline(always)]
    pub const fn psid(self, port: u16) -> Option<u16> {
        let port = port as u32;
        if self.offset > 0 && port >> (16 - self.offset as u32) == 0 {
            return None;
        }
        let below = 16_u32.saturating_sub(self.length as u32 + self.offset as u32);
        Some((port >> below) as u16 & self.highest())
    }

    /// The PSID of packets without ports: whoever has the whole address gets them.
    pub const fn portless(self) -> Option<u16> {
        if self.length == 0 && self.offset == 0 { Some(0) } else { None }
    }

    /// The ports of a PSID, in order.
    pub fn ports(self, psid: u16) -> impl Iterator<Item = u16> {
        (0..=u16::MAX).filter(move |port| self.psid(*port) == Some(psid))
    }

    /// As one number of [`WORD_BITS`] bits.
    pub const fn word(self) -> u64 {
        (self.length as u64) << 5 | self.offset as u64
    }

    /// From such a number.
    #[inline(always)]
    pub const fn of_word(word: u64) -> PortSets {
        PortSets { length: (word >> 5) as u8 & 31, offset: word as u8 & 31 }
    }
}

/// Bits of [`PortSets::word`].
pub const WORD_BITS: u32 = 10;

impl fmt::Display for PortSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "psid_length {}, psid_offset {}", self.length, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sets by the definition: "port = A | PSID | j", for all A, PSID and j.
    fn by_definition(k: u32, a: u32) -> Vec<Option<u16>> {
        let m = 16 - k - a;
        let mut whose = vec![None; 1 << 16];
        let first = if a == 0 { 0 } else { 1 };
        for upper in first..1_u32 << a {
            for psid in 0..1_u32 << k {
                for j in 0..1_u32 << m {
                    let port = upper << (k + m) | psid << m | j;
                    assert_eq!(whose[port as usize].replace(psid as u16), None, "a port is in one set");
                }
            }
        }
        whose
    }

    #[test]
    fn every_port_of_every_length_and_offset_is_whose_the_definition_says() {
        let mut pairs = 0;
        for k in 0..=16_u32 {
            for a in 0..=16 - k {
                let sets = PortSets::new(k as u8, a as u8).unwrap();
                let whose = by_definition(k, a);
                for port in 0..=u16::MAX {
                    assert_eq!(sets.psid(port), whose[usize::from(port)], "k {k}, a {a}, port {port}");
                }
                assert_eq!(PortSets::of_word(sets.word()), sets);
                pairs += 1;
            }
        }
        assert_eq!(pairs, 153);
    }

    #[test]
    fn sets_that_ports_have_no_bits_for_are_none() {
        for k in 0..=255_u16 {
            for a in 0..=255_u16 {
                assert_eq!(PortSets::new(k as u8, a as u8).is_some(), k + a <= 16, "k {k}, a {a}");
            }
        }
    }

    #[test]
    fn the_example_of_the_standard() {
        // RFC 7597 section 5.1: "Sharing ratio 256, PSID 0x34, a = 4": of each 4096 ports the same 16, none below 4096.
        let sets = PortSets::new(8, 4).unwrap();
        let ports: Vec<u16> = sets.ports(0x34).collect();
        assert_eq!(ports.len(), 15 * 16);
        assert_eq!((ports[0], ports[15], ports[16], ports[239]), (0x1340, 0x134f, 0x2340, 0xf34f));
        assert_eq!((sets.portless(), PortSets::WHOLE.portless()), (None, Some(0)));
    }
}
