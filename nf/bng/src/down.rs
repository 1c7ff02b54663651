//! Stage `NAME.down`: from the core to customers.
//!
//! As upstream, packets are looked at 64 at a time and in turns: first labels are walked and headers read, and the bucket of (key,
//! destination) is asked for; then the vector kernel checks the outer and the inner headers; then buckets lead to bindings, and
//! bindings to counters; at last packets get the tags of their customers. What is not plain is looked at again one by one
//! ([`unwrap`](crate::unwrap)).

use std::sync::Arc;

use weir_packet::{BATCH, Batch, Key, LaneId, Packet, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, Destinations, NO_FRAME, Station as Pattern};
use weir_stage::{Declaration, Out, Stage};
use weir_table::exact::Hash;
use weir_wire::mpls::Label;
use weir_wire::{Ethernet, Ipv4, View, checksum, ethernet, ipv4};

use crate::encap::{GRE_IPV4, MAC_BITS, TAGGED, TUNNEL as TUNNEL_BYTES, Tagged, priority_word};
use crate::loss::Losses;
use crate::ports::Ports;
use crate::punt::{Kind, Passes, Policing};
use crate::table::counters::{Direction, WorkerCounters};
use crate::table::{BindingKey, BindingRecord, Subscribers};
use crate::unwrap::{Inner, unwrap};

weir_stage::ways! {
    /// Ways out of [`Down`], before those to the ports.
    pub enum Exit {
        /// ARP, for the slow path.
        Arp => way "arp",
        /// For the gateway itself, and not in a tunnel.
        Local => way "local",
        /// Nobody is known to have the destination, or the MAC address of who has it is not known: the slow path asks for it, or drops.
        Unresolved => way "unresolved",
        /// Its TTL ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
        /// Longer than what fits towards the customer: the slow path answers with Fragmentation Needed.
        TooBig => way "too-big",
        /// A fragment of an outer packet: the slow path puts them together.
        Fragment => way "fragment",
        /// IPv6, for the stage that carries it.
        Ipv6 => way "ipv6",
        /// Shorter than an Ethernet header.
        TooShort => drop "too-short",
        /// Its destination MAC address is another station's.
        NotForUs => drop "not-for-us",
        /// Its EtherType is neither MPLS, IPv4, IPv6 nor ARP.
        UnknownEthertype => drop "unknown-ethertype",
        /// Its label stack ends with the frame, without a bottom.
        MplsTruncated => drop "mpls-truncated",
        /// More than eight labels.
        MplsTooDeep => drop "mpls-too-deep",
        /// The outer IPv4 header is not valid (RFC 1812 section 5.2.2), or its source is one that no host has.
        OuterInvalid => drop "outer-ip-invalid",
        /// The outer IPv4 destination is not the gateway's end of a tunnel.
        OuterDestination => drop "outer-destination",
        /// Fewer than the 8 bytes of a GRE header with a key arrived.
        GreTruncated => drop "gre-truncated",
        /// The GRE header has no key.
        GreNoKey => drop "gre-no-key",
        /// The GRE header has a checksum, which no tunnel here was agreed to have.
        GreChecksum => drop "gre-checksum",
        /// The GRE header has a sequence number, which no tunnel here was agreed to have.
        GreSequence => drop "gre-sequence",
        /// Other bits of the first word of the GRE header are set, such as another version's.
        GreFlags => drop "gre-flags",
        /// The GRE payload is neither IPv4 nor IPv6.
        GreProtocol => drop "gre-protocol",
        /// Congestion was marked on the way of a packet whose ends do not understand it (RFC 6040 section 4.2).
        Congestion => drop "congestion",
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
        /// To 255.255.255.255.
        Broadcast => drop "broadcast",
        /// Its buffer has no room for the headers of the access side.
        NoHeadroom => drop "no-headroom",
        /// Its subscriber causes more work for the slow path than one may.
        PolicedSubscriber => drop "punt-policed-subscriber",
        /// More ARP than the slow path takes from a worker.
        PolicedArp => drop "punt-policed-arp",
        /// More for the gateway's own addresses than the slow path takes from a worker.
        PolicedLocal => drop "punt-policed-local",
        /// More to addresses that are not known than the slow path takes from a worker.
        PolicedUnresolved => drop "punt-policed-unresolved",
        /// More at the end of their TTL than the slow path takes from a worker.
        PolicedTtlExpired => drop "punt-policed-ttl-expired",
        /// More that does not fit than the slow path takes from a worker.
        PolicedTooBig => drop "punt-policed-too-big",
        /// More fragments of outer packets than the slow path takes from a worker.
        PolicedFragment => drop "punt-policed-fragment",
    }
}

