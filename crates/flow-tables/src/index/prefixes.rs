//! Flows that are prefixes of one field, as routes are: one look-up of the longest prefix finds what would else take a tuple for each length.
//!
//! That gives the right flow where longer prefixes go first: where each flow of a length has a higher priority than all of shorter ones. Flows
//! that are not like that stand in their tuples alone.

use std::fmt;

use weir_mem::Domain;
use weir_openflow::Field;
use weir_table::lpm4::{Config, Lookup4, Lpm4, MAX_VALUE, Packed, Prefix4};

use super::tuple::Tuple;
use super::{AHEAD, BATCH, NO_SLOT, Priorities, Slot, Term, meets};
use crate::table::Place;
use crate::words::{WORDS, Words, location, presence};

/// Fields that prefixes may be of.
const FIELDS: [Field; 4] = [Field::Ipv4Dst, Field::Ipv4Src, Field::ArpTpa, Field::ArpSpa];

/// With fewer lengths it is worth it only if none is [long](SHORT).
const LEAST_LENGTHS: usize = 3;

/// Prefixes that are longer take memory of their own for each network that they are in, more than a hash table takes for them.
const SHORT: usize = 24;

/// In so many /24 networks there may be longer prefixes, each of which takes 1 KiB then.
const MOST_GROUPS: u32 = 1 << 17;

/// Flows that are prefixes of one field, and ask for the same of all others.
pub(crate) struct Prefixes {
    pub(super) field: Field,
    word: u8,
    rest: Vec<Term>,
    table: Packed,
    /// The places of flows, by slot.
    places: Vec<Option<Place>>,
    /// The priorities of the flows of each length.
    lengths: [Priorities; 33],
    /// The lowest priority of all.
    pub(super) lowest: u16,
}

/// What is read first by the look-ups of packets.
pub(crate) struct FirstRead<'p> {
    word: usize,
    table: &'p <Packed as Lpm4>::Reader,
}

impl FirstRead<'_> {
    /// Asks for what is read first of a packet.
    #[inline(always)]
    pub(crate) fn prefetch(&self, words: &Words) {
        self.table.prefetch(words[self.word % WORDS]);
    }
}

impl fmt::Debug for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} prefixes of {}", self.table.len(), self.field.name())
    }
}

/// It cannot stand among the others.
pub(super) struct DoesNotFit;

/// The length of a mask that is a prefix.
fn length(mask: u32) -> Option<u8> {
    let length = mask.leading_ones();
    (mask.checked_shl(length).unwrap_or(0) == 0).then_some(length as u8)
}

/// Whether these words are asked for in tuples of a field's prefixes, and how long the prefix is.
fn prefix_of(field: Field, shape: impl Iterator<Item = (u8, u32)>) -> Option<u8> {
    let (word, (has_word, has_bit)) = (location(field).word, presence(field));
    let (mut found, mut has) = (None, false);
    for (at, mask) in shape {
        has |= usize::from(at) == has_word && mask & has_bit != 0;
        if usize::from(at) == word {
            found = Some(mask);
        }
    }
    if has { length(found?) } else { None }
}

/// Whether prefixes of these lengths cost less than hash tables, one for each length.
fn are_worth_it(lengths: impl Iterator<Item = usize> + Clone) -> bool {
    lengths.clone().count() >= LEAST_LENGTHS || lengths.into_iter().all(|length| length <= SHORT)
}

/// Gives what `of` says of each packet, up to [`BATCH`] of them: how many there are.
#[inline(always)]
fn each_of<'w>(
    packets: impl Iterator<Item = &'w Words>,
    (values, differs): (&mut [u32; BATCH], &mut [u32; BATCH]),
    of: impl Fn(&Words) -> (u32, u32),
) -> usize {
    let places = values.iter_mut().zip(differs);
    places.zip(packets).map(|((value, differs), words)| (*value, *differs) = of(words)).count()
}

