//! Stage `NAME.forward`: the fast path, from the received frame to the port that it leaves by.
//!
//! Packets that a router sees all day long are checked 64 at a time by a vector kernel, which asks for their table entries as
//! soon as it knows their destinations; then each is looked up, loses a hop of its TTL, gets a new Ethernet header and is
//! counted. Whatever the kernel refuses is looked at again to name what is wrong with it, or to find who takes care of it.
//!
//! All of it is one stage because the packets' first lines and their addresses are at hand: as two stages the batch would be
//! handed on once more and every buffer header read again, which was measured at 6 to 8 cycles per packet. Only a pipeline parts it,
//! whose workers have to be handed packets anyway: there [`Check`](crate::check::Check) comes first.

use std::sync::Arc;

use weir_ip::egress::Egress;
use weir_packet::{Batch, Key, LaneId, Packet, Slots};
use weir_simd::Kernel;
use weir_simd::frame_check::BATCH;
use weir_stage::{Declaration, Out, Stage};
use weir_table::lpm4::Lookup4;
use weir_wire::{Ethernet, View};

use crate::bad::{ways_of_checks, with_reasons};
use crate::checker::{Checker, may_be_tagged, reach};
use crate::classify::{Finding, Frame, classify};
use crate::counters::{Tally, WorkerCounters};
use crate::fib::{Action, FibView};
use crate::lookups::{Lookups, destination, l3_of};
use crate::punt::{Kind, Policing, Punts};
use crate::received::Received;
use crate::rewrite::{rewrite, rewrite_tagged, rewrite_to_tags, trim};

with_reasons! { ways_of_checks {
    /// Ways out of [`Forward`], before those to the ports.
    pub enum Exit {
        /// The next hop's Ethernet address is not known: the slow path asks for it.
        Unresolved => way "unresolved",
        /// ARP, for the slow path.
        Arp => way "arp",
        /// For one of the router's own addresses.
        Local => way "local",
        /// Has IP options: the slow path carries them out.
        Options => way "options",
        /// Its TTL ends here: the slow path answers with Time Exceeded.
        TtlExpired => way "ttl-expired",
        /// No route leads there: the slow path answers with Network Unreachable.
        NoRoute => way "no-route",
        /// Longer than the next hop's MTU: the slow path takes it apart, or answers with Fragmentation Needed.
        TooBig => way "too-big",
    } {
        /// To the broadcast or network address of a connected network (RFC 2644).
        DirectedBroadcast => drop "directed-broadcast",
        /// The interface that its route leads to has just gone down; the route follows within moments.
        PortDown => drop "port-down",
        /// More ARP than the slow path takes from a worker.
        PolicedArp => drop "punt-policed-arp",
        /// More for the router's own addresses than the slow path takes from a worker.
        PolicedLocal => drop "punt-policed-local",
        /// More to hosts whose Ethernet address is not known than the slow path takes from a worker.
        PolicedUnresolved => drop "punt-policed-unresolved",
        /// More at the end of their TTL than the slow path takes from a worker.
        PolicedTtlExpired => drop "punt-policed-ttl-expired",
        /// More without a route than the slow path takes from a worker.
        PolicedNoRoute => drop "punt-policed-no-route",
        /// More beyond the next hop's MTU than the slow path takes from a worker.
        PolicedTooBig => drop "punt-policed-too-big",
        /// More with IP options than the slow path takes from a worker.
        PolicedOptions => drop "punt-policed-options",
    }
} }

/// The fast path. It checks packets itself, or, as the later part of one that is `PARTED`, is handed those that passed
/// [`Check`](crate::check::Check).
pub(crate) struct Forward<T, const PARTED: bool = false> {
    shared: Shared<T>,
    checker: Checker,
    ports: usize,
    kind: Key<Kind>,
    policing: Policing,
}

/// What packets are looked up in and counted by.
pub(crate) struct Shared<T> {
    pub(crate) lookups: Lookups<T>,
    pub(crate) counters: Arc<WorkerCounters>,
    /// Counts what comes in by interfaces; nobody's in the later part of a fast path that is parted.
    pub(crate) received: Option<Received>,
}

impl<T: Lookup4, const PARTED: bool> Forward<T, PARTED> {
    /// Sends out of `ports` ports, and to the slow path as much as `policing` allows.
    pub(crate) fn new(
        shared: Shared<T>,
        kernel: Kernel,
        ports: usize,
        policing: Policing,
        kind: Key<Kind>,
    ) -> Forward<T, PARTED> {
        Forward { shared, checker: Checker::new(kernel), ports, kind, policing }
    }

