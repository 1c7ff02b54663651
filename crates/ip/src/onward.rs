//! Where packets go that a function sends itself: what it looks up, and what it writes in front of them.

mod departures;

use std::sync::Arc;

use weir_net::nexthop::Inlet;
use weir_packet::Packet;
use weir_table::lpm4::{Dir24, Lookup4};
use weir_table::lpm6::{Lookup6, Trie};
use weir_wire::{Ethernet, View, ethernet};

use crate::egress::Shape;
use crate::fast::rewrite::write_front;
use crate::tables::fib::{Action, Adjacency, Fib, FibView, GROUP, PLACE_BITS};
use crate::tables::prefixes::ReaderOf;
use crate::tags::FRONT_LEN;
use crate::{Egress, InterfaceId};
use weir_table::counters::{Tally, WorkerCounters};

pub use departures::Departures;

/// The routes of the default VRF, as a stage of the function sees them.
#[derive(Clone, Debug)]
pub struct Onward {
    pub(crate) four: Arc<ReaderOf<Dir24>>,
    pub(crate) six: Arc<Trie>,
    pub(crate) fib: Arc<Fib>,
    /// What the stage counts by; no other worker writes it.
    pub(crate) counters: Arc<WorkerCounters>,
}

/// What becomes of packets that do not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No route leads there, or nothing may leave by the interface that it leads to.
    NoRoute,
    /// A route says that they are dropped silently.
    Blackhole,
    /// A route says that nothing can be reached there.
    Unreachable,
    /// A route says that nobody may go there.
    Prohibited,
    /// To one of the own addresses.
    Receive,
    /// To the broadcast or network address of a connected network.
    Broadcast,
    /// To a link-local address.
    LinkLocal,
    /// The neighbour's Ethernet address is not known.
    Glean,
    /// A route leads into the function.
    Function(Inlet),
}

/// An [`Onward`], at hand.
#[derive(Clone, Copy)]
pub struct OnwardView<'t> {
    fib: FibView<'t>,
    groups: &'t Fib,
    counters: Tally<'t>,
}

/// How a packet leaves.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'t> {
    adjacency: Adjacency,
    egress: &'t Egress,
    shape: Shape,
    place: u32,
}

/// What packets that leave are counted at: the next hop of a function that has at most [`Onward::PLACES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u16);

impl Place {
    /// Nowhere.
    pub const NONE: Place = Place(u16::MAX);
}

/// In which bits an EtherType differs from that of IPv4, as they lie in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind(u16);

impl Behind {
    /// IPv4.
    pub const IPV4: Behind = Behind::of(ethernet::IPV4);
    /// IPv6.
    pub const IPV6: Behind = Behind::of(ethernet::IPV6);
    /// MPLS.
    pub const MPLS: Behind = Behind::of(ethernet::MPLS);

    const fn of(ethertype: u16) -> Behind {
        Behind((ethertype ^ ethernet::IPV4).to_be())
    }
}

impl Onward {
    /// Next hops that [`OnwardView::count_at`] can tell apart.
    pub const PLACES: usize = u16::MAX as usize;

    /// Asks for the line that the look-up of an IPv4 address reads first.
    #[inline(always)]
    pub fn prefetch(&self, destination: u32) {
        self.four.prefetch(destination);
    }

    /// What routes answer for IPv4 addresses.
    #[inline(always)]
    pub fn lookup_batch(&self, destinations: &[u32], answers: &mut [u32]) {
        self.four.lookup_batch(destinations, answers);
    }

    /// What routes answer for an IPv4 address.
    #[inline(always)]
    pub fn lookup(&self, destination: u32) -> u32 {
        self.four.lookup(destination)
    }

    /// Bits that [`Onward::packed`] takes.
    pub const PACKED_BITS: u32 = PLACE_BITS + 1;

    /// What routes answered, in fewer bits, for who keeps it beside other things.
    #[inline(always)]
    pub const fn packed(answer: u32) -> u32 {
        let is_group = (answer & GROUP != 0) as u32;
        answer & !GROUP | is_group << PLACE_BITS
    }

