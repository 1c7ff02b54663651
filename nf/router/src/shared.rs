//! What requests, shows, reloads and the slow path share, one at a time, and nobody for long.
//!
//! The slow path answers ARP, and who asks for it in vain for some seconds takes the router for gone: so whatever takes long lets go
//! after a piece, and who waits has its turn then.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::Ipv4Net;
use weir_net::Author;
use weir_net::rib::Hop;

use crate::load::Wanted;
use crate::state::{Control, neighbors_on};

/// Changes of routes, or what follows from other changes, that are worked on at once.
pub(crate) const CHANGES: usize = 256;

/// Positions of the RIB that are looked through at once.
pub(crate) const LOOKED_THROUGH: u32 = 1 << 15;

/// A value behind a lock that is handed on to who waits: a plain one could be taken again and again by who has just let it go.
#[derive(Debug)]
struct Turns<T> {
    /// Held by who is next.
    next: Mutex<()>,
    value: Mutex<T>,
}

impl<T> Turns<T> {
    fn new(value: T) -> Turns<T> {
        Turns { next: Mutex::new(()), value: Mutex::new(value) }
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
    control: Turns<Control>,
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
        Shared { control: Turns::new(control), longest: AtomicU64::new(0) }
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
pub(crate) fn become_wanted(shared: &Shared, wanted: Wanted, now: u64) {
    let Wanted { general, interfaces, routes, neighbors } = wanted;
    lock(shared).become_general(general, now);
    let gone = lock(shared).unwanted_interfaces(&interfaces);
    for id in gone {
        lock(shared).remove_interface(id);
    }
    lock(shared).forget_lacking();
    let mut ids = Vec::with_capacity(interfaces.len());
    for piece in interfaces.chunks(CHANGES) {
        ids.extend(lock(shared).place_some(piece, now));
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
    let is_wanted = |prefix: Ipv4Net| routes.binary_search_by_key(&prefix, |route| route.prefix).is_ok();
    lock(shared).missing.retain(Author::Config, is_wanted);
    let mut gone: Vec<Ipv4Net> = Vec::new();
    each_piece(shared, |control, piece| {
        let ours = control.routing.rib().routes_at::<Ipv4Net>(piece).filter(|route| route.author() == Author::Config);
        gone.extend(ours.map(|route| route.prefix()).filter(|prefix| !is_wanted(*prefix)));
    });
    for piece in gone.chunks(CHANGES) {
        lock(shared).routing.remove_config(piece);
    }
    for piece in routes.chunks(CHANGES) {
        let control = &mut *lock(shared);
        control.missing.replace_config(&mut control.routing, piece, |gateway| Hop::Via(gateway.into()));
    }
}

/// Takes over from the instance that `shared` replaces, which still runs, what is not the configuration's.
pub(crate) fn take_over(shared: &Shared, old: &Shared, now: u64) {
    lock(shared).take_over_interfaces(&lock(old), now);
    let mut added: Vec<(Ipv4Net, Vec<Hop>)> = Vec::new();
    each_piece(old, |control, piece| {
        let theirs = control.routing.rib().routes_at::<Ipv4Net>(piece).filter(|route| route.author() == Author::Cli);
        added.extend(theirs.map(|route| (route.prefix(), route.hops().map(|(hop, _)| hop).collect())));
    });
    added.extend(lock(old).missing.of(Author::Cli).map(|(prefix, hops)| (prefix, hops.to_vec())));
    for piece in added.chunks(CHANGES) {
        let control = &mut *lock(shared);
        for (prefix, hops) in piece {
            control.missing.replace(&mut control.routing, *prefix, Author::Cli, hops);
        }
    }
    let neighbors: Vec<_> = lock(old).neighbors.iter().collect();
    lock(shared).take_over_neighbors(&neighbors, now);
    while lock(shared).catch_up(CHANGES) {}
}

/// Looks through the positions of all routes, by the piece.
pub(crate) fn each_piece(shared: &Shared, mut look: impl FnMut(&Control, std::ops::Range<u32>)) {
    let mut at: u32 = 0;
    loop {
        let control = lock(shared);
        let next = control.routing.rib().positions::<Ipv4Net>().min(at.saturating_add(LOOKED_THROUGH));
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
        let turns = Turns::new(Vec::new());
        std::thread::scope(|scope| {
            let mut held = turns.lock();
            scope.spawn(|| turns.lock().push("who waited"));
            // Until the other one is next.
            while turns.next.try_lock().is_ok() {
                std::thread::yield_now();
            }
            held.push("who began");
            drop(held);
            turns.lock().push("who came again");
        });
        assert_eq!(*turns.lock(), ["who began", "who waited", "who came again"]);
    }
}
