//! Packets to the router's own addresses.

use weir_net::icmp::{self, NotEcho, Problem};
use weir_packet::Held;
use weir_wire::{Ipv4, View, checksum, ipv4};

use super::{Exit, HEADER, Turn, ip_bytes, ip_bytes_mut};

impl Turn<'_, '_> {
    /// A packet came for one of the router's own addresses.
    pub(super) fn deliver(&mut self, packet: Held) {
        match Ipv4::view(ip_bytes(packet.packet())).map(Ipv4::is_fragment) {
            Some(true) => self.reassemble(packet),
            Some(false) => self.deliver_whole(packet, None),
            None => self.out.send(packet, Exit::Undecided),
        }
    }

    /// The same for one that is no fragment, or the first one of `whole`, which was put together of several.
    pub(super) fn deliver_whole(&mut self, packet: Held, whole: Option<&[u8]>) {
        match Ipv4::view(ip_bytes(packet.packet())).map_or(0, |ip| ip.protocol) {
            ipv4::ICMP => self.deliver_icmp(packet, whole),
            ipv4::UDP => self.refuse(packet, Problem::PortUnreachable, Exit::NoPort),
            _ => self.refuse(packet, Problem::ProtocolUnreachable, Exit::NoProtocol),
        }
    }

    fn deliver_icmp(&mut self, packet: Held, whole: Option<&[u8]>) {
        let bytes = whole.unwrap_or(ip_bytes(packet.packet()));
        let sound = ipv4::payload(bytes).is_some_and(|message| message.len() >= 8 && checksum::is_valid(message));
        if !sound {
            return self.out.send(packet, Exit::IcmpMalformed);
        }
        let answered = match whole {
            None => self
                .echo(&packet)
                .and_then(|reply| self.originate(reply, Exit::EchoReply).then_some(()).ok_or(Exit::EchoUnanswered)),
            Some(whole) => echo_to(whole).and_then(|reply| self.reply_in_pieces(&reply)),
        };
        match answered {
            Ok(()) => self.out.send(packet, Exit::EchoAnswered),
            Err(exit) => self.out.send(packet, exit),
        }
    }

    /// The reply to an echo request, in a buffer of its own.
    fn echo(&mut self, request: &Held) -> Result<Held, Exit> {
        let bytes = ip_bytes(request.packet());
        let asked = Ipv4::view(bytes).map(Ipv4::destination_addr).ok_or(Exit::IcmpMalformed)?;
        let end = HEADER + Ipv4::view(bytes).map_or(0, Ipv4::total_len);
        let frame = request.packet().bytes().get(..end).ok_or(Exit::IcmpMalformed)?;
        let mut reply = self.fresh(frame.len()).ok_or(Exit::NoBuffer)?;
        reply.bytes_mut().copy_from_slice(frame);
        match icmp::echo_reply(ip_bytes_mut(&mut reply), asked) {
            Ok(()) => Ok(Held::fresh(reply, 0, self.out.now())),
            Err(why) => {
                self.out.unalloc(reply);
                Err(unanswered(why))
            }
        }
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