    /// The mask of packets that may be forwarded without a second look. Their destinations are noted, and `values` is prepared
    /// for looking them up.
    #[inline(always)]
    fn check<const TAGGED: bool>(&mut self, batch: &mut Batch, count: usize, values: &mut [u32; BATCH]) -> u64 {
        let Lookups { table, fib, .. } = &self.shared.lookups;
        // Past the counter of its owners: it would be passed for every packet otherwise.
        let table: &T = table;
        let ask = |destination| table.prefetch(destination);
        let approach = |destinations: &[u32]| table.approach(destinations, values);
        if PARTED {
            self.checker.gather::<TAGGED>(batch, count, ask, approach);
            return batch.live();
        }
        if TAGGED {
            let ours = self.shared.received.as_ref().map_or(0, |received| received.enter(batch, fib.ingress()));
            return ours & self.checker.check_tagged(batch, count, ask, approach);
        }
        batch.lanes.l3.all_mut().fill(Ethernet::LEN as u8);
        let checked = self.checker.check(batch, count, Some(fib.ingress()), ask, approach);
        if let Some(received) = &self.shared.received {
            received.count_untagged(batch, checked, fib.ingress());
        }
        checked.good
    }

    /// Takes care of the packets that were not simply forwarded: the kernel refused them (those not in `good`), or their route
    /// leads elsewhere.
    #[inline(never)]
    fn sort_out(&mut self, batch: &mut Batch, mask: u64, good: u64, out: &mut Out<'_>) {
        let mut allowance = self.policing.batch(out.now());
        let (shared, key) = (&self.shared, self.kind);
        batch.each_in(mask, |slot, packet, lanes| {
            let is_good = good & slot.bit() != 0;
            // What is good has its network header where the lane says, be it tagged or not.
            match shared.find_out(packet, lanes.port[slot], is_good.then(|| l3_of::<true>(lanes, slot))) {
                Ok(port) => out.answer_indexed(slot, port),
                Err(exit) => allowance.answer(exit, slot, lanes, key, out),
            }
        });
    }

    /// Looks up the packets in `good`, and forwards those whose route leads to a next hop; returns their mask.
    #[inline(always)]
    fn forward<const TAGGED: bool>(
        &self,
        batch: &mut Batch,
        good: u64,
        count: usize,
        values: &mut [u32; BATCH],
        out: &mut Out<'_>,
    ) -> u64 {
        let (shared, lookups) = (&self.shared, &self.shared.lookups);
        let from = self.checker.destinations.0.get(..count).unwrap_or_default();
        let mut late = lookups.table.lookup_first(from, values) & good;
        let (mut part, mut gone) = (good & !late, 0);
        loop {
            lookups.choose::<TAGGED>(batch, part, values);
            gone |= shared.path().forward_batch::<TAGGED>(batch, part, values, out);
            if late == 0 {
                return gone;
            }
            // Those whose values the table does not have at hand come last: their lines have the time that the others take.
            lookups.table.lookup_rest(from, values, late);
            (part, late) = (late, 0);
        }
    }

    /// One pass over a batch, whose packets may have tags if it is `TAGGED`.
    #[inline(always)]
    fn pass<const TAGGED: bool>(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let count = reach(batch);
        let mut values = [0; BATCH];
        let good = self.check::<TAGGED>(batch, count, &mut values);
        let gone = self.forward::<TAGGED>(batch, good, count, &mut values, out);
        let rest = batch.live() & !gone;
        if rest != 0 {
            self.sort_out(batch, rest, good, out);
        }
    }

    /// Whether packets of the batch may have tags. Where they were checked before, that is what was found then: the interfaces may be others
    /// by now.
    #[inline(always)]
    fn is_tagged(&self, batch: &Batch) -> bool {
        match PARTED {
            true => batch.lanes.l3.all().iter().fold(0, |differ, l3| differ | (l3 ^ Ethernet::LEN as u8)) != 0,
            false => may_be_tagged(batch, self.shared.lookups.fib.ingress()),
        }
    }

    /// Apart, so that a router without tags does not have the code for them in its loop.
    #[inline(never)]
    fn pass_tagged(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.checker.kernel.run(
            #[inline(always)]
            || self.pass::<true>(batch, out),
        );
    }
}

