//! Routes by VRF and prefix, and their entries: one for each source.
//!
//! An entry is in two lists: of its route, by preference, and of its set, in no order. The second one is why a set that
//! has lost its last usable hop finds its routes without looking at others. Routes have a table for each family; entries and sets are
//! those of both.

use super::sets::Sets;
use super::slab::{NONE, Slab};
use super::{RouteSource, Target};
use crate::family::Prefix;
use crate::vrf::VrfId;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::HashMap;

/// Prefixes of which there can be routes: those of both families.
pub trait Routed: Prefix {
    /// The routes of this family.
    #[doc(hidden)]
    fn table(routes: &Routes) -> &Table<Self>;

    /// The routes of this family, to be changed.
    #[doc(hidden)]
    fn table_mut(routes: &mut Routes) -> &mut Table<Self>;

    /// The number of the route that has this one in the table of this family.
    #[doc(hidden)]
    fn id(index: u32) -> RouteId;
}

/// Which route: its number in the table of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteId {
    /// One of IPv4.
    V4(u32),
    /// One of IPv6.
    V6(u32),
}

#[derive(Debug)]
pub(super) struct Route<P> {
    pub(super) vrf: VrfId,
    pub(super) prefix: P,
    /// The entry of the most preferred source.
    first: u32,
    /// What the forwarding table holds.
    pub(super) installed: Option<Target>,
}

/// The routes of one family.
#[derive(Debug)]
pub struct Table<P> {
    by_prefix: HashMap<(VrfId, P), u32>,
    routes: Slab<Route<P>>,
}

impl<P> Default for Table<P> {
    fn default() -> Self {
        Table { by_prefix: HashMap::new(), routes: Slab::default() }
    }
}

/// What one source wants for one prefix.
#[derive(Debug)]
pub(super) struct Entry {
    route: RouteId,
    pub(super) source: RouteSource,
    pub(super) set: u32,
    /// The next source's entry for the prefix.
    next: u32,
    /// Neighbours in the list of the set.
    before: u32,
    after: u32,
}

#[derive(Debug, Default)]
pub struct Routes {
    v4: Table<Ipv4Net>,
    v6: Table<Ipv6Net>,
    entries: Slab<Entry>,
}

impl Routed for Ipv4Net {
    fn table(routes: &Routes) -> &Table<Self> {
        &routes.v4
    }

    fn table_mut(routes: &mut Routes) -> &mut Table<Self> {
        &mut routes.v4
    }

    fn id(index: u32) -> RouteId {
        RouteId::V4(index)
    }
}

impl Routed for Ipv6Net {
    fn table(routes: &Routes) -> &Table<Self> {
        &routes.v6
    }

    fn table_mut(routes: &mut Routes) -> &mut Table<Self> {
        &mut routes.v6
    }

    fn id(index: u32) -> RouteId {
        RouteId::V6(index)
    }
}

impl<P: Prefix> Table<P> {
    /// Notes what the forwarding table holds. Answers VRF and prefix if that is something else than before.
    fn install(&mut self, index: u32, target: Option<Target>) -> Option<(VrfId, IpNet)> {
        let route = self.routes.get_mut(index)?;
        let before = std::mem::replace(&mut route.installed, target);
        (before != target).then(|| (route.vrf, route.prefix.into()))
    }

    /// Forgets a route without entries.
    fn drop_if_empty(&mut self, index: u32) {
        if self.routes.get(index).is_some_and(|route| route.first == NONE)
            && let Some(route) = self.routes.remove(index)
        {
            self.by_prefix.remove(&(route.vrf, route.prefix));
        }
    }
}

