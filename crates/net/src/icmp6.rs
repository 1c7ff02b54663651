//! ICMPv6 messages that a router sends (RFC 4443), and when it must not.

use std::net::Ipv6Addr;

use weir_wire::checksum::Sum;
use weir_wire::ipv6::{self, ICMPV6};
use weir_wire::{Ipv6, U16, U32, View};

/// Hop limit of what this router sends itself.
pub const HOP_LIMIT: u8 = 64;

/// Longest error message with its IPv6 header: "as much of invoking packet as possible without the ICMPv6 packet exceeding the
/// minimum IPv6 MTU" (RFC 4443 section 3).
pub const MAX_ERROR: usize = 1280;

/// Bytes of the header of every message used here: type, code, checksum and four bytes that depend on the type.
const HEADER: usize = 8;

const DESTINATION_UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
/// Types below this are errors (RFC 4443 section 2.1).
const FIRST_INFORMATIONAL: u8 = 128;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
const REDIRECT: u8 = 137;

/// What went wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is no route to its destination.
    NoRoute,
    /// Its destination, or the router before it, does not answer.
    AddressUnreachable,
    /// Nobody listens at its port.
    PortUnreachable,
    /// It is longer than the MTU of the next link.
    TooBig {
        /// That MTU, in bytes.
        mtu: u32,
    },
    /// Its hop limit ran out here.
    HopLimitExceeded,
}

impl Problem {
    const fn header(self) -> (u8, u8, u32) {
        match self {
            Problem::NoRoute => (DESTINATION_UNREACHABLE, 0, 0),
            Problem::AddressUnreachable => (DESTINATION_UNREACHABLE, 3, 0),
            Problem::PortUnreachable => (DESTINATION_UNREACHABLE, 4, 0),
            Problem::TooBig { mtu } => (PACKET_TOO_BIG, 0, mtu),
            Problem::HopLimitExceeded => (TIME_EXCEEDED, 0, 0),
        }
    }
}

/// Whether a message may report `problem` about `packet` (RFC 4443 section 2.4 (e)). `link_group` says that it came in a link-layer
/// broadcast or multicast.
pub fn may_report(problem: Problem, packet: &[u8], link_group: bool) -> bool {
    let Some(ip) = Ipv6::view(packet) else { return false };
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    // (e.3), (e.4): to a group, unless it is Packet Too Big.
    let to_group = destination.is_multicast() || link_group;
    if to_group && !matches!(problem, Problem::TooBig { .. }) {
        return false;
    }
    // (e.6): "a source address that does not uniquely identify a single node".
    if source.is_unspecified() || source.is_multicast() || source.is_loopback() {
        return false;
    }
    // (e.1), (e.2): errors and redirects. What can not be looked into may be one.
    match ipv6::upper(packet) {
        Some(upper) if upper.later => true,
        Some(upper) if upper.protocol == ICMPV6 => {
            packet.get(upper.at).is_some_and(|&kind| kind >= FIRST_INFORMATIONAL && kind != REDIRECT)
        }
        Some(upper) => upper.whole,
        None => false,
    }
}

/// Writes to `out` the whole IPv6 packet that reports `problem` about `packet`, to the packet's source, from `source`. Answers its
/// length, at most [`MAX_ERROR`]; `None` if `packet` has no IPv6 header, or `out` no room.
///
/// Ask [`may_report`] first.
pub fn write_error(problem: Problem, packet: &[u8], source: Ipv6Addr, out: &mut [u8]) -> Option<usize> {
    let about = Ipv6::view(packet)?;
    let whole = Ipv6::LEN + usize::from(about.payload_length.get());
    let all = packet.get(..whole).unwrap_or(packet);
    let quote = all.get(..MAX_ERROR - Ipv6::LEN - HEADER).unwrap_or(all);
    let length = Ipv6::LEN + HEADER + quote.len();
    let out = out.get_mut(..length)?;
    let (ip, message) = Ipv6::split_mut(out)?;
    *ip = Ipv6 {
        version_class_flow: U32::new(6 << 28),
        payload_length: U16::new(u16::try_from(message.len()).ok()?),
        next_header: ICMPV6,
        hop_limit: HOP_LIMIT,
        source: source.octets(),
        destination: about.source,
    };
    let (kind, code, rest) = problem.header();
    let [a, b, c, d] = rest.to_be_bytes();
    let (header, data) = message.split_at_mut_checked(HEADER)?;
    header.copy_from_slice(&[kind, code, 0, 0, a, b, c, d]);
    data.copy_from_slice(quote);
    let sum = sum(ip, message).checksum().to_be_bytes();
    message.get_mut(2..4)?.copy_from_slice(&sum);
    Some(length)
}

/// Turns the IPv6 packet `packet`, an echo request, into its reply, in place (RFC 4443 section 4.2). False, and nothing changed, if it
/// is no whole request without extension headers, or its checksum is wrong.
pub fn echo_reply(packet: &mut [u8]) -> bool {
    let Some((ip, rest)) = Ipv6::split_mut(packet) else { return false };
    let Some(message) = rest.get_mut(..usize::from(ip.payload_length.get())) else { return false };
    let is_request = ip.next_header == ICMPV6 && message.len() >= HEADER && message.first() == Some(&ECHO_REQUEST);
    if !is_request || sum(ip, message).fold() != 0xffff {
        return false;
    }
    (ip.source, ip.destination) = (ip.destination, ip.source);
    ip.hop_limit = HOP_LIMIT;
    if let Some([kind, _, high, low, ..]) = message.get_mut(..HEADER) {
        (*kind, *high, *low) = (ECHO_REPLY, 0, 0);
    }
    let sum = sum(ip, message).checksum().to_be_bytes();
    message.get_mut(2..4).map(|place| place.copy_from_slice(&sum)).is_some()
}

