//! The control thread's side: every prefix, and how nodes follow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_mem::Domain;

use super::build::{FEW, Nodes, Route, order, width};
use super::link::{LINES, Leads, Link, Slot, WORDS, bits_at};
use super::room::Piece;
use super::{Config, Error, Lpm6, MAX_VALUE, Memory, Prefix6, Refused, Trie};

/// A table whose lookups read few lines.
#[derive(Debug)]
pub struct Compiled {
    nodes: Nodes,
    routes: BTreeMap<Prefix6, u32>,
    config: Config,
}

/// Where a slot is.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Array { line: u32, place: u32 },
}

/// How many prefixes more there are than before: of one that was just added, removed, or given another value.
#[derive(Clone, Copy)]
enum Change {
    Added,
    Removed,
    Replaced,
}

impl Change {
    const fn applied(self, count: u32) -> u32 {
        match self {
            Change::Added => count.saturating_add(1),
            Change::Removed => count.saturating_sub(1),
            Change::Replaced => count,
        }
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
        let nodes = Nodes::new(config.max_lines.clamp(2, LINES), config.miss, domain)?;
        Ok(Compiled { nodes, routes: BTreeMap::new(), config: *config })
    }

    /// Every prefix with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix6, u32)> {
        self.routes.iter().map(|(prefix, value)| (*prefix, *value))
    }

    fn load(&self, place: Place) -> Slot {
        match place {
            // Relaxed: this is the only writer.
            Place::Root => Slot(self.nodes.trie.root().load(Ordering::Relaxed)),
            Place::Array { line, place } => self.nodes.slot(line, place).0,
        }
    }

    /// Stores where a slot leads: the one store of a change.
    fn point(&mut self, place: Place, link: Link) {
        let slot = self.load(place).with_link(link);
        match place {
            // Release: who follows it finds the node filled.
            Place::Root => self.nodes.trie.root().store(slot.0, Ordering::Release),
            Place::Array { line, place } => {
                let (_, length) = self.nodes.slot(line, place);
                self.nodes.set_slot(line, place, (slot, length));
            }
        }
    }

    /// Lets the nodes follow a change of this prefix, which the truth has already. `None`, and nothing changed, if there is no room.
    fn follow(&mut self, prefix: Prefix6, change: Change) -> Option<()> {
        self.nodes.room.release();
        if prefix == Prefix6::DEFAULT {
            let value = self.get(prefix).unwrap_or(self.config.miss);
            let slot = self.load(Place::Root).with_value(Some(value));
            self.nodes.trie.root().store(slot.0, Ordering::Release);
            return Some(());
        }
        let (mut place, mut region) = (Place::Root, Prefix6::DEFAULT);
        let mut path = Vec::new();
        loop {
            let link = self.load(place).link();
            let count = change.applied(self.nodes.count(link));
            if count <= FEW {
                self.rebuild(place, region)?;
                break;
            }
            let Some((next, inside)) = self.next(link, region, prefix) else {
                self.rebuild(place, region)?;
                break;
            };
            if link.is_array()
                && self.is_worth_another_width(link, count, region)
                && self.rebuild(place, region).is_some()
            {
                break;
            }
            path.push((link.line(), count));
            if prefix.length() <= inside.length() {
                self.paint(place, link, region, prefix)?;
                break;
            }
            (place, region) = (next, inside);
        }
        // Those of nodes made anew are right already.
        path.into_iter().for_each(|(line, count)| self.nodes.set_count(line, count));
        Some(())
    }

    /// The slot of a node that a prefix ends in or below, and its region; `None` if the node has none.
    fn next(&self, link: Link, region: Prefix6, prefix: Prefix6) -> Option<(Place, Prefix6)> {
        let depth = region.length();
        if link.is_array() {
            let place = bits_at(prefix.address(), depth, link.bits());
            let inside = Prefix6::covering(prefix.address(), depth + link.bits())?;
            return Some((Place::Array { line: link.line(), place }, inside));
        }
        if !link.is_bucket() {
            return None;
        }
        // A bucket of many prefixes has one slot, with all of them.
        self.nodes.ranges(link.line()).find_map(|range| {
            let Leads::Slot { line, bits } = range.leads() else { return None };
            let address = region.address() | u128::from(range.first()) << 96 >> depth;
            let inside = Prefix6::covering(address, depth + bits)?;
            let holds = inside.covers(prefix.address()) && prefix.length() >= inside.length();
            (self.nodes.count(link) > FEW && holds).then_some((Place::Array { line, place: 0 }, inside))
        })
    }

    /// Whether an array has far more or far fewer prefixes than those that it was made for, and there is room to make another.
    fn is_worth_another_width(&self, link: Link, count: u32, region: Prefix6) -> bool {
        let room = &self.nodes.room;
        width(count, region.length()).abs_diff(link.bits()) > 1 && room.unused() > room.max() / 2
    }

    /// Makes all nodes of a region anew.
    fn rebuild(&mut self, place: Place, region: Prefix6) -> Option<()> {
        let first = Prefix6::covering(region.address(), region.length() + 1)?;
        let last = Prefix6::covering(region.last(), 128)?;
        let routes: Vec<Route> = self.routes.range(first..=last).map(|(prefix, value)| (*prefix, *value)).collect();
        let mut fresh = Vec::new();
        let Some(link) = self.nodes.build(region.length(), &routes, &mut fresh) else {
            self.nodes.undo(fresh);
            return None;
        };
        let mut old = Vec::new();
        self.nodes.pieces(self.load(place).link(), &mut old);
        self.point(place, link);
        self.nodes.room.retire(old);
        Some(())
    }

    /// Gives the slots of the node below `place` in which a prefix ends their values.
    fn paint(&mut self, place: Place, link: Link, region: Prefix6, prefix: Prefix6) -> Option<()> {
        let Some(Place::Array { line, place: at }) = self.next(link, region, prefix).map(|(slot, _)| slot) else {
            return Some(());
        };
        let last = if link.is_array() { bits_at(prefix.last(), region.length(), link.bits()) } else { at };
        let (value, length) = self.longest(region, prefix);
        let painted = |(slot, old): (Slot, u8)| {
            if old <= prefix.length() + 1 { (slot.with_value(value), length) } else { (slot, old) }
        };
        if at == last {
            let slot = painted(self.nodes.slot(line, at));
            self.nodes.set_slot(line, at, slot);
            return Some(());
        }
        let order = order(link.bits());
        let copy = self.nodes.take(order, &mut Vec::new())?;
        self.nodes.copy_slots(line, copy, link.bits());
        for place in at..=last {
            self.nodes.set_slot(copy, place, painted(self.nodes.slot(line, place)));
        }
        self.nodes.set_count(copy, self.nodes.count(link));
        self.point(place, Link::array(copy, link.bits()));
        self.nodes.room.retire(vec![Piece { line, order }]);
        Some(())
    }

    /// The value of the longest prefix in a region that covers a prefix or is it, with 1 + its length.
    fn longest(&self, region: Prefix6, prefix: Prefix6) -> (Option<u32>, u8) {
        let lengths = (region.length() + 1..=prefix.length()).rev();
        let mut covering = lengths.filter_map(|length| Prefix6::covering(prefix.address(), length));
        let found = covering.find_map(|prefix| Some((self.get(prefix)?, prefix.length())));
        found.map_or((None, 0), |(value, length)| (Some(value), length + 1))
    }
}

