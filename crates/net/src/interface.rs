//! An address of an interface, and what other addresses are to it.

use crate::family::{Family, Prefix};
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// The number of an interface.
pub type InterfaceId = u16;

/// What an address is, seen from one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// The interface's own address.
    Own,
    /// The broadcast address of its subnet; never in IPv6, which has none.
    SubnetBroadcast,
    /// The address of the subnet itself, all host bits zero. In IPv4 an obsolete form of a broadcast, for no host: RFC 1812 section
    /// 4.2.3.1: packets to it SHOULD be silently discarded, else be treated as broadcasts. In IPv6 the anycast address of the subnet's
    /// routers, and so an own one (RFC 4291 section 2.6.1).
    Network,
    /// Another host of its subnet.
    OnLink,
    /// Outside its subnet.
    Elsewhere,
}

/// An address cannot be given to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAddress {
    /// Not a unicast address that may appear as a source (RFC 1812 section 5.3.7, RFC 6890).
    NotUnicast(IpAddr),
    /// The address is the network's own (all host bits zero).
    NetworkAddress(IpNet),
    /// The address is the subnet's broadcast address (all host bits one).
    BroadcastAddress(IpNet),
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadAddress::NotUnicast(address) => write!(f, "{address} is not a unicast address"),
            BadAddress::NetworkAddress(net) => {
                write!(f, "{} is the address of the network {} itself; choose one inside it", net.addr(), net.trunc())
            }
            BadAddress::BroadcastAddress(net) => {
                write!(f, "{} is the broadcast address of {}; choose one inside it", net.addr(), net.trunc())
            }
        }
    }
}

impl std::error::Error for BadAddress {}

/// One address of one interface, with the subnet that is reached there.
///
/// A prefix that leaves one bit joins exactly two routers and has neither network nor broadcast address (RFC 3021 section 2.2, RFC
/// 6164); one that leaves none has only the address itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceAddress<A: Family = Ipv4Addr> {
    interface: InterfaceId,
    net: A::Prefix,
}

impl<A: Family> InterfaceAddress<A> {
    /// The address of `net`, with its subnet, on `interface`.
    ///
    /// # Errors
    /// The address is not one that a host can have.
    pub fn new(interface: InterfaceId, net: A::Prefix) -> Result<Self, BadAddress> {
        let assigned = InterfaceAddress { interface, net };
        if !net.address().is_source() {
            Err(BadAddress::NotUnicast(net.address().into()))
        } else if assigned.is_network_address(net.address()) {
            Err(BadAddress::NetworkAddress(net.into()))
        } else if assigned.is_subnet_broadcast(net.address()) {
            Err(BadAddress::BroadcastAddress(net.into()))
        } else {
            Ok(assigned)
        }
    }

    /// The interface.
    pub const fn interface(&self) -> InterfaceId {
        self.interface
    }

    /// The interface's own address.
    pub fn address(&self) -> A {
        self.net.address()
    }

    /// Address and prefix length as they were given.
    pub const fn net(&self) -> A::Prefix {
        self.net
    }

    /// The connected network: host bits are zero.
    pub fn network(&self) -> A::Prefix {
        self.net.network()
    }

    /// Whether `address` is the interface's own.
    pub fn is_own(&self, address: A) -> bool {
        address == self.net.address()
    }

    /// Whether `address` lies in the interface's subnet, be it the own, broadcast or network address.
    pub fn is_on_link(&self, address: A) -> bool {
        self.net.holds(address)
    }

    /// The subnet's broadcast address; `None` for subnets that have none.
    pub fn subnet_broadcast(&self) -> Option<A> {
        self.net.broadcast().filter(|_| self.is_larger_than_two())
    }

    /// Whether `address` is the subnet's broadcast address.
    pub fn is_subnet_broadcast(&self, address: A) -> bool {
        self.subnet_broadcast() == Some(address)
    }

    /// Whether `address` is that of the subnet itself; never where a subnet has two addresses or one.
    pub fn is_network_address(&self, address: A) -> bool {
        self.is_larger_than_two() && address == self.net.network().address()
    }

    fn is_larger_than_two(&self) -> bool {
        self.net.length() + 1 < A::BITS
    }

