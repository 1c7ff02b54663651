//! Addresses of subscribers: where each is, as heard from ARP, ND and traffic.
//!
//! A *fixed* address is the subscriber's whether it was heard of or not; only its MAC address is found, if that is not fixed too. A
//! *learned* one is believed to be the subscriber's because it lies in a network where that is wanted and nobody else has it; it
//! is forgotten when it is silent.
//!
//! ```text
//!   nothing --> Silent --wanted--> Asked --no answer--> Failed --a while--> Silent
//!                  \                 |
//!                 heard            heard
//!                    \               v        silent for long        no answer
//!   learned ---------------------> Known ----------------> Checked -----------> forgotten (learned), Silent (fixed)
//!                                    ^------- heard ----------/
//! ```
//!
//! A customer that sends from another MAC address than before moves its address, but no more often than once in
//! [`MOVE_INTERVAL`]: what two stations fight about stays where it is most of the time.

use weir_wire::MacAddr;

use super::Registry;
use crate::table::{Address, BindingKey};

/// The least time between two changes of MAC addresses of one subscriber, nanoseconds.
pub(crate) const MOVE_INTERVAL: u64 = 1_000_000_000;

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// How long an address may be silent before it is asked for.
    pub(crate) ageing: u64,
    /// Time between two questions. RFC 1122 section 2.3.2.1: at most one per second.
    pub(crate) retransmit: u64,
    /// Questions without an answer after which it is given up.
    pub(crate) questions: u32,
    /// How long one that did not answer is not asked for again.
    pub(crate) failed: u64,
}

/// Where a host stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not heard of, nor asked for.
    Silent,
    /// Asked for so often.
    Asked(u32),
    /// Its MAC address is known.
    Known,
    /// The same, but it was silent for long and has been asked so often.
    Checked(u32),
    /// It did not answer.
    Failed,
    /// Its MAC address is fixed.
    Fixed,
}

impl State {
    /// As shown.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            State::Silent => "silent",
            State::Asked(_) => "asked",
            State::Known => "known",
            State::Checked(_) => "checked",
            State::Failed => "failed",
            State::Fixed => "fixed",
        }
    }
}

/// What is known about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Number of the subscriber that has it.
    pub(crate) subscriber: u32,
    /// Whether it was entered, and not learned.
    pub(crate) is_fixed: bool,
    pub(crate) mac: Option<MacAddr>,
    pub(crate) state: State,
    /// When it was last heard of.
    pub(crate) heard: u64,
    /// Whether it is an IPv6 network with several stations: each address has a host of its own.
    pub(crate) is_shared: bool,
    /// The second half of the last address in it that was heard, where it is an IPv6 network.
    pub(super) last: Option<u64>,
    /// When something is due.
    pub(super) due: u64,
}

impl Host {
    /// A learned host that is not known yet.
    pub(super) const fn learned(subscriber: u32) -> Host {
        Host {
            subscriber,
            is_fixed: false,
            mac: None,
            state: State::Silent,
            heard: 0,
            is_shared: false,
            last: None,
            due: u64::MAX,
        }
    }
}

/// What became of hearing that a subscriber uses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It was not known before.
    Learned,
    /// Nothing new.
    Known,
    /// Its MAC address is another than before.
    Moved,
    /// The same, too soon after the last change.
    MovesTooOften,
    /// The subscriber has no right to it: it is fixed for another, or in no network where addresses are learned.
    NotAllowed,
    /// It was learned from another subscriber, which still has it.
    Taken,
    /// The subscriber has one MAC address, and this is another.
    WrongMac,
    /// The subscriber has as many learned addresses as it may.
    TooMany,
    /// There is no room.
    Full,
}

/// What a wanted address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Known.
    Known,
    /// Asked for: it will be found or lost.
    Asked,
    /// It did not answer just now.
    Failed,
    /// Nobody's.
    Nobody,
}

/// What the slow path has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostEvent {
    /// Ask who has an address: this station, or all on the line.
    Ask(BindingKey, Option<MacAddr>),
    /// It was found: what waits for it may go.
    Found(BindingKey),
    /// It was lost: what waits for it is dropped.
    Lost(BindingKey),
}

impl Registry {
    /// A subscriber was heard using an address, from a MAC address that a station can have.
    pub(crate) fn heard(&mut self, now: u64, number: u32, address: Address, mac: MacAddr) -> Heard {
        let Some(subscriber) = self.subscriber(number) else { return Heard::NotAllowed };
        if subscriber.fields().only_mac().is_some_and(|fixed| fixed != mac) {
            return Heard::WrongMac;
        }
        let key = BindingKey::new(subscriber.scope(&self.settings), address);
        if key.is_host6() {
            return self.heard_host6(now, number, key, mac);
        }
        match self.hosts.get(&key).copied() {
            Some(host) if host.subscriber == number => self.heard_again(now, key, host, mac),
            Some(host) if host.is_fixed => Heard::NotAllowed,
            Some(_) => Heard::Taken,
            None => self.learn(now, number, key, mac),
        }
    }

