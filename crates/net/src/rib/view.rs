//! Looking at the RIB.

use super::routes::{Entry, Route, Routed};
use super::{Hop, Rib, Target};
use crate::family::{Family, Prefix};
use crate::group::{Buckets, GroupId};
use crate::interface::InterfaceId;
use crate::nexthop::{NextHopId, Towards};
use crate::route_source::RouteSource;
use crate::vrf::VrfId;
use ipnet::Ipv4Net;

/// One source's route.
#[derive(Clone, Copy, Debug)]
pub struct RouteView<'r, P = Ipv4Net> {
    rib: &'r Rib,
    route: &'r Route<P>,
    entry: &'r Entry,
}

impl<'r, P: Routed> RouteView<'r, P> {
    /// The VRF.
    pub const fn vrf(&self) -> VrfId {
        self.route.vrf
    }

    /// The prefix; host bits are zero.
    pub const fn prefix(&self) -> P {
        self.route.prefix
    }

    /// Who made it.
    pub const fn source(&self) -> RouteSource {
        self.entry.source
    }

    /// Whether packets follow it: it has a usable hop and no better source has one.
    pub fn is_installed(&self) -> bool {
        let mut usable = self.rib.routes.entries(self.route).filter(|entry| self.rib.sets.target(entry.set).is_some());
        usable.next().is_some_and(|best| best.source == self.entry.source)
    }

    /// Its hops as stated, each with what it leads to if it is usable.
    pub fn hops(&self) -> impl Iterator<Item = (Hop, Option<Towards>)> + use<'r, P> {
        let rib = self.rib;
        rib.sets.members(self.entry.set).iter().filter_map(move |&hop| {
            let next_hop = rib.hops.usable(hop).and_then(|id| rib.next_hops.get(id));
            Some((rib.hops.bound(hop)?.hop, next_hop))
        })
    }
}

impl Rib {
    /// Routes of all sources, in all VRFs, of both families.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All routes of a family, in no order of VRFs and prefixes; those of one prefix stand together, the most preferred source first.
    pub fn routes<P: Routed>(&self) -> impl Iterator<Item = RouteView<'_, P>> {
        self.routes.iter().flat_map(move |route| self.views(route))
    }

    /// The routes of a family at some of the positions 0 to [`Rib::positions`], in no order of VRFs and prefixes. A route keeps its
    /// position as long as it lives.
    pub fn routes_at<P: Routed>(&self, positions: std::ops::Range<u32>) -> impl Iterator<Item = RouteView<'_, P>> {
        let routes = positions.filter_map(|position| self.routes.at(position));
        routes.flat_map(move |route| self.views(route))
    }

    /// One more than the last position that a route of a family may have.
    pub fn positions<P: Routed>(&self) -> u32 {
        self.routes.positions::<P>()
    }

    /// The routes to exactly this prefix, the most preferred source first.
    pub fn routes_to<P: Routed>(&self, vrf: VrfId, prefix: P) -> impl Iterator<Item = RouteView<'_, P>> {
        self.routes.get(vrf, prefix.network()).into_iter().flat_map(move |route| self.views(route))
    }

    fn views<'r, P: Routed>(&'r self, route: &'r Route<P>) -> impl Iterator<Item = RouteView<'r, P>> {
        self.routes.entries(route).map(move |entry| RouteView { rib: self, route, entry })
    }

    /// What the forwarding table of a VRF holds: every prefix of a family that has a target.
    pub fn installed<P: Routed>(&self, vrf: VrfId) -> impl Iterator<Item = (P, Target)> {
        let routes = self.routes.iter().filter(move |route| route.vrf == vrf);
        routes.filter_map(|route| Some((route.prefix, route.installed?)))
    }

    /// Where exactly this prefix leads, as the forwarding table holds it.
    pub fn installed_at<P: Routed>(&self, vrf: VrfId, prefix: P) -> Option<Target> {
        self.routes.get(vrf, prefix.network())?.installed
    }

    /// The longest prefix around `address` that has a target: a probe for each length, for shows and checks.
    pub fn lookup<A: Family>(&self, vrf: VrfId, address: A) -> Option<(A::Prefix, Target)>
    where
        A::Prefix: Routed,
    {
        let mut prefixes = (0..=A::BITS).rev().filter_map(|length| A::Prefix::around(address, length));
        prefixes.find_map(|prefix| Some((prefix, self.routes.get(vrf, prefix)?.installed?)))
    }

    /// The next hops and inlets that a target stands for at present.
    pub fn next_hops_of(&self, target: Target) -> Vec<Towards> {
        let mut ids = match target {
            Target::NextHop(id) => vec![id],
            Target::Discard(_) => Vec::new(),
            Target::Group(id) => self.buckets(id).map_or(Vec::new(), |buckets| buckets.to_vec()),
        };
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| self.next_hop(id)).collect()
    }

    /// What a number stands for; `None` if it is gone.
    pub fn next_hop(&self, id: NextHopId) -> Option<Towards> {
        self.next_hops.get(id)
    }

    /// All next hops and inlets that are held, usable or not.
    pub fn next_hops(&self) -> impl Iterator<Item = (NextHopId, Towards)> {
        self.next_hops.iter()
    }

    /// Next hops and inlets that are held.
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

    /// Whether the link of `interface` is up.
    pub fn is_link_up(&self, interface: InterfaceId) -> bool {
        self.up.contains(&interface)
    }
}
