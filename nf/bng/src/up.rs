//! Stage `NAME.up`: from customers to the core.
//!
//! Packets are looked at 64 at a time, and in turns, so that memory is asked for one turn before it is needed: first the headers
//! are read, and the lines of tags, routes and headroom asked for; then the vector kernel checks all headers; then tags lead to
//! records, records to counters; at last packets are wrapped and counted. Whatever is not plain is looked at again one by one
//! ([`examine`](crate::examine)).

use std::sync::Arc;

use weir_mem::prefetch::prefetch_slice;
use weir_packet::{BATCH, Batch, Key, LaneId, Packet, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, Destinations, NO_FRAME, Station as Pattern};
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_wire::{Ethernet, Ipv4, View, ethernet};

use crate::encap::{Each, MAC_BITS, ROOM, TAGGED};
use crate::examine::{Examined, examine};
use crate::fib::{Action, FibView, Hop, Hops};
use crate::loss::Losses;
use crate::ports::Ports;
use crate::punt::{Kind, Passes, Policing};
use crate::table::counters::{Direction, WorkerCounters};
use crate::table::{SubscriberRecord, Subscribers};

weir_stage::ways! {
    /// Ways out of [`Up`], before those to the ports.
    pub enum Exit {
        /// ARP, for the slow path.
        Arp => way "arp",
        /// Neighbour discovery, for the slow path.
        Nd => way "nd",
        /// For one of the gateway's own addresses.
        Local => way "local",
        /// From an address that the subscriber is not known to have: the slow path learns it, or drops.
        UnknownSource => way "unknown-source",
        /// The MAC address of the next router is not known: the slow path asks for it.
        Unresolved => way "unresolved",
        /// Its TTL ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
        /// No route leads there: the slow path answers with Network Unreachable.
        NoRoute => way "no-route",
        /// Longer than what fits towards the core: the slow path answers with Fragmentation Needed.
        TooBig => way "too-big",
        /// Shorter than an Ethernet header with two tags.
        TooShort => drop "too-short",
        /// Its destination MAC address is another station's.
        NotForUs => drop "not-for-us",
        /// Its outer tag is missing or has another EtherType than the configured one.
        NoSvlan => drop "no-svlan",
        /// It has one tag only.
        NoCvlan => drop "no-cvlan",
        /// Nobody subscribes with these tags on this port.
        UnknownSubscriber => drop "unknown-subscriber",
        /// Its source MAC address is not the one that its subscriber is to use.
        WrongMac => drop "wrong-mac",
        /// Its EtherType is neither IPv4, IPv6 nor ARP.
        UnknownEthertype => drop "unknown-ethertype",
        /// IPv6, for the stage that carries it.
        Ipv6 => way "ipv6",
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
        /// From or to a link-local address, which must not be forwarded (RFC 3927 section 7).
        LinkLocal => drop "link-local",
        /// To a multicast address; multicast is not supported.
        Multicast => drop "multicast",
        /// To 255.255.255.255, where nothing in this gateway listens.
        Broadcast => drop "broadcast",
        /// Sent to all stations of the link though its IPv4 destination is a single host (RFC 1812 section 5.3.4).
        LinkBroadcast => drop "link-broadcast",
        /// Its buffer has no room in front for the headers of the core.
        NoHeadroom => drop "no-headroom",
        /// Its subscriber causes more work for the slow path than one may.
        PolicedSubscriber => drop "punt-policed-subscriber",
        /// More ARP than the slow path takes from a worker.
        PolicedArp => drop "punt-policed-arp",
        /// More neighbour discovery than the slow path takes from a worker.
        PolicedNd => drop "punt-policed-nd",
        /// More for the gateway's own addresses than the slow path takes from a worker.
        PolicedLocal => drop "punt-policed-local",
        /// More from unknown addresses than the slow path takes from a worker.
        PolicedUnknownSource => drop "punt-policed-unknown-source",
        /// More to routers whose MAC address is not known than the slow path takes from a worker.
        PolicedUnresolved => drop "punt-policed-unresolved",
        /// More at the end of their TTL than the slow path takes from a worker.
        PolicedTtlExpired => drop "punt-policed-ttl-expired",
        /// More without a route than the slow path takes from a worker.
        PolicedNoRoute => drop "punt-policed-no-route",
        /// More that does not fit than the slow path takes from a worker.
        PolicedTooBig => drop "punt-policed-too-big",
    }
}

