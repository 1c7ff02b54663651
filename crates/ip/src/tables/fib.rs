//! What workers read to forward: next hops and equal-cost groups, as single words.
//!
//! The prefix table answers a [`Leads`]: the place of a next hop, or a group of such places. Each place is one 64-bit word, so
//! that a reader sees the old or the new next hop, never half of each:
//!
//! ```text
//! bits  0..48  MAC address of the next hop, as it lies in the packet
//! bits 48..64  number of the interface to send by; from 0xff00 on, something else is to be done (`Action`)
//! ```
//!
//! Where a route leads into a function, the lower bits are what the function is told, and which of its inlets it is:
//!
//! ```text
//! bits  0..32  the argument
//! bits 32..48  number of the inlet
//! ```
//!
//! Where the next hop's Ethernet address is not known, the lowest 16 bits are the number of the interface that packets will leave by.
//!
//! The first places are not next hops but special adjacencies: no route, the router's own addresses, and so on. A place or group that no
//! route leads to any more is used again only after a grace period.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_mem::prefetch::prefetch_slice;
use weir_mem::{HugeSlice, arena};
use weir_net::group::BUCKETS;
use weir_net::nexthop::{Inlet, NextHopStore};
use weir_net::rib::Discard;
use weir_wire::MacAddr;

use crate::{Egress, Ingress, InterfaceId, MAX_INTERFACES};

/// Places in front of those of next hops: the special adjacencies. Behind them is one for the broadcasts out of each interface: numbers that are often in
/// use are small, as the prefix table has room for such in a halfword.
const RESERVED: u32 = 16;

/// Marks a group among the answers of the prefix table, whose values have 31 bits.
pub(crate) const GROUP: u32 = 1 << 30;

/// Bits of the number of a place, or of a group.
pub(crate) const PLACE_BITS: u32 = 21;

const _: () = assert!(NextHopStore::MAX_CAPACITY + RESERVED + (MAX_INTERFACES as u32) <= 1 << PLACE_BITS);

/// What to do with packets to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Action {
    /// Rewrite and send.
    Forward = 0,
    /// There is no route.
    NoRoute = 1,
    /// For the router itself.
    Receive = 2,
    /// To the broadcast or network address of a connected network, which is not forwarded (RFC 2644).
    Broadcast = 3,
    /// The next hop's Ethernet address is not known.
    Glean = 4,
    /// A link-local address (RFC 3927).
    LinkLocal = 5,
    /// A route says that it is dropped silently.
    Blackhole = 6,
    /// A route says that nothing can be reached there.
    Unreachable = 7,
    /// A route says that nobody may go there.
    Prohibit = 8,
    /// A route leads into a function.
    Function = 9,
}

impl Action {
    /// What a route that leads nowhere does with packets.
    pub(crate) const fn of(discard: Discard) -> Action {
        match discard {
            Discard::Blackhole => Action::Blackhole,
            Discard::Unreachable => Action::Unreachable,
            Discard::Prohibit => Action::Prohibit,
        }
    }
}

/// What an answer of the prefix table stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leads(u32);

impl Leads {
    /// The answer for addresses that no prefix covers.
    pub(crate) const NO_ROUTE: Leads = Leads(Action::NoRoute as u32);
    /// The router's own addresses.
    pub(crate) const RECEIVE: Leads = Leads(Action::Receive as u32);
    /// Broadcast and network addresses of connected networks.
    pub(crate) const BROADCAST: Leads = Leads(Action::Broadcast as u32);
    /// Addresses that RFC 3927 forbids to forward to.
    pub(crate) const LINK_LOCAL: Leads = Leads(Action::LinkLocal as u32);

    /// Nowhere, as a route says.
    pub(crate) const fn discard(discard: Discard) -> Leads {
        Leads(Action::of(discard) as u32)
    }

    /// A next hop by its number.
    pub(crate) const fn next_hop(index: u32) -> Leads {
        Leads(RESERVED + index)
    }

    /// A group by its number.
    pub(crate) const fn group(index: u32) -> Leads {
        Leads(GROUP | index)
    }

    /// The value that the prefix table holds.
    pub(crate) const fn value(self) -> u32 {
        self.0
    }
}

/// One next hop, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Adjacency(u64);

impl Adjacency {
    /// Send by an interface, below [`MAX_INTERFACES`], to this station.
    pub(crate) fn forward(interface: InterfaceId, mac: MacAddr) -> Adjacency {
        Adjacency::new(interface, mac)
    }

