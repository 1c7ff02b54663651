//! Interfaces as they come, change and go: the control side's part of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use weir_net::{RouteSource, VrfId};
use weir_stage::{Env, InterfaceInfo, Others, PortInfo, TAG_LEN};
use weir_wire::MacAddr;

use crate::state::checks::is_free;
use crate::state::own::nets;
use crate::state::{Control, Routable};
use crate::{Fresh, InterfaceId, NO_INTERFACE, Port, Refused, infos_of, tags_of};
use weir_table::counters::Counters;

/// Tags of an interface.
const MOST_TAGS: u16 = 2;

/// An interface that is wanted, with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedInterface {
    pub(crate) fresh: Fresh,
    pub(crate) addresses: Vec<IpNet>,
}

/// What is known of interfaces beside what workers see.
#[derive(Debug)]
pub(crate) struct Ledger {
    sources: HashMap<InterfaceId, RouteSource>,
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
    /// Numbers of interfaces that are gone, to which routes may lead still, with the VRFs that they were in.
    gone: BTreeMap<InterfaceId, VrfId>,
    /// Link-local addresses that interfaces have by themselves.
    automatic: HashMap<InterfaceId, Ipv6Addr>,
    /// Who else has interfaces on the ports.
    others: Others,
}

impl Ledger {
    pub(crate) fn new(received: Arc<Counters>) -> Ledger {
        Ledger {
            sources: HashMap::new(),
            received,
            before: HashMap::new(),
            lacking: Vec::new(),
            changed: VecDeque::new(),
            waiting: BTreeSet::new(),
            gone: BTreeMap::new(),
            automatic: HashMap::new(),
            others: Others::default(),
        }
    }

    /// The link-local address that an interface has by itself, made of its MAC address.
    pub(crate) fn automatic(&self, id: InterfaceId) -> Option<Ipv6Addr> {
        self.automatic.get(&id).copied()
    }

    /// An interface has this link-local address by itself, or none.
    pub(crate) fn set_automatic(&mut self, id: InterfaceId, address: Option<Ipv6Addr>) {
        match address {
            Some(address) => drop(self.automatic.insert(id, address)),
            None => drop(self.automatic.remove(&id)),
        }
    }

    /// Who wants an interface.
    pub(crate) fn source(&self, id: InterfaceId) -> RouteSource {
        self.sources.get(&id).copied().unwrap_or(RouteSource::Config)
    }

