//! The routing information base: what every source wants, and what of it the forwarding table must hold.
//!
//! A route is a VRF, a prefix of either family, an [`RouteSource`], and a set of hops ([`Hop`]). Per prefix the most preferred source wins
//! who has a usable hop. A hop is usable while the link of its interface is up; a gateway without an interface is looked up among the networks that
//! are connected in the route's VRF (routes of [`RouteSource::Connected`] out of an interface), and only there. Hops of one set share the traffic;
//! those that are not usable are left out, and come back by themselves. A route may also lead into a function ([`Hop::Into`], which is always
//! usable), or nowhere ([`Discard`]).
//!
//! What routes lead to has no family: a set of hops, a next hop or a group is the same for routes of all VRFs and both families. So
//! a route of IPv4 may go by routers with IPv6 addresses (RFC 8950).
//!
//! Equal sets are kept once, but where a route would lose flows by that: a route that gets other hops keeps the flows of those
//! that stay, whoever had it before, and has a group of its own if need be. So a link that goes down changes the few groups it is a member of, and of the routes
//! only those that have no usable hop left:
//!
//! ```text
//! (prefix, source) --> set of hops --> target: one next hop, or a group of them
//!                        hop --> next hop (interface, gateway)
//! ```
//!
//! A link that goes down or a network that is disconnected may change every route. So such a change only leaves work behind, which
//! [`Rib::catch_up`] does by the piece; what each other operation does is done when it returns.
//!
//! Every operation appends to a list what the forwarding table has to do, in an order that is safe at each step: a next
//! hop or group is filled in before a route points to it, and given up only after no route does. Its number is used
//! again only after [`Rib::recycle`].

mod behind;
mod connected;
mod hop;
mod hops;
mod routes;
mod sets;
mod slab;
#[cfg(test)]
mod tests;
mod view;

use crate::family::Family;
use crate::group::{Buckets, GroupId, GroupStore, MAX_MEMBERS};
use crate::interface::InterfaceId;
use crate::nexthop::{NextHopId, NextHopStore, Towards};
use crate::route_source::RouteSource;
use crate::vrf::VrfId;
use behind::Behind;
use connected::Connected;
use hop::Bound;
pub use hop::{Discard, Hop};
use hops::{Hops, Key};
use ipnet::IpNet;
pub use routes::Routed;
use routes::{RouteId, Routes};
use sets::{Set, Sets};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
pub use view::RouteView;

/// What a route leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// One next hop, or an inlet.
    NextHop(NextHopId),
    /// An equal-cost set.
    Group(GroupId),
    /// Nowhere.
    Discard(Discard),
}

/// Something that the forwarding table has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The place of this next hop or inlet holds this from now on; `None`: nothing points to it any more.
    NextHop {
        /// Which place.
        id: NextHopId,
        /// What it holds.
        now: Option<Towards>,
    },
    /// The place of this group holds these buckets from now on; `None`: nothing points to it any more.
    Group {
        /// Which place.
        id: GroupId,
        /// What it holds.
        now: Option<Box<Buckets>>,
    },
    /// The prefix leads here from now on; `None`: nowhere.
    Route {
        /// In which VRF.
        vrf: VrfId,
        /// Which prefix; host bits are zero.
        prefix: IpNet,
        /// Where it leads.
        now: Option<Target>,
    },
}

/// How much a RIB may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Routes: pairs of prefix and source.
    pub routes: u32,
    /// Next hops, at most [`NextHopStore::MAX_CAPACITY`].
    pub next_hops: u32,
    /// Groups: different sets of two hops or more.
    pub groups: u32,
}

impl Default for Limits {
    /// Two million routes, 131,072 next hops, 16,384 groups.
    fn default() -> Self {
        Limits { routes: 2_000_000, next_hops: 1 << 17, groups: 1 << 14 }
    }
}

