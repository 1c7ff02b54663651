//! The two address families, so that what holds routes, addresses and neighbours is written once.
//!
//! A family is known by its address type, and a prefix knows its family: so callers name neither, but hand in what they have.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_wire::{martian, martian6};

/// An address of one family: [`Ipv4Addr`] or [`Ipv6Addr`].
pub trait Family: Copy + Ord + Hash + Debug + Display + Into<IpAddr> + Send + Sync + 'static {
    /// Prefixes of such addresses.
    type Prefix: Prefix<Address = Self>;

    /// Bits of an address.
    const BITS: u8;

    /// What the family is called.
    const NAME: &'static str;

    /// The lowest address: no host's in either family.
    const UNSPECIFIED: Self;

    /// The highest address.
    const LAST: Self;

    /// The address, if it is one of this family.
    fn of(address: IpAddr) -> Option<Self>;

    /// Whether the address counts only on one link, so that it says nothing without an interface.
    fn is_link_local(self) -> bool;

    /// Whether a packet may come from the address, so that a host may have it.
    fn is_source(self) -> bool;

    /// The lowest 32 bits, in which neighbours on a link differ most.
    fn low_bits(self) -> u32;
}

/// A network: an address and how many of its first bits count.
pub trait Prefix: Copy + Ord + Hash + Debug + Display + Into<IpNet> + Send + Sync + 'static {
    /// Its addresses.
    type Address: Family<Prefix = Self>;

    /// The network of this length around an address, host bits cleared; `None` if the length is beyond that of an address.
    fn around(address: Self::Address, length: u8) -> Option<Self>;

    /// The address that it was made of, host bits as they were given.
    fn address(&self) -> Self::Address;

    /// How many bits count.
    fn length(&self) -> u8;

    /// The same network, host bits cleared.
    fn network(&self) -> Self;

    /// Whether an address lies in it.
    fn holds(&self, address: Self::Address) -> bool;

    /// The address with all host bits set, where the family has broadcasts.
    fn broadcast(&self) -> Option<Self::Address>;

    /// The network, if it is one of this family.
    fn of(net: IpNet) -> Option<Self>;
}

impl Family for Ipv4Addr {
    type Prefix = Ipv4Net;
    const BITS: u8 = 32;
    const NAME: &'static str = "IPv4";
    const UNSPECIFIED: Self = Ipv4Addr::UNSPECIFIED;
    const LAST: Self = Ipv4Addr::BROADCAST;

    fn of(address: IpAddr) -> Option<Self> {
        if let IpAddr::V4(address) = address { Some(address) } else { None }
    }

    /// RFC 3927 addresses are used as any others here: a network of them has to be connected.
    fn is_link_local(self) -> bool {
        false
    }

    fn is_source(self) -> bool {
        !martian::is_martian_source(self.to_bits())
    }

    fn low_bits(self) -> u32 {
        self.to_bits()
    }
}

impl Family for Ipv6Addr {
    type Prefix = Ipv6Net;
    const BITS: u8 = 128;
    const NAME: &'static str = "IPv6";
    const UNSPECIFIED: Self = Ipv6Addr::UNSPECIFIED;
    const LAST: Self = Ipv6Addr::from_bits(u128::MAX);

    fn of(address: IpAddr) -> Option<Self> {
        if let IpAddr::V6(address) = address { Some(address) } else { None }
    }

    fn is_link_local(self) -> bool {
        martian6::is_link_local(self.to_bits())
    }

    fn is_source(self) -> bool {
        !martian6::is_martian_source(self.to_bits())
    }

    fn low_bits(self) -> u32 {
        self.to_bits() as u32
    }
}

macro_rules! prefix {
    ($net:ty, $address:ty, $variant:ident, $has_broadcast:literal) => {
        impl Prefix for $net {
            type Address = $address;

            fn around(address: $address, length: u8) -> Option<Self> {
                Self::new(address, length).ok().map(|net| net.trunc())
            }

            fn address(&self) -> $address {
                self.addr()
            }

            fn length(&self) -> u8 {
                self.prefix_len()
            }

            fn network(&self) -> Self {
                self.trunc()
            }

            fn holds(&self, address: $address) -> bool {
                self.contains(&address)
            }

            fn broadcast(&self) -> Option<$address> {
                $has_broadcast.then(|| Self::broadcast(self))
            }

            fn of(net: IpNet) -> Option<Self> {
                if let IpNet::$variant(net) = net { Some(net) } else { None }
            }
        }
    };
}

prefix!(Ipv4Net, Ipv4Addr, V4, true);
prefix!(Ipv6Net, Ipv6Addr, V6, false);

#[cfg(test)]
mod tests {
    use super::*;

    fn agree<A: Family>(texts: &[&str], other: IpAddr) {
        assert_eq!(A::of(other), None);
        for text in texts {
            let net: IpNet = text.parse().unwrap();
            let prefix = A::Prefix::of(net).unwrap();
            assert_eq!((prefix.into(), prefix.length()), (net, net.prefix_len()));
            assert_eq!((prefix.address().into(), prefix.network().into()), (net.addr(), net.trunc()));
            assert_eq!(A::Prefix::around(prefix.address(), prefix.length()), Some(prefix.network()));
            assert!(prefix.holds(prefix.address()) && prefix.holds(A::LAST) == (prefix.length() == 0));
            assert_eq!(A::of(net.addr()), Some(prefix.address()));
        }
        assert_eq!(A::Prefix::around(A::LAST, A::BITS + 1), None);
    }

    #[test]
    fn what_is_generic_agrees_with_what_is_not() {
        agree::<Ipv4Addr>(&["0.0.0.0/0", "10.1.2.3/8", "192.0.2.1/32"], "::".parse().unwrap());
        agree::<Ipv6Addr>(&["::/0", "2001:db8::7/64", "fe80::1/128"], "0.0.0.0".parse().unwrap());
        assert_eq!(<Ipv4Net as Prefix>::of("::/0".parse().unwrap()), None);
    }

    #[test]
    fn link_local_is_fe80_of_ipv6() {
        for (text, expected) in [("fe80::1", true), ("febf::1", true), ("fec0::1", false), ("2001:db8::1", false)] {
            assert_eq!(text.parse::<Ipv6Addr>().unwrap().is_link_local(), expected, "{text}");
        }
        assert!(!Family::is_link_local(Ipv4Addr::new(169, 254, 0, 1)));
    }
}
