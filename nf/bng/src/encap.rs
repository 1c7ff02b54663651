//! What stands in front of customers' packets on their way to the core, byte by byte.
//!
//! ```text
//! bytes  14            4 each   20                            8
//!        Ethernet      labels   IPv4 (protocol 47)            GRE        customer's IPv4 packet
//!        type 8847 (*)          DF, id 0 (**)                 2000 0800
//!                                                             key
//! ```
//!
//! (*) 0800 without labels; the header is the [layer's](weir_ip::Leaving::write). (**) RFC 6864: a packet that must not be fragmented needs no identification.
//!
//! Each gateway has a head that is complete but for what differs between packets: the outer total length, its DSCP where it is
//! copied, the checksum, which is mended with them (RFC 1071), and the key. All heads are written as if they were of the greatest
//! length: a shorter one has zeros in front, which end up in front of the packet. So all places are fixed.

use weir_packet::Packet;
use weir_wire::mpls::Label;
use weir_wire::{Ethernet, Ipv4, MacAddr, View, checksum, ethernet, ipv4};
use zerocopy::IntoBytes;

/// Bytes of an Ethernet header with two tags.
pub(crate) const TAGGED: usize = 22;
/// Bytes of two tags.
pub(crate) const TAGS: usize = TAGGED - Ethernet::LEN;
/// Bytes of an outer IPv4 header and a GRE header with a key.
pub(crate) const TUNNEL: usize = Ipv4::LEN + GRE;
/// Bytes of a GRE header with a key.
pub(crate) const GRE: usize = 8;
/// A GRE header's first word: a key and nothing else is present (RFC 2890), the payload is IPv4.
pub(crate) const GRE_IPV4: [u8; 4] = [0x20, 0x00, 0x08, 0x00];
/// The same of IPv6.
pub(crate) const GRE_IPV6: [u8; 4] = [0x20, 0x00, 0x86, 0xdd];
/// Labels that a head has room for.
pub(crate) const MAX_LABELS: usize = 3;
/// Bytes of the longest head.
const LONGEST: usize = Ethernet::LEN + MAX_LABELS * Label::LEN + TUNNEL;
/// Headroom that is needed to replace an Ethernet header and tags by a head.
pub(crate) const ROOM: usize = LONGEST - TAGGED;

/// The outer IPv4 header's fields that a configuration decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outer {
    /// The gateway's own end of the tunnel.
    pub(crate) source: u32,
    /// The other end.
    pub(crate) destination: u32,
    pub(crate) ttl: u8,
    /// The DSCP of all packets; `None` copies the customer's.
    pub(crate) dscp: Option<u8>,
    pub(crate) dont_fragment: bool,
}

/// What differs from packet to packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Each {
    /// The subscriber's GRE key.
    pub(crate) key: u32,
    /// Bytes of the customer's packet, as its total length says.
    pub(crate) total: u16,
    /// The customer's type of service.
    pub(crate) tos: u8,
    /// The outer identification; `None` where the packet must not be fragmented.
    pub(crate) identification: Option<u16>,
}

/// A complete head but for what differs from packet to packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewrite {
    /// Its bytes, which end with it.
    bytes: [u8; LONGEST],
    /// How many it has.
    len: u8,
    /// The outer type of service, or [`COPY`]. Its ECN field is 0 (RFC 6040 section 4.3, compatibility mode): whoever is at the other end need
    /// not know of it.
    tos: u8,
    /// One's complement sum of the outer header without what differs.
    sum: u16,
}

/// The bits of the DSCP in a type of service.
const DSCP: u8 = 0xfc;

/// In place of a type of service: the customer's DSCP is taken.
const COPY: u8 = 1;

impl Rewrite {
    /// Nothing but an Ethernet header.
    pub(crate) const NONE: Rewrite = Rewrite { bytes: [0; LONGEST], len: Ethernet::LEN as u8, tos: 0, sum: 0 };

    /// Bytes of labels and outer headers.
    #[inline(always)]
    pub(crate) fn overhead(&self) -> u16 {
        u16::from(self.len).saturating_sub(Ethernet::LEN as u16)
    }

