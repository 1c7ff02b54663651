//! The last pass of the fast path: into tunnels, out of them, and from one into another.

use weir_filter::Filter;
use weir_ip::{Behind, Departures, Leaving};
use weir_packet::{Packet, Slot};
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, flow, ipv4};

use super::Passes;
use super::done::{Outcome, Positions};
use crate::border::{Border, HOP_LIMIT};
use crate::rules::Side;
use crate::table::{CountersView, Direction, Entry, Records};

/// What stands in front of a packet in a tunnel.
const HEAD: usize = Ethernet::LEN + Ipv6::LEN;

impl Passes {
    /// The last pass, of a packet into a tunnel. Nothing is done, and nothing noted, if that takes more.
    #[inline(always)]
    pub(super) fn wrap(
        &mut self,
        encapsulator: &mut Encapsulator<'_>,
        packet: &mut Packet,
        (slot, l3): (Slot, usize),
        done: (&mut Outcome, &mut Positions),
    ) {
        let (own, at) = (&self.own, slot.index());
        let Some((entry, place)) = own.found(encapsulator.records, at) else { return };
        let unknown = || self.unknown.note(entry, place, own.told[at]);
        if let Some(bytes) = encapsulator.put_in(packet, (slot, l3, l3), (entry, unknown), done) {
            encapsulator.down.count(place, bytes as u64);
        }
    }

    /// The same of one from a customer to a customer, whose source is to be believed first.
    #[inline(always)]
    pub(super) fn hairpin(
        &mut self,
        encapsulator: &mut Encapsulator<'_>,
        packet: &mut Packet,
        (slot, l3): (Slot, usize),
        done: (&mut Outcome, &mut Positions),
    ) {
        let (others, at) = (&self.others, slot.index());
        let Some((entry, place)) = self.own.found(encapsulator.records, at) else { return };
        let Some((other, other_place)) = others.found(encapsulator.records, at) else { return };
        if !is_from(entry, packet, l3) {
            return;
        }
        let unknown = || self.unknown.note(other, other_place, others.told[at]);
        if let Some(bytes) = encapsulator.put_in(packet, (slot, l3, l3 + Ipv6::LEN), (other, unknown), done) {
            encapsulator.up.count(place, bytes as u64);
            encapsulator.down.count(other_place, bytes as u64);
        }
    }

    /// The same of one out of a tunnel.
    #[inline(always)]
    pub(super) fn unwrap(
        &self,
        decapsulator: &mut Decapsulator<'_>,
        packet: &mut Packet,
        (slot, l3): (Slot, usize),
        done: (&mut Outcome, &mut Positions),
    ) {
        let Some((entry, place)) = self.own.found(decapsulator.records, slot.index()) else { return };
        if !is_from(entry, packet, l3) {
            return;
        }
        if let Some(bytes) = decapsulator.take_out(packet, (slot, l3, self.answers.0[slot.index()]), done) {
            decapsulator.up.count(place, bytes as u64);
        }
    }
}

/// What it takes to put packets into tunnels, at hand during a batch.
pub(super) struct Encapsulator<'t> {
    records: Records<'t>,
    up: CountersView<'t>,
    down: CountersView<'t>,
    egress: SideEgress<'t>,
    /// That of routes and neighbours.
    version: u64,
    /// The first eight bytes of the outer header without the traffic class and the payload length, as a big-endian number (RFC 8200 section 3).
    first: u64,
}

