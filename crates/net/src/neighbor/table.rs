//! The table and its timers.

use super::own::{Own, OwnAddress, Say};
use super::port::{Port, Spare};
use super::{ArpKind, Event, Limits, Neighbor, Resolution, State, Timing};
use crate::author::Author;
use crate::interface::{Interface, PortId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use weir_wire::MacAddr;

/// Most deadlines that one call of [`Neighbors::timer`] serves, so that other work is not kept waiting.
const TIMERS_PER_CALL: usize = 256;

/// Which neighbour. Sorted by port, so that those of a port stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) port: PortId,
    pub(super) address: Ipv4Addr,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) mac: Option<MacAddr>,
    pub(super) state: State,
    author: Author,
    since: u64,
    /// Packets were sent to it since it was last heard of.
    used: bool,
    /// Requests sent in this state.
    requests: u32,
    deadline: Option<u64>,
}

/// Whose deadline it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Neighbor(Key),
    Own(Key),
}

/// All neighbours of all ports.
#[derive(Debug)]
pub struct Neighbors {
    timing: Timing,
    limits: Limits,
    pub(super) ports: BTreeMap<PortId, Port>,
    pub(super) entries: BTreeMap<Key, Entry>,
    timers: BTreeSet<(u64, Timer)>,
}

impl Neighbors {
    /// An empty table without ports.
    pub const fn new(timing: Timing, limits: Limits) -> Self {
        Neighbors { timing, limits, ports: BTreeMap::new(), entries: BTreeMap::new(), timers: BTreeSet::new() }
    }

    /// Changes times and limits; deadlines that are set already stay, and so do neighbours beyond a smaller limit.
    pub const fn configure(&mut self, timing: Timing, limits: Limits) {
        self.timing = timing;
        self.limits = limits;
    }

    /// Adds a port, its link down, or gives a port another MAC address.
    pub fn set_port(&mut self, port: PortId, mac: MacAddr) {
        self.ports.entry(port).or_insert_with(|| Port::new(mac)).mac = mac;
    }

    /// Removes a port with its addresses and all its neighbours, static ones too.
    pub fn remove_port(&mut self, port: PortId, events: &mut Vec<Event>) {
        self.link_down(port, events);
        for key in self.keys_of(port) {
            self.forget(key, events);
        }
        self.ports.remove(&port);
    }

    /// Gives `interface.port()` an address. If its link is up the address is probed and announced from now on; it counts as
    /// the router's at once. Answers whether the port is there and did not have the address.
    pub fn add_own(&mut self, now: u64, interface: Interface, events: &mut Vec<Event>) -> bool {
        let probes = self.timing.own_probes;
        let Some(port) = self.ports.get_mut(&interface.port()) else { return false };
        if port.is_own(interface.address()) {
            return false;
        }
        let mut own = Own::new(interface);
        if port.up {
            own.start(now, probes);
        }
        port.own.push(own);
        let key = Key { port: interface.port(), address: interface.address() };
        // A neighbour can not have our address; if one is noted, it is a rival that ARP will tell of again.
        self.forget(key, events);
        self.schedule_own(key, own.deadline);
        true
    }

    /// Takes an address from a port. Answers whether it was there.
    pub fn remove_own(&mut self, port: PortId, address: Ipv4Addr) -> bool {
        let key = Key { port, address };
        let Some(ours) = self.ports.get_mut(&port) else { return false };
        let Some(index) = ours.own.iter().position(|own| own.address() == address) else { return false };
        let own = ours.own.remove(index);
        if let Some(deadline) = own.deadline {
            self.timers.remove(&(deadline, Timer::Own(key)));
        }
        true
    }

    /// The link of a port came up: its addresses are probed and announced again.
    pub fn link_up(&mut self, now: u64, port: PortId) {
        let probes = self.timing.own_probes;
        let Some(ours) = self.ports.get_mut(&port).filter(|ours| !ours.up) else { return };
        ours.up = true;
        for own in &mut ours.own {
            own.start(now, probes);
        }
        let due: Vec<_> = ours.own.iter().map(|own| (own.address(), own.deadline)).collect();
        for (address, deadline) in due {
            self.schedule_own(Key { port, address }, deadline);
        }
    }

