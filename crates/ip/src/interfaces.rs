//! All interfaces of a function, by name and number: the control side's, which alone writes what workers see of them.

mod interface;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_mem::qsbr::Epoch;
use weir_mem::{Domain, arena};
use weir_table::exact::Exact;
use weir_wire::MacAddr;

pub use interface::{Fresh, Interface, Port, Refused, Tunnel};

use crate::egress::Egress;
use crate::ingress::{Ingress, NO_VLAN, NOBODY, SEVERAL, VLANS, mac_word, vlan_word};
use crate::tags::Tags;
use crate::{InterfaceId, MAX_INTERFACES, MAX_PORTS, NO_INTERFACE};

/// All interfaces.
#[derive(Debug)]
pub struct Interfaces {
    ports: Vec<Port>,
    /// By number.
    slots: Vec<Option<Interface>>,
    /// Numbers in use.
    len: usize,
    by_name: HashMap<String, InterfaceId>,
    /// By position and tags.
    by_tags: BTreeMap<(u8, Tags), InterfaceId>,
    loopbacks: usize,
    /// Those in other VRFs than the default one.
    in_vrfs: usize,
    /// Numbers that nobody has, the one that was given up first in front.
    free: VecDeque<InterfaceId>,
    /// Numbers that workers may still have at hand.
    retired: VecDeque<(Epoch, InterfaceId)>,
    exact: Exact,
    ingress: Arc<Ingress>,
    egress: Arc<[Egress]>,
    domain: Domain,
}

