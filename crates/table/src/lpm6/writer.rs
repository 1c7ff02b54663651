//! The control thread's side: every prefix, and how the trie follows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_mem::Domain;

use super::trie::{LEVELS, NODE, NODE_BITS, POINTER, ROOT_BITS, slot};
use super::{Config, Error, Lpm6, MAX_VALUE, Prefix6, Refused, Trie};
use crate::quarantine::Quarantine;

/// What a word says, and from how long a prefix it has it: 1 + its length, 0 for a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Paint {
    value: u32,
    depth: u8,
}

/// A table whose lookups are as many accesses as prefixes are long.
#[derive(Debug)]
pub struct Compiled {
    trie: Arc<Trie>,
    routes: BTreeMap<Prefix6, u32>,
    config: Config,
    /// Depths of the root's words; of words that point to a node they mean nothing.
    root_depths: Vec<u8>,
    nodes: Nodes,
}

/// What only the writer knows of the nodes.
#[derive(Debug)]
struct Nodes {
    depths: Vec<[u8; NODE]>,
    /// How many prefixes end in each or below it.
    prefixes: Vec<u32>,
    /// Nodes from here on were never used.
    fresh: u32,
    max: u32,
    free: Vec<u32>,
    freed: Quarantine<u32>,
}

impl Nodes {
    fn new(max: u32, domain: &Domain) -> Nodes {
        Nodes {
            depths: Vec::new(),
            prefixes: Vec::new(),
            fresh: 0,
            max,
            free: Vec::new(),
            freed: Quarantine::new(domain),
        }
    }

    fn has_room_for(&mut self, count: u32) -> bool {
        let room = |nodes: &Nodes| nodes.free.len() as u64 + u64::from(nodes.max - nodes.fresh);
        if room(self) < u64::from(count) {
            self.freed.release(|node| self.free.push(node));
        }
        room(self) >= u64::from(count)
    }

    /// A node whose words all say the same; nothing points to it yet.
    fn take(&mut self, trie: &Trie, paint: Paint) -> Option<u32> {
        let node = match self.free.pop() {
            Some(node) => node,
            None if self.fresh < self.max => {
                self.fresh += 1;
                self.depths.push([0; NODE]);
                self.prefixes.push(0);
                self.fresh - 1
            }
            None => return None,
        };
        // Relaxed: the pointer to it is stored with release.
        trie.node(node).iter().for_each(|word| word.store(paint.value, Ordering::Relaxed));
        self.depths.get_mut(node as usize)?.fill(paint.depth);
        Some(node)
    }
}

impl Compiled {
    /// An empty table, whose readers are those of `domain`.
    ///
    /// # Errors
    ///
    /// [`Error`] when there is no memory, or the miss is too large.
    pub fn new(config: &Config, domain: &Domain) -> Result<Compiled, Error> {
        if config.miss > MAX_VALUE {
            return Err(Error::MissTooLarge(config.miss));
        }
        let max_nodes = config.max_nodes.min(MAX_VALUE);
        let trie = Trie::new(max_nodes, config.miss)?;
        let root_depths = vec![0; trie.root().len()];
        let nodes = Nodes::new(max_nodes, domain);
        Ok(Compiled { trie: Arc::new(trie), routes: BTreeMap::new(), config: *config, root_depths, nodes })
    }

    /// Nodes in use.
    pub fn nodes(&self) -> u32 {
        self.nodes.fresh - self.nodes.free.len() as u32 - self.nodes.freed.len() as u32
    }

    /// What an address has once prefixes of `length` and more are gone.
    fn shorter(&self, address: u128, length: u8) -> Paint {
        let covering = |length| Prefix6::covering(address, length);
        let found = (0..length).rev().filter_map(covering).find_map(|prefix| Some((prefix, self.get(prefix)?)));
        found.map_or(Paint { value: self.config.miss, depth: 0 }, |(prefix, value)| Paint {
            value,
            depth: prefix.length() + 1,
        })
    }

    /// The nodes on the way to where a prefix ends, as far as they are there.
    fn path(&self, prefix: Prefix6) -> Vec<u32> {
        let mut path = Vec::new();
        let mut word = load(self.trie.root().get(root_slot(prefix.address())));
        for level in 0..levels(prefix) {
            if word & POINTER == 0 {
                break;
            }
            path.push(word & !POINTER);
            word = load(self.trie.node(word & !POINTER).get(slot(prefix.address(), level)));
        }
        path
    }

    /// Makes the nodes on the way to where a prefix ends, each of which says what the word above said.
    fn make_path(&mut self, prefix: Prefix6) -> Vec<u32> {
        let mut path = self.path(prefix);
        for level in path.len() as u32..levels(prefix) {
            let above = level.checked_sub(1).and_then(|above| Some((*path.get(above as usize)?, above)));
            let (words, depths, at) = match above {
                Some((node, above)) => {
                    let Some(depths) = self.nodes.depths.get(node as usize) else { break };
                    (self.trie.node(node), depths.as_slice(), slot(prefix.address(), above))
                }
                None => (self.trie.root(), self.root_depths.as_slice(), root_slot(prefix.address())),
            };
            let (Some(word), Some(&depth)) = (words.get(at), depths.get(at)) else { break };
            let paint = Paint { value: word.load(Ordering::Relaxed), depth };
            let Some(node) = self.nodes.take(&self.trie, paint) else { break };
            // Release: who follows it finds the node filled.
            word.store(node | POINTER, Ordering::Release);
            path.push(node);
        }
        path
    }