impl Exit {
    /// What the slow path is asked for, and the reason if that is too much; `None` for drops.
    fn punted(self) -> Option<(Kind, Exit)> {
        Some(match self {
            Exit::Arp => (Kind::Arp, Exit::PolicedArp),
            Exit::Nd => (Kind::Nd, Exit::PolicedNd),
            Exit::Local => (Kind::Local, Exit::PolicedLocal),
            Exit::UnknownSource => (Kind::UnknownSource, Exit::PolicedUnknownSource),
            Exit::Unresolved => (Kind::Unresolved, Exit::PolicedUnresolved),
            Exit::TtlExpired => (Kind::TtlExpired, Exit::PolicedTtlExpired),
            Exit::NoRoute => (Kind::NoRoute, Exit::PolicedNoRoute),
            Exit::TooBig => (Kind::TooBig, Exit::PolicedTooBig),
            _ => return None,
        })
    }
}

/// What packets from customers are looked up in and counted by.
pub(crate) struct Shared {
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) fib: FibView,
    pub(crate) ports: Arc<Ports>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// EtherType of the outer tag.
    pub(crate) tpid: u16,
}

/// The way from customers to the core. `TUNNEL` says whether packets are wrapped in GRE.
pub(crate) struct Up<const TUNNEL: bool> {
    shared: Shared,
    kernel: Kernel,
    pattern: Pattern,
    policing: Policing,
    kind: Key<Kind>,
    losses: Losses,
    destinations: Destinations,
    /// The identification of the last packet; `None` where packets have none.
    identification: Option<u16>,
}

/// What is found out about the packets of a batch, turn by turn.
struct Turns {
    /// Port (8 bits), SVLAN (12) and CVLAN (12) of each.
    tags: [u32; BATCH],
    /// MAC addresses that they come from, as little-endian words.
    macs: [u64; BATCH],
    /// Source addresses.
    sources: [u32; BATCH],
    /// Places of their subscribers' records.
    places: [u32; BATCH],
    /// Numbers of their gateways.
    hops: [u32; BATCH],
}

impl<const TUNNEL: bool> Up<TUNNEL> {
    /// Packets get identifications if they `may_fragment` on their way.
    pub(crate) fn new(
        shared: Shared,
        kernel: Kernel,
        policing: Policing,
        kind: Key<Kind>,
        may_fragment: bool,
    ) -> Up<TUNNEL> {
        Up {
            pattern: pattern(shared.tpid),
            shared,
            kernel,
            policing,
            kind,
            losses: Losses::of::<Exit>(),
            destinations: Destinations::default(),
            identification: may_fragment.then_some(0),
        }
    }

