use proptest::prelude::*;
use weir_wire::build::UdpFrame;
use weir_wire::validity;

use super::*;
use crate::fragment::Fragments;

const SECOND: u64 = 1_000_000_000;

/// A packet whose payload bytes tell their place.
fn packet(payload: usize, options: &[u8]) -> Vec<u8> {
    let mut packet = UdpFrame::default().to_vec(&[]).split_off(14);
    packet.truncate(20);
    packet.extend(options);
    packet.extend((0..payload).map(|n| (n % 251) as u8));
    packet[0] = 0x45 + (options.len() / 4) as u8;
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    ipv4::write_checksum(&mut packet);
    packet
}

fn fragments(packet: &[u8], mtu: u16) -> Vec<Vec<u8>> {
    let write = |fragment: crate::fragment::Fragment<'_>| {
        let mut bytes = vec![0; fragment.total_len()];
        fragment.write(&mut bytes).unwrap();
        bytes
    };
    Fragments::new(packet, mtu).unwrap().map(write).collect()
}

fn add(all: &mut Reassembly<Vec<u8>>, now: u64, fragment: &[u8]) -> Verdict<Vec<u8>> {
    let (whole, piece) = Piece::of(fragment).unwrap();
    all.add(now, whole, piece, fragment.to_vec())
}

fn whole(n: u16) -> Whole {
    Whole { source: 1, destination: 2, protocol: 17, identification: n }
}

fn piece(start: usize, end: usize, last: bool) -> Piece {
    Piece { start, end, last }
}

#[test]
fn pieces_that_cannot_be_are_none() {
    let of = |offset: usize, length: usize, more: bool| {
        let mut bytes = packet(length, &[]);
        Ipv4::view_mut(&mut bytes).unwrap().set_fragment(false, more, offset);
        Piece::of(&bytes).map(|(_, piece)| piece)
    };
    assert_eq!(of(8, 16, true), Some(piece(8, 24, false)));
    assert_eq!(of(0, 15, false), Some(piece(0, 15, true)));
    assert_eq!(of(16, 0, false), None, "empty");
    assert_eq!(of(0, 0, true), None, "empty");
    assert_eq!(of(0, 15, true), None, "no unit of 8 bytes");
    // RFC 791: no packet is longer than 65,535 bytes; this is what the "ping of death" was.
    assert_eq!(of(65_528, 8, false), None);
    assert_eq!(of(65_504, 11, false), Some(piece(65_504, 65_515, true)));
    assert_eq!(of(65_504, 12, false), None);
}

#[test]
fn what_overlaps_is_given_up_with_all_that_follows() {
    let first = || {
        let mut all = Reassembly::new(100);
        assert_eq!(all.add(0, whole(1), piece(16, 32, false), 'a'), Verdict::Kept);
        assert_eq!(all.add(0, whole(1), piece(48, 64, true), 'b'), Verdict::Kept);
        all
    };
    let overlapping = [
        piece(8, 24, false),
        piece(24, 40, false),
        piece(16, 24, false),
        piece(24, 32, false),
        piece(0, 64, false),
        piece(16, 40, false),
        piece(40, 56, false),
        piece(64, 72, false),
        piece(64, 72, true),
        piece(32, 40, true),
        piece(48, 64, false),
    ];
    for piece_ in overlapping {
        let mut all = first();
        assert_eq!(all.add(1, whole(1), piece_, 'c'), Verdict::Overlap(vec!['a', 'b', 'c']), "{piece_:?}");
        assert_eq!(all.held(), 0);
        // "and any constituent fragments not yet received" (RFC 5722 section 4).
        assert_eq!(all.add(2, whole(1), piece(0, 16, false), 'd'), Verdict::Overlap(vec!['d']));
        assert_eq!(all.add(2, whole(2), piece(0, 16, false), 'e'), Verdict::Kept, "another packet");
        assert_eq!(all.expire(TIMEOUT), Some(vec![]));
        assert_eq!(all.add(TIMEOUT, whole(1), piece(0, 16, false), 'f'), Verdict::Kept, "its time is over");
    }
    let mut all = first();
    assert_eq!(all.add(0, whole(1), piece(48, 64, true), 'c'), Verdict::Duplicate('c'));
    assert_eq!(all.add(0, whole(1), piece(32, 48, false), 'd'), Verdict::Kept);
    assert_eq!(all.add(0, whole(1), piece(0, 16, false), 'e'), Verdict::Complete(vec!['e', 'a', 'd', 'b']));
    assert_eq!((all.held(), all.next_deadline()), (0, None));
}

