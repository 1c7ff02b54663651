//! What a change of links or connected networks leaves behind: hops, sets and routes that are still as they were.
//!
//! One link can be the way of a million routes, and whoever owns the RIB has other things to do. So [`Rib::set_link`] only notes that
//! there is work, and [`Rib::catch_up`] does as much of it as it is told: first hops, then the sets that they are in, then the routes of
//! sets that lead elsewhere. Everything else may happen in between: it finds each hop, set and route as it was or as it is to be, and
//! whatever it adds is as it is to be. Next hops that are given up keep their places until nothing is left behind, as routes may still
//! lead there.

use super::{Change, Rib, acquire};
use std::collections::VecDeque;

/// What is left to do.
#[derive(Debug, Default)]
pub(super) struct Behind {
    /// The first hop that has not been resolved anew; none while there is no more.
    hop: Option<u32>,
    /// Sets whose hops have changed; each is marked so.
    sets: VecDeque<u32>,
    /// Sets of which some routes still lead to where the set led before. It knows the first of them.
    led: VecDeque<u32>,
}

impl Behind {
    fn is_empty(&self) -> bool {
        self.hop.is_none() && self.sets.is_empty() && self.led.is_empty()
    }
}

impl Rib {
    /// Whether the forwarding table is behind the state of links and connected networks; see [`Rib::catch_up`].
    pub fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Brings the forwarding table up to the state of links and connected networks, by work on at most `most` hops, sets and routes.
    /// Answers on how many it was; [`Rib::is_behind`] says whether there are more. What has to be done is appended to `changes`.
    pub fn catch_up(&mut self, most: usize, changes: &mut Vec<Change>) -> usize {
        let before = self.is_behind();
        let done = (0..most).take_while(|_| self.catch_up_one(changes)).count();
        if before {
            self.let_go(changes);
        }
        done
    }

    /// Resolves every hop anew, by and by: connected networks or links have changed.
    pub(super) const fn fall_behind(&mut self) {
        self.behind.hop = Some(0);
    }

    /// Works on one hop, set or route; false if nothing is left.
    fn catch_up_one(&mut self, changes: &mut Vec<Change>) -> bool {
        if let Some(hop) = self.behind.hop.filter(|hop| self.hops.indices().contains(hop)) {
            self.behind.hop = Some(hop + 1);
            self.resolve_hop(hop, changes);
            return true;
        }
        self.behind.hop = None;
        if let Some(set) = self.behind.sets.pop_front() {
            self.catch_up_set(set, changes);
            return true;
        }
        self.catch_up_route(changes)
    }

    fn resolve_hop(&mut self, index: u32, changes: &mut Vec<Change>) {
        let Some(state) = self.hops.get_mut(index) else { return };
        let (found, mut usable) = self.connected.resolve(state.hop, &self.up);
        let before = (state.id, state.usable);
        let held = state.id.and_then(|id| self.next_hops.get(id));
        // A hop that resolves to nothing keeps its place: a link that flaps must not use up places.
        if found.is_some() && found != held {
            match found.and_then(|next_hop| acquire(&mut self.next_hops, next_hop, changes)) {
                Some(id) => self.released.extend(state.id.replace(id)),
                None => (usable, self.starved) = (false, true),
            }
        }
        state.usable = usable;
        if (state.id, usable) != before {
            self.behind.sets.extend(state.sets.iter().filter(|&&set| self.sets.mark(set)));
        }
    }

    fn catch_up_set(&mut self, set: u32, changes: &mut Vec<Change>) {
        // One that is gone, and another one at its number, may be looked at as well.
        self.sets.unmark(set);
        if self.refresh_set(set, changes) {
            self.sets.set_first_late(set, self.sets.first_entry(set));
            self.behind.led.push_back(set);
        }
    }

    /// Lets one route lead to where its set does; false if all do.
    fn catch_up_route(&mut self, changes: &mut Vec<Change>) -> bool {
        while let Some(&set) = self.behind.led.front() {
            if let Some((route, next)) = self.routes.step(self.sets.first_late(set)) {
                self.sets.set_first_late(set, next);
                self.refresh_route(route, changes);
                return true;
            }
            self.behind.led.pop_front();
        }
        false
    }
}
