//! What went by next hops and out by interfaces, and which neighbours are in use by it.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_net::nexthop::{NextHop, Towards};

use super::Routing;
use crate::InterfaceId;
use crate::tables::fib::Leads;

/// A place that holds a next hop, or an inlet.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextHopUse {
    pub(super) towards: Towards,
    /// What the place had counted when that came there.
    pub(super) before: (u64, u64),
    /// Packets at the last look, to see whether it is used.
    pub(super) seen: u64,
}

impl NextHopUse {
    /// Of what the place has counted by now, what belongs to this one: packets and bytes.
    pub(super) fn since(&self, (packets, bytes): (u64, u64)) -> (u64, u64) {
        (packets.wrapping_sub(self.before.0), bytes.wrapping_sub(self.before.1))
    }
}

/// A next hop or an inlet as shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) index: u32,
    pub(crate) towards: Towards,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Next hops whose counters are looked at in one go.
const LOOKED_AT: u32 = 4096;

impl Routing {
    /// Next hops and inlets with what went by them.
    pub(crate) fn traffic(&self) -> impl Iterator<Item = Traffic> {
        self.next_hop_uses.iter().map(|(&index, next_hop_use)| {
            let (packets, bytes) = next_hop_use.since(self.counters.sum(Leads::next_hop(index).value()));
            Traffic { index, towards: next_hop_use.towards, packets, bytes }
        })
    }

    /// Packets and bytes went out by an interface otherwise than by a next hop that is in use.
    pub(crate) fn note_sent(&mut self, interface: InterfaceId, packets: u64, bytes: u64) {
        let (all_packets, all_bytes) = self.sent.entry(interface).or_default();
        (*all_packets, *all_bytes) = (all_packets.wrapping_add(packets), all_bytes.wrapping_add(bytes));
    }

    /// Forgets what went out by an interface, whose number is another's from now on.
    pub(crate) fn forget_sent(&mut self, interface: InterfaceId) {
        // What its broadcasts and lines have counted stays where it is, and is taken off.
        let (packets, bytes) = self.left_otherwise(interface);
        self.sent.insert(interface, (packets.wrapping_neg(), bytes.wrapping_neg()));
    }

    /// What the counters of an interface's directed broadcasts and of its lines say: packets and bytes.
    fn left_otherwise(&self, interface: InterfaceId) -> (u64, u64) {
        let (packets, bytes) = self.counters.sum(self.fib.broadcast_on(interface).value());
        let (to_lines, bytes_to_lines) = self.line_counters.sum(interface.into());
        (packets.wrapping_add(to_lines), bytes.wrapping_add(bytes_to_lines))
    }

    /// Packets and bytes that went out by each of the `interfaces`.
    pub(crate) fn sent(&self, interfaces: impl Iterator<Item = InterfaceId>) -> HashMap<InterfaceId, (u64, u64)> {
        let mut all = self.sent.clone();
        let left = |traffic: Traffic| Some((traffic.towards.link()?.interface, (traffic.packets, traffic.bytes)));
        let traffic = self.traffic().filter_map(left);
        let otherwise = interfaces.map(|interface| (interface, self.left_otherwise(interface)));
        for (interface, (packets, bytes)) in traffic.chain(otherwise) {
            let (all_packets, all_bytes) = all.entry(interface).or_default();
            (*all_packets, *all_bytes) = (all_packets.wrapping_add(packets), all_bytes.wrapping_add(bytes));
        }
        all
    }

    /// Neighbours to which packets were sent since the last look, of some next hops after those of the last call; and whether that were
    /// the last ones.
    pub(crate) fn used_neighbors(&mut self) -> (Vec<(InterfaceId, IpAddr)>, bool) {
        let mut used = Vec::new();
        let first = std::mem::take(&mut self.next_look);
        for ((&index, next_hop_use), n) in self.next_hop_uses.range_mut(first..).zip(1..) {
            if n > LOOKED_AT {
                self.next_look = index;
                break;
            }
            let (packets, _) = self.counters.sum(Leads::next_hop(index).value());
            if std::mem::replace(&mut next_hop_use.seen, packets) != packets
                && let Some(NextHop { interface, gateway: Some(gateway) }) = next_hop_use.towards.link()
            {
                used.push((interface, gateway));
            }
        }
        (used, self.next_look == 0)
    }
}
