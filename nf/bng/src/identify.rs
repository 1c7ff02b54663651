//! Stages `NAME.identify-up` and `NAME.identify-down`: whose frame it is, and of which traffic class, for policers, remarking and schedulers.
//!
//! They look at frames as customers see them, which is before `up` takes the tags away and after `down` has given them back. So
//! both directions go by the same rules, and where nothing of all that is done it costs nothing.

use std::sync::Arc;

use weir_mem::Published;
use weir_packet::{BATCH, Batch, Key, LaneId};
use weir_sched::classify::{Classifier, Frame};
use weir_stage::ownership::Own;
use weir_stage::{Declaration, Out, Stage};

use crate::table::Subscribers;

weir_stage::ways! {
    /// Ways out of [`Identify`].
    pub(crate) enum Exit {
        /// An IP packet of a subscriber: on to what is done with those.
        Out => way "out",
        /// No IP packet, or nobody's: past all that.
        Past => way "past",
    }
}

/// Finds users and classes of the frames of one access port.
pub(crate) struct Identify {
    subscribers: Arc<Subscribers>,
    classifier: Arc<Published<Classifier>>,
    user: Key<u32>,
    own: Own,
    /// Position of the port among the access ports.
    position: u8,
    frames: [Frame; BATCH],
}

/// A place at which nothing is.
const NOWHERE: u32 = u32::MAX;

impl Identify {
    /// For the access port at `position`, and the users that are `own`.
    pub(crate) fn new(
        subscribers: Arc<Subscribers>,
        classifier: Arc<Published<Classifier>>,
        user: Key<u32>,
        own: Own,
        position: u8,
    ) -> Identify {
        Identify { subscribers, classifier, user, own, position, frames: [Frame::default(); BATCH] }
    }

    /// Reads headers, then tags, each asked for a pass before it is needed. Answers places of subscribers.
    #[inline(always)]
    fn places(&mut self, batch: &Batch) -> [u32; BATCH] {
        let Identify { subscribers, frames, position, .. } = self;
        let mut places = [NOWHERE; BATCH];
        batch.each_ref(|slot, packet| {
            let frame = Frame::of(packet.bytes());
            if usize::from(frame.tags) == frame.vlans.len() {
                places[slot.index()] = subscribers.seek(*position, frame.vlans[0], frame.vlans[1]);
            }
            frames[slot.index()] = frame;
        });
        for place in &mut places {
            *place = subscribers.found(*place).place();
            subscribers.prefetch_subscriber(*place);
        }
        places
    }
}

/// What [`Identify`] declares.
pub(crate) fn declaration(user: Key<u32>) -> Declaration {
    // What a customer sends to another comes by twice: as the one's, and as the other's.
    Declaration::of::<Exit>().renews(&[user.into(), LaneId::Class, LaneId::Colour])
}

impl Stage for Identify {
    fn declare(&self) -> Declaration {
        declaration(self.user)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let places = self.places(batch);
        let classifier = self.classifier.load(out.reader());
        let Identify { subscribers, frames, user, own, .. } = self;
        batch.lanes.colour.all_mut().fill(0);
        let mut past = batch.live();
        batch.each(|slot, packet, lanes| {
            let frame = &frames[slot.index()];
            let record = subscribers.subscriber(places[slot.index()]);
            let Some(record) = record.filter(|_| frame.dscp(packet.bytes()).is_some()) else { return };
            lanes.set(*user, slot, own.number(record.user()));
            lanes.class[slot] = classifier.classify(packet.bytes(), frame).to_lane();
            past &= !slot.bit();
        });
        out.answer_all(past, Exit::Past);
    }
}
