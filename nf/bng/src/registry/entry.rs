//! What is said about a subscriber.

use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use weir_net::RouteSource;
use weir_wire::MacAddr;

use super::Settings;
use crate::table::counters::Sums;
use crate::table::{Address, BindingKey, Tags};

/// Bits of IPv6 addresses by which hosts are told apart: a line has whole networks.
pub(crate) const PREFIX_LENGTH: u8 = 64;

/// The shortest prefixes that a subscriber may have: 256 addresses, or networks.
pub(crate) const SHORTEST4: u8 = 24;
pub(crate) const SHORTEST6: u8 = 56;

/// What a source says about the subscriber behind a pair of tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) tags: Tags,
    pub(crate) fields: Fields,
}

/// What a subscriber has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// GRE key towards the core.
    pub(crate) key: Option<u32>,
    /// Number of the user in schedulers; its own number if nobody says.
    pub(crate) user: Option<u32>,
    /// Addresses and prefixes that it may use.
    pub(crate) ipv4: Vec<Ipv4Net>,
    pub(crate) ipv6: Vec<Ipv6Net>,
    /// The only MAC address that it may use.
    pub(crate) mac: Option<MacAddr>,
    /// Name of its profile for schedulers.
    pub(crate) profile: Option<Arc<str>>,
}

/// A subscriber.
#[derive(Debug)]
pub(crate) struct Subscriber {
    /// The same as long as it is there; it is counted by it.
    pub(crate) number: u32,
    pub(crate) tags: Tags,
    /// What each source says, the most preferred first; at least one.
    pub(crate) versions: Vec<(RouteSource, Fields)>,
    /// Addresses that were learned.
    pub(crate) learned: Vec<BindingKey>,
    /// What the number had counted before.
    pub(crate) zero: Sums,
    /// Changes of a learned address' MAC address that were seen, and when the next may be believed.
    pub(crate) moves: u32,
    pub(crate) next_move: u64,
}

impl Subscriber {
    pub(super) fn new(number: u32, tags: Tags, versions: Vec<(RouteSource, Fields)>, zero: Sums) -> Subscriber {
        Subscriber { number, tags, versions, learned: Vec::new(), zero, moves: 0, next_move: 0 }
    }

    /// What counts.
    pub(crate) fn fields(&self) -> &Fields {
        static NOTHING: Fields =
            Fields { key: None, user: None, ipv4: Vec::new(), ipv6: Vec::new(), mac: None, profile: None };
        self.versions.first().map_or(&NOTHING, |(_, fields)| fields)
    }

    /// Whose word counts.
    pub(crate) fn source(&self) -> RouteSource {
        self.versions.first().map_or(RouteSource::Config, |(source, _)| *source)
    }

    /// The user's number in schedulers.
    pub(crate) fn user(&self) -> u32 {
        self.fields().user.unwrap_or(self.number)
    }

    /// What parts its addresses from equal ones of others.
    pub(crate) fn scope(&self, settings: &Settings) -> u32 {
        if settings.has_keys { self.fields().key.unwrap_or(0) } else { 0 }
    }

    /// Whether an IPv6 network is a link of its own, in which hosts take addresses, and no part of a prefix that is routed to it.
    pub(crate) fn has_link6(&self, network: u64) -> bool {
        let mut networks = self.fields().ipv6.iter();
        networks.any(|prefix| prefix.prefix_len() == PREFIX_LENGTH && half(prefix.network()) == network)
    }

    /// Keys of its fixed addresses.
    pub(crate) fn fixed_keys(&self, settings: &Settings) -> Vec<BindingKey> {
        let scope = self.scope(settings);
        self.fields().addresses().map(|address| BindingKey::new(scope, address)).collect()
    }
}

impl Fields {
    /// The addresses and prefixes of both families.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = IpNet> {
        self.ipv4.iter().copied().map(IpNet::from).chain(self.ipv6.iter().copied().map(IpNet::from))
    }

    /// All fixed addresses, and the IPv6 networks.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        let v4 = self.ipv4.iter().flat_map(|prefix| {
            let first = prefix.network().to_bits();
            (first..=prefix.broadcast().to_bits()).map(|bits| Address::V4(bits.into()))
        });
        let v6 = self.ipv6.iter().flat_map(|prefix| {
            let (first, last) = (half(prefix.network()), half(prefix.broadcast()));
            (first..=last).map(Address::V6)
        });
        v4.chain(v6)
    }
}

/// The first half of an IPv6 address.
pub(crate) fn half(address: Ipv6Addr) -> u64 {
    (address.to_bits() >> 64) as u64
}

/// Tags with the name of their port: `access 100.7`.
pub(crate) struct Named<'a>(pub(crate) &'a Settings, pub(crate) Tags);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named(settings, Tags { port, svlan, cvlan }) = self;
        let port = settings.ports.get(*port as usize).map_or("?", String::as_str);
        write!(f, "{port} {svlan}.{cvlan}")
    }
}
