//! The fast path: whole batches of packets that softwires see all day long, in passes. The first reads headers and asks for what they lead to, the
//! next ones go from line to line, the last one rewrites. Whatever is not as most packets are is left to the [`Border`](crate::border::Border), as
//! it came.

mod rewrite;
mod route;

use std::sync::Arc;

use weir_ip::{Arrived, Ingress, NO_INTERFACE};
use weir_packet::{BATCH, Batch, Packet, Slot, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, Destinations, Frame, LinkPattern, NO_FRAME};
use weir_stage::Out;
use weir_table::exact::Hash;
use weir_wire::port_sets::PortSets;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, ipv4};

use self::route::Unknown;
use super::sort::tags_in_front;
use super::{Relay, Stand};
use crate::border::Border;
use crate::exit::Exit;
use crate::table::{Direction, Softwires, tell};
use crate::tally::{Count, Tally};

/// What is found out about the packets of a batch, pass by pass.
pub(super) struct Passes {
    /// Where their network headers begin.
    l3: [u8; BATCH],
    /// The shared address and the port by which their softwires are found.
    addresses: [u32; BATCH],
    ports: [u16; BATCH],
    hashes: [Hash; BATCH],
    /// What their records say that they were made for.
    told: [u64; BATCH],
    places: [u32; BATCH],
    /// Of what comes out of tunnels, the same of the other end, which may be a customer, too.
    others: Box<Others>,
    /// Destinations of IPv4 packets, outside of tunnels and inside.
    four: Destinations,
    /// What routes answer for the tunnels of packets that go into some.
    answers: [u32; BATCH],
    /// Of the tunnels that it has to be looked up for.
    unknown: Box<Unknown>,
}

/// To whom packets from customers go that are for customers.
struct Others {
    ports: [u16; BATCH],
    hashes: [Hash; BATCH],
    told: [u64; BATCH],
    places: [u32; BATCH],
}

impl Default for Others {
    fn default() -> Others {
        Others { ports: [0; BATCH], hashes: [Hash::from_bits(0); BATCH], told: [0; BATCH], places: [0; BATCH] }
    }
}

