//! Packets of [lines](crate::lines), which the function puts on them and takes off: what goes on after all, and what is answered.

use weir_net::neighbor::Resolution;
use weir_packet::Held;
use weir_wire::MacAddr;

use super::parcel::{Header, Parcel, ip_bytes_mut, take_hop};
use super::{Call, Exit, HEADER};
use crate::fast::punt::PuntReason;
use crate::interfaces::Tunnel;
use crate::lines::{Line, Punt, Side};
use crate::slow::answer::{Trouble, address_frame};
use crate::state::Link;
use crate::state::routing::Decision;

impl Call<'_, '_> {
    /// A packet to who is on a line can not go on as it is.
    pub(super) fn stopped_before_line(&mut self, parcel: Parcel, line: Line, reason: PuntReason) {
        match (reason, parcel.header(), self.control.lines.link(line)) {
            (PuntReason::TtlExpired, ..) => self.ttl_expired(parcel),
            (PuntReason::TooBig, Some(header), Some(link)) => match header.may_be_fragmented {
                true => self.hand_on(parcel, line, link.mtu),
                false => self.refuse_too_big(parcel, link.mtu),
            },
            _ => self.end(parcel, Exit::Undecided),
        }
    }

    /// A packet is too long for where it goes, and must not be taken apart.
    pub(super) fn refuse_too_big(&mut self, parcel: Parcel, mtu: u16) {
        let exit = if parcel.is_six() { Exit::TooBig } else { Exit::MustNotFragment };
        self.refuse(parcel, Trouble::TooBig { mtu }, exit);
    }

    /// Lets a packet go on by the function, in pieces where it is longer than `mtu`. It loses its hop here on its way from a line; what goes to
    /// one is delivered by the function as if it had come so.
    pub(super) fn hand_on(&mut self, mut parcel: Parcel, line: Line, mtu: u16) {
        if line.side == Side::From {
            take_hop(ip_bytes_mut(parcel.packet.packet_mut()));
        }
        let port = parcel.packet.port();
        let punt = Punt::of_line(PuntReason::Unresolved, line);
        if parcel.header().is_none_or(|Header { total, .. }| total <= usize::from(mtu)) {
            parcel.packet.set(self.kind, punt);
            return self.out.send(parcel.packet, Exit::Line);
        }
        match self.pieces(&parcel, mtu) {
            Ok(pieces) => {
                self.out.send(parcel.packet, Exit::Fragmented);
                for mut piece in pieces {
                    piece.set_port(port);
                    piece.set(self.kind, punt);
                    self.out.emit(piece, Exit::Line, Exit::Piece);
                }
            }
            Err(exit) => self.end(parcel, exit),
        }
    }

    /// Answers who is on a line: by that, whatever routes say.
    pub(super) fn answer_line(&mut self, mut parcel: Parcel, line: Line, reason: Exit) -> bool {
        let from = self.control.lines.link(line).map_or(MacAddr::ZERO, |link| link.mac);
        address_frame(parcel.packet.packet_mut(), from, parcel.origin.station);
        self.emit_line(parcel.packet, line.going(Side::To), reason);
        true
    }

    /// Sends a frame that was made here to who is on a line, or as if it came from there.
    pub(super) fn emit_line(&mut self, mut packet: Held, line: Line, reason: Exit) {
        packet.set(self.kind, Punt::of_line(PuntReason::Originated, line));
        self.out.emit(packet, Exit::Line, reason);
    }

    /// A packet goes into a tunnel of the function's, as one of its customers' does. The end of it is looked up as if the packet went there.
    pub(super) fn route_into(&mut self, parcel: Parcel, tunnel: Tunnel, header: Header) {
        let Some(line) = parcel.origin.line else { return self.end(parcel, Exit::PortDown) };
        match self.end_of(&parcel, tunnel) {
            Some((next_hop, link)) => {
                self.route_over(parcel, (next_hop, tunnel.end), (link, tunnel.fits(link.mtu)), header)
            }
            None if line.side == Side::From => self.no_route(parcel),
            None => self.end(parcel, Exit::NoRoute),
        }
    }

    /// The same for one that is made here for `reason`; false, and nothing sent, where it can not go at once.
    pub(super) fn originate_into(&mut self, parcel: Parcel, tunnel: Tunnel, reason: Exit) -> bool {
        let (Some(line), Some((next_hop, link))) = (parcel.origin.line, self.end_of(&parcel, tunnel)) else {
            return self.unmake(parcel);
        };
        let fits = parcel.packet.packet().len() <= HEADER + usize::from(tunnel.fits(link.mtu));
        match self.resolve(next_hop, tunnel.end) {
            Resolution::Known(_) if fits => {
                self.emit_line(parcel.packet, line.going(Side::From), reason);
                true
            }
            _ => self.unmake(parcel),
        }
    }

    /// The next hop towards the end of a tunnel, and the link there.
    fn end_of(&self, parcel: &Parcel, tunnel: Tunnel) -> Option<(weir_net::nexthop::NextHop, Link)> {
        let decision = self.control.routing.decide(parcel.origin.vrf, tunnel.end, || parcel.hash(self.seed));
        let Decision::Via(next_hop) = decision else { return None };
        let link = self.control.link(next_hop.interface).filter(|link| link.up)?;
        Some((next_hop, link))
    }

    /// Drops a packet, which its line is told of, if it has one.
    pub(super) fn end(&mut self, parcel: Parcel, exit: Exit) {
        let is_lost = exit.is_drop() && !parcel.origin.is_own;
        if let Some(line) = parcel.origin.line.filter(|_| is_lost) {
            self.control.lines.note_lost(line, weir_stage::Ways::code(exit));
        }
        self.out.send(parcel.packet, exit);
    }
}

impl Exit {
    /// Whether a packet is lost that takes this way.
    fn is_drop(self) -> bool {
        use weir_stage::{Fate, Ways};
        Exit::LIST.get(usize::from(self.code())).is_some_and(|way| way.fate == Fate::Drop)
    }
}
