//! From prefixes to nodes that hold them. What is built here no reader sees yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_mem::{Domain, arena};

use super::Prefix6;
use super::link::{Leads, Link, Range, Slot, WIDEST, WINDOW, WORDS, bits_at};
use super::room::{Piece, Room};
use super::trie::Trie;

/// A prefix and its value.
pub(super) type Route = (Prefix6, u32);

/// As few prefixes as this are made anew with each of their changes, all together.
pub(super) const FEW: u32 = 12;

/// All prefixes of a node begin with so many bits more than the node does: these are skipped by a bucket.
const SKIPPED: u8 = 6;

/// Slots of an array for each prefix below it, about.
const SLOTS: u32 = 8;

/// Nodes, and what only their writer knows of them.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) trie: Arc<Trie>,
    pub(super) room: Room,
    /// For each word of an array, 1 + the length of the prefix that its value is from; 0 for none.
    lengths: Vec<u8>,
    /// By the first line of a node, how many prefixes are in it and below.
    counts: Vec<u32>,
}

/// A range of a bucket while it is made: its first 32 bits, the value of the longest prefix, and the prefixes that are longer.
struct Span<'r> {
    first: u32,
    value: Option<u32>,
    deeper: &'r [Route],
}

impl Nodes {
    pub(super) fn new(max_lines: u32, miss: u32, domain: &Domain) -> Result<Nodes, arena::Error> {
        Ok(Nodes {
            trie: Arc::new(Trie::new(max_lines, miss)?),
            room: Room::new(max_lines, domain),
            lengths: vec![0; max_lines as usize * WORDS],
            counts: vec![0; max_lines as usize],
        })
    }

    /// How many prefixes are in a node and below.
    pub(super) fn count(&self, link: Link) -> u32 {
        self.counts.get(link.line() as usize).copied().filter(|_| !link.is_none()).unwrap_or(0)
    }

    pub(super) fn set_count(&mut self, line: u32, count: u32) {
        if let Some(kept) = self.counts.get_mut(line as usize) {
            *kept = count;
        }
    }

    /// The slot of an array, with 1 + the length of the prefix that its value is from.
    pub(super) fn slot(&self, line: u32, place: u32) -> (Slot, u8) {
        // Relaxed: this is the only writer.
        let word = self.trie.word(line, place).map_or(0, |word| word.load(Ordering::Relaxed));
        (Slot(word), self.lengths.get(line as usize * WORDS + place as usize).copied().unwrap_or(0))
    }

    /// Stores a slot.
    pub(super) fn set_slot(&mut self, line: u32, place: u32, (slot, length): (Slot, u8)) {
        if let Some(kept) = self.lengths.get_mut(line as usize * WORDS + place as usize) {
            *kept = length;
        }
        if let Some(word) = self.trie.word(line, place) {
            // Release: who follows the slot finds the node that it leads to filled.
            word.store(slot.0, Ordering::Release);
        }
    }

    /// The ranges of a bucket.
    pub(super) fn ranges(&self, line: u32) -> impl Iterator<Item = Range> {
        self.trie.line(line).into_iter().flatten().map(|word| Range(word.load(Ordering::Relaxed)))
    }

    fn set_ranges(&mut self, line: u32, ranges: &[Range]) {
        // The last one fills what is left: it is as good a last one.
        let filled = ranges.iter().chain(std::iter::repeat(ranges.last().unwrap_or(&Range(0))));
        for (word, range) in self.trie.line(line).into_iter().flatten().zip(filled) {
            // Relaxed: what leads here is stored later, with release.
            word.store(range.0, Ordering::Relaxed);
        }
    }

    /// Gives back what was built and is not needed.
    pub(super) fn undo(&mut self, fresh: Vec<Piece>) {
        fresh.into_iter().for_each(|piece| self.room.free(piece));
    }

    pub(super) fn take(&mut self, order: u8, fresh: &mut Vec<Piece>) -> Option<u32> {
        let piece = self.room.take(order)?;
        fresh.push(piece);
        Some(piece.line)
    }

