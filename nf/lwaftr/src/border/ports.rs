//! By which port a packet is a softwire's: its own, an identifier, or that of the packet that an ICMP error quotes (RFC 7596 section 8.1).

use weir_wire::icmp::{self, Icmp};
use weir_wire::{Ipv4, View, ipv4};

use crate::config::EchoPort;

/// Which end of a packet is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
}

impl End {
    const fn other(self) -> End {
        match self {
            End::Source => End::Destination,
            End::Destination => End::Source,
        }
    }
}

/// The port of one end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// This one.
    Is(u16),
    /// Packets of its protocol have none: it is for whoever has the whole address.
    None,
    /// It has to have one, and is too short for it.
    Missing,
}

/// The port of an end of the IPv4 packet `packet`, which is no later fragment. Of a quoted packet only the beginning may be there.
pub(crate) fn port_of(packet: &[u8], end: End, echo: &EchoPort) -> Port {
    let Some(ip) = Ipv4::view(packet) else { return Port::Missing };
    let Some(payload) = packet.get(ip.header_len()..) else { return Port::Missing };
    match ip.protocol {
        ipv4::ICMP => port_of_icmp(payload, end, echo),
        protocol => transport_port(protocol, payload, end),
    }
}

fn transport_port(protocol: u8, payload: &[u8], end: End) -> Port {
    if !matches!(protocol, ipv4::TCP | ipv4::UDP | ipv4::SCTP | ipv4::DCCP | ipv4::UDP_LITE) {
        return Port::None;
    }
    match (payload, end) {
        ([high, low, ..], End::Source) | ([_, _, high, low, ..], End::Destination) => {
            Port::Is(u16::from_be_bytes([*high, *low]))
        }
        _ => Port::Missing,
    }
}

fn port_of_icmp(message: &[u8], end: End, echo: &EchoPort) -> Port {
    let Some((header, quoted)) = Icmp::split(message) else { return Port::Missing };
    let identifier = Port::Is(header.echo_identifier());
    // Whoever asked: the source of a request, and the destination of a reply.
    let asked = match header.kind {
        icmp::ECHO => End::Source,
        icmp::ECHO_REPLY => End::Destination,
        kind if icmp::is_error(kind) => return port_of_quoted(quoted, end.other(), echo),
        _ => return Port::None,
    };
    match echo {
        EchoPort::Zero if end != asked => Port::Is(0),
        _ => identifier,
    }
}

/// The port of an end of a packet that an error is about: that packet went the other way.
fn port_of_quoted(quoted: &[u8], end: End, echo: &EchoPort) -> Port {
    let Some(ip) = Ipv4::view(quoted) else { return Port::Missing };
    let Some(payload) = quoted.get(ip.header_len()..) else { return Port::Missing };
    if ip.fragment_offset() > 0 {
        return Port::Missing;
    }
    match ip.protocol {
        // There are no errors about errors.
        ipv4::ICMP => match payload.first() {
            Some(&(icmp::ECHO | icmp::ECHO_REPLY)) => port_of_icmp(payload, end, echo),
            _ => Port::Missing,
        },
        protocol => transport_port(protocol, payload, end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        (packet[0], packet[9]) = (0x45, protocol);
        packet.extend(payload);
        packet
    }

    const BOTH: [EchoPort; 2] = [EchoPort::Identifier, EchoPort::Zero];

    #[test]
    fn transports_have_ports_and_others_none() {
        for protocol in 0..=255 {
            let found =
                [End::Source, End::Destination].map(|end| port_of(&packet(protocol, &[1, 2, 3, 4]), end, &BOTH[0]));
            let expected = match protocol {
                6 | 17 | 33 | 132 | 136 => [Port::Is(0x0102), Port::Is(0x0304)],
                1 => [Port::Missing; 2],
                _ => [Port::None; 2],
            };
            assert_eq!(found, expected, "{protocol}");
        }
        assert_eq!(port_of(&packet(17, &[1, 2, 3]), End::Destination, &BOTH[0]), Port::Missing);
        assert_eq!(port_of(&packet(17, &[]), End::Source, &BOTH[0]), Port::Missing);
    }

    #[test]
    fn echo_has_its_identifier_for_a_port() {
        let message = |kind| packet(1, &[kind, 0, 0, 0, 0x1e, 0xaa, 0, 4]);
        let of = |kind, end, echo: &EchoPort| port_of(&message(kind), end, echo);
        for kind in [0, 8] {
            for end in [End::Source, End::Destination] {
                assert_eq!(of(kind, end, &EchoPort::Identifier), Port::Is(7850));
            }
        }
        let zero = |kind, end| of(kind, end, &EchoPort::Zero);
        assert_eq!([zero(8, End::Source), zero(8, End::Destination)], [Port::Is(7850), Port::Is(0)]);
        assert_eq!([zero(0, End::Source), zero(0, End::Destination)], [Port::Is(0), Port::Is(7850)]);
        assert_eq!(of(13, End::Source, &EchoPort::Identifier), Port::None);
    }

    #[test]
    fn errors_are_for_the_source_of_what_they_quote() {
        let error = |quoted: &[u8]| packet(1, &[&[3, 1, 0, 0, 0, 0, 0, 0][..], quoted].concat());
        let quoted = packet(17, &[1, 2, 3, 4]);
        for echo in &BOTH {
            assert_eq!(port_of(&error(&quoted), End::Destination, echo), Port::Is(0x0102));
            assert_eq!(port_of(&error(&quoted), End::Source, echo), Port::Is(0x0304));
        }
        let mut later = quoted.clone();
        later[7] = 1;
        let echo = packet(1, &[8, 0, 0, 0, 0, 9, 0, 0]);
        assert_eq!(port_of(&error(&echo), End::Destination, &BOTH[0]), Port::Is(9));
        for bad in [&later[..], &quoted[..21], &quoted[..19], &error(&quoted)] {
            assert_eq!(port_of(&error(bad), End::Destination, &BOTH[0]), Port::Missing);
        }
    }
}
