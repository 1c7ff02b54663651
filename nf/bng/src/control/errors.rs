//! ICMP errors: whether one may be sent, from where, and how it goes out (RFC 1812 section 4.3).

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_net::icmp::{self, MAX_ERROR, Problem};
use weir_net::limit::{Policer, Rate};
use weir_packet::{Held, Packet};
use weir_wire::{Ipv4, View, ethernet};

use super::{Exit, Line, Turn, inside, inside_mut};
use crate::encap::TAGGED;
use crate::punt::PuntReason;

/// Kinds of errors, each with a rate of its own.
const KINDS: usize = 6;

/// Errors that one subscriber may cause in a second, and at once.
const EACH: u64 = 10;
const SECOND: u64 = 1_000_000_000;

/// How many errors are sent: of each kind, and to each subscriber.
#[derive(Debug)]
pub(crate) struct ErrorLimits {
    kinds: Policer<KINDS>,
    /// By number of the subscriber, when its next error would be sent if it kept its rate (GCRA, ITU-T I.371).
    due: Vec<u64>,
    identification: u16,
}

fn rates(per_second: u64) -> [Rate; KINDS] {
    [Rate::saving_a_tenth(per_second, 1); KINDS]
}

impl ErrorLimits {
    /// So many errors of each kind in a second.
    pub(crate) fn new(per_second: u64, now: u64) -> ErrorLimits {
        ErrorLimits { kinds: Policer::new(rates(per_second), now), due: Vec::new(), identification: 0 }
    }

    /// Changes the rate from now on.
    pub(crate) fn set_rate(&mut self, per_second: u64, now: u64) {
        self.kinds.set_rates(now, rates(per_second));
    }

    /// Whether another error of a kind may be sent about a subscriber, whose number is below the limit of subscribers.
    pub(super) fn take(&mut self, now: u64, kind: usize, subscriber: u32) -> bool {
        let place = subscriber as usize;
        if self.due.len() <= place {
            self.due.resize(place + 1, 0);
        }
        let Some(due) = self.due.get_mut(place) else { return false };
        let next = (*due).max(now);
        // A burst of errors ahead of time, and no more.
        if next > now + SECOND - SECOND / EACH || !self.kinds.take(now, kind) {
            return false;
        }
        *due = next + SECOND / EACH;
        true
    }

    fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }
}

/// The kind of a problem, and the reason under which its message is counted; `None` for problems that are not reported here.
fn kind_of(problem: Problem) -> Option<(usize, Exit)> {
    Some(match problem {
        Problem::TtlExceeded => (0, Exit::TimeExceeded),
        Problem::NetUnreachable => (1, Exit::NetUnreachable),
        Problem::HostUnreachable => (2, Exit::HostUnreachable),
        Problem::ProtocolUnreachable => (3, Exit::ProtocolUnreachable),
        Problem::PortUnreachable => (4, Exit::PortUnreachable),
        Problem::FragmentationNeeded { .. } => (5, Exit::FragmentationNeeded),
        _ => return None,
    })
}

impl Turn<'_, '_> {
    /// A customer's packet that can not go on.
    pub(super) fn refuse_customer(&mut self, why: PuntReason, line: Line, mut packet: Held) {
        if why == PuntReason::TooBig && self.control.config.tunnel.fragment {
            let core = Arc::clone(&self.control.core);
            let ip = Ipv4::view(inside(packet.packet()));
            let hop = ip.and_then(|ip| core.hop_to(ip.destination.get()).ok());
            return self.fragment_outer(line, packet, hop);
        }
        let mtu = self.mtu_for(&packet);
        if let Some(mtu) = mtu.filter(|_| why == PuntReason::TooBig) {
            match self.pieces_up(line, packet, mtu) {
                Ok(()) => return,
                Err(whole) => packet = whole,
            }
        }
        let (problem, exit) = match why {
            PuntReason::TtlExpired => (Problem::TtlExceeded, Exit::TtlExpired),
            PuntReason::TooBig => match mtu {
                Some(mtu) => (Problem::FragmentationNeeded { mtu }, Exit::TooBig),
                // The route has changed meanwhile.
                None => (Problem::NetUnreachable, Exit::NoRoute),
            },
            _ => (Problem::NetUnreachable, Exit::NoRoute),
        };
        self.refuse(line, packet, problem, exit);
    }

