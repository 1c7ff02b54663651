//! Packets to the gateway's own addresses.

use weir_net::icmp::{self, NotEcho, Problem};
use weir_packet::Held;
use weir_wire::{Ipv4, View, checksum, ethernet, ipv4};

use super::{Exit, Line, Turn, inside};
use crate::encap::TAGGED;

impl Turn<'_, '_> {
    /// A customer's packet for one of the gateway's own addresses.
    pub(super) fn customer_local(&mut self, line: Line, packet: Held) {
        match wants(inside(packet.packet())) {
            Wants::Echo => match self.echo(line, &packet) {
                Ok(()) => self.out.send(packet, Exit::EchoAnswered),
                Err(exit) => self.lose(line.subscriber, packet, exit),
            },
            Wants::Report(problem, exit) => self.refuse(line, packet, problem, exit),
            Wants::Nothing(exit) => self.lose(line.subscriber, packet, exit),
        }
    }

    /// Answers an echo request, back to who sent it.
    fn echo(&mut self, line: Line, request: &Held) -> Result<(), Exit> {
        let (_, port) = self.access_port(line.tags).ok_or(Exit::NoBuffer)?;
        let mut reply = self.reply_to(request, TAGGED)?;
        if self.tag(&mut reply, line.tags, port.mac, line.station, ethernet::IPV4).is_none() {
            self.out.unalloc(reply);
            return Err(Exit::IcmpMalformed);
        }
        self.emit(reply, line.tags.port, Exit::EchoReply);
        Ok(())
    }

    /// The reply to an echo request whose IPv4 packet begins at `offset`, in a buffer of its own, padding left out. What stands
    /// before it is the caller's to write.
    fn reply_to(&mut self, request: &Held, offset: usize) -> Result<weir_packet::Packet, Exit> {
        let bytes = request.packet().bytes();
        let ip = bytes.get(offset..).and_then(Ipv4::view).ok_or(Exit::IcmpMalformed)?;
        let (asked, total) = (ip.destination_addr(), ip.total_len());
        let frame = bytes.get(..offset + total).ok_or(Exit::IcmpMalformed)?;
        let mut reply = self.fresh(frame.len()).ok_or(Exit::NoBuffer)?;
        reply.bytes_mut().copy_from_slice(frame);
        let packet = reply.bytes_mut().get_mut(offset..).unwrap_or_default();
        match icmp::echo_reply(packet, asked) {
            Ok(()) => Ok(reply),
            Err(why) => {
                self.out.unalloc(reply);
                Err(unanswered(why))
            }
        }
    }
}

/// What a packet to the gateway itself is to have.
enum Wants {
    Echo,
    Report(Problem, Exit),
    Nothing(Exit),
}

fn wants(packet: &[u8]) -> Wants {
    let Some(ip) = Ipv4::view(packet) else { return Wants::Nothing(Exit::IcmpMalformed) };
    if ip.is_fragment() {
        return Wants::Nothing(Exit::LocalFragment);
    }
    match ip.protocol {
        ipv4::ICMP => {
            let sound = ipv4::payload(packet).is_some_and(|message| message.len() >= 8 && checksum::is_valid(message));
            if sound { Wants::Echo } else { Wants::Nothing(Exit::IcmpMalformed) }
        }
        ipv4::UDP => Wants::Report(Problem::PortUnreachable, Exit::NoPort),
        _ => Wants::Report(Problem::ProtocolUnreachable, Exit::NoProtocol),
    }
}

fn unanswered(why: NotEcho) -> Exit {
    match why {
        NotEcho::SourceRoute => Exit::SourceRoute,
        NotEcho::Checksum | NotEcho::Fragment => Exit::IcmpMalformed,
        NotEcho::NotRequest => Exit::IcmpIgnored,
    }
}
