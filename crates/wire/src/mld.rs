//! Multicast listeners on Ethernet (RFC 3810, and RFC 2710 towards old routers): what groups a station wants.

use std::net::Ipv6Addr;

use crate::checksum::Sum;
use crate::extension::{Limits, at_destination};
use crate::ipv6::{HOP_BY_HOP, ICMPV6};
use crate::martian6::is_link_local;
use crate::nd::{ALL_ROUTERS, group_mac};
use crate::{Ethernet, Ipv6, MacAddr, U16, U32, View, ethernet};

const QUERY: u8 = 130;
const OLD_REPORT: u8 = 131;
const OLD_DONE: u8 = 132;
const REPORT: u8 = 143;

/// All routers that know RFC 3810.
pub const ALL_MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// A hop-by-hop header with the router alert of multicast listeners (RFC 2711), and padding.
const ALERT: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];

/// Most records of one report: as many as fit the least MTU of IPv6.
pub const MAX_RECORDS: usize = (1280 - 40 - ALERT.len() - 8) / RECORD;
const RECORD: usize = 20;

/// What a router asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Whether it knows only RFC 2710, and so has to be answered by that.
    pub is_old: bool,
    /// The answer has to come within so many milliseconds, each station after another time.
    pub within: u32,
    /// Who listens to this group? Unspecified: to any.
    pub group: Ipv6Addr,
}

/// The question that an IPv6 packet is; `None` for any other packet, and for one that is not valid: "with a valid IPv6 link-local
/// address [...], an IPv6 Hop Limit of 1, and an IPv6 Router Alert option" (RFC 3810 section 5).
pub fn parse_query(packet: &[u8]) -> Option<Query> {
    let ip = Ipv6::view(packet).filter(|ip| ip.version() == 6 && ip.hop_limit == 1)?;
    let found = at_destination(packet, Limits::default()).ok()?;
    let message = packet.get(found.at..Ipv6::LEN + usize::from(ip.payload_length.get()))?;
    let is_valid = found.protocol == ICMPV6
        && found.asked.router_alert == Some(0)
        && is_link_local(ip.source_addr().to_bits())
        && sum(ip, message).fold() == 0xffff;
    let [QUERY, _, _, _, high, low, ..] = *message else { return None };
    let group = message.get(8..24)?.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes))?;
    let code = u32::from(u16::from_be_bytes([high, low]));
    // Section 8.1: "a MLDv1 Query: length = 24 octets; a MLDv2 Query: length >= 28 octets"; others "MUST be silently ignored".
    let is_old = match message.len() {
        24 => true,
        28.. => false,
        _ => return None,
    };
    // Section 5.1.3: from 32,768 on it is a number with a mantissa of 12 bits.
    let within = match code {
        0x8000.. if !is_old => (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
        code => code,
    };
    let is_group = group.is_unspecified() || group.is_multicast();
    (is_valid && is_group).then_some(Query { is_old, within, group })
}

/// What is said of a group (RFC 3810 section 5.2.12), from any source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Said {
    /// It is listened to, as a router has asked.
    Listening,
    /// It is listened to from now on.
    Joined,
    /// It is not listened to any more.
    Left,
}

/// What is said of groups.
pub type Record = (Said, Ipv6Addr);

/// The frame that tells routers of at most [`MAX_RECORDS`] groups, those beyond being left out. `source` is the station's link-local
/// address, unspecified if it has none yet (RFC 3810 section 5.2.13).
pub fn report(mac: MacAddr, source: Ipv6Addr, records: &[Record]) -> Vec<u8> {
    let records = records.get(..MAX_RECORDS).unwrap_or(records);
    let mut message = vec![REPORT, 0, 0, 0, 0, 0, 0, records.len() as u8];
    for (said, group) in records {
        // MODE_IS_EXCLUDE, CHANGE_TO_EXCLUDE_MODE, CHANGE_TO_INCLUDE_MODE; each of no source.
        let kind = match said {
            Said::Listening => 2,
            Said::Joined => 4,
            Said::Left => 3,
        };
        message.extend([kind, 0, 0, 0]);
        message.extend(group.octets());
    }
    frame(mac, source, ALL_MLDV2_ROUTERS, message)
}

/// The frame that tells routers of RFC 2710 of a group.
pub fn old_report(mac: MacAddr, source: Ipv6Addr, (said, group): Record) -> Vec<u8> {
    let (kind, to) = if said == Said::Left { (OLD_DONE, ALL_ROUTERS) } else { (OLD_REPORT, group) };
    let message = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &group.octets()].concat();
    frame(mac, source, to, message)
}