    /// A tunnel, behind an Ethernet header of zeros. Labels are the outermost first, of which at most [`MAX_LABELS`] count; the bottom is
    /// marked here.
    pub(crate) fn tunnel(labels: &[Label], outer: Outer) -> Rewrite {
        let mut bytes = vec![0; Ethernet::LEN];
        let count = labels.len().min(MAX_LABELS);
        for (n, label) in labels.iter().take(count).enumerate() {
            let entry = Label::new(label.value(), label.class(), n + 1 == count, label.ttl());
            bytes.extend(entry.as_bytes());
        }
        let mut ip = Ipv4 {
            version_ihl: 0x45,
            tos: 0,
            total_length: 0.into(),
            identification: 0.into(),
            flags_offset: 0.into(),
            ttl: outer.ttl,
            protocol: ipv4::GRE,
            checksum: 0.into(),
            source: outer.source.into(),
            destination: outer.destination.into(),
        };
        ip.set_fragment(outer.dont_fragment, false, 0);
        let sum = checksum::Sum::new().bytes(ip.as_bytes()).fold();
        bytes.extend(ip.as_bytes());
        bytes.extend(GRE_IPV4);
        bytes.extend([0; 4]);
        Rewrite { tos: outer.dscp.map_or(COPY, |dscp| dscp << 2), sum, ..Rewrite::of(&bytes) }
    }

    fn of(head: &[u8]) -> Rewrite {
        let mut bytes = [0; LONGEST];
        bytes.iter_mut().rev().zip(head.iter().rev()).for_each(|(to, from)| *to = *from);
        Rewrite { bytes, len: head.len().min(LONGEST) as u8, tos: 0, sum: 0 }
    }

    /// The same head behind another Ethernet header.
    pub(crate) fn with_header(&self, header: [u8; Ethernet::LEN]) -> Rewrite {
        let mut whole = self.clone();
        let start = LONGEST.saturating_sub(usize::from(self.len));
        whole.bytes.iter_mut().skip(start).zip(header).for_each(|(to, from)| *to = from);
        whole
    }

    /// Replaces the Ethernet header and tags of a packet by a tunnel's head, and what is behind the customer's packet by nothing.
    /// Answers the first bytes of the customer's packet; `None`, and nothing done, if there is not [headroom](ROOM) enough, or the
    /// packet is shorter than it says. `SIX` says whether that is of IPv6.
    #[inline(always)]
    pub(crate) fn wrap<'p, const SIX: bool>(
        &self,
        packet: &'p mut Packet,
        each: Each,
    ) -> Option<&'p mut [u8; Ipv4::LEN]> {
        let (head, inner) = packet.replace_head(TAGGED, usize::from(self.len), usize::from(each.total))?;
        *head = self.bytes;
        let total = u32::from(each.total) + TUNNEL as u32;
        let [.., service, t0, t1, i0, i1, _, _, _, _, c0, c1, _, _, _, _, _, _, _, _, _, _, p0, p1, k0, k1, k2, k3] =
            head;
        let tos = if self.tos == COPY { each.tos & DSCP } else { self.tos };
        // Four words at most: no carry is lost in 32 bits.
        let mut sum = u32::from(self.sum) + u32::from(tos) + total;
        if let Some(identification) = each.identification {
            sum += u32::from(identification);
            [*i0, *i1] = identification.to_be_bytes();
        }
        // Both halves added to each other the other way round as well: the upper half has their sum, with the carry of the lower.
        let sum = !(sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16;
        *service = tos;
        [*t0, *t1] = (total as u16).to_be_bytes();
        [*c0, *c1] = sum.to_be_bytes();
        [*k0, *k1, *k2, *k3] = each.key.to_be_bytes();
        if SIX {
            [*p0, *p1] = ethernet::IPV6.to_be_bytes();
        }
        Some(inner)
    }
}

/// Replaces the Ethernet header and tags of a packet by room for an Ethernet header, and what is behind the `total` bytes of the customer's
/// packet by nothing. Answers as [`Rewrite::wrap`] does.
#[inline(always)]
pub(crate) fn bare(packet: &mut Packet, total: u16) -> Option<&mut [u8; Ipv4::LEN]> {
    let (_, inner) =
        packet.replace_head::<{ Ethernet::LEN }, { Ipv4::LEN }>(TAGGED, Ethernet::LEN, usize::from(total))?;
    Some(inner)
}

