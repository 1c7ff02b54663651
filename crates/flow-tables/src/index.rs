//! How the flow of a packet is found without trying one after the other.
//!
//! Flows that ask for the same bits of the same fields stand in one *tuple*: a hash table over just those bits. A packet is looked up in one
//! tuple after the other, those with the highest priority first, until no tuple that is left has a flow that would go before the one found
//! (tuple space search: Srinivasan, Suri and Varghese, SIGCOMM 1999). So a table of one mask costs one look-up, however many flows it has, and
//! one of prefixes as many as there are lengths, if there are few of them. A few flows are simply tried in their order: that costs less than
//! hashing. Many [`prefixes`] of one field are looked up at once, short ones also where they have one length, and the tuples of other flows beside
//! them. Where flows ask for many choices of bits and are no prefixes, all stand in a classifier, too, as its [`rules`].

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use weir_openflow::Field;

use crate::fields::Key;
use crate::table::Place;
use crate::words::{self, WORDS, Words, presence};

mod prefixes;
mod rules;
mod tuple;

pub(crate) use prefixes::{FirstRead, Prefixes};
use rules::Rules;
use tuple::Tuple;

/// Up to so many flows are tried one after the other.
pub(crate) const FEW: usize = 4;

/// A flow's number in its table, as long as it is there.
pub(crate) type Slot = u32;

/// The slot of no flow.
pub(crate) const NO_SLOT: Slot = weir_table::lpm4::MAX_VALUE;

/// So many packets are looked up at the same time at most.
pub(crate) const BATCH: usize = weir_table::lpm4::BATCH;

/// The lines of flows are asked for so many packets ahead, while those before are taken: where all were asked for at once, nothing else was done until they had come.
pub(crate) const AHEAD: usize = 16;

/// What a flow asks of a word of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) word: u8,
    pub(crate) mask: u32,
    pub(crate) value: u32,
}

/// What a flow asks of the words of a packet, in their order.
pub(crate) fn terms(key: &Key) -> Vec<Term> {
    let (mut values, mut masks): (Words, Words) = ([0; WORDS], [0; WORDS]);
    for (field, value, mask) in key.asked() {
        let (word, bit) = presence(*field);
        for words in [&mut values, &mut masks] {
            words[word] |= bit;
        }
        words::put(&mut values, *field, *value, *mask);
        words::put(&mut masks, *field, u128::MAX, *mask);
    }
    let all = (0..).zip(values.into_iter().zip(masks));
    all.filter(|(_, (_, mask))| *mask != 0).map(|(word, (value, mask))| Term { word, mask, value }).collect()
}

impl Term {
    /// The bits in which a packet is not what is asked for.
    #[inline(always)]
    fn differs(self, words: &Words) -> u32 {
        (words[usize::from(self.word) % WORDS] ^ self.value) & self.mask
    }
}

/// Whether a packet is what all terms ask for.
#[inline]
fn meets(terms: &[Term], words: &Words) -> bool {
    terms.iter().all(|term| term.differs(words) == 0)
}

/// How flows are found now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// One after the other, for there are few.
    OneByOne,
    /// All ask for the same bits: one hash table.
    Exact,
    /// In so many hash tables at most, one for each choice of bits that flows ask for.
    Masks(usize),
    /// By a classifier, in place of so many hash tables.
    Classifier(usize),
    /// The longest prefix of this field, and so many hash tables for flows that are something else.
    Prefixes(Field, usize),
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Search::OneByOne => f.write_str("one by one"),
            Search::Exact => f.write_str("hash table"),
            Search::Masks(tables) => write!(f, "{tables} hash tables"),
            Search::Classifier(tables) => write!(f, "classifier in place of {tables} hash tables"),
            Search::Prefixes(field, 0) => write!(f, "longest prefix of {}", field.name()),
            Search::Prefixes(field, 1) => write!(f, "longest prefix of {}, and a hash table", field.name()),
            Search::Prefixes(field, tables) => {
                write!(f, "longest prefix of {}, and {tables} hash tables", field.name())
            }
        }
    }
}

/// With fewer flows prefixes are not worth it.
const LEAST_PREFIXES: usize = 64;

/// With fewer hash tables a classifier is not worth it.
const LEAST_TUPLES: usize = 6;

