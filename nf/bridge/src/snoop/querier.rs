//! Who asks, in each VLAN and family: the bridge, unless another querier with a lower address does (RFC 2236 section 3, RFC 3376 section 6.6.2, RFC 3810 section 7.6.2).

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::listeners::Group;

/// The times of a querier, nanoseconds, and the addresses that it asks from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Between two questions for all groups.
    pub(crate) interval: u64,
    /// Answers to these come within this time.
    pub(crate) response: u64,
    /// How many messages in a row may be lost.
    pub(crate) robustness: u8,
    /// Answers to two questions for a group that was left come within this time.
    pub(crate) last_member: u64,
    /// Of IPv4, and of IPv6.
    pub(crate) own: [IpAddr; 2],
}

/// VLAN, and whether it is about IPv6.
pub(crate) type Link = (u16, bool);

/// What is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Who listens to whatever group?
    General(Link),
    /// Who listens to this one?
    Group(Group),
}

/// How it stands with one link.
#[derive(Clone, Copy, Debug)]
struct Asker {
    /// When it asks next.
    at: u64,
    /// Questions that follow each other fast, since nothing is known yet.
    first: u8,
    /// Another querier that asks in its place, until then.
    other: Option<(IpAddr, u64)>,
}

/// A group that was left, where it has to be found out who else is there.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    at: u64,
    left: u8,
}

/// Questions for a group that was left: section 8.9 has as many as the robustness variable, whose default that is, and `last_member` is the time of two.
const LAST_MEMBER_QUERIES: u8 = 2;

/// All links of a bridge.
#[derive(Debug, Default)]
pub(crate) struct Queriers {
    links: BTreeMap<Link, Asker>,
    leaving: BTreeMap<Group, Leaving>,
}

impl Queriers {
    /// What is to be asked at `now`, at most so many, where these VLANs are asked; and when there is more.
    pub(crate) fn due(
        &mut self,
        now: u64,
        times: &Times,
        is_asked: impl Fn(u16) -> bool,
        most: usize,
    ) -> (Vec<Question>, u64) {
        let (mut due, mut next) = (Vec::new(), u64::MAX);
        self.links.retain(|(vlan, _), _| is_asked(*vlan));
        self.leaving.retain(|(vlan, _), _| is_asked(*vlan));
        for vlan in (0..=crate::words::LAST_VLAN).filter(|vlan| is_asked(*vlan)) {
            for link in [(vlan, false), (vlan, true)] {
                let fresh = Asker { at: now, first: times.robustness, other: None };
                let asker = self.links.entry(link).or_insert(fresh);
                match asker.other {
                    Some((_, until)) if until > now => {
                        next = next.min(until);
                        continue;
                    }
                    // It is not heard any more: whoever takes over asks at once.
                    Some(_) => *asker = Asker { at: now, first: 0, other: None },
                    None => {}
                }
                if asker.at <= now && due.len() < most {
                    due.push(Question::General(link));
                    asker.first = asker.first.saturating_sub(1);
                    // Sections 8.6 and 8.7: a few with a quarter of the interval between them, then one in each.
                    let pause = if asker.first > 0 { times.interval / 4 } else { times.interval };
                    asker.at = now.saturating_add(pause);
                }
                next = next.min(asker.at);
            }
        }
        let pause = times.last_member / u64::from(LAST_MEMBER_QUERIES);
        for (group, leaving) in &mut self.leaving {
            if leaving.at <= now && due.len() < most {
                due.push(Question::Group(*group));
                leaving.left -= 1;
                leaving.at = now.saturating_add(pause);
            }
            if leaving.left > 0 {
                next = next.min(leaving.at);
            }
        }
        self.leaving.retain(|_, leaving| leaving.left > 0);
        (due, next)
    }

    /// A question came from an address: who has the lower one asks from now on. Those without an address ask for others, and are not elected (RFC 4541 section 2.1.1).
    pub(crate) fn heard(&mut self, vlan: u16, source: IpAddr, now: u64, times: &Times) {
        let [four, six] = times.own;
        let own = if source.is_ipv6() { six } else { four };
        let Some(asker) = self.links.get_mut(&(vlan, source.is_ipv6())) else { return };
        if source.is_unspecified() || !own.is_unspecified() && source >= own {
            return;
        }
        // Section 8.5: the other querier present interval.
        let until = now + times.interval * u64::from(times.robustness) + times.response / 2;
        let lowest = asker.other.filter(|(_, until)| *until > now).map_or(source, |(known, _)| known.min(source));
        asker.other = Some((lowest, until));
    }

    /// Somebody has left a group that somebody listens to. Answers whether it is asked who else does.
    pub(crate) fn left(&mut self, (vlan, group): Group, now: u64, most: usize) -> bool {
        let asks = self.links.get(&(vlan, group.is_ipv6())).is_some_and(|asker| asker.other.is_none());
        let has_room = self.leaving.len() < most || self.leaving.contains_key(&(vlan, group));
        if asks && has_room {
            self.leaving.entry((vlan, group)).or_insert(Leaving { at: now, left: LAST_MEMBER_QUERIES });
        }
        asks && has_room
    }

    /// Nobody asks any more.
    pub(crate) fn forget(&mut self) {
        *self = Queriers::default();
    }

    /// The links that are asked: by another querier until some time, or by this bridge, which asks next at some time.
    pub(crate) fn links(&self) -> impl Iterator<Item = (Link, Option<IpAddr>, u64)> {
        self.links.iter().map(|(link, asker)| match asker.other {
            Some((other, until)) => (*link, Some(other), until),
            None => (*link, None, asker.at),
        })
    }
}
