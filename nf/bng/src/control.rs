//! Stage `NAME.control`: what the slow path does that only a gateway knows. It learns where customers' addresses are, answers for its own, holds
//! packets for hosts that are asked for, and puts fragments of outer packets together. Everything else about a packet is the network layer's,
//! to which it is handed on without its tags or outer headers, and with the word whose it is ([`Punt`]).

mod customer;
mod exit;
mod outer;
mod outward;
mod six;

use std::sync::{Arc, Mutex, MutexGuard};

use weir_ip::{Line, LineTally, Punt, PuntReason, Side};
use weir_net::pending::Pending;
use weir_net::reassembly::Reassembly;
use weir_packet::{Batch, Held, Key, LaneId, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, MacAddr, View};

pub(crate) use exit::Exit;
pub(crate) use outer::Identifications;
pub(crate) use outward::{Inner, inner};

use crate::encap::{TAGGED, TAGS};
use crate::loss::Losses;
use crate::ports::BngPort;
use crate::registry::HostEvent;
use crate::state::{Control, lock};
use crate::table::counters::WorkerCounters;
use crate::table::{BindingKey, Tags};

/// The longest that a change made by a request may wait for the slow path to act on it, nanoseconds.
const ATTENTION: u64 = 10_000_000;

/// Packets that wait for one host at most: RFC 1122 section 2.3.2.2 wants one; a few keep the start of a connection whole.
const EACH: usize = 8;

/// The control side's share of packets.
pub(crate) struct SlowPath {
    shared: Arc<Mutex<Control>>,
    waiting: Pending<BindingKey, Held>,
    fragments: Reassembly<Held>,
    kind: Key<Punt>,
    ports: usize,
    drops: Drops,
    tally: LineTally,
}

/// How much the slow path holds at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Packets that wait for an Ethernet address.
    pub(crate) queue: usize,
    /// Fragments that wait for the rest of their packets.
    pub(crate) fragments: usize,
}

/// Counts what subscribers lose here, and in the network layer.
struct Drops {
    counters: Arc<WorkerCounters>,
    losses: Losses,
    of_the_layer: Losses,
}

/// One call of the stage: what it may change, and where packets go.
struct Call<'a, 'o> {
    control: MutexGuard<'a, Control>,
    waiting: &'a mut Pending<BindingKey, Held>,
    fragments: &'a mut Reassembly<Held>,
    drops: &'a Drops,
    tally: &'a LineTally,
    out: &'a mut Out<'o>,
    kind: Key<Punt>,
}

/// Whose a frame from a customer is, or whom one is for.
#[derive(Clone, Copy, Debug)]
struct Customer {
    /// Number of the subscriber.
    subscriber: u32,
    tags: Tags,
    /// Who sent the frame, or is to have it.
    station: MacAddr,
}

impl Customer {
    /// As the network layer knows it.
    const fn line(self, side: Side) -> Line {
        Line { number: self.subscriber, link: self.tags.port, side }
    }
}

impl SlowPath {
    /// For a gateway with so many ports. What subscribers lose is counted by `counters`, which no other worker writes.
    pub(crate) fn new(
        shared: Arc<Mutex<Control>>,
        (counters, tally): (Arc<WorkerCounters>, LineTally),
        kind: Key<Punt>,
        ports: usize,
        room: Room,
    ) -> SlowPath {
        let (losses, of_the_layer) = (Losses::of::<Exit>(), Losses::among(weir_ip::slow_ways()));
        let drops = Drops { counters, losses, of_the_layer };
        let (waiting, fragments) = (Pending::new(EACH, room.queue), Reassembly::new(room.fragments));
        SlowPath { shared, waiting, fragments, kind, ports, drops, tally }
    }

    fn call<'a, 'o>(&'a mut self, out: &'a mut Out<'o>) -> Call<'a, 'o> {
        let SlowPath { shared, waiting, fragments, drops, tally, kind, .. } = self;
        Call { control: lock(shared), waiting, fragments, drops, tally, out, kind: *kind }
    }
}

/// What [`SlowPath`] declares.
pub(crate) fn declaration(ports: usize, kind: Key<Punt>) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port]).updates(&[kind.into()]).polled()
}