    pub(super) fn heard_again(&mut self, now: u64, key: BindingKey, host: Host, mac: MacAddr) -> Heard {
        let heard = match host.mac {
            _ if host.state == State::Fixed => return Heard::Known,
            Some(before) if before != mac => {
                if !self.may_move(now, host.subscriber) {
                    return Heard::MovesTooOften;
                }
                Heard::Moved
            }
            Some(_) => Heard::Known,
            None => Heard::Learned,
        };
        // A network of IPv6 stays where it was heard of last: nobody in particular could be asked for it.
        let is_network = matches!(key.address(), Address::V6(_));
        let due = if is_network { u64::MAX } else { now.saturating_add(self.settings.timing.ageing) };
        self.set_host(key, Host { mac: Some(mac), state: State::Known, heard: now, due, ..host });
        if heard != Heard::Known {
            self.unsettled_hosts.insert(key);
            self.events.push(HostEvent::Found(key));
        }
        heard
    }

    fn may_move(&mut self, now: u64, number: u32) -> bool {
        let Some(subscriber) = self.subscriber_mut(number) else { return false };
        let may = now >= subscriber.next_move;
        subscriber.moves = subscriber.moves.saturating_add(1);
        if may {
            subscriber.next_move = now.saturating_add(MOVE_INTERVAL);
        }
        may
    }

    fn learn(&mut self, now: u64, number: u32, key: BindingKey, mac: MacAddr) -> Heard {
        if !self.is_learnable(key.address()) {
            return Heard::NotAllowed;
        }
        let is_four = |key: &&BindingKey| !key.is_host6();
        let learned = self.subscriber(number).map_or(0, |subscriber| subscriber.learned.iter().filter(is_four).count());
        if learned >= self.settings.addresses as usize {
            return Heard::TooMany;
        }
        self.enter_learned(now, number, key, mac)
    }

    /// Enters an address that was learned, if there is room.
    pub(super) fn enter_learned(&mut self, now: u64, number: u32, key: BindingKey, mac: MacAddr) -> Heard {
        if self.hosts.len() >= self.settings.bindings as usize {
            return Heard::Full;
        }
        if let Some(subscriber) = self.subscriber_mut(number) {
            subscriber.learned.push(key);
        }
        let due = now.saturating_add(self.settings.timing.ageing);
        self.set_host(key, Host { mac: Some(mac), state: State::Known, heard: now, due, ..Host::learned(number) });
        self.unsettled_hosts.insert(key);
        self.events.push(HostEvent::Found(key));
        Heard::Learned
    }

    /// Takes over what another registry has heard of addresses, as far as it may be here.
    pub(crate) fn remember(&mut self, old: &Registry) {
        for subscriber in old.subscribers_from(0) {
            let Some(number) = self.by_tags.get(&subscriber.tags).copied() else { continue };
            let fixed = subscriber.fixed_keys(&old.settings);
            for key in fixed.iter().chain(&subscriber.learned) {
                let host = old.hosts.get(key).filter(|host| matches!(host.state, State::Known | State::Checked(_)));
                if let Some((host, mac)) = host.and_then(|host| Some((host, host.mac?))) {
                    self.heard(host.heard, number, key.address(), mac);
                }
            }
        }
        // Nothing waits yet.
        self.events.clear();
        self.settle();
    }

    /// Whether a subscriber may have an address that nobody entered.
    fn is_learnable(&self, address: Address) -> bool {
        let Address::V4(address) = address else { return false };
        let reserved = self.settings.gateways.iter().any(|own| {
            let is_edge = own.prefix_len() < 31 && (address == own.network() || address == own.broadcast());
            address == own.addr() || is_edge
        });
        !reserved && self.settings.learn.iter().any(|network| network.contains(&address))
    }

    /// A packet is for an address whose place is not known.
    pub(crate) fn wanted(&mut self, now: u64, key: BindingKey) -> Wanted {
        let Some(host) = self.hosts.get(&key).copied() else { return self.wanted_host6(now, key) };
        match host.state {
            State::Known | State::Checked(_) | State::Fixed => Wanted::Known,
            State::Asked(_) => Wanted::Asked,
            State::Failed => Wanted::Failed,
            State::Silent => {
                let due = now.saturating_add(self.settings.timing.retransmit);
                self.set_host(key, Host { state: State::Asked(1), due, ..host });
                self.events.push(HostEvent::Ask(key, None));
                Wanted::Asked
            }
        }
    }

