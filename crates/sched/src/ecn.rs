//! Explicit congestion notification (RFC 3168): the mark that tells the ends of a connection about congestion in place of a loss.

use weir_wire::{Ipv4, Ipv6, View, ethernet};

use crate::classify::Frame;

/// The field in the type of service, or in the traffic class.
const FIELD: u8 = 3;
/// Section 5: congestion experienced.
const CE: u8 = 3;
/// Section 5: not from a transport that knows of this.
const NOT_ECT: u8 = 0;

/// Marks the packet of IPv4 or IPv6 in a frame, behind up to two tags, as one that has met congestion. False for one whose ends do not say that
/// they know of such marks: it stays as it is, and is to be dropped. One that bears the mark already keeps it.
///
/// The checksum of IPv4 is as right, or as wrong, as it was (RFC 1624).
pub fn mark(bytes: &mut [u8]) -> bool {
    let frame = Frame::of(bytes);
    let Some(packet) = bytes.get_mut(frame.l3..) else { return false };
    match frame.ethertype {
        ethernet::IPV4 => Ipv4::view_mut(packet).is_some_and(mark_four),
        ethernet::IPV6 => Ipv6::view_mut(packet).is_some_and(mark_six),
        _ => false,
    }
}

/// The field of the packet of IPv4 or IPv6 in a frame, behind up to two tags; 0, as of a transport that knows nothing of this, where there is no such packet.
pub fn field(bytes: &[u8]) -> u8 {
    let frame = Frame::of(bytes);
    let packet = bytes.get(frame.l3..).unwrap_or_default();
    let four = |ip: &Ipv4| if ip.version_ihl >> 4 == 4 { ip.tos & FIELD } else { NOT_ECT };
    let six = |ip: &Ipv6| if ip.version() == 6 { ip.traffic_class() & FIELD } else { NOT_ECT };
    match frame.ethertype {
        ethernet::IPV4 => Ipv4::view(packet).map_or(NOT_ECT, four),
        ethernet::IPV6 => Ipv6::view(packet).map_or(NOT_ECT, six),
        _ => NOT_ECT,
    }
}

fn mark_four(ip: &mut Ipv4) -> bool {
    if ip.version_ihl >> 4 != 4 || ip.tos & FIELD == NOT_ECT {
        return false;
    }
    ip.set_tos(ip.tos | CE);
    true
}

fn mark_six(ip: &mut Ipv6) -> bool {
    let class = ip.traffic_class();
    if ip.version() != 6 || class & FIELD == NOT_ECT {
        return false;
    }
    ip.set_traffic_class(class | CE);
    true
}

#[cfg(test)]
mod tests {
    use weir_wire::ipv4;

    use super::*;

    /// A frame with these tags, and a packet of IPv4 with this type of service and these options behind its header.
    fn four(tags: &[u16], tos: u8, options: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45 + options.len() as u8 / 4, tos, 0, 60, 7, 7, 0x40, 0, 64, 17, 0, 0];
        packet.extend([198, 18, 0, 1, 203, 0, 113, 9].iter().chain(options));
        assert!(ipv4::write_checksum(&mut packet));
        frame(tags, ethernet::IPV4, packet)
    }

    fn six(tags: &[u16], class: u8) -> Vec<u8> {
        let mut packet = vec![0x60 | class >> 4, class << 4 | 0xa, 0xbc, 0xde, 0, 20, 17, 64];
        packet.extend(1..=32);
        frame(tags, ethernet::IPV6, packet)
    }

    fn frame(tags: &[u16], kind: u16, packet: Vec<u8>) -> Vec<u8> {
        let tags = tags.iter().flat_map(|tag| [tag.to_be_bytes(), [0x60, 7]].concat());
        let payload = packet.into_iter().chain([0xee; 20]);
        [2; 12].into_iter().chain(tags).chain(kind.to_be_bytes()).chain(payload).collect()
    }

    const TAGS: [&[u16]; 4] = [&[], &[0x8100], &[0x88a8, 0x8100], &[0x9100, 0x8100]];

    /// Each code point of each family, with every DSCP, behind tags, with options: what comes out is the frame with CE from scratch, or as it was.
    #[test]
    fn what_may_be_marked_is_and_nothing_else_changes() {
        for tags in TAGS {
            for tos in 0..=u8::MAX {
                let (capable, marked) = (tos & 3 != 0, if tos & 3 == 0 { tos } else { tos | 3 });
                for options in [&[][..], &[1, 1, 1, 0], &[7; 40]] {
                    let mut frame = four(tags, tos, options);
                    assert_eq!(field(&frame), tos & 3, "{tags:x?} {tos:x}");
                    assert_eq!(mark(&mut frame), capable, "{tags:x?} {tos:x}");
                    assert_eq!(frame, four(tags, marked, options), "{tags:x?} {tos:x}");
                }
                let mut frame = six(tags, tos);
                assert_eq!(field(&frame), tos & 3, "{tags:x?} {tos:x}");
                assert_eq!(mark(&mut frame), capable, "{tags:x?} {tos:x}");
                assert_eq!(frame, six(tags, marked), "{tags:x?} {tos:x}");
            }
        }
    }

    #[test]
    fn what_is_no_whole_packet_stays_as_it_is() {
        let all = [four(&[], 2, &[]), six(&[0x8100], 2), frame(&[], 0x0806, vec![0xff; 28])];
        let short = all.iter().flat_map(|whole| (0..whole.len().min(58) - 24).map(|end| whole[..end].to_vec()));
        let versions = [four(&[], 2, &[]), six(&[], 0x22)].map(|mut frame| {
            frame[14] ^= 0x20;
            frame
        });
        // Three tags are more than are looked past.
        let many = four(&[0x8100; 3], 1, &[]);
        for frame in short.chain(versions).chain([many, all[2].clone()]) {
            let mut marked = frame.clone();
            assert!(!mark(&mut marked) && marked == frame && field(&frame) == NOT_ECT, "{frame:x?}");
        }
    }

    #[test]
    fn a_wrong_checksum_is_as_wrong_as_it_was() {
        for wrong in 1..=u16::MAX {
            let (mut frame, mut right) = (four(&[], 1, &[]), four(&[], 3, &[]));
            for frame in [&mut frame, &mut right] {
                let sum = u16::from_be_bytes([frame[24], frame[25]]);
                // In one's complement, in which 0 is 0xffff.
                let sum = u32::from(sum) + u32::from(wrong);
                frame[24..26].copy_from_slice(&((sum % 0xffff) as u16).to_be_bytes());
            }
            assert!(mark(&mut frame));
            let folded = |frame: &[u8]| u16::from_be_bytes([frame[24], frame[25]]) % 0xffff;
            assert_eq!(folded(&frame), folded(&right), "{wrong}");
        }
    }
}
