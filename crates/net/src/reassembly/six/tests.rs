//! Clause by clause of RFC 8200 section 4.5, and fragments of random packets in random order.

use super::*;
use crate::fragment::six::Fragments6;
use crate::reassembly::{Reassembly, Verdict};
use proptest::prelude::*;
use weir_wire::validity6;

/// A packet with these headers before what is carried (each a number and 7 bytes behind it), and a payload whose bytes tell their place.
fn packet(headers: &[(u8, [u8; 7])], upper: u8, payload: usize) -> Vec<u8> {
    let mut packet = vec![0x60, 0x20, 0, 1, 0, 0, 0, 64];
    packet.extend((0..32).map(|n| n as u8 + 1));
    let mut named_at = 6;
    for (kind, rest) in headers {
        packet[named_at] = *kind;
        named_at = packet.len();
        packet.push(0);
        packet.extend(rest);
    }
    packet[named_at] = upper;
    packet.extend((0..payload).map(|n| (n % 251) as u8));
    let length = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet
}

fn fragments(packet: &[u8], mtu: u16) -> Vec<Vec<u8>> {
    let write = |fragment: crate::fragment::six::Fragment6<'_>| {
        let mut bytes = vec![0; fragment.total_len()];
        assert_eq!(fragment.write(&mut bytes), Some(bytes.len()));
        bytes
    };
    Fragments6::new(packet, mtu, 7).unwrap().map(write).collect()
}

