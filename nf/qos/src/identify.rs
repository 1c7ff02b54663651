//! Stage `qos.identify`: whose frame it is, and of which traffic class and queue.

use std::sync::Arc;

use weir_mem::Published;
use weir_packet::{BATCH, Batch, Key, LaneId};
use weir_sched::classify::{Classifier, Frame};
use weir_stage::ownership::Own;
use weir_stage::{Declaration, Out, Stage};

use crate::find::{Find, OTHERS};
use crate::table::IdentifyWith;

weir_stage::ways! {
    /// Ways out of [`Identify`].
    pub(crate) enum Exit {
        /// Its user and its class are known.
        Out => way "out",
        /// It belongs to no user, and the configuration has no profile for `others`.
        Unknown => drop "unknown-user",
    }
}

/// What becomes of frames, by the configuration.
pub(crate) struct Rules {
    pub(crate) classifier: Classifier,
    /// Whether frames of nobody are dropped.
    pub(crate) strict: bool,
}

/// Finds users and classes.
pub(crate) struct Identify<F> {
    find: F,
    rules: Arc<Published<Rules>>,
    user: Key<u32>,
    own: Own,
}

impl<F: Find> Identify<F> {
    pub(crate) fn new(find: F, with: IdentifyWith) -> Identify<F> {
        let IdentifyWith { rules, user, own } = with;
        Identify { find, rules, user, own }
    }
}

/// What [`Identify`] declares.
pub(crate) fn declaration(user: Key<u32>) -> Declaration {
    Declaration::of::<Exit>().writes(&[user.into(), LaneId::Class, LaneId::Colour])
}

impl<F: Find> Stage for Identify<F> {
    fn declare(&self) -> Declaration {
        declaration(self.user)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Rules { classifier, strict } = self.rules.load(out.reader());
        let Identify { find, user: key, own, .. } = self;
        let mut places = [F::Place::default(); BATCH];
        batch.lanes.colour.all_mut().fill(0);
        batch.each(|slot, packet, lanes| {
            let frame = Frame::of(packet.bytes());
            places[slot.index()] = find.seek(packet, &frame);
            lanes.class[slot] = classifier.classify(packet.bytes(), &frame).to_lane();
        });
        let mut unknown = 0;
        for slot in batch.slots() {
            let user = find.user(places[slot.index()]);
            batch.lanes.set(*key, slot, own.number(user));
            unknown |= u64::from(user == OTHERS && *strict) << slot.index();
        }
        out.answer_all(unknown, Exit::Unknown);
    }
}
