//! Exact match: from the hash of a key to where its record lies.
//!
//! The index holds no keys. A *bucket* is one cache line of eight words, each a tag (19 bits of the hash) and a value of up to
//! [`VALUE_BITS`] bits, such as an index into records that its user keeps; the user compares the key there. So a lookup costs two
//! lines, that of the bucket and that of the record, and both can be asked for ahead.
//!
//! An entry stands in the first bucket of its hash that has room, there in the half that its hash prefers if that has room; where
//! the bucket is full, in the next of at most [`PROBES`] others. At most half of all words are used, so that nearly all entries
//! (about 99 of 100 in a full index) stand in the first, and most in its preferred half, which is looked at first.
//! **Entries never move**: each change is one store of one word, and a reader finds a key that is there all the time, whatever the
//! writer does meanwhile. Readers wait for nobody.
//!
//! What a reader may see just after an entry was removed is a value whose record is no longer meant: records are freed
//! after a grace period ([`weir_mem::Domain`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

/// Entries of a bucket: one cache line of words.
pub const BUCKET: usize = 8;

/// Words of half a bucket.
const HALF: usize = BUCKET / 2;

/// Buckets that an entry may stand in.
pub const PROBES: u32 = 8;

/// The most entries that an index can be made for.
pub const MAX_CAPACITY: u32 = 1 << 28;

/// Bits of a value.
pub const VALUE_BITS: u32 = 44;

/// The part of a word that is the value.
const VALUE: u64 = (1 << VALUE_BITS) - 1;

/// Set in every word that is an entry, so that none is 0.
const ENTRY: u64 = 1 << VALUE_BITS;

/// Two halves.
type Bucket = [[AtomicU64; HALF]; 2];

/// The hash of a key. The low half chooses buckets, the highest bits are the tag, and the lowest of the high half prefers a half of a
/// bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash(u64);

impl Hash {
    /// A hash that was made elsewhere; all its bits should depend on the key.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Hash {
        Hash(bits)
    }

    /// All of it, as [`from_bits`](Self::from_bits) takes it.
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The tag, where it stands in a word.
    #[inline(always)]
    const fn tag(self) -> u64 {
        self.0 & !VALUE | ENTRY
    }

    /// The half of a bucket that is looked at first.
    #[inline(always)]
    const fn half(self) -> usize {
        (self.0 >> 32) as usize & 1
    }

    /// The bucket that an entry stands in at the `probe`-th try, of `mask + 1`.
    #[inline(always)]
    const fn bucket(self, probe: u32, mask: u32) -> usize {
        // An odd step goes round all buckets, whose number is a power of two.
        let step = (self.0 >> 32) as u32 | 1;
        ((self.0 as u32).wrapping_add(step.wrapping_mul(probe)) & mask) as usize
    }
}

/// Why an entry was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many entries as the index was made for.
    Full {
        /// How many that is.
        capacity: u32,
    },
    /// All buckets that it may stand in are full. Of random keys that is the fate of less than one in 10^12; a writer that
    /// lets others choose keys seeds its hash.
    Crowded,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { capacity } => write!(f, "the table is full: it holds {capacity} entries at most"),
            Self::Crowded => f.write_str("the table has no room for this key: too many others have a hash like it"),
        }
    }
}

impl std::error::Error for Refused {}

/// What workers look up in.
pub struct Index {
    buckets: HugeSlice<Bucket>,
    mask: u32,
    /// Buckets that some entry needed; it only grows.
    probes: AtomicU32,
    seed: u64,
}

impl Index {
    /// The hash of a key of up to 128 bits.
    #[inline(always)]
    pub const fn hash(&self, high: u64, low: u64) -> Hash {
        // Two multiplications to 128 bits, folded: every bit of the key and of the seed reaches every bit of the result.
        const A: u64 = 0x9e37_79b9_7f4a_7c15;
        const B: u64 = 0xd6e8_feb8_6659_fd93;
        let one = fold(low ^ self.seed, A);
        Hash(fold(high ^ one, B ^ self.seed))
    }

    /// Asks for the line that a lookup reads first.
    #[inline(always)]
    pub fn prefetch(&self, hash: Hash) {
        prefetch_slice(&self.buckets, hash.bucket(0, self.mask));
    }

    /// The value of this hash most probably: nearly always there is one candidate, and it is right. Compare the key; if it is
    /// another, or there is none, [`find`](Index::find) tells for certain.
    #[inline(always)]
    pub fn candidate(&self, hash: Hash) -> Option<u64> {
        let bucket = self.buckets.get(hash.bucket(0, self.mask))?;
        let [near, far] = halves(bucket, hash);
        let found = match scan(near, hash) {
            0 => scan(far, hash),
            found => found,
        };
        (found != 0).then_some(found & VALUE)
    }

