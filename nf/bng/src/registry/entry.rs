//! What is said about a subscriber.

use std::fmt;
use std::net::Ipv6Addr;

use ipnet::IpNet;
use weir_config::OneOrMany;
use weir_net::RouteSource;
use weir_wire::MacAddr;

use super::Settings;
use crate::config::SubscriberConfig;
use crate::table::counters::Sums;
use crate::table::{Address, BindingKey, Tags};
use crate::words::{Source4, Source6};

/// Bits of IPv6 addresses by which hosts are told apart: a line has whole networks.
pub(crate) const PREFIX_LENGTH: u8 = 64;

/// The shortest prefixes that a subscriber may have: 256 addresses, or networks.
pub(crate) const SHORTEST4: u8 = 24;
pub(crate) const SHORTEST6: u8 = 56;

/// What a source says about the subscriber behind a pair of tags.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) tags: Tags,
    /// What it has. It names no port, which stands in the tags.
    pub(crate) fields: SubscriberConfig,
}

impl Entry {
    /// What a source said, whatever name of the port it gave.
    pub(crate) fn new(tags: Tags, said: SubscriberConfig) -> Entry {
        Entry { tags, fields: SubscriberConfig { port: None, ..said } }
    }
}

/// A subscriber.
#[derive(Debug)]
pub(crate) struct Subscriber {
    /// The same as long as it is there; it is counted by it.
    pub(crate) number: u32,
    pub(crate) tags: Tags,
    /// What each source says, the most preferred first; at least one.
    pub(crate) versions: Vec<(RouteSource, SubscriberConfig)>,
    /// Addresses that were learned.
    pub(crate) learned: Vec<BindingKey>,
    /// What the number had counted before.
    pub(crate) zero: Sums,
    /// Changes of a learned address' MAC address that were seen, and when the next may be believed.
    pub(crate) moves: u32,
    pub(crate) next_move: u64,
}

impl Subscriber {
    pub(super) fn new(
        number: u32,
        tags: Tags,
        versions: Vec<(RouteSource, SubscriberConfig)>,
        zero: Sums,
    ) -> Subscriber {
        Subscriber { number, tags, versions, learned: Vec::new(), zero, moves: 0, next_move: 0 }
    }

    /// What counts.
    pub(crate) fn fields(&self) -> &SubscriberConfig {
        static NOTHING: SubscriberConfig = SubscriberConfig::behind(0, 0);
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
        networks.any(|prefix| prefix.0.prefix_len() == PREFIX_LENGTH && half(prefix.0.network()) == network)
    }

    /// Keys of its fixed addresses.
    pub(crate) fn fixed_keys(&self, settings: &Settings) -> Vec<BindingKey> {
        let scope = self.scope(settings);
        self.fields().addresses().map(|address| BindingKey::new(scope, address)).collect()
    }
}

impl SubscriberConfig {
    /// Whoever is behind these tags, and has nothing.
    pub(crate) const fn behind(svlan: u16, cvlan: u16) -> SubscriberConfig {
        SubscriberConfig {
            port: None,
            svlan,
            cvlan,
            key: None,
            user: None,
            ipv4: OneOrMany(Vec::new()),
            ipv6: OneOrMany(Vec::new()),
            mac: None,
            profile: None,
        }
    }

    /// The only Ethernet address that it may use.
    pub(crate) fn only_mac(&self) -> Option<MacAddr> {
        self.mac.map(|mac| MacAddr(mac.octets()))
    }

    /// The name of its profile.
    pub(crate) fn profile(&self) -> Option<&str> {
        self.profile.as_ref().map(|profile| &*profile.0)
    }

    /// The addresses and prefixes of both families.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = IpNet> {
        let ipv4 = self.ipv4.iter().map(|source| IpNet::from(source.0));
        ipv4.chain(self.ipv6.iter().map(|source| IpNet::from(source.0)))
    }

    /// All fixed addresses, and the IPv6 networks.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        let v4 = self.ipv4.iter().flat_map(|Source4(prefix)| {
            let first = prefix.network().to_bits();
            (first..=prefix.broadcast().to_bits()).map(|bits| Address::V4(bits.into()))
        });
        let v6 = self.ipv6.iter().flat_map(|Source6(prefix)| {
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
