//! Which packets are the gateway's of a port that other functions have, too: those of its interfaces, and those with the tags of customers.

use std::sync::Arc;

use weir_ip::Ingress;
use weir_packet::{Batch, Slots};
use weir_stage::{InterfaceSet, TagInfo};
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, View, ethernet};

use crate::ports::{Ports, Side};
use crate::table::Subscribers;

/// See the module.
pub(crate) struct Tagged {
    pub(crate) layer: Arc<Ingress>,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) ports: Arc<Ports>,
    /// EtherType of customers' outer tags.
    pub(crate) tpid: u16,
}

impl Tagged {
    /// The position of the access port of this index.
    fn access(&self, port: u16) -> Option<u8> {
        let position = self.ports.ingress(port).position;
        self.ports.list().get(usize::from(position)).filter(|port| port.side == Side::Access)?;
        Some(position)
    }

    /// Whether a customer has these tags.
    fn has_customer(&self, port: u16, [outer, inner]: [TagInfo; 2]) -> bool {
        let are_a_lines = outer.tpid == self.tpid && inner.tpid == ethernet::CVLAN;
        let position = self.access(port).filter(|_| are_a_lines);
        position.and_then(|position| self.subscribers.by_tags(position, outer.vlan, inner.vlan)).is_some()
    }
}

/// Both tags of a frame, if it has two.
fn tags_of(frame: &[u8]) -> Option<[TagInfo; 2]> {
    let (link, rest) = Ethernet::split(frame)?;
    let (outer, rest) = Vlan::split(rest)?;
    let tag = |tpid: u16, tag: &Vlan| TagInfo { tpid, vlan: tag.id() };
    Some([tag(link.ethertype.get(), outer), tag(outer.ethertype.get(), Vlan::view(rest)?)])
}

impl InterfaceSet for Tagged {
    fn select(&self, batch: &Batch, among: u64) -> u64 {
        let of_layer = self.layer.select(batch, among);
        let is_customers = |slot: weir_packet::Slot| {
            let tags = batch.get(slot).and_then(|packet| tags_of(packet.bytes()));
            tags.is_some_and(|tags| self.has_customer(batch.lanes.port[slot], tags))
        };
        let others = Slots(among & !of_layer).filter(|slot| is_customers(*slot));
        others.fold(of_layer, |selected, slot| selected | slot.bit())
    }

    fn has(&self, port: u16, tags: &[TagInfo]) -> bool {
        let is_customers = <[TagInfo; 2]>::try_from(tags).is_ok_and(|tags| self.has_customer(port, tags));
        self.layer.has(port, tags) || is_customers
    }

    fn has_vlan(&self, port: u16, vlan: u16) -> bool {
        self.layer.has_vlan(port, vlan)
    }
}