impl<'t> Encapsulator<'t> {
    #[inline(always)]
    pub(super) fn new(border: &'t Border, version: u64) -> Encapsulator<'t> {
        let (flow_label, protocol) = (u64::from(border.rules.flow_label), u64::from(ipv4::IPIP));
        Encapsulator {
            records: border.softwires.records(),
            up: border.counters.of(Direction::Up),
            down: border.counters.of(Direction::Down),
            egress: SideEgress::new(border, &border.rules.six, (Behind::IPV6, ethernet::IPV6)),
            version,
            first: 6 << 60 | flow_label << 32 | protocol << 8 | u64::from(HOP_LIMIT),
        }
    }

    /// Puts the IPv4 packet that begins at `start` in a frame whose network header begins at `l3` into the tunnel of a softwire; answers its bytes.
    /// `unknown` is told if it has to be looked up first where the tunnel leads.
    #[inline(always)]
    fn put_in(
        &mut self,
        packet: &mut Packet,
        (slot, l3, start): (Slot, usize, usize),
        (entry, unknown): (Entry<'_>, impl FnOnce()),
        done: (&mut Outcome, &mut Positions),
    ) -> Option<usize> {
        let before = packet.len() + Ethernet::LEN - l3;
        let ip = Ipv4::view(packet.window::<{ Ipv4::LEN }>(start))?;
        let (total, class) = (ip.total_len(), u64::from(ip.tos));
        let first = (self.first | class << 52 | (total as u64) << 16).to_be();
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
        let (known, version) = (entry.known(), self.version);
        let answer = || {
            let answer = known.answer(version);
            if answer.is_none() {
                unknown();
            }
            answer
        };
        let leaving = self.egress.departures.leaving_by(known.number(), answer, hash)?;
        let (longest, room) = (self.egress.departures.longest(), self.egress.departures.room());
        if Ipv6::LEN + total > longest || !entry.is_path_unknown() && Ipv6::LEN + total > entry.path_once() {
            return None;
        }
        if room > 0 && packet.headroom() + start < HEAD + room {
            return None;
        }
        let (front, inner) = packet.replace_head::<HEAD, { Ipv4::LEN }>(start, HEAD, total)?;
        let (link, outer) = front.split_first_chunk_mut()?;
        leaving.write_front(link, Behind::IPV6);
        write_words(outer.first_chunk_mut::<{ Ipv6::LEN }>()?, header());
        Ipv4::view_mut(inner)?.decrement_ttl();
        self.egress.leave(packet, leaving, (slot, before, HEAD + total), done);
        Some(total)
    }

    /// Counts what has left.
    #[inline(always)]
    pub(super) fn finish(self) {
        self.egress.departures.finish();
    }
}

/// What it takes to get packets out of tunnels, at hand during a batch.
pub(super) struct Decapsulator<'t> {
    records: Records<'t>,
    up: CountersView<'t>,
    egress: SideEgress<'t>,
}

// What is cut off is more than what is put in front: nothing has to be asked of the headroom.
const _: () = assert!(Leaving::MOST_ROOM <= Ipv6::LEN);

impl<'t> Decapsulator<'t> {
    #[inline(always)]
    pub(super) fn new(border: &'t Border) -> Decapsulator<'t> {
        Decapsulator {
            records: border.softwires.records(),
            up: border.counters.of(Direction::Up),
            egress: SideEgress::new(border, &border.rules.four, (Behind::IPV4, ethernet::IPV4)),
        }
    }

    /// Takes the packet out of the tunnel whose header begins at `l3`; answers its bytes. Routes gave this answer for its destination.
    #[inline(always)]
    fn take_out(
        &mut self,
        packet: &mut Packet,
        (slot, l3, answer): (Slot, usize, u32),
        done: (&mut Outcome, &mut Positions),
    ) -> Option<usize> {
        let (before, start) = (packet.len() + Ethernet::LEN - l3, l3 + Ipv6::LEN);
        let total = Ipv4::view(packet.window::<{ Ipv4::LEN }>(start))?.total_len();
        let hash = || flow::hash(packet.window::<64>(start), total, 0);
        let leaving = self.egress.departures.leaving(answer, hash)?;
        if total > self.egress.departures.longest() {
            return None;
        }
        let (front, _) = packet.replace_head::<{ Ethernet::LEN }, { Ipv4::LEN }>(start, Ethernet::LEN, total)?;
        leaving.write_front(front, Behind::IPV4);
        self.egress.leave(packet, leaving, (slot, before, Ethernet::LEN + total), done);
        Some(total)
    }

    /// Counts what has left.
    #[inline(always)]
    pub(super) fn finish(self) {
        self.egress.departures.finish();
    }
}

/// How packets leave on one side of the relay.
struct SideEgress<'t> {
    departures: Departures<'t>,
    filter: Option<&'t Filter>,
    /// What follows the link's header, for links and for filters.
    behind: Behind,
    ethertype: u16,
}

impl<'t> SideEgress<'t> {
    #[inline(always)]
    fn new(border: &'t Border, side: &'t Side, (behind, ethertype): (Behind, u16)) -> SideEgress<'t> {
        let departures = border.onward.view().departures().up_to(side.mtu);
        SideEgress { departures, filter: side.egress.as_ref(), behind, ethertype }
    }

    /// A packet that was rewritten, but for tags, leaves this way, if the filter lets it. Its frame had so many bytes `before`, and has so many `after`.
    #[inline(always)]
    fn leave(
        &mut self,
        packet: &mut Packet,
        leaving: Leaving<'_>,
        (slot, before, after): (Slot, usize, usize),
        (outcome, ports): (&mut Outcome, &mut Positions),
    ) {
        if let Some(filter) = self.filter
            && !passes(filter, packet, self.ethertype)
        {
            return outcome.is_kept(slot, (before, after));
        }
        let room = self.departures.room();
        if room > 0 {
            leaving.write_tags(packet, self.behind);
        }
        self.departures.count((after + room) as u64);
        outcome.leaves(slot, (before, after), (leaving.port(), ports));
    }
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

/// Whether the IPv6 packet that begins at `l3` is from the customer of a softwire to the relay.
#[inline(always)]
fn is_from(entry: Entry<'_>, packet: &Packet, l3: usize) -> bool {
    let outer = Ipv6::view(packet.window::<{ Ipv6::LEN }>(l3));
    outer.is_some_and(|outer| entry.is_between([&outer.source, &outer.destination]))
}

/// An address of two words that lie in packets.
#[inline(always)]
pub(super) fn octets(first: u64, second: u64) -> [u8; 16] {
    let mut octets = [0; 16];
    let (halves, _) = octets.as_chunks_mut::<8>();
    halves.iter_mut().zip([first, second]).for_each(|(to, from)| *to = from.to_ne_bytes());
    octets
}
