//! Finds out which packets of a batch nothing but their routes can speak against: IPv4 by vectors, IPv6 by words, in whichever order the
//! last batches make likely, so that packets of one family do not pay for the other.

use weir_packet::{Batch, Packet};
use weir_simd::Kernel;
use weir_simd::frame_check::BATCH;
use weir_wire::{Ethernet, View};

use crate::Ingress;
use crate::fast::checker::{Checked, Checker, ours, reach};
use crate::fast::expected::{Expected, Vlans};
use crate::fast::received::{Entered, Received};
use crate::fast::scope::Vrfs;
use crate::fast::six::{Seen, Six};
use crate::ingress::OneTag;
use crate::tags::{FRONT_LEN, TAG_LEN};

/// What was found out about a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Good {
    /// The mask of IPv4 packets that may be forwarded without a second look.
    pub(crate) four: u64,
    /// The same of IPv6.
    pub(crate) six: u64,
    /// Bytes of packets without tags.
    pub(crate) bytes: u64,
}

/// What checks packets, and what it finds out by the way.
pub(crate) struct Examiner {
    pub(crate) checker: Checker,
    pub(crate) six: Six,
    pub(crate) vrfs: Vrfs,
    /// Whether there was IPv6 in the last batch: then it is looked for first.
    pub(crate) expects_six: bool,
    /// What the last batch lets expect.
    pub(crate) expected: Expected,
}

impl Examiner {
    pub(crate) fn new(kernel: Kernel) -> Examiner {
        let (checker, six, vrfs) = (Checker::new(kernel), Six::new(kernel), Vrfs::default());
        Examiner { checker, six, vrfs, expects_six: false, expected: Expected::Nothing }
    }

    /// Checks all packets; `ask` is told the destination address of each that is looked at as one of IPv4 as soon as it is known, `approach`
    /// all of them before they are checked.
    #[inline(always)]
    pub(crate) fn check<const TAGGED: bool>(
        &mut self,
        batch: &Batch,
        entered: &Entered,
        ingress: &Ingress,
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) -> Good {
        let (live, six_first) = (batch.live(), self.expects_six);
        let mut seen = Seen::default();
        if six_first {
            seen = self.check_six::<TAGGED>(batch, live, entered, ingress);
        }
        let (others, mut bytes) = (live & !seen.of, seen.bytes);
        let mut four = 0;
        if others != 0 {
            let checked = self.check_four::<TAGGED>(batch, others, entered, ingress, ask, approach);
            (four, bytes) = (checked.good, bytes + checked.bytes);
        }
        if !six_first && others & !four != 0 {
            // Their bytes are counted already.
            seen = self.check_six::<TAGGED>(batch, others & !four, entered, ingress);
        }
        self.expects_six = seen.of != 0;
        Good { four, six: seen.good, bytes }
    }

    /// The IPv6 packets in `of`.
    #[inline(always)]
    pub(crate) fn check_six<const TAGGED: bool>(
        &mut self,
        batch: &Batch,
        of: u64,
        entered: &Entered,
        ingress: &Ingress,
    ) -> Seen {
        let whose = if TAGGED { (None, entered.ours) } else { whose(batch, entered.port, ingress) };
        self.six.check::<TAGGED>(self.checker.kernel, batch, of, whose)
    }

    /// The IPv4 packets in `of`; see [`Checker::check`].
    #[inline(always)]
    pub(crate) fn check_four<const TAGGED: bool>(
        &mut self,
        batch: &Batch,
        of: u64,
        entered: &Entered,
        ingress: &Ingress,
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) -> Checked {
        let of = (of, reach(batch));
        if TAGGED {
            let l3 = |slot, _: &Packet| usize::from(batch.lanes.l3[slot]);
            return Checked { good: entered.ours & self.checker.check_tagged(batch, of, l3, ask, approach), bytes: 0 };
        }
        self.checker.check(batch, of, (Some(ingress), entered.port), ask, approach)
    }

    /// The same as [`Examiner::check`] for packets that may have tags and most of which carry IPv4: in the same pass it is found out by which interfaces
    /// they came in, and they are counted.
    #[inline(always)]
    pub(crate) fn enter_and_check(
        &mut self,
        batch: &mut Batch,
        received: &Received,
        ingress: &Ingress,
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) -> Good {
        let (live, mut entering, mut places) = (batch.live(), received.entering(ingress), [0; BATCH]);
        let plain = self.checker.check_tagged(
            batch,
            (live, reach(batch)),
            #[inline(always)]
            |slot, packet| {
                let entered = entering.enter(slot, batch.lanes.port[slot], packet);
                places[slot.index()] = entered.l3;
                usize::from(entered.l3)
            },
            ask,
            approach,
        );
        *batch.lanes.l3.all_mut() = places;
        entering.count(batch, live);
        let (ours, four) = (entering.ours, plain & entering.ours);
        let mut seen = Seen::default();
        if live & !four != 0 {
            seen = self.six.check::<true>(self.checker.kernel, batch, live & !four, (None, ours));
        }
        self.expects_six = seen.of != 0;
        Good { four, six: seen.good, bytes: 0 }
    }

    /// The same for packets that are expected to begin so; those that do not are not good.
    #[inline(always)]
    pub(crate) fn check_expected(
        &mut self,
        batch: &mut Batch,
        tag: &OneTag<'_>,
        received: &Received,
        ingress: &Ingress,
        ask: impl Fn(u32),
        approach: impl FnOnce(&[u32]),
    ) -> Good {
        let of = (batch.live(), reach(batch));
        batch.lanes.l3.all_mut().fill((Ethernet::LEN + TAG_LEN) as u8);
        let four = match tag.by_vlan {
            None => {
                let Checked { good, bytes } = self.checker.check_one_tag(batch, of, tag, |_, _| 0, ask, approach);
                let bytes = if good == batch.live() { bytes } else { batch.bytes_in(good) };
                received.count_one(tag.interface, good.count_ones(), bytes);
                good
            }
            Some(by_vlan) => {
                let mut vlans = Vlans::new(by_vlan, tag.tpid, received.tally());
                let look = |slot, front: &[u8; FRONT_LEN]| vlans.look(slot, front);
                let Checked { good, .. } = self.checker.check_one_tag(batch, of, tag, look, ask, approach);
                vlans.count(batch, good);
                good
            }
        };
        let rest = batch.live() & !four;
        if rest != 0 {
            received.enter_rest(batch, rest, ingress, &mut self.vrfs);
            self.expected = self.expected.less();
        }
        Good { four, ..Good::default() }
    }
}

/// Whom IPv6 packets without tags must be for that came in by `port`, if all did by one: the station, and else the mask of those that are for theirs.
#[inline(always)]
pub(crate) fn whose(batch: &Batch, port: Option<u16>, ingress: &Ingress) -> (Option<[u8; 6]>, u64) {
    let Some(port) = port else { return (None, ours(batch, ingress)) };
    match ingress.mac_word(port).to_le_bytes() {
        [a, b, c, d, e, f, 0, 0] => (Some([a, b, c, d, e, f]), u64::MAX),
        // Nobody's.
        _ => (None, 0),
    }
}

#[cfg(test)]
mod tests;
