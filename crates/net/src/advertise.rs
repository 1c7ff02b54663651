//! When a router tells hosts of itself (RFC 4861 section 6.2): by itself now and then, and when it is asked. What it tells is
//! [`weir_wire::nd::RouterAdvertisement`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;

use crate::interface::InterfaceId;
use crate::spread::spread;

const SECOND: u64 = 1_000_000_000;

/// The first advertisements come at most so long after each other (MAX_INITIAL_RTR_ADVERT_INTERVAL), in nanoseconds.
pub const INITIAL_INTERVAL: u64 = 16 * SECOND;
/// How many are the first (MAX_INITIAL_RTR_ADVERTISEMENTS).
pub const INITIAL: u32 = 3;
/// How many say that the router is none any more, or will be gone (MAX_FINAL_RTR_ADVERTISEMENTS).
pub const FINAL: u32 = 3;
/// Two advertisements to all come at least so long after each other (MIN_DELAY_BETWEEN_RAS).
pub const LEAST_BETWEEN: u64 = 3 * SECOND;
/// An answer comes within so long (MAX_RA_DELAY_TIME).
pub const ANSWER_DELAY: u64 = SECOND / 2;

/// Between which times one advertisement follows the other, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// At least: 3 s to three quarters of `most`.
    pub least: u64,
    /// At most: 4 s to 1,800 s.
    pub most: u64,
}

impl Default for Interval {
    /// 198 to 600 seconds (RFC 4861 section 6.2.1).
    fn default() -> Self {
        Interval { least: 198 * SECOND, most: 600 * SECOND }
    }
}

/// Times that RFC 4861 section 6.2.1 does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInterval {
    /// Which one.
    pub field: &'static str,
    /// What it may be, in nanoseconds.
    pub range: RangeInclusive<u64>,
}

impl fmt::Display for BadInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [start, end] = [self.range.start(), self.range.end()].map(|nanos| nanos / SECOND);
        write!(f, "the {} time between router advertisements must be {start} to {end} seconds", self.field)
    }
}

impl std::error::Error for BadInterval {}

impl Interval {
    /// Whether these times are allowed.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), BadInterval> {
        let most = 4 * SECOND..=1_800 * SECOND;
        if !most.contains(&self.most) {
            return Err(BadInterval { field: "longest", range: most });
        }
        let least = 3 * SECOND..=(self.most / 4 * 3).max(3 * SECOND);
        if least.contains(&self.least) { Ok(()) } else { Err(BadInterval { field: "shortest", range: least }) }
    }
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// By which interface; to all nodes of its link.
    pub interface: InterfaceId,
    /// With a router lifetime of 0, whatever is configured: the router stops being one (section 6.2.5).
    pub is_last: bool,
}

#[derive(Clone, Copy, Debug)]
struct Schedule {
    interval: Interval,
    /// When the next one is to be sent.
    at: u64,
    /// When one was sent to all.
    sent: Option<u64>,
    /// How many of the first ones are left.
    initial: u32,
    /// How many of the last ones are left, once the router stops.
    last: Option<u32>,
    /// How many were sent: what makes waits differ.
    count: u64,
}

/// The advertisements of all interfaces on which the router advertises itself.
#[derive(Debug, Default)]
pub struct Advertiser {
    interfaces: BTreeMap<InterfaceId, Schedule>,
    deadlines: BTreeSet<(u64, InterfaceId)>,
    seed: u64,
}

impl Advertiser {
    /// None on any interface. Routers with other seeds wait other times, so that they do not fall into step.
    pub const fn new(seed: u64) -> Advertiser {
        Advertiser { interfaces: BTreeMap::new(), deadlines: BTreeSet::new(), seed }
    }

    /// The interface advertises from now on, or its link came back: the first ones follow each other soon.
    pub fn start(&mut self, now: u64, interface: InterfaceId, interval: Interval) {
        let sent = self.interfaces.get(&interface).and_then(|schedule| schedule.sent);
        let at = now.saturating_add(self.wait(interface, 0, 0, ANSWER_DELAY));
        let at = at.max(sent.map_or(0, |sent| sent.saturating_add(LEAST_BETWEEN)));
        self.put(interface, Some(Schedule { interval, at, sent, initial: INITIAL, last: None, count: 0 }));
    }