/// The flows of a table, as they are looked up.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// All flows, in tuples. Those with the highest priority first.
    tuples: Vec<Tuple>,
    /// The first flows in the order in which they are tried, with what they ask for: all, while there are few.
    few: Vec<(Place, Slot, Vec<Term>)>,
    flows: usize,
    /// Those that are prefixes, if there are many.
    prefixes: Option<Box<Prefixes>>,
    /// The highest priority of flows that are not among them.
    beside: u16,
    /// With so many flows it is seen whether there are many prefixes. It is put off where there are not: then it costs little for each flow.
    seek_prefixes_at: usize,
    /// All flows, if they ask for many choices of bits and are no prefixes.
    rules: Option<Box<Rules>>,
    /// With so many flows it is seen whether they fit into a classifier. It is put off where they do not, as before.
    seek_rules_at: usize,
}

impl Index {
    /// How flows are found.
    pub(crate) fn search(&self) -> Search {
        match (&self.prefixes, self.tuples.len()) {
            _ if self.flows <= FEW => Search::OneByOne,
            (Some(prefixes), _) => {
                Search::Prefixes(prefixes.field, self.tuples.iter().filter(|tuple| !tuple.is_prefixes).count())
            }
            (None, tuples) if self.rules.is_some() => Search::Classifier(tuples),
            (None, 0 | 1) => Search::Exact,
            (None, tuples) => Search::Masks(tuples),
        }
    }

    /// The first flow that a packet meets.
    #[inline]
    pub(crate) fn find(&self, words: &Words) -> Option<Slot> {
        if self.flows <= FEW {
            return self.few.iter().find(|(_, _, terms)| meets(terms, words)).map(|(_, slot, _)| *slot);
        }
        if let Some(rules) = &self.rules {
            return rules.find(words);
        }
        let first = self.prefixes.as_ref().and_then(|prefixes| prefixes.find(words));
        if first.is_some() && self.is_first_found() { first } else { self.find_in_tuples(words, first) }
    }

    /// The first flow that a packet meets; the first among prefixes is known.
    #[inline(never)]
    fn find_in_tuples(&self, words: &Words, first: Option<Slot>) -> Option<Slot> {
        let place = |slot| self.prefixes.as_ref()?.place(slot);
        let mut found: Option<(Place, Slot)> = first.and_then(|slot| Some((place(slot)?, slot)));
        for tuple in &self.tuples {
            if found.is_some_and(|(place, _)| place.priority() > tuple.highest()) {
                break;
            }
            if !tuple.is_prefixes
                && let Some(other) = tuple.find(words)
                && found.is_none_or(|(place, _)| other.0 < place)
            {
                found = Some(other);
            }
        }
        found.map(|(_, slot)| slot)
    }

    /// Flows that are prefixes, if there are many.
    pub(crate) fn prefixes(&self) -> Option<&Prefixes> {
        self.prefixes.as_deref()
    }

    /// Whether many packets can be looked up at the same time.
    pub(crate) fn can_approach(&self) -> bool {
        self.prefixes.is_some() || self.rules.is_some() || self.only_tuple().is_some()
    }

    /// The tuple that all flows stand in, if it is one, and there are more than are tried one after the other.
    fn only_tuple(&self) -> Option<&Tuple> {
        match self.tuples.as_slice() {
            [tuple] if self.flows > FEW => Some(tuple),
            _ => None,
        }
    }

    /// The flows that packets are the first to meet among prefixes or rules, or [`NO_SLOT`], and in the only tuple those that are wanted; all are found at
    /// the same time. Among prefixes `early` is told of the first [`AHEAD`] as soon as they are known, some of which may not be what these packets meet.
    #[inline]
    pub(crate) fn approach<'w>(
        &self,
        packets: impl Iterator<Item = (&'w Words, bool)> + Clone,
        early: impl FnOnce(&[Slot]),
    ) -> [Slot; BATCH] {
        let all = packets.clone().map(|(words, _)| words);
        match (&self.rules, &self.prefixes) {
            (Some(rules), _) => rules.approach(all),
            (None, Some(prefixes)) => prefixes.approach(all, early),
            (None, None) => self.only_tuple().map_or([NO_SLOT; BATCH], |tuple| {
                tuple.approach(packets.map(|(words, is_wanted)| is_wanted.then_some(words)))
            }),
        }
    }

