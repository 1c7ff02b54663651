//! What the control side knows: ports, addresses, routes, neighbours. Requests, shows and the slow path share it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use weir_net::interface::{AddressKind, Interface};
use weir_net::limit::{Policer, Rate};
use weir_net::neighbor::duplicate::{Duplicate, Duplicates};
use weir_net::neighbor::{Event, Limits, Neighbor, Neighbors, Timing};
use weir_net::rib::Hop;
use weir_net::{Author, PortId};
use weir_stage::Notice;
use weir_wire::MacAddr;
use weir_wire::arp::{ArpFields, Operation};

use crate::answer::{ERRORS, ErrorKind};
use crate::fib::Leads;
use crate::load::Wanted;
use crate::missing::Missing;
use crate::routing::{Refusal, Routing};
use crate::shared::CHANGES;
use crate::static_routes::StaticRoute;

/// A port of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortState {
    /// Its name in the configuration.
    pub(crate) name: String,
    /// Its index in the whole configuration.
    pub(crate) index: PortId,
    pub(crate) mac: MacAddr,
    /// Bytes of the longest IP packet.
    pub(crate) mtu: u16,
    pub(crate) up: bool,
}

/// All that the control side knows.
#[derive(Debug)]
pub(crate) struct Control {
    /// By position.
    pub(crate) ports: Vec<PortState>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) routing: Routing,
    pub(crate) neighbors: Neighbors,
    pub(crate) proxy_arp: HashSet<PortId>,
    directed_broadcast: bool,
    timing: Timing,
    neighbor_limits: Limits,
    icmp: Policer<ERRORS>,
    identification: u16,
    /// Routes that there was no room for.
    pub(crate) missing: Missing,
    /// Own addresses, broadcasts and connected networks that there was no room for.
    refused: Vec<(Ipv4Net, Refusal)>,
    /// What happened to neighbours and forwarding does not know yet, the oldest first.
    backlog: VecDeque<Event>,
    /// What the slow path has to do: ARP to send, packets to let go.
    outbox: Vec<Event>,
    /// When the counters of next hops are looked at again.
    next_look: u64,
    /// Who else was heard using own addresses.
    pub(crate) duplicates: Duplicates,
}

/// What a configuration wants, of which there may be much.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Sorted by prefix, each prefix once.
    pub(crate) routes: Vec<StaticRoute>,
    pub(crate) neighbors: Vec<(PortId, Ipv4Addr, MacAddr)>,
}

/// Time between two looks at the counters of next hops, which tell what neighbours are in use.
const LOOK_INTERVAL: u64 = 1_000_000_000;

/// The rate of every kind of error, with a tenth of a second to be saved up.
fn error_rates(per_second: u64) -> [Rate; ERRORS] {
    [Rate::saving_a_tenth(per_second, 1); ERRORS]
}

impl Control {
    /// Without ports, addresses and routes.
    pub(crate) fn new(routing: Routing, neighbor_limits: Limits, timing: Timing) -> Control {
        Control {
            ports: Vec::new(),
            interfaces: Vec::new(),
            routing,
            neighbors: Neighbors::new(timing, neighbor_limits),
            proxy_arp: HashSet::new(),
            directed_broadcast: false,
            timing,
            neighbor_limits,
            icmp: Policer::new(error_rates(0), 0),
            identification: 0,
            missing: Missing::default(),
            refused: Vec::new(),
            backlog: VecDeque::new(),
            outbox: Vec::new(),
            next_look: 0,
            duplicates: Duplicates::default(),
        }
    }

    /// Becomes what a checked configuration wants, before anybody uses it. Answers the routes that the tables have no room for.
    pub(crate) fn become_wanted(&mut self, wanted: Wanted, now: u64) -> Vec<(Ipv4Net, Refusal)> {
        let lists = self.become_all_but_lists(wanted, now);
        let gone = self.unwanted_neighbors(&lists.neighbors);
        self.remove_neighbors(&gone);
        self.add_config_neighbors(&lists.neighbors, now);
        while self.catch_up(usize::MAX) {}
        self.missing.set_config(&mut self.routing, &lists.routes, |gateway| Hop::Via(gateway.into()));
        self.routing.begin();
        self.refused.iter().copied().chain(self.missing.refusals()).collect()
    }

