//! What was added at run time, as requests that would add it again.

use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{MacAddress, OneOrMany};
use weir_net::neighbor::Neighbor;
use weir_net::{DEFAULT_VRF, Family, RouteSource, VrfId};
use weir_stage::{Entry as _, InTurn, Saved, ShowRows, Within};

use crate::InterfaceId;
use crate::config::{Route, StatedNeighbor};
use crate::pieces::{AllRoutes, pieces};
use crate::request::{NEIGHBORS, ROUTES, saved_interface};
use crate::state::Control;
use crate::state::routing::Network;
use crate::state::shared::{Shared, lock};
use crate::state::via::NamedNeighbor;

/// Interfaces, then routes by prefix, then neighbours.
pub(crate) fn save(shared: &Arc<Shared>) -> Box<dyn ShowRows<Saved>> {
    let ids: Vec<InterfaceId> = {
        let control = lock(shared);
        let added = control.interfaces.iter().map(|interface| interface.id);
        added.filter(|id| control.ledger.source(*id) == RouteSource::Cli).collect()
    };
    let interfaces = pieces(shared, ids, saved_interface);
    let routes = AllRoutes::new(shared, |_, source| source == RouteSource::Cli, route);
    let added: Vec<Neighbor<IpAddr>> =
        lock(shared).neighbors().filter(|neighbor| neighbor.source == RouteSource::Cli).collect();
    let neighbors = pieces(shared, added, |control: &Control, added| neighbor(control, &added));
    Box::new(InTurn::new([interfaces, Box::new(routes), neighbors]))
}

fn route(control: &Control, network: Network, source: RouteSource) -> Option<Saved> {
    let (vrf, prefix) = network;
    let route = Route { prefix, via: OneOrMany(control.stated(network, source)?) };
    Some(in_vrf(control, vrf, ROUTES.saved("add", route.to_json().into())))
}

fn neighbor(control: &Control, added: &Neighbor<IpAddr>) -> Option<Saved> {
    let is_link_local = matches!(added.address, IpAddr::V6(address) if Family::is_link_local(address));
    let on = is_link_local.then(|| control.name_of(added.interface).into());
    let address = NamedNeighbor { address: added.address, on };
    let neighbor = StatedNeighbor { address, mac: MacAddress::new(added.mac?.0) };
    let saved = NEIGHBORS.saved("add", neighbor.to_json().into());
    Some(in_vrf(control, control.vrf_of(added.interface), saved))
}

/// A request in a VRF, which is named unless it is the default one, as is the table of the configuration that the entry belongs to.
fn in_vrf(control: &Control, vrf: VrfId, mut saved: Saved) -> Saved {
    if let Some(arguments) = saved.arguments.as_object_mut().filter(|_| vrf != DEFAULT_VRF) {
        arguments.insert("vrf".to_owned(), control.vrf_name(vrf).into());
        saved.within = Some(Within { key: "vrfs", argument: "vrf" });
    }
    saved
}
