//! Stage `NAME.send`: hands packets to the slow path that a function made and does not know how to send, as their neighbour has to be asked for.

use weir_packet::{Batch, Key};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::MacAddr;

use crate::fast::punt::{PuntPolicer, PuntReason};
use crate::slow::made_in;

weir_stage::ways! {
    /// Ways out of [`Send`].
    pub enum Exit {
        /// To the slow path, which asks for the neighbour.
        Out => way "out",
        /// More to neighbours that are not known than the slow path takes from a worker.
        Policed => drop "punt-policed-unresolved",
    }
}

/// See the module.
pub(crate) struct Send {
    kind: Key<PuntReason>,
    policer: PuntPolicer,
    from: MacAddr,
}

impl Send {
    /// Lets through what `policer` lets through of packets whose neighbours are not known.
    pub(crate) fn new(kind: Key<PuntReason>, policer: PuntPolicer) -> Send {
        Send { kind, policer, from: made_in(0) }
    }
}

/// What [`Send`] declares.
pub(crate) fn declaration(kind: Key<PuntReason>) -> Declaration {
    Declaration::of::<Exit>().writes(&[kind.into()])
}

impl Stage for Send {
    fn declare(&self) -> Declaration {
        declaration(self.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Send { kind, policer, from } = self;
        let mut policer = policer.batch(out.now());
        out.each(batch, |slot, packet, lanes| {
            if !policer.pass(PuntReason::Unresolved, 0) {
                return Exit::Policed;
            }
            *packet.window_mut(0) = from.0;
            lanes.set(*kind, slot, PuntReason::Originated);
            Exit::Out
        });
    }
}