    /// The same but for what may be long, which it answers.
    pub(crate) fn become_all_but_lists(&mut self, wanted: Wanted, now: u64) -> Lists {
        self.routing.tell_time(now);
        self.timing = wanted.timing;
        self.neighbors.configure(self.timing, self.neighbor_limits);
        self.icmp.set_rates(now, error_rates(wanted.icmp_rate));
        self.proxy_arp = wanted.proxy_arp.iter().copied().collect();
        self.set_ports(wanted.ports);
        self.set_interfaces(wanted.interfaces, wanted.directed_broadcast, now);
        for position in 0..self.ports.len() {
            let Some(port) = self.ports.get(position) else { continue };
            let (index, up) = (port.index, port.up);
            self.take_link(index, up, now);
        }
        Lists { routes: wanted.routes, neighbors: wanted.neighbors }
    }

    fn set_ports(&mut self, ports: Vec<PortState>) {
        for port in &ports {
            self.routing.fib().ingress().set(port.index, Some(port.mac));
            self.neighbors.set_port(port.index, port.mac);
        }
        self.ports = ports;
        self.set_egress();
    }

    /// Closes the ways out whose links are down, and opens the others: as soon as forwarding has forgotten the neighbours of a link that
    /// was down, for those may be others now.
    fn set_egress(&self) {
        for (port, position) in self.ports.iter().zip(0..) {
            let Some(egress) = self.routing.fib().egress(position) else { continue };
            if !port.up {
                egress.close();
            } else if self.backlog.is_empty() || !egress.is_closed() {
                egress.set(port.mac, port.mtu);
            }
        }
    }

    fn set_interfaces(&mut self, wanted: Vec<Interface>, directed_broadcast: bool, now: u64) {
        self.directed_broadcast = directed_broadcast;
        let before = std::mem::replace(&mut self.interfaces, wanted);
        let mut events = Vec::new();
        for gone in before.iter().filter(|interface| !self.interfaces.contains(interface)) {
            self.neighbors.remove_own(gone.port(), gone.address());
            self.duplicates.forget(gone.port(), gone.address());
        }
        for fresh in self.interfaces.iter().filter(|interface| !before.contains(interface)) {
            self.neighbors.add_own(now, *fresh, &mut events);
        }
        self.set_own_prefixes(&before);
        self.absorb(events);
    }

    /// Lets own addresses, broadcasts and connected networks be those of the interfaces, which were others `before`.
    fn set_own_prefixes(&mut self, before: &[Interface]) {
        let mut refused = Vec::new();
        self.set_fates(&mut refused);
        self.set_connected(before, &mut refused);
        self.refused = refused;
    }

    /// Own addresses and broadcasts, whatever the routes say.
    fn set_fates(&mut self, refused: &mut Vec<(Ipv4Net, Refusal)>) {
        let mut wanted: HashMap<Ipv4Net, Leads> = HashMap::new();
        // RFC 3927 section 7: link-local addresses are not forwarded.
        wanted.insert(LINK_LOCAL, Leads::LINK_LOCAL);
        for interface in &self.interfaces {
            let position = self.routing.position(interface.port()).unwrap_or(0);
            if let Some(broadcast) = interface.subnet_broadcast() {
                let leads = if self.directed_broadcast { Leads::broadcast_on(position) } else { Leads::BROADCAST };
                wanted.insert(broadcast.into(), leads);
                wanted.insert(interface.network().network().into(), Leads::BROADCAST);
            }
        }
        // Last, as they win.
        wanted.extend(self.interfaces.iter().map(|interface| (interface.address().into(), Leads::LOCAL)));
        let gone: Vec<Ipv4Net> = self.routing.fates().filter(|prefix| !wanted.contains_key(prefix)).collect();
        for prefix in gone {
            // What can not be undone now is tried again; see `Routing::tidy`.
            _ = self.routing.set_fate(prefix, None);
        }
        for (prefix, leads) in wanted {
            if let Err(refusal) = self.routing.set_fate(prefix, Some(leads)) {
                refused.push((prefix, refusal));
            }
        }
    }

