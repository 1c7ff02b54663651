//! What goes wrong with packets, as ICMP of either family tells it, and how often it is told.

use weir_net::icmp::Problem;
use weir_net::icmp6::Problem as Problem6;
use weir_net::rib::Discard;
use weir_packet::Packet;
use weir_wire::{Ethernet, MacAddr, View, ethernet};

use crate::slow::Exit;

/// What goes wrong with a packet of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its hops ran out.
    HopsExceeded,
    /// Its fragments did not all come in time.
    ReassemblyExceeded,
    /// No route leads there.
    NoRoute,
    /// Its neighbour does not answer.
    NoNeighbor,
    /// A route says that nothing can be reached there.
    Rejected,
    /// A route says that nobody may go there.
    Prohibited,
    /// Nobody listens at its port.
    NoPort,
    /// It is longer than the next link can carry, and not to be taken apart.
    TooBig {
        /// Bytes that the link can carry.
        mtu: u16,
    },
    /// What only IPv4 knows.
    Four(Problem),
    /// What only IPv6 knows.
    Six(Problem6),
}

impl Trouble {
    /// What a route says that leads nowhere; `None`: nobody is told.
    pub(crate) const fn of(discard: Discard) -> Option<Trouble> {
        match discard {
            Discard::Blackhole => None,
            Discard::Unreachable => Some(Trouble::Rejected),
            Discard::Prohibit => Some(Trouble::Prohibited),
        }
    }

    /// As ICMP tells it; `None` if it cannot.
    pub(crate) const fn four(self) -> Option<Problem> {
        Some(match self {
            Trouble::HopsExceeded => Problem::TtlExceeded,
            Trouble::ReassemblyExceeded => Problem::ReassemblyExceeded,
            Trouble::NoRoute | Trouble::Rejected => Problem::NetUnreachable,
            Trouble::NoNeighbor => Problem::HostUnreachable,
            Trouble::Prohibited => Problem::AdministrativelyProhibited,
            Trouble::NoPort => Problem::PortUnreachable,
            Trouble::TooBig { mtu } => Problem::FragmentationNeeded { mtu },
            Trouble::Four(problem) => problem,
            Trouble::Six(_) => return None,
        })
    }

    /// As ICMPv6 tells it; `None` if it cannot.
    pub(crate) const fn six(self) -> Option<Problem6> {
        Some(match self {
            Trouble::HopsExceeded => Problem6::HopLimitExceeded,
            Trouble::ReassemblyExceeded => Problem6::ReassemblyExceeded,
            Trouble::NoRoute => Problem6::NoRoute,
            Trouble::NoNeighbor => Problem6::AddressUnreachable,
            Trouble::Rejected => Problem6::RejectRoute,
            Trouble::Prohibited => Problem6::AdministrativelyProhibited,
            Trouble::NoPort => Problem6::PortUnreachable,
            Trouble::TooBig { mtu } => Problem6::TooBig { mtu: mtu as u32 },
            Trouble::Six(problem) => problem,
            Trouble::Four(_) => return None,
        })
    }
}

/// Kinds of errors, each with a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    TimeExceeded,
    ReassemblyExceeded,
    NetUnreachable,
    HostUnreachable,
    Prohibited,
    ProtocolUnreachable,
    PortUnreachable,
    FragmentationNeeded,
    SourceRouteFailed,
    ParameterProblem,
    Redirect,
    HopLimitExceeded6,
    ReassemblyExceeded6,
    NoRoute6,
    Prohibited6,
    BeyondScope6,
    AddressUnreachable6,
    PortUnreachable6,
    RejectRoute6,
    PacketTooBig6,
    ParameterProblem6,
    Redirect6,
}

/// How many kinds there are.
pub(crate) const ERRORS: usize = ErrorKind::Redirect6 as usize + 1;

impl ErrorKind {
    /// The kind of a problem, and the reason under which its message is counted.
    pub(crate) const fn of(problem: Problem) -> (ErrorKind, Exit) {
        match problem {
            Problem::TtlExceeded => (ErrorKind::TimeExceeded, Exit::TimeExceeded),
            Problem::ReassemblyExceeded => (ErrorKind::ReassemblyExceeded, Exit::ReassemblyExceeded),
            Problem::NetUnreachable => (ErrorKind::NetUnreachable, Exit::NetUnreachable),
            Problem::HostUnreachable => (ErrorKind::HostUnreachable, Exit::HostUnreachable),
            Problem::AdministrativelyProhibited => (ErrorKind::Prohibited, Exit::AdministrativelyProhibited),
            Problem::ProtocolUnreachable => (ErrorKind::ProtocolUnreachable, Exit::ProtocolUnreachable),
            Problem::PortUnreachable => (ErrorKind::PortUnreachable, Exit::PortUnreachable),
            Problem::FragmentationNeeded { .. } => (ErrorKind::FragmentationNeeded, Exit::FragmentationNeeded),
            Problem::SourceRouteFailed => (ErrorKind::SourceRouteFailed, Exit::SourceRouteFailed),
            Problem::Parameter { .. } => (ErrorKind::ParameterProblem, Exit::ParameterProblem),
            Problem::Redirect { .. } => (ErrorKind::Redirect, Exit::Redirect),
        }
    }

    /// The same for ICMPv6; `None` for problems that this router does not report.
    pub(crate) const fn of_six(problem: Problem6) -> Option<(ErrorKind, Exit)> {
        Some(match problem {
            Problem6::HopLimitExceeded => (ErrorKind::HopLimitExceeded6, Exit::TimeExceeded6),
            Problem6::ReassemblyExceeded => (ErrorKind::ReassemblyExceeded6, Exit::ReassemblyExceeded6),
            Problem6::NoRoute => (ErrorKind::NoRoute6, Exit::NoRoute6),
            Problem6::AdministrativelyProhibited => (ErrorKind::Prohibited6, Exit::Prohibited6),
            Problem6::BeyondScope => (ErrorKind::BeyondScope6, Exit::BeyondScope6),
            Problem6::AddressUnreachable => (ErrorKind::AddressUnreachable6, Exit::AddressUnreachable6),
            Problem6::PortUnreachable => (ErrorKind::PortUnreachable6, Exit::PortUnreachable6),
            Problem6::RejectRoute => (ErrorKind::RejectRoute6, Exit::RejectRoute6),
            Problem6::TooBig { .. } => (ErrorKind::PacketTooBig6, Exit::PacketTooBig6),
            Problem6::Parameter { .. } => (ErrorKind::ParameterProblem6, Exit::ParameterProblem6),
            Problem6::SourcePolicy => return None,
        })
    }
}

/// Writes the Ethernet header of a packet of either family.
pub(crate) fn address_frame(packet: &mut Packet, from: MacAddr, to: MacAddr) {
    let is_six = packet.bytes().get(Ethernet::LEN).is_some_and(|byte| byte >> 4 == 6);
    if let Some(header) = Ethernet::view_mut(packet.bytes_mut()) {
        *header = Ethernet::new(to, from, if is_six { ethernet::IPV6 } else { ethernet::IPV4 });
    }
}