/// Why a route was refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The route has no hops.
    NoHops,
    /// The route has more hops than the limit given.
    TooManyHops {
        /// Most hops of a route.
        limit: usize,
    },
    /// The RIB is full.
    TooManyRoutes {
        /// Most routes, as configured.
        limit: u32,
    },
    /// A link-local address says nothing without the interface on whose link it is.
    NeedsPort(IpAddr),
    /// A route of IPv6 cannot go by a router that is known by its IPv4 address.
    WrongFamily(IpAddr),
    /// A route that leads nowhere has other hops, too.
    DiscardAndMore(Discard),
    /// No place for another next hop.
    TooManyNextHops,
    /// No place for another group.
    TooManyGroups,
    /// There is no such route of this source.
    NotFound,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::NoHops => f.write_str("a route needs a next hop or an interface"),
            RouteError::TooManyHops { limit } => write!(f, "a route can have at most {limit} next hops"),
            RouteError::TooManyRoutes { limit } => {
                write!(f, "the table is full: it is configured for {limit} routes; delete some or configure more")
            }
            RouteError::NeedsPort(gateway) => {
                write!(f, "{gateway} is link-local, and may be on any link; write the interface, too")
            }
            RouteError::WrongFamily(gateway) => {
                write!(f, "an IPv6 route cannot go by {gateway}; write the router's IPv6 address")
            }
            RouteError::DiscardAndMore(discard) => {
                write!(f, "a {discard} route leads nowhere, and can have no next hops; leave one or the other out")
            }
            RouteError::TooManyNextHops => f.write_str("all next hops are taken; delete routes or configure more"),
            RouteError::TooManyGroups => f.write_str("all equal-cost sets are taken; delete routes or configure more"),
            RouteError::NotFound => f.write_str("this source has no route to this prefix"),
        }
    }
}

impl std::error::Error for RouteError {}

/// How many next hops and groups were given up, read before a grace period begins; see [`Rib::recycle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    next_hops: u64,
    groups: u64,
}

/// The routes of all sources.
#[derive(Debug)]
pub struct Rib {
    limits: Limits,
    routes: Routes,
    sets: Sets,
    hops: Hops,
    next_hops: NextHopStore,
    groups: GroupStore,
    connected: Connected,
    /// Ports whose link is up.
    up: BTreeSet<InterfaceId>,
    /// What the forwarding table does not follow yet.
    behind: Behind,
    /// Next hops to let go of as soon as no route can lead there: at the end of the operation under way, or when nothing is left behind.
    released: Vec<NextHopId>,
    /// A hop could not be resolved for want of a place.
    starved: bool,
    /// Room for hops that are being sorted, kept so that a change does not allocate.
    scratch: Vec<Bound>,
}

impl Rib {
    /// An empty RIB; all links are down.
    pub fn new(limits: Limits) -> Self {
        Rib {
            limits,
            routes: Routes::default(),
            sets: Sets::default(),
            hops: Hops::default(),
            next_hops: NextHopStore::new(limits.next_hops),
            groups: GroupStore::new(limits.groups),
            connected: Connected::default(),
            up: BTreeSet::new(),
            behind: Behind::default(),
            released: Vec::new(),
            starved: false,
            scratch: Vec::new(),
        }
    }

    /// Adds a route, or replaces the one that `source` has for this prefix. Host bits of `prefix` and duplicates among
    /// `hops` do not count. What has to be done is appended to `changes`; of a connected network, what is reached by it is left to
    /// [`Rib::catch_up`].
    ///
    /// # Errors
    /// The route can not be held; the RIB is as before (`changes` may then name next hops that come and go).
    pub fn replace<P: Routed>(
        &mut self,
        vrf: VrfId,
        prefix: P,
        source: RouteSource,
        hops: &[Hop],
        changes: &mut Vec<Change>,
    ) -> Result<(), RouteError> {
        let mut sorted = std::mem::take(&mut self.scratch);
        sorted.clear();
        sorted.extend(hops.iter().map(|&hop| Bound::new(hop, vrf)));
        sorted.sort_unstable();
        sorted.dedup();
        let checked = check_hops::<P>(&sorted);
        let result = checked.and_then(|()| self.replace_sorted((vrf, prefix.network()), source, &sorted, changes));
        self.scratch = sorted;
        self.let_go(changes);
        result
    }

    /// Removes the route that `source` has for this prefix. Of a connected network, what is reached by it is left to [`Rib::catch_up`].
    ///
    /// # Errors
    /// There is none.
    pub fn remove<P: Routed>(
        &mut self,
        vrf: VrfId,
        prefix: P,
        source: RouteSource,
        changes: &mut Vec<Change>,
    ) -> Result<(), RouteError> {
        let prefix = prefix.network();
        let (route, entry) = self.routes.find_entry(vrf, prefix, source).ok_or(RouteError::NotFound)?;
        let set = self.routes.detach(route, entry, &mut self.sets);
        self.refresh_route(route, changes);
        self.routes.drop_if_empty(route);
        if source == RouteSource::Connected {
            self.set_connected(vrf, prefix.into(), &[]);
        }
        self.drop_set_if_unused(set, changes);
        self.let_go(changes);
        Ok(())
    }

    /// The link of `interface` went up or down. What follows from that is left to [`Rib::catch_up`].
    pub fn set_link(&mut self, interface: InterfaceId, up: bool) {
        let changed = if up { self.up.insert(interface) } else { self.up.remove(&interface) };
        if changed {
            self.fall_behind((Key::Interface(interface), Key::Interface(interface)));
            let gateways: Vec<_> = self.connected.gateways_on(interface).collect();
            for gateways in gateways {
                self.fall_behind(gateways);
            }
        }
    }

