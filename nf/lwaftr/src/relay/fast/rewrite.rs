//! The last pass of the fast path: into tunnels, out of them, and from one into another.

use weir_filter::Filter;
use weir_ip::{Behind, Departures};
use weir_packet::{BATCH, Packet};
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, flow, ipv4};

use super::done::Rewritten;
use super::{FRONT_INSIDE, Passes};
use crate::border::{Border, HOP_LIMIT};
use crate::table::{Direction, Entry};

/// What stands in front of a packet in a tunnel.
const HEAD: usize = Ethernet::LEN + Ipv6::LEN;

impl Passes {
    /// The last pass, of a packet into a tunnel. `None`, and nothing done, if that takes more.
    #[inline(always)]
    pub(super) fn wrap(
        &mut self,
        border: &Border,
        departures: &mut Departures<'_>,
        packet: &mut Packet,
        (at, l3, version): (usize, usize, u64),
    ) -> Option<Rewritten> {
        let at = at % BATCH;
        let (entry, place) = self.own.found(&border.softwires, at)?;
        let Some(answer) = entry.answer(version) else {
            self.unknown.note(entry, place, self.own.told[at]);
            return None;
        };
        let rewritten = put_in(border, departures, packet, l3, (entry, answer))?;
        border.counters.count(place, Direction::Down, (rewritten.bytes - HEAD) as u64);
        Some(rewritten)
    }

    /// The same of one from a customer to a customer, whose source is to be believed first.
    #[inline(always)]
    pub(super) fn hairpin(
        &mut self,
        border: &Border,
        departures: &mut Departures<'_>,
        packet: &mut Packet,
        (at, l3, version): (usize, usize, u64),
    ) -> Option<Rewritten> {
        let at = at % BATCH;
        let (entry, place) = self.own.found(&border.softwires, at)?;
        let (other, other_place) = self.others.found(&border.softwires, at)?;
        if !is_between(packet.window(l3), entry.ends()) {
            return None;
        }
        let Some(answer) = other.answer(version) else {
            self.unknown.note(other, other_place, self.others.told[at]);
            return None;
        };
        let rewritten = put_in(border, departures, packet, l3 + Ipv6::LEN, (other, answer))?;
        let bytes = (rewritten.bytes - HEAD) as u64;
        border.counters.count(place, Direction::Up, bytes);
        border.counters.count(other_place, Direction::Down, bytes);
        Some(rewritten)
    }

    /// The same of one out of a tunnel.
    #[inline(always)]
    pub(super) fn unwrap(
        &self,
        border: &Border,
        departures: &mut Departures<'_>,
        packet: &mut Packet,
        (at, l3): (usize, usize),
    ) -> Option<Rewritten> {
        let (entry, place) = self.own.found(&border.softwires, at)?;
        let front: &[u8; FRONT_INSIDE] = packet.window(l3);
        let (_, inner) = Ipv6::split(front)?;
        let ip = Ipv4::view(inner)?;
        if !is_between(packet.window(l3), entry.ends()) {
            return None;
        }
        let total = ip.total_len();
        let answer = border.onward.lookup(ip.destination.get());
        let hash = || flow::hash(packet.window::<64>(l3 + Ipv6::LEN), total, 0);
        let leaving = departures.leaving(answer, hash)?;
        if total > leaving.longest().min(border.rules.four.mtu) {
            return None;
        }
        if packet.headroom() + l3 + Ipv6::LEN < Ethernet::LEN + leaving.room() {
            return None;
        }
        let (front, _) =
            packet.replace_head::<{ Ethernet::LEN }, { Ipv4::LEN }>(l3 + Ipv6::LEN, Ethernet::LEN, total)?;
        leaving.write_front(front, Behind::IPV4);
        border.counters.count(place, Direction::Up, total as u64);
        if let Some(filter) = &border.rules.four.egress
            && !passes(filter, packet, ethernet::IPV4)
        {
            return Some(Rewritten { port: None, bytes: Ethernet::LEN + total });
        }
        leaving.write_tags(packet, Behind::IPV4);
        departures.count(packet.len() as u64);
        Some(Rewritten { port: Some(leaving.port()), bytes: Ethernet::LEN + total })
    }
}

