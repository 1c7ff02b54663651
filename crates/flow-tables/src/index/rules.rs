//! Flows that ask for many different choices of bits, as rules of access lists do: one look-up in the house's classifier finds the first that a
//! packet meets, where a hash table for each choice would have to be looked into.

use std::fmt;

use weir_simd::Kernel;
use weir_table::classifier::{self, Classifier, Keys, Match};

use super::{BATCH, NO_SLOT, Slot, Term};
use crate::table::Place;
use crate::words::{WORDS, Words};

/// With more flows each change would take too long: it numbers all of them.
pub(super) const MOST_FLOWS: usize = 1 << 15;

/// Keys of the classifier: words of packets, and one behind them that nothing is asked of.
const NARROW: usize = 8;
const WIDE: usize = 16;

/// The words of packets that some flow asks for, in the order of the words of keys.
#[derive(Clone, Debug, Default)]
struct Asked(Vec<u8>);

impl Asked {
    /// Where a word stands in keys; it is added if it is new.
    fn place(&mut self, word: u8) -> usize {
        self.0.iter().position(|known| *known == word).unwrap_or_else(|| {
            self.0.push(word);
            self.0.len() - 1
        })
    }

    /// What a flow asks of keys; nothing if it asks for more words than they have.
    fn rule<const W: usize>(&mut self, terms: &[Term]) -> Option<Match<W>> {
        let mut rule = Match::default();
        for term in terms {
            let place = self.place(term.word);
            if place + 1 >= W {
                return None;
            }
            rule = rule.word(place, term.value, term.mask);
        }
        Some(rule)
    }

    #[inline]
    fn key<const W: usize>(&self, words: &Words) -> [u32; W] {
        let mut key = [0; W];
        for (to, word) in key.iter_mut().zip(&self.0) {
            *to = words[usize::from(*word) % WORDS];
        }
        key
    }
}

/// A classifier of flows, by keys of so many words.
#[derive(Clone)]
struct Keyed<const W: usize> {
    asked: Asked,
    classifier: Classifier<W>,
    /// The flows by their numbers in the classifier.
    slots: Vec<Slot>,
}

impl<const W: usize> Keyed<W> {
    /// These flows, in their order; nothing if they ask for more words than keys have.
    fn of(flows: &[(Place, Slot, Vec<Term>)]) -> Option<Keyed<W>> {
        let mut asked = Asked::default();
        let rules: Option<Vec<Match<W>>> = flows.iter().map(|(_, _, terms)| asked.rule(terms)).collect();
        let slots = flows.iter().map(|(_, slot, _)| *slot).collect();
        Some(Keyed { asked, classifier: Classifier::new(&rules?), slots })
    }

    fn insert(&mut self, position: usize, terms: &[Term], slot: Slot) -> Option<()> {
        let rule = self.asked.rule(terms)?;
        let number = self.classifier.insert(position, rule)? as usize;
        if self.slots.len() <= number {
            self.slots.resize(number + 1, NO_SLOT);
        }
        if let Some(known) = self.slots.get_mut(number) {
            *known = slot;
        }
        Some(())
    }

    /// The flow of a number of the classifier.
    #[inline]
    fn slot(&self, number: u32) -> Slot {
        self.slots.get(number as usize).copied().unwrap_or(NO_SLOT)
    }

    #[inline(never)]
    fn find(&self, words: &Words) -> Slot {
        self.slot(self.classifier.lookup(&self.asked.key(words)))
    }

    #[inline(never)]
    fn approach<'w>(&self, kernel: Kernel, packets: impl Iterator<Item = &'w Words>) -> [Slot; BATCH] {
        let (mut keys, mut found, mut count) = (Keys::default(), [classifier::NONE; classifier::BATCH], 0);
        for words in packets.take(classifier::BATCH) {
            keys.set(count, self.asked.key(words));
            count += 1;
        }
        self.classifier.lookup_batch(kernel, &keys, count, &mut found);
        let mut slots = [NO_SLOT; BATCH];
        slots.iter_mut().zip(found).take(count).for_each(|(slot, number)| *slot = self.slot(number));
        slots
    }
}

#[derive(Clone)]
enum Width {
    Narrow(Keyed<NARROW>),
    Wide(Keyed<WIDE>),
}

/// The flows of a table in a classifier.
#[derive(Clone)]
pub(super) struct Rules {
    kernel: Kernel,
    width: Width,
    /// The places of all, in their order.
    order: Vec<Place>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.width {
            Width::Narrow(keyed) => write!(f, "{:?}", keyed.classifier),
            Width::Wide(keyed) => write!(f, "{:?}", keyed.classifier),
        }
    }
}

impl Rules {
    /// These flows; nothing if they ask for too many words.
    pub(super) fn of(mut flows: Vec<(Place, Slot, Vec<Term>)>) -> Option<Rules> {
        flows.sort_unstable_by_key(|(place, ..)| *place);
        let narrow = || Some(Width::Narrow(Keyed::of(&flows)?));
        let width = narrow().or_else(|| Some(Width::Wide(Keyed::of(&flows)?)))?;
        Some(Rules { kernel: Kernel::detect(), width, order: flows.iter().map(|(place, ..)| *place).collect() })
    }

    /// The first flow that a packet meets.
    #[inline]
    pub(super) fn find(&self, words: &Words) -> Option<Slot> {
        let slot = match &self.width {
            Width::Narrow(keyed) => keyed.find(words),
            Width::Wide(keyed) => keyed.find(words),
        };
        (slot != NO_SLOT).then_some(slot)
    }

    /// The same for packets, up to [`BATCH`] of them, or [`NO_SLOT`]: all are looked up at the same time.
    #[inline]
    pub(super) fn approach<'w>(&self, packets: impl Iterator<Item = &'w Words>) -> [Slot; BATCH] {
        match &self.width {
            Width::Narrow(keyed) => keyed.approach(self.kernel, packets),
            Width::Wide(keyed) => keyed.approach(self.kernel, packets),
        }
    }

    /// Adds a flow; nothing if it does not fit, and all have to be entered anew.
    pub(super) fn insert(&mut self, terms: &[Term], place: Place, slot: Slot) -> Option<()> {
        let position = self.order.partition_point(|known| *known < place);
        match &mut self.width {
            Width::Narrow(keyed) => keyed.insert(position, terms, slot)?,
            Width::Wide(keyed) => keyed.insert(position, terms, slot)?,
        }
        self.order.insert(position, place);
        Some(())
    }

    /// Removes a flow.
    pub(super) fn remove(&mut self, place: Place) {
        let Ok(position) = self.order.binary_search(&place) else { return };
        self.order.remove(position);
        match &mut self.width {
            Width::Narrow(keyed) => keyed.classifier.remove(position),
            Width::Wide(keyed) => keyed.classifier.remove(position),
        };
    }
}
