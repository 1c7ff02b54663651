//! The truth: every prefix with its value, and which prefix covers another.

use std::collections::HashMap;
use std::iter::successors;

use super::Prefix4;

/// Longest prefixes with a bit in the tree.
const SHORT: u8 = 24;

/// Every prefix with its value.
#[derive(Debug)]
pub(crate) struct Rib {
    /// A bit for each possible prefix up to /24: a complete binary tree in heap order. The root is bit 1, the children
    /// of bit i are 2i and 2i+1. Walking up to a covering prefix is a shift.
    tree: Vec<u64>,
    /// Values by address, for each length.
    values: [HashMap<u32, u32>; 33],
    routes: usize,
}

impl Rib {
    pub(crate) fn new() -> Self {
        Self { tree: vec![0; (2 << SHORT) / 64], values: std::array::from_fn(|_| HashMap::new()), routes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.routes
    }

    pub(crate) fn get(&self, prefix: Prefix4) -> Option<u32> {
        self.values.get(usize::from(prefix.length()))?.get(&prefix.address()).copied()
    }

    pub(crate) fn insert(&mut self, prefix: Prefix4, value: u32) -> Option<u32> {
        let old = self.values.get_mut(usize::from(prefix.length()))?.insert(prefix.address(), value);
        if old.is_none() {
            self.routes += 1;
            self.mark(prefix, true);
        }
        old
    }

    pub(crate) fn remove(&mut self, prefix: Prefix4) -> Option<u32> {
        let old = self.values.get_mut(usize::from(prefix.length()))?.remove(&prefix.address())?;
        self.routes -= 1;
        self.mark(prefix, false);
        Some(old)
    }

    /// The longest prefix that is shorter than `prefix` and covers it, with its value.
    pub(crate) fn cover(&self, prefix: Prefix4) -> Option<(Prefix4, u32)> {
        let long = (SHORT + 1..prefix.length()).rev();
        let long = long.filter_map(|length| Prefix4::covering(prefix.address(), length));
        let short = Prefix4::covering(prefix.address(), prefix.length().min(SHORT + 1).saturating_sub(1))?;
        // Shorter than /0 there is nothing.
        let short = successors(Some(node(short)).filter(|_| prefix.length() > 0), |&node| Some(node >> 1));
        let short = short.take_while(|&node| node > 0).filter(|&node| self.is_marked(node)).map(prefix_of);
        long.chain(short).find_map(|prefix| Some((prefix, self.get(prefix)?)))
    }

    /// Every prefix, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Prefix4, u32)> {
        let lengths = (0u8..).zip(&self.values);
        lengths.flat_map(|(length, values)| {
            values.iter().filter_map(move |(&address, &value)| Some((Prefix4::new(address, length)?, value)))
        })
    }

    /// Bytes held, about: a hash table has room for 8 entries for each 7.
    pub(crate) fn bytes(&self) -> usize {
        let entries: usize = self.values.iter().map(|values| values.capacity() * 8 / 7).sum();
        size_of_val(self.tree.as_slice()) + entries * (size_of::<(u32, u32)>() + 1)
    }

    fn mark(&mut self, prefix: Prefix4, present: bool) {
        if prefix.length() > SHORT {
            return;
        }
        let node = node(prefix);
        if let Some(word) = self.tree.get_mut(node / 64) {
            let bit = 1 << (node % 64);
            *word = if present { *word | bit } else { *word & !bit };
        }
    }

    fn is_marked(&self, node: usize) -> bool {
        self.tree.get(node / 64).is_some_and(|word| word >> (node % 64) & 1 == 1)
    }
}

/// The place of a prefix up to /24 in the tree.
fn node(prefix: Prefix4) -> usize {
    let length = u32::from(prefix.length());
    let path = u64::from(prefix.address()) >> (32 - length);
    (1 << length) + path as usize
}

/// The prefix at a place in the tree, which is not 0.
fn prefix_of(node: usize) -> Prefix4 {
    let length = node.ilog2();
    let path = (node - (1 << length)) as u64;
    let address = (path << (32 - length)) as u32;
    Prefix4::covering(address, length as u8).unwrap_or(Prefix4::DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_tree_are_distinct_and_go_both_ways() {
        for length in 0..=SHORT {
            for address in [0, 1 << 31, 0x0a00_0000, 0xc633_6400, u32::MAX] {
                let prefix = Prefix4::covering(address, length).unwrap();
                assert_eq!(prefix_of(node(prefix)), prefix);
            }
        }
        assert_eq!(node(Prefix4::DEFAULT), 1);
        assert_eq!(node(Prefix4::new(0xffff_ff00, 24).unwrap()), (2 << 24) - 1);
    }

    #[test]
    fn finds_the_cover_at_every_length() {
        let mut rib = Rib::new();
        let prefix = |length| Prefix4::covering(0xc633_64ff, length).unwrap();
        assert_eq!(rib.cover(prefix(32)), None);
        assert_eq!(rib.cover(prefix(0)), None);
        for length in 0..=32 {
            assert_eq!(rib.insert(prefix(length), u32::from(length)), None);
            for longer in length + 1..=32 {
                assert_eq!(rib.cover(prefix(longer)), Some((prefix(length), u32::from(length))));
            }
        }
        assert_eq!(rib.cover(prefix(0)), None);
        assert_eq!((rib.len(), rib.iter().count()), (33, 33));
        for length in (0..=32).rev() {
            assert_eq!(rib.remove(prefix(length)), Some(u32::from(length)));
            let expected = length.checked_sub(1).map(|shorter| (prefix(shorter), u32::from(shorter)));
            assert_eq!(rib.cover(prefix(32)).filter(|_| length < 32), expected.filter(|_| length < 32));
        }
        assert_eq!(rib.len(), 0);
    }
}
