//! Stages `NAME.six-up` and `NAME.six-down`: IPv6 that is not [plain]. Frames come as they were received, from the stages that have
//! carried all others, and are looked at one by one; before that, what leads to their customers is asked for in two passes over the batch, so
//! that no packet waits for memory alone.

pub(crate) mod plain;

use std::sync::Arc;

use weir_ip::{LineTally, PuntReason, Punts};
use weir_packet::{BATCH, Batch, Key, LaneId, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_table::exact::Hash;
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet};

use crate::across::ReachOf;
use crate::control::{Inner, inner};
use crate::core::{Core, Routed, Stop, ToCore, flow_of6};
use crate::encap::{Each, MAC_BITS, ROOM, TAGGED, Tagged, mac_word};
use crate::identification::Identifications;
use crate::loss::Losses;
use crate::marking::{CONGESTED, Marking};
use crate::ports::{Ports, Side};
use crate::punt::Policer;
use crate::table::counters::{Direction, WorkerCounters};
use crate::table::{BindingKey, BindingRecord, SubscriberRecord, Subscribers};

weir_stage::ways! {
    /// Ways out of [`Six`], before those to the ports.
    pub enum Exit {
        /// For one of the gateway's own addresses.
        Local => way "local",
        /// From an address of the subscriber that was not heard of yet, or from another station than before: the slow path learns where it is.
        UnknownSource => way "unknown-source",
        /// The MAC address of the next router, or of the subscriber's host, is not known: the slow path asks for it.
        Unresolved => way "unresolved",
        /// Its hop limit ends here: the slow path answers with Time Exceeded.
        HopLimit => way "ttl-expired",
        /// No route leads there: the slow path answers with Destination Unreachable.
        NoRoute => way "no-route",
        /// Longer than what fits: the slow path answers with Packet Too Big.
        TooBig => way "too-big",
        /// Nobody subscribes with these tags on this port.
        UnknownSubscriber => drop "unknown-subscriber",
        /// The interface of the port to its customer is set down.
        InterfaceDown => drop "interface-down",
        /// From an address that the subscriber has no right to.
        SpoofedSource => drop "spoofed-source",
        /// Shorter than the headers that it should have.
        TooShort => drop "too-short",
        /// The version field is not 6.
        IpVersion => drop "ip-version",
        /// The payload length is more than what arrived.
        IpTruncated => drop "ip-truncated",
        /// From an address that no single host has.
        MartianSource => drop "martian-source",
        /// To the unspecified or the loopback address.
        MartianDestination => drop "martian-destination",
        /// From or to a link-local address, which is not forwarded (RFC 4291 section 2.5.6).
        LinkLocal => drop "link-local",
        /// To a multicast address; multicast is not supported.
        Multicast => drop "multicast",
        /// Sent to a group of stations though its destination is a single host.
        LinkBroadcast => drop "link-broadcast",
        /// To a network that no subscriber has.
        UnknownDestination => drop "unknown-destination",
        /// A route says that packets there are dropped.
        Blackhole => drop "blackhole",
        /// Congestion was marked on the way of a packet whose ends do not understand it (RFC 6040 section 4.2).
        Congestion => drop "congestion",
        /// Its buffer has no room for the headers of the other side.
        NoHeadroom => drop "no-headroom",
        /// Its subscriber causes more work for the slow path than one may.
        PolicedSubscriber => drop "punt-policed-subscriber",
        /// More of its kind than the slow path takes from a worker.
        Policed => drop "punt-policed",
    }
}

impl From<Stop> for Exit {
    fn from(stop: Stop) -> Exit {
        match stop {
            // There are no broadcasts in IPv6.
            Stop::NoRoute | Stop::Broadcast | Stop::Customer => Exit::NoRoute,
            Stop::Blackhole => Exit::Blackhole,
            Stop::Local => Exit::Local,
            Stop::Unresolved => Exit::Unresolved,
        }
    }
}

/// What the stage punts.
pub(crate) const PUNTED: &[PuntReason] = &[
    PuntReason::Local,
    PuntReason::UnknownSource,
    PuntReason::Unresolved,
    PuntReason::TtlExpired,
    PuntReason::NoRoute,
    PuntReason::TooBig,
];

