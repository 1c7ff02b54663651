//! Compares the routes of a mirror with those that a function has of it.

use std::collections::HashSet;

use ipnet::IpNet;
use weir_net::mirror::Mirror;
use weir_stage::{Difference, HostHop, HostSide, RoutePlace};

/// Differences that are told one by one.
const TOLD: usize = 1000;

/// Prefixes that the function lacks and that are looked at in one piece.
const PIECE: usize = 4096;

/// A comparison.
#[derive(Default)]
pub(super) struct Comparing {
    count: u64,
    first: Vec<Difference>,
    differing: Vec<IpNet>,
    at: At,
    seen: HashSet<IpNet>,
}

/// How far it has come.
enum At {
    /// Among the routes of the function.
    There(RoutePlace),
    /// Among those of the mirror that the function does not have.
    Lacking(Vec<IpNet>),
}

impl Default for At {
    fn default() -> At {
        At::There(RoutePlace::default())
    }
}

impl Comparing {
    /// Looks through a piece of both, of which none may change before the last one. `hops` says where a prefix should lead, and `name` what an
    /// interface is called. Whether that was the last one.
    pub(super) fn look_on(
        &mut self,
        side: &dyn HostSide,
        mirror: &Mirror,
        hops: impl Fn(IpNet) -> Vec<HostHop>,
        name: impl Fn(u16) -> String,
    ) -> bool {
        match std::mem::take(&mut self.at) {
            At::There(place) => {
                let next = side.routes_from(place, &mut |prefix, here| {
                    self.seen.insert(prefix);
                    self.note(prefix, hops(prefix), here.to_vec(), &name);
                });
                self.at = match next {
                    Some(place) => At::There(place),
                    None => At::Lacking(mirror.prefixes().filter(|prefix| !self.seen.contains(prefix)).collect()),
                };
                false
            }
            At::Lacking(mut prefixes) => {
                let rest = prefixes.split_off(prefixes.len().min(PIECE));
                prefixes.into_iter().for_each(|prefix| self.note(prefix, hops(prefix), Vec::new(), &name));
                let is_last = rest.is_empty();
                self.at = At::Lacking(rest);
                is_last
            }
        }
    }

    /// Linux says that a prefix leads by these hops, and here it leads by those.
    pub(super) fn note(
        &mut self,
        prefix: IpNet,
        linux: Vec<HostHop>,
        here: Vec<HostHop>,
        name: impl Fn(u16) -> String,
    ) {
        let (linux, here) = (sorted(linux), sorted(here));
        if linux == here {
            return;
        }
        self.count += 1;
        self.differing.push(prefix);
        if self.first.len() < TOLD {
            let words = |hops: &[HostHop]| hops.iter().map(|hop| word(*hop, &name)).collect::<Vec<_>>().join(", ");
            self.first.push(Difference { prefix, linux: words(&linux), here: words(&here) });
        }
    }

    /// How many there are, the first of them, and the prefixes of all.
    pub(super) fn into_parts(self) -> (u64, Vec<Difference>, Vec<IpNet>) {
        (self.count, self.first, self.differing)
    }
}

fn sorted(mut hops: Vec<HostHop>) -> Vec<HostHop> {
    hops.sort_unstable();
    hops.dedup();
    hops
}

fn word(hop: HostHop, name: &impl Fn(u16) -> String) -> String {
    match hop {
        HostHop::Via(gateway, id) => format!("{gateway}%{}", name(id)),
        HostHop::On(id) => format!("%{}", name(id)),
        HostHop::Blackhole => "blackhole".to_owned(),
        HostHop::Unreachable => "unreachable".to_owned(),
        HostHop::Prohibit => "prohibit".to_owned(),
    }
}
