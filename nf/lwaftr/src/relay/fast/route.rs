//! The pass that finds out where tunnels lead. What routes answered stands with each softwire, for the version of the routes at which they were asked, so that
//! only what has changed since is looked up.

use weir_packet::{BATCH, Slots};
use weir_table::lpm6::{Lookup6, Walk};

use super::rewrite::octets;
use super::{Passes, Ways};
use crate::border::Border;

/// Tunnels whose softwires do not know yet what routes answer: one after the other.
pub(super) struct Unknown {
    count: usize,
    /// Slots of packets, and places of softwires.
    of: [(u8, u32); BATCH],
    /// Customers' ends of the tunnels.
    ends: [u128; BATCH],
    walk: Walk,
    answers: [u32; BATCH],
}

impl Default for Unknown {
    fn default() -> Unknown {
        Unknown { count: 0, of: [(0, 0); BATCH], ends: [0; BATCH], walk: Walk::default(), answers: [0; BATCH] }
    }
}

impl Passes {
    /// Where packets go: tunnels by routes of IPv6, what comes out of some by those of IPv4. Answers which have a softwire.
    #[inline(always)]
    pub(super) fn route(&mut self, border: &Border, ways: Ways) -> Ways {
        // Before anything is looked up: what is found now counts for this version at least.
        let version = border.onward.version();
        let mut found = 0;
        for slot in Slots(ways.into) {
            let at = slot.index();
            let Some(ends) = self.ends(border, at) else { continue };
            self.recall(border, (at, self.places[at]), ends, version);
            found |= slot.bit();
        }
        for slot in Slots(ways.hairpin) {
            let at = slot.index();
            let Some(ends) = self.other_ends(border, at) else { continue };
            self.recall(border, (at, self.others.places[at]), ends, version);
            found |= slot.bit();
        }
        if self.unknown.count > 0 {
            self.look_up(border, version);
        }
        // Who is no customer after all, or not the one that was found, takes more.
        Ways { into: ways.into & found, hairpin: ways.hairpin & found, from: ways.from }
    }

    /// What routes answer for the tunnel of a softwire, if it is known; else it is noted that it has to be looked up.
    #[inline(always)]
    fn recall(&mut self, border: &Border, (at, place): (usize, u32), ends: [u64; 4], version: u64) {
        match border.softwires.answer(place, version) {
            Some(answer) => self.answers[at % BATCH] = answer,
            None => self.unknown.note((at, place), ends),
        }
    }

    /// Looks up what is unknown, and lets softwires know.
    #[inline(never)]
    fn look_up(&mut self, border: &Border, version: u64) {
        let Unknown { count, of, ends, walk, answers } = &mut *self.unknown;
        let routes = border.onward.six();
        let ends = ends.get(..*count).unwrap_or_default();
        routes.approach(ends, walk);
        routes.advance(ends, walk);
        routes.finish(ends, walk, answers);
        for ((at, place), answer) in of.iter().take(*count).zip(answers.iter()) {
            self.answers[usize::from(*at) % BATCH] = *answer;
            border.softwires.keep_answer(*place, version, *answer);
        }
        *count = 0;
    }
}

impl Unknown {
    /// Each packet of a batch is noted once at most, so that there is room.
    #[inline(never)]
    fn note(&mut self, (at, place): (usize, u32), [b4_0, b4_1, ..]: [u64; 4]) {
        self.of[self.count % BATCH] = (at as u8, place);
        self.ends[self.count % BATCH] = u128::from_be_bytes(octets(b4_0, b4_1));
        self.count = (self.count + 1).min(BATCH);
    }
}
