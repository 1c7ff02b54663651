//! Frames in tunnels (RFC 7348), beside a slow twin that reads the headers byte by byte.

use weir_wire::ipv6::MAX_EXTENSIONS;
use weir_wire::vxlan::{Carried, PORT, Refusal, carried};
use weir_wire::{ethernet, ipv4};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "vxlan",
    help: "Ethernet frames with what VXLAN tunnels carry, as the network delivers them",
    run,
    tokens: &[
        &[0x08, 0x00, 0x45, 0x00],
        &[0x46],
        &[0x86, 0xdd, 0x60, 0x00],
        &[0x12, 0xb5],
        &[0, 0, 8, 0, 0, 0],
        &[0, 17],
        &[0x20, 0],
        &[17, 0, 1, 4, 0, 0, 0, 0],
        &[44, 0, 0, 1],
        &[51, 1],
        &[60, 0],
        &[0, 16],
    ],
    text: false,
    inputs: 1_000_000,
    deep: 30,
};

fn run(input: &[u8]) -> bool {
    let Some(([.., high, low], packet)) = input.split_first_chunk::<14>() else { return false };
    let ethertype = u16::from_be_bytes([*high, *low]);
    let mut packet = packet.to_vec();
    let mut is_deep = look(ethertype, &packet);
    // Few changed packets have right checksums, and what is wrong with one hides all else.
    if ethertype == ethernet::IPV4 && ipv4::write_checksum(&mut packet) {
        is_deep |= look(ethertype, &packet);
    }
    if write_udp_checksum(ethertype, &mut packet) {
        is_deep |= look(ethertype, &packet);
    }
    is_deep
}

/// Addresses that tunnels begin at: every other one.
fn is_own(address: u128) -> bool {
    address & 1 == 1
}

/// Whether there is a frame, or a reason why there is none.
fn look(ethertype: u16, packet: &[u8]) -> bool {
    let found = carried(ethertype, packet, PORT, is_own);
    assert_eq!(found, twin(ethertype, packet));
    if let Ok(Some(Carried { at, frame, .. })) = found {
        assert_eq!(packet.get(at..at + frame.len()), Some(frame), "the frame lies elsewhere");
    }
    assert_eq!(carried(ethertype, packet, PORT, |_| false), Ok(None), "it is for somebody else");
    found != Ok(None)
}

/// An IP packet that carries UDP, or a part of it.
struct Outer<'p> {
    /// Source and destination, one behind the other.
    addresses: &'p [u8],
    class: u8,
    /// Where the datagram begins, and where the packet ends.
    at: usize,
    end: usize,
    /// There are more fragments, or would be.
    is_fragment: bool,
}

/// What RFC 7348 section 5 says of a packet.
fn twin(ethertype: u16, packet: &[u8]) -> Result<Option<Carried<'_>>, Refusal> {
    let Some(outer) = outer(ethertype, packet) else { return Ok(None) };
    let (source, destination) = outer.addresses.split_at(outer.addresses.len() / 2);
    let [source, destination] = [source, destination].map(number);
    let datagram = packet.get(outer.at..outer.end).unwrap_or_default();
    // RFC 768: source port, destination port, length, checksum.
    if !is_own(destination) || datagram.len() < 8 || half(datagram, 2) != Some(PORT) {
        return Ok(None);
    }
    if outer.is_fragment {
        return Err(Refusal::Fragment);
    }
    let length = usize::from(half(datagram, 4).unwrap_or(0));
    let Some(datagram) = datagram.get(..length).filter(|_| length >= 16) else { return Err(Refusal::Length) };
    let has_sum = half(datagram, 6) != Some(0);
    if has_sum && !udp_sum(outer.addresses, datagram).is_multiple_of(0xffff) {
        return Err(Refusal::Checksum);
    }
    let (headers, frame) = datagram.split_at(16);
    let &[.., flags, _, _, _, a, b, c, _] = headers else { return Err(Refusal::Length) };
    // "the I flag MUST be set to 1 for a valid VXLAN Network ID (VNI). The other 7 bits ... MUST be set to zero on transmission and ignored on receipt."
    if flags & 0b1000 == 0 {
        return Err(Refusal::NoVni);
    }
    let vni = u32::from(a) << 16 | u32::from(b) << 8 | u32::from(c);
    Ok(Some(Carried { source, destination, class: outer.class, vni, at: outer.at + 16, frame }))
}

