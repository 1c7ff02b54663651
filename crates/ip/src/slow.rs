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
mod host;
mod lines;
mod options;
mod parcel;
mod redirect;
mod route;
mod source;

use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Waker;

use weir_net::neighbor::{Event, Protocol};
use weir_net::pending::Pending;
use weir_net::reassembly::Reassembly;
use weir_packet::{Batch, Held, Key, LaneId, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ethernet, MacAddr, View};

pub(crate) use exit::Exit;

use crate::fast::inlet::InletKeys;
use crate::fast::punt::PuntReason;
use crate::lines::{Punt, Side};
use crate::state::Told;
use crate::state::shared::{Hold, Shared, lock};
use crate::{InterfaceId, NO_INTERFACE, Tags};
use fragments::Original;
use parcel::{Origin, Parcel};

/// The longest that a change made by a request may wait for the slow path to act on it, nanoseconds.
const ATTENTION: u64 = 10_000_000;

/// How long frames of Linux's may wait that were too many for one call, nanoseconds. Others are heard at once.
const ATTENTION_TO_LINUX: u64 = 150_000;

/// A neighbour: an interface and an address on its link.
type NeighborKey = (InterfaceId, IpAddr);

/// The control side's share of packets.
pub(crate) struct SlowPath {
    shared: Arc<Shared>,
    waiting: Pending<NeighborKey, Parcel>,
    fragments: Reassembly<Parcel, Original>,
    kind: Key<Punt>,
    inlet: Option<InletKeys>,
    ports: usize,
    seed: u64,
    /// Since when a frame of Linux's finds no room behind its port.
    stuck: Option<u64>,
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
struct Call<'a, 'o> {
    control: Hold<'a>,
    waiting: &'a mut Pending<NeighborKey, Parcel>,
    fragments: &'a mut Reassembly<Parcel, Original>,
    out: &'a mut Out<'o>,
    kind: Key<Punt>,
    inlet: Option<InletKeys>,
    seed: u64,
    stuck: &'a mut Option<u64>,
    identification: &'a mut u32,
    secret: &'a RandomState,
}

impl SlowPath {
    pub(crate) fn new(
        shared: Arc<Shared>,
        room: &Room,
        (kind, inlet): (Key<Punt>, Option<InletKeys>),
        ports: usize,
        seed: u64,
    ) -> SlowPath {
        let waiting = Pending::new(room.per_neighbor, room.waiting);
        let fragments = Reassembly::new(room.fragments);
        let (stuck, secret) = (None, RandomState::new());
        SlowPath { shared, waiting, fragments, kind, inlet, ports, seed, stuck, identification: 0, secret }
    }

    fn call<'a, 'o>(&'a mut self, out: &'a mut Out<'o>) -> Call<'a, 'o> {
        let SlowPath { shared, waiting, fragments, kind, inlet, seed, stuck, identification, secret, .. } = self;
        let (kind, inlet, seed) = (*kind, *inlet, *seed);
        Call { control: lock(shared), waiting, fragments, out, kind, inlet, seed, stuck, identification, secret }
    }
}

/// What [`SlowPath`] declares.
pub(crate) fn declaration(ports: usize, kind: Key<Punt>, inlet: Option<InletKeys>) -> Declaration {
    let declaration = Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port, kind.into()]).polled();
    inlet.map_or(declaration.clone(), |keys| declaration.writes(&keys.lanes()))
}

impl Stage for SlowPath {
    fn declare(&self) -> Declaration {
        declaration(self.ports, self.kind, self.inlet)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let mut call = self.call(out);
        // What a request changed since the last call comes first: it must not hit packets that came after it.
        call.work_off();
        for slot in batch.slots() {
            let punt = batch.lanes.get(call.kind, slot);
            if let Some(packet) = batch.hold(slot) {
                call.handle(punt, packet);
            }
        }
        call.work_off();
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        let mut call = self.call(out);
        call.hear_linux();
        let is_more = call.control.hosts.all_frames().any(|frames| frames.has_of_linux());
        let later = call.out.look_again(if is_more { ATTENTION_TO_LINUX } else { ATTENTION });
        let next = call.control.tick(now).min(call.expire_fragments());
        let next = next.min(call.announce());
        call.work_off();
        next.min(later)
    }

    fn woken_by(&mut self, waker: &Waker) {
        lock(&self.shared).hosts.all_frames().for_each(|frames| frames.heard_by(waker));
    }

    fn held(&self) -> u64 {
        (self.waiting.held() + self.fragments.held()) as u64
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.waiting.clear(&mut |parcel| give(parcel.packet));
        self.fragments.clear().into_iter().for_each(|parcel| give(parcel.packet));
    }
}

impl Call<'_, '_> {
    fn handle(&mut self, punt: Punt, mut packet: Held) {
        let Some(origin) = self.origin_of(punt, &mut packet) else {
            return self.out.send(packet, Exit::InterfaceGone);
        };
        let parcel = Parcel { packet, origin };
        if let Some(line) = origin.line.filter(|line| line.side == Side::To) {
            return self.stopped_before_line(parcel, line, punt.reason);
        }
        match punt.reason {
            PuntReason::Arp => self.arp(parcel),
            PuntReason::Nd => self.discovery(parcel),
            PuntReason::Local => self.arrive(parcel),
            PuntReason::Host => self.give_to_linux(parcel),
            PuntReason::TtlExpired => self.ttl_expired(parcel),
            PuntReason::NoRoute => self.no_route(parcel),
            PuntReason::BeyondScope => self.beyond_scope(parcel),
            PuntReason::Options => self.options(parcel),
            PuntReason::TurnsRound => self.redirect(parcel),
            PuntReason::Unresolved | PuntReason::TooBig | PuntReason::Rejected | PuntReason::Originated => {
                self.route(parcel)
            }
            // Functions' own, which they do not hand on.
            PuntReason::UnknownSource | PuntReason::Fragment | PuntReason::Interface => {
                self.end(parcel, Exit::Undecided)
            }
        }
    }

    /// Where a packet came from; what came in by an interface loses its tags. `None` if that is gone.
    fn origin_of(&self, punt: Punt, packet: &mut Held) -> Option<Origin> {
        if let Some(line) = punt.line {
            let (interface, vrf) = self.control.lines.interface();
            let station = Ethernet::view(packet.packet().bytes()).map_or(MacAddr::ZERO, |header| header.source);
            return Some(Origin { station, line: Some(line), ..Origin::of(interface, vrf) });
        }
        if punt.reason == PuntReason::Originated {
            return Some(Origin::from_mac(MacAddr(*packet.packet().window(0))));
        }
        let interface = self.take_tags_off(packet)?;
        let vrf = self.control.routing.fib().ingress().vrf_of(interface);
        Some(Origin { chosen: punt.chosen, ..Origin::of(interface, vrf) })
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
            Event::Resolved { interface, address, mac } => {
                self.tell_linux(interface, address, Some(mac));
                self.let_go((interface, address.into()));
            }
            Event::Failed { interface, address } => {
                self.tell_linux(interface, address, None);
                self.give_up((interface, address.into()), true);
            }
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
    Origin::of(NO_INTERFACE, vrf).own().to_mac()
}

/// Bytes of the Ethernet header of a frame without tags.
const HEADER: usize = <Ethernet as weir_wire::View>::LEN;

/// Bytes of both MAC addresses.
const ADDRESSES: usize = 12;