fn frame(mac: MacAddr, source: Ipv6Addr, to: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let ip = Ipv6 {
        version_class_flow: U32::new(6 << 28),
        payload_length: U16::new((ALERT.len() + message.len()) as u16),
        next_header: HOP_BY_HOP,
        hop_limit: 1,
        source: source.octets(),
        destination: to.octets(),
    };
    let [high, low] = sum(&ip, &message).checksum().to_be_bytes();
    if let [_, _, first, second, ..] = message.as_mut_slice() {
        (*first, *second) = (high, low);
    }
    let mut frame = vec![0; Ethernet::LEN + Ipv6::LEN];
    if let Some((header, packet)) = Ethernet::split_mut(&mut frame) {
        *header = Ethernet::new(group_mac(to), mac, ethernet::IPV6);
        if let Some(place) = Ipv6::view_mut(packet) {
            *place = ip;
        }
    }
    frame.extend(ALERT);
    frame.extend(message);
    frame
}

fn sum(ip: &Ipv6, message: &[u8]) -> Sum {
    let pseudo = Sum::new().bytes(&ip.source).bytes(&ip.destination).word(message.len() as u16);
    pseudo.word(u16::from(ICMPV6)).bytes(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 9);

    /// A query by hand; `change` comes before the checksum.
    fn query(length: usize, code: u16, group: Ipv6Addr) -> Vec<u8> {
        let mut message = vec![0; length];
        message[0] = QUERY;
        message[4..6].copy_from_slice(&code.to_be_bytes());
        message[8..24].copy_from_slice(&group.octets());
        frame(MAC, ROUTER, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), message).split_off(14)
    }

    fn within(length: usize, code: u16) -> u32 {
        parse_query(&query(length, code, GROUP)).unwrap().within
    }

    #[test]
    fn queries_of_both_versions_are_read() {
        let any = Ipv6Addr::UNSPECIFIED;
        assert_eq!(parse_query(&query(24, 1000, any)), Some(Query { is_old: true, within: 1000, group: any }));
        assert_eq!(parse_query(&query(28, 1000, GROUP)), Some(Query { is_old: false, within: 1000, group: GROUP }));
        assert!(parse_query(&query(44, 1000, GROUP)).is_some(), "with a source");
        assert!((25..28).all(|length| parse_query(&query(length, 1000, GROUP)).is_none()));
        assert_eq!(parse_query(&query(28, 1, "2001:db8::1".parse().unwrap())), None);
        // RFC 3810 section 5.1.3.
        assert_eq!((within(28, 0x7fff), within(28, 0x8000), within(28, 0xffff)), (0x7fff, 0x8000, 0x1fff << 10));
        assert_eq!(within(24, 0xffff), 0xffff);
        for (at, bit) in [(7, 2), (8, 1), (42, 1), (44, 1), (60, 1)] {
            let mut broken = query(28, 1000, GROUP);
            broken[at] ^= bit;
            assert_eq!(parse_query(&broken), None, "hop limit, source, alert, message: byte {at}");
        }
    }

    #[test]
    fn reports_lie_as_rfc_3810_draws_them() {
        let records = [(Said::Joined, GROUP), (Said::Left, GROUP), (Said::Listening, GROUP)];
        let frame = report(MAC, ROUTER, &records);
        assert_eq!(frame[..14], [0x33, 0x33, 0, 0, 0, 0x16, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
        assert_eq!(frame[14..22], [0x60, 0, 0, 0, 0, 8 + 8 + 60, 0, 1]);
        assert_eq!(frame[54..62], [58, 0, 5, 2, 0, 0, 1, 0]);
        assert_eq!((&frame[62..64], &frame[66..70]), (&[143, 0][..], &[0, 0, 0, 3][..]));
        assert_eq!([frame[70], frame[90], frame[110]], [4, 3, 2]);
        assert_eq!(frame[74..90], GROUP.octets());
        assert_eq!(sum(Ipv6::view(&frame[14..]).unwrap(), &frame[62..]).fold(), 0xffff);
        let full = report(MAC, ROUTER, &vec![(Said::Joined, GROUP); 100]);
        assert!(full.len() - 14 <= 1280 && full.len() - 14 > 1280 - RECORD);
        let old = old_report(MAC, ROUTER, (Said::Joined, GROUP));
        assert_eq!((&old[..6], &old[38..54], old[62]), (&group_mac(GROUP).0[..], &GROUP.octets()[..], 131));
        let done = old_report(MAC, ROUTER, (Said::Left, GROUP));
        assert_eq!((&done[38..54], done[62], &done[70..]), (&ALL_ROUTERS.octets()[..], 132, &GROUP.octets()[..]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), start: bool) {
            if start && bytes.len() > 48 {
                bytes[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 36, 0, 1]);
                bytes[40..48].copy_from_slice(&ALERT);
            }
            parse_query(&bytes);
        }
    }
}
