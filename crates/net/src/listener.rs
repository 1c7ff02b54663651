//! The multicast groups that the router itself listens to, and when it tells so (RFC 3810 section 6; RFC 2710 towards old routers): the
//! solicited-node groups of its addresses among them. What it tells is [`weir_wire::mld`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use weir_wire::martian6::multicast_scope;
use weir_wire::mld::{Query, Record, Said};
use weir_wire::nd::ALL_NODES;

use crate::interface::InterfaceId;
use crate::spread::spread;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;

/// How often a change is told (the Robustness Variable, RFC 3810 section 9.1).
pub const ROBUSTNESS: u32 = 2;
/// A change is told again within so long (Unsolicited Report Interval, section 9.11), in nanoseconds.
pub const UNSOLICITED_INTERVAL: u64 = SECOND;
/// For so long after an old router asked, others are answered as it can read (Older Version Querier Present Timeout, section 9.12: twice
/// the Query Interval of 125 s, and the Query Response Interval of 10 s).
pub const OLD_ROUTER: u64 = (2 * 125 + 10) * SECOND;

/// What is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// By which interface.
    pub interface: InterfaceId,
    /// Each of them by [`weir_wire::mld::old_report`], for there is an old router; else all by [`weir_wire::mld::report`], as many at a
    /// time as it takes.
    pub is_old: bool,
    /// Of which groups, and what.
    pub records: Vec<Record>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Who wants it: addresses that share it, and others.
    users: u32,
    /// How often the last change is still to be told.
    changes: u32,
    /// When it is to be told the next time.
    change_at: u64,
    /// When it is to be answered that it is listened to.
    asked_at: Option<u64>,
}

impl Group {
    fn deadline(&self) -> Option<u64> {
        let change = (self.changes > 0).then_some(self.change_at);
        change.into_iter().chain(self.asked_at).min()
    }
}

/// The groups of all interfaces. Nothing is told of ff02::1 and of groups inside an interface: everybody is in the one, nobody else in the others
/// (section 6).
#[derive(Debug, Default)]
pub struct Listeners {
    groups: BTreeMap<(InterfaceId, Ipv6Addr), Group>,
    deadlines: BTreeSet<(u64, InterfaceId, Ipv6Addr)>,
    /// Until when there is an old router.
    old: BTreeMap<InterfaceId, u64>,
    seed: u64,
    /// How many random times were taken.
    count: u64,
}

impl Listeners {
    /// No groups. Routers with other seeds wait other times.
    pub fn new(seed: u64) -> Listeners {
        Listeners { seed, ..Listeners::default() }
    }

    /// Somebody wants a group: if nobody did before, it is told.
    pub fn join(&mut self, now: u64, interface: InterfaceId, group: Ipv6Addr) {
        if is_told(group) {
            let mut state = self.groups.get(&(interface, group)).copied().unwrap_or_default();
            state.users += 1;
            self.put(interface, group, if state.users == 1 { changed(state, now) } else { state });
        }
    }

    /// Somebody does not want a group any more: if nobody does, it is told.
    pub fn leave(&mut self, now: u64, interface: InterfaceId, group: Ipv6Addr) {
        let Some(mut state) = self.groups.get(&(interface, group)).copied().filter(|state| state.users > 0) else {
            return;
        };
        state.users -= 1;
        state.asked_at = state.asked_at.filter(|_| state.users > 0);
        self.put(interface, group, if state.users == 0 { changed(state, now) } else { state });
    }

    /// The link of an interface came up: whoever is there now has not heard of its groups.
    pub fn link_up(&mut self, now: u64, interface: InterfaceId) {
        for group in self.groups_of(interface) {
            if let Some(state) = self.groups.get(&(interface, group)).copied().filter(|state| state.users > 0) {
                self.put(interface, group, changed(state, now));
            }
        }
    }

    /// The interface is gone, with its groups.
    pub fn forget(&mut self, interface: InterfaceId) {
        for group in self.groups_of(interface) {
            self.remove(interface, group);
        }
        self.old.remove(&interface);
    }

