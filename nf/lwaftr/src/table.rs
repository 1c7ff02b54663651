//! The binding table as workers see it: from an IPv4 address and a port to the customer whose they are.
//!
//! A shared address leads to how its ports are divided, and to nothing else; address and PSID lead to a *record* of one cache line with all that
//! packets need: both ends of the tunnel. So a look-up reads three lines, of which the first is one of few where many share an address. Each can be
//! asked for ahead.
//!
//! The control side alone writes. A record is written before the word of the index that leads to it, and never again before all workers have
//! passed a quiescent point after it was taken out. What an index answers is compared with the record, which has the address, the PSID **and** how
//! ports were divided when it was made: what anybody finds is whole, and its own.

mod counters;
mod writer;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_mem::HugeSlice;
use weir_mem::prefetch::prefetch_slice;
use weir_table::exact::{Hash, Index};

pub(crate) use counters::{Counters, Direction, Sums, WorkerCounters};
pub(crate) use writer::{Limits, Writer};

use weir_wire::port_sets::{PortSets, WORD_BITS};

/// A customer's part of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) ipv4: Ipv4Addr,
    pub(crate) psid: u16,
}

impl Key {
    /// The first one.
    pub(crate) const LEAST: Key = Key { ipv4: Ipv4Addr::UNSPECIFIED, psid: 0 };

    /// The next one in order, whether there is such a softwire or not.
    pub(crate) fn next(self) -> Option<Key> {
        let number = u64::from(self.ipv4.to_bits()) << 16 | u64::from(self.psid);
        let next = number + 1;
        u32::try_from(next >> 16).ok().map(|ipv4| Key { ipv4: ipv4.into(), psid: next as u16 })
    }
}

/// The ends of a customer's tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    /// The customer's.
    pub(crate) b4: Ipv6Addr,
    /// The relay's.
    pub(crate) aftr: Ipv6Addr,
}

/// The record of a softwire, a cache line: both ends (words 0 to 3), and what it was made for (word 4, see [`tell`]).
type Record = [AtomicU64; 8];

/// A place that no record has.
const NOWHERE: u32 = u32::MAX;

/// Word 4 of a record: address, PSID, and how the ports of the address are divided.
#[inline(always)]
const fn tell(ipv4: u32, psid: u16, sets: PortSets) -> u64 {
    (ipv4 as u64) << 32 | (psid as u64) << 16 | sets.word()
}

const _: () = assert!(WORD_BITS <= 16);

/// A softwire that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Softwire {
    /// The place of its record, at which it is counted.
    pub(crate) place: u32,
    pub(crate) key: Key,
    pub(crate) ends: Ends,
}

/// What workers look up in.
pub(crate) struct Softwires {
    addresses: Arc<Index>,
    parts: Arc<Index>,
    /// The address that leads to a place, by place.
    shared: HugeSlice<AtomicU64>,
    records: HugeSlice<Record>,
}

/// Set in a word of [`Softwires::shared`] that is an address, so that none is 0.
const ADDRESS: u64 = 1 << 32;

impl Softwires {
    #[inline(always)]
    pub(crate) fn hash_of_address(&self, ipv4: u32) -> Hash {
        self.addresses.hash(0, u64::from(ipv4))
    }

    #[inline(always)]
    pub(crate) fn hash_of_part(&self, ipv4: u32, psid: u16) -> Hash {
        self.parts.hash(u64::from(psid), u64::from(ipv4))
    }

    /// Asks for the line that the look-up of an address reads.
    #[inline(always)]
    pub(crate) fn prefetch_address(&self, hash: Hash) {
        self.addresses.prefetch(hash);
    }

    /// Asks for the line that the look-up of a part reads.
    #[inline(always)]
    pub(crate) fn prefetch_part(&self, hash: Hash) {
        self.parts.prefetch(hash);
    }

