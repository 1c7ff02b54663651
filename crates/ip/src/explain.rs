//! Which route a packet took, for whoever follows packets.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_net::VrfId;
use weir_net::nexthop::{NextHop, Towards};
use weir_net::rib::{Hop, Rib, Target};
use weir_wire::{Ethernet, Ipv4, Ipv6, MacAddr, View, ethernet};

use crate::state::Control;
use crate::tags::FRONT_LEN;

/// Stages that look up where packets go.
const STAGES: [&str; 2] = [".forward", ".control"];

/// The route of a packet that left `stage` (what of its name follows the function's) by `way`: its prefix, and the next hop by whose Ethernet address
/// it goes; all next hops that share the route where that address is not known yet. It left at `then`: where a route to its destination
/// has come, gone or changed since, what is there now may not be what it took, and that is said.
pub(crate) fn route(control: &Control, stage: &str, way: &str, packet: &[u8], then: u64) -> Option<String> {
    let looked_up = way.starts_with("port[") || ["unresolved", "too-big", "function"].contains(&way);
    let header = Ethernet::view(packet)?;
    let mut window = [0; FRONT_LEN];
    window.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
    let front = control.routing.fib().ingress().front(&window);
    if !STAGES.contains(&stage) || !looked_up {
        return None;
    }
    let network = packet.get(usize::from(front.l3)..)?;
    let destination: IpAddr = match front.ethertype {
        ethernet::IPV4 => Ipv4::view(network)?.destination_addr().into(),
        ethernet::IPV6 => Ipv6::view(network)?.destination_addr().into(),
        _ => return None,
    };
    let rib = control.routing.rib();
    // It has the tags of the interface that it left by: what it came in by is not known, and looked for among all VRFs by whom it went to.
    let vrfs = 0..control.vrfs.len() as VrfId;
    let leads = |vrf: &VrfId| {
        let hops = lookup(rib, *vrf, destination).map(|(_, target)| rib.next_hops_of(target)).unwrap_or_default();
        hops.iter().any(|towards| mac_of(control, *towards, destination) == Some(header.destination))
    };
    let vrf = vrfs.clone().find(leads).unwrap_or(weir_net::DEFAULT_VRF);
    let has_changed = control.routing.recent().touches(vrf, destination, then);
    let Some((prefix, target)) = lookup(rib, vrf, destination) else {
        return has_changed.then(|| "its route is gone since".to_owned());
    };
    let hops = rib.next_hops_of(target);
    let taken = hops.iter().find(|hop| mac_of(control, **hop, destination) == Some(header.destination));
    let chosen: Vec<String> = match taken {
        Some(hop) => vec![words(control, *hop)],
        None => hops.into_iter().map(|hop| words(control, hop)).collect(),
    };
    let since = if has_changed { ", as it is now: routes to there have changed since" } else { "" };
    (!chosen.is_empty()).then(|| format!("route {prefix} {}{since}", chosen.join(" or ")))
}

/// The longest prefix around an address.
pub(crate) fn lookup(rib: &Rib, vrf: VrfId, address: IpAddr) -> Option<(IpNet, Target)> {
    match address {
        IpAddr::V4(address) => rib.lookup(vrf, address).map(|(prefix, target)| (prefix.into(), target)),
        IpAddr::V6(address) => rib.lookup(vrf, address).map(|(prefix, target)| (prefix.into(), target)),
    }
}

/// The Ethernet address by which a next hop is reached.
fn mac_of(control: &Control, towards: Towards, destination: IpAddr) -> Option<MacAddr> {
    let hop = towards.link()?;
    control.neighbor(hop.interface, hop.neighbor(destination))?.mac
}

fn words(control: &Control, towards: Towards) -> String {
    match towards {
        Towards::Link(NextHop { interface, gateway: None }) => format!("on {}", control.name_of(interface)),
        Towards::Link(NextHop { interface, gateway: Some(gateway) }) => {
            format!("via {gateway} on {}", control.name_of(interface))
        }
        Towards::Function(inlet) => format!("via {}", control.via_of(Hop::Into(inlet))),
    }
}
