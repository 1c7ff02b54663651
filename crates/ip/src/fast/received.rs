//! Counts what comes in by interfaces, and finds out by which.

use std::sync::Arc;

use weir_packet::{Batch, Packet, Slot};
use weir_wire::{Ethernet, View};

use crate::fast::checker::{common_port, may_be_tagged};
use crate::fast::scope::{Scope, Vrfs};
use crate::ingress::{self, OneTag, PortView};
use crate::tables::fib::Fib;
use crate::tags::TAG_LEN;
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
    /// The interface that all are expected to belong to, by one tag.
    pub(crate) tag: Option<OneTag>,
    /// Whether all have tags of one interface.
    pub(crate) is_one: bool,
    /// Whether it is yet to be found out to which interfaces they belong.
    pub(crate) is_late: bool,
}

impl Entered {
    /// Packets without tags.
    pub(crate) fn untagged(port: Option<u16>, scope: Scope) -> Entered {
        Entered { port, is_tagged: false, ours: 0, scope, tag: None, is_one: false, is_late: false }
    }

    /// Packets that may have tags: the mask of those for their interfaces.
    pub(crate) fn tagged(port: Option<u16>, scope: Scope, ours: u64) -> Entered {
        Entered { is_tagged: true, ours, ..Entered::untagged(port, scope) }
    }

    /// Packets that may have tags, all of the default VRF: to which interfaces they belong is found out while they are checked, see
    /// [`Examiner::enter_and_check`](crate::fast::examine::Examiner::enter_and_check).
    pub(crate) fn late(port: Option<u16>) -> Entered {
        Entered { is_late: true, ..Entered::tagged(port, Scope::One(0), 0) }
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
    /// The bits that all their interfaces' numbers have, and those that any has.
    common: InterfaceId,
    any: InterfaceId,
}

impl Entering<'_> {
    /// What a packet belongs to that came in by a port. It is counted.
    #[inline(always)]
    pub(crate) fn enter(&mut self, slot: Slot, port: u16, packet: &Packet) -> ingress::Entered {
        if port != self.port {
            (self.port, self.view) = (port, self.ingress.port(port));
        }
        let (entered, length) = (self.view.enter(packet.window(0)), packet.len());
        self.ours |= u64::from(entered.is_ours && length >= usize::from(entered.l3)) << slot.index();
        self.common &= entered.interface;
        self.any |= entered.interface;
        // Packet after packet, though one interface's wait for each other's stores: there is enough else to do meanwhile. What belongs to no interface
        // is beyond all counters.
        self.counters.count(entered.interface.into(), 1, length as u64);
        entered
    }

    /// Whether all belong to one interface.
    pub(crate) fn is_one(&self) -> bool {
        self.common == self.any && self.any != NO_INTERFACE
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

/// How the packets of a batch came in if all are like the first one, which has one tag, carries IPv4 and is for the interface of its tag; `None`
/// if that is not so. Whether the others are like it is yet to be found out, and nothing is counted.
#[inline(always)]
pub(crate) fn expect_one(batch: &mut Batch, ingress: &Ingress) -> Option<Entered> {
    let port = common_port(&batch.lanes.port)?;
    let first = batch.slots().next()?;
    let tag = ingress.port(port).one_tag(batch.get(first)?.window(0))?;
    batch.lanes.l3.all_mut().fill((Ethernet::LEN + TAG_LEN) as u8);
    let scope = Scope::One(ingress.vrf_of(tag.interface));
    Some(Entered { tag: Some(tag), is_one: true, ..Entered::tagged(Some(port), scope, batch.live()) })
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
        let (ours, is_one) = self.enter_each(batch, batch.live(), ingress, vrfs);
        let scope = if ingress.has_vrfs() { vrfs.scope(batch.live()) } else { Scope::One(0) };
        Entered { is_one, ..Entered::tagged(common, scope, ours) }
    }

    /// Finds out by which interfaces packets come in, one after the other.
    #[inline(always)]
    pub(crate) fn entering<'e>(&'e self, ingress: &'e Ingress) -> Entering<'e> {
        let counters = self.counters.view(self.places);
        let (port, view) = (NO_PORT, ingress.port(NO_PORT));
        Entering { ingress, counters, port, view, ours: 0, common: InterfaceId::MAX, any: 0 }
    }

    /// Finds out by which interfaces the packets in `of` came in, which may have tags, and counts them: the mask of those for the interface
    /// whose tags they have, and whether it is one interface.
    #[inline(always)]
    fn enter_each(&self, batch: &mut Batch, of: u64, ingress: &Ingress, vrfs: &mut Vrfs) -> (u64, bool) {
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
        (entering.ours, entering.is_one())
    }

    /// Counts the packets in `good`, which have so many bytes together, for the interface of their tag; of the others it is found out where
    /// they belong.
    #[inline(always)]
    pub(crate) fn count_one(
        &self,
        batch: &mut Batch,
        interface: InterfaceId,
        (good, bytes): (u64, u64),
        ingress: &Ingress,
        vrfs: &mut Vrfs,
    ) {
        self.count(Run { interface, packets: good.count_ones().into(), bytes });
        let rest = batch.live() & !good;
        if rest != 0 {
            self.enter_rest(batch, rest, ingress, vrfs);
        }
    }

    #[inline(never)]
    fn enter_rest(&self, batch: &mut Batch, rest: u64, ingress: &Ingress, vrfs: &mut Vrfs) {
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
        self.counters.view(self.places).count(run.interface.into(), run.packets, run.bytes);
    }
}
