//! The fast path: whole batches of packets that softwires see all day long, in passes. The first reads headers and asks for what they lead to, the
//! next ones go from line to line, the last one rewrites. Whatever is not as most packets are is left to the [`Border`](crate::border::Border), as
//! it came.

mod done;
mod ingress;
mod rewrite;
mod route;
mod sought;

use weir_filter::Filter;
use weir_ip::{Arrived, Ingress};
use weir_packet::{BATCH, Batch, Packet, Slot, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, Destinations, Frame, LinkPattern, NO_FRAME};
use weir_stage::Out;
use weir_wire::port_sets::PortSets;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, ipv4};

use self::done::Done;
use self::ingress::{IngressCache, Sides};
use self::rewrite::{Decapsulator, Encapsulator};
use self::route::Unknown;
use self::sought::{ByArray, ByIndex, Lookup, Sought};
use super::sort::tags_in_front;
use super::{Relay, Stand};
use crate::border::Border;
use crate::rules::Side;
use crate::table::{Direction, Softwires};

/// What is found out about the packets of a batch, pass by pass.
#[derive(Default)]
pub(super) struct Passes {
    /// Where their network headers begin, where packets may be tagged.
    l3: Bytes,
    /// The softwires of the customers whom they are from or for.
    own: Sought,
    /// Of what comes out of tunnels, the same of the other end, which may be a customer, too.
    others: Box<Sought>,
    /// Destinations of IPv4 packets, outside of tunnels and inside.
    four: Destinations,
    /// What routes answer for them.
    answers: Box<Answers>,
    /// What has to be looked up before packets can go into tunnels.
    unknown: Box<Unknown>,
}

/// What routes answer, for each packet.
struct Answers([u32; BATCH]);

impl Default for Answers {
    fn default() -> Answers {
        Answers([0; BATCH])
    }
}

/// A byte for each packet.
struct Bytes([u8; BATCH]);

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes([0; BATCH])
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

/// Bytes of an EtherType.
const KIND: usize = 2;
/// The IPv4 header and the ports behind it.
const FRONT: usize = Ipv4::LEN + 4;
/// The IPv4 header of a packet in a tunnel, and what is in front of it.
const FRONT_INSIDE: usize = Ipv6::LEN + Ipv4::LEN;

/// Whatever stands before the IPv4 header: it has been looked at. All are whole packets of TCP and UDP.
const WITH_PORTS: LinkPattern = LinkPattern::pattern([0; Ethernet::LEN], [0; Ethernet::LEN]).with_ports();

impl Relay {
    /// The fast path of a batch; answers which packets it took care of.
    pub(super) fn pass(&mut self, batch: &mut Batch, arrived: Arrived, out: &mut Out<'_>) -> u64 {
        let Relay { border, stand: Stand::First(ingress, _), passes, kernel, .. } = self else { return 0 };
        let (with, softwires) = ((&*border, &**ingress, *kernel), &*border.softwires);
        let common = softwires.common_sets();
        // Code of its own for where softwires are in the array, and for where no packet has tags, so that it is known where their headers are.
        match common.and_then(|sets| Some(ByArray { array: softwires.dense(sets)?, sets })) {
            Some(lookup) if arrived.is_tagged => kernel.run(
                #[inline(always)]
                || passes.run::<true>(batch, with, lookup, out),
            ),
            Some(lookup) => kernel.run(
                #[inline(always)]
                || passes.run::<false>(batch, with, lookup, out),
            ),
            None if arrived.is_tagged => kernel.run(
                #[inline(always)]
                || passes.run::<true>(batch, with, ByIndex { softwires, common }, out),
            ),
            None => kernel.run(
                #[inline(always)]
                || passes.run::<false>(batch, with, ByIndex { softwires, common }, out),
            ),
        }
    }
}

impl Passes {
    /// All passes, of a batch in which packets may be `TAGGED`.
    #[inline(always)]
    fn run<const TAGGED: bool>(
        &mut self,
        batch: &mut Batch,
        (border, ingress, kernel): (&Border, &Ingress, Kernel),
        lookup: impl Lookup,
        out: &mut Out<'_>,
    ) -> u64 {
        // Before anything is looked up: what is found now counts for this version at least.
        let version = border.onward.version();
        let ways = self.read::<TAGGED>(batch, (border, ingress, kernel), lookup);
        let ways = if lookup.common().is_some() { ways } else { ways.among(self.find(border, lookup, ways.all())) };
        let ways = self.find_others(border, lookup, ways);
        self.approach(border, lookup, ways);
        // Of all up to the last one: those of others cost no more than to leave them out would.
        let count = BATCH - ways.from.leading_zeros() as usize;
        if let (Some(destinations), Some(answers)) = (self.four.0.get(..count), self.answers.0.get_mut(..count)) {
            border.onward.lookup_batch(destinations, answers);
        }
        let mut done = Done::default();
        // Once more for those whose tunnels had to be looked up.
        for _ in 0..2 {
            self.rewrite::<TAGGED>(batch, border, ways.among(!done.all()), version, &mut done);
            if self.unknown.is_empty() {
                break;
            }
            self.look_up(border, version);
        }
        done.finish(border, out)
    }

