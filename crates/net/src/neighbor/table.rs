//! The table and its timers.

use super::interface::{Interface, Spare};
use super::own::OwnAddress;
use super::{Event, Limits, MessageKind, Neighbor, Protocol, Resolution, State, Timing};
use crate::interface::InterfaceId;
use crate::route_source::RouteSource;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use weir_wire::MacAddr;

/// Most deadlines that one call of [`Neighbors::timer`] serves, so that other work is not kept waiting.
const TIMERS_PER_CALL: usize = 256;

/// Which neighbour. Sorted by interface, so that those of an interface stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key<A> {
    pub(super) interface: InterfaceId,
    pub(super) address: A,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) mac: Option<MacAddr>,
    pub(super) state: State,
    source: RouteSource,
    since: u64,
    /// Packets were sent to it since it was last heard of.
    used: bool,
    /// It answered once.
    proven: bool,
    /// It says that it is a router.
    pub(super) router: bool,
    /// Requests sent in this state.
    requests: u32,
    deadline: Option<u64>,
}

/// Whose deadline it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer<A> {
    Neighbor(Key<A>),
    Own(Key<A>),
}

/// All neighbours of all interfaces.
#[derive(Debug)]
pub struct Neighbors<A: Protocol = Ipv4Addr> {
    pub(super) timing: Timing,
    limits: Limits,
    pub(super) interfaces: BTreeMap<InterfaceId, Interface<A>>,
    pub(super) entries: BTreeMap<Key<A>, Entry>,
    pub(super) timers: BTreeSet<(u64, Timer<A>)>,
    /// Neighbours of all interfaces that may be forgotten for others.
    spare: BTreeSet<(Spare, u64, A, InterfaceId)>,
    /// What makes this router's nonces and waits other than those of others.
    pub(super) seed: u64,
}

impl<A: Protocol> Neighbors<A> {
    /// An empty table without interfaces.
    pub fn new(timing: Timing, limits: Limits) -> Self {
        let (interfaces, entries, timers, spare) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Neighbors { timing, limits, interfaces, entries, timers, spare, seed: 0 }
    }

    /// Makes nonces and waits differ from those of routers with another seed; for IPv6, whose stations must not all speak at once, and
    /// have to know their own words again (RFC 7527).
    pub const fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Changes times and limits; deadlines that are set already stay, and so do neighbours beyond a smaller limit.
    pub const fn configure(&mut self, timing: Timing, limits: Limits) {
        self.timing = timing;
        self.limits = limits;
    }

    /// Adds an interface, its link down, or gives an interface another MAC address.
    pub fn set_port(&mut self, interface: InterfaceId, mac: MacAddr) {
        self.interfaces.entry(interface).or_insert_with(|| Interface::new(mac)).mac = mac;
    }

    /// Whether the link of an interface is up.
    pub fn is_up(&self, interface: InterfaceId) -> bool {
        self.interfaces.get(&interface).is_some_and(|interface| interface.up)
    }

    /// Removes an interface with its addresses and all its neighbours, static ones too.
    pub fn remove_port(&mut self, interface: InterfaceId, events: &mut Vec<Event<A>>) {
        self.link_down(interface, events);
        for key in self.keys_of(interface) {
            self.forget(key, events);
        }
        self.interfaces.remove(&interface);
    }

    /// A packet wants to go to `address` on the link of `interface`: says where to, and asks if that is not known.
    pub fn resolve(&mut self, now: u64, interface: InterfaceId, address: A, events: &mut Vec<Event<A>>) -> Resolution {
        let Some(ours) = self.interfaces.get(&interface).filter(|ours| ours.up) else { return Resolution::NoPort };
        let key = Key { interface, address };
        if !self.entries.contains_key(&key) {
            if !ours.can_ask() {
                return Resolution::NoPort;
            }
            if !ours.can_be_host(address) {
                return Resolution::Failed;
            }
            self.bound_incomplete(interface, events);
            if !self.make_room(interface, events) {
                return Resolution::NoRoom;
            }
            self.insert(now, key, State::Incomplete);
            self.ask(now, key, events);
            return Resolution::Pending;
        }
        self.used(now, interface, address, events);
        match self.entries.get(&key) {
            Some(Entry { mac: Some(mac), .. }) => Resolution::Known(*mac),
            Some(Entry { state: State::Incomplete, .. }) => Resolution::Pending,
            _ => Resolution::Failed,
        }
    }

    /// Packets were sent to a neighbour since it was last heard of (the forwarding table's counters say so).
    pub fn used(&mut self, now: u64, interface: InterfaceId, address: A, events: &mut Vec<Event<A>>) {
        let key = Key { interface, address };
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.used = true;
        if entry.state == State::Stale {
            self.revalidate(now, key, events);
        }
    }

