//! The state machine on a simulated link, step by step.

mod nd;
mod random;

use super::own::{ANNOUNCE_INTERVAL, ANNOUNCE_WAIT, DEFEND_INTERVAL, PROBE_INTERVAL};
use super::*;
use crate::interface::InterfaceAddress;
use weir_wire::arp::{ArpFields, Operation};

const SECOND: u64 = 1_000_000_000;
const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 10]);
const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

struct Lab {
    table: Neighbors,
    now: u64,
    events: Vec<Event>,
}

impl Lab {
    /// One interface, 10.0.0.1/24, link up, own address silent.
    fn new(timing: Timing, limits: Limits) -> Self {
        let mut lab = Lab { table: Neighbors::new(timing, limits), now: 1_000, events: Vec::new() };
        lab.table.set_port(1, ROUTER);
        lab.table.add_own(0, InterfaceAddress::new(1, "10.0.0.1/24".parse().unwrap()).unwrap(), &mut lab.events);
        lab.table.link_up(0, 1);
        let quiet = 60 * SECOND;
        lab.run_until(quiet);
        lab.events.clear();
        lab
    }

    fn quiet() -> Self {
        Lab::new(Timing::default(), Limits::default())
    }

    fn run_until(&mut self, end: u64) -> Vec<Event> {
        while let Some(at) = self.table.next_deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.table.timer(self.now, &mut self.events);
        }
        self.now = end;
        std::mem::take(&mut self.events)
    }

    fn wait(&mut self, time: u64) -> Vec<Event> {
        self.run_until(self.now + time)
    }

    fn resolve(&mut self) -> (Resolution, Vec<Event>) {
        let resolution = self.table.resolve(self.now, 1, PEER, &mut self.events);
        (resolution, std::mem::take(&mut self.events))
    }

    fn hear(&mut self, arp: ArpFields) -> (Heard, Vec<Event>) {
        let heard = self.table.arp_received(self.now, 1, &arp, &mut self.events);
        (heard, std::mem::take(&mut self.events))
    }

    fn state(&self) -> Option<State> {
        self.table.get(1, PEER).map(|neighbor| neighbor.state)
    }

    /// Asked and answered: Reachable.
    fn reachable() -> Self {
        let mut lab = Lab::quiet();
        lab.resolve();
        lab.hear(reply(PEER, HOST));
        assert_eq!(lab.state(), Some(State::Reachable));
        lab
    }
}

fn arp(
    operation: Operation,
    sender: Ipv4Addr,
    sender_mac: MacAddr,
    target: Ipv4Addr,
    target_mac: MacAddr,
) -> ArpFields {
    ArpFields { operation, sender_mac, sender, target_mac, target }
}

fn reply(sender: Ipv4Addr, mac: MacAddr) -> ArpFields {
    arp(Operation::Reply, sender, mac, ME, ROUTER)
}

fn request(sender: Ipv4Addr, mac: MacAddr, target: Ipv4Addr) -> ArpFields {
    arp(Operation::Request, sender, mac, target, MacAddr::ZERO)
}

fn asks(to: MacAddr, kind: MessageKind) -> Event {
    let target_mac = if to == MacAddr::BROADCAST { MacAddr::ZERO } else { to };
    Event::Send { interface: 1, to, message: arp(Operation::Request, ME, ROUTER, PEER, target_mac), kind }
}

const RESOLVED: Event = Event::Resolved { interface: 1, address: PEER, mac: HOST };
const FAILED: Event = Event::Failed { interface: 1, address: PEER };
const REMOVED: Event = Event::Removed { interface: 1, address: PEER };

