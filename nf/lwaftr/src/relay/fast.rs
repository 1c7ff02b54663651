//! The fast path: whole batches of packets that softwires see all day long, in turns. The first reads headers and asks for what they lead to, the
//! next ones go from line to line, the last one rewrites. Whatever is not as most packets are is left to the [`Border`](crate::border::Border), as
//! it came.

mod rewrite;

use std::sync::Arc;

use weir_ip::{Arrived, Ingress, NO_INTERFACE};
use weir_packet::{BATCH, Batch, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, Destinations, Frame, LinkPattern, NO_FRAME};
use weir_stage::Out;
use weir_table::exact::Hash;
use weir_table::lpm6::{Lookup6, Walk};
use weir_wire::port_sets::PortSets;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, ipv4};

use self::rewrite::octets;
use super::Relay;
use crate::border::Border;
use crate::table::Direction;
use crate::tally::{Count, Tally};

/// What is found out about the packets of a batch, turn by turn.
pub(super) struct Turns {
    /// Where their network headers begin.
    l3: [u8; BATCH],
    /// The shared address and the port by which their softwires are found.
    addresses: [u32; BATCH],
    ports: [u16; BATCH],
    hashes: [Hash; BATCH],
    sets: [PortSets; BATCH],
    psids: [u16; BATCH],
    places: [u32; BATCH],
    /// Of what comes out of tunnels, the same of the other end, which may be a customer, too.
    others: Box<Others>,
    /// Destinations of IPv4 packets, outside of tunnels and inside.
    four: Destinations,
    /// The ends of the tunnels of packets that go into some, one after the other, and how far the look-up of their routes is.
    six: [u128; BATCH],
    walk: Walk,
    /// What routes answer.
    answers: [u32; BATCH],
}

/// To whom packets from customers go that are for customers.
struct Others {
    ports: [u16; BATCH],
    hashes: [Hash; BATCH],
    sets: [PortSets; BATCH],
    psids: [u16; BATCH],
    places: [u32; BATCH],
}

impl Default for Others {
    fn default() -> Others {
        Others {
            ports: [0; BATCH],
            hashes: [Hash::from_bits(0); BATCH],
            sets: [PortSets::WHOLE; BATCH],
            psids: [0; BATCH],
            places: [0; BATCH],
        }
    }
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            l3: [0; BATCH],
            addresses: [0; BATCH],
            ports: [0; BATCH],
            hashes: [Hash::from_bits(0); BATCH],
            sets: [PortSets::WHOLE; BATCH],
            psids: [0; BATCH],
            places: [0; BATCH],
            others: Box::default(),
            four: Destinations::default(),
            six: [0; BATCH],
            walk: Walk::default(),
            answers: [0; BATCH],
        }
    }
}

/// Which packets of a batch go which way, a bit each.
#[derive(Clone, Copy, Default)]
struct Ways {
    /// Into tunnels.
    into: u64,
    /// Out of tunnels.
    from: u64,
    /// Out of tunnels and into others.
    turned: u64,
}

impl Ways {
    fn all(self) -> u64 {
        self.into | self.from | self.turned
    }

    fn among(self, mask: u64) -> Ways {
        Ways { into: self.into & mask, from: self.from & mask, turned: self.turned & mask }
    }
}

/// Packets and bytes that are counted together.
#[derive(Clone, Copy, Default)]
struct Sum {
    packets: u64,
    before: u64,
    after: u64,
}

impl Sum {
    #[inline(always)]
    fn add(&mut self, before: usize, after: usize) {
        self.packets += 1;
        self.before += before as u64;
        self.after += after as u64;
    }

    fn count(self, tally: &Tally, [came, whole_in, left, whole_out]: [Count; 4]) {
        if self.packets > 0 {
            tally.add(came, self.packets, self.before);
            tally.add(whole_in, self.packets, 0);
            tally.add(left, self.packets, self.after);
            tally.add(whole_out, self.packets, 0);
        }
    }
}

/// The IPv4 header and the ports behind it.
const FRONT: usize = Ipv4::LEN + 4;
/// The same in a tunnel.
const FRONT_INSIDE: usize = Ipv6::LEN + FRONT;

