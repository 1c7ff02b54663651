//! From the bytes of a message to what it tells.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{DecodeError, Parseable};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteProtocol, RouteType, RouteVia,
};
use weir_net::mirror::{Leads, Object, Teller, Told, Way};
use weir_net::rib::Discard;

use super::News;
use crate::netlink::{attributes, u16_at, u32_at};

/// Message types of `linux/rtnetlink.h`.
const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const DEL_ADDRESS: u16 = 21;
const NEW_ROUTE: u16 = 24;
const DEL_ROUTE: u16 = 25;
const NEW_NEIGHBOR: u16 = 28;
const DEL_NEIGHBOR: u16 = 29;
const NEW_NEXT_HOP: u16 = 104;
const DEL_NEXT_HOP: u16 = 105;

/// `NLM_F_APPEND`.
const APPEND: u16 = 0x800;

/// What a message of the kernel's tells; nothing if it is of no concern here.
///
/// # Errors
///
/// It makes no sense.
pub fn decode(kind: u16, flags: u16, body: &[u8]) -> Result<Option<News>, DecodeError> {
    decode_of(Teller::Kernel, kind, flags, body)
}

/// The same of a message of a routing daemon's, which speaks as the kernel does.
///
/// # Errors
///
/// It makes no sense.
pub fn decode_daemon(kind: u16, flags: u16, body: &[u8]) -> Result<Option<News>, DecodeError> {
    decode_of(Teller::Daemon, kind, flags, body)
}

fn decode_of(teller: Teller, kind: u16, flags: u16, body: &[u8]) -> Result<Option<News>, DecodeError> {
    Ok(match kind {
        NEW_LINK | DEL_LINK => link(body, kind == DEL_LINK),
        NEW_ADDRESS | DEL_ADDRESS => address(body, kind == DEL_ADDRESS),
        NEW_NEIGHBOR | DEL_NEIGHBOR => neighbor(body, kind == DEL_NEIGHBOR),
        NEW_NEXT_HOP | DEL_NEXT_HOP => next_hop(body, kind == DEL_NEXT_HOP),
        NEW_ROUTE | DEL_ROUTE => {
            let route = RouteMessage::parse(checked(body)?)?;
            let (gone, behind) = (kind == DEL_ROUTE, flags & APPEND != 0);
            told(teller, &route, gone).map(|(table, told)| News::Route { table, told, gone, behind })
        }
        _ => None,
    })
}

/// The body of a message about a route, which has a fixed part.
fn checked(body: &[u8]) -> Result<&[u8], DecodeError> {
    /// Length of `struct rtmsg`.
    const FIXED: usize = 12;
    if body.len() < FIXED { Err(DecodeError::buffer_too_small(body.len(), FIXED)) } else { Ok(body) }
}

fn link(body: &[u8], gone: bool) -> Option<News> {
    const FIXED: usize = 16;
    const IFLA_IFNAME: u16 = 3;
    const IFF_UP: u32 = 1;
    // Of bridges' ports it tells in another family, too.
    if *body.first()? != 0 {
        return None;
    }
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let name = attributes(body, FIXED).find(|(kind, _)| *kind == IFLA_IFNAME).map(|(_, name)| name)?;
    let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next()?).into_owned();
    Some(News::Link { index, name, up: flags & IFF_UP != 0 && !gone, gone })
}

fn address(body: &[u8], gone: bool) -> Option<News> {
    const FIXED: usize = 8;
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    const IFA_FLAGS: u16 = 8;
    const DAD_FAILED: u32 = 0x08;
    let (length, link) = (*body.get(1)?, u32_at(body, 4)?);
    let find = |wanted| attributes(body, FIXED).find(|(kind, _)| *kind == wanted).map(|(_, bytes)| bytes);
    let flags = find(IFA_FLAGS).and_then(|flags| u32_at(flags, 0)).unwrap_or(0);
    let bytes = find(IFA_LOCAL).or_else(|| find(IFA_ADDRESS))?;
    let net = IpNet::new(ip(bytes)?, length).ok()?;
    Some(News::Address { link, net, gone: gone || flags & DAD_FAILED != 0 })
}

fn neighbor(body: &[u8], gone: bool) -> Option<News> {
    const FIXED: usize = 12;
    const NDA_DST: u16 = 1;
    const NDA_LLADDR: u16 = 2;
    const PERMANENT: u16 = 0x80;
    if ![INET, INET6].contains(body.first()?) {
        return None;
    }
    let (link, state) = (u32_at(body, 4)?, u16_at(body, 8)?);
    let find = |wanted| attributes(body, FIXED).find(|(kind, _)| *kind == wanted).map(|(_, bytes)| bytes);
    let address = ip(find(NDA_DST)?)?;
    let mac = find(NDA_LLADDR).and_then(|mac| mac.try_into().ok());
    Some(News::Neighbor { link, address, mac: mac.filter(|_| !gone && state & PERMANENT != 0) })
}

