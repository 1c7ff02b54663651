//! The passes over a batch: IPv4 without tags in the default VRF, and whatever else there is.

use weir_packet::Batch;
use weir_simd::frame_check::{self, BATCH, LinkPattern};
use weir_stage::Out;
use weir_table::lpm4::Lookup4;
use weir_table::lpm6::Trie;
use weir_wire::{Ethernet, View};

use super::{Forward, Shared};
use crate::fast::check::Keys;
use crate::fast::checker::{Checker, common_port, may_be_tagged, reach};
use crate::fast::classify::Family;
use crate::fast::examine::{Examiner, Good};
use crate::fast::expected::Expected;
use crate::fast::received::Entered;
use crate::fast::rewrite::{Four, Six};
use crate::fast::scope::{Chosen, Known, Scope};
use crate::fast::six;
use crate::ingress::OneTag;
use crate::tables::prefixes::PrefixReader;

/// As many packets are passed one after the other: for so few, arrays for all that there could be, and vectors that are loaded over what was
/// just stored in pieces, cost more than they save.
pub(super) const FEW: usize = 4;

impl<T: Lookup4, const PARTED: bool> Forward<T, PARTED> {
    /// A pass over a batch that is IPv4 without tags in the default VRF, as far as is known.
    #[inline(always)]
    pub(super) fn pass(&mut self, batch: &mut Batch, port: Option<u16>, out: &mut Out<'_>) {
        let Forward { shared, examiner: Examiner { checker, .. }, .. } = self;
        let (of, mut values) = ((batch.live(), reach(batch)), [0; BATCH]);
        // Past the counter of its owners: it would be passed for every packet otherwise.
        let (table, ingress): (&T, _) = (&shared.lookups.table, shared.lookups.fib.ingress());
        let ask = |destination| table.prefetch(destination);
        let approach = |destinations: &[u32]| table.approach(destinations, &mut values);
        let good = if PARTED {
            checker.gather::<false>(batch, of, ask, approach);
            batch.live()
        } else {
            batch.lanes.l3.all_mut().fill(Ethernet::LEN as u8);
            let checked = checker.check(batch, of, (Some(ingress), port), ask, approach);
            if let Some(received) = &shared.received {
                received.count_untagged(batch, port, checked.bytes, ingress);
            }
            checked.good
        };
        let gone = shared.forward_four::<false, T>(table, checker, batch, good, &mut values, out);
        let rest = batch.live() & !gone;
        if rest != 0 {
            self.pass_rest(batch, rest, good, port, out);
        }
    }

    /// The same for at most [`FEW`] packets, one after the other.
    #[inline(always)]
    pub(super) fn pass_few(&mut self, batch: &mut Batch, port: Option<u16>, out: &mut Out<'_>) {
        let shared = &self.shared;
        let (table, ingress): (&T, _) = (&shared.lookups.table, shared.lookups.fib.ingress());
        let station = if PARTED { Some(LinkPattern::ANY) } else { port.and_then(|port| ingress.station(port)) };
        let Some(station) = station else { return self.pass(batch, port, out) };
        batch.each_ref(|_, packet| table.prefetch(frame_check::destination_of(packet.window(0))));
        let path = shared.path();
        let (mut good, mut gone, mut bytes) = (0, 0, 0);
        batch.each(
            #[inline(always)]
            |slot, packet, lanes| {
                bytes += packet.len() as u64;
                if !PARTED {
                    lanes.l3[slot] = Ethernet::LEN as u8;
                    // Buffers are far shorter than 64 KiB.
                    if !frame_check::check_one(station, packet.window(0), packet.len() as u16) {
                        return;
                    }
                }
                good |= slot.bit();
                let value = table.lookup(frame_check::destination_of(packet.window(0)));
                let place = shared.lookups.place_of_most(packet, Ethernet::LEN, Family::Four, value);
                if let Some(way) = path.forward::<false, Four>(packet, Ethernet::LEN, place) {
                    gone |= slot.bit();
                    out.answer_indexed(slot, way);
                }
            },
        );
        if let Some(received) = &shared.received {
            received.count_untagged(batch, port, bytes, ingress);
        }
        let rest = batch.live() & !gone;
        if rest != 0 {
            self.pass_rest(batch, rest, good, port, out);
        }
    }

