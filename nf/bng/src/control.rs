//! Stage `NAME.control`: the slow path. ARP with customers and with the core, learning, ICMP, and packets that wait.
//!
//! Packets come as they were received, tags, labels and all, and what can go on after all goes back to the stage that it came
//! from, where it is looked up anew.

mod customer;
mod errors;
mod exit;
mod local;
mod outer;
mod outward;
mod pieces;
mod six;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use weir_ip::{Heard, InterfaceId};
use weir_net::pending::Pending;
use weir_net::reassembly::Reassembly;
use weir_packet::{Batch, Held, Key, LaneId, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, MacAddr, View};

pub(crate) use errors::ErrorLimits;
pub(crate) use exit::Exit;
use outer::Identifications;
pub(crate) use outward::{Inner, inner};

use crate::encap::TAGGED;
use crate::loss::Losses;
use crate::ports::BngPort;
use crate::punt::PuntReason;
use crate::registry::HostEvent;
use crate::state::{Control, lock};
use crate::table::counters::WorkerCounters;
use crate::table::{BindingKey, Tags};

/// The longest that a change made by a request may wait for the slow path to act on it, nanoseconds.
const ATTENTION: u64 = 10_000_000;

/// Packets that wait for one host or router at most: RFC 1122 section 2.3.2.2 wants one; a few keep the start of a connection
/// whole.
const EACH: usize = 8;

/// Whom a packet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Awaited {
    /// A subscriber's host.
    Host(BindingKey),
    /// A router of the core, by interface and address.
    Router(InterfaceId, IpAddr),
}

/// The control side's share of packets.
pub(crate) struct SlowPath {
    shared: Arc<Mutex<Control>>,
    waiting: Pending<Awaited, Held>,
    fragments: Reassembly<Held>,
    identifications: Identifications,
    kind: Key<PuntReason>,
    ports: usize,
    drops: Drops,
}

/// How much the slow path holds at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Packets that wait for an Ethernet address.
    pub(crate) queue: usize,
    /// Fragments that wait for the rest of their packets.
    pub(crate) fragments: usize,
}

/// Counts what subscribers lose here.
struct Drops {
    counters: Arc<WorkerCounters>,
    losses: Losses,
}

/// One call of the stage: what it may change, and where packets go.
struct Turn<'a, 'o> {
    control: MutexGuard<'a, Control>,
    waiting: &'a mut Pending<Awaited, Held>,
    fragments: &'a mut Reassembly<Held>,
    identifications: &'a mut Identifications,
    drops: &'a Drops,
    out: &'a mut Out<'o>,
}

/// Whose a frame from a customer is, and how it came.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Number of the subscriber.
    subscriber: u32,
    tags: Tags,
    /// Who sent the frame.
    station: MacAddr,
    /// Whether it was sent to all stations, or a group of them.
    to_group: bool,
}

impl SlowPath {
    /// For a gateway with so many ports. What subscribers lose is counted by `counters`, which no other worker writes.
    pub(crate) fn new(
        shared: Arc<Mutex<Control>>,
        counters: Arc<WorkerCounters>,
        kind: Key<PuntReason>,
        ports: usize,
        room: Room,
    ) -> SlowPath {
        let drops = Drops { counters, losses: Losses::of::<Exit>() };
        let (waiting, fragments) = (Pending::new(EACH, room.queue), Reassembly::new(room.fragments));
        let identifications = Identifications::new(!lock(&shared).config.tunnel.df);
        SlowPath { shared, waiting, fragments, identifications, kind, ports, drops }
    }

    fn turn<'a, 'o>(&'a mut self, out: &'a mut Out<'o>) -> Turn<'a, 'o> {
        let SlowPath { shared, waiting, fragments, identifications, drops, .. } = self;
        Turn { control: lock(shared), waiting, fragments, identifications, drops, out }
    }
}

/// What [`SlowPath`] declares.
pub(crate) fn declaration(ports: usize, kind: Key<PuntReason>) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port, kind.into()]).polled()
}

impl Stage for SlowPath {
    fn declare(&self) -> Declaration {
        declaration(self.ports, self.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let kind = self.kind;
        let mut turn = self.turn(out);
        // What a request changed since the last turn comes first: it must not hit packets that came after it.
        turn.work_off();
        for slot in batch.slots() {
            let why = batch.lanes.get(kind, slot);
            if let Some(packet) = batch.hold(slot) {
                turn.handle(why, packet);
            }
        }
        turn.work_off();
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let (now, later) = (out.now(), out.look_again(ATTENTION));
        let mut turn = self.turn(out);
        let next = turn.control.registry.tick(now).min(turn.control.look_after_routers(now));
        let next = next.min(turn.expire_fragments());
        turn.work_off();
        next.min(later)
    }

    fn held(&self) -> u64 {
        (self.waiting.held() + self.fragments.held()) as u64
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.waiting.clear(give);
        self.fragments.clear().into_iter().for_each(give);
    }
}

impl Turn<'_, '_> {
    fn handle(&mut self, why: PuntReason, mut packet: Held) {
        let position = self.control.ports.ingress(packet.port()).position;
        if usize::from(position) >= self.control.registry.settings().ports.len() {
            return self.core_packet(why, packet);
        }
        let Some(line) = self.line(position, &packet) else { return self.out.send(packet, Exit::UnknownSubscriber) };
        if why == PuntReason::Nd {
            return self.neighbor_discovery(line, packet);
        }
        if is_six(inside(packet.packet())) && why != PuntReason::Arp {
            return self.customer6(why, line, packet);
        }
        match why {
            PuntReason::Arp => self.customer_arp(line, packet),
            PuntReason::UnknownSource => self.unknown_source(line, packet),
            PuntReason::Local => self.customer_local(line, packet),
            PuntReason::Unresolved => self.wait_for_router(line, packet),
            PuntReason::TtlExpired | PuntReason::NoRoute | PuntReason::TooBig => {
                self.refuse_customer(why, line, packet)
            }
            PuntReason::Nd | PuntReason::Fragment | PuntReason::Originated => {
                self.lose(line.subscriber, packet, Exit::NdIgnored)
            }
        }
    }

