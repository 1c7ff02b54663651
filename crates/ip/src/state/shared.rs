//! What requests, shows, reloads and the slow path share, one at a time, and nobody for long.
//!
//! The slow path answers ARP, and who asks for it in vain for some seconds takes the router for gone: so whatever takes long lets go
//! after a piece, and who waits has its turn then.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::{Ipv4Net, Ipv6Net};
use weir_net::RouteSource;
use weir_net::rib::Hop;
use weir_stage::RoutePlace;

use crate::load::Wanted;
use crate::state::Control;
use crate::state::links::neighbors_on;
use crate::state::routing::Network;
use crate::state::static_routes::is_among;
use crate::state::via::Via;

/// Changes of routes, or what follows from other changes, that are worked on at once.
pub(crate) const CHANGES: usize = 256;

/// Positions of the RIB that are looked through at once.
pub(crate) const LOOKED_THROUGH: u32 = 1 << 15;

/// A value behind a lock that is handed on to who waits: a plain one could be taken again and again by who has just let it go.
#[derive(Debug)]
struct FairLock<T> {
    /// Held by who is next.
    next: Mutex<()>,
    value: Mutex<T>,
}

impl<T> FairLock<T> {
    fn new(value: T) -> FairLock<T> {
        FairLock { next: Mutex::new(()), value: Mutex::new(value) }
    }

    /// Takes the value. A panic elsewhere does not make it unusable: every change keeps it whole.
    fn lock(&self) -> MutexGuard<'_, T> {
        let _next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the control side knows, and what it is used for.
#[derive(Debug)]
pub(crate) struct Shared {
    control: FairLock<Control>,
    /// The most that was worked on at once.
    longest: AtomicU64,
}

/// The control side, for as long as nobody else has it.
pub(crate) struct Hold<'a> {
    control: MutexGuard<'a, Control>,
    /// What was worked on before.
    before: u64,
    longest: &'a AtomicU64,
}

impl Shared {
    pub(crate) fn new(control: Control) -> Shared {
        Shared { control: FairLock::new(control), longest: AtomicU64::new(0) }
    }

    /// The most changes of routes for which others had to wait at once.
    pub(crate) fn longest(&self) -> u64 {
        self.longest.load(Ordering::Relaxed)
    }
}

/// Takes what is shared.
pub(crate) fn lock(shared: &Shared) -> Hold<'_> {
    let control = shared.control.lock();
    Hold { before: control.routing.work(), control, longest: &shared.longest }
}

impl Deref for Hold<'_> {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl DerefMut for Hold<'_> {
    fn deref_mut(&mut self) -> &mut Control {
        &mut self.control
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let work = self.control.routing.work().wrapping_sub(self.before);
        self.longest.fetch_max(work, Ordering::Relaxed);
    }
}

/// Becomes what a checked configuration wants, changing no more than differs, by and by.
pub(crate) fn reconcile(shared: &Shared, wanted: Wanted, now: u64) {
    let Wanted { general, interfaces, routes, neighbors, lines } = wanted;
    lock(shared).reconcile_general(general, now);
    let gone = lock(shared).unwanted_interfaces(&interfaces);
    for id in gone {
        lock(shared).remove_interface(id);
    }
    lock(shared).forget_lacking();
    let mut ids = Vec::with_capacity(interfaces.len());
    for piece in interfaces.chunks(CHANGES) {
        ids.extend(lock(shared).place_some(piece, now));
    }
    {
        let mut control = lock(shared);
        let Control { lines: known, interfaces, .. } = &mut *control;
        known.set(lines.as_ref(), interfaces);
    }
    let neighbors = neighbors_on(&neighbors, &ids);
    let gone = lock(shared).unwanted_neighbors(&neighbors);
    for piece in gone.chunks(CHANGES) {
        lock(shared).remove_neighbors(piece);
    }
    for piece in neighbors.chunks(CHANGES) {
        lock(shared).add_config_neighbors(piece, now);
    }
    while lock(shared).catch_up(CHANGES) {}
    lock(shared).forget_unwanted(&routes);
    let mut gone: Vec<Network> = Vec::new();
    each_route(shared, |_, network, source| {
        if source == RouteSource::Config && !is_among(&routes, network) {
            gone.push(network);
        }
    });
    for piece in gone.chunks(CHANGES) {
        lock(shared).routing.remove_config(piece);
    }
    for (routes, vrf) in routes.iter().zip(0..) {
        for piece in routes.chunks(CHANGES) {
            lock(shared).replace_config_routes(vrf, piece);
        }
    }
}

/// Takes over from the instance that `shared` replaces, which still runs, what is not the configuration's.
pub(crate) fn adopt(shared: &Shared, old: &Shared, now: u64) {
    lock(shared).adopt_interfaces(&lock(old), now);
    let mut added: Vec<(Network, Vec<Via>)> = Vec::new();
    each_route(old, |control, network, source| {
        let stated = (source == RouteSource::Cli).then(|| control.stated(network, source)).flatten();
        added.extend(stated.map(|vias| (network, vias)));
    });
    {
        let old = lock(old);
        let missing = old
            .missing
            .of(RouteSource::Cli)
            .filter_map(|(network, _)| Some((network, old.stated(network, RouteSource::Cli)?)));
        added.extend(missing);
    }
    let names = lock(old).vrfs.clone();
    for piece in added.chunks(CHANGES) {
        let control = &mut *lock(shared);
        for ((vrf, net), vias) in piece {
            // What was in a VRF that is not there any more is gone with it.
            let vrf = names.get(usize::from(*vrf)).and_then(|name| control.vrf(name));
            if let Some(vrf) = vrf {
                control.want_route((vrf, *net), RouteSource::Cli, vias);
            }
        }
    }
    adopt_routes_of_linux(shared, old);
    adopt_neighbors(shared, old, now);
    while lock(shared).catch_up(CHANGES) {}
}

