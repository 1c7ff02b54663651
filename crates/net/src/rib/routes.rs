//! Routes by prefix, and their entries: one for each author.
//!
//! An entry is in two lists: of its route, by preference, and of its set, in no order. The second one is why a set that
//! has lost its last usable hop finds its routes without looking at others.

use super::sets::Sets;
use super::slab::{NONE, Slab};
use super::{Author, Target};
use ipnet::Ipv4Net;
use std::collections::HashMap;

#[derive(Debug)]
pub(super) struct Route {
    pub(super) prefix: Ipv4Net,
    /// The entry of the most preferred author.
    first: u32,
    /// What the forwarding table holds.
    pub(super) installed: Option<Target>,
}

/// What one author wants for one prefix.
#[derive(Debug)]
pub(super) struct Entry {
    route: u32,
    pub(super) author: Author,
    pub(super) set: u32,
    /// The next author's entry for the prefix.
    next: u32,
    /// Neighbours in the list of the set.
    before: u32,
    after: u32,
}

#[derive(Debug, Default)]
pub(super) struct Routes {
    by_prefix: HashMap<Ipv4Net, u32>,
    routes: Slab<Route>,
    entries: Slab<Entry>,
}

impl Routes {
    /// Entries of all authors.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, prefix: Ipv4Net) -> Option<&Route> {
        self.routes.get(*self.by_prefix.get(&prefix)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }

    pub(super) fn at(&self, position: u32) -> Option<&Route> {
        self.routes.get(position)
    }

    pub(super) fn positions(&self) -> u32 {
        self.routes.indices().end
    }

    /// Entries of a route with their numbers, the most preferred author first.
    pub(super) fn entries_of(&self, route: u32) -> impl Iterator<Item = (u32, &Entry)> {
        self.list(self.routes.get(route).map_or(NONE, |route| route.first))
    }

    pub(super) fn entries(&self, route: &Route) -> impl Iterator<Item = &Entry> {
        self.list(route.first).map(|(_, entry)| entry)
    }

    fn list(&self, first: u32) -> impl Iterator<Item = (u32, &Entry)> {
        let numbered = |index| self.entries.get(index).map(|entry| (index, entry));
        std::iter::successors(numbered(first), move |(_, entry)| numbered(entry.next))
    }

    /// Numbers of route and entry.
    pub(super) fn find_entry(&self, prefix: Ipv4Net, author: Author) -> Option<(u32, u32)> {
        let route = *self.by_prefix.get(&prefix)?;
        let (entry, _) = self.entries_of(route).find(|(_, entry)| entry.author == author)?;
        Some((route, entry))
    }

    pub(super) fn set_of(&self, entry: u32) -> Option<u32> {
        self.entries.get(entry).map(|entry| entry.set)
    }

    /// The route of an entry, and the next entry of the same set.
    pub(super) fn step(&self, entry: u32) -> Option<(u32, u32)> {
        self.entries.get(entry).map(|entry| (entry.route, entry.after))
    }

    /// Notes what the forwarding table holds. Answers the prefix if that is something else than before.
    pub(super) fn install(&mut self, route: u32, target: Option<Target>) -> Option<Ipv4Net> {
        let route = self.routes.get_mut(route)?;
        let before = std::mem::replace(&mut route.installed, target);
        (before != target).then_some(route.prefix)
    }

    /// Adds an entry, and a route if the prefix has none; answers the route's number.
    pub(super) fn attach(&mut self, prefix: Ipv4Net, author: Author, set: u32, sets: &mut Sets) -> u32 {
        let route = *self
            .by_prefix
            .entry(prefix)
            .or_insert_with(|| self.routes.insert(Route { prefix, first: NONE, installed: None }));
        let preferred = self.entries_of(route).take_while(|(_, entry)| entry.author < author).last();
        let preferred = preferred.map(|(index, _)| index);
        let entry = Entry { route, author, set, next: NONE, before: NONE, after: NONE };
        let entry = self.entries.insert(entry);
        let next = self.point_to(route, preferred, entry);
        if let Some(entry) = self.entries.get_mut(entry) {
            entry.next = next;
        }
        self.link(entry, set, sets);
        route
    }

    /// Takes an entry out; answers its set. The route stays, be it without entries.
    pub(super) fn detach(&mut self, route: u32, entry: u32, sets: &mut Sets) -> Option<u32> {
        let set = self.unlink(entry, sets);
        let preferred = self.entries_of(route).take_while(|(index, _)| *index != entry).last();
        let preferred = preferred.map(|(index, _)| index);
        let next = self.entries.remove(entry).map_or(NONE, |entry| entry.next);
        self.point_to(route, preferred, next);
        set
    }

    /// Moves an entry to another set; answers the old one.
    pub(super) fn change_set(&mut self, entry: u32, set: u32, sets: &mut Sets) -> Option<u32> {
        let old = self.unlink(entry, sets);
        self.link(entry, set, sets);
        old
    }

    /// Forgets a route without entries.
    pub(super) fn drop_if_empty(&mut self, route: u32) {
        if self.routes.get(route).is_some_and(|route| route.first == NONE)
            && let Some(route) = self.routes.remove(route)
        {
            self.by_prefix.remove(&route.prefix);
        }
    }

    /// Makes the entry `preferred`, or else the route itself, point to `entry`; answers what it pointed to.
    fn point_to(&mut self, route: u32, preferred: Option<u32>, entry: u32) -> u32 {
        let place = match preferred {
            Some(index) => self.entries.get_mut(index).map(|entry| &mut entry.next),
            None => self.routes.get_mut(route).map(|route| &mut route.first),
        };
        place.map_or(NONE, |place| std::mem::replace(place, entry))
    }

    /// Puts an entry at the head of its set's list.
    fn link(&mut self, index: u32, set: u32, sets: &mut Sets) {
        let first = sets.first_entry(set);
        sets.set_first_entry(set, index);
        if let Some(first) = self.entries.get_mut(first) {
            first.before = index;
        }
        if let Some(entry) = self.entries.get_mut(index) {
            (entry.set, entry.before, entry.after) = (set, NONE, first);
        }
    }

    /// Takes an entry out of its set's list; answers the set.
    fn unlink(&mut self, index: u32, sets: &mut Sets) -> Option<u32> {
        let (set, before, after) = self.entries.get(index).map(|entry| (entry.set, entry.before, entry.after))?;
        match self.entries.get_mut(before) {
            Some(before) => before.after = after,
            None => sets.set_first_entry(set, after),
        }
        if sets.first_late(set) == index {
            sets.set_first_late(set, after);
        }
        if let Some(after) = self.entries.get_mut(after) {
            after.before = before;
        }
        Some(set)
    }
}