    /// The VRF that an interface was in which is gone, as long as anything may lead there.
    pub(crate) fn vrf_of_gone(&self, id: InterfaceId) -> Option<VrfId> {
        self.gone.get(&id).copied()
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
        let ours = self.interfaces.iter().filter(|interface| self.ledger.source(interface.id) == RouteSource::Config);
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
            ids.push(self.place(wanted, RouteSource::Config, now).unwrap_or_else(|refused| {
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
    /// another source's with the same name or tags.
    pub(crate) fn place(
        &mut self,
        wanted: &WantedInterface,
        source: RouteSource,
        now: u64,
    ) -> Result<InterfaceId, Refused> {
        let Fresh { name, port, tags, vrf, mtu, enabled, tunnel } = &wanted.fresh;
        if let Some(found) = self.interfaces.find(name) {
            let id = found.id;
            if (found.wanted.port, found.wanted.tags, found.wanted.vrf) == (*port, *tags, *vrf) {
                self.ledger.sources.insert(id, source);
                self.alter(id, *mtu, *enabled && !self.hosts.is_down(id));
                self.set_addresses(id, &wanted.addresses, now);
                return Ok(id);
            }
            self.remove_interface(id);
        }
        let same = port.and_then(|port| self.interfaces.with_tags(port, *tags)).map(|same| same.id);
        if let Some(same) = same.filter(|_| source == RouteSource::Config) {
            self.remove_interface(same);
        }
        let id = self.interfaces.add(wanted.fresh.clone())?;
        self.ledger.sources.insert(id, source);
        self.ledger.before.insert(id, self.ledger.received.sum(id.into()));
        self.routing.forget_sent(id);
        self.routing.set_inlet(id, tunnel.is_some());
        if let Some(link) = self.link(id) {
            self.four.neighbors.set_port(id, link.mac);
            self.six.neighbors.set_port(id, link.mac);
        }
        self.follow(id);
        self.set_addresses(id, &wanted.addresses, now);
        self.resolve_named(name);
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
        let Some(gone) = self.interfaces.get(id).map(|interface| interface.wanted.clone()) else { return };
        self.remove_addresses::<Ipv4Addr>(id);
        self.remove_addresses::<Ipv6Addr>(id);
        self.listeners.forget(id);
        self.advertiser.forget(id);
        self.forget_neighbors::<Ipv4Addr>(id);
        self.forget_neighbors::<Ipv6Addr>(id);
        self.interfaces.remove(id);
        self.routing.set_link(id, false);
        self.routing.set_inlet(id, false);
        self.ledger.sources.remove(&id);
        self.ledger.automatic.remove(&id);
        self.ledger.waiting.remove(&id);
        self.hosts.forget(id);
        self.ledger.gone.insert(id, gone.vrf);
        self.resolve_named(&gone.name);
        self.publish_on_named(&gone.name);
    }

    /// Forgets the neighbours on an interface that goes.
    fn forget_neighbors<A: Routable>(&mut self, id: InterfaceId) {
        let mut events = Vec::new();
        A::side_mut(self).neighbors.remove_port(id, &mut events);
        self.absorb(events);
    }

    /// Lets the numbers of interfaces that are gone be used again: no route leads there any more.
    pub(crate) fn give_numbers_back(&mut self) {
        for (id, vrf) in std::mem::take(&mut self.ledger.gone) {
            if self.hosts.holds(id) {
                // A route of Linux's may lead there still: its service tells when none does.
                self.ledger.gone.insert(id, vrf);
                continue;
            }
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
            self.publish_on(id);
        }
        self.routing.fib().note_change();
        if self.hosts.are_any() {
            self.hosts.note_change();
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
        let (up, mac, is_virtual) = (interface.up, interface.mac, interface.is_virtual());
        self.routing.set_link(id, up);
        if is_virtual {
            return;
        }
        self.follow_mac(id, mac, now);
        self.neighbors_follow::<Ipv4Addr>(id, up, now);
        self.neighbors_follow::<Ipv6Addr>(id, up, now);
        if up {
            self.listeners.link_up(now, id);
        }
        self.advertise_on(id, now);
        let is_open = self.interfaces.egress().get(usize::from(id)).is_some_and(|egress| !egress.is_closed());
        match up {
            true if is_open || self.knows_neighbors() => self.interfaces.open(id),
            true => drop(self.ledger.waiting.insert(id)),
            false => drop(self.ledger.waiting.remove(&id)),
        }
        self.publish_on(id);
        self.routing.fib().note_change();
    }

    /// Opens the interfaces that waited until forwarding had forgotten who was there before.
    pub(crate) fn open_waiting(&mut self) {
        for id in std::mem::take(&mut self.ledger.waiting) {
            self.interfaces.open(id);
            self.routing.fib().note_change();
        }
    }

    /// Lets neighbours of a family know whether the link of an interface is up.
    fn neighbors_follow<A: Routable>(&mut self, id: InterfaceId, up: bool, now: u64) {
        let (mut events, neighbors) = (Vec::new(), &mut A::side_mut(self).neighbors);
        if neighbors.is_up(id) == up {
            // What was proven on the link still is.
            return;
        }
        match up {
            true => neighbors.link_up(now, id),
            false => neighbors.link_down(id, &mut events),
        }
        self.absorb(events);
        self.unprove_all::<A>(id);
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
            (self.ledger.source(found.id) == RouteSource::Cli).then_some(found.id)
        };
        let lost: Vec<InterfaceId> = others.declared.iter().filter_map(same).collect();
        self.ledger.others = others;
        lost.into_iter().for_each(|id| self.remove_interface(id));
    }

    /// Whether an interface that was added at run time is on the port of this index.
    pub(crate) fn has_added_on(&self, port: u16) -> bool {
        self.interfaces.on_port(port).any(|interface| self.ledger.source(interface.id) == RouteSource::Cli)
    }

    /// Takes over interfaces of the instance that this one replaces: those that were added at run time, on ports that are there still, unless
    /// the configuration has others of their names, tags or addresses now.
    pub(crate) fn adopt_interfaces(&mut self, old: &Control, now: u64) {
        let added = old.interfaces.iter().filter(|interface| old.ledger.source(interface.id) == RouteSource::Cli);
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
            if port.is_none() && !interface.is_virtual() || self.interfaces.find(interface.name()).is_some() {
                continue;
            }
            let Some(vrf) = self.vrf(old.vrf_name(interface.wanted.vrf)) else { continue };
            let addresses = nets(old, interface.id).into_iter().filter(|net| is_free(self, vrf, *net)).collect();
            let wanted = WantedInterface { fresh: Fresh { port, vrf, ..interface.wanted.clone() }, addresses };
            // What there is no room for is told by whoever asks for it again.
            _ = self.place(&wanted, RouteSource::Cli, now);
        }
    }
}

/// Neighbours on wanted interfaces, by their numbers; those on interfaces that there is no room for are left out.
pub(crate) fn neighbors_on(
    neighbors: &[(usize, IpAddr, MacAddr)],
    ids: &[InterfaceId],
) -> Vec<(InterfaceId, IpAddr, MacAddr)> {
    let of = |&(at, address, mac): &(usize, IpAddr, MacAddr)| {
        ids.get(at).filter(|id| **id != NO_INTERFACE).map(|id| (*id, address, mac))
    };
    neighbors.iter().filter_map(of).collect()
}

/// Bytes of tags for which a port's device has room: as many as those of its declared interfaces take. A joint is no device, and has room for all
/// that an interface may have.
pub(crate) fn tag_room(env: &Env<'_>, port: &PortInfo) -> u16 {
    if port.facts.is_joint() {
        return MOST_TAGS * TAG_LEN;
    }
    let on_it = env.interfaces.iter().filter(|info| info.on.as_deref() == Some(port.name.as_str()));
    on_it.map(|info| TAG_LEN * info.tags.len() as u16).max().unwrap_or(0)
}
