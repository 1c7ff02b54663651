//! IPv4 packets into tunnels.

use weir_net::icmp::Problem;
use weir_wire::{Ipv4, Ipv6, U16, View, checksum, ethernet, ipv4};

use super::ports::{End as Whose, Port, port_of};
use super::{Border, End, Frame, From4, HEADER, Verdict, clamp, framed};
use crate::exit::Exit;
use crate::table::{Direction, Softwire};
use crate::tally::Count;

/// Hop limit of packets in tunnels (RFC 2473 section 6.3 leaves it to us; RFC 7596 wants to be sure that they arrive).
pub(crate) const HOP_LIMIT: u8 = 255;

impl Border {
    /// What becomes of the valid, whole IPv4 packet `packet` from the Internet, which came in a frame of `l2` bytes.
    pub(crate) fn receive_four(&mut self, now: u64, packet: &[u8], l2: u64) -> Verdict {
        self.tally.one(Count::InFour, l2);
        let Some(ip) = Ipv4::view(packet) else { return self.stop_four(Exit::PortsMissing, l2) };
        if ip.protocol == ipv4::ICMP {
            if !self.rules.four.allow_icmp {
                self.tally.one(Count::PolicyInFour, l2);
                return self.stop_four(Exit::IcmpRefused, l2);
            }
            if !ipv4::payload(packet).is_some_and(|message| message.len() >= 8 && checksum::is_valid(message)) {
                self.tally.one(Count::BadChecksum, l2);
                return self.stop_four(Exit::IcmpMalformed, l2);
            }
        }
        let verdict = match self.destination_of(packet) {
            Ok(softwire) => self.send_tunneled(now, packet, softwire, From4::Internet),
            Err(Exit::NoDestination) => self.no_destination(now, packet, From4::Internet),
            Err(exit) => exit.into(),
        };
        if matches!(verdict.end, End::Stop(_)) {
            self.tally.one(Count::DropFour, l2);
        }
        verdict
    }

    /// The softwire that a packet is for.
    pub(super) fn destination_of(&self, packet: &[u8]) -> Result<Softwire, Exit> {
        let ip = Ipv4::view(packet).ok_or(Exit::PortsMissing)?;
        let port = match port_of(packet, Whose::Destination, &self.rules.echo) {
            Port::Is(port) => Some(port),
            Port::None => None,
            Port::Missing => return Err(Exit::PortsMissing),
        };
        self.softwires.owner(ip.destination_addr(), port).ok_or(Exit::NoDestination)
    }

    /// A packet is for an address and port that no softwire has: its source is told, but not about ICMP (RFC 7596 section 8.1).
    pub(super) fn no_destination(&mut self, now: u64, packet: &[u8], from: From4) -> Verdict {
        self.tally.one(Count::NoDestination, (HEADER + packet.len()) as u64);
        let is_icmp = Ipv4::view(packet).is_some_and(|ip| ip.protocol == ipv4::ICMP);
        let answer = match is_icmp {
            true => None,
            false => self.answer_four(now, Problem::HostUnreachable, packet, from, Exit::HostUnreachable),
        };
        Verdict { end: End::Stop(Exit::NoDestination), answer }
    }

    /// A packet goes to a customer.
    pub(super) fn send_tunneled(&mut self, now: u64, packet: &[u8], to: Softwire, from: From4) -> Verdict {
        let Some(ip) = Ipv4::view(packet) else { return Exit::PortsMissing.into() };
        let l2 = (HEADER + packet.len()) as u64;
        if ip.ttl <= 1 {
            self.tally.one(Count::TtlZero, l2);
            let answer = self.answer_four(now, Problem::TtlExceeded, &a_hop_less(packet), from, Exit::TimeExceeded);
            return Verdict { end: End::Stop(Exit::TtlExpired), answer };
        }
        let path = self.softwires.path(to.place, now).map_or(usize::MAX, usize::from);
        let longest = self.longest_six(to.ends.b4).min(path);
        let too_long = Ipv6::LEN + packet.len() > longest;
        if too_long && ip.dont_fragment() {
            self.tally.one(Count::OverMtu, l2);
            let mtu = longest.saturating_sub(Ipv6::LEN) as u16;
            let problem = Problem::FragmentationNeeded { mtu };
            let answer = self.answer_four(now, problem, &a_hop_less(packet), from, Exit::FragmentationNeeded);
            return Verdict { end: End::Stop(Exit::MustNotFragment), answer };
        }
        if Ipv6::LEN + packet.len() > usize::from(u16::MAX) {
            return Exit::MustNotFragment.into();
        }
        self.count(to, Direction::Down, packet);
        let frame = self.wrap(packet, to);
        self.leave_six(frame, longest).into()
    }

    /// A packet as it is in a softwire's tunnel, with a hop less.
    pub(super) fn wrap(&self, packet: &[u8], to: Softwire) -> Frame {
        let mut frame = framed(ethernet::IPV6, [&[0; Ipv6::LEN], packet]);
        let Some((outer, inner)) = frame.get_mut(HEADER..).and_then(Ipv6::split_mut) else { return frame };
        if let Some(ip) = Ipv4::view_mut(inner) {
            ip.decrement_ttl();
            // RFC 2983 section 3 (uniform), RFC 6040 section 4.1 (normal mode).
            let (class, label) = (u32::from(ip.tos), self.rules.flow_label);
            outer.version_class_flow = (6 << 28 | class << 20 | label).into();
        }
        if let Some(most) = self.rules.mss {
            clamp::clamp(inner, most);
        }
        outer.payload_length = U16::new(packet.len() as u16);
        (outer.next_header, outer.hop_limit) = (ipv4::IPIP, HOP_LIMIT);
        (outer.source, outer.destination) = (to.ends.aftr.octets(), to.ends.b4.octets());
        frame
    }
}

/// A packet as it is quoted that has lost its hop already: "a router is not required to undo any modifications to the IP header that are normally
/// performed in forwarding" (RFC 1812 section 4.3.2.3).
fn a_hop_less(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if let Some(ip) = Ipv4::view_mut(&mut packet).filter(|ip| ip.ttl > 0) {
        ip.decrement_ttl();
    }
    packet
}
