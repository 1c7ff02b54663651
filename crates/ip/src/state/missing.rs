//! Routes that somebody wants and that there was no room for: told, and tried again.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;

use ipnet::IpNet;
use weir_net::RouteSource;
use weir_net::rib::Hop;
use weir_stage::Notice;

use crate::state::routing::{Network, Refusal, Routing};

/// Time until the next attempt where none of the last ones succeeded, nanoseconds.
const AGAIN: u64 = 100_000_000;

/// Prefixes that are told by name.
const NAMED: usize = 3;

/// Missing routes up to which those of Linux are kept in mind.
const MOST_OF_LINUX: usize = 65_536;

/// Whose route to what.
type Key = (Network, RouteSource);

/// A network without host bits.
fn whole((vrf, net): Network) -> Network {
    (vrf, IpNet::trunc(&net))
}

/// Routes that are wanted and not there.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    routes: BTreeMap<Key, (Vec<Hop>, Refusal)>,
    /// The last one that was tried.
    last: Option<Key>,
    /// When the next ones are to be tried.
    next: u64,
    /// Somebody was told that some are missing, and not yet that none is.
    is_told: bool,
}

impl Missing {
    /// Adds a route or replaces the one that this source has; where it is refused, it is missing from now on.
    pub(crate) fn replace(&mut self, routing: &mut Routing, network: Network, source: RouteSource, hops: &[Hop]) {
        match routing.replace(network, source, hops) {
            Ok(()) => drop(self.forget(network, source)),
            Err(refusal) => {
                self.routes.insert((whole(network), source), (hops.to_vec(), refusal));
                self.next = 0;
            }
        }
    }

    /// The same for a route of Linux's, of which a flood could want any number: beyond a bound they are not kept in mind, and the next comparison
    /// finds them.
    pub(crate) fn replace_of_linux(&mut self, routing: &mut Routing, network: Network, hops: &[Hop]) {
        if self.routes.len() < MOST_OF_LINUX {
            return self.replace(routing, network, RouteSource::Linux, hops);
        }
        self.forget(network, RouteSource::Linux);
        _ = routing.replace(network, RouteSource::Linux, hops);
    }

    /// Nobody wants this one any more, or it is there. Answers whether it was missing.
    pub(crate) fn forget(&mut self, network: Network, source: RouteSource) -> bool {
        !self.routes.is_empty() && self.routes.remove(&(whole(network), source)).is_some()
    }

    /// Forgets those of a source that are not wanted.
    pub(crate) fn retain(&mut self, source: RouteSource, is_wanted: impl Fn(Network) -> bool) {
        self.routes.retain(|(network, whose), _| *whose != source || is_wanted(*network));
    }

    /// The missing routes of a source.
    pub(crate) fn of(&self, source: RouteSource) -> impl Iterator<Item = (Network, &[Hop])> {
        let ours = self.routes.iter().filter(move |((_, whose), _)| *whose == source);
        ours.map(|((network, _), (hops, _))| (*network, hops.as_slice()))
    }

    /// Why each of them is.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (Network, Refusal)> {
        self.routes.iter().map(|((network, _), (_, refusal))| (*network, *refusal))
    }

    /// The hops of a missing route.
    pub(crate) fn hops(&self, network: Network, source: RouteSource) -> Option<Vec<Hop>> {
        self.routes.get(&(whole(network), source)).map(|(hops, _)| hops.clone())
    }

    /// Tries at most so many again. Answers when it is to be called next: at once as long as there is room.
    pub(crate) fn try_again(&mut self, routing: &mut Routing, most: usize, now: u64) -> u64 {
        if self.routes.is_empty() {
            return u64::MAX;
        }
        if now < self.next || most == 0 {
            return self.next.max(now);
        }
        let (before, tried) = (self.routes.len(), self.next_ones(most));
        for key in tried {
            self.try_one(routing, key);
        }
        self.next = if self.routes.len() < before { now } else { now.saturating_add(AGAIN) };
        if self.routes.is_empty() { u64::MAX } else { self.next }
    }

    /// The next ones in their order, and round again: one that never finds room must not keep the others waiting.
    fn next_ones(&self, most: usize) -> Vec<Key> {
        let keys = |range: Range<'_, Key, _>| range.map(|(key, _)| *key).take(most).collect::<Vec<Key>>();
        let Some(last) = self.last else { return keys(self.routes.range::<Key, _>(..)) };
        let mut found = keys(self.routes.range((Bound::Excluded(last), Bound::Unbounded)));
        let more = most - found.len();
        found.extend(keys(self.routes.range(..=last)).into_iter().take(more));
        found
    }

    fn try_one(&mut self, routing: &mut Routing, key: Key) {
        self.last = Some(key);
        let Some((hops, refusal)) = self.routes.get_mut(&key) else { return };
        match routing.replace(key.0, key.1, hops) {
            Ok(()) => drop(self.routes.remove(&key)),
            Err(again) => *refusal = again,
        }
    }

    /// What is missing and why, for people.
    pub(crate) fn told(&mut self) -> Option<String> {
        let (_, refusal) = self.routes.values().next()?;
        self.is_told = true;
        let names: Vec<String> = self.routes.keys().take(NAMED).map(|((_, prefix), _)| prefix.to_string()).collect();
        let count = self.routes.len();
        let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
        let (routes, are) = if count == 1 { ("route", "is") } else { ("routes", "are") };
        Some(format!(
            "{count} {routes} had no room and {are} not in force: {}{more}; {refusal}; what had no room is tried again by itself",
            names.join(", ")
        ))
    }

    /// Tells once, for the log, that nothing is missing any more of which was told.
    pub(crate) fn notice(&mut self) -> Option<Notice> {
        if !self.routes.is_empty() {
            return None;
        }
        let is_over = std::mem::take(&mut self.is_told);
        is_over.then(|| Notice { message: "all routes that had no room are in force now", facts: Vec::new() })
    }
}
