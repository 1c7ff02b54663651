//! Stage `PORT.functions`: hands each packet of a port that several functions share to the one whose interface has its tags.

use std::sync::Arc;

use weir_packet::{Batch, LaneId};
use weir_stage::{Declaration, InterfaceSet, Out, Stage, TagInfo};

use crate::{Ingress, NO_INTERFACE, Tag, Tags};

weir_stage::ways! {
    /// Ways out of [`Demultiplex`], beside `function[n]`.
    pub enum Exit {
        /// To the first function, which also has what belongs to no interface: it drops that by name.
        First => way "first",
    }
}

/// Tells packets of a port apart by the functions that their interfaces belong to.
pub struct Demultiplex {
    functions: Vec<Arc<dyn InterfaceSet>>,
}

impl Demultiplex {
    /// For functions with these interfaces, at most 64. No two have the same tags on one port.
    pub fn new(functions: Vec<Arc<dyn InterfaceSet>>) -> Demultiplex {
        Demultiplex { functions }
    }
}

impl Stage for Demultiplex {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().indexed("function", self.functions.len()).reads(&[LaneId::Port])
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let mut left = batch.live();
        for (number, function) in (0..).zip(&self.functions) {
            let theirs = function.select(batch, left);
            left &= !theirs;
            // The first function has the first way.
            if number > 0 {
                batch.each_in(theirs, |slot, _, _| out.answer_indexed(slot, number));
            }
            if left == 0 {
                return;
            }
        }
    }
}

impl InterfaceSet for Ingress {
    fn select(&self, batch: &Batch, among: u64) -> u64 {
        let (mut selected, mut last) = (0, None);
        let mut view = self.port(u16::MAX);
        batch.each_ref(|slot, packet| {
            let port = batch.lanes.port[slot];
            if last != Some(port) {
                (last, view) = (Some(port), self.port(port));
            }
            let is_its = view.enter(packet.window(0)).interface != NO_INTERFACE;
            selected |= u64::from(is_its) << slot.index();
        });
        selected & among
    }

    fn has(&self, port: u16, tags: &[TagInfo]) -> bool {
        self.lookup(port, tags_of(tags)) != NO_INTERFACE
    }

    fn has_vlan(&self, port: u16, vlan: u16) -> bool {
        self.has_outer_vlan(port, vlan)
    }
}

/// Tags as the network layer has them.
pub fn tags_of(tags: &[TagInfo]) -> Tags {
    Tags::of(tags.iter().map(|tag| Tag { tpid: tag.tpid, vlan: tag.vlan }))
}

/// As functions tell each other of them.
pub fn infos_of(tags: Tags) -> Vec<TagInfo> {
    let both = [tags.outer(), tags.inner()].into_iter().filter(|tag| tag.is_some());
    both.map(|tag| TagInfo { tpid: tag.tpid, vlan: tag.vlan }).collect()
}
