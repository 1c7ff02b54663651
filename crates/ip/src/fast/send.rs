//! Stage `NAME.send`: hands packets to the slow path that a function made and does not know how to send, as their neighbour has to be asked for.

use weir_net::VrfId;
use weir_packet::{Batch, Key, Packet};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::{Ethernet, MacAddr, View};

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
    /// What says the VRF of IPv4, and that of IPv6.
    from: [MacAddr; 2],
    /// Whether packets come from behind the fast path, which has the lane before it.
    is_behind: bool,
}

impl Send {
    /// Lets through what `policer` lets through of packets whose neighbours are not known.
    pub(crate) fn new(kind: Key<PuntReason>, policer: PuntPolicer, (vrfs, is_behind): ([VrfId; 2], bool)) -> Send {
        Send { kind, policer, from: vrfs.map(made_in), is_behind }
    }
}

weir_stage::ways! {
    /// Ways out of [`Back`].
    pub enum BackExit {
        /// Not decided: it never lets a packet go this way.
        Undecided => way "undecided",
        /// To the slow path, which asks for the neighbour.
        Again => again "again",
    }
}

/// Stage `NAME.back`: the same on the control side, for what came from the slow path itself, which is policed already.
pub(crate) struct Back {
    kind: Key<PuntReason>,
    from: [MacAddr; 2],
}

impl Back {
    pub(crate) fn new(kind: Key<PuntReason>, vrfs: [VrfId; 2]) -> Back {
        Back { kind, from: vrfs.map(made_in) }
    }
}

/// What [`Back`] declares.
pub(crate) fn back_declaration(kind: Key<PuntReason>) -> Declaration {
    Declaration::of::<BackExit>().updates(&[kind.into()])
}

impl Stage for Back {
    fn declare(&self) -> Declaration {
        back_declaration(self.kind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Back { kind, from } = self;
        out.each(batch, |slot, packet, lanes| {
            mark(packet, *from);
            lanes.set(*kind, slot, PuntReason::Originated);
            BackExit::Again
        });
    }
}

/// Notes in front of a packet of which VRF it is.
fn mark(packet: &mut Packet, from: [MacAddr; 2]) {
    let [version] = *packet.window::<1>(Ethernet::LEN);
    *packet.window_mut(0) = from[usize::from(version >> 4 == 6)].0;
}

/// What [`Send`] declares.
pub(crate) fn declaration(kind: Key<PuntReason>, is_behind: bool) -> Declaration {
    let declaration = Declaration::of::<Exit>();
    if is_behind { declaration.updates(&[kind.into()]) } else { declaration.writes(&[kind.into()]) }
}

impl Stage for Send {
    fn declare(&self) -> Declaration {
        declaration(self.kind, self.is_behind)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let Send { kind, policer, from, .. } = self;
        let mut policer = policer.batch(out.now());
        out.each(batch, |slot, packet, lanes| {
            if !policer.pass(PuntReason::Unresolved) {
                return Exit::Policed;
            }
            mark(packet, *from);
            lanes.set(*kind, slot, PuntReason::Originated);
            Exit::Out
        });
    }
}
