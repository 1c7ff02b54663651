//! The writer that both compiled kinds share: from a change of the truth to stores that readers see.

use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_mem::{Domain, arena};

use super::groups::{Groups, POINTER, Words};
use super::rib::Rib;
use super::{BATCH, Config, Error, Lookup4, Lpm4, MAX_VALUE, Memory, Prefix4, Refused};

/// Number of /24 networks, and of words in the first level.
pub(crate) const SLOTS: usize = 1 << 24;
/// The longest prefix that the first level answers alone.
const SHORT: u8 = 24;

/// Answered in the place of a word that has to be looked up alone: like a pointer, but to more groups than there can be.
pub(crate) const ELSEWHERE: u32 = POINTER | 1 << 30 | 0x3fff;

/// How many groups there can be.
const MAX_GROUPS: u32 = 1 << 24;

const _: () = assert!(MAX_GROUPS <= ELSEWHERE & !POINTER, "no pointer is taken for it");

/// What a change gives to addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    pub(crate) value: u32,
    /// 1 + the length of the prefix that the value is from; 0 for the miss value.
    pub(crate) depth: u8,
}

/// The first level: a word for each /24, either a value or a pointer to a group.
pub trait First: Send + Sync + Sized {
    /// What only its writer knows.
    type Writer: std::fmt::Debug + Send;

    /// All words are `miss`.
    fn new(config: &Config, domain: &Domain) -> Result<(Self, Self::Writer), arena::Error>;

    fn prefetch(&self, slot: usize);

    fn word(&self, slot: usize) -> u32;

    /// Goes as far towards the words of many addresses as one access leads, and asks for what the next one reads.
    fn approach(&self, addresses: &[u32], words: &mut [u32]);

    /// The words of at most [`BATCH`] addresses that were approached, or [`ELSEWHERE`]; what stands behind them means nothing.
    fn words(&self, addresses: &[u32], words: &mut [u32]);

    /// Asks for the word of a slot for which [`words`](Self::words) answered [`ELSEWHERE`].
    fn prefetch_elsewhere(&self, slot: usize);

    /// Makes sure that a [change](Self::change) of these slots by `change` finds room.
    fn reserve(
        &self,
        writer: &mut Self::Writer,
        slots: RangeInclusive<usize>,
        change: impl FnMut(usize, u32) -> u32,
    ) -> Result<(), Refused>;

    /// Gives each slot the word that `change` makes of its number and its old word. Room was reserved.
    fn change(&self, writer: &mut Self::Writer, slots: RangeInclusive<usize>, change: impl FnMut(usize, u32) -> u32);

    /// Bytes: mapped, of that in use, and the writer's own; and how many pieces wait for readers.
    fn memory(&self, writer: &Self::Writer) -> Memory;
}

/// What readers see of a table of either kind.
#[derive(Debug)]
pub struct Compiled<F> {
    first: F,
    groups: Words,
}

/// The places of the bits that are set, from the lowest on.
#[inline(always)]
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then_some(mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lowest
    })
}

impl<F: First> Lookup4 for Compiled<F> {
    #[inline(always)]
    fn prefetch(&self, address: u32) {
        self.first.prefetch(slot_of(address));
    }

    #[inline(always)]
    fn lookup(&self, address: u32) -> u32 {
        self.value(self.first.word(slot_of(address)), address)
    }

    #[inline(always)]
    fn approach(&self, addresses: &[u32], values: &mut [u32]) {
        self.first.approach(addresses, values);
    }

    // Always, as below too, so that it is compiled for what the caller's kernel has.
    #[inline(always)]
    fn lookup_first(&self, addresses: &[u32], values: &mut [u32]) -> u64 {
        self.first.words(addresses, values);
        let words = values.iter().take(addresses.len().min(BATCH));
        // Mostly there is none, which is found out by a few vector instructions; which they are takes many.
        if words.clone().fold(0, |any, word| any | word) & POINTER == 0 {
            return 0;
        }
        let pointers = words.zip(0..).fold(0, |mask, (word, at)| mask | u64::from(word / POINTER) << at);
        for at in bits(pointers) {
            if let (Some(&word), Some(&address)) = (values.get(at), addresses.get(at)) {
                match word {
                    ELSEWHERE => self.first.prefetch_elsewhere(slot_of(address)),
                    pointer => self.groups.prefetch(pointer, address),
                }
            }
        }
        pointers
    }

