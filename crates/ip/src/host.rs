//! What the layer has in common with Linux network namespaces that speak for its VRFs: interfaces, frames, routes, as services ask for them.

mod state;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde_json::{Value, json};
use weir_net::rib::{Discard, Hop};
use weir_net::{RouteSource, VrfId};
use weir_stage::host::Wake;
use weir_stage::{Difference, Frames, HostHop, HostInterface, HostRoute, HostSide, Need, RoutePlace, ShowRows};
use weir_wire::MacAddr;

pub(crate) use state::{ASKED, Asked, Hosts};

use crate::config::{LinuxConfig, VrfConfig};
use crate::load::DEFAULT_NAME;
use crate::state::Control;
use crate::state::routing::Network;
use crate::state::shared::{CHANGES, Shared, each_route, lock, some_routes};

/// What a function on the layer needs done for Linux to speak for its VRFs: the default one, and others by name.
pub fn linux_needs(default: Option<&LinuxConfig>, vrfs: &BTreeMap<String, VrfConfig>) -> Vec<Need> {
    let others = vrfs.iter().map(|(name, vrf)| (name.as_str(), vrf.linux.as_ref()));
    let all = [(DEFAULT_NAME, default)].into_iter().chain(others);
    all.filter_map(|(vrf, linux)| Some(needs_of(vrf, linux?))).flatten().collect()
}

fn needs_of(vrf: &str, linux: &LinuxConfig) -> [Need; 2] {
    let (vrf, netns) = (vrf.to_owned(), linux.netns.clone());
    [
        Need::Taps { vrf: vrf.clone(), netns: netns.clone() },
        Need::Routes { vrf, netns, table: linux.table, fpm: linux.fpm },
    ]
}

/// The side of the layer for one VRF.
pub(crate) struct Side {
    shared: Arc<Shared>,
    vrf: VrfId,
    frames: Arc<Frames>,
}

impl Side {
    /// That of a VRF of this name; `None` if no Linux speaks for it.
    pub(crate) fn of(shared: &Arc<Shared>, vrf: &str) -> Option<Side> {
        let control = lock(shared);
        let vrf = control.vrf(vrf)?;
        let frames = Arc::clone(control.hosts.frames(vrf)?);
        Some(Side { shared: Arc::clone(shared), vrf, frames })
    }

    fn network(&self, prefix: IpNet) -> Network {
        (self.vrf, prefix)
    }
}

impl HostSide for Side {
    fn version(&self) -> u64 {
        lock(&self.shared).hosts.version()
    }

    fn interfaces(&self) -> Vec<HostInterface> {
        let control = lock(&self.shared);
        let of_linux = |one: &&crate::Interface| one.wanted.vrf == self.vrf && !control.routing.is_inlet(one.id);
        let here = control.interfaces.iter().filter(of_linux);
        let tell = |one: &crate::Interface| HostInterface {
            id: one.id,
            name: one.name().to_owned(),
            has_port: !one.is_virtual(),
            mac: one.mac.0,
            mtu: one.mtu,
            up: one.up,
            addresses: control.hosts.configured(one.id).to_vec(),
        };
        here.map(tell).collect()
    }

    fn frames(&self) -> &Frames {
        &self.frames
    }

    fn wake_on_change(&self, who: &'static str, wake: Wake) {
        lock(&self.shared).hosts.wake_on_change(self.vrf, who, wake);
    }

    fn set_enabled(&self, interface: u16, enabled: bool) {
        let mut control = lock(&self.shared);
        let Some(mtu) = control.interfaces.get(interface).map(|found| found.wanted.mtu) else { return };
        if enabled && !control.hosts.is_down(interface) {
            // Who set it down was somebody else.
            return;
        }
        control.hosts.set_down(interface, !enabled);
        control.alter(interface, mtu, enabled);
        control.catch_up(CHANGES);
    }

    fn set_addresses(&self, interface: u16, addresses: &[IpNet]) {
        let mut control = lock(&self.shared);
        if control.interfaces.get(interface).is_none() || !control.hosts.set_linux(interface, addresses) {
            return;
        }
        let (configured, now) = (control.hosts.configured(interface).to_vec(), control.routing.recent().now());
        control.set_addresses(interface, &configured, now);
        control.catch_up(CHANGES);
    }

    fn set_neighbor(&self, interface: u16, neighbor: IpAddr, mac: Option<[u8; 6]>) {
        let mut control = lock(&self.shared);
        let known = control.neighbor(interface, neighbor);
        let ours = known.is_some_and(|known| known.source == RouteSource::Linux);
        let now = control.routing.recent().now();
        match mac {
            // What a person said to Weir itself goes first.
            Some(_) if known.is_some_and(|known| known.source < RouteSource::Linux) => {}
            Some(mac) => drop(control.add_neighbor(now, (interface, neighbor), MacAddr(mac), RouteSource::Linux)),
            None if ours => control.remove_neighbors(&[(interface, neighbor)]),
            None => {}
        }
        control.catch_up(CHANGES);
    }

    fn change_routes(&self, changes: &[HostRoute]) {
        let mut hops = Vec::new();
        for piece in changes.chunks(CHANGES) {
            let control = &mut *lock(&self.shared);
            for (prefix, to) in piece {
                hops.clear();
                hops.extend(to.iter().map(|hop| hop_of(*hop)).filter(|hop| control.may_lead_to(*hop)));
                let network = self.network(*prefix);
                if hops.is_empty() {
                    control.missing.forget(network, RouteSource::Linux);
                    _ = control.routing.remove(network, RouteSource::Linux);
                } else {
                    control.missing.replace_of_linux(&mut control.routing, network, &hops);
                }
            }
        }
    }