impl Punts for Exit {
    fn punted(self) -> Option<(PuntReason, Exit)> {
        let kind = match self {
            Exit::Local => PuntReason::Local,
            Exit::UnknownSource => PuntReason::UnknownSource,
            Exit::Unresolved => PuntReason::Unresolved,
            Exit::HopLimit => PuntReason::TtlExpired,
            Exit::NoRoute => PuntReason::NoRoute,
            Exit::TooBig => PuntReason::TooBig,
            _ => return None,
        };
        Some((kind, Exit::Policed))
    }
}

/// What packets are looked up in and counted by.
pub(crate) struct Shared {
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) core: Core,
    pub(crate) ports: Arc<Ports>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// What counts by interfaces.
    pub(crate) tally: Arc<LineTally>,
    pub(crate) marking: Marking,
    /// To which customers packets of others may be delivered at once.
    pub(crate) reach: ReachOf,
}

/// IPv6, both ways.
pub(crate) struct Six {
    shared: Shared,
    policer: Policer,
    kind: Key<PuntReason>,
    losses: Losses,
    identifications: Identifications,
}

/// Whose a packet is, if that is known, and what becomes of it: the port that it leaves by, or something else.
struct Fate {
    subscriber: Option<u32>,
    exit: Result<u8, Exit>,
}

impl Fate {
    const fn nobody(exit: Exit) -> Fate {
        Fate { subscriber: None, exit: Err(exit) }
    }
}

impl Six {
    pub(crate) fn new(
        shared: Shared,
        policer: Policer,
        kind: Key<PuntReason>,
        identifications: Identifications,
    ) -> Six {
        Six { shared, policer, kind, losses: Losses::of::<Exit>(), identifications }
    }
}

/// What [`Six`] declares.
pub(crate) fn declaration(ports: usize, kind: Key<PuntReason>) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port]).updates(&[kind.into()])
}

impl Stage for Six {
    fn declare(&self) -> Declaration {
        declaration(self.shared.ports.list().len(), self.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.shared.ask(batch);
        let mut policer = self.policer.batch(out.now());
        for slot in batch.slots() {
            let port = batch.lanes.port[slot];
            let Some(packet) = batch.get_mut(slot) else { continue };
            let Fate { subscriber, exit } = self.shared.decide(packet, port, &mut self.identifications);
            match exit {
                Ok(position) => out.answer_indexed(slot, position),
                Err(exit) => {
                    let at = (self.kind, slot, &mut batch.lanes);
                    let exit = policer.settle((exit, Exit::PolicedSubscriber), subscriber, at);
                    if let Some(subscriber) = subscriber.filter(|_| exit.punted().is_none()) {
                        self.losses.count(&self.shared.counters, subscriber, exit);
                    }
                    out.answer(slot, exit);
                }
            }
        }
    }
}

impl Shared {
    /// Asks for what packets lead to: for buckets, and when all of these are on their way, for bindings and counters.
    fn ask(&self, batch: &Batch) {
        let mut asked = [None; BATCH];
        for slot in batch.slots() {
            let asked = &mut asked[slot.index()];
            *asked = batch.get(slot).and_then(|packet| self.ask_bucket(packet, batch.lanes.port[slot]));
        }
        for (hash, direction) in asked.into_iter().flatten() {
            let found = self.subscribers.candidate(hash);
            self.subscribers.prefetch_binding(found.place());
            self.counters.prefetch(found.number(), direction);
        }
    }

    /// Asks for the bucket of the customer's address in a packet, if it has one.
    fn ask_bucket(&self, packet: &Packet, port: u16) -> Option<(Hash, Direction)> {
        let station = self.ports.ingress(port);
        let frame = packet.bytes();
        let (key, direction) = match self.side(station.position) {
            Side::Access => {
                let (record, _) = self.whose(packet, station.position)?;
                let ip = frame.get(TAGGED..).and_then(Ipv6::view)?;
                (self.subscribers.key6(record.scope(), first_half(&ip.source)), Direction::Up)
            }
            Side::Core => {
                let inner = inner(frame, self.core.is_tunnel)?;
                let ip = frame.get(inner.at..).and_then(Ipv6::view)?;
                (self.subscribers.key6(inner.scope, first_half(&ip.destination)), Direction::Down)
            }
        };
        let hash = self.subscribers.hash(key);
        self.subscribers.prefetch_bucket(hash);
        Some((hash, direction))
    }