#[test]
fn a_neighbour_is_asked_for_once_and_answers() {
    let mut lab = Lab::quiet();
    let ask = asks(MacAddr::BROADCAST, MessageKind::Request);
    assert_eq!(lab.resolve(), (Resolution::Pending, vec![ask]));
    assert_eq!(lab.resolve(), (Resolution::Pending, vec![]), "more packets do not ask more often");
    assert_eq!(lab.hear(reply(PEER, HOST)), (Heard::Learned, vec![RESOLVED]));
    assert_eq!(lab.resolve(), (Resolution::Known(HOST), vec![]));
    assert_eq!(lab.hear(reply(PEER, HOST)), (Heard::Learned, vec![]));
}

#[test]
fn silence_fails_after_three_seconds_and_is_forgotten_after_a_hold_down() {
    let mut lab = Lab::quiet();
    lab.resolve();
    let ask = asks(MacAddr::BROADCAST, MessageKind::Request);
    assert_eq!(lab.wait(SECOND - 1), []);
    assert_eq!(lab.wait(1), [ask]);
    assert_eq!(lab.wait(SECOND), [ask]);
    assert_eq!(lab.wait(SECOND), [FAILED]);
    assert_eq!(lab.resolve(), (Resolution::Failed, vec![]));
    assert_eq!(lab.wait(SECOND), [REMOVED]);
    assert_eq!(lab.resolve(), (Resolution::Pending, vec![ask]));
    assert_eq!(lab.wait(10 * SECOND).last(), Some(&REMOVED));
    assert!(lab.table.is_empty() && lab.table.next_deadline().is_none());
}

#[test]
fn a_used_neighbour_is_asked_again_before_it_is_lost_and_stays_known() {
    let mut lab = Lab::reachable();
    lab.table.used(lab.now, 1, PEER, &mut lab.events);
    let events = lab.wait(30 * SECOND);
    assert_eq!(events[0], asks(HOST, MessageKind::Revalidation));
    let mut lab = Lab::reachable();
    lab.table.used(lab.now, 1, PEER, &mut lab.events);
    let due = lab.table.next_deadline().unwrap();
    assert!((lab.now + 22 * SECOND..=lab.now + 30 * SECOND).contains(&due));
    lab.run_until(due);
    assert_eq!(lab.state(), Some(State::Probe));
    assert_eq!(lab.resolve(), (Resolution::Known(HOST), vec![]));
    assert_eq!(lab.hear(reply(PEER, HOST)), (Heard::Learned, vec![]));
    assert_eq!(lab.state(), Some(State::Reachable));
}

#[test]
fn a_used_neighbour_that_went_away_is_polled_then_sought_then_given_up() {
    let mut lab = Lab::reachable();
    lab.table.used(lab.now, 1, PEER, &mut lab.events);
    let due = lab.table.next_deadline().unwrap();
    assert_eq!(lab.run_until(due), [asks(HOST, MessageKind::Revalidation)]);
    let (poll, ask) = (asks(HOST, MessageKind::Revalidation), asks(MacAddr::BROADCAST, MessageKind::Request));
    assert_eq!(lab.wait(5 * SECOND), [poll, ask, ask, ask, FAILED]);
    assert_eq!(lab.resolve().0, Resolution::Failed);
}

#[test]
fn an_unused_neighbour_grows_stale_and_is_forgotten_silently() {
    let mut lab = Lab::reachable();
    assert_eq!(lab.wait(30 * SECOND), []);
    assert_eq!(lab.state(), Some(State::Stale));
    assert_eq!(lab.wait(300 * SECOND), [REMOVED]);
}

#[test]
fn a_stale_neighbour_is_used_and_checked_at_once() {
    let mut lab = Lab::reachable();
    lab.wait(30 * SECOND);
    assert_eq!(lab.resolve(), (Resolution::Known(HOST), vec![asks(HOST, MessageKind::Revalidation)]));
    assert_eq!(lab.resolve(), (Resolution::Known(HOST), vec![]));
    lab.table.confirm(lab.now, 1, PEER);
    assert_eq!(lab.state(), Some(State::Reachable));
}

