//! Stage `NAME.hairpin`: looks for packets that leave by the port they came in by, whose source should be told of the shorter way
//! (RFC 1812 section 5.2.7.2).
//!
//! A redirect is advice, so a sample is enough: one packet in a while is looked at, and where it turns round, a copy of it goes to the
//! slow path, which decides. The packets themselves go on as they are, in their order.

use std::sync::Arc;

use weir_packet::{Batch, Held, Key, Packet, Slot};
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_wire::{Ipv4, View, ethernet, flow};

use crate::fib::Fib;
use crate::punt::Kind;

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
pub(crate) struct Hairpin<T> {
    table: Arc<T>,
    fib: Arc<Fib>,
    /// What flows are hashed with.
    seed: u64,
    kind: Key<Kind>,
    next: u64,
}

impl<T: Lookup4> Hairpin<T> {
    pub(crate) fn new(table: Arc<T>, fib: Arc<Fib>, seed: u64, kind: Key<Kind>) -> Hairpin<T> {
        Hairpin { table, fib, seed, kind, next: 0 }
    }

    /// Whether the IPv4 packet, which came in by `port`, is going to leave by the interface that it came in by.
    fn turns_round(&self, packet: &Packet, port: u16) -> bool {
        let entered = self.fib.ingress().enter(port, packet.window(0));
        let l3 = usize::from(entered.l3);
        let window = packet.window::<64>(l3);
        let Some(ip) = Ipv4::view(window) else { return false };
        let hash = || flow::hash(window, packet.len().saturating_sub(l3), self.seed);
        let entry = self.fib.entry(self.fib.place(self.table.lookup(ip.destination.get()), hash));
        entry.interface() == Some(entered.interface)
    }

    fn look_at(&self, batch: &Batch, slot: Slot, out: &mut Out<'_>) {
        let Some(packet) = batch.get(slot).filter(|packet| self.turns_round(packet, batch.lanes.port[slot])) else {
            return;
        };
        if let Some(copy) = out.copy(packet) {
            let mut copy = Held::like(copy, &batch.lanes, slot);
            copy.set(self.kind, Kind::TurnsRound);
            out.emit(copy, Exit::Redirect, Exit::Copied);
        }
    }
}

/// What [`Hairpin`] declares.
pub(crate) fn declaration() -> Declaration {
    Declaration::of::<Exit>().reads(&[weir_packet::LaneId::Port])
}

impl<T: Lookup4> Stage for Hairpin<T> {
    fn declare(&self) -> Declaration {
        declaration()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        if out.now() < self.next {
            return;
        }
        // Only these use up the sample: a host often asks by ARP just before it sends.
        let is_ipv4 = |packet: &Packet| self.fib.ingress().front(packet.window(0)).ethertype == ethernet::IPV4;
        let Some(slot) = batch.slots().next().filter(|&slot| batch.get(slot).is_some_and(is_ipv4)) else { return };
        self.next = out.now().saturating_add(INTERVAL);
        self.look_at(batch, slot, out);
    }
}