/// Looks up what was approached.
#[inline(always)]
fn look_up(reader: &impl Lookup4, values: &[u32], slots: &mut [Slot]) {
    let rest = reader.lookup_first(values, slots);
    reader.lookup_rest(values, slots, rest);
}

/// The first [`AHEAD`] and the others.
fn split(all: &[u32]) -> (&[u32], &[u32]) {
    all.split_at(AHEAD.min(all.len()))
}

/// The same, to be written.
fn split_mut(all: &mut [u32]) -> (&mut [u32], &mut [u32]) {
    all.split_at_mut(AHEAD.min(all.len()))
}

impl Prefixes {
    /// What of these tuples is prefixes of a field; marks those that are. Nothing if not many are.
    pub(super) fn of(tuples: &mut [Tuple]) -> Option<Prefixes> {
        FIELDS.into_iter().find_map(|field| Prefixes::of_field(field, tuples))
    }

    fn of_field(field: Field, tuples: &mut [Tuple]) -> Option<Prefixes> {
        let word = location(field).word as u8;
        // Those of the tuple with most flows say what the others must ask for.
        let is_one = |tuple: &&Tuple| prefix_of(field, tuple.shape()).is_some();
        let rest = tuples.iter().filter(is_one).max_by_key(|tuple| tuple.len())?.rest_of_first(word)?;
        let mut prefixes = Prefixes::empty(field, rest)?;
        let mut mine: Vec<&mut Tuple> = tuples.iter_mut().filter(|tuple| prefixes.has_shape(tuple.shape())).collect();
        if !are_worth_it(mine.iter().filter_map(|tuple| prefix_of(field, tuple.shape()).map(usize::from))) {
            return None;
        }
        for tuple in &mine {
            if tuple.has_equals() {
                return None;
            }
            for (terms, place, slot) in tuple.flows() {
                prefixes.insert(&terms, place, slot).ok()?;
            }
        }
        mine.iter_mut().for_each(|tuple| tuple.is_prefixes = true);
        Some(prefixes)
    }

    /// Whether hash tables would cost more than what is here.
    pub(super) fn is_worth_it(&self) -> bool {
        let all = self.lengths.iter().enumerate();
        are_worth_it(all.filter(|(_, flows)| flows.range().is_some()).map(|(length, _)| length))
    }

    fn empty(field: Field, rest: Vec<Term>) -> Option<Prefixes> {
        // Only the thread that has the flows looks up, so that nobody else reads.
        let config = Config { max_groups: MOST_GROUPS, ..Config::new(MAX_VALUE) };
        let table = Packed::new(&config, &Domain::new()).ok()?;
        let word = location(field).word as u8;
        let lengths = std::array::from_fn(|_| Priorities::default());
        Some(Prefixes { field, word, rest, table, places: Vec::new(), lengths, lowest: u16::MAX })
    }

    /// Whether flows that ask for these bits are prefixes of the field, and ask for the same bits of others as those that are here.
    pub(super) fn has_shape(&self, shape: impl Iterator<Item = (u8, u32)> + Clone) -> bool {
        let rest = shape.clone().filter(|(word, _)| *word != self.word);
        prefix_of(self.field, shape).is_some() && rest.eq(self.rest.iter().map(|term| (term.word, term.mask)))
    }