    /// Makes nodes of all prefixes that are longer than `depth` in a region, in order. `None` where there is no room; what was taken
    /// until then is `fresh`, as it is otherwise.
    pub(super) fn build(&mut self, depth: u8, routes: &[Route], fresh: &mut Vec<Piece>) -> Option<Link> {
        let (Some((first, _)), Some((last, _))) = (routes.first(), routes.last()) else { return Some(Link::NONE) };
        let count = routes.len() as u32;
        if count <= FEW
            && let Some(spans) = spans(depth, routes)
        {
            return self.bucket(depth, count, &spans, fresh);
        }
        let common = (first.address() ^ last.address()).leading_zeros() as u8;
        let shortest = routes.iter().map(|(prefix, _)| prefix.length()).min().unwrap_or(0);
        let common = common.min(shortest);
        if common >= depth + SKIPPED {
            let end = common.min(depth + WINDOW);
            let skipped = self.skip(depth, end, routes, fresh)?;
            return self.bucket_of(count, &skipped, fresh);
        }
        self.array(depth, width(count, depth), routes, fresh)
    }

    fn bucket(&mut self, depth: u8, count: u32, spans: &[Span<'_>], fresh: &mut Vec<Piece>) -> Option<Link> {
        let mut ranges = Vec::with_capacity(spans.len());
        for span in spans {
            let leads = match (span.deeper, span.value) {
                ([], None) => Leads::Nowhere,
                ([], Some(value)) => Leads::Value(value),
                (deeper, value) => self.further(depth, WINDOW, value, deeper, fresh)?,
            };
            ranges.push(Range::new(span.first, leads));
        }
        self.bucket_of(count, &ranges, fresh)
    }

    fn bucket_of(&mut self, count: u32, ranges: &[Range], fresh: &mut Vec<Piece>) -> Option<Link> {
        let line = self.take(0, fresh)?;
        self.set_ranges(line, ranges);
        self.set_count(line, count);
        Some(Link::bucket(line))
    }

    /// A slot so many bits behind the depth of a bucket.
    fn further(
        &mut self,
        depth: u8,
        bits: u8,
        value: Option<u32>,
        deeper: &[Route],
        fresh: &mut Vec<Piece>,
    ) -> Option<Leads> {
        let link = self.build(depth + bits, deeper, fresh)?;
        let line = self.take(0, fresh)?;
        self.set_slot(line, 0, (Slot::new(value, link), 0));
        Some(Leads::Slot { line, bits })
    }

    /// The ranges of a bucket whose prefixes all begin with the same bits up to `end`.
    fn skip(&mut self, depth: u8, end: u8, routes: &[Route], fresh: &mut Vec<Piece>) -> Option<Vec<Range>> {
        let (inside, _) = *routes.first()?;
        let region = Prefix6::covering(inside.address(), end)?;
        let value = routes.first().filter(|(prefix, _)| prefix.length() == end).map(|(_, value)| *value);
        let deeper = routes.get(usize::from(value.is_some())..)?;
        let leads = self.further(depth, end - depth, value, deeper, fresh)?;
        let first = bits_at(region.address(), depth, WINDOW);
        let behind = bits_at(region.last(), depth, WINDOW).checked_add(1);
        let mut ranges = Vec::with_capacity(3);
        ranges.extend((first > 0).then(|| Range::new(0, Leads::Nowhere)));
        ranges.push(Range::new(first, leads));
        ranges.extend(behind.map(|behind| Range::new(behind, Leads::Nowhere)));
        Some(ranges)
    }

    fn array(&mut self, depth: u8, bits: u8, routes: &[Route], fresh: &mut Vec<Piece>) -> Option<Link> {
        let line = self.take(order(bits), fresh)?;
        (0..1 << bits).for_each(|place| self.set_slot(line, place, (Slot(0), 0)));
        let end = depth + bits;
        let place = |prefix: &Prefix6| bits_at(prefix.address(), depth, bits);
        for group in routes.chunk_by(|(one, _), (other, _)| place(one) == place(other)) {
            // Those that end here are before longer ones, shorter ones first: what is longer overwrites.
            let (ending, deeper) = group.split_at(group.partition_point(|(prefix, _)| prefix.length() <= end));
            for (prefix, value) in ending {
                for at in place(prefix)..=bits_at(prefix.last(), depth, bits) {
                    self.set_slot(line, at, (Slot::new(Some(*value), Link::NONE), prefix.length() + 1));
                }
            }
            if let Some((prefix, _)) = deeper.first() {
                let link = self.build(end, deeper, fresh)?;
                let (slot, length) = self.slot(line, place(prefix));
                self.set_slot(line, place(prefix), (slot.with_link(link), length));
            }
        }
        self.set_count(line, routes.len() as u32);
        Some(Link::array(line, bits))
    }

    /// All pieces of a node and of those below it.
    pub(super) fn pieces(&self, link: Link, pieces: &mut Vec<Piece>) {
        if link.is_bucket() {
            pieces.push(Piece { line: link.line(), order: 0 });
            let mut last = None;
            for range in self.ranges(link.line()).filter(|range| last.replace(*range) != Some(*range)) {
                if let Leads::Slot { line, .. } = range.leads() {
                    pieces.push(Piece { line, order: 0 });
                    self.pieces(self.slot(line, 0).0.link(), pieces);
                }
            }
        } else if link.is_array() {
            pieces.push(Piece { line: link.line(), order: order(link.bits()) });
            for place in 0..1 << link.bits() {
                self.pieces(self.slot(link.line(), place).0.link(), pieces);
            }
        }
    }

    /// Bytes that the writer keeps.
    pub(super) fn bytes(&self) -> usize {
        self.lengths.len() + size_of_val(self.counts.as_slice())
    }
}

/// Bits that an array for so many prefixes tells apart.
pub(super) fn width(count: u32, depth: u8) -> u8 {
    let bits = count.saturating_mul(SLOTS).max(2).ilog2() as u8;
    bits.min(WIDEST).min(128_u8.saturating_sub(depth))
}

/// 2^`order` lines hold an array that tells so many bits apart.
pub(super) const fn order(bits: u8) -> u8 {
    bits.saturating_sub(WORDS.ilog2() as u8)
}

/// The ranges of a bucket, if there are not too many.
fn spans(depth: u8, routes: &[Route]) -> Option<Vec<Span<'_>>> {
    let end = depth + WINDOW;
    let ends = |prefix: &Prefix6| {
        let first = bits_at(prefix.address(), depth, WINDOW);
        (first, bits_at(prefix.last(), depth, WINDOW))
    };
    let mut firsts = vec![0];
    for (prefix, _) in routes {
        let (first, last) = ends(prefix);
        firsts.push(first);
        firsts.extend(last.checked_add(1));
    }
    firsts.sort_unstable();
    firsts.dedup();
    let mut spans: Vec<Span<'_>> = Vec::with_capacity(WORDS);
    for first in firsts {
        // Of those that cover it, the last one is the longest.
        let covers = |prefix: &Prefix6| prefix.length() <= end && (ends(prefix).0..=ends(prefix).1).contains(&first);
        let value = routes.iter().rev().find(|(prefix, _)| covers(prefix)).map(|(_, value)| *value);
        let is_deeper = |(prefix, _): &&Route| prefix.length() > end && ends(prefix).0 == first;
        let count = routes.iter().filter(is_deeper).count();
        let from = routes.iter().position(|route| is_deeper(&route)).unwrap_or(0);
        let deeper = routes.get(from..from + count)?;
        let is_same = |last: &Span<'_>| deeper.is_empty() && last.deeper.is_empty() && last.value == value;
        if spans.last().is_some_and(is_same) {
            continue;
        }
        if spans.len() == WORDS {
            return None;
        }
        spans.push(Span { first, value, deeper });
    }
    Some(spans)
}
