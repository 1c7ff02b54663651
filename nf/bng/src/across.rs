//! From customer to customer, with plain IP: where a route of the gateway's own leads, the packet is delivered at once, as one from the core is.

use weir_packet::Packet;
use weir_wire::{Ipv4, View};

use crate::downstream;
use crate::encap::TAGGED;
use crate::table::BindingRecord;
use crate::upstream::Exit;

/// See the module.
pub(crate) struct Across {
    pub(crate) down: downstream::Shared,
    pub(crate) reach: ReachOf,
}

/// To whom packets may be delivered at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReachOf {
    /// To all customers.
    All,
    /// To those of this owner: what the others get is shaped by them. The slow path leads packets there.
    Own(u8),
}

impl ReachOf {
    /// Whether a packet may be delivered at once to whoever a binding is of.
    pub(crate) fn has(self, binding: BindingRecord<'_>) -> bool {
        match self {
            ReachOf::All => true,
            ReachOf::Own(owner) => binding.owner() == owner,
        }
    }
}

impl Across {
    /// Gives a packet of a customer's that is sound and may go to another the tags of that one, and counts it there. Answers the position of the
    /// port that it leaves by, and what it came with; changes nothing when it answers otherwise.
    pub(crate) fn deliver(&self, packet: &mut Packet, destination: u32) -> Result<(u8, u64), Exit> {
        let subscribers = &self.down.subscribers;
        let key = subscribers.key4(0, destination);
        let found = subscribers.find(key, subscribers.hash(key)).and_then(|place| subscribers.binding(place));
        let binding = found.ok_or(Exit::UnknownDestination)?;
        if !self.reach.has(binding) {
            return Err(Exit::Unresolved);
        }
        self.down.check_open(binding).map_err(|_| Exit::InterfaceDown)?;
        let total = packet.bytes().get(TAGGED..).and_then(Ipv4::view).map_or(0, Ipv4::total_len);
        let port = self.down.deliver(packet, binding, TAGGED as u8).map_err(|exit| match exit {
            downstream::Exit::TooBig => Exit::TooBig,
            downstream::Exit::NoHeadroom => Exit::NoHeadroom,
            _ => Exit::Unresolved,
        })?;
        Ok((port, (TAGGED + total) as u64))
    }
}
