//! Subscribers and their addresses as workers see them: who is behind a pair of tags, and where an address is.
//!
//! Workers read, the control side alone writes ([`Tables`]). What is found lies in *records* of half a cache line, which are never
//! changed while a reader can reach them: a change fills another record, then stores the one word that leads to it. The old one
//! is used again after a grace period ([`FreeList`](weir_table::free_list::FreeList)). One word of a record changes in place: what a subscriber's
//! says of the binding of its first IPv6 network.
//!
//! | from | by | to |
//! |---|---|---|
//! | (port, SVLAN) | a word each: the block of its 4,096 CVLANs, where any is in use | [`SubscriberRecord`] |
//! | (scope, address) | an exact-match index ([`weir_table::exact`]) | [`BindingRecord`] |
//! | GRE key, below a bound | a word each, where it has exactly one IPv4 address | the same |
//!
//! The word that leads to a record ([`Found`]) says the subscriber's number besides, so that the record and the subscriber's
//! counters can be asked for at once.
//!
//! The *scope* parts equal addresses: it is the GRE key where subscribers have one, and 0 with plain IP, where all subscribers share
//! one address space.

mod binding;
pub(crate) mod counters;
mod only;
mod owners;
mod subscriber;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_mem::HugeSlice;
use weir_mem::prefetch::prefetch_slice;
use weir_table::exact::{Hash, Index};

use only::OnlyWords;
use owners::OwnerBytes;

pub(crate) use binding::{Address, BindingFields, BindingKey, BindingRecord, Stations};
pub(crate) use subscriber::{Senders, Sources4, Sources6, SubscriberFields, SubscriberRecord, Tags};
pub(crate) use writer::{Limits, Refused, Tables};

/// VLAN identifiers of a tag.
const VLANS: usize = 4096;

/// A record: half a cache line.
type Line = [AtomicU64; 4];

/// A word that leads to a record: whose it is, and where it lies. What is behind no key has none: [`Found::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found(u64);

/// Bits of one more than a place.
const PLACE_BITS: u32 = 24;
/// Bits of a subscriber's number.
const NUMBER_BITS: u32 = 20;

const _: () = assert!(PLACE_BITS + NUMBER_BITS <= weir_table::exact::VALUE_BITS);

impl Found {
    /// Leads nowhere.
    pub(crate) const NONE: Found = Found(0);

    /// The subscriber of this number, and a record at this place.
    const fn new(place: u32, number: u32) -> Found {
        Found((place as u64 + 1) | (number as u64) << PLACE_BITS)
    }

    /// The place of the record; one that no record has for none.
    #[inline(always)]
    pub(crate) const fn place(self) -> u32 {
        (self.0 as u32 & ((1 << PLACE_BITS) - 1)).wrapping_sub(1)
    }

    /// The subscriber's number.
    #[inline(always)]
    pub(crate) const fn number(self) -> u32 {
        (self.0 >> PLACE_BITS) as u32
    }

    #[inline(always)]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// All that workers look up in. Places of records are good until the worker has finished its batch.
pub(crate) struct Subscribers {
    /// By (port, SVLAN), the first word of the block of its CVLANs; that of the first block, which stays empty, for none.
    svlans: HugeSlice<AtomicU32>,
    /// By CVLAN, block after block, what [`Found`] is made of.
    cvlans: HugeSlice<AtomicU64>,
    subscribers: HugeSlice<Line>,
    /// What is seldom asked for of subscribers, at the same places.
    networks: HugeSlice<Line>,
    by_address: Arc<Index>,
    only: OnlyWords,
    bindings: HugeSlice<Line>,
    /// Second halves of the addresses of IPv6 hosts, at the same places.
    halves: HugeSlice<AtomicU64>,
    owners: OwnerBytes,
    /// The bits of an IPv6 address's first half that are looked up.
    prefix_mask: u64,
}

impl Subscribers {
    /// Where the word of a pair of tags of the access port at this position lies, for [`found`](Self::found), whose line is asked for.
    #[inline(always)]
    pub(crate) fn seek(&self, port: u8, svlan: u16, cvlan: u16) -> u32 {
        let at = self.word_of(port, svlan, cvlan);
        prefetch_slice(&self.cvlans, at as usize);
        at
    }

    #[inline(always)]
    fn word_of(&self, port: u8, svlan: u16, cvlan: u16) -> u32 {
        // Acquire, here and below: what a word leads to is seen whole.
        let block = self.svlans.get(svlan_place(port, svlan)).map_or(0, |word| word.load(Ordering::Acquire));
        block + u32::from(cvlan) % VLANS as u32
    }

    /// Where the byte of a pair of tags lies, for [`owner_at`](Self::owner_at), whose line is asked for.
    #[inline(always)]
    pub(crate) fn seek_owner(&self, port: u8, svlan: u16, cvlan: u16) -> u32 {
        let at = self.word_of(port, svlan, cvlan);
        self.owners.prefetch(at);
        at
    }

