//! Stages `NAME.acl-in` and `NAME.acl-out-N`: frames are dropped that a list denies, before anything is learned of them, and as they leave.

use std::sync::Arc;

use weir_acl::recent::BETWEEN;
use weir_packet::{Batch, LaneId, Packet, Slots};
use weir_simd::Kernel;
use weir_stage::{Declaration, Out, Stage};
use weir_table::classifier::{BATCH, Keys};
use weir_table::counters::WorkerCounters;
use weir_wire::{Ethernet, View};

use super::lists::{Deed, List, Logged};
use super::rule::{Action, Facts, WORDS};
use crate::forward::addresses;
use crate::frame::{TAG, VLAN};
use crate::plan::Plan;
use crate::state::Shared;

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
    /// What comes in, by whatever port.
    In,
    /// What leaves by the port of this number.
    Out(u8),
}

/// What [`Acl`] declares.
pub(crate) fn declaration(side: Side) -> Declaration {
    match side {
        Side::In => Declaration::of::<Exit>().reads(&[LaneId::Port]),
        Side::Out(_) => Declaration::of::<Exit>(),
    }
}

/// Judges frames by the lists of ports.
pub(crate) struct Acl {
    shared: Arc<Shared>,
    side: Side,
    judge: Judge,
}

impl Acl {
    pub(crate) fn new(shared: Arc<Shared>, side: Side, counters: Arc<WorkerCounters>) -> Acl {
        let (kernel, keys) = (Kernel::detect(), Keys::default());
        let judge = Judge { kernel, keys, counters, slots: [0; BATCH], bytes: [0; BATCH], next: 0 };
        Acl { shared, side, judge }
    }
}

impl Stage for Acl {
    fn declare(&self) -> Declaration {
        declaration(self.side)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Acl { shared, side, judge } = self;
        let (plan, lists) = (shared.plan.load(out.reader()), shared.acls.load(out.reader()));
        let now = out.now();
        if let Side::Out(number) = *side {
            if let Some(list) = lists.outward(number) {
                let verdicts =
                    judge.judge(list, (batch, batch.live()), &Where { shared, plan, number, is_in: false }, now);
                verdicts.answer(out);
            }
            return;
        }
        let mut left = batch.live();
        while let Some(first) = Slots(left).next() {
            let port = batch.lanes.port[first];
            let alike =
                Slots(left).filter(|slot| batch.lanes.port[*slot] == port).fold(0, |mask, slot| mask | slot.bit());
            left &= !alike;
            let number = plan.number(port);
            if let Some(list) = lists.inward(number) {
                judge.judge(list, (batch, alike), &Where { shared, plan, number, is_in: true }, now).answer(out);
            }
        }
    }
}

/// What becomes of frames that do not go on, as masks.
#[derive(Clone, Copy, Debug, Default)]
struct Verdicts {
    denied: u64,
    policed: u64,
}

impl Verdicts {
    fn answer(self, out: &mut Out<'_>) {
        out.answer_all(self.denied, Exit::Denied);
        out.answer_all(self.policed, Exit::Policed);
    }
}

/// Where frames are judged: as they come in or leave by the port of a number.
struct Where<'a> {
    shared: &'a Shared,
    plan: &'a Plan,
    number: u8,
    is_in: bool,
}

impl Where<'_> {
    /// What rules look at of a frame: its addresses, and its VLAN and EtherType by the tag that the bridge is aware of. Nothing of one that is cut short, which is
    /// dropped by name later.
    fn facts_of(&self, packet: &Packet) -> Option<Facts> {
        let [to, from] = addresses(packet);
        let [t0, t1, c0, c1, e0, e1] = *packet.window::<6>(12);
        let outer = u16::from_be_bytes([t0, t1]);
        let is_tagged = self.plan.tag != 0 && outer == self.plan.tag;
        if packet.len() < Ethernet::LEN + if is_tagged { TAG } else { 0 } {
            return None;
        }
        let of_port = self.plan.port(self.number).vlan;
        let (vlan, ethertype) = match u16::from_be_bytes([c0, c1]) & VLAN {
            _ if !is_tagged => (of_port, outer),
            0 => (of_port, u16::from_be_bytes([e0, e1])),
            vlan => (vlan, u16::from_be_bytes([e0, e1])),
        };
        Some(Facts { to, from, vlan, ethertype })
    }
}

/// What the frames of a batch are looked up by.
struct Judge {
    kernel: Kernel,
    keys: Keys<WORDS>,
    counters: Arc<WorkerCounters>,
    slots: [u8; BATCH],
    bytes: [u32; BATCH],
    /// When the next frame may be kept in mind.
    next: u64,
}

impl Judge {
    /// Judges frames in a mask, all of one port, by a list.
    fn judge(&mut self, list: &List, (batch, mask): (&Batch, u64), at: &Where<'_>, now: u64) -> Verdicts {
        let Judge { kernel, keys, counters, slots, bytes, next } = self;
        let mut count = 0;
        batch.each_ref_in(mask, |slot, packet| {
            if let Some(facts) = at.facts_of(packet) {
                keys.set(count, facts.key());
                slots[count % BATCH] = slot.index() as u8;
                bytes[count % BATCH] = packet.len() as u32;
                count += 1;
            }
        });
        let mut verdicts = Verdicts::default();
        if count == 0 {
            return verdicts;
        }
        let mut found = [0; BATCH];
        list.rules.classifier.lookup_batch(*kernel, keys, count, &mut found);
        let tally = counters.view(counters.places());
        for (n, found) in found.iter().enumerate().take(count) {
            let (deed, bytes) = (list.deed(*found), u64::from(bytes[n % BATCH]));
            let bit = 1 << (slots[n % BATCH] % 64);
            tally.count(deed.place, 1, bytes);
            if deed.action == Action::Deny {
                verdicts.denied |= bit;
            }
            if !deed.is_plain() && carry_out((list, deed), (batch, bit), at, next, now) {
                verdicts.policed |= bit;
            }
        }
        verdicts
    }
}

/// What is not just to let a frame go on, or not. Answers whether it is more than its rule permits.
#[inline(never)]
fn carry_out(
    (list, deed): (&List, &Deed),
    (batch, bit): (&Batch, u64),
    at: &Where<'_>,
    next: &mut u64,
    now: u64,
) -> bool {
    let mut exceeds = false;
    batch.each_ref_in(bit, |_, packet| {
        exceeds = deed.police.as_ref().is_some_and(|police| !police.admits(now, packet.len()));
        if let Some(facts) = at.facts_of(packet).filter(|_| deed.is_logged && now >= *next) {
            *next = now.saturating_add(BETWEEN);
            let (list, place) = (Arc::clone(&list.name), deed.place);
            at.shared.logged.keep(Logged { at: now, list, place, port: at.number, is_in: at.is_in, facts });
        }
    });
    exceeds
}
