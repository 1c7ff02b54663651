//! The control side of the tables: what readers find is changed here, word by word.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_mem::{Domain, HugeSlice, arena};
use weir_stage::ownership::Owners;
use weir_table::exact::{self, Exact};
use weir_table::free_list::FreeList;

use super::only::Only;
use super::owners::OwnerBytes;
use super::{
    BindingFields, BindingKey, BindingRecord, Found, Line, NUMBER_BITS, PLACE_BITS, Senders, SubscriberFields,
    SubscriberRecord, Subscribers, Tags, VLANS, svlan_place, write,
};

/// How much the tables hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Subscribers, at most 2^20; their numbers are below it.
    pub(crate) subscribers: u32,
    /// Addresses and prefixes of all subscribers, at most 2^22.
    pub(crate) bindings: u32,
    /// Pairs of access port and SVLAN that have subscribers: 32 KiB each.
    pub(crate) svlans: u32,
    /// Bits of an IPv6 address that are looked up, at most 64.
    pub(crate) prefix_length: u8,
    /// Whether several workers share the subscribers, so that balancers look up whose each is.
    pub(crate) is_balanced: bool,
    /// Whether scopes are GRE keys.
    pub(crate) has_keys: bool,
}

impl Limits {
    /// As far as words can lead to them.
    fn clamped(self, ports: usize) -> Limits {
        Limits {
            subscribers: self.subscribers.min(1 << NUMBER_BITS),
            bindings: self.bindings.min(1 << (PLACE_BITS - 2)),
            svlans: self.svlans.min((ports * VLANS) as u32),
            ..self
        }
    }
}

/// Blocks that may wait for readers to pass while others are taken.
const SPARE_BLOCKS: u32 = 16;

/// Why a change was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// So many pairs of port and SVLAN have subscribers already.
    TooManySvlans(u32),
    /// No room for addresses.
    Bindings(exact::Refused),
    /// All room for the change waits for readers to pass earlier changes.
    NoRoom,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManySvlans(most) => {
                write!(f, "{most} pairs of port and SVLAN have subscribers; raise limits.svlans for more")
            }
            Self::Bindings(exact::Refused::Full { capacity }) => {
                write!(f, "subscribers have {capacity} addresses; raise limits.bindings for more")
            }
            Self::Bindings(refused) => refused.fmt(f),
            Self::NoRoom => f.write_str("earlier changes are still being read; try again"),
        }
    }
}

/// The tables, to write. The control side has them.
pub(crate) struct Tables {
    shared: Arc<Subscribers>,
    index: Exact,
    only: Only,
    limits: Limits,
    subscribers: FreeList,
    bindings: FreeList,
    blocks: FreeList,
    /// Subscribers in each block.
    in_block: Vec<u32>,
    used_blocks: u32,
}

