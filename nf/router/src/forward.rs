//! Stage `NAME.forward`: the fast path, from the received frame to the port that it leaves by.
//!
//! Packets that a router sees all day long are checked 64 at a time by a vector kernel, which asks for their table entries as
//! soon as it knows their destinations; then each is looked up, loses a hop of its TTL, gets a new Ethernet header and is
//! counted. Whatever the kernel refuses is looked at again to name what is wrong with it, or to find who takes care of it.
//!
//! All of it is one stage because the packets' first lines and their addresses are at hand: as two stages the batch would be
//! handed on once more and every buffer header read again, which was measured at 6 to 8 cycles per packet.

use std::sync::Arc;

use weir_packet::{Batch, Key, Lane, LaneId, Packet};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, BATCH, Destinations, NO_FRAME, Station};
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_wire::{Ethernet, Ipv4, MacAddr, View, flow};

use crate::classify::classify;
use crate::counters::{Tally, WorkerCounters};
use crate::fib::{self, Action, Entry, Fib, FibView, Ingress, mac_word};
use crate::punt::{Kind, Policing};

weir_stage::ways! {
    /// Ways out of [`Forward`], before those to the ports.
    pub enum Exit {
        /// The next hop's Ethernet address is not known: the slow path asks for it.
        Unresolved => way "unresolved",
        /// ARP, for the slow path.
        Arp => way "arp",
        /// For one of the router's own addresses.
        Local => way "local",
        /// Has IP options: the slow path carries them out.
        Options => way "options",
        /// Its TTL ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
        /// No route leads there: the slow path answers with Network Unreachable.
        NoRoute => way "no-route",
        /// Longer than the next hop's MTU: the slow path takes it apart, or answers with Fragmentation Needed.
        TooBig => way "too-big",
        /// Shorter than an Ethernet header.
        TooShort => drop "too-short",
        /// Its destination MAC address is another station's.
        NotForUs => drop "not-for-us",
        /// Its EtherType is neither IPv4 nor ARP.
        UnknownEthertype => drop "unknown-ethertype",
        /// Fewer than the 20 bytes of an IPv4 header arrived.
        IpTooShort => drop "ip-too-short",
        /// The version field is not 4.
        IpVersion => drop "ip-version",
        /// The header length field is below 5 words.
        IpHeaderLength => drop "ip-header-length",
        /// The IPv4 header checksum is wrong.
        IpChecksum => drop "ip-checksum",
        /// The total length is less than the header length.
        IpTotalLength => drop "ip-total-length",
        /// The total length is more than what arrived.
        IpTruncated => drop "ip-truncated",
        /// Its source address is one that no host has (RFC 1812 section 5.3.7).
        MartianSource => drop "martian-source",
        /// Its destination address is one that no packet may carry (RFC 1812 section 5.3.7).
        MartianDestination => drop "martian-destination",
        /// From or to a link-local address, which a router must not forward (RFC 3927 section 7).
        LinkLocal => drop "link-local",
        /// To a multicast address; multicast is not routed.
        Multicast => drop "multicast",
        /// To 255.255.255.255, where nothing in this router listens.
        Broadcast => drop "broadcast",
        /// Sent to all stations of the link though its IPv4 destination is a single host (RFC 1812 section 5.3.4).
        LinkBroadcast => drop "link-broadcast",
        /// To the broadcast or network address of a connected network (RFC 2644).
        DirectedBroadcast => drop "directed-broadcast",
        /// More ARP than the slow path takes from a worker.
        PolicedArp => drop "punt-policed-arp",
        /// More for the router's own addresses than the slow path takes from a worker.
        PolicedLocal => drop "punt-policed-local",
        /// More to hosts whose Ethernet address is not known than the slow path takes from a worker.
        PolicedUnresolved => drop "punt-policed-unresolved",
        /// More at the end of their TTL than the slow path takes from a worker.
        PolicedTtlExpired => drop "punt-policed-ttl-expired",
        /// More without a route than the slow path takes from a worker.
        PolicedNoRoute => drop "punt-policed-no-route",
        /// More beyond the next hop's MTU than the slow path takes from a worker.
        PolicedTooBig => drop "punt-policed-too-big",
        /// More with IP options than the slow path takes from a worker.
        PolicedOptions => drop "punt-policed-options",
    }
}