/// Puts the IPv4 packet that begins at `start` into the tunnel of a softwire, for which routes gave this answer.
#[inline(always)]
fn put_in(
    border: &Border,
    departures: &mut Departures<'_>,
    packet: &mut Packet,
    start: usize,
    (entry, answer): (Entry<'_>, u32),
) -> Option<Rewritten> {
    let ip = Ipv4::view(packet.window::<{ Ipv4::LEN }>(start))?;
    let (total, class) = (ip.total_len(), u32::from(ip.tos));
    let version_class_flow = 6 << 28 | class << 20 | border.rules.flow_label;
    let [a, b, c, d] = version_class_flow.to_be_bytes();
    let [e, f] = (total as u16).to_be_bytes();
    let first = u64::from_ne_bytes([a, b, c, d, e, f, ipv4::IPIP, HOP_LIMIT]);
    // Read where they are written: until then, registers are needed for other things.
    let header = || {
        let [b4_0, b4_1, aftr_0, aftr_1] = entry.ends();
        [first, aftr_0, aftr_1, b4_0, b4_1]
    };
    let hash = || {
        let mut window = [0; 64];
        write_words(&mut window, header());
        flow::hash6(&window, Ipv6::LEN + total, 0)
    };
    let longest = entry.path_once().min(border.rules.six.mtu);
    let leaving = departures.leaving_packed(answer, hash)?;
    if Ipv6::LEN + total > leaving.longest().min(longest) {
        return None;
    }
    let room = leaving.room();
    if packet.headroom() + start < HEAD + room {
        return None;
    }
    let (front, inner) = packet.replace_head::<HEAD, { Ipv4::LEN }>(start, HEAD, total)?;
    let (link, outer) = front.split_first_chunk_mut()?;
    leaving.write_front(link, Behind::IPV6);
    write_words(outer.first_chunk_mut::<{ Ipv6::LEN }>()?, header());
    Ipv4::view_mut(inner)?.decrement_ttl();
    if let Some(filter) = &border.rules.six.egress
        && !passes(filter, packet, ethernet::IPV6)
    {
        return Some(Rewritten { port: None, bytes: HEAD + total });
    }
    leaving.write_tags(packet, Behind::IPV6);
    departures.count((HEAD + total + room) as u64);
    Some(Rewritten { port: Some(leaving.port()), bytes: HEAD + total })
}

/// Whether an egress filter lets a packet leave, as if it had nothing but its EtherType in front of it, as where it is decided by the letter.
#[inline(never)]
fn passes(filter: &Filter, packet: &mut Packet, ethertype: u16) -> bool {
    let link: [u8; Ethernet::LEN] = *packet.window(0);
    *packet.window_mut(0) = [0; Ethernet::LEN - 2];
    *packet.window_mut(Ethernet::LEN - 2) = ethertype.to_be_bytes();
    let passes = filter.matches(packet.bytes());
    *packet.window_mut(0) = link;
    passes
}

/// Writes words as they lie in packets, each at once: memory is asked for no word that was written in parts.
#[inline(always)]
fn write_words<const N: usize>(to: &mut [u8; N], from: [u64; 5]) {
    let (words, _) = to.as_chunks_mut::<8>();
    words.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_ne_bytes());
}

/// Whether an IPv6 packet is from one of these ends to the other.
#[inline(always)]
fn is_between(front: &[u8; FRONT_INSIDE], ends: [u64; 4]) -> bool {
    let Some((outer, _)) = Ipv6::split(front) else { return false };
    [words(&outer.source), words(&outer.destination)] == [[ends[0], ends[1]], [ends[2], ends[3]]]
}

/// An address of two words that lie in packets.
#[inline(always)]
pub(super) fn octets(first: u64, second: u64) -> [u8; 16] {
    let mut octets = [0; 16];
    let (halves, _) = octets.as_chunks_mut::<8>();
    halves.iter_mut().zip([first, second]).for_each(|(to, from)| *to = from.to_ne_bytes());
    octets
}

#[inline(always)]
fn words(octets: &[u8; 16]) -> [u64; 2] {
    crate::table::words_of(octets)
}
