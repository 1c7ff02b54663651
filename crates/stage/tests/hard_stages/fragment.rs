//! Fragments: a packet becomes several, and several become one.
//!
//! The toy's fragments have a header of four bytes: packet number, piece, whether more pieces follow, and 0xf0.

use proptest::prelude::*;
use weir_packet::{Batch, Burst, Held, Packet, Slot};
use weir_stage::harness::Harness;
use weir_stage::{Declaration, Out, Stage, ways};

use crate::tally::{Tally, events};

const HEADER: usize = 4;
const MARK: u8 = 0xf0;

ways! {
    /// Ways out of [`Fragment`].
    enum Cut {
        /// Short enough, or a piece.
        Out => way "out",
        /// Its pieces have taken its place.
        Fragmented => consume "fragmented",
        /// There are not enough buffers for all pieces, and some of them are of no use.
        NoBuffer => drop "no-buffer",
        /// A piece.
        Piece => create "piece",
    }
}

struct Fragment {
    /// Bytes of a packet that may pass in one piece.
    most: usize,
    number: u8,
}

impl Fragment {
    fn cut(&mut self, batch: &Batch, slot: Slot, out: &mut Out<'_>) -> Cut {
        let Some(packet) = batch.get(slot).filter(|packet| packet.len() > self.most) else { return Cut::Out };
        let pieces = packet.bytes().chunks(self.most.saturating_sub(HEADER).max(1));
        let count = pieces.len();
        // All buffers first: a packet is cut as a whole or not at all.
        let mut buffers = Burst::new();
        while buffers.len() < count
            && let Some(buffer) = out.alloc()
        {
            if let Err(buffer) = buffers.push(buffer) {
                out.unalloc(buffer);
                break;
            }
        }
        if buffers.len() < count {
            give_back(&mut buffers, out);
            return Cut::NoBuffer;
        }
        self.number = self.number.wrapping_add(1);
        for (n, bytes) in pieces.enumerate() {
            let Some(mut piece) = buffers.pop() else { break };
            let header = [self.number, n as u8, u8::from(n + 1 < count), MARK];
            piece.fill(&[&header[..], bytes].concat());
            out.emit(Held::like(piece, &batch.lanes, slot), Cut::Out, Cut::Piece);
        }
        Cut::Fragmented
    }
}

fn give_back(buffers: &mut Burst, out: &mut Out<'_>) {
    while let Some(buffer) = buffers.pop() {
        out.unalloc(buffer);
    }
}

impl Stage for Fragment {
    fn declare(&self) -> Declaration {
        Declaration::of::<Cut>()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        for slot in batch.slots() {
            let way = self.cut(batch, slot, out);
            out.answer(slot, way);
        }
    }
}

ways! {
    /// Ways out of [`Reassemble`].
    enum Join {
        /// No fragment, or a whole packet.
        Out => way "out",
        /// A piece that has become part of a whole.
        Joined => consume "joined",
        /// A piece whose others did not come in time.
        TimedOut => drop "timed-out",
        /// More pieces are waiting than may.
        Full => drop "full",
        /// A piece that is there already.
        Twice => drop "twice",
        /// The whole is longer than a buffer, or there is no buffer.
        NoBuffer => drop "no-buffer",
        /// A packet joined from its pieces.
        Whole => create "whole",
    }
}

/// Pieces that wait for each other.
struct Waiting {
    number: u8,
    until: u64,
    pieces: Vec<Held>,
}

fn piece(held: &Held) -> [u8; 4] {
    held.packet().bytes().first_chunk().copied().unwrap_or_default()
}

impl Waiting {
    /// Whether all pieces are there: as many as the number of the last one says.
    fn complete(&self) -> bool {
        let last = self.pieces.iter().map(piece).find(|header| header[2] == 0);
        last.is_some_and(|last| self.pieces.len() == usize::from(last[1]) + 1)
    }
}

struct Reassemble {
    waiting: Vec<Waiting>,
    /// Pieces that may wait in all.
    most: u64,
    patience: u64,
}

impl Reassemble {
    fn new() -> Reassemble {
        Reassemble { waiting: Vec::new(), most: 100, patience: 1_000_000 }
    }

    fn take(&mut self, held: Held, out: &mut Out<'_>) {
        if self.held() >= self.most {
            return out.send(held, Join::Full);
        }
        let header = piece(&held);
        let at = self.waiting.iter().position(|waiting| waiting.number == header[0]).unwrap_or_else(|| {
            self.waiting.push(Waiting { number: header[0], until: out.now() + self.patience, pieces: Vec::new() });
            self.waiting.len() - 1
        });
        if self.waiting[at].pieces.iter().any(|other| piece(other)[1] == header[1]) {
            return out.send(held, Join::Twice);
        }
        self.waiting[at].pieces.push(held);
        if self.waiting[at].complete() {
            let whole = self.waiting.remove(at);
            join(whole.pieces, out);
        }
    }
}

/// Makes one packet of its pieces, which are used up.
fn join(mut pieces: Vec<Held>, out: &mut Out<'_>) {
    pieces.sort_by_key(|held| piece(held)[1]);
    let bytes: Vec<u8> = pieces.iter().flat_map(|held| held.packet().bytes()[HEADER..].to_vec()).collect();
    let whole = out.alloc().and_then(|packet| filled(packet, &bytes, out));
    let fate = if whole.is_some() { Join::Joined } else { Join::NoBuffer };
    if let (Some(whole), Some(first)) = (whole, pieces.first_mut()) {
        out.emit(Held::fresh(whole, first.port(), first.time()), Join::Out, Join::Whole);
    }
    pieces.into_iter().for_each(|held| out.send(held, fate));
}

