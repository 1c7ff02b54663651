//! Stage `NAME.hairpin`: looks for packets that leave by the port they came in by, whose source should be told of the shorter way
//! (RFC 1812 section 5.2.7.2, RFC 4861 section 8.2).
//!
//! A redirect is advice, so a sample is enough: one packet in a while is looked at, and where it turns round, a copy of it goes to the
//! slow path, which decides. The packets themselves go on as they are, in their order.

use std::sync::Arc;

use weir_packet::{Batch, Held, Key, LaneId, Packet, Slot};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::ethernet;

use crate::fast::classify::{Family, is_discovery};
use crate::fast::lookups::{lookup, place};
use crate::fast::punt::PuntReason;
use crate::fast::scope::Chosen;
use crate::tables::fib::Fib;
use crate::tables::prefixes::Readers;

weir_stage::ways! {
    /// Ways out of [`Hairpin`].
    pub(crate) enum Exit {
        /// Every packet goes on.
        Out => way "out",
        /// The copy of one that turns round: the slow path decides whether its source is told.
        Redirect => way "redirect",
        /// A copy of a packet that turns round.
        Copied => create "redirect-copy",
    }
}

/// Time between two packets that are looked at, nanoseconds.
const INTERVAL: u64 = 10_000_000;

/// Looks for packets that turn round.
pub(crate) struct Hairpin {
    /// By number of the VRF.
    readers: Arc<[Readers]>,
    fib: Arc<Fib>,
    /// What flows are hashed with.
    seed: u64,
    kind: Key<PuntReason>,
    chosen: Option<Key<Chosen>>,
    next: u64,
}

impl Hairpin {
    pub(crate) fn new(
        (readers, fib): (Arc<[Readers]>, Arc<Fib>),
        seed: u64,
        (kind, chosen): (Key<PuntReason>, Option<Key<Chosen>>),
    ) -> Hairpin {
        Hairpin { readers, fib, seed, kind, chosen, next: 0 }
    }

    /// Whether a packet, which came in by `port`, is going to leave by the interface that it came in by.
    fn turns_round(&self, packet: &Packet, port: u16) -> bool {
        let entered = self.fib.ingress().enter(port, packet.window(0));
        let Some(family) = self.family_of(packet) else { return false };
        let (l3, vrf) = (usize::from(entered.l3), self.fib.ingress().vrf_of(entered.interface));
        let value = lookup(&self.readers, vrf, packet, l3, family);
        let adjacency = self.fib.adjacency(place(&self.fib, self.seed, packet, l3, family, value));
        adjacency.interface() == Some(entered.interface)
    }

    /// Of which family a packet says that it is; of none if it is of neighbour discovery.
    fn family_of(&self, packet: &Packet) -> Option<Family> {
        let front = self.fib.ingress().front(packet.window(0));
        match front.ethertype {
            ethernet::IPV4 => Some(Family::Four),
            ethernet::IPV6 if !is_discovery(packet.window(front.l3.into())) => Some(Family::Six),
            _ => None,
        }
    }

    fn look_at(&self, batch: &Batch, slot: Slot, out: &mut Out<'_>) {
        if Chosen::of(&batch.lanes, slot, self.chosen).0.is_some() {
            // A rule, not the destination alone, leads it: its source would take the advice for all that goes there.
            return;
        }
        let Some(packet) = batch.get(slot).filter(|packet| self.turns_round(packet, batch.lanes.port[slot])) else {
            return;
        };
        if let Some(copy) = out.copy(packet) {
            let mut copy = Held::like(copy, &batch.lanes, slot);
            copy.set(self.kind, PuntReason::TurnsRound);
            out.emit(copy, Exit::Redirect, Exit::Copied);
        }
    }
}

/// What [`Hairpin`] declares.
pub(crate) fn declaration(chosen: Option<Key<Chosen>>) -> Declaration {
    let declaration = Declaration::of::<Exit>().reads(&[LaneId::Port]);
    chosen.map_or(declaration.clone(), |chosen| declaration.reads(&[chosen.into()]))
}

impl Stage for Hairpin {
    fn declare(&self) -> Declaration {
        declaration(self.chosen)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        if out.now() < self.next {
            return;
        }
        // Only these use up the sample: a host often asks by ARP, or by neighbour discovery, just before it sends.
        let is_ip = |packet: &Packet| self.family_of(packet).is_some();
        let Some(slot) = batch.slots().next().filter(|&slot| batch.get(slot).is_some_and(is_ip)) else { return };
        self.next = out.now().saturating_add(INTERVAL);
        self.look_at(batch, slot, out);
    }
}
