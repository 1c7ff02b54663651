//! Forwarding on the slow path: to neighbours that must be asked for, longer than the MTU, or made here.

use std::net::IpAddr;

use weir_net::fragment::{Fragments, Refused};
use weir_net::neighbor::Resolution;
use weir_net::nexthop::{Inlet, NextHop};
use weir_net::rib::Discard;
use weir_net::{Family, icmp};
use weir_packet::Held;
use weir_wire::MacAddr;
use weir_wire::extension::{self, Limits};

use super::parcel::{Header, Parcel, ip_bytes_mut, is_of_link, take_hop};
use super::{Call, Exit, HEADER, NeighborKey};
use crate::fast::punt::PuntReason;
use crate::lines::{Punt, Side};
use crate::slow::answer::{Trouble, address_frame};
use crate::state::Link;
use crate::state::routing::Decision;

impl Call<'_, '_> {
    /// Forwards a packet: one in transit, or one that the router itself made.
    pub(super) fn route(&mut self, parcel: Parcel) {
        let Some(header) = parcel.header() else { return self.end(parcel, Exit::Undecided) };
        if !parcel.origin.is_own && leaves_its_scope(header) {
            return self.beyond_scope(parcel);
        }
        match self.decide(&parcel, header.destination) {
            Decision::Via(next_hop) => self.route_via(parcel, next_hop, header),
            Decision::Into(inlet) => self.hand_over(parcel, inlet),
            Decision::Local => self.deliver(parcel),
            Decision::Broadcast => self.end(parcel, Exit::DirectedBroadcast),
            Decision::LinkLocal => self.end(parcel, Exit::LinkLocal),
            Decision::NoRoute => self.no_route(parcel),
            Decision::Discard(discard) => self.discard(parcel, discard),
            Decision::Flood(interface) => match self.control.link(interface).filter(|link| link.up) {
                Some(link) => self.leave(parcel, link, MacAddr::BROADCAST),
                None => self.end(parcel, Exit::PortDown),
            },
        }
    }

    /// Where a packet goes, in its VRF; to what counts on a link only, on the link that it is from.
    pub(super) fn decide(&self, parcel: &Parcel, destination: IpAddr) -> Decision {
        match (is_of_link(destination), parcel.origin) {
            (true, origin) if origin.is_own => Decision::Via(NextHop { interface: origin.interface, gateway: None }),
            (true, _) => Decision::LinkLocal,
            (false, origin) => {
                self.control.routing.decide(origin.looked_up_in(), destination, || parcel.hash(self.seed))
            }
        }
    }

    /// A route leads into the function, whose the packet is from here on.
    fn hand_over(&mut self, mut parcel: Parcel, inlet: Inlet) {
        self.told(&mut parcel, inlet);
        self.out.send(parcel.packet, Exit::Function);
    }

    /// Notes what the function is told.
    fn told(&self, parcel: &mut Parcel, inlet: Inlet) {
        parcel.packet.set_l3(HEADER as u8);
        if let Some(keys) = self.inlet {
            keys.note_held(&mut parcel.packet, inlet);
        }
    }

    /// A route says that a packet goes nowhere.
    fn discard(&mut self, parcel: Parcel, discard: Discard) {
        let exit = match discard {
            Discard::Blackhole => Exit::Blackhole,
            Discard::Unreachable => Exit::Rejected,
            Discard::Prohibit => Exit::Prohibited,
        };
        match Trouble::of(discard) {
            Some(trouble) => self.refuse(parcel, trouble, exit),
            None => self.end(parcel, exit),
        }
    }

