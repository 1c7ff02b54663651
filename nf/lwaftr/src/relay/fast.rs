//! The fast path: whole batches of packets that softwires see all day long, in turns. The first reads headers and asks for what they lead to, the
//! next ones go from line to line, the last one rewrites. Whatever is not as most packets are is left to the [`Border`](crate::border::Border), as
//! it came.

use weir_ip::{Behind, Leaving, OnwardView, PortView};
use weir_packet::{BATCH, Batch, Packet, Slots};
use weir_stage::Out;
use weir_table::exact::Hash;
use weir_wire::{Ethernet, Ipv4, Ipv6, U16, View, checksum, ethernet, flow, ipv4};

use super::Relay;
use crate::border::{Border, HOP_LIMIT};
use crate::table::Direction;
use crate::tally::{Count, Tally};
use weir_wire::port_sets::PortSets;

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
}

impl Ways {
    fn all(self) -> u64 {
        self.into | self.from
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
/// What stands in front of a packet in a tunnel.
const HEAD: usize = Ethernet::LEN + Ipv6::LEN;

impl Relay {
    /// One pass over a batch; answers which packets it took care of.
    pub(super) fn pass(&mut self, batch: &mut Batch, out: &mut Out<'_>) -> u64 {
        let Relay { border, ingress, turns, .. } = self;
        let ways = turns.read(batch, border, ingress);
        let found = turns.find(border, ways.all());
        let ways = Ways { into: ways.into & found, from: ways.from & found };
        turns.approach(border, ways);
        let (mut ports, mut gone) = ([0; BATCH], 0);
        let (mut into, mut from) = (Sum::default(), Sum::default());
        let view = border.onward.view();
        batch.each_in(
            ways.into,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                let before = packet.len() + Ethernet::LEN - usize::from(turns.l3[at]);
                if let Some((port, after)) = turns.wrap(border, view, packet, at) {
                    into.add(before, after);
                    ports[at] = port;
                    gone |= slot.bit();
                }
            },
        );
        batch.each_in(
            ways.from,
            #[inline(always)]
            |slot, packet, _| {
                let at = slot.index();
                let before = packet.len() + Ethernet::LEN - usize::from(turns.l3[at]);
                if let Some((port, after)) = turns.unwrap(border, view, packet, at) {
                    from.add(before, after);
                    ports[at] = port;
                    gone |= slot.bit();
                }
            },
        );
        into.count(&border.tally, [Count::InFour, Count::WholeFour, Count::OutSix, Count::OutWholeSix]);
        from.count(&border.tally, [Count::InSix, Count::WholeSix, Count::OutFour, Count::OutWholeFour]);
        out.answer_indexed_each(gone, &ports);
        gone
    }
}

impl Turns {
    /// The first turn: which packets may go the fast way, and what they are found by.
    #[inline(always)]
    fn read(&mut self, batch: &Batch, border: &Border, ingress: &weir_ip::Ingress) -> Ways {
        let rules = &*border.rules;
        let has_vrfs = ingress.has_vrfs();
        let mut ways = Ways::default();
        let mut index = u16::MAX;
        let mut view: PortView<'_> = ingress.port(index);
        batch.each_ref(
            #[inline(always)]
            |slot, packet| {
                let at = slot.index();
                if batch.lanes.port[slot] != index {
                    index = batch.lanes.port[slot];
                    view = ingress.port(index);
                }
                let entered = view.enter(packet.window(0));
                let l3 = usize::from(entered.l3);
                self.l3[at] = entered.l3;
                let length = packet.len().saturating_sub(l3);
                if !entered.is_ours || has_vrfs && ingress.vrf_of(entered.interface) != 0 {
                    return;
                }
                let ethertype = u16::from_be_bytes(*packet.window(l3.wrapping_sub(2)));
                let found = if ethertype == ethernet::IPV4 && rules.four.has(entered.interface) {
                    ways.into |= slot.bit();
                    read_four(packet.window(l3), length, 2).map(|(ip, [_, port])| (ip.destination.get(), port))
                } else if ethertype == ethernet::IPV6 && rules.six.has(entered.interface) {
                    ways.from |= slot.bit();
                    read_inside(packet.window(l3), length).map(|(ip, [port, _])| {
                        border.onward.prefetch(ip.destination.get());
                        (ip.source.get(), port)
                    })
                } else {
                    None
                };
                let (address, port) = match found {
                    // A SYN may have to ask for smaller segments.
                    Some(found) if rules.mss.is_none() => found,
                    _ => {
                        ways.into &= !slot.bit();
                        ways.from &= !slot.bit();
                        return;
                    }
                };
                (self.addresses[at], self.ports[at]) = (address, port);
                let hash = border.softwires.hash_of_address(address);
                border.softwires.prefetch_address(hash);
                self.hashes[at] = hash;
            },
        );
        ways
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
    }

    /// The ends of the tunnel of a packet's softwire.
    #[inline(always)]
    fn ends(&self, border: &Border, at: usize) -> Option<[u64; 4]> {
        border.softwires.ends_at(self.places[at], self.addresses[at], self.psids[at], self.sets[at])
    }

