//! Neighbour discovery on a simulated link, clause by clause of RFC 4861 section 7 and RFC 4862 section 5.4.

mod floods;

use super::*;
use std::net::Ipv6Addr;
use weir_wire::nd::{ALL_NODES, Body, Flags, Message, group_mac, link_local, solicited_node};

const ME6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const PEER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
const NOBODY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

struct Lab6 {
    table: Neighbors<Ipv6Addr>,
    now: u64,
    events: Vec<Event<Ipv6Addr>>,
}

impl Lab6 {
    /// One interface with fe80::ff:fe00:1/64 and 2001:db8::1/64, link down.
    fn down(timing: Timing, limits: Limits) -> Self {
        let mut lab = Lab6 { table: Neighbors::new(timing, limits), now: 0, events: Vec::new() };
        lab.table.set_port(1, ROUTER);
        for net in [format!("{}/64", link_local(ROUTER)), format!("{ME6}/64")] {
            lab.table.add_own(0, InterfaceAddress::new(1, net.parse().unwrap()).unwrap(), &mut lab.events);
        }
        lab
    }

    /// The same with its link up, own addresses proven and silent.
    fn with(timing: Timing, limits: Limits) -> Self {
        let mut lab = Lab6::down(timing, limits);
        lab.table.link_up(0, 1);
        lab.run_until(60 * SECOND);
        lab
    }

    fn quiet() -> Self {
        Lab6::with(Timing::for_ipv6(), Limits::for_ipv6())
    }

    fn run_until(&mut self, end: u64) -> Vec<Event<Ipv6Addr>> {
        while let Some(at) = self.table.next_deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.table.timer(self.now, &mut self.events);
        }
        self.now = end;
        self.table.assert_consistent();
        std::mem::take(&mut self.events)
    }

    fn wait(&mut self, time: u64) -> Vec<Event<Ipv6Addr>> {
        self.run_until(self.now + time)
    }

    fn resolve(&mut self) -> (Resolution, Vec<Event<Ipv6Addr>>) {
        let resolution = self.table.resolve(self.now, 1, PEER6, &mut self.events);
        (resolution, std::mem::take(&mut self.events))
    }

    fn hear(&mut self, frame: MacAddr, message: Message) -> (Heard, Vec<Event<Ipv6Addr>>) {
        let heard = self.table.nd_received(self.now, 1, frame, &message, &mut self.events);
        self.table.assert_consistent();
        (heard, std::mem::take(&mut self.events))
    }

    fn state(&self) -> Option<State> {
        self.table.get(1, PEER6).map(|neighbor| neighbor.state)
    }

    fn reachable() -> Self {
        let mut lab = Lab6::quiet();
        lab.resolve();
        lab.hear(HOST, told(HOST, true, true));
        assert_eq!(lab.state(), Some(State::Reachable));
        lab
    }

    /// In a state that a neighbour with a known address goes through.
    fn in_state(state: State) -> Self {
        if state == State::Incomplete {
            let mut lab = Lab6::quiet();
            lab.resolve();
            return lab;
        }
        let mut lab = Lab6::reachable();
        let past = |lab: &mut Lab6, time| drop(lab.wait(time));
        if state != State::Reachable {
            past(&mut lab, 30 * SECOND);
        }
        if matches!(state, State::Delay | State::Probe) {
            lab.resolve();
        }
        if state == State::Probe {
            past(&mut lab, 5 * SECOND);
        }
        assert_eq!(lab.state(), Some(state));
        lab
    }
}

/// An advertisement of the peer's address.
fn told(mac: MacAddr, solicited: bool, over: bool) -> Message {
    let flags = Flags { router: false, solicited, over };
    let destination = if solicited { ME6 } else { ALL_NODES };
    Message { source: PEER6, destination, body: Body::Advertisement { target: PEER6, link: Some(mac), flags } }
}

/// A solicitation for an address.
fn asked(source: Ipv6Addr, target: Ipv6Addr, link: Option<MacAddr>) -> Message {
    Message { source, destination: solicited_node(target), body: Body::Solicitation { target, link, nonce: None } }
}