    fn decide(&self, packet: &mut Packet, port: u16, ids: &mut Identifications) -> Fate {
        let station = self.ports.ingress(port);
        match self.side(station.position) {
            Side::Access => self.up(packet, station.position, ids),
            Side::Core => self.down(packet),
        }
    }

    /// From which side a packet comes, by the position of its port: from the core, too, if it is no port but a route that led it here.
    fn side(&self, position: u8) -> Side {
        self.ports.list().get(usize::from(position)).map_or(Side::Core, |port| port.side)
    }

    /// From a customer, whose tags were found right.
    fn up(&self, packet: &mut Packet, position: u8, ids: &mut Identifications) -> Fate {
        let Some((record, to_group)) = self.whose(packet, position) else {
            return Fate::nobody(Exit::UnknownSubscriber);
        };
        let subscriber = Some(record.number());
        Fate { subscriber, exit: self.up_of(packet, record, to_group, ids) }
    }

    /// The subscriber behind a frame's tags, and whether the frame is for more than one station.
    fn whose(&self, packet: &Packet, position: u8) -> Option<(SubscriberRecord<'_>, bool)> {
        let (link, rest) = Ethernet::split(packet.bytes())?;
        let (outer, rest) = Vlan::split(rest)?;
        let place = self.subscribers.by_tags(position, outer.id(), Vlan::view(rest)?.id())?;
        Some((self.subscribers.subscriber(place)?, link.destination.is_group()))
    }

    fn up_of(
        &self,
        packet: &mut Packet,
        record: SubscriberRecord<'_>,
        to_group: bool,
        ids: &mut Identifications,
    ) -> Result<u8, Exit> {
        let ip = *sound(packet.bytes().get(TAGGED..).unwrap_or_default())?;
        addresses(&ip)?;
        if to_group {
            return Err(Exit::LinkBroadcast);
        }
        self.check_source(packet, record, &ip)?;
        let answer = self.core.onward.lookup6(u128::from_be_bytes(ip.destination));
        match self.core.hop_of(answer, || flow_of6(packet)) {
            Ok(_) | Err(Stop::Unresolved | Stop::Customer) if ip.hop_limit < 2 => Err(Exit::HopLimit),
            Ok(hop) => self.forward(packet, record, hop, &ip, ids),
            Err(Stop::Customer) => {
                let port = self.across(packet, &ip)?;
                self.counters.count(record.number(), Direction::Up, packet.len() as u64);
                Ok(port)
            }
            Err(stop) => Err(stop.into()),
        }
    }

    /// Delivers a packet of a customer to another one, as if it had come from the core; answers the position of the port that it leaves by.
    fn across(&self, packet: &mut Packet, ip: &Ipv6) -> Result<u8, Exit> {
        let network = self.binding(self.subscribers.key6(0, first_half(&ip.destination)));
        let network = network.ok_or(Exit::UnknownDestination)?;
        let host = if network.is_shared() { self.host(0, &ip.destination) } else { Some(network) };
        let host = host.filter(|_| self.reach.has(network)).ok_or(Exit::Unresolved)?;
        self.deliver(packet, host, TAGGED, ip, ip.traffic_class())
    }

