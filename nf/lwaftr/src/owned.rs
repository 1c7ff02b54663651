//! What of the addresses the relay owns as routes: those that softwires share, its ends of tunnels, and the prefixes of the configuration.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use ipnet::IpNet;
use weir_ip::{FunctionRoutes, Inlet};

use crate::config::LwaftrConfig;
use crate::registry::Registry;

/// Where routes of the relay lead: it finds softwires by packets.
const INTO: Inlet = Inlet { number: 0, argument: Inlet::NOBODY };

/// What a configuration says beside softwires, in the VRFs of IPv4 and of IPv6.
pub(crate) fn of(vrfs: [u16; 2], config: &LwaftrConfig) -> FunctionRoutes {
    let ends = config.aftr.iter().map(|end| IpNet::from(IpAddr::V6(*end)));
    let mut routes = FunctionRoutes::new(vrfs, INTO);
    // A relay that has all that nobody else has does so on its own interfaces.
    routes.set_whole(ends.chain(config.prefixes.iter().copied()));
    routes
}

/// Lets routes follow what has changed in the binding table.
pub(crate) fn settle(registry: &mut Registry, owned: &Mutex<FunctionRoutes>, layer: &weir_ip::Running) {
    let shared = registry.take_shared();
    let mut owned = owned.lock().unwrap_or_else(PoisonError::into_inner);
    layer.set_routes(
        &owned.follow(shared.into_iter().map(|(address, is_shared)| (IpAddr::V4(address).into(), is_shared))),
    );
}
