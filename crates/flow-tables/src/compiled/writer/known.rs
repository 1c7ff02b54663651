//! What is known of a packet of some kind while its code is written: which fields it has, and where their values come from.

use weir_codegen::{Builder, Value};
use weir_openflow::Field;

use super::IN_PORT;
use crate::compiled::shape::{Ask, kind_bits};
use crate::compiled::{Found, Version};
use crate::words::{WORDS, location, presence};

/// What is known of a word of a packet: bits that every frame of a kind has, and where the others come from.
#[derive(Clone, Copy)]
pub(super) struct Word {
    /// Which bits are known.
    pub(super) known: u32,
    /// What they are; the others are zeroes.
    pub(super) value: u32,
    /// The others; what is known is zeroes here.
    pub(super) given: Option<Value>,
}

/// What is known of a packet. Fields that it does not have are zeroes, as are the bits that say that it has them.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) words: [Word; WORDS],
    pub(super) tags: u8,
    /// Where IP begins, if it is of IP and was looked into so far.
    pub(super) ip: Option<Ip>,
    /// What else it is of, if it was looked so far.
    pub(super) other: Version,
}

impl Known {
    /// Of every packet: where it came in.
    pub(super) fn of_port(builder: &mut Builder) -> Known {
        let words = [Word { known: u32::MAX, value: 0, given: None }; WORDS];
        let mut known = Known { words, tags: 0, ip: None, other: Version::None };
        let port = builder.input(IN_PORT);
        for field in [Field::InPort, Field::InPhyPort] {
            known.set(builder, field, &[port]);
        }
        for field in [Field::Metadata, Field::TunnelId] {
            known.has(field);
        }
        known
    }

    /// It has a field.
    pub(super) fn has(&mut self, field: Field) {
        let (word, bit) = presence(field);
        self.words[word].value |= bit;
    }

    /// Whether it has a field, for sure.
    pub(super) fn has_field(&self, field: Field) -> bool {
        let (word, bit) = presence(field);
        self.words[word].value & bit != 0
    }

    /// What is answered of it, if this table is to be searched.
    pub(super) fn answer(&self, target: usize, search: u8) -> u32 {
        let version = self.ip.map_or(self.other, |ip| if ip.is_v6 { Version::Six } else { Version::Four });
        Found::new(target as u8, search, self.tags, version).answer()
    }

    /// It has a field that is this number.
    pub(super) fn is(&mut self, field: Field, number: u32) {
        self.has(field);
        let location = location(field);
        let Word { known, value, .. } = &mut self.words[location.word];
        let bits = (field.ones() as u32) << location.shift;
        (*known, *value) = (*known | bits, *value & !bits | number << location.shift & bits);
    }

    /// It has a field that is these words, the most significant first. The last ones of each count, as many as the field has bits.
    pub(super) fn set(&mut self, builder: &mut Builder, field: Field, words: &[Value]) {
        self.has(field);
        let location = location(field);
        let mut below = 32 * words.len() as u32;
        for (value, number) in words.iter().zip(location.word..) {
            below -= 32;
            let ones = (field.ones() >> below) as u32;
            let mask = builder.constant(ones.into());
            let masked = builder.and(*value, mask);
            let shifted = builder.left(masked, location.shift);
            let word = &mut self.words[number];
            word.given = Some(match word.given {
                Some(given) => builder.or(given, shifted),
                None => shifted,
            });
            word.known &= !(ones << location.shift);
            word.value &= word.known;
        }
    }
}

/// Where IP begins.
#[derive(Clone, Copy)]
pub(super) struct Ip {
    pub(super) at: usize,
    pub(super) is_v6: bool,
}

impl Ip {
    pub(super) fn ttl_at(self) -> usize {
        self.at + if self.is_v6 { 7 } else { 8 }
    }
}

impl Ask {
    /// Whether no packet of which this is known is what it asks for, whatever the data.
    pub(super) fn is_missed(&self, known: &[Word; WORDS]) -> bool {
        let word = known.get(self.word);
        word.is_some_and(|word| (self.fixed ^ word.value) & self.mask & word.known & kind_bits(self.word) != 0)
    }
}
