//! Stations in the IPv6 networks of subscribers.
//!
//! A network of exactly 64 bits is a link: hosts may take addresses in it. As long as one station is heard there, all of it is
//! reached by that one: it is the host, or the customer's router. Once a second station is heard in another address, the network is
//! *shared*: each address is where it was heard, or is asked for (RFC 4861). When one station is left, all is its own again.
//!
//! A shorter prefix is not a link, but routed to the station that spoke last.

use weir_wire::MacAddr;

use super::hosts::{Heard, Host, HostEvent, State, Wanted};
use super::{Registry, half};
use crate::table::{Address, BindingKey};

/// Hosts of one subscriber that are asked for at the same time: whoever asks for all addresses of a network (RFC 6583) takes no
/// more, and nothing of those that are known.
const ASKED: usize = 8;

impl Registry {
    /// Whether the network of a host is one of a subscriber's links.
    pub(super) fn is_link6(&self, number: u32, host: BindingKey) -> bool {
        let Address::Host6(address) = host.address() else { return false };
        self.subscriber(number).is_some_and(|subscriber| subscriber.has_link6(half(address)))
    }

    /// A subscriber was heard using an IPv6 address.
    pub(super) fn heard_host6(&mut self, now: u64, number: u32, key: BindingKey, mac: MacAddr) -> Heard {
        let network = key.network6();
        let Some(host) = self.hosts.get(&network).copied().filter(|host| host.subscriber == number) else {
            return Heard::NotAllowed;
        };
        let Address::Host6(address) = key.address() else { return Heard::NotAllowed };
        if host.state == State::Fixed || !self.is_link6(number, key) {
            return self.heard_again(now, network, host, mac);
        }
        if host.is_shared {
            return self.heard_station(now, number, key, mac);
        }
        let last = Some(address.to_bits() as u64);
        match host.mac.filter(|before| *before != mac && host.last != last) {
            Some(before) => self.share(now, number, (network, host), key, (before, mac)),
            None => {
                let heard = self.heard_again(now, network, Host { last, ..host }, mac);
                if heard != Heard::MovesTooOften {
                    // What waited for the address itself has its answer.
                    self.forget_quietly(key);
                    self.events.push(HostEvent::Found(key));
                }
                heard
            }
        }
    }

    fn heard_station(&mut self, now: u64, number: u32, key: BindingKey, mac: MacAddr) -> Heard {
        match self.hosts.get(&key).copied() {
            Some(host) if host.mac.is_some() => self.heard_again(now, key, host, mac),
            _ if self.hosts6_of(number, true) >= self.settings.hosts6 as usize => Heard::TooMany,
            Some(host) => self.heard_again(now, key, host, mac),
            None => self.enter_learned(now, number, key, mac),
        }
    }

    /// A second station was heard in a network.
    fn share(
        &mut self,
        now: u64,
        number: u32,
        (network, host): (BindingKey, Host),
        key: BindingKey,
        (before, mac): (MacAddr, MacAddr),
    ) -> Heard {
        // Those of two stations.
        if self.hosts6_of(number, true) + 2 > self.settings.hosts6 as usize {
            return Heard::TooMany;
        }
        if self.hosts.len() + 2 > self.settings.bindings as usize {
            return Heard::Full;
        }
        self.set_host(network, Host { is_shared: true, ..host });
        self.unsettled_hosts.insert(network);
        if let (Some(last), Address::V6(half)) = (host.last, network.address()) {
            let first = Address::Host6((u128::from(half) << 64 | u128::from(last)).into());
            self.heard_station(now, number, BindingKey::new(network.scope(), first), before);
        }
        self.heard_station(now, number, key, mac)
    }

    /// Gives a network back to the station that is left in it, if there is no more than one.
    pub(super) fn unshare(&mut self, network: BindingKey) {
        let Some(host) = self.hosts.get(&network).copied().filter(|host| host.is_shared) else { return };
        let Some(subscriber) = self.subscriber(host.subscriber) else { return };
        let here = subscriber.learned.iter().filter(|key| key.is_host6() && key.network6() == network);
        let here: Vec<(BindingKey, Host)> = here.filter_map(|key| Some((*key, *self.hosts.get(key)?))).collect();
        let mut macs = here.iter().filter_map(|(_, host)| host.mac);
        let first = macs.next();
        if macs.any(|mac| Some(mac) != first) {
            return;
        }
        let last = here.iter().find(|(_, host)| host.mac.is_some()).and_then(|(key, _)| match key.address() {
            Address::Host6(address) => Some(address.to_bits() as u64),
            _ => None,
        });
        let state = if first.is_some() { State::Known } else { State::Silent };
        self.set_host(network, Host { is_shared: false, mac: first, last, state, ..host });
        self.unsettled_hosts.insert(network);
        for (key, _) in here {
            self.forget_quietly(key);
            // What waits for it goes to the station that is left.
            self.events.push(if first.is_some() { HostEvent::Found(key) } else { HostEvent::Lost(key) });
        }
    }

    /// Forgets a host without a word to whom waits for it.
    fn forget_quietly(&mut self, key: BindingKey) {
        let events = self.events.len();
        self.forget_host(key);
        self.events.truncate(events);
    }

    /// IPv6 hosts of a subscriber that are known, or that are asked for.
    fn hosts6_of(&self, number: u32, known: bool) -> usize {
        let keys = self.subscriber(number).map_or(&[][..], |subscriber| &subscriber.learned);
        let of =
            |key: &&BindingKey| key.is_host6() && self.hosts.get(key).is_some_and(|host| host.mac.is_some() == known);
        keys.iter().filter(of).count()
    }

    /// A packet is for an IPv6 host of which nothing is known: it is asked for where hosts are.
    pub(super) fn wanted_host6(&mut self, now: u64, key: BindingKey) -> Wanted {
        let network = self.hosts.get(&key.network6()).copied().filter(|_| key.is_host6());
        let Some(network) = network else { return Wanted::Nobody };
        let number = network.subscriber;
        if network.mac.is_some() && !network.is_shared {
            return Wanted::Known;
        }
        let has_room = self.hosts6_of(number, false) < ASKED && self.hosts.len() < self.settings.bindings as usize;
        if !has_room || !self.is_link6(number, key) {
            return Wanted::Failed;
        }
        if let Some(subscriber) = self.subscriber_mut(number) {
            subscriber.learned.push(key);
        }
        let due = now.saturating_add(self.settings.timing.retransmit);
        self.set_host(key, Host { state: State::Asked(1), due, ..Host::learned(number) });
        self.events.push(HostEvent::Ask(key, None));
        Wanted::Asked
    }
}