    /// Sends a packet that the router itself made for `reason`, or, if its neighbour must be asked for first, lets it come
    /// back to be held. One that can not be sent anywhere is not made: the answer is false then.
    pub(super) fn originate(&mut self, parcel: Parcel, reason: Exit) -> bool {
        if let Some(line) = parcel.origin.line.filter(|line| line.side == Side::From) {
            return self.answer_line(parcel, line, reason);
        }
        let destination = parcel.header().map(|header| header.destination);
        let decision = destination.map(|destination| (self.decide(&parcel, destination), destination));
        if let Some((Decision::Into(inlet), _)) = decision {
            let mut parcel = parcel;
            self.told(&mut parcel, inlet);
            self.out.emit(parcel.packet, Exit::Function, reason);
            return true;
        }
        let Some((Decision::Via(next_hop), destination)) = decision else { return self.unmake(parcel) };
        if let Some(tunnel) = self.control.interfaces.tunnel(next_hop.interface) {
            return self.originate_into(parcel, tunnel, reason);
        }
        let Some(link) = self.control.link(next_hop.interface) else { return self.unmake(parcel) };
        let from = link.mac;
        let fits = parcel.packet.packet().len() <= HEADER + usize::from(link.mtu);
        let (resolution, Parcel { mut packet, origin }) = (self.resolve(next_hop, destination), parcel);
        match resolution {
            Resolution::Known(mac) if fits => {
                address_frame(packet.packet_mut(), from, mac);
                self.send_by(packet, link.interface, Some(reason));
                true
            }
            Resolution::Known(_) | Resolution::Pending => {
                address_frame(packet.packet_mut(), from, origin.to_mac());
                packet.set(self.kind, Punt::from(PuntReason::Originated));
                self.out.emit(packet, Exit::Again, reason);
                true
            }
            Resolution::Failed | Resolution::NoRoom | Resolution::NoPort => self.unmake(Parcel { packet, origin }),
        }
    }

    /// Gives back the buffer of a packet that can not be sent anywhere; false, for it was not sent.
    pub(super) fn unmake(&mut self, parcel: Parcel) -> bool {
        self.out.unalloc(parcel.packet.into_packet());
        false
    }

    /// Sends what waited for a neighbour that has answered. Routes may have changed meanwhile: each packet is routed anew.
    pub(super) fn let_go(&mut self, station: NeighborKey) {
        for parcel in self.waiting.take(station) {
            self.route(parcel);
        }
    }

    /// Drops what waited for a neighbour: it did not answer, or it is gone.
    pub(super) fn give_up(&mut self, station: NeighborKey, failed: bool) {
        for parcel in self.waiting.take(station) {
            match failed {
                true => self.refuse(parcel, Trouble::NoNeighbor, Exit::Unresolved),
                false => self.end(parcel, Exit::NeighborGone),
            }
        }
    }

    pub(super) fn resolve(&mut self, next_hop: NextHop, destination: IpAddr) -> Resolution {
        let now = self.out.now();
        self.control.resolve(now, next_hop, destination)
    }

    fn route_via(&mut self, parcel: Parcel, next_hop: NextHop, header: Header) {
        if let Some(tunnel) = self.control.interfaces.tunnel(next_hop.interface) {
            return self.route_into(parcel, tunnel, header);
        }
        match self.control.link(next_hop.interface).filter(|link| link.up) {
            Some(link) => self.route_over(parcel, (next_hop, header.destination), (link, link.mtu), header),
            None => self.end(parcel, Exit::PortDown),
        }
    }

    /// Sends a packet by a next hop, towards an address: its own, or the end of the tunnel in which it goes. `mtu` of it fit the link.
    pub(super) fn route_over(
        &mut self,
        parcel: Parcel,
        (next_hop, towards): (NextHop, IpAddr),
        (link, mtu): (Link, u16),
        header: Header,
    ) {
        if !parcel.origin.is_own && header.hops <= 1 {
            return self.ttl_expired(parcel);
        }
        if header.total > usize::from(mtu) && !header.may_be_fragmented {
            return self.refuse_too_big(parcel, mtu);
        }
        match (self.resolve(next_hop, towards), parcel.origin.line) {
            (Resolution::Known(_), Some(line)) => self.hand_on(parcel, line, mtu),
            (Resolution::Known(mac), None) => self.leave(parcel, link, mac),
            (Resolution::Pending, _) => {
                let station = (next_hop.interface, next_hop.neighbor(towards));
                if let Some(oldest) = self.waiting.push(station, parcel) {
                    self.end(oldest, Exit::QueueFull);
                }
            }
            (Resolution::Failed, _) => self.refuse(parcel, Trouble::NoNeighbor, Exit::Unresolved),
            (Resolution::NoRoom, _) => self.end(parcel, Exit::TableFull),
            (Resolution::NoPort, _) => self.end(parcel, Exit::PortDown),
        }
    }