    /// Does what is due about addresses, and what could not be settled before; answers when it wants to be called next.
    pub(crate) fn tick(&mut self, now: u64) -> u64 {
        while let Some((due, key)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            if let Some(host) = self.hosts.get(&key).copied() {
                self.attend(now, key, host);
            }
        }
        self.settle();
        self.due.first().map_or(u64::MAX, |(due, _)| *due)
    }

    fn attend(&mut self, now: u64, key: BindingKey, host: Host) {
        let timing = self.settings.timing;
        let again = now.saturating_add(timing.retransmit);
        match host.state {
            State::Asked(n) if n < timing.questions => {
                self.set_host(key, Host { state: State::Asked(n + 1), due: again, ..host });
                self.events.push(HostEvent::Ask(key, None));
            }
            State::Asked(_) => {
                let due = now.saturating_add(timing.failed);
                self.set_host(key, Host { state: State::Failed, due, ..host });
                self.events.push(HostEvent::Lost(key));
            }
            State::Known => {
                self.set_host(key, Host { state: State::Checked(1), due: again, ..host });
                self.events.push(HostEvent::Ask(key, host.mac));
            }
            State::Checked(n) if n < timing.questions => {
                self.set_host(key, Host { state: State::Checked(n + 1), due: again, ..host });
                self.events.push(HostEvent::Ask(key, host.mac));
            }
            State::Checked(_) => self.lose(key, host),
            State::Failed if !host.is_fixed => self.forget_host(key),
            State::Failed => self.set_host(key, Host { state: State::Silent, due: u64::MAX, ..host }),
            State::Silent | State::Fixed => {}
        }
    }

    /// Nobody answers for an address any more.
    fn lose(&mut self, key: BindingKey, host: Host) {
        self.events.push(HostEvent::Lost(key));
        if host.is_fixed {
            self.set_host(key, Host { mac: None, state: State::Silent, due: u64::MAX, ..host });
            self.unsettled_hosts.insert(key);
        } else {
            self.forget_host(key);
            if key.is_host6() {
                self.unshare(key.network6());
            }
        }
    }

    /// Forgets a learned address.
    pub(super) fn forget_host(&mut self, key: BindingKey) {
        let Some(host) = self.remove_host(key) else { return };
        if let Some(subscriber) = self.subscriber_mut(host.subscriber) {
            subscriber.learned.retain(|other| *other != key);
        }
    }

    /// Enters a fixed address; what was learned about it before stays known if it was of the same subscriber.
    pub(super) fn add_fixed(&mut self, number: u32, key: BindingKey, mac: Option<MacAddr>, before: Option<&Host>) {
        let learned = self.hosts.get(&key).copied().filter(|host| !host.is_fixed);
        if learned.is_some() {
            self.forget_host(key);
        }
        let silent = Host { is_fixed: true, ..Host::learned(number) };
        let known = before.copied().or(learned.filter(|host| host.subscriber == number));
        let host = match (mac, known) {
            (Some(_), _) => Host { mac, state: State::Fixed, ..silent },
            (None, Some(known)) if known.state != State::Fixed => Host { subscriber: number, is_fixed: true, ..known },
            (None, _) => silent,
        };
        self.set_host(key, host);
        self.unsettled_hosts.insert(key);
    }

    /// Enters a host, or what is known of it now.
    pub(super) fn set_host(&mut self, key: BindingKey, host: Host) {
        if let Some(before) = self.hosts.insert(key, host) {
            self.due.remove(&(before.due, key));
        }
        if host.due != u64::MAX {
            self.due.insert((host.due, key));
        }
    }

    pub(super) fn remove_host(&mut self, key: BindingKey) -> Option<Host> {
        let host = self.hosts.remove(&key)?;
        self.due.remove(&(host.due, key));
        self.unsettled_hosts.insert(key);
        self.events.push(HostEvent::Lost(key));
        Some(host)
    }

    /// Forgets all that was learned about a subscriber, which goes.
    pub(super) fn forget_learned(&mut self, number: u32) {
        let learned = self.subscriber_mut(number).map(|subscriber| std::mem::take(&mut subscriber.learned));
        for key in learned.unwrap_or_default() {
            self.remove_host(key);
        }
    }

    /// Forgets what was learned about a subscriber that can no longer be so, after it was changed.
    pub(super) fn revise_learned(&mut self, number: u32) {
        let Some(subscriber) = self.subscriber(number) else { return };
        let (scope, mac) = (subscriber.scope(&self.settings), subscriber.fields().only_mac());
        for key in subscriber.learned.clone() {
            let is_other = self.hosts.get(&key).is_some_and(|host| mac.is_some() && host.mac != mac);
            if key.scope() != scope || is_other || key.is_host6() && !self.is_link6(number, key) {
                self.forget_host(key);
            } else {
                self.unsettled_hosts.insert(key);
            }
        }
    }
}
