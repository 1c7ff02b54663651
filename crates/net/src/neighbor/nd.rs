//! What a message of neighbour discovery that was received does: RFC 4861 section 7.2, with RFC 4862 section 5.4 for the router's own
//! addresses.

use super::table::{Key, Neighbors};
use super::{Event, Heard, Ignored, MessageKind, Protocol, Say, State};
use crate::interface::InterfaceId;
use std::net::Ipv6Addr;
use weir_wire::MacAddr;
use weir_wire::nd::{ALL_NODES, Body, Flags, Message, Nonce, group_mac, solicited_node};

const SECOND: u64 = 1_000_000_000;

impl Protocol for Ipv6Addr {
    type Message = Message;

    const MUST_BE_PROVEN: bool = true;
    /// MAX_RTR_SOLICITATION_DELAY: "the node SHOULD delay joining the solicited-node multicast address by a random delay" (RFC 4862
    /// section 5.4.2).
    const FIRST_WAIT: u64 = SECOND;
    /// MAX_NEIGHBOR_ADVERTISEMENT.
    const ANNOUNCEMENTS: u32 = 3;
    /// RETRANS_TIMER: an address is unique if nobody spoke up for so long after the last probe.
    const ANNOUNCE_WAIT: u64 = SECOND;
    /// "subsequent transmissions MUST be separated by at least RetransTimer seconds" (RFC 4861 section 7.2.6).
    const ANNOUNCE_INTERVAL: u64 = SECOND;

    fn ask(mac: MacAddr, source: Ipv6Addr, target: Ipv6Addr, known: Option<MacAddr>) -> (MacAddr, Message) {
        let message = Message::solicitation(source, mac, target);
        match known {
            Some(known) => (known, Message { destination: target, ..message }),
            None => (group_mac(message.destination), message),
        }
    }

    /// A probe comes from nobody, and carries a nonce (RFC 7527); an announcement is an unsolicited advertisement to all nodes.
    fn say(say: Say, mac: MacAddr, own: Ipv6Addr, nonce: Nonce) -> (MacAddr, Message) {
        let message = match say {
            Say::Announcement => Message::advertisement(own, mac, Ipv6Addr::UNSPECIFIED, true),
            Say::Probe => Message {
                source: Ipv6Addr::UNSPECIFIED,
                destination: solicited_node(own),
                body: Body::Solicitation { target: own, link: None, nonce: Some(nonce) },
            },
        };
        (group_mac(message.destination), message)
    }
}

/// A question, where it came from, and from which Ethernet address.
#[derive(Clone, Copy)]
struct Question {
    interface: InterfaceId,
    frame: MacAddr,
    source: Ipv6Addr,
    target: Ipv6Addr,
    link: Option<MacAddr>,
}

impl Neighbors<Ipv6Addr> {
    /// A valid message came in on `interface` at time `now` (nanoseconds), in a frame from `frame`.
    pub fn nd_received(
        &mut self,
        now: u64,
        interface: InterfaceId,
        frame: MacAddr,
        message: &Message,
        events: &mut Vec<Event<Ipv6Addr>>,
    ) -> Heard {
        let Some(ours) = self.interfaces.get(&interface).filter(|interface| interface.up) else {
            return Heard::Ignored(Ignored::NoPort);
        };
        let own_nonce = match message.body {
            Body::Solicitation { target, nonce: Some(nonce), .. } => {
                self.is_own_nonce(Key { interface, address: target }, nonce)
            }
            _ => false,
        };
        if frame == ours.mac || own_nonce {
            return Heard::Ignored(Ignored::Echo);
        }
        match message.body {
            Body::Solicitation { target, link, .. } => {
                let question = Question { interface, frame, source: message.source, target, link };
                self.solicited(now, question, events)
            }
            Body::Advertisement { target, link, flags } => {
                if link.is_some_and(|link| !link.is_unicast()) {
                    return Heard::Ignored(Ignored::BadSender);
                }
                self.advertised(now, Key { interface, address: target }, (link, frame), flags, events)
            }
        }
    }

