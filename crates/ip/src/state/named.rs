//! Routes as people state them: what of them names an interface, and the routes of the configuration.
//!
//! An interface is known by its name to people and by its number to routes. Where it is deleted and added again its number is another one: so
//! routes that name interfaces are kept here as they were stated, and follow.

use std::collections::BTreeMap;

use ipnet::{Ipv4Net, Ipv6Net};
use weir_net::nexthop::Inlet;
use weir_net::rib::Hop;
use weir_net::{RouteSource, VrfId};

use crate::config::Function;
use crate::function_routes::RouteChange;
use crate::state::Control;
use crate::state::routing::{Network, Refusal};
use crate::state::static_routes::{StaticRoute, is_among};
use crate::state::via::Via;
use crate::{Interfaces, NO_INTERFACE};

/// Routes that name interfaces.
#[derive(Debug, Default)]
pub(crate) struct Named(BTreeMap<(Network, RouteSource), Vec<Via>>);

impl Named {
    /// A route is stated so from now on.
    fn note(&mut self, network: Network, source: RouteSource, vias: &[Via]) {
        if vias.iter().any(|via| via.interface().is_some()) {
            self.0.insert((network, source), vias.to_vec());
        } else {
            self.forget(network, source);
        }
    }

    /// A route is gone.
    pub(crate) fn forget(&mut self, network: Network, source: RouteSource) {
        if !self.0.is_empty() {
            self.0.remove(&(network, source));
        }
    }
}

impl Via {
    /// The interface that it names.
    pub(crate) fn interface(&self) -> Option<&str> {
        match self {
            Via::GatewayOn(_, interface) | Via::On(interface) => Some(interface),
            Via::Gateway(_) | Via::Into(..) | Via::Discard(_) => None,
        }
    }

    /// As routes have it. An interface that is not there is one whose link is down; inlets were looked for when the route was checked.
    pub(crate) fn hop(&self, interfaces: &Interfaces, function: &Function) -> Hop {
        let number = |name: &str| interfaces.find(name).map_or(NO_INTERFACE, |found| found.id);
        match self {
            Via::Gateway(gateway) => Hop::Via(*gateway),
            Via::GatewayOn(gateway, interface) => Hop::ViaOn(*gateway, number(interface)),
            Via::On(interface) => Hop::On(number(interface)),
            Via::Into(name, argument) => Hop::Into(Inlet {
                number: function.number(name).unwrap_or_default(),
                argument: argument.unwrap_or(Inlet::NOBODY),
            }),
            Via::Discard(discard) => Hop::Discard(*discard),
        }
    }
}

impl Control {
    /// Adds a route or replaces the one that this source has.
    pub(crate) fn set_route(&mut self, network: Network, source: RouteSource, vias: &[Via]) -> Result<(), Refusal> {
        let hops: Vec<Hop> = vias.iter().map(|via| via.hop(&self.interfaces, &self.function)).collect();
        self.routing.replace(network, source, &hops)?;
        self.missing.forget(network, source);
        self.named.note(network, source, vias);
        Ok(())
    }

    /// The same; where it is refused it is missing from now on.
    pub(crate) fn want_route(&mut self, network: Network, source: RouteSource, vias: &[Via]) {
        let hops: Vec<Hop> = vias.iter().map(|via| via.hop(&self.interfaces, &self.function)).collect();
        self.missing.replace(&mut self.routing, network, source, &hops);
        self.named.note(network, source, vias);
    }

    /// How a route is stated that a source has, or wants.
    pub(crate) fn stated(&self, network: Network, source: RouteSource) -> Option<Vec<Via>> {
        if let Some(vias) = self.named.0.get(&(network, source)) {
            return Some(vias.clone());
        }
        let hops = self.missing.hops(network, source).or_else(|| self.hops_in_force(network, source))?;
        Some(hops.into_iter().map(|hop| self.via_of(hop)).collect())
    }

