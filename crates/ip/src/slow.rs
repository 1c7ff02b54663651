//! Stage `NAME.control`: the slow path of both families. ARP and neighbour discovery, ICMP, options and extension headers, fragmentation,
//! packets to the router itself, and packets that wait for a neighbour.

mod announce;
pub(crate) mod answer;
mod arp;
mod deliver;
mod discovery;
mod errors;
mod exit;
mod fragments;
mod options;
mod parcel;
mod redirect;
mod route;
mod source;

use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::Arc;

use weir_net::neighbor::{Event, Protocol};
use weir_net::pending::Pending;
use weir_net::reassembly::Reassembly;
use weir_packet::{Batch, Held, Key, LaneId, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ethernet, MacAddr};

pub(crate) use exit::Exit;

use crate::fast::punt::PuntReason;
use crate::state::Told;
use crate::state::shared::{Hold, Shared, lock};
use crate::{InterfaceId, NO_INTERFACE, Tags};
use fragments::Original;
use parcel::{Origin, Parcel};

/// The longest that a change made by a request may wait for the slow path to act on it, nanoseconds.
const ATTENTION: u64 = 10_000_000;

/// A neighbour: an interface and an address on its link.
type NeighborKey = (InterfaceId, IpAddr);

/// The control side's share of packets.
pub(crate) struct SlowPath {
    shared: Arc<Shared>,
    waiting: Pending<NeighborKey, Parcel>,
    fragments: Reassembly<Parcel, Original>,
    kind: Key<PuntReason>,
    ports: usize,
    seed: u64,
    /// The identification of the last IPv6 packet that was sent in fragments, and what makes others unable to guess the next one.
    identification: u32,
    secret: RandomState,
}

/// How many packets the slow path holds.
pub(crate) struct Room {
    /// For each neighbour that has not answered.
    pub(crate) per_neighbor: usize,
    /// For all of them.
    pub(crate) waiting: usize,
    /// Fragments of packets to the router.
    pub(crate) fragments: usize,
}

/// One call of the stage: what it may change, and where packets go.
struct Turn<'a, 'o> {
    control: Hold<'a>,
    waiting: &'a mut Pending<NeighborKey, Parcel>,
    fragments: &'a mut Reassembly<Parcel, Original>,
    out: &'a mut Out<'o>,
    kind: Key<PuntReason>,
    seed: u64,
    identification: &'a mut u32,
    secret: &'a RandomState,
}

impl SlowPath {
    pub(crate) fn new(shared: Arc<Shared>, room: &Room, kind: Key<PuntReason>, ports: usize, seed: u64) -> SlowPath {
        let waiting = Pending::new(room.per_neighbor, room.waiting);
        let fragments = Reassembly::new(room.fragments);
        SlowPath { shared, waiting, fragments, kind, ports, seed, identification: 0, secret: RandomState::new() }
    }

    fn turn<'a, 'o>(&'a mut self, out: &'a mut Out<'o>) -> Turn<'a, 'o> {
        let SlowPath { shared, waiting, fragments, kind, seed, identification, secret, .. } = self;
        Turn { control: lock(shared), waiting, fragments, out, kind: *kind, seed: *seed, identification, secret }
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
        let next = next.min(turn.announce());
        turn.work_off();
        next.min(later)
    }

    fn held(&self) -> u64 {
        (self.waiting.held() + self.fragments.held()) as u64
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.waiting.clear(&mut |parcel| give(parcel.packet));
        self.fragments.clear().into_iter().for_each(|parcel| give(parcel.packet));
    }
}

impl Turn<'_, '_> {
    fn handle(&mut self, kind: PuntReason, mut packet: Held) {
        let Some(origin) = self.origin_of(kind, &mut packet) else {
            return self.out.send(packet, Exit::InterfaceGone);
        };
        let parcel = Parcel { packet, origin };
        match kind {
            PuntReason::Arp => self.arp(parcel),
            PuntReason::Nd => self.discovery(parcel),
            PuntReason::Local => self.arrive(parcel),
            PuntReason::TtlExpired => self.ttl_expired(parcel),
            PuntReason::NoRoute => self.no_route(parcel),
            PuntReason::BeyondScope => self.beyond_scope(parcel),
            PuntReason::Options => self.options(parcel),
            PuntReason::TurnsRound => self.redirect(parcel),
            PuntReason::Unresolved | PuntReason::TooBig | PuntReason::Rejected | PuntReason::Originated => {
                self.route(parcel)
            }
        }
    }

    /// Where a packet came from; what came in by an interface loses its tags. `None` if that is gone.
    fn origin_of(&self, kind: PuntReason, packet: &mut Held) -> Option<Origin> {
        if kind == PuntReason::Originated {
            return Some(Origin::from_mac(MacAddr(*packet.packet().window(0))));
        }
        let interface = self.take_tags_off(packet)?;
        Some(Origin { interface, vrf: self.control.routing.fib().ingress().vrf_of(interface), is_own: false })
    }

    /// The interface that a packet came in by, whose tags are taken off: all of the slow path looks at frames without. `None` if the
    /// interface is gone.
    fn take_tags_off(&self, packet: &mut Held) -> Option<InterfaceId> {
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
            for told in events {
                match told {
                    Told::Four(Event::Send { interface, to, message, kind }) => {
                        self.send_arp(interface, to, &message, kind)
                    }
                    Told::Six(Event::Send { interface, to, message, kind }) => {
                        self.send_discovery(interface, to, &message, kind)
                    }
                    Told::Four(event) => self.follow(event),
                    Told::Six(event) => self.follow(event),
                }
            }
        }
    }

    /// Lets go what waited for a neighbour that is known now, or never will be.
    fn follow<A: Protocol>(&mut self, event: Event<A>) {
        match event {
            Event::Resolved { interface, address, .. } => self.let_go((interface, address.into())),
            Event::Failed { interface, address } => self.give_up((interface, address.into()), true),
            Event::Removed { interface, address } => self.give_up((interface, address.into()), false),
            Event::Send { .. } | Event::Changed { .. } | Event::DuplicateAddress { .. } | Event::OwnAddress { .. } => {}
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

/// What a packet that a function of a VRF made has for a destination MAC address on its way to the slow path, which says where it is from.
pub(crate) fn made_in(vrf: u16) -> MacAddr {
    Origin { interface: NO_INTERFACE, vrf, is_own: true }.to_mac()
}

/// Bytes of the Ethernet header of a frame without tags.
const HEADER: usize = <Ethernet as weir_wire::View>::LEN;

/// Bytes of both MAC addresses.
const ADDRESSES: usize = 12;
