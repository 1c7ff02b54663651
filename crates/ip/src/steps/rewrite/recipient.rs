//! Whom a step sends to: a station by its Ethernet address, or a neighbour of another function.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use weir_config::{MacAddress, Malformed, Scalar, scalar};
use weir_net::interface::{AddressKind, InterfaceAddress};
use weir_net::{Family, Prefix};
use weir_stage::Env;
use weir_wire::MacAddr;

use crate::NamedNeighbor;

/// Whom packets are sent to.
///
/// | text | meaning |
/// |---|---|
/// | `02:00:00:00:01:02` | the station with this Ethernet address |
/// | `10.0.0.2%lan` | the neighbour with this address on the link of the interface `lan`, which is another function's |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A station.
    Station(MacAddress),
    /// A neighbour: its address, and the name of the interface on whose link it is.
    Neighbor(IpAddr, Box<str>),
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recipient::Station(mac) => mac.fmt(f),
            Recipient::Neighbor(address, interface) => write!(f, "{address}%{interface}"),
        }
    }
}

impl Scalar for Recipient {
    const WHAT: &'static str = "a MAC address, or a neighbour with its interface (10.0.0.2%lan)";
    const EXAMPLE: &'static str = "02:00:00:00:00:01";

    fn parse(text: &str) -> Result<Recipient, Malformed> {
        if let Ok(mac) = MacAddress::parse(text) {
            return Ok(Recipient::Station(mac));
        }
        let neighbor = match NamedNeighbor::parse(text) {
            Ok(neighbor) => neighbor,
            Err(wrong) if text.contains('%') => return Err(wrong),
            Err(_) => return Err(Malformed::not::<Recipient>()),
        };
        match neighbor.on {
            Some(interface) => Ok(Recipient::Neighbor(neighbor.address, interface)),
            None => Err(Malformed::because("does not say on whose link the neighbour is")
                .remedy(format!("write the interface, too: {}%lan", neighbor.address))),
        }
    }
}

scalar!(Recipient);

/// What is wrong with a recipient, and what to do about it.
pub(super) type Wrong = (String, String);

/// What is wrong with the Ethernet address of a next hop.
pub(super) fn check_station(mac: MacAddr) -> Result<(), Wrong> {
    match mac.is_unicast() {
        true => Ok(()),
        false => Err((
            format!("{mac} is not the address of one station"),
            "write that of the next hop on the port's link".to_owned(),
        )),
    }
}

/// What is wrong with a neighbour to which packets of a family are sent: of an interface that is there, as far as its addresses tell. That there
/// is none, or that it has no neighbours, is told by the program, which knows whose interfaces are.
pub(super) fn check_neighbor(address: IpAddr, interface: &str, is_six: bool, env: &Env<'_>) -> Result<(), Wrong> {
    if is_six && address.is_ipv4() {
        // An IPv4 packet may go by a neighbour that is known by its IPv6 address (RFC 8950), and not the other way round.
        let problem = format!("an IPv6 packet cannot go by {address}");
        return Err((problem, "write the neighbour's IPv6 address".to_owned()));
    }
    let Some(own) = addresses_of(interface, env) else { return Ok(()) };
    match address {
        IpAddr::V4(address) => check_on_link::<Ipv4Addr>(address, interface, &own),
        IpAddr::V6(address) => check_on_link::<Ipv6Addr>(address, interface, &own),
    }
}

/// The addresses of a declared interface, or of a port.
fn addresses_of(interface: &str, env: &Env<'_>) -> Option<Vec<IpNet>> {
    let declared = env.interfaces.iter().find(|info| info.name == interface).map(|info| &info.addresses);
    let of_port = || env.ports.iter().find(|info| info.name == interface).map(|info| &info.addresses);
    Some(declared.or_else(of_port)?.iter().map(|address| address.net()).collect())
}

fn check_on_link<A: Family>(address: A, interface: &str, own: &[IpNet]) -> Result<(), Wrong> {
    let ours: Vec<InterfaceAddress<A>> =
        own.iter().filter_map(|net| InterfaceAddress::new(0, A::Prefix::of(*net)?).ok()).collect();
    let networks: Vec<String> = ours.iter().map(|own| own.network().to_string()).collect();
    let hosts = || match networks.is_empty() {
        true => format!("give {interface} an {} address, or name another interface", A::NAME),
        false => format!("write the address of a host of {}", networks.join(", ")),
    };
    let wrong = |problem: String| Err((format!("{address} {problem}"), hosts()));
    if !address.is_source() {
        return wrong("is not the address of one host".to_owned());
    }
    match ours.iter().map(|own| own.kind(address)).find(|kind| *kind != AddressKind::Elsewhere) {
        Some(AddressKind::OnLink) => Ok(()),
        Some(AddressKind::Own) => wrong(format!("is the address of {interface} itself")),
        Some(AddressKind::SubnetBroadcast) => wrong("is the broadcast address of its network".to_owned()),
        Some(AddressKind::Network) => wrong("is the address of the network itself".to_owned()),
        // Every interface with IPv6 has the network of its link.
        None if address.is_link_local() && !ours.is_empty() => Ok(()),
        Some(AddressKind::Elsewhere) | None => wrong(format!("is on no network of {interface}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_read_as_they_are_written() {
        for text in ["02:00:00:00:01:02", "10.0.0.2%lan", "fe80::2%lan.100", "2001:db8::2%r-lan"] {
            assert_eq!(Recipient::parse(text).unwrap().to_string(), text);
        }
        let said = |text| Recipient::parse(text).unwrap_err().problem;
        assert_eq!(said("10.0.0.2"), "does not say on whose link the neighbour is");
        assert_eq!(said("lan"), format!("is not {}", Recipient::WHAT));
        assert!(said("10.0.0.2%").contains("names an interface \"\""));
        assert!(said("10.0.0%lan").starts_with("is not "));
    }

    #[test]
    fn a_neighbour_is_a_host_on_a_network_of_the_interface() {
        let own: Vec<IpNet> = ["10.0.0.1/24", "10.0.9.1/31"].iter().map(|text| text.parse().unwrap()).collect();
        let said = |text: &str| check_on_link::<Ipv4Addr>(text.parse().unwrap(), "lan", &own).map_err(|wrong| wrong.0);
        assert_eq!((said("10.0.0.2"), said("10.0.9.0")), (Ok(()), Ok(())));
        for (address, problem) in [
            ("10.0.0.1", "is the address of lan itself"),
            ("10.0.0.255", "is the broadcast address of its network"),
            ("10.0.0.0", "is the address of the network itself"),
            ("10.0.1.2", "is on no network of lan"),
            ("224.0.0.5", "is not the address of one host"),
        ] {
            assert_eq!(said(address), Err(format!("{address} {problem}")));
        }
    }

    #[test]
    fn a_link_local_neighbour_takes_an_interface_with_ipv6() {
        let said = |own: &[&str]| {
            let own: Vec<IpNet> = own.iter().map(|text| text.parse().unwrap()).collect();
            check_on_link::<Ipv6Addr>("fe80::9".parse().unwrap(), "lan", &own).map_err(|wrong| wrong.1)
        };
        assert_eq!(said(&["10.0.0.1/24", "2001:db8::1/64"]), Ok(()));
        assert_eq!(said(&["10.0.0.1/24"]), Err("give lan an IPv6 address, or name another interface".to_owned()));
    }
}
