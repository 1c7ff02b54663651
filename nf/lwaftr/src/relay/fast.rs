//! The fast path: whole batches of packets that softwires see all day long, in passes. The first reads headers and asks for what they lead to, the
//! next ones go from line to line, the last one rewrites. Whatever is not as most packets are is left to the [`Border`](crate::border::Border), as
//! it came.

mod done;
mod rewrite;
mod route;
mod sought;

use weir_filter::Filter;
use weir_ip::{Arrived, Ingress, InterfaceId};
use weir_packet::{BATCH, Batch, Packet, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::{self, Destinations, Frame, LinkPattern, NO_FRAME};
use weir_stage::Out;
use weir_wire::port_sets::PortSets;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, ipv4};

use self::done::Done;
use self::route::Unknown;
use self::sought::{Lookup, Sought};
use super::sort::tags_in_front;
use super::{Relay, Stand};
use crate::border::Border;
use crate::rules::{Rules, Side};
use crate::table::Direction;

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
    /// What has to be looked up before packets can go into tunnels.
    unknown: Box<Unknown>,
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
        let with = (&*border, &**ingress, *kernel);
        // Where no packet has tags, it is known where their headers are.
        if arrived.is_tagged {
            return kernel.run(
                #[inline(always)]
                || passes.run::<true>(batch, with, out),
            );
        }
        kernel.run(
            #[inline(always)]
            || passes.run::<false>(batch, with, out),
        )
    }
}

