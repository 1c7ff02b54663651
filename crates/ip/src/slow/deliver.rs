//! Packets to the router's own addresses.

mod six;

use std::net::IpAddr;

use weir_net::fragment::Fragments;
use weir_net::icmp::{self, NotEcho, Problem};
use weir_packet::Held;
use weir_wire::{Ipv4, View, checksum, ipv4};

use super::parcel::{Origin, Parcel, ip_bytes_mut, is_of_link};
use super::{Call, Exit, HEADER};
use crate::slow::answer::Trouble;
use crate::state::routing::Decision;

impl Call<'_, '_> {
    /// A packet came that is for this router, as far as routes know; what counts on its link only is none of theirs.
    pub(super) fn arrive(&mut self, parcel: Parcel) {
        if self.has_host(parcel.origin) {
            return self.give_to_linux(parcel);
        }
        let destination = parcel.header().map(|header| header.destination);
        match destination {
            Some(IpAddr::V6(group)) if is_of_link(group.into()) && !self.is_for_us(parcel.origin.interface, group) => {
                let exit = if group.is_multicast() { Exit::NotListening } else { Exit::LinkLocal };
                self.end(parcel, exit);
            }
            Some(_) => self.deliver(parcel),
            None => self.end(parcel, Exit::Undecided),
        }
    }

    /// A packet came for one of the router's own addresses.
    pub(super) fn deliver(&mut self, parcel: Parcel) {
        if self.has_host(parcel.origin) {
            return self.give_to_linux(parcel);
        }
        match Ipv4::view(parcel.ip()).map(Ipv4::is_fragment) {
            _ if parcel.is_six() => self.deliver_six(parcel, None),
            Some(true) => self.reassemble(parcel),
            Some(false) => self.deliver_four(parcel, None),
            None => self.end(parcel, Exit::Undecided),
        }
    }

    /// The first fragment came of `whole`, which was put together of several.
    pub(super) fn deliver_whole(&mut self, parcel: Parcel, whole: Option<&[u8]>) {
        match parcel.is_six() {
            true => self.deliver_six(parcel, whole),
            false => self.deliver_four(parcel, whole),
        }
    }

    fn deliver_four(&mut self, parcel: Parcel, whole: Option<&[u8]>) {
        match Ipv4::view(parcel.ip()).map_or(0, |ip| ip.protocol) {
            ipv4::ICMP => self.deliver_icmp(parcel, whole),
            ipv4::UDP => self.refuse(parcel, Trouble::NoPort, Exit::NoPort),
            _ => self.refuse(parcel, Trouble::Four(Problem::ProtocolUnreachable), Exit::NoProtocol),
        }
    }

    fn deliver_icmp(&mut self, parcel: Parcel, whole: Option<&[u8]>) {
        let bytes = whole.unwrap_or(parcel.ip());
        let sound = ipv4::payload(bytes).is_some_and(|message| message.len() >= 8 && checksum::is_valid(message));
        if !sound {
            return self.end(parcel, Exit::IcmpMalformed);
        }
        let answered = match whole {
            None => self
                .echo(&parcel)
                .and_then(|reply| self.originate(reply, Exit::EchoReply).then_some(()).ok_or(Exit::EchoUnanswered)),
            Some(whole) => echo_to(whole).and_then(|reply| self.reply_in_pieces(&parcel, &reply)),
        };
        let exit = answered.err().unwrap_or(Exit::EchoAnswered);
        self.end(parcel, exit);
    }

