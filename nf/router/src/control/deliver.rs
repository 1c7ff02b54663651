//! Packets to the router's own addresses.

use weir_net::icmp::{self, NotEcho, Problem};
use weir_packet::Held;
use weir_wire::{Ipv4, View, checksum, ipv4};

use super::{Exit, HEADER, Turn, ip_bytes, ip_bytes_mut};

impl Turn<'_, '_> {
    /// A packet came for one of the router's own addresses.
    pub(super) fn deliver(&mut self, packet: Held) {
        let Some(ip) = Ipv4::view(ip_bytes(packet.packet())) else { return self.out.send(packet, Exit::Undecided) };
        if ip.is_fragment() {
            return self.out.send(packet, Exit::Fragment);
        }
        match ip.protocol {
            ipv4::ICMP => self.deliver_icmp(packet),
            ipv4::UDP => self.refuse(packet, Problem::PortUnreachable, Exit::NoPort),
            _ => self.refuse(packet, Problem::ProtocolUnreachable, Exit::NoProtocol),
        }
    }

    fn deliver_icmp(&mut self, packet: Held) {
        let bytes = ip_bytes(packet.packet());
        let sound = ipv4::payload(bytes).is_some_and(|message| message.len() >= 8 && checksum::is_valid(message));
        if !sound {
            return self.out.send(packet, Exit::IcmpMalformed);
        }
        match self.echo(&packet) {
            Ok(reply) => {
                self.out.send(packet, Exit::EchoAnswered);
                self.originate(reply, Exit::EchoReply);
            }
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
                Err(match why {
                    NotEcho::SourceRoute => Exit::SourceRoute,
                    NotEcho::Checksum => Exit::IcmpMalformed,
                    NotEcho::Fragment => Exit::Fragment,
                    NotEcho::NotRequest => Exit::IcmpIgnored,
                })
            }
        }
    }
}
