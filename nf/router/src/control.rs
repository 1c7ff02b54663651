//! Stage `NAME.control`: the slow path. ARP, ICMP, options, fragmentation, and packets that wait for a neighbour.

mod arp;
mod deliver;
mod errors;
mod exit;
mod fragments;
mod redirect;
mod route;

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_ip::{InterfaceId, NO_INTERFACE, Tags};
use weir_net::PortId;
use weir_net::neighbor::Event;
use weir_net::reassembly::Reassembly;
use weir_net::waiting::Waiting;
use weir_packet::{Batch, Held, Key, LaneId, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::Ethernet;

pub(crate) use exit::Exit;

use crate::punt::Kind;
use crate::shared::{Hold, Shared, lock};
use crate::state::Told;

/// The longest that a change made by a request may wait for the slow path to act on it, nanoseconds.
const ATTENTION: u64 = 10_000_000;

/// A neighbour: an interface and an address on its link.
pub(crate) type Station = (PortId, Ipv4Addr);

/// The control side's share of packets.
pub(crate) struct SlowPath {
    shared: Arc<Shared>,
    waiting: Waiting<Station, Held>,
    fragments: Reassembly<Held>,
    kind: Key<Kind>,
    ports: usize,
    seed: u64,
}

/// One call of the stage: what it may change, and where packets go.
struct Turn<'a, 'o> {
    control: Hold<'a>,
    waiting: &'a mut Waiting<Station, Held>,
    fragments: &'a mut Reassembly<Held>,
    out: &'a mut Out<'o>,
    kind: Key<Kind>,
    seed: u64,
}

impl SlowPath {
    pub(crate) fn new(
        shared: Arc<Shared>,
        waiting: Waiting<Station, Held>,
        fragments: Reassembly<Held>,
        kind: Key<Kind>,
        ports: usize,
        seed: u64,
    ) -> SlowPath {
        SlowPath { shared, waiting, fragments, kind, ports, seed }
    }

    fn turn<'a, 'o>(&'a mut self, out: &'a mut Out<'o>) -> Turn<'a, 'o> {
        let SlowPath { shared, waiting, fragments, kind, seed, .. } = self;
        Turn { control: lock(shared), waiting, fragments, out, kind: *kind, seed: *seed }
    }
}

/// What [`SlowPath`] declares.
pub(crate) fn declaration(ports: usize, kind: Key<Kind>) -> Declaration {
    Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port, kind.into()]).polled()
}

