//! What workers read to forward: next hops, equal-cost groups and ports, as single words.
//!
//! The prefix table answers a [`Leads`]: the place of a next hop, or a group of such places. Each place is one 64-bit word, so
//! that a reader sees the old or the new next hop, never half of each:
//!
//! ```text
//! bits  0..48  MAC address of the next hop, as it lies in the packet
//! bits 48..56  position of the port among the router's
//! bits 56..64  what to do (`Action`); 0: rewrite and send
//! ```
//!
//! The first places are not next hops but fates: no route, the router's own addresses, and so on. A place or group that no
//! route leads to any more is used again only after a grace period.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_mem::{HugeSlice, arena};
use weir_net::group::BUCKETS;
use weir_net::nexthop::NextHopStore;
use weir_simd::frame_check::Station;
use weir_wire::{Ethernet, MacAddr, View, ethernet};

/// Ports that a router has at most: with the other ways out they fit the 255 of a stage.
pub(crate) const MAX_PORTS: usize = 64;

/// Places that are no next hops: the fates, then one for the broadcasts out of each port.
const RESERVED: u32 = FIRST_BROADCAST + MAX_PORTS as u32;
const FIRST_BROADCAST: u32 = 8;

/// Marks a group among the answers of the prefix table, whose values have 31 bits.
pub(crate) const GROUP: u32 = 1 << 30;

const _: () = assert!(NextHopStore::MAX_CAPACITY + RESERVED < GROUP);

/// What to do with packets to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Action {
    /// Rewrite and send.
    Forward = 0,
    /// There is no route.
    NoRoute = 1,
    /// For the router itself.
    Local = 2,
    /// To the broadcast or network address of a connected network, which is not forwarded (RFC 2644).
    Broadcast = 3,
    /// The next hop's Ethernet address is not known.
    Unresolved = 4,
    /// A link-local address (RFC 3927).
    LinkLocal = 5,
}

/// What an answer of the prefix table stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leads(u32);

impl Leads {
    /// The answer for addresses that no prefix covers.
    pub(crate) const NO_ROUTE: Leads = Leads(Action::NoRoute as u32);
    /// The router's own addresses.
    pub(crate) const LOCAL: Leads = Leads(Action::Local as u32);
    /// Broadcast and network addresses of connected networks.
    pub(crate) const BROADCAST: Leads = Leads(Action::Broadcast as u32);
    /// Addresses that RFC 3927 forbids to forward to.
    pub(crate) const LINK_LOCAL: Leads = Leads(Action::LinkLocal as u32);

    /// A next hop by its number.
    pub(crate) const fn next_hop(index: u32) -> Leads {
        Leads(RESERVED + index)
    }

    /// A group by its number.
    pub(crate) const fn group(index: u32) -> Leads {
        Leads(GROUP | index)
    }

    /// Broadcasts out of a port.
    pub(crate) const fn broadcast_on(port: u8) -> Leads {
        Leads(FIRST_BROADCAST + port as u32 % MAX_PORTS as u32)
    }

    /// The value that the prefix table holds.
    pub(crate) const fn value(self) -> u32 {
        self.0
    }
}

/// One next hop, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    /// Send out of a port to this station.
    pub(crate) fn forward(port: u8, mac: MacAddr) -> Entry {
        let [a, b, c, d, e, f] = mac.0;
        Entry(u64::from_le_bytes([a, b, c, d, e, f, port, Action::Forward as u8]))
    }

    /// Do something else with it.
    pub(crate) fn other(action: Action, port: u8) -> Entry {
        Entry(u64::from_le_bytes([0, 0, 0, 0, 0, 0, port, action as u8]))
    }

    /// The port that packets leave by, as its position among the router's, below [`MAX_PORTS`]; `None` if something else is
    /// to be done with them.
    #[inline(always)]
    pub(crate) const fn egress(self) -> Option<u8> {
        // `Action::Forward` is 0, so that nothing but the port is left.
        let above = self.0 >> 48;
        if above < MAX_PORTS as u64 { Some(above as u8) } else { None }
    }

    /// What to do.
    pub(crate) const fn action(self) -> Action {
        match (self.0 >> 56) as u8 {
            0 => Action::Forward,
            2 => Action::Local,
            3 => Action::Broadcast,
            4 => Action::Unresolved,
            5 => Action::LinkLocal,
            _ => Action::NoRoute,
        }
    }

    /// The first eight bytes of a packet that is sent there: the destination MAC address, and two bytes that
    /// [`Egress::source_word`] belongs over.
    #[inline(always)]
    pub(crate) const fn front(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// Position of the port among the router's, whatever is to be done.
    #[cfg(test)]
    const fn port(self) -> u8 {
        (self.0 >> 48) as u8
    }
}

