//! Packets of a batch by the interface that they came in by, or are to leave by.

use weir_packet::{Batch, Slots};
use weir_simd::frame_check::BATCH;
use weir_wire::{Ethernet, View};

use crate::fast::checker::{common_port, may_be_tagged};
use crate::{Ingress, InterfaceId, NO_INTERFACE};

/// The interfaces of packets, and where their network headers begin, by slot.
pub(crate) struct ByInterface {
    pub(crate) interfaces: [InterfaceId; BATCH],
    /// Where network headers begin.
    pub(crate) l3: [u8; BATCH],
    /// Whether all of them begin behind a header without tags.
    pub(crate) is_untagged: bool,
}

impl Default for ByInterface {
    fn default() -> ByInterface {
        ByInterface { interfaces: [NO_INTERFACE; BATCH], l3: [0; BATCH], is_untagged: false }
    }
}

impl ByInterface {
    /// Finds them out for a batch, whose packets leave by the port `out`, or came in by those that their lane says.
    pub(crate) fn find_out(&mut self, out: Option<u16>, ingress: &Ingress, batch: &Batch) {
        let port = out.or_else(|| common_port(&batch.lanes.port));
        let plain = port.filter(|port| !may_be_tagged(Some(*port), ingress));
        self.is_untagged = plain.is_some();
        if let Some(port) = plain {
            self.l3 = [Ethernet::LEN as u8; BATCH];
            self.interfaces = [ingress.untagged_of(port); BATCH];
            return;
        }
        batch.each_ref(|slot, packet| {
            // Which interface a frame belongs to is the same question whether it came in by its port or leaves by it.
            let entered = ingress.enter(port.unwrap_or(batch.lanes.port[slot]), packet.window(0));
            self.interfaces[slot.index()] = entered.interface;
            self.l3[slot.index()] = entered.l3;
        });
    }

    /// Finds out the interfaces alone, where each port has one that `interface_of` knows.
    pub(crate) fn find_ports(&mut self, batch: &Batch, interface_of: impl Fn(u16) -> InterfaceId) {
        match common_port(&batch.lanes.port) {
            Some(port) => self.interfaces = [interface_of(port); BATCH],
            None => batch.slots().for_each(|slot| self.interfaces[slot.index()] = interface_of(batch.lanes.port[slot])),
        }
    }

    /// Those of some packets that are of the interface of the first of them, and that interface.
    pub(crate) fn like_the_first(&self, of: u64) -> (u64, InterfaceId) {
        let first = self.interfaces[of.trailing_zeros() as usize % BATCH];
        if self.interfaces.iter().fold(0, |differ, other| differ | (other ^ first)) == 0 {
            return (of, first);
        }
        let alike = Slots(of).filter(|slot| self.interfaces[slot.index()] == first);
        (alike.fold(0, |mask, slot| mask | slot.bit()), first)
    }
}
