//! What routers tell hosts of themselves (RFC 4861 sections 4.1 and 4.2, RFC 8106), and how they are asked.

use std::net::Ipv6Addr;

use super::{Ends, HEADERS, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION, SOURCE_LINK_ADDRESS, link, valid};
use crate::MacAddr;
use crate::martian6::is_link_local;

const PREFIX_INFORMATION: u8 = 3;
const MTU: u8 = 5;
const DNS_SERVERS: u8 = 25;
const DNS_SEARCH: u8 = 31;

/// What a host asks that looks for routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterSolicitation {
    /// Its address; unspecified if it has none yet.
    pub source: Ipv6Addr,
    /// Its Ethernet address, if it says so.
    pub link: Option<MacAddr>,
}

/// The question for routers that an IPv6 packet is (RFC 4861 section 4.1). `None` for any other packet, and for one that is not valid
/// (section 6.1.1).
pub fn parse_router_solicitation(packet: &[u8]) -> Option<RouterSolicitation> {
    let (ip, _, options) = valid(packet, ROUTER_SOLICITATION, 8)?;
    let (source, link) = (ip.source_addr(), link(options, SOURCE_LINK_ADDRESS));
    // "If the IP source address is the unspecified address, there is no source link-layer address option in the message."
    let is_wrong = source.is_multicast() || source.is_unspecified() && link.is_some();
    (!is_wrong).then_some(RouterSolicitation { source, link })
}

/// Whether an IPv6 packet is a valid advertisement of a router (RFC 4861 section 6.1.2): "IP Source Address is a link-local address".
pub fn is_router_advertisement(packet: &[u8]) -> bool {
    valid(packet, ROUTER_ADVERTISEMENT, 16).is_some_and(|(ip, ..)| is_link_local(ip.source_addr().to_bits()))
}

/// A network of the link, as hosts are told of it (RFC 4861 section 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// Its address.
    pub prefix: Ipv6Addr,
    /// How many bits of it count.
    pub length: u8,
    /// Whether whoever has an address in it is on the link.
    pub on_link: bool,
    /// Whether hosts may take addresses in it (RFC 4862); only for 64 bits.
    pub autonomous: bool,
    /// For so many seconds it is true; `u32::MAX` is for ever.
    pub valid: u32,
    /// For so many seconds addresses in it are preferred.
    pub preferred: u32,
}

impl PrefixInformation {
    /// A network in which hosts take addresses, with the lifetimes of RFC 4861 section 6.2.1: 30 days and 7 days.
    pub const fn new(prefix: Ipv6Addr, length: u8) -> PrefixInformation {
        let (valid, preferred) = (2_592_000, 604_800);
        PrefixInformation { prefix, length, on_link: true, autonomous: length == 64, valid, preferred }
    }
}

/// Servers that translate names (RFC 8106 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dns<'a> {
    /// For so many seconds they may be asked.
    pub lifetime: u32,
    /// Their addresses.
    pub servers: &'a [Ipv6Addr],
}

/// Domains in which names are looked for (RFC 8106 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search<'a> {
    /// For so many seconds they are searched.
    pub lifetime: u32,
    /// Their names, labels parted by dots. Each label has 1 to 63 bytes; a name with another is left out.
    pub domains: &'a [String],
}

/// What a router tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement<'a> {
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its link-local address.
    pub own: Ipv6Addr,
    /// Whom it tells.
    pub to: (MacAddr, Ipv6Addr),
    /// Hop limit that hosts should use; 0 says nothing of it.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other things are to be had by DHCPv6.
    pub other: bool,
    /// Seconds for which it is a default router; 0 is none.
    pub lifetime: u16,
    /// Milliseconds for which a neighbour counts as reachable; 0 says nothing of it.
    pub reachable: u32,
    /// Milliseconds between solicitations; 0 says nothing of it.
    pub retransmit: u32,
    /// Bytes of the longest IPv6 packet, if it is told.
    pub mtu: Option<u32>,
    /// Networks of the link.
    pub prefixes: &'a [PrefixInformation],
    /// Servers that translate names, if there are any.
    pub dns: Option<Dns<'a>>,
    /// Domains in which names are looked for, if there are any.
    pub search: Option<Search<'a>>,
}

