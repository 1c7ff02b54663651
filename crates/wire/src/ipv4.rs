//! IPv4 (RFC 791): the header, its TTL and checksum arithmetic.

use crate::checksum;
use crate::options::Options;
use crate::{U16, U32, View};
use std::net::Ipv4Addr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of IPv4 in IPv4.
pub const IPIP: u8 = 4;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of IPv6 in IPv4.
pub const IPV6: u8 = 41;
/// Protocol number of GRE.
pub const GRE: u8 = 47;
/// Protocol number of ESP.
pub const ESP: u8 = 50;
/// Protocol number of DCCP.
pub const DCCP: u8 = 33;
/// Protocol number of SCTP.
pub const SCTP: u8 = 132;
/// Protocol number of UDP-Lite.
pub const UDP_LITE: u8 = 136;

/// Bytes of the longest header: IHL has four bits and counts words of four bytes.
pub const MAX_HEADER: usize = 60;
/// Largest fragment offset and packet length, in bytes.
pub const MAX_LENGTH: usize = 65_535;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// The usual name of a protocol number; `None` for those that Weir has no name for.
pub const fn protocol_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        ICMP => "icmp",
        2 => "igmp",
        IPIP => "ipip",
        TCP => "tcp",
        UDP => "udp",
        DCCP => "dccp",
        IPV6 => "ipv6",
        GRE => "gre",
        ESP => "esp",
        51 => "ah",
        89 => "ospf",
        103 => "pim",
        112 => "vrrp",
        SCTP => "sctp",
        UDP_LITE => "udplite",
        _ => return None,
    })
}

/// The fixed part of an IPv4 header, 20 bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ipv4 {
    /// Version (high four bits) and header length in words of four bytes (low four bits).
    pub version_ihl: u8,
    /// Type of service: precedence (3 bits), TOS; or DSCP and ECN.
    pub tos: u8,
    /// Bytes of header and payload.
    pub total_length: U16,
    /// What the fragments of one packet share.
    pub identification: U16,
    /// Flags (reserved, DF, MF) and the fragment offset in units of 8 bytes (13 bits).
    pub flags_offset: U16,
    /// Hops that are left.
    pub ttl: u8,
    /// What the payload is, such as [`UDP`].
    pub protocol: u8,
    /// Checksum of the header with its options.
    pub checksum: U16,
    /// Source address.
    pub source: U32,
    /// Destination address.
    pub destination: U32,
}

impl View for Ipv4 {}

impl Ipv4 {
    /// Version field; 4 in a valid packet.
    #[inline]
    pub const fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Bytes of the header with its options as IHL says, 0..=60.
    #[inline]
    pub const fn header_len(&self) -> usize {
        (self.version_ihl & 0xf) as usize * 4
    }

    /// Bytes of header and payload.
    #[inline]
    pub fn total_len(&self) -> usize {
        usize::from(self.total_length.get())
    }

    /// Whether the header is longer than its fixed part.
    #[inline]
    pub const fn has_options(&self) -> bool {
        self.version_ihl & 0xf > 5
    }

