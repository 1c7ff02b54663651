//! ICMP errors: whether one may be sent, from where, and how it goes out (RFC 1812 section 4.3).

use std::net::Ipv4Addr;

use weir_net::DEFAULT_VRF;
use weir_net::icmp::{self, MAX_ERROR, Problem};
use weir_packet::Held;
use weir_wire::{Ethernet, Ipv4, View};

use super::{Exit, HEADER, Turn, ip_bytes, ip_bytes_mut};
use crate::answer::ErrorKind;
use crate::routing::Decision;

impl Turn<'_, '_> {
    /// Drops a packet and reports why to its source, if that may be done.
    pub(super) fn refuse(&mut self, packet: Held, problem: Problem, exit: Exit) {
        if let Some((error, reason)) = self.error_about(&packet, problem) {
            // The packet is dropped for its own reason, whether or not its source hears of it.
            _ = self.originate(error, reason);
        }
        self.out.send(packet, exit);
    }

    /// The TTL of a packet ended here.
    pub(super) fn ttl_expired(&mut self, packet: Held) {
        self.refuse(packet, Problem::TtlExceeded, Exit::TtlExpired);
    }

    /// No route leads to a packet's destination.
    pub(super) fn no_route(&mut self, packet: Held) {
        self.refuse(packet, Problem::NetUnreachable, Exit::NoRoute);
    }

    /// The message that reports a problem with a packet, and the reason under which it is counted; `None` if none may be sent.
    pub(super) fn error_about(&mut self, about: &Held, problem: Problem) -> Option<(Held, Exit)> {
        let (kind, reason) = ErrorKind::of(problem)?;
        let frame = about.packet().bytes();
        let to_all = Ethernet::view(frame)?.destination.is_group();
        let packet = ip_bytes(about.packet());
        icmp::may_report(packet, to_all, |address| {
            self.control.addresses::<Ipv4Addr>(DEFAULT_VRF).is_broadcast(address)
        })
        .ok()?;
        let back = Ipv4::view(packet)?.source_addr();
        // "the IP source address in an ICMP message originated by the router MUST be one of the IP addresses associated with
        // the physical interface over which the ICMP message is transmitted" (section 4.3.2.4).
        let Decision::Via(next_hop) = self.control.routing.decide(DEFAULT_VRF, back.into(), || 0) else { return None };
        let source = self.control.source_on(next_hop.port, next_hop.neighbor_in(back)?)?;
        let now = self.out.now();
        if !self.control.may_send_error(kind, now) {
            return None;
        }
        let identification = self.control.next_identification();
        let mut error = self.fresh(HEADER + MAX_ERROR)?;
        let written = icmp::write_error(problem, packet, source, identification, ip_bytes_mut(&mut error));
        match written {
            Some(len) if error.set_len(HEADER + len) => Some((Held::fresh(error, 0, now), reason)),
            _ => {
                self.out.unalloc(error);
                None
            }
        }
    }
}
