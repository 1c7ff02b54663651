//! What an ARP packet that was received does: RFC 826 "Packet Reception", with RFC 5227 for the router's own addresses.

use super::table::{Key, Neighbors};
use super::{ArpKind, Event, State};
use crate::interface::PortId;
use std::fmt;
use std::net::Ipv4Addr;
use weir_wire::MacAddr;
use weir_wire::arp::{ArpFields, Operation};

/// What became of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was a request for an own address, and is answered.
    Answered,
    /// It told something about a neighbour that is in the table.
    Learned,
    /// Its sender uses one of the router's own addresses.
    Conflict,
    /// It is of no use here.
    Ignored(Ignored),
}

/// Why an ARP packet is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The port is not known, or its link is down.
    NoPort,
    /// The sender's MAC or IPv4 address can not be a host's.
    BadSender,
    /// It is the router's own, come back.
    Echo,
    /// It is for somebody else and from nobody that the router talks to. If it is a request, proxy ARP may answer it:
    /// [`Neighbors::answer_for`].
    NotForUs,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ignored::NoPort => "ARP on a port that is down",
            Ignored::BadSender => "the ARP sender's address can not be a host's",
            Ignored::Echo => "an ARP packet of this router came back",
            Ignored::NotForUs => "an ARP packet between others",
        })
    }
}

impl Neighbors {
    /// An ARP packet came in on `port` at time `now` (nanoseconds).
    ///
    /// Known neighbours are updated by any packet they send, be it a gratuitous one; new ones are learned only from
    /// requests for an own address, so that nobody fills the table by talking. What an unasked packet says is used, but
    /// checked (by unicast) when the neighbour is used next.
    pub fn arp_received(&mut self, now: u64, port: PortId, arp: &ArpFields, events: &mut Vec<Event>) -> Heard {
        let Some(ours) = self.ports.get(&port).filter(|port| port.up) else { return Heard::Ignored(Ignored::NoPort) };
        if arp.sender_mac == ours.mac {
            return Heard::Ignored(Ignored::Echo);
        }
        if !arp.sender_mac.is_unicast() {
            return Heard::Ignored(Ignored::BadSender);
        }
        if ours.is_own(arp.sender) {
            self.conflict(now, port, arp.sender, arp.sender_mac, events);
            return Heard::Conflict;
        }
        // A probe has no sender (RFC 5227): there is nothing to learn, but it may be for an address of ours.
        let is_probe = arp.sender == Ipv4Addr::UNSPECIFIED;
        if !is_probe && !ours.can_be_host(arp.sender) {
            return Heard::Ignored(Ignored::BadSender);
        }
        let answer = (arp.operation == Operation::Request && ours.is_own(arp.target)).then(|| ours.answer(arp));
        let learned = !is_probe && self.learn(now, port, arp, answer.is_some(), events);
        match answer {
            Some(reply) => {
                if is_probe {
                    self.note_rival(port, arp, events);
                }
                events.push(Event::SendArp { port, to: arp.sender_mac, arp: reply, kind: ArpKind::Reply });
                Heard::Answered
            }
            None if learned => Heard::Learned,
            None => Heard::Ignored(Ignored::NotForUs),
        }
    }

    /// The answer that claims the target of `request` for this router: proxy ARP (RFC 1027), which the caller decides
    /// on. `None` if it is no request, or `port` is not there.
    pub fn answer_for(&self, port: PortId, request: &ArpFields) -> Option<Event> {
        let ours = self.ports.get(&port).filter(|port| port.up && request.operation == Operation::Request)?;
        let arp = ours.answer(request);
        Some(Event::SendArp { port, to: request.sender_mac, arp, kind: ArpKind::Reply })
    }

    /// "If the pair <protocol type, sender protocol address> is already in my translation table, update the sender
    /// hardware address field of the entry with the new information in the packet". Answers whether it is in the
    /// table (now).
    fn learn(&mut self, now: u64, port: PortId, arp: &ArpFields, for_us: bool, events: &mut Vec<Event>) -> bool {
        let key = Key { port, address: arp.sender };
        let Some(entry) = self.entries.get(&key) else {
            return for_us && self.learn_new(now, key, arp.sender_mac, events);
        };
        if entry.state == State::Permanent {
            return true;
        }
        let waiting = matches!(entry.state, State::Incomplete | State::Probe);
        let answered = waiting && arp.operation == Operation::Reply && self.is_to_us(port, arp);
        let known = entry.mac;
        self.note_mac(key, arp.sender_mac, events);
        if answered {
            self.enter(now, key, State::Reachable);
        } else if known != Some(arp.sender_mac) {
            self.enter(now, key, State::Stale);
        }
        true
    }

    /// "?Am I the target protocol address? Yes: If Merge_flag is false, add the triplet [...] to the translation table."
    fn learn_new(&mut self, now: u64, key: Key, mac: MacAddr, events: &mut Vec<Event>) -> bool {
        let on_link = self.ports.get(&key.port).is_some_and(|port| port.is_on_link(key.address));
        if !on_link || !self.make_room(key.port, events) {
            return false;
        }
        self.insert(now, key, State::Incomplete);
        self.note_mac(key, mac, events);
        self.enter(now, key, State::Stale);
        true
    }

    fn is_to_us(&self, port: PortId, arp: &ArpFields) -> bool {
        self.ports.get(&port).is_some_and(|ours| arp.target_mac == ours.mac && ours.is_own(arp.target))
    }

    fn conflict(&mut self, now: u64, port: PortId, address: Ipv4Addr, mac: MacAddr, events: &mut Vec<Event>) {
        events.push(Event::DuplicateAddress { port, address, mac });
        let Some(ours) = self.ports.get_mut(&port) else { return };
        if ours.own_mut(address).is_some_and(|own| own.conflict(now, mac)) {
            let arp = ours.own_message(address, address);
            events.push(Event::SendArp { port, to: MacAddr::BROADCAST, arp, kind: ArpKind::Announcement });
        }
    }

    /// While an own address is being probed, another's probe for it is a conflict as well (RFC 5227 section 2.1.1).
    fn note_rival(&mut self, port: PortId, arp: &ArpFields, events: &mut Vec<Event>) {
        let own = self.ports.get_mut(&port).and_then(|ours| ours.own_mut(arp.target));
        if let Some(own) = own.filter(|own| matches!(own.phase, super::own::Phase::Probing(_))) {
            own.rival = Some(arp.sender_mac);
            events.push(Event::DuplicateAddress { port, address: arp.target, mac: arp.sender_mac });
        }
    }
}
