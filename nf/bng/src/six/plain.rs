//! IPv6 on the fast path: what is forwarded whole, from and to addresses that were heard of. The stages for IPv4 find it among their
//! packets, with the tags or headers in front already read and the records of subscribers asked for, and carry it in passes as they do theirs:
//! what a subscriber's record says of its first network is asked for, and for others, and for destinations, a bucket and then a binding; between them the
//! lines of routes. Whatever is not plain is left to the stages [`Six`](super::Six).

use weir_packet::{BATCH, Batch, Packet, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::{Destinations, Frame};
use weir_table::exact::Hash;
use weir_table::lpm6::{Lookup6, Walk};
use weir_wire::{Ipv6, View, ethernet, ipv6};

use super::first_half;
use crate::core::{CoreView, ToCore, flow_of6};
use crate::downstream;
use crate::encap::{Each, MAC_BITS, TAGGED, Tagged};
use crate::examine::DISCOVERY;
use crate::identification::Identifications;
use crate::table::counters::Direction;
use crate::table::{Found, SubscriberRecord};
use crate::upstream::{self, LAG};

/// Bytes of a tagged Ethernet header, an IPv6 header, and the type of an ICMPv6 message.
const FRONT: usize = TAGGED + Ipv6::LEN + 1;

/// What is found out about packets from customers, pass by pass: of one after the other, in the order of their slots.
pub(crate) struct Passes {
    /// By slot, of those whose subscribers' records do not say enough: what the binding of their source's network is found by, and where it is.
    hashes: [Hash; BATCH],
    found: [Found; BATCH],
    destinations: [u128; BATCH],
    walk: Walk,
    /// What routes answer for them.
    answers: [u32; BATCH],
}

impl Default for Passes {
    fn default() -> Passes {
        Passes {
            hashes: [Hash::from_bits(0); BATCH],
            found: [Found::NONE; BATCH],
            destinations: [0; BATCH],
            walk: Walk::default(),
            answers: [0; BATCH],
        }
    }
}

/// The first half of the source of a packet of IPv6 from a customer, and the MAC address of the station that sent it, as it lies in the packet.
#[inline(always)]
fn sender(packet: &Packet) -> (u64, u64) {
    let front = packet.window::<FRONT>(0);
    let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *front;
    let source = Ipv6::view(&front[TAGGED..]).map_or(0, |ip| first_half(&ip.source));
    (source, u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
}

/// The EtherType in front of the IP header of a frame, as it lies in the packet.
#[inline(always)]
pub(crate) fn ethertype_of(frame: &Frame) -> u16 {
    let [_, _, _, _, _, _, _, _, _, _, _, _, t0, t1, ..] = *frame;
    u16::from_ne_bytes([t0, t1])
}

/// Which of these frames are of IPv6. What was taken for their destinations is taken back: nobody needs the lines that it leads to.
#[inline(never)]
pub(crate) fn sift(frames: &[&Frame; BATCH], of: u64, destinations: &mut Destinations) -> u64 {
    let mut six = 0;
    for slot in Slots(of) {
        if ethertype_of(frames[slot.index()]) == ethernet::IPV6.to_be() {
            destinations.0[slot.index()] = 0;
            six |= slot.bit();
        }
    }
    six
}

impl upstream::Shared {
    /// Carries the packets in `mask`, which are for us, from the subscribers `behind` their tags. Answers which of them are gone, whose
    /// `ports` are said. Out of the way of IPv4.
    #[inline(never)]
    pub(crate) fn carry_six<const TUNNEL: bool>(
        &self,
        kernel: Kernel,
        batch: &mut Batch,
        mask: u64,
        from: (&mut Passes, &[Found; BATCH]),
        (core, identifications): (CoreView<'_>, &mut Identifications),
        ports: &mut [u8; BATCH],
    ) -> u64 {
        kernel.run(
            #[inline(always)]
            || self.carry_passes::<TUNNEL>(batch, mask, from, (core, identifications), ports),
        )
    }

    #[inline(always)]
    fn carry_passes<const TUNNEL: bool>(
        &self,
        batch: &mut Batch,
        mask: u64,
        (passes, behind): (&mut Passes, &[Found; BATCH]),
        (core, identifications): (CoreView<'_>, &mut Identifications),
        ports: &mut [u8; BATCH],
    ) -> u64 {
        let Passes { hashes, found, destinations, walk, answers } = passes;
        let (subscribers, routes) = (&*self.subscribers, self.core.onward.six());
        let mut count = 0;
        batch.each_in(
            mask,
            #[inline(always)]
            |slot, packet, _| {
                subscribers.prefetch_networks(behind[slot.index()].place());
                if let Some(ip) = Ipv6::view(&packet.window::<FRONT>(0)[TAGGED..]) {
                    destinations[count % BATCH] = u128::from_be_bytes(ip.destination);
                }
                count += 1;
            },
        );
        let destinations = destinations.get(..count).unwrap_or_default();
        routes.approach(destinations, walk);
        routes.advance(destinations, walk);
        routes.finish(destinations, walk, answers);
        let (mut at, mut gone, mut others) = (0, 0, 0);
        batch.each_in(
            mask,
            #[inline(always)]
            |slot, packet, _| {
                self.counters.prefetch(behind[(slot.index() + LAG) % BATCH].number(), Direction::Up);
                let answer = answers[at % BATCH];
                at += 1;
                let Some(record) = subscribers.subscriber(behind[slot.index()].place()) else { return };
                let (source, station) = sender(packet);
                if !record.is_known_sender6(source, station) {
                    others |= slot.bit();
                } else if let Some(port) = self.send_six::<TUNNEL>(packet, record, (core, answer), identifications) {
                    ports[slot.index()] = port;
                    gone |= slot.bit();
                }
            },
        );
        if others != 0 {
            let (of, from) = ((mask, others), (hashes, found, &*answers, behind));
            gone |= self.carry_others::<TUNNEL>(batch, of, from, (core, identifications), ports);
        }
        gone
    }

    /// The same for `others` of the packets in a mask, for which routes have given answers: from further networks of their subscribers, from hosts in networks
    /// with several stations, or from where nobody is known.
    #[inline(never)]
    fn carry_others<const TUNNEL: bool>(
        &self,
        batch: &mut Batch,
        (mask, others): (u64, u64),
        (hashes, found, answers, behind): (&mut [Hash; BATCH], &mut [Found; BATCH], &[u32; BATCH], &[Found; BATCH]),
        (core, identifications): (CoreView<'_>, &mut Identifications),
        ports: &mut [u8; BATCH],
    ) -> u64 {
        let subscribers = &*self.subscribers;
        batch.each_in(others, |slot, packet, _| {
            let scope = subscribers.subscriber(behind[slot.index()].place()).map_or(0, |record| record.scope());
            let hash = subscribers.hash(subscribers.key6(scope, sender(packet).0));
            subscribers.prefetch_bucket(hash);
            hashes[slot.index()] = hash;
        });
        for slot in Slots(others) {
            let candidate = subscribers.candidate(hashes[slot.index()]);
            subscribers.prefetch_binding(candidate.place());
            found[slot.index()] = candidate;
        }
        let (mut at, mut gone) = (0, 0);
        batch.each_in(mask, |slot, packet, _| {
            let answer = answers[at % BATCH];
            at += 1;
            let record = subscribers.subscriber(behind[slot.index()].place()).filter(|_| others & slot.bit() != 0);
            let Some((record, binding)) = record.zip(subscribers.binding(found[slot.index()].place())) else { return };
            let (source, station) = sender(packet);
            let is_its =
                binding.is(subscribers.key6(record.scope(), source)) && binding.subscriber() == record.number();
            if !is_its || !binding.is_from(station) {
                return;
            }
            if let Some(port) = self.send_six::<TUNNEL>(packet, record, (core, answer), identifications) {
                ports[slot.index()] = port;
                gone |= slot.bit();
            }
        });
        gone
    }

    /// Wraps and counts a packet, of the subscriber with this record and from where its source is known to be, if it is plain. Answers the position of the
    /// port that it leaves by; changes nothing when it answers none.
    #[inline(always)]
    fn send_six<const TUNNEL: bool>(
        &self,
        packet: &mut Packet,
        record: SubscriberRecord<'_>,
        (core, answer): (CoreView<'_>, u32),
        identifications: &mut Identifications,
    ) -> Option<u8> {
        let is_its = record.may_send_from(sender(packet).1);
        let front = packet.window::<FRONT>(0);
        let ip = Ipv6::view(front.get(TAGGED..)?)?;
        let is_discovery = ip.next_header == ipv6::ICMPV6 && front.last().is_some_and(|kind| DISCOVERY.contains(kind));
        let total = Ipv6::LEN + usize::from(ip.payload_length.get());
        if !is_its || is_discovery || !is_plain(ip) || TAGGED + total > packet.len() {
            return None;
        }
        // IPv6 packets with so many bytes of payload at most are 40 bytes longer.
        let (total, tos) = (u16::try_from(total).ok()?, ip.traffic_class());
        let each = |identifications: &mut Identifications| {
            let identification = if TUNNEL { identifications.next() } else { None };
            Each { key: record.key(), total, tos, identification }
        };
        let written = if TUNNEL { core.written(answer, || flow_of6(packet)) } else { None };
        match written {
            Some(written) => self.wrap_six::<TUNNEL>(packet, record, (core, written), each(identifications)),
            None => {
                let hop = core.hop::<TUNNEL>(answer, || flow_of6(packet)).ok()?;
                self.wrap_six::<TUNNEL>(packet, record, (core, hop), each(identifications))
            }
        }
    }

    /// Wraps and counts a packet that may go; answers the position of the port that it leaves by. Changes nothing when it answers none.
    #[inline(always)]
    fn wrap_six<const TUNNEL: bool>(
        &self,
        packet: &mut Packet,
        record: SubscriberRecord<'_>,
        (core, hop): (CoreView<'_>, impl ToCore),
        each: Each,
    ) -> Option<u8> {
        if each.total > hop.longest() {
            return None;
        }
        let is_wrapped = hop.wrap::<TUNNEL, true>(core, packet, each, |inner| {
            let [_, _, _, _, _, _, _, hop_limit, ..] = inner;
            *hop_limit = hop_limit.wrapping_sub(1);
        });
        if !is_wrapped {
            return None;
        }
        self.counters.count(record.number(), Direction::Up, TAGGED as u64 + u64::from(each.total));
        Some(hop.port())
    }
}

impl downstream::Shared {
    /// Carries the packets in `mask`, which begin at their offsets. Answers which of them are gone, whose `ports` are said, and their bytes. Out of
    /// the way of IPv4.
    #[inline(never)]
    pub(crate) fn carry_six(
        &self,
        kernel: Kernel,
        batch: &mut Batch,
        mask: u64,
        passes: &mut downstream::Passes,
        ports: &mut [u8; BATCH],
    ) -> (u64, u64) {
        kernel.run(
            #[inline(always)]
            || self.carry_passes(batch, mask, passes, ports),
        )
    }

    #[inline(always)]
    fn carry_passes(
        &self,
        batch: &mut Batch,
        mask: u64,
        passes: &mut downstream::Passes,
        ports: &mut [u8; BATCH],
    ) -> (u64, u64) {
        let subscribers = &*self.subscribers;
        batch.each_in(
            mask,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                let destination = packet.window::<8>(usize::from(passes.offsets[at]) + DESTINATION);
                let hash = subscribers.hash(subscribers.key6(passes.keys[at], u64::from_be_bytes(*destination)));
                subscribers.prefetch_bucket(hash);
                passes.hashes[at] = hash;
            },
        );
        let mut asked = 0;
        batch.each_in(
            mask,
            #[inline(always)]
            |slot, _, _| {
                let found = subscribers.candidate(passes.hashes[slot.index()]);
                passes.found[slot.index()] = found;
                subscribers.prefetch_binding(found.place());
                if asked < LAG {
                    self.counters.prefetch(found.number(), Direction::Down);
                    asked += 1;
                }
            },
        );
        let (mut gone, mut bytes) = (0, 0);
        batch.each_in(
            mask,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                self.counters.prefetch(passes.found[(at + LAG) % BATCH].number(), Direction::Down);
                let to = (passes.found[at], passes.keys[at]);
                if let Some(port) = self.deliver_six(packet, to, usize::from(passes.offsets[at])) {
                    ports[at] = port;
                    gone |= slot.bit();
                    bytes += packet.len() as u64;
                }
            },
        );
        (gone, bytes)
    }

    /// Gives a packet that begins at an offset the tags of its customer and counts it, if it is plain and for the network that was found
    /// for its destination. Answers the position of the port that it leaves by; changes nothing when it answers none.
    #[inline(always)]
    fn deliver_six(&self, packet: &mut Packet, (network, scope): (Found, u32), offset: usize) -> Option<u8> {
        let ip = Ipv6::view(packet.window::<{ Ipv6::LEN }>(offset))?;
        let binding = self.subscribers.binding(network.place())?;
        let is_for_it = binding.is(self.subscribers.key6(scope, first_half(&ip.destination)))
            && binding.is_resolved()
            && !binding.is_shared();
        let egress = self.ports.egress(binding.port());
        let total = Ipv6::LEN + usize::from(ip.payload_length.get());
        let fits = total <= usize::from(egress.mtu) && offset + total <= packet.len();
        if !is_for_it || !fits || !is_plain(ip) || self.own6.binary_search(&u128::from_be_bytes(ip.destination)).is_ok()
        {
            return None;
        }
        let (header, ip) = packet.replace_head::<TAGGED, { Ipv6::LEN }>(offset, TAGGED, total)?;
        let ip = Ipv6::view_mut(ip)?;
        ip.hop_limit = ip.hop_limit.wrapping_sub(1);
        let class = ip.traffic_class();
        let tags = binding.tags_word() | self.marking.priority(class);
        ip.set_traffic_class(self.marking.class(class));
        Tagged { destination: binding.mac_word(), source: egress.mac & MAC_BITS, tags }.write(ethernet::IPV6, header);
        self.counters.count(binding.subscriber(), Direction::Down, (TAGGED + total) as u64);
        Some(binding.port())
    }
}

/// Where the destination stands in an IPv6 header.
const DESTINATION: usize = 24;

/// Whether a packet has a hop to go, and addresses that surely may be forwarded from and to: neither below 0:0:0:1:: nor from fe80:: on, where
/// those of no single host, of links and of groups are (RFC 4291 section 2.4).
#[inline(always)]
fn is_plain(ip: &Ipv6) -> bool {
    const FIRST_SPECIAL: u64 = 0xfe80 << 48;
    let is_usual = |half: u64| half.wrapping_sub(1) < FIRST_SPECIAL - 1;
    let halves = (first_half(&ip.source), first_half(&ip.destination));
    ip.version() == 6 && ip.hop_limit >= 2 && is_usual(halves.0) && is_usual(halves.1)
}
