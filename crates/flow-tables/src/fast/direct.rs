//! What most programs come to, found before packets come: changes, and one port.

use super::frame::Frame;
use super::program::{Act, End, Program};
use crate::compiled::{Alone, Filled, Found};
use crate::counts::Worker;
use crate::groups::{Groups, OnlyBucket};
use crate::words::Words;

/// Changes by machine code, and the port that a packet leaves by then: all that a program comes to which sends packets itself, or by a group that has
/// one bucket for all of them. A packet reads one line of the cache for that, and nothing of the program and the group.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Direct {
    /// Nothing if nothing is changed.
    changes: Option<Filled>,
    pub(super) port: u32,
    /// Where packets are counted that go by a group.
    group: Option<OnlyBucket>,
}

const _: () = assert!(size_of::<Option<Direct>>() == 64, "it takes one line");

impl Direct {
    /// What a program comes to with these groups; nothing if it comes to more, or there can be no code for what it changes.
    pub(super) fn of(program: &Program, groups: &Groups) -> Option<Direct> {
        let act = program.plain.as_ref()?;
        match act.end {
            End::Group(number) if act.changes.is_nothing => {
                let (leg, counts) = groups.get(number)?.only_leg()?;
                Direct::of_act(&leg.act, Some(counts))
            }
            _ => Direct::of_act(act, None),
        }
    }

    fn of_act(Act { changes, end }: &Act, group: Option<OnlyBucket>) -> Option<Direct> {
        let End::Port(port) = *end else { return None };
        let changes = if changes.is_nothing { None } else { Some(changes.filled()?.clone()) };
        Some(Direct { changes, port, group })
    }

    /// Counts a packet of so many bytes at the group that it goes by.
    #[inline(always)]
    pub(super) fn count(&self, worker: Worker, bytes: usize) {
        if let Some(group) = &self.group {
            group.count(worker, bytes);
        }
    }

    /// Changes a frame of which code found this, if that leaves it as long as it is, and code is at hand for it; if not, nothing has happened. Code may write words
    /// beside that nobody needs.
    #[inline(always)]
    pub(super) fn change_by(
        &self,
        at_hand: Option<Alone<'_>>,
        frame: &mut impl Frame,
        found: Found,
        results: &mut Words,
    ) -> bool {
        let Some(filled) = &self.changes else { return true };
        at_hand.is_some_and(|alone| filled.change_by(alone, frame, found, results))
    }

    /// The same, if something is to be done beside the code: the frame may be longer or shorter then.
    #[inline]
    pub(super) fn change_beside(&self, frame: &mut impl Frame, found: Found, results: &mut Words) -> bool {
        self.changes.as_ref().is_some_and(|filled| filled.change_beside(frame, found, results))
    }

    /// Changes a frame of which code found this, if that goes; if not, nothing has happened. Code may write words beside that nobody needs.
    #[inline]
    pub(super) fn change(&self, frame: &mut impl Frame, found: Found, results: &mut Words) -> bool {
        self.changes.as_ref().is_none_or(|filled| filled.change(frame, found, results))
    }

    /// Its code, if it is there, and nothing is to be done beside it.
    pub(super) fn alone(&self) -> Option<Alone<'_>> {
        self.changes.as_ref()?.alone()
    }
}