#[test]
fn time_runs_from_the_first_fragment_on() {
    let mut all = Reassembly::new(10);
    assert_eq!(all.add(5, whole(1), piece(8, 16, false), 'a'), Verdict::Kept);
    assert_eq!(all.add(30 * SECOND, whole(1), piece(0, 8, false), 'b'), Verdict::Kept);
    assert_eq!(all.add(31 * SECOND, whole(2), piece(0, 8, false), 'c'), Verdict::Kept);
    assert_eq!(all.next_deadline(), Some(60 * SECOND + 5));
    assert_eq!(all.expire(60 * SECOND + 4), None);
    assert_eq!(all.expire(60 * SECOND + 5), Some(vec!['b', 'a']));
    assert_eq!(all.expire(90 * SECOND), None);
    assert_eq!(all.expire(91 * SECOND), Some(vec!['c']));
    assert_eq!((all.expire(u64::MAX), all.held()), (None, 0));
}

#[test]
fn no_more_is_kept_than_there_is_room_for() {
    let mut all = Reassembly::new(3);
    for n in 0..3 {
        assert_eq!(all.add(0, whole(n), piece(0, 8, false), n), Verdict::Kept);
    }
    assert_eq!(all.add(0, whole(0), piece(8, 16, false), 7), Verdict::Full(7));
    assert_eq!(all.add(0, whole(9), piece(0, 8, false), 8), Verdict::Full(8));
    let mut left = all.clear();
    left.sort_unstable();
    assert_eq!((left, all.held(), all.next_deadline()), (vec![0, 1, 2], 0, None));
    let mut none = Reassembly::new(0);
    assert_eq!(none.add(0, whole(0), piece(0, 8, false), 'a'), Verdict::Full('a'));
}

#[test]
fn room_is_made_by_what_has_waited_longest() {
    let mut all = Reassembly::new(3);
    assert!(!all.is_full(whole(0)));
    let first = [(1, 0, 'a'), (2, 0, 'b'), (1, 16, 'c')];
    for (now, (of, start, item)) in first.into_iter().enumerate() {
        assert_eq!(all.add(now as u64, whole(of), piece(start, start + 8, false), item), Verdict::Kept);
    }
    assert!(all.is_full(whole(2)) && all.is_full(whole(3)));
    assert_eq!(all.give_up_oldest(), Some(vec!['a', 'c']));
    assert!(!all.is_full(whole(3)));
    // What was given up for other reasons takes a place, though nothing is kept of it.
    assert_eq!(all.add(5, whole(2), piece(4, 12, true), 'd'), Verdict::Overlap(vec!['b', 'd']));
    assert_eq!(all.add(6, whole(3), piece(0, 8, false), 'e'), Verdict::Kept);
    assert_eq!(all.add(7, whole(4), piece(0, 8, false), 'f'), Verdict::Kept);
    assert_eq!((all.held(), all.is_full(whole(4)), all.is_full(whole(5))), (2, false, true));
    let given_up: Vec<_> = std::iter::from_fn(|| all.give_up_oldest()).collect();
    assert_eq!(given_up, [vec![], vec!['e'], vec!['f']]);
    assert_eq!((all.held(), all.next_deadline(), all.is_full(whole(5))), (0, None, false));
    assert!(Reassembly::<char>::new(0).is_full(whole(0)));
}

/// What the pieces of one packet come to, byte for byte.
#[derive(Default)]
struct Slow {
    bytes: Vec<Option<u8>>,
    seen: Vec<(Piece, u8)>,
    given_up: bool,
}

impl Slow {
    fn add(&mut self, piece: Piece, tag: u8) -> Verdict<u8> {
        if self.seen.iter().any(|(seen, _)| *seen == piece) {
            return Verdict::Duplicate(tag);
        }
        let end = self.seen.iter().find(|(seen, _)| seen.last).map(|(seen, _)| seen.end);
        self.bytes.resize(self.bytes.len().max(piece.end), None);
        let taken = self.bytes[piece.start..piece.end].iter().any(Option::is_some);
        let beyond = end.is_some_and(|end| piece.end > end || piece.last);
        let short = piece.last && self.seen.iter().any(|(seen, _)| seen.end > piece.end);
        if self.given_up || taken || beyond || short {
            self.given_up = true;
            self.bytes.clear();
            self.seen.sort_by_key(|(seen, _)| seen.start);
            return Verdict::Overlap(self.seen.drain(..).map(|(_, tag)| tag).chain([tag]).collect());
        }
        self.bytes[piece.start..piece.end].fill(Some(tag));
        self.seen.push((piece, tag));
        let end = end.or(piece.last.then_some(piece.end));
        if end.is_none_or(|end| self.bytes[..end].contains(&None)) {
            return Verdict::Kept;
        }
        self.seen.sort_by_key(|(seen, _)| seen.start);
        let all = self.seen.drain(..).map(|(_, tag)| tag).collect();
        *self = Slow::default();
        Verdict::Complete(all)
    }
}

