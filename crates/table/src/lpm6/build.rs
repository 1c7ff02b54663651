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

/// As many as this share a bucket or an index, if so few of them are longer than the bits that these tell apart: each such one has nodes of
/// its own, which would be made anew with it.
const MANY: u32 = 80;

/// All prefixes of a node begin with so many bits more than the node does: these are skipped by a bucket. Fewer bits are left to arrays,
/// which lookups pass faster.
const SKIPPED: u8 = WIDEST;

/// Slots of an array for each prefix below it, about.
const SLOTS: u32 = 4;

/// Buckets of an index: with itself, 16 lines.
const BUCKETS: usize = 15;

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

    /// Copies the slots of an array into one that readers do not see yet.
    pub(super) fn copy_slots(&mut self, from: u32, to: u32, bits: u8) {
        let (first, copy) = (from as usize * WORDS, to as usize * WORDS);
        if first.max(copy) + (1 << bits) <= self.lengths.len() {
            self.lengths.copy_within(first..first + (1 << bits), copy);
        }
        for (word, copy) in self.trie.slots(from, bits).iter().zip(self.trie.slots(to, bits)) {
            // Relaxed: this is the only writer, and what leads to the copy is stored later, with release.
            copy.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
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
        if is_made_together(depth, count, routes)
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
        if ranges.len() > WORDS { self.index_of(count, &ranges, fresh) } else { self.bucket_of(count, &ranges, fresh) }
    }

    /// An index of so many buckets as these ranges need.
    fn index_of(&mut self, count: u32, ranges: &[Range], fresh: &mut Vec<Piece>) -> Option<Link> {
        let lines = ranges.len().div_ceil(WORDS) + 1;
        let order = lines.next_power_of_two().ilog2() as u8;
        let line = self.take(order, fresh)?;
        for (bucket, ranges) in (line + 1..).zip(ranges.chunks(WORDS)) {
            self.set_ranges(bucket, ranges);
        }
        // Nobody asks before the first bucket, which begins with 0.
        let before = |at: usize| ranges.get(at * WORDS).map_or(u32::MAX, |range| range.first().wrapping_sub(1));
        for (at, word) in self.trie.line(line).into_iter().flatten().enumerate() {
            // Relaxed: what leads here is stored later, with release.
            word.store(u64::from(before(2 * at)) << 32 | u64::from(before(2 * at + 1)), Ordering::Relaxed);
        }
        self.set_count(line, count);
        Some(Link::index(line, order))
    }

    /// The lines of the buckets of an index.
    fn buckets(&self, index: Link) -> impl Iterator<Item = u32> {
        let words = self.trie.line(index.line()).into_iter().flatten().map(|word| word.load(Ordering::Relaxed));
        let befores = words.flat_map(|word| [(word >> 32) as u32, word as u32]);
        let others = befores.skip(1).take_while(|before| *before != u32::MAX);
        let first = index.line() + 1;
        std::iter::once(first).chain((first + 1..).zip(others).map(|(line, _)| line))
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
            self.pieces_behind(link.line(), pieces);
        } else if link.is_index() {
            pieces.push(Piece { line: link.line(), order: link.order() });
            self.buckets(link).for_each(|bucket| self.pieces_behind(bucket, pieces));
        } else if link.is_array() {
            pieces.push(Piece { line: link.line(), order: order(link.bits()) });
            for place in 0..1 << link.bits() {
                self.pieces(self.slot(link.line(), place).0.link(), pieces);
            }
        }
    }

    /// All pieces that the ranges of a bucket lead to.
    fn pieces_behind(&self, bucket: u32, pieces: &mut Vec<Piece>) {
        let mut last = None;
        for range in self.ranges(bucket).filter(|range| last.replace(*range) != Some(*range)) {
            if let Leads::Slot { line, .. } = range.leads() {
                pieces.push(Piece { line, order: 0 });
                self.pieces(self.slot(line, 0).0.link(), pieces);
            }
        }
    }

    /// Bytes that the writer keeps.
    pub(super) fn bytes(&self) -> usize {
        self.lengths.len() + size_of_val(self.counts.as_slice())
    }
}

