//! Setting a field of a packet, with the checksums that cover it: OpenFlow 1.3.5 section 5.12.
//!
//! Checksums are updated (RFC 1624), never made anew: a packet that came in with a wrong one goes out with a wrong one.

use weir_openflow::Field;
use weir_wire::checksum;

use crate::fields::Fields;
use crate::packet::Packet;
use crate::parse::{Ip, Layout, number};
use crate::sctp;

/// Sets `field` to `value`, if the packet has it; otherwise nothing happens.
pub(crate) fn set_field(packet: &mut Packet, field: Field, value: u128) {
    if field == Field::TunnelId {
        packet.tunnel = value as u64;
        return;
    }
    let (fields, layout) = packet.parse();
    set_in(&mut packet.bytes, &fields, &layout, field, value);
}

/// The same of a frame, of which these are the fields and the layout.
pub(crate) fn set_in(bytes: &mut [u8], fields: &Fields, layout: &Layout, field: Field, value: u128) {
    if fields.get(field).is_none() {
        return;
    }
    let Some(place) = place(layout, field) else { return };
    let Some(old) = number(bytes, place.at, place.bytes) else { return };
    let mask = field.ones() & !place.keeps;
    let new = old & !(mask << place.shift) | (value & mask) << place.shift;
    let carried = layout.ip.filter(|_| place.covered == Covered::Carried);
    let packet = carried.and_then(|ip| sctp::place(bytes, &ip));
    let crc = packet.and_then(|place| Some((sctp::ports(bytes, &place)?, place)));
    let sums = sums(bytes, layout, place.covered);
    replace(bytes, &place, new, &sums);
    if place.covered == Covered::Protocol {
        let carried = layout.ip.and_then(|ip| carried_sum(bytes, &ip, place.covered));
        carried.into_iter().for_each(|sum| update(bytes, &sum, &[old as u16], &[new as u16]));
    }
    if let Some((before, place)) = crc {
        sctp::update(bytes, &place, before);
    }
}

/// Which checksums cover a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Covered {
    /// None.
    Nothing,
    /// That of the IPv4 header.
    Header,
    /// That of the IPv4 header, and by the pseudo-header that of what is carried.
    Both,
    /// The same, but in the pseudo-header it stands at another place of its word: the number of the protocol.
    Protocol,
    /// That of what is carried.
    Carried,
}

/// Where a field stands.
struct Place {
    at: usize,
    bytes: usize,
    /// How far left of the lowest bit.
    shift: u32,
    /// Bits of the value that the packet has no place for.
    keeps: u128,
    covered: Covered,
}

fn place(layout: &Layout, field: Field) -> Option<Place> {
    let plain = |at, bytes, covered| Some(Place { at, bytes, shift: 0, keeps: 0, covered });
    let bits = |at, bytes, shift, covered| Some(Place { at, bytes, shift, keeps: 0, covered });
    let ip = layout.ip;
    let start = ip.map(|ip| ip.start);
    let is_v6 = ip.is_some_and(|ip| ip.is_v6);
    let carried = |offset: usize, bytes| plain(ip?.carried? + offset, bytes, Covered::Carried);
    match field {
        Field::EthDst => plain(0, 6, Covered::Nothing),
        Field::EthSrc => plain(6, 6, Covered::Nothing),
        Field::EthType => plain(layout.ether_type, 2, Covered::Nothing),
        Field::VlanVid if layout.tags > 0 => {
            Some(Place { at: 14, bytes: 2, shift: 0, keeps: 0x1000, covered: Covered::Nothing })
        }
        Field::VlanPcp => bits(14, 2, 13, Covered::Nothing),
        // The class of traffic lies across the first two bytes of IPv6.
        Field::IpDscp if is_v6 => bits(start?, 2, 6, Covered::Nothing),
        Field::IpEcn if is_v6 => bits(start?, 2, 4, Covered::Nothing),
        Field::IpDscp => bits(start? + 1, 1, 2, Covered::Header),
        Field::IpEcn => bits(start? + 1, 1, 0, Covered::Header),
        Field::IpProto => plain(ip?.protocol_at, 1, Covered::Protocol),
        Field::Ipv4Src => plain(start? + 12, 4, Covered::Both),
        Field::Ipv4Dst => plain(start? + 16, 4, Covered::Both),
        Field::Ipv6Src => plain(start? + 8, 16, Covered::Both),
        Field::Ipv6Dst => plain(start? + 24, 16, if ip?.routed { Covered::Nothing } else { Covered::Both }),
        Field::Ipv6Flabel => plain(start? + 1, 3, Covered::Nothing),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => carried(0, 2),
        Field::TcpDst | Field::UdpDst | Field::SctpDst => carried(2, 2),
        Field::Icmpv4Type | Field::Icmpv6Type => carried(0, 1),
        Field::Icmpv4Code | Field::Icmpv6Code => carried(1, 1),
        Field::Ipv6NdTarget => carried(8, 16),
        Field::Ipv6NdSll => plain(layout.nd[0]?, 6, Covered::Carried),
        Field::Ipv6NdTll => plain(layout.nd[1]?, 6, Covered::Carried),
        Field::ArpOp => plain(layout.arp? + 6, 2, Covered::Nothing),
        Field::ArpSha => plain(layout.arp? + 8, 6, Covered::Nothing),
        Field::ArpSpa => plain(layout.arp? + 14, 4, Covered::Nothing),
        Field::ArpTha => plain(layout.arp? + 18, 6, Covered::Nothing),
        Field::ArpTpa => plain(layout.arp? + 24, 4, Covered::Nothing),
        Field::MplsLabel => bits(layout.mpls?, 4, 12, Covered::Nothing),
        Field::MplsTc => bits(layout.mpls?, 4, 9, Covered::Nothing),
        Field::MplsBos => bits(layout.mpls?, 4, 8, Covered::Nothing),
        Field::VlanVid
        | Field::InPort
        | Field::InPhyPort
        | Field::Metadata
        | Field::PbbIsid
        | Field::TunnelId
        | Field::Ipv6Exthdr => None,
    }
}

