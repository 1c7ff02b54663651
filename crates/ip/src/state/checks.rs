//! What speaks against an address, an MTU or a next hop, be it in a configuration or in a request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use weir_config::ErrorKind;
use weir_net::interface::{AddressKind, BadAddress, InterfaceAddress};
use weir_net::{Family, VrfId};

use crate::interfaces::most_mtu;
use crate::state::addresses::Addresses;
use crate::state::via::Via;
use crate::state::{Control, Routable};
use crate::{Fresh, InterfaceId, Port};

/// What is wrong with an MTU where there are addresses of IPv6: "IPv6 requires that every link in the Internet have an MTU of 1280 octets or
/// greater" (RFC 8200 section 5).
pub(crate) fn too_small(told: &str, mtu: u16, addresses: &[IpNet]) -> Option<String> {
    let has_ipv6 = addresses.iter().any(|net| matches!(net, IpNet::V6(_)));
    (has_ipv6 && mtu < LEAST_IPV6_MTU)
        .then(|| format!("{told} has an IPv6 address and an MTU of {mtu}; IPv6 needs {LEAST_IPV6_MTU} at least"))
}

/// What is wrong with an interface on a port, or with a loopback.
pub(crate) fn wrong_beside(port: Option<&Port>, fresh: &Fresh, addresses: &[IpNet]) -> Vec<weir_stage::Wrong> {
    let mut wrong = Vec::new();
    let most = port.map_or(u16::MAX, |port| most_mtu(port, fresh.tags));
    if let (Some(mtu), Some(port)) = (fresh.mtu.filter(|mtu| *mtu > most), port) {
        let problem =
            format!("{mtu} is more than the MTU of port \"{}\" behind these tags, which is {most}", port.name);
        let told = weir_stage::Wrong { kind: ErrorKind::OutOfRange, ..weir_stage::Wrong::field("mtu", problem) };
        wrong.push(told.remedy("give the port a larger one, or this a smaller one"));
    }
    let told = format!("interface \"{}\"", fresh.name);
    if let Some(problem) = too_small(&told, fresh.mtu.unwrap_or(most), addresses) {
        wrong.push(weir_stage::Wrong::field("mtu", problem).remedy(RAISE_MTU));
    }
    let wide = addresses.iter().find(|net| port.is_none() && net.prefix_len() < net.max_prefix_len());
    if let Some(net) = wide {
        let problem = format!("{net} is a network, and none is connected to a loopback");
        let remedy = format!("write {}/{}", net.addr(), net.max_prefix_len());
        wrong.push(weir_stage::Wrong::field("address", problem).remedy(remedy));
    }
    wrong
}

/// The smallest MTU of a link that carries IPv6.
const LEAST_IPV6_MTU: u16 = 1280;

/// What to do about it.
pub(crate) const RAISE_MTU: &str = "raise the MTU, or leave the address out";

