//! What the control side keeps for Linux.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_net::VrfId;
use weir_stage::host::Wake;
use weir_stage::{Difference, Frames};
use weir_wire::MacAddr;

use crate::InterfaceId;

/// Questions of Linux's for neighbours that wait for their answers at most.
pub(crate) const ASKED: usize = 1024;

/// Who in Linux asked for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) address: IpAddr,
    pub(crate) mac: MacAddr,
}

/// How often a comparison was asked for and made, and what the last one found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    wanted: u64,
    made: u64,
    count: u64,
    pub(crate) first: Vec<Difference>,
}

/// A VRF that Linux speaks for.
#[derive(Default)]
struct Host {
    frames: Arc<Frames>,
    wakes: BTreeMap<&'static str, Wake>,
    comparison: Comparison,
}

/// What is kept for Linux, of all VRFs that it speaks for.
#[derive(Default)]
pub(crate) struct Hosts {
    /// By VRF.
    hosts: BTreeMap<VrfId, Host>,
    version: u64,
    /// Addresses of interfaces that they have otherwise than from Linux.
    configured: HashMap<InterfaceId, Vec<IpNet>>,
    /// Those that they have in Linux.
    linux: HashMap<InterfaceId, Vec<IpNet>>,
    /// Interfaces that are set down in Linux.
    down: HashSet<InterfaceId>,
    /// Interfaces that routes of Linux's may lead to.
    held: HashSet<InterfaceId>,
    /// Who in Linux waits for the Ethernet address of a neighbour.
    pub(crate) asked: BTreeMap<(InterfaceId, IpAddr), Asked>,
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hosts({:?}, version {})", self.hosts.keys(), self.version)
    }
}

impl Hosts {
    /// Linux speaks for the VRFs of these numbers.
    pub(crate) fn new(vrfs: impl Iterator<Item = VrfId>) -> Hosts {
        Hosts { hosts: vrfs.map(|vrf| (vrf, Host::default())).collect(), ..Hosts::default() }
    }