    /// Whether the packet must not be fragmented.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_offset.get() & DONT_FRAGMENT != 0
    }

    /// Whether fragments follow this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_offset.get() & MORE_FRAGMENTS != 0
    }

    /// Where the payload belongs in the whole packet, in bytes, 0..=65,528.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.flags_offset.get() & OFFSET_MASK) * 8
    }

    /// Whether this is a piece of a packet, be it the first one.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_offset.get() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Sets flags and offset. `offset` is in bytes; its low three bits and what exceeds 65,528 are not kept.
    #[inline]
    pub fn set_fragment(&mut self, dont_fragment: bool, more_fragments: bool, offset: usize) {
        let dont = if dont_fragment { DONT_FRAGMENT } else { 0 };
        let more = if more_fragments { MORE_FRAGMENTS } else { 0 };
        let offset = (offset / 8) as u16 & OFFSET_MASK;
        self.flags_offset = U16::new(dont | more | offset);
    }

    /// Source address as the library type.
    #[inline]
    pub fn source_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.source.get())
    }

    /// Destination address as the library type.
    #[inline]
    pub fn destination_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.destination.get())
    }

    /// Takes one hop off the TTL and mends the checksum. A TTL of 0 stays as it is and the answer is `false`.
    ///
    /// RFC 1624 equation 3 is `HC' = ~(~HC + ~m + m')` for a word that changes from m to m'. The word here is TTL and
    /// protocol, and `m' = m - 0x0100` without a borrow as the TTL is at least 1. So `~m + m'` is `-0x0100` in one's
    /// complement whatever m was, and `HC' = HC + 0x0100` with the carry added at the end (RFC 1141). A sum of 0xffff is
    /// taken as 0, which is the same number: a checksum from scratch is never 0xffff (-0) as a header is never all zero.
    ///
    /// One's complement sums are the same with the bytes of all words swapped (RFC 1071 section 2 (B)): TTL, protocol and checksum are one number, lowest
    /// byte first, from whose lowest byte 1 is taken, and 1 is added to its upper half, which is the checksum with its bytes swapped.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        const AT: usize = std::mem::offset_of!(Ipv4, ttl);
        let Some(bytes) = self.as_mut_bytes().get_mut(AT..).and_then(<[u8]>::first_chunk_mut) else { return false };
        let word = u32::from_le_bytes(*bytes);
        if word as u8 == 0 {
            return false;
        }
        let goes_around = word >= 0xfffe << 16;
        *bytes = word.wrapping_sub(1).wrapping_add((1 + u32::from(goes_around)) << 16).to_le_bytes();
        true
    }

    /// Sets the type of service, which is DSCP (6 bits) and ECN (2 bits), and mends the checksum (RFC 1624): it is as right, or as wrong, as it was.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        let word = |tos| u16::from_be_bytes([self.version_ihl, tos]);
        let updated = checksum::update(self.checksum.get(), word(self.tos), word(tos));
        self.tos = tos;
        self.checksum = U16::new(updated);
    }

    /// Sets the TTL and mends the checksum.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        let word = |ttl| u16::from_be_bytes([ttl, self.protocol]);
        let updated = checksum::update(self.checksum.get(), word(self.ttl), word(ttl));
        self.ttl = ttl;
        self.checksum = U16::new(updated);
    }
}

/// Computes and writes the checksum of the header at the start of `packet`, options included. Answers `false`, and
/// writes nothing, if the header is not there whole or its IHL is below 5.
pub fn write_checksum(packet: &mut [u8]) -> bool {
    let Some(length) = Ipv4::view(packet).map(Ipv4::header_len) else { return false };
    let Some(header) = packet.get_mut(..length) else { return false };
    let Some(fixed) = Ipv4::view_mut(header) else { return false };
    fixed.checksum = U16::ZERO;
    let sum = checksum::checksum(header);
    if let Some(fixed) = Ipv4::view_mut(header) {
        fixed.checksum = U16::new(sum);
    }
    true
}

/// The header at the start of `packet` with its options, if it is there whole and its IHL is 5 or more.
#[inline]
pub fn header(packet: &[u8]) -> Option<&[u8]> {
    let length = Ipv4::view(packet)?.header_len();
    if length < Ipv4::LEN { None } else { packet.get(..length) }
}

/// The options of the header at the start of `packet`; none if the header is not there whole.
pub fn options(packet: &[u8]) -> Options<'_> {
    Options::new(header(packet).and_then(|header| header.get(Ipv4::LEN..)).unwrap_or_default())
}

