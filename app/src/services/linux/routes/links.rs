//! The links of a namespace, and which interface of the function each is.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::Routes;

/// What is known of a link.
pub(super) struct Link {
    pub(super) name: String,
    /// Whether it was seen set up: before, it is only being made.
    pub(super) was_up: bool,
    pub(super) addresses: BTreeSet<IpNet>,
    /// What the function was told last, and of which interface.
    pub(super) told: Option<(u16, Vec<IpNet>)>,
}

impl Routes {
    /// Interfaces came or went: routes by their links, and addresses, follow.
    pub(super) fn follow_interfaces(&mut self) {
        let version = self.side.version();
        if self.version == Some(version) {
            return;
        }
        self.version = Some(version);
        let before: HashSet<u16> = self.interfaces.values().copied().collect();
        let all = self.side.interfaces();
        self.loopbacks = all.iter().filter(|one| !one.has_port).map(|one| one.id).collect();
        self.interfaces = all.into_iter().map(|one| (one.name, one.id)).collect();
        let now: HashSet<u16> = self.interfaces.values().copied().collect();
        self.leaving.extend(before.difference(&now));
        self.match_links();
    }

    /// Finds the interface of each link anew.
    pub(super) fn match_links(&mut self) {
        let of = |(index, link): (&u32, &Link)| Some((*index, *self.interfaces.get(&link.name)?));
        let ids: HashMap<u32, u16> = self.links.iter().filter_map(of).collect();
        let changed = |index: &&u32| self.ids.get(index) != ids.get(index);
        let touched: HashSet<u32> = self.ids.keys().chain(ids.keys()).filter(changed).copied().collect();
        self.ids = ids;
        if !touched.is_empty() {
            self.mirror.touch_links(&touched);
            self.tell_neighbors(|link| touched.contains(&link));
        }
        let all: Vec<u32> = self.ids.keys().copied().collect();
        all.into_iter().for_each(|link| self.tell_addresses(link));
    }

    /// Tells the function the addresses of a link's interface, if they are new to it.
    pub(super) fn tell_addresses(&mut self, index: u32) {
        let (Some(id), Some(link)) = (self.ids.get(&index), self.links.get_mut(&index)) else { return };
        let is_loopback = self.loopbacks.contains(id);
        let told = (*id, link.addresses.iter().filter_map(|net| own(*net, is_loopback)).collect::<Vec<_>>());
        if link.told.as_ref() != Some(&told) {
            self.side.set_addresses(told.0, &told.1);
            link.told = Some(told);
        }
    }

    /// Tells the function the neighbours on some links.
    pub(super) fn tell_neighbors(&self, is_wanted: impl Fn(u32) -> bool) {
        for ((link, address), mac) in self.neighbors.iter().filter(|((link, _), _)| is_wanted(*link)) {
            self.set_neighbor(*link, *address, Some(*mac));
        }
    }

    pub(super) fn set_neighbor(&self, link: u32, address: IpAddr, mac: Option<[u8; 6]>) {
        if let Some(id) = self.ids.get(&link) {
            self.side.set_neighbor(*id, address, mac);
        }
    }

    /// The kernel tells of a link.
    pub(super) fn hear_link(&mut self, (index, name): (u32, String), (up, gone): (bool, bool)) {
        if let Some(telling) = self.telling.as_mut().filter(|_| !gone) {
            telling.links.insert(index);
        }
        let is_ours = self.ids.contains_key(&index);
        if gone {
            if self.links.remove(&index).is_some() {
                self.again |= is_ours;
                self.match_links();
            }
            return;
        }
        let fresh = || Link { name: String::new(), was_up: false, addresses: BTreeSet::new(), told: None };
        let link = self.links.entry(index).or_insert_with(fresh);
        let (went_down, came_up) = (link.was_up && !up, up && !link.was_up);
        link.was_up = up;
        let renamed = link.name != name;
        link.name = name;
        if renamed {
            self.match_links();
        }
        if let Some(id) = self.ids.get(&index).filter(|_| went_down || came_up) {
            self.side.set_enabled(*id, up);
            // The kernel says nothing of the routes of IPv4 that go with a link.
            self.again |= went_down;
        }
    }

    /// Tells a function that was built anew which links are set down.
    pub(super) fn tell_who_is_down(&self) {
        let is_down = |link: &&u32| self.links.get(link).is_some_and(|link| !link.was_up);
        for (_, id) in self.ids.iter().filter(|(link, _)| is_down(link)) {
            self.side.set_enabled(*id, false);
        }
    }

    /// The namespace is gone, and with it what was set down there: no interface stays down for that.
    pub(super) fn enable_all(&self) {
        self.interfaces.values().for_each(|id| self.side.set_enabled(*id, true));
    }
}

/// An address as the router has it: nothing of what means the host itself, and without a network on a loopback.
fn own(net: IpNet, is_loopback: bool) -> Option<IpNet> {
    match net.addr().is_loopback() {
        true => None,
        false if is_loopback => Some(net.addr().into()),
        false => Some(net),
    }
}