fn asks6(to: Option<MacAddr>) -> Event<Ipv6Addr> {
    let message = Message::solicitation(ME6, ROUTER, PEER6);
    let (to, message, kind) = match to {
        Some(mac) => (mac, Message { destination: PEER6, ..message }, MessageKind::Revalidation),
        None => (group_mac(solicited_node(PEER6)), message, MessageKind::Request),
    };
    Event::Send { interface: 1, to, message, kind }
}

/// Section 7.2.2: MAX_MULTICAST_SOLICIT questions, RETRANS_TIMER apart; then the packets that wait are given up.
#[test]
fn a_neighbour_is_asked_for_at_its_solicited_node_address() {
    let mut lab = Lab6::quiet();
    assert_eq!(lab.resolve(), (Resolution::Pending, vec![asks6(None)]));
    assert_eq!(lab.resolve(), (Resolution::Pending, vec![]));
    let failed = Event::Failed { interface: 1, address: PEER6 };
    assert_eq!(lab.wait(3 * SECOND), [asks6(None), asks6(None), failed]);
    assert_eq!(lab.resolve(), (Resolution::Failed, vec![]));
    assert_eq!(lab.wait(SECOND), [Event::Removed { interface: 1, address: PEER6 }]);
    lab.resolve();
    let resolved = Event::Resolved { interface: 1, address: PEER6, mac: HOST };
    assert_eq!(lab.hear(HOST, told(HOST, true, true)), (Heard::Learned, vec![resolved]));
    assert_eq!(lab.resolve(), (Resolution::Known(HOST), vec![]));
}

/// Section 7.3.3: STALE is left for DELAY when a packet is sent, DELAY after DELAY_FIRST_PROBE_TIME for PROBE, which asks by unicast
/// MAX_UNICAST_SOLICIT times.
#[test]
fn a_stale_neighbour_is_used_for_five_seconds_before_it_is_asked() {
    let mut lab = Lab6::reachable();
    assert_eq!(lab.wait(30 * SECOND), []);
    assert_eq!(lab.state(), Some(State::Stale));
    assert_eq!(lab.resolve(), (Resolution::Known(HOST), vec![]));
    assert_eq!(lab.state(), Some(State::Delay));
    assert_eq!(lab.wait(5 * SECOND - 1), []);
    assert_eq!(lab.wait(1), [asks6(Some(HOST))]);
    assert_eq!((lab.state(), lab.resolve()), (Some(State::Probe), (Resolution::Known(HOST), vec![])));
    assert_eq!(lab.wait(2 * SECOND), [asks6(Some(HOST)), asks6(Some(HOST))]);
    // RFC 7048: and then by multicast, before it is given up.
    let failed = Event::Failed { interface: 1, address: PEER6 };
    assert_eq!(lab.wait(4 * SECOND), [asks6(None), asks6(None), asks6(None), failed]);
    let mut lab = Lab6::in_state(State::Delay);
    lab.table.confirm(lab.now, 1, PEER6);
    assert_eq!((lab.state(), lab.wait(5 * SECOND)), (Some(State::Reachable), vec![]));
}

/// The table of RFC 4861 section 7.2.5, read once more: what an advertisement makes of an entry (state, address, whether it is a router).
fn twin(entry: (State, Option<MacAddr>, bool), link: Option<MacAddr>, flags: Flags) -> (State, Option<MacAddr>, bool) {
    let (state, cached, was_router) = entry;
    if state == State::Incomplete {
        return match (link, flags.solicited) {
            (None, _) => entry,
            (link, true) => (State::Reachable, link, flags.router),
            (link, false) => (State::Stale, link, flags.router),
        };
    }
    let supplied_differs = link.is_some() && link != cached;
    match (flags.over, supplied_differs) {
        // I. "If the Override flag is clear and the supplied link-layer address differs from that in the cache".
        (false, true) if state == State::Reachable => (State::Stale, cached, was_router),
        (false, true) => entry,
        // II. "If the Override flag is set, or the supplied link-layer address is the same as that in the cache, or no Target Link-Layer
        // Address option was supplied".
        _ => {
            let state = match (flags.solicited, supplied_differs) {
                (true, _) => State::Reachable,
                (false, true) => State::Stale,
                (false, false) => state,
            };
            (state, link.or(cached), flags.router)
        }
    }
}

