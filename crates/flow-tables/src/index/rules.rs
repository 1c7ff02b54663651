//! Flows that ask for many different choices of bits, as rules of access lists do: one look-up in the house's classifier finds the first that a
//! packet meets, where a hash table for each choice would have to be looked into.

use std::fmt;

use weir_simd::Kernel;
use weir_table::classifier::{self, Classifier, Keys, Match};

use super::{BATCH, NO_SLOT, Slot, Term};
use crate::table::Place;
use crate::words::{PRESENCE, WORDS, Words};

/// With more flows each change would take too long: it numbers all of them.
pub(super) const MOST_FLOWS: usize = 1 << 15;

/// Packets that are handled in one step, without a look at how many there are.
const EIGHT: usize = 8;

/// Of no packet.
static NO_WORDS: Words = [0; WORDS];

/// Bits of a word of packets that flows ask for, and where they stand in keys.
#[derive(Clone, Copy, Debug)]
struct Part {
    word: u8,
    mask: u32,
    /// The word of keys, and by how many bits they are rotated left there: several parts may share it.
    place: u8,
    rotation: u8,
}

impl Part {
    #[inline(always)]
    fn rotate(self, bits: u32) -> u32 {
        (bits & self.mask).rotate_left(self.rotation.into())
    }
}

/// What flows ask of packets, so that keys are as short as can be: what a look-up takes is for the most part the lines that blocks of rules have, one for each word
/// of keys.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// Of whole words, what all flows ask for alike. It is not in keys.
    alike: Vec<Term>,
    parts: Vec<Part>,
    /// Words of keys that are in use, and the bits of each.
    used: Vec<u32>,
}

impl Asked {
    /// What flows ask for, to whole bytes: then few of those that come later ask for more.
    fn of(flows: &[(Place, Slot, Vec<Term>)]) -> Asked {
        let mut asked = Asked::default();
        let Some((_, _, first)) = flows.first() else { return asked };
        let is_alike = |term: &&Term| flows.iter().all(|(_, _, terms)| terms.contains(term));
        asked.alike = first.iter().filter(is_alike).copied().collect();
        let mut masks = [0; WORDS];
        for term in flows.iter().flat_map(|(_, _, terms)| terms).filter(|term| !asked.alike.contains(term)) {
            masks[usize::from(term.word) % WORDS] |= whole_bytes(*term);
        }
        let mut words: Vec<(u8, u32)> = (0..).zip(masks).filter(|(_, mask)| *mask != 0).collect();
        // Those that fill most of a word first: the others find room between.
        words.sort_by_key(|(_, mask)| mask.count_zeros());
        words.into_iter().for_each(|(word, mask)| asked.add(word, mask));
        asked
    }

    /// Adds bits of a word of packets, in the first place of keys where there is room for them, however rotated.
    fn add(&mut self, word: u8, mask: u32) {
        let free = |used: u32| (0..u32::BITS).find(|rotation| mask.rotate_left(*rotation) & used == 0);
        let found = self.used.iter().enumerate().find_map(|(place, used)| Some((place, free(*used)?)));
        let (place, rotation) = found.unwrap_or((self.used.len(), 0));
        if place == self.used.len() {
            self.used.push(0);
        }
        if let Some(used) = self.used.get_mut(place) {
            *used |= mask.rotate_left(rotation);
        }
        self.parts.push(Part { word, mask, place: place as u8, rotation: rotation as u8 });
    }

    /// Words that keys need: one behind those in use is what a classifier takes for two numbers within bounds, of which no flow asks anything.
    fn width(&self) -> usize {
        self.used.len() + 1
    }

    /// What a flow asks of keys; nothing if it asks for more than is in them, or not for what all ask for.
    fn rule<const W: usize>(&self, terms: &[Term]) -> Option<Match<W>> {
        if !self.alike.iter().all(|term| terms.contains(term)) {
            return None;
        }
        let mut rule = Match::default();
        for term in terms.iter().filter(|term| !self.alike.contains(term)) {
            let part = self.parts.iter().find(|part| part.word == term.word && term.mask & !part.mask == 0)?;
            rule = rule.word(part.place.into(), part.rotate(term.value), part.rotate(term.mask));
        }
        Some(rule)
    }