    /// Whether a flow that is found so goes before all others.
    #[inline]
    pub(crate) fn is_first_found(&self) -> bool {
        let is_first_prefix = || self.prefixes.as_ref().is_some_and(|prefixes| prefixes.lowest > self.beside);
        self.rules.is_some() || is_first_prefix() || self.only_tuple().is_some()
    }

    /// Adds a flow.
    pub(crate) fn insert(&mut self, key: &Key, place: Place, slot: Slot) {
        let terms = terms(key);
        let shape = || terms.iter().map(|term| (term.word, term.mask));
        let is_prefix = self.prefixes.as_ref().is_some_and(|prefixes| prefixes.has_shape(shape()));
        if let Some(prefixes) = &mut self.prefixes
            && is_prefix
            && (prefixes.insert(&terms, place, slot).is_err() || !prefixes.is_worth_it())
        {
            self.drop_prefixes();
        }
        let at = match self.tuples.iter().position(|tuple| tuple.has_shape(&terms)) {
            Some(at) => at,
            None => {
                let mut tuple = Tuple::of(&terms);
                tuple.is_prefixes = is_prefix && self.prefixes.is_some();
                self.tuples.push(tuple);
                self.tuples.len() - 1
            }
        };
        if let Some(tuple) = self.tuples.get_mut(at) {
            tuple.insert(&terms, place, slot);
        }
        if let Some(rules) = &mut self.rules
            && rules.insert(&terms, place, slot).is_none()
        {
            self.rules = self.enter_rules();
        }
        self.flows += 1;
        self.settle();
        if self.flows <= FEW {
            self.few.push((place, slot, terms));
            self.few.sort_unstable_by_key(|(place, _, _)| *place);
        } else {
            self.few.clear();
        }
    }

    /// Removes a flow; `left` are those that the table has now, of which only a few are asked for.
    pub(crate) fn remove<'k>(&mut self, key: &Key, place: Place, left: impl Iterator<Item = (Place, Slot, &'k Key)>) {
        let terms = terms(key);
        let Some(at) = self.tuples.iter().position(|tuple| tuple.has_shape(&terms)) else { return };
        let Some(tuple) = self.tuples.get_mut(at) else { return };
        tuple.remove(&terms, place);
        let (is_prefix, is_empty) = (tuple.is_prefixes, tuple.len() == 0);
        if is_empty {
            self.tuples.remove(at);
        }
        if let Some(prefixes) = &mut self.prefixes
            && is_prefix
            && prefixes.remove(&terms, place).is_err()
        {
            self.drop_prefixes();
        }
        if let Some(rules) = &mut self.rules {
            rules.remove(place);
        }
        self.flows -= 1;
        if self.flows < LEAST_PREFIXES / 2 {
            // A flow more or less does not change it back and forth.
            self.drop_prefixes();
        }
        self.settle();
        if self.flows <= FEW {
            self.few = left.map(|(place, slot, key)| (place, slot, self::terms(key))).collect();
        }
    }

    fn drop_prefixes(&mut self) {
        self.prefixes = None;
        self.seek_prefixes_at = (2 * self.flows).max(LEAST_PREFIXES);
        self.tuples.iter_mut().for_each(|tuple| tuple.is_prefixes = false);
    }

    /// Brings tuples in their order, and sees whether flows are prefixes.
    fn settle(&mut self) {
        // They are nearly always in order already, which costs one pass.
        self.tuples.sort_by_key(|tuple| Reverse(tuple.highest()));
        if self.prefixes.is_none() && self.flows >= self.seek_prefixes_at.max(LEAST_PREFIXES) {
            self.prefixes = Prefixes::of(&mut self.tuples).map(Box::new);
            self.seek_prefixes_at = 2 * self.flows;
        }
        let beside = self.tuples.iter().find(|tuple| !tuple.is_prefixes);
        self.beside = beside.map_or(0, Tuple::highest);
        self.settle_rules();
    }

    /// Sees whether flows stand in a classifier. A flow more or less does not change it back and forth.
    fn settle_rules(&mut self) {
        let (tuples, flows) = (self.tuples.len(), self.flows);
        if self.prefixes.is_some() || tuples < LEAST_TUPLES / 2 || flows > rules::MOST_FLOWS {
            (self.rules, self.seek_rules_at) = (None, 0);
        } else if self.rules.is_none()
            && tuples >= LEAST_TUPLES
            && (self.seek_rules_at..=rules::MOST_FLOWS / 2).contains(&flows)
        {
            self.rules = self.enter_rules();
            self.seek_rules_at = 2 * flows;
        }
    }

    /// All flows in a classifier, if they fit.
    fn enter_rules(&self) -> Option<Box<Rules>> {
        Rules::of(self.tuples.iter().flat_map(Tuple::all).collect()).map(Box::new)
    }
}