    /// What was given up so far. Read it after the changes were applied, wait until every reader has passed a quiescent
    /// point, then hand it to [`Rib::recycle`].
    pub const fn retired(&self) -> Retired {
        Retired { next_hops: self.next_hops.retired(), groups: self.groups.retired() }
    }

    /// Lets places that were given up before `upto` was read be used again. Hops that wait for one are left to [`Rib::catch_up`].
    pub fn recycle(&mut self, upto: Retired) {
        self.next_hops.recycle(upto.next_hops);
        self.groups.recycle(upto.groups);
        if std::mem::take(&mut self.starved) {
            self.fall_behind(Key::ALL);
        }
    }

    fn replace_sorted<P: Routed>(
        &mut self,
        (vrf, prefix): (VrfId, P),
        source: RouteSource,
        hops: &[Bound],
        changes: &mut Vec<Change>,
    ) -> Result<(), RouteError> {
        let found = self.routes.find_entry(vrf, prefix, source);
        if found.is_none() && self.routes.len() >= self.limits.routes as usize {
            return Err(RouteError::TooManyRoutes { limit: self.limits.routes });
        }
        let own = found.and_then(|(_, entry)| self.routes.set_of(entry));
        if own.is_some_and(|set| self.sets.find(hops).contains(&set)) {
            return Ok(());
        }
        let model = self.model_for(vrf, prefix, own);
        let set = self.intern_set(hops, model, changes)?;
        let (route, old) = match found {
            Some((route, entry)) => (route, self.routes.change_set(entry, set, &mut self.sets)),
            None => (self.routes.attach((vrf, prefix), source, set, &mut self.sets), None),
        };
        self.refresh_route(route, changes);
        if source == RouteSource::Connected {
            self.set_connected(vrf, prefix.into(), hops);
        }
        self.drop_set_if_unused(old, changes);
        Ok(())
    }

    /// A network is connected by these of `hops` that are interfaces, or not any more.
    fn set_connected(&mut self, vrf: VrfId, network: IpNet, hops: &[Bound]) {
        if self.connected.set(vrf, network, hops.iter().map(|bound| bound.hop)) {
            self.fall_behind(Key::gateways_in(vrf, network));
        }
    }

    /// The group whose flows a route to `prefix` should keep: what packets follow now, whose ever it is; else that of the source's
    /// set `own`.
    fn model_for<P: Routed>(&self, vrf: VrfId, prefix: P, own: Option<u32>) -> Option<GroupId> {
        match self.routes.get(vrf, prefix).and_then(|route| route.installed) {
            Some(Target::Group(id)) => Some(id),
            _ => own.and_then(|set| self.sets.group(set)),
        }
    }

    /// Of the sets of these hops the one to which the fewest flows of `model` have to move; `None` if there is none, or one made
    /// after `model` would move fewer still and half of the groups are free.
    fn set_like(&self, hops: &[Bound], model: Option<GroupId>) -> Option<u32> {
        let moves = |set: u32| Some(self.groups.distance(model?, self.sets.group(set)?));
        let best = self.sets.find(hops).iter().copied().min_by_key(|&set| moves(set))?;
        let usable = self.usable_of(self.sets.members(best));
        let least = model.and_then(|model| self.groups.least(model, &usable));
        let is_near = usable.is_empty() || moves(best).zip(least).is_none_or(|(moves, least)| moves <= least);
        (is_near || self.groups.is_half_taken()).then_some(best)
    }

    /// The next hops of those hops that can be used now, each once.
    fn usable_of(&self, hops: &[u32]) -> Vec<NextHopId> {
        let mut usable: Vec<_> = hops.iter().filter_map(|&hop| self.hops.usable(hop)).collect();
        usable.sort_unstable();
        usable.dedup();
        usable
    }

    /// The set of these hops, made if there is none yet that is near; a new group starts with the buckets of `model`.
    fn intern_set(
        &mut self,
        hops: &[Bound],
        model: Option<GroupId>,
        changes: &mut Vec<Change>,
    ) -> Result<u32, RouteError> {
        if let Some(set) = self.set_like(hops, model) {
            return Ok(set);
        }
        let mut members = Vec::with_capacity(hops.len());
        let made = self.intern_hops(hops, &mut members, changes).and_then(|()| match hops {
            [_] => Ok(None),
            _ => self.groups.create_like(model).map(Some).ok_or(RouteError::TooManyGroups),
        });
        match made {
            Ok(group) => {
                let set = self.sets.insert(hops, Set::new(members, group));
                self.hops.join(self.sets.members(set), set);
                self.refresh_set(set, changes);
                Ok(set)
            }
            Err(error) => {
                for hop in members {
                    self.released.extend(self.hops.drop_if_unused(hop));
                }
                Err(error)
            }
        }
    }

