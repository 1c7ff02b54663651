//! What managements remember of flows of which they do.

use weir_table::indexed::{Indexed, NONE};

use crate::manage::State;

/// As many places as there may be flows. One that is nobody's says which the next of those is.
#[derive(Debug)]
pub(super) struct Notes {
    states: Indexed<State>,
    free: u32,
}

impl Notes {
    pub(super) fn new(flows: u32) -> Notes {
        let next = |n: u32| [if n + 1 < flows { n + 1 } else { NONE }.into(), 0, 0, 0];
        let states = Indexed::from_fn(flows as usize, next, State::default());
        Notes { states, free: if flows > 0 { 0 } else { NONE } }
    }

    pub(super) fn at_mut(&mut self, at: u32) -> &mut State {
        self.states.at_mut(at)
    }

    /// A place at which nothing is remembered yet.
    pub(super) fn take(&mut self) -> u32 {
        let at = self.free;
        let state = self.states.at_mut(at);
        self.free = state[0] as u32;
        *state = State::default();
        at
    }

    /// A place is nobody's any more; nothing where it is [`NONE`].
    pub(super) fn give_back(&mut self, at: u32) {
        if at != NONE {
            *self.states.at_mut(at) = [self.free.into(), 0, 0, 0];
            self.free = at;
        }
    }
}
