//! Where stations are: from an Ethernet address and a VLAN to a port.
//!
//! An entry is **one word**: what is left of the key once its bucket is known, the port, and when it was last seen. So all workers may
//! write as well as read: an entry is there whole or not at all, each change is one compare-and-swap, and nothing has to be freed after a
//! grace period. What one worker learns, all know.
//!
//! A *bucket* is one cache line of eight words, and a table has at least twice as many words as entries, so that a lookup nearly always
//! costs one line, which can be asked for ahead. Keys of 60 bits are permuted (an invertible hash, seeded because strangers choose Ethernet
//! addresses): the low bits choose the bucket and need not be stored, since the permutation can be undone. Where the bucket is full, an entry stands in one
//! of [`PROBES`] - 1 others.
//!
//! **Age** is a stamp of 5 bits: the number of a period, modulo [`PERIODS`]. A station that is seen again in the same period is not
//! written, so that what flows does not make lines travel between cores.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

/// Words of a bucket: one cache line.
pub const BUCKET: usize = 8;

/// Buckets that an entry may stand in.
pub const PROBES: u32 = 8;

/// The most entries that a table can be made for.
pub const MAX_CAPACITY: u32 = 1 << 22;

/// Periods that a stamp can tell apart.
pub const PERIODS: u8 = 32;

/// Bits of a key: 48 of an Ethernet address, 12 of a VLAN.
const KEY_BITS: u32 = 60;
const KEY: u64 = (1 << KEY_BITS) - 1;

/// Bits of a permuted key that its bucket always tells: no table has fewer buckets than they choose among.
const KNOWN_BITS: u32 = 14;
const KNOWN: u64 = (1 << KNOWN_BITS) - 1;

/// What a word holds, from the lowest bit on: port (8), stamp (5), static (1), present (1), probe (3), the rest of the permuted key (46).
const STAMP_AT: u32 = 8;
const STATIC: u16 = 1 << 13;
const PRESENT: u64 = 1 << 14;
const PROBE_AT: u32 = 15;
const REST_AT: u32 = 18;

/// The part of a word that says whose it is.
const IDENTITY: u64 = !(PRESENT - 1);

type Bucket = [AtomicU64; BUCKET];

/// A station: its Ethernet address and the VLAN that it is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Station(u64);

impl Station {
    /// The station with this address (48 bits, first byte highest) in a VLAN (12 bits); further bits are cut off.
    #[inline(always)]
    pub const fn new(address: u64, vlan: u16) -> Station {
        Station((vlan as u64 & 0xfff) << 48 | address & 0xffff_ffff_ffff)
    }

    /// Its address.
    pub const fn address(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }

    /// Its VLAN.
    pub const fn vlan(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

impl fmt::Debug for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}@{}", self.address(), self.vlan())
    }
}

/// What is known of a station.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry(u16);

impl Entry {
    /// A station that was seen behind a port in a period (modulo [`PERIODS`]).
    #[inline(always)]
    pub const fn learned(port: u8, period: u8) -> Entry {
        Entry(port as u16 | ((period % PERIODS) as u16) << STAMP_AT)
    }

    /// A station that somebody says is behind a port: it neither moves nor ages.
    pub const fn fixed(port: u8) -> Entry {
        Entry(port as u16 | STATIC)
    }

    /// Where it is.
    #[inline(always)]
    pub const fn port(self) -> u8 {
        self.0 as u8
    }

    /// The period in which it was last seen, modulo [`PERIODS`].
    pub const fn period(self) -> u8 {
        (self.0 >> STAMP_AT) as u8 % PERIODS
    }

    /// Whether somebody said where it is.
    pub const fn is_fixed(self) -> bool {
        self.0 & STATIC != 0
    }

    /// Periods since it was last seen, at the period `now`.
    pub const fn age(self, now: u8) -> u8 {
        now.wrapping_sub(self.period()) % PERIODS
    }

    #[inline(always)]
    const fn to_bits(self) -> u64 {
        self.0 as u64
    }

    #[inline(always)]
    const fn from_word(word: u64) -> Entry {
        Entry((word & !IDENTITY) as u16)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_fixed() { "fixed" } else { "learned" };
        write!(f, "{kind} at {} in {}", self.port(), self.period())
    }
}

/// A permuted key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// The part that a word holds.
    #[inline(always)]
    const fn rest(self) -> u64 {
        self.0 >> KNOWN_BITS
    }

    /// How a word of it begins at the `probe`-th try.
    #[inline(always)]
    const fn identity(self, probe: u32) -> u64 {
        self.rest() << REST_AT | (probe as u64) << PROBE_AT | PRESENT
    }

    /// The `nth` word of a bucket in the order in which words are filled.
    #[inline(always)]
    const fn word(self, nth: usize) -> usize {
        ((self.0 >> 40) as usize ^ nth) % BUCKET
    }
}