    fn mtu_for(&self, packet: &Held) -> Option<u16> {
        let destination = Ipv4::view(inside(packet.packet()))?.destination.get();
        self.control.core.hop_to(destination).ok().map(|hop| hop.longest)
    }

    /// Drops a customer's packet and reports why to its source, if that may be done.
    pub(super) fn refuse(&mut self, line: Line, packet: Held, problem: Problem, exit: Exit) {
        if let Some((error, reason)) = self.error_for(line, inside(packet.packet()), problem) {
            self.emit(error, line.tags.port, reason);
        }
        self.lose(line.subscriber, packet, exit);
    }

    /// The message that reports a problem with a customer's packet to him, and the reason under which it is counted; `None` if none
    /// may be sent.
    fn error_for(&mut self, line: Line, about: &[u8], problem: Problem) -> Option<(Packet, Exit)> {
        let (kind, reason) = kind_of(problem)?;
        icmp::may_report(about, line.to_group, |address| self.is_broadcast(address)).ok()?;
        let source = self.own_towards(Ipv4::view(about)?.source_addr())?;
        let (_, port) = self.access_port(line.tags)?;
        let now = self.out.now();
        if !self.control.errors.take(now, kind, line.subscriber) {
            return None;
        }
        let identification = self.control.errors.next_identification();
        let mut error = self.fresh(TAGGED + MAX_ERROR)?;
        let written = icmp::write_error(problem, about, source, identification, inside_mut(&mut error));
        let done = written.filter(|len| error.set_len(TAGGED + len));
        if done.and(self.tag(&mut error, line.tags, port.mac, line.station, ethernet::IPV4)).is_some() {
            return Some((error, reason));
        }
        self.out.unalloc(error);
        None
    }

    /// The gateway's own address towards a customer's; `None` if it has none.
    pub(super) fn own_towards(&self, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let own = &self.control.addresses;
        own.iter().find(|own| own.contains(&address)).or(own.first()).map(|own| own.addr())
    }

    /// Whether an address is the broadcast or network address of a network of the gateway's.
    pub(super) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        let access = self
            .control
            .addresses
            .iter()
            .any(|own| own.prefix_len() < 31 && (address == own.broadcast() || address == own.network()));
        access || self.control.layer.is_broadcast(address)
    }

    /// The message that reports a problem with a packet from the core to its source, as an IPv4 packet; `None` if none may be sent.
    pub(super) fn error_to_core(&mut self, subscriber: u32, about: &[u8], problem: Problem) -> Option<(Vec<u8>, Exit)> {
        let (kind, reason) = kind_of(problem)?;
        icmp::may_report(about, false, |address| self.is_broadcast(address)).ok()?;
        // It comes from where the packet was to leave: the subscriber's side (RFC 1812 section 4.3.2.4).
        let source = self.own_towards(Ipv4::view(about)?.destination_addr())?;
        let now = self.out.now();
        if !self.control.errors.take(now, kind, subscriber) {
            return None;
        }
        let identification = self.control.errors.next_identification();
        let mut error = vec![0; MAX_ERROR];
        let len = icmp::write_error(problem, about, source, identification, &mut error)?;
        error.truncate(len);
        Some((error, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_subscriber_has_ten_errors_a_second_and_leaves_the_others_theirs() {
        let mut limits = ErrorLimits::new(1000, 0);
        let mut sent = |now: u64, subscriber: u32| (0..50).filter(|_| limits.take(now, 0, subscriber)).count();
        assert_eq!((sent(5, 7), sent(5, 7), sent(5, 8)), (10, 0, 10));
        assert_eq!((sent(SECOND / 10 + 5, 7), sent(SECOND / 5 + 5, 7)), (1, 1));
        assert_eq!((sent(100 * SECOND, 7), sent(100 * SECOND, 8)), (10, 10));
    }

    #[test]
    fn kinds_have_rates_of_their_own() {
        let mut limits = ErrorLimits::new(20, 0);
        let mut sent = |kind: usize| (0..50).filter(|n| limits.take(0, kind, *n)).count();
        assert_eq!((sent(0), sent(0), sent(1)), (2, 0, 2));
    }
}
