//! Interfaces as they come, change and go: the control side's part of it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use ipnet::Ipv4Net;
use weir_ip::{Fresh, InterfaceId, NO_INTERFACE, Port, Refused, infos_of, tags_of};
use weir_net::Author;
use weir_net::interface::Interface;
use weir_net::rib::Hop;
use weir_stage::{InterfaceInfo, Others};

use crate::counters::Counters;
use crate::fib::Leads;
use crate::load::conflict_of;
use crate::routing::Refusal;
use crate::state::{Control, LINK_LOCAL};

/// An interface that is wanted, with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedInterface {
    pub(crate) fresh: Fresh,
    pub(crate) addresses: Vec<Ipv4Net>,
}

/// What is known of interfaces beside what workers see.
#[derive(Debug)]
pub(crate) struct Ledger {
    authors: HashMap<InterfaceId, Author>,
    /// What came in by interfaces, as workers counted it.
    received: Arc<Counters>,
    /// What their numbers had counted when they got them: packets and bytes.
    before: HashMap<InterfaceId, (u64, u64)>,
    /// Those that the configuration wants and there was no room for.
    lacking: Vec<(WantedInterface, Refused)>,
    /// Those whose link went up or down, which routes and neighbours do not know yet.
    changed: VecDeque<InterfaceId>,
    /// Those that are up, and are opened when forwarding has forgotten the neighbours of links that were down: those may be others now.
    waiting: BTreeSet<InterfaceId>,
    /// Numbers of interfaces that are gone, to which routes may lead still.
    gone: Vec<InterfaceId>,
    /// Who else has interfaces on the ports.
    others: Others,
}

impl Ledger {
    pub(crate) fn new(received: Arc<Counters>) -> Ledger {
        Ledger {
            authors: HashMap::new(),
            received,
            before: HashMap::new(),
            lacking: Vec::new(),
            changed: VecDeque::new(),
            waiting: BTreeSet::new(),
            gone: Vec::new(),
            others: Others::default(),
        }
    }

    /// Who wants an interface.
    pub(crate) fn author(&self, id: InterfaceId) -> Author {
        self.authors.get(&id).copied().unwrap_or(Author::Config)
    }

    /// Packets and bytes that came in by an interface.
    pub(crate) fn received(&self, id: InterfaceId) -> (u64, u64) {
        let (packets, bytes) = self.received.sum(id.into());
        let (packets_before, bytes_before) = self.before.get(&id).copied().unwrap_or_default();
        (packets.wrapping_sub(packets_before), bytes.wrapping_sub(bytes_before))
    }

    /// The name of another function that has an interface like this on a port of this index.
    pub(crate) fn other_owner(&self, port: u16, fresh: &Fresh) -> Option<&str> {
        self.others.owner(port, &infos_of(fresh.tags))
    }

    /// Whether routes and neighbours do not know all links yet.
    pub(crate) fn is_behind(&self) -> bool {
        !self.changed.is_empty()
    }

    /// What there was no room for, for people.
    pub(crate) fn told(&self) -> Option<String> {
        let (first, refused) = self.lacking.first()?;
        let count = self.lacking.len();
        let name = &first.fresh.name;
        Some(format!(
            "{count} interfaces are not there: \"{name}\", ...: {refused}; what had no room is tried again by itself"
        ))
    }
}

impl Control {
    /// The ports are these now; their interfaces follow.
    pub(crate) fn set_ports(&mut self, ports: Vec<Port>) {
        self.interfaces.set_ports(ports);
        self.refresh(self.interfaces.iter().map(|interface| interface.id).collect());
    }

    /// Lets interfaces be what their ports make of them now.
    fn refresh(&mut self, ids: Vec<InterfaceId>) {
        for id in ids {
            self.interfaces.refresh(id);
            self.follow(id);
        }
    }

    /// Interfaces of the configuration that are not among the `wanted`.
    pub(crate) fn unwanted_interfaces(&self, wanted: &[WantedInterface]) -> Vec<InterfaceId> {
        let names: HashSet<&str> = wanted.iter().map(|wanted| wanted.fresh.name.as_str()).collect();
        let ours = self.interfaces.iter().filter(|interface| self.ledger.author(interface.id) == Author::Config);
        ours.filter(|interface| !names.contains(interface.name())).map(|interface| interface.id).collect()
    }