/// The least Ethernet frame without its check sequence: what is shorter is filled up on the wire.
const LEAST_FRAME: usize = 60;

/// Bytes of an Ethernet header and the fixed part of an IPv4 header.
const HEADERS: usize = Ethernet::LEN + Ipv4::LEN;

/// The fast path.
pub(crate) struct Forward<T> {
    shared: Shared<T>,
    kernel: Kernel,
    ports: usize,
    kind: Key<Kind>,
    policing: Policing,
    destinations: Destinations,
}

/// What packets are looked up in and counted by.
pub(crate) struct Shared<T> {
    pub(crate) table: Arc<T>,
    pub(crate) fib: Arc<Fib>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// What flows are hashed with.
    pub(crate) seed: u64,
}

impl<T: Lookup4> Forward<T> {
    /// Sends out of `ports` ports, and to the slow path as much as `policing` allows.
    pub(crate) fn new(
        shared: Shared<T>,
        kernel: Kernel,
        ports: usize,
        policing: Policing,
        kind: Key<Kind>,
    ) -> Forward<T> {
        Forward { shared, kernel, ports, kind, policing, destinations: Destinations::default() }
    }

    /// The mask of packets that may be forwarded without a second look. Their destinations are noted, and `values` is prepared
    /// for looking them up.
    #[inline(always)]
    fn check(&mut self, batch: &Batch, count: usize, values: &mut [u32; BATCH]) -> u64 {
        let mut frames = [&NO_FRAME; BATCH];
        let mut lengths = [0u16; BATCH];
        let (table, destinations) = (&*self.shared.table, &mut self.destinations);
        batch.each_ref(|slot, packet| {
            let frame = packet.window(0);
            let destination = frame_check::destination_of(frame);
            table.prefetch(destination);
            destinations.0[slot.index()] = destination;
            frames[slot.index()] = frame;
            // Buffers are far shorter than 64 KiB.
            lengths[slot.index()] = packet.len() as u16;
        });
        table.approach(destinations.0.get(..count).unwrap_or_default(), values);
        let ingress = self.shared.fib.ingress();
        let common = common_port(&batch.lanes.port).and_then(|port| ingress.station(port));
        let station = common.unwrap_or(Station::ANY);
        let good = frame_check::check(self.kernel, station, &frames, &lengths, &self.destinations, count);
        if common.is_some() { good } else { good & ours(batch, ingress) }
    }

    /// Takes care of the packets that were not simply forwarded: the kernel refused them (those not in `good`), or their route
    /// leads elsewhere.
    #[inline(never)]
    fn sort_out(&mut self, batch: &mut Batch, mask: u64, good: u64, out: &mut Out<'_>) {
        let mut allowance = self.policing.batch(out.now());
        let (shared, key) = (&self.shared, self.kind);
        batch.each_in(mask, |slot, packet, lanes| {
            let is_good = good & slot.bit() != 0;
            match shared.find_out(packet, lanes.port[slot], is_good) {
                Ok(port) => out.answer_indexed(slot, port),
                Err(exit) => match exit.punted() {
                    Some((kind, _)) if allowance.pass(kind) => {
                        lanes.set(key, slot, kind);
                        out.answer(slot, exit);
                    }
                    Some((_, too_much)) => out.answer(slot, too_much),
                    None => out.answer(slot, exit),
                },
            }
        });
    }

