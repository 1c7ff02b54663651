//! ICMP for IPv4 (RFC 792; RFC 1812 section 4.3): header, types and codes.

use crate::{U16, View, checksum};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type: destination unreachable.
pub const DESTINATION_UNREACHABLE: u8 = 3;
/// Type: source quench (obsolete, RFC 6633).
pub const SOURCE_QUENCH: u8 = 4;
/// Type: redirect.
pub const REDIRECT: u8 = 5;
/// Code of a redirect: for the host.
pub const REDIRECT_HOST: u8 = 1;
/// Type: echo request.
pub const ECHO: u8 = 8;
/// Type: router advertisement (RFC 1256).
pub const ROUTER_ADVERTISEMENT: u8 = 9;
/// Type: router solicitation (RFC 1256).
pub const ROUTER_SOLICITATION: u8 = 10;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;
/// Type: timestamp.
pub const TIMESTAMP: u8 = 13;
/// Type: timestamp reply.
pub const TIMESTAMP_REPLY: u8 = 14;

/// Destination unreachable: network (RFC 792).
pub const NET_UNREACHABLE: u8 = 0;
/// Destination unreachable: host (RFC 792).
pub const HOST_UNREACHABLE: u8 = 1;
/// Destination unreachable: protocol (RFC 792).
pub const PROTOCOL_UNREACHABLE: u8 = 2;
/// Destination unreachable: port (RFC 792).
pub const PORT_UNREACHABLE: u8 = 3;
/// Destination unreachable: fragmentation needed and DF set (RFC 1191).
pub const FRAGMENTATION_NEEDED: u8 = 4;
/// Destination unreachable: source route failed (RFC 792).
pub const SOURCE_ROUTE_FAILED: u8 = 5;
/// Destination unreachable: communication administratively prohibited (RFC 1812).
pub const ADMINISTRATIVELY_PROHIBITED: u8 = 13;
/// Time exceeded: TTL in transit.
pub const TTL_EXCEEDED: u8 = 0;
/// Time exceeded: fragment reassembly.
pub const REASSEMBLY_EXCEEDED: u8 = 1;

/// The ICMP header, 8 bytes: type, code, checksum, and four bytes that depend on the type.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Icmp {
    /// What the message is.
    pub kind: u8,
    /// Which of its kind.
    pub code: u8,
    /// Checksum of the whole message.
    pub checksum: U16,
    /// Identifier and sequence number of echoes; zero, MTU, pointer or gateway of errors.
    pub rest: [u8; 4],
}

impl View for Icmp {}

impl Icmp {
    /// Identifier of an echo.
    pub const fn echo_identifier(&self) -> u16 {
        let [high, low, ..] = self.rest;
        u16::from_be_bytes([high, low])
    }

    /// Sequence number of an echo.
    pub const fn echo_sequence(&self) -> u16 {
        let [.., high, low] = self.rest;
        u16::from_be_bytes([high, low])
    }

    /// Next-hop MTU of "fragmentation needed" (RFC 1191 section 4), in bytes; 0 from routers that do not tell.
    pub const fn next_hop_mtu(&self) -> u16 {
        self.echo_sequence()
    }
}

/// The variable four bytes of an echo request or reply.
pub const fn echo_rest(identifier: u16, sequence: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
    [a, b, c, d]
}

/// The variable four bytes of "fragmentation needed" (RFC 1191): two of zero, then the next hop's MTU.
pub const fn mtu_rest(mtu: u16) -> [u8; 4] {
    echo_rest(0, mtu)
}

