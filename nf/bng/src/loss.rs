//! Why packets of single subscribers are dropped: the reasons of all stages, for which each subscriber has a counter.

use weir_stage::{Fate, Ways};

use crate::table::counters::WorkerCounters;
use crate::{control, down, six, up};

/// Marks a way that is no loss of a subscriber's.
const NONE: u8 = u8::MAX;

/// The reasons, of both directions and of the slow path: each name once.
pub(crate) fn reasons() -> &'static [&'static str] {
    static REASONS: std::sync::LazyLock<Vec<&'static str>> = std::sync::LazyLock::new(|| {
        let mut all: Vec<&str> = Vec::new();
        let ways = up::Exit::LIST.iter().chain(down::Exit::LIST).chain(six::Exit::LIST).chain(control::Exit::LIST);
        for way in ways.filter(|way| way.fate == Fate::Drop) {
            if !all.contains(&way.name) {
                all.push(way.name);
            }
        }
        all
    });
    &REASONS
}

/// From the ways of a stage to the subscribers' counters.
pub(crate) struct Losses(Vec<u8>);

impl Losses {
    /// For a stage with these ways.
    pub(crate) fn of<W: Ways>() -> Losses {
        let place = |name: &str| reasons().iter().position(|reason| *reason == name).map_or(NONE, |place| place as u8);
        // A way of one stage may have the name of another's reason: what goes on is not lost yet.
        Losses(W::LIST.iter().map(|way| if way.fate == Fate::Drop { place(way.name) } else { NONE }).collect())
    }

    /// Counts a packet of a subscriber that took this way.
    pub(crate) fn count<W: Ways>(&self, counters: &WorkerCounters, subscriber: u32, way: W) {
        if let Some(&reason) = self.0.get(usize::from(way.code())).filter(|reason| **reason != NONE) {
            counters.count_drop(subscriber, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drop_has_a_counter() {
        for list in [up::Exit::LIST, down::Exit::LIST, six::Exit::LIST, control::Exit::LIST] {
            for way in list {
                assert!(way.fate != Fate::Drop || reasons().contains(&way.name), "{}", way.name);
            }
        }
        assert!(reasons().len() < usize::from(NONE));
    }
}