impl Stage for SlowPath {
    fn declare(&self) -> Declaration {
        declaration(self.ports, self.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let kind = self.kind;
        let mut call = self.call(out);
        // What a request changed since the last call comes first: it must not hit packets that came after it.
        call.work_off();
        for slot in batch.slots() {
            let why = batch.lanes.get(kind, slot).reason;
            if let Some(packet) = batch.hold(slot) {
                call.handle(why, packet);
            }
        }
        call.work_off();
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let (now, later) = (out.now(), out.look_again(ATTENTION));
        let mut call = self.call(out);
        let next = call.control.registry.tick(now).min(call.control.look_after_routers(now));
        let next = next.min(call.expire_fragments());
        call.work_off();
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

impl Call<'_, '_> {
    fn handle(&mut self, why: PuntReason, mut packet: Held) {
        let position = self.control.ports.ingress(packet.port()).position;
        if usize::from(position) >= self.control.registry.settings().ports.len() {
            return self.core_packet(why, packet);
        }
        let Some(customer) = self.customer(position, &packet) else {
            return self.out.send(packet, Exit::UnknownSubscriber);
        };
        match why {
            PuntReason::Arp => self.customer_arp(customer, packet),
            PuntReason::Nd => self.neighbor_discovery(customer, packet),
            PuntReason::UnknownSource => self.unknown_source(customer, packet),
            PuntReason::TooBig if self.control.config.tunnel.fragment => self.fragment_outer(customer, packet),
            why => self.hand_on(why, customer.line(Side::From), TAGS, packet),
        }
    }

    /// Hands a customer's packet back to the stages for what comes from customers, which count it once more as it comes.
    fn send_up(&mut self, mut packet: Held) {
        self.tally.came(packet.port(), 1_u64.wrapping_neg(), (packet.packet().len() as u64).wrapping_neg());
        self.out.send(packet, Exit::Up);
    }

    /// Leaves a packet of a line to the network layer, with the `front` of its link's header cut off but for both addresses.
    fn hand_on(&mut self, why: PuntReason, line: Line, front: usize, mut packet: Held) {
        let frame = packet.packet_mut();
        let addresses: [u8; 12] = *frame.window(0);
        if !frame.trim_front(front) {
            return self.lose(line.number, packet, Exit::UnknownSubscriber);
        }
        *frame.window_mut(0) = addresses;
        packet.set(self.kind, Punt::of_line(why, line));
        self.out.send(packet, Exit::Layer);
    }

    /// Whose a frame is that came in by the access port at this position.
    fn customer(&self, position: u8, packet: &Held) -> Option<Customer> {
        let (link, rest) = Ethernet::split(packet.packet().bytes())?;
        let (outer, rest) = Vlan::split(rest)?;
        let inner = Vlan::view(rest)?;
        let tags = Tags { port: position, svlan: outer.id(), cvlan: inner.id() };
        let subscriber = self.control.registry.by_tags(tags)?.number;
        Some(Customer { subscriber, tags, station: link.source })
    }

    /// Does what became due by what happened to addresses, and counts what the network layer dropped.
    fn work_off(&mut self) {
        for lost in self.control.layer.take_lost() {
            self.drops.of_the_layer.count_code(&self.drops.counters, lost.line, lost.code);
        }
        loop {
            let hosts = self.control.registry.take_events();
            if hosts.is_empty() {
                break;
            }
            // Workers know first, so that what is let go finds its way.
            self.control.registry.settle();
            hosts.into_iter().for_each(|event| self.host_event(event));
        }
    }

    fn host_event(&mut self, event: HostEvent) {
        match event {
            HostEvent::Ask(key, mac) => self.ask(key, mac),
            HostEvent::Found(key) => self.let_go(key, Exit::Down),
            HostEvent::Lost(key) => self.let_go(key, Exit::HostUnresolved),
        }
    }

    /// Sends all that waited for a host by a way, or drops it for a reason.
    fn let_go(&mut self, host: BindingKey, exit: Exit) {
        for packet in self.waiting.take(host) {
            self.out.send(packet, exit);
        }
    }

    /// Drops a packet of a subscriber, and counts it as lost.
    fn lose(&mut self, subscriber: u32, packet: Held, exit: Exit) {
        self.drops.losses.count(&self.drops.counters, subscriber, exit);
        self.out.send(packet, exit);
    }

    /// The access port of a line.
    fn access_port(&self, tags: Tags) -> Option<BngPort> {
        self.control.ports.list().get(usize::from(tags.port)).cloned()
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

    /// Sends a frame without tags to a line; false if there is no buffer.
    fn send_line(&mut self, to: Customer, frame: &[u8], reason: Exit) -> bool {
        let Some(mut packet) = self.fresh(frame.len()) else { return false };
        packet.bytes_mut().copy_from_slice(frame);
        let mut held = Held::fresh(packet, 0, self.out.now());
        held.set(self.kind, Punt::of_line(PuntReason::Originated, to.line(Side::To)));
        self.out.emit(held, Exit::Lines, reason);
        true
    }
}

/// What a customer's frame carries behind its tags.
fn inside(packet: &Packet) -> &[u8] {
    packet.bytes().get(TAGGED..).unwrap_or_default()
}

/// Whether a packet is IPv6; it was found to be one of both.
fn is_six(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 6)
}