/// Whatever stands before the IPv4 header: it has been looked at.
const ANY: LinkPattern = LinkPattern::pattern([0; Ethernet::LEN], [0; Ethernet::LEN]);

impl Relay {
    /// The fast path of a batch; answers which packets it took care of.
    pub(super) fn pass(&mut self, batch: &mut Batch, arrived: Arrived, out: &mut Out<'_>) -> u64 {
        let Relay { border, ingress, turns, kernel, .. } = self;
        kernel.run(
            #[inline(always)]
            || turns.pass(batch, (border, ingress, *kernel), arrived, out),
        )
    }
}

impl Turns {
    #[inline(always)]
    fn pass(
        &mut self,
        batch: &mut Batch,
        (border, ingress, kernel): (&mut Border, &Arc<Ingress>, Kernel),
        arrived: Arrived,
        out: &mut Out<'_>,
    ) -> u64 {
        let border = &*border;
        let ways = self.read(batch, (border, ingress, kernel), arrived);
        let ways = ways.among(self.find(border, ways.all()));
        let ways = if border.rules.hairpinning { self.find_others(border, ways) } else { ways };
        self.approach(border, ways);
        let ways = self.route(border, ways);
        let (mut ports, mut gone) = ([0; BATCH], 0);
        let [mut into, mut from, mut turned, mut inside] = [Sum::default(); 4];
        let view = border.onward.view();
        let mut nth = 0;
        batch.each_in(
            ways.into,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                let before = packet.len() + Ethernet::LEN - usize::from(self.l3[at]);
                if let Some((port, after)) = self.wrap(border, view, packet, (at, nth)) {
                    into.add(before, after);
                    ports[at] = port;
                    gone |= slot.bit();
                }
                nth += 1;
            },
        );
        batch.each_in(
            ways.turned,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                let before = packet.len() + Ethernet::LEN - usize::from(self.l3[at]);
                if let Some((port, after)) = self.turn(border, view, packet, (at, nth)) {
                    turned.add(before, after);
                    inside.add(after - Ipv6::LEN, 0);
                    ports[at] = port;
                    gone |= slot.bit();
                }
                nth += 1;
            },
        );
        batch.each_in(
            ways.from,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                let before = packet.len() + Ethernet::LEN - usize::from(self.l3[at]);
                if let Some((port, after)) = self.unwrap(border, view, packet, at) {
                    from.add(before, after);
                    ports[at] = port;
                    gone |= slot.bit();
                }
            },
        );
        into.count(&border.tally, [Count::InFour, Count::WholeFour, Count::OutSix, Count::OutWholeSix]);
        from.count(&border.tally, [Count::InSix, Count::WholeSix, Count::OutFour, Count::OutWholeFour]);
        turned.count(&border.tally, [Count::InSix, Count::WholeSix, Count::OutSix, Count::OutWholeSix]);
        if inside.packets > 0 {
            border.tally.add(Count::Hairpin, inside.packets, inside.before);
        }
        out.answer_indexed_each(gone, &ports);
        gone
    }

    /// The first turn: which packets may go the fast way, and what they are found by.
    #[inline(always)]
    fn read(
        &mut self,
        batch: &Batch,
        (border, ingress, kernel): (&Border, &Ingress, Kernel),
        arrived: Arrived,
    ) -> Ways {
        let (rules, softwires) = (&*border.rules, &*border.softwires);
        let mut ways = Ways::default();
        // A SYN may have to ask for smaller segments.
        if rules.mss.is_some() {
            return ways;
        }
        let (mut frames, mut lengths) = ([&NO_FRAME; BATCH], [0_u16; BATCH]);
        let has_vrfs = ingress.has_vrfs();
        let mut index = u16::MAX;
        let mut view = ingress.port(index);
        let (mut mac, mut interface) = (u64::MAX, NO_INTERFACE);
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                let at = slot.index();
                if batch.lanes.port[slot] != index {
                    index = batch.lanes.port[slot];
                    view = ingress.port(index);
                    (mac, interface) = (ingress.mac_word(index), ingress.untagged_of(index));
                }
                let mut l3 = Ethernet::LEN;
                let mut is_ours = u64::from_le_bytes(*packet.window(0)) & MAC_BITS == mac;
                if arrived.is_tagged {
                    let entered = view.enter(packet.window(0));
                    (l3, is_ours, interface) = (usize::from(entered.l3), entered.is_ours, entered.interface);
                }
                self.l3[at] = l3 as u8;
                let length = packet.len().saturating_sub(l3);
                if !is_ours || has_vrfs && ingress.vrf_of(interface) != 0 {
                    return;
                }
                let ethertype = u16::from_be_bytes(*packet.window(l3.wrapping_sub(2)));
                // Where the IPv4 header is, less what the kernel looks at in front of it, and how many bytes follow.
                let (start, bytes, mine) = if ethertype == ethernet::IPV4 && rules.four.has(interface) {
                    ways.into |= slot.bit();
                    (l3 - Ethernet::LEN, length, 2)
                } else if ethertype == ethernet::IPV6 && rules.six.has(interface) {
                    let Some(bytes) = payload_of(packet.window(l3), length) else { return };
                    ways.from |= slot.bit();
                    (l3 + Ipv6::LEN - Ethernet::LEN, bytes, 0)
                } else {
                    return;
                };
                let frame: &Frame = packet.window(start);
                let [s0, s1, d0, d1] = *packet.window::<4>(start + Ethernet::LEN + Ipv4::LEN);
                frames[at] = frame;
                lengths[at] = (bytes + Ethernet::LEN) as u16;
                let destination = frame_check::destination_of(frame);
                self.four.0[at] = destination;
                let address = if mine == 2 { destination } else { source_of(frame) };
                if mine == 0 {
                    border.onward.prefetch(destination);
                    let hash = softwires.hash_of_address(destination);
                    softwires.prefetch_address(hash);
                    (self.others.hashes[at], self.others.ports[at]) = (hash, u16::from_be_bytes([d0, d1]));
                }
                let port = if mine == 2 { [d0, d1] } else { [s0, s1] };
                (self.addresses[at], self.ports[at]) = (address, u16::from_be_bytes(port));
                let hash = softwires.hash_of_address(address);
                softwires.prefetch_address(hash);
                self.hashes[at] = hash;
            },
        );
        let count = BATCH - batch.live().leading_zeros() as usize;
        let sound = frame_check::check(kernel, ANY, &frames, &lengths, &self.four, count);
        let mut usual = 0;
        for slot in Slots(ways.all() & sound) {
            usual |= u64::from(is_usual(frames[slot.index()])) << slot.index();
        }
        ways.among(usual)
    }

    /// The next ones: from addresses to how their ports are divided, and from there to records. Answers of which packets there may be one.
    #[inline(always)]
    fn find(&mut self, border: &Border, of: u64) -> u64 {
        let softwires = &*border.softwires;
        let mut found = 0;
        for slot in Slots(of) {
            let at = slot.index();
            let Some(sets) = softwires.candidate_sets(self.hashes[at]) else { continue };
            let Some(psid) = sets.psid(self.ports[at]) else { continue };
            let hash = softwires.hash_of_part(self.addresses[at], psid);
            softwires.prefetch_part(hash);
            (self.sets[at], self.psids[at], self.hashes[at]) = (sets, psid, hash);
            found |= slot.bit();
        }
        found
    }

    /// Which packets from customers are for customers, most probably.
    #[inline(always)]
    fn find_others(&mut self, border: &Border, ways: Ways) -> Ways {
        let (softwires, others) = (&*border.softwires, &mut *self.others);
        let mut turned = 0;
        for slot in Slots(ways.from) {
            let at = slot.index();
            let Some(sets) = softwires.candidate_sets(others.hashes[at]) else { continue };
            let Some(psid) = sets.psid(others.ports[at]) else { continue };
            let hash = softwires.hash_of_part(self.four.0[at], psid);
            softwires.prefetch_part(hash);
            (others.sets[at], others.psids[at], others.hashes[at]) = (sets, psid, hash);
            turned |= slot.bit();
        }
        Ways { turned, from: ways.from & !turned, ..ways }
    }

    /// Goes on to records and counters.
    #[inline(always)]
    fn approach(&mut self, border: &Border, ways: Ways) {
        for slot in Slots(ways.all()) {
            let at = slot.index();
            let place = border.softwires.candidate_place(self.hashes[at]);
            border.softwires.prefetch_record(place);
            let direction = if ways.into & slot.bit() != 0 { Direction::Down } else { Direction::Up };
            border.counters.prefetch(place, direction);
            self.places[at] = place;
        }
        for slot in Slots(ways.turned) {
            let at = slot.index();
            let place = border.softwires.candidate_place(self.others.hashes[at]);
            border.softwires.prefetch_record(place);
            border.counters.prefetch(place, Direction::Down);
            self.others.places[at] = place;
        }
    }

    /// Where packets go: tunnels by routes of IPv6, what comes out of some by those of IPv4. Answers which have a softwire.
    #[inline(always)]
    fn route(&mut self, border: &Border, ways: Ways) -> Ways {
        let (mut count, mut found) = (0, 0);
        let mut note = |slot: weir_packet::Slot, ends: Option<[u64; 4]>, six: &mut [u128; BATCH]| {
            if let Some([b4_0, b4_1, ..]) = ends {
                six[count % BATCH] = u128::from_be_bytes(octets(b4_0, b4_1));
                count += 1;
                found |= slot.bit();
            }
        };
        for slot in Slots(ways.into) {
            let ends = self.ends(border, slot.index());
            note(slot, ends, &mut self.six);
        }
        for slot in Slots(ways.turned) {
            let ends = self.other_ends(border, slot.index());
            note(slot, ends, &mut self.six);
        }
        let routes = border.onward.six();
        let ends = self.six.get(..count).unwrap_or_default();
        routes.approach(ends, &mut self.walk);
        routes.advance(ends, &mut self.walk);
        routes.finish(ends, &mut self.walk, &mut self.answers);
        // Who is no customer after all, or not the one that was found, takes more.
        Ways { into: ways.into & found, turned: ways.turned & found, from: ways.from }
    }

    /// The ends of the tunnel of a packet's softwire.
    #[inline(always)]
    fn ends(&self, border: &Border, at: usize) -> Option<[u64; 4]> {
        border.softwires.ends_at(self.places[at], self.addresses[at], self.psids[at], self.sets[at])
    }

    /// The same of the softwire that a packet goes to from a customer.
    #[inline(always)]
    fn other_ends(&self, border: &Border, at: usize) -> Option<[u64; 4]> {
        let Others { sets, psids, places, .. } = &*self.others;
        border.softwires.ends_at(places[at], self.four.0[at], psids[at], sets[at])
    }
}

