//! Who listens to what, and where multicast routers are.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::{Message, Report, is_registered};
use crate::plan::{Ports, Snooping, bit, ports_in};

/// A port in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// When it ends, nanoseconds.
    pub(crate) until: u64,
    /// The version of the last report.
    pub(crate) version: u8,
}

/// Where a message came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) vlan: u16,
    pub(crate) port: u8,
    /// Whether a group ends at once when a station behind the port leaves it.
    pub(crate) fast_leave: bool,
    pub(crate) now: u64,
}

/// A group in a VLAN.
pub(crate) type Group = (u16, IpAddr);

/// Who listens, as the control side knows it.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    groups: BTreeMap<Group, BTreeMap<u8, Member>>,
    /// When the routers behind ports end, by VLAN and port.
    routers: BTreeMap<(u16, u8), u64>,
    /// Groups that were not registered for want of room.
    refused: u64,
}

/// The same for workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forwarding {
    groups: HashMap<Group, Ports>,
    routers: HashMap<u16, Ports>,
}

impl Forwarding {
    /// The ports that listen to a group; `None` if nobody ever asked for it.
    pub(crate) fn group(&self, vlan: u16, group: IpAddr) -> Option<Ports> {
        self.groups.get(&(vlan, group)).copied()
    }

    /// The ports behind which there are multicast routers.
    pub(crate) fn routers(&self, vlan: u16, snooping: &Snooping) -> Ports {
        (self.routers.get(&vlan).copied().unwrap_or(0) | snooping.always) & !snooping.never
    }
}

impl Listeners {
    /// Takes a message in. Answers whether workers have to be told.
    pub(crate) fn take(&mut self, message: &Message, heard: Heard, snooping: &Snooping) -> bool {
        match message {
            Message::Query { group, from_router, lowers, .. } => {
                let changed = *from_router && self.router(heard, snooping);
                if let Some(group) = group.filter(|_| *lowers) {
                    self.lower((heard.vlan, group), heard.now + snooping.last_member);
                }
                changed
            }
            Message::Reports(reports, version) => {
                let mut changed = false;
                for report in reports.iter().filter(|report| is_registered(report.group)) {
                    changed |= self.report(report, *version, heard, snooping);
                }
                changed
            }
            Message::Router => self.router(heard, snooping),
            Message::RouterGone => self.routers.remove(&(heard.vlan, heard.port)).is_some(),
            Message::Other => false,
        }
    }

    fn router(&mut self, heard: Heard, snooping: &Snooping) -> bool {
        let until = heard.now + snooping.router;
        snooping.never & bit(heard.port) == 0 && self.routers.insert((heard.vlan, heard.port), until).is_none()
    }

    /// Whether somebody behind a port listens to a group.
    pub(crate) fn has(&self, group: Group, port: u8) -> bool {
        self.groups.get(&group).is_some_and(|members| members.contains_key(&port))
    }

    /// A querier asks for a group: who does not answer ends soon (RFC 3376 section 6.6.1).
    pub(crate) fn lower(&mut self, group: Group, until: u64) {
        for member in self.groups.get_mut(&group).into_iter().flat_map(BTreeMap::values_mut) {
            member.until = member.until.min(until);
        }
    }

    fn report(&mut self, report: &Report, version: u8, heard: Heard, snooping: &Snooping) -> bool {
        let key = (heard.vlan, report.group);
        if !report.joined {
            // Otherwise the querier asks who else is there, and that is heard.
            return heard.fast_leave && self.leave(key, heard.port);
        }
        if !self.groups.contains_key(&key) && self.groups.len() >= snooping.groups {
            self.refused += 1;
            return false;
        }
        let member = Member { until: heard.now + snooping.membership, version };
        self.groups.entry(key).or_default().insert(heard.port, member).is_none()
    }

    fn leave(&mut self, key: Group, port: u8) -> bool {
        let Some(members) = self.groups.get_mut(&key) else { return false };
        let left = members.remove(&port).is_some();
        if members.is_empty() {
            self.groups.remove(&key);
        }
        left
    }

    /// Ends what has not been heard of for long. Answers whether something did, and when it is to be called next.
    pub(crate) fn expire(&mut self, now: u64) -> (bool, u64) {
        let (mut ended, mut next) = (false, u64::MAX);
        let mut stays = |until: u64| {
            let stays = until > now;
            (ended, next) = (ended || !stays, if stays { next.min(until) } else { next });
            stays
        };
        self.groups.retain(|_, members| {
            members.retain(|_, member| stays(member.until));
            !members.is_empty()
        });
        self.routers.retain(|_, until| stays(*until));
        (ended, next)
    }

    /// Forgets all that was heard by ports for which `is_meant`, by VLAN and port.
    pub(crate) fn forget(&mut self, is_meant: impl Fn(u16, u8) -> bool) {
        self.groups.retain(|(vlan, _), members| {
            members.retain(|port, _| !is_meant(*vlan, *port));
            !members.is_empty()
        });
        self.routers.retain(|(vlan, port), _| !is_meant(*vlan, *port));
    }

    /// The ports of a VLAN behind which there are multicast routers.
    pub(crate) fn router_ports(&self, vlan: u16, snooping: &Snooping) -> Ports {
        let heard = self.routers.range((vlan, 0)..=(vlan, u8::MAX)).map(|((_, port), _)| bit(*port));
        (heard.sum::<Ports>() | snooping.always) & !snooping.never
    }

    /// What workers are told.
    pub(crate) fn forwarding(&self) -> Forwarding {
        let mut forwarding = Forwarding::default();
        for (group, members) in &self.groups {
            forwarding.groups.insert(*group, members.keys().map(|port| bit(*port)).sum());
        }
        for (vlan, port) in self.routers.keys() {
            *forwarding.routers.entry(*vlan).or_default() |= bit(*port);
        }
        forwarding
    }

    /// Groups, with the ports in each.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (Group, u8, Member)> {
        self.groups.iter().flat_map(|(group, members)| members.iter().map(|(port, member)| (*group, *port, *member)))
    }

    /// Ports behind which routers were heard, by VLAN, with when they end.
    pub(crate) fn routers(&self) -> impl Iterator<Item = (u16, u8, u64)> {
        self.routers.iter().map(|((vlan, port), until)| (*vlan, *port, *until))
    }

    /// How many groups there are, and how many were not registered for want of room.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.groups.len(), self.refused)
    }

    /// Takes over what another instance heard, with the numbers that ports have here.
    pub(crate) fn adopt(&mut self, old: &Listeners, number: impl Fn(u8) -> Option<u8>) {
        for (group, port, member) in old.groups() {
            if let Some(port) = number(port) {
                self.groups.entry(group).or_default().insert(port, member);
            }
        }
        let routers = old.routers().filter_map(|(vlan, port, until)| Some(((vlan, number(port)?), until)));
        self.routers.extend(routers);
    }

    /// Forgets what VLANs no longer have, by their members.
    pub(crate) fn keep_members(&mut self, members: impl Fn(u16) -> Ports) {
        self.forget(|vlan, port| !ports_in(members(vlan)).any(|member| member == port));
    }
}