    /// Looks up the packets in `good`, and forwards those whose route leads to a next hop; returns their mask.
    #[inline(always)]
    fn forward(&self, batch: &mut Batch, good: u64, count: usize, values: &mut [u32; BATCH], out: &mut Out<'_>) -> u64 {
        let shared = &self.shared;
        let from = self.destinations.0.get(..count).unwrap_or_default();
        let mut late = shared.table.lookup_first(from, values) & good;
        let (mut part, mut gone) = (good & !late, 0);
        loop {
            if values.iter().fold(0, |any, value| any | value) & fib::GROUP != 0 {
                shared.choose(batch, values);
            }
            gone |= shared.path().forward_batch(batch, part, values, out);
            if late == 0 {
                return gone;
            }
            // Those whose values the table does not have at hand come last: their lines have the time that the others take.
            shared.table.lookup_rest(from, values, late);
            (part, late) = (late, 0);
        }
    }

    /// One pass over a batch.
    #[inline(always)]
    fn pass(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let count = BATCH - batch.live().leading_zeros() as usize;
        let mut values = [0; BATCH];
        let good = self.check(batch, count, &mut values);
        batch.lanes.l3.all_mut().fill(Ethernet::LEN as u8);
        let gone = self.forward(batch, good, count, &mut values, out);
        let rest = batch.live() & !gone;
        if rest != 0 {
            self.sort_out(batch, rest, good, out);
        }
    }
}

impl<T: Lookup4> Shared<T> {
    /// What forwarding needs for every packet.
    #[inline(always)]
    fn path(&self) -> Path<'_> {
        // One number for both, so that a place needs to be checked once.
        let places = self.fib.places().min(self.counters.places());
        Path { fib: self.fib.view(places), counters: self.counters.view(places) }
    }

    /// What becomes of a valid packet that is not simply forwarded: its route leads to a group, or elsewhere.
    fn forward_otherwise(&self, packet: &mut Packet, value: u32) -> Result<u8, Exit> {
        let hash = || flow::hash(packet.window::<64>(Ethernet::LEN), packet.len() - Ethernet::LEN, self.seed);
        let place = self.fib.place(value, hash);
        match self.fib.entry(place).action() {
            Action::Forward => self.path().forward(packet, place).map_or_else(
                || {
                    trim(packet);
                    self.path().forward(packet, place).ok_or(Exit::TooBig)
                },
                Ok,
            ),
            Action::NoRoute => Err(Exit::NoRoute),
            Action::Local => Err(Exit::Local),
            Action::Unresolved => Err(Exit::Unresolved),
            Action::Broadcast => Err(Exit::DirectedBroadcast),
            Action::LinkLocal => Err(Exit::LinkLocal),
        }
    }

    /// Lets the groups among the values choose next hops by the packets' flows.
    #[inline(never)]
    fn choose(&self, batch: &Batch, values: &mut [u32; BATCH]) {
        batch.each_ref(|slot, packet| {
            let length = packet.len().saturating_sub(Ethernet::LEN);
            let hash = || flow::hash(packet.window::<64>(Ethernet::LEN), length, self.seed);
            let value = &mut values[slot.index()];
            *value = self.fib.place(*value, hash);
        });
    }

    /// What becomes of a packet that came in by `port`. If `is_good`, nothing but its route can speak against forwarding it.
    fn find_out(&self, packet: &mut Packet, port: u16, is_good: bool) -> Result<u8, Exit> {
        if !is_good && let Some(exit) = classify(&*self.table, &self.fib, packet, port) {
            return Err(exit);
        }
        let destination = Ipv4::view(packet.window::<20>(Ethernet::LEN)).map_or(0, |ip| ip.destination.get());
        self.forward_otherwise(packet, self.table.lookup(destination))
    }
}

impl<T: Lookup4> Stage for Forward<T> {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
            .indexed("port", self.ports)
            .reads(&[LaneId::Port])
            .writes(&[LaneId::L3, self.kind.into()])
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        // Compiled for what the CPU has, which saves an instruction here and there in every loop.
        self.kernel.run(
            #[inline(always)]
            || self.pass(batch, out),
        );
    }
}

/// What forwarding needs for every packet, at hand.
#[derive(Clone, Copy)]
struct Path<'p> {
    fib: FibView<'p>,
    counters: Tally<'p>,
}