    /// Goes on with what is left of a pass: IPv6, and what is not simply forwarded.
    #[inline(never)]
    fn pass_rest(&mut self, batch: &mut Batch, mut rest: u64, four: u64, port: Option<u16>, out: &mut Out<'_>) {
        let (Forward { shared, examiner, .. }, scope) = (&mut *self, Scope::One(0));
        let mut good = Good { four, ..Good::default() };
        if !PARTED && rest & !four != 0 {
            let entered = Entered::untagged(port, scope);
            let (kernel, ingress) = (examiner.checker.kernel, shared.lookups.fib.ingress());
            rest &= !kernel.run(
                #[inline(always)]
                || {
                    let seen = examiner.check_six::<false>(batch, rest & !four, &entered, ingress);
                    examiner.expects_six = seen.of != 0;
                    good.six = seen.good;
                    shared.forward_six::<false>(0, &mut examiner.six, batch, seen.good, out)
                },
            );
        }
        if rest != 0 {
            self.sort_out(batch, rest, (good, scope), out);
        }
    }

    /// A pass over any batch. Apart, so that a router of IPv4 without tags and VRFs does not have the code for it in its loop.
    #[inline(never)]
    pub(super) fn pass_others(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Forward { shared, examiner, keys, .. } = self;
        let (entered, tag, six) = examiner.checker.kernel.run(
            #[inline(always)]
            || enter(shared, examiner, *keys, batch),
        );
        let mut work = Work::<T, PARTED> { shared, examiner, entered, tag, six };
        let (good, gone) = match (entered.is_tagged, entered.scope) {
            (false, Scope::One(vrf)) => work.one_vrf::<false>(vrf, batch, out),
            (true, Scope::One(vrf)) => work.one_vrf::<true>(vrf, batch, out),
            (_, Scope::Several) => work.several(batch, out),
        };
        let rest = batch.live() & !gone;
        if rest != 0 {
            self.sort_out(batch, rest, (good, entered.scope), out);
        }
    }
}

/// By which interfaces packets came in, how they are expected to begin, and those of IPv6 if they were checked before.
#[inline(always)]
fn enter<'s, T>(
    shared: &'s Shared<T>,
    examiner: &mut Examiner,
    keys: Keys,
    batch: &mut Batch,
) -> (Entered, Option<OneTag<'s>>, u64) {
    if let Some(received) = &shared.received {
        let ingress = shared.lookups.fib.ingress();
        let port = common_port(&batch.lanes.port);
        if Chosen::is_any(batch, keys.chosen) {
            let mut entered = received.enter(batch, ingress, &mut examiner.vrfs);
            entered.scope = examiner.vrfs.choose(batch, entered.scope, keys.chosen);
            entered.is_redirected = true;
            return (entered, None, 0);
        }
        if let Some((tag, scope)) = examiner.expected.of(batch, ingress) {
            return (Entered::late(port, scope), Some(tag), 0);
        }
        let is_late = !(examiner.expects_six || ingress.has_vrfs()) && may_be_tagged(port, ingress);
        let entered = match is_late {
            true => Entered::late(port, Scope::One(0)),
            false => received.enter(batch, ingress, &mut examiner.vrfs),
        };
        return (entered, None, 0);
    }
    let mut six = 0;
    if let Some(key) = keys.known {
        for slot in batch.slots() {
            let Known { vrf, family } = batch.lanes.get(key, slot);
            examiner.vrfs.0[slot.index()] = vrf;
            six |= u64::from(family == Family::Six) << slot.index();
        }
    }
    let scope = examiner.vrfs.scope(batch.live());
    (Entered::tagged(None, scope, batch.live()), None, six)
}

