//! What hosts on a link are told of the router (RFC 4861 section 6.2): as it is configured, and as a message.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use weir_config::{Nanos, config};
use weir_net::Family;
use weir_net::InterfaceAddress;
use weir_net::advertise::Interval;
use weir_wire::MacAddr;
use weir_wire::nd::{Dns, PrefixInformation, RouterAdvertisement, Search};

use crate::InterfaceId;
use crate::config::seconds;
use crate::state::Control;

const DAY: u64 = 86_400;

config! {
    /// A network, as hosts are told of it (RFC 4861 section 4.6.2).
    pub struct AdvertisedPrefix {
        /// Whether whoever has an address in it is on the link.
        pub on_link: bool = default(true), live;
        /// Whether hosts take addresses in it by themselves (RFC 4862); only where it has 64 bits.
        pub autonomous: bool = default(true), live;
        /// For so long it is true.
        pub valid: Nanos = default(seconds(30 * DAY)), live, range(seconds(0)..=seconds(u32::MAX as u64));
        /// For so long addresses in it are preferred; at most as long as it is true.
        pub preferred: Nanos = default(seconds(7 * DAY)), live, range(seconds(0)..=seconds(u32::MAX as u64));
    }
}

config! {
    /// What hosts on an interface are told of the router: router advertisements (RFC 4861 section 6.2.1, RFC 8106).
    pub struct Advertise {
        /// The longest time between two advertisements; the shortest is a third of it (three quarters below nine seconds).
        pub interval: Nanos = default(seconds(600)), live, range(seconds(4)..=seconds(1800));
        /// How long hosts take it for a default router; three times the interval when absent, 0 for none.
        pub lifetime: Option<Nanos> = optional, live, range(seconds(0)..=seconds(9000));
        /// The hop limit that hosts should use; 0 leaves it to them.
        pub hop_limit: u8 = default(64), live;
        /// Whether addresses are to be had by DHCPv6.
        pub managed: bool = default(false), live;
        /// Whether other things are to be had by DHCPv6.
        pub other: bool = default(false), live;
        /// How long hosts should believe in a neighbour; absent leaves it to them.
        pub reachable: Option<Nanos> = optional, live, range(Nanos::new(1_000_000)..=seconds(3600));
        /// Time between two questions for a neighbour; absent leaves it to them.
        pub retransmit: Option<Nanos> = optional, live, range(Nanos::new(1_000_000)..=seconds(3600));
        /// Whether hosts are told the interface's MTU.
        pub mtu: bool = default(false), live;
        /// Networks that hosts are told of. Without any, they are told of those of the interface's addresses.
        pub prefixes: BTreeMap<Ipv6Net, AdvertisedPrefix> = empty, live;
        /// Servers that translate names (RFC 8106).
        pub dns: Vec<Ipv6Addr> = empty, live, length(0..=16);
        /// Domains in which names are looked for (RFC 8106).
        pub search: Vec<String> = empty, live, length(0..=8);
        /// How long servers and domains may be used; three times the interval when absent.
        pub dns_lifetime: Option<Nanos> = optional, live, range(seconds(0)..=seconds(u32::MAX as u64));
    }
}

const SECOND: u64 = 1_000_000_000;

fn in_seconds(nanos: Nanos) -> u32 {
    u32::try_from(nanos.nanos() / SECOND).unwrap_or(u32::MAX)
}

fn in_milliseconds(nanos: Option<Nanos>) -> u32 {
    nanos.map_or(0, |nanos| u32::try_from(nanos.nanos() / 1_000_000).unwrap_or(u32::MAX))
}

impl Advertise {
    /// Between which times one follows the other (RFC 4861 section 6.2.1: MinRtrAdvInterval).
    pub(crate) fn times(&self) -> Interval {
        let most = self.interval.nanos();
        let least = if most >= 9 * SECOND { most / 100 * 33 } else { most / 4 * 3 };
        Interval { least: least.max(3 * SECOND), most }
    }

    fn three_intervals(&self) -> Nanos {
        Nanos::new(3 * self.interval.nanos())
    }