/// The sum of a message and its pseudo header (RFC 8200 section 8.1).
fn sum(ip: &Ipv6, message: &[u8]) -> Sum {
    // Message lengths have 16 bits here.
    let pseudo = Sum::new().bytes(&ip.source).bytes(&ip.destination).word(message.len() as u16);
    pseudo.word(u16::from(ICMPV6)).bytes(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, 9);
    const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9);

    fn packet(next: u8, payload: &[u8], source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([next, 1]);
        packet.extend(source.octets());
        packet.extend(destination.octets());
        packet.extend(payload);
        packet
    }

    /// The checksum word by word, as RFC 8200 section 8.1 lays the pseudo header out.
    fn is_valid(packet: &[u8]) -> bool {
        let length = u32::from(u16::from_be_bytes([packet[4], packet[5]]));
        let mut all = packet[8..40].to_vec();
        all.extend(length.to_be_bytes());
        all.extend([0, 0, 0, packet[6]]);
        all.extend(&packet[40..]);
        if all.len() % 2 == 1 {
            all.push(0);
        }
        let mut sum: u32 = all.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum == 0xffff
    }

    #[test]
    fn each_problem_is_the_message_of_rfc_4443() {
        let cases = [
            (Problem::NoRoute, [1, 0, 0, 0, 0, 0]),
            (Problem::AddressUnreachable, [1, 3, 0, 0, 0, 0]),
            (Problem::PortUnreachable, [1, 4, 0, 0, 0, 0]),
            (Problem::TooBig { mtu: 1400 }, [2, 0, 0, 0, 0x05, 0x78]),
            (Problem::HopLimitExceeded, [3, 0, 0, 0, 0, 0]),
        ];
        for length in [0, 1, 100, 1191, 1192, 1193, 1500] {
            let about = packet(17, &vec![0x5a; length], HOST, FAR);
            for (problem, [kind, code, a, b, c, d]) in cases {
                let mut out = [0; MAX_ERROR];
                let len = write_error(problem, &about, ROUTER, &mut out).unwrap();
                let out = &out[..len];
                assert_eq!((out[40], out[41], &out[44..48]), (kind, code, &[a, b, c, d][..]));
                assert_eq!(out[8..24], ROUTER.octets());
                assert_eq!(out[24..40], HOST.octets());
                assert_eq!((out[6], out[7], usize::from(u16::from_be_bytes([out[4], out[5]]))), (58, 64, len - 40));
                assert_eq!(out[48..], about[..about.len().min(1280 - 48)]);
                assert!(is_valid(out));
            }
        }
    }

    #[test]
    fn nothing_is_reported_about_what_rfc_4443_section_2_4_names() {
        let may = |packet: &[u8]| may_report(Problem::NoRoute, packet, false);
        assert!(may(&packet(17, &[0; 8], HOST, FAR)));
        assert!(may(&packet(58, &[128, 0, 0, 0, 0, 0, 0, 0], HOST, FAR)));
        for kind in [0, 1, 2, 3, 4, 127, 137] {
            assert!(!may(&packet(58, &[kind, 0, 0, 0, 0, 0, 0, 0], HOST, FAR)), "{kind}");
        }
        // Behind extension headers, too.
        assert!(!may(&packet(0, &[58, 0, 1, 4, 0, 0, 0, 0, 1, 0, 0, 0], HOST, FAR)));
        let group = "ff02::1".parse().unwrap();
        assert!(!may(&packet(17, &[0; 8], HOST, group)));
        assert!(may_report(Problem::TooBig { mtu: 1280 }, &packet(17, &[0; 8], HOST, group), true));
        assert!(!may_report(Problem::HopLimitExceeded, &packet(17, &[0; 8], HOST, FAR), true));
        for source in ["::", "ff02::1", "::1"] {
            assert!(!may(&packet(17, &[0; 8], source.parse().unwrap(), FAR)), "{source}");
        }
        assert!(!may(&[0x60; 39]) && !may(&packet(58, &[], HOST, FAR)));
    }

    #[test]
    fn an_echo_is_answered_with_its_data() {
        for length in [8, 9, 64, 1000] {
            let mut data = vec![7; length];
            data[..4].copy_from_slice(&[128, 0, 0, 0]);
            let mut request = packet(58, &data, HOST, ROUTER);
            let sum = Sum::new().bytes(&request[8..40]).word(length as u16).word(58).bytes(&request[40..]).checksum();
            request[42..44].copy_from_slice(&sum.to_be_bytes());
            let mut reply = request.clone();
            assert!(echo_reply(&mut reply));
            assert!(is_valid(&reply));
            assert_eq!((reply[40], reply[7], &reply[44..]), (129, 64, &request[44..]));
            assert_eq!((&reply[8..24], &reply[24..40]), (&ROUTER.octets()[..], &HOST.octets()[..]));
            assert!(!echo_reply(&mut reply), "a reply is no request");
            request[47] ^= 1;
            let before = request.clone();
            assert!(!echo_reply(&mut request) && request == before);
        }
    }
}