    /// A valid query came: each group that it is about is told of after a random time, at most the one that it gives (section 6.2).
    /// Answers whether there is one.
    pub fn asked(&mut self, now: u64, interface: InterfaceId, query: Query) -> bool {
        if query.is_old {
            self.old.insert(interface, now.saturating_add(OLD_ROUTER));
        }
        let all = if query.group.is_unspecified() { self.groups_of(interface) } else { vec![query.group] };
        let mut answers = false;
        for group in all {
            let Some(state) = self.groups.get(&(interface, group)).copied().filter(|state| state.users > 0) else {
                continue;
            };
            let at = now.saturating_add(self.random(u64::from(query.within) * MILLISECOND));
            // "If there is a pending response [...] scheduled sooner than the selected delay, no additional response needs to be
            // scheduled."
            let asked_at = Some(state.asked_at.map_or(at, |before| before.min(at)));
            self.put(interface, group, Group { asked_at, ..state });
            answers = true;
        }
        answers
    }

    /// When [`Listeners::timer`] wants to be called next, in nanoseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|&(at, ..)| at)
    }

    /// What is to be told at `now`.
    pub fn timer(&mut self, now: u64) -> Vec<Due> {
        let due: Vec<_> = self.deadlines.range(..(now.saturating_add(1), 0, Ipv6Addr::UNSPECIFIED)).copied().collect();
        let mut records: BTreeMap<InterfaceId, Vec<Record>> = BTreeMap::new();
        for (_, interface, group) in due {
            records.entry(interface).or_default().extend(self.tell(now, interface, group));
        }
        let is_old = |interface| self.old.get(&interface).is_some_and(|until| now < *until);
        records.into_iter().map(|(interface, records)| Due { interface, is_old: is_old(interface), records }).collect()
    }

    fn tell(&mut self, now: u64, interface: InterfaceId, group: Ipv6Addr) -> Option<Record> {
        let mut state = *self.groups.get(&(interface, group))?;
        let said = match (state.changes > 0 && state.change_at <= now, state.users > 0) {
            (true, true) => Said::Joined,
            (true, false) => Said::Left,
            (false, _) => Said::Listening,
        };
        // A change answers a question as well.
        state.asked_at = state.asked_at.filter(|at| *at > now);
        if said != Said::Listening {
            state.changes -= 1;
            state.change_at = now.saturating_add(self.random(UNSOLICITED_INTERVAL));
        }
        self.put(interface, group, state);
        Some((said, group))
    }

    fn put(&mut self, interface: InterfaceId, group: Ipv6Addr, state: Group) {
        self.remove(interface, group);
        if state.users > 0 || state.changes > 0 {
            self.deadlines.extend(state.deadline().map(|at| (at, interface, group)));
            self.groups.insert((interface, group), state);
        }
    }

    fn remove(&mut self, interface: InterfaceId, group: Ipv6Addr) {
        if let Some(at) = self.groups.remove(&(interface, group)).and_then(|state| state.deadline()) {
            self.deadlines.remove(&(at, interface, group));
        }
    }

    fn groups_of(&self, interface: InterfaceId) -> Vec<Ipv6Addr> {
        let last = Ipv6Addr::from_bits(u128::MAX);
        self.groups
            .range((interface, Ipv6Addr::UNSPECIFIED)..=(interface, last))
            .map(|(&(_, group), _)| group)
            .collect()
    }

    /// A time up to `most`.
    fn random(&mut self, most: u64) -> u64 {
        self.count = self.count.wrapping_add(1);
        let share = spread(self.seed ^ spread(self.count)) >> 48;
        ((u128::from(most) * u128::from(share)) >> 16) as u64
    }
}

/// The change is told at once, and then again.
const fn changed(state: Group, now: u64) -> Group {
    Group { changes: ROBUSTNESS, change_at: now, ..state }
}