impl Exit {
    /// What the slow path is asked for, and the reason if that is too much; `None` for drops.
    fn punted(self) -> Option<(Kind, Exit)> {
        Some(match self {
            Exit::Arp => (Kind::Arp, Exit::PolicedArp),
            Exit::Local => (Kind::Local, Exit::PolicedLocal),
            Exit::Unresolved => (Kind::Unresolved, Exit::PolicedUnresolved),
            Exit::TtlExpired => (Kind::TtlExpired, Exit::PolicedTtlExpired),
            Exit::TooBig => (Kind::TooBig, Exit::PolicedTooBig),
            Exit::Fragment => (Kind::Fragment, Exit::PolicedFragment),
            _ => return None,
        })
    }
}

/// What packets from the core are looked up in and counted by.
pub(crate) struct Shared {
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) ports: Arc<Ports>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) marking: Marking,
    /// The gateway's end of tunnels.
    pub(crate) local: u32,
    /// The gateway's own addresses, sorted.
    pub(crate) own: Vec<u32>,
}

/// What packets to customers are marked with, by the DSCP that they came with.
pub(crate) struct Marking {
    /// The DSCP that they leave with.
    dscp: [u8; 64],
    /// Their priority, where it stands in tags.
    priority: [u64; 64],
    /// Whether any DSCP changes.
    remarks: bool,
}

impl Marking {
    /// DSCPs change as `dscp` says, and the priority is that which `pcp` has for the new one.
    pub(crate) fn new(dscp: impl Fn(u8) -> u8, pcp: impl Fn(u8) -> u8) -> Marking {
        let new: [u8; 64] = std::array::from_fn(|old| dscp(old as u8) & 63);
        let priority = new.map(|dscp| priority_word(pcp(dscp)));
        let remarks = (0..).zip(&new).any(|(old, new): (u8, &u8)| old != *new);
        Marking { dscp: new, priority, remarks }
    }

    /// The priority of a packet with this type of service.
    #[inline(always)]
    fn priority(&self, tos: u8) -> u64 {
        self.priority[usize::from(tos >> 2)]
    }

    /// Gives a packet its new DSCP.
    #[inline(always)]
    fn remark(&self, ip: &mut Ipv4) {
        if self.remarks {
            set_tos(ip, self.dscp[usize::from(ip.tos >> 2)] << 2 | ip.tos & 3);
        }
    }
}

/// Changes the type of service and mends the checksum (RFC 1624).
pub(crate) fn set_tos(ip: &mut Ipv4, tos: u8) {
    let word = |tos: u8| u16::from_be_bytes([ip.version_ihl, tos]);
    let sum = checksum::update(ip.checksum.get(), word(ip.tos), word(tos));
    ip.tos = tos;
    ip.checksum = sum.into();
}

/// The way from the core to customers. `TUNNEL` says whether packets are wrapped in GRE.
pub(crate) struct Down<const TUNNEL: bool> {
    shared: Shared,
    kernel: Kernel,
    pattern: Pattern,
    policing: Policing,
    kind: Key<Kind>,
    losses: Losses,
    outer: Destinations,
    inner: Destinations,
}