/// Where the checksums stand that cover the bytes of this as they are in the frame.
fn sums(bytes: &[u8], layout: &Layout, covered: Covered) -> [Option<Sum>; 2] {
    let Some(ip) = layout.ip else { return [None; 2] };
    let has_header = !ip.is_v6 && covered != Covered::Nothing && covered != Covered::Carried;
    let header = has_header.then_some(Sum { at: ip.start + 10, skips_zero: false });
    let carried = if covered == Covered::Protocol { None } else { carried_sum(bytes, &ip, covered) };
    [header, carried]
}

#[derive(Clone, Copy)]
struct Sum {
    at: usize,
    /// Zero says that there is none, as in UDP.
    skips_zero: bool,
}

fn carried_sum(bytes: &[u8], ip: &Ip, covered: Covered) -> Option<Sum> {
    let start = ip.carried?;
    if matches!(covered, Covered::Nothing | Covered::Header) {
        return None;
    }
    let sum = match (ip.protocol, ip.is_v6) {
        (6, _) => Sum { at: start + 16, skips_zero: false },
        (17, _) => Sum { at: start + 6, skips_zero: true },
        // ICMP has no pseudo-header in IPv4.
        (1, false) if covered == Covered::Carried => Sum { at: start + 2, skips_zero: false },
        (58, true) => Sum { at: start + 2, skips_zero: false },
        _ => return None,
    };
    (sum.at + 2 <= ip.end && sum.at + 2 <= bytes.len()).then_some(sum)
}

/// The most words that a field touches.
const MOST_WORDS: usize = 9;

/// Replaces the bytes of `place` by `new`, and updates the checksums at `sums`.
fn replace(bytes: &mut [u8], place: &Place, new: u128, sums: &[Option<Sum>]) {
    // Whole words, counted from the start of the frame: every header begins at an even byte.
    let first = place.at & !1;
    let count = ((place.at + place.bytes).next_multiple_of(2) - first) / 2;
    let words = |bytes: &[u8]| -> [u16; MOST_WORDS] {
        let byte = |at| bytes.get(at).copied().unwrap_or(0);
        let word = |at: usize| u16::from_be_bytes([byte(first + 2 * at), byte(first + 2 * at + 1)]);
        std::array::from_fn(|at| if at < count { word(at) } else { 0 })
    };
    let before = words(bytes);
    let value = new.to_be_bytes();
    if let Some(to) = bytes.get_mut(place.at..place.at + place.bytes) {
        to.copy_from_slice(&value[value.len() - place.bytes..]);
    }
    let after = words(bytes);
    for sum in sums.iter().flatten() {
        update(bytes, sum, before.get(..count).unwrap_or(&before), after.get(..count).unwrap_or(&after));
    }
}

/// Updates a checksum for words that changed.
fn update(bytes: &mut [u8], sum: &Sum, before: &[u16], after: &[u16]) {
    let Some(field) = bytes.get_mut(sum.at..sum.at + 2) else { return };
    let old = u16::from_be_bytes([field[0], field[1]]);
    if sum.skips_zero && old == 0 {
        return;
    }
    let changed = before.iter().zip(after).fold(old, |sum, (old, new)| checksum::update(sum, *old, *new));
    let changed = if sum.skips_zero && changed == 0 { 0xffff } else { changed };
    field.copy_from_slice(&changed.to_be_bytes());
}

/// Sets the byte at `at`, which the checksum of an IPv4 header at `header` covers, if there is one.
pub(crate) fn set_byte(bytes: &mut [u8], at: usize, value: u8, header: Option<usize>) {
    let place = Place { at, bytes: 1, shift: 0, keeps: 0, covered: Covered::Header };
    let sum = header.map(|start| Sum { at: start + 10, skips_zero: false });
    replace(bytes, &place, value.into(), &[sum]);
}