/// One pass.
struct Work<'f, T, const PARTED: bool> {
    shared: &'f Shared<T>,
    examiner: &'f mut Examiner,
    entered: Entered,
    /// How packets are expected to begin, if they are expected to have one tag.
    tag: Option<OneTag<'f>>,
    /// The mask of IPv6 packets, where they were checked before.
    six: u64,
}

impl<T: Lookup4, const PARTED: bool> Work<'_, T, PARTED> {
    /// Packets of one VRF: the masks of those that are good, and of those that are gone.
    #[inline(always)]
    fn one_vrf<const TAGGED: bool>(&mut self, vrf: u16, batch: &mut Batch, out: &mut Out<'_>) -> (Good, u64) {
        let lookups = &self.shared.lookups;
        match lookups.four(vrf).filter(|_| vrf != 0) {
            Some(PrefixReader::Dir24(table)) => self.one_table::<TAGGED, _>(&**table, vrf, batch, out),
            Some(PrefixReader::Packed(table)) => self.one_table::<TAGGED, _>(&**table, vrf, batch, out),
            None => self.one_table::<TAGGED, T>(&lookups.table, vrf, batch, out),
        }
    }

    /// Compiled for what the CPU has.
    #[inline(never)]
    fn one_table<const TAGGED: bool, L: Lookup4>(
        &mut self,
        table: &L,
        vrf: u16,
        batch: &mut Batch,
        out: &mut Out<'_>,
    ) -> (Good, u64) {
        self.examiner.checker.kernel.run(
            #[inline(always)]
            || self.pass::<TAGGED, L>(table, vrf, batch, out),
        )
    }

    #[inline(always)]
    fn pass<const TAGGED: bool, L: Lookup4>(
        &mut self,
        table: &L,
        vrf: u16,
        batch: &mut Batch,
        out: &mut Out<'_>,
    ) -> (Good, u64) {
        let mut values = [0; BATCH];
        let ask = |destination| table.prefetch(destination);
        let approach = |destinations: &[u32]| table.approach(destinations, &mut values);
        let good = self.check::<TAGGED>(batch, ask, approach);
        let Examiner { checker, six, .. } = &mut *self.examiner;
        let mut gone = 0;
        if good.four != 0 {
            gone |= self.shared.forward_four::<TAGGED, L>(table, checker, batch, good.four, &mut values, out);
        }
        if good.six != 0 {
            gone |= self.shared.forward_six::<TAGGED>(vrf, six, batch, good.six, out);
        }
        (good, gone)
    }

    /// The masks of packets that may be forwarded without a second look.
    #[inline(always)]
    fn check<const TAGGED: bool>(
        &mut self,
        batch: &mut Batch,
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) -> Good {
        let (examiner, ingress) = (&mut *self.examiner, self.shared.lookups.fib.ingress());
        if PARTED {
            let four = batch.live() & !self.six;
            examiner.checker.gather::<TAGGED>(batch, (four, reach(batch)), ask, approach);
            examiner.six.gather::<TAGGED>(batch, self.six);
            return Good { four, six: batch.live() & self.six, bytes: 0 };
        }
        let Some(received) = self.shared.received.as_ref().filter(|_| TAGGED) else {
            let good = examiner.check::<TAGGED>(batch, &self.entered, ingress, ask, approach);
            if let Some(received) = &self.shared.received {
                received.count_untagged(batch, self.entered.port, good.bytes, ingress);
            }
            return good;
        };
        if let Some(tag) = &self.tag {
            return examiner.check_expected(batch, tag, received, ingress, ask, approach);
        }
        let good = match self.entered.is_late {
            true => examiner.enter_and_check(batch, received, ingress, ask, approach),
            false => examiner.check::<TAGGED>(batch, &self.entered, ingress, ask, approach),
        };
        // Of packets that lists redirect nothing is expected, so that nothing need be found out.
        if good.four == batch.live() && !self.entered.is_redirected {
            examiner.expected = Expected::after(batch, ingress);
        }
        good
    }

    /// Packets of several VRFs, each looked up in the tables of its own, and then sent together: what tables answer is the same for all.
    #[inline(never)]
    fn several(&mut self, batch: &mut Batch, out: &mut Out<'_>) -> (Good, u64) {
        let good = match self.entered.is_tagged {
            true => self.check::<true>(batch, |_| {}, |_| {}),
            false => self.check::<false>(batch, |_| {}, |_| {}),
        };
        let (Examiner { checker, six, vrfs, .. }, lookups) = (&mut *self.examiner, &self.shared.lookups);
        let mut values = [0; BATCH];
        let mut left = good.four | good.six;
        while left != 0 {
            let (alike, vrf) = vrfs.like_the_first(left);
            match lookups.four(vrf) {
                Some(PrefixReader::Dir24(table)) => look_up(&**table, checker, alike & good.four, &mut values),
                Some(PrefixReader::Packed(table)) => look_up(&**table, checker, alike & good.four, &mut values),
                None => {}
            }
            if let Some(table) = lookups.six(vrf) {
                six.look_up_some(table, alike & good.six, &mut values);
            }
            left &= !alike;
        }
        lookups.choose::<true>(Family::Four, batch, good.four, &mut values);
        lookups.choose::<true>(Family::Six, batch, good.six, &mut values);
        let path = self.shared.path();
        let mut gone = path.forward_batch::<true, Four>(batch, good.four, &values, out);
        gone |= path.forward_batch::<true, Six>(batch, good.six, &values, out);
        (good, gone)
    }
}

