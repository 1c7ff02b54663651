//! Next hops behind numbers: what a forwarding table holds instead of (interface, gateway).
//!
//! There is one space of numbers for both families: a route of IPv4 may go by a gateway with an IPv6 address (RFC 8950), and the next hop
//! that it shares with routes of IPv6 is the same. Inlets of functions are numbered among next hops: what a route leads to is one number,
//! and equal cost, counters and the grace before a number is another's are the same for both.

use crate::family::Family;
use crate::interface::InterfaceId;
use crate::slots::{Place, Slots};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// The interface it leaves by.
    pub interface: InterfaceId,
    /// The router it is handed to, whose address may be of another family than the packet's; `None` if the destination itself is on
    /// the link.
    pub gateway: Option<IpAddr>,
}

impl NextHop {
    /// The neighbour that a packet to `destination` is handed to.
    pub fn neighbor(self, destination: impl Into<IpAddr>) -> IpAddr {
        self.gateway.unwrap_or_else(|| destination.into())
    }

    /// As [`NextHop::neighbor`], for who knows neighbours of one family only; `None` if the gateway is of the other one.
    pub fn neighbor_in<A: Family>(self, destination: A) -> Option<A> {
        A::of(self.neighbor(destination))
    }
}

/// An inlet of a function's graph, with what the function is told of the packets that come there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inlet {
    /// Which of the function's inlets.
    pub number: u16,
    /// What is told: a subscriber, a softwire, a translation, whatever the function calls by a number. [`Inlet::NOBODY`]: it finds out
    /// itself.
    pub argument: u32,
}

impl Inlet {
    /// The argument of a route that names nobody in particular: the function looks at the packet.
    pub const NOBODY: u32 = u32::MAX;
}

impl fmt::Display for Inlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.argument {
            Inlet::NOBODY => write!(f, "inlet {}", self.number),
            argument => write!(f, "inlet {} argument {argument}", self.number),
        }
    }
}

/// What a number of a [`NextHopStore`] stands for: where packets go on that are led there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Towards {
    /// Out by an interface.
    Link(NextHop),
    /// Into a function.
    Function(Inlet),
}

impl Towards {
    /// The next hop, where packets leave by an interface.
    pub const fn link(self) -> Option<NextHop> {
        match self {
            Towards::Link(next_hop) => Some(next_hop),
            Towards::Function(_) => None,
        }
    }
}

impl From<NextHop> for Towards {
    fn from(next_hop: NextHop) -> Towards {
        Towards::Link(next_hop)
    }
}

impl From<Inlet> for Towards {
    fn from(inlet: Inlet) -> Towards {
        Towards::Function(inlet)
    }
}

impl fmt::Display for Towards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Towards::Link(next_hop) => next_hop.fmt(f),
            Towards::Function(inlet) => inlet.fmt(f),
        }
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gateway {
            Some(gateway) => write!(f, "via {gateway} interface {}", self.interface),
            None => write!(f, "interface {}", self.interface),
        }
    }
}

/// The number of a next hop. Whoever holds one for longer than a batch compares generations before use: the place may
/// have got another next hop since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId {
    index: u32,
    generation: u32,
}

impl NextHopId {
    /// Refers to no next hop.
    pub(crate) const NONE: NextHopId = NextHopId { index: u32::MAX, generation: 0 };

    /// The place, below the store's capacity.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// How often the place was reused.
    pub const fn generation(self) -> u32 {
        self.generation
    }

    const fn place(self) -> Place {
        (self.index, self.generation)
    }
}

/// What [`NextHopStore::acquire`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The next hop's number.
    pub id: NextHopId,
    /// Whether nobody had it before: its place must be filled in before it is used.
    pub fresh: bool,
}

#[derive(Debug)]
struct Held {
    towards: Towards,
    references: u32,
}

/// All next hops and inlets in use, each once, with a count of its users.
#[derive(Debug)]
pub struct NextHopStore {
    slots: Slots<Held>,
    numbers: HashMap<Towards, NextHopId>,
}

impl NextHopStore {
    /// Most next hops that a store can be made for.
    pub const MAX_CAPACITY: u32 = 1 << 20;

