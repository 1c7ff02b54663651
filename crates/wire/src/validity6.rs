//! Whether a packet is valid IPv6 (RFC 8200 section 3): there is no checksum, and little that can be wrong.

use crate::{Ipv6, View};
use std::fmt;

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Defect {
    /// Fewer bytes arrived than an IPv6 header takes.
    TooShort,
    /// The version is not 6.
    Version,
    /// The packet claims more bytes than arrived.
    Truncated,
}

impl Defect {
    /// All defects, in the order of their numbers.
    pub const ALL: [Defect; 3] = [Defect::TooShort, Defect::Version, Defect::Truncated];

    /// A short name, as counters use it.
    pub const fn name(self) -> &'static str {
        match self {
            Defect::TooShort => "ip6-too-short",
            Defect::Version => "ip6-version",
            Defect::Truncated => "ip6-truncated",
        }
    }

    /// A sentence that explains it.
    pub const fn help(self) -> &'static str {
        match self {
            Defect::TooShort => "fewer than the 40 bytes of an IPv6 header arrived",
            Defect::Version => "the version field is not 6",
            Defect::Truncated => "the payload length is more than what arrived",
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.help())
    }
}

impl std::error::Error for Defect {}

/// Whether the packet at the start of `window`, of which `received` bytes arrived from the link, is valid. Bytes behind its payload are
/// the link's own; bytes of the window from `received` on are never trusted. A payload length of 0 is that of a packet without payload:
/// jumbograms (RFC 2675) are longer than any frame here.
///
/// `N` is at least 40, so that the header fits (checked when compiled).
#[inline(always)]
pub fn check<const N: usize>(window: &[u8; N], received: usize) -> Result<(), Defect> {
    const { assert!(N >= Ipv6::LEN) };
    let Some(ip) = Ipv6::view(window) else { return Err(Defect::TooShort) };
    if received < Ipv6::LEN {
        return Err(Defect::TooShort);
    }
    if ip.version() != 6 {
        return Err(Defect::Version);
    }
    if Ipv6::LEN + usize::from(ip.payload_length.get()) > received {
        return Err(Defect::Truncated);
    }
    Ok(())
}

/// As [`check`], for a packet of any length in a slice that holds just what arrived: for the slow path and tests.
///
/// # Errors
/// The first defect.
pub fn check_slice(packet: &[u8]) -> Result<(), Defect> {
    let mut window = [0; Ipv6::LEN];
    for (to, from) in window.iter_mut().zip(packet) {
        *to = *from;
    }
    check(&window, packet.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8200 section 3: every version, and every length around what arrived.
    #[test]
    fn version_and_length_are_all_that_can_be_wrong() {
        for version in 0..16_u8 {
            for received in 0..100_usize {
                for payload in 0..100_u16 {
                    let mut window = [0xff; 64];
                    window[0] = version << 4 | 0xf;
                    window[4..6].copy_from_slice(&payload.to_be_bytes());
                    let expected = match (received < 40, version != 6, received < 40 + usize::from(payload)) {
                        (true, ..) => Err(Defect::TooShort),
                        (_, true, _) => Err(Defect::Version),
                        (.., true) => Err(Defect::Truncated),
                        _ => Ok(()),
                    };
                    assert_eq!(check(&window, received), expected);
                }
            }
        }
    }

    #[test]
    fn a_slice_is_checked_as_a_window() {
        let mut packet = vec![0; 48];
        packet[0] = 0x60;
        packet[5] = 8;
        assert_eq!(check_slice(&packet), Ok(()));
        assert_eq!(check_slice(&packet[..47]), Err(Defect::Truncated));
        assert_eq!(check_slice(&packet[..39]), Err(Defect::TooShort));
        assert_eq!(check_slice(&[]), Err(Defect::TooShort));
    }
}