    /// The first turn: reads headers, and asks for what they lead to. Answers which packets are sound and for us.
    #[inline(always)]
    fn gather(&mut self, batch: &Batch, count: usize, turns: &mut Turns) -> u64 {
        let mut frames = [&NO_FRAME; BATCH];
        let mut lengths = [0_u16; BATCH];
        let mut ours = 0;
        let (shared, destinations) = (&self.shared, &mut self.destinations);
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                // The line in front of the packet is where its new headers begin.
                prefetch_slice(packet.bytes(), BEFORE);
                let station = shared.ports.ingress(batch.lanes.port[slot]);
                let front = packet.window::<FRONT>(0);
                ours |= u64::from(word(front, 0) & MAC_BITS == station.mac) << slot.index();
                turns.macs[slot.index()] = word(front, 6) & MAC_BITS;
                turns.sources[slot.index()] = source_of(packet);
                // Both tags, from the outer one's identifier to the inner one's.
                let tags = word(front, 12).swap_bytes();
                let (svlan, cvlan) = ((tags >> 32) as u16 & VLAN, tags as u16 & VLAN);
                shared.subscribers.prefetch_tags(station.position, svlan, cvlan);
                turns.tags[slot.index()] =
                    u32::from(station.position) << 24 | u32::from(svlan) << 12 | u32::from(cvlan);
                let frame = packet.window(TAGGED - Ethernet::LEN);
                let destination = frame_check::destination_of(frame);
                shared.fib.prefixes.prefetch(destination);
                destinations.0[slot.index()] = destination;
                frames[slot.index()] = frame;
                // Buffers are far shorter than 64 KiB.
                lengths[slot.index()] = packet.len().saturating_sub(TAGGED - Ethernet::LEN) as u16;
            },
        );
        ours & frame_check::check(self.kernel, self.pattern, &frames, &lengths, &self.destinations, count)
    }

    /// The second and third turn: from tags to records, and from records to counters. Answers which of the packets come from
    /// where they say.
    #[inline(always)]
    fn find(&self, good: u64, turns: &mut Turns) -> u64 {
        let subscribers = &*self.shared.subscribers;
        let mut known = 0;
        for slot in Slots(good) {
            let tags = turns.tags[slot.index()];
            let (svlan, cvlan) = ((tags >> 12 & 0xfff) as u16, (tags & 0xfff) as u16);
            if let Some(place) = subscribers.by_tags((tags >> 24) as u8, svlan, cvlan) {
                subscribers.prefetch_subscriber(place);
                turns.places[slot.index()] = place;
                known |= slot.bit();
            }
        }
        let (mut honest, mut others) = (0, 0);
        for slot in Slots(known) {
            let at = slot.index();
            let Some(record) = subscribers.subscriber(turns.places[at]) else { continue };
            let may_send = record.may_send_from(turns.macs[at]);
            let is_first = record.is_first_source4(turns.sources[at]);
            self.shared.counters.prefetch(record.number());
            honest |= u64::from(may_send & is_first) << at;
            others |= u64::from(may_send & !is_first) << at;
        }
        if others != 0 {
            honest |= self.find_bound(others, turns);
        }
        honest
    }

    /// Which of these packets come from further addresses of their subscribers, entered or learned: looked up in turns, too.
    #[inline(never)]
    fn find_bound(&self, others: u64, turns: &Turns) -> u64 {
        let subscribers = &*self.shared.subscribers;
        let mut keys = [subscribers.key4(0, 0); BATCH];
        let mut places = [0; BATCH];
        for slot in Slots(others) {
            let at = slot.index();
            let Some(record) = subscribers.subscriber(turns.places[at]) else { continue };
            let key = subscribers.key4(record.scope(), turns.sources[at]);
            subscribers.prefetch_bucket(subscribers.hash(key));
            keys[at] = key;
        }
        let mut found = 0;
        for slot in Slots(others) {
            if let Some(place) = subscribers.candidate(subscribers.hash(keys[slot.index()])) {
                subscribers.prefetch_binding(place);
                places[slot.index()] = place;
                found |= slot.bit();
            }
        }
        let mut bound = 0;
        for slot in Slots(found) {
            let at = slot.index();
            let record = subscribers.subscriber(turns.places[at]);
            let binding = subscribers.binding(places[at]).filter(|binding| binding.is(keys[at]));
            let same = record.zip(binding).is_some_and(|(record, binding)| record.number() == binding.subscriber());
            bound |= u64::from(same) << at;
        }
        bound
    }

    /// The last turn: wraps and counts. Answers which packets left.
    #[inline(always)]
    fn send(&mut self, batch: &mut Batch, honest: u64, turns: &Turns, hops: &Hops, out: &mut Out<'_>) -> u64 {
        let (shared, identification) = (&self.shared, &mut self.identification);
        let mut ports = [0; BATCH];
        let mut gone = 0;
        batch.each_in(
            honest,
            #[inline(always)]
            |slot, packet, _| {
                let hop = hops.get(turns.hops[slot.index()]);
                let record = shared.subscribers.subscriber(turns.places[slot.index()]);
                if let (Some(hop), Some(record)) = (hop, record)
                    && let Ok(port) = shared.forward::<TUNNEL>(packet, record, hop, identification)
                {
                    ports[slot.index()] = port;
                    gone |= slot.bit();
                }
            },
        );
        out.answer_indexed_each(gone, &ports);
        gone
    }

    /// One pass over a batch.
    #[inline(always)]
    fn pass(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let fib = self.shared.fib.clone();
        let hops = fib.hops(out.reader());
        let count = BATCH - batch.live().leading_zeros() as usize;
        let mut turns =
            Turns { tags: [0; BATCH], macs: [0; BATCH], sources: [0; BATCH], places: [0; BATCH], hops: [0; BATCH] };
        let good = self.gather(batch, count, &mut turns);
        let honest = self.find(good, &mut turns);
        if let (Some(from), Some(to)) = (self.destinations.0.get(..count), turns.hops.get_mut(..count)) {
            fib.prefixes.lookup_batch(from, to);
        }
        let gone = self.send(batch, honest, &turns, hops, out);
        let rest = batch.live() & !gone;
        if rest != 0 {
            self.sort_out(batch, rest, hops, out);
        }
    }

    /// Takes care of the packets that were not simply forwarded.
    #[inline(never)]
    fn sort_out(&mut self, batch: &mut Batch, mask: u64, hops: &Hops, out: &mut Out<'_>) {
        let Up { shared, policing, kind, losses, identification, .. } = self;
        batch.each_in(mask, |slot, packet, lanes| {
            let Examined { subscriber, fate } = examine(shared, packet, lanes.port[slot], hops);
            let fate = fate.and_then(|(record, hop)| shared.forward::<TUNNEL>(packet, record, hop, identification));
            match fate {
                Ok(port) => out.answer_indexed(slot, port),
                Err(exit) => {
                    let exit = settle(exit, policing, out.now(), subscriber);
                    if let Some((why, _)) = exit.punted() {
                        lanes.set(*kind, slot, why);
                    } else {
                        let nobody = || shared.counters.nobody_at(shared.ports.ingress(lanes.port[slot]).position);
                        losses.count(&shared.counters, subscriber.unwrap_or_else(nobody), exit);
                    }
                    out.answer(slot, exit);
                }
            }
        });
    }
}

