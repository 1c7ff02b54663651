//! IPv6 (RFC 8200): the header, and the way past extension headers.

use std::net::Ipv6Addr;

use crate::{U16, U32, View};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Extension header: hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// Extension header: routing.
pub const ROUTING: u8 = 43;
/// Extension header: fragment.
pub const FRAGMENT: u8 = 44;
/// Extension header: authentication (RFC 4302).
pub const AUTHENTICATION: u8 = 51;
/// Protocol: ICMPv6.
pub const ICMPV6: u8 = 58;
/// Nothing follows.
pub const NO_NEXT: u8 = 59;
/// Extension header: destination options.
pub const DESTINATION: u8 = 60;
/// Extension header: mobility (RFC 6275).
pub const MOBILITY: u8 = 135;

/// Extension headers that are followed at most: a packet with more is not looked into any further.
pub const MAX_EXTENSIONS: usize = 16;

/// Whether a number of a next header is that of an extension header which says how long it is.
pub const fn is_extension(next: u8) -> bool {
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY)
}

/// The IPv6 header, 40 bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ipv6 {
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    pub version_class_flow: U32,
    /// Bytes behind this header.
    pub payload_length: U16,
    /// What follows: an extension header or a protocol.
    pub next_header: u8,
    /// Hops that are left.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

impl View for Ipv6 {}

impl Ipv6 {
    /// Version field; 6 in a valid packet.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }

    /// Traffic class: DSCP (6 bits) and ECN (2 bits).
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// Sets the traffic class, which no checksum covers.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let rest = self.version_class_flow.get() & !(0xff << 20);
        self.version_class_flow = (rest | u32::from(class) << 20).into();
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0xf_ffff
    }

    /// The source address as an address.
    pub const fn source_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.source)
    }

    /// The destination address as an address.
    pub const fn destination_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.destination)
    }
}

/// The fragment extension header (RFC 8200 section 4.5), 8 bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Fragment {
    /// What follows the header in the whole packet.
    pub next_header: u8,
    reserved: u8,
    /// Fragment offset in units of 8 bytes (13 bits), 2 reserved bits, more fragments (1 bit).
    pub offset_flags: U16,
    /// What the fragments of one packet share.
    pub identification: U32,
}

impl View for Fragment {}

impl Fragment {
    /// Where the payload belongs in the whole packet, in bytes, 0..=65,528.
    #[inline]
    pub fn offset(&self) -> usize {
        usize::from(self.offset_flags.get() & !7)
    }

    /// Whether fragments follow this one.
    #[inline]
    pub fn more(&self) -> bool {
        self.offset_flags.get() & 1 != 0
    }
}

/// What lies behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// The protocol there; of a fragment, that of the whole packet. Where the way was not found to its end, the extension header
    /// that was in the way.
    pub protocol: u8,
    /// Where it begins, bytes from the start of the IPv6 header.
    pub at: usize,
    /// Where the fragment header is, if there is one.
    pub fragment: Option<usize>,
    /// Whether that is of a later fragment, so that what lies there is data, and not the start of the protocol's header.
    pub later: bool,
    /// Whether the way was found to its end: all extension headers are whole, and no more than [`MAX_EXTENSIONS`].
    pub whole: bool,
}

