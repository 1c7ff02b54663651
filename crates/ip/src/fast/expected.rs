//! What a batch lets expect of the next one: that all its packets have one tag and carry IPv4. Then what all have in common is told by vectors, and of each
//! packet only its VLAN is looked at, if that.

use weir_packet::{Batch, Packet, Slot};
use weir_simd::frame_check::BATCH;
use weir_table::counters::Tally;

use crate::fast::checker::common_port;
use crate::fast::scope::Scope;
use crate::ingress::{ByVlan, OneTag, PortView};
use crate::tags::FRONT_LEN;
use crate::{Ingress, InterfaceId};

/// What is expected of the next batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Nothing.
    #[default]
    Nothing,
    /// That its packets carry IPv4, and each is for the interface of its only tag.
    OneTag,
    /// The same, and that it is one interface for all.
    OneInterface,
}

impl Expected {
    /// What a batch whose packets may be forwarded without a second look lets expect: what would have been right for itself.
    #[inline(never)]
    pub(crate) fn after(batch: &Batch, ingress: &Ingress) -> Expected {
        let Some((view, first)) = like_the_first(batch, ingress, false) else { return Expected::Nothing };
        // Of VRFs it is to be one for all.
        let (mut is_one, needs_one) = (true, ingress.has_vrfs());
        for slot in batch.slots() {
            let tag = batch.get(slot).and_then(|packet| view.one_tag(packet.window(0), false));
            let Some(tag) = tag.filter(|tag| (tag.start, tag.link) == (first.start, first.link)) else {
                return Expected::Nothing;
            };
            is_one &= tag.interface == first.interface;
            if needs_one && !is_one {
                return Expected::Nothing;
            }
        }
        if is_one { Expected::OneInterface } else { Expected::OneTag }
    }

    /// What is expected after a batch that was not as expected. Where few packets come, they are of one interface now and then, though there are many.
    pub(crate) fn less(self) -> Expected {
        if self == Expected::OneInterface { Expected::OneTag } else { Expected::Nothing }
    }

    /// How the packets of a batch begin if it is as expected, and their VRF; `None` if nothing is, or the first is not so. Whether the others are is yet to
    /// be found out.
    #[inline(always)]
    pub(crate) fn of<'i>(self, batch: &Batch, ingress: &'i Ingress) -> Option<(OneTag<'i>, Scope)> {
        let is_one = self == Expected::OneInterface;
        if self == Expected::Nothing || !is_one && ingress.has_vrfs() {
            return None;
        }
        let (_, tag) = like_the_first(batch, ingress, is_one)?;
        Some((tag, Scope::One(ingress.vrf_of(tag.interface))))
    }
}

/// The port of a batch, and how its packets begin if all are like the first one.
#[inline(always)]
fn like_the_first<'i>(batch: &Batch, ingress: &'i Ingress, is_one: bool) -> Option<(PortView<'i>, OneTag<'i>)> {
    let view = ingress.port(common_port(&batch.lanes.port)?);
    let first = batch.get(batch.slots().next()?)?;
    Some((view, view.one_tag(first.window(0), is_one)?))
}

/// The interfaces of packets with one tag, and their counters.
pub(crate) struct Vlans<'e> {
    by_vlan: ByVlan<'e>,
    tpid: u16,
    counters: Tally<'e>,
    /// What is known of each packet's VLAN, by slot: see [`vlan_word`](crate::ingress::vlan_word).
    words: [u32; BATCH],
}

impl<'e> Vlans<'e> {
    /// Of packets that are to have this TPID.
    pub(crate) fn new(by_vlan: ByVlan<'e>, tpid: u16, counters: Tally<'e>) -> Vlans<'e> {
        Vlans { by_vlan, tpid, counters, words: [0; BATCH] }
    }

    /// In which bits the TPID of the interface that the VLAN of a packet says, which begins so, is another; never 0 where there is no such interface.
    #[inline(always)]
    pub(crate) fn look(&mut self, slot: Slot, front: &[u8; FRONT_LEN]) -> u32 {
        let word = self.by_vlan.word(front);
        self.words[slot.index()] = word;
        self.counters.prefetch((word as InterfaceId).into());
        word >> 16 ^ u32::from(self.tpid)
    }

    /// Counts the packets in `good`.
    #[inline(always)]
    pub(crate) fn count(&self, batch: &Batch, good: u64) {
        batch.each_ref_in(
            good,
            #[inline(always)]
            |slot, packet: &Packet| {
                let interface = self.words[slot.index()] as InterfaceId;
                self.counters.count(interface.into(), 1, packet.len() as u64);
            },
        );
    }
}
