//! One tuple: the flows that ask for the same bits, in a hash table with open addressing.

use std::collections::{BTreeMap, HashMap};

use weir_mem::prefetch::prefetch_slice;

use super::{BATCH, NO_SLOT, Priorities, Slot, Term};
use crate::table::Place;
use crate::words::{WORDS, Words};

/// What stands at a place of the hash table: the flow that goes first of those that ask for the same values.
#[derive(Clone, Copy, Debug)]
struct Head {
    slot: Slot,
    place: Place,
}

/// The flows that ask for the same bits.
#[derive(Clone, Debug)]
pub(super) struct Tuple {
    /// The words with bits that are asked for.
    shape: Box<[(u8, u32)]>,
    /// A power of two of places, of which at most half are taken: a part of the hash of what is there, or [`FREE`]. What is not in the
    /// tuple, as most of what is looked up, is known from these alone.
    tags: Vec<u16>,
    heads: Vec<Option<Head>>,
    /// The values that the flow at each place asks for, a word of the shape after the other.
    values: Vec<u32>,
    taken: usize,
    /// Flows that ask for the same values as the one of this slot, and go after it.
    behind: HashMap<Slot, BTreeMap<Place, Slot>>,
    priorities: Priorities,
    highest: u16,
    /// Its flows stand among prefixes, too, where they are found at once.
    pub(super) is_prefixes: bool,
}

/// Where something is, or would be.
enum Found {
    At(usize),
    Free(usize),
}

impl Tuple {
    /// An empty one, for flows that ask for the bits of these terms.
    pub(super) fn of(terms: &[Term]) -> Tuple {
        const FIRST: usize = 4;
        Tuple {
            shape: terms.iter().map(|term| (term.word, term.mask)).collect(),
            tags: vec![FREE; FIRST],
            heads: vec![None; FIRST],
            values: vec![0; FIRST * terms.len()],
            taken: 0,
            behind: HashMap::new(),
            priorities: Priorities::default(),
            highest: 0,
            is_prefixes: false,
        }
    }

    /// Whether these terms ask for the bits that this tuple is about.
    pub(super) fn has_shape(&self, terms: &[Term]) -> bool {
        self.shape.len() == terms.len()
            && self.shape.iter().zip(terms).all(|(word, term)| *word == (term.word, term.mask))
    }

    /// The words that are asked for, with the bits.
    pub(super) fn shape(&self) -> impl Iterator<Item = (u8, u32)> + Clone {
        self.shape.iter().copied()
    }

    /// For how many different values its flows ask.
    pub(super) fn len(&self) -> usize {
        self.taken
    }

    /// Whether flows ask for the same values, with different priorities.
    pub(super) fn has_equals(&self) -> bool {
        !self.behind.is_empty()
    }

    /// The flows that go first of those that ask for the same.
    pub(super) fn flows(&self) -> impl Iterator<Item = (Vec<Term>, Place, Slot)> {
        let heads = self.heads.iter().enumerate().filter_map(|(at, head)| Some((at, (*head)?)));
        heads.map(|(at, head)| {
            let values = self.shape.iter().zip(self.values_at(at));
            let terms = values.map(|((word, mask), value)| Term { word: *word, mask: *mask, value: *value });
            (terms.collect(), head.place, head.slot)
        })
    }

    /// All of its flows.
    pub(super) fn all(&self) -> impl Iterator<Item = (Place, Slot, Vec<Term>)> {
        self.flows().flat_map(|(terms, place, slot)| {
            let behind = self.behind.get(&slot).into_iter().flatten().map(|(place, slot)| (*place, *slot));
            std::iter::once((place, slot)).chain(behind).map(move |(place, slot)| (place, slot, terms.clone()))
        })
    }

    /// What one of its flows asks for in words other than this one.
    pub(super) fn rest_of_first(&self, word: u8) -> Option<Vec<Term>> {
        let (terms, ..) = self.flows().next()?;
        Some(terms.into_iter().filter(|term| term.word != word).collect())
    }