    /// Sends a packet over a link to a station, in fragments if it must be.
    fn leave(&mut self, mut parcel: Parcel, link: Link, to: MacAddr) {
        let frame = parcel.packet.packet_mut();
        if !parcel.origin.is_own {
            take_hop(ip_bytes_mut(frame));
        }
        address_frame(frame, link.mac, to);
        let Some(Header { total, .. }) = parcel.header() else { return self.end(parcel, Exit::Undecided) };
        if total > usize::from(link.mtu) {
            return self.leave_in_pieces(parcel, link);
        }
        let end = (HEADER + total).max(60);
        let frame = parcel.packet.packet_mut();
        if frame.len() > end {
            frame.set_len(end);
        }
        self.send_by(parcel.packet, link.interface, None);
    }

    fn leave_in_pieces(&mut self, parcel: Parcel, link: Link) {
        match self.pieces(&parcel, link.mtu) {
            Ok(pieces) => {
                self.out.send(parcel.packet, Exit::Fragmented);
                for piece in pieces {
                    self.send_by(piece, link.interface, Some(Exit::Piece));
                }
            }
            Err(exit) => self.end(parcel, exit),
        }
    }

    /// All fragments of an IPv4 packet, or none: half a packet is of no use to anybody.
    pub(super) fn pieces(&mut self, parcel: &Parcel, mtu: u16) -> Result<Vec<Held>, Exit> {
        let frame = parcel.packet.packet().bytes();
        let (Some(ethernet), now) = (frame.get(..HEADER), self.out.now()) else { return Err(Exit::Undecided) };
        let fragments = Fragments::new(parcel.ip(), mtu).map_err(|refused| match refused {
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
            if let Some((header, rest)) = piece.bytes_mut().split_at_mut_checked(HEADER) {
                header.copy_from_slice(ethernet);
                fragment.write(rest);
            }
            pieces.push(Held::fresh(piece, 0, now));
        }
        Ok(pieces)
    }

    /// Options are looked at before anything else is done with their packet: those of IPv4, or the hop-by-hop ones of IPv6.
    pub(super) fn options(&mut self, parcel: Parcel) {
        let Some(header) = parcel.header() else { return self.end(parcel, Exit::Undecided) };
        match header.destination {
            IpAddr::V4(destination) => self.options_four(parcel, destination),
            destination if is_of_link(destination) => self.arrive(parcel),
            // Routers on the way process no other extension header (RFC 8200 section 4).
            _ => match extension::in_transit(parcel.ip(), Limits::default()) {
                Ok(_) => self.route(parcel),
                Err(fault) => self.refuse_fault(parcel, None, fault),
            },
        }
    }

    fn options_four(&mut self, mut parcel: Parcel, destination: std::net::Ipv4Addr) {
        let own = match self.decide(&parcel, destination.into()) {
            Decision::Via(next_hop) => {
                let towards = next_hop.neighbor_in(destination).unwrap_or(destination);
                self.control.source_on(next_hop.interface, towards)
            }
            Decision::Local => Some(destination),
            _ => None,
        };
        let now = self.out.now();
        let addresses = self.control.four.addresses(parcel.origin.looked_up_in());
        let packet = ip_bytes_mut(parcel.packet.packet_mut());
        match crate::slow::options::update(packet, own, |address| addresses.is_own(address), now) {
            Ok(()) => self.route(parcel),
            Err(crate::slow::options::Fault::Bad(pointer)) => {
                self.refuse(parcel, Trouble::Four(icmp::Problem::Parameter { pointer }), Exit::BadOptions);
            }
            Err(crate::slow::options::Fault::SourceRoute) => {
                self.refuse(parcel, Trouble::Four(icmp::Problem::SourceRouteFailed), Exit::SourceRoute);
            }
        }
    }
}

/// Whether a packet in transit comes from a link-local address, and so must not leave its link (RFC 4291 section 2.5.6).
fn leaves_its_scope(header: Header) -> bool {
    match (header.source, header.destination) {
        (IpAddr::V6(source), destination) => source.is_link_local() && !is_of_link(destination),
        _ => false,
    }
}