    /// The keys of the first `count` packets, and a mask of those that are not what all flows ask for. Part after part, as all packets are alike there, and
    /// eight packets in one step.
    #[inline(always)]
    fn keys<const W: usize>(&self, packets: &[&Words; BATCH], count: usize, keys: &mut Keys<W>) -> u64 {
        let steps = count.div_ceil(EIGHT);
        for part in &self.parts {
            let (place, word) = (usize::from(part.place), usize::from(part.word) % WORDS);
            if place >= W {
                continue;
            }
            for (keys, packets) in keys.0.as_chunks_mut::<EIGHT>().0.iter_mut().zip(packets.as_chunks().0).take(steps) {
                let packets: &[&Words; EIGHT] = packets;
                for n in 0..EIGHT {
                    keys[n][place] |= part.rotate(packets[n][word]);
                }
            }
        }
        let mut differs = [0; BATCH];
        for term in &self.alike {
            for (differs, packets) in
                differs.as_chunks_mut::<EIGHT>().0.iter_mut().zip(packets.as_chunks().0).take(steps)
            {
                let packets: &[&Words; EIGHT] = packets;
                for n in 0..EIGHT {
                    differs[n] |= term.differs(packets[n]);
                }
            }
        }
        differs.iter().enumerate().fold(0, |all, (n, differs)| all | u64::from(*differs != 0) << n)
    }

    /// The key of a packet, and in which bits it is not what all flows ask for.
    #[inline(always)]
    fn key<const W: usize>(&self, words: &Words) -> ([u32; W], u32) {
        let mut key = [0; W];
        for part in &self.parts {
            if let Some(to) = key.get_mut(usize::from(part.place)) {
                *to |= part.rotate(words[usize::from(part.word) % WORDS]);
            }
        }
        (key, self.alike.iter().fold(0, |differs, term| differs | term.differs(words)))
    }
}

/// The bytes in which a flow asks for bits; of what says which fields there are, the bits alone, as single ones are asked for there.
fn whole_bytes(term: Term) -> u32 {
    if PRESENCE.contains(&usize::from(term.word)) {
        return term.mask;
    }
    u32::from_ne_bytes(term.mask.to_ne_bytes().map(|byte| if byte == 0 { 0 } else { u8::MAX }))
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
    /// These flows, in their order.
    fn of(asked: Asked, flows: &[(Place, Slot, Vec<Term>)]) -> Option<Keyed<W>> {
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
        let (key, differs) = self.asked.key(words);
        if differs == 0 { self.slot(self.classifier.lookup(&key)) } else { NO_SLOT }
    }

    #[inline(never)]
    fn approach<'w>(&self, kernel: Kernel, packets: impl Iterator<Item = &'w Words>) -> [Slot; BATCH] {
        let (mut all, mut count) = ([&NO_WORDS; BATCH], 0);
        for (to, words) in all.iter_mut().zip(packets) {
            *to = words;
            count += 1;
        }
        let (mut keys, mut found) = (Keys::default(), [classifier::NONE; BATCH]);
        let strangers = self.asked.keys(&all, count, &mut keys);
        self.classifier.lookup_batch(kernel, &keys, count, &mut found);
        let mut slots = [NO_SLOT; BATCH];
        for (slot, number) in slots.iter_mut().zip(found).take(count) {
            *slot = self.slot(number);
        }
        if strangers != 0 {
            for (n, slot) in slots.iter_mut().enumerate() {
                *slot = if strangers >> n & 1 == 0 { *slot } else { NO_SLOT };
            }
        }
        slots
    }
}

/// By how many words keys have: as many as flows need, or a few more.
#[derive(Clone)]
enum Width {
    Four(Keyed<4>),
    Six(Keyed<6>),
    Ten(Keyed<10>),
    Sixteen(Keyed<16>),
}