    /// The highest priority of its flows.
    #[inline]
    pub(super) fn highest(&self) -> u16 {
        self.highest
    }

    /// The hash of what a packet has of the bits that are asked for.
    #[inline]
    fn hash_of(&self, words: &Words) -> u64 {
        hash(self.shape.iter().map(|shape| word(words, shape)))
    }

    /// The first of its flows that a packet meets.
    #[inline]
    pub(super) fn find(&self, words: &Words) -> Option<(Place, Slot)> {
        self.find_by(self.hash_of(words), words)
    }

    /// The same for those of up to [`BATCH`] packets that are there, or [`NO_SLOT`]: their hashes first, so that they wait for memory together.
    pub(super) fn approach<'w>(&self, packets: impl Iterator<Item = Option<&'w Words>> + Clone) -> [Slot; BATCH] {
        let (mut hashes, mut slots, last) = ([0; BATCH], [NO_SLOT; BATCH], self.tags.len() - 1);
        for (hash, words) in hashes.iter_mut().zip(packets.clone()) {
            let Some(words) = words else { continue };
            *hash = self.hash_of(words);
            let at = *hash as usize & last;
            prefetch_slice(&self.tags, at);
            prefetch_slice(&self.values, at * self.shape.len());
            prefetch_slice(&self.heads, at);
        }
        for ((slot, hash), words) in slots.iter_mut().zip(hashes).zip(packets) {
            *slot = words.and_then(|words| self.find_by(hash, words)).map_or(NO_SLOT, |(_, slot)| slot);
        }
        slots
    }

    #[inline]
    fn find_by(&self, hash: u64, words: &Words) -> Option<(Place, Slot)> {
        let is_it = |values: &[u32]| values.iter().zip(&self.shape).all(|(value, shape)| *value == word(words, shape));
        match self.seek(hash, is_it) {
            Found::At(at) => self.heads.get(at).copied().flatten().map(|head| (head.place, head.slot)),
            Found::Free(_) => None,
        }
    }

    /// Goes from the place that a hash names to the first that holds what is sought, or nothing.
    #[inline]
    fn seek(&self, hash: u64, is_it: impl Fn(&[u32]) -> bool) -> Found {
        let last = self.tags.len() - 1;
        let (mut at, wanted) = (hash as usize & last, tag(hash));
        loop {
            match self.tags.get(at) {
                None | Some(&FREE) => return Found::Free(at),
                Some(tag) if *tag == wanted && is_it(self.values_at(at)) => return Found::At(at),
                Some(_) => at = (at + 1) & last,
            }
        }
    }

    #[inline]
    fn values_at(&self, at: usize) -> &[u32] {
        let count = self.shape.len();
        self.values.get(at * count..(at + 1) * count).unwrap_or_default()
    }

    fn seek_terms(&self, terms: &[Term]) -> (u64, Found) {
        let hash = hash(terms.iter().map(|term| term.value));
        let found = self.seek(hash, |values| values.iter().zip(terms).all(|(value, term)| *value == term.value));
        (hash, found)
    }

    /// Adds a flow.
    pub(super) fn insert(&mut self, terms: &[Term], place: Place, slot: Slot) {
        self.priorities.add(place.priority());
        self.highest = self.priorities.highest();
        if (self.taken + 1) * 2 > self.heads.len() {
            self.grow();
        }
        match self.seek_terms(terms) {
            (hash, Found::Free(at)) => {
                let values = terms.iter().map(|term| term.value);
                self.put(at, tag(hash), Head { slot, place }, values);
                self.taken += 1;
            }
            (_, Found::At(at)) => self.join(at, place, slot),
        }
    }

    /// Puts a flow beside others that ask for the same.
    fn join(&mut self, at: usize, place: Place, slot: Slot) {
        let Some(Some(head)) = self.heads.get_mut(at) else { return };
        let first = *head;
        if place < first.place {
            (head.place, head.slot) = (place, slot);
            let mut behind = self.behind.remove(&first.slot).unwrap_or_default();
            behind.insert(first.place, first.slot);
            self.behind.insert(slot, behind);
        } else {
            self.behind.entry(first.slot).or_default().insert(place, slot);
        }
    }

    /// Removes a flow.
    pub(super) fn remove(&mut self, terms: &[Term], place: Place) {
        self.priorities.take(place.priority());
        self.highest = self.priorities.highest();
        let (_, Found::At(at)) = self.seek_terms(terms) else { return };
        let Some(Some(head)) = self.heads.get_mut(at) else { return };
        let slot = head.slot;
        let mut behind = self.behind.remove(&slot).unwrap_or_default();
        if head.place != place {
            behind.remove(&place);
        } else if let Some((place, slot)) = behind.pop_first() {
            (head.place, head.slot) = (place, slot);
        } else {
            self.vacate(at);
            return;
        }
        let first = head.slot;
        if !behind.is_empty() {
            self.behind.insert(first, behind);
        }
    }

    fn put(&mut self, at: usize, tag: u16, head: Head, values: impl Iterator<Item = u32>) {
        let count = self.shape.len();
        if let (Some(place), Some(mark)) = (self.heads.get_mut(at), self.tags.get_mut(at)) {
            (*place, *mark) = (Some(head), tag);
        }
        if let Some(place) = self.values.get_mut(at * count..(at + 1) * count) {
            place.iter_mut().zip(values).for_each(|(place, value)| *place = value);
        }
    }

    /// Empties a place. What stands behind it moves up as far as it may: nobody who seeks it is to stop before.
    fn vacate(&mut self, at: usize) {
        let last = self.heads.len() - 1;
        let (mut gap, mut next) = (at, (at + 1) & last);
        while let Some(Some(head)) = self.heads.get(next).copied() {
            let hash = hash(self.values_at(next).iter().copied());
            let home = hash as usize & last;
            // It may move where its way from home goes past the gap.
            if (next.wrapping_sub(home) & last) >= (next.wrapping_sub(gap) & last) {
                let values = self.values_at(next).to_vec();
                self.put(gap, tag(hash), head, values.into_iter());
                gap = next;
            }
            next = (next + 1) & last;
        }
        if let (Some(place), Some(mark)) = (self.heads.get_mut(gap), self.tags.get_mut(gap)) {
            (*place, *mark) = (None, FREE);
        }
        self.taken -= 1;
    }

    /// Twice as many places.
    fn grow(&mut self) {
        let count = self.shape.len();
        let places = self.heads.len() * 2;
        let heads = std::mem::replace(&mut self.heads, vec![None; places]);
        self.tags = vec![FREE; places];
        let values = std::mem::replace(&mut self.values, vec![0; places * count]);
        for (at, head) in heads.into_iter().enumerate().filter_map(|(at, head)| Some((at, head?))) {
            let values = values.get(at * count..(at + 1) * count).unwrap_or_default();
            let hash = hash(values.iter().copied());
            if let Found::Free(to) = self.seek(hash, |_| false) {
                self.put(to, tag(hash), head, values.iter().copied());
            }
        }
    }
}

/// The bits of a word of a packet that are asked for.
#[inline]
fn word(words: &Words, (word, mask): &(u8, u32)) -> u32 {
    words[usize::from(*word) % WORDS] & mask
}

/// Every bit of the words reaches every bit of the lower half, which chooses the place, and of the upper one.
#[inline]
fn hash(words: impl Iterator<Item = u32>) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = words.fold(0, |hash: u64, word| (hash.rotate_left(29) ^ u64::from(word)).wrapping_mul(ODD));
    mixed ^ mixed >> 32
}

/// The tag of a place where nothing is.
const FREE: u16 = 0;

/// A part of the hash that does not choose the place; never [`FREE`].
#[inline]
const fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}