impl<'a> RouterAdvertisement<'a> {
    /// What a default router tells which leaves hosts their own times: hop limit 64, and no network.
    pub const fn new(mac: MacAddr, own: Ipv6Addr, to: (MacAddr, Ipv6Addr), lifetime: u16) -> RouterAdvertisement<'a> {
        RouterAdvertisement {
            mac,
            own,
            to,
            hop_limit: 64,
            managed: false,
            other: false,
            lifetime,
            reachable: 0,
            retransmit: 0,
            mtu: None,
            prefixes: &[],
            dns: None,
            search: None,
        }
    }

    /// The frame. The options have to fit a packet of the link's MTU: the caller's networks and names are as many as are configured.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut frame = vec![0; HEADERS];
        let flags = u8::from(self.managed) << 7 | u8::from(self.other) << 6;
        frame.extend([ROUTER_ADVERTISEMENT, 0, 0, 0, self.hop_limit, flags]);
        frame.extend(self.lifetime.to_be_bytes());
        frame.extend(self.reachable.to_be_bytes());
        frame.extend(self.retransmit.to_be_bytes());
        frame.extend([SOURCE_LINK_ADDRESS, 1]);
        frame.extend(self.mac.0);
        if let Some(mtu) = self.mtu {
            frame.extend([MTU, 1, 0, 0]);
            frame.extend(mtu.to_be_bytes());
        }
        self.prefixes.iter().for_each(|prefix| push_prefix(&mut frame, prefix));
        if let Some(dns) = self.dns.filter(|dns| !dns.servers.is_empty()) {
            push_servers(&mut frame, &dns);
        }
        if let Some(search) = self.search {
            push_search(&mut frame, &search);
        }
        Ends { from: (self.mac, self.own), to: self.to }.write_around(&mut frame);
        frame
    }
}

fn push_prefix(frame: &mut Vec<u8>, told: &PrefixInformation) {
    frame.extend([PREFIX_INFORMATION, 4, told.length]);
    frame.push(u8::from(told.on_link) << 7 | u8::from(told.autonomous) << 6);
    frame.extend(told.valid.to_be_bytes());
    frame.extend(told.preferred.to_be_bytes());
    frame.extend([0; 4]);
    // "The bits in the prefix after the prefix length are reserved and MUST be initialized to zero by the sender".
    let host = u128::MAX.checked_shr(u32::from(told.length)).unwrap_or(0);
    frame.extend((told.prefix.to_bits() & !host).to_be_bytes());
}

/// An option has at most 255 units of 8 bytes, so 127 servers.
fn push_servers(frame: &mut Vec<u8>, dns: &Dns<'_>) {
    let servers = dns.servers.get(..127).unwrap_or(dns.servers);
    frame.extend([DNS_SERVERS, 1 + 2 * servers.len() as u8, 0, 0]);
    frame.extend(dns.lifetime.to_be_bytes());
    servers.iter().for_each(|server| frame.extend(server.octets()));
}

/// Names as RFC 1035 section 3.1 writes them, filled up with zeroes to units of 8 bytes.
fn push_search(frame: &mut Vec<u8>, search: &Search<'_>) {
    let mut names = Vec::new();
    for domain in search.domains {
        let labels = domain.trim_end_matches('.').split('.');
        if !labels.clone().all(|label| (1..=63).contains(&label.len())) || names.len() + domain.len() + 2 > 254 * 8 {
            continue;
        }
        for label in labels {
            names.push(label.len() as u8);
            names.extend(label.as_bytes());
        }
        names.push(0);
    }
    if names.is_empty() {
        return;
    }
    names.resize(names.len().next_multiple_of(8), 0);
    frame.extend([DNS_SEARCH, 1 + (names.len() / 8) as u8, 0, 0]);
    frame.extend(search.lifetime.to_be_bytes());
    frame.extend(names);
}
