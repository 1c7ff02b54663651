//! Whether a packet is valid IPv4: the checks of RFC 1812 section 5.2.2, clause by clause.

use crate::checksum::Sum;
use crate::ipv4::MAX_HEADER;
use crate::{Ipv4, View};
use std::fmt;

/// What is wrong with a packet, by the clauses of RFC 1812 section 5.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Defect {
    /// Fewer bytes arrived than an IPv4 header takes.
    TooShort,
    /// The version is not 4.
    Version,
    /// IHL says that the header is shorter than its fixed part.
    HeaderLength,
    /// The header's checksum is wrong.
    Checksum,
    /// Total length ends inside the header.
    TotalLength,
    /// The packet claims more bytes than arrived.
    Truncated,
}

impl Defect {
    /// All defects, in the order of their numbers.
    pub const ALL: [Defect; 6] = [
        Defect::TooShort,
        Defect::Version,
        Defect::HeaderLength,
        Defect::Checksum,
        Defect::TotalLength,
        Defect::Truncated,
    ];

    /// A short name, as counters use it.
    pub const fn name(self) -> &'static str {
        match self {
            Defect::TooShort => "ip-too-short",
            Defect::Version => "ip-version",
            Defect::HeaderLength => "ip-header-length",
            Defect::Checksum => "ip-checksum",
            Defect::TotalLength => "ip-total-length",
            Defect::Truncated => "ip-truncated",
        }
    }

    /// A sentence that explains it.
    pub const fn help(self) -> &'static str {
        match self {
            Defect::TooShort => "fewer than the 20 bytes of an IPv4 header arrived",
            Defect::Version => "the version field is not 4",
            Defect::HeaderLength => "the header length field is below 5 words",
            Defect::Checksum => "the IPv4 header checksum is wrong",
            Defect::TotalLength => "the total length is less than the header length",
            Defect::Truncated => "the total length is more than what arrived",
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.help())
    }
}

impl std::error::Error for Defect {}

/// Whether the packet at the start of `window`, of which `received` bytes arrived from the link, passes the five checks
/// of RFC 1812 section 5.2.2, and the one that the same section adds: that all of it is there.
///
/// A packet with several defects is reported by the first that the code below comes to. Version and IHL come before the
/// checksum, as IHL says what the checksum covers. Bytes of the window from `received` on are never trusted.
///
/// `N` is at least 60, so that every header fits (checked when compiled).
#[inline(always)]
pub fn check<const N: usize>(window: &[u8; N], received: usize) -> Result<(), Defect> {
    const { assert!(N >= MAX_HEADER) };
    let Some((fixed, rest)) = window.split_first_chunk::<20>() else { return Err(Defect::TooShort) };
    let Some(ip) = Ipv4::view(fixed) else { return Err(Defect::TooShort) };
    // "(1) The packet length reported by the Link Layer must be large enough to hold the minimum length legal IP
    // datagram (20 bytes)."
    if received < Ipv4::LEN {
        return Err(Defect::TooShort);
    }
    let mut sum = Sum::new().bytes(fixed);
    if ip.version_ihl != 0x45 {
        sum = sum.bytes(options_to_sum(ip, rest, received)?);
    }
    // "(2) The IP checksum must be correct."
    if sum.fold() != 0xffff {
        return Err(Defect::Checksum);
    }
    // "(5) The IP total length field must be large enough to hold the IP datagram header, whose length is specified in
    // the IP header length field."
    if ip.total_len() < ip.header_len() {
        return Err(Defect::TotalLength);
    }
    // "Additionally, the router SHOULD verify that the packet length reported by the Link Layer is at least as large as
    // the IP total length recorded in the packet's IP header. If it appears that the packet has been truncated, the
    // packet MUST be discarded."
    if ip.total_len() > received {
        return Err(Defect::Truncated);
    }
    Ok(())
}

/// The part of the header after its fixed 20 bytes, once version and length are known to be right. Rarely called: most
/// headers start with 0x45.
#[inline]
fn options_to_sum<'w>(ip: &Ipv4, rest: &'w [u8], received: usize) -> Result<&'w [u8], Defect> {
    // "(3) The IP version number must be 4."
    if ip.version() != 4 {
        return Err(Defect::Version);
    }
    // "(4) The IP header length field must be large enough to hold the minimum length legal IP datagram (20 bytes = 5
    // words)."
    let length = ip.header_len().checked_sub(Ipv4::LEN).ok_or(Defect::HeaderLength)?;
    if ip.header_len() > received {
        return Err(Defect::Truncated);
    }
    rest.get(..length).ok_or(Defect::Truncated)
}