fn next_hop(body: &[u8], gone: bool) -> Option<News> {
    /// Length of `struct nhmsg`.
    const FIXED: usize = 8;
    const NHA_ID: u16 = 1;
    const NHA_GROUP: u16 = 2;
    const NHA_BLACKHOLE: u16 = 4;
    const NHA_OIF: u16 = 5;
    const NHA_GATEWAY: u16 = 6;
    /// Length of `struct nexthop_grp`.
    const MEMBER: usize = 8;
    let find = |wanted| attributes(body, FIXED).find(|(kind, _)| *kind == wanted).map(|(_, bytes)| bytes);
    let id = u32_at(find(NHA_ID)?, 0)?;
    if gone {
        return Some(News::NextHop(id, None));
    }
    let object = if let Some(group) = find(NHA_GROUP) {
        Object::Group(group.chunks_exact(MEMBER).filter_map(|member| u32_at(member, 0)).collect())
    } else if find(NHA_BLACKHOLE).is_some() {
        Object::Blackhole
    } else {
        let gateway = find(NHA_GATEWAY).and_then(ip);
        Object::Way(Way { link: find(NHA_OIF).and_then(|link| u32_at(link, 0))?, gateway })
    };
    Some(News::NextHop(id, Some(object)))
}

/// What is told of a route, and its table; nothing if it is none that packets of others follow.
fn told(teller: Teller, route: &RouteMessage, gone: bool) -> Option<(u32, Told)> {
    let header = &route.header;
    // Those that the kernel makes of addresses the VRF makes of them by itself; cached ones are copies.
    if header.protocol == RouteProtocol::Kernel || header.flags.contains(RouteFlags::Cloned) || header.tos != 0 {
        return None;
    }
    let (mut table, mut metric, mut object) = (u32::from(header.table), 0, None);
    let (mut destination, mut oif, mut gateway, mut ways) = (None, None, None, None);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::NhId(id) => object = Some(*id),
            RouteAttribute::Destination(address) => destination = ip_of(address),
            RouteAttribute::Oif(link) => oif = Some(*link),
            RouteAttribute::Gateway(address) => gateway = ip_of(address),
            RouteAttribute::Via(via) => gateway = via_of(via),
            RouteAttribute::MultiPath(hops) => ways = Some(hops.iter().map(way_of).collect()),
            // What is put in front of packets, or depends on where they come from.
            RouteAttribute::Encap(_) | RouteAttribute::Source(_) => return None,
            _ => {}
        }
    }
    let leads = match header.kind {
        RouteType::BlackHole => Leads::Discard(Discard::Blackhole),
        RouteType::Unreachable => Leads::Discard(Discard::Unreachable),
        RouteType::Prohibit => Leads::Discard(Discard::Prohibit),
        RouteType::Unicast => match (object, ways, oif) {
            (Some(id), ..) => Leads::Object(id),
            (None, Some(mut ways), _) => {
                let ways: &mut Vec<Way> = &mut ways;
                ways.sort_unstable();
                Leads::Ways(std::mem::take(ways))
            }
            (None, None, Some(link)) => Leads::Ways(vec![Way { link, gateway }]),
            (None, None, None) if gone => Leads::Ways(Vec::new()),
            (None, None, None) => return None,
        },
        // A daemon that takes a route back says no more than which.
        RouteType::Unspec if gone => Leads::Ways(Vec::new()),
        _ => return None,
    };
    let any: IpAddr = match u8::from(header.address_family) {
        INET => Ipv4Addr::UNSPECIFIED.into(),
        INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let prefix = IpNet::new(destination.unwrap_or(any), header.destination_prefix_length).ok()?.trunc();
    Some((table, Told { teller, prefix, metric, leads }))
}

const INET: u8 = 2;
const INET6: u8 = 10;

fn way_of(hop: &RouteNextHop) -> Way {
    let gateway = hop.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(address) => ip_of(address),
        RouteAttribute::Via(via) => via_of(via),
        _ => None,
    });
    Way { link: hop.interface_index, gateway }
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn via_of(via: &RouteVia) -> Option<IpAddr> {
    match via {
        RouteVia::Inet(address) => Some((*address).into()),
        RouteVia::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|sixteen| Ipv6Addr::from(sixteen).into())
}