/// Takes over routes of Linux's, where Linux speaks for the VRF still: they are there until its service has told all again.
fn adopt_routes_of_linux(shared: &Shared, old: &Shared) {
    let mut taken: Vec<(Network, Box<[Hop]>)> = Vec::new();
    let (vrfs, ids) = {
        let (now, before) = (lock(shared), lock(old));
        let vrf = |name: &String| now.vrf(name).filter(|vrf| now.hosts.frames(*vrf).is_some());
        let id = |one: &crate::Interface| Some((one.id, now.interfaces.find(one.name())?.id));
        let ids: HashMap<_, _> = before.interfaces.iter().filter_map(id).collect();
        (before.vrfs.iter().map(vrf).collect::<Vec<_>>(), ids)
    };
    if vrfs.iter().all(Option::is_none) {
        return;
    }
    each_route(old, |control, network, source| {
        let (before, net) = network;
        let Some(vrf) = vrfs.get(usize::from(before)).copied().flatten().filter(|_| source == RouteSource::Linux)
        else {
            return;
        };
        let hops = control.hops_in_force(network, source).unwrap_or_default();
        let here = |hop: Hop| match hop {
            Hop::ViaOn(gateway, id) => ids.get(&id).map(|id| Hop::ViaOn(gateway, *id)),
            Hop::On(id) => ids.get(&id).map(|id| Hop::On(*id)),
            Hop::Discard(_) => Some(hop),
            Hop::Via(_) | Hop::Into(_) => None,
        };
        let hops: Box<[Hop]> = hops.into_iter().filter_map(here).collect();
        if !hops.is_empty() {
            taken.push(((vrf, net), hops));
        }
    });
    for piece in taken.chunks(CHANGES) {
        let control = &mut *lock(shared);
        for (network, hops) in piece {
            control.missing.replace_of_linux(&mut control.routing, *network, hops);
        }
    }
}

/// Takes over neighbours that were added at run time or learned.
fn adopt_neighbors(shared: &Shared, old: &Shared, now: u64) {
    let known: Vec<_> = {
        let old = lock(old);
        old.neighbors().map(|neighbor| (old.name_of(neighbor.interface).to_owned(), neighbor)).collect()
    };
    lock(shared).adopt_neighbors(&known, now);
}

/// Looks at all routes of both families, by the piece.
pub(crate) fn each_route(shared: &Shared, mut look: impl FnMut(&Control, Network, RouteSource)) {
    each_piece(
        shared,
        |control| control.routing.rib().positions::<Ipv4Net>(),
        |control, piece| {
            let routes = control.routing.rib().routes_at::<Ipv4Net>(piece);
            routes.for_each(|route| look(control, (route.vrf(), route.prefix().into()), route.source()));
        },
    );
    each_piece(
        shared,
        |control| control.routing.rib().positions::<Ipv6Net>(),
        |control, piece| {
            let routes = control.routing.rib().routes_at::<Ipv6Net>(piece);
            routes.for_each(|route| look(control, (route.vrf(), route.prefix().into()), route.source()));
        },
    );
}

/// Positions of routes that are looked at in one go by who goes on later.
const SOME: u32 = 1 << 12;

/// Looks at some routes from a place on. The place where to go on, if there are more.
pub(crate) fn some_routes(
    shared: &Shared,
    place: RoutePlace,
    mut look: impl FnMut(&Control, Network, RouteSource),
) -> Option<RoutePlace> {
    let control = lock(shared);
    let rib = control.routing.rib();
    let end = if place.is_six { rib.positions::<Ipv6Net>() } else { rib.positions::<Ipv4Net>() };
    let next = end.min(place.position.saturating_add(SOME));
    let piece = place.position..next;
    if place.is_six {
        let routes = rib.routes_at::<Ipv6Net>(piece);
        routes.for_each(|route| look(&control, (route.vrf(), route.prefix().into()), route.source()));
    } else {
        let routes = rib.routes_at::<Ipv4Net>(piece);
        routes.for_each(|route| look(&control, (route.vrf(), route.prefix().into()), route.source()));
    }
    match (next < end, place.is_six) {
        (true, is_six) => Some(RoutePlace { is_six, position: next }),
        (false, false) => Some(RoutePlace { is_six: true, position: 0 }),
        (false, true) => None,
    }
}

/// Looks through so many positions of routes, by the piece.
fn each_piece(
    shared: &Shared,
    positions: impl Fn(&Control) -> u32,
    mut look: impl FnMut(&Control, std::ops::Range<u32>),
) {
    let mut at: u32 = 0;
    loop {
        let control = lock(shared);
        let next = positions(&control).min(at.saturating_add(LOOKED_THROUGH));
        if next <= at {
            return;
        }
        look(&control, at..next);
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_has_its_turn_before_who_comes_again() {
        let lock = FairLock::new(Vec::new());
        std::thread::scope(|scope| {
            let mut held = lock.lock();
            scope.spawn(|| lock.lock().push("who waited"));
            // Until the other one is next.
            while lock.next.try_lock().is_ok() {
                std::thread::yield_now();
            }
            held.push("who began");
            drop(held);
            lock.lock().push("who came again");
        });
        assert_eq!(*lock.lock(), ["who began", "who waited", "who came again"]);
    }
}
