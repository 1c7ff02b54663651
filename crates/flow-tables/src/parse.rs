//! From the bytes of a frame to its fields, and to where they stand.

use weir_openflow::Field;
use weir_openflow::oxm::VLAN_PRESENT;

use crate::depth::Depth;
use crate::fields::Fields;

/// EtherTypes of VLAN tags that are looked behind.
pub(crate) const VLAN_TYPES: [u16; 2] = [0x8100, 0x88a8];
/// EtherTypes of MPLS.
pub(crate) const MPLS_TYPES: [u16; 2] = [0x8847, 0x8848];

/// Where the parts of a frame begin; offsets from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The EtherType behind all tags.
    pub(crate) ether_type: usize,
    /// How many VLAN tags there are.
    pub(crate) tags: usize,
    /// The outer MPLS entry.
    pub(crate) mpls: Option<usize>,
    /// ARP.
    pub(crate) arp: Option<usize>,
    /// IPv4 or IPv6.
    pub(crate) ip: Option<Ip>,
    /// The Ethernet addresses in options of neighbour discovery: the source's and the target's.
    pub(crate) nd: [Option<usize>; 2],
}

/// Where IP and what it carries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ip {
    pub(crate) start: usize,
    pub(crate) is_v6: bool,
    /// Where the protocol's number stands.
    pub(crate) protocol_at: usize,
    pub(crate) protocol: u8,
    /// What it carries; nothing in later fragments and in packets that end before it.
    pub(crate) carried: Option<usize>,
    /// Where IP says that the packet ends, or where it does.
    pub(crate) end: usize,
    /// The destination stands in a routing header, so that checksums do not cover the one in the IPv6 header.
    pub(crate) routed: bool,
    /// It is a fragment.
    pub(crate) fragment: bool,
}

/// The number in `count` bytes at `at`, 16 at most. Where `count` is known, it is read in one or two pieces.
#[inline(always)]
pub(crate) fn number(bytes: &[u8], at: usize, count: usize) -> Option<u128> {
    let part = bytes.get(at..at.checked_add(count)?)?;
    Some(match count {
        1 => u128::from(*part.first()?),
        2 => u128::from(u16::from_be_bytes(*part.first_chunk()?)),
        4 => u128::from(u32::from_be_bytes(*part.first_chunk()?)),
        6 => {
            let (high, low) = part.split_first_chunk()?;
            u128::from(u16::from_be_bytes(*high)) << 32 | u128::from(u32::from_be_bytes(*low.first_chunk()?))
        }
        16 => u128::from_be_bytes(*part.first_chunk()?),
        _ => part.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)),
    })
}

#[inline(always)]
fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at, 2).map(|number| number as u16)
}

/// The fields and the layout of a frame. What a frame is too short for, it does not have.
pub(crate) fn parse(bytes: &[u8]) -> (Fields, Layout) {
    let (mut fields, mut layout) = (Fields::default(), Layout::default());
    parse_to(Depth::Whole, bytes, &mut fields, &mut layout);
    (fields, layout)
}

/// Adds the fields and the layout of a frame, as far as it is looked into, to what has none yet.
#[inline]
pub(crate) fn parse_to(depth: Depth, bytes: &[u8], fields: &mut Fields, layout: &mut Layout) {
    if depth > Depth::Port {
        fields.set(Field::VlanVid, 0);
        let _ = Parser { bytes, depth, fields, layout }.ethernet();
    }
}

/// Adds the fields and the layout of what stands behind the type of a frame, at `at`, to what has none of them.
pub(crate) fn parse_behind(kind: u16, bytes: &[u8], at: usize, fields: &mut Fields, layout: &mut Layout) {
    fields.set(Field::EthType, u128::from(kind));
    let _ = Parser { bytes, depth: Depth::Whole, fields, layout }.network(kind, at);
}

struct Parser<'a> {
    bytes: &'a [u8],
    depth: Depth,
    fields: &'a mut Fields,
    layout: &'a mut Layout,
}

