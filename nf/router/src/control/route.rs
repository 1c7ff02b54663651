//! Forwarding on the slow path: to neighbours that must be asked for, longer than the MTU, or made here.

use std::net::Ipv4Addr;

use weir_net::DEFAULT_VRF;
use weir_net::fragment::{Fragments, Refused};
use weir_net::icmp::Problem;
use weir_net::neighbor::Resolution;
use weir_net::nexthop::NextHop;
use weir_packet::Held;
use weir_wire::{Ethernet, Ipv4, MacAddr, View, flow, ipv4};

use super::{Exit, HEADER, Station, Turn, ip_bytes, ip_bytes_mut};
use crate::answer::address_frame;
use crate::punt::Kind;
use crate::routing::Decision;
use crate::state::Link;

/// Who may still have to take a hop off a packet's TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hops {
    /// The packet is in transit: one hop goes off when it leaves.
    Transit,
    /// It was made here.
    Own,
}

impl Turn<'_, '_> {
    /// Forwards a packet: one in `transit`, or one that the router itself made.
    pub(super) fn route(&mut self, packet: Held, transit: bool) {
        let hops = if transit { Hops::Transit } else { Hops::Own };
        let Some(destination) = Ipv4::view(ip_bytes(packet.packet())).map(Ipv4::destination_addr) else {
            return self.out.send(packet, Exit::Undecided);
        };
        match self.decide(&packet, destination) {
            Decision::Via(next_hop) => self.route_via(packet, next_hop, destination, hops),
            Decision::Local => self.deliver(packet),
            Decision::Broadcast => self.out.send(packet, Exit::DirectedBroadcast),
            Decision::LinkLocal => self.out.send(packet, Exit::LinkLocal),
            Decision::NoRoute | Decision::Discard(_) => self.no_route(packet),
            Decision::Flood(interface) => match self.control.link(interface).filter(|link| link.up) {
                Some(link) => self.leave(packet, link, MacAddr::BROADCAST, hops),
                None => self.out.send(packet, Exit::PortDown),
            },
        }
    }

    /// Sends a packet that the router itself made for `reason`, or, if its neighbour must be asked for first, lets it come
    /// back to be held. One that can not be sent anywhere is not made: the answer is false then.
    pub(super) fn originate(&mut self, mut packet: Held, reason: Exit) -> bool {
        let destination = Ipv4::view(ip_bytes(packet.packet())).map(Ipv4::destination_addr);
        let decision = destination.map(|destination| (self.decide(&packet, destination), destination));
        let Some((Decision::Via(next_hop), destination)) = decision else { return self.unmake(packet) };
        let Some(link) = self.control.link(next_hop.port) else { return self.unmake(packet) };
        let from = link.mac;
        let fits = packet.packet().len() <= HEADER + usize::from(link.mtu);
        match self.resolve(next_hop, destination) {
            Resolution::Known(mac) if fits => {
                address_frame(packet.packet_mut(), from, mac);
                self.send_by(packet, link.interface, Some(reason));
                true
            }
            Resolution::Known(_) | Resolution::Pending => {
                // Whatever its header says until then, it did not come as a broadcast.
                address_frame(packet.packet_mut(), from, from);
                packet.set(self.kind, Kind::Originated);
                self.out.emit(packet, Exit::Again, reason);
                true
            }
            Resolution::Failed | Resolution::NoRoom | Resolution::NoPort => self.unmake(packet),
        }
    }

    /// Gives back the buffer of a packet that can not be sent anywhere; false, for it was not sent.
    fn unmake(&mut self, packet: Held) -> bool {
        self.out.unalloc(packet.into_packet());
        false
    }