/// What is found out about the packets of a batch, turn by turn.
struct Turns {
    /// GRE keys of each.
    keys: [u32; BATCH],
    hashes: [Hash; BATCH],
    /// Where their inner packets begin.
    offsets: [u8; BATCH],
    /// Places of their bindings' records.
    places: [u32; BATCH],
}

/// Labels that are walked.
pub(crate) const MOST_LABELS: usize = 8;

/// Where the IPv4 header of a frame begins, behind its labels; 0 if it is not plain.
#[inline(always)]
fn behind_labels(packet: &Packet, ethertype: u16) -> usize {
    if ethertype == ethernet::IPV4 {
        return Ethernet::LEN;
    }
    if ethertype != ethernet::MPLS {
        return 0;
    }
    let labels = packet.window::<{ MOST_LABELS * 4 }>(Ethernet::LEN);
    let (labels, _) = labels.as_chunks::<4>();
    let bottom = labels.iter().position(|[_, _, bottom, _]| bottom & 1 == 1);
    bottom.map_or(0, |at| Ethernet::LEN + Label::LEN * (at + 1))
}

impl<const TUNNEL: bool> Down<TUNNEL> {
    pub(crate) fn new(shared: Shared, kernel: Kernel, policing: Policing, kind: Key<Kind>) -> Down<TUNNEL> {
        Down {
            pattern: pattern(shared.local),
            shared,
            kernel,
            policing,
            kind,
            losses: Losses::of::<Exit>(),
            outer: Destinations::default(),
            inner: Destinations::default(),
        }
    }