/// As [`check`], for a packet of any length in a slice that holds just what arrived: for the slow path and tests.
pub fn check_slice(packet: &[u8]) -> Result<(), Defect> {
    let mut window = [0; 64];
    for (to, from) in window.iter_mut().zip(packet) {
        *to = *from;
    }
    check(&window, packet.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::naive;
    use crate::ipv4::tests::valid;
    use crate::ipv4::write_checksum;
    use proptest::prelude::*;

    #[test]
    fn each_clause_of_rfc_1812_is_checked() {
        for words in 0..=10 {
            let good = valid(words, 30);
            assert_eq!(check_slice(&good), Ok(()), "{words} option words");
            assert_eq!(check_slice(&valid(words, 0)), Ok(()), "a header alone is a packet");
            let padded = [&good[..], &[0x77; 9]].concat();
            assert_eq!(check_slice(&padded), Ok(()));

            for length in 0..good.len() {
                let expected = if length < 20 { Defect::TooShort } else { Defect::Truncated };
                assert_eq!(check_slice(&good[..length]), Err(expected), "{words} words, {length} bytes");
            }
            for bit in 16..(20 + words * 4) * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(check_slice(&bad), Err(Defect::Checksum), "{words} words, bit {bit}");
            }
            for version in (0..16).filter(|&version| version != 4) {
                let mut bad = good.clone();
                bad[0] = version << 4 | bad[0] & 15;
                write_checksum(&mut bad);
                assert_eq!(check_slice(&bad), Err(Defect::Version));
            }
            for ihl in 0..5 {
                let mut bad = good.clone();
                bad[0] = 0x40 | ihl;
                assert_eq!(check_slice(&bad), Err(Defect::HeaderLength));
            }
            for total in 0..20 + words * 4 {
                let mut bad = good.clone();
                bad[2..4].copy_from_slice(&(total as u16).to_be_bytes());
                write_checksum(&mut bad);
                assert_eq!(check_slice(&bad), Err(Defect::TotalLength), "total length {total}");
            }
        }
    }

    /// The clauses as a list of statements, each looked at on its own: the slow twin.
    fn defects(packet: &[u8]) -> Vec<Defect> {
        if packet.len() < 20 {
            return vec![Defect::TooShort];
        }
        let length = usize::from(packet[0] & 15) * 4;
        let total = usize::from(packet[2]) << 8 | usize::from(packet[3]);
        let mut found = vec![];
        if packet[0] >> 4 != 4 {
            found.push(Defect::Version);
        }
        if length < 20 {
            found.push(Defect::HeaderLength);
        }
        if packet.get(..length).is_some_and(|header| naive(header) != 0) {
            found.push(Defect::Checksum);
        }
        if total < length {
            found.push(Defect::TotalLength);
        }
        if total > packet.len() || length > packet.len() {
            found.push(Defect::Truncated);
        }
        found
    }

    proptest! {
        #[test]
        fn check_agrees_with_its_twin(
            mut packet in proptest::collection::vec(any::<u8>(), 0..120), ihl in 0u8..16, total in 0u16..130, mend: u8,
        ) {
            if let [first, _, high, low, ..] = &mut packet[..] {
                *first = if mend & 1 != 0 { 0x40 | ihl } else { *first };
                [*high, *low] = total.to_be_bytes();
            }
            if mend & 6 != 0 {
                write_checksum(&mut packet);
            }
            let found = defects(&packet);
            match check_slice(&packet) {
                Ok(()) => prop_assert_eq!(found, vec![]),
                Err(defect) => prop_assert!(found.contains(&defect), "{defect:?} is not in {found:?}"),
            }
        }

        #[test]
        fn stale_bytes_after_the_packet_do_not_matter(words in 0usize..=10, cut in 0usize..90, stale: u8) {
            let good = valid(words, 10);
            let received = cut.min(good.len());
            let mut window = [stale; 128];
            window[..received].copy_from_slice(&good[..received]);
            prop_assert_eq!(check(&window, received), check_slice(&good[..received]));
        }
    }

    #[test]
    fn names_differ() {
        let mut names = Defect::ALL.map(Defect::name).to_vec();
        names.dedup();
        assert_eq!(names.len(), Defect::ALL.len());
        for (number, defect) in Defect::ALL.into_iter().enumerate() {
            assert_eq!(defect as usize, number);
            assert!(!defect.help().is_empty());
        }
    }
}