    pub(crate) fn hops_in_force(&self, (vrf, net): Network, source: RouteSource) -> Option<Vec<Hop>> {
        let rib = self.routing.rib();
        crate::state::routing::in_family!(net, prefix => {
            let route = rib.routes_to(vrf, prefix).find(|route| route.source() == source)?;
            Some(route.hops().map(|(hop, _)| hop).collect())
        })
    }

    /// A hop as people state it.
    pub(crate) fn via_of(&self, hop: Hop) -> Via {
        match hop {
            Hop::Via(gateway) => Via::Gateway(gateway),
            Hop::ViaOn(gateway, interface) => Via::GatewayOn(gateway, self.name_of(interface).into()),
            Hop::On(interface) => Via::On(self.name_of(interface).into()),
            Hop::Into(Inlet { number, argument }) => {
                Via::Into(self.function.inlet(number).into(), (argument != Inlet::NOBODY).then_some(argument))
            }
            Hop::Discard(discard) => Via::Discard(discard),
        }
    }

    /// An interface of this name came or went: routes that name it follow.
    pub(crate) fn resolve_named(&mut self, name: &str) {
        let names = |via: &Via| via.interface() == Some(name);
        let those = self.named.0.iter().filter(|(_, vias)| vias.iter().any(names));
        let those: Vec<_> = those.map(|(key, vias)| (*key, vias.clone())).collect();
        for ((network, source), vias) in those {
            self.want_route(network, source, &vias);
        }
    }

    /// Makes the routes of the configuration, by VRF, those that it wants, changing no more than differs.
    pub(crate) fn set_config_routes(&mut self, wanted: &[Vec<StaticRoute>]) {
        self.forget_unwanted(wanted);
        let rib = self.routing.rib();
        let is_gone = |network: &Network, source| source == RouteSource::Config && !is_among(wanted, *network);
        let four = rib.routes::<Ipv4Net>().map(|route| ((route.vrf(), route.prefix().into()), route.source()));
        let six = rib.routes::<Ipv6Net>().map(|route| ((route.vrf(), route.prefix().into()), route.source()));
        let gone: Vec<Network> =
            four.chain(six).filter(|(network, source)| is_gone(network, *source)).map(|(network, _)| network).collect();
        self.routing.remove_config(&gone);
        for (routes, vrf) in wanted.iter().zip(0..) {
            self.replace_config_routes(vrf, routes);
        }
    }

    /// Forgets what is known beside of routes of the configuration that are not `wanted`.
    pub(crate) fn forget_unwanted(&mut self, wanted: &[Vec<StaticRoute>]) {
        self.missing.retain(RouteSource::Config, |network| is_among(wanted, network));
        self.named.0.retain(|(network, source), _| *source != RouteSource::Config || is_among(wanted, *network));
    }

    /// Makes routes of the function lead into it, or takes them back.
    pub(crate) fn set_function_routes(&mut self, changes: &[RouteChange]) {
        let source = RouteSource::Function;
        for (vrf, net, inlet) in changes {
            let network = (*vrf, *net);
            match inlet {
                Some(inlet) => self.missing.replace(&mut self.routing, network, source, &[Hop::Into(*inlet)]),
                None => {
                    self.missing.forget(network, source);
                    // One that was missing is not there.
                    _ = self.routing.remove(network, source);
                }
            }
        }
    }

    /// Adds routes of the configuration in a VRF, or replaces them.
    pub(crate) fn replace_config_routes(&mut self, vrf: VrfId, wanted: &[StaticRoute]) {
        let mut hops = Vec::new();
        for route in wanted {
            let network = (vrf, route.prefix);
            if route.via.names_interfaces() {
                let mut vias = Vec::new();
                route.via.each(|via| vias.push(via.clone()));
                self.want_route(network, RouteSource::Config, &vias);
                continue;
            }
            hops.clear();
            route.via.each(|via| hops.push(via.hop(&self.interfaces, &self.function)));
            self.missing.replace(&mut self.routing, network, RouteSource::Config, &hops);
            self.named.forget(network, RouteSource::Config);
        }
    }
}