/// What stands before a packet to a customer: Ethernet header and two tags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tagged {
    /// The customer's Ethernet address, first byte lowest; the upper 16 bits are 0.
    pub(crate) destination: u64,
    /// The port's Ethernet address, the same.
    pub(crate) source: u64,
    /// EtherType and control information of the outer tag, then of the inner one, first byte lowest.
    pub(crate) tags: u64,
}

impl Tagged {
    /// Writes the header of a packet with this EtherType, by words.
    #[inline(always)]
    pub(crate) fn write(&self, ethertype: u16, header: &mut [u8; TAGGED]) {
        let first = self.destination | self.source << 48;
        let second = (self.source >> 16) as u32;
        let (start, rest) = header.split_at_mut(8);
        start.copy_from_slice(&first.to_le_bytes());
        let (middle, rest) = rest.split_at_mut(4);
        middle.copy_from_slice(&second.to_le_bytes());
        let (tags, end) = rest.split_at_mut(8);
        tags.copy_from_slice(&self.tags.to_le_bytes());
        end.copy_from_slice(&ethertype.to_be_bytes());
    }
}

/// A priority (802.1p) where it stands in both tags of a word as in [`Tagged`].
pub(crate) const fn priority_word(priority: u8) -> u64 {
    let bits = (priority as u64 & 7) << 5;
    bits << 16 | bits << 48
}

/// The bits of a MAC address in a little-endian word.
pub(crate) const MAC_BITS: u64 = (1 << 48) - 1;