    /// Gives all words inside a prefix that are at most as deep as it a new value and depth.
    fn paint(&mut self, prefix: Prefix6, path: &[u32], with: Paint) {
        let limit = prefix.length() + 1;
        let end = ROOT_BITS + NODE_BITS * levels(prefix);
        let count = 1usize << (end - u32::from(prefix.length()).min(end));
        match path.last() {
            None => {
                let first = root_slot(prefix.address());
                let words = self.trie.root().iter().zip(&mut self.root_depths).skip(first).take(count);
                paint_words(&self.trie, &mut self.nodes.depths, words, limit, with);
            }
            Some(&node) => {
                let first = slot(prefix.address(), levels(prefix) - 1);
                paint_node(&self.trie, &mut self.nodes.depths, node, first..first + count, limit, with);
            }
        }
    }

    /// Takes out the nodes of a path in which no prefix ends any more.
    fn prune(&mut self, prefix: Prefix6, path: &[u32]) {
        let is_empty = |node: &u32| self.nodes.prefixes.get(*node as usize) == Some(&0);
        let Some(first) = path.iter().position(is_empty) else { return };
        // No prefix ends in the last one or below it, so that all its words say the same, which the pruned ones above say too.
        let Some(&last) = path.last() else { return };
        let value = load(self.trie.node(last).first());
        let depth = self.nodes.depths.get(last as usize).map_or(0, |depths| depths[0]);
        let above = first.checked_sub(1).and_then(|above| Some((*path.get(above)?, above as u32)));
        let (word, kept) = match above {
            Some((node, level)) => {
                let at = slot(prefix.address(), level);
                let depths = self.nodes.depths.get_mut(node as usize);
                (self.trie.node(node).get(at), depths.and_then(|depths| depths.get_mut(at)))
            }
            None => {
                let at = root_slot(prefix.address());
                (self.trie.root().get(at), self.root_depths.get_mut(at))
            }
        };
        if let (Some(word), Some(kept)) = (word, kept) {
            *kept = depth;
            word.store(value, Ordering::Release);
        }
        path.iter().skip(first).for_each(|&node| self.nodes.freed.put(node));
    }

    fn count(&mut self, path: &[u32], more: i32) {
        for &node in path {
            if let Some(count) = self.nodes.prefixes.get_mut(node as usize) {
                *count = count.saturating_add_signed(more);
            }
        }
    }
}

/// Nodes on the way to where a prefix ends: none for one of at most 16 bits.
fn levels(prefix: Prefix6) -> u32 {
    u32::from(prefix.length()).saturating_sub(ROOT_BITS).div_ceil(NODE_BITS).min(LEVELS)
}

fn root_slot(address: u128) -> usize {
    (address >> (128 - ROOT_BITS)) as usize
}

fn load(word: Option<&AtomicU32>) -> u32 {
    // Relaxed: this is the only writer.
    word.map_or(0, |word| word.load(Ordering::Relaxed))
}

fn paint_node(trie: &Trie, all: &mut [[u8; NODE]], node: u32, slots: std::ops::Range<usize>, limit: u8, with: Paint) {
    // The depths of a node are out of the way while those of nodes below it are painted.
    let Some(mut depths) = all.get(node as usize).copied() else { return };
    let words = trie.node(node).iter().zip(&mut depths).take(slots.end).skip(slots.start);
    paint_words(trie, all, words, limit, with);
    if let Some(kept) = all.get_mut(node as usize) {
        *kept = depths;
    }
}

fn paint_words<'a>(
    trie: &Trie,
    all: &mut [[u8; NODE]],
    words: impl Iterator<Item = (&'a AtomicU32, &'a mut u8)>,
    limit: u8,
    with: Paint,
) {
    for (word, depth) in words {
        let old = word.load(Ordering::Relaxed);
        if old & POINTER != 0 {
            paint_node(trie, all, old & !POINTER, 0..NODE, limit, with);
        } else if *depth <= limit {
            *depth = with.depth;
            // Relaxed: a value stands alone.
            word.store(with.value, Ordering::Relaxed);
        }
    }
}

impl Lpm6 for Compiled {
    type Reader = Trie;

    fn insert(&mut self, prefix: Prefix6, value: u32) -> Result<Option<u32>, Refused> {
        if value > MAX_VALUE {
            return Err(Refused::ValueTooLarge { value });
        }
        let old = self.get(prefix);
        if old.is_none() {
            if self.routes.len() >= self.config.max_routes {
                return Err(Refused::TooManyRoutes { max: self.config.max_routes });
            }
            let missing = levels(prefix).saturating_sub(self.path(prefix).len() as u32);
            if !self.nodes.has_room_for(missing) {
                return Err(Refused::TooManyNodes { max: self.nodes.max });
            }
        }
        let path = self.make_path(prefix);
        if self.routes.insert(prefix, value).is_none() {
            self.count(&path, 1);
        }
        self.paint(prefix, &path, Paint { value, depth: prefix.length() + 1 });
        Ok(old)
    }

    fn remove(&mut self, prefix: Prefix6) -> Option<u32> {
        let old = self.routes.remove(&prefix)?;
        let path = self.path(prefix);
        self.paint(prefix, &path, self.shorter(prefix.address(), prefix.length()));
        self.count(&path, -1);
        self.prune(prefix, &path);
        Some(old)
    }

    fn get(&self, prefix: Prefix6) -> Option<u32> {
        self.routes.get(&prefix).copied()
    }

    fn len(&self) -> usize {
        self.routes.len()
    }

    fn reader(&self) -> &Arc<Trie> {
        &self.trie
    }
}
