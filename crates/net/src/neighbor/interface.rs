//! What the neighbour table knows of an interface.

use super::own::Own;
use super::{Protocol, Say};
use std::collections::BTreeSet;
use weir_wire::MacAddr;

/// Which neighbours make room for new ones when the table is full, the first kind first; those of a kind by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spare {
    /// Did not answer.
    Failed,
    /// Never answered: it spoke by itself, as anybody can under as many names as he likes.
    Unproven,
    /// Not used lately.
    Stale,
}

#[derive(Debug)]
pub(super) struct Interface<A: Protocol> {
    pub(super) mac: MacAddr,
    pub(super) up: bool,
    pub(super) own: Vec<Own<A>>,
    /// Neighbours on this interface.
    pub(super) count: usize,
    /// Those that may be forgotten for others.
    pub(super) spare: BTreeSet<(Spare, u64, A)>,
    /// Those that have not answered yet, by age.
    pub(super) incomplete: BTreeSet<(u64, A)>,
}

impl<A: Protocol> Interface<A> {
    pub(super) fn new(mac: MacAddr) -> Self {
        let (spare, incomplete) = (BTreeSet::new(), BTreeSet::new());
        Interface { mac, up: false, own: Vec::new(), count: 0, spare, incomplete }
    }

    pub(super) fn is_own(&self, address: A) -> bool {
        self.own.iter().any(|own| own.assigned.is_own(address))
    }

    pub(super) fn own(&self, address: A) -> Option<&Own<A>> {
        self.own.iter().find(|own| own.assigned.is_own(address))
    }

    pub(super) fn own_mut(&mut self, address: A) -> Option<&mut Own<A>> {
        self.own.iter_mut().find(|own| own.assigned.is_own(address))
    }

    /// Whether there is an address to ask from.
    pub(super) fn can_ask(&self) -> bool {
        self.own.iter().any(Own::is_usable)
    }

    /// Whether `address` may be a host of one of the interface's subnets.
    pub(super) fn is_on_link(&self, address: A) -> bool {
        let is_near = address.is_link_local() || self.own.iter().any(|own| own.assigned.is_on_link(address));
        is_near && self.can_be_host(address)
    }

    /// Whether a host on this link can have the address at all: no martian, no broadcast, not our own.
    pub(super) fn can_be_host(&self, address: A) -> bool {
        let taken = |own: &Own<A>| {
            let own = own.assigned;
            own.is_own(address) || own.is_subnet_broadcast(address) || own.is_network_address(address)
        };
        address.is_source() && !self.own.iter().any(taken)
    }

    /// The address to ask for `target` from: that of the longest subnet around it, else the interface's first, of the same scope if there is one.
    fn source_for(&self, target: A) -> Option<A> {
        let mut usable = self.own.iter().filter(|own| own.is_usable());
        let around = usable.clone().filter(|own| own.assigned.is_on_link(target));
        let alike = usable.clone().find(|own| own.address().is_link_local() == target.is_link_local());
        let own = around.max_by_key(|own| own.prefix_length()).or(alike).or_else(|| usable.next());
        own.map(Own::address)
    }

    /// A request for `target`, to its MAC address if that is `known`; `None` if the interface has no address to ask from.
    pub(super) fn request(&self, target: A, known: Option<MacAddr>) -> Option<(MacAddr, A::Message)> {
        Some(A::ask(self.mac, self.source_for(target)?, target, known))
    }

    /// What is said of an own address.
    pub(super) fn own_message(&self, say: Say, address: A, nonce: [u8; 6]) -> (MacAddr, A::Message) {
        A::say(say, self.mac, address, nonce)
    }
}