    fn prefixes(&self, own: &[InterfaceAddress<Ipv6Addr>]) -> Vec<PrefixInformation> {
        if self.prefixes.is_empty() {
            let wide = own.iter().filter(|own| !Family::is_link_local(own.address()));
            let mut nets: Vec<Ipv6Net> = wide.map(InterfaceAddress::network).collect();
            nets.sort_unstable();
            nets.dedup();
            return nets.iter().map(|net| PrefixInformation::new(net.addr(), net.prefix_len())).collect();
        }
        let told = |(net, told): (&Ipv6Net, &AdvertisedPrefix)| {
            let (valid, preferred) = (in_seconds(told.valid), in_seconds(told.preferred));
            PrefixInformation {
                prefix: net.addr(),
                length: net.prefix_len(),
                on_link: told.on_link,
                autonomous: told.autonomous && net.prefix_len() == 64,
                valid,
                preferred: preferred.min(valid),
            }
        };
        self.prefixes.iter().map(told).collect()
    }
}

impl Control {
    /// The frame that tells `to` of the router by an interface, to be sent from its link-local address; `None` if nothing is to be told, or that
    /// address may not be used yet. If it `is_last`, the router is none any more.
    pub(crate) fn advertisement(&self, id: InterfaceId, to: (MacAddr, Ipv6Addr), is_last: bool) -> Option<Vec<u8>> {
        let told = self.advertisements.get(self.name_of(id))?;
        let link = self.link(id)?;
        let own = self.addresses_on::<Ipv6Addr>(id);
        let from = own.iter().map(InterfaceAddress::address).find(|own| Family::is_link_local(*own))?;
        if !self.six.is_usable(id, from) {
            return None;
        }
        let lifetime = told.lifetime.unwrap_or(told.three_intervals());
        let lifetime = if is_last { 0 } else { u16::try_from(in_seconds(lifetime)).unwrap_or(u16::MAX).min(9000) };
        let names = in_seconds(told.dns_lifetime.unwrap_or(told.three_intervals()));
        let (prefixes, domains) = (told.prefixes(own), &told.search);
        let advertisement = RouterAdvertisement {
            hop_limit: told.hop_limit,
            managed: told.managed,
            other: told.other,
            reachable: in_milliseconds(told.reachable),
            retransmit: in_milliseconds(told.retransmit),
            mtu: told.mtu.then_some(link.mtu.into()),
            prefixes: &prefixes,
            dns: (!told.dns.is_empty()).then_some(Dns { lifetime: names, servers: &told.dns }),
            search: (!domains.is_empty()).then_some(Search { lifetime: names, domains }),
            ..RouterAdvertisement::new(link.mac, from, to, lifetime)
        };
        Some(advertisement.to_frame())
    }

    /// Whether hosts on the link of an interface are told of the router by Weir.
    pub(crate) fn advertises_on(&self, id: InterfaceId) -> bool {
        self.advertisements.contains_key(self.name_of(id))
    }

    /// Lets an interface advertise from now on, or not any more, as it is configured and up.
    pub(crate) fn advertise_on(&mut self, id: InterfaceId, now: u64) {
        let told = self.advertisements.get(self.name_of(id));
        let own = self.addresses_on::<Ipv6Addr>(id).iter().map(InterfaceAddress::address);
        let can = own.filter(|own| Family::is_link_local(*own)).any(|own| self.six.is_usable(id, own));
        match told.map(Advertise::times).filter(|_| can) {
            Some(times) => self.advertiser.start(now, id, times),
            None if can => self.advertiser.stop(now, id),
            None => self.advertiser.forget(id),
        }
    }

    /// What hosts are told is this from now on.
    pub(crate) fn set_advertisements(&mut self, wanted: BTreeMap<String, Advertise>, now: u64) {
        let before = std::mem::replace(&mut self.advertisements, wanted);
        let names = before.keys().chain(self.advertisements.keys());
        let changed = names.filter(|name| before.get(*name) != self.advertisements.get(*name));
        let ids: Vec<InterfaceId> =
            changed.filter_map(|name| self.interfaces.find(name)).map(|interface| interface.id).collect();
        ids.into_iter().for_each(|id| self.advertise_on(id, now));
    }
}