impl Stage for SlowPath {
    fn declare(&self) -> Declaration {
        declaration(self.ports, self.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let mut turn = self.turn(out);
        // What a request changed since the last turn comes first: it must not hit packets that came after it.
        turn.work_off();
        for slot in batch.slots() {
            let kind = batch.lanes.get(turn.kind, slot);
            if let Some(packet) = batch.hold(slot) {
                turn.handle(kind, packet);
            }
        }
        turn.work_off();
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let (now, later) = (out.now(), out.look_again(ATTENTION));
        let mut turn = self.turn(out);
        let next = turn.control.tick(now).min(turn.expire_fragments());
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
    fn handle(&mut self, kind: Kind, mut packet: Held) {
        if kind == Kind::Originated {
            return self.route(packet, false);
        }
        let Some(interface) = self.take_tags_off(&mut packet) else {
            return self.out.send(packet, Exit::InterfaceGone);
        };
        // Until this path knows IPv6, too.
        if ip_bytes(packet.packet()).first().is_some_and(|byte| byte >> 4 == 6) && kind != Kind::Arp {
            return self.out.send(packet, Exit::NoProtocol);
        }
        match kind {
            Kind::Arp => self.arp(packet, interface),
            Kind::Local => self.deliver(packet),
            Kind::TtlExpired => self.ttl_expired(packet),
            Kind::NoRoute | Kind::Rejected => self.no_route(packet),
            Kind::Nd | Kind::BeyondScope => self.out.send(packet, Exit::NoProtocol),
            Kind::Options => self.options(packet),
            Kind::Unresolved | Kind::TooBig => self.route(packet, true),
            Kind::TurnsRound => self.redirect(packet, interface),
            Kind::Originated => self.route(packet, false),
        }
    }

    /// The interface that a packet came in by, whose tags are taken off: all of the slow path looks at frames without. `None` if the
    /// interface is gone.
    fn take_tags_off(&mut self, packet: &mut Held) -> Option<InterfaceId> {
        let port = packet.port();
        let ingress = self.control.routing.fib().ingress();
        let entered = ingress.enter(port, packet.packet().window(0));
        if entered.interface == NO_INTERFACE {
            return None;
        }
        let tags = usize::from(entered.l3).saturating_sub(HEADER);
        let frame = packet.packet_mut();
        if tags > 0 {
            let addresses: [u8; ADDRESSES] = *frame.window(0);
            if !frame.trim_front(tags) {
                return None;
            }
            *frame.window_mut(0) = addresses;
            packet.set_l3(HEADER as u8);
        }
        Some(entered.interface)
    }

    /// Sends a frame without tags by an interface, with the interface's: it came here, or was made here for a `reason`.
    fn send_by(&mut self, mut packet: Held, interface: InterfaceId, reason: Option<Exit>) {
        let wanted = self.control.interfaces.get(interface).map(|interface| (interface.wanted.port, interface.tags()));
        let port = wanted.and_then(|(port, tags)| port.filter(|_| put_tags_on(packet.packet_mut(), tags)));
        let bytes = packet.packet().len() as u64;
        match (port, reason) {
            (Some(port), None) => self.out.send_indexed(packet, port),
            (Some(port), Some(reason)) => self.out.emit_indexed(packet, port, reason),
            (None, None) => return self.out.send(packet, Exit::InterfaceGone),
            (None, Some(_)) => return self.out.unalloc(packet.into_packet()),
        }
        self.control.routing.note_sent(interface, 1, bytes);
    }

    /// Does what became due by what happened to neighbours.
    fn work_off(&mut self) {
        loop {
            let events = self.control.take_outbox();
            if events.is_empty() {
                break;
            }
            // What is let go may make more of it: its own next hop may have to be asked for.
            events.into_iter().for_each(|event| self.work_off_one(event));
        }
    }

    fn work_off_one(&mut self, told: Told) {
        let Told::Four(event) = told else { return };
        match event {
            Event::Send { port, to, message, kind } => self.send_arp(port, to, &message, kind),
            Event::Resolved { port, address, .. } => self.let_go((port, address)),
            Event::Failed { port, address } => self.give_up((port, address), true),
            Event::Removed { port, address } => self.give_up((port, address), false),
            Event::Changed { .. } | Event::DuplicateAddress { .. } | Event::OwnAddress { .. } => {}
        }
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
}

/// The IPv4 packet in a frame.
fn ip_bytes(packet: &Packet) -> &[u8] {
    packet.bytes().get(HEADER..).unwrap_or_default()
}

/// The IPv4 packet in a frame, to change.
fn ip_bytes_mut(packet: &mut Packet) -> &mut [u8] {
    packet.bytes_mut().get_mut(HEADER..).unwrap_or_default()
}

/// Puts tags on a frame that has none. False if there is no room in front of it.
fn put_tags_on(frame: &mut Packet, tags: Tags) -> bool {
    let more = tags.header_len() - HEADER;
    if more == 0 {
        return true;
    }
    let [addresses @ .., high, low]: [u8; HEADER] = *frame.window(0);
    if !frame.prepend(more) {
        return false;
    }
    let behind = tags.bytes(u16::from_be_bytes([high, low]));
    *frame.window_mut::<ADDRESSES>(0) = addresses;
    // As many as the tags take: what follows is the packet.
    let header = frame.bytes_mut().get_mut(ADDRESSES..).unwrap_or_default();
    header.iter_mut().zip(behind).take(more + HEADER - ADDRESSES).for_each(|(to, from)| *to = from);
    true
}

/// Bytes of the Ethernet header of a frame without tags.
const HEADER: usize = <Ethernet as weir_wire::View>::LEN;

/// Bytes of both MAC addresses.
const ADDRESSES: usize = 12;
