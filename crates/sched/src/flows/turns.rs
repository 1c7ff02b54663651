//! A fair queue that knows, or has known, many flows: they stand in lists, and this is whose turn it is.

use weir_table::indexed::{Indexed, NONE};
use weir_table::links::{Link, Linked, List};

use super::{BANDS, Flow};
use crate::profile::QUANTUM;

/// The flows in lists of new and old ones.
pub(super) struct Turns<'a>(pub(super) &'a mut Indexed<Flow>);

impl Linked for Turns<'_> {
    #[inline(always)]
    fn link(&mut self, id: u32) -> &mut Link {
        &mut self.0.at_mut(id).turn
    }
}

/// The flows in lists of fat ones, and of those that rest.
pub(super) struct Others<'a>(pub(super) &'a mut Indexed<Flow>);

impl Linked for Others<'_> {
    #[inline(always)]
    fn link(&mut self, id: u32) -> &mut Link {
        &mut self.0.at_mut(id).other
    }
}

/// A fair queue that has, or had, many flows.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Fair {
    pub(super) news: List,
    pub(super) olds: List,
    /// Flows of which nothing waits, the one that has rested for longest first.
    pub(super) resting: List,
    /// The flow whose packet is chosen.
    pub(super) chosen: u32,
    /// Bit b: there are fat flows of that power of two.
    pub(super) bands: u32,
    pub(super) fat: [List; BANDS],
}

impl Fair {
    pub(super) const FREE: Fair = Fair {
        news: List::EMPTY,
        olds: List::EMPTY,
        resting: List::EMPTY,
        chosen: NONE,
        bands: 0,
        fat: [List::EMPTY; BANDS],
    };

    /// The flow whose turn it may be, and whether it is a new one.
    #[inline(always)]
    pub(super) fn first(&self) -> (u32, bool) {
        match self.news.first() {
            NONE => (self.olds.first(), false),
            first => (first, true),
        }
    }

    #[inline(always)]
    pub(super) fn list(&mut self, is_new: bool) -> &mut List {
        if is_new { &mut self.news } else { &mut self.olds }
    }

    /// Goes by whose turn it is until a packet is found, or a flow that is to be forgotten before that.
    #[inline(always)]
    pub(super) fn choose(&mut self, flows: &mut Indexed<Flow>) -> Choice {
        loop {
            let (at, is_new) = self.first();
            if at == NONE {
                return Choice::Nothing;
            }
            let flow = flows.at_mut(at);
            match (flow.credit > 0, flow.first) {
                (false, _) => flow.credit += QUANTUM as i32,
                (true, NONE) if !is_new => return Choice::Forget(at),
                (true, NONE) => {}
                (true, first) => {
                    self.chosen = at;
                    return Choice::Packet(first);
                }
            }
            self.turn(flows);
        }
    }

    /// The flow whose turn it may be goes behind the old ones.
    #[inline(always)]
    pub(super) fn turn(&mut self, flows: &mut Indexed<Flow>) {
        let (at, is_new) = self.first();
        flows.at_mut(at).is_new = false;
        Turns(flows).pop_front(self.list(is_new));
        Turns(flows).push_back(&mut self.olds, at);
    }

    /// A flow is as fat as others are than before.
    pub(super) fn refatten(&mut self, flows: &mut Indexed<Flow>, at: u32, from: u8, to: u8) {
        if let Some(list) = self.fat.get_mut(usize::from(from)) {
            Others(flows).remove(list, at);
            if list.is_empty() {
                self.bands &= !(1 << from);
            }
        }
        if let Some(list) = self.fat.get_mut(usize::from(to)) {
            Others(flows).push_back(list, at);
            self.bands |= 1 << to;
        }
    }
}

/// Whose turn it is in a fair queue.
pub(super) enum Choice {
    /// This packet's.
    Packet(u32),
    /// That of an old flow of which nothing waits.
    Forget(u32),
    /// Nobody's.
    Nothing,
}
