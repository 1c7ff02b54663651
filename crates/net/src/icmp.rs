//! ICMP messages that a router sends (RFC 1812 section 4.3), and when it must not.
//!
//! Which address a message comes from is the caller's choice (section 4.3.2.4), as is the rate (section 4.3.2.8,
//! [`crate::limit`]).

use std::fmt;
use std::net::Ipv4Addr;
use weir_wire::icmp::{self, Icmp};
use weir_wire::{Ipv4, U16, U32, View, checksum, ipv4, martian, validity};

/// TTL of what this router sends itself (RFC 1700: 64).
pub const TTL: u8 = 64;

/// Longest error message, in bytes with its IPv4 header: "the ICMP datagram SHOULD contain as much of the original datagram as
/// possible without the length of the ICMP datagram exceeding 576 bytes" (RFC 1812 section 4.3.2.3).
pub const MAX_ERROR: usize = 576;

/// Type of service of errors: "SHOULD have their precedence value set to 6 (INTERNETWORK CONTROL) or 7" (RFC 1812 section
/// 4.3.2.5), and the default TOS.
const ERROR_TOS: u8 = 0xc0;

/// What went wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its TTL ran out here.
    TtlExceeded,
    /// It could not be reassembled in time.
    ReassemblyExceeded,
    /// There is no route to its destination.
    NetUnreachable,
    /// Its destination is on a connected network and does not answer.
    HostUnreachable,
    /// It is for this router, in a protocol that nobody here speaks.
    ProtocolUnreachable,
    /// It is for this router, for a port where nobody listens.
    PortUnreachable,
    /// It is longer than the next hop's MTU and must not be fragmented.
    FragmentationNeeded {
        /// MTU of the next hop, in bytes (RFC 1191).
        mtu: u16,
    },
    /// Its source route can not be followed.
    SourceRouteFailed,
    /// A filter forbids it.
    AdministrativelyProhibited,
    /// None: it is forwarded, but its source could have sent it to that router, on its own network, itself (a redirect for the host:
    /// RFC 1812 section 5.2.7.2 allows no other without TOS).
    Redirect {
        /// The nearer router, or the destination itself.
        gateway: Ipv4Addr,
    },
    /// A field of its header makes no sense.
    Parameter {
        /// The byte at fault, counted from the start of its header.
        pointer: u8,
    },
}

impl Problem {
    const fn header(self) -> (u8, u8, [u8; 4]) {
        use weir_wire::icmp::*;
        match self {
            Problem::TtlExceeded => (TIME_EXCEEDED, TTL_EXCEEDED, [0; 4]),
            Problem::ReassemblyExceeded => (TIME_EXCEEDED, REASSEMBLY_EXCEEDED, [0; 4]),
            Problem::NetUnreachable => (DESTINATION_UNREACHABLE, NET_UNREACHABLE, [0; 4]),
            Problem::HostUnreachable => (DESTINATION_UNREACHABLE, HOST_UNREACHABLE, [0; 4]),
            Problem::ProtocolUnreachable => (DESTINATION_UNREACHABLE, PROTOCOL_UNREACHABLE, [0; 4]),
            Problem::PortUnreachable => (DESTINATION_UNREACHABLE, PORT_UNREACHABLE, [0; 4]),
            Problem::FragmentationNeeded { mtu } => (DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED, mtu_rest(mtu)),
            Problem::SourceRouteFailed => (DESTINATION_UNREACHABLE, SOURCE_ROUTE_FAILED, [0; 4]),
            Problem::AdministrativelyProhibited => (DESTINATION_UNREACHABLE, ADMINISTRATIVELY_PROHIBITED, [0; 4]),
            Problem::Redirect { gateway } => (REDIRECT, REDIRECT_HOST, gateway.octets()),
            Problem::Parameter { pointer } => (PARAMETER_PROBLEM, 0, [pointer, 0, 0, 0]),
        }
    }
}

