//! What workers look up in.

use std::sync::atomic::{AtomicU32, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};

use super::Lookup6;

/// Bits of an address that the root tells apart, and words that takes.
pub(super) const ROOT_BITS: u32 = 16;
const ROOT: usize = 1 << ROOT_BITS;

/// Bits of an address that a node tells apart, and words that takes.
pub(super) const NODE_BITS: u32 = 8;
pub(super) const NODE: usize = 1 << NODE_BITS;

/// Nodes on the way to the last bit of an address.
pub(super) const LEVELS: u32 = (128 - ROOT_BITS) / NODE_BITS;

/// Set in a word that points to a node.
pub(super) const POINTER: u32 = 1 << 31;

/// The words that readers see.
#[derive(Debug)]
pub struct Trie {
    root: HugeSlice<AtomicU32>,
    nodes: HugeSlice<[AtomicU32; NODE]>,
}

impl Trie {
    pub(super) fn new(max_nodes: u32, miss: u32) -> Result<Trie, arena::Error> {
        let mut root = HugeSlice::<AtomicU32>::new(ROOT)?;
        root.iter_mut().for_each(|word| *word.get_mut() = miss);
        Ok(Trie { root, nodes: HugeSlice::new(max_nodes as usize)? })
    }

    /// The words of the root.
    pub(super) fn root(&self) -> &[AtomicU32] {
        &self.root
    }

    /// The words of a node; none for a pointer to nowhere, which is never stored.
    #[inline(always)]
    pub(super) fn node(&self, node: u32) -> &[AtomicU32] {
        self.nodes.get(node as usize).map_or(&[], |words| words)
    }

    #[inline(always)]
    fn first(&self, address: u128) -> u32 {
        // Acquire, here and below: a node is seen filled.
        self.root.get((address >> (128 - ROOT_BITS)) as usize).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The word for the address in the node at `level`, to which `pointer` points.
    #[inline(always)]
    fn next(&self, pointer: u32, address: u128, level: u32) -> u32 {
        self.node(pointer & !POINTER).get(slot(address, level)).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Bytes of memory that lookups may touch.
    pub fn bytes(&self) -> usize {
        self.root.bytes() + self.nodes.bytes()
    }
}

/// Which word of a node at `level` (0 below the root) an address belongs to.
#[inline(always)]
pub(super) const fn slot(address: u128, level: u32) -> usize {
    (address >> (128 - ROOT_BITS - NODE_BITS * (level + 1))) as usize % NODE
}

impl Lookup6 for Trie {
    #[inline(always)]
    fn prefetch(&self, address: u128) {
        prefetch_slice(&self.root, (address >> (128 - ROOT_BITS)) as usize);
    }

    #[inline]
    fn lookup(&self, address: u128) -> u32 {
        let mut word = self.first(address);
        for level in 0..LEVELS {
            if word & POINTER == 0 {
                break;
            }
            word = self.next(word, address, level);
        }
        word
    }

    fn lookup_batch(&self, addresses: &[u128], values: &mut [u32]) {
        for (value, &address) in values.iter_mut().zip(addresses) {
            *value = self.first(address);
        }
        for level in 0..LEVELS {
            let mut deeper = false;
            for (value, &address) in values.iter().zip(addresses).filter(|(value, _)| **value & POINTER != 0) {
                prefetch_slice(self.node(*value & !POINTER), slot(address, level));
                deeper = true;
            }
            if !deeper {
                break;
            }
            for (value, &address) in values.iter_mut().zip(addresses).filter(|(value, _)| **value & POINTER != 0) {
                *value = self.next(*value, address, level);
            }
        }
    }
}