proptest! {
    #[test]
    fn fast_and_slow_agree(pieces in proptest::collection::vec((0_usize..6, 1_usize..4, any::<bool>()), 0..40)) {
        let (mut fast, mut slow) = (Reassembly::new(1000), Slow::default());
        for ((start, units, last), tag) in pieces.into_iter().zip(0..) {
            let piece = piece(start * 8, (start + units) * 8, last);
            prop_assert_eq!(fast.add(0, whole(1), piece, tag), slow.add(piece, tag));
            prop_assert_eq!(fast.held(), slow.seen.len());
        }
    }

    #[test]
    fn fragments_in_any_order_are_the_packet(
        length in 1_usize..5000,
        mtu in 68_u16..600,
        words in 0_usize..4,
        order in any::<u64>(),
    ) {
        // Options that go into every fragment (RFC 791: the copied flag), so that the first has all of them anyway.
        let packet = packet(length, &[0x94, 4, 0, 0].repeat(words));
        let mut pieces = fragments(&packet, mtu);
        let mut seed = order;
        for n in (1..pieces.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pieces.swap(n, (seed >> 33) as usize % (n + 1));
        }
        let mut all = Reassembly::new(1000);
        let (last, others) = pieces.split_last().unwrap();
        for fragment in others {
            prop_assert_eq!(add(&mut all, 0, fragment), Verdict::Kept);
        }
        let Verdict::Complete(found) = add(&mut all, 0, last) else { panic!("it is not complete") };
        let joined = join(found.iter().map(Vec::as_slice)).unwrap();
        prop_assert_eq!(validity::check_slice(&joined), Ok(()));
        prop_assert_eq!(joined, packet);
    }

    #[test]
    fn any_bytes_are_survived(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let mut all = Reassembly::new(8);
        for (bytes, now) in packets.iter().zip(0..) {
            if let Some((whole, piece)) = Piece::of(bytes) {
                let verdict = all.add(now, whole, piece, bytes.as_slice());
                if let Verdict::Complete(found) = verdict {
                    let _ = join(found.into_iter());
                }
            }
            prop_assert!(all.held() <= 8);
        }
    }
}

/// RFC 3168 section 5.3.
#[test]
fn one_congested_fragment_marks_the_packet() {
    let packet = packet(300, &[]);
    for marked in [None, Some(0), Some(1), Some(2)] {
        let mut pieces = fragments(&packet, 148);
        if let Some(marked) = marked {
            Ipv4::view_mut(&mut pieces[marked]).unwrap().tos |= 3;
            ipv4::write_checksum(&mut pieces[marked]);
        }
        let joined = join(pieces.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(validity::check_slice(&joined), Ok(()));
        assert_eq!(joined[1] & 3 == 3, marked.is_some());
        assert_eq!(joined[20..], packet[20..]);
    }
}

#[test]
fn a_packet_in_more_pieces_than_one_may_have_is_given_up() {
    let original = packet(400, &[]);
    let pieces = fragments(&original, 68);
    let count = pieces.len();
    let mut all = Reassembly::new(100).with_most_of_one(count);
    let last = pieces.iter().map(|piece| add(&mut all, 0, piece)).last();
    assert!(matches!(last, Some(Verdict::Complete(whole)) if whole.len() == count));
    let mut all = Reassembly::new(100).with_most_of_one(count - 1);
    for piece in &pieces[..count - 1] {
        assert_eq!(add(&mut all, 0, piece), Verdict::Kept);
    }
    assert_eq!(add(&mut all, 0, &pieces[count - 1]), Verdict::TooMany(pieces.clone()));
    assert_eq!(all.held(), 0);
    // What still comes of it is not taken.
    assert_eq!(add(&mut all, 0, &pieces[0]), Verdict::Overlap(vec![pieces[0].clone()]));
}