    /// The first pass: which packets may go the fast way, and what they are found by. Out of tunnels and into others may go those alone that are said to.
    #[inline(always)]
    fn read<const TAGGED: bool>(
        &mut self,
        batch: &Batch,
        (border, ingress, kernel): (&Border, &Ingress, Kernel),
        lookup: impl Lookup,
    ) -> Ways {
        let mut ingress = IngressCache::new(&border.rules, ingress);
        let mut headers = Headers::default();
        let (mut ways, mut rest) = (Ways::default(), batch.live());
        // Most batches are of one family, that of the first packet: the other one's loop has nothing to do then.
        let mut is_six = batch
            .slots()
            .next()
            .and_then(|first| batch.get(first))
            .is_some_and(|first| u16::from_be_bytes(*first.window(Ethernet::LEN - 2)) == ethernet::IPV6);
        for _ in 0..2 {
            rest = match is_six {
                true => {
                    self.read_six::<TAGGED>((batch, rest), &mut ingress, (border, lookup), (&mut headers, &mut ways))
                }
                false => {
                    self.read_four::<TAGGED>((batch, rest), &mut ingress, (border, lookup), (&mut headers, &mut ways))
                }
            };
            if rest == 0 {
                break;
            }
            is_six = !is_six;
        }
        let count = BATCH - batch.live().leading_zeros() as usize;
        ways.among(frame_check::check(kernel, WITH_PORTS, &headers.frames, &headers.lengths, &self.four, count))
    }