    /// The first turn: reads headers, and asks for what they lead to. Answers which packets are sound and for us.
    #[inline(always)]
    fn gather(&mut self, batch: &Batch, count: usize, turns: &mut Turns) -> u64 {
        let mut outer_frames = [&NO_FRAME; BATCH];
        let mut inner_frames = [&NO_FRAME; BATCH];
        let mut outer_lengths = [0_u16; BATCH];
        let mut inner_lengths = [0_u16; BATCH];
        let mut plain = 0;
        let Down { shared, outer, inner, .. } = self;
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                let at = slot.index();
                let [a, b, c, d, e, f, .., t0, t1] = packet.window::<{ Ethernet::LEN }>(0);
                let mac = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0]);
                let ours = mac == shared.ports.ingress(batch.lanes.port[slot]).mac;
                let offset = behind_labels(packet, u16::from_be_bytes([*t0, *t1]));
                // Buffers are far shorter than 64 KiB.
                let length = (packet.len() as u16).saturating_sub(offset as u16);
                let (mut key, mut inside, mut inner_length, mut is_plain) = (0, offset, length, true);
                if TUNNEL {
                    let tunnel = packet.window::<TUNNEL_BYTES>(offset);
                    (inside, inner_length, is_plain) =
                        (offset + TUNNEL_BYTES, inner_length_of(tunnel), is_tunnel(tunnel));
                    key = tunnel.last_chunk().map_or(0, |key| u32::from_be_bytes(*key));
                    let frame = packet.window(offset.wrapping_sub(Ethernet::LEN));
                    outer.0[at] = frame_check::destination_of(frame);
                    outer_frames[at] = frame;
                    outer_lengths[at] = length.saturating_add(Ethernet::LEN as u16);
                }
                let frame = packet.window(inside.wrapping_sub(Ethernet::LEN));
                let destination = frame_check::destination_of(frame);
                inner.0[at] = destination;
                inner_frames[at] = frame;
                inner_lengths[at] = inner_length.saturating_add(Ethernet::LEN as u16);
                let hash = shared.subscribers.hash(shared.subscribers.key4(key, destination));
                shared.subscribers.prefetch_bucket(hash);
                (turns.keys[at], turns.hashes[at], turns.offsets[at]) = (key, hash, inside as u8);
                plain |= u64::from(ours & is_plain & (offset != 0)) << at;
            },
        );
        let inner_pattern = if TUNNEL { self.pattern } else { Pattern::ANY };
        let inside = frame_check::check(self.kernel, inner_pattern, &inner_frames, &inner_lengths, &self.inner, count);
        if !TUNNEL {
            return plain & inside;
        }
        let any = Pattern::pattern([0; 14], [0; 14]);
        plain & inside & frame_check::check(self.kernel, any, &outer_frames, &outer_lengths, &self.outer, count)
    }

    /// The second and third turn: from buckets to bindings, and from bindings to counters. Answers which packets have one to which they
    /// can be sent.
    #[inline(always)]
    fn find(&self, good: u64, turns: &mut Turns) -> u64 {
        let subscribers = &*self.shared.subscribers;
        let mut found = 0;
        for slot in Slots(good) {
            if let Some(place) = subscribers.candidate(turns.hashes[slot.index()]) {
                subscribers.prefetch_binding(place);
                turns.places[slot.index()] = place;
                found |= slot.bit();
            }
        }
        let mut known = 0;
        for slot in Slots(found) {
            let at = slot.index();
            let key = subscribers.key4(turns.keys[at], self.inner.0[at]);
            if let Some(binding) = subscribers.binding(turns.places[at]).filter(|binding| binding.is(key)) {
                self.shared.counters.prefetch(binding.subscriber());
                known |= slot.bit();
            }
        }
        known
    }

    /// The last turn: gives packets their tags and counts them. Answers which left.
    #[inline(always)]
    fn send(&self, batch: &mut Batch, known: u64, turns: &Turns, out: &mut Out<'_>) -> u64 {
        let mut ports = [0; BATCH];
        let mut gone = 0;
        batch.each_in(
            known,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                if let Some(binding) = self.shared.subscribers.binding(turns.places[at])
                    && let Ok(port) = self.shared.deliver(packet, binding, turns.offsets[at])
                {
                    ports[at] = port;
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
        let count = BATCH - batch.live().leading_zeros() as usize;
        let mut turns =
            Turns { keys: [0; BATCH], hashes: [Hash::from_bits(0); BATCH], offsets: [0; BATCH], places: [0; BATCH] };
        let good = self.gather(batch, count, &mut turns);
        let known = self.find(good, &mut turns);
        let gone = self.send(batch, known, &turns, out);
        let rest = batch.live() & !gone;
        if rest != 0 {
            self.sort_out(batch, rest, out);
        }
    }

    /// Takes care of the packets that were not simply delivered.
    #[inline(never)]
    fn sort_out(&mut self, batch: &mut Batch, mask: u64, out: &mut Out<'_>) {
        let Down { shared, policing, kind, losses, .. } = self;
        batch.each_in(mask, |slot, packet, lanes| {
            let mut subscriber = None;
            let fate = unwrap::<TUNNEL>(shared, packet, lanes.port[slot]).and_then(|inner| {
                let binding = shared.look_up(inner).ok_or(Exit::Unresolved)?;
                subscriber = Some(binding.subscriber());
                shared.last_checks(packet, inner)?;
                shared.deliver(packet, binding, inner.offset)
            });
            match fate {
                Ok(port) => out.answer_indexed(slot, port),
                Err(exit) => {
                    let exit = settle(exit, policing, out.now(), subscriber);
                    if let Some((why, _)) = exit.punted() {
                        lanes.set(*kind, slot, why);
                    } else if let Some(subscriber) = subscriber {
                        losses.count(&shared.counters, subscriber, exit);
                    }
                    out.answer(slot, exit);
                }
            }
        });
    }
}

/// Bytes of the packet in a tunnel, as the outer total length says.
#[inline(always)]
fn inner_length_of(tunnel: &[u8; TUNNEL_BYTES]) -> u16 {
    let [_, _, t0, t1, ..] = *tunnel;
    u16::from_be_bytes([t0, t1]).saturating_sub(TUNNEL_BYTES as u16)
}

/// Whether an outer header is of GRE, no fragment's, and without congestion marks.
#[inline(always)]
fn is_tunnel(tunnel: &[u8; TUNNEL_BYTES]) -> bool {
    const PIECES: u32 = 0x3fff_0000;
    const PROTOCOL: u32 = 0xff;
    let [_, tos, _, _, _, _, f0, f1, ttl, protocol, ..] = *tunnel;
    let word = u32::from_be_bytes([f0, f1, ttl, protocol]);
    word & (PIECES | PROTOCOL) == u32::from(ipv4::GRE) && tos & CONGESTED != CONGESTED
}

/// The ECN field of a packet that met congestion (RFC 3168).
pub(crate) const CONGESTED: u8 = 3;

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

impl Shared {
    /// Where a packet's destination is, for certain.
    fn look_up(&self, inner: Inner) -> Option<BindingRecord<'_>> {
        let key: BindingKey = self.subscribers.key4(inner.key, inner.destination);
        self.subscribers.find(key, self.subscribers.hash(key)).and_then(|place| self.subscribers.binding(place))
    }

    /// What speaks against delivering a packet whose subscriber is known. Marks congestion that was met in the tunnel.
    fn last_checks(&self, packet: &mut Packet, inner: Inner) -> Result<(), Exit> {
        let Some(ip) = packet.bytes_mut().get_mut(usize::from(inner.offset)..).and_then(Ipv4::view_mut) else {
            return Err(Exit::IpTooShort);
        };
        if ip.ttl < 2 {
            return Err(Exit::TtlExpired);
        }
        if inner.congested && ip.tos & CONGESTED == 0 {
            return Err(Exit::Congestion);
        }
        if inner.congested {
            set_tos(ip, ip.tos | CONGESTED);
        }
        Ok(())
    }

    /// Gives a packet that is sound and may go the tags of its customer, and counts it; answers the position of the port that it
    /// leaves by. Changes nothing when it answers otherwise.
    #[inline(always)]
    fn deliver(&self, packet: &mut Packet, binding: BindingRecord<'_>, offset: u8) -> Result<u8, Exit> {
        if !binding.is_resolved() {
            return Err(Exit::Unresolved);
        }
        let egress = self.ports.egress(binding.port());
        let offset = usize::from(offset);
        let total = Ipv4::view(packet.window::<{ Ipv4::LEN }>(offset)).map_or(0, |ip| ip.total_length.get());
        if total > egress.mtu {
            return Err(Exit::TooBig);
        }
        let made_room = match offset.checked_sub(TAGGED) {
            Some(less) => packet.trim_front(less),
            None => packet.prepend(TAGGED - offset),
        };
        if !made_room {
            return Err(Exit::NoHeadroom);
        }
        let len = TAGGED + usize::from(total);
        if packet.len() != len {
            packet.set_len(len);
        }
        let front: &mut [u8; FRONT] = packet.window_mut(0);
        let Some((header, ip)) = front.split_first_chunk_mut::<TAGGED>() else { return Err(Exit::IpTooShort) };
        if let Some(ip) = Ipv4::view_mut(ip) {
            ip.decrement_ttl();
            let tags = binding.tags_word() | self.marking.priority(ip.tos);
            self.marking.remark(ip);
            Tagged { destination: binding.mac_word(), source: egress.mac & MAC_BITS, tags }.write(header);
        }
        self.counters.count(binding.subscriber(), Direction::Down, len as u64);
        Ok(binding.port())
    }
}

impl<const TUNNEL: bool> Stage for Down<TUNNEL> {
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

/// What stands in the 14 bytes before an inner IPv4 header: the end of the outer source, the outer destination, a GRE header with a
/// key of IPv4.
fn pattern(local: u32) -> Pattern {
    let [l0, l1, l2, l3] = local.to_be_bytes();
    let [g0, g1, g2, g3] = GRE_IPV4;
    let value = [0, 0, l0, l1, l2, l3, g0, g1, g2, g3, 0, 0, 0, 0];
    let mask = [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    Pattern::pattern(value, mask)
}
