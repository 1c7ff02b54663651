//! Neighbour discovery, as the neighbour table decides it (RFC 4861): of neighbours, of routers, and proxies (section 7.2.8).

use std::net::Ipv6Addr;

use weir_net::neighbor::{Event, Heard, Ignored, MessageKind};
use weir_packet::Held;
use weir_wire::nd::{self, Body, Message, RouterSolicitation};
use weir_wire::{Ethernet, MacAddr, View};

use super::parcel::{Origin, Parcel};
use super::{Call, Exit};
use crate::InterfaceId;

impl Call<'_, '_> {
    /// A message of neighbour discovery came in.
    pub(super) fn discovery(&mut self, parcel: Parcel) {
        let packet = parcel.ip();
        let is_of_routers = nd::is_router_advertisement(packet) || nd::parse_router_solicitation(packet).is_some();
        if is_of_routers && self.has_host(parcel.origin) && !self.control.advertises_on(parcel.origin.interface) {
            return self.give_to_linux(parcel);
        }
        let from = Ethernet::view(parcel.packet.packet().bytes()).map_or(MacAddr::ZERO, |header| header.source);
        let exit = if let Some(message) = nd::parse(packet) {
            self.neighbor_speaks(parcel.origin, from, &message)
        } else if let Some(question) = nd::parse_router_solicitation(packet) {
            self.router_wanted(parcel.origin, question)
        } else if nd::is_router_advertisement(packet) {
            Exit::OtherRouter
        } else if nd::is_redirect(packet) {
            Exit::RedirectIgnored
        } else {
            Exit::NdMalformed
        };
        self.end(parcel, exit);
    }

    /// A neighbour asks for an address, or tells of one.
    fn neighbor_speaks(&mut self, origin: Origin, from: MacAddr, message: &Message) -> Exit {
        let (now, mut events) = (self.out.now(), Vec::new());
        let heard = self.control.six.neighbors.nd_received(now, origin.interface, from, message, &mut events);
        let is_for_another = matches!(heard, Heard::Ignored(Ignored::NotForUs) | Heard::Learned);
        let answered_for = if is_for_another { self.advertise_by_proxy(origin, from, message) } else { None };
        let exit = match heard {
            _ if answered_for.is_some() => Exit::NdAnswered,
            Heard::Answered => Exit::NdAnswered,
            Heard::Learned => Exit::NdLearned,
            Heard::Conflict => Exit::NdConflict,
            Heard::Ignored(Ignored::BadSender) => Exit::NdMalformed,
            Heard::Ignored(_) => Exit::NdIgnored,
        };
        events.extend(answered_for);
        self.control.absorb(events);
        exit
    }

    /// The answer to a solicitation for an address that is reached by another interface, where that is wanted.
    fn advertise_by_proxy(&self, origin: Origin, from: MacAddr, message: &Message) -> Option<Event<Ipv6Addr>> {
        let Body::Solicitation { target, .. } = message.body else { return None };
        // Who probes asks whether the address is free: to claim it would keep its owner from using it. A link-local one is of this link.
        if message.source.is_unspecified() || !self.is_behind(origin, target) {
            return None;
        }
        self.control.six.neighbors.advertise_for(origin.interface, from, message)
    }

    /// A host looks for routers: all are told soon, if the router advertises itself there (section 6.2.6).
    fn router_wanted(&mut self, origin: Origin, RouterSolicitation { source, link }: RouterSolicitation) -> Exit {
        let (now, mut events) = (self.out.now(), Vec::new());
        if let Some(link) = link {
            self.control.six.neighbors.router_solicited(now, origin.interface, source, link, &mut events);
        }
        self.control.absorb(events);
        if self.control.advertiser.solicited(now, origin.interface) { Exit::RouterSolicited } else { Exit::NdIgnored }
    }

    /// Sends a message to a neighbour. Without a buffer it is not sent: neighbour discovery repeats itself.
    pub(super) fn send_discovery(&mut self, interface: InterfaceId, to: MacAddr, message: &Message, kind: MessageKind) {
        let Some(link) = self.control.link(interface) else { return };
        let Some(mut packet) = self.fresh(nd::FRAME_LEN) else { return };
        match message.write(packet.bytes_mut(), link.mac, to) {
            Some(length) if packet.set_len(length) => {}
            _ => return self.out.unalloc(packet),
        }
        let reason = match kind {
            MessageKind::Request => Exit::NdSolicitation,
            MessageKind::Revalidation => Exit::NdRevalidation,
            MessageKind::Reply => Exit::NdAdvertisement,
            MessageKind::Probe => Exit::NdProbe,
            MessageKind::Announcement => Exit::NdAnnouncement,
        };
        let held = Held::fresh(packet, 0, self.out.now());
        self.send_by(held, interface, Some(reason));
    }
}