impl Routes {
    /// Entries of all sources.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get<P: Routed>(&self, vrf: VrfId, prefix: P) -> Option<&Route<P>> {
        let table = P::table(self);
        table.routes.get(*table.by_prefix.get(&(vrf, prefix))?)
    }

    pub(super) fn iter<P: Routed>(&self) -> impl Iterator<Item = &Route<P>> {
        P::table(self).routes.iter()
    }

    pub(super) fn at<P: Routed>(&self, position: u32) -> Option<&Route<P>> {
        P::table(self).routes.get(position)
    }

    pub(super) fn positions<P: Routed>(&self) -> u32 {
        P::table(self).routes.indices().end
    }

    /// Entries of a route with their numbers, the most preferred source first.
    pub(super) fn entries_of(&self, route: RouteId) -> impl Iterator<Item = (u32, &Entry)> {
        let first = match route {
            RouteId::V4(index) => self.v4.routes.get(index).map(|route| route.first),
            RouteId::V6(index) => self.v6.routes.get(index).map(|route| route.first),
        };
        self.list(first.unwrap_or(NONE))
    }

    pub(super) fn entries<P>(&self, route: &Route<P>) -> impl Iterator<Item = &Entry> + use<'_, P> {
        self.list(route.first).map(|(_, entry)| entry)
    }

    fn list(&self, first: u32) -> impl Iterator<Item = (u32, &Entry)> {
        let numbered = |index| self.entries.get(index).map(|entry| (index, entry));
        std::iter::successors(numbered(first), move |(_, entry)| numbered(entry.next))
    }

    /// Numbers of route and entry.
    pub(super) fn find_entry<P: Routed>(&self, vrf: VrfId, prefix: P, source: RouteSource) -> Option<(RouteId, u32)> {
        let route = P::id(*P::table(self).by_prefix.get(&(vrf, prefix))?);
        let (entry, _) = self.entries_of(route).find(|(_, entry)| entry.source == source)?;
        Some((route, entry))
    }

    pub(super) fn set_of(&self, entry: u32) -> Option<u32> {
        self.entries.get(entry).map(|entry| entry.set)
    }

    /// The route of an entry, and the next entry of the same set.
    pub(super) fn step(&self, entry: u32) -> Option<(RouteId, u32)> {
        self.entries.get(entry).map(|entry| (entry.route, entry.after))
    }

    /// Notes what the forwarding table holds. Answers VRF and prefix if that is something else than before.
    pub(super) fn install(&mut self, route: RouteId, target: Option<Target>) -> Option<(VrfId, IpNet)> {
        match route {
            RouteId::V4(index) => self.v4.install(index, target),
            RouteId::V6(index) => self.v6.install(index, target),
        }
    }

    /// Adds an entry, and a route if the prefix has none; answers the route's number.
    pub(super) fn attach<P: Routed>(
        &mut self,
        (vrf, prefix): (VrfId, P),
        source: RouteSource,
        set: u32,
        sets: &mut Sets,
    ) -> RouteId {
        let table = P::table_mut(self);
        let routes = &mut table.routes;
        let add = || routes.insert(Route { vrf, prefix, first: NONE, installed: None });
        let route = P::id(*table.by_prefix.entry((vrf, prefix)).or_insert_with(add));
        let preferred = self.entries_of(route).take_while(|(_, entry)| entry.source < source).last();
        let preferred = preferred.map(|(index, _)| index);
        let entry = Entry { route, source, set, next: NONE, before: NONE, after: NONE };
        let entry = self.entries.insert(entry);
        let next = self.point_to(route, preferred, entry);
        if let Some(entry) = self.entries.get_mut(entry) {
            entry.next = next;
        }
        self.link(entry, set, sets);
        route
    }

    /// Takes an entry out; answers its set. The route stays, be it without entries.
    pub(super) fn detach(&mut self, route: RouteId, entry: u32, sets: &mut Sets) -> Option<u32> {
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
    pub(super) fn drop_if_empty(&mut self, route: RouteId) {
        match route {
            RouteId::V4(index) => self.v4.drop_if_empty(index),
            RouteId::V6(index) => self.v6.drop_if_empty(index),
        }
    }

    /// Makes the entry `preferred`, or else the route itself, point to `entry`; answers what it pointed to.
    fn point_to(&mut self, route: RouteId, preferred: Option<u32>, entry: u32) -> u32 {
        let place = match (preferred, route) {
            (Some(index), _) => self.entries.get_mut(index).map(|entry| &mut entry.next),
            (None, RouteId::V4(index)) => self.v4.routes.get_mut(index).map(|route| &mut route.first),
            (None, RouteId::V6(index)) => self.v6.routes.get_mut(index).map(|route| &mut route.first),
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