impl Passes {
    /// All passes, of a batch in which packets may be `TAGGED`.
    #[inline(always)]
    fn run<const TAGGED: bool>(
        &mut self,
        batch: &mut Batch,
        (border, ingress, kernel): (&Border, &Ingress, Kernel),
        out: &mut Out<'_>,
    ) -> u64 {
        let common = border.softwires.common_sets();
        let dense = common.and_then(|sets| border.softwires.dense(sets));
        let lookup = Lookup { softwires: &border.softwires, dense };
        // Before anything is looked up: what is found now counts for this version at least.
        let version = border.onward.version();
        let ways = self.read::<TAGGED>(batch, (border, ingress, kernel), (lookup, common));
        let ways = if common.is_some() { ways } else { ways.among(self.find(lookup, ways.all())) };
        let ways = self.find_others(border, lookup, ways);
        self.approach(border, lookup, ways);
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
        (lookup, common): (Lookup<'_>, Option<PortSets>),
    ) -> Ways {
        let rules = &*border.rules;
        // Whether something more is to be looked at than all packets have.
        let has_more = rules.mss.is_some() || rules.four.ingress.is_some() || rules.six.ingress.is_some();
        let mut ways = Ways::default();
        let (mut frames, mut lengths) = ([&NO_FRAME; BATCH], [0_u16; BATCH]);
        let mut index = u16::MAX;
        let mut view = ingress.port(index);
        let (mut mac, mut sides) = (u64::MAX, Sides::default());
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                let at = slot.index();
                if batch.lanes.port[slot] != index {
                    index = batch.lanes.port[slot];
                    view = ingress.port(index);
                    (mac, sides) = (ingress.mac_word(index), Sides::of(rules, ingress, ingress.untagged_of(index)));
                }
                let mut l3 = Ethernet::LEN;
                let mut is_ours = u64::from_le_bytes(*packet.window(0)) & MAC_BITS == mac;
                if TAGGED {
                    let entered = view.enter(packet.window(0));
                    (l3, is_ours) = (usize::from(entered.l3), entered.is_ours);
                    sides = Sides::of(rules, ingress, entered.interface);
                    self.l3.0[at] = l3 as u8;
                }
                if !is_ours {
                    return;
                }
                let length = packet.len().saturating_sub(l3);
                let ethertype = u16::from_be_bytes(*packet.window(l3.wrapping_sub(2)));
                if ethertype == ethernet::IPV4 && sides.four {
                    let Some((frame, ports)) = usual(packet, l3) else { return };
                    if has_more && !takes(&rules.four, rules.mss, packet, (l3, l3)) {
                        return;
                    }
                    let destination = frame_check::destination_of(frame);
                    if !self.seek(lookup, at, (destination, ports as u16), common) {
                        return;
                    }
                    (frames[at], lengths[at], self.four.0[at]) = (frame, (length + Ethernet::LEN) as u16, destination);
                    ways.into |= slot.bit();
                } else if ethertype == ethernet::IPV6 && sides.six {
                    let Some(bytes) = payload_of(packet.window(l3), length) else { return };
                    let Some((frame, ports)) = usual(packet, l3 + Ipv6::LEN) else { return };
                    if has_more && !takes(&rules.six, rules.mss, packet, (l3, l3 + Ipv6::LEN)) {
                        return;
                    }
                    let destination = frame_check::destination_of(frame);
                    if !self.seek(lookup, at, (source_of(frame), (ports >> 16) as u16), common) {
                        return;
                    }
                    border.onward.prefetch(destination);
                    if !lookup.softwires.is_beyond(destination) {
                        self.others.seek_address(lookup, at, (destination, ports as u16));
                        ways.hairpin |= slot.bit();
                    }
                    (frames[at], lengths[at], self.four.0[at]) = (frame, (bytes + Ethernet::LEN) as u16, destination);
                    ways.from |= slot.bit();
                }
            },
        );
        let count = BATCH - batch.live().leading_zeros() as usize;
        ways.among(frame_check::check(kernel, ANY, &frames, &lengths, &self.four, count))
    }

    /// Asks for what leads to the softwire of a packet: at once, where all addresses are divided alike. False if none has the port.
    #[inline(always)]
    fn seek(&mut self, lookup: Lookup<'_>, at: usize, end: (u32, u16), common: Option<PortSets>) -> bool {
        match common {
            Some(sets) => self.own.seek(lookup, at, end, sets),
            None => {
                self.own.seek_address(lookup, at, end);
                true
            }
        }
    }

    /// The next one, where addresses are not all divided alike: from addresses to how their ports are divided. Answers of which packets there may be a
    /// softwire.
    #[inline(always)]
    fn find(&mut self, lookup: Lookup<'_>, of: u64) -> u64 {
        let mut found = 0;
        for slot in Slots(of) {
            if self.own.follow(lookup, slot.index()) == Some(true) {
                found |= slot.bit();
            }
        }
        found
    }

    /// Which packets from customers are for customers, most probably, and which certainly are not.
    #[inline(always)]
    fn find_others(&mut self, border: &Border, lookup: Lookup<'_>, ways: Ways) -> Ways {
        // What is beyond all shared addresses is nobody's.
        let (mut hairpin, mut from) = (0, ways.from & !ways.hairpin);
        for slot in Slots(ways.from & ways.hairpin) {
            match self.others.follow(lookup, slot.index()) {
                None if lookup.softwires.is_nobodys(self.four.0[slot.index()]) => from |= slot.bit(),
                Some(true) => hairpin |= slot.bit(),
                None | Some(false) => {}
            }
        }
        // Where customers do not reach each other here, it is routed as all else.
        Ways { hairpin: if border.rules.hairpinning { hairpin } else { 0 }, from, ..ways }
    }

    /// Goes on to records and counters.
    #[inline(always)]
    fn approach(&mut self, border: &Border, lookup: Lookup<'_>, ways: Ways) {
        let counters = &*border.counters;
        for slot in Slots(ways.into) {
            self.own.approach(lookup, counters, slot.index(), Direction::Down);
        }
        for slot in Slots(ways.from | ways.hairpin) {
            self.own.approach(lookup, counters, slot.index(), Direction::Up);
        }
        for slot in Slots(ways.hairpin) {
            self.others.approach(lookup, counters, slot.index(), Direction::Down);
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
        let mut departures = border.onward.view().departures();
        batch.each_in(
            ways.into,
            #[inline(always)]
            |slot, packet, _| {
                let l3 = self.l3::<TAGGED>(slot.index());
                let before = packet.len() + Ethernet::LEN - l3;
                if let Some(rewritten) = self.wrap(border, &mut departures, packet, (slot.index(), l3, version)) {
                    done.into.add(slot, before, rewritten, &mut done.ports);
                }
            },
        );
        batch.each_in(
            ways.hairpin,
            #[inline(always)]
            |slot, packet, _| {
                let l3 = self.l3::<TAGGED>(slot.index());
                let before = packet.len() + Ethernet::LEN - l3;
                if let Some(rewritten) = self.hairpin(border, &mut departures, packet, (slot.index(), l3, version)) {
                    done.inside += (rewritten.bytes - Ipv6::LEN) as u64;
                    done.hairpin.add(slot, before, rewritten, &mut done.ports);
                }
            },
        );
        batch.each_in(
            ways.from,
            #[inline(always)]
            |slot, packet, _| {
                let l3 = self.l3::<TAGGED>(slot.index());
                let before = packet.len() + Ethernet::LEN - l3;
                if let Some(rewritten) = self.unwrap(border, &mut departures, packet, (slot.index(), l3)) {
                    done.from.add(slot, before, rewritten, &mut done.ports);
                }
            },
        );
        departures.finish();
    }

    /// Where the network header of a packet begins.
    #[inline(always)]
    fn l3<const TAGGED: bool>(&self, at: usize) -> usize {
        if TAGGED { usize::from(self.l3.0[at % BATCH]) } else { Ethernet::LEN }
    }
}

/// On which sides of the relay an interface is.
#[derive(Clone, Copy, Default)]
struct Sides {
    four: bool,
    six: bool,
}

impl Sides {
    #[inline(always)]
    fn of(rules: &Rules, ingress: &Ingress, interface: InterfaceId) -> Sides {
        let vrf = ingress.vrf_of(interface);
        Sides {
            four: rules.four.has(interface) && vrf == rules.vrfs[0],
            six: rules.six.has(interface) && vrf == rules.vrfs[1],
        }
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

/// The IPv4 packet that begins at `start`, as the frame check takes it, and its ports in 32 bits, the source's above, if it is whole, of TCP or UDP, and
/// has ports.
#[inline(always)]
fn usual(packet: &Packet, start: usize) -> Option<(&Frame, u32)> {
    let frame: &Frame = packet.window(start.wrapping_sub(Ethernet::LEN));
    let ip = frame.last_chunk::<{ Ipv4::LEN }>().and_then(|bytes| Ipv4::view(bytes))?;
    if !matches!(ip.protocol, ipv4::TCP | ipv4::UDP) || ip.is_fragment() || ip.total_len() < FRONT {
        return None;
    }
    Some((frame, u32::from_be_bytes(*packet.window(start + Ipv4::LEN))))
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
