//! Where tunnels lead. What routes answered stands with each softwire, for the version of the routes at which they were asked, so that only what has
//! changed since is looked up.

use weir_packet::BATCH;
use weir_table::lpm6::{Lookup6, Walk};

use super::Passes;
use super::rewrite::octets;
use crate::border::Border;
use crate::table::Entry;

/// Tunnels whose softwires do not know yet what routes answer: one after the other.
pub(super) struct Unknown {
    count: usize,
    /// Their softwires: places, and what they were made for.
    of: [(u32, u64); BATCH],
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
    /// Looks up what is unknown, and lets softwires know.
    #[inline(never)]
    pub(super) fn look_up(&mut self, border: &Border, version: u64) {
        let Unknown { count, of, ends, walk, answers } = &mut *self.unknown;
        let routes = border.onward.six();
        let ends = ends.get(..*count).unwrap_or_default();
        routes.approach(ends, walk);
        routes.advance(ends, walk);
        routes.finish(ends, walk, answers);
        for ((place, told), answer) in of.iter().take(*count).zip(answers.iter()) {
            if let Some(entry) = border.softwires.entry(*place, *told) {
                entry.keep_answer(version, *answer);
            }
        }
        *count = 0;
    }
}

impl Unknown {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Notes that it has to be looked up what routes answer for a softwire. Each packet of a batch is noted once at most, so that there is room.
    #[inline(never)]
    pub(super) fn note(&mut self, entry: Entry<'_>, place: u32, told: u64) {
        let [b4_0, b4_1, ..] = entry.ends();
        self.of[self.count % BATCH] = (place, told);
        self.ends[self.count % BATCH] = u128::from_be_bytes(octets(b4_0, b4_1));
        self.count = (self.count + 1).min(BATCH);
    }
}