/// Whether a message of this type reports an error: no error message may be sent about it (RFC 1122 section 3.2.2).
pub const fn is_error(kind: u8) -> bool {
    matches!(kind, DESTINATION_UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// The name of type and code, as traces show it; `None` for types that Weir has no name for.
pub const fn name(kind: u8, code: u8) -> Option<&'static str> {
    Some(match (kind, code) {
        (ECHO_REPLY, _) => "echo-reply",
        (DESTINATION_UNREACHABLE, NET_UNREACHABLE) => "net-unreachable",
        (DESTINATION_UNREACHABLE, HOST_UNREACHABLE) => "host-unreachable",
        (DESTINATION_UNREACHABLE, PROTOCOL_UNREACHABLE) => "protocol-unreachable",
        (DESTINATION_UNREACHABLE, PORT_UNREACHABLE) => "port-unreachable",
        (DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED) => "fragmentation-needed",
        (DESTINATION_UNREACHABLE, SOURCE_ROUTE_FAILED) => "source-route-failed",
        (DESTINATION_UNREACHABLE, ADMINISTRATIVELY_PROHIBITED) => "administratively-prohibited",
        (DESTINATION_UNREACHABLE, _) => "destination-unreachable",
        (SOURCE_QUENCH, _) => "source-quench",
        (REDIRECT, _) => "redirect",
        (ECHO, _) => "echo",
        (ROUTER_ADVERTISEMENT, _) => "router-advertisement",
        (ROUTER_SOLICITATION, _) => "router-solicitation",
        (TIME_EXCEEDED, TTL_EXCEEDED) => "ttl-exceeded",
        (TIME_EXCEEDED, REASSEMBLY_EXCEEDED) => "reassembly-exceeded",
        (TIME_EXCEEDED, _) => "time-exceeded",
        (PARAMETER_PROBLEM, _) => "parameter-problem",
        (TIMESTAMP, _) => "timestamp",
        (TIMESTAMP_REPLY, _) => "timestamp-reply",
        _ => return None,
    })
}

/// Writes header and checksum of the message that fills `message`, whose data stand there from byte 8 on. Answers
/// `false`, and writes nothing, if it has fewer than 8 bytes.
pub fn write_header(message: &mut [u8], kind: u8, code: u8, rest: [u8; 4]) -> bool {
    let Some(header) = Icmp::view_mut(message) else { return false };
    *header = Icmp { kind, code, checksum: U16::ZERO, rest };
    let sum = checksum::checksum(message);
    if let Some(header) = Icmp::view_mut(message) {
        header.checksum = U16::new(sum);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_echo_is_the_bytes_of_rfc_792() {
        let mut message = *b"????????ab";
        assert!(write_header(&mut message, ECHO, 0, echo_rest(0x1234, 7)));
        // 0800 + 1234 + 0007 + 6162 = 7b9d; its complement is 8462.
        assert_eq!(message, [8, 0, 0x84, 0x62, 0x12, 0x34, 0, 7, b'a', b'b']);
        let echo = Icmp::view(&message).unwrap();
        assert_eq!((echo.echo_identifier(), echo.echo_sequence()), (0x1234, 7));
        assert!(!write_header(&mut [0; 7], ECHO, 0, [0; 4]));
    }

    #[test]
    fn the_mtu_stands_in_the_low_half_as_rfc_1191_says() {
        let mut message = [0; 8];
        write_header(&mut message, DESTINATION_UNREACHABLE, FRAGMENTATION_NEEDED, mtu_rest(1400));
        assert_eq!(message[4..], [0, 0, 0x05, 0x78]);
        assert_eq!(Icmp::view(&message).unwrap().next_hop_mtu(), 1400);
    }

    #[test]
    fn errors_are_the_five_of_rfc_1122() {
        let errors: Vec<u8> = (0..=255).filter(|&kind| is_error(kind)).collect();
        assert_eq!(errors, [3, 4, 5, 11, 12]);
        assert!((0..=255).all(|code| name(77, code).is_none() && name(3, code).is_some()));
    }

    proptest! {
        #[test]
        fn a_written_message_has_a_valid_checksum(mut message in proptest::collection::vec(any::<u8>(), 8..99), kind: u8, code: u8, rest: [u8; 4]) {
            let data = message[8..].to_vec();
            prop_assert!(write_header(&mut message, kind, code, rest));
            prop_assert_eq!(checksum::naive(&message), 0);
            prop_assert_eq!(&message[8..], data);
            prop_assert_eq!((message[0], message[1], &message[4..8]), (kind, code, &rest[..]));
        }
    }
}