    /// Makes interfaces of the configuration these; answers the number of each, or [`NO_INTERFACE`] where there is no room.
    pub(crate) fn place_interfaces(&mut self, wanted: &[WantedInterface], now: u64) -> Vec<InterfaceId> {
        self.ledger.lacking.clear();
        for gone in self.unwanted_interfaces(wanted) {
            self.remove_interface(gone);
        }
        self.place_some(wanted, now)
    }

    /// Adds or changes interfaces of the configuration; the numbers are as [`Control::place_interfaces`] answers them.
    pub(crate) fn place_some(&mut self, wanted: &[WantedInterface], now: u64) -> Vec<InterfaceId> {
        let mut ids = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            ids.push(self.place(wanted, Author::Config, now).unwrap_or_else(|refused| {
                self.ledger.lacking.push((wanted.clone(), refused));
                NO_INTERFACE
            }));
        }
        ids
    }

    /// No interface of the configuration lacks room any more, as far as is known: all are about to be placed.
    pub(crate) fn forget_lacking(&mut self) {
        self.ledger.lacking.clear();
    }

    /// Tries interfaces again that there was no room for.
    pub(crate) fn place_lacking(&mut self, now: u64) {
        let lacking = std::mem::take(&mut self.ledger.lacking);
        let wanted: Vec<WantedInterface> = lacking.into_iter().map(|(wanted, _)| wanted).collect();
        self.place_some(&wanted, now);
    }

    /// Lets an interface be there as it is wanted: adds it, or changes the one of its name. One of the configuration takes the place of
    /// another author's with the same name or tags.
    pub(crate) fn place(&mut self, wanted: &WantedInterface, author: Author, now: u64) -> Result<InterfaceId, Refused> {
        let Fresh { name, port, tags, mtu, enabled } = &wanted.fresh;
        if let Some(found) = self.interfaces.find(name) {
            let id = found.id;
            if (found.wanted.port, found.wanted.tags) == (*port, *tags) {
                self.ledger.authors.insert(id, author);
                self.alter(id, *mtu, *enabled);
                self.set_addresses(id, &wanted.addresses, now);
                return Ok(id);
            }
            self.remove_interface(id);
        }
        let same = port.and_then(|port| self.interfaces.with_tags(port, *tags)).map(|same| same.id);
        if let Some(same) = same.filter(|_| author == Author::Config) {
            self.remove_interface(same);
        }
        let id = self.interfaces.add(wanted.fresh.clone())?;
        self.ledger.authors.insert(id, author);
        self.ledger.before.insert(id, self.ledger.received.sum(id.into()));
        self.routing.forget_sent(id);
        if let Some(link) = self.link(id) {
            self.neighbors.set_port(id, link.mac);
        }
        self.follow(id);
        self.set_addresses(id, &wanted.addresses, now);
        Ok(id)
    }

    /// Changes what an interface is meant to be.
    pub(crate) fn alter(&mut self, id: InterfaceId, mtu: Option<u16>, enabled: bool) {
        let is_so = |wanted: &Fresh| (wanted.mtu, wanted.enabled) == (mtu, enabled);
        if !self.interfaces.get(id).is_some_and(|interface| is_so(&interface.wanted)) {
            self.interfaces.set(id, mtu, enabled);
            self.follow(id);
        }
    }

    /// Removes an interface, with its addresses and neighbours. Routes over it follow by and by; until then they lead nowhere.
    pub(crate) fn remove_interface(&mut self, id: InterfaceId) {
        if self.interfaces.remove(id).is_none() {
            return;
        }
        let addresses: Vec<Interface> = self.addresses.of(id).to_vec();
        for own in addresses {
            self.remove_address(own);
        }
        let mut events = Vec::new();
        self.neighbors.remove_port(id, &mut events);
        self.routing.set_link(id, false);
        self.ledger.authors.remove(&id);
        self.ledger.waiting.remove(&id);
        self.ledger.gone.push(id);
        self.absorb(events);
    }

    /// Lets the numbers of interfaces that are gone be used again: no route leads there any more.
    pub(crate) fn give_numbers_back(&mut self) {
        for id in std::mem::take(&mut self.ledger.gone) {
            self.interfaces.give_back(id);
        }
        self.interfaces.collect();
    }

    /// The link of the port of this index is up or down; nothing happens if it was before. Over one that is down nothing is forwarded
    /// from here on; neighbours and routes follow, the first of them at once, the others by [`Control::catch_up`].
    pub(crate) fn set_link(&mut self, port: u16, up: bool, now: u64) {
        if !self.interfaces.ports().iter().any(|known| known.index == port && known.link != up) {
            return;
        }
        let before = self.routing.work();
        self.routing.tell_time(now);
        self.interfaces.set_link(port, up);
        self.refresh(self.interfaces.on_port(port).map(|interface| interface.id).collect());
        self.catch_up(self.left_of_a_turn(before));
    }

    /// An interface may have gone up or down, or have another address or MTU: nothing leaves by one that is down from here on.
    fn follow(&mut self, id: InterfaceId) {
        let Some(interface) = self.interfaces.get(id) else { return };
        if !interface.up {
            self.interfaces.close(id);
        }
        self.ledger.changed.push_back(id);
    }

    /// Lets neighbours and routes follow interfaces that went up or down, `most` of them; answers how many there were.
    pub(crate) fn follow_links(&mut self, most: usize) -> usize {
        let now = self.routing.recent().now();
        let some: Vec<InterfaceId> = self.ledger.changed.drain(..most.min(self.ledger.changed.len())).collect();
        for &id in &some {
            self.follow_link(id, now);
        }
        some.len()
    }

    fn follow_link(&mut self, id: InterfaceId, now: u64) {
        let Some(interface) = self.interfaces.get(id) else { return };
        let (up, mac, is_loopback) = (interface.up, interface.mac, interface.is_loopback());
        self.routing.set_link(id, up);
        if is_loopback {
            return;
        }
        self.neighbors.set_port(id, mac);
        let mut events = Vec::new();
        if up {
            self.neighbors.link_up(now, id);
        } else {
            self.neighbors.link_down(id, &mut events);
        }
        self.absorb(events);
        let is_open = self.interfaces.egress().get(usize::from(id)).is_some_and(|egress| !egress.is_closed());
        match up {
            true if is_open || self.knows_neighbors() => self.interfaces.open(id),
            true => drop(self.ledger.waiting.insert(id)),
            false => drop(self.ledger.waiting.remove(&id)),
        }
    }

    /// Opens the interfaces that waited until forwarding had forgotten who was there before.
    pub(crate) fn open_waiting(&mut self) {
        for id in std::mem::take(&mut self.ledger.waiting) {
            self.interfaces.open(id);
        }
    }

    /// Makes the addresses of an interface these.
    pub(crate) fn set_addresses(&mut self, id: InterfaceId, wanted: &[Ipv4Net], now: u64) {
        let gone = self.addresses.of(id).iter().filter(|own| !wanted.contains(&own.net()));
        for own in gone.copied().collect::<Vec<Interface>>() {
            self.remove_address(own);
        }
        let mut events = Vec::new();
        for net in wanted {
            // Checked before: an address that no host can have does not come this far.
            let Ok(own) = Interface::new(id, *net) else { continue };
            if self.addresses.add(own) {
                self.neighbors.add_own(now, own, &mut events);
                self.settle_prefixes(own);
            }
        }
        self.absorb(events);
    }

    fn remove_address(&mut self, own: Interface) {
        self.addresses.remove(own.port(), own.address());
        self.neighbors.remove_own(own.port(), own.address());
        self.duplicates.forget(own.port(), own.address());
        self.settle_prefixes(own);
    }

    /// Lets forwarding know an address that came or went: itself, its broadcasts, its network.
    fn settle_prefixes(&mut self, own: Interface) {
        let broadcast = own.subnet_broadcast();
        let network = broadcast.map(|_| own.network().network());
        for address in [Some(own.address()), broadcast, network].into_iter().flatten() {
            self.settle_prefix(address.into());
        }
        self.settle_prefix(own.network());
    }

    /// Lets the directed broadcasts of all networks lead where they are to lead.
    pub(crate) fn settle_broadcasts(&mut self) {
        let broadcasts: Vec<Ipv4Net> =
            self.addresses.iter().filter_map(|own| own.subnet_broadcast()).map(Ipv4Net::from).collect();
        broadcasts.into_iter().for_each(|broadcast| self.settle_prefix(broadcast));
    }

    /// Tries own addresses, broadcasts and connected networks again that there was no room for.
    pub(crate) fn try_refused_again(&mut self) {
        let refused: Vec<Ipv4Net> = self.refused.keys().copied().collect();
        refused.into_iter().for_each(|prefix| self.settle_prefix(prefix));
    }

    /// Makes forwarding hold what addresses say of a prefix: of one address whether it is one of the router's own or a broadcast, of others
    /// whether they are connected networks.
    pub(crate) fn settle_prefix(&mut self, prefix: Ipv4Net) {
        // A /32 connects nothing: its only address is the router's own.
        let settled = match prefix.prefix_len() {
            _ if prefix == LINK_LOCAL => self.routing.set_fate(LINK_LOCAL, Some(Leads::LINK_LOCAL)),
            32 => self.routing.set_fate(prefix, self.fate_of(prefix)),
            _ => self.connect(prefix),
        };
        match settled {
            Ok(()) => drop(self.refused.remove(&prefix)),
            Err(refusal) => drop(self.refused.insert(prefix, refusal)),
        }
    }

    /// What becomes of packets to an address, whatever routes say.
    fn fate_of(&self, prefix: Ipv4Net) -> Option<Leads> {
        let address = prefix.addr();
        if self.addresses.is_own(address) {
            return Some(Leads::LOCAL);
        }
        match self.addresses.with_broadcast(address).filter(|_| self.directed_broadcast) {
            Some(own) => Some(self.routing.fib().broadcast_on(own.port())),
            None => self.addresses.is_broadcast(address).then_some(Leads::BROADCAST),
        }
    }

    fn connect(&mut self, network: Ipv4Net) -> Result<(), Refusal> {
        let ids: BTreeSet<InterfaceId> = self.addresses.in_network(network).iter().map(Interface::port).collect();
        let hops: Vec<Hop> = ids.into_iter().map(Hop::On).collect();
        if hops.is_empty() {
            // There may be none: what had no room was never there.
            _ = self.routing.remove(network, Author::Connected);
            return Ok(());
        }
        self.routing.replace(network, Author::Connected, &hops)
    }
}