/// What forwarding needs to know of a port that packets leave by.
#[derive(Debug, Default)]
pub(crate) struct Egress {
    /// Source MAC address and EtherType as they lie in the packet, as a little-endian word.
    source: AtomicU64,
    /// Bytes of the longest frame: MTU and Ethernet header. 0 while the link is down, so that none fits.
    longest: AtomicU32,
}

impl Egress {
    /// What packets that leave by the port carry.
    pub(crate) fn set(&self, mac: MacAddr, mtu: u16) {
        let [a, b, c, d, e, f] = mac.0;
        let [g, h] = ethernet::IPV4.to_be_bytes();
        self.source.store(u64::from_le_bytes([a, b, c, d, e, f, g, h]), Ordering::Relaxed);
        self.longest.store(u32::from(mtu) + Ethernet::LEN as u32, Ordering::Relaxed);
    }

    /// Lets nothing leave any more, whatever leads here: one word stops all of it, be it a million routes.
    pub(crate) fn close(&self) {
        self.longest.store(0, Ordering::Relaxed);
    }

    /// Whether nothing may leave.
    pub(crate) fn is_closed(&self) -> bool {
        self.longest_frame() == 0
    }

    /// Takes over what is known of another.
    pub(crate) fn become_like(&self, other: &Egress) {
        self.source.store(other.source.load(Ordering::Relaxed), Ordering::Relaxed);
        self.longest.store(other.longest.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn source_word(&self) -> u64 {
        self.source.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn longest_frame(&self) -> usize {
        self.longest.load(Ordering::Relaxed) as usize
    }
}

/// The MAC address that packets to the router carry, for each port that packets come in by.
#[derive(Debug)]
pub(crate) struct Ingress(Box<[AtomicU64]>);

impl Ingress {
    /// What no MAC address is: a port that is not the router's.
    const NOBODY: u64 = u64::MAX;

    /// For packets from ports with an index below `port_indices`, all of which are nobody's.
    pub(crate) fn new(port_indices: usize) -> Ingress {
        Ingress((0..port_indices).map(|_| AtomicU64::new(Ingress::NOBODY)).collect())
    }

    /// The MAC address that packets carry when they come in by the port of this index. Only the control side writes.
    pub(crate) fn set(&self, index: u16, mac: Option<MacAddr>) {
        if let Some(word) = self.0.get(index as usize) {
            word.store(mac.map_or(Ingress::NOBODY, mac_word), Ordering::Relaxed);
        }
    }

    /// Whom packets from a port must be for; `None` if the port is not the router's.
    #[inline(always)]
    pub(crate) fn station(&self, port: u16) -> Option<Station> {
        let [a, b, c, d, e, f, rest @ ..] = self.mac_word(port).to_le_bytes();
        (rest == [0, 0]).then_some(Station::only([a, b, c, d, e, f]))
    }

    /// The address of a port as a little-endian word of 48 bits.
    #[inline(always)]
    pub(crate) fn mac_word(&self, port: u16) -> u64 {
        self.0.get(port as usize).map_or(Ingress::NOBODY, |word| word.load(Ordering::Relaxed))
    }
}

/// All that workers share and the control side alone writes, beside the prefix table.
#[derive(Debug)]
pub(crate) struct Fib {
    entries: HugeSlice<AtomicU64>,
    groups: HugeSlice<[AtomicU32; BUCKETS]>,
    egress: [Egress; MAX_PORTS],
    /// By the index of the port in the whole configuration.
    ingress: Ingress,
}

/// Next hops and ports, as the fast path sees them.
#[derive(Clone, Copy)]
pub(crate) struct FibView<'f> {
    entries: &'f [AtomicU64],
    egress: &'f [Egress; MAX_PORTS],
}

impl<'f> FibView<'f> {
    /// What to do with packets to a place; `None` for groups, which are no places.
    #[inline(always)]
    pub(crate) fn entry(self, place: u32) -> Option<Entry> {
        self.entries.get(place as usize).map(|word| Entry(word.load(Ordering::Relaxed)))
    }

    /// What is known of a port that packets leave by.
    #[inline(always)]
    pub(crate) fn egress(self, port: u8) -> &'f Egress {
        &self.egress[port as usize % MAX_PORTS]
    }
}

/// The first 48 bits of a packet that is for `mac`.
pub(crate) fn mac_word(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

impl Fib {
    /// Room for so many next hops and groups, and for packets from ports with an index below `port_indices`.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn new(next_hops: u32, groups: u32, port_indices: usize) -> Result<Arc<Fib>, arena::Error> {
        let entries = HugeSlice::<AtomicU64>::new((RESERVED + next_hops) as usize)?;
        let groups = HugeSlice::<[AtomicU32; BUCKETS]>::new(groups as usize)?;
        let fib = Fib {
            entries,
            groups,
            egress: std::array::from_fn(|_| Egress::default()),
            ingress: Ingress::new(port_indices),
        };
        // Zero would mean: forward. A place that nobody filled must not.
        for place in 0..fib.entries.len() {
            fib.set(Leads(place as u32), Entry::other(Action::NoRoute, 0));
        }
        for (leads, action) in [
            (Leads::LOCAL, Action::Local),
            (Leads::BROADCAST, Action::Broadcast),
            (Leads::LINK_LOCAL, Action::LinkLocal),
        ] {
            fib.set(leads, Entry::other(action, 0));
        }
        for port in 0..MAX_PORTS as u8 {
            fib.set(Leads::broadcast_on(port), Entry::forward(port, MacAddr::BROADCAST));
        }
        Ok(Arc::new(fib))
    }

    /// Places of next hops and fates.
    pub(crate) fn places(&self) -> usize {
        self.entries.len()
    }

    /// What to do with packets to a place. Only the control side writes.
    pub(crate) fn set(&self, leads: Leads, entry: Entry) {
        if let Some(word) = self.entries.get(leads.0 as usize) {
            // Relaxed: a reader that came here by an older route sees the old or the new word, and either is whole.
            word.store(entry.0, Ordering::Relaxed);
        }
    }

    /// The places that the buckets of a group lead to.
    pub(crate) fn set_group(&self, index: u32, buckets: impl Iterator<Item = Leads>) {
        let Some(group) = self.groups.get(index as usize) else { return };
        for (word, leads) in group.iter().zip(buckets) {
            word.store(leads.0, Ordering::Relaxed);
        }
    }

    /// What is known of a port that packets leave by, to be changed. Only the control side writes.
    pub(crate) fn egress(&self, port: u8) -> Option<&Egress> {
        self.egress.get(port as usize)
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
    pub(crate) fn entry(&self, place: u32) -> Entry {
        self.view(self.places()).entry(place).unwrap_or(Entry((Action::NoRoute as u64) << 56))
    }

    /// What the fast path needs for every packet, to be kept in registers: of the first so many places.
    #[inline(always)]
    pub(crate) fn view(&self, places: usize) -> FibView<'_> {
        FibView { entries: self.entries.get(..places).unwrap_or_default(), egress: &self.egress }
    }

    /// The number of the next hop at a place; `None` for fates and broadcasts.
    pub(crate) const fn next_hop_at(place: u32) -> Option<u32> {
        place.checked_sub(RESERVED)
    }

    /// Bytes mapped.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.bytes() + self.groups.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_its_parts_apart() {
        for port in 0..MAX_PORTS as u8 {
            for mac in [[0; 6], [0xff; 6], [2, 3, 4, 5, 6, 7]] {
                let entry = Entry::forward(port, MacAddr(mac));
                assert_eq!(entry.egress(), Some(port));
                assert_eq!((entry.port(), entry.action()), (port, Action::Forward));
                assert_eq!(entry.front()[..6], mac);
            }
            for action in [Action::NoRoute, Action::Local, Action::Broadcast, Action::Unresolved, Action::LinkLocal] {
                let entry = Entry::other(action, port);
                assert_eq!(entry.egress(), None);
                assert_eq!((entry.port(), entry.action()), (port, action));
            }
        }
    }

