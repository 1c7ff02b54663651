//! Counts what comes in by interfaces, and finds out by which.

use std::sync::Arc;

use weir_packet::Batch;
use weir_wire::{Ethernet, View};

use crate::fast::checker::{common_port, may_be_tagged};
use crate::fast::scope::{Scope, Vrfs};
use crate::tables::counters::WorkerCounters;
use crate::tables::fib::Fib;
use crate::{Ingress, InterfaceId, NO_INTERFACE};

/// One worker's counters of what came in, by number of the interface.
pub(crate) struct Received {
    counters: Arc<WorkerCounters>,
    /// How many of them are written: none where another stage has counted.
    places: usize,
}

/// The index of no port.
const NO_PORT: u16 = u16::MAX;

/// Packets of one interface that are counted together: counting packet after packet would wait for each store to come back.
#[derive(Clone, Copy)]
struct Run {
    interface: InterfaceId,
    packets: u64,
    bytes: u64,
}

/// By which interfaces the packets of a batch came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    /// The port of all, if it is one.
    pub(crate) port: Option<u16>,
    /// Whether they may have tags.
    pub(crate) is_tagged: bool,
    /// The mask of those for the interface whose tags they have; of packets without tags it is not known yet.
    pub(crate) ours: u64,
    pub(crate) scope: Scope,
}

/// Counts what comes in by interfaces, for a function that has packets before the layer and reads their tags itself.
pub struct Arrivals {
    fib: Arc<Fib>,
    received: Received,
    vrfs: Vrfs,
}

impl Arrivals {
    pub(crate) fn new(fib: Arc<Fib>, received: Received) -> Arrivals {
        Arrivals { fib, received, vrfs: Vrfs::default() }
    }

    /// Counts the packets of a batch, and notes where their network headers begin.
    #[inline(always)]
    pub fn count(&mut self, batch: &mut Batch) -> Arrived {
        let entered = self.received.enter(batch, self.fib.ingress(), &mut self.vrfs);
        if !entered.is_tagged {
            let mut bytes = 0;
            batch.each_ref(|_, packet| bytes += packet.len() as u64);
            self.received.count_untagged(batch, entered.port, bytes, self.fib.ingress());
        }
        Arrived { is_tagged: entered.is_tagged }
    }
}

/// How the packets of a batch came in.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Whether they may have tags: otherwise each is for the untagged interface of its port, or for nobody.
    pub is_tagged: bool,
}

impl Received {
    pub(crate) fn new(counters: Arc<WorkerCounters>) -> Received {
        Received { places: counters.places(), counters }
    }

    /// Finds out by which interfaces packets came in that another stage has counted.
    pub(crate) fn counted_before(counters: Arc<WorkerCounters>) -> Received {
        Received { counters, places: 0 }
    }

    /// Finds out by which interfaces packets came in, and notes where their network headers begin and, if they are several, their VRFs.
    #[inline(always)]
    pub(crate) fn enter(&self, batch: &mut Batch, ingress: &Ingress, vrfs: &mut Vrfs) -> Entered {
        let port = common_port(&batch.lanes.port);
        if may_be_tagged(port, ingress) {
            return self.enter_tagged(batch, port, ingress, vrfs);
        }
        batch.lanes.l3.all_mut().fill(Ethernet::LEN as u8);
        let scope = match port {
            _ if !ingress.has_vrfs() => Scope::One(0),
            Some(port) => Scope::One(ingress.vrf_of_port(port)),
            None => vrfs.note_untagged(batch, ingress),
        };
        Entered { port, is_tagged: false, ours: 0, scope }
    }

    /// The same for packets that may have tags; they are counted, too.
    #[inline(always)]
    fn enter_tagged(&self, batch: &mut Batch, common: Option<u16>, ingress: &Ingress, vrfs: &mut Vrfs) -> Entered {
        let mut ours = 0;
        let mut run = Run { interface: NO_INTERFACE, packets: 0, bytes: 0 };
        let mut port = NO_PORT;
        let mut view = ingress.port(port);
        let (has_vrfs, mut vrf) = (ingress.has_vrfs(), 0);
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
                    if has_vrfs {
                        vrf = ingress.vrf_of(entered.interface);
                    }
                }
                run.packets += 1;
                run.bytes += packet.len() as u64;
                vrfs.0[slot.index()] = vrf;
            },
        );
        self.count(run);
        let scope = if has_vrfs { vrfs.scope(batch.live()) } else { Scope::One(0) };
        Entered { port: common, is_tagged: true, ours, scope }
    }

    /// Counts the packets of a batch, which have so many bytes together; those that may have tags are counted already.
    #[inline(always)]
    pub(crate) fn count_untagged(&self, batch: &Batch, port: Option<u16>, bytes: u64, ingress: &Ingress) {
        match port {
            Some(port) => {
                let (interface, packets) = (ingress.untagged_of(port), batch.live().count_ones().into());
                self.count(Run { interface, packets, bytes });
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
        self.counters.view(self.places).count(run.interface.into(), run.packets, run.bytes);
    }
}