    fn set_connected(&mut self, before: &[Interface], refused: &mut Vec<(Ipv4Net, Refusal)>) {
        let networks = |interfaces: &[Interface]| -> BTreeSet<(Ipv4Net, PortId)> {
            // A /32 connects nothing: its only address is the router's own.
            let others = interfaces.iter().filter(|interface| interface.net().prefix_len() < 32);
            others.map(|interface| (interface.network(), interface.port())).collect()
        };
        let wanted = networks(&self.interfaces);
        for (network, _) in networks(before).difference(&wanted) {
            _ = self.routing.remove(*network, Author::Connected);
        }
        for (network, port) in wanted {
            if let Err(refusal) = self.routing.replace(network, Author::Connected, &[Hop::On(port)]) {
                refused.push((network, refusal));
            }
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

    /// The link of a port is up or down; nothing happens if it was before. Over one that is down nothing is forwarded from here on; the
    /// first routes follow at once, the others by [`Control::catch_up`].
    pub(crate) fn set_link(&mut self, port: PortId, up: bool, now: u64) {
        if self.ports.iter().any(|state| state.index == port && state.up != up) {
            let before = self.routing.work();
            self.routing.tell_time(now);
            self.take_link(port, up, now);
            self.catch_up(self.left_of_a_turn(before));
        }
    }

    fn take_link(&mut self, port: PortId, up: bool, now: u64) {
        let Some(state) = self.ports.iter_mut().find(|state| state.index == port) else { return };
        state.up = up;
        self.set_egress();
        self.routing.set_link(port, up);
        let mut events = Vec::new();
        if up {
            self.neighbors.link_up(now, port);
        } else {
            self.neighbors.link_down(port, &mut events);
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
        let left = most - self.work_backlog_off(most);
        let is_behind = self.routing.catch_up(left);
        is_behind || !self.backlog.is_empty()
    }

    /// How much more may be worked on before others have their turn; `before` is [`Routing::work`] as it was when this turn began.
    fn left_of_a_turn(&self, before: u64) -> usize {
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
            self.set_egress();
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
            if !self.refused.is_empty() {
                self.set_own_prefixes(&self.interfaces.clone());
            }
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
        let own = self.refused.first().map(|(prefix, refusal)| {
            let count = self.refused.len();
            format!("{count} of the router's own addresses and networks had no room: {prefix}, ...; {refusal}; they are tried again")
        });
        let unsettled = self.routing.unsettled();
        let late = (unsettled > 0).then(|| {
            format!("{unsettled} prefixes lead to where they led before: the table has no room for their change; they are tried again")
        });
        self.missing.told().into_iter().chain(own).chain(late).collect()
    }

    /// Whether `address` is a host of a network that is connected on `port`.
    fn is_on_link(&self, port: PortId, address: Ipv4Addr) -> bool {
        let on_port = self.interfaces.iter().filter(|interface| interface.port() == port);
        on_port.into_iter().any(|interface| interface.kind(address) == AddressKind::OnLink)
    }

    /// Whether `address` is one of the router's own, on whatever port.
    pub(crate) fn is_own(&self, address: Ipv4Addr) -> bool {
        self.interfaces.iter().any(|interface| interface.is_own(address))
    }

    /// Whether `address` is the broadcast or network address of a connected network.
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        let is = |interface: &Interface| {
            matches!(interface.kind(address), AddressKind::SubnetBroadcast | AddressKind::Network)
        };
        self.interfaces.iter().any(is)
    }

    /// Whether two addresses lie in the same network of a port.
    pub(crate) fn share_a_network(&self, port: PortId, one: Ipv4Addr, other: Ipv4Addr) -> bool {
        let on_port = self.interfaces.iter().filter(|interface| interface.port() == port);
        on_port.into_iter().any(|interface| interface.is_on_link(one) && interface.is_on_link(other))
    }

    /// The router's own address on a port, towards `address`.
    pub(crate) fn source_on(&self, port: PortId, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let on_port = || self.interfaces.iter().filter(|interface| interface.port() == port);
        let around = on_port().find(|interface| interface.is_on_link(address));
        around.or(on_port().next()).map(Interface::address)
    }

    /// A port of the router by its index, with its position.
    pub(crate) fn port(&self, index: PortId) -> Option<(u8, &PortState)> {
        let position = self.routing.position(index)?;
        Some((position, self.ports.get(position as usize)?))
    }

    /// The name of a port of the router.
    pub(crate) fn port_name(&self, index: PortId) -> &str {
        self.port(index).map_or("", |(_, port)| port.name.as_str())
    }

    /// What the log is to tell: stations with the router's own addresses.
    pub(crate) fn notices(&mut self, now: u64) -> Vec<Notice> {
        let told = self.duplicates.tell(now);
        let notice = |duplicate: Duplicate| {
            let facts = [
                ("port", self.port_name(duplicate.port).to_owned()),
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

/// 169.254.0.0/16.
const LINK_LOCAL: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16);

/// Of several interfaces the one with the longest network around an address.
pub(crate) fn longest_around(interfaces: &[Interface], address: Ipv4Addr) -> Option<&Interface> {
    let around = interfaces.iter().filter(|interface| interface.is_on_link(address));
    around.max_by_key(|interface| interface.net().prefix_len())
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
