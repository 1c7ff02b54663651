//! Longest prefix match for IPv4.
//!
//! A writer on the control thread holds the truth (every prefix with its value) and keeps a compiled form of it
//! for readers. Two kinds are compiled differently; the third is the slow twin:
//!
//! | kind | first level | memory that lookups touch |
//! |---|---|---|
//! | [`Dir24`] | a halfword for each /24 (DIR-24-8, Gupta, Lin, McKeown 1998) | 32 MiB, one access |
//! | [`Packed`] | the same, run-length coded in pieces of a /19 | 4 MiB and a word per run, two accesses |
//! | [`Linear`] | a list | all of it |
//!
//! A /24 that holds longer prefixes has its 256 addresses in a *group* of their own, to which its word points.
//!
//! Readers see each address with its old or its new value, never anything else: what they follow is changed by stores
//! of single words; a group or block is filled before the word that points to it is stored, and its room is not used
//! again until every reader of the grace period [domain](weir_mem::Domain) has passed. A change of a short prefix is
//! many such stores: meanwhile some of its addresses are old and some are new.

mod dir24;
mod groups;
mod linear;
mod packed;
mod prefix;
mod rib;
mod table;

use std::fmt;
use std::sync::Arc;

use weir_mem::arena;
use weir_simd::Kernel;

pub use dir24::Dir24;
pub use linear::Linear;
pub use packed::Packed;
pub use prefix::Prefix4;
pub use table::{Compiled, Table};

/// Lookups are worked through this many at a time.
pub const BATCH: usize = 64;

/// The largest value that a table holds: one bit of a word tells values from pointers.
pub const MAX_VALUE: u32 = (1 << 31) - 1;

/// How a table is made.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What a lookup answers for an address that no prefix covers; at most [`MAX_VALUE`].
    pub miss: u32,
    /// How many prefixes it holds at most.
    pub max_routes: usize,
    /// How many /24 networks may hold prefixes longer than /24, at most 2^24. Each takes 1 KiB of lookup memory.
    pub max_groups: u32,
    /// What code looks up.
    pub kernel: Kernel,
}

impl Config {
    /// Room for 2 million prefixes and 16,384 networks with longer ones; the best kernel of this CPU.
    pub fn new(miss: u32) -> Self {
        Self { miss, max_routes: 2_000_000, max_groups: 16_384, kernel: Kernel::detect() }
    }
}

/// Why a change was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The value needs the bit that tells values from pointers.
    ValueTooLarge {
        /// The value.
        value: u32,
    },
    /// As many prefixes as the table was made for.
    TooManyRoutes {
        /// How many that is.
        max: usize,
    },
    /// As many networks with prefixes longer than /24 as the table was made for, or the last ones freed wait for
    /// readers to pass.
    TooManyGroups {
        /// How many that is.
        max: u32,
    },
    /// No room for the compiled form: too much of it waits for readers to pass.
    NoRoom,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ValueTooLarge { value } => write!(f, "value {value} is larger than {MAX_VALUE}"),
            Self::TooManyRoutes { max } => write!(f, "the table is full: it holds {max} prefixes at most"),
            Self::TooManyGroups { max } => {
                write!(f, "the table is full: at most {max} /24 networks may hold prefixes longer than /24")
            }
            Self::NoRoom => f.write_str("the table has no room for the change until readers have passed earlier ones"),
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
            Self::Memory(error) => write!(f, "a table of IPv4 prefixes: {error}"),
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

/// What a table occupies, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Mapped for lookups. The kernel backs what is used of it.
    pub lookup: usize,
    /// Of that, in use by the prefixes of now.
    pub used: usize,
    /// Kept by the control thread alone, about.
    pub control: usize,
    /// How many networks hold prefixes longer than /24.
    pub groups: u32,
    /// Freed pieces that wait for readers to pass.
    pub waiting: usize,
}

/// What workers do with a table.
pub trait Lookup4: Send + Sync {
    /// Asks for the line that a lookup of `address` reads first.
    fn prefetch(&self, address: u32);

    /// The value of the longest prefix that covers `address` (in host order), or the miss value.
    fn lookup(&self, address: u32) -> u32;

    /// Looks up `addresses[i]` to `values[i]`, as far as both go. In batches of 64 or so the cache misses overlap;
    /// [prefetch](Self::prefetch) when the addresses are known some time before.
    #[inline(always)]
    fn lookup_batch(&self, addresses: &[u32], values: &mut [u32]) {
        for (addresses, values) in addresses.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            self.approach(addresses, values);
            let rest = self.lookup_first(addresses, values);
            self.lookup_rest(addresses, values, rest);
        }
    }

    /// The first of three steps that make a [`lookup_batch`](Self::lookup_batch) of at most [`BATCH`] addresses, for who has
    /// something else to do between them: each asks for the lines that the next one reads. Where a lookup is one access, there is
    /// nothing to do here.
    fn approach(&self, addresses: &[u32], values: &mut [u32]);

    /// The second step: looks up what is near. Answers the mask of those whose values are still to come.
    fn lookup_first(&self, addresses: &[u32], values: &mut [u32]) -> u64;

    /// The third step, for those in `rest`.
    fn lookup_rest(&self, addresses: &[u32], values: &mut [u32], rest: u64);
}

/// What the control thread does with a table.
pub trait Lpm4 {
    /// What workers look up in.
    type Reader: Lookup4;

    /// Adds a prefix or replaces its value; answers the value replaced.
    ///
    /// # Errors
    ///
    /// [`Refused`] when the value or the table's limits do not allow it.
    fn insert(&mut self, prefix: Prefix4, value: u32) -> Result<Option<u32>, Refused>;

    /// Removes a prefix, and answers its value if it was there. What it covered goes to the next shorter prefix.
    ///
    /// # Errors
    ///
    /// [`Refused::NoRoom`] when the compiled form has no room for the change: try again when readers have passed.
    fn remove(&mut self, prefix: Prefix4) -> Result<Option<u32>, Refused>;

    /// The value of exactly this prefix.
    fn get(&self, prefix: Prefix4) -> Option<u32>;

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