    /// Sends the reply to an echo request, however long it is: in fragments where it must be, each of which finds its own way.
    ///
    /// # Errors
    /// Why the request has no answer.
    pub(super) fn reply_in_pieces(&mut self, packet: &[u8]) -> Result<(), Exit> {
        let destination = Ipv4::view(packet).map(Ipv4::destination_addr).ok_or(Exit::IcmpMalformed)?;
        let Decision::Via(next_hop) = self.control.routing.decide(DEFAULT_VRF, destination.into(), || 0) else {
            return Err(Exit::EchoUnanswered);
        };
        let mtu = self.control.link(next_hop.port).map(|link| link.mtu).ok_or(Exit::EchoUnanswered)?;
        let fragments = Fragments::new(packet, mtu).map_err(|_| Exit::IcmpMalformed)?;
        let mut made = Vec::new();
        for fragment in fragments {
            let piece = self.fresh(HEADER + fragment.total_len()).and_then(|mut piece| {
                fragment.write(ip_bytes_mut(&mut piece))?;
                Some(Held::fresh(piece, 0, self.out.now()))
            });
            made.push(piece);
        }
        // All or none: half a packet is of no use to anybody.
        if made.iter().any(Option::is_none) {
            made.into_iter().flatten().for_each(|piece| self.out.unalloc(piece.into_packet()));
            return Err(Exit::NoBuffer);
        }
        let mut all_went = true;
        for (piece, n) in made.into_iter().flatten().zip(0..) {
            all_went &= self.originate(piece, if n == 0 { Exit::EchoReply } else { Exit::Piece });
        }
        if all_went { Ok(()) } else { Err(Exit::EchoUnanswered) }
    }

    /// Sends what waited for a neighbour that has answered. Routes may have changed meanwhile: each packet is routed anew.
    pub(super) fn let_go(&mut self, station: Station) {
        for mut packet in self.waiting.take(station) {
            let transit = packet.get(self.kind) != Kind::Originated;
            self.route(packet, transit);
        }
    }

    /// Drops what waited for a neighbour: it did not answer, or it is gone.
    pub(super) fn give_up(&mut self, station: Station, failed: bool) {
        for mut packet in self.waiting.take(station) {
            match packet.get(self.kind) {
                Kind::Originated => {
                    self.out.send(packet, if failed { Exit::Unresolved } else { Exit::NeighborGone });
                }
                _ if failed => self.refuse(packet, Problem::HostUnreachable, Exit::Unresolved),
                _ => self.out.send(packet, Exit::NeighborGone),
            }
        }
    }

    pub(super) fn decide(&self, packet: &Held, destination: Ipv4Addr) -> Decision {
        let (packet, seed) = (packet.packet(), self.seed);
        let hash = || flow::hash(packet.window::<64>(HEADER), packet.len().saturating_sub(HEADER), seed);
        self.control.routing.decide(DEFAULT_VRF, destination.into(), hash)
    }

    fn resolve(&mut self, next_hop: NextHop, destination: Ipv4Addr) -> Resolution {
        let mut events = Vec::new();
        let Some(address) = next_hop.neighbor_in(destination) else { return Resolution::Failed };
        let resolution = self.control.four.neighbors.resolve(self.out.now(), next_hop.port, address, &mut events);
        self.control.absorb(events);
        resolution
    }

    fn route_via(&mut self, packet: Held, next_hop: NextHop, destination: Ipv4Addr, hops: Hops) {
        let Some(link) = self.control.link(next_hop.port).filter(|link| link.up) else {
            return self.out.send(packet, Exit::PortDown);
        };
        let Some(ip) = Ipv4::view(ip_bytes(packet.packet())) else { return self.out.send(packet, Exit::Undecided) };
        if hops == Hops::Transit && ip.ttl <= 1 {
            return self.ttl_expired(packet);
        }
        if ip.total_len() > usize::from(link.mtu) && ip.dont_fragment() {
            let problem = Problem::FragmentationNeeded { mtu: link.mtu };
            return self.refuse(packet, problem, Exit::MustNotFragment);
        }
        match self.resolve(next_hop, destination) {
            Resolution::Known(mac) => self.leave(packet, link, mac, hops),
            Resolution::Pending => {
                let station = (next_hop.port, next_hop.neighbor_in(destination).unwrap_or(destination));
                if let Some(oldest) = self.waiting.push(station, packet) {
                    self.out.send(oldest, Exit::QueueFull);
                }
            }
            Resolution::Failed if hops == Hops::Transit => {
                self.refuse(packet, Problem::HostUnreachable, Exit::Unresolved);
            }
            Resolution::Failed => self.out.send(packet, Exit::Unresolved),
            Resolution::NoRoom => self.out.send(packet, Exit::TableFull),
            Resolution::NoPort => self.out.send(packet, Exit::PortDown),
        }
    }

