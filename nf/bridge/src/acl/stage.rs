//! Stages `NAME.acl-in` and `NAME.acl-out-N`: frames are dropped that a list denies, before anything is learned of them, and as they leave.

use std::sync::Arc;

use weir_packet::{Batch, LaneId, Packet, Slots};
use weir_simd::Kernel;
use weir_stage::{Declaration, Out, Stage};
use weir_table::classifier::{BATCH, Keys};
use weir_wire::{Ethernet, View};

use super::lists::{Count, List};
use super::rule::{Action, WORDS, key};
use crate::forward::addresses;
use crate::frame::{TAG, VLAN};
use crate::plan::Plan;
use crate::state::Shared;

weir_stage::ways! {
    /// Ways out of [`Acl`].
    pub(crate) enum Exit {
        /// Permitted, or none of a list's business.
        Out => way "out",
        /// A rule of an access list denies it, or none matches and its default does: `weir show bridge-acls` counts by rule.
        Denied => drop "acl-denied",
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
    pub(crate) fn new(shared: Arc<Shared>, side: Side) -> Acl {
        let judge = Judge { kernel: Kernel::detect(), keys: Keys::default(), slots: [0; BATCH], bytes: [0; BATCH] };
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
        if let Side::Out(port) = *side {
            if let Some(list) = lists.outward(port) {
                let denied = judge.judge(list, plan, port, batch, batch.live());
                out.answer_all(denied, Exit::Denied);
            }
            return;
        }
        let mut left = batch.live();
        while let Some(first) = Slots(left).next() {
            let port = batch.lanes.port[first];
            let alike =
                Slots(left).filter(|slot| batch.lanes.port[*slot] == port).fold(0, |mask, slot| mask | slot.bit());
            left &= !alike;
            let port = plan.number(port);
            if let Some(list) = lists.inward(port) {
                let denied = judge.judge(list, plan, port, batch, alike);
                out.answer_all(denied, Exit::Denied);
            }
        }
    }
}

/// What the frames of a batch are looked up by.
struct Judge {
    kernel: Kernel,
    keys: Keys<WORDS>,
    slots: [u8; BATCH],
    bytes: [u32; BATCH],
}

/// The key of a frame that comes in or leaves by a port: its addresses, and its VLAN and EtherType by the tag that the bridge is aware of. Nothing of one that is cut short,
/// which is dropped by name later.
fn key_of(plan: &Plan, port: u8, packet: &Packet) -> Option<[u32; WORDS]> {
    let [destination, source] = addresses(packet);
    let [t0, t1, c0, c1, e0, e1] = *packet.window::<6>(12);
    let outer = u16::from_be_bytes([t0, t1]);
    let is_tagged = plan.tag != 0 && outer == plan.tag;
    if packet.len() < Ethernet::LEN + if is_tagged { TAG } else { 0 } {
        return None;
    }
    let of_port = plan.port(port).vlan;
    let (vlan, ethertype) = match u16::from_be_bytes([c0, c1]) & VLAN {
        _ if !is_tagged => (of_port, outer),
        0 => (of_port, u16::from_be_bytes([e0, e1])),
        vlan => (vlan, u16::from_be_bytes([e0, e1])),
    };
    Some(key(destination, source, ethertype, vlan))
}

impl Judge {
    /// Judges frames in a mask, all of one port, by a list. Answers those that are denied.
    fn judge(&mut self, list: &List, plan: &Plan, port: u8, batch: &Batch, mask: u64) -> u64 {
        let Judge { kernel, keys, slots, bytes } = self;
        let mut count = 0;
        batch.each_ref_in(mask, |slot, packet| {
            if let Some(key) = key_of(plan, port, packet) {
                keys.set(count, key);
                slots[count % BATCH] = slot.index() as u8;
                bytes[count % BATCH] = packet.len() as u32;
                count += 1;
            }
        });
        if count == 0 {
            return 0;
        }
        let mut found = [0; BATCH];
        list.classifier.lookup_batch(*kernel, keys, count, &mut found);
        let mut denied = 0;
        // Frames of the same rule, of which several come in a row, are counted together.
        let mut run: Option<(&Count, u64, u64)> = None;
        for (n, found) in found.iter().enumerate().take(count) {
            let deed = list.deed(*found);
            denied |= u64::from(deed.action == Action::Deny) << (slots[n % BATCH] % 64);
            let length = u64::from(bytes[n % BATCH]);
            run = match run {
                Some((count, frames, bytes)) if std::ptr::eq(count, &**deed.count) => {
                    Some((count, frames + 1, bytes + length))
                }
                before => {
                    before.into_iter().for_each(|(count, frames, bytes)| count.add(frames, bytes));
                    Some((&**deed.count, 1, length))
                }
            };
        }
        run.into_iter().for_each(|(count, frames, bytes)| count.add(frames, bytes));
        denied
    }
}
