//! Why packets of single subscribers are dropped: the reasons of all stages, for which each subscriber has a counter.

use weir_stage::{Fate, WayInfo, Ways};

use crate::table::counters::WorkerCounters;
use crate::{control, downstream, six, upstream};

/// Marks a way that is no loss of a subscriber's.
const NONE: u8 = u8::MAX;

/// The ways of all stages that subscribers' packets go through.
fn ways() -> impl Iterator<Item = &'static WayInfo> {
    let own = [upstream::Exit::LIST, downstream::Exit::LIST, six::Exit::LIST, control::Exit::LIST];
    own.into_iter().chain([weir_ip::slow_ways()]).flatten()
}

/// The reasons, of both directions and of the slow path: each name once.
pub(crate) fn reasons() -> &'static [&'static str] {
    static REASONS: std::sync::LazyLock<Vec<&'static str>> = std::sync::LazyLock::new(|| {
        let mut all: Vec<&str> = Vec::new();
        for way in ways().filter(|way| way.fate == Fate::Drop) {
            if !all.contains(&way.name) {
                all.push(way.name);
            }
        }
        all
    });
    &REASONS
}

/// What only customers do who are hostile or broken: it is told in the log.
const WATCHED: &[&str] = &[
    "spoofed-source",
    "source-taken",
    "wrong-mac",
    "moves-too-often",
    "too-many-addresses",
    "address-table-full",
    "arp-malformed",
    "arp-spoofed",
    "gateway-address",
    "nd-spoofed",
    "nd-ignored",
    "no-svlan",
    "no-cvlan",
    "unknown-subscriber",
    "too-short",
    "ip-too-short",
    "ip-version",
    "ip-header-length",
    "ip-checksum",
    "ip-total-length",
    "ip-truncated",
    "martian-source",
    "link-broadcast",
    "source-route",
    "local-icmp-malformed",
    "punt-policed-subscriber",
];

/// The bits of the reasons that are told in the log.
pub(crate) fn watched() -> u128 {
    let places = (0..u128::BITS).zip(reasons()).filter(|(_, reason)| WATCHED.contains(reason));
    places.fold(0, |bits, (place, _)| bits | 1 << place)
}

/// The sentence that explains a reason.
pub(crate) fn help(reason: &str) -> &'static str {
    ways().find(|way| way.fate == Fate::Drop && way.name == reason).map_or("", |way| way.help.trim())
}

/// From the ways of a stage to the subscribers' counters.
pub(crate) struct Losses(Vec<u8>);

impl Losses {
    /// For a stage with these ways.
    pub(crate) fn of<W: Ways>() -> Losses {
        Losses::among(W::LIST)
    }

    /// For ways in the order of their codes.
    pub(crate) fn among(ways: &[WayInfo]) -> Losses {
        let place = |name: &str| reasons().iter().position(|reason| *reason == name).map_or(NONE, |place| place as u8);
        // A way of one stage may have the name of another's reason: what goes on is not lost yet.
        Losses(ways.iter().map(|way| if way.fate == Fate::Drop { place(way.name) } else { NONE }).collect())
    }

    /// Counts a packet of a subscriber that took this way.
    pub(crate) fn count<W: Ways>(&self, counters: &WorkerCounters, subscriber: u32, way: W) {
        self.count_code(counters, subscriber, way.code());
    }

    /// The same by the way's code.
    pub(crate) fn count_code(&self, counters: &WorkerCounters, subscriber: u32, code: u8) {
        if let Some(&reason) = self.0.get(usize::from(code)).filter(|reason| **reason != NONE) {
            counters.count_drop(subscriber, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drop_has_a_counter() {
        for way in ways() {
            assert!(way.fate != Fate::Drop || reasons().contains(&way.name), "{}", way.name);
        }
        // Marks have a bit for each.
        assert!(reasons().len() <= u128::BITS as usize);
    }

    #[test]
    fn what_is_watched_is_a_reason() {
        assert_eq!(watched().count_ones() as usize, WATCHED.len());
        assert!(WATCHED.iter().all(|reason| help(reason).ends_with('.')));
    }
}