#[test]
fn every_advertisement_in_every_state_does_what_section_7_2_5_says() {
    let states = [State::Incomplete, State::Reachable, State::Stale, State::Delay, State::Probe];
    for state in states {
        for bits in 0..16_u8 {
            for link in [None, Some(HOST), Some(OTHER)] {
                let mut lab = Lab6::in_state(state);
                if bits & 8 != 0 && state != State::Incomplete {
                    // It was known to be a router.
                    let flags = Flags { router: true, ..Flags::default() };
                    lab.hear(
                        HOST,
                        Message {
                            body: Body::Advertisement { target: PEER6, link: None, flags },
                            ..told(HOST, false, false)
                        },
                    );
                }
                let flags = Flags { router: bits & 1 != 0, solicited: bits & 2 != 0, over: bits & 4 != 0 };
                let before = lab.table.get(1, PEER6).map(|n| (n.state, n.mac, n.router)).unwrap();
                let (_, events) = lab.hear(
                    OTHER,
                    Message { body: Body::Advertisement { target: PEER6, link, flags }, ..told(HOST, false, false) },
                );
                let after = lab.table.get(1, PEER6).map(|n| (n.state, n.mac, n.router)).unwrap();
                assert_eq!(after, twin(before, link, flags), "{before:?} {link:?} {flags:?}");
                let expected = match (before.1, after.1) {
                    (None, Some(mac)) => vec![Event::Resolved { interface: 1, address: PEER6, mac }],
                    (Some(old), Some(mac)) if old != mac => vec![Event::Changed { interface: 1, address: PEER6, mac }],
                    _ => vec![],
                };
                assert_eq!(events, expected);
            }
        }
    }
    // "If no entry exists, the advertisement SHOULD be silently discarded."
    let mut lab = Lab6::quiet();
    assert_eq!(lab.hear(HOST, told(HOST, false, true)), (Heard::Ignored(Ignored::NotForUs), vec![]));
    assert!(lab.table.is_empty());
}

/// Sections 7.2.3 and 7.2.4.
#[test]
fn a_question_is_answered_and_its_sender_learned() {
    let answer = |to, destination, solicited| {
        let flags = Flags { router: true, solicited, over: true };
        let body = Body::Advertisement { target: ME6, link: Some(ROUTER), flags };
        let message = Message { source: ME6, destination, body };
        Event::Send { interface: 1, to, message, kind: MessageKind::Reply }
    };
    let resolved = Event::Resolved { interface: 1, address: PEER6, mac: HOST };
    let mut lab = Lab6::quiet();
    let question = asked(PEER6, ME6, Some(HOST));
    assert_eq!(lab.hear(HOST, question), (Heard::Answered, vec![resolved, answer(HOST, PEER6, true)]));
    assert_eq!(lab.state(), Some(State::Stale));
    // The same again prolongs nothing; another address replaces the one that was known.
    let before = lab.table.get(1, PEER6);
    lab.wait(SECOND);
    assert_eq!(lab.hear(HOST, question).1, [answer(HOST, PEER6, true)]);
    assert_eq!(lab.table.get(1, PEER6), before);
    let changed = Event::Changed { interface: 1, address: PEER6, mac: OTHER };
    let mut lab = Lab6::reachable();
    assert_eq!(lab.hear(OTHER, asked(PEER6, ME6, Some(OTHER))).1, [changed, answer(OTHER, PEER6, true)]);
    assert_eq!(lab.state(), Some(State::Stale));
    // Without the option nothing is learned, and the frame says where to.
    let mut lab = Lab6::quiet();
    assert_eq!(lab.hear(HOST, asked(PEER6, ME6, None)).1, [answer(HOST, PEER6, true)]);
    assert!(lab.table.is_empty());
    // "If the source of the solicitation is the unspecified address, the node MUST set the Solicited flag to zero and multicast the
    // advertisement to the all-nodes address": that also defends the address (RFC 4862 section 5.4.3).
    assert_eq!(lab.hear(HOST, asked(NOBODY, ME6, None)).1, [answer(group_mac(ALL_NODES), ALL_NODES, false)]);
    assert!(lab.table.is_empty());
}

