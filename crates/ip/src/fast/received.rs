//! Counts what comes in by interfaces, and finds out by which.

use std::sync::Arc;

use weir_packet::{Batch, Packet, Slot};
use weir_simd::frame_check::BATCH;
use weir_wire::{Ethernet, View};

use crate::fast::checker::{common_port, may_be_tagged};
use crate::fast::scope::{Scope, Vrfs};
use crate::ingress::{self, PortView};
use crate::tables::fib::Fib;
use crate::{Ingress, InterfaceId, NO_INTERFACE};
use weir_table::counters::{Tally, WorkerCounters};

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
    /// The mask of those for the interface whose tags they have; of packets without tags it is not known yet, nor of those that are [late](Entered::late).
    pub(crate) ours: u64,
    pub(crate) scope: Scope,
    /// Whether it is yet to be found out to which interfaces they belong.
    pub(crate) is_late: bool,
    /// Whether a list chose the VRF of any.
    pub(crate) is_redirected: bool,
}

impl Entered {
    /// Packets without tags.
    pub(crate) fn untagged(port: Option<u16>, scope: Scope) -> Entered {
        Entered { port, is_tagged: false, ours: 0, scope, is_late: false, is_redirected: false }
    }

    /// Packets that may have tags: the mask of those for their interfaces.
    pub(crate) fn tagged(port: Option<u16>, scope: Scope, ours: u64) -> Entered {
        Entered { is_tagged: true, ours, ..Entered::untagged(port, scope) }
    }

    /// Packets that may have tags, all of this VRF: to which interfaces they belong is found out while they are checked, see
    /// [`Examiner::enter_and_check`](crate::fast::examine::Examiner::enter_and_check) and, where they are expected to begin alike,
    /// [`Examiner::check_expected`](crate::fast::examine::Examiner::check_expected).
    pub(crate) fn late(port: Option<u16>, scope: Scope) -> Entered {
        Entered { is_late: true, ..Entered::tagged(port, scope, 0) }
    }
}

/// Finds out by which interfaces packets came in that may have tags, one after the other, and counts them.
pub(crate) struct Entering<'e> {
    ingress: &'e Ingress,
    counters: Tally<'e>,
    /// The port that the last packet came in by, and what is known of it.
    port: u16,
    view: PortView<'e>,
    /// The mask of packets for the interface whose tags they have.
    pub(crate) ours: u64,
    /// By slot.
    interfaces: [InterfaceId; BATCH],
}

impl Entering<'_> {
    /// What a packet belongs to that came in by a port.
    #[inline(always)]
    pub(crate) fn enter(&mut self, slot: Slot, port: u16, packet: &Packet) -> ingress::Entered {
        if port != self.port {
            (self.port, self.view) = (port, self.ingress.port(port));
        }
        let entered = self.view.enter(packet.window(0));
        self.ours |= u64::from(entered.is_ours && packet.len() >= usize::from(entered.l3)) << slot.index();
        self.interfaces[slot.index()] = entered.interface;
        self.counters.prefetch(entered.interface.into());
        entered
    }

    /// Counts the packets in `of`, all of which have entered: later than that, as there may be thousands of interfaces, and a packet would wait for the
    /// counters of the one before it.
    #[inline(always)]
    pub(crate) fn count(&self, batch: &Batch, of: u64) {
        batch.each_ref_in(
            of,
            #[inline(always)]
            |slot, packet| {
                // What belongs to no interface is beyond all counters.
                self.counters.count(self.interfaces[slot.index()].into(), 1, packet.len() as u64);
            },
        );
    }
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
        Entered::untagged(port, scope)
    }

    /// The same for packets that may have tags; they are counted, too.
    #[inline(always)]
    fn enter_tagged(&self, batch: &mut Batch, common: Option<u16>, ingress: &Ingress, vrfs: &mut Vrfs) -> Entered {
        // What a packet belongs to is read packet after packet: their lines are asked for all at once.
        batch.each_ref(|_, packet| packet.prefetch_data());
        let ours = self.enter_each(batch, batch.live(), ingress, vrfs);
        let scope = if ingress.has_vrfs() { vrfs.scope(batch.live()) } else { Scope::One(0) };
        Entered::tagged(common, scope, ours)
    }

    /// Finds out by which interfaces packets come in, one after the other.
    #[inline(always)]
    pub(crate) fn entering<'e>(&'e self, ingress: &'e Ingress) -> Entering<'e> {
        let counters = self.tally();
        let (port, view) = (NO_PORT, ingress.port(NO_PORT));
        Entering { ingress, counters, port, view, ours: 0, interfaces: [NO_INTERFACE; BATCH] }
    }

    /// Finds out by which interfaces the packets in `of` came in, which may have tags, and counts them: the mask of those for the interface
    /// whose tags they have.
    #[inline(always)]
    fn enter_each(&self, batch: &mut Batch, of: u64, ingress: &Ingress, vrfs: &mut Vrfs) -> u64 {
        let (mut entering, has_vrfs) = (self.entering(ingress), ingress.has_vrfs());
        batch.each_in(
            of,
            // Inlined, whatever the compiler thinks of its size: a call for each packet costs as much as all that it does.
            #[inline(always)]
            |slot, packet, lanes| {
                let entered = entering.enter(slot, lanes.port[slot], packet);
                lanes.l3[slot] = entered.l3;
                if has_vrfs {
                    vrfs.0[slot.index()] = ingress.vrf_of(entered.interface);
                }
            },
        );
        entering.count(batch, of);
        entering.ours
    }

    /// The counters.
    #[inline(always)]
    pub(crate) fn tally(&self) -> Tally<'_> {
        self.counters.view(self.places)
    }

    /// Counts packets of one interface, and their bytes.
    #[inline(always)]
    pub(crate) fn count_one(&self, interface: InterfaceId, packets: u32, bytes: u64) {
        self.count(Run { interface, packets: packets.into(), bytes });
    }

    /// Finds out of packets that are not as expected to which interfaces they belong, and counts them.
    #[inline(never)]
    pub(crate) fn enter_rest(&self, batch: &mut Batch, rest: u64, ingress: &Ingress, vrfs: &mut Vrfs) {
        _ = self.enter_each(batch, rest, ingress, vrfs);
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
        self.tally().count(run.interface.into(), run.packets, run.bytes);
    }
}
