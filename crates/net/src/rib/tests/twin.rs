//! The definition, and a forwarding table that does what it is told.

use super::*;

/// A forwarding table that does what the changes say, and checks that it never holds a dangling number.
#[derive(Default)]
pub(super) struct Fib {
    pub(super) next_hops: BTreeMap<NextHopId, Towards>,
    pub(super) groups: BTreeMap<GroupId, Box<Buckets>>,
    pub(super) routes: BTreeMap<Place, Target>,
}

impl Fib {
    pub(super) fn apply(&mut self, changes: &mut Vec<Change>) {
        for change in changes.drain(..) {
            match change {
                Change::NextHop { id, now: Some(next_hop) } => {
                    assert!(self.next_hops.keys().all(|other| other.index() != id.index()), "the place is taken");
                    self.next_hops.insert(id, next_hop);
                }
                Change::NextHop { id, now: None } => assert!(self.next_hops.remove(&id).is_some()),
                Change::Group { id, now: Some(buckets) } => {
                    let taken = self.groups.keys().any(|other| other.index() == id.index() && *other != id);
                    assert!(!taken, "the place is taken");
                    self.groups.insert(id, buckets);
                }
                Change::Group { id, now: None } => {
                    self.groups.remove(&id);
                }
                Change::Route { vrf, prefix, now: Some(target) } => {
                    assert_ne!(
                        self.routes.insert((vrf, prefix), target),
                        Some(target),
                        "a change that changes nothing"
                    );
                }
                Change::Route { vrf, prefix, now: None } => assert!(self.routes.remove(&(vrf, prefix)).is_some()),
            }
            self.assert_whole();
        }
    }

    pub(super) fn assert_whole(&self) {
        for (place, &target) in &self.routes {
            let discards = matches!(target, Target::Discard(_));
            assert_eq!(self.next_hops_of(target).is_empty(), discards, "{place:?} leads to {target:?}");
        }
    }

    pub(super) fn next_hops_of(&self, target: Target) -> BTreeSet<Towards> {
        match target {
            Target::Discard(_) => BTreeSet::new(),
            Target::NextHop(id) => [self.next_hops[&id]].into(),
            Target::Group(id) => self.groups[&id].iter().map(|id| self.next_hops[id]).collect(),
        }
    }

    /// What a target comes to.
    pub(super) fn reach(&self, target: Target) -> Reach {
        match target {
            Target::Discard(discard) => Err(discard),
            target => Ok(self.next_hops_of(target)),
        }
    }
}

/// Next hops and inlets, or how packets are refused.
pub(super) type Reach = Result<BTreeSet<Towards>, Discard>;

/// The definition.
#[derive(Default)]
pub(super) struct Twin {
    pub(super) routes: BTreeMap<(VrfId, IpNet, RouteSource), Vec<Hop>>,
    pub(super) up: BTreeSet<InterfaceId>,
}

impl Twin {
    pub(super) fn resolve(&self, vrf: VrfId, hop: Hop) -> Option<Towards> {
        let (interface, gateway) = match hop {
            Hop::On(interface) => (interface, None),
            Hop::ViaOn(gateway, interface) => (interface, Some(gateway)),
            Hop::Via(gateway) => (self.interface_of(vrf, gateway)?, Some(gateway)),
            Hop::Into(inlet) => return Some(inlet.into()),
            Hop::Discard(_) => return None,
        };
        self.up.contains(&interface).then_some(NextHop { interface, gateway }.into())
    }

    pub(super) fn interface_of(&self, vrf: VrfId, gateway: IpAddr) -> Option<InterfaceId> {
        let mut networks = Vec::new();
        for ((other, network, source), hops) in &self.routes {
            for hop in hops {
                if let (RouteSource::Connected, Hop::On(interface)) = (source, hop)
                    && *other == vrf
                    && network.contains(&gateway)
                    && self.up.contains(interface)
                {
                    networks.push((std::cmp::Reverse(network.prefix_len()), *interface));
                }
            }
        }
        Some(networks.into_iter().min()?.1)
    }

    /// What a route comes to; nothing if no hop of it can be used.
    pub(super) fn reach(&self, vrf: VrfId, hops: &[Hop]) -> Option<Reach> {
        if let [Hop::Discard(discard), ..] = hops {
            return Some(Err(*discard));
        }
        let usable: BTreeSet<_> = hops.iter().filter_map(|&hop| self.resolve(vrf, hop)).collect();
        (!usable.is_empty()).then_some(Ok(usable))
    }

    pub(super) fn table(&self) -> BTreeMap<Place, Reach> {
        let mut table = BTreeMap::new();
        for ((vrf, prefix, _), hops) in &self.routes {
            if let Some(reach) = self.reach(*vrf, hops) {
                table.entry((*vrf, *prefix)).or_insert(reach);
            }
        }
        table
    }

    /// What is wrong with a route, by itself.
    pub(super) fn refuses(prefix: IpNet, hops: &[Hop]) -> bool {
        let hops: BTreeSet<_> = hops.iter().collect();
        let discards = hops.iter().any(|hop| matches!(hop, Hop::Discard(_)));
        let wrong = |hop: &&Hop| match hop {
            Hop::Via(IpAddr::V6(gateway)) if gateway.is_unicast_link_local() => true,
            Hop::Via(gateway) | Hop::ViaOn(gateway, _) => gateway.is_ipv4() && prefix.addr().is_ipv6(),
            _ => false,
        };
        hops.is_empty() || discards && hops.len() > 1 || hops.iter().any(wrong)
    }
}

/// As [`Rib::replace`], for a prefix whose family is not known here.
pub(super) fn replace(
    rib: &mut Rib,
    (vrf, prefix): Place,
    source: RouteSource,
    hops: &[Hop],
    changes: &mut Vec<Change>,
) -> Result<(), RouteError> {
    match prefix {
        IpNet::V4(prefix) => rib.replace(vrf, prefix, source, hops, changes),
        IpNet::V6(prefix) => rib.replace(vrf, prefix, source, hops, changes),
    }
}

/// As [`Rib::remove`].
pub(super) fn remove(
    rib: &mut Rib,
    (vrf, prefix): Place,
    source: RouteSource,
    changes: &mut Vec<Change>,
) -> Result<(), RouteError> {
    match prefix {
        IpNet::V4(prefix) => rib.remove(vrf, prefix, source, changes),
        IpNet::V6(prefix) => rib.remove(vrf, prefix, source, changes),
    }
}
