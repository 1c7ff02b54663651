//! The CRC of SCTP: RFC 9260 section 6.8 and appendix A.
//!
//! It is of all that the packet carries, but the CRC of a difference is the difference of CRCs. So where ports change nothing but the ports is looked at, and how
//! much comes behind them.

use std::ops::Range;

use weir_wire::{Ipv4, Ipv6, View};

use crate::parse::Ip;

const PROTOCOL: u8 = 132;
/// Where it stands in the header, and how long that is.
const AT: usize = 8;
const HEADER: usize = 12;
/// Source and destination port.
const PORTS: usize = 4;

/// The polynomial of CRC32c; the highest bit is the coefficient of x^0.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What becomes of a remainder that is multiplied by x.
const fn times_x(remainder: u32) -> u32 {
    remainder >> 1 ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// The product of two remainders.
const fn times(one: u32, other: u32) -> u32 {
    let (mut product, mut power, mut bit) = (0, one, 32);
    while bit > 0 {
        bit -= 1;
        if other >> bit & 1 == 1 {
            product ^= power;
        }
        power = times_x(power);
    }
    product
}

/// x to the power of 8, 16, 32 and so on: what 1, 2, 4 and more bytes of zeroes multiply by.
const POWERS: [u32; 32] = {
    let mut powers = [1 << (31 - 8); 32];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = times(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
};

/// By how much the CRCs of two packets differ whose ports differ by this, with so many bytes behind them.
fn difference(ports: [u8; PORTS], behind: usize) -> u32 {
    let step = |remainder: u32, byte: u8| (0..8).fold(remainder ^ u32::from(byte), |remainder, _| times_x(remainder));
    let powers = POWERS.iter().zip(0..).filter(|(_, bit)| behind >> bit & 1 == 1);
    powers.fold(ports.into_iter().fold(0, step), |remainder, (power, _)| times(remainder, *power))
}

/// Where an SCTP packet is that has a CRC: none for fragments, of which the rest is missing.
pub(crate) fn place(bytes: &[u8], ip: &Ip) -> Option<Range<usize>> {
    let start = ip.carried.filter(|_| ip.protocol == PROTOCOL && !ip.fragment)?;
    Some(start..ip.end).filter(|place| is_whole(bytes, place))
}

/// The same behind a header of IP there, without options or extension headers.
pub(crate) fn place_behind(bytes: &[u8], at: usize, is_v6: bool) -> Option<Range<usize>> {
    let start = at + if is_v6 { Ipv6::LEN } else { Ipv4::LEN };
    let header = bytes.get(at..)?;
    let (protocol, end) = if is_v6 {
        let ip = Ipv6::view(header)?;
        (ip.next_header, start + usize::from(ip.payload_length.get()))
    } else {
        let ip = Ipv4::view(header).filter(|ip| !ip.is_fragment())?;
        (ip.protocol, at + ip.total_len())
    };
    let place = Some(start..end.min(bytes.len())).filter(|_| protocol == PROTOCOL)?;
    is_whole(bytes, &place).then_some(place)
}

fn is_whole(bytes: &[u8], place: &Range<usize>) -> bool {
    bytes.get(place.clone()).is_some_and(|packet| packet.len() >= HEADER)
}

/// The ports of a packet there, to be given to [`update`] when they have changed.
pub(crate) fn ports(bytes: &[u8], place: &Range<usize>) -> Option<[u8; PORTS]> {
    bytes.get(place.clone())?.first_chunk().copied()
}

/// Changes the CRC as the ports were changed, which were these before: a right one is right again, and a wrong one as wrong as it was.
pub(crate) fn update(bytes: &mut [u8], place: &Range<usize>, before: [u8; PORTS]) {
    let Some(packet) = bytes.get_mut(place.clone()) else { return };
    let Some((after, rest)) = packet.split_first_chunk_mut::<PORTS>() else { return };
    let mut ports = before;
    ports.iter_mut().zip(after).for_each(|(port, after)| *port ^= *after);
    // It is the one number here whose lowest byte stands first.
    let difference = difference(ports, rest.len()).to_le_bytes();
    if let Some(field) = rest.get_mut(AT - PORTS..HEADER - PORTS) {
        field.iter_mut().zip(difference).for_each(|(byte, difference)| *byte ^= difference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC32c, bit by bit: the slow twin.
    fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
        !bytes.fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| times_x(crc)))
    }

    /// RFC 3720 appendix B.4, which RFC 9260 takes the polynomial from.
    #[test]
    fn the_examples_of_rfc_3720() {
        assert_eq!(crc32c([0u8; 32].into_iter()), 0x8a91_36aa);
        assert_eq!(crc32c([0xffu8; 32].into_iter()), 0x62a8_ab43);
        assert_eq!(crc32c(0u8..32), 0x46dd_794e);
    }

    /// Packets of all lengths that frames have, the longest that IP has, and longer ones: the CRCs of both, from scratch, differ by this.
    #[test]
    fn crcs_differ_by_the_difference_of_ports() {
        let packet = |ports: u32, length: usize| {
            let rest = (0_u32..).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).take(length);
            ports.to_be_bytes().into_iter().chain(rest)
        };
        for length in (0..2000).chain([9_000, 16_383, 16_384, 65_511, 65_531, 70_000]) {
            let [one, other] = [0x1234_5678_u32, (length as u32).wrapping_mul(0x0101_6b55) ^ 0x00ff_1200];
            let crcs = [one, other].map(|ports| crc32c(packet(ports, length)));
            assert_eq!(difference((one ^ other).to_be_bytes(), length), crcs[0] ^ crcs[1], "{length}");
        }
    }
}