#[test]
fn gratuitous_arp_moves_known_neighbours_only() {
    let changed = Event::Changed { interface: 1, address: PEER, mac: OTHER };
    for gratuitous in [request(PEER, OTHER, PEER), arp(Operation::Reply, PEER, OTHER, PEER, MacAddr::BROADCAST)] {
        let mut lab = Lab::reachable();
        assert_eq!(lab.hear(gratuitous), (Heard::Learned, vec![changed]));
        assert_eq!(lab.state(), Some(State::Stale), "nobody asked: to be checked when used");
        assert_eq!(lab.resolve(), (Resolution::Known(OTHER), vec![asks(OTHER, MessageKind::Revalidation)]));
        let mut lab = Lab::quiet();
        assert_eq!(lab.hear(gratuitous), (Heard::Ignored(Ignored::NotForUs), vec![]));
        assert!(lab.table.is_empty());
    }
}

#[test]
fn an_unasked_word_that_changes_nothing_does_not_prolong_anything() {
    let mut lab = Lab::reachable();
    let before = (lab.table.get(1, PEER), lab.table.next_deadline());
    lab.wait(SECOND);
    lab.hear(request(PEER, HOST, PEER));
    lab.hear(reply(PEER, HOST));
    assert_eq!((lab.table.get(1, PEER), lab.table.next_deadline()), before);
}

#[test]
fn a_request_for_us_is_answered_and_its_sender_learned() {
    let mut lab = Lab::quiet();
    let answer = arp(Operation::Reply, ME, ROUTER, PEER, HOST);
    let answer = Event::Send { interface: 1, to: HOST, message: answer, kind: MessageKind::Reply };
    assert_eq!(lab.hear(request(PEER, HOST, ME)), (Heard::Answered, vec![RESOLVED, answer]));
    assert_eq!(lab.state(), Some(State::Stale));
    assert_eq!(lab.hear(request(PEER, HOST, ME)), (Heard::Answered, vec![answer]));
    let stranger = Ipv4Addr::new(10, 9, 9, 9);
    let (heard, events) = lab.hear(request(stranger, OTHER, ME));
    assert_eq!((heard, events.len()), (Heard::Answered, 1), "answered, but not learned: it is not on the link");
    assert_eq!(lab.table.get(1, stranger), None);
}

#[test]
fn a_request_from_the_one_we_are_asking_resolves_it() {
    let mut lab = Lab::quiet();
    lab.resolve();
    assert_eq!(lab.hear(request(PEER, HOST, Ipv4Addr::new(10, 0, 0, 77))), (Heard::Learned, vec![RESOLVED]));
    assert_eq!(lab.state(), Some(State::Stale));
}

#[test]
fn only_an_answer_to_us_makes_reachable() {
    let elsewhere = Ipv4Addr::new(10, 0, 0, 77);
    for not_to_us in [
        arp(Operation::Reply, PEER, HOST, ME, OTHER),
        arp(Operation::Reply, PEER, HOST, elsewhere, ROUTER),
        arp(Operation::Reply, PEER, HOST, elsewhere, OTHER),
        request(PEER, HOST, ME),
    ] {
        let mut lab = Lab::quiet();
        lab.resolve();
        lab.hear(not_to_us);
        assert_eq!(lab.state(), Some(State::Stale), "{not_to_us:?}");
    }
}