    /// Do something else with it.
    pub(crate) fn other(action: Action) -> Adjacency {
        Adjacency::new(MAX_INTERFACES | action as u16, MacAddr::ZERO)
    }

    /// Ask for the Ethernet address of a next hop on this interface.
    pub(crate) fn glean(interface: InterfaceId) -> Adjacency {
        let above = u64::from(MAX_INTERFACES | Action::Glean as u16);
        Adjacency(above << 48 | u64::from(interface))
    }

    /// Hand it to a function.
    pub(crate) fn function(inlet: Inlet) -> Adjacency {
        let above = u64::from(MAX_INTERFACES | Action::Function as u16);
        Adjacency(above << 48 | u64::from(inlet.number) << 32 | u64::from(inlet.argument))
    }

    /// Where into a function packets go, if that is what is to be done.
    #[inline(always)]
    pub(crate) const fn inlet(self) -> Option<Inlet> {
        let is_function = (self.0 >> 48) as u16 == MAX_INTERFACES | Action::Function as u16;
        if is_function { Some(Inlet { number: (self.0 >> 32) as u16, argument: self.0 as u32 }) } else { None }
    }

    /// The interface that packets leave by, as soon as the next hop's Ethernet address is known.
    pub(crate) const fn towards(self) -> Option<InterfaceId> {
        match self.action() {
            Action::Forward => self.interface(),
            Action::Glean => Some(self.0 as u16),
            _ => None,
        }
    }

    fn new(above: u16, mac: MacAddr) -> Adjacency {
        let ([a, b, c, d, e, f], [g, h]) = (mac.0, above.to_le_bytes());
        Adjacency(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }

    /// The interface that packets leave by; `None` if something else is to be done with them.
    #[inline(always)]
    pub(crate) const fn interface(self) -> Option<InterfaceId> {
        let above = (self.0 >> 48) as u16;
        if above < MAX_INTERFACES { Some(above) } else { None }
    }

    /// What to do.
    pub(crate) const fn action(self) -> Action {
        if self.interface().is_some() {
            return Action::Forward;
        }
        match (self.0 >> 48) as u8 {
            2 => Action::Receive,
            3 => Action::Broadcast,
            4 => Action::Glean,
            5 => Action::LinkLocal,
            6 => Action::Blackhole,
            7 => Action::Unreachable,
            8 => Action::Prohibit,
            9 => Action::Function,
            _ => Action::NoRoute,
        }
    }

    /// The first eight bytes of a packet that is sent there: the destination MAC address, and two bytes that
    /// [`Egress::source_word`] belongs over.
    #[inline(always)]
    pub(crate) const fn front(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// All that workers share and the control side alone writes, beside the prefix table.
#[derive(Debug)]
pub(crate) struct Fib {
    adjacencies: HugeSlice<AtomicU64>,
    groups: HugeSlice<[AtomicU32; BUCKETS]>,
    /// Places of next hops.
    next_hops: u32,
    /// By number of the interface.
    egress: Arc<[Egress]>,
    ingress: Arc<Ingress>,
    /// How often anything has changed that says where packets go and how.
    version: AtomicU64,
}

/// Next hops and interfaces, as the fast path sees them.
#[derive(Clone, Copy)]
pub(crate) struct FibView<'f> {
    adjacencies: &'f [AtomicU64],
    egress: &'f [Egress],
}

impl<'f> FibView<'f> {
    /// Asks for what is known of the interface that packets to a place leave by.
    #[inline(always)]
    pub(crate) fn prefetch_egress(self, place: u32) {
        if let Some(adjacency) = self.adjacency(place) {
            prefetch_slice(self.egress, (adjacency.0 >> 48) as usize);
        }
    }

    /// What to do with packets to a place; `None` for groups, which are no places.
    #[inline(always)]
    pub(crate) fn adjacency(self, place: u32) -> Option<Adjacency> {
        self.adjacencies.get(place as usize).map(|word| Adjacency(word.load(Ordering::Relaxed)))
    }

    /// The interface that packets leave by; `None` if something else is to be done with them.
    #[inline(always)]
    pub(crate) fn egress(self, adjacency: Adjacency) -> Option<&'f Egress> {
        // There are fewer interfaces than `MAX_INTERFACES`, and actions are not below that.
        self.egress.get((adjacency.0 >> 48) as usize)
    }
}

impl Fib {
    /// Room for so many next hops and groups, over interfaces as others know them.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn new(
        next_hops: u32,
        groups: u32,
        egress: &Arc<[Egress]>,
        ingress: &Arc<Ingress>,
    ) -> Result<Arc<Fib>, arena::Error> {
        let adjacencies = HugeSlice::<AtomicU64>::new((RESERVED + next_hops) as usize + egress.len())?;
        let groups = HugeSlice::<[AtomicU32; BUCKETS]>::new(groups as usize)?;
        let (egress, ingress) = (Arc::clone(egress), Arc::clone(ingress));
        let fib = Fib { adjacencies, groups, next_hops, egress, ingress, version: AtomicU64::new(0) };
        // Zero would mean: forward. A place that nobody filled must not.
        for place in 0..fib.adjacencies.len() {
            fib.set(Leads(place as u32), Adjacency::other(Action::NoRoute));
        }
        for (leads, action) in [
            (Leads::RECEIVE, Action::Receive),
            (Leads::BROADCAST, Action::Broadcast),
            (Leads::LINK_LOCAL, Action::LinkLocal),
        ] {
            fib.set(leads, Adjacency::other(action));
        }
        for discard in Discard::ALL {
            fib.set(Leads::discard(discard), Adjacency::other(Action::of(discard)));
        }
        for (interface, _) in (0..MAX_INTERFACES).zip(fib.egress.iter()) {
            fib.set(fib.broadcast_on(interface), Adjacency::forward(interface, MacAddr::BROADCAST));
        }
        Ok(Arc::new(fib))
    }

