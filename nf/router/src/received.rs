//! Counts what comes in by interfaces, and finds out by which.

use std::sync::Arc;

use weir_ip::{Ingress, InterfaceId, NO_INTERFACE};
use weir_packet::Batch;

use crate::checker::Checked;
use crate::counters::WorkerCounters;

/// One worker's counters of what came in, by number of the interface.
pub(crate) struct Received(Arc<WorkerCounters>);

/// The index of no port.
const NO_PORT: u16 = u16::MAX;

/// Packets of one interface that are counted together: counting packet after packet would wait for each store to come back.
#[derive(Clone, Copy)]
struct Run {
    interface: InterfaceId,
    packets: u64,
    bytes: u64,
}

impl Received {
    pub(crate) fn new(counters: Arc<WorkerCounters>) -> Received {
        Received(counters)
    }

    /// Notes where the network headers of packets begin that may have tags, and counts them; answers which of them are for the interface
    /// whose tags they have.
    #[inline(always)]
    pub(crate) fn enter(&self, batch: &mut Batch, ingress: &Ingress) -> u64 {
        let mut ours = 0;
        let mut run = Run { interface: NO_INTERFACE, packets: 0, bytes: 0 };
        let mut port = NO_PORT;
        let mut view = ingress.port(port);
        batch.each(
            // Inlined, whatever the compiler thinks of its size: a call for each packet costs as much as all that it does.
            #[inline(always)]
            |slot, packet, lanes| {
                if lanes.port[slot] != port {
                    port = lanes.port[slot];
                    view = ingress.port(port);
                }
                let entered = view.enter(packet.window(0));
                lanes.l3[slot] = entered.l3;
                let whole = packet.len() >= usize::from(entered.l3);
                ours |= u64::from(entered.is_ours && whole) << slot.index();
                if entered.interface != run.interface {
                    self.count(run);
                    run = Run { interface: entered.interface, packets: 0, bytes: 0 };
                }
                run.packets += 1;
                run.bytes += packet.len() as u64;
            },
        );
        self.count(run);
        ours
    }

    /// Counts packets of ports that have no interfaces with tags.
    #[inline(always)]
    pub(crate) fn count_untagged(&self, batch: &Batch, checked: Checked, ingress: &Ingress) {
        match checked.port {
            Some(port) => {
                let (interface, packets) = (ingress.untagged_of(port), batch.live().count_ones().into());
                self.count(Run { interface, packets, bytes: checked.bytes });
            }
            None => self.count_each(batch, ingress),
        }
    }

    /// The same for packets of several ports.
    #[inline(never)]
    fn count_each(&self, batch: &Batch, ingress: &Ingress) {
        let mut run = Run { interface: NO_INTERFACE, packets: 0, bytes: 0 };
        let mut last = None;
        batch.each_ref(|slot, packet| {
            let port = batch.lanes.port[slot];
            if last != Some(port) {
                self.count(run);
                run = Run { interface: ingress.untagged_of(port), packets: 0, bytes: 0 };
                last = Some(port);
            }
            run.packets += 1;
            run.bytes += packet.len() as u64;
        });
        self.count(run);
    }

    #[inline(always)]
    fn count(&self, run: Run) {
        // What belongs to no interface is beyond all counters.
        self.0.view(self.0.places()).count(run.interface.into(), run.packets, run.bytes);
    }
}
