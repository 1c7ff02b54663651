//! Static routes and neighbours of a configuration: what they name is there, and there is room for them.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_config::ErrorKind;
use weir_net::VrfId;
use weir_wire::MacAddr;

use super::{Loader, Own, Stated};
use crate::InterfaceId;
use crate::state::checks::{check_family, check_gateway, networks};
use crate::state::static_routes::{Sources, StaticRoute, different_sets, different_vias, long_prefix_networks};
use crate::state::via::{NamedNeighbor, Via};

impl Loader<'_> {
    pub(super) fn neighbors(&mut self) -> Vec<(usize, IpAddr, MacAddr)> {
        let mut found = Vec::new();
        self.each_vrf(|loader, stated| loader.neighbors_of(&stated, &mut found));
        if found.len() > self.config.limits.neighbors as usize {
            let problem =
                format!("{} neighbours, and limits.neighbors is {}", found.len(), self.config.limits.neighbors);
            let error = self.error(ErrorKind::Limit, "neighbors", None, problem);
            self.errors.push(error.remedy("raise that limit"));
        }
        found
    }

    fn neighbors_of(&mut self, stated: &Stated<'_>, found: &mut Vec<(usize, IpAddr, MacAddr)>) {
        for (station, mac) in stated.neighbors {
            let mac = MacAddr(mac.octets());
            let (path, text) = (stated.path.field("neighbors"), station.to_string());
            let path = path.entry(&text);
            match self.place_of(stated.vrf, station) {
                Err(problem) => {
                    let error = self.element.error(ErrorKind::Conflict, &path, problem);
                    self.errors.push(error.remedy(self.networks(stated.vrf)));
                }
                Ok(_) if !mac.is_unicast() => {
                    let problem = format!("{mac} is not the address of one station");
                    self.errors.push(self.element.error(ErrorKind::OutOfRange, &path, problem));
                }
                Ok(interface) => found.push((interface, station.address, mac)),
            }
        }
    }

    /// The position of the interface on whose link a neighbour is.
    fn place_of(&self, vrf: VrfId, station: &NamedNeighbor) -> Result<usize, String> {
        match &station.on {
            Some(name) => {
                let mut named = self.interfaces.iter().zip(0..).filter(|(known, _)| known.fresh.name == **name);
                let (_, at) = named.next().ok_or_else(|| format!("there is no interface {name}"))?;
                Ok(at)
            }
            None => self.gateway_on(vrf, station.address).map(usize::from),
        }
    }

    pub(super) fn routes(&mut self) -> Vec<Vec<StaticRoute>> {
        let mut all = Vec::with_capacity(self.vrfs.len());
        self.each_vrf(|loader, stated| all.push(loader.routes_of(&stated)));
        self.check_limits(&all);
        all
    }

    fn routes_of(&mut self, stated: &Stated<'_>) -> Vec<StaticRoute> {
        let sources = Sources {
            element: self.element,
            path: stated.path,
            script: stated.routes,
            csv: stated.routes_csv,
            folder: self.env.folder,
        };
        let mut errors = std::mem::take(&mut self.errors);
        let check = |prefix, via: &Via| self.check_via(stated.vrf, prefix, via);
        let routes = sources.read(&check, &self.networks(stated.vrf), &mut errors);
        self.errors = errors;
        routes
    }

    fn check_via(&self, vrf: VrfId, prefix: IpNet, via: &Via) -> Result<(), String> {
        check_family(prefix, via)?;
        match via {
            Via::Gateway(gateway) => self.gateway_on(vrf, *gateway).map(drop),
            Via::GatewayOn(_, name) | Via::On(name) => {
                let is_there = self.interfaces.iter().any(|interface| interface.fresh.name == **name);
                if is_there { Ok(()) } else { Err(format!("there is no interface {name}")) }
            }
            Via::Into(inlet, _) => self.config.function.check(inlet),
            Via::Discard(_) => Ok(()),
        }
    }

    fn check_limits(&mut self, all: &[Vec<StaticRoute>]) {
        let limits = &self.config.limits;
        let routes = || all.iter().flatten();
        let own: usize = self.own.iter().map(|own| own.four.len() + own.six.len()).sum();
        let longest = |(routes, own): (&Vec<StaticRoute>, &Own)| long_prefix_networks(routes) + 2 * own.four.len();
        let long = all.iter().zip(&self.own).map(longest).max().unwrap_or(0);
        let bounds = [
            ("routes", routes().count() + own, limits.routes),
            ("next_hops", different_vias(routes()) + own, limits.next_hops),
            ("groups", different_sets(routes()), limits.groups),
            ("long_prefix_networks", long, limits.long_prefix_networks),
        ];
        for (name, needed, most) in bounds {
            if needed > most as usize {
                let root = self.element.path();
                let path = root.field("limits");
                let problem = format!("{most} is too few: the routes of this configuration take {needed}");
                self.errors.push(self.element.error(ErrorKind::Limit, &path.field(name), problem));
            }
        }
    }

    fn gateway_on(&self, vrf: VrfId, gateway: IpAddr) -> Result<InterfaceId, String> {
        let Some(own) = self.own.get(usize::from(vrf)) else { return Err("there is no such VRF".to_owned()) };
        match gateway {
            IpAddr::V4(gateway) => check_gateway(&own.four, gateway),
            IpAddr::V6(gateway) => check_gateway(&own.six, gateway),
        }
    }

    fn networks(&self, vrf: VrfId) -> String {
        self.own.get(usize::from(vrf)).map_or_else(String::new, |own| networks(&own.four, &own.six))
    }
}