    /// Places of next hops and special adjacencies.
    pub(crate) fn places(&self) -> usize {
        self.adjacencies.len()
    }

    /// How often anything has changed that says where packets go and how: prefixes, adjacencies, interfaces. What was found at one version counts
    /// for it alone: behind a grace period a place may be another's.
    #[inline(always)]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Something has changed, and readers can see it. Only the control side writes.
    pub(crate) fn note_change(&self) {
        self.version.store(self.version.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// What to do with packets to a place. Only the control side writes.
    pub(crate) fn set(&self, leads: Leads, adjacency: Adjacency) {
        if let Some(word) = self.adjacencies.get(leads.0 as usize) {
            // Relaxed: a reader that came here by an older route sees the old or the new word, and either is whole.
            word.store(adjacency.0, Ordering::Relaxed);
        }
        self.note_change();
    }

    /// The places that the buckets of a group lead to.
    pub(crate) fn set_group(&self, index: u32, buckets: impl Iterator<Item = Leads>) {
        let Some(group) = self.groups.get(index as usize) else { return };
        for (word, leads) in group.iter().zip(buckets) {
            word.store(leads.0, Ordering::Relaxed);
        }
    }

    /// What is known of ports that packets come in by.
    #[inline(always)]
    pub(crate) fn ingress(&self) -> &Ingress {
        &self.ingress
    }

    /// The place that an answer of the prefix table stands for. `hash` is asked for the flow's hash only when a group must
    /// choose.
    #[inline(always)]
    pub(crate) fn place(&self, value: u32, hash: impl FnOnce() -> u32) -> u32 {
        if value & GROUP == 0 {
            return value;
        }
        let group = self.groups.get((value & !GROUP) as usize);
        group.map_or(Leads::NO_ROUTE.0, |group| group[hash() as usize % BUCKETS].load(Ordering::Relaxed))
    }

    /// What to do with packets to a place.
    pub(crate) fn adjacency(&self, place: u32) -> Adjacency {
        self.view(self.places()).adjacency(place).unwrap_or_else(|| Adjacency::other(Action::NoRoute))
    }

    /// What the fast path needs for every packet, to be kept in registers: of the first so many places.
    #[inline(always)]
    pub(crate) fn view(&self, places: usize) -> FibView<'_> {
        FibView { adjacencies: self.adjacencies.get(..places).unwrap_or_default(), egress: &self.egress }
    }

    /// Whether an answer of the prefix table leads to a next hop, of whatever interface or function: neither nowhere nor here.
    pub(crate) fn leads_on(&self, value: u32) -> bool {
        let place = self.place(value, || 0);
        self.next_hop_at(place).is_some() && self.adjacency(place).action() != Action::NoRoute
    }

    /// Whether an answer of the prefix table leads to a next hop by this interface, or, if several share the traffic, to one of them that does.
    pub(crate) fn leads_out_by(&self, value: u32, interface: InterfaceId) -> bool {
        let is_by =
            |place: u32| self.next_hop_at(place).is_some() && self.adjacency(place).towards() == Some(interface);
        if value & GROUP == 0 {
            return is_by(value);
        }
        let group = self.groups.get((value & !GROUP) as usize);
        group.is_some_and(|group| group.iter().any(|place| is_by(place.load(Ordering::Relaxed))))
    }

    /// The number of the next hop at a place; `None` for special adjacencies and broadcasts.
    pub(crate) fn next_hop_at(&self, place: u32) -> Option<u32> {
        place.checked_sub(RESERVED).filter(|number| *number < self.next_hops)
    }

    /// Broadcasts out of an interface.
    pub(crate) fn broadcast_on(&self, interface: InterfaceId) -> Leads {
        Leads(RESERVED + self.next_hops + u32::from(interface))
    }

    /// Bytes mapped.
    pub(crate) fn bytes(&self) -> usize {
        self.adjacencies.bytes() + self.groups.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fib(next_hops: u32) -> Arc<Fib> {
        let egress: Arc<[Egress]> = (0..3).map(|_| Egress::default()).collect();
        Fib::new(next_hops, 2, &egress, &Arc::new(Ingress::untagged(0))).unwrap()
    }

    #[test]
    fn an_entry_keeps_its_parts_apart() {
        for interface in 0..MAX_INTERFACES {
            let adjacency = Adjacency::forward(interface, MacAddr([2, 3, 4, 5, 6, 7]));
            assert_eq!((adjacency.interface(), adjacency.action()), (Some(interface), Action::Forward));
            assert_eq!((&adjacency.front()[..6], adjacency.inlet()), (&[2, 3, 4, 5, 6, 7][..], None));
        }
        let others = [Action::NoRoute, Action::Receive, Action::Broadcast, Action::Glean, Action::LinkLocal];
        for action in others.into_iter().chain(Discard::ALL.map(Action::of)) {
            let adjacency = Adjacency::other(action);
            assert_eq!((adjacency.interface(), adjacency.action()), (None, action));
            assert_eq!(adjacency.inlet(), None);
        }
        for interface in [0, 1, MAX_INTERFACES - 1] {
            let adjacency = Adjacency::glean(interface);
            assert_eq!((adjacency.interface(), adjacency.action()), (None, Action::Glean));
            assert_eq!((adjacency.towards(), Adjacency::other(Action::Receive).towards()), (Some(interface), None));
        }
        for (number, argument) in [(0, 0), (1, 7), (u16::MAX, u32::MAX), (0x1234, 0x8765_4321)] {
            let inlet = Inlet { number, argument };
            let adjacency = Adjacency::function(inlet);
            assert_eq!((adjacency.interface(), adjacency.action()), (None, Action::Function));
            assert_eq!(adjacency.inlet(), Some(inlet));
        }
    }

    #[test]
    fn fresh_places_lead_nowhere() {
        let fib = fib(4);
        for place in 0..fib.places() as u32 + 5 {
            let expected = match place {
                2 => Action::Receive,
                3 => Action::Broadcast,
                5 => Action::LinkLocal,
                6 => Action::Blackhole,
                7 => Action::Unreachable,
                8 => Action::Prohibit,
                20..23 => Action::Forward,
                _ => Action::NoRoute,
            };
            assert_eq!(fib.adjacency(place).action(), expected, "place {place}");
        }
        assert_eq!(fib.place(Leads::group(7).value(), || 1), Leads::NO_ROUTE.value());
        assert_eq!(fib.next_hop_at(Leads::next_hop(3).value()), Some(3));
        assert_eq!(fib.next_hop_at(fib.broadcast_on(0).value()), None);
        assert_eq!(fib.adjacency(fib.broadcast_on(2).value()).interface(), Some(2));
    }

    #[test]
    fn groups_choose_by_hash_and_only_they_ask_for_it() {
        let fib = fib(300);
        fib.set_group(1, (0..256).map(Leads::next_hop));
        for hash in 0..1000 {
            assert_eq!(fib.place(Leads::group(1).value(), || hash), Leads::next_hop(hash % 256).value());
        }
        assert_eq!(fib.place(Leads::next_hop(3).value(), || panic!("no hash is needed")), Leads::next_hop(3).value());
    }
}
