//! Longest prefix match for IPv6.
//!
//! A writer on the control thread holds the truth (every prefix with its value) and keeps a compiled form of it for readers; the
//! slow twin is a [list](Linear). The compiled form is a tree of *nodes* made of cache lines, in one pool:
//!
//! | node | what | size |
//! |---|---|---|
//! | array | a *slot* for each value of the next 1 to 16 bits of an address | 8 bytes a slot |
//! | bucket | up to 8 ranges of the next 32 bits, in order | one line |
//! | index | where each of up to 15 buckets begins, which stand behind it | one line |
//!
//! A slot is one word: the value of the longest prefix that ends in its array, if there is one, and a link to a node with longer
//! ones. So a lookup keeps the last value that it came by, and reads one line for each node. Arrays are as wide as there are
//! prefixes below them, and few prefixes share a bucket, or the buckets of an index, however long they are: most lookups in a table of the
//! Internet end in the third or fourth line. A table with a handful of prefixes is one line.
//!
//! What a batch costs is less the lines, of which a real table has about 1 MiB that is looked at, than the instructions and what of them is
//! guessed wrong. So the first two steps are the same for all lookups, an array each; those that need more arrays are few and go on by
//! themselves; then those with an index find their bucket; then all find their range at once.
//!
//! **A change is one store of one word**, however short its prefix: what it changes of a node is made in a copy, and the word that
//! leads to the node is stored last. Values are never copied from a node to those below it. So every lookup sees the table as it
//! was before a change or as it is behind it, for all addresses at once. Replaced nodes are used again when every reader of the grace
//! period [domain](weir_mem::Domain) has passed.

mod build;
mod linear;
mod link;
mod prefix;
mod room;
pub mod sample;
mod trie;
mod writer;

use std::fmt;
use std::sync::Arc;

use weir_mem::arena;
use weir_simd::Kernel;

pub use linear::{Linear, List};
pub use prefix::Prefix6;
pub use trie::Trie;
pub use writer::Compiled;

/// Lookups are worked through this many at a time.
pub const BATCH: usize = 64;

/// The largest value that a table holds: one bit of a word tells values from others.
pub const MAX_VALUE: u32 = (1 << 31) - 1;

/// The most lines that a table can have.
pub const MAX_LINES: u32 = link::LINES;

/// How a table is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What a lookup answers for an address that no prefix covers; at most [`MAX_VALUE`].
    pub miss: u32,
    /// How many prefixes it holds at most.
    pub max_routes: usize,
    /// How many lines of 64 bytes lookups may touch, at most [`MAX_LINES`]. A real table needs less than 2 for each prefix, and as
    /// many again while it grows.
    pub max_lines: u32,
}

impl Config {
    /// Room for 250,000 prefixes as they are in real tables, in 2 million lines (128 MiB).
    pub fn new(miss: u32) -> Config {
        Config { miss, max_routes: 250_000, max_lines: 1 << 21 }
    }

    /// Room for so many prefixes, whichever they are: 64 lines (4 KiB) for each.
    pub fn for_any(miss: u32, max_routes: usize) -> Config {
        let lines = max_routes.saturating_mul(64).saturating_add(256);
        Config { miss, max_routes, max_lines: u32::try_from(lines).unwrap_or(MAX_LINES).min(MAX_LINES) }
    }
}

/// Why a change was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The value needs the bit that tells values from others.
    ValueTooLarge {
        /// The value.
        value: u32,
    },
    /// As many prefixes as the table was made for.
    TooManyRoutes {
        /// How many that is.
        max: usize,
    },
    /// The change needs more lines than there are free, or the last ones freed wait for readers to pass.
    NoRoom {
        /// How many lines there are.
        max: u32,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ValueTooLarge { value } => write!(f, "value {value} is larger than {MAX_VALUE}"),
            Self::TooManyRoutes { max } => write!(f, "the table is full: it holds {max} prefixes at most"),
            Self::NoRoom { max } => {
                write!(f, "the table is full: its {max} lines of 64 bytes are in use, or wait for readers to pass")
            }
        }
    }
}

impl std::error::Error for Refused {}