#[test]
fn senders_that_can_not_be_hosts_are_ignored() {
    let mut lab = Lab::quiet();
    let hosts = [[224, 0, 0, 1], [127, 0, 0, 1], [255; 4], [10, 0, 0, 255], [10, 0, 0, 0]];
    for sender in hosts {
        assert_eq!(lab.hear(request(sender.into(), HOST, ME)), (Heard::Ignored(Ignored::BadSender), vec![]));
        assert_eq!(lab.table.resolve(lab.now, 1, sender.into(), &mut lab.events), Resolution::Failed);
    }
    for mac in [MacAddr::BROADCAST, MacAddr::ZERO, MacAddr([1, 0, 0x5e, 0, 0, 1])] {
        assert_eq!(lab.hear(request(PEER, mac, ME)), (Heard::Ignored(Ignored::BadSender), vec![]));
    }
    assert_eq!(lab.hear(request(ME, ROUTER, ME)), (Heard::Ignored(Ignored::Echo), vec![]));
    assert_eq!(lab.hear(request(PEER, HOST, Ipv4Addr::new(10, 0, 0, 3))).0, Heard::Ignored(Ignored::NotForUs));
    assert_eq!(
        lab.table.arp_received(0, 2, &request(PEER, HOST, ME), &mut lab.events),
        Heard::Ignored(Ignored::NoPort)
    );
    assert!(lab.table.is_empty() && lab.events.is_empty());
}

#[test]
fn own_addresses_are_probed_announced_and_then_quiet() {
    let mut lab = Lab { table: Neighbors::new(Timing::default(), Limits::default()), now: 0, events: vec![] };
    lab.table.set_port(1, ROUTER);
    lab.table.add_own(0, InterfaceAddress::new(1, "10.0.0.1/24".parse().unwrap()).unwrap(), &mut lab.events);
    assert_eq!(lab.table.next_deadline(), None, "the link is down");
    lab.table.link_up(0, 1);
    let say = |sender, kind| {
        let arp = arp(Operation::Request, sender, ROUTER, ME, MacAddr::ZERO);
        Event::Send { interface: 1, to: MacAddr::BROADCAST, message: arp, kind }
    };
    let probe = say(Ipv4Addr::UNSPECIFIED, MessageKind::Probe);
    let announcement = say(ME, MessageKind::Announcement);
    for (wait, expected) in [
        (0, probe),
        (PROBE_INTERVAL, probe),
        (PROBE_INTERVAL, probe),
        (ANNOUNCE_WAIT, announcement),
        (ANNOUNCE_INTERVAL, announcement),
    ] {
        if wait > 0 {
            assert_eq!(lab.wait(wait - 1), []);
            lab.now += 1;
        }
        assert_eq!(lab.run_until(lab.now), [expected]);
    }
    assert_eq!(lab.table.next_deadline(), None);
    lab.table.link_down(1, &mut lab.events);
    lab.table.link_up(lab.now, 1);
    assert_eq!(lab.wait(100 * SECOND).len(), 5, "said again when the link comes back");
}

#[test]
fn a_duplicate_is_reported_each_time_and_defended_against_seldom() {
    let mut lab = Lab::quiet();
    let duplicate = Event::DuplicateAddress { interface: 1, address: ME, mac: OTHER };
    let announcement = arp(Operation::Request, ME, ROUTER, ME, MacAddr::ZERO);
    let defence =
        Event::Send { interface: 1, to: MacAddr::BROADCAST, message: announcement, kind: MessageKind::Announcement };
    let rival = request(ME, OTHER, PEER);
    assert_eq!(lab.hear(rival), (Heard::Conflict, vec![duplicate, defence]));
    lab.wait(DEFEND_INTERVAL - 1);
    assert_eq!(lab.hear(rival), (Heard::Conflict, vec![duplicate]));
    lab.wait(1);
    assert_eq!(lab.hear(rival), (Heard::Conflict, vec![duplicate, defence]), "who never falls silent is answered, too");
    lab.wait(DEFEND_INTERVAL);
    assert_eq!(lab.hear(reply(ME, OTHER)), (Heard::Conflict, vec![duplicate, defence]));
    assert_eq!(lab.table.own_addresses().next().unwrap().rival, Some(OTHER));
    assert_eq!(lab.table.get(1, ME), None);
}