/// How far the bucket of the `probe`-th try is from the first: it follows from the rest of the key, so that it can be undone.
#[inline(always)]
const fn aside(rest: u64, probe: u32) -> u64 {
    rest.wrapping_mul(probe as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

/// All buckets that a station may stand in are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowded;

impl fmt::Display for Crowded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the table has no room for this station: all buckets that it may stand in are full")
    }
}

impl std::error::Error for Crowded {}

/// The table; whoever has it may look up and change.
pub struct MacTable {
    buckets: HugeSlice<Bucket>,
    mask: u64,
    /// Buckets that some entry needed; it only grows.
    probes: AtomicU32,
    seed: u64,
}

impl MacTable {
    /// An empty table for `capacity` entries (at most [`MAX_CAPACITY`]), of which `seed` decides where each stands: 16 bytes for each,
    /// rounded up to a power of two, and at least 1 MiB. It does not count them: it takes more as long as there is room.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(capacity: u32, seed: u64) -> Result<MacTable, arena::Error> {
        let words = 2 * capacity.min(MAX_CAPACITY) as usize;
        let buckets = words.div_ceil(BUCKET).next_power_of_two().max(1 << KNOWN_BITS);
        Ok(MacTable { buckets: HugeSlice::new(buckets)?, mask: buckets as u64 - 1, probes: AtomicU32::new(1), seed })
    }

    /// Where a station stands.
    #[inline(always)]
    pub const fn place(&self, station: Station) -> Place {
        Place(permute(station.0 ^ self.seed & KEY))
    }

    #[inline(always)]
    fn index(&self, place: Place, probe: u32) -> usize {
        ((place.0 ^ aside(place.rest(), probe)) & self.mask) as usize
    }

    /// Asks for the line that a lookup reads first.
    #[inline(always)]
    pub fn prefetch(&self, place: Place) {
        prefetch_slice(&self.buckets, self.index(place, 0));
    }

    /// What is known of a station.
    #[inline(always)]
    pub fn find(&self, place: Place) -> Option<Entry> {
        let bucket = self.buckets.get(self.index(place, 0))?;
        // Most stand in the word that they prefer: nearly all in a table that is far from full.
        let word = bucket[place.word(0)].load(Ordering::Relaxed);
        if (word ^ place.identity(0)) & IDENTITY == 0 {
            return Some(Entry::from_word(word));
        }
        match scan(bucket, place.identity(0)) {
            0 => self.find_aside(place),
            found => Some(Entry::from_word(found)),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_aside(&self, place: Place) -> Option<Entry> {
        self.words(place).map(|(word, _)| word).next().map(Entry::from_word)
    }

    /// The words of a station, in the order of probing: one, but for a moment after two workers entered it at once.
    fn words(&self, place: Place) -> impl Iterator<Item = (u64, &AtomicU64)> {
        // Whoever knows that an entry is there has seen the number that was stored before it.
        let probes = self.probes.load(Ordering::Acquire);
        (0..probes).flat_map(move |probe| {
            let words = self.bucket(place, probe);
            words.filter_map(move |word| {
                let value = word.load(Ordering::Acquire);
                (value & IDENTITY == place.identity(probe)).then_some((value, word))
            })
        })
    }

    /// The words of the bucket at the `probe`-th try, in the order in which they are filled.
    fn bucket(&self, place: Place, probe: u32) -> impl Iterator<Item = &AtomicU64> {
        let bucket = self.buckets.get(self.index(place, probe));
        bucket.into_iter().flat_map(move |bucket| (0..BUCKET).map(move |nth| &bucket[place.word(nth)]))
    }

    /// Enters a station that is not there. Where another worker does so at the same moment, one of the two stays; `gone` is told of
    /// the other.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn insert(&self, place: Place, entry: Entry, mut gone: impl FnMut(Entry)) -> Result<(), Crowded> {
        for probe in 0..PROBES {
            let new = place.identity(probe) | entry.to_bits();
            for word in self.bucket(place, probe) {
                if word.load(Ordering::Relaxed) != 0 {
                    continue;
                }
                // Before the word: who sees the word, or knows of it, looks as far.
                self.probes.fetch_max(probe + 1, Ordering::SeqCst);
                if word.compare_exchange(0, new, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                    self.keep_one(place, &mut gone);
                    return Ok(());
                }
            }
        }
        Err(Crowded)
    }

    /// Of several words of one station, the first stays. Whoever enters a station looks afterwards, so the last of them sees all.
    fn keep_one(&self, place: Place, gone: &mut impl FnMut(Entry)) {
        for (value, word) in self.words(place).skip(1) {
            if word.compare_exchange(value, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                gone(Entry::from_word(value));
            }
        }
    }

    /// Changes what is known of a station from `old` to `new`. False, and nothing done, if it is not `old` any more: somebody else was faster.
    pub fn replace(&self, place: Place, old: Entry, new: Entry) -> bool {
        self.words(place).next().is_some_and(|(value, word)| {
            let to = value & IDENTITY | new.to_bits();
            Entry::from_word(value) == old
                && word.compare_exchange(value, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Removes a station. Answers what was known of it; `None` if it was not there, or somebody else was faster.
    pub fn remove(&self, place: Place) -> Option<Entry> {
        let (value, word) = self.words(place).next()?;
        let removed = word.compare_exchange(value, 0, Ordering::AcqRel, Ordering::Relaxed);
        removed.ok().map(Entry::from_word)
    }

    /// Buckets: what [`retain`](Self::retain) goes through by the piece.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Shows `keep` every entry in some buckets, and removes those that it does not keep. An entry that somebody changes meanwhile stays,
    /// and is shown as it is then.
    pub fn retain(&self, buckets: Range<usize>, mut keep: impl FnMut(Station, Entry) -> bool) {
        let chosen = self.buckets.get(buckets.start.min(self.buckets.len())..buckets.end.min(self.buckets.len()));
        for (bucket, index) in chosen.unwrap_or_default().iter().zip(buckets.start as u64..) {
            for word in bucket {
                let mut value = word.load(Ordering::Acquire);
                while value != 0 && !keep(self.station(index, value), Entry::from_word(value)) {
                    match word.compare_exchange(value, 0, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => break,
                        Err(changed) => value = changed,
                    }
                }
            }
        }
    }

    /// Whose word it is that stands in a bucket.
    fn station(&self, index: u64, word: u64) -> Station {
        let (rest, probe) = (word >> REST_AT, (word >> PROBE_AT) as u32 % PROBES);
        let known = (index ^ aside(rest, probe)) & KNOWN;
        Station(restore(rest << KNOWN_BITS | known) ^ self.seed & KEY)
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.buckets.bytes()
    }
}

impl fmt::Debug for MacTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MacTable({} buckets)", self.buckets.len())
    }
}

/// The word of a bucket that begins so; 0 for none.
#[inline(never)]
fn scan(bucket: &Bucket, identity: u64) -> u64 {
    let mut found = 0;
    // Without a branch for each word: which one it is, is random.
    for word in bucket {
        let word = word.load(Ordering::Relaxed);
        found = if (word ^ identity) & IDENTITY == 0 { word } else { found };
    }
    found
}

/// Odd factors, and what undoes them modulo 2^60.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15 & KEY, 0xd6e8_feb8_6659_fd93 & KEY];
const UNDONE: [u64; 2] = [inverse(FACTORS[0]), inverse(FACTORS[1])];

/// A permutation of the numbers of 60 bits, in which every bit of the key reaches those that choose the bucket.
#[inline(always)]
const fn permute(key: u64) -> u64 {
    let one = key.wrapping_mul(FACTORS[0]) & KEY;
    let two = (one ^ one >> 30).wrapping_mul(FACTORS[1]) & KEY;
    two ^ two >> 30
}

/// Undoes [`permute`].
const fn restore(place: u64) -> u64 {
    // What a number of 60 bits was mixed with, its own high half, is unchanged.
    let two = place ^ place >> 30;
    let one = two.wrapping_mul(UNDONE[1]) & KEY;
    (one ^ one >> 30).wrapping_mul(UNDONE[0]) & KEY
}

/// The number whose product with an odd one is 1 modulo 2^60: each step of Newton's doubles the bits that are right.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse & KEY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permutation_can_be_undone() {
        let mut key = 1_u64;
        for n in 0..1_000_000 {
            key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n);
            let key = key & KEY;
            assert_eq!(restore(permute(key)), key);
        }
        // Stations of one maker, in all VLANs, do not crowd in few buckets.
        let mut used = vec![0_u8; 1 << KNOWN_BITS];
        (0..1_u64 << 16).for_each(|n| used[(permute(0x0200_0000_0000 + n) & KNOWN) as usize] += 1);
        assert!(used.iter().all(|count| *count < 20), "4 on average");
        used.fill(0);
        (0..1_u64 << 12).for_each(|vlan| used[(permute(vlan << 48 | 7) & KNOWN) as usize] += 1);
        assert!(used.iter().all(|count| *count < 8), "a quarter on average");
    }
}