    /// Asks for a record.
    #[inline(always)]
    pub(crate) fn prefetch_record(&self, place: u32) {
        prefetch_slice(&self.records, place as usize);
    }

    /// How the ports of an address are divided, most probably.
    #[inline(always)]
    pub(crate) fn candidate_sets(&self, hash: Hash) -> Option<PortSets> {
        self.addresses.candidate(hash).map(|value| PortSets::of_word(value >> 32))
    }

    /// The place of the record of a part, most probably; a place that there is not if there is none.
    #[inline(always)]
    pub(crate) fn candidate_place(&self, hash: Hash) -> u32 {
        self.parts.candidate(hash).map_or(NOWHERE, |place| place as u32)
    }

    /// The ends of the tunnel at a place, as they lie in packets, if its record was made for this.
    #[inline(always)]
    pub(crate) fn ends_at(&self, place: u32, ipv4: u32, psid: u16, sets: PortSets) -> Option<[u64; 4]> {
        let [a, b, c, d, told, ..] = self.records.get(place as usize)?;
        // The word that led here was loaded before, with acquire: the record is whole.
        (told.load(Ordering::Relaxed) == tell(ipv4, psid, sets))
            .then(|| [a, b, c, d].map(|word| word.load(Ordering::Relaxed)))
    }

    /// How the ports of an address are divided, for certain; `None` if nobody shares it.
    pub(crate) fn sets_of(&self, ipv4: Ipv4Addr) -> Option<PortSets> {
        let wanted = ADDRESS | u64::from(ipv4.to_bits());
        let is = |value: u64| {
            let word = self.shared.get(value as u32 as usize);
            word.is_some_and(|word| word.load(Ordering::Relaxed) == wanted)
        };
        let value = self.addresses.find(self.hash_of_address(ipv4.to_bits()), is)?;
        Some(PortSets::of_word(value >> 32))
    }

    /// The softwire of a part, for certain.
    pub(crate) fn find(&self, key: Key, sets: PortSets) -> Option<Softwire> {
        let (ipv4, psid) = (key.ipv4.to_bits(), key.psid);
        let is = |place: u64| self.ends_at(place as u32, ipv4, psid, sets).is_some();
        let place = self.parts.find(self.hash_of_part(ipv4, psid), is)? as u32;
        let words = self.ends_at(place, ipv4, psid, sets)?;
        Some(Softwire { place, key, ends: Ends::of_words(words) })
    }

    /// The softwire that has a port of an address, or all of it for packets without ports.
    pub(crate) fn owner(&self, ipv4: Ipv4Addr, port: Option<u16>) -> Option<Softwire> {
        let sets = self.sets_of(ipv4)?;
        let psid = port.map_or_else(|| sets.portless(), |port| sets.psid(port))?;
        self.find(Key { ipv4, psid }, sets)
    }
}

impl Ends {
    /// As four words that lie in packets.
    fn words(self) -> [u64; 4] {
        let [b4, aftr] = [self.b4, self.aftr].map(|address| words_of(&address.octets()));
        [b4[0], b4[1], aftr[0], aftr[1]]
    }

    fn of_words([a, b, c, d]: [u64; 4]) -> Ends {
        Ends { b4: address_of([a, b]), aftr: address_of([c, d]) }
    }
}

/// An address as two words that lie in packets.
#[inline(always)]
pub(crate) fn words_of(octets: &[u8; 16]) -> [u64; 2] {
    let (halves, _) = octets.as_chunks::<8>();
    [0, 1].map(|n| halves.get(n).map_or(0, |half| u64::from_ne_bytes(*half)))
}

fn address_of([a, b]: [u64; 2]) -> Ipv6Addr {
    let mut octets = [0; 16];
    let both = a.to_ne_bytes().into_iter().chain(b.to_ne_bytes());
    octets.iter_mut().zip(both).for_each(|(to, from)| *to = from);
    octets.into()
}

#[cfg(test)]
mod tests;
