//! What an MLD message says (RFC 2710, RFC 3810).

use std::net::{IpAddr, Ipv6Addr};

use weir_wire::checksum::Sum;
use weir_wire::extension::{Limits, at_destination};
use weir_wire::ipv6::ICMPV6;
use weir_wire::martian6::is_link_local;
use weir_wire::{Ipv6, View};

use super::PIM;
use super::message::{Malformed, Message, Report, pim, records};

const QUERY: u8 = 130;
const REPORT: u8 = 131;
const DONE: u8 = 132;
const REPORT_2: u8 = 143;
/// Multicast router discovery (RFC 4286).
const ADVERTISEMENT: u8 = 151;
const TERMINATION: u8 = 153;

/// Whether a packet that begins with hop-by-hop options is one of these messages, by its first bytes alone.
pub(super) fn is_message(packet: &[u8]) -> bool {
    let Some([next, len, ..]) = packet.get(Ipv6::LEN..) else { return false };
    let kind = packet.get(Ipv6::LEN + 8 + 8 * usize::from(*len));
    *next == ICMPV6
        && kind.is_some_and(|kind| matches!(*kind, QUERY | REPORT | DONE | REPORT_2 | ADVERTISEMENT | TERMINATION))
}

pub(super) fn parse(packet: &[u8]) -> Result<Message, Malformed> {
    let ip = Ipv6::view(packet).filter(|ip| ip.version() == 6).ok_or(Malformed)?;
    let found = at_destination(packet, Limits::default()).map_err(|_| Malformed)?;
    let end = Ipv6::LEN + usize::from(ip.payload_length.get());
    let message = packet.get(found.at..end).ok_or(Malformed)?;
    if found.protocol == PIM {
        return Ok(pim(message));
    }
    // RFC 3810 section 5: a link-local source, a hop limit of 1, and a router alert; section 5.2.13 has reports from no address, too.
    let source = ip.source_addr();
    let is_valid = found.protocol == ICMPV6
        && ip.hop_limit == 1
        && found.asked.router_alert == Some(0)
        && (is_link_local(source.to_bits()) || source.is_unspecified())
        && sum(ip, message).fold() == 0xffff;
    let [kind, ..] = *message else { return Err(Malformed) };
    let group = message.get(8..).and_then(|rest| rest.first_chunk::<16>()).map(|bytes| Ipv6Addr::from(*bytes));
    let one = |joined| {
        let group = group.filter(Ipv6Addr::is_multicast).ok_or(Malformed)?;
        Ok(Message::Reports(vec![Report { group: group.into(), joined }], 1))
    };
    match kind {
        _ if !is_valid => Err(Malformed),
        QUERY if source.is_unspecified() => Err(Malformed),
        QUERY => query(message, group.ok_or(Malformed)?, source),
        REPORT => one(true),
        DONE => one(false),
        REPORT_2 => {
            let group = |bytes: &[u8; 16]| Some(Ipv6Addr::from(*bytes)).filter(Ipv6Addr::is_multicast).map(IpAddr::V6);
            records(message, group).map(|reports| Message::Reports(reports, 2))
        }
        ADVERTISEMENT => Ok(Message::Router),
        TERMINATION => Ok(Message::RouterGone),
        _ => Ok(Message::Other),
    }
}

fn query(message: &[u8], group: Ipv6Addr, source: Ipv6Addr) -> Result<Message, Malformed> {
    // RFC 3810 section 8.1: of version 1 if it is 24 octets, of version 2 from 28 on.
    let lowers = match message.get(24..) {
        Some([]) => true,
        Some([flags, _, s0, s1, sources @ ..]) => {
            let count = usize::from(u16::from_be_bytes([*s0, *s1]));
            if sources.len() < 16 * count {
                return Err(Malformed);
            }
            count == 0 && flags & 8 == 0
        }
        _ => return Err(Malformed),
    };
    if !group.is_unspecified() && !group.is_multicast() {
        return Err(Malformed);
    }
    let group = (!group.is_unspecified()).then_some(group.into());
    Ok(Message::Query { group, source: source.into(), from_router: true, lowers })
}

fn sum(ip: &Ipv6, message: &[u8]) -> Sum {
    let pseudo = Sum::new().bytes(&ip.source).bytes(&ip.destination).word(message.len() as u16);
    pseudo.word(u16::from(ICMPV6)).bytes(message)
}