/// RFC 4861 section 6.2.6.
#[test]
fn who_looks_for_routers_is_learned_and_is_none() {
    let mut lab = Lab6::quiet();
    let hear = |lab: &mut Lab6, source, link| {
        lab.table.router_solicited(lab.now, 1, source, link, &mut lab.events);
        lab.table.assert_consistent();
        std::mem::take(&mut lab.events)
    };
    assert_eq!(hear(&mut lab, PEER6, HOST), [Event::Resolved { interface: 1, address: PEER6, mac: HOST }]);
    assert_eq!(lab.state(), Some(State::Stale));
    let router = Flags { router: true, solicited: false, over: true };
    let body = Body::Advertisement { target: PEER6, link: Some(HOST), flags: router };
    lab.hear(HOST, Message { source: PEER6, destination: ALL_NODES, body });
    assert!(lab.table.get(1, PEER6).unwrap().router);
    let other = MacAddr([2, 0, 0, 0, 9, 9]);
    assert_eq!(hear(&mut lab, PEER6, other), [Event::Changed { interface: 1, address: PEER6, mac: other }]);
    assert!(!lab.table.get(1, PEER6).unwrap().router);
    for (source, link) in [(NOBODY, HOST), (ME6, HOST), (PEER6, MacAddr::BROADCAST), (PEER6, ROUTER)] {
        assert_eq!(hear(&mut lab, source, link), []);
    }
    assert_eq!(lab.table.len(), 1);
}

/// RFC 4291 section 2.6.1, RFC 4861 section 7.2.7: the routers of a subnet have an address in common, which none of them overrides.
#[test]
fn the_anycast_address_of_the_subnet_is_answered_without_override() {
    let mut lab = Lab6::quiet();
    let (_, events) = lab.hear(HOST, asked(PEER6, "2001:db8::".parse().unwrap(), Some(HOST)));
    let over = events.iter().find_map(|event| match event {
        Event::Send { message: Message { body: Body::Advertisement { flags, .. }, .. }, .. } => Some(flags.over),
        _ => None,
    });
    assert_eq!(over, Some(false));
}

/// Section 7.2.8.
#[test]
fn proxies_do_not_override_and_speak_from_their_own_address() {
    let lab = Lab6::quiet();
    let far: Ipv6Addr = "2001:db8::77".parse().unwrap();
    let question = asked(PEER6, far, Some(HOST));
    let flags = Flags { router: true, solicited: true, over: false };
    let body = Body::Advertisement { target: far, link: Some(ROUTER), flags };
    let message = Message { source: link_local(ROUTER), destination: PEER6, body };
    let expected = Event::Send { interface: 1, to: HOST, message, kind: MessageKind::Reply };
    assert_eq!(lab.table.advertise_for(1, HOST, &question), Some(expected));
    assert_eq!(lab.table.advertise_for(2, HOST, &question), None);
    assert_eq!(lab.table.advertise_for(1, HOST, &told(HOST, true, true)), None);
}

#[test]
fn senders_that_can_not_be_neighbours_are_ignored() {
    let mut lab = Lab6::quiet();
    let group = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
    let bad = (Heard::Ignored(Ignored::BadSender), vec![]);
    assert_eq!(lab.hear(HOST, asked(PEER6, ME6, Some(group))), bad);
    assert_eq!(lab.hear(group, asked(PEER6, ME6, None)), bad);
    assert_eq!(lab.hear(HOST, asked("ff02::1".parse().unwrap(), ME6, None)), bad);
    assert_eq!(lab.hear(HOST, asked(PEER6, PEER6, Some(HOST))), (Heard::Ignored(Ignored::NotForUs), vec![]));
    assert_eq!(lab.hear(ROUTER, asked(PEER6, ME6, None)), (Heard::Ignored(Ignored::Echo), vec![]));
    lab.resolve();
    let mut lied = told(HOST, true, true);
    lied.body = Body::Advertisement { target: PEER6, link: Some(group), flags: Flags::default() };
    assert_eq!(lab.hear(HOST, lied), bad);
    let far = asked("2600::9".parse().unwrap(), ME6, Some(HOST));
    assert_eq!(lab.hear(HOST, far).0, Heard::Answered, "answered, but not learned: it is not on the link");
    assert_eq!(lab.table.len(), 1);
    let near = asked("fe80::9".parse().unwrap(), link_local(ROUTER), Some(HOST));
    lab.hear(HOST, near);
    assert_eq!(lab.table.len(), 2, "link-local addresses always are");
}