    /// The worker that has who is behind the tags whose byte lies there; 0 for nobody.
    #[inline(always)]
    pub(crate) fn owner_at(&self, at: u32) -> u8 {
        self.owners.by_tags(at)
    }

    /// Asks for the byte that [`owner_by_key`](Self::owner_by_key) reads. Answers whether the key has one; the owner of others is that of a
    /// [binding](BindingRecord::owner).
    #[inline(always)]
    pub(crate) fn prefetch_key_owner(&self, key: u32) -> bool {
        self.owners.prefetch_key(key)
    }

    /// The worker that has the subscriber with this GRE key; 0 for nobody.
    #[inline(always)]
    pub(crate) fn owner_by_key(&self, key: u32) -> u8 {
        self.owners.by_key(key)
    }

    /// Who is behind the tags whose word lies there.
    #[inline(always)]
    pub(crate) fn found(&self, at: u32) -> Found {
        Found(self.cvlans.get(at as usize).map_or(0, |word| word.load(Ordering::Acquire)))
    }

    /// The place of the record of who is behind these tags of the access port at this position; `None` for nobody.
    #[inline(always)]
    pub(crate) fn by_tags(&self, port: u8, svlan: u16, cvlan: u16) -> Option<u32> {
        let found = self.found(self.seek(port, svlan, cvlan));
        (!found.is_none()).then_some(found.place())
    }

    /// Asks for a subscriber's record.
    #[inline(always)]
    pub(crate) fn prefetch_subscriber(&self, place: u32) {
        prefetch_slice(&self.subscribers, place as usize);
    }

    /// Asks for what a subscriber's record says of IPv6.
    #[inline(always)]
    pub(crate) fn prefetch_networks(&self, place: u32) {
        prefetch_slice(&self.networks, place as usize);
    }

    /// A subscriber's record.
    #[inline(always)]
    pub(crate) fn subscriber(&self, place: u32) -> Option<SubscriberRecord<'_>> {
        self.subscribers.get(place as usize).map(|line| SubscriberRecord::new(line, &self.networks, place))
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

    /// The key of an IPv6 host.
    pub(crate) fn key_host6(&self, scope: u32, address: u128) -> BindingKey {
        BindingKey::new_host6(scope, address)
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn hash(&self, key: BindingKey) -> Hash {
        let (high, low) = key.words();
        self.by_address.hash(high, low)
    }

    /// Asks for the line that [`candidate`](Self::candidate) reads.
    #[inline(always)]
    pub(crate) fn prefetch_bucket(&self, hash: Hash) {
        self.by_address.prefetch(hash);
    }

    /// The binding that most probably has this key: see [`BindingRecord::is`], and if it has not, [`find`](Self::find).
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: Hash) -> Found {
        self.by_address.candidate(hash).map_or(Found::NONE, Found)
    }

    /// Asks for the word that [`only4`](Self::only4) reads.
    #[inline(always)]
    pub(crate) fn prefetch_key(&self, key: u32) {
        self.only.prefetch(key);
    }

    /// The binding of the only IPv4 address with this GRE key; [`Found::NONE`] where there are others, or the key has no word.
    #[inline(always)]
    pub(crate) fn only4(&self, key: u32) -> Found {
        self.only.get(key)
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
        self.find_whole(key, hash).map(Found::place)
    }

    /// As [`find`](Self::find), with the number.
    fn find_whole(&self, key: BindingKey, hash: Hash) -> Option<Found> {
        let is = |value| self.is_at(Found(value).place(), key);
        self.by_address.find(hash, is).map(Found)
    }

    /// Whether the binding at a place is that of a key.
    fn is_at(&self, place: u32, key: BindingKey) -> bool {
        let is_host = || self.halves.get(place as usize).is_some_and(|half| half.load(Ordering::Relaxed) == key.host());
        self.binding(place).is_some_and(|binding| binding.is(key)) && (!key.is_host6() || is_host())
    }

    /// Bytes that lookups may touch.
    pub(crate) fn bytes(&self) -> usize {
        self.svlans.bytes()
            + self.cvlans.bytes()
            + self.subscribers.bytes()
            + self.networks.bytes()
            + self.by_address.bytes()
            + self.only.bytes()
            + self.bindings.bytes()
            + self.halves.bytes()
            + self.owners.bytes()
    }
}

/// Where the word of (port, SVLAN) lies.
#[inline(always)]
const fn svlan_place(port: u8, svlan: u16) -> usize {
    port as usize * VLANS + svlan as usize % VLANS
}

/// Writes a record that no reader can reach. What leads to it is stored later, with release.
fn write(line: Option<&Line>, words: [u64; 4]) {
    for (to, word) in line.into_iter().flatten().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}

#[inline(always)]
fn word<const N: usize>(line: &Line) -> u64 {
    const { assert!(N < 4) };
    line[N].load(Ordering::Relaxed)
}