impl Path<'_> {
    /// Forwards the packets in `good` whose place is a next hop; returns their mask.
    #[inline(always)]
    fn forward_batch(self, batch: &mut Batch, good: u64, places: &[u32; BATCH], out: &mut Out<'_>) -> u64 {
        let first = places[good.trailing_zeros() as usize % BATCH];
        let is_one = places.iter().zip(0..).fold(0, |same, (&place, slot)| same | u64::from(place == first) << slot);
        if good & !is_one == 0 {
            return self.forward_alike(batch, good, first, out);
        }
        let mut ports = [0; BATCH];
        let mut left = 0;
        batch.each_in(good, |slot, packet, _| match self.forward(packet, places[slot.index()]) {
            Some(port) => ports[slot.index()] = port,
            None => left |= slot.bit(),
        });
        out.answer_indexed_each(good & !left, &ports);
        good & !left
    }

    /// The same for packets that all go to one place: it is looked at once, and counted once. Counting packet after packet to
    /// one place would wait for each store to come back.
    #[inline(always)]
    fn forward_alike(self, batch: &mut Batch, good: u64, place: u32, out: &mut Out<'_>) -> u64 {
        let Some(entry) = self.fib.entry(place) else { return 0 };
        let Some(port) = entry.egress() else { return 0 };
        let egress = self.fib.egress(port);
        let (longest, source) = (egress.longest_frame(), egress.source_word());
        let (mut left, mut bytes) = (0, 0);
        batch.each_in(good, |slot, packet, _| {
            let len = packet.len();
            if len > longest {
                left |= slot.bit();
            } else {
                rewrite(packet.window_mut(0), entry, source);
                bytes += len as u64;
            }
        });
        let gone = good & !left;
        self.counters.count(place, u64::from(gone.count_ones()), bytes);
        out.answer_indexed_each(gone, &[port; BATCH]);
        gone
    }

    /// Forwards one packet out of a port; `None` if something else is to be done with it.
    #[inline(always)]
    fn forward(self, packet: &mut Packet, place: u32) -> Option<u8> {
        let entry = self.fib.entry(place)?;
        let port = entry.egress()?;
        let egress = self.fib.egress(port);
        let len = packet.len();
        // The packet on the wire is at least as long as its total length says, so that this settles the MTU for both.
        if len > egress.longest_frame() {
            return None;
        }
        rewrite(packet.window_mut(0), entry, egress.source_word());
        self.counters.count(place, 1, len as u64);
        Some(port)
    }
}

/// The port that all packets of a batch came in by, if it is one.
#[inline(always)]
fn common_port(ports: &Lane<u16>) -> Option<u16> {
    let ports = ports.all();
    let first = ports[0];
    let differ = ports.iter().fold(0, |differ, port| differ | (port ^ first));
    (differ == 0).then_some(first)
}

/// The mask of packets to the station of the port that each came in by.
#[inline(never)]
fn ours(batch: &Batch, ingress: &Ingress) -> u64 {
    let mut ours = 0;
    batch.each_ref(|slot, packet| {
        let is_ours = mac_word(MacAddr(*packet.window(0))) == ingress.mac_word(batch.lanes.port[slot]);
        ours |= u64::from(is_ours) << slot.index();
    });
    ours
}

impl Exit {
    /// What the slow path is asked for, and the reason if that is too much; `None` for drops.
    fn punted(self) -> Option<(Kind, Exit)> {
        Some(match self {
            Exit::Arp => (Kind::Arp, Exit::PolicedArp),
            Exit::Local => (Kind::Local, Exit::PolicedLocal),
            Exit::Unresolved => (Kind::Unresolved, Exit::PolicedUnresolved),
            Exit::TtlExpired => (Kind::TtlExpired, Exit::PolicedTtlExpired),
            Exit::NoRoute => (Kind::NoRoute, Exit::PolicedNoRoute),
            Exit::TooBig => (Kind::TooBig, Exit::PolicedTooBig),
            Exit::Options => (Kind::Options, Exit::PolicedOptions),
            _ => return None,
        })
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
        *first = entry.front();
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