impl<T: Lookup4> Shared<T> {
    /// What forwarding needs for every packet.
    #[inline(always)]
    fn path(&self) -> Path<'_> {
        // One number for both, so that a place needs to be checked once.
        let places = self.lookups.fib.places().min(self.counters.places());
        Path { fib: self.lookups.fib.view(places), counters: self.counters.view(places) }
    }

    /// What becomes of a valid packet that is not simply forwarded: its route leads to a group, or elsewhere.
    fn forward_otherwise(&self, packet: &mut Packet, l3: usize, value: u32) -> Result<u8, Exit> {
        let place = self.lookups.place(packet, l3, value);
        match self.lookups.fib.entry(place).action() {
            Action::Forward => self.path().forward::<true>(packet, l3, place).map_or_else(
                || {
                    trim(packet, l3);
                    self.path().forward::<true>(packet, l3, place).ok_or_else(|| self.path().why_not(place))
                },
                Ok,
            ),
            Action::NoRoute => Err(Exit::NoRoute),
            Action::Local => Err(Exit::Local),
            Action::Unresolved => Err(Exit::Unresolved),
            Action::Broadcast => Err(Exit::DirectedBroadcast),
            Action::LinkLocal => Err(Exit::LinkLocal),
            Action::Blackhole | Action::Unreachable | Action::Prohibit => Err(Exit::NoRoute),
        }
    }

    /// What becomes of a packet that came in by `port`. If it is `good`, which says where its network header begins, nothing but its route
    /// can speak against forwarding it.
    fn find_out(&self, packet: &mut Packet, port: u16, good: Option<usize>) -> Result<u8, Exit> {
        let l3 = match good {
            Some(l3) => l3,
            None => self.look_closely(packet, port)?,
        };
        self.forward_otherwise(packet, l3, self.lookups.table.lookup(destination(packet, l3)))
    }

    /// Where the network header of a packet begins that came in by `port`, if nothing but its route can speak against forwarding it.
    fn look_closely(&self, packet: &Packet, port: u16) -> Result<usize, Exit> {
        let frame = Frame::of(packet, port, self.lookups.fib.ingress())?;
        match classify(packet, frame) {
            None => Ok(frame.l3),
            Some(Finding::Bad(bad)) => Err(bad.into()),
            Some(Finding::Arp) => Err(Exit::Arp),
            Some(Finding::Options) => Err(Exit::Options),
            Some(Finding::LastHop) if self.lookups.has_arrived(packet, frame.l3) => Err(Exit::Local),
            Some(Finding::LastHop) => Err(Exit::TtlExpired),
        }
    }
}

/// What [`Forward`] declares.
pub(crate) fn declaration(parted: bool, ports: usize, kind: Key<Kind>) -> Declaration {
    let declaration = Declaration::of::<Exit>().indexed("port", ports).reads(&[LaneId::Port]);
    match parted {
        false => declaration.writes(&[LaneId::L3, kind.into()]),
        true => declaration.reads(&[LaneId::L3]).updates(&[kind.into()]),
    }
}

impl<T: Lookup4, const PARTED: bool> Stage for Forward<T, PARTED> {
    fn declare(&self) -> Declaration {
        declaration(PARTED, self.ports, self.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        // Compiled for what the CPU has, which saves an instruction here and there in every loop.
        self.checker.kernel.run(
            #[inline(always)]
            || match self.is_tagged(batch) {
                false => self.pass::<false>(batch, out),
                true => self.pass_tagged(batch, out),
            },
        );
    }
}

/// What forwarding needs for every packet, at hand.
#[derive(Clone, Copy)]
struct Path<'p> {
    fib: FibView<'p>,
    counters: Tally<'p>,
}

