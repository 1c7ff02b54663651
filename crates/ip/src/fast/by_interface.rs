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

    /// The same for what came in by ports on which [lines](crate::Lines) are: what has tags of no interface is of a line, and of the interface of its
    /// port. Where its network header begins is not looked for, and said to be 0.
    pub(crate) fn find_with_lines(&mut self, ingress: &Ingress, batch: &Batch) {
        let port = common_port(&batch.lanes.port);
        if let Some(port) = port.filter(|port| !may_be_tagged(Some(*port), ingress)) {
            (self.l3, self.interfaces) = ([0; BATCH], [ingress.untagged_of(port); BATCH]);
            return;
        }
        batch.each_ref(|slot, packet| {
            let port = batch.lanes.port[slot];
            let entered = ingress.enter(port, packet.window(0));
            let is_of_line = entered.interface == NO_INTERFACE;
            self.interfaces[slot.index()] = if is_of_line { ingress.untagged_of(port) } else { entered.interface };
            self.l3[slot.index()] = if is_of_line { 0 } else { entered.l3 };
        });
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