#[test]
fn a_probe_for_our_address_is_answered_and_is_a_conflict_while_we_probe() {
    let probe = request(Ipv4Addr::UNSPECIFIED, OTHER, ME);
    let mut lab = Lab::quiet();
    let (heard, events) = lab.hear(probe);
    assert_eq!((heard, events.len()), (Heard::Answered, 1));
    lab.table.link_down(1, &mut lab.events);
    lab.table.link_up(lab.now, 1);
    let (heard, events) = lab.hear(probe);
    assert_eq!((heard, events.len()), (Heard::Answered, 2));
    assert_eq!(events[0], Event::DuplicateAddress { interface: 1, address: ME, mac: OTHER });
    assert!(lab.table.is_empty());
}

#[test]
fn static_neighbours_stay_whatever_is_heard() {
    let mut lab = Lab::quiet();
    assert!(lab.table.add_static(lab.now, 1, PEER, HOST, RouteSource::Config, &mut lab.events));
    assert_eq!(std::mem::take(&mut lab.events), [RESOLVED]);
    assert_eq!(lab.hear(request(PEER, OTHER, PEER)), (Heard::Learned, vec![]));
    assert_eq!(lab.wait(1_000 * SECOND), []);
    assert_eq!(lab.resolve(), (Resolution::Known(HOST), vec![]));
    let shown = lab.table.get(1, PEER).unwrap();
    assert_eq!((shown.state, shown.source, shown.mac), (State::Permanent, RouteSource::Config, Some(HOST)));
    lab.table.link_down(1, &mut lab.events);
    assert_eq!(lab.resolve(), (Resolution::NoPort, vec![]));
    lab.table.link_up(lab.now, 1);
    assert_eq!(lab.resolve().0, Resolution::Known(HOST));
    assert!(lab.table.add_static(lab.now, 1, PEER, OTHER, RouteSource::Cli, &mut lab.events));
    assert_eq!(lab.events.pop(), Some(Event::Changed { interface: 1, address: PEER, mac: OTHER }));
    assert!(lab.table.remove(1, PEER, &mut lab.events) && !lab.table.remove(1, PEER, &mut lab.events));
    assert_eq!(std::mem::take(&mut lab.events), [REMOVED]);
    assert_eq!(lab.resolve().0, Resolution::Pending);
    for (address, mac) in [(ME, HOST), (PEER, MacAddr::BROADCAST), (Ipv4Addr::new(10, 0, 0, 255), HOST)] {
        assert!(!lab.table.add_static(lab.now, 1, address, mac, RouteSource::Cli, &mut lab.events));
    }
}

#[test]
fn a_link_that_goes_down_takes_its_neighbours_along() {
    let mut lab = Lab::reachable();
    lab.table.link_down(1, &mut lab.events);
    assert_eq!(lab.events, [REMOVED]);
    assert_eq!(lab.table.next_deadline(), None);
    lab.table.remove_port(1, &mut lab.events);
    assert_eq!(lab.table.own_addresses().count(), 0);
}