fn outer(ethertype: u16, packet: &[u8]) -> Option<Outer<'_>> {
    match ethertype {
        0x0800 => outer4(packet),
        0x86dd => outer6(packet),
        _ => None,
    }
}

/// RFC 791, with the checks of RFC 1812 section 5.2.2.
fn outer4(packet: &[u8]) -> Option<Outer<'_>> {
    let first = *packet.first()?;
    let header = usize::from(first & 15) * 4;
    let end = usize::from(half(packet, 2)?);
    let is_sound = first >> 4 == 4
        && header >= 20
        && end >= header
        && packet.len() >= end
        && words(packet.get(..header)?).is_multiple_of(0xffff);
    let offset = half(packet, 6)?;
    let is_first = offset & 0x1fff == 0;
    let carries = is_sound && is_first && *packet.get(9)? == 17;
    let is_fragment = offset & 0x2000 != 0;
    let (addresses, class) = (packet.get(12..20)?, *packet.get(1)?);
    carries.then_some(Outer { addresses, class, at: header, end, is_fragment })
}

/// RFC 8200: the header, and extension headers until there is UDP.
fn outer6(packet: &[u8]) -> Option<Outer<'_>> {
    let first = half(packet, 0)?;
    let end = 40 + usize::from(half(packet, 4)?);
    if first >> 12 != 6 || packet.len() < end {
        return None;
    }
    let (mut next, mut at, mut is_fragment) = (*packet.get(6)?, 40, false);
    let packet = packet.get(..end)?;
    for _ in 0..MAX_EXTENSIONS {
        let (after, units) = match next {
            17 => break,
            _ => (*packet.get(at)?, usize::from(*packet.get(at + 1)?)),
        };
        at += match next {
            0 | 43 | 60 | 135 => 8 + units * 8,
            51 => 8 + units * 4,
            44 if half(packet, at + 2)? >> 3 == 0 => 8,
            _ => return None,
        };
        is_fragment |= next == 44;
        next = after;
    }
    let (addresses, class) = (packet.get(8..40)?, (first >> 4 & 0xff) as u8);
    (next == 17 && at <= end).then_some(Outer { addresses, class, at, end, is_fragment })
}

/// An address as IPv6 has it: in front of one of IPv4 stands `::ffff` (RFC 4291 section 2.5.5.2).
fn number(address: &[u8]) -> u128 {
    let front = if address.len() == 4 { 0xffff } else { 0 };
    address.iter().fold(front, |number, byte| number << 8 | u128::from(*byte))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Words of 16 bits added up; a multiple of 65,535 where the checksum among them is right (RFC 1071). None of what is summed is all zeros.
fn words(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| pair.iter().chain(&[0]).take(2).fold(0, |word, byte| word << 8 | u64::from(*byte));
    bytes.chunks(2).map(word).sum()
}

/// The sum of a datagram with its pseudo header (RFC 768, RFC 8200 section 8.1).
fn udp_sum(addresses: &[u8], datagram: &[u8]) -> u64 {
    words(addresses) + 17 + datagram.len() as u64 + words(datagram)
}

/// Writes a right checksum into the datagram of a packet that is one, as far as its length says; whether there was one.
fn write_udp_checksum(ethertype: u16, packet: &mut [u8]) -> bool {
    let Some(Outer { addresses, at, end, .. }) = outer(ethertype, packet) else { return false };
    let addresses = addresses.to_vec();
    let Some(length) = half(packet, at + 4).map(usize::from).filter(|length| at + length <= end) else { return false };
    let Some(datagram) = packet.get_mut(at..at + length).filter(|datagram| datagram.len() >= 8) else { return false };
    datagram.iter_mut().skip(6).take(2).for_each(|byte| *byte = 0);
    let sum = udp_sum(&addresses, datagram) % 0xffff;
    // The complement; of 0 it is all ones, for a field of zeros says that there is no checksum.
    let written = ((0xffff - sum) as u16).to_be_bytes();
    datagram.iter_mut().skip(6).zip(written).for_each(|(to, from)| *to = from);
    true
}