    /// What is read first by the look-up of a packet.
    pub(crate) fn first_read(&self) -> FirstRead<'_> {
        FirstRead { word: usize::from(self.word), table: self.table.reader() }
    }

    /// The flow of the longest prefix.
    #[inline]
    pub(super) fn find(&self, words: &Words) -> Option<Slot> {
        if !meets(&self.rest, words) {
            return None;
        }
        let slot = self.table.reader().lookup(words[usize::from(self.word) % WORDS]);
        (slot != NO_SLOT).then_some(slot)
    }

    /// The flows of the longest prefixes of packets, up to [`BATCH`] of them, or [`NO_SLOT`]: all are looked up at the same time. `early` is told of the first
    /// while the others still come: some may be of packets that do not meet what is asked for beside.
    #[inline]
    pub(super) fn approach<'w>(
        &self,
        packets: impl Iterator<Item = &'w Words>,
        early: impl FnOnce(&[Slot]),
    ) -> [Slot; BATCH] {
        let (mut values, mut slots, mut differs) = ([0; BATCH], [NO_SLOT; BATCH], [0; BATCH]);
        let word = usize::from(self.word) % WORDS;
        // Mostly they ask for the type of frames beside, which is two words.
        let count = match self.rest[..] {
            [first, second] => each_of(packets, (&mut values, &mut differs), |words| {
                (words[word], first.differs(words) | second.differs(words))
            }),
            _ => each_of(packets, (&mut values, &mut differs), |words| {
                (words[word], self.rest.iter().fold(0, |differs, term| differs | term.differs(words)))
            }),
        };
        if let (Some(values), Some(slots)) = (values.get(..count), slots.get_mut(..count)) {
            let reader = self.table.reader();
            reader.approach(values, slots);
            let ((first_values, values), (first, slots)) = (split(values), split_mut(slots));
            look_up(&**reader, first_values, first);
            early(first);
            look_up(&**reader, values, slots);
        }
        for (slot, differs) in slots.iter_mut().zip(differs) {
            *slot = if differs == 0 { *slot } else { NO_SLOT };
        }
        slots
    }

    /// The place of a flow.
    pub(super) fn place(&self, slot: Slot) -> Option<Place> {
        self.places.get(slot as usize).copied().flatten()
    }

    fn prefix(&self, terms: &[Term]) -> Option<(Prefix4, u8)> {
        let rest = terms.iter().filter(|term| term.word != self.word);
        if !rest.eq(&self.rest) {
            return None;
        }
        let term = terms.iter().find(|term| term.word == self.word)?;
        let length = length(term.mask)?;
        Some((Prefix4::new(term.value, length)?, length))
    }

    /// Adds a flow, of which there is none with the same prefix.
    ///
    /// # Errors
    ///
    /// It asks for something else, or goes before a longer prefix.
    pub(super) fn insert(&mut self, terms: &[Term], place: Place, slot: Slot) -> Result<(), DoesNotFit> {
        let (prefix, length) = self.prefix(terms).ok_or(DoesNotFit)?;
        let at = usize::from(length);
        let longer = self.lengths.iter().skip(at + 1).filter_map(Priorities::range);
        let shorter = self.lengths.iter().take(at).filter_map(Priorities::range);
        let priority = place.priority();
        let goes_before = longer.into_iter().any(|(lowest, _)| lowest <= priority);
        let goes_behind = shorter.into_iter().any(|(_, highest)| highest >= priority);
        if goes_before || goes_behind || self.table.get(prefix).is_some() || slot >= NO_SLOT {
            return Err(DoesNotFit);
        }
        self.table.insert(prefix, slot).map_err(|_| DoesNotFit)?;
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, None);
        }
        if let Some(empty) = self.places.get_mut(slot as usize) {
            *empty = Some(place);
        }
        if let Some(priorities) = self.lengths.get_mut(at) {
            priorities.add(priority);
        }
        self.lowest = self.lowest.min(priority);
        Ok(())
    }

    /// Removes a flow.
    ///
    /// # Errors
    ///
    /// It is not here, or there is no room for the change.
    pub(super) fn remove(&mut self, terms: &[Term], place: Place) -> Result<(), DoesNotFit> {
        let (prefix, length) = self.prefix(terms).ok_or(DoesNotFit)?;
        let slot = self.table.remove(prefix).map_err(|_| DoesNotFit)?.ok_or(DoesNotFit)?;
        if let Some(full) = self.places.get_mut(slot as usize) {
            *full = None;
        }
        if let Some(priorities) = self.lengths.get_mut(usize::from(length)) {
            priorities.take(place.priority());
        }
        let lowest = self.lengths.iter().filter_map(Priorities::range).map(|(lowest, _)| lowest).min();
        self.lowest = lowest.unwrap_or(u16::MAX);
        Ok(())
    }
}