    #[test]
    fn fresh_places_lead_nowhere() {
        let fib = Fib::new(4, 2, 3).unwrap();
        for place in 0..fib.places() as u32 + 5 {
            let expected = match place {
                2 => Action::Local,
                3 => Action::Broadcast,
                5 => Action::LinkLocal,
                8..72 => Action::Forward,
                _ => Action::NoRoute,
            };
            assert_eq!(fib.entry(place).action(), expected, "place {place}");
        }
        assert_eq!(fib.place(Leads::group(7).value(), || 1), Leads::NO_ROUTE.value());
        assert_eq!(Fib::next_hop_at(Leads::next_hop(9).value()), Some(9));
        assert_eq!(Fib::next_hop_at(Leads::broadcast_on(63).value()), None);
        for port in [0, 2, 3, u16::MAX] {
            assert_eq!(fib.ingress().mac_word(port), u64::MAX);
        }
    }

    #[test]
    fn groups_choose_by_hash_and_only_they_ask_for_it() {
        let fib = Fib::new(300, 2, 0).unwrap();
        fib.set_group(1, (0..256).map(Leads::next_hop));
        for hash in 0..1000 {
            assert_eq!(fib.place(Leads::group(1).value(), || hash), Leads::next_hop(hash % 256).value());
        }
        assert_eq!(fib.place(Leads::next_hop(3).value(), || panic!("no hash is needed")), Leads::next_hop(3).value());
    }
}
