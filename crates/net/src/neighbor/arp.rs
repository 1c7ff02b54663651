//! What an ARP packet that was received does: RFC 826 "Packet Reception", with RFC 5227 for the router's own addresses.

use super::own::{ANNOUNCE_INTERVAL, ANNOUNCE_WAIT};
use super::table::{Key, Neighbors};
use super::{Event, Heard, Ignored, MessageKind, Protocol, Say, State};
use crate::interface::InterfaceId;
use std::net::Ipv4Addr;
use weir_wire::MacAddr;
use weir_wire::arp::{ArpFields, Operation};

impl Protocol for Ipv4Addr {
    type Message = ArpFields;

    const MUST_BE_PROVEN: bool = false;
    const FIRST_WAIT: u64 = 0;
    const ANNOUNCEMENTS: u32 = 2;
    const ANNOUNCE_WAIT: u64 = ANNOUNCE_WAIT;
    const ANNOUNCE_INTERVAL: u64 = ANNOUNCE_INTERVAL;

    fn ask(mac: MacAddr, source: Ipv4Addr, target: Ipv4Addr, known: Option<MacAddr>) -> (MacAddr, ArpFields) {
        let target_mac = known.unwrap_or_default();
        let arp = ArpFields { operation: Operation::Request, sender_mac: mac, sender: source, target_mac, target };
        (known.unwrap_or(MacAddr::BROADCAST), arp)
    }

    /// "ARP Probe: the 'sender IP address' field MUST be set to all zeroes"; "ARP Announcement: identical to the ARP Probe
    /// [...] except that now the sender and target IP addresses are both set to the host's newly selected IPv4
    /// address" (RFC 5227 sections 2.1.1 and 2.3).
    fn say(say: Say, mac: MacAddr, own: Ipv4Addr, _nonce: [u8; 6]) -> (MacAddr, ArpFields) {
        let sender = if say == Say::Probe { Ipv4Addr::UNSPECIFIED } else { own };
        let operation = Operation::Request;
        let arp = ArpFields { operation, sender_mac: mac, sender, target_mac: MacAddr::ZERO, target: own };
        (MacAddr::BROADCAST, arp)
    }
}

/// The answer of the station `mac` to `request`, as if its target were its own.
const fn answer(mac: MacAddr, request: &ArpFields) -> ArpFields {
    ArpFields {
        operation: Operation::Reply,
        sender_mac: mac,
        sender: request.target,
        target_mac: request.sender_mac,
        target: request.sender,
    }
}

impl Neighbors {
    /// An ARP packet came in on `interface` at time `now` (nanoseconds).
    ///
    /// Known neighbours are updated by any packet they send, be it a gratuitous one; new ones are learned only from
    /// requests for an own address, so that nobody fills the table by talking. What an unasked packet says is used, but
    /// checked (by unicast) when the neighbour is used next.
    pub fn arp_received(
        &mut self,
        now: u64,
        interface: InterfaceId,
        arp: &ArpFields,
        events: &mut Vec<Event>,
    ) -> Heard {
        let Some(ours) = self.interfaces.get(&interface).filter(|interface| interface.up) else {
            return Heard::Ignored(Ignored::NoPort);
        };
        if arp.sender_mac == ours.mac {
            return Heard::Ignored(Ignored::Echo);
        }
        if !arp.sender_mac.is_unicast() {
            return Heard::Ignored(Ignored::BadSender);
        }
        if ours.is_own(arp.sender) {
            self.conflict(now, interface, arp.sender, arp.sender_mac, events);
            return Heard::Conflict;
        }
        // A probe has no sender (RFC 5227): there is nothing to learn, but it may be for an address of ours.
        let is_probe = arp.sender == Ipv4Addr::UNSPECIFIED;
        if !is_probe && !ours.can_be_host(arp.sender) {
            return Heard::Ignored(Ignored::BadSender);
        }
        let answer = (arp.operation == Operation::Request && ours.is_own(arp.target)).then(|| answer(ours.mac, arp));
        let learned = !is_probe && self.learn(now, interface, arp, answer.is_some(), events);
        match answer {
            Some(reply) => {
                if is_probe {
                    self.note_rival(interface, arp, events);
                }
                events.push(Event::Send { interface, to: arp.sender_mac, message: reply, kind: MessageKind::Reply });
                Heard::Answered
            }
            None if learned => Heard::Learned,
            None => Heard::Ignored(Ignored::NotForUs),
        }
    }

    /// The answer that claims the target of `request` for this router: proxy ARP (RFC 1027), which the caller decides
    /// on. `None` if it is no request, or `interface` is not there.
    pub fn answer_for(&self, interface: InterfaceId, request: &ArpFields) -> Option<Event> {
        let ours = self
            .interfaces
            .get(&interface)
            .filter(|interface| interface.up && request.operation == Operation::Request)?;
        let message = answer(ours.mac, request);
        Some(Event::Send { interface, to: request.sender_mac, message, kind: MessageKind::Reply })
    }

    /// "If the pair <protocol type, sender protocol address> is already in my translation table, update the sender
    /// hardware address field of the entry with the new information in the packet". Answers whether it is in the
    /// table (now).
    fn learn(
        &mut self,
        now: u64,
        interface: InterfaceId,
        arp: &ArpFields,
        for_us: bool,
        events: &mut Vec<Event>,
    ) -> bool {
        let key = Key { interface, address: arp.sender };
        let Some(entry) = self.entries.get(&key) else {
            return for_us && self.learn_new(now, key, arp.sender_mac, events);
        };
        if entry.state == State::Permanent {
            return true;
        }
        let waiting = matches!(entry.state, State::Incomplete | State::Probe);
        let answered = waiting && arp.operation == Operation::Reply && self.is_to_us(interface, arp);
        let known = entry.mac;
        self.note_mac(key, arp.sender_mac, events);
        if answered {
            self.enter(now, key, State::Reachable);
        } else if known != Some(arp.sender_mac) {
            self.enter(now, key, State::Stale);
        }
        true
    }

    fn is_to_us(&self, interface: InterfaceId, arp: &ArpFields) -> bool {
        self.interfaces.get(&interface).is_some_and(|ours| arp.target_mac == ours.mac && ours.is_own(arp.target))
    }

    fn conflict(&mut self, now: u64, interface: InterfaceId, address: Ipv4Addr, mac: MacAddr, events: &mut Vec<Event>) {
        events.push(Event::DuplicateAddress { interface, address, mac });
        let Some(ours) = self.interfaces.get_mut(&interface) else { return };
        if ours.own_mut(address).is_some_and(|own| own.conflict(now, mac)) {
            let (to, message) = ours.own_message(Say::Announcement, address, [0; 6]);
            events.push(Event::Send { interface, to, message, kind: MessageKind::Announcement });
        }
    }

    /// While an own address is being probed, another's probe for it is a conflict as well (RFC 5227 section 2.1.1).
    fn note_rival(&mut self, interface: InterfaceId, arp: &ArpFields, events: &mut Vec<Event>) {
        let own = self.interfaces.get_mut(&interface).and_then(|ours| ours.own_mut(arp.target));
        if let Some(own) = own.filter(|own| matches!(own.phase, super::own::Phase::Probing(_))) {
            own.rival = Some(arp.sender_mac);
            events.push(Event::DuplicateAddress { interface, address: arp.target, mac: arp.sender_mac });
        }
    }
}