    /// Something else than ARP shows that a neighbour is there and has the MAC address that is noted.
    pub fn confirm(&mut self, now: u64, interface: InterfaceId, address: A) {
        let key = Key { interface, address };
        let state = self.entries.get(&key).map(|entry| entry.state);
        if matches!(state, Some(State::Reachable | State::Stale | State::Delay | State::Probe)) {
            self.enter(now, key, State::Reachable);
        }
    }

    /// Enters a neighbour by hand, in place of whatever is known of it. Answers `false` if there is no such interface, no host can
    /// have the address there, or there is no room.
    pub fn add_static(
        &mut self,
        now: u64,
        interface: InterfaceId,
        address: A,
        mac: MacAddr,
        source: RouteSource,
        events: &mut Vec<Event<A>>,
    ) -> bool {
        let key = Key { interface, address };
        let fits = self.interfaces.get(&interface).is_some_and(|ours| ours.can_be_host(address)) && mac.is_unicast();
        if !fits || !self.entries.contains_key(&key) && !self.make_room(interface, events) {
            return false;
        }
        if !self.entries.contains_key(&key) {
            self.insert(now, key, State::Incomplete);
        }
        self.note_mac(key, mac, events);
        self.enter(now, key, State::Permanent);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.source = source;
        }
        true
    }

    /// Knows a neighbour as if it had just asked for the router: it is used, and checked as soon as it is. One that is known already stays
    /// as it is.
    pub fn learn_again(
        &mut self,
        now: u64,
        interface: InterfaceId,
        address: A,
        mac: MacAddr,
        events: &mut Vec<Event<A>>,
    ) {
        let key = Key { interface, address };
        if !self.entries.contains_key(&key) && mac.is_unicast() {
            self.learn_new(now, key, mac, events);
        }
    }

    /// Forgets a neighbour, static or not. Answers whether it was there. If it is wanted again it is asked for again.
    pub fn remove(&mut self, interface: InterfaceId, address: A, events: &mut Vec<Event<A>>) -> bool {
        self.forget(Key { interface, address }, events)
    }

    /// When [`Neighbors::timer`] wants to be called next, in nanoseconds; `None` while there is nothing to wait for.
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.first().map(|&(deadline, _)| deadline)
    }

    /// Does what is due at `now`, at most a few hundred things; if more is due, [`Neighbors::next_deadline`] says so.
    pub fn timer(&mut self, now: u64, events: &mut Vec<Event<A>>) {
        for _ in 0..TIMERS_PER_CALL {
            let Some(&(deadline, timer)) = self.timers.first().filter(|(deadline, _)| *deadline <= now) else { break };
            self.timers.remove(&(deadline, timer));
            match timer {
                Timer::Neighbor(key) => self.expire(now, key, events),
                Timer::Own(key) => self.tick_own(now, key, events),
            }
        }
    }

    /// The neighbour's entry, if there is one.
    pub fn get(&self, interface: InterfaceId, address: A) -> Option<Neighbor<A>> {
        let key = Key { interface, address };
        self.entries.get(&key).map(|entry| shown(key, entry))
    }

    /// All neighbours, by interface and address.
    pub fn iter(&self) -> impl Iterator<Item = Neighbor<A>> {
        self.entries.iter().map(|(&key, entry)| shown(key, entry))
    }

    /// The router's own addresses, by interface.
    pub fn own_addresses(&self) -> impl Iterator<Item = OwnAddress<A>> {
        self.interfaces.values().flat_map(|interface| &interface.own).map(OwnAddress::from)
    }

    /// Neighbours in the table.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The deadline of a neighbour has come.
    fn expire(&mut self, now: u64, key: Key<A>, events: &mut Vec<Event<A>>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.deadline = None;
        match entry.state {
            State::Incomplete | State::Probe => self.ask(now, key, events),
            State::Delay => self.probe(now, key, events),
            State::Reachable if entry.used => self.revalidate(now, key, events),
            State::Reachable => self.enter(now, key, State::Stale),
            State::Stale | State::Failed => drop(self.forget(key, events)),
            State::Permanent => {}
        }
    }

    /// Lets a neighbour whose MAC address is known be asked whether it is still there, at once or after a while.
    fn revalidate(&mut self, now: u64, key: Key<A>, events: &mut Vec<Event<A>>) {
        if self.timing.delay > 0 {
            return self.enter(now, key, State::Delay);
        }
        self.probe(now, key, events);
    }

    fn probe(&mut self, now: u64, key: Key<A>, events: &mut Vec<Event<A>>) {
        self.enter(now, key, State::Probe);
        self.ask(now, key, events);
    }

    /// Sends the next request for a neighbour, or gives it up.
    fn ask(&mut self, now: u64, key: Key<A>, events: &mut Vec<Event<A>>) {
        let (unicasts, broadcasts) = (self.timing.unicast_requests, self.timing.broadcast_requests);
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let polled = if entry.state == State::Probe { unicasts } else { 0 };
        let unicast = entry.mac.filter(|_| entry.requests < polled);
        let request = self.interfaces.get(&key.interface).and_then(|ours| ours.request(key.address, unicast));
        let Some((to, message)) = request.filter(|_| entry.requests < polled.saturating_add(broadcasts)) else {
            entry.mac = None;
            events.push(Event::Failed { interface: key.interface, address: key.address });
            return self.enter(now, key, State::Failed);
        };
        entry.requests += 1;
        let kind = if unicast.is_some() { MessageKind::Revalidation } else { MessageKind::Request };
        events.push(Event::Send { interface: key.interface, to, message, kind });
        self.schedule(key, Some(now.saturating_add(self.timing.retransmit)));
    }

    /// A neighbour asked for an own address. RFC 826: "?Am I the target protocol address? Yes: If Merge_flag is false, add the triplet
    /// [...] to the translation table."; RFC 4861 section 7.2.3.
    pub(super) fn learn_new(&mut self, now: u64, key: Key<A>, mac: MacAddr, events: &mut Vec<Event<A>>) -> bool {
        let on_link = self.interfaces.get(&key.interface).is_some_and(|interface| interface.is_on_link(key.address));
        if !on_link || !self.make_room(key.interface, events) {
            return false;
        }
        self.insert(now, key, State::Incomplete);
        self.note_mac(key, mac, events);
        self.enter(now, key, State::Stale);
        true
    }

    /// Notes a neighbour's MAC address and tells of it if it is new.
    pub(super) fn note_mac(&mut self, key: Key<A>, mac: MacAddr, events: &mut Vec<Event<A>>) {
        let Key { interface, address } = key;
        let Some(entry) = self.entries.get_mut(&key) else { return };
        match entry.mac.replace(mac) {
            None => events.push(Event::Resolved { interface, address, mac }),
            Some(before) if before != mac => events.push(Event::Changed { interface, address, mac }),
            Some(_) => {}
        }
    }

    /// Puts a neighbour into a state, with the deadline that goes with it.
    pub(super) fn enter(&mut self, now: u64, key: Key<A>, state: State) {
        let after = match state {
            State::Reachable => Some(self.timing.reachable - jitter(key, self.timing.reachable / 4)),
            State::Stale => Some(self.timing.stale),
            State::Failed => Some(self.timing.failed),
            State::Delay => Some(self.timing.delay),
            State::Incomplete | State::Probe | State::Permanent => None,
        };
        self.unspare(key);
        let Some(entry) = self.entries.get_mut(&key) else { return };
        (entry.state, entry.since, entry.requests, entry.source) = (state, now, 0, RouteSource::Learned);
        entry.used &= matches!(state, State::Delay | State::Probe);
        entry.proven |= matches!(state, State::Reachable | State::Permanent);
        if let Some(spare) = spare(entry)
            && let Some(interface) = self.interfaces.get_mut(&key.interface)
        {
            interface.spare.insert((spare, now, key.address));
            self.spare.insert((spare, now, key.address, key.interface));
        }
        self.schedule(key, after.map(|after| now.saturating_add(after)));
    }

    /// Adds an entry; there is none yet, and room was made.
    pub(super) fn insert(&mut self, now: u64, key: Key<A>, state: State) {
        let entry = Entry {
            mac: None,
            state,
            source: RouteSource::Learned,
            since: now,
            used: true,
            proven: false,
            router: false,
            requests: 0,
            deadline: None,
        };
        self.entries.insert(key, entry);
        if let Some(interface) = self.interfaces.get_mut(&key.interface) {
            interface.count += 1;
            if state == State::Incomplete {
                interface.incomplete.insert((now, key.address));
            }
        }
    }

    /// Lets the oldest of those that have not answered yet go, as long as they are as many as there may be.
    fn bound_incomplete(&mut self, interface: InterfaceId, events: &mut Vec<Event<A>>) {
        while let Some(ours) =
            self.interfaces.get(&interface).filter(|ours| ours.incomplete.len() >= self.limits.incomplete)
            && let Some(&(_, address)) = ours.incomplete.first()
        {
            self.forget(Key { interface, address }, events);
        }
    }

    /// Makes room for one neighbour more on `interface`, if need be by forgetting the one that is missed least. Answers
    /// whether there is room.
    pub(super) fn make_room(&mut self, interface: InterfaceId, events: &mut Vec<Event<A>>) -> bool {
        let Some(ours) = self.interfaces.get(&interface) else { return false };
        let victim = if ours.count >= self.limits.per_port {
            ours.spare.first().map(|&(.., address)| Key { interface, address })
        } else if self.entries.len() >= self.limits.total {
            self.spare.first().map(|&(.., address, interface)| Key { interface, address })
        } else {
            return true;
        };
        victim.is_some_and(|victim| self.forget(victim, events))
    }

    pub(super) fn forget(&mut self, key: Key<A>, events: &mut Vec<Event<A>>) -> bool {
        self.unspare(key);
        self.schedule(key, None);
        let there = self.entries.remove(&key).is_some();
        if there {
            if let Some(interface) = self.interfaces.get_mut(&key.interface) {
                interface.count -= 1;
            }
            events.push(Event::Removed { interface: key.interface, address: key.address });
        }
        there
    }

    fn unspare(&mut self, key: Key<A>) {
        let (Some(entry), Some(interface)) = (self.entries.get(&key), self.interfaces.get_mut(&key.interface)) else {
            return;
        };
        if let Some(spare) = spare(entry) {
            interface.spare.remove(&(spare, entry.since, key.address));
            self.spare.remove(&(spare, entry.since, key.address, key.interface));
        }
        if entry.state == State::Incomplete {
            interface.incomplete.remove(&(entry.since, key.address));
        }
    }

    fn schedule(&mut self, key: Key<A>, deadline: Option<u64>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(before) = std::mem::replace(&mut entry.deadline, deadline) {
            self.timers.remove(&(before, Timer::Neighbor(key)));
        }
        self.timers.extend(deadline.map(|deadline| (deadline, Timer::Neighbor(key))));
    }

    pub(super) fn keys_of(&self, interface: InterfaceId) -> Vec<Key<A>> {
        let first = Key { interface, address: A::UNSPECIFIED };
        let last = Key { interface, address: A::LAST };
        self.entries.range(first..=last).map(|(&key, _)| key).collect()
    }
}