    fn sweep_routes(&self, keep: &mut dyn FnMut(IpNet) -> bool) {
        let mut gone = Vec::new();
        each_route(&self.shared, |_, (vrf, net), source| {
            if vrf == self.vrf && source == RouteSource::Linux && !keep(net) {
                gone.push((net, Vec::new()));
            }
        });
        let missing: Vec<Network> =
            lock(&self.shared).missing.of(RouteSource::Linux).map(|(network, _)| network).collect();
        let gone_too = missing.into_iter().filter(|(vrf, net)| *vrf == self.vrf && !keep(*net));
        gone.extend(gone_too.map(|(_, net)| (net, Vec::new())));
        self.change_routes(&gone);
        let control = &mut *lock(&self.shared);
        control.hosts.let_go_unless(|id| control.interfaces.get(id).is_some());
    }

    fn routes_from(&self, place: RoutePlace, look: &mut dyn FnMut(IpNet, &[HostHop])) -> Option<RoutePlace> {
        let mut to = Vec::new();
        some_routes(&self.shared, place, |control, (vrf, net), source| {
            if vrf != self.vrf || source != RouteSource::Linux {
                return;
            }
            let rib = control.routing.rib();
            to.clear();
            match net {
                IpNet::V4(net) => hops_of::<Ipv4Net>(rib, vrf, net, &mut to),
                IpNet::V6(net) => hops_of::<Ipv6Net>(rib, vrf, net, &mut to),
            }
            look(net, &to);
        })
    }

    fn forget_interface(&self, interface: u16) {
        lock(&self.shared).hosts.let_go(interface);
    }

    fn set_differences(&self, count: u64, first: Vec<Difference>) {
        lock(&self.shared).hosts.set_differences(self.vrf, count, first);
    }

    fn comparisons_wanted(&self) -> u64 {
        lock(&self.shared).hosts.comparison_wanted(self.vrf)
    }
}

fn hops_of<P: weir_net::rib::Routed>(rib: &weir_net::rib::Rib, vrf: VrfId, net: P, to: &mut Vec<HostHop>) {
    let route = rib.routes_to(vrf, net).find(|route| route.source() == RouteSource::Linux);
    to.extend(route.iter().flat_map(|route| route.hops()).filter_map(|(hop, _)| host_hop_of(hop)));
}

impl Control {
    /// Whether a route of Linux's may lead there: an interface that it names is there, and keeps its number as long as routes may lead to it.
    fn may_lead_to(&mut self, hop: Hop) -> bool {
        let (Hop::ViaOn(_, id) | Hop::On(id)) = hop else { return true };
        let is_there = self.interfaces.get(id).is_some();
        if is_there {
            self.hosts.hold(id);
        }
        is_there
    }
}

fn hop_of(hop: HostHop) -> Hop {
    match hop {
        HostHop::Via(gateway, interface) => Hop::ViaOn(gateway, interface),
        HostHop::On(interface) => Hop::On(interface),
        HostHop::Blackhole => Hop::Discard(Discard::Blackhole),
        HostHop::Unreachable => Hop::Discard(Discard::Unreachable),
        HostHop::Prohibit => Hop::Discard(Discard::Prohibit),
    }
}

fn host_hop_of(hop: Hop) -> Option<HostHop> {
    match hop {
        Hop::ViaOn(gateway, interface) => Some(HostHop::Via(gateway, interface)),
        Hop::On(interface) => Some(HostHop::On(interface)),
        Hop::Discard(Discard::Blackhole) => Some(HostHop::Blackhole),
        Hop::Discard(Discard::Unreachable) => Some(HostHop::Unreachable),
        Hop::Discard(Discard::Prohibit) => Some(HostHop::Prohibit),
        // Linux always says by which interface, and knows nothing of functions.
        Hop::Via(_) | Hop::Into(_) => None,
    }
}

/// How long a comparison may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is said of a VRF then.
const NOT_COMPARED: &str = "not compared within 60 s: weir show services says why";

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// The rows of a comparison, which is made when they are asked for.
pub(crate) struct Differences {
    shared: Arc<Shared>,
    is_told: bool,
}

impl Differences {
    pub(crate) fn new(shared: &Arc<Shared>) -> Differences {
        Differences { shared: Arc::clone(shared), is_told: false }
    }

    /// Has all VRFs compared that Linux speaks for; waits for it, as only who asked does. Answers those for which that did not come to its end.
    #[allow(
        clippy::disallowed_methods,
        reason = "a client waits for a service, on a thread of its own; no packet does"
    )]
    fn compare(&self) -> Vec<VrfId> {
        let wanted = lock(&self.shared).hosts.want_comparisons();
        let mut waited = Duration::ZERO;
        loop {
            let open = lock(&self.shared).hosts.not_compared(&wanted);
            if open.is_empty() || waited >= PATIENCE {
                return open;
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
    }
}

impl ShowRows for Differences {
    fn piece(&mut self) -> Vec<Value> {
        if std::mem::replace(&mut self.is_told, true) {
            return Vec::new();
        }
        let open = self.compare();
        let control = lock(&self.shared);
        let mut rows = Vec::new();
        for (vrf, comparison) in control.hosts.all_comparisons() {
            let name = control.vrf_name(vrf);
            if open.contains(&vrf) {
                // Nobody must take silence for agreement.
                rows.push(json!({ "prefix": "all", "linux": NOT_COMPARED, "weir": "", "vrf": name }));
                continue;
            }
            rows.extend(comparison.first.iter().map(
                |one| json!({ "prefix": one.prefix.to_string(), "linux": one.linux, "weir": one.here, "vrf": name }),
            ));
        }
        rows
    }
}