/// Writes to `out` the whole IPv4 packet that reports `problem` about `packet`, to the packet's source, from `source`.
/// Answers its length, at most [`MAX_ERROR`]; `None` if `packet` has no whole IPv4 header, or `out` no room.
///
/// Ask [`may_report`] first.
pub fn write_error(
    problem: Problem,
    packet: &[u8],
    source: Ipv4Addr,
    identification: u16,
    out: &mut [u8],
) -> Option<usize> {
    let header = ipv4::header(packet)?;
    let about = Ipv4::view(header)?;
    let all = packet.get(..about.total_len().max(header.len())).unwrap_or(packet);
    let quote = all.get(..MAX_ERROR - Ipv4::LEN - Icmp::LEN).unwrap_or(all);
    let length = Ipv4::LEN + Icmp::LEN + quote.len();
    let out = out.get_mut(..length)?;
    let (ip, message) = Ipv4::split_mut(out)?;
    *ip = Ipv4 {
        version_ihl: 0x45,
        tos: ERROR_TOS,
        total_length: U16::new(u16::try_from(length).ok()?),
        identification: U16::new(identification),
        flags_offset: U16::ZERO,
        ttl: TTL,
        protocol: ipv4::ICMP,
        checksum: U16::ZERO,
        source: U32::new(source.to_bits()),
        destination: about.source,
    };
    message.get_mut(Icmp::LEN..)?.copy_from_slice(quote);
    let (kind, code, rest) = problem.header();
    icmp::write_header(message, kind, code, rest);
    ipv4::write_checksum(out).then_some(length)
}

/// Why no error may be reported about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// It is not a valid IPv4 packet.
    Invalid,
    /// It is an ICMP error message itself, or too short to tell.
    Error,
    /// It went to a broadcast or multicast address.
    Broadcast,
    /// It came as a link-layer broadcast or multicast.
    LinkBroadcast,
    /// Its source is no single host.
    Source,
    /// It is a fragment, but not the first.
    LaterFragment,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhyNot::Invalid => "no error is sent about a packet that is not valid",
            WhyNot::Error => "no error is sent about an ICMP error",
            WhyNot::Broadcast => "no error is sent about a packet to a broadcast or multicast address",
            WhyNot::LinkBroadcast => "no error is sent about a packet that came as a link-layer broadcast",
            WhyNot::Source => "no error is sent to a source address that is no single host",
            WhyNot::LaterFragment => "no error is sent about a fragment other than the first",
        })
    }
}

impl std::error::Error for WhyNot {}

/// Whether an ICMP error may be sent about `packet` (RFC 1812 section 4.3.2.7, RFC 1122 section 3.2.2). `link_broadcast`
/// says that it came in a link-layer broadcast or multicast; `is_broadcast`, whether an address is the broadcast (or network)
/// address of a connected subnet.
///
/// # Errors
/// The first rule that forbids it.
pub fn may_report(packet: &[u8], link_broadcast: bool, is_broadcast: impl Fn(Ipv4Addr) -> bool) -> Result<(), WhyNot> {
    // "A packet which fails the IP header validation tests described in Section 5.2.2 (except where that section
    // specifically permits the sending of an ICMP error message)": a truncated packet may be reported.
    match validity::check_slice(packet) {
        Ok(()) | Err(validity::Defect::Truncated) => {}
        Err(_) => return Err(WhyNot::Invalid),
    }
    let ip = Ipv4::view(packet).ok_or(WhyNot::Invalid)?;
    let (source, destination) = (ip.source.get(), ip.destination.get());
    // "Any fragment of a datagram other then the first fragment (i.e., a packet for which the fragment offset in the IP
    // header is nonzero)". Comes first, as a later fragment has no ICMP type to look at.
    if ip.fragment_offset() != 0 {
        return Err(WhyNot::LaterFragment);
    }
    // "An ICMP error message".
    if ip.protocol == ipv4::ICMP && packet.get(ip.header_len()).is_none_or(|&kind| icmp::is_error(kind)) {
        return Err(WhyNot::Error);
    }
    // "A packet destined to an IP broadcast or IP multicast address".
    if martian::is_multicast(destination)
        || martian::is_limited_broadcast(destination)
        || is_broadcast(ip.destination_addr())
    {
        return Err(WhyNot::Broadcast);
    }
    // "A packet sent as a Link Layer broadcast or multicast".
    if link_broadcast {
        return Err(WhyNot::LinkBroadcast);
    }
    // "A packet whose source address has a network prefix of zero or is an invalid source address (as defined in Section
    // 5.3.7)"; RFC 1122: "a source address [that] does not define a single host".
    if martian::is_martian_source(source) || is_broadcast(ip.source_addr()) {
        return Err(WhyNot::Source);
    }
    Ok(())
}