    fn intern_hops(
        &mut self,
        hops: &[Bound],
        members: &mut Vec<u32>,
        changes: &mut Vec<Change>,
    ) -> Result<(), RouteError> {
        for &hop in hops {
            let index = match self.hops.find(hop) {
                Some(index) => index,
                None => {
                    let (next_hop, usable) = self.connected.resolve(hop, &self.up);
                    let id = match next_hop {
                        Some(next_hop) => {
                            Some(acquire(&mut self.next_hops, next_hop, changes).ok_or(RouteError::TooManyNextHops)?)
                        }
                        None => None,
                    };
                    self.hops.insert(hop, id, usable)
                }
            };
            members.push(index);
        }
        Ok(())
    }

    /// Recomputes which hops of a set are usable. Answers whether its target is another one now.
    fn refresh_set(&mut self, index: u32, changes: &mut Vec<Change>) -> bool {
        let usable = self.usable_of(self.sets.members(index));
        let Some(set) = self.sets.get_mut(index) else { return false };
        let target = match set.group {
            None => {
                let discard = set.hops.first().and_then(|&hop| self.hops.discard(hop));
                discard.map(Target::Discard).or(usable.first().copied().map(Target::NextHop))
            }
            Some(id) => {
                // A group that was led to by nobody may be as it should be and yet never have been told.
                let told = set.target.is_some() || usable.is_empty();
                if self.groups.update(id, &usable) > 0 || !told {
                    let now = self.groups.buckets(id).map(|buckets| Box::new(*buckets));
                    changes.push(Change::Group { id, now });
                }
                (!usable.is_empty()).then_some(Target::Group(id))
            }
        };
        std::mem::replace(&mut set.target, target) != target
    }

    /// Lets the most preferred source with a usable set have the prefix.
    fn refresh_route(&mut self, route: RouteId, changes: &mut Vec<Change>) {
        let best = self.routes.entries_of(route).find_map(|(_, entry)| self.sets.target(entry.set));
        if let Some((vrf, prefix)) = self.routes.install(route, best) {
            changes.push(Change::Route { vrf, prefix, now: best });
        }
    }

    fn drop_set_if_unused(&mut self, index: Option<u32>, changes: &mut Vec<Change>) {
        let Some(index) = index.filter(|&index| self.sets.is_unused(index)) else { return };
        let keys: Vec<Bound> = self.sets.members(index).iter().filter_map(|&hop| self.hops.bound(hop)).collect();
        let Some(set) = self.sets.remove(index, &keys) else { return };
        if let Some(id) = set.group.filter(|&id| self.groups.remove(id)) {
            changes.push(Change::Group { id, now: None });
        }
        for &hop in &set.hops {
            self.hops.leave(hop, index);
            self.released.extend(self.hops.drop_if_unused(hop));
        }
    }

    /// Gives up the next hops that nothing points to any more; the last step of every operation.
    fn let_go(&mut self, changes: &mut Vec<Change>) {
        if self.is_behind() {
            return;
        }
        for id in self.released.drain(..) {
            if self.next_hops.release(id) {
                changes.push(Change::NextHop { id, now: None });
            }
        }
    }
}

/// Whether a route to such a prefix can have these hops, sorted and each once.
fn check_hops<P: Routed>(hops: &[Bound]) -> Result<(), RouteError> {
    if hops.is_empty() {
        return Err(RouteError::NoHops);
    }
    if hops.len() > MAX_MEMBERS {
        return Err(RouteError::TooManyHops { limit: MAX_MEMBERS });
    }
    for Bound { hop, .. } in hops {
        match (*hop, hop.gateway()) {
            (Hop::Discard(discard), _) if hops.len() > 1 => return Err(RouteError::DiscardAndMore(discard)),
            (_, Some(gateway)) if hop.lacks_port() => return Err(RouteError::NeedsPort(gateway)),
            (_, Some(gateway @ IpAddr::V4(_))) if <P::Address as Family>::of(gateway).is_none() => {
                return Err(RouteError::WrongFamily(gateway));
            }
            _ => {}
        }
    }
    Ok(())
}

fn acquire(store: &mut NextHopStore, towards: Towards, changes: &mut Vec<Change>) -> Option<NextHopId> {
    let acquired = store.acquire(towards)?;
    if acquired.fresh {
        changes.push(Change::NextHop { id: acquired.id, now: Some(towards) });
    }
    Some(acquired.id)
}