fn is_told(group: Ipv6Addr) -> bool {
    group.is_multicast() && group != ALL_NODES && multicast_scope(group.to_bits()) > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::nd::solicited_node;

    const ANY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

    fn group(last: u16) -> Ipv6Addr {
        solicited_node(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last))
    }

    fn run(all: &mut Listeners, end: u64) -> Vec<(u64, Due)> {
        let mut told = Vec::new();
        while let Some(at) = all.next_deadline().filter(|at| *at <= end) {
            told.extend(all.timer(at).into_iter().map(|due| (at, due)));
        }
        told
    }

    fn query(within: u32, group: Ipv6Addr) -> Query {
        Query { is_old: false, within, group }
    }

    /// RFC 3810 section 6.1: at once, and Robustness Variable less one times more within the Unsolicited Report Interval.
    #[test]
    fn a_change_is_told_at_once_and_once_more() {
        let mut all = Listeners::new(1);
        all.join(5, 1, group(9));
        all.join(5, 1, group(9));
        let told = run(&mut all, 10 * SECOND);
        let due = |said| Due { interface: 1, is_old: false, records: vec![(said, group(9))] };
        assert_eq!((told.len(), told[0].clone(), told[1].1.clone()), (2, (5, due(Said::Joined)), due(Said::Joined)));
        assert!(told[1].0 - told[0].0 <= UNSOLICITED_INTERVAL);
        all.leave(10 * SECOND, 1, group(9));
        assert_eq!(run(&mut all, 20 * SECOND), [], "another address has the same group");
        all.leave(20 * SECOND, 1, group(9));
        all.leave(20 * SECOND, 1, group(9));
        let told = run(&mut all, 30 * SECOND);
        assert!(told.len() == 2 && told.iter().all(|(_, told)| *told == due(Said::Left)));
        assert!(all.groups.is_empty() && all.deadlines.is_empty());
    }

    /// Section 6: "The link-scope all-nodes address (FF02::1) is handled as a special case."
    #[test]
    fn groups_of_everybody_and_of_nobody_else_are_not_told() {
        let mut all = Listeners::new(1);
        for text in ["ff02::1", "ff01::5", "ff00::5", "2001:db8::1"] {
            all.join(0, 1, text.parse().unwrap());
        }
        assert_eq!((all.next_deadline(), all.groups.len()), (None, 0));
    }

    /// Section 6.2.
    #[test]
    fn questions_are_answered_after_a_random_time() {
        let mut times = BTreeSet::new();
        for seed in 0..50 {
            let mut all = Listeners::new(seed);
            (1..4).for_each(|last| all.join(0, 1, group(last)));
            run(&mut all, 10 * SECOND);
            let now = 10 * SECOND;
            assert!(all.asked(now, 1, query(1000, ANY)) && !all.asked(now, 2, query(1000, ANY)));
            let told = run(&mut all, now + SECOND);
            let records: BTreeSet<Record> = told.iter().flat_map(|(_, due)| due.records.clone()).collect();
            assert_eq!(records, (1..4).map(|last| (Said::Listening, group(last))).collect());
            times.extend(told.iter().map(|(at, _)| at - now));
            assert!(all.asked(2 * now, 1, query(0, group(2))) && !all.asked(2 * now, 1, query(0, group(7))));
            let told = run(&mut all, 2 * now);
            assert_eq!(
                told,
                [(2 * now, Due { interface: 1, is_old: false, records: vec![(Said::Listening, group(2))] })]
            );
        }
        assert!(
            times.len() > 100 && *times.first().unwrap() < SECOND / 20 && *times.last().unwrap() > SECOND * 19 / 20
        );
    }

    /// However many ask, one answer is pending for each group.
    #[test]
    fn a_thousand_questions_have_one_answer() {
        let mut all = Listeners::new(1);
        all.join(0, 1, group(9));
        run(&mut all, 10 * SECOND);
        assert!((0..1000).all(|_| all.asked(10 * SECOND, 1, query(10_000, ANY))));
        assert_eq!(run(&mut all, 30 * SECOND).len(), 1);
    }

    /// Section 8.2.1.
    #[test]
    fn old_routers_are_answered_as_they_can_read() {
        let mut all = Listeners::new(1);
        all.join(0, 1, group(9));
        all.join(0, 2, group(9));
        run(&mut all, 10 * SECOND);
        all.asked(10 * SECOND, 1, Query { is_old: true, within: 0, group: ANY });
        let old = |all: &mut Listeners, now, interface| {
            all.asked(now, interface, query(0, ANY));
            run(all, now).pop().unwrap().1.is_old
        };
        assert!(old(&mut all, 11 * SECOND, 1) && !old(&mut all, 11 * SECOND, 2));
        assert!(old(&mut all, 269 * SECOND, 1) && !old(&mut all, 270 * SECOND, 1));
    }

    #[test]
    fn a_link_that_comes_back_hears_it_again() {
        let mut all = Listeners::new(1);
        all.join(0, 1, group(9));
        run(&mut all, 10 * SECOND);
        all.link_up(10 * SECOND, 1);
        assert_eq!(run(&mut all, 20 * SECOND).len(), 2);
        all.forget(1);
        assert!(all.groups.is_empty() && all.next_deadline().is_none());
    }
}
