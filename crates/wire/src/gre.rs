//! Generic routing encapsulation (RFC 2784) with key and sequence number (RFC 2890).

/// The payload is an Ethernet frame ("transparent Ethernet bridging").
pub const ETHERNET: u16 = 0x6558;

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const VERSION: u16 = 0x0007;

/// What a GRE header says. The header is 4 to 16 bytes, by what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gre {
    /// The EtherType of the payload.
    pub protocol: u16,
    /// Checksum of header and payload.
    pub checksum: Option<u16>,
    /// What tells tunnels or customers apart.
    pub key: Option<u32>,
    /// Sequence number.
    pub sequence: Option<u32>,
    /// Bytes of the header.
    pub len: usize,
}

impl Gre {
    /// Reads the header at the start of `bytes`; `None` if they are too few, or if it is of another version (PPTP's is 1), or
    /// carries the routing of RFC 1701, which RFC 2784 section 2.3 has receivers discard.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Gre> {
        let (&[f0, f1, p0, p1], mut rest) = bytes.split_first_chunk::<4>()?;
        let flags = u16::from_be_bytes([f0, f1]);
        if flags & (ROUTING | VERSION) != 0 {
            return None;
        }
        // Each part is a word of four bytes; of the checksum's, two are reserved.
        let mut word = |flag| -> Option<Option<u32>> {
            if flags & flag == 0 {
                return Some(None);
            }
            let (word, behind) = rest.split_first_chunk::<4>()?;
            rest = behind;
            Some(Some(u32::from_be_bytes(*word)))
        };
        let (checksum, key, sequence) = (word(CHECKSUM)?, word(KEY)?, word(SEQUENCE)?);
        Some(Gre {
            protocol: u16::from_be_bytes([p0, p1]),
            checksum: checksum.map(|word| (word >> 16) as u16),
            key,
            sequence,
            len: bytes.len() - rest.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_of_parts() {
        for parts in 0..8_u8 {
            let mut bytes = vec![(parts & 4) << 5 | (parts & 3) << 4, 0, 0x88, 0x47];
            let mut expected = Gre { protocol: 0x8847, checksum: None, key: None, sequence: None, len: 4 };
            if parts & 4 != 0 {
                bytes.extend([0xab, 0xcd, 0, 0]);
                expected.checksum = Some(0xabcd);
            }
            if parts & 2 != 0 {
                bytes.extend([1, 2, 3, 4]);
                expected.key = Some(0x0102_0304);
            }
            if parts & 1 != 0 {
                bytes.extend([5, 6, 7, 8]);
                expected.sequence = Some(0x0506_0708);
            }
            expected.len = bytes.len();
            assert_eq!(Gre::parse(&bytes), Some(expected));
            assert_eq!(Gre::parse(&[&bytes[..], &[9; 9]].concat()), Some(expected));
            for cut in 0..bytes.len() {
                assert_eq!(Gre::parse(&bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn other_versions_and_routing_are_not_read() {
        assert!(Gre::parse(&[0x30, 0x81, 0x88, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(Gre::parse(&[0x40, 0, 8, 0, 0, 0, 0, 0]).is_none());
    }
}
