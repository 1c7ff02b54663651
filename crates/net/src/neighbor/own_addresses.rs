//! The router's own addresses in the neighbour table: what is said of them, and when.

use super::own::{Own, Phase};
use super::table::{Key, Neighbors, Timer};
use super::{Event, MessageKind, Protocol, Say, State};
use crate::interface::{InterfaceAddress, InterfaceId};
use crate::spread::spread;
use weir_wire::MacAddr;

impl<A: Protocol> Neighbors<A> {
    /// Gives `assigned.interface()` an address. If its link is up the address is probed and announced from now on; it counts as
    /// the router's at once. Answers whether the interface is there and did not have the address.
    pub fn add_own(&mut self, now: u64, assigned: InterfaceAddress<A>, events: &mut Vec<Event<A>>) -> bool {
        let probes = self.timing.own_probes;
        let Some(interface) = self.interfaces.get_mut(&assigned.interface()) else { return false };
        if interface.is_own(assigned.address()) {
            return false;
        }
        let key = Key { interface: assigned.interface(), address: assigned.address() };
        let mut own = Own::new(assigned);
        if interface.up {
            own.start(first_word(now, key, interface.mac, self.seed), probes);
        }
        interface.own.push(own);
        // A neighbour can not have our address; if one is noted, it is a rival that ARP will tell of again.
        self.forget(key, events);
        self.schedule_own(key, own.deadline);
        true
    }

    /// Takes an address from an interface. Answers whether it was there.
    pub fn remove_own(&mut self, interface: InterfaceId, address: A) -> bool {
        let key = Key { interface, address };
        let Some(ours) = self.interfaces.get_mut(&interface) else { return false };
        let Some(index) = ours.own.iter().position(|own| own.address() == address) else { return false };
        let own = ours.own.remove(index);
        if let Some(deadline) = own.deadline {
            self.timers.remove(&(deadline, Timer::Own(key)));
        }
        true
    }

    /// The link of an interface came up: its addresses are probed and announced again.
    pub fn link_up(&mut self, now: u64, interface: InterfaceId) {
        let probes = self.timing.own_probes;
        let Some(ours) = self.interfaces.get_mut(&interface).filter(|ours| !ours.up) else { return };
        ours.up = true;
        for own in &mut ours.own {
            let key = Key { interface, address: own.address() };
            own.start(first_word(now, key, ours.mac, self.seed), probes);
        }
        let due: Vec<_> = ours.own.iter().map(|own| (own.address(), own.deadline)).collect();
        for (address, deadline) in due {
            self.schedule_own(Key { interface, address }, deadline);
        }
    }

    /// Tells all on the link of an interface of its addresses again: it has another MAC address (RFC 4861 section 7.2.6), or took over from
    /// another router.
    pub fn announce(&mut self, now: u64, interface: InterfaceId) {
        let Some(ours) = self.interfaces.get_mut(&interface).filter(|ours| ours.up) else { return };
        let mut changed = Vec::new();
        for own in &mut ours.own {
            let before = own.deadline;
            own.announce(now);
            changed.push((Key { interface, address: own.address() }, before, own.deadline));
        }
        for (key, before, after) in changed {
            if let Some(before) = before {
                self.timers.remove(&(before, Timer::Own(key)));
            }
            self.schedule_own(key, after);
        }
    }

    /// The link of an interface went down: who is on the other end may be somebody else when it comes back, so all but the
    /// static neighbours are forgotten.
    pub fn link_down(&mut self, interface: InterfaceId, events: &mut Vec<Event<A>>) {
        let Some(ours) = self.interfaces.get_mut(&interface).filter(|ours| ours.up) else { return };
        ours.up = false;
        for own in &mut ours.own {
            if let Some(deadline) = own.deadline {
                let key = Key { interface, address: own.address() };
                self.timers.remove(&(deadline, Timer::Own(key)));
            }
            own.stop();
        }
        for key in self.keys_of(interface) {
            if self.entries.get(&key).is_some_and(|entry| entry.state != State::Permanent) {
                self.forget(key, events);
            }
        }
    }

    fn schedule_own(&mut self, key: Key<A>, deadline: Option<u64>) {
        self.timers.extend(deadline.map(|deadline| (deadline, Timer::Own(key))));
    }

    pub(super) fn tick_own(&mut self, now: u64, key: Key<A>, events: &mut Vec<Event<A>>) {
        let Some(ours) = self.interfaces.get_mut(&key.interface) else { return };
        let nonce = nonce(key, ours.mac, self.seed);
        let Some(own) = ours.own_mut(key.address) else { return };
        let was_usable = own.is_usable();
        let Some(say) = own.tick(now) else { return };
        let (deadline, is_usable) = (own.deadline, own.is_usable());
        if is_usable && !was_usable {
            events.push(Event::OwnAddress { interface: key.interface, address: key.address, usable: true });
        }
        let kind = if say == Say::Probe { MessageKind::Probe } else { MessageKind::Announcement };
        let (to, message) = ours.own_message(say, key.address, nonce);
        events.push(Event::Send { interface: key.interface, to, message, kind });
        self.schedule_own(key, deadline);
    }

    /// Somebody else has an own address that must be the router's alone.
    pub(super) fn give_up(&mut self, key: Key<A>, rival: MacAddr, events: &mut Vec<Event<A>>) {
        let Some(own) = self.interfaces.get_mut(&key.interface).and_then(|ours| ours.own_mut(key.address)) else {
            return;
        };
        if own.phase == Phase::Taken {
            return;
        }
        if let Some(deadline) = own.deadline {
            self.timers.remove(&(deadline, Timer::Own(key)));
        }
        own.give_up(rival);
        events.push(Event::OwnAddress { interface: key.interface, address: key.address, usable: false });
    }

    /// Whether these are the bytes by which the router knows its own probe for an address again.
    pub(super) fn is_own_nonce(&self, key: Key<A>, found: [u8; 6]) -> bool {
        self.interfaces.get(&key.interface).is_some_and(|ours| nonce(key, ours.mac, self.seed) == found)
    }
}

/// A number that differs from address to address and from router to router.
fn mixed<A: Protocol>(key: Key<A>, mac: MacAddr, seed: u64) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    let station = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    spread(seed ^ station.rotate_left(16) ^ u64::from(key.address.low_bits()) ^ u64::from(key.interface) << 32)
}

fn nonce<A: Protocol>(key: Key<A>, mac: MacAddr, seed: u64) -> [u8; 6] {
    let [.., a, b, c, d, e, f] = mixed(key, mac, seed).to_be_bytes();
    [a, b, c, d, e, f]
}

/// When the first word about an own address is said, after a link came up at `now`.
fn first_word<A: Protocol>(now: u64, key: Key<A>, mac: MacAddr, seed: u64) -> u64 {
    let wait = A::FIRST_WAIT / 1024 * (mixed(key, mac, seed) >> 54);
    now.saturating_add(wait)
}
