//! The binding table as workers see it: from an IPv4 address and a port to the customer whose they are.
//!
//! A shared address leads to how its ports are divided, and to nothing else; address and PSID lead to a *record* of one cache line with all that
//! packets need: both ends of the tunnel. So a look-up reads three lines, of which the first is one of few where many share an address. Each can be
//! asked for ahead. Where all addresses are divided alike the first is not read, and where they lie close to each other the second is a word of an
//! array ([`Dense`]).
//!
//! The control side alone writes, but for what workers learn of the path to a customer. A record is written before the word of the index that leads to it, and never again before all workers have
//! passed a quiescent point after it was taken out. What an index answers is compared with the record, which has the address, the PSID **and** how
//! ports were divided when it was made: what anybody finds is whole, and its own.

mod counters;
mod dense;
mod writer;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_ip::Onward;
use weir_mem::HugeSlice;
use weir_mem::prefetch::prefetch_slice;
use weir_table::exact::{Hash, Index};

pub(crate) use counters::{Counters, CountersView, Direction, Sums, WorkerCounters};
use dense::Dense;
pub(crate) use dense::DenseView;
pub(crate) use writer::{Limits, Writer};

use weir_wire::port_sets::{PortSets, WORD_BITS};

/// A customer's part of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) ipv4: Ipv4Addr,
    pub(crate) psid: u16,
}

impl From<(Ipv4Addr, u16)> for Key {
    fn from((ipv4, psid): (Ipv4Addr, u16)) -> Key {
        Key { ipv4, psid }
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

/// The record of a softwire, a cache line: both ends (words 0 to 3), what it was made for (word 4, see [`tell`]), what routers told of the path to
/// the customer (word 5, see [`Softwires::learn`]), and what routes answer for the customer's end (word 6, see [`Entry::answer`]).
type Record = [AtomicU64; 8];

/// Bytes of the longest packet that every path of IPv6 carries (RFC 8200 section 5).
const MIN_MTU: u16 = 1280;

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// How long what routers tell of a path is believed.
const PATH_SECONDS: u64 = 600;

/// Bits of a record's word 6 that are an answer; the others are of a version, which at a million changes a second takes 50 days to come round.
const ANSWER_BITS: u32 = Onward::PACKED_BITS;
const ANSWER: u64 = (1 << ANSWER_BITS) - 1;

/// A place that no record has.
const NOWHERE: u32 = u32::MAX;

/// Word 4 of a record: address, PSID, and how the ports of the address are divided.
#[inline(always)]
pub(crate) const fn tell(ipv4: u32, psid: u16, sets: PortSets) -> u64 {
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
    /// Whether some address stands elsewhere than where a [candidate](Index::candidate) does.
    has_far: AtomicBool,
    parts: Arc<Index>,
    dense: Dense,
    /// How the ports of all addresses are divided, if of all alike: [`COMMON`] and a [word](PortSets::word); 0 otherwise.
    common: AtomicU64,
    /// The lowest and the highest address that anybody shares, in the upper and the lower half; the lowest is higher if there is none.
    range: AtomicU64,
    /// The address that leads to a place, by place.
    shared: HugeSlice<AtomicU64>,
    records: HugeSlice<Record>,
}

/// Set in [`Softwires::common`] where it says something.
const COMMON: u64 = 1 << 63;

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

    /// The records, at hand.
    #[inline(always)]
    pub(crate) fn records(&self) -> Records<'_> {
        Records(&self.records)
    }

    /// How the ports of an address are divided, most probably.
    #[inline(always)]
    pub(crate) fn candidate_sets(&self, hash: Hash) -> Option<PortSets> {
        self.addresses.candidate(hash).map(|value| PortSets::of_word(value >> 32))
    }

    /// How the ports of all addresses are divided, if of all alike, as is usual: then nothing has to be looked up to know it. The record of a softwire
    /// says for certain, as for a [candidate](Self::candidate_sets).
    #[inline(always)]
    pub(crate) fn common_sets(&self) -> Option<PortSets> {
        let word = self.common.load(Ordering::Relaxed);
        (word != 0).then(|| PortSets::of_word(word & !COMMON))
    }