    #[inline(always)]
    fn lookup_rest(&self, addresses: &[u32], values: &mut [u32], rest: u64) {
        for at in bits(rest) {
            if let (Some(word), Some(&address)) = (values.get_mut(at), addresses.get(at)) {
                *word = match *word {
                    ELSEWHERE => self.lookup(address),
                    pointer => self.groups.value(pointer, address),
                };
            }
        }
    }
}

impl<F: First> Compiled<F> {
    /// The value of an address below a word of the first level.
    #[inline(always)]
    fn value(&self, word: u32, address: u32) -> u32 {
        if word & POINTER == 0 { word } else { self.groups.value(word, address) }
    }
}

/// A table and its writer.
#[derive(Debug)]
pub struct Table<F: First> {
    compiled: Arc<Compiled<F>>,
    first: F::Writer,
    groups: Groups,
    rib: Rib,
    /// For each slot: 1 + the length of the longest prefix up to /24 that covers it, or 0.
    depths: Vec<u8>,
    miss: u32,
    max_routes: usize,
}

impl<F: First> Table<F> {
    /// An empty table, whose readers are those of `domain`.
    ///
    /// # Errors
    ///
    /// [`Error`] when the miss value is too large or there is no memory.
    pub fn new(config: &Config, domain: &Domain) -> Result<Self, Error> {
        let (first, writer) = F::new(config, domain)?;
        Self::assemble(config, domain, first, writer)
    }

    pub(crate) fn assemble(config: &Config, domain: &Domain, first: F, writer: F::Writer) -> Result<Self, Error> {
        if config.miss > MAX_VALUE {
            return Err(Error::MissTooLarge(config.miss));
        }
        let max_groups = config.max_groups.min(MAX_GROUPS);
        Ok(Self {
            compiled: Arc::new(Compiled { first, groups: Words::new(max_groups)? }),
            first: writer,
            groups: Groups::new(max_groups, domain),
            rib: Rib::new(),
            depths: vec![0; SLOTS],
            miss: config.miss,
            max_routes: config.max_routes,
        })
    }

    /// Every prefix with its value, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix4, u32)> {
        self.rib.iter()
    }

    /// Everything that can refuse a new prefix, before anything changes.
    fn admit(&mut self, prefix: Prefix4, is_new: bool, with: Paint) -> Result<(), Refused> {
        if is_new && self.rib.len() >= self.max_routes {
            return Err(Refused::TooManyRoutes { max: self.max_routes });
        }
        if prefix.length() <= SHORT {
            return self.reserve_short(prefix, with);
        }
        if self.group_of(prefix).is_some() {
            return Ok(());
        }
        if !self.groups.has_room() {
            return Err(Refused::TooManyGroups { max: self.groups.max() });
        }
        // Like the pointer that it stands for, equal to no other word.
        self.reserve_slot(prefix, u32::MAX)
    }

    /// Finds room for painting a prefix up to /24.
    fn reserve_short(&mut self, prefix: Prefix4, with: Paint) -> Result<(), Refused> {
        let Self { compiled, first, depths, .. } = self;
        let limit = prefix.length() + 1;
        compiled.first.reserve(first, slots_of(prefix), |slot, word| {
            let is_painted = word & POINTER == 0 && depths.get(slot).is_some_and(|depth| *depth <= limit);
            if is_painted { with.value } else { word }
        })
    }

    /// Finds room for a new word of the network of a prefix longer than /24.
    fn reserve_slot(&mut self, prefix: Prefix4, word: u32) -> Result<(), Refused> {
        self.compiled.first.reserve(&mut self.first, slots_of(prefix), |_, _| word)
    }

    /// The group of a prefix longer than /24, if its network has one.
    fn group_of(&self, prefix: Prefix4) -> Option<u32> {
        let word = self.compiled.first.word(slot_of(prefix.address()));
        (word & POINTER != 0).then_some(word & !POINTER)
    }

    /// Gives the addresses of `prefix` that no longer prefix covers a value. `prefix` was just inserted, or removed and
    /// `with` is of its cover; in both cases nothing but longer prefixes is deeper than it.
    fn paint(&mut self, prefix: Prefix4, with: Paint) {
        if prefix.length() <= SHORT { self.paint_short(prefix, with) } else { self.paint_long(prefix, with) }
    }

    fn paint_short(&mut self, prefix: Prefix4, with: Paint) {
        let limit = prefix.length() + 1;
        let Self { compiled, first, groups, depths, .. } = self;
        compiled.first.change(first, slots_of(prefix), |slot, word| {
            let Some(depth) = depths.get_mut(slot).filter(|depth| **depth <= limit) else { return word };
            *depth = with.depth;
            if word & POINTER == 0 {
                return with.value;
            }
            groups.paint(&compiled.groups, word & !POINTER, (0, u8::MAX), limit, with);
            word
        });
    }

    fn paint_long(&mut self, prefix: Prefix4, with: Paint) {
        let slot = slot_of(prefix.address());
        let pointed = self.group_of(prefix);
        let Some(group) = pointed.or_else(|| self.new_group(slot)) else { return };
        let addresses = (prefix.address() as u8, prefix.last() as u8);
        self.groups.paint(&self.compiled.groups, group, addresses, prefix.length() + 1, with);
        if pointed.is_none() {
            self.point(slot, POINTER | group);
        }
    }

    /// A group that answers what the slot's word answers; not yet pointed to.
    fn new_group(&mut self, slot: usize) -> Option<u32> {
        let value = self.compiled.first.word(slot);
        let depth = self.depths.get(slot).copied().unwrap_or(0);
        self.groups.take(&self.compiled.groups, Paint { value, depth })
    }

    fn point(&mut self, slot: usize, word: u32) {
        self.compiled.first.change(&mut self.first, slot..=slot, |_, _| word);
    }

    /// Undoes the group that holds nothing but `prefix`; its cover's value is then that of the whole network.
    fn ungroup(&mut self, prefix: Prefix4, group: u32, cover: Paint) {
        self.groups.count(group, -1);
        self.point(slot_of(prefix.address()), cover.value);
        self.groups.give_back(group);
    }
}

