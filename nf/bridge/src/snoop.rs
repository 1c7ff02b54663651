//! IGMP and MLD snooping (RFC 4541): what messages say, and who listens to what.

mod listeners;
mod message;
mod querier;
mod question;
mod six;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_wire::ethernet;

pub(crate) use listeners::{Forwarding, Heard, Listeners, Member};
pub(crate) use message::{Message, Report, parse};
pub(crate) use querier::{Queriers, Question, Times};
pub(crate) use question::{Asking, frame};

/// What a frame to a group is for snooping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A message that the control side reads.
    Message,
    /// To a group.
    Group(IpAddr),
    /// To all, always: no IP, or a group of the link that nobody reports.
    All,
}

/// Numbers of protocols in IPv4 and IPv6.
pub(crate) const IGMP: u8 = 2;
pub(crate) const PIM: u8 = 103;

const ALL_PIM_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 13);
const ALL_PIM_ROUTERS6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xd);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What a frame is, from its innermost EtherType that the bridge is aware of on.
pub(crate) fn classify(from_type: &[u8]) -> Class {
    let Some((ethertype, packet)) = from_type.split_first_chunk::<2>() else { return Class::All };
    let class = match u16::from_be_bytes(*ethertype) {
        ethernet::IPV4 => classify4(packet),
        ethernet::IPV6 => classify6(packet),
        _ => None,
    };
    class.unwrap_or(Class::All)
}

fn classify4(packet: &[u8]) -> Option<Class> {
    let header = packet.first_chunk::<20>()?;
    let [.., a, b, c, d] = *header;
    let (protocol, group) = (header[9], Ipv4Addr::new(a, b, c, d));
    Some(match protocol {
        IGMP => Class::Message,
        PIM if group == ALL_PIM_ROUTERS => Class::Message,
        // Section 2.1.2 (2): "forwarded on all ports".
        _ if is_of_link(group) || !group.is_multicast() => Class::All,
        _ => Class::Group(IpAddr::V4(group)),
    })
}

fn classify6(packet: &[u8]) -> Option<Class> {
    let group = Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?);
    Some(match *packet.get(6)? {
        // MLD has a router alert in front of it (RFC 3810 section 5); what else has one is read, too, and goes on as it would.
        0 if six::is_message(packet) => Class::Message,
        PIM if group == ALL_PIM_ROUTERS6 => Class::Message,
        _ if group == ALL_NODES || !group.is_multicast() => Class::All,
        _ => Class::Group(IpAddr::V6(group)),
    })
}

/// Whether a group is one of the link, 224.0.0.0/24, to which hosts need not say that they listen.
pub(crate) fn is_of_link(group: Ipv4Addr) -> bool {
    matches!(group.octets(), [224, 0, 0, _])
}

/// Whether frames to a group go by who listens to it.
pub(crate) fn is_registered(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.is_multicast() && !is_of_link(group),
        IpAddr::V6(group) => group.is_multicast() && group != ALL_NODES,
    }
}