impl Parser<'_> {
    /// Sets a field from the `count` bytes at `at`.
    #[inline(always)]
    fn take(&mut self, field: Field, at: usize, count: usize) -> Option<()> {
        self.fields.set(field, number(self.bytes, at, count)?);
        Some(())
    }

    #[inline]
    fn ethernet(&mut self) -> Option<()> {
        self.take(Field::EthDst, 0, 6)?;
        self.take(Field::EthSrc, 6, 6)?;
        let mut at = 12;
        let mut kind = half(self.bytes, at)?;
        // A tag that breaks off is no tag: its type is then the frame's.
        while VLAN_TYPES.contains(&kind) && self.bytes.len() >= at + 6 {
            let tag = half(self.bytes, at + 2)?;
            if self.layout.tags == 0 {
                self.fields.set(Field::VlanVid, VLAN_PRESENT | u128::from(tag & 0x0fff));
                self.fields.set(Field::VlanPcp, u128::from(tag >> 13));
            }
            self.layout.tags += 1;
            at += 4;
            kind = half(self.bytes, at)?;
        }
        self.layout.ether_type = at;
        self.fields.set(Field::EthType, u128::from(kind));
        if self.depth < Depth::Network {
            return None;
        }
        self.network(kind, at + 2)
    }

    /// What is of a type, and begins there.
    #[inline]
    fn network(&mut self, kind: u16, at: usize) -> Option<()> {
        match kind {
            0x0800 => self.ipv4(at),
            0x86dd => self.ipv6(at),
            0x0806 => self.arp(at),
            0x8847 | 0x8848 => self.mpls(at),
            _ => Some(()),
        }
    }

    fn mpls(&mut self, at: usize) -> Option<()> {
        let entry = number(self.bytes, at, 4)?;
        self.layout.mpls = Some(at);
        self.fields.set(Field::MplsLabel, entry >> 12);
        self.fields.set(Field::MplsTc, entry >> 9);
        self.fields.set(Field::MplsBos, entry >> 8);
        Some(())
    }

    fn arp(&mut self, at: usize) -> Option<()> {
        // Ethernet and IPv4 (RFC 826); others have addresses of other lengths.
        if number(self.bytes, at, 6)? != 0x0001_0800_0604 || self.bytes.len() < at + 28 {
            return None;
        }
        self.layout.arp = Some(at);
        self.take(Field::ArpOp, at + 6, 2)?;
        self.take(Field::ArpSha, at + 8, 6)?;
        self.take(Field::ArpSpa, at + 14, 4)?;
        self.take(Field::ArpTha, at + 18, 6)?;
        self.take(Field::ArpTpa, at + 24, 4)
    }

    fn traffic_class(&mut self, class: u8) {
        self.fields.set(Field::IpDscp, u128::from(class >> 2));
        self.fields.set(Field::IpEcn, u128::from(class & 3));
    }

    fn ipv4(&mut self, at: usize) -> Option<()> {
        let first = byte(self.bytes, at)?;
        let header = usize::from(first & 0x0f) * 4;
        if first >> 4 != 4 || header < 20 || self.bytes.len() < at + header {
            return None;
        }
        let fragment = half(self.bytes, at + 6)?;
        let protocol = byte(self.bytes, at + 9)?;
        let length = usize::from(half(self.bytes, at + 2)?);
        // Zero, from cards that cut packets themselves, and what is too short is not believed.
        let end = if length < header { self.bytes.len() } else { self.bytes.len().min(at + length) };
        let carried = (fragment & 0x1fff == 0).then_some(at + header);
        self.layout.ip = Some(Ip {
            start: at,
            is_v6: false,
            protocol_at: at + 9,
            protocol,
            carried,
            end,
            routed: false,
            fragment: fragment & 0x3fff != 0,
        });
        self.traffic_class(byte(self.bytes, at + 1)?);
        self.take(Field::IpProto, at + 9, 1)?;
        self.take(Field::Ipv4Src, at + 12, 4)?;
        self.take(Field::Ipv4Dst, at + 16, 4)?;
        self.carried(protocol, carried?, end)
    }

    fn ipv6(&mut self, at: usize) -> Option<()> {
        let first = number(self.bytes, at, 4)?;
        if first >> 28 != 6 || self.bytes.len() < at + 40 {
            return None;
        }
        self.traffic_class((first >> 20) as u8);
        self.fields.set(Field::Ipv6Flabel, first);
        self.take(Field::Ipv6Src, at + 8, 16)?;
        self.take(Field::Ipv6Dst, at + 24, 16)?;
        let length = usize::from(half(self.bytes, at + 4)?);
        // A length of zero is that of a jumbogram (RFC 2675), or unknown.
        let end = if length == 0 { self.bytes.len() } else { self.bytes.len().min(at + 40 + length) };
        let chain = crate::extension::walk(self.bytes.get(..end)?, at);
        self.layout.ip = Some(Ip {
            start: at,
            is_v6: true,
            protocol_at: chain.protocol_at,
            protocol: chain.protocol,
            carried: chain.carried,
            end,
            routed: chain.routed,
            fragment: chain.fragment,
        });
        self.fields.set(Field::Ipv6Exthdr, u128::from(chain.seen));
        self.fields.set(Field::IpProto, u128::from(chain.protocol));
        self.carried(chain.protocol, chain.carried?, end)
    }

    /// What IP carries at `at`, of which `end` is the end.
    fn carried(&mut self, protocol: u8, at: usize, end: usize) -> Option<()> {
        if self.depth < Depth::Whole {
            return None;
        }
        let is_v6 = self.layout.ip.is_some_and(|ip| ip.is_v6);
        match (protocol, is_v6) {
            (6, _) => self.pair(Field::TcpSrc, Field::TcpDst, 2, at, end),
            (17, _) => self.pair(Field::UdpSrc, Field::UdpDst, 2, at, end),
            (132, _) => self.pair(Field::SctpSrc, Field::SctpDst, 2, at, end),
            (1, false) => self.pair(Field::Icmpv4Type, Field::Icmpv4Code, 1, at, end),
            (58, true) => {
                self.pair(Field::Icmpv6Type, Field::Icmpv6Code, 1, at, end)?;
                self.neighbour_discovery(at, end)
            }
            _ => None,
        }
    }

    /// Sets two fields of `count` bytes that stand beside each other, if both do before `end`. Made anew for each pair: where fields are known,
    /// so are their words.
    #[inline(always)]
    fn pair(&mut self, one: Field, other: Field, count: usize, at: usize, end: usize) -> Option<()> {
        if at + 2 * count > end {
            return None;
        }
        self.take(one, at, count)?;
        self.take(other, at + count, count)
    }

    /// RFC 4861 sections 4.3, 4.4 and 4.6.1.
    fn neighbour_discovery(&mut self, at: usize, end: usize) -> Option<()> {
        let (wanted, field, slot) = match byte(self.bytes, at)? {
            135 => (1, Field::Ipv6NdSll, 0),
            136 => (2, Field::Ipv6NdTll, 1),
            _ => return None,
        };
        let bytes = self.bytes.get(..end)?;
        self.fields.set(Field::Ipv6NdTarget, number(bytes, at + 8, 16)?);
        let mut option = at + 24;
        loop {
            let (kind, length) = (byte(bytes, option)?, usize::from(byte(bytes, option + 1)?) * 8);
            // An option of no length would be read for ever.
            if length == 0 {
                return None;
            }
            if kind == wanted {
                self.fields.set(field, number(bytes, option + 2, 6)?);
                *self.layout.nd.get_mut(slot)? = Some(option + 2);
                return Some(());
            }
            option += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of what is looked into, behind no tag, one, and two.
    fn frames() -> Vec<Vec<u8>> {
        let ipv4 = |protocol: u8, fragment: u8| {
            let mut packet = vec![0x45, 0xb8, 0, 40, 0, 1, fragment, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 10, 1, 2, 3];
            packet.extend([3, 1, 0, 80, 0, 20, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
            (0x0800, packet)
        };
        let ipv6 = |next: u8, carried: &[u8]| {
            let mut packet = vec![0x6b, 0x81, 0x23, 0x45, 0, carried.len() as u8, next, 64];
            packet.extend([[0x20; 16], [0xfd; 16]].concat());
            packet.extend(carried);
            (0x86dd, packet)
        };
        let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &[0xfd; 16], &[1, 1, 2, 0, 0, 0, 0, 7]].concat();
        let options = [&[17, 0, 0, 0, 0, 0, 0, 0][..], &[0, 53, 0, 54, 0, 8, 0, 0]].concat();
        let packets = [
            ipv4(6, 0),
            ipv4(17, 0),
            ipv4(1, 0x20),
            ipv4(132, 0),
            ipv6(58, &solicitation),
            ipv6(0, &options),
            (0x0806, [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[7; 20]].concat()),
            (0x8847, vec![0x12, 0x34, 0x51, 64, 0x45]),
            (0x88b5, vec![1; 50]),
        ];
        let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0x60, 7], &[0x88, 0xa8, 0x20, 9, 0x81, 0, 0x60, 7]];
        let with = |tag: &[u8], (kind, packet): &(u16, Vec<u8>)| {
            [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], tag, &kind.to_be_bytes(), packet].concat()
        };
        tags.into_iter().flat_map(|tag| packets.iter().map(move |packet| with(tag, packet))).collect()
    }

    #[test]
    fn what_is_seen_at_a_depth_is_what_is_there() {
        for whole in frames() {
            for frame in (0..=whole.len()).map(|length| &whole[..length]) {
                let (all, known) = parse(frame);
                for depth in [Depth::Port, Depth::Ethernet, Depth::Network, Depth::Whole] {
                    let (mut fields, mut layout) = (Fields::default(), Layout::default());
                    parse_to(depth, frame, &mut fields, &mut layout);
                    for field in Field::ALL {
                        let wanted = if Depth::of(*field) <= depth { all.get(*field) } else { None };
                        assert_eq!(fields.get(*field), wanted, "{} at {depth:?} in {frame:x?}", field.name());
                    }
                    assert_eq!(layout.tags, if depth >= Depth::Ethernet { known.tags } else { 0 });
                    assert_eq!(layout.ip, if depth >= Depth::Network { known.ip } else { None });
                }
            }
        }
    }
}
