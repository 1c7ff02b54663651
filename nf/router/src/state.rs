//! What the control side knows: ports, addresses, routes, neighbours. Requests, shows and the slow path share it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use ipnet::Ipv4Net;
use weir_ip::{InterfaceId, Interfaces, NO_INTERFACE};
use weir_net::interface::{AddressKind, Interface};
use weir_net::limit::{Policer, Rate};
use weir_net::neighbor::duplicate::{Duplicate, Duplicates};
use weir_net::neighbor::{Event, Limits, Neighbor, Neighbors, Timing};
use weir_net::rib::Hop;
use weir_net::{Author, PortId};
use weir_stage::Notice;
use weir_wire::MacAddr;
use weir_wire::arp::{ArpFields, Operation};

use crate::addresses::Addresses;
use crate::answer::{ERRORS, ErrorKind};
use crate::counters::Counters;
use crate::links::Ledger;
use crate::load::{General, Wanted};
use crate::missing::Missing;
use crate::routing::{Refusal, Routing};
use crate::shared::CHANGES;

/// What sending needs to know of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) interface: InterfaceId,
    pub(crate) mac: MacAddr,
    /// Bytes of the longest IP packet.
    pub(crate) mtu: u16,
    pub(crate) up: bool,
}

/// All that the control side knows.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) interfaces: Interfaces,
    /// What is known of interfaces beside.
    pub(crate) ledger: Ledger,
    pub(crate) addresses: Addresses,
    pub(crate) routing: Routing,
    pub(crate) neighbors: Neighbors,
    /// Indices of ports.
    proxy_arp: HashSet<u16>,
    pub(crate) directed_broadcast: bool,
    timing: Timing,
    neighbor_limits: Limits,
    icmp: Policer<ERRORS>,
    identification: u16,
    /// Routes that there was no room for.
    pub(crate) missing: Missing,
    /// Own addresses, broadcasts and connected networks that there was no room for.
    pub(crate) refused: BTreeMap<Ipv4Net, Refusal>,
    /// What happened to neighbours and forwarding does not know yet, the oldest first.
    backlog: VecDeque<Event>,
    /// What the slow path has to do: ARP to send, packets to let go.
    outbox: Vec<Event>,
    /// When the counters of next hops are looked at again.
    next_look: u64,
    /// Who else was heard using own addresses.
    pub(crate) duplicates: Duplicates,
}

/// Time between two looks at the counters of next hops, which tell what neighbours are in use.
const LOOK_INTERVAL: u64 = 1_000_000_000;

/// The rate of every kind of error, with a tenth of a second to be saved up.
fn error_rates(per_second: u64) -> [Rate; ERRORS] {
    [Rate::saving_a_tenth(per_second, 1); ERRORS]
}

impl Control {
    /// Without ports, addresses and routes.
    pub(crate) fn new(
        interfaces: Interfaces,
        received: Arc<Counters>,
        routing: Routing,
        neighbor_limits: Limits,
        timing: Timing,
    ) -> Control {
        Control {
            interfaces,
            ledger: Ledger::new(received),
            addresses: Addresses::default(),
            routing,
            neighbors: Neighbors::new(timing, neighbor_limits),
            proxy_arp: HashSet::new(),
            directed_broadcast: false,
            timing,
            neighbor_limits,
            icmp: Policer::new(error_rates(0), 0),
            identification: 0,
            missing: Missing::default(),
            refused: BTreeMap::new(),
            backlog: VecDeque::new(),
            outbox: Vec::new(),
            next_look: 0,
            duplicates: Duplicates::default(),
        }
    }