impl Tables {
    /// Empty tables for so many access ports. `seed` decides where addresses stand, so that no customer can choose some that
    /// stand in each other's way.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn new(limits: Limits, ports: usize, domain: &Domain, seed: u64) -> Result<Tables, arena::Error> {
        let limits = limits.clamped(ports);
        // Twice as many records as there may be, so that all can be changed at once.
        let (subscribers, bindings) = (2 * limits.subscribers, 2 * limits.bindings);
        let blocks = limits.svlans + SPARE_BLOCKS;
        let cvlans = (blocks as usize + 1) * VLANS;
        let index = Exact::new(limits.bindings, seed)?;
        let (only, words) = Only::new(limits.has_keys, limits.subscribers)?;
        let shared = Subscribers {
            svlans: HugeSlice::new(ports * VLANS)?,
            // One more, which stays empty.
            cvlans: HugeSlice::new(cvlans)?,
            subscribers: HugeSlice::new(subscribers as usize)?,
            networks: HugeSlice::new(subscribers as usize)?,
            by_address: Arc::clone(index.index()),
            only: words,
            bindings: HugeSlice::new(bindings as usize)?,
            halves: HugeSlice::new(bindings as usize)?,
            owners: OwnerBytes::new(limits.is_balanced, cvlans, limits.subscribers)?,
            prefix_mask: prefix_mask(limits.prefix_length),
        };
        Ok(Tables {
            shared: Arc::new(shared),
            index,
            only,
            limits,
            subscribers: FreeList::new(subscribers, domain),
            bindings: FreeList::new(bindings, domain),
            blocks: FreeList::new(blocks, domain),
            in_block: vec![0; blocks as usize],
            used_blocks: 0,
        })
    }

    /// What workers look up in.
    pub(crate) fn shared(&self) -> &Arc<Subscribers> {
        &self.shared
    }

    /// Addresses and prefixes in the table.
    pub(crate) fn bindings(&self) -> u32 {
        self.index.len()
    }

    /// Records that wait for readers to pass.
    pub(crate) fn waiting(&self) -> usize {
        self.subscribers.waiting() + self.bindings.waiting() + self.blocks.waiting()
    }

    /// Puts a subscriber behind its tags, or another record of it (or of another one) in place of the one that is there.
    ///
    /// # Errors
    ///
    /// [`Refused`] when there is no room.
    pub(crate) fn set_subscriber(&mut self, fields: &SubscriberFields) -> Result<(), Refused> {
        let place = self.subscribers.take().ok_or(Refused::NoRoom)?;
        write(self.shared.subscribers.get(place as usize), fields.words());
        write(self.shared.networks.get(place as usize), fields.network_words());
        let Tags { port, svlan, .. } = fields.tags;
        if self.block_at(port, svlan).is_none()
            && let Err(refused) = self.add_block(port, svlan)
        {
            self.subscribers.give_back_unseen(place);
            return Err(refused);
        }
        if let Some(network) = fields.network6(self.shared.prefix_mask)
            && let Some(record) = self.shared.subscriber(place)
        {
            let key = BindingKey::new6(fields.scope, network);
            let binding = self.shared.find(key, self.shared.hash(key)).and_then(|place| self.shared.binding(place));
            let binding = binding.filter(|binding| binding.subscriber() == fields.number);
            let senders = binding.map_or(Senders::UNKNOWN, BindingRecord::senders);
            record.set_senders6(network, self.shared.prefix_mask, senders);
        }
        self.store(fields.tags, Found::new(place, fields.number), Owners::owner_in(fields.user));
        Ok(())
    }

    /// Takes whoever is behind these tags away.
    pub(crate) fn remove_subscriber(&mut self, tags: Tags) {
        if self.shared.by_tags(tags.port, tags.svlan, tags.cvlan).is_some() {
            self.store(tags, Found::NONE, 0);
        }
    }

    /// Stores the word of a pair of tags whose block is there, and gives back what it led to.
    fn store(&mut self, Tags { port, svlan, cvlan }: Tags, found: Found, owner: u8) {
        let Some(at) = self.block_at(port, svlan) else { return };
        let place = first_word(at) + usize::from(cvlan) % VLANS;
        let Some(word) = self.shared.cvlans.get(place) else { return };
        // Balancers know first: what comes before the owner knows the subscriber is nobody's yet.
        self.shared.owners.set_tags(place, owner);
        // Release: the record is seen whole by who sees the word.
        let old = Found(word.swap(found.0, Ordering::Release));
        let Some(count) = self.in_block.get_mut(at as usize) else { return };
        *count = *count + u32::from(!found.is_none()) - u32::from(!old.is_none());
        if *count == 0 {
            self.remove_block(port, svlan, at);
        }
        if !old.is_none() {
            self.subscribers.give_back(old.place());
        }
    }

    /// Says whose the subscriber with a GRE key is.
    pub(crate) fn set_key_owner(&self, key: u32, owner: u8) {
        self.shared.owners.set_key(key, owner);
    }

    /// The block of an SVLAN, if it has one.
    fn block_at(&self, port: u8, svlan: u16) -> Option<u32> {
        let first = self.shared.svlans.get(svlan_place(port, svlan))?.load(Ordering::Relaxed);
        (first / VLANS as u32).checked_sub(1)
    }

    fn add_block(&mut self, port: u8, svlan: u16) -> Result<(), Refused> {
        if self.used_blocks >= self.limits.svlans {
            return Err(Refused::TooManySvlans(self.limits.svlans));
        }
        let word = self.shared.svlans.get(svlan_place(port, svlan)).ok_or(Refused::TooManySvlans(0))?;
        // It is empty: its last subscriber was taken out before it was given back.
        let at = self.blocks.take().ok_or(Refused::NoRoom)?;
        word.store(first_word(at) as u32, Ordering::Release);
        self.used_blocks += 1;
        Ok(())
    }

    fn remove_block(&mut self, port: u8, svlan: u16, at: u32) {
        if let Some(word) = self.shared.svlans.get(svlan_place(port, svlan)) {
            word.store(0, Ordering::Release);
            self.blocks.give_back(at);
            self.used_blocks -= 1;
        }
    }

    /// Says where an address is, for the first time or anew.
    ///
    /// # Errors
    ///
    /// [`Refused`] when there is no room.
    pub(crate) fn set_binding(&mut self, fields: &BindingFields) -> Result<(), Refused> {
        let hash = self.shared.hash(fields.key);
        let place = self.bindings.take().ok_or(Refused::NoRoom)?;
        write(self.shared.bindings.get(place as usize), fields.words());
        if let Some(half) = self.shared.halves.get(place as usize) {
            half.store(fields.key.host(), Ordering::Relaxed);
        }
        let found = Found::new(place, fields.subscriber);
        let (only, words) = (&mut self.only, &self.shared.only);
        match self.shared.find_whole(fields.key, hash).filter(|old| old.place() != place) {
            Some(old) => {
                // It may be another subscriber's from now on, whose word is written below.
                self.shared.tell_senders(fields.key, old.place(), false);
                self.index.replace(hash, old.0, found.0);
                fields.key.scope4().into_iter().for_each(|key| only.replaced(words, key, found));
                self.bindings.give_back(old.place());
            }
            None => {
                self.index.insert(hash, found.0).map_err(|refused| {
                    self.bindings.give_back_unseen(place);
                    Refused::Bindings(refused)
                })?;
                fields.key.scope4().into_iter().for_each(|key| only.added(words, key, found));
            }
        }
        self.shared.tell_senders(fields.key, place, true);
        Ok(())
    }

    /// Forgets where an address is.
    pub(crate) fn remove_binding(&mut self, key: BindingKey) {
        let hash = self.shared.hash(key);
        if let Some(found) = self.shared.find_whole(key, hash) {
            self.shared.tell_senders(key, found.place(), false);
            if !self.index.remove(hash, found.0) {
                return;
            }
            key.scope4().into_iter().for_each(|key| self.only.removed(&self.shared.only, key));
            self.bindings.give_back(found.place());
        }
    }
}

impl Subscribers {
    /// Tells the subscriber of the binding at a place from which stations packets of its network come, if that is its first one: those that the binding
    /// knows, as long as it `counts`.
    fn tell_senders(&self, key: BindingKey, place: u32, counts: bool) {
        let (Some(network), Some(binding)) = (key.half6(), self.binding(place)) else { return };
        let Tags { port, svlan, cvlan } = binding.tags();
        let record = self.by_tags(port, svlan, cvlan).and_then(|place| self.subscriber(place));
        let is_its =
            |record: &SubscriberRecord<'_>| (record.number(), record.scope()) == (binding.subscriber(), key.scope());
        if let Some(record) = record.filter(is_its) {
            let senders = if counts { binding.senders() } else { Senders::UNKNOWN };
            record.set_senders6(network, self.prefix_mask, senders);
        }
    }
}

/// The first bits of the first half of an IPv6 address.
fn prefix_mask(length: u8) -> u64 {
    u64::MAX.checked_shl(64_u32.saturating_sub(u32::from(length))).unwrap_or(0)
}

/// The first word of a block of CVLANs: behind that of the block which stays empty.
const fn first_word(block: u32) -> usize {
    (block as usize + 1) * VLANS
}

const _: () = assert!(size_of::<Line>() == 32);