const fn spare(entry: &Entry) -> Option<Spare> {
    match entry.state {
        State::Failed => Some(Spare::Failed),
        State::Stale if !entry.proven => Some(Spare::Unproven),
        State::Stale => Some(Spare::Stale),
        State::Incomplete | State::Reachable | State::Delay | State::Probe | State::Permanent => None,
    }
}

/// A part of `range` that differs from neighbour to neighbour and is always the same for one.
fn jitter<A: Protocol>(key: Key<A>, range: u64) -> u64 {
    let mixed = (key.address.low_bits() ^ u32::from(key.interface)).wrapping_mul(0x9e37_79b9);
    range / 256 * u64::from(mixed >> 24)
}

fn shown<A: Protocol>(key: Key<A>, entry: &Entry) -> Neighbor<A> {
    let Key { interface, address } = key;
    let &Entry { mac, state, source, since, router, .. } = entry;
    Neighbor { interface, address, mac, state, source, since, router }
}

#[cfg(test)]
impl<A: Protocol> Neighbors<A> {
    /// Counters, timers and spare lists are what the entries say.
    pub(super) fn assert_consistent(&self) {
        for (&interface, ours) in &self.interfaces {
            let of_port = || self.entries.iter().filter(move |(key, _)| key.interface == interface);
            assert_eq!(ours.count, of_port().count());
            let spares = of_port().filter_map(|(key, entry)| Some((spare(entry)?, entry.since, key.address)));
            assert_eq!(ours.spare, spares.collect());
            let incomplete = of_port().filter(|(_, entry)| entry.state == State::Incomplete);
            assert_eq!(ours.incomplete, incomplete.map(|(key, entry)| (entry.since, key.address)).collect());
        }
        let all = self.entries.iter();
        let spares = all.filter_map(|(key, entry)| Some((spare(entry)?, entry.since, key.address, key.interface)));
        assert_eq!(self.spare, spares.collect());
        let neighbors = self.entries.iter().filter_map(|(&key, entry)| Some((entry.deadline?, Timer::Neighbor(key))));
        let own =
            self.interfaces.iter().flat_map(|(&interface, ours)| ours.own.iter().map(move |own| (interface, own)));
        let own = own.filter_map(|(interface, own)| {
            Some((own.deadline?, Timer::Own(Key { interface, address: own.address() })))
        });
        assert_eq!(self.timers, neighbors.chain(own).collect());
        let waits = self.entries.values().all(|entry| entry.deadline.is_some() != (entry.state == State::Permanent));
        assert!(waits, "only static neighbours wait for nothing");
    }
}