/// Why a table cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No memory for its compiled form.
    Memory(arena::Error),
    /// The miss value is larger than [`MAX_VALUE`].
    MissTooLarge(u32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => write!(f, "a table of IPv6 prefixes: {error}"),
            Self::MissTooLarge(value) => write!(f, "the value of a miss, {value}, is larger than {MAX_VALUE}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<arena::Error> for Error {
    fn from(error: arena::Error) -> Self {
        Self::Memory(error)
    }
}

/// What a table occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes mapped for lookups. The kernel backs what is used of it.
    pub lookup: usize,
    /// Of that, in use by the prefixes of now.
    pub used: usize,
    /// Bytes kept by the control thread alone, about.
    pub control: usize,
    /// Freed pieces that wait for readers to pass.
    pub waiting: usize,
}

/// How far the lookups of a batch have come.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The last slot that each came by, with the last value in it.
    slots: [u64; BATCH],
    /// The word that it leads to.
    words: [u32; BATCH],
    /// Bits of each address that led there.
    depths: [u8; BATCH],
    /// The bits behind these.
    tops: [u64; BATCH],
    /// Whether they take the first steps all at once, in which the bits behind the 64th are not looked at.
    is_even: bool,
    /// As many lookups as this do so: fewer are faster one by one, as are those that do not begin with an array.
    even_from: usize,
}

impl Default for Walk {
    fn default() -> Walk {
        let (slots, words, depths, tops) = ([0; BATCH], [0; BATCH], [0; BATCH], [0; BATCH]);
        Walk { slots, words, depths, tops, is_even: false, even_from: 24 }
    }
}

impl Walk {
    /// For who looks up in code that is compiled for a [`Kernel`]: only vectors gain by steps that all take at once.
    pub fn of(kernel: Kernel) -> Walk {
        let usual = Walk::default();
        Walk { even_from: if kernel == Kernel::SCALAR { usize::MAX } else { usual.even_from }, ..usual }
    }
}

/// What workers do with a table.
pub trait Lookup6: Send + Sync {
    /// Asks for the line that a lookup of `address` reads first.
    fn prefetch(&self, address: u128);

    /// The value of the longest prefix that covers `address` (in host order), or the miss value.
    fn lookup(&self, address: u128) -> u32;

    /// Looks up `addresses[i]` to `values[i]`, as far as both go. In batches of 64 or so the cache misses overlap.
    #[inline(always)]
    fn lookup_batch(&self, addresses: &[u128], values: &mut [u32]) {
        let mut walk = Walk::default();
        for (addresses, values) in addresses.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            self.approach(addresses, &mut walk);
            self.advance(addresses, &mut walk);
            self.finish(addresses, &mut walk, values);
        }
    }

    /// The first of three steps that make a [`lookup_batch`](Self::lookup_batch) of at most [`BATCH`] addresses, for who has
    /// something else to do between them: each asks for the lines that the next one reads.
    fn approach(&self, addresses: &[u128], walk: &mut Walk);

    /// The second step.
    fn advance(&self, addresses: &[u128], walk: &mut Walk);

    /// The third step, which finds the values.
    fn finish(&self, addresses: &[u128], walk: &mut Walk, values: &mut [u32]);
}

/// What the control thread does with a table.
pub trait Lpm6 {
    /// What workers look up in.
    type Reader: Lookup6;

    /// Adds a prefix or replaces its value; answers the value replaced.
    ///
    /// # Errors
    ///
    /// [`Refused`] when the value or the table's limits do not allow it.
    fn insert(&mut self, prefix: Prefix6, value: u32) -> Result<Option<u32>, Refused>;

    /// Removes a prefix, and answers its value if it was there. What it covered goes to the next shorter prefix.
    ///
    /// # Errors
    ///
    /// [`Refused::NoRoom`] when the compiled form has no room for the change: try again when readers have passed.
    fn remove(&mut self, prefix: Prefix6) -> Result<Option<u32>, Refused>;

    /// The value of exactly this prefix.
    fn get(&self, prefix: Prefix6) -> Option<u32>;

    /// How many prefixes it holds.
    fn len(&self) -> usize;

    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it occupies.
    fn memory(&self) -> Memory;

    /// The part that workers look up in; it follows every change.
    fn reader(&self) -> &Arc<Self::Reader>;
}