/// Whether these prefixes are few enough to share a bucket or an index.
fn is_made_together(depth: u8, count: u32, routes: &[Route]) -> bool {
    let deeper = || routes.iter().filter(|(prefix, _)| prefix.length() > depth + WINDOW).count();
    count <= FEW || count <= MANY && deeper() <= FEW as usize
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

/// The ranges of a bucket or an index, if there are not too many.
fn spans(depth: u8, routes: &[Route]) -> Option<Vec<Span<'_>>> {
    const MOST: usize = BUCKETS * WORDS;
    let end = depth + WINDOW;
    let first_of = |prefix: &Prefix6| bits_at(prefix.address(), depth, WINDOW);
    let mut spans = Spans { done: vec![Span { first: 0, value: None, deeper: &[] }], open: Vec::new() };
    let mut rest = routes;
    while let Some((&(prefix, value), others)) = rest.split_first() {
        let first = first_of(&prefix);
        spans.close(|last| last < first);
        if prefix.length() <= end {
            spans.open.push((bits_at(prefix.last(), depth, WINDOW), value));
            spans.begin(first, &[]);
            rest = others;
        } else {
            let count = rest.partition_point(|(prefix, _)| first_of(prefix) == first);
            let (deeper, others) = rest.split_at(count);
            spans.begin(first, deeper);
            spans.begin_behind(first);
            rest = others;
        }
        // The last two may not be there to stay.
        if spans.done.len() > MOST + 2 {
            return None;
        }
    }
    spans.close(|_| true);
    (spans.done.len() <= MOST).then_some(spans.done)
}

/// Ranges that are made from the first to the last.
struct Spans<'r> {
    done: Vec<Span<'r>>,
    /// Prefixes around where the last one begins: the last of their bits, and their values. Each is inside of those before it.
    open: Vec<(u32, u32)>,
}

impl<'r> Spans<'r> {
    /// Closes prefixes, from the innermost on, while they end so.
    fn close(&mut self, is_over: impl Fn(u32) -> bool) {
        while let Some((last, _)) = self.open.pop_if(|(last, _)| is_over(*last)) {
            self.begin_behind(last);
        }
    }

    /// A range behind these bits, if there are any.
    fn begin_behind(&mut self, last: u32) {
        if let Some(first) = last.checked_add(1) {
            self.begin(first, &[]);
        }
    }

    /// A range of the innermost prefix that is open. It takes the place of one that begins there, too.
    fn begin(&mut self, first: u32, deeper: &'r [Route]) {
        let value = self.open.last().map(|(_, value)| *value);
        self.done.pop_if(|last| last.first == first);
        let is_same = |last: &Span<'_>| deeper.is_empty() && last.deeper.is_empty() && last.value == value;
        if !self.done.last().is_some_and(is_same) {
            self.done.push(Span { first, value, deeper });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// What the bits mean, said plainly: the value of the longest prefix, and the prefixes that are longer.
    fn meant(depth: u8, routes: &[Route], bits: u32) -> (Option<u32>, Vec<Route>) {
        let address = u128::from(bits) << 96 >> depth;
        let (short, long): (Vec<Route>, Vec<Route>) =
            routes.iter().partition(|(prefix, _)| prefix.length() <= depth + WINDOW);
        let covering = short.iter().filter(|(prefix, _)| prefix.covers(address));
        let value = covering.max_by_key(|(prefix, _)| prefix.length()).map(|(_, value)| *value);
        (value, long.into_iter().filter(|(prefix, _)| bits_at(prefix.address(), depth, WINDOW) == bits).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Every range means the same from its first bits to its last, and another than the one before it.
        #[test]
        fn ranges_are_those_that_prefixes_have(
            depth in 0_u8..=96,
            drawn in prop::collection::btree_map((any::<u8>(), 0_u8..4, 1_u8..=40), 0_u32..3, 0..100),
        ) {
            // Near each other, at the begin and at the end of the bits, and up to 8 bits longer than they are.
            let route = |((place, corner, longer), value): ((u8, u8, u8), u32)| {
                let bits = [u32::from(place) << 24, u32::from(place), !u32::from(place), u32::MAX][usize::from(corner)];
                let address = (u128::from(bits) << 96 | u128::from(place) << 88) >> depth;
                Some((Prefix6::covering(address, (depth + longer).min(128))?, value))
            };
            let routes: Vec<Route> = drawn.into_iter().filter_map(route).collect::<BTreeMap<_, _>>().into_iter().collect();
            let Some(spans) = spans(depth, &routes) else { return Err(TestCaseError::fail("200 are too many")) };
            prop_assert_eq!(spans.first().map(|span| span.first), Some(0));
            let mut before = None;
            for (span, next) in spans.iter().zip(spans.iter().skip(1).map(|next| next.first).chain([0])) {
                let means = meant(depth, &routes, span.first);
                prop_assert_eq!((&span.value, span.deeper), (&means.0, &*means.1));
                prop_assert_eq!(&means, &meant(depth, &routes, next.wrapping_sub(1)));
                prop_assert_ne!(before.replace(means.clone()), Some(means));
                prop_assert!(next == 0 || span.first < next);
            }
            // Nothing begins inside of one.
            for (prefix, _) in &routes {
                for bits in [bits_at(prefix.address(), depth, WINDOW), bits_at(prefix.last(), depth, WINDOW)] {
                    let at = spans.partition_point(|span| span.first <= bits) - 1;
                    prop_assert_eq!((spans[at].value, spans[at].deeper.to_vec()), meant(depth, &routes, bits));
                }
            }
        }
    }
}
