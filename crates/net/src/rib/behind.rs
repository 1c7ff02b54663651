//! What a change of links or connected networks leaves behind: hops, sets and routes that are still as they were.
//!
//! One link can be the way of a million routes, and whoever owns the RIB has other things to do. So [`Rib::set_link`] only notes that
//! there is work, and [`Rib::catch_up`] does as much of it as it is told: first hops, then the sets that they are in, then the routes of
//! sets that lead elsewhere. Everything else may happen in between: it finds each hop, set and route as it was or as it is to be, and
//! whatever it adds is as it is to be. Next hops that are given up keep their places until nothing is left behind, as routes may still
//! lead there.
//!
//! Only hops that depend on what changed are looked at: those by the interface, and those by gateways in its networks. So a thousand
//! interfaces a second may come and go beside a million routes by others. Changes are followed in rounds, each to the end before those
//! that came in the meantime are begun: a link that goes up and down for ever keeps no other from being followed.

use super::hops::Key;
use super::{Change, Rib, acquire};
use std::collections::{BTreeMap, VecDeque};

/// Hops to resolve anew: the least and the greatest key.
type Span = (Key, Key);

/// How far a span is resolved.
#[derive(Debug)]
struct Progress {
    /// The least that has not been looked at.
    next: (Key, u32),
    /// Whether what it depends on has changed since it was begun.
    again: bool,
}

/// What is left to do.
#[derive(Debug, Default)]
pub(super) struct Behind {
    /// Spans of hops that have not been resolved anew, in turn; each once.
    turns: VecDeque<Span>,
    spans: BTreeMap<Span, Progress>,
    /// How many of them belong to the round under way; the others came later.
    in_round: usize,
    /// Sets whose hops have changed; each is marked so.
    sets: VecDeque<u32>,
    /// Sets of which some routes still lead to where the set led before. It knows the first of them.
    led: VecDeque<u32>,
}

impl Behind {
    fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.sets.is_empty() && self.led.is_empty()
    }

    fn add(&mut self, span: Span) {
        if let Some(progress) = self.spans.get_mut(&span) {
            progress.again |= progress.next != (span.0, 0);
            return;
        }
        self.spans.insert(span, Progress { next: (span.0, 0), again: false });
        self.turns.push_back(span);
    }

    /// The span whose turn it is comes to its end, or begins again when it is its turn the next time.
    fn end_turn(&mut self) {
        self.in_round = self.in_round.saturating_sub(1);
        let Some(span) = self.turns.pop_front() else { return };
        if self.spans.remove(&span).is_some_and(|progress| progress.again) {
            self.add(span);
        }
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

    /// Resolves hops anew, by and by: what they depend on has changed.
    pub(super) fn fall_behind(&mut self, span: Span) {
        self.behind.add(span);
    }

    /// Works on one hop, set or route; false if nothing is left.
    fn catch_up_one(&mut self, changes: &mut Vec<Change>) -> bool {
        loop {
            if let Some(hop) = self.next_in_round() {
                self.resolve_hop(hop, changes);
                return true;
            }
            if let Some(set) = self.behind.sets.pop_front() {
                self.catch_up_set(set, changes);
                return true;
            }
            if self.catch_up_route(changes) {
                return true;
            }
            if self.behind.turns.is_empty() {
                return false;
            }
            self.behind.in_round = self.behind.turns.len();
        }
    }

    /// The next hop of the round under way that has not been looked at.
    fn next_in_round(&mut self) -> Option<u32> {
        while self.behind.in_round > 0
            && let Some(&span) = self.behind.turns.front()
        {
            let hop = self.next_hop_of(span);
            if hop.is_some() {
                return hop;
            }
            self.behind.end_turn();
        }
        None
    }

    /// The next hop of a span that has not been looked at.
    fn next_hop_of(&mut self, span: Span) -> Option<u32> {
        let progress = self.behind.spans.get_mut(&span)?;
        let (key, hop) = self.hops.next_in(progress.next, span.1)?;
        progress.next = (key, hop.saturating_add(1));
        Some(hop)
    }

    fn resolve_hop(&mut self, index: u32, changes: &mut Vec<Change>) {
        let Some(state) = self.hops.get_mut(index) else { return };
        let (found, mut usable) = self.connected.resolve(state.bound, &self.up);
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