/// Why a packet is not answered as an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEcho {
    /// It is not an ICMP echo request, or not there whole.
    NotRequest,
    /// It is a fragment of one.
    Fragment,
    /// Its ICMP checksum is wrong.
    Checksum,
    /// It carries a source route. RFC 1812 section 4.3.3.6 wants the route reversed in the reply; Weir does not follow source
    /// routes (RFC 7126 section 4.3 advises against them) and does not answer instead.
    SourceRoute,
}

impl fmt::Display for NotEcho {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotEcho::NotRequest => "not a whole ICMP echo request",
            NotEcho::Fragment => "a fragment of an ICMP echo request",
            NotEcho::Checksum => "an echo request with a wrong checksum",
            NotEcho::SourceRoute => "an echo request with a source route",
        })
    }
}

impl std::error::Error for NotEcho {}

/// Turns the valid IPv4 packet `packet`, an echo request, into its reply, in place: `source` is the address that was asked
/// (one of the router's own when that was a broadcast). Data, length, other options and type of service stay as they are
/// (RFC 1812 section 4.3.2.5: "same TOS", "same precedence").
///
/// # Errors
/// It is not a request that can be answered; nothing is changed.
pub fn echo_reply(packet: &mut [u8], source: Ipv4Addr) -> Result<(), NotEcho> {
    check_request(packet)?;
    let ip = Ipv4::view_mut(packet).ok_or(NotEcho::NotRequest)?;
    let length = ip.header_len();
    ip.destination = ip.source;
    ip.source = U32::new(source.to_bits());
    ip.ttl = TTL;
    ipv4::write_checksum(packet);
    let message = packet.get_mut(length..).and_then(Icmp::view_mut).ok_or(NotEcho::NotRequest)?;
    let word = |kind| u16::from_be_bytes([kind, message.code]);
    let sum = checksum::update(message.checksum.get(), word(icmp::ECHO), word(icmp::ECHO_REPLY));
    message.checksum = U16::new(sum);
    message.kind = icmp::ECHO_REPLY;
    Ok(())
}

