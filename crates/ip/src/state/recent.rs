//! Which routes have changed lately: a route that is looked up a moment after a packet may not be the one that it took.

use std::collections::VecDeque;
use std::net::IpAddr;

use weir_net::VrfId;

use crate::state::routing::Network;

/// Changes that are remembered.
const KEPT: usize = 4096;

/// How far the time of a change may lie behind the clock, nanoseconds: whoever changes much at once knows the time when it began, and
/// the slow path tells the time every ten milliseconds.
const BEHIND: u64 = 50_000_000;

/// The latest changes of the prefix table.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    now: u64,
    /// Times and prefixes, the oldest first.
    changes: VecDeque<(u64, Network)>,
    /// The time of the latest one that is not remembered any more.
    forgotten: Option<u64>,
}

impl Recent {
    /// It is `now`, or later.
    pub(crate) fn tell_time(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// The time as it was told last.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Nobody can have asked for anything yet.
    pub(crate) fn begin(&mut self) {
        *self = Recent { now: self.now, ..Recent::default() };
    }

    /// A prefix has changed.
    pub(crate) fn note(&mut self, network: Network) {
        if self.changes.len() >= KEPT {
            self.forgotten = self.changes.pop_front().map(|(at, _)| at);
        }
        self.changes.push_back((self.now, network));
    }

    /// Whether a prefix around an address of a VRF may have changed since `then`.
    pub(crate) fn touches(&self, vrf: VrfId, address: IpAddr, then: u64) -> bool {
        let is_since = |at: u64| at.saturating_add(BEHIND) >= then;
        self.forgotten.is_some_and(is_since)
            || self
                .changes
                .iter()
                .rev()
                .take_while(|(at, _)| is_since(*at))
                .any(|(_, (its, prefix))| *its == vrf && prefix.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_since_and_is_around_counts() {
        let net = (0, "10.1.0.0/16".parse().unwrap());
        let [inside, outside] = ["10.1.2.3", "10.2.0.1"].map(|text| text.parse::<IpAddr>().unwrap());
        let mut recent = Recent::default();
        recent.tell_time(1_000_000_000);
        recent.note(net);
        assert!(recent.touches(0, inside, 1_000_000_000) && recent.touches(0, inside, 0));
        assert!(!recent.touches(0, outside, 0) && !recent.touches(0, inside, 1_000_000_001 + BEHIND));
        assert!(!recent.touches(1, inside, 0), "another VRF's");
        recent.tell_time(2_000_000_000);
        (0..KEPT as u32).for_each(|n| recent.note((0, IpAddr::from(n.to_be_bytes()).into())));
        assert!(recent.touches(0, outside, 1_000_000_000), "what is forgotten may have been anything");
        assert!(!recent.touches(0, outside, 1_500_000_000));
    }
}