/// The way that a packet takes in the end: that to the slow path, if it may.
fn settle(exit: Exit, policing: &mut Policing, now: u64, subscriber: Option<u32>) -> Exit {
    let Some((kind, too_much)) = exit.punted() else { return exit };
    match policing.pass(now, kind, subscriber) {
        Passes::Yes => exit,
        Passes::SubscriberTooMuch => Exit::PolicedSubscriber,
        Passes::KindTooMuch => too_much,
    }
}

/// Bytes of a tagged Ethernet header and the fixed part of an IPv4 header.
const FRONT: usize = TAGGED + Ipv4::LEN;

/// The line before a slice's first byte, as an offset that wraps.
const BEFORE: usize = usize::MAX - 63;

impl Shared {
    /// Wraps a packet that is sound and may go, and counts it; answers the position of the port that it leaves by. Changes nothing
    /// when it answers otherwise.
    #[inline(always)]
    fn forward<const TUNNEL: bool>(
        &self,
        packet: &mut Packet,
        record: SubscriberRecord<'_>,
        hop: &Hop,
        identification: &mut Option<u16>,
    ) -> Result<u8, Exit> {
        if hop.action != Action::Forward {
            return Err(match hop.action {
                Action::Local => Exit::Local,
                Action::Unresolved => Exit::Unresolved,
                Action::Forward | Action::NoRoute => Exit::NoRoute,
            });
        }
        let headroom = packet.headroom();
        let front = packet.window_mut::<FRONT>(0);
        let Some(ip) = Ipv4::view_mut(&mut front[TAGGED..]) else { return Err(Exit::IpTooShort) };
        let total = ip.total_length.get();
        if total > hop.longest {
            return Err(Exit::TooBig);
        }
        if TUNNEL && headroom < ROOM {
            return Err(Exit::NoHeadroom);
        }
        ip.decrement_ttl();
        let tos = ip.tos;
        let len = TAGGED + usize::from(total);
        if packet.len() != len {
            packet.set_len(len);
        }
        if TUNNEL {
            let identification = identification.as_mut().map_or(0, |last| {
                *last = last.wrapping_add(1);
                *last
            });
            hop.head.wrap(packet, Each { key: record.key(), total, tos, identification });
        } else {
            hop.head.bare(packet);
        }
        self.counters.count(record.number(), Direction::Up, len as u64);
        Ok(hop.port)
    }
}

impl<const TUNNEL: bool> Stage for Up<TUNNEL> {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
            .indexed("port", self.shared.ports.list().len())
            .reads(&[LaneId::Port])
            .writes(&[self.kind.into()])
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        // Compiled for what the CPU has, which saves an instruction here and there in every loop.
        self.kernel.run(
            #[inline(always)]
            || self.pass(batch, out),
        );
    }
}

/// What stands in the 14 bytes before a customer's IPv4 header: the end of an address, two tags, the EtherType of IPv4.
fn pattern(tpid: u16) -> Pattern {
    let [t0, t1] = tpid.to_be_bytes();
    let [c0, c1] = ethernet::CVLAN.to_be_bytes();
    let [i0, i1] = ethernet::IPV4.to_be_bytes();
    let value = [0, 0, 0, 0, t0, t1, 0, 0, c0, c1, 0, 0, i0, i1];
    let mask = [0, 0, 0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff];
    Pattern::pattern(value, mask)
}

/// The source address of a customer's packet.
#[inline(always)]
fn source_of(packet: &Packet) -> u32 {
    Ipv4::view(&packet.window::<FRONT>(0)[TAGGED..]).map_or(0, |ip| ip.source.get())
}

/// The bits of an identifier in a tag.
const VLAN: u16 = 0xfff;

/// Eight bytes of the headers, first byte lowest.
#[inline(always)]
fn word(front: &[u8; FRONT], at: usize) -> u64 {
    front.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