    /// Whose a frame is that came in by the access port at this position.
    fn line(&self, position: u8, packet: &Held) -> Option<Line> {
        let (link, rest) = Ethernet::split(packet.packet().bytes())?;
        let (outer, rest) = Vlan::split(rest)?;
        let inner = Vlan::view(rest)?;
        let tags = Tags { port: position, svlan: outer.id(), cvlan: inner.id() };
        let subscriber = self.control.registry.by_tags(tags)?.number;
        Some(Line { subscriber, tags, station: link.source, to_group: link.destination.is_group() })
    }

    /// Does what became due by what happened to addresses and routers.
    fn work_off(&mut self) {
        loop {
            let (hosts, routers) = (self.control.registry.take_events(), self.control.layer.take_heard());
            if hosts.is_empty() && routers.is_empty() {
                break;
            }
            // Workers know first, so that what is let go finds its way.
            self.control.registry.settle();
            hosts.into_iter().for_each(|event| self.host_event(event));
            routers.into_iter().for_each(|heard| self.router_heard(heard));
        }
    }

    fn host_event(&mut self, event: HostEvent) {
        match event {
            HostEvent::Ask(key, mac) => self.ask(key, mac),
            HostEvent::Found(key) => self.let_go(Awaited::Host(key), Exit::Down),
            HostEvent::Lost(key) => self.let_go(Awaited::Host(key), Exit::HostUnresolved),
        }
    }

    fn router_heard(&mut self, Heard { interface, address, is_known }: Heard) {
        let router = Awaited::Router(interface, address);
        if is_known { self.let_go(router, Exit::Up) } else { self.give_up(router) }
    }

    /// Sends all that waited for one by a way, or drops it for a reason.
    fn let_go(&mut self, awaited: Awaited, exit: Exit) {
        for packet in self.waiting.take(awaited) {
            self.out.send(packet, exit);
        }
    }

    /// Drops a packet of a subscriber, and counts it as lost.
    fn lose(&mut self, subscriber: u32, packet: Held, exit: Exit) {
        self.drops.losses.count(&self.drops.counters, subscriber, exit);
        self.out.send(packet, exit);
    }

    /// The access port of a line, with its position.
    fn access_port(&self, tags: Tags) -> Option<(u8, BngPort)> {
        let port = self.control.ports.list().get(usize::from(tags.port))?;
        Some((tags.port, port.clone()))
    }

    /// A new packet of these bytes; `None` when there is no buffer or they do not fit.
    fn fresh(&mut self, len: usize) -> Option<Packet> {
        let mut packet = self.out.alloc()?;
        if packet.set_len(len) {
            return Some(packet);
        }
        self.out.unalloc(packet);
        None
    }

    /// Writes Ethernet header and tags of a frame from the gateway to a station on a line.
    fn tag(&self, packet: &mut Packet, tags: Tags, from: MacAddr, to: MacAddr, ethertype: u16) -> Option<()> {
        let (link, rest) = Ethernet::split_mut(packet.bytes_mut())?;
        *link = Ethernet::new(to, from, self.control.registry.settings().tpid);
        let (outer, rest) = Vlan::split_mut(rest)?;
        *outer = Vlan::new(tags.svlan, 0, false, weir_wire::ethernet::CVLAN);
        *Vlan::view_mut(rest)? = Vlan::new(tags.cvlan, 0, false, ethertype);
        Some(())
    }

    /// Sends a packet that the gateway made out of the port at a position.
    fn emit(&mut self, packet: Packet, position: u8, reason: Exit) {
        let index = self.control.ports.list().get(usize::from(position)).map_or(0, |port| port.index);
        let held = Held::fresh(packet, index, self.out.now());
        self.out.emit_indexed(held, position, reason);
    }
}

/// What a customer's frame carries behind its tags.
fn inside(packet: &Packet) -> &[u8] {
    packet.bytes().get(TAGGED..).unwrap_or_default()
}

/// The same, to change.
fn inside_mut(packet: &mut Packet) -> &mut [u8] {
    packet.bytes_mut().get_mut(TAGGED..).unwrap_or_default()
}

/// Whether a packet is IPv6; it was found to be one of both.
fn is_six(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 6)
}