    /// Wraps a packet that may go, and counts it; answers the position of the port that it leaves by.
    fn forward(
        &self,
        packet: &mut Packet,
        record: SubscriberRecord<'_>,
        hop: Routed<'_>,
        ip: &Ipv6,
        ids: &mut Identifications,
    ) -> Result<u8, Exit> {
        let total = Ipv6::LEN + usize::from(ip.payload_length.get());
        if total > usize::from(hop.longest) {
            return Err(Exit::TooBig);
        }
        if self.core.is_tunnel && packet.headroom() < ROOM || !hop.has_room(packet) {
            return Err(Exit::NoHeadroom);
        }
        let len = TAGGED + total;
        packet.set_len(len);
        if let Some(ip) = packet.bytes_mut().get_mut(TAGGED..).and_then(Ipv6::view_mut) {
            ip.hop_limit -= 1;
        }
        let (tos, identification) = (ip.traffic_class(), ids.next());
        let each = Each { key: record.key(), total: total as u16, tos, identification };
        wrap(&self.core, hop, packet, each, true);
        self.counters.count(record.number(), Direction::Up, len as u64);
        Ok(hop.port)
    }

    /// Whether a packet comes from where its source is known to be.
    fn check_source(&self, packet: &Packet, record: SubscriberRecord<'_>, ip: &Ipv6) -> Result<(), Exit> {
        let half = first_half(&ip.source);
        let network = self.subscribers.key6(record.scope(), half);
        let network = self.binding(network).filter(|binding| binding.subscriber() == record.number());
        // What is fixed has bindings, too: without one the subscriber has no right to it.
        let Some(network) = network else {
            return Err(if record.is_first_source6(half) { Exit::UnknownSource } else { Exit::SpoofedSource });
        };
        if network.is_resolved() && !network.is_link() {
            return Ok(());
        }
        let binding = if network.is_shared() { self.host(record.scope(), &ip.source) } else { Some(network) };
        let station = Ethernet::view(packet.bytes()).map_or(0, |link| mac_word(link.source));
        let is_there = binding.is_some_and(|binding| binding.is_resolved() && binding.mac_word() == station);
        if is_there { Ok(()) } else { Err(Exit::UnknownSource) }
    }

    /// The binding of a key.
    fn binding(&self, key: BindingKey) -> Option<BindingRecord<'_>> {
        self.subscribers.find(key, self.subscribers.hash(key)).and_then(|place| self.subscribers.binding(place))
    }

    /// The binding of a host.
    fn host(&self, scope: u32, address: &[u8; 16]) -> Option<BindingRecord<'_>> {
        self.binding(self.subscribers.key_host6(scope, u128::from_be_bytes(*address)))
    }

    /// From the core, whose labels and tunnel were found right.
    fn down(&self, packet: &mut Packet) -> Fate {
        let Some(inner) = inner(packet.bytes(), self.core.is_tunnel) else { return Fate::nobody(Exit::TooShort) };
        let ip = match sound(packet.bytes().get(inner.at..).unwrap_or_default()) {
            Ok(ip) => *ip,
            Err(exit) => return Fate::nobody(exit),
        };
        if let Err(exit) = addresses(&ip) {
            return Fate::nobody(exit);
        }
        if self.is_own(&ip) {
            return Fate::nobody(Exit::Local);
        }
        let Some(network) = self.binding(self.subscribers.key6(inner.scope, first_half(&ip.destination))) else {
            return Fate::nobody(Exit::UnknownDestination);
        };
        let host = if network.is_shared() { self.host(inner.scope, &ip.destination) } else { Some(network) };
        // A host has the subscriber of its network.
        let exit = match (host, class_inside(packet.bytes(), inner, &ip)) {
            (_, None) => Err(Exit::Congestion),
            (None, _) => Err(Exit::Unresolved),
            (Some(binding), Some(class)) => self.deliver(packet, binding, inner.at, &ip, class),
        };
        Fate { subscriber: Some(network.subscriber()), exit }
    }

    fn is_own(&self, ip: &Ipv6) -> bool {
        self.core.is_own6(u128::from_be_bytes(ip.destination))
    }

    /// Gives a packet of a traffic class the tags of its customer, and counts it; answers the position of the port that it leaves by.
    fn deliver(
        &self,
        packet: &mut Packet,
        binding: BindingRecord<'_>,
        at: usize,
        ip: &Ipv6,
        class: u8,
    ) -> Result<u8, Exit> {
        if ip.hop_limit < 2 {
            return Err(Exit::HopLimit);
        }
        if !binding.is_resolved() {
            return Err(Exit::Unresolved);
        }
        let egress = self.ports.egress(binding.port());
        if self.tally.is_shut(egress.index) {
            return Err(Exit::InterfaceDown);
        }
        let total = Ipv6::LEN + usize::from(ip.payload_length.get());
        if total > usize::from(egress.mtu) {
            return Err(Exit::TooBig);
        }
        let made_room = match at.checked_sub(TAGGED) {
            Some(less) => packet.trim_front(less),
            None => packet.prepend(TAGGED.saturating_sub(at)),
        };
        if !made_room {
            return Err(Exit::NoHeadroom);
        }
        let len = TAGGED + total;
        packet.set_len(len);
        let (mac, tags) = (binding.mac_word(), binding.tags_word() | self.marking.priority(class));
        let Some((header, packet)) = packet.bytes_mut().split_first_chunk_mut::<TAGGED>() else {
            return Err(Exit::TooShort);
        };
        Tagged { destination: mac, source: egress.mac & MAC_BITS, tags }.write(ethernet::IPV6, header);
        if let Some(ip) = Ipv6::view_mut(packet) {
            ip.hop_limit -= 1;
            ip.set_traffic_class(self.marking.class(class));
        }
        self.counters.count(binding.subscriber(), Direction::Down, len as u64);
        self.tally.left(egress.index, 1, len as u64);
        Ok(binding.port())
    }
}