impl Clone for Index {
    /// The same flows; whether they are prefixes is seen again.
    fn clone(&self) -> Index {
        let mut index =
            Index { tuples: self.tuples.clone(), few: self.few.clone(), flows: self.flows, ..Index::default() };
        index.drop_prefixes();
        index.seek_prefixes_at = 0;
        index.settle();
        index
    }
}

/// How many flows there are of each priority.
#[derive(Clone, Debug, Default)]
struct Priorities(BTreeMap<u16, usize>);

impl Priorities {
    fn add(&mut self, priority: u16) {
        *self.0.entry(priority).or_default() += 1;
    }

    fn take(&mut self, priority: u16) {
        if let Some(count) = self.0.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&priority);
            }
        }
    }

    /// The lowest and the highest, if there is one.
    fn range(&self) -> Option<(u16, u16)> {
        Some((*self.0.first_key_value()?.0, *self.0.last_key_value()?.0))
    }

    fn highest(&self) -> u16 {
        self.0.last_key_value().map_or(0, |(priority, _)| *priority)
    }
}

#[cfg(test)]
mod tests {
    use weir_openflow::flow::{FlowCommand, FlowMod};
    use weir_openflow::{Match, Oxm};

    use super::*;
    use crate::counts::Worker;
    use crate::fields::Fields;
    use crate::switch::{Identity, Switch};

    /// A packet from one of 4 addresses to one of 200.
    fn fields(from: u32, to: u32) -> Vec<(Field, u128)> {
        vec![(Field::EthType, 0x0800), (Field::Ipv4Src, from.into()), (Field::Ipv4Dst, to.into())]
    }

    #[test]
    fn packets_find_together_in_one_tuple_what_each_finds_alone() {
        let mut switch = Switch::new(Identity::default());
        for n in 0..600_u32 {
            let (from, to) = (n % 4, n.wrapping_mul(0x9e37_79b1) % 200);
            let asked = fields(from, to).into_iter().map(|(field, value)| Oxm::exact(field, value));
            let matches = Match::new(asked.collect()).unwrap();
            let command = if n % 7 == 6 { FlowCommand::Delete } else { FlowCommand::Add };
            switch.flow_mod(&FlowMod { command, ..FlowMod::add(0, (n % 3) as u16, matches, Vec::new()) }, 0).unwrap();
        }
        let table = switch.tables.get(0).unwrap();
        assert_eq!((table.search(), table.can_approach(), table.is_first_found()), (Search::Exact, true, true));
        let packet = |n: u32| {
            let mut packet = Fields::default();
            fields(n % 4, n / 4).into_iter().for_each(|(field, value)| packet.set(field, value));
            packet
        };
        let packets: Vec<Fields> = (0..800).map(packet).collect();
        let (mut found, is_wanted) = (0, |n: usize| !n.is_multiple_of(5));
        for packets in packets.chunks(BATCH) {
            let slots =
                table.approach(Worker::default(), packets.iter().enumerate().map(|(n, packet)| (packet, is_wanted(n))));
            for (n, (packet, slot)) in packets.iter().zip(slots).enumerate() {
                let alone = table.find_slot(packet).filter(|_| is_wanted(n));
                assert_eq!(slot, alone.unwrap_or(NO_SLOT), "{packet:?}");
                found += u32::from(slot != NO_SLOT);
            }
        }
        assert!((100..500).contains(&found), "{found} of 640");
    }
}
