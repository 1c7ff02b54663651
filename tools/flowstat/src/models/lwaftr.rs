//! The border relay of Lightweight 4over6: IPv4 on one side, the same in tunnels to customers on the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_capture::decode::{Ip, Layers};
use weir_wire::ipv4;

use crate::hash::Hasher;
use crate::kept::Kept;
use crate::model::{Identity, Model};
use crate::packet::{Packet, Side};
use crate::softwires::{Softwire, Softwires};

/// A lwAFTR (RFC 7596) takes IPv4 in tunnels from customers (B4s) and sends it on, to the Internet or in another customer's tunnel, and
/// the other way. Whose a packet is follows from its shared address and port, by a table of softwires. What is known again is the IPv4
/// packet, but for what changes from hop to hop, and the softwire that it goes to: a packet in another tunnel is not the one that was sent.
#[derive(Clone, Debug, Default)]
pub struct Lwaftr {
    /// Bytes from the start of the IPv4 packet that are looked at; `None`: all.
    pub bytes: Option<usize>,
    /// The softwires.
    pub softwires: Softwires,
}

/// What goes on with a packet, or has gone on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From the Internet to a customer.
    Encapsulated,
    /// From a customer to the Internet.
    Decapsulated,
    /// From a customer to a customer.
    Hairpinned,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Encapsulated => "encapsulated",
            Way::Decapsulated => "decapsulated",
            Way::Hairpinned => "hairpinned",
        }
    }
}

/// What a packet is to the relay.
struct Found<'a> {
    /// The IPv4 packet.
    ip: Ip<'a>,
    /// The addresses of the tunnel that it is in, source and destination.
    tunnel: Option<(Ipv6Addr, Ipv6Addr)>,
    /// The customers that it comes from and goes to.
    from: Option<Softwire>,
    to: Option<Softwire>,
}

impl Found<'_> {
    fn way(&self) -> Way {
        match (self.tunnel, self.to) {
            (None, _) => Way::Encapsulated,
            (Some(_), Some(_)) => Way::Hairpinned,
            (Some(_), None) => Way::Decapsulated,
        }
    }
}

impl Lwaftr {
    fn find<'a>(&self, layers: &Layers<'a>) -> Option<Found<'a>> {
        let mut ips = layers.ips();
        let outer = ips.next()?;
        let (ip, tunnel) = match (outer.source_addr(), outer.destination_addr()) {
            (IpAddr::V6(source), IpAddr::V6(destination)) if outer.protocol() == ipv4::IPIP => {
                (ips.next()?, Some((source, destination)))
            }
            _ => (outer, None),
        };
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (ip.source_addr(), ip.destination_addr()) else {
            return None;
        };
        let whose = |address: Ipv4Addr, end| self.softwires.of(address, port(&ip, end)?).copied();
        Some(Found { tunnel, from: whose(source, End::Source), to: whose(destination, End::Destination), ip })
    }

    /// The number that stands for where a packet goes: a softwire's, or that of the Internet. Or what else is to be said of it.
    fn goes(&self, found: &Found<'_>, side: Side) -> Result<u32, Identity> {
        let to = found.to.map_or(u32::MAX, |softwire| softwire.id);
        let Some((source, destination)) = found.tunnel else {
            // From the Internet to a customer, or from a customer to the Internet.
            let known = if side == Side::Sent { found.to } else { found.from };
            return if known.is_some() {
                Ok(if side == Side::Sent { to } else { u32::MAX })
            } else {
                Err(Identity::Unidentified)
            };
        };
        let (end, whose, b4, aftr) = match side {
            Side::Sent => (End::Source, found.from, source, destination),
            Side::Received => (End::Destination, found.to, destination, source),
        };
        match whose {
            _ if port(&found.ip, end).is_none() => Err(Identity::Unidentified),
            Some(softwire) if softwire.b4 == b4 && softwire.aftr.is_none_or(|known| known == aftr) => Ok(to),
            None if !self.softwires.has_b4(b4) => Err(Identity::Unidentified),
            _ => Err(Identity::Misaddressed),
        }
    }
}

/// An end of a packet's way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
}

/// The port at an end; of an ICMP echo its identifier, and of an ICMP error what the packet that it quotes has at the other end, for that
/// went the other way (RFC 7596 section 8.1). `None` for fragments but the first, and for what has no ports.
fn port(ip: &Ip<'_>, end: End) -> Option<u16> {
    if ip.fragment_offset() > 0 {
        return None;
    }
    let transport = ip.payload();
    if ip.protocol() != ipv4::ICMP {
        return port_in(ip.protocol(), transport, end);
    }
    match transport.first()? {
        0 | 8 => word(transport, 4),
        3 | 4 | 5 | 11 | 12 => {
            let quoted = transport.get(8..)?;
            let (first, protocol) = (*quoted.first()?, *quoted.get(9)?);
            let inside = quoted.get(usize::from(first & 15) * 4..)?;
            let other = if end == End::Source { End::Destination } else { End::Source };
            match protocol {
                _ if word(quoted, 6)? & 0x1fff > 0 => None,
                ipv4::ICMP => word(inside, 4),
                protocol => port_in(protocol, inside, other),
            }
        }
        _ => None,
    }
}

/// The port in a header that begins with two of them, as those of TCP, UDP, SCTP and DCCP do.
fn port_in(protocol: u8, header: &[u8], end: End) -> Option<u16> {
    const SCTP: u8 = 132;
    const DCCP: u8 = 33;
    match protocol {
        ipv4::TCP | ipv4::UDP | ipv4::UDP_LITE | SCTP | DCCP => word(header, if end == End::Source { 0 } else { 2 }),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

impl Model for Lwaftr {
    fn name(&self) -> &'static str {
        "lwaftr"
    }

    fn identify(&self, packet: &Packet<'_>, side: Side, hasher: &Hasher) -> Identity {
        let Some(found) = self.find(packet.layers()) else { return Identity::Unidentified };
        let goes = match self.goes(&found, side) {
            Ok(goes) => goes,
            Err(what) => return what,
        };
        match Kept::of(&found.ip, packet, self.bytes) {
            Some(kept) => {
                let [header, rest] = kept.pieces();
                Identity::Key(hasher.key(&[header, rest, &goes.to_be_bytes()]))
            }
            None => Identity::Cut,
        }
    }

    fn subscriber(&self, packet: &Packet<'_>, name: &mut Vec<u8>) {
        let found = self.find(packet.layers());
        let softwire = found.and_then(|found| if found.tunnel.is_some() { found.from } else { found.to });
        if let Some(Softwire { ipv4, psid, .. }) = softwire {
            name.extend_from_slice(format!("{ipv4} {psid}").as_bytes());
        }
    }

    fn way(&self, packet: &Packet<'_>) -> Option<&'static str> {
        self.find(packet.layers()).map(|found| found.way().name())
    }

    fn unidentified(&self) -> &'static str {
        "are neither for a softwire of the table nor from one, or are fragments without ports"
    }
}
