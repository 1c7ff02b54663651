//! Where a route goes on, and which neighbour is meant, as people write it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use weir_config::{INTERFACE_NAME, Malformed, Scalar, scalar};
use weir_net::rib::Discard;

/// Where a route goes on.
///
/// | text | meaning |
/// |---|---|
/// | `192.0.2.9` | by this router, on whichever connected network of the VRF it is |
/// | `fe80::9%lan` | by this router, on the link of the interface `lan`: needed for link-local addresses, and for interfaces of another VRF |
/// | `%lan` | the destinations themselves are on the link of the interface `lan` |
/// | `@lwaftr` | into the function, by the inlet of this name: so its prefixes are led to it from other VRFs, too |
/// | `blackhole`, `unreachable`, `prohibit` | nowhere |
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Via {
    /// By a router.
    Gateway(IpAddr),
    /// By a router on the link of an interface.
    GatewayOn(IpAddr, Box<str>),
    /// On the link of an interface.
    On(Box<str>),
    /// Into the function by one of its inlets, with what it is told; people do not tell it anything.
    Into(Box<str>, Option<u32>),
    /// Nowhere.
    Discard(Discard),
}

impl From<std::net::Ipv4Addr> for Via {
    fn from(gateway: std::net::Ipv4Addr) -> Via {
        Via::Gateway(gateway.into())
    }
}

impl From<std::net::Ipv6Addr> for Via {
    fn from(gateway: std::net::Ipv6Addr) -> Via {
        Via::Gateway(gateway.into())
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::Gateway(gateway) => gateway.fmt(f),
            Via::GatewayOn(gateway, interface) => write!(f, "{gateway}%{interface}"),
            Via::On(interface) => write!(f, "%{interface}"),
            Via::Into(inlet, None) => write!(f, "@{inlet}"),
            Via::Into(inlet, Some(argument)) => write!(f, "@{inlet}:{argument}"),
            Via::Discard(discard) => discard.fmt(f),
        }
    }
}

impl Scalar for Via {
    const WHAT: &'static str = "a next hop";
    const EXAMPLE: &'static str = "192.0.2.9";

    fn parse(text: &str) -> Result<Via, Malformed> {
        if let Some(discard) = Discard::ALL.into_iter().find(|discard| discard.name() == text) {
            return Ok(Via::Discard(discard));
        }
        if let Some(inlet) = text.strip_prefix('@') {
            // Behind a colon stands what only functions say.
            return match (INTERFACE_NAME.matches)(inlet) && !inlet.contains(':') {
                true => Ok(Via::Into(inlet.into(), None)),
                false => Err(no_next_hop()),
            };
        }
        match text.split_once('%') {
            None => IpAddr::from_str(text).map(Via::Gateway).map_err(|_| no_next_hop()),
            Some(("", interface)) => Ok(Via::On(interface_of(interface)?)),
            Some((address, interface)) => {
                let gateway = IpAddr::from_str(address).map_err(|_| no_next_hop())?;
                Ok(Via::GatewayOn(gateway, interface_of(interface)?))
            }
        }
    }
}

fn no_next_hop() -> Malformed {
    Malformed::not::<Via>()
        .remedy("write an address, one with its interface (fe80::9%lan), %lan, blackhole, unreachable or prohibit")
}

/// A neighbour: an address, with the interface where the address does not tell it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedNeighbor {
    /// Its address.
    pub address: IpAddr,
    /// The name of the interface on whose link it is.
    pub on: Option<Box<str>>,
}

impl fmt::Display for NamedNeighbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.on {
            Some(on) => write!(f, "{}%{on}", self.address),
            None => self.address.fmt(f),
        }
    }
}

impl Scalar for NamedNeighbor {
    const WHAT: &'static str = "an IP address, or one with its interface (fe80::9%lan)";
    const EXAMPLE: &'static str = "192.0.2.9";

    fn parse(text: &str) -> Result<NamedNeighbor, Malformed> {
        let (address, on) = match text.split_once('%') {
            Some((address, interface)) => (address, Some(interface_of(interface)?)),
            None => (text, None),
        };
        let address = IpAddr::from_str(address).map_err(|_| Malformed::not::<NamedNeighbor>())?;
        Ok(NamedNeighbor { address, on })
    }
}

fn interface_of(text: &str) -> Result<Box<str>, Malformed> {
    match (INTERFACE_NAME.matches)(text) {
        true => Ok(text.into()),
        false => {
            Err(Malformed::because(format!("names an interface \"{text}\", which is not {}", INTERFACE_NAME.what))
                .write(format_args!("fe80::9%{}", INTERFACE_NAME.example)))
        }
    }
}

scalar!(Via, NamedNeighbor);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_are_read_as_they_are_written() {
        for text in ["192.0.2.9", "2001:db8::9", "fe80::9%lan.100", "192.0.2.9%lan", "%wan", "@lwaftr", "blackhole"] {
            assert_eq!(Via::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "192.0.2", "fe80::9%", "%", "%a b", "black", "192.0.2.0/24", "1%2%3", "@", "@a b", "@lwaftr:7"]
        {
            assert!(Via::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn neighbours_are_read_as_they_are_written() {
        for text in ["192.0.2.9", "2001:db8::9", "fe80::9%lan.100"] {
            assert_eq!(NamedNeighbor::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "%lan", "lan", "fe80::9%", "blackhole"] {
            assert!(NamedNeighbor::parse(text).is_err(), "{text}");
        }
    }
}