    /// Gives an interface another schedule, or none.
    fn put(&mut self, interface: InterfaceId, schedule: Option<Schedule>) {
        let before = match schedule {
            Some(schedule) => self.interfaces.insert(interface, schedule),
            None => self.interfaces.remove(&interface),
        };
        if let Some(before) = before {
            self.deadlines.remove(&(before.at, interface));
        }
        self.deadlines.extend(schedule.map(|schedule| (schedule.at, interface)));
    }

    /// The interface stops to advertise, and tells so; if its link is down or it is gone, call [`Advertiser::forget`].
    pub fn stop(&mut self, now: u64, interface: InterfaceId) {
        if let Some(&schedule) = self.interfaces.get(&interface).filter(|schedule| schedule.last.is_none()) {
            let at = schedule.sent.map_or(now, |sent| sent.saturating_add(LEAST_BETWEEN).max(now));
            self.put(interface, Some(Schedule { last: Some(FINAL), at, ..schedule }));
        }
    }

    /// The interface says nothing any more.
    pub fn forget(&mut self, interface: InterfaceId) {
        self.put(interface, None);
    }

    /// A valid router solicitation came: all are told within [`ANSWER_DELAY`], but not sooner than [`LEAST_BETWEEN`] after the last time
    /// (section 6.2.6), however many ask. Answers whether the interface advertises at all.
    pub fn solicited(&mut self, now: u64, interface: InterfaceId) -> bool {
        let Some(&schedule) = self.interfaces.get(&interface).filter(|schedule| schedule.last.is_none()) else {
            return false;
        };
        // "If the router sent a multicast Router Advertisement within the last MIN_DELAY_BETWEEN_RAS seconds, schedule the advertisement to
        // be sent at a time corresponding to MIN_DELAY_BETWEEN_RAS plus the random value after the previous".
        let earliest = schedule.sent.map_or(0, |sent| sent.saturating_add(LEAST_BETWEEN)).max(now);
        let at = earliest.saturating_add(self.wait(interface, schedule.count, 0, ANSWER_DELAY));
        self.put(interface, Some(Schedule { at: schedule.at.min(at), ..schedule }));
        true
    }

    /// When [`Advertiser::timer`] wants to be called next, in nanoseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// What is due at `now`, at most one of each interface.
    pub fn timer(&mut self, now: u64) -> Vec<Due> {
        let interfaces: Vec<InterfaceId> =
            self.deadlines.range(..=(now, InterfaceId::MAX)).map(|&(_, interface)| interface).collect();
        interfaces.into_iter().filter_map(|interface| self.send(now, interface)).collect()
    }

    fn send(&mut self, now: u64, interface: InterfaceId) -> Option<Due> {
        let mut next = *self.interfaces.get(&interface)?;
        let Interval { least, most } = next.interval;
        let random = self.wait(interface, next.count, least, most.max(least));
        (next.sent, next.count) = (Some(now), next.count.wrapping_add(1));
        let due = Due { interface, is_last: next.last.is_some() };
        let wait = match next.last {
            Some(0 | 1) => {
                self.put(interface, None);
                return Some(due);
            }
            Some(left) => {
                next.last = Some(left - 1);
                LEAST_BETWEEN
            }
            // "For the first few advertisements [...] if the randomly chosen interval is greater than MAX_INITIAL_RTR_ADVERT_INTERVAL, the
            // timer SHOULD be set to MAX_INITIAL_RTR_ADVERT_INTERVAL instead."
            None if next.initial > 1 => {
                next.initial -= 1;
                random.min(INITIAL_INTERVAL)
            }
            None => random,
        };
        next.at = now.saturating_add(wait.max(LEAST_BETWEEN));
        self.put(interface, Some(next));
        Some(due)
    }