/// A fragment by hand: offset in bytes, more, payload.
fn fragment(offset: u16, more: bool, upper: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (offset | u16::from(more)).to_be_bytes();
    let mut bytes = packet(&[(FRAGMENT, [0, high, low, 0, 0, 0, 7])], upper, 0);
    bytes.extend(payload);
    let length = (bytes.len() - 40) as u16;
    bytes[4..6].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn bad(packet: &[u8]) -> (BadFragment, Option<(u8, u32)>) {
    let bad = part_of(packet).unwrap_err();
    let told = bad.problem().map(|problem| match problem {
        Problem::Parameter { code, pointer } => (code, pointer),
        other => panic!("{other:?}"),
    });
    (bad, told)
}

#[test]
fn what_cannot_be_a_piece_is_told_as_section_4_5_says() {
    // "If the length of a fragment [...] is not a multiple of 8 octets and the M flag of that fragment is 1, then that fragment must be
    // discarded and an ICMP Parameter Problem, Code 0 [...] pointing to the Payload Length field".
    assert_eq!(bad(&fragment(8, true, 17, &[0; 15])), (BadFragment::Length, Some((0, 4))));
    assert!(part_of(&fragment(8, false, 17, &[0; 15])).is_ok());
    // "[...] would exceed 65,535 octets [...] pointing to the Fragment Offset field".
    assert!(part_of(&fragment(65_528, false, 17, &[0; 7])).is_ok());
    assert_eq!(bad(&fragment(65_528, false, 17, &[0; 8])), (BadFragment::TooLong(42), Some((0, 42))));
    // "If the first fragment does not include all headers through an Upper-Layer header [...] Code 3 [...] Pointer field set to zero".
    for (upper, least) in [(6, 20_usize), (17, 8), (58, 4), (132, 12)] {
        let short = vec![0_u8; (least - 1) / 8 * 8];
        if !short.is_empty() {
            assert_eq!(bad(&fragment(0, true, upper, &short)), (BadFragment::Incomplete, Some((3, 0))), "{upper}");
        }
        assert!(part_of(&fragment(0, true, upper, &vec![0; least.next_multiple_of(8)])).is_ok());
    }
    let hidden = fragment(0, true, 60, &[17, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bad(&hidden), (BadFragment::Incomplete, Some((3, 0))), "the options go on in the next fragment");
    assert_eq!(bad(&fragment(8, true, 17, &[])), (BadFragment::Empty, None));
    assert_eq!(bad(&packet(&[], 17, 20)), (BadFragment::Malformed, None));
    assert_eq!(bad(&fragment(8, true, 17, &[0; 8])[..47]), (BadFragment::Malformed, None));
}

/// RFC 6946 section 4: "the node MUST process [atomic fragments] in isolation from any other packets/fragments".
#[test]
fn an_atomic_fragment_is_the_packet() {
    for payload in [0, 1, 8, 100] {
        let whole = packet(&[(0, [0, 1, 4, 0, 0, 0, 0])], 17, payload);
        let atomic = packet(&[(0, [0, 1, 4, 0, 0, 0, 0]), (FRAGMENT, [0, 0, 0, 0, 0, 0, 7])], 17, payload);
        assert_eq!(part_of(&atomic), Ok(Part::Atomic));
        assert_eq!(join6([atomic.as_slice()].into_iter()), Some(whole));
    }
}

/// RFC 5722, by the machine that IPv4 has too.
#[test]
fn overlaps_give_the_whole_packet_up() {
    let mut all = Reassembly::new(10);
    let mut add = |offset, more, payload: &[u8]| {
        let bytes = fragment(offset, more, 17, payload);
        let Ok(Part::Piece(whole, piece)) = part_of(&bytes) else { panic!("no piece") };
        all.add(0, whole, piece, offset)
    };
    assert_eq!(add(0, true, &[0; 16]), Verdict::Kept);
    assert_eq!(add(8, true, &[0; 16]), Verdict::Overlap(vec![0, 8]));
    assert_eq!(add(24, false, &[0; 16]), Verdict::Overlap(vec![24]));
}

/// The identification has 32 bits, and the protocol does not tell packets apart.
#[test]
fn addresses_and_identification_tell_packets_apart() {
    let whole = |change: fn(&mut Vec<u8>)| {
        let mut bytes = fragment(8, true, 17, &[0; 8]);
        change(&mut bytes);
        match part_of(&bytes) {
            Ok(Part::Piece(whole, _)) => whole,
            other => panic!("{other:?}"),
        }
    };
    let same = whole(|_| ());
    assert_eq!(whole(|bytes| bytes[40] = 6), same);
    let changes: [fn(&mut Vec<u8>); 4] =
        [|bytes| bytes[8] ^= 1, |bytes| bytes[39] ^= 1, |bytes| bytes[44] ^= 1, |bytes| bytes[47] ^= 1];
    for change in changes {
        assert_ne!(whole(change), same);
    }
}

/// RFC 3168 section 5.3.
#[test]
fn one_congested_fragment_marks_the_packet() {
    let packet = packet(&[], 17, 3000);
    for marked in [None, Some(1), Some(2)] {
        let mut pieces = fragments(&packet, 1280);
        if let Some(marked) = marked {
            let ip = Ipv6::view_mut(&mut pieces[marked]).unwrap();
            ip.set_traffic_class(ip.traffic_class() | 3);
        }
        let joined = join6(pieces.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(Ipv6::view(&joined).unwrap().traffic_class() & 3 == 3, marked.is_some());
        assert_eq!(joined[40..], packet[40..]);
    }
}

#[test]
fn fragments_are_refused_as_packets_and_tiny_mtus_too() {
    use crate::fragment::Refused;
    let refused = |packet: &[u8], mtu| Fragments6::new(packet, mtu, 7).err();
    assert_eq!(refused(&fragment(0, true, 17, &[0; 80]), 64), Some(Refused::Invalid));
    let behind = packet(&[(60, [0, 1, 4, 0, 0, 0, 0]), (FRAGMENT, [0, 0, 8, 0, 0, 0, 7])], 17, 80);
    assert_eq!(refused(&behind, 1280), Some(Refused::Invalid));
    assert_eq!(refused(&packet(&[], 17, 80), 55), Some(Refused::MtuTooSmall));
    assert_eq!(refused(&packet(&[], 17, 80), 56), None);
    assert_eq!(refused(&packet(&[], 17, 80)[..100], 56), Some(Refused::Invalid));
    assert_eq!(Fragments6::new(&packet(&[], 59, 0), 1280, 7).unwrap().count(), 0);
}

proptest! {
    #[test]
    fn fragments_in_any_order_are_the_packet(payload in 20_usize..9000, mtu in 72_u16..2000, kinds in 0_usize..4, order: u64) {
        // Before the fragment header, and behind it.
        let all = [(0, [0, 1, 4, 0, 0, 0, 0]), (43, [0, 9, 0, 0, 0, 0, 0]), (60, [0, 1, 4, 0, 0, 0, 0])];
        let packet = packet(&all[..kinds], 17, payload);
        prop_assume!(usize::from(mtu) >= 40 + 8 * kinds + 8 + 24);
        let mut pieces = fragments(&packet, mtu);
        for (n, piece) in pieces.iter().enumerate() {
            prop_assert!(piece.len() <= usize::from(mtu));
            prop_assert_eq!(validity6::check_slice(piece), Ok(()));
            prop_assert!(n + 1 == pieces.len() || piece.len() + 8 > usize::from(mtu), "as much as fits");
        }
        let mut seed = order;
        for n in (1..pieces.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pieces.swap(n, (seed >> 33) as usize % (n + 1));
        }
        let mut all = Reassembly::new(1000);
        let (last, others) = pieces.split_last().unwrap();
        let mut add = |fragment: &Vec<u8>| match part_of(fragment) {
            Ok(Part::Piece(whole, piece)) => all.add(0, whole, piece, fragment.clone()),
            Ok(Part::Atomic) => Verdict::Complete(vec![fragment.clone()]),
            Err(bad) => panic!("{bad}"),
        };
        for fragment in others {
            prop_assert_eq!(add(fragment), Verdict::Kept);
        }
        let Verdict::Complete(found) = add(last) else { panic!("it is not complete") };
        prop_assert_eq!(join6(found.iter().map(Vec::as_slice)), Some(packet));
    }

    #[test]
    fn any_bytes_are_survived(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 0..20), at: bool) {
        let mut all = Reassembly::new(8);
        for (mut bytes, now) in packets.into_iter().zip(0..) {
            if at && bytes.len() > 48 {
                (bytes[0], bytes[6]) = (0x60, FRAGMENT);
                let length = (bytes.len() - 40) as u16;
                bytes[4..6].copy_from_slice(&length.to_be_bytes());
            }
            if let Ok(Part::Piece(whole, piece)) = part_of(&bytes)
                && let Verdict::Complete(found) = all.add(now, whole, piece, bytes)
            {
                let _ = join6(found.iter().map(Vec::as_slice));
            }
            prop_assert!(all.held() <= 8);
        }
    }
}
