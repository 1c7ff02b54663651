//! What was added at run time, as requests that would add it again.

use std::sync::Arc;

use serde_json::json;
use weir_ip::InterfaceId;
use weir_net::Author;
use weir_net::neighbor::Neighbor;
use weir_net::rib::{Hop, RouteView};
use weir_stage::{Saved, ShowRows};

use crate::pieces::{AllRoutes, InTurn, pieces};
use crate::request::{NEIGHBORS, ROUTES, saved_interface};
use crate::shared::{Shared, lock};
use crate::state::Control;

/// Interfaces, then routes by prefix, then neighbours.
pub(crate) fn save(shared: &Arc<Shared>) -> Box<dyn ShowRows<Saved>> {
    let ids: Vec<InterfaceId> = {
        let control = lock(shared);
        let added = control.interfaces.iter().map(|interface| interface.id);
        added.filter(|id| control.ledger.author(*id) == Author::Cli).collect()
    };
    let interfaces = pieces(shared, ids, saved_interface);
    let routes = AllRoutes::new(shared, |author| author == Author::Cli, route);
    let added: Vec<Neighbor> =
        lock(shared).neighbors.iter().filter(|neighbor| neighbor.author == Author::Cli).collect();
    let neighbors = pieces(shared, added, |_: &Control, added| neighbor(&added));
    Box::new(InTurn::new([interfaces, Box::new(routes), neighbors]))
}

fn route(control: &Control, route: &RouteView<'_>) -> Saved {
    let via = route.hops().map(|(hop, _)| match hop {
        Hop::Via(gateway) | Hop::ViaOn(gateway, _) => gateway.to_string(),
        Hop::On(port) => control.name_of(port).to_owned(),
        Hop::Discard(discard) => discard.to_string(),
    });
    ROUTES.saved("add", json!({ "prefix": route.prefix().to_string(), "via": via.collect::<Vec<_>>() }))
}

fn neighbor(added: &Neighbor) -> Option<Saved> {
    let arguments = json!({ "address": added.address.to_string(), "mac": added.mac?.to_string() });
    Some(NEIGHBORS.saved("add", arguments))
}