/// What of the events is said of an own address: (time, kind, sender).
fn words(events: &[Event<Ipv6Addr>], own: Ipv6Addr) -> Vec<(MessageKind, Ipv6Addr, Ipv6Addr)> {
    let word = |event: &Event<Ipv6Addr>| match event {
        Event::Send { message, kind, .. } => match message.body {
            Body::Solicitation { target, .. } | Body::Advertisement { target, .. } if target == own => {
                Some((*kind, message.source, message.destination))
            }
            _ => None,
        },
        _ => None,
    };
    events.iter().filter_map(word).collect()
}

const USABLE: Event<Ipv6Addr> = Event::OwnAddress { interface: 1, address: ME6, usable: true };
const TAKEN: Event<Ipv6Addr> = Event::OwnAddress { interface: 1, address: ME6, usable: false };

/// RFC 4862 section 5.4.2 and 5.4.5: DupAddrDetectTransmits solicitations from nobody, RetransTimer of silence, then the address is used
/// and told of (RFC 4861 section 7.2.6).
#[test]
fn own_addresses_are_proven_before_they_are_used() {
    for probes in 0..4 {
        let mut lab = Lab6::down(Timing { own_probes: probes, ..Timing::for_ipv6() }, Limits::for_ipv6());
        assert_eq!(lab.table.next_deadline(), None, "the link is down");
        lab.table.link_up(0, 1);
        assert_eq!(lab.resolve(), (Resolution::NoPort, vec![]), "there is no address to ask from");
        let mut events = Vec::new();
        let mut usable_at = None;
        for _ in 0..100_000 {
            let Some(at) = lab.table.next_deadline() else { break };
            let now = lab.run_until(at);
            usable_at = usable_at.or(now.contains(&USABLE).then_some(at));
            events.extend(now);
        }
        let probe = (MessageKind::Probe, NOBODY, solicited_node(ME6));
        let announcement = (MessageKind::Announcement, ME6, ALL_NODES);
        let expected = [vec![probe; probes as usize], vec![announcement; 3]].concat();
        assert_eq!(words(&events, ME6), expected);
        // Delayed by up to a second, so that not all stations of a link speak at once when its power comes back.
        let earliest = u64::from(probes) * SECOND;
        assert!((earliest..=earliest + SECOND).contains(&usable_at.unwrap()));
        assert!(lab.table.own_addresses().all(|own| own.usable && !own.probing));
        lab.table.link_down(1, &mut lab.events);
        lab.table.link_up(lab.now, 1);
        assert_eq!(lab.table.own_addresses().filter(|own| own.usable).count(), 0, "to be proven again");
    }
}

#[test]
fn stations_do_not_all_speak_at_once() {
    let at: std::collections::BTreeSet<_> = (0..50_u8)
        .map(|n| {
            let mut table: Neighbors<Ipv6Addr> = Neighbors::new(Timing::for_ipv6(), Limits::for_ipv6());
            table.set_port(1, MacAddr([2, 0, 0, 0, 0, n]));
            table.add_own(0, InterfaceAddress::new(1, "2001:db8::1/64".parse().unwrap()).unwrap(), &mut Vec::new());
            table.link_up(0, 1);
            table.next_deadline().unwrap()
        })
        .collect();
    assert!(at.len() > 40 && at.iter().all(|at| *at < SECOND));
}