    /// Sends a packet over a link to a station, in fragments if it must be.
    fn leave(&mut self, mut packet: Held, link: Link, to: MacAddr, hops: Hops) {
        let frame = packet.packet_mut();
        let Some(ip) = Ipv4::view_mut(ip_bytes_mut(frame)) else { return self.out.send(packet, Exit::Undecided) };
        if hops == Hops::Transit {
            ip.decrement_ttl();
        }
        let total = ip.total_len();
        address_frame(frame, link.mac, to);
        if total > usize::from(link.mtu) {
            return self.leave_in_pieces(packet, link);
        }
        let end = (HEADER + total).max(60);
        if frame.len() > end {
            frame.set_len(end);
        }
        self.send_by(packet, link.interface, None);
    }

    fn leave_in_pieces(&mut self, packet: Held, link: Link) {
        match self.pieces(&packet, link) {
            Ok(pieces) => {
                self.out.send(packet, Exit::Fragmented);
                for piece in pieces {
                    self.send_by(piece, link.interface, Some(Exit::Piece));
                }
            }
            Err(exit) => self.out.send(packet, exit),
        }
    }

    /// All fragments of a packet, or none: half a packet is of no use to anybody.
    fn pieces(&mut self, packet: &Held, link: Link) -> Result<Vec<Held>, Exit> {
        let frame = packet.packet().bytes();
        let (Some(ethernet), now) = (frame.get(..HEADER), self.out.now()) else { return Err(Exit::Undecided) };
        let fragments = Fragments::new(ip_bytes(packet.packet()), link.mtu).map_err(|refused| match refused {
            Refused::DontFragment | Refused::MtuTooSmall => Exit::MustNotFragment,
            Refused::BeyondLongest => Exit::FragmentBeyond,
            Refused::Invalid => Exit::BadOptions,
        })?;
        let mut pieces: Vec<Held> = Vec::new();
        for fragment in fragments {
            let room = self.out.room() > pieces.len();
            let piece = if room { self.fresh(HEADER + fragment.total_len()) } else { None };
            let Some(mut piece) = piece else {
                pieces.into_iter().for_each(|piece| self.out.unalloc(piece.into_packet()));
                return Err(Exit::NoBuffer);
            };
            if let Some((header, rest)) = piece.bytes_mut().split_at_mut_checked(Ethernet::LEN) {
                header.copy_from_slice(ethernet);
                fragment.write(rest);
            }
            pieces.push(Held::fresh(piece, 0, now));
        }
        Ok(pieces)
    }

    /// Options are looked at before anything else is done with their packet.
    pub(super) fn options(&mut self, mut packet: Held) {
        let header = ipv4::header(ip_bytes(packet.packet()));
        let Some(destination) = header.and_then(Ipv4::view).map(Ipv4::destination_addr) else {
            return self.out.send(packet, Exit::Undecided);
        };
        let own = match self.decide(&packet, destination) {
            Decision::Via(next_hop) => {
                next_hop.neighbor_in(destination).and_then(|address| self.control.source_on(next_hop.port, address))
            }
            Decision::Local => Some(destination),
            _ => None,
        };
        let now = self.out.now();
        let control = &self.control;
        match crate::options::update(
            ip_bytes_mut(packet.packet_mut()),
            own,
            |address| control.addresses::<Ipv4Addr>(DEFAULT_VRF).is_own(address),
            now,
        ) {
            Ok(()) => self.route(packet, true),
            Err(crate::options::Fault::Bad(pointer)) => {
                self.refuse(packet, Problem::Parameter { pointer }, Exit::BadOptions);
            }
            Err(crate::options::Fault::SourceRoute) => {
                self.refuse(packet, Problem::SourceRouteFailed, Exit::SourceRoute);
            }
        }
    }
}