/// The same of keys of whatever width.
macro_rules! of_any {
    ($width:expr, $keyed:ident => $what:expr) => {
        match $width {
            Width::Four($keyed) => $what,
            Width::Six($keyed) => $what,
            Width::Ten($keyed) => $what,
            Width::Sixteen($keyed) => $what,
        }
    };
}

impl Width {
    /// These flows, in their order; nothing if they ask for too much.
    fn of(flows: &[(Place, Slot, Vec<Term>)]) -> Option<Width> {
        let asked = Asked::of(flows);
        Some(match asked.width() {
            ..=4 => Width::Four(Keyed::of(asked, flows)?),
            5..=6 => Width::Six(Keyed::of(asked, flows)?),
            7..=10 => Width::Ten(Keyed::of(asked, flows)?),
            11..=16 => Width::Sixteen(Keyed::of(asked, flows)?),
            _ => return None,
        })
    }
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
        of_any!(&self.width, keyed => write!(f, "{:?}", keyed.classifier))
    }
}

impl Rules {
    /// These flows; nothing if they ask for too much.
    pub(super) fn of(mut flows: Vec<(Place, Slot, Vec<Term>)>) -> Option<Rules> {
        flows.sort_unstable_by_key(|(place, ..)| *place);
        let (kernel, width) = (Kernel::detect(), Width::of(&flows)?);
        Some(Rules { kernel, width, order: flows.iter().map(|(place, ..)| *place).collect() })
    }

    /// The first flow that a packet meets.
    #[inline]
    pub(super) fn find(&self, words: &Words) -> Option<Slot> {
        let slot = of_any!(&self.width, keyed => keyed.find(words));
        (slot != NO_SLOT).then_some(slot)
    }

