//! Looking at the RIB.

use super::routes::{Entry, Route};
use super::{Hop, Rib, Target};
use crate::author::Author;
use crate::group::{Buckets, GroupId};
use crate::interface::PortId;
use crate::nexthop::{NextHop, NextHopId};
use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

/// One author's route.
#[derive(Clone, Copy, Debug)]
pub struct RouteView<'r> {
    rib: &'r Rib,
    route: &'r Route,
    entry: &'r Entry,
}

impl<'r> RouteView<'r> {
    /// The prefix; host bits are zero.
    pub const fn prefix(&self) -> Ipv4Net {
        self.route.prefix
    }

    /// Who made it.
    pub const fn author(&self) -> Author {
        self.entry.author
    }

    /// Whether packets follow it: it has a usable hop and no better author has one.
    pub fn is_installed(&self) -> bool {
        let mut usable = self.rib.routes.entries(self.route).filter(|entry| self.rib.sets.target(entry.set).is_some());
        usable.next().is_some_and(|best| best.author == self.entry.author)
    }

    /// Its hops as stated, each with the next hop that it leads to if it is usable.
    pub fn hops(&self) -> impl Iterator<Item = (Hop, Option<NextHop>)> + use<'r> {
        let rib = self.rib;
        rib.sets.members(self.entry.set).iter().filter_map(move |&hop| {
            let next_hop = rib.hops.usable(hop).and_then(|id| rib.next_hops.get(id));
            Some((rib.hops.hop(hop)?, next_hop))
        })
    }
}

impl Rib {
    /// Routes of all authors.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All routes, in no order of prefixes; those of one prefix stand together, the most preferred author first.
    pub fn routes(&self) -> impl Iterator<Item = RouteView<'_>> {
        self.routes.iter().flat_map(move |route| self.views(route))
    }

    /// The routes at some of the positions 0 to [`Rib::positions`], in no order of prefixes. A route keeps its position as long as
    /// it lives.
    pub fn routes_at(&self, positions: std::ops::Range<u32>) -> impl Iterator<Item = RouteView<'_>> {
        let routes = positions.filter_map(|position| self.routes.at(position));
        routes.flat_map(move |route| self.views(route))
    }

    /// One more than the last position that a route may have.
    pub fn positions(&self) -> u32 {
        self.routes.positions()
    }

    /// The routes to exactly this prefix, the most preferred author first.
    pub fn routes_to(&self, prefix: Ipv4Net) -> impl Iterator<Item = RouteView<'_>> {
        self.routes.get(prefix.trunc()).into_iter().flat_map(move |route| self.views(route))
    }

    fn views<'r>(&'r self, route: &'r Route) -> impl Iterator<Item = RouteView<'r>> {
        self.routes.entries(route).map(move |entry| RouteView { rib: self, route, entry })
    }

    /// What the forwarding table holds: every prefix that leads somewhere.
    pub fn installed(&self) -> impl Iterator<Item = (Ipv4Net, Target)> {
        self.routes.iter().filter_map(|route| Some((route.prefix, route.installed?)))
    }

    /// Where exactly this prefix leads, as the forwarding table holds it.
    pub fn installed_at(&self, prefix: Ipv4Net) -> Option<Target> {
        self.routes.get(prefix.trunc())?.installed
    }

    /// The longest prefix around `address` that leads somewhere: 33 probes, for shows and checks.
    pub fn lookup(&self, address: Ipv4Addr) -> Option<(Ipv4Net, Target)> {
        let prefixes = (0..=32).rev().filter_map(|length| Ipv4Net::new(address, length).ok());
        prefixes.map(|prefix| prefix.trunc()).find_map(|prefix| Some((prefix, self.routes.get(prefix)?.installed?)))
    }

    /// The next hops that a target stands for at present.
    pub fn next_hops_of(&self, target: Target) -> Vec<NextHop> {
        let mut ids = match target {
            Target::NextHop(id) => vec![id],
            Target::Group(id) => self.buckets(id).map_or(Vec::new(), |buckets| buckets.to_vec()),
        };
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| self.next_hop(id)).collect()
    }

    /// What a number stands for; `None` if it is gone.
    pub fn next_hop(&self, id: NextHopId) -> Option<NextHop> {
        self.next_hops.get(id)
    }

    /// All next hops that are held, usable or not.
    pub fn next_hops(&self) -> impl Iterator<Item = (NextHopId, NextHop)> {
        self.next_hops.iter()
    }

    /// Next hops that are held.
    pub fn next_hop_count(&self) -> usize {
        self.next_hops.len()
    }

    /// The buckets of a group; `None` if it is gone.
    pub fn buckets(&self, id: GroupId) -> Option<&Buckets> {
        self.groups.buckets(id)
    }

    /// Groups in use.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Whether the link of `port` is up.
    pub fn is_link_up(&self, port: PortId) -> bool {
        self.up.contains(&port)
    }
}