/// Looks for what lies behind the extension headers of a packet that begins with an IPv6 header; `None` if it is too short for
/// that. What comes after the header of a later fragment is data, and not looked at.
#[inline]
pub fn upper(packet: &[u8]) -> Option<Upper> {
    let ip = Ipv6::view(packet)?;
    let mut found = Upper { protocol: ip.next_header, at: Ipv6::LEN, fragment: None, later: false, whole: true };
    for _ in 0..=MAX_EXTENSIONS {
        let Some(rest) = packet.get(found.at..) else { break };
        let units = rest.get(1).copied().map(usize::from);
        let length = match found.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY => units.map(|units| 8 + units * 8),
            AUTHENTICATION => units.map(|units| (units + 2) * 4),
            FRAGMENT => Some(Fragment::LEN),
            _ => return Some(found),
        };
        let Some((next, header)) = length.and_then(|length| Some((*rest.first()?, rest.get(..length)?))) else { break };
        if let Some(fragment) = Fragment::view(header).filter(|_| found.protocol == FRAGMENT) {
            found.fragment = Some(found.at);
            found.later = fragment.offset() > 0;
        }
        found.protocol = next;
        found.at += header.len();
        if found.later {
            return Some(found);
        }
    }
    Some(Upper { whole: false, ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with these extension headers: each its number and bytes behind its first.
    fn packet(extensions: &[(u8, Vec<u8>)], last: u8) -> Vec<u8> {
        let mut packet = vec![0x6f, 0xe1, 0x23, 0x45, 0, 0, 0, 7];
        packet.extend((0..32).collect::<Vec<u8>>());
        let mut next_at = 6;
        for (kind, rest) in extensions {
            packet[next_at] = *kind;
            next_at = packet.len();
            packet.push(0);
            packet.extend(rest);
        }
        packet[next_at] = last;
        packet.extend([9; 8]);
        packet
    }

    fn options(units: u8) -> Vec<u8> {
        let mut rest = vec![0; 7 + 8 * usize::from(units)];
        rest[0] = units;
        rest
    }

    #[test]
    fn fields_lie_where_rfc_8200_puts_them() {
        let bytes = packet(&[], 17);
        let ip = Ipv6::view(&bytes).unwrap();
        assert_eq!((ip.version(), ip.traffic_class(), ip.flow_label()), (6, 0xfe, 0x1_2345));
        assert_eq!((ip.next_header, ip.hop_limit), (17, 7));
        let mut other = *ip;
        other.set_traffic_class(0x57);
        assert_eq!((other.version(), other.traffic_class(), other.flow_label()), (6, 0x57, 0x1_2345));
        assert_eq!(zerocopy::IntoBytes::as_bytes(&other)[4..], bytes[4..40]);
        assert_eq!(ip.source_addr().to_string(), "1:203:405:607:809:a0b:c0d:e0f");
        assert_eq!(ip.destination_addr().to_string(), "1011:1213:1415:1617:1819:1a1b:1c1d:1e1f");
        let fragment = Fragment::view(&[6, 0, 0x12, 0x39, 1, 2, 3, 4]).unwrap();
        assert_eq!((fragment.offset(), fragment.more(), fragment.identification.get()), (0x1238, true, 0x0102_0304));
    }

    #[test]
    fn extension_headers_are_passed() {
        let whole = |protocol, at, fragment| Some(Upper { protocol, at, fragment, later: false, whole: true });
        assert_eq!(upper(&packet(&[], 6)), whole(6, 40, None));
        let many = [(0, options(0)), (60, options(2)), (43, options(1)), (135, options(0))];
        assert_eq!(upper(&packet(&many, 58)), whole(58, 40 + 8 + 24 + 16 + 8, None));
        // The length of an authentication header counts words of four bytes, less two.
        assert_eq!(upper(&packet(&[(51, [&[4][..], &[0; 22]].concat())], 17)), whole(17, 64, None));
        let fragment = |offset: u8| (44, vec![0, 0, offset, 0, 0, 0, 1]);
        assert_eq!(upper(&packet(&[fragment(1), (60, options(0))], 17)), whole(17, 56, Some(40)));
        // Behind the header of a later fragment comes data, which may look like anything.
        let later = Upper { protocol: 60, at: 56, fragment: Some(48), later: true, whole: true };
        assert_eq!(upper(&packet(&[(0, options(0)), fragment(8), (60, options(0))], 17)), Some(later));
        assert_eq!(upper(&packet(&[], 59)), whole(59, 40, None));
    }

    #[test]
    fn what_is_cut_or_endless_is_said() {
        let bytes = packet(&[(0, options(0)), (60, options(3))], 17);
        for cut in 0..bytes.len() {
            let found = upper(&bytes[..cut]);
            assert_eq!(found.is_some(), cut >= 40);
            assert_eq!(found.is_some_and(|found| found.whole), cut >= 80, "{cut}");
        }
        let found = upper(&bytes[..60]).unwrap();
        assert_eq!((found.protocol, found.at), (60, 48));
        let most: Vec<_> = (0..MAX_EXTENSIONS).map(|_| (60, options(0))).collect();
        assert!(upper(&packet(&most, 17)).unwrap().whole);
        let more: Vec<_> = (0..=MAX_EXTENSIONS).map(|_| (60, options(0))).collect();
        assert!(!upper(&packet(&more, 17)).unwrap().whole);
    }
}