/// A MAC address as the first 48 bits of a little-endian word.
pub(crate) fn mac_word(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{HeapPool, Pool};

    const NEAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn outer() -> Outer {
        Outer { source: 0x1516_1718, destination: 0xc633_6402, ttl: 64, dscp: None, dont_fragment: true }
    }

    /// A customer's frame without padding: 22 bytes of headers, 20 of IPv4, 8 of UDP.
    fn customer(tos: u8) -> Vec<u8> {
        let mut frame = vec![0xee; TAGGED];
        frame.extend([0x45, tos, 0, 28, 0, 0, 0, 0, 63, 17, 0, 0, 10, 0, 0, 9, 192, 0, 2, 1, 0, 1, 0, 2, 0, 8, 0, 0]);
        frame
    }

    fn wrapped(head: &Rewrite, tos: u8, identification: Option<u16>) -> Vec<u8> {
        let mut pool = HeapPool::new(1, 2048);
        let mut packet = pool.alloc().unwrap();
        packet.fill(&customer(tos));
        assert!(head.wrap::<false>(&mut packet, Each { key: 0xcafe_0007, total: 28, tos, identification }).is_some());
        let bytes = packet.bytes().to_vec();
        pool.free(packet);
        bytes
    }

    /// The formats of RFC 3032, 791, 2784 and 2890 byte by byte.
    #[test]
    fn one_label_grows_a_packet_by_24_bytes() {
        let head = Rewrite::tunnel(&[Label::new(0x12010, 5, false, 63)], outer());
        let bytes = wrapped(&head, 0xb9, None);
        assert_eq!(bytes.len(), customer(0).len() + 24);
        assert_eq!(bytes[..14], [0; 14]);
        // Label 0x12010, class 5, bottom of the stack, TTL 63.
        assert_eq!(bytes[14..18], [0x12, 0x01, 0x0b, 63]);
        // Version, DSCP 46 of the customer without its ECN, 56 bytes, identification 0, DF, TTL, GRE.
        assert_eq!(bytes[18..28], [0x45, 0xb8, 0, 56, 0, 0, 0x40, 0, 64, 47]);
        assert!(checksum::is_valid(&bytes[18..38]));
        assert_eq!(bytes[30..38], [0x15, 0x16, 0x17, 0x18, 0xc6, 0x33, 0x64, 0x02]);
        assert_eq!(bytes[38..46], [0x20, 0, 0x08, 0, 0xca, 0xfe, 0, 7]);
        assert_eq!(bytes[46..], customer(0xb9)[TAGGED..]);
    }

    #[test]
    fn each_further_label_adds_four_bytes_and_only_the_last_is_the_bottom() {
        for count in 0..=MAX_LABELS {
            let labels: Vec<Label> = (0..count).map(|n| Label::new(16 + n as u32, n as u8, true, 9)).collect();
            let bytes = wrapped(&Rewrite::tunnel(&labels, outer()), 0, None);
            assert_eq!(bytes.len(), customer(0).len() + 20 + 4 * count);
            for n in 0..count {
                let label = Label::view(&bytes[14 + 4 * n..]).unwrap();
                assert_eq!((label.value(), label.class(), label.ttl()), (16 + n as u32, n as u8, 9));
                assert_eq!(label.is_bottom(), n + 1 == count);
            }
        }
    }

    #[test]
    fn a_fixed_dscp_and_an_identification_are_in_the_checksum() {
        let head = Rewrite::tunnel(&[], Outer { dscp: Some(10), dont_fragment: false, ..outer() });
        for identification in [0, 1, 0x1234, 0xffff] {
            for tos in [0, 0xff] {
                let bytes = wrapped(&head, tos, Some(identification));
                assert_eq!(bytes[15], 40);
                assert_eq!(bytes[18..22], [(identification >> 8) as u8, identification as u8, 0, 0]);
                assert!(checksum::is_valid(&bytes[14..34]));
            }
        }
    }

    /// Every total length and every type of service: the checksum is that of RFC 1071.
    #[test]
    fn the_checksum_is_right_for_every_length_and_service() {
        let head = Rewrite::tunnel(&[], outer());
        let mut pool = HeapPool::new(1, 9100);
        for total in 20..=9000_u16 {
            for tos in [0, 0xfc, (total * 4) as u8] {
                let mut packet = pool.alloc().unwrap();
                packet.fill(&customer(tos));
                assert!(packet.set_len(TAGGED + usize::from(total)));
                assert!(head.wrap::<false>(&mut packet, Each { key: 1, total, tos, identification: None }).is_some());
                assert!(checksum::is_valid(&packet.bytes()[14..34]), "{total} {tos}");
                pool.free(packet);
            }
        }
    }

    #[test]
    fn without_headroom_nothing_is_done() {
        let mut pool = HeapPool::new(1, 2048);
        let mut packet = pool.alloc().unwrap();
        packet.fill(&customer(0));
        let headroom = packet.headroom();
        assert!(packet.prepend(headroom) && packet.set_len(customer(0).len()));
        let head = Rewrite::tunnel(&[], outer());
        assert!(head.wrap::<false>(&mut packet, Each { key: 1, total: 28, tos: 0, identification: None }).is_none());
        assert_eq!(packet.len(), customer(0).len());
        pool.free(packet);
    }

    #[test]
    fn plain_ip_has_room_for_an_ethernet_header_and_nothing_else() {
        let mut pool = HeapPool::new(1, 2048);
        let mut packet = pool.alloc().unwrap();
        packet.fill(&customer(7));
        assert!(bare(&mut packet, 28).is_some());
        assert_eq!(packet.len(), customer(7).len() - TAGGED + Ethernet::LEN);
        assert_eq!(packet.bytes()[14..], customer(7)[TAGGED..]);
        pool.free(packet);
    }

    #[test]
    fn tags_lie_where_802_1ad_puts_them() {
        let mut header = [0; TAGGED];
        let tags = u64::from_le_bytes([0x88, 0xa8, 0x01, 0x23, 0x81, 0, 0x04, 0x56]) | priority_word(5);
        Tagged { destination: mac_word(MacAddr([6, 7, 8, 9, 10, 11])), source: mac_word(NEAR), tags }
            .write(ethernet::IPV4, &mut header);
        let expected = [6, 7, 8, 9, 10, 11, 2, 0, 0, 0, 0, 1, 0x88, 0xa8, 0xa1, 0x23, 0x81, 0, 0xa4, 0x56, 0x08, 0x00];
        assert_eq!(header, expected);
    }
}
