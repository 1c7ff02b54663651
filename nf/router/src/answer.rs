//! ICMP errors by kind, and headers of what the slow path sends.

use weir_net::icmp::Problem;
use weir_packet::Packet;
use weir_wire::{Ethernet, MacAddr, View, ethernet};

use crate::control::Exit;

/// Kinds of errors, each with a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    TimeExceeded,
    ReassemblyExceeded,
    NetUnreachable,
    HostUnreachable,
    ProtocolUnreachable,
    PortUnreachable,
    FragmentationNeeded,
    SourceRouteFailed,
    ParameterProblem,
    Redirect,
}

/// How many kinds there are.
pub(crate) const ERRORS: usize = 10;

impl ErrorKind {
    /// The kind of a problem, and the reason under which its message is counted; `None` for problems that this router does
    /// not report.
    pub(crate) const fn of(problem: Problem) -> Option<(ErrorKind, Exit)> {
        Some(match problem {
            Problem::TtlExceeded => (ErrorKind::TimeExceeded, Exit::TimeExceeded),
            Problem::ReassemblyExceeded => (ErrorKind::ReassemblyExceeded, Exit::ReassemblyExceeded),
            Problem::NetUnreachable => (ErrorKind::NetUnreachable, Exit::NetUnreachable),
            Problem::HostUnreachable => (ErrorKind::HostUnreachable, Exit::HostUnreachable),
            Problem::ProtocolUnreachable => (ErrorKind::ProtocolUnreachable, Exit::ProtocolUnreachable),
            Problem::PortUnreachable => (ErrorKind::PortUnreachable, Exit::PortUnreachable),
            Problem::FragmentationNeeded { .. } => (ErrorKind::FragmentationNeeded, Exit::FragmentationNeeded),
            Problem::SourceRouteFailed => (ErrorKind::SourceRouteFailed, Exit::SourceRouteFailed),
            Problem::Parameter { .. } => (ErrorKind::ParameterProblem, Exit::ParameterProblem),
            Problem::Redirect { .. } => (ErrorKind::Redirect, Exit::Redirect),
            Problem::AdministrativelyProhibited => return None,
        })
    }
}

/// Writes the Ethernet header of an IPv4 packet.
pub(crate) fn address_frame(packet: &mut Packet, from: MacAddr, to: MacAddr) {
    if let Some(header) = Ethernet::view_mut(packet.bytes_mut()) {
        *header = Ethernet::new(to, from, ethernet::IPV4);
    }
}