    /// Of IPv4, which goes into tunnels. Answers which packets are none.
    #[inline(always)]
    fn read_four<'b, const TAGGED: bool>(
        &mut self,
        (batch, among): (&'b Batch, u64),
        ingress: &mut IngressCache<'_>,
        (border, lookup): (&Border, impl Lookup),
        (headers, ways): (&mut Headers<'b>, &mut Ways),
    ) -> u64 {
        let (rules, common) = (&*border.rules, lookup.common());
        let has_more = rules.mss.is_some() || rules.four.ingress.is_some();
        let (mut into, mut rest) = (0, 0);
        batch.each_ref_in(
            among,
            #[inline(always)]
            |slot, packet| {
                let at = slot.index();
                let Some(l3) = ingress.enter::<TAGGED>(batch.lanes.port[slot], packet) else { return };
                let front: &[u8; KIND + FRONT] = packet.window(l3.wrapping_sub(KIND));
                let kind = u32::from_le_bytes(*part(front, 0));
                if kind & Sides::FOUR != ingress.sides().four {
                    rest |= slot.bit();
                    return;
                }
                if TAGGED {
                    self.l3.0[at] = l3 as u8;
                }
                headers.lengths[at] = packet.len().saturating_sub(tags_in_front(l3)) as u16;
                let (frame, ports) =
                    (packet.window(l3.wrapping_sub(Ethernet::LEN)), ports_of(part(front, KIND + Ipv4::LEN)));
                if has_more && !takes(&rules.four, rules.mss, packet, (l3, l3)) {
                    return;
                }
                let destination = frame_check::destination_of(frame);
                if !self.seek(&border.softwires, lookup, common, at, (destination, ports as u16)) {
                    return;
                }
                (headers.frames[at], self.four.0[at]) = (frame, destination);
                into |= slot.bit();
            },
        );
        ways.into = into;
        rest
    }

    /// Of IPv6, which comes out of tunnels. Answers which packets are none.
    #[inline(always)]
    fn read_six<'b, const TAGGED: bool>(
        &mut self,
        (batch, among): (&'b Batch, u64),
        ingress: &mut IngressCache<'_>,
        (border, lookup): (&Border, impl Lookup),
        (headers, ways): (&mut Headers<'b>, &mut Ways),
    ) -> u64 {
        let (rules, softwires) = (&*border.rules, &*border.softwires);
        let (common, shared) = (lookup.common(), softwires.range());
        let has_more = rules.mss.is_some() || rules.six.ingress.is_some();
        let (mut from, mut hairpin, mut rest) = (0, 0, 0);
        batch.each_ref_in(
            among,
            #[inline(always)]
            |slot, packet| {
                let at = slot.index();
                let Some(l3) = ingress.enter::<TAGGED>(batch.lanes.port[slot], packet) else { return };
                let front: &[u8; KIND + Ipv6::LEN + FRONT] = packet.window(l3.wrapping_sub(KIND));
                let kind = u32::from_le_bytes(*part(front, 0));
                if kind & Sides::SIX != ingress.sides().six {
                    rest |= slot.bit();
                    return;
                }
                if kind & Sides::ECN != 0 && mark_goes_on(part(front, KIND)) {
                    return;
                }
                let Some(bytes) = payload_of(part(front, KIND), packet.len().wrapping_sub(l3)) else { return };
                if TAGGED {
                    self.l3.0[at] = l3 as u8;
                }
                headers.lengths[at] = (bytes + Ethernet::LEN) as u16;
                let inside = KIND + Ipv6::LEN;
                let (frame, ports) = (part(front, inside - Ethernet::LEN), ports_of(part(front, inside + Ipv4::LEN)));
                if has_more && !takes(&rules.six, rules.mss, packet, (l3, l3 + Ipv6::LEN)) {
                    return;
                }
                let destination = frame_check::destination_of(frame);
                if !self.seek(softwires, lookup, common, at, (source_of(frame), (ports >> 16) as u16)) {
                    return;
                }
                border.onward.prefetch(destination);
                if shared.contains(&destination) {
                    self.others.seek_address(softwires, at, (destination, ports as u16));
                    hairpin |= slot.bit();
                }
                (headers.frames[at], self.four.0[at]) = (frame, destination);
                from |= slot.bit();
            },
        );
        (ways.from, ways.hairpin) = (from, hairpin);
        rest
    }

    /// Asks for what leads to the softwire of a packet: at once, where all addresses are divided alike. False if none has the port.
    #[inline(always)]
    fn seek(
        &mut self,
        softwires: &Softwires,
        lookup: impl Lookup,
        common: Option<PortSets>,
        at: usize,
        end: (u32, u16),
    ) -> bool {
        match common {
            Some(sets) => self.own.seek(lookup, at, end, sets),
            None => {
                self.own.seek_address(softwires, at, end);
                true
            }
        }
    }

    /// The next one, where addresses are not all divided alike: from addresses to how their ports are divided. Answers of which packets there may be a
    /// softwire.
    #[inline(always)]
    fn find(&mut self, border: &Border, lookup: impl Lookup, of: u64) -> u64 {
        let mut found = 0;
        for slot in Slots(of) {
            if self.own.follow(&border.softwires, lookup, slot.index()) == Some(true) {
                found |= slot.bit();
            }
        }
        found
    }

    /// Which packets from customers are for customers, most probably, and which certainly are not.
    #[inline(always)]
    fn find_others(&mut self, border: &Border, lookup: impl Lookup, ways: Ways) -> Ways {
        let softwires = &*border.softwires;
        // What is beyond all shared addresses is nobody's.
        let (mut hairpin, mut from) = (0, ways.from & !ways.hairpin);
        for slot in Slots(ways.from & ways.hairpin) {
            match self.others.follow(softwires, lookup, slot.index()) {
                None if softwires.is_nobodys(self.four.0[slot.index()]) => from |= slot.bit(),
                Some(true) => hairpin |= slot.bit(),
                None | Some(false) => {}
            }
        }
        // Where customers do not reach each other here, it is routed as all else.
        Ways { hairpin: if border.rules.hairpinning { hairpin } else { 0 }, from, ..ways }
    }

    /// Goes on to records and counters.
    #[inline(always)]
    fn approach(&mut self, border: &Border, lookup: impl Lookup, ways: Ways) {
        let records = border.softwires.records();
        let [up, down] = [Direction::Up, Direction::Down].map(|direction| (records, border.counters.of(direction)));
        for slot in Slots(ways.into) {
            self.own.approach(lookup, down, slot.index());
        }
        for slot in Slots(ways.from | ways.hairpin) {
            self.own.approach(lookup, up, slot.index());
        }
        for slot in Slots(ways.hairpin) {
            self.others.approach(lookup, down, slot.index());
        }
    }

    /// The last pass: into tunnels, out of them, and from one into another. What takes more is left as it is, in the batch as in `done`.
    #[inline(always)]
    fn rewrite<const TAGGED: bool>(
        &mut self,
        batch: &mut Batch,
        border: &Border,
        ways: Ways,
        version: u64,
        done: &mut Done,
    ) {
        let Done { into, from, hairpin, ports } = done;
        let mut encapsulator = Encapsulator::new(border, version);
        batch.each_in(
            ways.into,
            #[inline(always)]
            |slot, packet, _| self.wrap(&mut encapsulator, packet, (slot, self.l3::<TAGGED>(slot)), (into, ports)),
        );
        batch.each_in(
            ways.hairpin,
            #[inline(always)]
            |slot, packet, _| {
                self.hairpin(&mut encapsulator, packet, (slot, self.l3::<TAGGED>(slot)), (hairpin, ports))
            },
        );
        encapsulator.finish();
        let mut decapsulator = Decapsulator::new(border);
        batch.each_in(
            ways.from,
            #[inline(always)]
            |slot, packet, _| self.unwrap(&mut decapsulator, packet, (slot, self.l3::<TAGGED>(slot)), (from, ports)),
        );
        decapsulator.finish();
    }

    /// Where the network header of a packet begins.
    #[inline(always)]
    fn l3<const TAGGED: bool>(&self, slot: Slot) -> usize {
        if TAGGED { usize::from(self.l3.0[slot.index()]) } else { Ethernet::LEN }
    }
}

/// The IPv4 headers of a batch, as the frame check takes them, and their lengths.
struct Headers<'b> {
    frames: [&'b Frame; BATCH],
    lengths: [u16; BATCH],
}

impl Default for Headers<'_> {
    fn default() -> Self {
        Headers { frames: [&NO_FRAME; BATCH], lengths: [0; BATCH] }
    }
}

/// Bytes that follow the usual IPv6 header of a tunnel of which there are so many bytes: it is whole, and is of IPv4.
#[inline(always)]
fn payload_of(front: &[u8; Ipv6::LEN], length: usize) -> Option<usize> {
    let outer = Ipv6::view(front)?;
    let payload = usize::from(outer.payload_length.get());
    // Signed, as what is shorter than a link's header has less than nothing.
    let is_whole = (Ipv6::LEN + payload) as isize <= length as isize;
    (outer.next_header == ipv4::IPIP && is_whole).then_some(payload)
}

/// Whether the congestion mark of a tunnel would have to go on with the packet inside (RFC 6040 section 4.2).
#[inline(always)]
fn mark_goes_on(front: &[u8; FRONT_INSIDE]) -> bool {
    const ECN: u8 = 3;
    const CONGESTED: u8 = 3;
    const CAPABLE_1: u8 = 1;
    let Some((outer, [_, tos, ..])) = Ipv6::split(front) else { return true };
    let ecn = outer.traffic_class() & ECN;
    matches!(ecn, CONGESTED | CAPABLE_1) && ecn != tos & ECN
}

/// Both ports in 32 bits, the source's above.
#[inline(always)]
fn ports_of(ports: &[u8; 4]) -> u32 {
    u32::from_be_bytes(*ports)
}

/// The part of an array that begins at a place; the array has it.
#[inline(always)]
fn part<const N: usize, const M: usize>(of: &[u8; M], at: usize) -> &[u8; N] {
    of.get(at..).and_then(<[u8]>::first_chunk).unwrap_or(&[0; N])
}

/// Whether there is nothing more to do with a packet that came by a side, whose network header begins at `l3` and its IPv4 header at `start`: its filter
/// lets it in, and it is no segment whose options may have to be changed.
#[inline(never)]
fn takes(side: &Side, mss: Option<u16>, packet: &Packet, (l3, start): (usize, usize)) -> bool {
    let is_let_in = |filter: &Filter| filter.matches_untagged(packet.bytes(), tags_in_front(l3));
    !(mss.is_some() && is_syn(packet, start)) && side.ingress.as_ref().is_none_or(is_let_in)
}

/// Where the flags of a TCP segment are.
const TCP_FLAGS: usize = 13;

/// Whether an IPv4 packet opens a conversation of TCP, and may have to ask for smaller segments; its flags are those, if it has any.
fn is_syn(packet: &Packet, start: usize) -> bool {
    const SYN: u8 = 2;
    let [flags] = *packet.window(start + Ipv4::LEN + TCP_FLAGS);
    let ip = Ipv4::view(packet.window::<{ Ipv4::LEN }>(start));
    flags & SYN != 0 && ip.is_some_and(|ip| ip.protocol == ipv4::TCP)
}

/// The source address of an IPv4 packet.
#[inline(always)]
fn source_of(frame: &Frame) -> u32 {
    let [.., a, b, c, d, _, _, _, _] = *frame;
    u32::from_be_bytes([a, b, c, d])
}