/// RFC 4862 sections 5.4.3 to 5.4.5: somebody else proves the same address, or has it.
#[test]
fn an_address_that_another_has_is_not_used() {
    let claim = Message {
        source: ME6,
        destination: ALL_NODES,
        body: Body::Advertisement { target: ME6, link: Some(OTHER), flags: Flags::default() },
    };
    for rival in [asked(NOBODY, ME6, None), claim] {
        let mut lab = Lab6::down(Timing::for_ipv6(), Limits::for_ipv6());
        lab.table.link_up(0, 1);
        let (heard, events) = lab.hear(OTHER, rival);
        let duplicate = Event::DuplicateAddress { interface: 1, address: ME6, mac: OTHER };
        assert_eq!((heard, events), (Heard::Conflict, vec![duplicate, TAKEN]));
        let events = lab.wait(100 * SECOND);
        assert_eq!(words(&events, ME6), [], "nothing is said of it any more");
        assert_eq!(words(&events, link_local(ROUTER)).len(), 4, "the other one is used");
        assert_eq!(lab.hear(HOST, asked(PEER6, ME6, Some(HOST))), (Heard::Ignored(Ignored::NotForUs), vec![]));
        let own = lab.table.own_addresses().find(|own| own.assigned.address() == ME6).unwrap();
        assert_eq!((own.usable, own.probing, own.rival), (false, false, Some(OTHER)));
        // When the link comes back, it is tried again.
        lab.table.link_down(1, &mut lab.events);
        lab.table.link_up(lab.now, 1);
        assert!(lab.wait(100 * SECOND).contains(&USABLE));
    }
    // "If the source address of the Neighbor Solicitation is a unicast address, [...] the solicitation SHOULD be silently ignored."
    let mut lab = Lab6::down(Timing::for_ipv6(), Limits::for_ipv6());
    lab.table.link_up(0, 1);
    assert_eq!(lab.hear(OTHER, asked(PEER6, ME6, Some(OTHER))), (Heard::Ignored(Ignored::NotForUs), vec![]));
    assert!(lab.wait(100 * SECOND).contains(&USABLE));
}

/// RFC 7527: a link that sends back what it is told is no rival.
#[test]
fn the_routers_own_probe_is_known_by_its_nonce() {
    let mut lab = Lab6::down(Timing::for_ipv6(), Limits::for_ipv6());
    lab.table.set_seed(42);
    lab.table.link_up(0, 1);
    let at = lab.table.next_deadline().unwrap();
    let probes = lab.run_until(at + 900_000_000);
    let probe = probes.iter().find_map(|event| match event {
        Event::Send { message, kind: MessageKind::Probe, .. } => Some(*message),
        _ => None,
    });
    let probe = probe.unwrap();
    // As a bridge would send it back that changes the sender's address.
    assert_eq!(lab.hear(OTHER, probe), (Heard::Ignored(Ignored::Echo), vec![]));
    let Body::Solicitation { target, nonce, .. } = probe.body else { panic!("{probe:?}") };
    let mut other = nonce.unwrap();
    other[5] ^= 1;
    let rival = Message { body: Body::Solicitation { target, link: None, nonce: Some(other) }, ..probe };
    assert_eq!(lab.hear(OTHER, rival).0, Heard::Conflict);
}

/// An address in use is defended and told of, and not given up for whoever claims it.
#[test]
fn a_rival_of_an_address_in_use_is_told_of_and_answered_seldom() {
    let mut lab = Lab6::quiet();
    let claim = Message {
        source: ME6,
        destination: ALL_NODES,
        body: Body::Advertisement { target: ME6, link: Some(OTHER), flags: Flags::default() },
    };
    let duplicate = Event::DuplicateAddress { interface: 1, address: ME6, mac: OTHER };
    let (heard, events) = lab.hear(OTHER, claim);
    assert_eq!((heard, events[0], words(&events, ME6).len()), (Heard::Conflict, duplicate, 1));
    assert_eq!(lab.hear(OTHER, claim).1, [duplicate]);
    lab.wait(DEFEND_INTERVAL);
    assert_eq!(lab.hear(OTHER, claim).1.len(), 2);
    assert!(lab.table.own_addresses().all(|own| own.usable));
}

/// RFC 4861 section 7.2.6.
#[test]
fn another_ethernet_address_is_told_to_all() {
    let mut lab = Lab6::quiet();
    lab.table.set_port(1, OTHER);
    lab.table.announce(lab.now, 1);
    let events = lab.wait(60 * SECOND);
    assert_eq!(words(&events, ME6), vec![(MessageKind::Announcement, ME6, ALL_NODES); 3]);
    let told = |event: &Event<Ipv6Addr>| match event {
        Event::Send { message: Message { body: Body::Advertisement { link, flags, .. }, .. }, .. } => {
            *link == Some(OTHER) && *flags == Flags { router: true, solicited: false, over: true }
        }
        _ => false,
    };
    assert!(events.iter().all(told));
}