    /// Becomes what a checked configuration wants, before anybody uses it. Answers the routes that the tables have no room for.
    pub(crate) fn become_wanted(&mut self, wanted: Wanted, now: u64) -> Vec<(Ipv4Net, Refusal)> {
        let Wanted { general, interfaces, routes, neighbors } = wanted;
        self.become_general(general, now);
        let ids = self.place_interfaces(&interfaces, now);
        let neighbors = neighbors_on(&neighbors, &ids);
        let gone = self.unwanted_neighbors(&neighbors);
        self.remove_neighbors(&gone);
        self.add_config_neighbors(&neighbors, now);
        while self.catch_up(usize::MAX) {}
        self.missing.set_config(&mut self.routing, &routes, |gateway| Hop::Via(gateway.into()));
        self.routing.begin();
        let refused = self.refused.iter().map(|(prefix, refusal)| (*prefix, *refusal));
        refused.chain(self.missing.refusals()).collect()
    }

    /// The same but for what may be long.
    pub(crate) fn become_general(&mut self, wanted: General, now: u64) {
        self.routing.tell_time(now);
        self.timing = wanted.timing;
        self.neighbors.configure(self.timing, self.neighbor_limits);
        self.icmp.set_rates(now, error_rates(wanted.icmp_rate));
        self.proxy_arp = wanted.proxy_arp.iter().copied().collect();
        let is_other =
            std::mem::replace(&mut self.directed_broadcast, wanted.directed_broadcast) != wanted.directed_broadcast;
        self.set_ports(wanted.ports);
        self.settle_prefix(LINK_LOCAL);
        if is_other {
            self.settle_broadcasts();
        }
    }

    /// Neighbours of the configuration that are not `wanted` any more.
    pub(crate) fn unwanted_neighbors(&self, wanted: &[(PortId, Ipv4Addr, MacAddr)]) -> Vec<(PortId, Ipv4Addr)> {
        let wanted: HashSet<_> = wanted.iter().map(|&(port, address, _)| (port, address)).collect();
        let ours = self.neighbors.iter().filter(|neighbor| neighbor.author == Author::Config);
        ours.map(|neighbor| (neighbor.port, neighbor.address)).filter(|key| !wanted.contains(key)).collect()
    }

    /// Forgets neighbours.
    pub(crate) fn remove_neighbors(&mut self, gone: &[(PortId, Ipv4Addr)]) {
        let mut events = Vec::new();
        for &(port, address) in gone {
            self.neighbors.remove(port, address, &mut events);
        }
        self.absorb(events);
    }

    /// Enters neighbours of the configuration.
    pub(crate) fn add_config_neighbors(&mut self, wanted: &[(PortId, Ipv4Addr, MacAddr)], now: u64) {
        let mut events = Vec::new();
        for &(port, address, mac) in wanted {
            self.neighbors.add_static(now, port, address, mac, Author::Config, &mut events);
        }
        self.absorb(events);
    }

    /// Brings forwarding up to what happened to neighbours, and leaves the rest to the slow path. Where it is much, most of it waits for
    /// [`Control::catch_up`].
    pub(crate) fn absorb(&mut self, events: Vec<Event>) {
        let is_first = self.backlog.is_empty();
        self.backlog.extend(events);
        if is_first {
            self.work_backlog_off(CHANGES);
        }
    }

    /// Does some of what other changes left to do: work on about `most` neighbours, hops and routes. Answers whether there is more.
    pub(crate) fn catch_up(&mut self, most: usize) -> bool {
        let before = self.routing.work();
        let left = most.saturating_sub(self.follow_links(most));
        // What links took along was told to forwarding in part already.
        let done = usize::try_from(self.routing.work().wrapping_sub(before)).unwrap_or(usize::MAX);
        let left = left.saturating_sub(done);
        let left = left.saturating_sub(self.work_backlog_off(left));
        let is_behind = self.routing.catch_up(left) || !self.backlog.is_empty() || self.ledger.is_behind();
        if !is_behind {
            self.give_numbers_back();
        }
        is_behind
    }

    /// Whether forwarding knows all that happened to neighbours.
    pub(crate) fn knows_neighbors(&self) -> bool {
        self.backlog.is_empty()
    }

    /// How much more may be worked on before others have their turn; `before` is [`Routing::work`] as it was when this turn began.
    pub(crate) fn left_of_a_turn(&self, before: u64) -> usize {
        let done = usize::try_from(self.routing.work().wrapping_sub(before)).unwrap_or(CHANGES);
        CHANGES.saturating_sub(done)
    }