    /// The last turn, of a packet into a tunnel. Answers the position of the port that it leaves by, and the bytes of its frame without tags; `None`,
    /// and nothing done, if that takes more.
    #[inline(always)]
    fn wrap(&self, border: &Border, view: OnwardView<'_>, packet: &mut Packet, at: usize) -> Option<(u8, usize)> {
        let at = at % BATCH;
        let [b4_0, b4_1, aftr_0, aftr_1] = self.ends(border, at)?;
        let l3 = usize::from(self.l3[at]);
        let ip = Ipv4::view(packet.window::<{ Ipv4::LEN }>(l3))?;
        let (total, class, must_fit) = (ip.total_len(), u32::from(ip.tos), Ipv6::LEN + ip.total_len());
        let mut header = [0; Ipv6::LEN];
        let outer = Ipv6::view_mut(&mut header)?;
        outer.version_class_flow = (6 << 28 | class << 20 | border.rules.flow_label).into();
        outer.payload_length = U16::new(total as u16);
        (outer.next_header, outer.hop_limit) = (ipv4::IPIP, HOP_LIMIT);
        outer.source = octets(aftr_0, aftr_1);
        outer.destination = octets(b4_0, b4_1);
        let answer = border.onward.lookup6(u128::from_be_bytes(outer.destination));
        let hash = || {
            let mut window = [0; 64];
            window.iter_mut().zip(header).for_each(|(to, from)| *to = from);
            flow::hash6(&window, must_fit, 0)
        };
        let leaving = fits(view, answer, hash, border.rules.six.mtu, must_fit)?;
        if packet.headroom() + l3 < HEAD + leaving.room() {
            return None;
        }
        let (front, inner) = packet.replace_head::<HEAD, { Ipv4::LEN }>(l3, HEAD, total)?;
        *front.last_chunk_mut()? = header;
        Ipv4::view_mut(inner)?.decrement_ttl();
        leaving.write(packet, Behind::IPV6);
        view.count(leaving, packet.len() as u64);
        border.counters.count(self.places[at], Direction::Down, total as u64);
        Some((leaving.port(), HEAD + total))
    }

    /// The same of one out of a tunnel.
    #[inline(always)]
    fn unwrap(&self, border: &Border, view: OnwardView<'_>, packet: &mut Packet, at: usize) -> Option<(u8, usize)> {
        let at = at % BATCH;
        let ends = self.ends(border, at)?;
        let l3 = usize::from(self.l3[at]);
        let front: &[u8; FRONT_INSIDE] = packet.window(l3);
        let (outer, inner) = Ipv6::split(front)?;
        let ip = Ipv4::view(inner)?;
        // Source and destination follow each other: both ends are compared as they lie there.
        if [words(&outer.source), words(&outer.destination)] != [[ends[0], ends[1]], [ends[2], ends[3]]] {
            return None;
        }
        let (to, total) = (ip.destination_addr(), ip.total_len());
        if border.softwires.sets_of(to).is_some() {
            return None;
        }
        let answer = border.onward.lookup(to.to_bits());
        let hash = || flow::hash(packet.window::<64>(l3 + Ipv6::LEN), total, 0);
        let leaving = fits(view, answer, hash, border.rules.four.mtu, total)?;
        if packet.headroom() + l3 + Ipv6::LEN < Ethernet::LEN + leaving.room() {
            return None;
        }
        packet.replace_head::<{ Ethernet::LEN }, { Ipv4::LEN }>(l3 + Ipv6::LEN, Ethernet::LEN, total)?;
        leaving.write(packet, Behind::IPV4);
        view.count(leaving, packet.len() as u64);
        border.counters.count(self.places[at], Direction::Up, total as u64);
        Some((leaving.port(), Ethernet::LEN + total))
    }
}

/// How a packet of so many bytes leaves, if its neighbour is known and it fits.
#[inline(always)]
fn fits<'t>(
    view: OnwardView<'t>,
    answer: u32,
    hash: impl FnOnce() -> u32,
    mtu: usize,
    bytes: usize,
) -> Option<Leaving<'t>> {
    view.leaving(answer, hash).ok().filter(|leaving| bytes <= leaving.longest().min(mtu))
}

/// What most IPv4 packets are: whole, of TCP or UDP, without options, right, and with so many hops left; its ports.
#[inline(always)]
fn read_four(front: &[u8; FRONT], length: usize, hops: u8) -> Option<(&Ipv4, [u16; 2])> {
    let (ip, ports) = Ipv4::split(front)?;
    let total = ip.total_len();
    let is_usual = ip.version_ihl == 0x45
        && matches!(ip.protocol, ipv4::TCP | ipv4::UDP)
        && !ip.is_fragment()
        && ip.ttl >= hops
        && total >= FRONT
        && total <= length
        && checksum::is_valid(front.first_chunk::<{ Ipv4::LEN }>()?);
    let &[a, b, c, d] = ports.first_chunk()?;
    is_usual.then_some((ip, [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]))
}

/// The same inside the usual IPv6 packet of a tunnel, which met no congestion that would have to go on.
#[inline(always)]
fn read_inside(front: &[u8; FRONT_INSIDE], length: usize) -> Option<(&Ipv4, [u16; 2])> {
    const ECN: u8 = 3;
    const CONGESTED: u8 = 3;
    const CAPABLE_1: u8 = 1;
    let (outer, inner) = Ipv6::split(front)?;
    let payload = usize::from(outer.payload_length.get());
    if outer.version() != 6 || outer.next_header != ipv4::IPIP || Ipv6::LEN + payload > length {
        return None;
    }
    let (ip, ports) = read_four(inner.first_chunk()?, payload, 1)?;
    let ecn = outer.traffic_class() & ECN;
    let goes_on = matches!(ecn, CONGESTED | CAPABLE_1) && ecn != ip.tos & ECN;
    (!goes_on).then_some((ip, ports))
}

/// An address of two words that lie in packets.
#[inline(always)]
fn octets(first: u64, second: u64) -> [u8; 16] {
    let mut octets = [0; 16];
    let (halves, _) = octets.as_chunks_mut::<8>();
    halves.iter_mut().zip([first, second]).for_each(|(to, from)| *to = from.to_ne_bytes());
    octets
}

#[inline(always)]
fn words(octets: &[u8; 16]) -> [u64; 2] {
    crate::table::words_of(octets)
}