/// The payload of `packet` as total length delimits it: what a link has padded is left out. `None` if the packet is
/// not there whole.
pub fn payload(packet: &[u8]) -> Option<&[u8]> {
    let ip = Ipv4::view(packet)?;
    if ip.header_len() < Ipv4::LEN { None } else { packet.get(ip.header_len()..ip.total_len()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A header of 5 + `words` words whose options are NOPs, with the right checksum.
    pub(crate) fn valid(words: usize, payload: usize) -> Vec<u8> {
        let mut packet = vec![1; 20 + words * 4 + payload];
        let total = packet.len() as u16;
        packet[0] = 0x45 + words as u8;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[6..8].fill(0);
        assert!(write_checksum(&mut packet));
        packet
    }

    #[test]
    fn fields_lie_where_rfc_791_puts_them() {
        let bytes = [0x46, 0xb8, 0x01, 0x02, 0x03, 0x04, 0x60, 0x05, 0x40, 0x11, 0x06, 0x07, 10, 0, 0, 1, 192, 0, 2, 9];
        let ip = Ipv4::view(&bytes).unwrap();
        assert_eq!((ip.version(), ip.header_len(), ip.tos, ip.total_len()), (4, 24, 0xb8, 0x102));
        assert_eq!((ip.identification.get(), ip.ttl, ip.protocol, ip.checksum.get()), (0x304, 64, UDP, 0x607));
        assert_eq!((ip.dont_fragment(), ip.more_fragments(), ip.fragment_offset()), (true, true, 40));
        assert_eq!(ip.source_addr(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(ip.destination_addr(), Ipv4Addr::new(192, 0, 2, 9));
        assert!(ip.has_options() && ip.is_fragment());
        assert!(Ipv4::view(&bytes[..19]).is_none());
    }

    #[test]
    fn every_fragment_field_round_trips() {
        let mut ip = *Ipv4::view(&valid(0, 0)).unwrap();
        for units in 0..=OFFSET_MASK {
            for (dont, more) in [(false, false), (true, false), (false, true), (true, true)] {
                let offset = usize::from(units) * 8;
                ip.set_fragment(dont, more, offset);
                assert_eq!((ip.dont_fragment(), ip.more_fragments(), ip.fragment_offset()), (dont, more, offset));
                assert_eq!(ip.is_fragment(), more || units > 0);
            }
        }
    }

    /// Every TTL with every checksum that a header can have: 255 x 65,535 cases. The identification walks the checksum
    /// through its range; the definition is a sum from scratch, kept simple by summing the words that do not change once.
    #[test]
    fn one_hop_less_equals_a_header_built_from_scratch_for_every_ttl_and_checksum() {
        let fold = |sum: u32| {
            let sum = (sum & 0xffff) + (sum >> 16);
            !((sum & 0xffff) + (sum >> 16)) as u16
        };
        let mut ip = *Ipv4::view(&valid(0, 0)).unwrap();
        ip.identification = U16::ZERO;
        ip.checksum = U16::ZERO;
        ip.ttl = 0;
        let fixed: u32 = ip.as_bytes().chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        for ttl in 1..=255u8 {
            let mut seen = 0u32;
            for identification in 0..=u16::MAX {
                let scratch = |ttl: u8| fold(fixed + (u32::from(ttl) << 8) + u32::from(identification));
                let mut one = ip;
                one.ttl = ttl;
                one.checksum = U16::new(scratch(ttl));
                assert!(one.decrement_ttl());
                assert_eq!((one.ttl, one.checksum.get()), (ttl - 1, scratch(ttl - 1)), "{ttl} {identification}");
                seen += u32::from(scratch(ttl) != 0xffff);
            }
            // Identification 0 and 0xffff give the same sum, so all 65,535 checksums occurred; 0xffff never does.
            assert_eq!(seen, 65_536);
        }
    }

    /// A sender may write 0xffff for a sum of -0; receivers accept it. What comes out must be accepted too.
    #[test]
    fn the_other_zero_is_mended_as_well() {
        let mut ip = *Ipv4::view(&valid(0, 0)).unwrap();
        let rest = ip.checksum.get();
        ip.identification = U16::new(checksum::update(ip.identification.get(), 0, !rest));
        assert!(write_checksum(ip.as_mut_bytes()));
        let to_zero = ip.checksum.get();
        ip.identification =
            U16::new((u32::from(ip.identification.get()) + u32::from(to_zero)).rem_euclid(65_535) as u16);
        assert!(write_checksum(ip.as_mut_bytes()));
        assert_eq!(ip.checksum.get(), 0);
        ip.checksum = U16::new(0xffff);
        assert!(checksum::is_valid(ip.as_bytes()));
        assert!(ip.decrement_ttl());
        assert!(checksum::is_valid(ip.as_bytes()));
    }

    #[test]
    fn a_ttl_of_zero_stays() {
        let mut packet = valid(0, 0);
        packet[8] = 0;
        write_checksum(&mut packet);
        let before = packet.clone();
        assert!(!Ipv4::view_mut(&mut packet).unwrap().decrement_ttl());
        assert_eq!(packet, before);
    }

    #[test]
    fn every_ttl_to_every_ttl_keeps_the_checksum_right() {
        for from in 0..=255 {
            for to in 0..=255 {
                let mut packet = valid(0, 0);
                packet[8] = from;
                write_checksum(&mut packet);
                Ipv4::view_mut(&mut packet).unwrap().set_ttl(to);
                let mended = packet.clone();
                write_checksum(&mut packet);
                assert_eq!(mended, packet);
            }
        }
    }

    proptest! {
        #[test]
        fn parts_of_any_bytes_are_answered(packet: Vec<u8>) {
            let _ = (header(&packet), payload(&packet), options(&packet).count());
        }
    }

    #[test]
    fn parts_follow_the_length_fields() {
        let packet = valid(2, 7);
        let padded = [&packet[..], &[9; 5]].concat();
        assert_eq!(header(&padded), Some(&packet[..28]));
        assert_eq!(payload(&padded), Some(&packet[28..]));
        assert_eq!(payload(&packet[..30]), None);
        assert_eq!(header(&packet[..27]), None);
    }

    #[test]
    fn protocols_have_names() {
        assert_eq!((protocol_name(17), protocol_name(200)), (Some("udp"), None));
    }
}