impl Control {
    /// Shares ports with others from here on. Of interfaces that were added at run time, those go that the configuration gives to others.
    pub(crate) fn share_with(&mut self, others: Others, now: u64) {
        self.routing.tell_time(now);
        let same = |info: &InterfaceInfo| {
            let (_, position) =
                self.interfaces.ports().iter().zip(0..).find(|(port, _)| info.on.as_ref() == Some(&port.name))?;
            let found = self.interfaces.with_tags(position, tags_of(&info.tags))?;
            (self.ledger.author(found.id) == Author::Cli).then_some(found.id)
        };
        let lost: Vec<InterfaceId> = others.declared.iter().filter_map(same).collect();
        self.ledger.others = others;
        lost.into_iter().for_each(|id| self.remove_interface(id));
    }

    /// Takes over interfaces of the instance that this one replaces: those that were added at run time, on ports that are there still, unless
    /// the configuration has others of their names, tags or addresses now.
    pub(crate) fn take_over_interfaces(&mut self, old: &Control, now: u64) {
        let added = old.interfaces.iter().filter(|interface| old.ledger.author(interface.id) == Author::Cli);
        for interface in added {
            let position = |port: u8| {
                let name = &old.interfaces.ports().get(usize::from(port))?.name;
                self.interfaces
                    .ports()
                    .iter()
                    .zip(0..)
                    .find(|(port, _)| port.name == *name)
                    .map(|(_, position)| position)
            };
            let port = interface.wanted.port.and_then(position);
            if port.is_none() && !interface.is_loopback() || self.interfaces.find(interface.name()).is_some() {
                continue;
            }
            let is_free = |own: &&Interface| conflict_of(&self.addresses, own).is_none();
            let own = old.addresses.of(interface.id).iter();
            let addresses = own.filter(is_free).map(Interface::net).collect();
            let wanted = WantedInterface { fresh: Fresh { port, ..interface.wanted.clone() }, addresses };
            // What there is no room for is told by whoever asks for it again.
            _ = self.place(&wanted, Author::Cli, now);
        }
    }
}
