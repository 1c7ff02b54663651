//! What a message says: IGMP (RFC 1112, 2236, 3376), PIM hellos, and by `six` MLD.

use std::net::{IpAddr, Ipv4Addr};

use weir_wire::{checksum, ethernet};

use super::{IGMP, PIM, six};

const QUERY: u8 = 0x11;
const REPORT_1: u8 = 0x12;
const REPORT_2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_3: u8 = 0x22;
/// Multicast router discovery (RFC 4286).
const ADVERTISEMENT: u8 = 0x30;
const TERMINATION: u8 = 0x32;

const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// What a station says of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) group: IpAddr,
    /// Whether it listens to it, or does not any more.
    pub(crate) joined: bool,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Who listens?
    Query {
        /// The group that is asked for; `None`: any.
        group: Option<IpAddr>,
        /// Who asks.
        source: IpAddr,
        /// Whether the port is one of a router: the querier has an address (RFC 4541 section 2.1.1 (1)).
        from_router: bool,
        /// Whether members that do not answer end soon: not for questions after sources, nor where the querier says so.
        lowers: bool,
    },
    /// Who listens to what, in words of this version.
    Reports(Vec<Report>, u8),
    /// A multicast router is there.
    Router,
    /// A multicast router goes.
    RouterGone,
    /// Something that is not known: RFC 4541 section 2.1.1 (4) has it flooded.
    Other,
}

/// A message that is cut short, whose checksum is wrong, or that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Reads what [`classify`](super::classify) took for a message.
pub(crate) fn parse(from_type: &[u8]) -> Result<Message, Malformed> {
    let (ethertype, packet) = from_type.split_first_chunk::<2>().ok_or(Malformed)?;
    match u16::from_be_bytes(*ethertype) {
        ethernet::IPV4 => parse4(packet),
        _ => six::parse(packet),
    }
}

fn parse4(packet: &[u8]) -> Result<Message, Malformed> {
    let header = packet.first_chunk::<20>().ok_or(Malformed)?;
    let [start, _, l0, l1, .., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    let (source, destination) = (Ipv4Addr::new(s0, s1, s2, s3), Ipv4Addr::new(d0, d1, d2, d3));
    let (header_len, len) = (usize::from(start & 15) * 4, usize::from(u16::from_be_bytes([l0, l1])));
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let whole = packet.get(..header_len).filter(|_| start >> 4 == 4 && header_len >= 20 && !is_fragment);
    let message = packet.get(header_len..len).ok_or(Malformed)?;
    if !whole.is_some_and(checksum::is_valid) {
        return Err(Malformed);
    }
    match header[9] {
        PIM => Ok(pim(message)),
        IGMP if message.len() >= 8 && checksum::is_valid(message) => igmp(message, source, destination),
        _ => Err(Malformed),
    }
}

/// PIM version 2, type hello (RFC 7761 section 4.9).
pub(super) fn pim(message: &[u8]) -> Message {
    if message.first() == Some(&0x20) { Message::Router } else { Message::Other }
}

fn igmp(message: &[u8], source: Ipv4Addr, destination: Ipv4Addr) -> Result<Message, Malformed> {
    let [kind, _, _, _, a, b, c, d] = *message.first_chunk::<8>().ok_or(Malformed)?;
    let group = Ipv4Addr::new(a, b, c, d);
    let one = |joined, version| {
        let group = Some(group).filter(Ipv4Addr::is_multicast).ok_or(Malformed)?;
        Ok(Message::Reports(vec![Report { group: group.into(), joined }], version))
    };
    match kind {
        QUERY => query(message, group, source, destination),
        REPORT_1 => one(true, 1),
        REPORT_2 => one(true, 2),
        LEAVE => one(false, 2),
        REPORT_3 => reports(message),
        ADVERTISEMENT => Ok(Message::Router),
        TERMINATION => Ok(Message::RouterGone),
        _ => Ok(Message::Other),
    }
}

fn query(message: &[u8], group: Ipv4Addr, source: Ipv4Addr, destination: Ipv4Addr) -> Result<Message, Malformed> {
    // RFC 3376 section 7.1: of version 3 if it is 12 octets or more, else 8; "Query messages that do not match any of the above [...] MUST be silently
    // ignored".
    let lowers = match message {
        [_, _, _, _, _, _, _, _] => true,
        [_, _, _, _, _, _, _, _, flags, _, s0, s1, sources @ ..] => {
            let count = usize::from(u16::from_be_bytes([*s0, *s1]));
            if sources.len() < 4 * count {
                return Err(Malformed);
            }
            count == 0 && flags & 8 == 0
        }
        _ => return Err(Malformed),
    };
    let is_general = group.is_unspecified();
    // Section 4.1.12: general queries go to all hosts.
    if is_general && destination != ALL_HOSTS || !is_general && !group.is_multicast() {
        return Err(Malformed);
    }
    let group = (!is_general).then_some(group.into());
    Ok(Message::Query { group, source: source.into(), from_router: !source.is_unspecified(), lowers })
}

fn reports(message: &[u8]) -> Result<Message, Malformed> {
    let group = |bytes: &[u8; 4]| {
        let group = Ipv4Addr::from(*bytes);
        group.is_multicast().then_some(IpAddr::V4(group))
    };
    records(message, group).map(|reports| Message::Reports(reports, 3))
}

/// The records of a report with addresses of `N` bytes: RFC 3376 section 4.2, and RFC 3810 section 5.2.
pub(super) fn records<const N: usize>(
    message: &[u8],
    address: impl Fn(&[u8; N]) -> Option<IpAddr>,
) -> Result<Vec<Report>, Malformed> {
    let ([.., n0, n1], mut rest) = message.split_first_chunk::<8>().ok_or(Malformed)?;
    let mut reports = Vec::new();
    for _ in 0..u16::from_be_bytes([*n0, *n1]) {
        let ([kind, auxiliary, s0, s1], after) = rest.split_first_chunk::<4>().ok_or(Malformed)?;
        let (group, after) = after.split_first_chunk::<N>().ok_or(Malformed)?;
        let sources = usize::from(u16::from_be_bytes([*s0, *s1]));
        rest = after.get(N * sources + 4 * usize::from(*auxiliary)..).ok_or(Malformed)?;
        let group = address(group).ok_or(Malformed)?;
        // Which sources are wanted is not told apart (RFC 4541 section 2.1.2): to include none of them is to leave.
        let joined = match (kind, sources) {
            (1 | 3, 0) => false,
            (1..=5, _) => true,
            // Sources that are blocked end no membership, and kinds that are not known "MUST be silently ignored".
            _ => continue,
        };
        reports.push(Report { group, joined });
    }
    Ok(reports)
}