    /// A time between two others that differs from interface to interface, from time to time, and from router to router.
    fn wait(&self, interface: InterfaceId, count: u64, least: u64, most: u64) -> u64 {
        let share = spread(self.seed ^ spread(u64::from(interface) << 48 ^ count)) >> 48;
        least + ((u128::from(most - least) * u128::from(share)) >> 16) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent until `end`, with its times.
    fn run(all: &mut Advertiser, end: u64) -> Vec<(u64, Due)> {
        let mut sent = Vec::new();
        while let Some(at) = all.next_deadline().filter(|at| *at <= end) {
            sent.extend(all.timer(at).into_iter().map(|due| (at, due)));
        }
        sent
    }

    fn gaps(sent: &[(u64, Due)]) -> Vec<u64> {
        sent.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    /// Section 6.2.4: at random times between the two, the first ones sooner.
    #[test]
    fn advertisements_follow_each_other_within_the_interval() {
        let mut waits = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let mut all = Advertiser::new(seed);
            all.start(0, 1, Interval::default());
            let sent = run(&mut all, 20_000 * SECOND);
            assert!(sent[0].0 <= ANSWER_DELAY);
            let gaps = gaps(&sent);
            assert!(gaps[..2].iter().all(|gap| *gap == INITIAL_INTERVAL), "three soon after each other");
            assert!(gaps[2..].iter().all(|gap| (198 * SECOND..=600 * SECOND).contains(gap)) && gaps.len() > 30);
            assert!(sent.iter().all(|(_, due)| *due == Due { interface: 1, is_last: false }));
            waits.extend(gaps);
        }
        let (least, most) = (waits.iter().nth(1).unwrap(), waits.last().unwrap());
        assert!(*least < 210 * SECOND && *most > 590 * SECOND, "all of the interval is used");
    }

    /// Section 6.2.6: within half a second, but three seconds after the last one to all, be it asked a thousand times.
    #[test]
    fn questions_are_answered_soon_and_seldom() {
        let mut all = Advertiser::new(7);
        assert!(!all.solicited(0, 1), "it does not advertise");
        all.start(0, 1, Interval::default());
        run(&mut all, 100 * SECOND);
        let now = 1_000 * SECOND;
        run(&mut all, now);
        let mut answers = Vec::new();
        for n in 0..10_000 {
            let at = now + n * SECOND / 1_000;
            answers.extend(run(&mut all, at));
            assert!(all.solicited(at, 1));
        }
        assert!((2..=4).contains(&answers.len()), "{}", answers.len());
        assert!(gaps(&answers).iter().all(|gap| *gap >= LEAST_BETWEEN));
        run(&mut all, now + 100 * SECOND);
        let asked = now + 100 * SECOND;
        all.solicited(asked, 1);
        let answer = run(&mut all, asked + 10 * SECOND);
        assert!(answer[0].0 - asked <= ANSWER_DELAY + LEAST_BETWEEN);
    }

    /// Section 6.2.5: up to three with a lifetime of zero.
    #[test]
    fn a_router_that_stops_tells_so() {
        let mut all = Advertiser::new(7);
        all.start(0, 1, Interval::default());
        all.start(0, 2, Interval::default());
        run(&mut all, 10 * SECOND);
        all.stop(10 * SECOND, 1);
        assert!(!all.solicited(10 * SECOND, 1));
        let last: Vec<_> = run(&mut all, 1_000 * SECOND).into_iter().filter(|(_, due)| due.interface == 1).collect();
        assert_eq!(last.len(), 3);
        assert!(last.iter().all(|(_, due)| due.is_last) && gaps(&last).iter().all(|gap| *gap >= LEAST_BETWEEN));
        all.forget(2);
        assert_eq!(all.next_deadline(), None);
    }

    /// A link that flaps does not fill itself with advertisements.
    #[test]
    fn starting_again_keeps_the_least_time() {
        let mut all = Advertiser::new(3);
        let mut sent = Vec::new();
        for n in 0..100 {
            all.start(n * SECOND, 1, Interval::default());
            sent.extend(run(&mut all, (n + 1) * SECOND));
        }
        assert!(gaps(&sent).iter().all(|gap| *gap >= LEAST_BETWEEN) && sent.len() >= 20);
    }

    /// Section 6.2.1.
    #[test]
    fn intervals_are_checked() {
        let check = |least, most| Interval { least: least * SECOND, most: most * SECOND }.check().is_ok();
        assert!(Interval::default().check().is_ok() && check(3, 4) && check(1_350, 1_800));
        assert!(!check(2, 4) && !check(3, 3) && !check(1_351, 1_800) && !check(200, 1_801));
        let text = Interval { least: 0, most: 8 * SECOND }.check().unwrap_err().to_string();
        assert_eq!(text, "the shortest time between router advertisements must be 3 to 6 seconds");
    }
}