    /// The array of all softwires, if all addresses are divided like this and lie close to each other.
    #[inline(always)]
    pub(crate) fn dense(&self, common: PortSets) -> Option<DenseView<'_>> {
        self.dense.view(common)
    }

    /// The lowest and the highest address that anybody shares. Most that customers send to are beyond them.
    #[inline(always)]
    pub(crate) fn range(&self) -> RangeInclusive<u32> {
        let range = self.range.load(Ordering::Relaxed);
        (range >> 32) as u32..=range as u32
    }

    /// Whether nobody shares an address without a [candidate](Self::candidate_sets).
    #[inline(always)]
    pub(crate) fn is_nobodys(&self, ipv4: u32) -> bool {
        !self.has_far.load(Ordering::Acquire) || self.sets_of(ipv4.into()).is_none()
    }

    /// The place of the record of a part, most probably; a place that there is not if there is none.
    #[inline(always)]
    pub(crate) fn candidate_place(&self, hash: Hash) -> u32 {
        self.parts.candidate(hash).map_or(NOWHERE, |place| place as u32)
    }

    /// The record at a place, if it was made for what this word [tells](tell).
    #[inline(always)]
    pub(crate) fn entry(&self, place: u32, told: u64) -> Option<Entry<'_>> {
        self.records().entry(place, told)
    }

    /// A router on the way to a customer told that packets of its tunnel may have `mtu` bytes at most. That is believed for ten minutes, "a
    /// recommended value" (RFC 8201 section 4), and longer if it is told again. Nothing is believed below what all of IPv6 carries (the same section).
    pub(crate) fn learn(&self, place: u32, mtu: u16, now: u64) {
        let Some([.., path, _, _]) = self.records.get(place as usize) else { return };
        if mtu >= MIN_MTU {
            let shortest = self.path(place, now).map_or(mtu, |known| known.min(mtu));
            path.store((now / SECOND + PATH_SECONDS) << 16 | u64::from(shortest), Ordering::Relaxed);
        }
    }

    /// What is known of the path to a customer: bytes of the longest packet of its tunnel.
    pub(crate) fn path(&self, place: u32, now: u64) -> Option<u16> {
        let [.., path, _, _] = self.records.get(place as usize)?;
        let word = path.load(Ordering::Relaxed);
        if word != 0 && word >> 16 <= now / SECOND {
            // Unless somebody has learnt anew.
            _ = path.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        }
        (word != 0).then_some(word as u16)
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
        let told = tell(ipv4, psid, sets);
        let is = |place: u64| self.entry(place as u32, told).is_some();
        let place = self.parts.find(self.hash_of_part(ipv4, psid), is)? as u32;
        let entry = self.entry(place, told)?;
        Some(Softwire { place, key, ends: Ends::of_words(entry.ends()) })
    }

    /// The softwire that has a port of an address, or all of it for packets without ports.
    pub(crate) fn owner(&self, ipv4: Ipv4Addr, port: Option<u16>) -> Option<Softwire> {
        let sets = self.sets_of(ipv4)?;
        let psid = port.map_or_else(|| sets.portless(), |port| sets.psid(port))?;
        self.find(Key { ipv4, psid }, sets)
    }
}

/// All records, to be kept in registers during a batch.
#[derive(Clone, Copy)]
pub(crate) struct Records<'t>(&'t [Record]);

impl<'t> Records<'t> {
    /// Asks for a record.
    #[inline(always)]
    pub(crate) fn prefetch(self, place: u32) {
        prefetch_slice(self.0, place as usize);
    }

    /// The record at a place, if it was made for what this word [tells](tell).
    #[inline(always)]
    pub(crate) fn entry(self, place: u32, told: u64) -> Option<Entry<'t>> {
        let record = self.0.get(place as usize)?;
        let [.., made_for, _, _, _] = record;
        // The word that led here was loaded before, with acquire: the record is whole.
        (made_for.load(Ordering::Relaxed) == told).then_some(Entry(record))
    }
}

/// The record of a softwire.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'t>(&'t Record);

impl Entry<'_> {
    /// The ends of the tunnel, as they lie in packets.
    #[inline(always)]
    pub(crate) fn ends(self) -> [u64; 4] {
        let [a, b, c, d, ..] = self.0;
        [a, b, c, d].map(|word| word.load(Ordering::Relaxed))
    }

    /// Whether addresses in a packet, a source and a destination, are those of the customer's end and the other one. Word by word, each read only if
    /// those before are right: all of them at once would be put together in memory, and read from there before they have come.
    #[inline(always)]
    pub(crate) fn is_between(self, [source, destination]: [&[u8; 16]; 2]) -> bool {
        let [a, b, c, d, ..] = self.0;
        let is = |word: &AtomicU64, part: u64| word.load(Ordering::Relaxed) == part;
        let ([first, second], [third, fourth]) = (words_of(source), words_of(destination));
        is(a, first) && is(b, second) && is(c, third) && is(d, fourth)
    }

    /// Whether nothing is known of the [path](Softwires::path), as of nearly all.
    #[inline(always)]
    pub(crate) fn is_path_unknown(self) -> bool {
        let [.., path, _, _] = self.0;
        path.load(Ordering::Relaxed) == 0
    }

    /// What is known of the [path](Softwires::path), whether or not it counts any more; the longest packet there may be where nothing is known.
    pub(crate) fn path_once(self) -> usize {
        let [.., path, _, _] = self.0;
        let word = path.load(Ordering::Relaxed);
        if word == 0 { usize::MAX } else { usize::from(word as u16) }
    }

    /// What routes answered for the customer's end, with the [version](Onward::version) at which they did; 0 if nobody has asked.
    #[inline(always)]
    pub(crate) fn known(self) -> Known {
        let [.., known, _] = self.0;
        Known(known.load(Ordering::Relaxed))
    }

    /// Keeps what routes answered at a version that was read before they were asked. Version and answer are one word, so that both are of one look-up.
    #[inline(always)]
    pub(crate) fn keep_answer(self, version: u64, answer: u32) {
        let [.., known, _] = self.0;
        known.store(version << ANSWER_BITS | u64::from(Onward::packed(answer)), Ordering::Relaxed);
    }
}

/// What is [known](Entry::known) of where a tunnel leads.
#[derive(Clone, Copy)]
pub(crate) struct Known(u64);

impl Known {
    /// As a number; two softwires of one number lead the same way.
    #[inline(always)]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// The answer, if it is of this version: most tunnels go the same way for a long time.
    #[inline(always)]
    pub(crate) fn answer(self, version: u64) -> Option<u32> {
        let is_known = self.0 & !ANSWER == version << ANSWER_BITS && self.0 != 0;
        is_known.then(|| Onward::unpacked((self.0 & ANSWER) as u32))
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