    /// The value for which `is` says that it belongs to the key with this hash; `is` compares the key in the record.
    pub fn find(&self, hash: Hash, mut is: impl FnMut(u64) -> bool) -> Option<u64> {
        // Nearly always that is it, and takes no walk through all buckets.
        let first = self.candidate(hash);
        if first.is_some_and(&mut is) {
            return first;
        }
        self.words(hash).map(|word| word.load(Ordering::Acquire)).find_map(|word| {
            let value = word & VALUE;
            (is_tagged(word, hash) && first != Some(value) && is(value)).then_some(value)
        })
    }

    /// All words where an entry of this hash may stand, in the order of probing.
    fn words(&self, hash: Hash) -> impl Iterator<Item = &AtomicU64> {
        // Whoever knows that a key is there has seen the number that was stored before it.
        let probes = self.probes.load(Ordering::Acquire);
        self.probed(hash, probes).flatten()
    }

    /// The words of the buckets that an entry may stand in, each in the order in which it is filled.
    fn probed(&self, hash: Hash, probes: u32) -> impl Iterator<Item = impl Iterator<Item = &AtomicU64>> {
        (0..probes).filter_map(move |probe| {
            let bucket = self.buckets.get(hash.bucket(probe, self.mask))?;
            Some(halves(bucket, hash).into_iter().flatten())
        })
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.buckets.bytes()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({} buckets)", self.buckets.len())
    }
}

/// The product of two numbers, its halves added without carries.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product >> 64) as u64 ^ product as u64
}

#[inline(always)]
const fn is_tagged(word: u64, hash: Hash) -> bool {
    (word ^ hash.tag()) & !VALUE == 0
}

/// The half of a bucket that a hash prefers, and the other one.
#[inline(always)]
fn halves(bucket: &Bucket, hash: Hash) -> [&[AtomicU64; HALF]; 2] {
    let [first, second] = bucket;
    if hash.half() == 0 { [first, second] } else { [second, first] }
}

/// The word of half a bucket that has the tag of a hash; 0 for none.
#[inline(always)]
fn scan(half: &[AtomicU64; HALF], hash: Hash) -> u64 {
    let mut found = 0;
    // Without a branch for each word: which one it is, is random.
    for word in half {
        // Pairs with the release in `Exact`: the record that the word leads to is seen whole.
        let word = word.load(Ordering::Acquire);
        found = if is_tagged(word, hash) { word } else { found };
    }
    found
}

/// The writer of an [`Index`]: the control thread has it.
#[derive(Debug)]
pub struct Exact {
    index: Arc<Index>,
    capacity: u32,
    len: u32,
}

impl Exact {
    /// An empty index for up to `capacity` entries (at most [`MAX_CAPACITY`]), of which `seed` decides where each stands: 16 bytes
    /// for each entry, rounded up to a power of two.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(capacity: u32, seed: u64) -> Result<Exact, arena::Error> {
        let capacity = capacity.min(MAX_CAPACITY);
        let buckets = (2 * capacity as usize).div_ceil(BUCKET).next_power_of_two();
        let index =
            Index { buckets: HugeSlice::new(buckets)?, mask: (buckets - 1) as u32, probes: AtomicU32::new(1), seed };
        Ok(Exact { index: Arc::new(index), capacity, len: 0 })
    }

    /// Enters the value (below 2 to the power of [`VALUE_BITS`]) of a key that is not there.
    ///
    /// # Errors
    ///
    /// [`Refused`] when there is no room.
    pub fn insert(&mut self, hash: Hash, value: u64) -> Result<(), Refused> {
        if self.len >= self.capacity {
            return Err(Refused::Full { capacity: self.capacity });
        }
        let is_free = |word: &&AtomicU64| word.load(Ordering::Relaxed) == 0;
        let mut probed = self.index.probed(hash, PROBES).zip(1..);
        let (word, probes) =
            probed.find_map(|(mut bucket, n)| Some((bucket.find(is_free)?, n))).ok_or(Refused::Crowded)?;
        // Before the word: who sees the word, or knows of it, looks as far.
        self.index.probes.fetch_max(probes, Ordering::Release);
        word.store(hash.tag() | value & VALUE, Ordering::Release);
        self.len += 1;
        Ok(())
    }

    /// Changes the entry of a key from `old` to `new`: readers find the one or the other. False if there is no such entry.
    pub fn replace(&mut self, hash: Hash, old: u64, new: u64) -> bool {
        self.swap(hash, old, hash.tag() | new & VALUE)
    }

    /// Removes the entry of a key. False if there is no such entry.
    pub fn remove(&mut self, hash: Hash, value: u64) -> bool {
        let removed = self.swap(hash, value, 0);
        self.len -= u32::from(removed);
        removed
    }

    fn swap(&self, hash: Hash, value: u64, to: u64) -> bool {
        let is = hash.tag() | value & VALUE;
        let word = self.index.words(hash).find(|word| word.load(Ordering::Relaxed) == is);
        word.map(|word| word.store(to, Ordering::Release)).is_some()
    }

    /// How many entries it holds.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many entries it was made for.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The part that workers look up in; it follows every change.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }
}
