//! Stage `NAME.forward`: finds the route and the next hop, takes a hop off the TTL, rewrites the Ethernet header, counts.
//!
//! Lookup and rewrite are one stage because the packet's first line and its table entry are at hand; as two stages the batch
//! would be handed on once more and every packet looked up in it again.

use std::sync::Arc;

use weir_packet::{Batch, Key, LaneId, Packet, Slot};
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_wire::{Ethernet, Ipv4, View, flow};

use crate::counters::WorkerCounters;
use crate::fib::{Action, Entry, Fib};
use crate::punt::Kind;

weir_stage::ways! {
    /// Ways out of [`Forward`], before those to the ports.
    pub enum Exit {
        /// The next hop's Ethernet address is not known: the slow path asks for it.
        Unresolved => way "unresolved",
        /// For one of the router's own addresses.
        Local => way "local",
        /// No route leads there: the slow path answers with Network Unreachable.
        NoRoute => way "no-route",
        /// Longer than the next hop's MTU: the slow path takes it apart, or answers with Fragmentation Needed.
        TooBig => way "too-big",
        /// To the broadcast or network address of a connected network (RFC 2644).
        DirectedBroadcast => drop "directed-broadcast",
        /// To a link-local address, which a router must not forward (RFC 3927 section 7).
        LinkLocal => drop "link-local",
    }
}

/// The least Ethernet frame without its check sequence: what is shorter is filled up on the wire.
const LEAST_FRAME: usize = 60;

/// Bytes of an Ethernet header and the fixed part of an IPv4 header.
const HEADERS: usize = Ethernet::LEN + Ipv4::LEN;

/// Forwards valid packets.
pub(crate) struct Forward<T> {
    table: Arc<T>,
    fib: Arc<Fib>,
    counters: Arc<WorkerCounters>,
    ports: usize,
    seed: u64,
    kind: Key<Kind>,
    destinations: [u32; 64],
    values: [u32; 64],
}

impl<T: Lookup4> Forward<T> {
    /// Sends out of `ports` ports; equal-cost groups choose by a hash with this seed.
    pub(crate) fn new(
        table: Arc<T>,
        fib: Arc<Fib>,
        counters: Arc<WorkerCounters>,
        ports: usize,
        seed: u64,
        kind: Key<Kind>,
    ) -> Forward<T> {
        Forward { table, fib, counters, ports, seed, kind, destinations: [0; 64], values: [0; 64] }
    }

    #[inline(always)]
    fn look_up(&mut self, batch: &Batch) {
        for slot in batch.slots() {
            let Some(packet) = batch.get(slot) else { continue };
            let destination = packet.window::<4>(Ethernet::LEN + 16);
            self.destinations[slot.index()] = u32::from_be_bytes(*destination);
        }
        let count = 64 - batch.live().leading_zeros() as usize;
        if let (Some(from), Some(to)) = (self.destinations.get(..count), self.values.get_mut(..count)) {
            self.table.lookup_batch(from, to);
        }
    }

    /// Forwards one packet out of a port; `None` if something else is to be done with it.
    #[inline(always)]
    fn forward(&self, packet: &mut Packet, place: u32) -> Option<u8> {
        let entry = self.fib.entry(place);
        let egress = self.fib.egress(entry.port());
        let len = packet.len();
        // The packet on the wire is at least as long as its total length says, so that this settles the MTU for both.
        if !entry.is_forward() || len > egress.mtu() + Ethernet::LEN {
            return None;
        }
        rewrite(packet.window_mut(0), entry, egress.source_word());
        self.counters.count(place, len as u64);
        Some(entry.port())
    }

    /// Takes care of a packet that is not simply forwarded.
    #[inline(never)]
    fn sort_out(&self, packet: &mut Packet, place: u32) -> Result<u8, (Exit, Kind)> {
        let entry = self.fib.entry(place);
        match entry.action() {
            Action::Forward => {
                trim(packet);
                self.forward(packet, place).ok_or((Exit::TooBig, Kind::TooBig))
            }
            Action::NoRoute => Err((Exit::NoRoute, Kind::NoRoute)),
            Action::Local => Err((Exit::Local, Kind::Local)),
            Action::Unresolved => Err((Exit::Unresolved, Kind::Unresolved)),
            Action::Broadcast => Err((Exit::DirectedBroadcast, Kind::Local)),
            Action::LinkLocal => Err((Exit::LinkLocal, Kind::Local)),
        }
    }
}

impl<T: Lookup4> Stage for Forward<T> {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().indexed("port", self.ports).reads(&[LaneId::L3]).updates(&[self.kind.into()])
    }

    #[inline]
    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.look_up(batch);
        let this = &*self;
        batch.each(|slot: Slot, packet, lanes| {
            let hash = || flow::hash(packet.window::<64>(Ethernet::LEN), packet.len() - Ethernet::LEN, this.seed);
            let place = this.fib.place(this.values[slot.index()], hash);
            let port = match this.forward(packet, place) {
                Some(port) => Ok(port),
                None => this.sort_out(packet, place),
            };
            match port {
                Ok(port) => out.answer_indexed(slot, port),
                Err((exit, kind)) => {
                    lanes.set(this.kind, slot, kind);
                    out.answer(slot, exit);
                }
            }
        });
    }
}

/// Takes a hop off the TTL and writes the new Ethernet header, by two words that overlap.
#[inline(always)]
fn rewrite(front: &mut [u8; HEADERS], entry: Entry, source: u64) {
    let (ethernet, ip) = front.split_at_mut(Ethernet::LEN);
    if let Some(ip) = Ipv4::view_mut(ip) {
        ip.decrement_ttl();
    }
    if let Some(first) = ethernet.first_chunk_mut::<8>() {
        *first = (entry.mac_word() | source << 48).to_le_bytes();
    }
    if let Some(last) = ethernet.last_chunk_mut::<8>() {
        *last = source.to_le_bytes();
    }
}

/// Cuts off what follows the IP packet, but for what fills up the least Ethernet frame.
fn trim(packet: &mut Packet) {
    let total = Ipv4::view(packet.window::<20>(Ethernet::LEN)).map_or(0, Ipv4::total_len);
    let end = (Ethernet::LEN + total).max(LEAST_FRAME);
    if packet.len() > end {
        packet.set_len(end);
    }
}