impl Interfaces {
    /// Room for `limit` interfaces (at most [`MAX_INTERFACES`]), and for packets from ports with an index below `port_indices`.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(limit: u16, port_indices: usize, domain: &Domain) -> Result<Interfaces, arena::Error> {
        let limit = usize::from(limit.min(MAX_INTERFACES));
        // The tags of packets are others' to choose, but not those of interfaces: the seed need not be secret.
        let exact = Exact::new(limit as u32, 0)?;
        let ingress = Ingress::new(port_indices, MAX_PORTS, limit, Some(Arc::clone(exact.index())));
        Ok(Interfaces {
            ports: Vec::new(),
            slots: (0..limit).map(|_| None).collect(),
            len: 0,
            by_name: HashMap::new(),
            by_tags: BTreeMap::new(),
            loopbacks: 0,
            in_vrfs: 0,
            free: (0..limit as u16).collect(),
            retired: VecDeque::new(),
            exact,
            ingress: Arc::new(ingress),
            egress: (0..limit).map(|_| Egress::default()).collect(),
            domain: domain.clone(),
        })
    }

    /// What workers look up frames in that came in.
    pub fn ingress(&self) -> &Arc<Ingress> {
        &self.ingress
    }

    /// What workers write in front of packets that leave, by number of the interface.
    pub fn egress(&self) -> &Arc<[Egress]> {
        &self.egress
    }

    /// The ports, by position.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Gives the ports, by position, other MAC addresses, MTUs or links; a port that is new stands at the end. Interfaces follow by
    /// [`Interfaces::refresh`].
    pub fn set_ports(&mut self, ports: Vec<Port>) {
        for (port, position) in ports.iter().take(MAX_PORTS).zip(0..) {
            if let Some(known) = self.ingress.ports.get(usize::from(port.index)) {
                known.position.store(position, Ordering::Relaxed);
            }
        }
        self.ports = ports;
        self.ports.truncate(MAX_PORTS);
    }

    /// The link of the port of this index is up or down; interfaces follow by [`Interfaces::refresh`].
    pub fn set_link(&mut self, index: u16, up: bool) {
        self.ports.iter_mut().filter(|port| port.index == index).for_each(|port| port.link = up);
    }

    /// Adds an interface. Packets come in by it at once; whether they may leave is said by [`Interfaces::open`].
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn add(&mut self, fresh: Fresh) -> Result<InterfaceId, Refused> {
        if self.by_name.contains_key(&fresh.name) {
            return Err(Refused::Name(fresh.name));
        }
        if let Some(port) = fresh.port {
            if usize::from(port) >= self.ports.len() {
                return Err(Refused::NoPort);
            }
            let same = self.by_tags.get(&(port, fresh.tags)).and_then(|id| self.get(*id));
            if let Some(same) = same {
                return Err(Refused::Tags(same.name().to_owned()));
            }
        }
        self.collect();
        let id = self.free.pop_front().ok_or(if self.retired.is_empty() {
            Refused::Full(self.slots.len())
        } else {
            Refused::Busy
        })?;
        self.len += 1;
        self.by_name.insert(fresh.name.clone(), id);
        match fresh.port {
            Some(port) => drop(self.by_tags.insert((port, fresh.tags), id)),
            None => self.loopbacks += 1,
        }
        let (port, tags, vrf) = (fresh.port, fresh.tags, fresh.vrf);
        self.in_vrfs += usize::from(vrf != 0);
        self.tell_vrf(id, vrf);
        if let Some(slot) = self.slots.get_mut(usize::from(id)) {
            *slot = Some(Interface { id, wanted: fresh, mac: MacAddr::ZERO, mtu: 0, up: false });
        }
        self.refresh(id);
        if let Some(port) = port
            && self.publish(port, tags, id).is_err()
        {
            self.remove(id);
            self.give_back(id);
            return Err(Refused::Crowded);
        }
        Ok(id)
    }

    /// Lets workers know the VRF of an interface.
    fn tell_vrf(&self, id: InterfaceId, vrf: u16) {
        if let Some(known) = self.ingress.interfaces.get(usize::from(id)) {
            known.vrf.store(vrf, Ordering::Relaxed);
        }
        self.ingress.has_vrfs.store(self.in_vrfs > 0, Ordering::Relaxed);
    }

    /// Lets workers find an interface by its tags.
    fn publish(&mut self, port: u8, tags: Tags, id: InterfaceId) -> Result<(), ()> {
        let Some(index) = self.ports.get(usize::from(port)).map(|port| port.index) else { return Err(()) };
        if tags == Tags::NONE {
            if let Some(known) = self.ingress.ports.get(usize::from(index)) {
                known.untagged.store(id, Ordering::Relaxed);
            }
            return Ok(());
        }
        [tags.outer(), tags.inner()]
            .into_iter()
            .filter(|tag| tag.is_some())
            .for_each(|tag| self.ingress.announce(tag.tpid));
        let hash = self.exact.index().hash(port.into(), tags.key());
        self.exact.insert(hash, exact_value(port, id)).map_err(|_| ())?;
        self.settle_vlan(port, tags.outer().vlan);
        self.set_has_tags(port);
        Ok(())
    }

    /// Makes the table of outer VLANs hold what is right for one.
    fn settle_vlan(&self, port: u8, vlan: u16) {
        let mut having = self.with_outer_vlan(port, vlan);
        let value = match (having.next(), having.next()) {
            (None, _) => NO_VLAN.into(),
            (Some((tags, id)), None) if tags.count() == 1 => match self.get(id).is_some_and(|it| it.wanted.enabled) {
                true => vlan_word(tags.outer(), id),
                false => id.into(),
            },
            _ => SEVERAL.into(),
        };
        if let Some(word) = self.ingress.vlans.get(usize::from(port) * VLANS + usize::from(vlan)) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// The interfaces of a port whose outer VLAN is this one.
    fn with_outer_vlan(&self, port: u8, vlan: u16) -> impl Iterator<Item = (Tags, InterfaceId)> {
        // Tags are sorted by TPID first, of which there are few.
        let tpids: Vec<u16> = self.tpids_of(port);
        tpids.into_iter().flat_map(move |tpid| {
            let first = Tags::from_key(u64::from(tpid) << 48 | u64::from(vlan) << 32);
            let last = Tags::from_key(first.key() | u64::from(u32::MAX));
            self.by_tags.range((port, first)..=(port, last)).map(|(&(_, tags), &id)| (tags, id)).take(2)
        })
    }

    /// The TPIDs of outer tags on a port.
    fn tpids_of(&self, port: u8) -> Vec<u16> {
        let mut found = Vec::new();
        let mut next = 1u64 << 48;
        while let Some((&(_, tags), _)) =
            self.by_tags.range((port, Tags::from_key(next))..=(port, Tags::from_key(u64::MAX))).next()
        {
            found.push(tags.outer().tpid);
            match u64::from(tags.outer().tpid).checked_add(1).filter(|tpid| *tpid <= u64::from(u16::MAX)) {
                Some(tpid) => next = tpid << 48,
                None => break,
            }
        }
        found
    }

    fn set_has_tags(&self, port: u8) {
        let has = |port: u8| {
            let tagged = (port, Tags::from_key(1))..=(port, Tags::from_key(u64::MAX));
            self.by_tags.range(tagged).next().is_some()
        };
        let index = self.ports.get(usize::from(port)).map_or(u16::MAX, |port| port.index);
        if let Some(known) = self.ingress.ports.get(usize::from(index)) {
            known.has_tags.store(has(port), Ordering::Relaxed);
        }
        self.ingress.has_tags.store((0..self.ports.len() as u8).any(has), Ordering::Relaxed);
    }

    /// Removes an interface: nothing comes in or leaves by it any more. Its number is nobody's until [`Interfaces::give_back`]. Answers what
    /// it was.
    pub fn remove(&mut self, id: InterfaceId) -> Option<Interface> {
        let gone = self.slots.get_mut(usize::from(id))?.take()?;
        self.len -= 1;
        self.by_name.remove(gone.name());
        if let Some(known) = self.ingress.interfaces.get(usize::from(id)) {
            known.station.store(NOBODY, Ordering::Relaxed);
            known.key.store(0, Ordering::Relaxed);
            known.has_addresses.store(false, Ordering::Relaxed);
        }
        if let Some(egress) = self.egress.get(usize::from(id)) {
            egress.close();
        }
        // Its number keeps the VRF for packets that are on their way.
        self.in_vrfs -= usize::from(gone.wanted.vrf != 0);
        self.ingress.has_vrfs.store(self.in_vrfs > 0, Ordering::Relaxed);
        match gone.wanted.port {
            Some(port) => self.unpublish(port, gone.tags(), id),
            None => self.loopbacks -= 1,
        }
        Some(gone)
    }

    /// Lets the number of an interface that was removed be used again: no route leads there any more. Workers may have it at hand still, so
    /// that it takes a grace period.
    pub fn give_back(&mut self, id: InterfaceId) {
        self.retired.push_back((self.domain.advance(), id));
    }

    fn unpublish(&mut self, port: u8, tags: Tags, id: InterfaceId) {
        self.by_tags.remove(&(port, tags));
        if tags == Tags::NONE {
            let index = self.ports.get(usize::from(port)).map_or(u16::MAX, |port| port.index);
            self.ingress.set(index, None);
            if let Some(known) = self.ingress.ports.get(usize::from(index)) {
                known.untagged.store(NO_INTERFACE, Ordering::Relaxed);
            }
            return;
        }
        let hash = self.exact.index().hash(port.into(), tags.key());
        self.exact.remove(hash, exact_value(port, id));
        self.settle_vlan(port, tags.outer().vlan);
        self.set_has_tags(port);
    }

    /// Changes what an interface is meant to be, but for its name, port and tags; see [`Interfaces::refresh`].
    pub fn set(&mut self, id: InterfaceId, mtu: Option<u16>, enabled: bool) {
        if let Some(interface) = self.slots.get_mut(usize::from(id)).and_then(Option::as_mut) {
            (interface.wanted.mtu, interface.wanted.enabled) = (mtu, enabled);
        }
        self.refresh(id);
    }

    /// Lets workers know whether an interface has addresses.
    pub(crate) fn tell_addresses(&self, id: InterfaceId, has_some: bool) {
        if let Some(known) = self.ingress.interfaces.get(usize::from(id)) {
            known.has_addresses.store(has_some, Ordering::Relaxed);
        }
    }

    /// Lets an interface be what its port and its own wishes make of it. Packets that come in see it at once.
    pub fn refresh(&mut self, id: InterfaceId) {
        let Some(interface) = self.slots.get_mut(usize::from(id)).and_then(Option::as_mut) else { return };
        let Some(port) = interface.wanted.port else {
            (interface.mtu, interface.up) = (interface.wanted.mtu.unwrap_or(u16::MAX), interface.wanted.enabled);
            return;
        };
        let Some(port) = self.ports.get(usize::from(port)) else { return };
        let tags = interface.wanted.tags;
        let most = most_mtu(port, tags);
        interface.mac = port.mac;
        interface.mtu = interface.wanted.mtu.map_or(most, |mtu| mtu.min(most));
        interface.up = port.link && interface.wanted.enabled;
        let (enters, position) = (interface.wanted.enabled, interface.wanted.port);
        if tags == Tags::NONE {
            self.ingress.set(port.index, enters.then_some(port.mac));
        } else if let Some(known) = self.ingress.ports.get(usize::from(port.index)) {
            known.station.store(mac_word(port.mac), Ordering::Relaxed);
        }
        if let Some(known) = self.ingress.interfaces.get(usize::from(id)) {
            let station = if enters { mac_word(port.mac) | u64::from(port.index) << 48 } else { NOBODY };
            known.key.store(tags.key(), Ordering::Relaxed);
            known.station.store(station, Ordering::Relaxed);
        }
        if let Some(position) = position.filter(|_| tags != Tags::NONE) {
            self.settle_vlan(position, tags.outer().vlan);
        }
    }

    /// Lets packets leave by an interface that is up.
    pub fn open(&self, id: InterfaceId) {
        if let (Some(interface), Some(egress)) = (self.get(id).filter(|it| it.up), self.egress.get(usize::from(id)))
            && let Some(port) = interface.wanted.port
        {
            egress.set(port, interface.mac, interface.tags(), interface.mtu);
        }
    }

    /// Lets nothing leave by an interface.
    pub fn close(&self, id: InterfaceId) {
        if let Some(egress) = self.egress.get(usize::from(id)) {
            egress.close();
        }
    }

    /// An interface by its number.
    pub fn get(&self, id: InterfaceId) -> Option<&Interface> {
        self.slots.get(usize::from(id))?.as_ref()
    }

    /// The tunnel that an interface is the mouth of.
    pub fn tunnel(&self, id: InterfaceId) -> Option<Tunnel> {
        self.get(id)?.wanted.tunnel
    }

    /// An interface by its name.
    pub fn find(&self, name: &str) -> Option<&Interface> {
        self.get(*self.by_name.get(name)?)
    }

    /// The interface with these tags on the port at a position.
    pub fn with_tags(&self, port: u8, tags: Tags) -> Option<&Interface> {
        self.get(*self.by_tags.get(&(port, tags))?)
    }

    /// All interfaces, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.slots.iter().flatten()
    }

    /// The interfaces of the port of this index.
    pub fn on_port(&self, index: u16) -> impl Iterator<Item = &Interface> {
        let positions = self.ports.iter().zip(0u8..).filter(move |(port, _)| port.index == index);
        positions.flat_map(|(_, position)| {
            let all = (position, Tags::NONE)..=(position, Tags::from_key(u64::MAX));
            self.by_tags.range(all).filter_map(|(_, id)| self.get(*id))
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there is room for.
    pub fn limit(&self) -> usize {
        self.slots.len()
    }

    /// Lets numbers be used again that no worker can have at hand any more.
    pub fn collect(&mut self) {
        let frontier = self.domain.frontier();
        while let Some((_, id)) = self.retired.pop_front_if(|(epoch, _)| *epoch <= frontier) {
            self.free.push_back(id);
        }
    }
}

/// What the exact match holds of an interface.
const fn exact_value(port: u8, id: InterfaceId) -> u64 {
    (port as u64) << 16 | id as u64
}

/// Bytes of the longest IP packet behind these tags on a port: the port's, unless its device has no room for the tags.
pub fn most_mtu(port: &Port, tags: Tags) -> u16 {
    let tags = (tags.header_len() - Tags::NONE.header_len()) as u16;
    port.mtu.saturating_sub(tags.saturating_sub(port.tag_room))
}
