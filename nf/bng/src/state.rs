//! What the control side knows. Requests, shows and the slow path share it; workers see it through tables.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_ip::{FunctionRoutes, InterfaceId};
use weir_net::neighbor::own;

use crate::config::BngConfig;
use crate::control::Identifications;
use crate::core::Core;
use crate::ports::Ports;
use crate::registry::Registry;
use crate::table::Tags;

/// All that the control side knows.
pub(crate) struct Control {
    /// Subscribers and their addresses.
    pub(crate) registry: Registry,
    /// The network layer, of both sides.
    pub(crate) layer: weir_ip::Running,
    /// What of customers are routes there; none in tunnels.
    pub(crate) routes: Option<FunctionRoutes>,
    /// Where packets go by its routes.
    pub(crate) core: Arc<Core>,
    /// The next routers on the way to gateways, by interface and address: they are asked for before anybody wants to go there.
    pub(crate) routers: Vec<(InterfaceId, IpAddr)>,
    /// When they are asked for again.
    pub(crate) next_look: u64,
    pub(crate) ports: Arc<Ports>,
    /// The gateway's addresses towards customers, with their networks.
    pub(crate) addresses: Vec<Ipv4Net>,
    /// The same of IPv6.
    pub(crate) addresses6: Vec<Ipv6Net>,
    /// When the gateway's addresses were defended, by line.
    pub(crate) defences: Defences,
    /// Identifications of outer packets that the slow path sends in fragments, or lets others send so.
    pub(crate) identifications: Identifications,
    /// The configuration as it is now.
    pub(crate) config: Arc<BngConfig>,
}

/// Time between two looks at the next routers, nanoseconds.
const LOOK_INTERVAL: u64 = 1_000_000_000;

impl Control {
    /// Asks for the next routers when it is time, and [follows](Control::follow_links) the links; answers when it wants to be called again.
    pub(crate) fn look_after_routers(&mut self, now: u64) -> u64 {
        if self.core.prepare() {
            self.follow_links();
        }
        if now >= self.next_look {
            self.next_look = now.saturating_add(LOOK_INTERVAL);
            for (interface, router) in &self.routers {
                _ = self.layer.ask(now, *interface, *router);
            }
        }
        self.next_look
    }

    /// Lets routes follow what subscribers have, and the networks in which addresses are learned.
    pub(crate) fn settle_routes(&mut self) {
        let moved = self.registry.take_moved();
        let Some(routes) = &mut self.routes else { return };
        routes.set_whole(self.registry.settings().learn.iter().copied().map(IpNet::from));
        self.layer.set_routes(&routes.follow(moved));
    }

    /// Sees which gateways can be reached, when routes have changed. Where nobody can by one, the others that share its routes have its part.
    pub(crate) fn follow_links(&mut self) {
        for (inlet, end) in self.core.tunnels.iter() {
            self.layer.set_inlet(inlet, self.core.onward.has_route(end));
        }
        _ = self.core.prepare();
    }
}

/// When the gateway last defended its address on a line; of a bounded number of lines.
#[derive(Debug, Default)]
pub(crate) struct Defences(HashMap<Tags, u64>);

/// Lines that are defended within [`own::DEFEND_INTERVAL`]; on others a station that uses the gateway's address is not answered.
const DEFENDED: usize = 4096;

impl Defences {
    /// Whether the address may be defended on a line now; if so, it is noted.
    pub(crate) fn may(&mut self, line: Tags, now: u64) -> bool {
        if !own::may_defend(self.0.get(&line).copied(), now) {
            return false;
        }
        if self.0.len() >= DEFENDED {
            self.0.retain(|_, defended| !own::may_defend(Some(*defended), now));
        }
        let has_room = self.0.len() < DEFENDED;
        if has_room {
            self.0.insert(line, now);
        }
        has_room
    }
}

/// The lock on what requests, shows and the slow path share. A panic elsewhere does not make it unusable: every change
/// keeps it whole.
pub(crate) fn lock(shared: &Mutex<Control>) -> MutexGuard<'_, Control> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
