//! Reassembly of packets from fragments: of IPv4 (RFC 791 section 3.2, RFC 815, RFC 1122 section 3.3.2), and of IPv6 ([`six`]).
//!
//! What the fragments lie in is the caller's business: a [`Reassembly`] holds items, and answers which of them make a whole packet,
//! or must be given up. It is bounded in items, and so in packets.
//!
//! Fragments that overlap never come from an honest host, and differ in what systems make of them; so the whole packet is given up,
//! with what still comes of it, as RFC 5722 section 4 says for IPv6. A fragment that comes twice is no overlap.

pub mod six;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};

use weir_wire::ipv4::{self, MAX_LENGTH};
use weir_wire::{Ipv4, U16, View};

/// How long the pieces of a packet are kept, nanoseconds: "a fixed value [...] between 60 seconds and 120 seconds" (RFC 1122 section
/// 3.3.2).
pub const TIMEOUT: u64 = 60 * 1_000_000_000;

/// What fragments of one packet have in common (RFC 791: "the identification field [...] source, destination, and protocol").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whole {
    source: u32,
    destination: u32,
    protocol: u8,
    identification: u16,
}

impl Hash for Whole {
    /// As one number: a keyed hash takes each number that it is given on its own.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let packet = u128::from(self.protocol) << 16 | u128::from(self.identification);
        state.write_u128(packet << 64 | u128::from(self.source) << 32 | u128::from(self.destination));
    }
}

/// Where a fragment belongs, in bytes of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    start: usize,
    end: usize,
    last: bool,
}

impl Piece {
    /// What the valid packet `packet`, a fragment, is a piece of, and which. `None` if there can be no such piece: an empty one, one
    /// before the last that does not end on a unit of 8 bytes, or one beyond the longest packet.
    pub fn of(packet: &[u8]) -> Option<(Whole, Piece)> {
        let ip = Ipv4::view(packet)?;
        let (start, length) = (ip.fragment_offset(), ipv4::payload(packet)?.len());
        let (end, last) = (start + length, !ip.more_fragments());
        let possible = length > 0 && (last || length % 8 == 0) && ip.header_len() + end <= MAX_LENGTH;
        let whole = Whole {
            source: ip.source.get(),
            destination: ip.destination.get(),
            protocol: ip.protocol,
            identification: ip.identification.get(),
        };
        possible.then_some((whole, Piece { start, end, last }))
    }
}

/// What became of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// It is kept until the others are there.
    Kept,
    /// It was the one that was missing: all pieces of the packet, in order.
    Complete(Vec<T>),
    /// It was there before.
    Duplicate(T),
    /// It overlaps another, or contradicts it about the packet's end: all that was kept of the packet, and the fragment itself.
    Overlap(Vec<T>),
    /// There is no room for it.
    Full(T),
    /// Its packet has more pieces than one may have: all that was kept of the packet, and the fragment itself.
    TooMany(Vec<T>),
}

/// The pieces of one packet. Once they have overlapped, or were too many, there are none, and none are taken.
#[derive(Debug)]
struct Pieces<T> {
    /// By where they start: where they end, and what they lie in.
    by_start: BTreeMap<usize, (usize, T)>,
    /// Bytes in all.
    covered: usize,
    /// Where the packet ends, when its last piece is there.
    end: Option<usize>,
    given_up: bool,
    deadline: u64,
}

impl<T> Pieces<T> {
    const fn none(deadline: u64) -> Pieces<T> {
        Pieces { by_start: BTreeMap::new(), covered: 0, end: None, given_up: false, deadline }
    }

    fn has(&self, piece: Piece) -> bool {
        let same = self.by_start.get(&piece.start).is_some_and(|(end, _)| *end == piece.end);
        same && piece.last == (self.end == Some(piece.end))
    }

    fn contradicts(&self, piece: Piece) -> bool {
        let before = self.by_start.range(..piece.end).next_back();
        let overlaps = before.is_some_and(|(_, (end, _))| *end > piece.start);
        let furthest = self.by_start.last_key_value().map_or(0, |(_, (end, _))| *end);
        let beyond = self.end.is_some_and(|end| piece.end > end || piece.last);
        overlaps || beyond || (piece.last && furthest > piece.end)
    }

    fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.covered = 0;
        std::mem::take(&mut self.by_start).into_values().map(|(_, item)| item)
    }
}

/// Fragments that wait for the rest of their packets, which `K` tells apart.
#[derive(Debug)]
pub struct Reassembly<T, K = Whole> {
    packets: HashMap<K, Pieces<T>>,
    deadlines: BTreeSet<(u64, K)>,
    most: usize,
    most_of_one: usize,
    held: usize,
}

impl<T, K: Copy + Ord + Hash> Reassembly<T, K> {
    /// Room for `most` fragments, of at most so many packets.
    pub fn new(most: usize) -> Reassembly<T, K> {
        Reassembly { packets: HashMap::new(), deadlines: BTreeSet::new(), most, most_of_one: usize::MAX, held: 0 }
    }