impl<F: First> Lpm4 for Table<F> {
    type Reader = Compiled<F>;

    fn insert(&mut self, prefix: Prefix4, value: u32) -> Result<Option<u32>, Refused> {
        if value > MAX_VALUE {
            return Err(Refused::ValueTooLarge { value });
        }
        let old = self.rib.get(prefix);
        if old == Some(value) {
            return Ok(old);
        }
        let with = Paint { value, depth: prefix.length() + 1 };
        self.admit(prefix, old.is_none(), with)?;
        self.rib.insert(prefix, value);
        self.paint(prefix, with);
        if let Some(group) = self.group_of(prefix).filter(|_| old.is_none() && prefix.length() > SHORT) {
            self.groups.count(group, 1);
        }
        Ok(old)
    }

    fn remove(&mut self, prefix: Prefix4) -> Result<Option<u32>, Refused> {
        if self.rib.get(prefix).is_none() {
            return Ok(None);
        }
        let miss = Paint { value: self.miss, depth: 0 };
        let cover = self.rib.cover(prefix);
        let with = cover.map_or(miss, |(cover, value)| Paint { value, depth: cover.length() + 1 });
        let group = self.group_of(prefix).filter(|_| prefix.length() > SHORT);
        let last_of = group.filter(|&group| self.groups.prefixes(group) == 1);
        if prefix.length() <= SHORT {
            self.reserve_short(prefix, with)?;
        } else if last_of.is_some() {
            self.reserve_slot(prefix, with.value)?;
        }
        let old = self.rib.remove(prefix);
        match (last_of, group) {
            (Some(group), _) => self.ungroup(prefix, group, with),
            (None, Some(group)) => {
                self.paint(prefix, with);
                self.groups.count(group, -1);
            }
            (None, None) => self.paint(prefix, with),
        }
        Ok(old)
    }

    fn get(&self, prefix: Prefix4) -> Option<u32> {
        self.rib.get(prefix)
    }

    fn len(&self) -> usize {
        self.rib.len()
    }

    fn memory(&self) -> Memory {
        let first = self.compiled.first.memory(&self.first);
        Memory {
            lookup: first.lookup + self.compiled.groups.bytes(),
            used: first.used + self.groups.used() as usize * 4 * super::groups::GROUP,
            control: first.control + self.rib.bytes() + self.depths.len() + self.groups.bytes(),
            groups: self.groups.used(),
            waiting: first.waiting + self.groups.waiting(),
        }
    }

    fn reader(&self) -> &Arc<Compiled<F>> {
        &self.compiled
    }
}

#[inline(always)]
fn slot_of(address: u32) -> usize {
    address as usize >> 8
}

fn slots_of(prefix: Prefix4) -> RangeInclusive<usize> {
    slot_of(prefix.address())..=slot_of(prefix.last())
}
