//! From the bytes of a frame to its fields, and to where they stand.

use weir_openflow::Field;
use weir_openflow::oxm::VLAN_PRESENT;

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

/// The number in `count` bytes at `at`, 16 at most.
#[inline(always)]
pub(crate) fn number(bytes: &[u8], at: usize, count: usize) -> Option<u128> {
    let part = bytes.get(at..at.checked_add(count)?)?;
    let mut whole = [0; 16];
    whole.get_mut(16_usize.checked_sub(count)?..)?.copy_from_slice(part);
    Some(u128::from_be_bytes(whole))
}

fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at, 2).map(|number| number as u16)
}

/// The fields and the layout of a frame. What a frame is too short for, it does not have.
pub(crate) fn parse(bytes: &[u8]) -> (Fields, Layout) {
    let mut parser = Parser { bytes, fields: Fields::default(), layout: Layout::default() };
    parser.fields.set(Field::VlanVid, 0);
    let _ = parser.ethernet();
    (parser.fields, parser.layout)
}

struct Parser<'a> {
    bytes: &'a [u8],
    fields: Fields,
    layout: Layout,
}

impl Parser<'_> {
    /// Sets a field from the `count` bytes at `at`.
    #[inline(always)]
    fn take(&mut self, field: Field, at: usize, count: usize) -> Option<()> {
        self.fields.set(field, number(self.bytes, at, count)?);
        Some(())
    }

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
        match kind {
            0x0800 => self.ipv4(at + 2),
            0x86dd => self.ipv6(at + 2),
            0x0806 => self.arp(at + 2),
            0x8847 | 0x8848 => self.mpls(at + 2),
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