    /// Tells forwarding of so many events at most; answers of how many.
    fn work_backlog_off(&mut self, most: usize) -> usize {
        let events: Vec<Event> = self.backlog.drain(..most.min(self.backlog.len())).collect();
        events.iter().for_each(|event| self.absorb_one(event));
        let done = events.len();
        self.outbox.extend(events);
        if self.backlog.is_empty() {
            self.open_waiting();
        }
        done
    }

    fn absorb_one(&mut self, event: &Event) {
        match *event {
            Event::Resolved { port, address, mac } | Event::Changed { port, address, mac } => {
                self.routing.set_mac(port, address, Some(mac));
                if self.is_on_link(port, address) {
                    // Without a route of its own a known neighbour is still reached, by way of the slow path.
                    _ = self.routing.replace(address.into(), Author::Learned, &[Hop::ViaOn(address.into(), port)]);
                }
            }
            Event::Failed { port, address } | Event::Removed { port, address } => {
                _ = self.routing.remove(address.into(), Author::Learned);
                self.routing.set_mac(port, address, None);
            }
            Event::DuplicateAddress { port, address, mac } => self.duplicates.heard(port, address, mac),
            Event::Send { .. } | Event::OwnAddress { .. } => {}
        }
    }

    /// What the slow path has to do.
    pub(crate) fn take_outbox(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.outbox)
    }

    /// Does what is due, as far as one turn goes; answers when it wants to be called next.
    pub(crate) fn tick(&mut self, now: u64) -> u64 {
        let before = self.routing.work();
        self.routing.tell_time(now);
        let mut events = Vec::new();
        if self.backlog.is_empty() {
            self.neighbors.timer(now, &mut events);
        }
        if now >= self.next_look {
            self.try_refused_again();
            self.place_lacking(now);
            let (used, is_all) = self.routing.used_neighbors();
            if is_all {
                self.next_look = now.saturating_add(LOOK_INTERVAL);
            }
            for (port, address) in used {
                self.neighbors.used(now, port, address, &mut events);
            }
        }
        self.absorb(events);
        let is_more = self.catch_up(self.left_of_a_turn(before));
        self.routing.tidy(self.left_of_a_turn(before));
        let left = self.left_of_a_turn(before);
        let again = self.missing.try_again(&mut self.routing, left, now);
        if is_more { now } else { self.neighbors.next_deadline().unwrap_or(u64::MAX).min(self.next_look).min(again) }
    }

    /// What there was no room for, for people.
    pub(crate) fn lacks(&mut self) -> Vec<String> {
        let own = self.refused.iter().next().map(|(prefix, refusal)| {
            let count = self.refused.len();
            format!("{count} of the router's own addresses and networks had no room: {prefix}, ...; {refusal}; they are tried again")
        });
        let unsettled = self.routing.unsettled();
        let late = (unsettled > 0).then(|| {
            format!("{unsettled} prefixes lead to where they led before: the table has no room for their change; they are tried again")
        });
        let missing = self.missing.told().into_iter();
        self.ledger.told().into_iter().chain(missing).chain(own).chain(late).collect()
    }

    /// Whether `address` is a host of a network that is connected by an interface.
    fn is_on_link(&self, interface: InterfaceId, address: Ipv4Addr) -> bool {
        self.addresses.of(interface).iter().any(|own| own.kind(address) == AddressKind::OnLink)
    }

    /// Whether two addresses lie in the same network of an interface.
    pub(crate) fn share_a_network(&self, interface: InterfaceId, one: Ipv4Addr, other: Ipv4Addr) -> bool {
        self.addresses.of(interface).iter().any(|own| own.is_on_link(one) && own.is_on_link(other))
    }

    /// The router's own address on an interface, towards `address`.
    pub(crate) fn source_on(&self, interface: InterfaceId, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let own = self.addresses.of(interface);
        own.iter().find(|own| own.is_on_link(address)).or(own.first()).map(Interface::address)
    }

    /// What sending by an interface needs; `None` for loopbacks and those that are gone.
    pub(crate) fn link(&self, interface: InterfaceId) -> Option<Link> {
        let found = self.interfaces.get(interface).filter(|found| !found.is_loopback())?;
        Some(Link { interface, mac: found.mac, mtu: found.mtu, up: found.up })
    }

    /// Whether requests by an interface for others' addresses are answered (RFC 1027).
    pub(crate) fn is_proxy(&self, interface: InterfaceId) -> bool {
        let port = self.interfaces.get(interface).and_then(|found| found.wanted.port);
        let port = port.and_then(|port| self.interfaces.ports().get(usize::from(port)));
        port.is_some_and(|port| self.proxy_arp.contains(&port.index))
    }

    /// The name of an interface.
    pub(crate) fn name_of(&self, interface: InterfaceId) -> &str {
        self.interfaces.get(interface).map_or("", |interface| interface.name())
    }

    /// What the log is to tell: stations with the router's own addresses.
    pub(crate) fn notices(&mut self, now: u64) -> Vec<Notice> {
        let told = self.duplicates.tell(now);
        let notice = |duplicate: Duplicate| {
            let facts = [
                ("port", self.name_of(duplicate.port).to_owned()),
                ("address", duplicate.address.to_string()),
                ("mac", duplicate.mac.to_string()),
                ("times", duplicate.times.to_string()),
            ];
            Notice { message: "another station uses an address of the router", facts: facts.into() }
        };
        let mut notices: Vec<Notice> = told.into_iter().map(notice).collect();
        notices.extend(self.missing.notice());
        notices
    }

    /// Whether another error of this kind may be sent now.
    pub(crate) fn may_send_error(&mut self, kind: ErrorKind, now: u64) -> bool {
        self.icmp.take(now, kind as usize)
    }

    /// The identification of the next packet that the router itself sends.
    pub(crate) fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }
}