    /// What `address` is to this interface.
    pub fn kind(&self, address: A) -> AddressKind {
        if self.is_own(address) {
            AddressKind::Own
        } else if self.is_subnet_broadcast(address) {
            AddressKind::SubnetBroadcast
        } else if self.is_network_address(address) {
            AddressKind::Network
        } else if self.is_on_link(address) {
            AddressKind::OnLink
        } else {
            AddressKind::Elsewhere
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use ipnet::{Ipv4Net, Ipv6Net};
    use std::net::Ipv6Addr;

    fn interface(net: &str) -> Result<InterfaceAddress, BadAddress> {
        InterfaceAddress::new(1, net.parse().unwrap())
    }

    #[test]
    fn an_ordinary_subnet_has_network_and_broadcast_address() {
        let interface = interface("192.0.2.9/24").unwrap();
        let kind = |last| interface.kind(Ipv4Addr::new(192, 0, 2, last));
        assert_eq!(kind(9), AddressKind::Own);
        assert_eq!(kind(0), AddressKind::Network);
        assert_eq!(kind(255), AddressKind::SubnetBroadcast);
        assert!((0..=255).filter(|&last| kind(last) == AddressKind::OnLink).count() == 253);
        assert_eq!(interface.kind(Ipv4Addr::new(192, 0, 3, 9)), AddressKind::Elsewhere);
        assert_eq!(interface.network(), "192.0.2.0/24".parse().unwrap());
    }

    #[test]
    fn a_slash_31_is_two_hosts_and_nothing_else() {
        for (own, other) in [("10.0.0.0", "10.0.0.1"), ("10.0.0.1", "10.0.0.0")] {
            let interface = interface(&format!("{own}/31")).unwrap();
            assert_eq!(interface.kind(own.parse().unwrap()), AddressKind::Own);
            assert_eq!(interface.kind(other.parse().unwrap()), AddressKind::OnLink);
            assert_eq!(interface.kind(Ipv4Addr::new(10, 0, 0, 2)), AddressKind::Elsewhere);
            assert_eq!(interface.subnet_broadcast(), None);
        }
    }

    #[test]
    fn a_slash_32_is_one_host() {
        let interface = interface("10.0.0.255/32").unwrap();
        assert_eq!(interface.kind(Ipv4Addr::new(10, 0, 0, 255)), AddressKind::Own);
        assert_eq!(interface.kind(Ipv4Addr::new(10, 0, 0, 254)), AddressKind::Elsewhere);
        assert_eq!(interface.subnet_broadcast(), None);
    }

    #[test]
    fn addresses_that_no_host_can_have_are_refused() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        assert_eq!(interface("10.0.0.0/30"), Err(BadAddress::NetworkAddress(net("10.0.0.0/30"))));
        assert_eq!(interface("10.0.0.3/30"), Err(BadAddress::BroadcastAddress(net("10.0.0.3/30"))));
        for martian in ["0.0.0.1", "127.0.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1"] {
            let address = martian.parse().unwrap();
            assert_eq!(interface(&format!("{martian}/32")), Err(BadAddress::NotUnicast(address)));
        }
        let text = interface("10.0.0.3/30").unwrap_err().to_string();
        assert_eq!(text, "10.0.0.3 is the broadcast address of 10.0.0.0/30; choose one inside it");
    }

    /// RFC 4291 section 2.6.1: the address of the subnet is its routers' anycast address. RFC 6164: but not on a /127. There is no
    /// broadcast.
    #[test]
    fn an_ipv6_subnet_has_no_broadcast() {
        let interface = |net: &str| InterfaceAddress::<Ipv6Addr>::new(1, net.parse::<Ipv6Net>().unwrap());
        let own = interface("2001:db8::9/64").unwrap();
        let kind = |text: &str| own.kind(text.parse().unwrap());
        assert_eq!(kind("2001:db8::9"), AddressKind::Own);
        assert_eq!(kind("2001:db8::"), AddressKind::Network);
        assert_eq!(kind("2001:db8::ffff:ffff:ffff:ffff"), AddressKind::OnLink);
        assert_eq!(kind("2001:db8:0:1::9"), AddressKind::Elsewhere);
        assert_eq!(own.subnet_broadcast(), None);
        let net: IpNet = "2001:db8::/126".parse().unwrap();
        assert_eq!(interface("2001:db8::/126"), Err(BadAddress::NetworkAddress(net)));
        assert!(interface("2001:db8::ff/120").is_ok() && interface("fe80::1/64").is_ok());
        assert!(interface("2001:db8::/127").is_ok() && interface("2001:db8::/128").is_ok());
        for martian in ["::", "::1", "ff02::1", "::ffff:10.0.0.1"] {
            let address = martian.parse().unwrap();
            assert_eq!(interface(&format!("{martian}/128")), Err(BadAddress::NotUnicast(address)));
        }
    }

    proptest! {
        #[test]
        fn kinds_follow_the_bits(own: u32, length in 0u8..=32, other: u32) {
            let net = Ipv4Net::new(own.into(), length).unwrap();
            let Ok(interface) = InterfaceAddress::<Ipv4Addr>::new(0, net) else { return Ok(()) };
            let host_bits = if length == 0 { u32::MAX } else { (1u64 << (32 - length)) as u32 - 1 };
            for other in [other, own & !host_bits | other & host_bits, own & !host_bits, own | host_bits, own] {
                let expected = match other & host_bits {
                    _ if other == own => AddressKind::Own,
                    _ if other & !host_bits != own & !host_bits => AddressKind::Elsewhere,
                    0 if length < 31 => AddressKind::Network,
                    bits if bits == host_bits && length < 31 => AddressKind::SubnetBroadcast,
                    _ => AddressKind::OnLink,
                };
                prop_assert_eq!(interface.kind(other.into()), expected);
            }
        }
    }
}