    /// The same for packets, up to [`BATCH`] of them, or [`NO_SLOT`]: all are looked up at the same time.
    #[inline]
    pub(super) fn approach<'w>(&self, packets: impl Iterator<Item = &'w Words>) -> [Slot; BATCH] {
        of_any!(&self.width, keyed => keyed.approach(self.kernel, packets))
    }

    /// Adds a flow; nothing if it does not fit, and all have to be entered anew.
    pub(super) fn insert(&mut self, terms: &[Term], place: Place, slot: Slot) -> Option<()> {
        let position = self.order.partition_point(|known| *known < place);
        of_any!(&mut self.width, keyed => keyed.insert(position, terms, slot)?);
        self.order.insert(position, place);
        Some(())
    }

    /// Removes a flow.
    pub(super) fn remove(&mut self, place: Place) {
        let Ok(position) = self.order.binary_search(&place) else { return };
        self.order.remove(position);
        of_any!(&mut self.width, keyed => keyed.classifier.remove(position));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::meets;
    use super::*;

    /// Words and masks that flows ask for in these tests: presence, single bits, bytes and whole words, of which all together are as many as no key has room for.
    fn term() -> impl Strategy<Value = Term> {
        let mask = prop_oneof![
            Just(u32::MAX),
            Just(0xff00_0000),
            Just(0x00ff_0000),
            Just(0xffff),
            Just(0xfff0_0000),
            1..16_u32
        ];
        (prop_oneof![4 => 0..6_u8, 1 => 0..24_u8], mask, 0..3_u32).prop_map(|(word, mask, value)| {
            let value = value.wrapping_mul(0x0101_0101) & mask;
            Term { word, mask, value }
        })
    }

    fn flow() -> impl Strategy<Value = Vec<Term>> {
        prop::collection::vec(term(), 0..7).prop_map(|mut terms| {
            terms.sort_by_key(|term| term.word);
            terms.dedup_by_key(|term| term.word);
            terms
        })
    }

    /// What all flows of a table ask for, beside what each does.
    fn flows() -> impl Strategy<Value = Vec<Vec<Term>>> {
        (prop::collection::vec(flow(), 1..40), flow()).prop_map(|(mut flows, alike)| {
            for flow in &mut flows {
                flow.retain(|term| alike.iter().all(|other| other.word != term.word));
                flow.extend(&alike);
                flow.sort_by_key(|term| term.word);
            }
            flows
        })
    }

    fn packet() -> impl Strategy<Value = Words> {
        prop::array::uniform32((0..3_u32).prop_map(|value| value.wrapping_mul(0x0101_0101)))
    }

    fn numbered(flows: &[Vec<Term>]) -> Vec<(Place, Slot, Vec<Term>)> {
        let place = |n: usize| Place::of(0, n as u64);
        flows.iter().enumerate().map(|(n, terms)| (place(n), n as Slot, terms.clone())).collect()
    }

    proptest! {
        #[test]
        fn finds_the_first_flow_that_a_packet_meets(
            (flows, more) in (flows(), prop::collection::vec(flow(), 0..10)),
            packets in prop::collection::vec(packet(), 1..BATCH),
        ) {
            let Some(mut rules) = Rules::of(numbered(&flows)) else {
                // Only where there are more words than keys have.
                let words: std::collections::BTreeSet<u8> = flows.iter().flatten().map(|term| term.word).collect();
                prop_assert!(words.len() > 15);
                return Ok(());
            };
            let mut all = flows.clone();
            let check = |rules: &Rules, all: &[Vec<Term>], removed: usize| {
                // What a packet meets is made likely.
                let mut packets = packets.clone();
                for (packet, terms) in packets.iter_mut().zip(all.iter().cycle()) {
                    for Term { word, mask, value } in terms.iter().skip(usize::from(packet[31] == 0)) {
                        let word = &mut packet[usize::from(*word)];
                        *word = *word & !mask | value;
                    }
                }
                let together = rules.approach(packets.iter());
                for (packet, slot) in packets.iter().zip(together) {
                    let mut left = all.iter().enumerate().skip(removed);
                    let first = left.find(|(_, terms)| meets(terms, packet)).map(|(n, _)| n as Slot);
                    prop_assert_eq!(rules.find(packet), first);
                    prop_assert_eq!(slot, first.unwrap_or(NO_SLOT));
                }
                Ok(())
            };
            check(&rules, &all, 0)?;
            for terms in more {
                all.push(terms);
                let (place, slot, terms) = numbered(&all).pop().unwrap();
                if rules.insert(&terms, place, slot).is_none() {
                    let Some(anew) = Rules::of(numbered(&all)) else { return Ok(()) };
                    rules = anew;
                }
                check(&rules, &all, 0)?;
            }
            rules.remove(numbered(&all[..1])[0].0);
            check(&rules, &all, 1)?;
        }

        /// Keys are no longer than the bits that are asked for need, and hold all of these.
        #[test]
        fn keys_are_short(flows in flows()) {
            let asked = Asked::of(&numbered(&flows));
            let mut used = vec![0_u32; asked.used.len()];
            for part in &asked.parts {
                let rotated = part.rotate(u32::MAX);
                prop_assert_eq!(used[usize::from(part.place)] & rotated, 0);
                used[usize::from(part.place)] |= rotated;
            }
            prop_assert_eq!(&used, &asked.used);
            prop_assert!(asked.used.len() <= asked.parts.len());
        }
    }

    /// The access list of IPv4 that asks for addresses, protocol and ports, of one port of a switch: seven words of packets are three of keys.
    #[test]
    fn an_access_list_needs_three_words() {
        let exact = |word, mask, value| Term { word, mask, value };
        let flow = |n: u32| {
            let presence = exact(0, 0x11c21, 0x11c21);
            let (in_port, ip, udp) =
                (exact(2, u32::MAX, 1), exact(10, 0xffff << 16, 0x800 << 16), exact(11, 0xff << 16, 17 << 16));
            let addresses = [exact(14, 0xfff0_0000, n << 20), exact(18, 0xffff_ff00, n << 8)];
            vec![presence, in_port, ip, udp, exact(12, 0xffff, n), addresses[0], addresses[1]]
        };
        let mut flows: Vec<Vec<Term>> = (0..20).map(flow).collect();
        flows.push(vec![exact(0, 0x21, 0x21), exact(2, u32::MAX, 1), exact(10, 0xffff << 16, 0x800 << 16)]);
        assert_eq!(Asked::of(&numbered(&flows)).width(), 4);
    }
}
