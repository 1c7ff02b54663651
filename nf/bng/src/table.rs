//! Subscribers and their addresses as workers see them: who is behind a pair of tags, and where an address is.
//!
//! Workers read, the control side alone writes ([`Tables`]). What is found lies in *records* of one cache line, which are never
//! changed while a reader can reach them: a change fills another record, then stores the one word that leads to it. The old one
//! is used again after a grace period ([`slots::Slots`]).
//!
//! | from | by | to |
//! |---|---|---|
//! | (port, SVLAN) | a word each: the block of its 4,096 CVLANs, where any is in use | [`SubscriberRecord`] |
//! | (scope, address) | an exact-match index ([`weir_table::exact`]) | [`BindingRecord`] |
//!
//! The *scope* parts equal addresses: it is the GRE key where subscribers have one, and 0 with plain IP, where all subscribers share
//! one address space.

mod binding;
pub(crate) mod counters;
mod slots;
mod subscriber;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_mem::HugeSlice;
use weir_mem::prefetch::prefetch_slice;
use weir_table::exact::{Hash, Index};

pub(crate) use binding::{Address, BindingFields, BindingKey, BindingRecord};
pub(crate) use subscriber::{Sources4, Sources6, SubscriberFields, SubscriberRecord, Tags};
pub(crate) use writer::{Limits, Refused, Tables};

/// VLAN identifiers of a tag.
const VLANS: usize = 4096;

/// A record: one cache line.
type Line = [AtomicU64; 8];

/// By CVLAN, one more than the place of a subscriber's record; 0 for none.
type Block = [AtomicU32; VLANS];

/// All that workers look up in. Places of records are good until the worker has finished its batch.
pub(crate) struct Subscribers {
    /// By (port, SVLAN), one more than the block of its CVLANs; 0 for none.
    svlans: HugeSlice<AtomicU32>,
    blocks: HugeSlice<Block>,
    subscribers: HugeSlice<Line>,
    by_address: Arc<Index>,
    bindings: HugeSlice<Line>,
    /// The bits of an IPv6 address's first half that are looked up.
    prefix_mask: u64,
}

impl Subscribers {
    /// Asks for the line that [`by_tags`](Self::by_tags) reads last.
    #[inline(always)]
    pub(crate) fn prefetch_tags(&self, port: u8, svlan: u16, cvlan: u16) {
        if let Some(block) = self.block(port, svlan) {
            prefetch_slice(block, cvlan as usize);
        }
    }

    /// The place of the record of who is behind these tags of the access port at this position; `None` for nobody.
    #[inline(always)]
    pub(crate) fn by_tags(&self, port: u8, svlan: u16, cvlan: u16) -> Option<u32> {
        // Acquire, here and below: what a word leads to is seen whole.
        let word = self.block(port, svlan)?.get(cvlan as usize % VLANS)?.load(Ordering::Acquire);
        word.checked_sub(1)
    }

    #[inline(always)]
    fn block(&self, port: u8, svlan: u16) -> Option<&Block> {
        let word = self.svlans.get(svlan_place(port, svlan))?.load(Ordering::Acquire);
        self.blocks.get(word.checked_sub(1)? as usize)
    }

    /// Asks for a subscriber's record.
    #[inline(always)]
    pub(crate) fn prefetch_subscriber(&self, place: u32) {
        prefetch_slice(&self.subscribers, place as usize);
    }

    /// A subscriber's record.
    #[inline(always)]
    pub(crate) fn subscriber(&self, place: u32) -> Option<SubscriberRecord<'_>> {
        self.subscribers.get(place as usize).map(SubscriberRecord::new)
    }

    /// The key of an IPv4 address (in host order).
    #[inline(always)]
    pub(crate) fn key4(&self, scope: u32, address: u32) -> BindingKey {
        BindingKey::new4(scope, address)
    }

    /// The key of an IPv6 address, of which the first half is given (in host order).
    #[inline(always)]
    pub(crate) fn key6(&self, scope: u32, first_half: u64) -> BindingKey {
        BindingKey::new6(scope, first_half & self.prefix_mask)
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn hash(&self, key: BindingKey) -> Hash {
        self.by_address.hash(key.high(), key.low())
    }

    /// Asks for the line that [`candidate`](Self::candidate) reads.
    #[inline(always)]
    pub(crate) fn prefetch_bucket(&self, hash: Hash) {
        self.by_address.prefetch(hash);
    }

    /// The place of the binding that most probably has this key: see [`BindingRecord::is`], and if it has not, [`find`](Self::find).
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: Hash) -> Option<u32> {
        self.by_address.candidate(hash)
    }

    /// Asks for a binding's record.
    #[inline(always)]
    pub(crate) fn prefetch_binding(&self, place: u32) {
        prefetch_slice(&self.bindings, place as usize);
    }

    /// A binding's record.
    #[inline(always)]
    pub(crate) fn binding(&self, place: u32) -> Option<BindingRecord<'_>> {
        self.bindings.get(place as usize).map(BindingRecord::new)
    }

    /// The place of the binding of a key, for certain.
    pub(crate) fn find(&self, key: BindingKey, hash: Hash) -> Option<u32> {
        self.by_address.find(hash, |place| self.binding(place).is_some_and(|binding| binding.is(key)))
    }

    /// Bytes that lookups may touch.
    pub(crate) fn bytes(&self) -> usize {
        self.svlans.bytes()
            + self.blocks.bytes()
            + self.subscribers.bytes()
            + self.by_address.bytes()
            + self.bindings.bytes()
    }
}

/// Where the word of (port, SVLAN) lies.
#[inline(always)]
const fn svlan_place(port: u8, svlan: u16) -> usize {
    port as usize * VLANS + svlan as usize % VLANS
}

/// Writes a record that no reader can reach. What leads to it is stored later, with release.
fn write(line: Option<&Line>, words: [u64; 8]) {
    for (to, word) in line.into_iter().flatten().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}

#[inline(always)]
fn word<const N: usize>(line: &Line) -> u64 {
    const { assert!(N < 8) };
    line[N].load(Ordering::Relaxed)
}
