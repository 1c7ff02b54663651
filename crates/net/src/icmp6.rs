//! ICMPv6 messages that a router sends (RFC 4443), and when it must not.
//!
//! Which address a message comes from is the caller's choice (section 2.2), as is the rate (section 2.4 (f), [`crate::limit`]).

use std::net::Ipv6Addr;

use weir_wire::checksum::Sum;
use weir_wire::extension::{Fault, UNKNOWN_OPTION};
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
const PARAMETER_PROBLEM: u8 = 4;
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
    /// A filter, or a route, forbids it.
    AdministrativelyProhibited,
    /// Its destination is beyond the scope of its source: a link-local one would have to leave its link.
    BeyondScope,
    /// Its destination, or the router before it, does not answer.
    AddressUnreachable,
    /// Nobody listens at its port.
    PortUnreachable,
    /// Its source may not come from where it came.
    SourcePolicy,
    /// A route says that nothing goes there.
    RejectRoute,
    /// It is longer than the MTU of the next link.
    TooBig {
        /// That MTU, in bytes.
        mtu: u32,
    },
    /// Its hop limit ran out here.
    HopLimitExceeded,
    /// It could not be reassembled in time.
    ReassemblyExceeded,
    /// A header makes no sense, or is not known.
    Parameter {
        /// What about it: one of those of [`weir_wire::extension`].
        code: u8,
        /// The byte at fault, counted from the start of the IPv6 header.
        pointer: u32,
    },
}

impl Problem {
    /// What tells the sender of a fault in extension headers; `None` if nothing does.
    pub fn of_fault(fault: Fault) -> Option<Problem> {
        Some(Problem::Parameter { code: fault.code?, pointer: u32::try_from(fault.pointer).ok()? })
    }

    const fn header(self) -> (u8, u8, u32) {
        match self {
            Problem::NoRoute => (DESTINATION_UNREACHABLE, 0, 0),
            Problem::AdministrativelyProhibited => (DESTINATION_UNREACHABLE, 1, 0),
            Problem::BeyondScope => (DESTINATION_UNREACHABLE, 2, 0),
            Problem::AddressUnreachable => (DESTINATION_UNREACHABLE, 3, 0),
            Problem::PortUnreachable => (DESTINATION_UNREACHABLE, 4, 0),
            Problem::SourcePolicy => (DESTINATION_UNREACHABLE, 5, 0),
            Problem::RejectRoute => (DESTINATION_UNREACHABLE, 6, 0),
            Problem::TooBig { mtu } => (PACKET_TOO_BIG, 0, mtu),
            Problem::HopLimitExceeded => (TIME_EXCEEDED, 0, 0),
            Problem::ReassemblyExceeded => (TIME_EXCEEDED, 1, 0),
            Problem::Parameter { code, pointer } => (PARAMETER_PROBLEM, code, pointer),
        }
    }

    /// Whether even a packet to a group is reported: "(1) the Packet Too Big Message [...] to allow Path MTU discovery to work for IPv6
    /// multicast, and (2) the Parameter Problem Message, Code 2 [...] reporting an unrecognized IPv6 option that has the Option Type
    /// highest-order two bits set to 10" (RFC 4443 section 2.4 (e.3)).
    fn is_told_of_groups(self, packet: &[u8]) -> bool {
        match self {
            Problem::TooBig { .. } => true,
            Problem::Parameter { code: UNKNOWN_OPTION, pointer } => {
                let option = usize::try_from(pointer).ok().and_then(|at| packet.get(at));
                option.is_some_and(|kind| kind >> 6 == 0b10)
            }
            _ => false,
        }
    }
}