    /// Whether Linux speaks for any VRF.
    pub(crate) fn are_any(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Frames between Linux and a VRF.
    pub(crate) fn frames(&self, vrf: VrfId) -> Option<&Arc<Frames>> {
        self.hosts.get(&vrf).map(|host| &host.frames)
    }

    /// Frames of all VRFs.
    pub(crate) fn all_frames(&self) -> impl Iterator<Item = &Arc<Frames>> {
        self.hosts.values().map(|host| &host.frames)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Interfaces have changed, of whichever VRF.
    pub(crate) fn note_change(&mut self) {
        self.version = self.version.wrapping_add(1);
        self.hosts.values().flat_map(|host| host.wakes.values()).for_each(|wake| wake());
    }

    pub(crate) fn wake_on_change(&mut self, vrf: VrfId, who: &'static str, wake: Wake) {
        if let Some(host) = self.hosts.get_mut(&vrf) {
            host.wakes.insert(who, wake);
        }
    }

    /// The addresses that an interface has otherwise than from Linux.
    pub(crate) fn configured(&self, id: InterfaceId) -> &[IpNet] {
        self.configured.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The addresses of an interface are to be these beside those of Linux; answers all.
    pub(crate) fn join(&mut self, id: InterfaceId, configured: &[IpNet]) -> Vec<IpNet> {
        let mut all = configured.to_vec();
        if !self.are_any() {
            return all;
        }
        if self.configured(id) != configured {
            self.configured.insert(id, all.clone());
            self.note_change();
        }
        for net in self.linux.get(&id).into_iter().flatten() {
            if !all.iter().any(|other| other.addr() == net.addr()) {
                all.push(*net);
            }
        }
        all
    }

    /// An interface has these addresses in Linux; answers whether that is new.
    pub(crate) fn set_linux(&mut self, id: InterfaceId, addresses: &[IpNet]) -> bool {
        if self.linux.get(&id).map_or(&[][..], Vec::as_slice) == addresses {
            return false;
        }
        self.linux.insert(id, addresses.to_vec());
        true
    }

    /// Whether an interface has an address from Linux only.
    pub(crate) fn is_of_linux(&self, id: InterfaceId, net: IpNet) -> bool {
        self.are_any()
            && self.linux.get(&id).is_some_and(|all| all.contains(&net))
            && !self.configured(id).contains(&net)
    }

    pub(crate) fn set_down(&mut self, id: InterfaceId, down: bool) {
        match down {
            true => drop(self.down.insert(id)),
            false => drop(self.down.remove(&id)),
        }
    }

    /// Whether an interface is set down in Linux.
    pub(crate) fn is_down(&self, id: InterfaceId) -> bool {
        self.down.contains(&id)
    }

    /// Routes may lead to this interface from now on.
    pub(crate) fn hold(&mut self, id: InterfaceId) {
        self.held.insert(id);
    }

    /// Whether routes may lead to it.
    pub(crate) fn holds(&self, id: InterfaceId) -> bool {
        self.held.contains(&id)
    }

    pub(crate) fn let_go(&mut self, id: InterfaceId) {
        self.held.remove(&id);
    }

    /// No route leads to others than those that are there.
    pub(crate) fn let_go_unless(&mut self, is_there: impl Fn(InterfaceId) -> bool) {
        self.held.retain(|id| is_there(*id));
    }

    /// An interface is gone.
    pub(crate) fn forget(&mut self, id: InterfaceId) {
        self.configured.remove(&id);
        self.linux.remove(&id);
        self.down.remove(&id);
        self.asked.retain(|(interface, _), _| *interface != id);
        if self.are_any() {
            self.note_change();
        }
    }

    /// The number of the comparison that somebody waits for; 0 where nobody does.
    pub(crate) fn comparison_wanted(&self, vrf: VrfId) -> u64 {
        let comparison = self.hosts.get(&vrf).map(|host| &host.comparison);
        comparison.filter(|one| one.made < one.wanted).map_or(0, |one| one.wanted)
    }

    pub(crate) fn all_comparisons(&self) -> impl Iterator<Item = (VrfId, &Comparison)> {
        self.hosts.iter().map(|(vrf, host)| (*vrf, &host.comparison))
    }

    /// Somebody wants all VRFs compared; answers what [`not_compared`](Self::not_compared) takes.
    pub(crate) fn want_comparisons(&mut self) -> Vec<(VrfId, u64)> {
        let mut wanted = Vec::new();
        for (vrf, host) in &mut self.hosts {
            host.comparison.wanted = host.comparison.made + 1;
            wanted.push((*vrf, host.comparison.wanted));
            host.wakes.values().for_each(|wake| wake());
        }
        wanted
    }

    /// Those of them that are not compared yet.
    pub(crate) fn not_compared(&self, wanted: &[(VrfId, u64)]) -> Vec<VrfId> {
        let is_open = |(vrf, wanted): &(VrfId, u64)| {
            self.hosts.get(vrf).is_some_and(|host| host.comparison.made < *wanted).then_some(*vrf)
        };
        wanted.iter().filter_map(is_open).collect()
    }

    pub(crate) fn set_differences(&mut self, vrf: VrfId, count: u64, first: Vec<Difference>) {
        if let Some(host) = self.hosts.get_mut(&vrf) {
            let comparison = &mut host.comparison;
            (comparison.count, comparison.first, comparison.made) = (count, first, comparison.made + 1);
        }
    }

    /// Routes that differed at the last comparisons.
    pub(crate) fn differences(&self) -> u64 {
        self.hosts.values().map(|host| host.comparison.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that was started again does not make a comparison that somebody was answered already.
    #[test]
    fn a_comparison_is_wanted_until_it_was_made() {
        let vrf = weir_net::DEFAULT_VRF;
        let mut hosts = Hosts::default();
        assert_eq!(hosts.comparison_wanted(vrf), 0, "nobody speaks for it");
        hosts.hosts.insert(vrf, Host::default());
        assert_eq!(hosts.comparison_wanted(vrf), 0);
        let asked = hosts.want_comparisons();
        assert_eq!(hosts.comparison_wanted(vrf), 1);
        assert_eq!(hosts.not_compared(&asked), [vrf]);
        hosts.set_differences(vrf, 0, Vec::new());
        assert_eq!(hosts.comparison_wanted(vrf), 0);
        assert!(hosts.not_compared(&asked).is_empty());
        hosts.want_comparisons();
        assert_eq!(hosts.comparison_wanted(vrf), 2);
    }
}