    /// An empty store for up to `capacity` next hops; more than [`NextHopStore::MAX_CAPACITY`] counts as that.
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.min(Self::MAX_CAPACITY);
        NextHopStore { slots: Slots::new(capacity), numbers: HashMap::new() }
    }

    /// The number of `next_hop`, with one user more; `None` if it is new and all places are taken or wait for
    /// [`NextHopStore::recycle`].
    pub fn acquire(&mut self, next_hop: impl Into<Towards>) -> Option<Acquired> {
        let towards = next_hop.into();
        if let Some(&id) = self.numbers.get(&towards) {
            let held = self.slots.get_mut(id.place())?;
            held.references += 1;
            return Some(Acquired { id, fresh: false });
        }
        let (index, generation) = self.slots.insert(Held { towards, references: 1 })?;
        let id = NextHopId { index, generation };
        self.numbers.insert(towards, id);
        Some(Acquired { id, fresh: true })
    }

    /// One user less. Answers whether that was the last: the next hop is gone then, and its place is used again only
    /// after [`NextHopStore::recycle`].
    pub fn release(&mut self, id: NextHopId) -> bool {
        let Some(held) = self.slots.get_mut(id.place()) else { return false };
        held.references -= 1;
        if held.references > 0 {
            return false;
        }
        if let Some(held) = self.slots.remove(id.place()) {
            self.numbers.remove(&held.towards);
        }
        true
    }

    /// What `id` stands for; `None` if it is gone.
    pub fn get(&self, id: NextHopId) -> Option<Towards> {
        self.slots.get(id.place()).map(|held| held.towards)
    }

    /// The number of `next_hop`, if it is in use.
    pub fn find(&self, next_hop: impl Into<Towards>) -> Option<NextHopId> {
        self.numbers.get(&next_hop.into()).copied()
    }

    /// All next hops in use, by number.
    pub fn iter(&self) -> impl Iterator<Item = (NextHopId, Towards)> {
        self.slots.iter().map(|((index, generation), held)| (NextHopId { index, generation }, held.towards))
    }

    /// Next hops in use.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no next hop is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many next hops were given up so far: hand it to [`NextHopStore::recycle`] once every reader passed a quiescent
    /// point after this was read.
    pub const fn retired(&self) -> u64 {
        self.slots.retired()
    }

    /// Lets the places of the first `upto` next hops that were given up be used again.
    pub fn recycle(&mut self, upto: u64) {
        self.slots.recycle(upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn hop(interface: InterfaceId) -> NextHop {
        NextHop { interface, gateway: Some(Ipv4Addr::new(10, 0, 0, 1).into()) }
    }

    #[test]
    fn a_reused_place_is_noticed() {
        let mut store = NextHopStore::new(1);
        let first = store.acquire(hop(1)).unwrap().id;
        assert_eq!(store.acquire(hop(2)), None);
        assert!(store.release(first));
        store.recycle(store.retired());
        let second = store.acquire(hop(2)).unwrap().id;
        assert_eq!((first.index(), second.index()), (0, 0));
        assert_ne!(first.generation(), second.generation());
        assert_eq!((store.get(first), store.get(second)), (None, Some(hop(2).into())));
        assert!(!store.release(first), "a stale number releases nothing");
        assert_eq!(store.get(second), Some(hop(2).into()));
    }

    #[test]
    fn gateways_and_ports_tell_next_hops_apart() {
        let mut store = NextHopStore::new(u32::MAX);
        let ids: Vec<_> = (0..100_000u32)
            .map(|n| NextHop {
                interface: (n % 7) as u16,
                gateway: (n % 5 != 0).then(|| Ipv4Addr::from_bits(n).into()),
            })
            .map(|next_hop| (next_hop, store.acquire(next_hop).unwrap()))
            .collect();
        assert_eq!(store.len(), 80_000 + 7);
        assert!(ids.iter().all(|(next_hop, acquired)| store.get(acquired.id) == Some((*next_hop).into())));
        assert_eq!(hop(3).to_string(), "via 10.0.0.1 interface 3");
    }

    #[test]
    fn inlets_are_numbered_among_next_hops() {
        let mut store = NextHopStore::new(4);
        let inlet = |number, argument| Inlet { number, argument };
        let first = store.acquire(inlet(1, 7)).unwrap();
        let same = store.acquire(inlet(1, 7)).unwrap();
        assert_eq!((first.fresh, same.fresh, first.id), (true, false, same.id));
        let others = [Towards::from(inlet(1, 8)), inlet(2, 7).into(), hop(1).into()];
        let ids = others.map(|other| store.acquire(other).unwrap().id);
        assert!(ids.iter().zip(others).all(|(id, other)| *id != first.id && store.get(*id) == Some(other)));
        assert!(!store.release(first.id) && store.release(first.id));
        assert_eq!((store.get(first.id), store.find(inlet(1, 7))), (None, None));
        assert_eq!(inlet(3, 9).to_string(), "inlet 3 argument 9");
        assert_eq!(Towards::from(inlet(3, Inlet::NOBODY)).to_string(), "inlet 3");
    }

    #[test]
    fn a_gateway_of_the_other_family_is_a_neighbour_all_the_same() {
        let six: Ipv6Addr = "fe80::1".parse().unwrap();
        let (destination, via) = (Ipv4Addr::new(10, 0, 0, 7), NextHop { interface: 1, gateway: Some(six.into()) });
        assert_eq!((via.neighbor(destination), via.neighbor_in(destination)), (IpAddr::from(six), None));
        assert_eq!(via.neighbor_in(Ipv6Addr::LOCALHOST), Some(six));
        let on_link = NextHop { interface: 1, gateway: None };
        assert_eq!((on_link.neighbor_in(destination), on_link.neighbor_in(six)), (Some(destination), Some(six)));
    }

    proptest! {
        #[test]
        fn users_are_counted(operations in proptest::collection::vec((any::<bool>(), 0u16..4), 1..100)) {
            let mut store = NextHopStore::new(4);
            let mut users = [0u32; 4];
            for (acquire, interface) in operations {
                let users = &mut users[usize::from(interface)];
                if acquire {
                    store.recycle(store.retired());
                    let acquired = store.acquire(hop(interface)).unwrap();
                    prop_assert_eq!(acquired.fresh, *users == 0);
                    *users += 1;
                } else if let Some(id) = store.find(hop(interface)) {
                    *users -= 1;
                    prop_assert_eq!(store.release(id), *users == 0);
                }
                prop_assert_eq!(store.find(hop(interface)).is_some(), *users > 0);
            }
            prop_assert_eq!(store.iter().count(), users.iter().filter(|&&users| users > 0).count());
        }
    }
}