fn check_request(packet: &[u8]) -> Result<(), NotEcho> {
    let ip = Ipv4::view(packet).ok_or(NotEcho::NotRequest)?;
    let message = ipv4::payload(packet).ok_or(NotEcho::NotRequest)?;
    if ip.protocol != ipv4::ICMP {
        return Err(NotEcho::NotRequest);
    }
    if ip.is_fragment() {
        return Err(NotEcho::Fragment);
    }
    let header = Icmp::view(message).ok_or(NotEcho::NotRequest)?;
    if header.kind != icmp::ECHO {
        return Err(NotEcho::NotRequest);
    }
    if !checksum::is_valid(message) {
        return Err(NotEcho::Checksum);
    }
    if ipv4::options(packet).flatten().any(|option| option.is_source_route()) {
        return Err(NotEcho::SourceRoute);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::build::UdpFrame;

    const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    fn udp(length: usize) -> Vec<u8> {
        UdpFrame::default().to_vec(&vec![0x5a; length]).split_off(14)
    }

    fn echo(options: &[u8], data: &[u8]) -> Vec<u8> {
        let mut packet = udp(0)[..20].to_vec();
        packet.extend(options);
        packet.extend([8, 0, 0, 0, 0x12, 0x34, 0, 7]);
        packet.extend(data);
        let at = 20 + options.len();
        icmp::write_header(&mut packet[at..], icmp::ECHO, 0, icmp::echo_rest(0x1234, 7));
        packet[0] = 0x40 | (at / 4) as u8;
        packet[1] = 0xb8;
        packet[9] = ipv4::ICMP;
        let total = packet.len() as u16;
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        ipv4::write_checksum(&mut packet);
        packet
    }

    #[test]
    fn each_problem_is_the_message_of_its_rfc() {
        let cases = [
            (Problem::TtlExceeded, [11, 0, 0, 0, 0, 0]),
            (Problem::ReassemblyExceeded, [11, 1, 0, 0, 0, 0]),
            (Problem::NetUnreachable, [3, 0, 0, 0, 0, 0]),
            (Problem::HostUnreachable, [3, 1, 0, 0, 0, 0]),
            (Problem::ProtocolUnreachable, [3, 2, 0, 0, 0, 0]),
            (Problem::PortUnreachable, [3, 3, 0, 0, 0, 0]),
            (Problem::FragmentationNeeded { mtu: 1400 }, [3, 4, 0, 0, 0x05, 0x78]),
            (Problem::SourceRouteFailed, [3, 5, 0, 0, 0, 0]),
            (Problem::AdministrativelyProhibited, [3, 13, 0, 0, 0, 0]),
            (Problem::Redirect { gateway: Ipv4Addr::new(10, 0, 0, 7) }, [5, 1, 10, 0, 0, 7]),
            (Problem::Parameter { pointer: 21 }, [12, 0, 21, 0, 0, 0]),
        ];
        let packet = udp(30);
        for (problem, [kind, code, rest @ ..]) in cases {
            let mut out = [0xee; 600];
            let length = write_error(problem, &packet, ROUTER, 0x77, &mut out).unwrap();
            let (error, untouched) = out.split_at(length);
            assert_eq!(validity::check_slice(error), Ok(()));
            let ip = Ipv4::view(error).unwrap();
            assert_eq!((ip.source_addr(), ip.destination_addr()), (ROUTER, Ipv4Addr::new(198, 18, 0, 1)));
            assert_eq!((ip.ttl, ip.tos >> 5, ip.tos & 0x1f, ip.protocol), (64, 6, 0, 1));
            assert_eq!(ip.identification.get(), 0x77);
            assert_eq!((error[20], error[21], &error[24..28]), (kind, code, &rest[..]), "{problem:?}");
            assert!(checksum::is_valid(&error[20..]));
            assert_eq!(error[28..], packet);
            assert!(untouched.iter().all(|&byte| byte == 0xee));
        }
    }

    #[test]
    fn errors_quote_as_much_as_576_bytes_allow() {
        for length in 0..1000 {
            let mut packet = udp(length);
            let total = packet.len();
            packet.extend([0xdd; 7]);
            let mut out = [0; 576];
            let written = write_error(Problem::TtlExceeded, &packet, ROUTER, 0, &mut out).unwrap();
            assert_eq!(written, (28 + total).min(576), "padding is not quoted");
            assert_eq!(out[28..written], packet[..written - 28]);
        }
        assert_eq!(write_error(Problem::TtlExceeded, &udp(0), ROUTER, 0, &mut [0; 55]), None);
        assert_eq!(write_error(Problem::TtlExceeded, &udp(0)[..19], ROUTER, 0, &mut [0; 99]), None);
    }

    fn may(change: impl FnOnce(&mut Vec<u8>)) -> Result<(), WhyNot> {
        let mut packet = udp(9);
        change(&mut packet);
        ipv4::write_checksum(&mut packet);
        may_report(&packet, false, |address| address == Ipv4Addr::new(10, 255, 255, 255))
    }

    #[test]
    fn each_rule_of_rfc_1812_section_4_3_2_7() {
        assert_eq!(may(|_| ()), Ok(()));
        assert_eq!(may_report(&udp(9), true, |_| false), Err(WhyNot::LinkBroadcast));
        assert_eq!(may(|p| p[0] = 0x65), Err(WhyNot::Invalid));
        let mut wrong = udp(9);
        wrong[10] ^= 1;
        assert_eq!(may_report(&wrong, false, |_| false), Err(WhyNot::Invalid));
        assert_eq!(may_report(&udp(9)[..30], false, |_| false), Ok(()), "truncated packets may be reported");
        for kind in 0..=255 {
            let expected = if [3, 4, 5, 11, 12].contains(&kind) { Err(WhyNot::Error) } else { Ok(()) };
            assert_eq!(may(|p| (p[9], p[20]) = (1, kind)), expected, "ICMP type {kind}");
        }
        assert_eq!(
            may(|p| {
                p.truncate(20);
                (p[3], p[9]) = (20, 1);
            }),
            Err(WhyNot::Error),
            "no type to look at"
        );
        for destination in [[224, 0, 0, 5], [239, 255, 255, 255], [255; 4], [10, 255, 255, 255]] {
            assert_eq!(may(|p| p[16..20].copy_from_slice(&destination)), Err(WhyNot::Broadcast));
        }
        for source in
            [[0; 4], [0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4], [10, 255, 255, 255]]
        {
            assert_eq!(may(|p| p[12..16].copy_from_slice(&source)), Err(WhyNot::Source));
        }
        assert_eq!(may(|p| p[7] = 1), Err(WhyNot::LaterFragment));
        assert_eq!(may(|p| p[6] = 0x20), Ok(()), "the first fragment may be reported");
        assert_eq!(may(|p| (p[7], p[9], p[20]) = (1, 1, 8)), Err(WhyNot::LaterFragment));
    }

    #[test]
    fn no_error_is_reported_about_an_error_that_was_written_here() {
        let mut out = [0; 576];
        let length = write_error(Problem::NetUnreachable, &udp(9), ROUTER, 0, &mut out).unwrap();
        assert_eq!(may_report(&out[..length], false, |_| false), Err(WhyNot::Error));
    }

    #[test]
    fn a_reply_is_the_request_turned_round() {
        let record_route = [7, 7, 4, 0, 0, 0, 0, 0];
        for options in [&[][..], &record_route] {
            for length in 0..80 {
                let request = echo(options, &vec![0x33; length]);
                let mut reply = request.clone();
                echo_reply(&mut reply, ROUTER).unwrap();
                assert_eq!(validity::check_slice(&reply), Ok(()));
                let ip = Ipv4::view(&reply).unwrap();
                assert_eq!((ip.source_addr(), ip.destination_addr()), (ROUTER, Ipv4Addr::new(198, 18, 0, 1)));
                assert_eq!((ip.ttl, ip.tos), (64, 0xb8));
                let at = 20 + options.len();
                assert!(checksum::is_valid(&reply[at..]));
                assert_eq!((reply[at], reply[at + 1], &reply[at + 4..]), (0, 0, &request[at + 4..]));
                assert_eq!(reply[20..at], *options);
            }
        }
    }

    #[test]
    fn what_is_no_request_is_left_alone() {
        let cases: [(NotEcho, Vec<u8>); 7] = [
            (NotEcho::NotRequest, udp(9)),
            (NotEcho::NotRequest, echo(&[], &[])[..27].to_vec()),
            (NotEcho::NotRequest, {
                let mut p = echo(&[], &[]);
                p[20] = 0;
                p
            }),
            (NotEcho::Fragment, {
                let mut p = echo(&[], &[]);
                p[6] = 0x20;
                p
            }),
            (NotEcho::Checksum, {
                let mut p = echo(&[], &[1]);
                p[28] = 2;
                p
            }),
            (NotEcho::SourceRoute, echo(&[131, 7, 4, 10, 0, 0, 1, 0], &[])),
            (NotEcho::SourceRoute, echo(&[1, 137, 7, 4, 10, 0, 0, 1], &[])),
        ];
        for (expected, packet) in cases {
            let mut changed = packet.clone();
            assert_eq!(echo_reply(&mut changed, ROUTER), Err(expected));
            assert_eq!(changed, packet);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), room in 0usize..600) {
            let _ = may_report(&bytes, false, |_| false);
            let _ = write_error(Problem::TtlExceeded, &bytes, ROUTER, 1, &mut vec![0; room]);
            if bytes.len() > 20 {
                (bytes[0], bytes[9]) = (0x45, 1);
                bytes[20] = 8;
            }
            let _ = echo_reply(&mut bytes, ROUTER);
        }
    }
}