    /// The same where a packet has at most so many fragments; one with more is given up.
    pub fn with_most_of_one(self, most_of_one: usize) -> Reassembly<T, K> {
        Reassembly { most_of_one, ..self }
    }

    /// Whether there is no room for another fragment of this packet.
    pub fn is_full(&self, whole: K) -> bool {
        self.held >= self.most || (self.packets.len() >= self.most && !self.packets.contains_key(&whole))
    }

    /// Gives up the packet that has waited longest: its pieces in order, of which there may be none. `None` if nothing waits.
    ///
    /// Who makes room by this before it adds lets a flood of fragments drive out its own: honest pieces of a packet come close together. A room that
    /// stays full until time is over would keep everybody's fragments out for as long, at the price of as many packets as there is room for.
    pub fn give_up_oldest(&mut self) -> Option<Vec<T>> {
        let &(_, whole) = self.deadlines.first()?;
        Some(self.remove(whole))
    }

    /// Takes a fragment that came at time `now`.
    pub fn add(&mut self, now: u64, whole: K, piece: Piece, item: T) -> Verdict<T> {
        let is_full = self.packets.len() >= self.most || self.held >= self.most;
        let mut entry = match self.packets.entry(whole) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(_) if is_full => return Verdict::Full(item),
            Entry::Vacant(entry) => {
                let deadline = now.saturating_add(TIMEOUT);
                self.deadlines.insert((deadline, whole));
                entry.insert_entry(Pieces::none(deadline))
            }
        };
        let pieces = entry.get_mut();
        if pieces.has(piece) {
            return Verdict::Duplicate(item);
        }
        if pieces.given_up || pieces.contradicts(piece) {
            pieces.given_up = true;
            self.held -= pieces.by_start.len();
            return Verdict::Overlap(pieces.take().chain([item]).collect());
        }
        if pieces.by_start.len() >= self.most_of_one {
            pieces.given_up = true;
            self.held -= pieces.by_start.len();
            return Verdict::TooMany(pieces.take().chain([item]).collect());
        }
        if self.held >= self.most {
            return Verdict::Full(item);
        }
        pieces.by_start.insert(piece.start, (piece.end, item));
        pieces.covered += piece.end - piece.start;
        pieces.end = pieces.end.or(piece.last.then_some(piece.end));
        self.held += 1;
        // Nothing overlaps, so that as many bytes as the packet has are all of them.
        if pieces.end != Some(pieces.covered) {
            return Verdict::Kept;
        }
        let (whole, pieces) = entry.remove_entry();
        Verdict::Complete(self.removed(whole, pieces))
    }

    fn remove(&mut self, whole: K) -> Vec<T> {
        self.packets.remove(&whole).map_or_else(Vec::new, |pieces| self.removed(whole, pieces))
    }

    /// The pieces of a packet that is here no more.
    fn removed(&mut self, whole: K, mut pieces: Pieces<T>) -> Vec<T> {
        self.deadlines.remove(&(pieces.deadline, whole));
        self.held -= pieces.by_start.len();
        pieces.take().collect()
    }

    /// The pieces of a packet whose time is over, in order; there may be none. `None` if there is no such packet (any more).
    pub fn expire(&mut self, now: u64) -> Option<Vec<T>> {
        let &(deadline, whole) = self.deadlines.first()?;
        (deadline <= now).then(|| self.remove(whole))
    }

    /// When [`Reassembly::expire`] has something to do next; `None` if nothing waits.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Fragments that wait.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Gives all fragments up, those of a packet in order.
    pub fn clear(&mut self) -> Vec<T> {
        self.held = 0;
        self.deadlines.clear();
        self.packets.drain().flat_map(|(_, mut pieces)| pieces.take()).collect()
    }
}

/// The ECN field of a packet that met congestion (RFC 3168).
const CONGESTED: u8 = 3;

/// The packet that fragments make, given in order and complete: the header of the first with its options, and all payloads. It is
/// marked with congestion if one of them is (RFC 3168 section 5.3). `None` if they make none.
pub fn join<'p>(mut fragments: impl Iterator<Item = &'p [u8]> + Clone) -> Option<Vec<u8>> {
    let first = fragments.next()?;
    let room = first.len() + fragments.clone().map(<[u8]>::len).sum::<usize>();
    let mut packet = Vec::with_capacity(room);
    packet.extend(ipv4::header(first)?);
    packet.extend(ipv4::payload(first)?);
    let mut congested = false;
    for fragment in fragments {
        congested |= Ipv4::view(fragment)?.tos & CONGESTED == CONGESTED;
        packet.extend(ipv4::payload(fragment)?);
    }
    let total = u16::try_from(packet.len()).ok()?;
    let header = Ipv4::view_mut(&mut packet)?;
    header.total_length = U16::new(total);
    header.set_fragment(false, false, 0);
    if congested {
        header.tos |= CONGESTED;
    }
    ipv4::write_checksum(&mut packet).then_some(packet)
}

#[cfg(test)]
mod tests;