fn filled(mut packet: Packet, bytes: &[u8], out: &mut Out<'_>) -> Option<Packet> {
    if packet.fill(bytes) {
        return Some(packet);
    }
    out.unalloc(packet);
    None
}

impl Stage for Reassemble {
    fn declare(&self) -> Declaration {
        Declaration::of::<Join>().polled()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        for slot in batch.slots() {
            let is_piece = batch.get(slot).is_some_and(|packet| packet.bytes().get(3) == Some(&MARK));
            if is_piece && let Some(held) = batch.hold(slot) {
                self.take(held, out);
            }
        }
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        for late in self.waiting.extract_if(.., |waiting| waiting.until <= now) {
            late.pieces.into_iter().for_each(|held| out.send(held, Join::TimedOut));
        }
        self.waiting.iter().map(|waiting| waiting.until).min().unwrap_or(u64::MAX)
    }

    fn held(&self) -> u64 {
        self.waiting.iter().map(|waiting| waiting.pieces.len() as u64).sum()
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.waiting.drain(..).flat_map(|waiting| waiting.pieces).for_each(give);
    }
}

#[test]
fn pieces_are_joined_in_any_order() {
    let mut cutter = Harness::new(Fragment { most: 20, number: 0 });
    let long: Vec<u8> = (0..100).collect();
    let cut = cutter.run(0, &[&long[..], b"short"]);
    assert_eq!((cut.way("fragmented"), cut.created["piece"]), (&[long.clone()][..], 7));
    let mut pieces = cut.way("out").to_vec();
    assert_eq!(pieces.remove(0), b"short");
    assert!(pieces.iter().all(|piece| piece.len() <= 20));
    pieces.reverse();

    let mut joiner = Harness::new(Reassemble::new());
    let first = joiner.run(5, &pieces[..3]);
    assert_eq!((first.ways.len(), joiner.stage.held()), (0, 3));
    let rest = joiner.run(6, &pieces[3..]);
    assert_eq!((rest.way("out"), rest.way("joined").len(), rest.created["whole"]), (&[long][..], 7, 1));
    assert_eq!(joiner.stage.held(), 0);
}

#[test]
fn pieces_that_wait_too_long_are_dropped_by_name() {
    let mut joiner = Harness::new(Reassemble::new());
    joiner.run(0, &[[1, 0, 1, MARK, 7], [2, 0, 1, MARK, 7]]);
    joiner.run(500, &[[3, 0, 1, MARK, 7]]);
    assert_eq!(joiner.poll(999_999).next_poll, Some(1_000_000));
    let outcome = joiner.poll(1_000_000);
    assert_eq!((outcome.way("timed-out").len(), outcome.next_poll), (2, Some(1_000_500)));
    assert_eq!(joiner.clear().len(), 1);
}

#[test]
fn a_packet_is_cut_whole_or_not_at_all() {
    let mut cutter = Harness::small(Fragment { most: 20, number: 0 }, 7);
    let outcome = cutter.run(0, &[vec![7; 100]]); // needs seven beside its own
    assert_eq!((outcome.way("no-buffer").len(), outcome.created.len()), (1, 0));
}

proptest! {
    #[test]
    fn packets_are_conserved_when_cut(events in events(300), most in 5_usize..200, buffers in 1_usize..500) {
        let mut tally = Tally::new(Harness::small(Fragment { most, number: 0 }, buffers));
        tally.play(events, |_, _| {});
    }

    #[test]
    fn packets_are_conserved_when_joined(
        pieces in prop::collection::vec((0_u8..4, 0_u8..4, 0_u8..2, 0_usize..60, 0_u64..400_000), 1..200),
        buffers in 1_usize..120,
    ) {
        let mut tally = Tally::new(Harness::small(Reassemble::new(), buffers));
        for chunk in pieces.chunks(7) {
            let packets: Vec<Vec<u8>> = chunk
                .iter()
                .map(|&(number, piece, more, len, _)| [&[number, piece, more, MARK][..], &vec![7; len]].concat())
                .collect();
            let outcome = tally.harness.run(tally.now, &packets);
            tally.add(&outcome);
            tally.now += chunk[0].4;
            let outcome = tally.harness.poll(tally.now);
            tally.add(&outcome);
        }
        tally.play(vec![], |_, _| {});
    }

    #[test]
    fn joining_undoes_cutting(packets in prop::collection::vec(prop::collection::vec(1_u8..0xf0, 1..300), 1..20)) {
        let mut cutter = Harness::small(Fragment { most: 64, number: 0 }, 500);
        let mut joiner = Harness::small(Reassemble::new(), 500);
        let mut pieces = cutter.run(0, &packets).way("out").to_vec();
        let mut got = Vec::new();
        while !pieces.is_empty() {
            let rest = pieces.split_off(pieces.len().min(64));
            got.extend(joiner.run(0, &pieces).way("out").to_vec());
            pieces = rest;
        }
        let mut sent = packets;
        got.sort();
        sent.sort();
        prop_assert_eq!(got, sent);
    }
}