    /// The reply to an echo request, in a buffer of its own.
    fn echo(&mut self, request: &Parcel) -> Result<Parcel, Exit> {
        let ip = Ipv4::view(request.ip()).ok_or(Exit::IcmpMalformed)?;
        let end = HEADER + ip.total_len();
        let frame = request.packet.packet().bytes().get(..end).ok_or(Exit::IcmpMalformed)?;
        let mut reply = self.fresh(frame.len()).ok_or(Exit::NoBuffer)?;
        reply.bytes_mut().copy_from_slice(frame);
        match icmp::echo_reply(ip_bytes_mut(&mut reply), ip.destination_addr()) {
            Ok(()) => Ok(self.own(reply, request.origin)),
            Err(why) => {
                self.out.unalloc(reply);
                Err(unanswered(why))
            }
        }
    }

    /// A packet that is made here because of one from `origin`.
    pub(super) fn own(&self, packet: weir_packet::Packet, origin: Origin) -> Parcel {
        Parcel { packet: Held::fresh(packet, 0, self.out.now()), origin: origin.own() }
    }

    /// Sends the reply to an echo request that was put together, however long it is: in fragments where it must be, each of which finds its
    /// own way.
    fn reply_in_pieces(&mut self, request: &Parcel, reply: &[u8]) -> Result<(), Exit> {
        let destination = Ipv4::view(reply).map(Ipv4::destination_addr).ok_or(Exit::IcmpMalformed)?;
        let mtu = self.mtu_towards(request.origin, destination.into()).ok_or(Exit::EchoUnanswered)?;
        let fragments = Fragments::new(reply, mtu).map_err(|_| Exit::IcmpMalformed)?;
        let pieces = fragments.map(|fragment| (fragment.total_len(), move |out: &mut [u8]| fragment.write(out)));
        self.send_pieces(request.origin, pieces)
    }

    /// Bytes that the link carries by which packets to an address leave: of answers to a line, that one.
    fn mtu_towards(&self, origin: Origin, destination: IpAddr) -> Option<u16> {
        if let Some(line) = origin.line {
            return self.control.lines.link(line).map(|link| link.mtu);
        }
        let interface = match is_of_link(destination) {
            true => origin.interface,
            false => match self.control.routing.decide(origin.vrf, destination, || 0) {
                Decision::Via(next_hop) => next_hop.interface,
                _ => return None,
            },
        };
        self.control.link(interface).map(|link| link.mtu)
    }

    /// Sends the fragments of a reply, each with its length, all or none: half a packet is of no use to anybody.
    fn send_pieces<W>(&mut self, origin: Origin, pieces: impl Iterator<Item = (usize, W)>) -> Result<(), Exit>
    where
        W: FnOnce(&mut [u8]) -> Option<usize>,
    {
        let mut made = Vec::new();
        for (length, write) in pieces {
            let piece = self.fresh(HEADER + length).and_then(|mut piece| {
                write(ip_bytes_mut(&mut piece))?;
                Some(self.own(piece, origin))
            });
            made.push(piece);
        }
        if made.iter().any(Option::is_none) {
            made.into_iter().flatten().for_each(|piece| self.out.unalloc(piece.packet.into_packet()));
            return Err(Exit::NoBuffer);
        }
        let mut all_went = true;
        for (piece, n) in made.into_iter().flatten().zip(0..) {
            all_went &= self.originate(piece, if n == 0 { Exit::EchoReply } else { Exit::Piece });
        }
        if all_went { Ok(()) } else { Err(Exit::EchoUnanswered) }
    }
}

/// The reply to an echo request that was put together, which may be longer than any buffer.
fn echo_to(request: &[u8]) -> Result<Vec<u8>, Exit> {
    let asked = Ipv4::view(request).map(Ipv4::destination_addr).ok_or(Exit::IcmpMalformed)?;
    let mut reply = request.to_vec();
    icmp::echo_reply(&mut reply, asked).map_err(unanswered)?;
    Ok(reply)
}

fn unanswered(why: NotEcho) -> Exit {
    match why {
        NotEcho::SourceRoute => Exit::SourceRoute,
        NotEcho::Checksum | NotEcho::Fragment => Exit::IcmpMalformed,
        NotEcho::NotRequest => Exit::IcmpIgnored,
    }
}