/// Whether a message may report `problem` about `packet` (RFC 4443 section 2.4 (e)). `link_group` says that it came in a link-layer
/// broadcast or multicast.
pub fn may_report(problem: Problem, packet: &[u8], link_group: bool) -> bool {
    let Some(ip) = Ipv6::view(packet) else { return false };
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    // (e.3), (e.4), (e.5): to a group, or in a frame to one.
    let to_group = destination.is_multicast() || link_group;
    if to_group && !problem.is_told_of_groups(packet) {
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

/// Turns the IPv6 packet `packet`, an echo request, into its reply, in place: `source` is the address that was asked, one of the
/// router's own if that was a group (RFC 4443 section 4.2). Extension headers are left out; data, traffic class and flow label stay.
/// Answers its length; `None`, and nothing changed, if it is no whole request, or its checksum is wrong.
pub fn echo_reply(packet: &mut [u8], source: Ipv6Addr) -> Option<usize> {
    let range = echo_request(packet)?;
    let (start, length) = (range.start, range.len());
    packet.copy_within(start..start + length, Ipv6::LEN);
    let (ip, rest) = Ipv6::split_mut(packet)?;
    let message = rest.get_mut(..length)?;
    (ip.source, ip.destination) = (source.octets(), ip.source);
    (ip.payload_length, ip.next_header, ip.hop_limit) = (U16::new(length as u16), ICMPV6, HOP_LIMIT);
    if let Some([kind, _, high, low, ..]) = message.get_mut(..HEADER) {
        (*kind, *high, *low) = (ECHO_REPLY, 0, 0);
    }
    let sum = sum(ip, message).checksum().to_be_bytes();
    message.get_mut(2..4)?.copy_from_slice(&sum);
    Some(Ipv6::LEN + length)
}

/// The type of the ICMPv6 message that the IPv6 packet `packet` carries; `None` if it carries none, only a piece of one, or one with a wrong
/// checksum.
pub fn kind_of(packet: &[u8]) -> Option<u8> {
    let ip = Ipv6::view(packet)?;
    let upper = ipv6::upper(packet).filter(|upper| upper.whole && upper.protocol == ICMPV6)?;
    let message = packet.get(upper.at..Ipv6::LEN + usize::from(ip.payload_length.get()))?;
    let is_sound = upper.fragment.is_none() && message.len() >= HEADER && sum(ip, message).fold() == 0xffff;
    message.first().copied().filter(|_| is_sound)
}

/// Where the message of an echo request is.
fn echo_request(packet: &[u8]) -> Option<std::ops::Range<usize>> {
    let start = ipv6::upper(packet)?.at;
    let end = Ipv6::LEN + usize::from(Ipv6::view(packet)?.payload_length.get());
    (kind_of(packet) == Some(ECHO_REQUEST)).then_some(start..end)
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
            (Problem::AdministrativelyProhibited, [1, 1, 0, 0, 0, 0]),
            (Problem::BeyondScope, [1, 2, 0, 0, 0, 0]),
            (Problem::PortUnreachable, [1, 4, 0, 0, 0, 0]),
            (Problem::SourcePolicy, [1, 5, 0, 0, 0, 0]),
            (Problem::RejectRoute, [1, 6, 0, 0, 0, 0]),
            (Problem::ReassemblyExceeded, [3, 1, 0, 0, 0, 0]),
            (Problem::Parameter { code: 1, pointer: 0x0102_0304 }, [4, 1, 1, 2, 3, 4]),
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

    /// Section 2.4 (e.3) and (e.4): the two exceptions, at each of the four kinds of options.
    #[test]
    fn groups_hear_of_packets_too_big_and_of_options_that_say_so() {
        let group: Ipv6Addr = "ff05::2".parse().unwrap();
        for high in 0..4_u8 {
            let option = [17, 0, high << 6 | 0x1e, 0, 1, 2, 0, 0];
            for (to, link_group) in [(group, true), (FAR, true), (group, false), (FAR, false)] {
                let about = packet(60, &[&option[..], &[0; 8]].concat(), HOST, to);
                let told = |problem| may_report(problem, &about, link_group);
                let to_host = (to, link_group) == (FAR, false);
                assert_eq!(told(Problem::Parameter { code: 2, pointer: 42 }), to_host || high == 2);
                assert_eq!(told(Problem::Parameter { code: 1, pointer: 42 }), to_host);
                assert_eq!(told(Problem::Parameter { code: 2, pointer: 9999 }), to_host);
                assert_eq!(told(Problem::ReassemblyExceeded), to_host);
                assert!(told(Problem::TooBig { mtu: 1280 }));
            }
        }
    }

    /// What the walk over extension headers finds, is what is sent.
    #[test]
    fn faults_of_extension_headers_are_parameter_problems() {
        use weir_wire::extension::{Limits, at_destination};
        let about = packet(60, &[17, 0, 0xc2, 0, 1, 2, 0, 0], HOST, ROUTER);
        let fault = at_destination(&about, Limits::default()).unwrap_err();
        assert_eq!(Problem::of_fault(fault), Some(Problem::Parameter { code: 2, pointer: 42 }));
        let silent = packet(60, &[17, 0, 0x42, 0, 1, 2, 0, 0], HOST, ROUTER);
        assert_eq!(Problem::of_fault(at_destination(&silent, Limits::default()).unwrap_err()), None);
    }

    /// RFC 4443 section 4.2: behind extension headers, and asked at a group.
    #[test]
    fn an_echo_behind_options_is_answered_without_them() {
        let data = [128, 0, 0, 0, 1, 2, 3, 4, 5];
        let group: Ipv6Addr = "ff02::1".parse().unwrap();
        let plain = packet(58, &data, HOST, group);
        let sum = sum(Ipv6::view(&plain).unwrap(), &data).checksum().to_be_bytes();
        let message = [&data[..2], &sum, &data[4..]].concat();
        let mut request = packet(60, &[&[58, 0, 1, 4, 0, 0, 0, 0][..], &message].concat(), HOST, group);
        request.extend([0xee; 5]);
        let length = echo_reply(&mut request, ROUTER).unwrap();
        assert_eq!(length, 40 + 9);
        assert!(is_valid(&request[..length]));
        assert_eq!((&request[8..24], request[40], &request[44..49]), (&ROUTER.octets()[..], 129, &data[4..]));
        // A piece of one is none.
        let mut piece = packet(44, &[&[58, 0, 0, 1, 0, 0, 0, 0][..], &message].concat(), HOST, group);
        assert_eq!(echo_reply(&mut piece, ROUTER), None);
    }

    #[test]
    fn messages_are_told_by_their_type_if_they_are_sound() {
        for kind in [0, 1, 128, 129, 130, 135, 255] {
            let mut message = vec![kind, 0, 0, 0, 1, 2, 3, 4];
            let plain = packet(58, &message, HOST, ROUTER);
            let sum = sum(Ipv6::view(&plain).unwrap(), &message).checksum().to_be_bytes();
            message[2..4].copy_from_slice(&sum);
            let plain = packet(58, &message, HOST, ROUTER);
            assert_eq!(kind_of(&plain), Some(kind));
            let behind = packet(60, &[&[58, 0, 1, 4, 0, 0, 0, 0][..], &message].concat(), HOST, ROUTER);
            assert_eq!(kind_of(&behind), Some(kind), "behind an extension header");
            let piece = packet(44, &[&[58, 0, 0, 0, 0, 0, 0, 0][..], &message].concat(), HOST, ROUTER);
            assert_eq!(kind_of(&piece), None, "what has the header of a fragment is joined first");
            for at in 40..48 {
                let mut broken = plain.clone();
                broken[at] ^= 1;
                assert_eq!(kind_of(&broken), None);
            }
            assert_eq!((kind_of(&plain[..47]), kind_of(&packet(17, &message, HOST, ROUTER))), (None, None));
        }
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
            assert_eq!(echo_reply(&mut reply, ROUTER), Some(40 + length));
            assert!(is_valid(&reply));
            assert_eq!((reply[40], reply[7], &reply[44..]), (129, 64, &request[44..]));
            assert_eq!((&reply[8..24], &reply[24..40]), (&ROUTER.octets()[..], &HOST.octets()[..]));
            assert_eq!(echo_reply(&mut reply, ROUTER), None, "a reply is no request");
            request[47] ^= 1;
            let before = request.clone();
            assert!(echo_reply(&mut request, ROUTER).is_none() && request == before);
        }
    }
}
