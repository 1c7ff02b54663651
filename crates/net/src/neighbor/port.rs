//! What the neighbour table knows of a port.

use super::own::Own;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use weir_wire::arp::{ArpFields, Operation};
use weir_wire::{MacAddr, martian};

/// Which neighbours make room for new ones when the table is full, the first kind first; those of a kind by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spare {
    /// Did not answer.
    Failed,
    /// Not used lately.
    Stale,
}

#[derive(Debug)]
pub(super) struct Port {
    pub(super) mac: MacAddr,
    pub(super) up: bool,
    pub(super) own: Vec<Own>,
    /// Neighbours on this port.
    pub(super) count: usize,
    /// Those that may be forgotten for others.
    pub(super) spare: BTreeSet<(Spare, u64, Ipv4Addr)>,
}

impl Port {
    pub(super) const fn new(mac: MacAddr) -> Self {
        Port { mac, up: false, own: Vec::new(), count: 0, spare: BTreeSet::new() }
    }

    pub(super) fn is_own(&self, address: Ipv4Addr) -> bool {
        self.own.iter().any(|own| own.interface.is_own(address))
    }

    pub(super) fn own_mut(&mut self, address: Ipv4Addr) -> Option<&mut Own> {
        self.own.iter_mut().find(|own| own.interface.is_own(address))
    }

    /// Whether `address` may be a host of one of the port's subnets.
    pub(super) fn is_on_link(&self, address: Ipv4Addr) -> bool {
        self.own.iter().any(|own| own.interface.is_on_link(address)) && self.can_be_host(address)
    }

    /// Whether a host on this link can have the address at all: no martian, no broadcast, not our own.
    pub(super) fn can_be_host(&self, address: Ipv4Addr) -> bool {
        let taken = |own: &Own| {
            let interface = own.interface;
            interface.is_own(address) || interface.is_subnet_broadcast(address) || interface.is_network_address(address)
        };
        !martian::is_martian_source(address.to_bits()) && !self.own.iter().any(taken)
    }

    /// The address to ask for `target` from: that of the longest subnet around it, else the port's first.
    fn source_for(&self, target: Ipv4Addr) -> Option<Ipv4Addr> {
        let around = self.own.iter().filter(|own| own.interface.is_on_link(target));
        let own = around.max_by_key(|own| own.interface.net().prefix_len()).or(self.own.first());
        own.map(Own::address)
    }

    /// A request for `target`; `None` if the port has no address to ask from.
    pub(super) fn request(&self, target: Ipv4Addr, target_mac: MacAddr) -> Option<ArpFields> {
        let sender = self.source_for(target)?;
        Some(ArpFields { operation: Operation::Request, sender_mac: self.mac, sender, target_mac, target })
    }

    /// The answer to `request`, as if its target were ours.
    pub(super) const fn answer(&self, request: &ArpFields) -> ArpFields {
        ArpFields {
            operation: Operation::Reply,
            sender_mac: self.mac,
            sender: request.target,
            target_mac: request.sender_mac,
            target: request.sender,
        }
    }

    /// "ARP Probe: the 'sender IP address' field MUST be set to all zeroes"; "ARP Announcement: identical to the ARP Probe
    /// [...] except that now the sender and target IP addresses are both set to the host's newly selected IPv4
    /// address" (RFC 5227 sections 2.1.1 and 2.3).
    pub(super) const fn own_message(&self, sender: Ipv4Addr, address: Ipv4Addr) -> ArpFields {
        ArpFields {
            operation: Operation::Request,
            sender_mac: self.mac,
            sender,
            target_mac: MacAddr::ZERO,
            target: address,
        }
    }
}