    /// What was [packed](Onward::packed).
    #[inline(always)]
    pub const fn unpacked(packed: u32) -> u32 {
        let is_group = packed >> PLACE_BITS & 1;
        packed & ((1 << PLACE_BITS) - 1) | (is_group * GROUP)
    }

    /// Whether routes gave an answer that several next hops share.
    pub fn is_shared(&self, answer: u32) -> bool {
        answer & GROUP != 0
    }

    /// Whether packets to an IPv4 address leave by a port, or would if the neighbour were known.
    pub fn has_route(&self, destination: u32) -> bool {
        match self.leaving(self.lookup(destination), || 0) {
            Ok(leaving) => leaving.longest() > 0,
            Err(fate) => fate == Fate::Glean,
        }
    }

    /// What routes answer for an IPv6 address.
    #[inline(always)]
    pub fn lookup6(&self, destination: u128) -> u32 {
        self.six.lookup(destination)
    }

    /// The table of IPv6, for looking up in passes.
    #[inline(always)]
    pub fn six(&self) -> &Trie {
        &self.six
    }

    /// The interfaces that answers of routes lead to, by answers in order; of those alone that lead to one.
    pub fn interfaces(&self) -> impl Iterator<Item = (u32, InterfaceId)> {
        let fib = self.fib.view(self.fib.places());
        let of = move |answer: u32| Some((answer, fib.adjacency(answer)?.interface()?));
        (0..self.fib.places() as u32).filter_map(of)
    }

    /// What is needed for every packet, to be kept in registers.
    #[inline(always)]
    pub fn view(&self) -> OnwardView<'_> {
        let places = self.fib.places().min(self.counters.places());
        OnwardView { fib: self.fib.view(places), groups: &self.fib, counters: self.counters.view(places) }
    }

    /// How a packet leaves that routes gave this answer for; `hash` is asked for its flow's where routes are shared.
    ///
    /// # Errors
    ///
    /// What becomes of it instead.
    pub fn leaving(&self, answer: u32, hash: impl FnOnce() -> u32) -> Result<Leaving<'_>, Fate> {
        self.view().leaving(answer, hash)
    }

    /// How often anything has changed that says where packets go and how. What was found at one version may be used as long as that is the
    /// version, and in batches that began then.
    #[inline(always)]
    pub fn version(&self) -> u64 {
        self.fib.version()
    }
}

impl<'t> OnwardView<'t> {
    /// As [`Onward::leaving`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline(always)]
    pub fn leaving(self, answer: u32, hash: impl FnOnce() -> u32) -> Result<Leaving<'t>, Fate> {
        let place = self.choose(answer, hash);
        let Some(adjacency) = self.fib.adjacency(place) else { return Err(Fate::NoRoute) };
        match self.fib.egress(adjacency) {
            Some(egress) => Ok(Leaving { adjacency, egress, shape: egress.shape(), place }),
            None => Err(Fate::of(adjacency)),
        }
    }

    /// The answer of one next hop among those that share routes, as the packet's flow says; others are as they are.
    #[inline(always)]
    pub fn choose(self, answer: u32, hash: impl FnOnce() -> u32) -> u32 {
        if answer & GROUP == 0 { answer } else { self.groups.place(answer, hash) }
    }

    /// For packets that leave one after the other.
    #[inline(always)]
    pub fn departures(self) -> Departures<'t> {
        Departures::new(self)
    }

    /// Counts a packet that left by a way that was found before.
    #[inline(always)]
    pub fn count_at(self, place: Place, bytes: u64) {
        self.counters.count(place.0.into(), 1, bytes);
    }

    /// Counts a packet that left, for its next hop and interface: neighbours that packets go to are kept.
    #[inline(always)]
    pub fn count(self, leaving: Leaving<'_>, bytes: u64) {
        self.counters.count(leaving.place, 1, bytes);
    }
}