#[test]
fn the_source_of_a_request_is_on_the_targets_subnet() {
    let mut lab = Lab::quiet();
    for net in ["10.0.0.130/25", "192.0.2.1/31"] {
        assert!(lab.table.add_own(lab.now, InterfaceAddress::new(1, net.parse().unwrap()).unwrap(), &mut lab.events));
    }
    lab.wait(60 * SECOND);
    let mut source = |target: [u8; 4]| {
        lab.table.resolve(lab.now, 1, target.into(), &mut lab.events);
        match lab.events.pop() {
            Some(Event::Send { message: arp, .. }) => arp.sender.octets(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(source([10, 0, 0, 9]), [10, 0, 0, 1]);
    assert_eq!(source([10, 0, 0, 200]), [10, 0, 0, 130]);
    assert_eq!(source([192, 0, 2, 0]), [192, 0, 2, 1], "on a /31 the lower address is a host");
    assert_eq!(source([203, 0, 113, 7]), [10, 0, 0, 1]);
    assert!(lab.table.remove_own(1, ME) && !lab.table.remove_own(1, ME));
}

#[test]
fn proxy_answers_claim_the_target() {
    let lab = Lab::quiet();
    let far = Ipv4Addr::new(172, 16, 0, 1);
    let answer = arp(Operation::Reply, far, ROUTER, PEER, HOST);
    let expected = Event::Send { interface: 1, to: HOST, message: answer, kind: MessageKind::Reply };
    assert_eq!(lab.table.answer_for(1, &request(PEER, HOST, far)), Some(expected));
    assert_eq!(lab.table.answer_for(1, &reply(PEER, HOST)), None);
    assert_eq!(lab.table.answer_for(2, &request(PEER, HOST, far)), None);
}

#[test]
fn a_full_table_forgets_the_failed_then_the_stale_and_never_the_used() {
    let mut lab = Lab::new(
        Timing { failed: 60 * SECOND, ..Timing::default() },
        Limits { per_port: 3, total: 9, ..Limits::default() },
    );
    let host = |last| Ipv4Addr::new(10, 0, 0, last);
    let resolve = |lab: &mut Lab, last| lab.table.resolve(lab.now, 1, host(last), &mut lab.events);
    resolve(&mut lab, 2);
    lab.hear(reply(host(2), HOST));
    lab.wait(40 * SECOND);
    resolve(&mut lab, 3);
    lab.wait(10 * SECOND);
    resolve(&mut lab, 4);
    lab.hear(reply(host(4), HOST));
    let states: Vec<_> = lab.table.iter().map(|neighbor| neighbor.state).collect();
    assert_eq!(states, [State::Stale, State::Failed, State::Reachable]);

    assert_eq!(resolve(&mut lab, 5), Resolution::Pending);
    assert_eq!(lab.events[0], Event::Removed { interface: 1, address: host(3) });
    lab.events.clear();
    assert_eq!(resolve(&mut lab, 6), Resolution::Pending);
    assert_eq!(lab.events[0], Event::Removed { interface: 1, address: host(2) });
    assert_eq!(resolve(&mut lab, 7), Resolution::NoRoom);
    assert_eq!(lab.table.len(), 3);
}

#[test]
fn when_all_ports_together_are_full_the_oldest_of_all_makes_room() {
    let mut lab = Lab::new(Timing::default(), Limits { per_port: 9, total: 2, ..Limits::default() });
    lab.table.set_port(2, ROUTER);
    lab.table.add_own(lab.now, InterfaceAddress::new(2, "10.0.2.1/24".parse().unwrap()).unwrap(), &mut lab.events);
    lab.table.link_up(lab.now, 2);
    for interface in [2, 1] {
        let host = Ipv4Addr::new(10, 0, if interface == 2 { 2 } else { 0 }, 9);
        let target = Ipv4Addr::new(10, 0, if interface == 2 { 2 } else { 0 }, 1);
        lab.table.arp_received(lab.now, interface, &request(host, HOST, target), &mut lab.events);
        lab.now += SECOND;
    }
    lab.events.clear();
    lab.table.resolve(lab.now, 1, Ipv4Addr::new(10, 0, 0, 5), &mut lab.events);
    assert_eq!(lab.events[0], Event::Removed { interface: 2, address: Ipv4Addr::new(10, 0, 2, 9) });
    assert_eq!(lab.table.len(), 2);
}

#[test]
fn ranges_are_checked() {
    assert!(Timing::default().check().is_empty() && Limits::default().check().is_empty());
    let wrong = Timing { retransmit: 1, broadcast_requests: 0, ..Timing::default() }.check();
    let fields: Vec<_> = wrong.iter().map(|wrong| wrong.field).collect();
    assert_eq!(fields, ["retransmit", "broadcast_requests"]);
    assert_eq!(wrong[1].to_string(), "broadcast_requests is 0; it must be 1 to 20");
    assert_eq!(Limits { per_port: 0, total: 2 << 20, ..Limits::default() }.check().len(), 2);
}