/// What is wrong with an address of an interface.
pub(crate) enum Wrong {
    /// No host can have it.
    Bad(BadAddress),
    /// Another interface has the same address, or the same network.
    Conflict(InterfaceId, &'static str),
}

/// Adds an address of an interface.
///
/// # Errors
///
/// What speaks against it.
pub(crate) fn add<A: Family>(own: &mut Addresses<A>, id: InterfaceId, net: A::Prefix) -> Result<(), Wrong> {
    let address = InterfaceAddress::new(id, net).map_err(Wrong::Bad)?;
    if let Some((other, what)) = conflict_of(own, &address) {
        return Err(Wrong::Conflict(other, what));
    }
    own.add(address);
    Ok(())
}

/// Another interface of the same VRF that has the same address, or the same network, and which of both.
fn conflict_of<A: Family>(addresses: &Addresses<A>, own: &InterfaceAddress<A>) -> Option<(InterfaceId, &'static str)> {
    if own.address().is_link_local() {
        let same = addresses.of(own.interface()).iter().any(|other| other.address() == own.address());
        return same.then_some((own.interface(), "address"));
    }
    if let Some(owner) = addresses.owners(own.address()).first() {
        return Some((*owner, "address"));
    }
    let other = addresses.in_network(own.network()).iter().find(|other| other.interface() != own.interface())?;
    Some((other.interface(), "network"))
}

/// What speaks against an address of an interface (a new one, where there is none) in a VRF of a running router.
pub(crate) fn check_address(control: &Control, vrf: VrfId, of: Option<InterfaceId>, net: IpNet) -> Result<(), Wrong> {
    fn check<A: Routable>(control: &Control, vrf: VrfId, of: Option<InterfaceId>, net: A::Prefix) -> Result<(), Wrong> {
        // A new one is for a moment as if of an interface that nobody has: the conflict with itself is none.
        let own = InterfaceAddress::<A>::new(of.unwrap_or(crate::NO_INTERFACE), net).map_err(Wrong::Bad)?;
        match conflict_of(control.addresses::<A>(vrf), &own).filter(|(other, _)| Some(*other) != of) {
            Some((other, what)) => Err(Wrong::Conflict(other, what)),
            None => Ok(()),
        }
    }
    match net {
        IpNet::V4(net) => check::<Ipv4Addr>(control, vrf, of, net),
        IpNet::V6(net) => check::<Ipv6Addr>(control, vrf, of, net),
    }
}

/// Whether a new interface may have an address in a VRF of a running router.
pub(crate) fn is_free(control: &Control, vrf: VrfId, net: IpNet) -> bool {
    check_address(control, vrf, None, net).is_ok()
}

/// The interface on whose network a gateway or neighbour is.
///
/// # Errors
///
/// Why it can not be one, as a sentence.
pub(crate) fn check_gateway<A: Family>(addresses: &Addresses<A>, gateway: A) -> Result<InterfaceId, String> {
    if gateway.is_link_local() {
        return Err(format!(
            "{gateway} is link-local, and may be on any link; write its interface, too: {gateway}%lan"
        ));
    }
    if addresses.is_own(gateway) {
        return Err(format!("{gateway} is an address of the router itself"));
    }
    let Some(interface) = addresses.around(gateway) else {
        return Err(format!("{gateway} is on no network that is connected to the router"));
    };
    match interface.kind(gateway) {
        AddressKind::SubnetBroadcast => Err(format!("{gateway} is the broadcast address of {}", interface.network())),
        AddressKind::Network => Err(format!("{gateway} is the address of the network {} itself", interface.network())),
        AddressKind::OnLink | AddressKind::Own | AddressKind::Elsewhere => Ok(interface.interface()),
    }
}

/// Whether a route to a prefix may lead there by its family.
pub(crate) fn check_family(prefix: IpNet, via: &Via) -> Result<(), String> {
    match (prefix, via) {
        (IpNet::V6(_), Via::Gateway(gateway @ IpAddr::V4(_)) | Via::GatewayOn(gateway @ IpAddr::V4(_), _)) => {
            Err(format!("an IPv6 route cannot go by {gateway}; write the router's IPv6 address"))
        }
        _ => Ok(()),
    }
}

/// The remedy for a gateway that is nowhere: the networks there are.
pub(crate) fn networks(four: &Addresses<Ipv4Addr>, six: &Addresses<Ipv6Addr>) -> String {
    /// As many as people read.
    const NAMED: usize = 16;
    let wide = six.iter().filter(|own| !Family::is_link_local(own.address()));
    let all = four.iter().map(|own| IpNet::V4(own.network())).chain(wide.map(|own| IpNet::V6(own.network())));
    let networks: Vec<String> = all.take(NAMED).map(|network| network.to_string()).collect();
    let more = if four.len() + six.len() > NAMED { ", ..." } else { "" };
    format!("choose a host of one of the networks {}{more}", networks.join(", "))
}