    /// The link of a port went down: who is on the other end may be somebody else when it comes back, so all but the
    /// static neighbours are forgotten.
    pub fn link_down(&mut self, port: PortId, events: &mut Vec<Event>) {
        let Some(ours) = self.ports.get_mut(&port).filter(|ours| ours.up) else { return };
        ours.up = false;
        for own in &mut ours.own {
            if let Some(deadline) = own.deadline {
                let key = Key { port, address: own.address() };
                self.timers.remove(&(deadline, Timer::Own(key)));
            }
            own.stop();
        }
        for key in self.keys_of(port) {
            if self.entries.get(&key).is_some_and(|entry| entry.state != State::Permanent) {
                self.forget(key, events);
            }
        }
    }

    /// A packet wants to go to `address` on the link of `port`: says where to, and asks if that is not known.
    pub fn resolve(&mut self, now: u64, port: PortId, address: Ipv4Addr, events: &mut Vec<Event>) -> Resolution {
        let Some(ours) = self.ports.get(&port).filter(|ours| ours.up) else { return Resolution::NoPort };
        let key = Key { port, address };
        if !self.entries.contains_key(&key) {
            if ours.own.is_empty() {
                return Resolution::NoPort;
            }
            if !ours.can_be_host(address) {
                return Resolution::Failed;
            }
            if !self.make_room(port, events) {
                return Resolution::NoRoom;
            }
            self.insert(now, key, State::Incomplete);
            self.ask(now, key, events);
            return Resolution::Pending;
        }
        self.used(now, port, address, events);
        match self.entries.get(&key) {
            Some(Entry { mac: Some(mac), .. }) => Resolution::Known(*mac),
            Some(Entry { state: State::Incomplete, .. }) => Resolution::Pending,
            _ => Resolution::Failed,
        }
    }

    /// Packets were sent to a neighbour since it was last heard of (the forwarding table's counters say so).
    pub fn used(&mut self, now: u64, port: PortId, address: Ipv4Addr, events: &mut Vec<Event>) {
        let key = Key { port, address };
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.used = true;
        if entry.state == State::Stale {
            self.revalidate(now, key, events);
        }
    }

    /// Something else than ARP shows that a neighbour is there and has the MAC address that is noted.
    pub fn confirm(&mut self, now: u64, port: PortId, address: Ipv4Addr) {
        let key = Key { port, address };
        let state = self.entries.get(&key).map(|entry| entry.state);
        if matches!(state, Some(State::Reachable | State::Stale | State::Probe)) {
            self.enter(now, key, State::Reachable);
        }
    }