impl Lpm6 for Compiled {
    type Reader = Trie;

    fn insert(&mut self, prefix: Prefix6, value: u32) -> Result<Option<u32>, Refused> {
        if value > MAX_VALUE {
            return Err(Refused::ValueTooLarge { value });
        }
        let old = self.get(prefix);
        if old == Some(value) {
            return Ok(old);
        }
        if old.is_none() && self.routes.len() >= self.config.max_routes {
            return Err(Refused::TooManyRoutes { max: self.config.max_routes });
        }
        self.routes.insert(prefix, value);
        let change = if old.is_some() { Change::Replaced } else { Change::Added };
        if self.follow(prefix, change).is_none() {
            match old {
                Some(old) => self.routes.insert(prefix, old),
                None => self.routes.remove(&prefix),
            };
            return Err(Refused::NoRoom { max: self.nodes.room.max() });
        }
        Ok(old)
    }

    fn remove(&mut self, prefix: Prefix6) -> Result<Option<u32>, Refused> {
        let Some(old) = self.routes.remove(&prefix) else { return Ok(None) };
        if self.follow(prefix, Change::Removed).is_none() {
            self.routes.insert(prefix, old);
            return Err(Refused::NoRoom { max: self.nodes.room.max() });
        }
        Ok(Some(old))
    }

    fn get(&self, prefix: Prefix6) -> Option<u32> {
        self.routes.get(&prefix).copied()
    }

    fn len(&self) -> usize {
        self.routes.len()
    }

    fn memory(&self) -> Memory {
        let room = &self.nodes.room;
        // A node of the tree has room for 11 entries, and is about two thirds full.
        let routes = self.routes.len() * (size_of::<Route>() + 8) * 3 / 2;
        Memory {
            lookup: self.nodes.trie.bytes(),
            used: room.used() as usize * 8 * WORDS,
            control: self.nodes.bytes() + routes,
            waiting: room.waiting(),
        }
    }

    fn reader(&self) -> &Arc<Trie> {
        &self.nodes.trie
    }
}