impl Fate {
    const fn of(adjacency: Adjacency) -> Fate {
        if let Some(inlet) = adjacency.inlet() {
            return Fate::Function(inlet);
        }
        match adjacency.action() {
            Action::Receive => Fate::Receive,
            Action::Broadcast => Fate::Broadcast,
            Action::Glean => Fate::Glean,
            Action::LinkLocal => Fate::LinkLocal,
            Action::Blackhole => Fate::Blackhole,
            Action::Unreachable => Fate::Unreachable,
            Action::Prohibit => Fate::Prohibited,
            Action::NoRoute | Action::Forward | Action::Function => Fate::NoRoute,
        }
    }
}

impl Leaving<'_> {
    /// The number of the interface: one that packets leave by, or an [inlet](crate::Virtual::tunnel).
    #[inline(always)]
    pub fn interface(self) -> InterfaceId {
        self.adjacency.interface().unwrap_or(crate::NO_INTERFACE)
    }

    /// Bytes that there are at most of [room](Leaving::room).
    pub const MOST_ROOM: usize = FRONT_LEN - Ethernet::LEN;

    /// Bytes of the longest IP packet that may leave: 0 while nothing may, and for inlets.
    #[inline(always)]
    pub fn longest(self) -> usize {
        self.shape.longest()
    }

    /// The port's position among those of the layer.
    #[inline(always)]
    pub fn port(self) -> u8 {
        self.shape.way()
    }

    /// What it is counted at.
    pub fn place(self) -> Place {
        u16::try_from(self.place).map_or(Place::NONE, Place)
    }

    /// The link's header without tags, as [`Leaving::write`] writes it where it needs no [room](Leaving::room).
    pub fn header(self, behind: Behind) -> [u8; Ethernet::LEN] {
        let mut header = [0; Ethernet::LEN];
        self.write_front(&mut header, behind);
        header
    }

    /// Bytes that [`Leaving::write`] needs in front of the packet.
    #[inline(always)]
    pub fn room(self) -> usize {
        self.shape.header_len() - Ethernet::LEN
    }

    /// Writes the link's header over the first 14 bytes of a packet, whatever they are, and tags behind it for which there is
    /// [room](Leaving::room) in front. What follows it has the EtherType `behind`.
    #[inline(always)]
    pub fn write(self, packet: &mut Packet, behind: Behind) {
        self.write_front(packet.window_mut(0), behind);
        self.write_tags(packet, behind);
    }

    /// The first half of [`Leaving::write`], for who has the first 14 bytes at hand: the link's header without tags.
    #[inline(always)]
    pub fn write_front(self, front: &mut [u8; Ethernet::LEN], behind: Behind) {
        let source = self.egress.source_word() ^ u64::from(behind.0) << 48;
        write_front(front, self.adjacency, source);
    }

    /// The second half of [`Leaving::write`]: tags, for which there is [room](Leaving::room) in front of the packet.
    #[inline(always)]
    pub fn write_tags(self, packet: &mut Packet, behind: Behind) {
        if self.room() > 0 {
            write_tagged(packet, self.adjacency, self.egress, self.room(), behind);
        }
    }
}

/// As [`Leaving::write_tags`], with `room` bytes of them. All it needs is in registers, so that packets without tags pay nothing for it.
#[inline(never)]
fn write_tagged(packet: &mut Packet, adjacency: Adjacency, egress: &Egress, room: usize, behind: Behind) {
    if !packet.prepend(room) {
        return;
    }
    *packet.window_mut(0) = adjacency.front();
    *packet.window_mut(6) = egress.source_word().to_le_bytes();
    let shift = room.saturating_sub(2) * 8;
    let word = egress.behind_word() ^ u64::from(behind.0) << shift;
    let tags = packet.bytes_mut().get_mut(Ethernet::LEN..).unwrap_or_default();
    tags.iter_mut().zip(word.to_le_bytes()).take(room).for_each(|(to, from)| *to = from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_out_of_few_bits_as_they_were() {
        for number in [0, 1, 15, 16, 1 << 16, (1 << PLACE_BITS) - 1] {
            for answer in [number, number | GROUP] {
                let packed = Onward::packed(answer);
                assert!(packed < 1 << Onward::PACKED_BITS);
                assert_eq!(Onward::unpacked(packed), answer);
            }
        }
    }
}