/// 169.254.0.0/16: packets from and to there are not forwarded (RFC 3927 section 7).
pub(crate) const LINK_LOCAL: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16);

/// Neighbours on wanted interfaces, by their numbers; those on interfaces that there is no room for are left out.
pub(crate) fn neighbors_on(
    neighbors: &[(usize, Ipv4Addr, MacAddr)],
    ids: &[InterfaceId],
) -> Vec<(PortId, Ipv4Addr, MacAddr)> {
    let of = |&(at, address, mac): &(usize, Ipv4Addr, MacAddr)| {
        ids.get(at).filter(|id| **id != NO_INTERFACE).map(|id| (*id, address, mac))
    };
    neighbors.iter().filter_map(of).collect()
}

impl Control {
    /// Takes over neighbours of the instance that this one replaces: those that were added at run time or learned.
    pub(crate) fn take_over_neighbors(&mut self, old: &[Neighbor], now: u64) {
        let mut events = Vec::new();
        for neighbor in old {
            let Some(mac) = neighbor.mac.filter(|_| self.is_on_link(neighbor.port, neighbor.address)) else { continue };
            match neighbor.author {
                Author::Cli => {
                    let Neighbor { port, address, author, .. } = *neighbor;
                    self.neighbors.add_static(now, port, address, mac, author, &mut events);
                }
                Author::Learned => self.learn_again(neighbor, mac, now, &mut events),
                Author::Connected | Author::Config | Author::Linux => {}
            }
        }
        // Nothing was asked, so nothing is answered.
        events.retain(|event| !matches!(event, Event::Send { .. }));
        self.absorb(events);
    }

    /// Knows a neighbour as if it had just asked for the router: it is used, and checked as soon as it is.
    fn learn_again(&mut self, neighbor: &Neighbor, mac: MacAddr, now: u64, events: &mut Vec<Event>) {
        let Some(target) = self.source_on(neighbor.port, neighbor.address) else { return };
        let request = ArpFields {
            operation: Operation::Request,
            sender_mac: mac,
            sender: neighbor.address,
            target_mac: MacAddr::ZERO,
            target,
        };
        self.neighbors.arp_received(now, neighbor.port, &request, events);
    }
}
