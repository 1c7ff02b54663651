//! ICMP errors of both families: whether one may be sent, from where, and how it goes out (RFC 1812 section 4.3, RFC 4443 section 2).

use std::net::IpAddr;

use weir_net::icmp;
use weir_net::icmp6;
use weir_packet::Held;
use weir_wire::extension::Fault;
use weir_wire::{Ethernet, View};

use super::parcel::{Header, Parcel, ip_bytes_mut};
use super::{Call, Exit, HEADER};
use crate::slow::answer::{ErrorKind, Trouble};

impl Call<'_, '_> {
    /// Drops a packet and reports why to its source, if that may be done. One that was made here is only dropped.
    pub(super) fn refuse(&mut self, parcel: Parcel, trouble: Trouble, exit: Exit) {
        self.tell(&parcel, parcel.ip(), trouble);
        self.end(parcel, exit);
    }

    /// The same for the first fragment of `whole`, which was put together.
    pub(super) fn refuse_whole(&mut self, parcel: Parcel, whole: Option<&[u8]>, trouble: Trouble, exit: Exit) {
        self.tell(&parcel, whole.unwrap_or(parcel.ip()), trouble);
        self.end(parcel, exit);
    }

    /// The packet is dropped for its own reason, whether or not its source hears of it.
    fn tell(&mut self, parcel: &Parcel, quote: &[u8], trouble: Trouble) {
        if parcel.origin.is_own {
            return;
        }
        if let Some((error, reason)) = self.error_about(parcel, quote, trouble) {
            _ = self.originate(error, reason);
        }
    }

    /// Drops a packet whose extension headers have a fault, of `whole` if it was put together.
    pub(super) fn refuse_fault(&mut self, parcel: Parcel, whole: Option<&[u8]>, fault: Fault) {
        match icmp6::Problem::of_fault(fault) {
            Some(problem) => self.refuse_whole(parcel, whole, Trouble::Six(problem), Exit::BadExtension),
            None => self.end(parcel, Exit::BadExtension),
        }
    }

    /// The hops of a packet ended here.
    pub(super) fn ttl_expired(&mut self, parcel: Parcel) {
        self.refuse(parcel, Trouble::HopsExceeded, Exit::TtlExpired);
    }

    /// No route leads to a packet's destination.
    pub(super) fn no_route(&mut self, parcel: Parcel) {
        self.refuse(parcel, Trouble::NoRoute, Exit::NoRoute);
    }

    /// A packet from a link-local address would have to leave its link.
    pub(super) fn beyond_scope(&mut self, parcel: Parcel) {
        self.refuse(parcel, Trouble::Six(icmp6::Problem::BeyondScope), Exit::BeyondScope);
    }

    /// The message that reports a problem with a packet, and the reason under which it is counted; `None` if none may be sent. `quote` is
    /// the packet, or what it was put together to.
    pub(super) fn error_about(&mut self, about: &Parcel, quote: &[u8], trouble: Trouble) -> Option<(Parcel, Exit)> {
        let link_group = Ethernet::view(about.packet.packet().bytes())?.destination.is_group();
        let header = Header::of(quote)?;
        let now = self.out.now();
        match (header.source, header.destination) {
            (IpAddr::V4(back), IpAddr::V4(asked)) => {
                let problem = trouble.four()?;
                // Its source is of the one, its destination of the other.
                let (four, lines) = (&self.control.four, &self.control.lines);
                let ends = [about.origin.vrf, about.origin.looked_up_in()].map(|vrf| four.addresses(vrf));
                let is_broadcast =
                    |address| ends.iter().any(|own| own.is_broadcast(address)) || lines.is_broadcast(address);
                icmp::may_report(quote, link_group, is_broadcast).ok()?;
                let source = self.source_to_four(about.origin, back, asked)?;
                let (kind, reason) = ErrorKind::of(problem);
                let may = self.control.may_tell(about.origin.line, kind, now);
                let identification = may.then(|| self.control.next_identification())?;
                let write = |out: &mut [u8]| icmp::write_error(problem, quote, source, identification, out);
                Some((self.made(about, icmp::MAX_ERROR, write)?, reason))
            }
            (IpAddr::V6(back), IpAddr::V6(asked)) => {
                let problem = trouble.six()?;
                if !icmp6::may_report(problem, quote, link_group) {
                    return None;
                }
                let source = self.source_to_six(about.origin, back, asked)?;
                let (kind, reason) = ErrorKind::of_six(problem)?;
                let may = self.control.may_tell(about.origin.line, kind, now);
                let write = |out: &mut [u8]| icmp6::write_error(problem, quote, source, out);
                let error = if may { self.made(about, icmp6::MAX_ERROR, write) } else { None };
                Some((error?, reason))
            }
            _ => None,
        }
    }

    /// A packet of at most `most` bytes that is sent because of another, as it is written; `None` without a buffer.
    pub(super) fn made(
        &mut self,
        about: &Parcel,
        most: usize,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<Parcel> {
        let mut packet = self.fresh(HEADER + most)?;
        match write(ip_bytes_mut(&mut packet)) {
            Some(length) if packet.set_len(HEADER + length) => {
                let packet = Held::fresh(packet, 0, self.out.now());
                Some(Parcel { packet, origin: about.origin.own() })
            }
            _ => {
                self.out.unalloc(packet);
                None
            }
        }
    }

    /// A packet of these bytes that is sent because of another; `None` without a buffer.
    pub(super) fn made_of(&mut self, about: &Parcel, bytes: &[u8]) -> Option<Parcel> {
        self.made(about, bytes.len(), |out| {
            out.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(bytes.len())
        })
    }
}