    /// The answer that claims the target of a solicitation for this router: proxy advertisement (RFC 4861 section 7.2.8), which the caller
    /// decides on. It does not replace what the real one said. `None` if the message is no question, or `interface` is not there.
    pub fn advertise_for(&self, interface: InterfaceId, frame: MacAddr, message: &Message) -> Option<Event<Ipv6Addr>> {
        let ours = self.interfaces.get(&interface).filter(|interface| interface.up)?;
        let Body::Solicitation { target, link, .. } = message.body else { return None };
        let question = Question { interface, frame, source: message.source, target, link };
        // From an address of the router's own: the target's is another's.
        let source = ours.own.iter().find(|own| own.is_usable())?.address();
        Some(answer(ours.mac, source, question, false))
    }

    /// A host with the address `source`, which says that its Ethernet address is `link`, looks for routers on `interface`: it is learned or
    /// updated as by a solicitation for a neighbour, and "the router MUST set the IsRouter flag [...] to FALSE" (RFC 4861 section 6.2.6).
    /// Who has no address yet is nobody to remember.
    pub fn router_solicited(
        &mut self,
        now: u64,
        interface: InterfaceId,
        source: Ipv6Addr,
        link: MacAddr,
        events: &mut Vec<Event<Ipv6Addr>>,
    ) {
        let Some(ours) = self.interfaces.get(&interface).filter(|ours| ours.up && ours.mac != link) else { return };
        if source.is_unspecified() || !link.is_unicast() || !ours.can_be_host(source) {
            return;
        }
        let key = Key { interface, address: source };
        self.learn_from_question(now, key, link, events);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.router = false;
        }
    }

    /// RFC 4861 sections 7.2.3 and 7.2.4, RFC 4862 section 5.4.3.
    fn solicited(&mut self, now: u64, question: Question, events: &mut Vec<Event<Ipv6Addr>>) -> Heard {
        let Question { interface, frame, source, target, link } = question;
        let Some(ours) = self.interfaces.get(&interface) else { return Heard::Ignored(Ignored::NoPort) };
        let key = Key { interface, address: target };
        let is_probe = source.is_unspecified();
        if link.is_some_and(|link| !link.is_unicast()) || !frame.is_unicast() {
            return Heard::Ignored(Ignored::BadSender);
        }
        if ours.is_own(source) {
            return self.rival(now, Key { interface, address: source }, frame, events);
        }
        match ours.own(target) {
            // "If the source address of the Neighbor Solicitation is the unspecified address, the solicitation is from a node performing
            // Duplicate Address Detection": so the tentative address is a duplicate. Others ask for what nobody has yet.
            Some(own) if !own.is_usable() && is_probe => return self.rival(now, key, frame, events),
            Some(own) if !own.is_usable() => return Heard::Ignored(Ignored::NotForUs),
            Some(_) => {}
            // RFC 4291 section 2.6.1: routers answer for the anycast address of their subnets.
            None if ours.own.iter().any(|own| own.is_usable() && own.assigned.is_network_address(target)) => {}
            None => return Heard::Ignored(Ignored::NotForUs),
        }
        if !is_probe && !ours.can_be_host(source) {
            return Heard::Ignored(Ignored::BadSender);
        }
        // "the Override flag SHOULD be set to zero" for anycast addresses.
        let reply = answer(ours.mac, target, question, ours.is_own(target));
        if let Some(link) = link.filter(|_| !is_probe) {
            self.learn_from_question(now, Key { interface, address: source }, link, events);
        }
        events.push(reply);
        Heard::Answered
    }

    /// "If an entry does not already exist, the node SHOULD create a new one and set its reachability state to STALE [...]. If an entry
    /// already exists, and the cached link-layer address differs from the one in the received Source Link-Layer option, the cached
    /// address should be replaced by the received address, and the entry's reachability state MUST be set to STALE."
    fn learn_from_question(&mut self, now: u64, key: Key<Ipv6Addr>, mac: MacAddr, events: &mut Vec<Event<Ipv6Addr>>) {
        match self.entries.get(&key).map(|entry| (entry.state, entry.mac)) {
            None => _ = self.learn_new(now, key, mac, events),
            Some((State::Permanent, _)) => {}
            Some((_, known)) if known == Some(mac) => {}
            Some(_) => {
                self.note_mac(key, mac, events);
                self.enter(now, key, State::Stale);
            }
        }
    }

    /// RFC 4861 section 7.2.5; `link` is the address that was told, and that of the frame.
    fn advertised(
        &mut self,
        now: u64,
        key: Key<Ipv6Addr>,
        (link, frame): (Option<MacAddr>, MacAddr),
        flags: Flags,
        events: &mut Vec<Event<Ipv6Addr>>,
    ) -> Heard {
        if self.interfaces.get(&key.interface).is_some_and(|ours| ours.is_own(key.address)) {
            return self.rival(now, key, link.unwrap_or(frame), events);
        }
        // "If no entry exists, the advertisement SHOULD be silently discarded." One that failed stands for none.
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.state != State::Failed) else {
            return Heard::Ignored(Ignored::NotForUs);
        };
        if entry.state == State::Permanent {
            return Heard::Learned;
        }
        let differs = link.is_some_and(|link| entry.mac != Some(link));
        if entry.state == State::Incomplete {
            // "If the link layer has addresses and no Target Link-Layer Address option is included, the receiving node SHOULD silently
            // discard the received advertisement."
            if link.is_none() {
                return Heard::Ignored(Ignored::BadSender);
            }
        } else if differs && !flags.over {
            // "If the state of the entry is REACHABLE, set it to STALE, but do not update the entry in any other way. Otherwise, the
            // received advertisement should be ignored and MUST NOT update the cache."
            if entry.state == State::Reachable {
                self.enter(now, key, State::Stale);
            }
            return Heard::Learned;
        }
        entry.router = flags.router;
        if let Some(link) = link {
            self.note_mac(key, link, events);
        }
        if flags.solicited {
            self.enter(now, key, State::Reachable);
        } else if differs {
            self.enter(now, key, State::Stale);
        }
        Heard::Learned
    }

    /// Somebody else speaks as if an own address were his. One that is still being proven is given up (RFC 4862 section 5.4.4); one that
    /// is in use is defended, as seldom as RFC 5227 does, and told of.
    fn rival(&mut self, now: u64, key: Key<Ipv6Addr>, mac: MacAddr, events: &mut Vec<Event<Ipv6Addr>>) -> Heard {
        let Key { interface, address } = key;
        events.push(Event::DuplicateAddress { interface, address, mac });
        let Some(ours) = self.interfaces.get_mut(&interface) else { return Heard::Conflict };
        let Some(own) = ours.own_mut(address) else { return Heard::Conflict };
        if !own.is_usable() {
            self.give_up(key, mac, events);
        } else if own.conflict(now, mac) {
            let (to, message) = ours.own_message(Say::Announcement, address, [0; 6]);
            events.push(Event::Send { interface, to, message, kind: MessageKind::Announcement });
        }
        Heard::Conflict
    }
}

/// The advertisement that answers a question. Who asks without an address is answered before all (RFC 4861 section 7.2.4).
fn answer(mac: MacAddr, source: Ipv6Addr, question: Question, over: bool) -> Event<Ipv6Addr> {
    let asks_for_all = question.source.is_unspecified();
    let (to, destination) = match asks_for_all {
        true => (group_mac(ALL_NODES), ALL_NODES),
        false => (question.link.unwrap_or(question.frame), question.source),
    };
    let flags = Flags { router: true, solicited: !asks_for_all, over };
    let body = Body::Advertisement { target: question.target, link: Some(mac), flags };
    let message = Message { source, destination, body };
    Event::Send { interface: question.interface, to, message, kind: MessageKind::Reply }
}