/// The bits of a MAC address in a little-endian word.
const MAC_BITS: u64 = (1 << 48) - 1;

/// Bytes that follow the usual IPv6 header of a tunnel: it is whole, is of IPv4, and met no congestion that would have to go on.
#[inline(always)]
fn payload_of(front: &[u8; FRONT_INSIDE], length: usize) -> Option<usize> {
    const ECN: u8 = 3;
    const CONGESTED: u8 = 3;
    const CAPABLE_1: u8 = 1;
    let (outer, inner) = Ipv6::split(front)?;
    let payload = usize::from(outer.payload_length.get());
    if outer.version() != 6 || outer.next_header != ipv4::IPIP || Ipv6::LEN + payload > length {
        return None;
    }
    let ecn = outer.traffic_class() & ECN;
    let [_, tos, ..] = *inner else { return None };
    let goes_on = matches!(ecn, CONGESTED | CAPABLE_1) && ecn != tos & ECN;
    (!goes_on).then_some(payload)
}

/// Whether an IPv4 packet is whole, of TCP or UDP, and has ports.
#[inline(always)]
fn is_usual(frame: &Frame) -> bool {
    let Some(ip) = frame.last_chunk::<{ Ipv4::LEN }>().and_then(|bytes| Ipv4::view(bytes)) else { return false };
    matches!(ip.protocol, ipv4::TCP | ipv4::UDP) && !ip.is_fragment() && ip.total_len() >= FRONT
}

/// The source address of an IPv4 packet.
#[inline(always)]
fn source_of(frame: &Frame) -> u32 {
    let [.., a, b, c, d, _, _, _, _] = *frame;
    u32::from_be_bytes([a, b, c, d])
}
