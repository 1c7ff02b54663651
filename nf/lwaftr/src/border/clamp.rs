//! The largest segment that a TCP SYN asks for, made smaller so that what comes of it fits a tunnel.

use weir_wire::{Ipv4, View, checksum, ipv4, tcp};

const SYN: u8 = 0x02;
/// Options of TCP: the end of the list, nothing, and the largest segment (RFC 9293 section 3.1).
const END: u8 = 0;
const NOTHING: u8 = 1;
const LARGEST_SEGMENT: u8 = 2;

/// Whether a packet is a TCP SYN, whole or the first part of one.
pub(super) fn is_syn(packet: &[u8]) -> bool {
    let Some(ip) = Ipv4::view(packet) else { return false };
    let flags = packet.get(ip.header_len() + 13);
    ip.protocol == ipv4::TCP && ip.fragment_offset() == 0 && flags.is_some_and(|flags| flags & SYN != 0)
}

/// Lets a SYN ask for segments of `most` bytes at most. Options that make no sense are left as they are.
pub(super) fn clamp(packet: &mut [u8], most: u16) {
    if !is_syn(packet) {
        return;
    }
    let start = Ipv4::view(packet).map_or(0, Ipv4::header_len);
    let Some(segment) = packet.get_mut(start..) else { return };
    let Some(length) = tcp::Tcp::view(segment).map(tcp::Tcp::header_len) else { return };
    let Some(at) = segment.get(..length).and_then(largest_segment_at) else { return };
    let Some(&[high, low]) = segment.get(at..).and_then(|rest| rest.first_chunk()) else { return };
    let asked = u16::from_be_bytes([high, low]);
    if asked <= most {
        return;
    }
    let Some(&[sum_high, sum_low]) = segment.get(CHECKSUM..).and_then(|rest| rest.first_chunk()) else { return };
    let before = u16::from_be_bytes([sum_high, sum_low]);
    // Words of the sum begin at even places; where the value begins at an odd one, its bytes are swapped (RFC 1071 section 2 (B)).
    let turned = |value: u16| if at % 2 == 0 { value } else { value.swap_bytes() };
    let sum = checksum::update(before, turned(asked), turned(most));
    let mut put = |at: usize, value: u16| {
        segment.iter_mut().skip(at).zip(value.to_be_bytes()).for_each(|(to, from)| *to = from);
    };
    put(at, most);
    put(CHECKSUM, sum);
}

/// Where the checksum stands in a segment.
const CHECKSUM: usize = 16;

/// Where the value of the option stands in a header.
fn largest_segment_at(header: &[u8]) -> Option<usize> {
    const FIXED: usize = 20;
    let mut at = FIXED;
    loop {
        match *header.get(at)? {
            END => return None,
            NOTHING => at += 1,
            kind => {
                let length = usize::from(*header.get(at + 1)?);
                if kind == LARGEST_SEGMENT && length == 4 {
                    return Some(at + 2);
                }
                at += if length < 2 { return None } else { length };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::checksum::Sum;

    /// A segment with these options.
    fn packet(flags: u8, options: &[u8]) -> Vec<u8> {
        assert_eq!(options.len() % 4, 0);
        let mut packet = vec![0; 40];
        (packet[0], packet[3], packet[9], packet[15], packet[19]) = (0x45, 40 + options.len() as u8, 6, 1, 2);
        (packet[32], packet[33], packet[21], packet[27]) = (0x50 + ((options.len() as u8 / 4) << 4), flags, 80, 77);
        packet.extend(options);
        let sum = tcp_sum(&packet);
        packet[36..38].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// The checksum that makes the segment right.
    fn tcp_sum(packet: &[u8]) -> u16 {
        let mut segment = packet[20..].to_vec();
        segment[16..18].fill(0);
        Sum::new().bytes(&packet[12..20]).word(6).word(segment.len() as u16).bytes(&segment).checksum()
    }

    #[test]
    fn syns_ask_for_less_and_their_checksums_stay_right() {
        for options in
            [&[2, 4, 5, 180][..], &[1, 2, 4, 5, 180, 1, 0, 0], &[1, 1, 2, 4, 35, 40, 0, 0], &[3, 3, 7, 2, 4, 5, 180, 0]]
        {
            for flags in [2, 0x12] {
                let mut changed = packet(flags, options);
                clamp(&mut changed, 1400);
                let at = 40 + options.windows(2).position(|pair| pair == [2, 4]).unwrap() + 2;
                assert_eq!(changed[at..at + 2], 1400_u16.to_be_bytes());
                assert_eq!(changed[36..38], tcp_sum(&changed).to_be_bytes());
            }
        }
    }

    #[test]
    fn others_are_as_they_were() {
        let cases = [
            packet(0x10, &[2, 4, 5, 180]),
            packet(2, &[2, 4, 5, 120]),
            packet(2, &[]),
            packet(2, &[3, 0, 2, 4]),
            packet(2, &[2, 3, 5, 180]),
            packet(2, &[0, 2, 4, 5]),
            packet(2, &[5, 255, 2, 4]),
            packet(2, &[1, 1, 2, 4]),
        ];
        for before in cases {
            let mut after = before.clone();
            clamp(&mut after, 1400);
            assert_eq!(after, before);
        }
        for length in 0..44 {
            let mut cut = packet(2, &[2, 4, 5, 180])[..length].to_vec();
            clamp(&mut cut, 1400);
        }
    }
}