impl Default for Passes {
    fn default() -> Passes {
        Passes {
            l3: [0; BATCH],
            addresses: [0; BATCH],
            ports: [0; BATCH],
            hashes: [Hash::from_bits(0); BATCH],
            told: [0; BATCH],
            places: [0; BATCH],
            others: Box::default(),
            four: Destinations::default(),
            answers: [0; BATCH],
            unknown: Box::default(),
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
    hairpin: u64,
}

impl Ways {
    fn all(self) -> u64 {
        self.into | self.from | self.hairpin
    }

    fn among(self, mask: u64) -> Ways {
        Ways { into: self.into & mask, from: self.from & mask, hairpin: self.hairpin & mask }
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

    /// The same of packets that an egress filter kept back.
    fn stop(self, tally: &Tally, [came, whole_in, filtered, dropped]: [Count; 4]) {
        if self.packets > 0 {
            tally.add(came, self.packets, self.before);
            tally.add(whole_in, self.packets, 0);
            tally.add(filtered, self.packets, self.after);
            tally.add(dropped, self.packets, self.before);
        }
    }
}

/// What a packet has become.
#[derive(Clone, Copy)]
struct Done {
    /// The position of the port that it leaves by; `None` if an egress filter keeps it back.
    port: Option<u8>,
    /// Bytes of its frame without tags.
    bytes: usize,
}

/// What became of the packets of a way.
#[derive(Clone, Copy, Default)]
struct Outcome {
    /// Those that leave, a bit each, and how much they are.
    gone: u64,
    sent: Sum,
    /// Those that egress filters kept back.
    kept: u64,
    stopped: Sum,
}

impl Outcome {
    #[inline(always)]
    fn add(&mut self, slot: Slot, before: usize, done: Done, ports: &mut [u8; BATCH]) {
        match done.port {
            Some(port) => {
                ports[slot.index()] = port;
                self.gone |= slot.bit();
                self.sent.add(before, done.bytes);
            }
            None => {
                self.kept |= slot.bit();
                self.stopped.add(before, done.bytes);
            }
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
        let Relay { border, stand: Stand::First(ingress, _), passes, kernel, .. } = self else { return 0 };
        kernel.run(
            #[inline(always)]
            || passes.run(batch, (border, ingress, *kernel), arrived, out),
        )
    }
}

impl Passes {
    #[inline(always)]
    fn run(
        &mut self,
        batch: &mut Batch,
        (border, ingress, kernel): (&mut Border, &Arc<Ingress>, Kernel),
        arrived: Arrived,
        out: &mut Out<'_>,
    ) -> u64 {
        let border = &*border;
        let common = border.softwires.common_sets();
        let ways = self.read(batch, (border, ingress, kernel), arrived, common);
        let ways = if common.is_some() { ways } else { ways.among(self.find(border, ways.all())) };
        let ways = self.find_others(border, ways);
        self.approach(border, ways);
        let ways = self.route(border, ways);
        let mut ports = [0; BATCH];
        let [mut into, mut from, mut hairpin] = [Outcome::default(); 3];
        let mut inside = Sum::default();
        let view = border.onward.view();
        batch.each_in(
            ways.into,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                let before = self.untagged_len(packet, at);
                if let Some(done) = self.wrap(border, view, packet, at) {
                    into.add(slot, before, done, &mut ports);
                }
            },
        );
        batch.each_in(
            ways.hairpin,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                let before = self.untagged_len(packet, at);
                if let Some(done) = self.hairpin(border, view, packet, at) {
                    inside.add(done.bytes - Ipv6::LEN, 0);
                    hairpin.add(slot, before, done, &mut ports);
                }
            },
        );
        batch.each_in(
            ways.from,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                let before = self.untagged_len(packet, at);
                if let Some(done) = self.unwrap(border, view, packet, at) {
                    from.add(slot, before, done, &mut ports);
                }
            },
        );
        let gone = into.gone | hairpin.gone | from.gone;
        out.answer_indexed_each(gone, &ports);
        let tally = &border.tally;
        into.sent.count(tally, [Count::InFour, Count::WholeFour, Count::OutSix, Count::OutWholeSix]);
        from.sent.count(tally, [Count::InSix, Count::WholeSix, Count::OutFour, Count::OutWholeFour]);
        hairpin.sent.count(tally, [Count::InSix, Count::WholeSix, Count::OutSix, Count::OutWholeSix]);
        if inside.packets > 0 {
            tally.add(Count::Hairpin, inside.packets, inside.before);
        }
        let [kept_six, kept_four] = [into.kept | hairpin.kept, from.kept];
        if kept_six | kept_four != 0 {
            out.answer_all(kept_six, Exit::FilteredOutSix);
            out.answer_all(kept_four, Exit::FilteredOutFour);
            into.stopped.stop(tally, [Count::InFour, Count::WholeFour, Count::FilteredOutSix, Count::DropFour]);
            from.stopped.stop(tally, [Count::InSix, Count::WholeSix, Count::FilteredOutFour, Count::DropSix]);
            hairpin.stopped.stop(tally, [Count::InSix, Count::WholeSix, Count::FilteredOutSix, Count::DropSix]);
        }
        gone | kept_six | kept_four
    }

    /// The bytes of the frame that a packet came in, without its tags.
    #[inline(always)]
    fn untagged_len(&self, packet: &Packet, at: usize) -> usize {
        packet.len() + Ethernet::LEN - usize::from(self.l3[at % BATCH])
    }

    /// The first pass: which packets may go the fast way, and what they are found by. Out of tunnels and into others may go those alone that are said to.
    #[inline(always)]
    fn read(
        &mut self,
        batch: &Batch,
        (border, ingress, kernel): (&Border, &Ingress, Kernel),
        arrived: Arrived,
        common: Option<PortSets>,
    ) -> Ways {
        let (rules, softwires) = (&*border.rules, &*border.softwires);
        let mut ways = Ways::default();
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
                if !is_ours {
                    return;
                }
                let vrf = if has_vrfs { ingress.vrf_of(interface) } else { 0 };
                let ethertype = u16::from_be_bytes(*packet.window(l3.wrapping_sub(2)));
                // Where the IPv4 header is, less what the kernel looks at in front of it, and how many bytes follow.
                let (start, bytes, mine) =
                    if ethertype == ethernet::IPV4 && rules.four.has(interface) && vrf == rules.vrfs[0] {
                        ways.into |= slot.bit();
                        (l3 - Ethernet::LEN, length, 2)
                    } else if ethertype == ethernet::IPV6 && rules.six.has(interface) && vrf == rules.vrfs[1] {
                        let Some(bytes) = payload_of(packet.window(l3), length) else { return };
                        ways.from |= slot.bit();
                        (l3 + Ipv6::LEN - Ethernet::LEN, bytes, 0)
                    } else {
                        return;
                    };
                let frame: &Frame = packet.window(start);
                let ports = start + Ethernet::LEN + Ipv4::LEN;
                if !is_usual(frame) || (rules.mss.is_some() && is_syn(frame, *packet.window(ports + TCP_FLAGS))) {
                    return;
                }
                let side = if mine == 2 { &rules.four } else { &rules.six };
                if let Some(filter) = &side.ingress
                    && !filter.matches_untagged(packet.bytes(), tags_in_front(l3))
                {
                    return;
                }
                let [s0, s1, d0, d1] = *packet.window::<4>(ports);
                let destination = frame_check::destination_of(frame);
                let address = if mine == 2 { destination } else { source_of(frame) };
                let port = u16::from_be_bytes(if mine == 2 { [d0, d1] } else { [s0, s1] });
                self.addresses[at] = address;
                if let Some(sets) = common {
                    if !self.seek(softwires, at, sets, port) {
                        return;
                    }
                } else {
                    self.ports[at] = port;
                    let hash = softwires.hash_of_address(address);
                    softwires.prefetch_address(hash);
                    self.hashes[at] = hash;
                }
                frames[at] = frame;
                lengths[at] = (bytes + Ethernet::LEN) as u16;
                self.four.0[at] = destination;
                if mine == 0 {
                    border.onward.prefetch(destination);
                    if !softwires.is_beyond(destination) {
                        let hash = softwires.hash_of_address(destination);
                        softwires.prefetch_address(hash);
                        (self.others.hashes[at], self.others.ports[at]) = (hash, u16::from_be_bytes([d0, d1]));
                        ways.hairpin |= slot.bit();
                    }
                }
            },
        );
        let count = BATCH - batch.live().leading_zeros() as usize;
        ways.among(frame_check::check(kernel, ANY, &frames, &lengths, &self.four, count))
    }

    /// The next one, where addresses are not all divided alike: from addresses to how their ports are divided. Answers of which packets there may be a
    /// softwire.
    #[inline(always)]
    fn find(&mut self, border: &Border, of: u64) -> u64 {
        let softwires = &*border.softwires;
        let mut found = 0;
        for slot in Slots(of) {
            let at = slot.index();
            let Some(sets) = softwires.candidate_sets(self.hashes[at]) else { continue };
            if self.seek(softwires, at, sets, self.ports[at]) {
                found |= slot.bit();
            }
        }
        found
    }

    /// Asks for what leads to the softwire that has a port of a packet's address, divided so. False if none has it.
    #[inline(always)]
    fn seek(&mut self, softwires: &Softwires, at: usize, sets: PortSets, port: u16) -> bool {
        let at = at % BATCH;
        let Some(psid) = sets.psid(port) else { return false };
        let hash = softwires.hash_of_part(self.addresses[at], psid);
        softwires.prefetch_part(hash);
        (self.told[at], self.hashes[at]) = (tell(self.addresses[at], psid, sets), hash);
        true
    }

    /// Which packets from customers are for customers, most probably, and which certainly are not.
    #[inline(always)]
    fn find_others(&mut self, border: &Border, ways: Ways) -> Ways {
        let (softwires, rules, others) = (&*border.softwires, &*border.rules, &mut *self.others);
        // What is beyond all shared addresses is nobody's.
        let (mut hairpin, mut from) = (0, ways.from & !ways.hairpin);
        for slot in Slots(ways.from & ways.hairpin) {
            let at = slot.index();
            let Some(sets) = softwires.candidate_sets(others.hashes[at]) else {
                from |= u64::from(softwires.is_nobodys(self.four.0[at])) << slot.index();
                continue;
            };
            let Some(psid) = sets.psid(others.ports[at]) else { continue };
            let hash = softwires.hash_of_part(self.four.0[at], psid);
            softwires.prefetch_part(hash);
            (others.told[at], others.hashes[at]) = (tell(self.four.0[at], psid, sets), hash);
            hairpin |= slot.bit();
        }
        // Where customers do not reach each other here, it is routed as all else.
        Ways { hairpin: if rules.hairpinning { hairpin } else { 0 }, from, ..ways }
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
        for slot in Slots(ways.hairpin) {
            let at = slot.index();
            let place = border.softwires.candidate_place(self.others.hashes[at]);
            border.softwires.prefetch_record(place);
            border.counters.prefetch(place, Direction::Down);
            self.others.places[at] = place;
        }
    }

    /// The ends of the tunnel of a packet's softwire.
    #[inline(always)]
    fn ends(&self, border: &Border, at: usize) -> Option<[u64; 4]> {
        border.softwires.ends_at(self.places[at], self.told[at])
    }

    /// The same of the softwire that a packet goes to from a customer.
    #[inline(always)]
    fn other_ends(&self, border: &Border, at: usize) -> Option<[u64; 4]> {
        border.softwires.ends_at(self.others.places[at], self.others.told[at])
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

/// Where the flags of a TCP segment are.
const TCP_FLAGS: usize = 13;

/// Whether an IPv4 packet opens a conversation of TCP, and may have to ask for smaller segments; its flags are those, if it has any.
#[inline(always)]
fn is_syn(frame: &Frame, [flags]: [u8; 1]) -> bool {
    const SYN: u8 = 2;
    let ip = frame.last_chunk::<{ Ipv4::LEN }>().and_then(|bytes| Ipv4::view(bytes));
    flags & SYN != 0 && ip.is_some_and(|ip| ip.protocol == ipv4::TCP)
}

/// The source address of an IPv4 packet.
#[inline(always)]
fn source_of(frame: &Frame) -> u32 {
    let [.., a, b, c, d, _, _, _, _] = *frame;
    u32::from_be_bytes([a, b, c, d])
}
