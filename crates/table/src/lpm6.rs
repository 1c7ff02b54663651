//! Longest prefix match for IPv6.
//!
//! A trie: 65,536 words for the first 16 bits of an address, then nodes of 256 words for 8 bits each. A word is a value or points
//! to a node. Every word holds what the longest prefix around it says, so that a lookup reads one word for the first 16 bits
//! and one more for each 8 bits by which prefixes there are longer: one for a default route, five below a /48, seven below a
//! /64, never more than 15.
//!
//! The writer on the control thread keeps the truth (every prefix with its value). Readers see each address with its old or its
//! new value: a change is stores of single words; a node is filled before the word that points to it is stored, and its room is
//! not used again until every reader of the grace period [domain](weir_mem::Domain) has passed. A change of a short prefix is
//! many such stores: meanwhile some of its addresses are old and some are new.

mod linear;
mod prefix;
mod trie;
mod writer;

use std::fmt;
use std::sync::Arc;

use weir_mem::arena;

pub use linear::{Linear, List};
pub use prefix::Prefix6;
pub use trie::Trie;
pub use writer::Compiled;

/// The largest value that a table holds: one bit of a word tells values from pointers.
pub const MAX_VALUE: u32 = (1 << 31) - 1;

/// How a table is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What a lookup answers for an address that no prefix covers; at most [`MAX_VALUE`].
    pub miss: u32,
    /// How many prefixes it holds at most.
    pub max_routes: usize,
    /// How many nodes it has, each 1 KiB of lookup memory. A prefix needs one for each 8 bits behind the 16th, which it
    /// shares with others around it.
    pub max_nodes: u32,
}

impl Config {
    /// Room for 250,000 prefixes in 262,144 nodes.
    pub fn new(miss: u32) -> Config {
        Config { miss, max_routes: 250_000, max_nodes: 262_144 }
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
    /// The prefix needs more nodes than there are left, or the last ones freed wait for readers to pass.
    TooManyNodes {
        /// How many there are.
        max: u32,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ValueTooLarge { value } => write!(f, "value {value} is larger than {MAX_VALUE}"),
            Self::TooManyRoutes { max } => write!(f, "the table is full: it holds {max} prefixes at most"),
            Self::TooManyNodes { max } => {
                write!(f, "the table is full: its {max} nodes of 8 bits are in use, or wait for readers to pass")
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

/// What workers do with a table.
pub trait Lookup6: Send + Sync {
    /// Asks for the line that a lookup of `address` reads first.
    fn prefetch(&self, address: u128);

    /// The value of the longest prefix that covers `address` (in host order), or the miss value.
    fn lookup(&self, address: u128) -> u32;

    /// Looks up `addresses[i]` to `values[i]`, as far as both go. In batches of 64 or so the cache misses overlap.
    fn lookup_batch(&self, addresses: &[u128], values: &mut [u32]);
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
    fn remove(&mut self, prefix: Prefix6) -> Option<u32>;

    /// The value of exactly this prefix.
    fn get(&self, prefix: Prefix6) -> Option<u32>;

    /// How many prefixes it holds.
    fn len(&self) -> usize;

    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part that workers look up in; it follows every change.
    fn reader(&self) -> &Arc<Self::Reader>;
}