/// Puts the head of a gateway in front of a customer's packet, which `is_six` or not, in place of its Ethernet header and tags. False, and nothing
/// done, if there is no room.
pub(crate) fn wrap(core: &Core, hop: Routed<'_>, packet: &mut Packet, each: Each, is_six: bool) -> bool {
    match (core.is_tunnel, is_six) {
        (true, true) => hop.wrap::<true, true>(core.view(), packet, each, |_| {}),
        (true, false) => hop.wrap::<true, false>(core.view(), packet, each, |_| {}),
        (false, true) => hop.wrap::<false, true>(core.view(), packet, each, |_| {}),
        (false, false) => hop.wrap::<false, false>(core.view(), packet, each, |_| {}),
    }
}

/// The traffic class of a packet, with congestion that was marked on its tunnel; `None` if it does not know of congestion (RFC 6040
/// section 4.2).
fn class_inside(frame: &[u8], inner: Inner, ip: &Ipv6) -> Option<u8> {
    let outer = inner.outer.and_then(|at| frame.get(at..)).and_then(Ipv4::view);
    let class = ip.traffic_class();
    match outer.is_some_and(|outer| outer.tos & CONGESTED == CONGESTED) {
        true if class & CONGESTED == 0 => None,
        true => Some(class | CONGESTED),
        false => Some(class),
    }
}

/// The header of a packet that is valid IPv6 (RFC 8200 section 3).
fn sound(packet: &[u8]) -> Result<&Ipv6, Exit> {
    let ip = Ipv6::view(packet).ok_or(Exit::TooShort)?;
    if ip.version() != 6 {
        return Err(Exit::IpVersion);
    }
    if packet.len() < Ipv6::LEN + usize::from(ip.payload_length.get()) {
        return Err(Exit::IpTruncated);
    }
    Ok(ip)
}

/// Whether a packet may be forwarded from and to its addresses (RFC 4291 sections 2.5 and 2.7).
fn addresses(ip: &Ipv6) -> Result<(), Exit> {
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    if destination.is_multicast() {
        Err(Exit::Multicast)
    } else if source.is_multicast() || source.is_unspecified() || source.is_loopback() {
        Err(Exit::MartianSource)
    } else if destination.is_unspecified() || destination.is_loopback() {
        Err(Exit::MartianDestination)
    } else if source.is_unicast_link_local() || destination.is_unicast_link_local() {
        Err(Exit::LinkLocal)
    } else {
        Ok(())
    }
}

/// The first half of an address.
#[inline(always)]
fn first_half(address: &[u8; 16]) -> u64 {
    address.first_chunk().map_or(0, |half| u64::from_be_bytes(*half))
}