impl Path<'_> {
    /// Forwards the packets in `good` whose place is a next hop; returns their mask.
    #[inline(always)]
    fn forward_batch<const TAGGED: bool>(
        self,
        batch: &mut Batch,
        good: u64,
        places: &[u32; BATCH],
        out: &mut Out<'_>,
    ) -> u64 {
        let first = places[good.trailing_zeros() as usize % BATCH];
        if are_alike(places, good, first) {
            return self.forward_alike::<TAGGED>(batch, good, first, out);
        }
        let mut ports = [0; BATCH];
        let mut left = 0;
        batch.each_in(good, |slot, packet, lanes| {
            match self.forward::<TAGGED>(packet, l3_of::<TAGGED>(lanes, slot), places[slot.index()]) {
                Some(port) => ports[slot.index()] = port,
                None => left |= slot.bit(),
            }
        });
        out.answer_indexed_each(good & !left, &ports);
        good & !left
    }

    /// The same for packets that all go to one place: it is looked at once, and counted once. Counting packet after packet to
    /// one place would wait for each store to come back.
    #[inline(always)]
    fn forward_alike<const TAGGED: bool>(self, batch: &mut Batch, good: u64, place: u32, out: &mut Out<'_>) -> u64 {
        let Some(entry) = self.fib.entry(place) else { return 0 };
        let Some(egress) = self.fib.egress(entry) else { return 0 };
        let shape = egress.shape();
        if TAGGED || shape.header_len() != Ethernet::LEN {
            return self.forward_alike_tagged::<TAGGED>(batch, good, place, out);
        }
        // One that is as long as the header alone would fit even where nothing may leave; there is none.
        let (longest, source) = (Ethernet::LEN + shape.longest(), egress.source_word());
        let (mut left, mut bytes) = (0, 0);
        batch.each_in(good, |slot, packet, _| {
            let len = packet.len();
            if len > longest {
                left |= slot.bit();
            } else {
                rewrite(packet.window_mut(0), entry, source);
                bytes += len as u64;
            }
        });
        let gone = good & !left;
        self.counters.count(place, u64::from(gone.count_ones()), bytes);
        out.answer_indexed_each(gone, &[shape.way(); BATCH]);
        gone
    }

    /// The same where tags come off or on. Apart, as most batches have none.
    #[inline(never)]
    fn forward_alike_tagged<const TAGGED: bool>(
        self,
        batch: &mut Batch,
        good: u64,
        place: u32,
        out: &mut Out<'_>,
    ) -> u64 {
        let Some(entry) = self.fib.entry(place) else { return 0 };
        let Some(egress) = self.fib.egress(entry) else { return 0 };
        let shape = egress.shape();
        let (mut left, mut bytes) = (0, 0);
        batch.each_in(good, |slot, packet, lanes| {
            let l3 = l3_of::<TAGGED>(lanes, slot);
            let fits = packet.len() <= l3 + shape.longest();
            if fits && rewrite_tagged(packet, l3, entry, egress, shape) {
                bytes += packet.len() as u64;
            } else {
                left |= slot.bit();
            }
        });
        let gone = good & !left;
        self.counters.count(place, u64::from(gone.count_ones()), bytes);
        out.answer_indexed_each(gone, &[shape.way(); BATCH]);
        gone
    }

    /// Forwards one packet, whose network header begins at `l3`, out of a port; `None` if something else is to be done with it.
    #[inline(always)]
    fn forward<const TAGGED: bool>(self, packet: &mut Packet, l3: usize, place: u32) -> Option<u8> {
        let entry = self.fib.entry(place)?;
        let egress = self.fib.egress(entry)?;
        let shape = egress.shape();
        // The packet on the wire is at least as long as its total length says, so that this settles the MTU for both.
        if packet.len() > l3 + shape.longest() {
            return None;
        }
        if !TAGGED && shape.header_len() == Ethernet::LEN {
            rewrite(packet.window_mut(0), entry, egress.source_word());
        } else if TAGGED {
            if !rewrite_tagged(packet, l3, entry, egress, shape) {
                return None;
            }
        } else if !rewrite_to_tags(packet, entry, egress) {
            return None;
        }
        self.counters.count(place, 1, packet.len() as u64);
        Some(shape.way())
    }

    /// Why a packet does not fit the interface that its place leads to.
    fn why_not(self, place: u32) -> Exit {
        let egress = self.fib.entry(place).and_then(|entry| self.fib.egress(entry));
        if egress.is_some_and(Egress::is_closed) { Exit::PortDown } else { Exit::TooBig }
    }
}

/// Whether all packets in `mask` have the same place.
#[inline(always)]
fn are_alike(places: &[u32; BATCH], mask: u64, place: u32) -> bool {
    // By vectors where nobody is left out, or who is was to go there, too. A few at a time: where they differ, the first ones do.
    let (some, _) = places.as_chunks::<16>();
    some.iter().all(|some| some.iter().fold(0, |differ, other| differ | (other ^ place)) == 0)
        || mask != u64::MAX && Slots(mask).all(|slot| places[slot.index()] == place)
}

impl Punts for Exit {
    fn punted(self) -> Option<(Kind, Exit)> {
        Some(match self {
            Exit::Arp => (Kind::Arp, Exit::PolicedArp),
            Exit::Local => (Kind::Local, Exit::PolicedLocal),
            Exit::Unresolved => (Kind::Unresolved, Exit::PolicedUnresolved),
            Exit::TtlExpired => (Kind::TtlExpired, Exit::PolicedTtlExpired),
            Exit::NoRoute => (Kind::NoRoute, Exit::PolicedNoRoute),
            Exit::TooBig => (Kind::TooBig, Exit::PolicedTooBig),
            Exit::Options => (Kind::Options, Exit::PolicedOptions),
            _ => return None,
        })
    }
}