    /// Enters a neighbour by hand, in place of whatever is known of it. Answers `false` if there is no such port, no host can
    /// have the address there, or there is no room.
    pub fn add_static(
        &mut self,
        now: u64,
        port: PortId,
        address: Ipv4Addr,
        mac: MacAddr,
        author: Author,
        events: &mut Vec<Event>,
    ) -> bool {
        let key = Key { port, address };
        let fits = self.ports.get(&port).is_some_and(|ours| ours.can_be_host(address)) && mac.is_unicast();
        if !fits || !self.entries.contains_key(&key) && !self.make_room(port, events) {
            return false;
        }
        if !self.entries.contains_key(&key) {
            self.insert(now, key, State::Incomplete);
        }
        self.note_mac(key, mac, events);
        self.enter(now, key, State::Permanent);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.author = author;
        }
        true
    }

    /// Forgets a neighbour, static or not. Answers whether it was there. If it is wanted again it is asked for again.
    pub fn remove(&mut self, port: PortId, address: Ipv4Addr, events: &mut Vec<Event>) -> bool {
        self.forget(Key { port, address }, events)
    }

    /// When [`Neighbors::timer`] wants to be called next, in nanoseconds; `None` while there is nothing to wait for.
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.first().map(|&(deadline, _)| deadline)
    }

    /// Does what is due at `now`, at most a few hundred things; if more is due, [`Neighbors::next_deadline`] says so.
    pub fn timer(&mut self, now: u64, events: &mut Vec<Event>) {
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
    pub fn get(&self, port: PortId, address: Ipv4Addr) -> Option<Neighbor> {
        let key = Key { port, address };
        self.entries.get(&key).map(|entry| shown(key, entry))
    }

    /// All neighbours, by port and address.
    pub fn iter(&self) -> impl Iterator<Item = Neighbor> {
        self.entries.iter().map(|(&key, entry)| shown(key, entry))
    }

    /// The router's own addresses, by port.
    pub fn own_addresses(&self) -> impl Iterator<Item = OwnAddress> {
        self.ports.values().flat_map(|port| &port.own).map(OwnAddress::from)
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
    fn expire(&mut self, now: u64, key: Key, events: &mut Vec<Event>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.deadline = None;
        match entry.state {
            State::Incomplete | State::Probe => self.ask(now, key, events),
            State::Reachable if entry.used => self.revalidate(now, key, events),
            State::Reachable => self.enter(now, key, State::Stale),
            State::Stale | State::Failed => drop(self.forget(key, events)),
            State::Permanent => {}
        }
    }

    /// Asks a neighbour whose MAC address is known whether it is still there.
    fn revalidate(&mut self, now: u64, key: Key, events: &mut Vec<Event>) {
        self.enter(now, key, State::Probe);
        self.ask(now, key, events);
    }

    /// Sends the next request for a neighbour, or gives it up.
    fn ask(&mut self, now: u64, key: Key, events: &mut Vec<Event>) {
        let (unicasts, broadcasts) = (self.timing.unicast_requests, self.timing.broadcast_requests);
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let polled = if entry.state == State::Probe { unicasts } else { 0 };
        let unicast = entry.mac.filter(|_| entry.requests < polled);
        let request = self.ports.get(&key.port).and_then(|ours| ours.request(key.address, unicast.unwrap_or_default()));
        let Some(arp) = request.filter(|_| entry.requests < polled.saturating_add(broadcasts)) else {
            entry.mac = None;
            events.push(Event::Failed { port: key.port, address: key.address });
            return self.enter(now, key, State::Failed);
        };
        entry.requests += 1;
        let kind = if unicast.is_some() { ArpKind::Revalidation } else { ArpKind::Request };
        let to = unicast.unwrap_or(MacAddr::BROADCAST);
        events.push(Event::SendArp { port: key.port, to, arp, kind });
        self.schedule(key, Some(now.saturating_add(self.timing.retransmit)));
    }

    /// Notes a neighbour's MAC address and tells of it if it is new.
    pub(super) fn note_mac(&mut self, key: Key, mac: MacAddr, events: &mut Vec<Event>) {
        let Key { port, address } = key;
        let Some(entry) = self.entries.get_mut(&key) else { return };
        match entry.mac.replace(mac) {
            None => events.push(Event::Resolved { port, address, mac }),
            Some(before) if before != mac => events.push(Event::Changed { port, address, mac }),
            Some(_) => {}
        }
    }

    /// Puts a neighbour into a state, with the deadline that goes with it.
    pub(super) fn enter(&mut self, now: u64, key: Key, state: State) {
        let after = match state {
            State::Reachable => Some(self.timing.reachable - jitter(key, self.timing.reachable / 4)),
            State::Stale => Some(self.timing.stale),
            State::Failed => Some(self.timing.failed),
            State::Incomplete | State::Probe | State::Permanent => None,
        };
        self.unspare(key);
        let Some(entry) = self.entries.get_mut(&key) else { return };
        (entry.state, entry.since, entry.requests, entry.author) = (state, now, 0, Author::Learned);
        entry.used &= state == State::Probe;
        if let Some(spare) = spare(state)
            && let Some(port) = self.ports.get_mut(&key.port)
        {
            port.spare.insert((spare, now, key.address));
        }
        self.schedule(key, after.map(|after| now.saturating_add(after)));
    }

    /// Adds an entry; there is none yet, and room was made.
    pub(super) fn insert(&mut self, now: u64, key: Key, state: State) {
        let entry =
            Entry { mac: None, state, author: Author::Learned, since: now, used: true, requests: 0, deadline: None };
        self.entries.insert(key, entry);
        if let Some(port) = self.ports.get_mut(&key.port) {
            port.count += 1;
        }
    }

    /// Makes room for one neighbour more on `port`, if need be by forgetting the one that is missed least. Answers
    /// whether there is room.
    pub(super) fn make_room(&mut self, port: PortId, events: &mut Vec<Event>) -> bool {
        let Some(ours) = self.ports.get(&port) else { return false };
        let oldest = |ours: &Port| ours.spare.first().map(|&(spare, since, address)| (spare, since, address));
        let victim = if ours.count >= self.limits.per_port {
            oldest(ours).map(|(.., address)| Key { port, address })
        } else if self.entries.len() >= self.limits.total {
            let all = self.ports.iter().filter_map(|(&port, ours)| Some((oldest(ours)?, port)));
            all.min().map(|((.., address), port)| Key { port, address })
        } else {
            return true;
        };
        victim.is_some_and(|victim| self.forget(victim, events))
    }

    fn forget(&mut self, key: Key, events: &mut Vec<Event>) -> bool {
        self.unspare(key);
        self.schedule(key, None);
        let there = self.entries.remove(&key).is_some();
        if there {
            if let Some(port) = self.ports.get_mut(&key.port) {
                port.count -= 1;
            }
            events.push(Event::Removed { port: key.port, address: key.address });
        }
        there
    }

    fn unspare(&mut self, key: Key) {
        let Some(entry) = self.entries.get(&key) else { return };
        if let (Some(spare), Some(port)) = (spare(entry.state), self.ports.get_mut(&key.port)) {
            port.spare.remove(&(spare, entry.since, key.address));
        }
    }

    fn schedule(&mut self, key: Key, deadline: Option<u64>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(before) = std::mem::replace(&mut entry.deadline, deadline) {
            self.timers.remove(&(before, Timer::Neighbor(key)));
        }
        self.timers.extend(deadline.map(|deadline| (deadline, Timer::Neighbor(key))));
    }

    fn schedule_own(&mut self, key: Key, deadline: Option<u64>) {
        self.timers.extend(deadline.map(|deadline| (deadline, Timer::Own(key))));
    }

    fn tick_own(&mut self, now: u64, key: Key, events: &mut Vec<Event>) {
        let Some(ours) = self.ports.get_mut(&key.port) else { return };
        let Some(own) = ours.own_mut(key.address) else { return };
        let (say, deadline) = (own.tick(now), own.deadline);
        let (sender, kind) = match say {
            Some(Say::Probe) => (Ipv4Addr::UNSPECIFIED, ArpKind::Probe),
            Some(Say::Announcement) => (key.address, ArpKind::Announcement),
            None => return,
        };
        let arp = ours.own_message(sender, key.address);
        events.push(Event::SendArp { port: key.port, to: MacAddr::BROADCAST, arp, kind });
        self.schedule_own(key, deadline);
    }

    fn keys_of(&self, port: PortId) -> Vec<Key> {
        let first = Key { port, address: Ipv4Addr::UNSPECIFIED };
        let last = Key { port, address: Ipv4Addr::BROADCAST };
        self.entries.range(first..=last).map(|(&key, _)| key).collect()
    }
}

const fn spare(state: State) -> Option<Spare> {
    match state {
        State::Failed => Some(Spare::Failed),
        State::Stale => Some(Spare::Stale),
        State::Incomplete | State::Reachable | State::Probe | State::Permanent => None,
    }
}

/// A part of `range` that differs from neighbour to neighbour and is always the same for one.
fn jitter(key: Key, range: u64) -> u64 {
    let mixed = (key.address.to_bits() ^ u32::from(key.port)).wrapping_mul(0x9e37_79b9);
    range / 256 * u64::from(mixed >> 24)
}

fn shown(key: Key, entry: &Entry) -> Neighbor {
    let Key { port, address } = key;
    Neighbor { port, address, mac: entry.mac, state: entry.state, author: entry.author, since: entry.since }
}

#[cfg(test)]
impl Neighbors {
    /// Counters, timers and spare lists are what the entries say.
    pub(super) fn assert_consistent(&self) {
        for (&port, ours) in &self.ports {
            let of_port = || self.entries.iter().filter(move |(key, _)| key.port == port);
            assert_eq!(ours.count, of_port().count());
            let spares = of_port().filter_map(|(key, entry)| Some((spare(entry.state)?, entry.since, key.address)));
            assert_eq!(ours.spare, spares.collect());
        }
        let neighbors = self.entries.iter().filter_map(|(&key, entry)| Some((entry.deadline?, Timer::Neighbor(key))));
        let own = self.ports.iter().flat_map(|(&port, ours)| ours.own.iter().map(move |own| (port, own)));
        let own = own.filter_map(|(port, own)| Some((own.deadline?, Timer::Own(Key { port, address: own.address() }))));
        assert_eq!(self.timers, neighbors.chain(own).collect());
        let waits = self.entries.values().all(|entry| entry.deadline.is_some() != (entry.state == State::Permanent));
        assert!(waits, "only static neighbours wait for nothing");
    }
}