/// Looks up the IPv4 packets in `of`.
fn look_up<L: Lookup4>(table: &L, checker: &Checker, of: u64, values: &mut [u32; BATCH]) {
    let (mut destinations, mut found, mut count) = ([0; BATCH], [0; BATCH], 0);
    for slot in weir_packet::Slots(of) {
        destinations[count % BATCH] = checker.destinations.0[slot.index()];
        count += 1;
    }
    if let (Some(from), Some(to)) = (destinations.get(..count), found.get_mut(..count)) {
        table.lookup_batch(from, to);
    }
    for (slot, found) in weir_packet::Slots(of).zip(found) {
        values[slot.index()] = found;
    }
}

impl<T: Lookup4> Shared<T> {
    /// Looks up the IPv4 packets in `good`, and forwards those whose route leads to a next hop; returns their mask.
    #[inline(always)]
    fn forward_four<const TAGGED: bool, L: Lookup4>(
        &self,
        table: &L,
        checker: &Checker,
        batch: &mut Batch,
        good: u64,
        values: &mut [u32; BATCH],
        out: &mut Out<'_>,
    ) -> u64 {
        let from = checker.destinations.0.get(..reach(batch)).unwrap_or_default();
        let mut late = table.lookup_first(from, values) & good;
        let (mut part, mut gone) = (good & !late, 0);
        loop {
            self.lookups.choose::<TAGGED>(Family::Four, batch, part, values);
            gone |= self.path().forward_batch::<TAGGED, Four>(batch, part, values, out);
            if late == 0 {
                return gone;
            }
            // Those whose values the table does not have at hand come last: their lines have the time that the others take.
            table.lookup_rest(from, values, late);
            (part, late) = (late, 0);
        }
    }

    /// The same for the IPv6 packets in `good`, whose destinations were found out last, in a VRF.
    #[inline(always)]
    fn forward_six<const TAGGED: bool>(
        &self,
        vrf: u16,
        six: &mut six::Six,
        batch: &mut Batch,
        good: u64,
        out: &mut Out<'_>,
    ) -> u64 {
        let table: Option<&Trie> = self.lookups.six(vrf);
        let Some(table) = table.filter(|_| good != 0) else { return 0 };
        let mut values = [0; BATCH];
        six.look_up(table, &mut values);
        self.lookups.choose::<TAGGED>(Family::Six, batch, good, &mut values);
        self.path().forward_batch::<TAGGED, Six>(batch, good, &values, out)
    }
}
