//! Stages `NAME.acl-in`, `NAME.acl-own` and `NAME.acl-out-N`: packets are dropped that a list denies, before anything else is done with them,
//! before the router takes them for itself, and as they leave.

use std::sync::Arc;

use weir_mem::Published;
use weir_net::VrfId;
use weir_packet::{Batch, Key, LaneId, Slots};
use weir_simd::Kernel;
use weir_stage::{Declaration, Out, Stage};

use super::judge::{Judge, Verdicts};
use super::tables::{Log, Tables, list_of};
use crate::fast::by_interface::ByInterface;
use crate::fast::ends::{End, Ends};
use crate::fast::scope::Chosen;
use crate::tables::fib::{Action, Fib};
use crate::tables::prefixes::Readers;
use weir_table::counters::WorkerCounters;

weir_stage::ways! {
    /// Ways out of [`Acl`].
    pub(crate) enum Exit {
        /// Permitted, or none of a list's business.
        Out => way "out",
        /// A rule of an access list denies it, or none matches and its default does: `weir show acls` counts by rule.
        Denied => drop "acl-denied",
        /// More than the rule of an access list permits.
        Policed => drop "acl-policed",
    }
}

/// What a stage judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// What comes in.
    In,
    /// What of that is for the router itself.
    Own,
    /// What leaves by the port of this index.
    Out(u16),
}

/// Finds out what is for the router itself: for its addresses, for groups of stations that may include it, or for one of the link.
///
/// Of what comes in, that is what no list redirects, as Linux asks the table `local` before all others.
pub(super) struct Own {
    /// By number of the VRF.
    readers: Arc<[Readers]>,
    destinations: Ends,
}

impl Own {
    pub(super) fn new(readers: Arc<[Readers]>) -> Own {
        Own { readers, destinations: Ends::new(End::Destination) }
    }

    /// Those of some packets of a VRF that are for the router, by which of these actions says so.
    fn among(
        &mut self,
        (batch, of): (&Batch, u64),
        packets: &ByInterface,
        (fib, vrf): (&Fib, VrfId),
        actions: &[Action],
    ) -> u64 {
        let Some(readers) = self.readers.get(usize::from(vrf)) else { return 0 };
        let known = self.destinations.look_up(batch, of, &packets.l3, readers);
        let is_own = |answer| actions.contains(&fib.adjacency(fib.place(answer, || 0)).action());
        known.of_link | known.those(&self.destinations.answers, is_own)
    }

    /// The same of packets of which each is looked up in the VRF that a list chose, or else in this one.
    fn among_chosen(
        &mut self,
        (batch, of): (&Batch, u64),
        packets: &ByInterface,
        (fib, vrf): (&Fib, VrfId),
        chosen: Option<Key<Chosen>>,
    ) -> u64 {
        let (mut left, mut own) = (of, 0);
        while left != 0 {
            let (alike, chosen) = chosen.map_or((left, Chosen(None)), |key| Chosen::like_the_first(batch, left, key));
            own |= self.among((batch, alike), packets, (fib, chosen.or(vrf)), &[Action::Receive]);
            left &= !alike;
        }
        own
    }
}

/// Judges packets by the lists of their interfaces.
pub(crate) struct Acl {
    side: Side,
    own: Own,
    chosen: Option<Key<Chosen>>,
    tables: Arc<Published<Tables>>,
    fib: Arc<Fib>,
    judge: Judge,
    packets: ByInterface,
}

impl Acl {
    pub(super) fn new(
        (side, own, chosen): (Side, Own, Option<Key<Chosen>>),
        (tables, fib): (Arc<Published<Tables>>, Arc<Fib>),
        (counters, log): (Arc<WorkerCounters>, Arc<Log>),
    ) -> Acl {
        let judge = Judge::new(Kernel::detect(), side, counters, log);
        Acl { side, own, chosen, tables, fib, judge, packets: ByInterface::default() }
    }
}

impl Stage for Acl {
    fn declare(&self) -> Declaration {
        declaration(self.side, self.chosen)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        // Compiled for what the CPU has: keys and counts are made of bytes in network order.
        self.judge.kernel.run(
            #[inline(always)]
            || self.run_all(batch, out),
        );
    }
}

impl Acl {
    #[inline(always)]
    fn run_all(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Acl { side, own, chosen, tables, fib, judge, packets } = self;
        let tables = tables.load(out.reader());
        let (lists, port) = match side {
            Side::In => (&tables.inward, None),
            Side::Own => (&tables.own, None),
            Side::Out(port) => (&tables.outward, Some(*port)),
        };
        if let (Side::In, Some(key)) = (*side, *chosen) {
            batch.lanes.numbers_mut(key).fill(Chosen(None).into());
        }
        if lists.is_empty() {
            return;
        }
        packets.find_out(port, fib.ingress(), batch);
        let (mut left, now) = (batch.live(), out.now());
        while left != 0 {
            let (alike, interface) = packets.like_the_first(left);
            left &= !alike;
            let Some(list) = tables.lists.get(usize::from(list_of(lists, interface))) else { continue };
            let of = (&**fib, fib.ingress().vrf_of(interface));
            let judged = match side {
                Side::Own => own.among_chosen((batch, alike), packets, of, *chosen),
                Side::In | Side::Out(_) => alike,
            };
            let Verdicts { denied, policed, redirected } = judge.judge(list, batch, judged, packets, now);
            out.answer_all(denied, Exit::Denied);
            out.answer_all(policed, Exit::Policed);
            if let (true, Side::In, Some(key)) = (redirected != 0, *side, *chosen) {
                let kept = own.among((batch, redirected), packets, of, &[Action::Receive, Action::Broadcast]);
                for slot in Slots(redirected & !kept) {
                    batch.lanes.set(key, slot, Chosen(Some(judge.enforcer.chosen[slot.index()])));
                }
            }
        }
    }
}

/// What [`Acl`] declares.
pub(crate) fn declaration(side: Side, chosen: Option<Key<Chosen>>) -> Declaration {
    let declaration = Declaration::of::<Exit>();
    let chosen: Vec<LaneId> = chosen.into_iter().map(LaneId::from).collect();
    match side {
        Side::In => declaration.reads(&[LaneId::Port]).writes(&chosen),
        Side::Own => declaration.reads(&[LaneId::Port]).reads(&chosen),
        Side::Out(_) => declaration,
    }
}
