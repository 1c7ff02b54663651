//! IPv6 with customers and the core: what could not go on, and what is for the gateway itself (RFC 4443).

use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_net::icmp6::{self, MAX_ERROR, Problem};
use weir_packet::{Held, Packet};
use weir_wire::{Ethernet, Ipv6, MacAddr, View, ethernet, ipv6, nd};

use super::{Exit, Line, Turn, inner, inside, inside_mut};
use crate::encap::TAGGED;
use crate::punt::PuntReason;
use crate::registry::{PREFIX_LENGTH, half};
use crate::table::{Address, BindingKey, Tags};

/// Which of the limits of errors a problem counts for, and the reason under which its message is counted.
const fn kind_of(problem: Problem) -> (usize, Exit) {
    match problem {
        Problem::HopLimitExceeded | Problem::ReassemblyExceeded => (0, Exit::TimeExceeded),
        Problem::AddressUnreachable => (2, Exit::HostUnreachable),
        Problem::PortUnreachable => (4, Exit::PortUnreachable),
        Problem::TooBig { .. } => (5, Exit::PacketTooBig),
        // The gateway finds no other problems with a packet.
        _ => (1, Exit::NetUnreachable),
    }
}

impl Turn<'_, '_> {
    /// A customer's IPv6 packet.
    pub(super) fn customer6(&mut self, why: PuntReason, line: Line, packet: Held) {
        match why {
            PuntReason::UnknownSource => self.unknown_source6(line, packet),
            PuntReason::Local => self.customer_local6(line, packet),
            PuntReason::Unresolved => self.wait_for_router(line, packet),
            PuntReason::TtlExpired => self.refuse6(line, packet, Problem::HopLimitExceeded, Exit::TtlExpired),
            PuntReason::TooBig => self.too_big6(line, packet),
            _ => self.refuse6(line, packet, Problem::NoRoute, Exit::NoRoute),
        }
    }

    fn too_big6(&mut self, line: Line, packet: Held) {
        let core = Arc::clone(&self.control.core);
        let hop = destination6(inside(packet.packet())).and_then(|to| core.hop_to6(to.to_bits()).ok());
        if self.control.config.tunnel.fragment {
            return self.fragment_outer(line, packet, hop);
        }
        match hop.map(|hop| u32::from(hop.longest)) {
            Some(mtu) => self.refuse6(line, packet, Problem::TooBig { mtu }, Exit::TooBig),
            // The route has changed meanwhile.
            None => self.refuse6(line, packet, Problem::NoRoute, Exit::NoRoute),
        }
    }

    /// A packet from one of the subscriber's networks of which no station was heard yet.
    fn unknown_source6(&mut self, line: Line, packet: Held) {
        let source = Ipv6::view(inside(packet.packet())).map(Ipv6::source_addr);
        let Some(source) = source.filter(|_| line.station.is_unicast()) else {
            return self.lose(line.subscriber, packet, Exit::SpoofedSource);
        };
        if let Err(exit) = self.hear(line, Address::Host6(source)) {
            return self.lose(line.subscriber, packet, exit);
        }
        self.control.registry.settle();
        let registry = &self.control.registry;
        let scope = registry.subscriber(line.subscriber).map_or(0, |one| one.scope(registry.settings()));
        if self.place6(BindingKey::new(scope, Address::Host6(source))) == Some(line.station) {
            self.out.send(packet, Exit::Up);
        } else {
            self.lose(line.subscriber, packet, Exit::NotYetKnown);
        }
    }

    /// A customer's packet for one of the gateway's own addresses.
    fn customer_local6(&mut self, line: Line, packet: Held) {
        let bytes = inside(packet.packet());
        let protocol = ipv6::upper(bytes).map_or(ipv6::NO_NEXT, |upper| upper.protocol);
        match protocol {
            ipv6::ICMPV6 => match self.echo6(line, &packet) {
                Ok(()) => self.out.send(packet, Exit::EchoAnswered),
                Err(exit) => self.lose(line.subscriber, packet, exit),
            },
            weir_wire::ipv4::UDP => self.refuse6(line, packet, Problem::PortUnreachable, Exit::NoPort),
            _ => self.lose(line.subscriber, packet, Exit::NoProtocol),
        }
    }

    fn echo6(&mut self, line: Line, request: &Held) -> Result<(), Exit> {
        let (_, port) = self.access_port(line.tags).ok_or(Exit::NoBuffer)?;
        let bytes = request.packet().bytes();
        let ip = Ipv6::view(inside(request.packet())).ok_or(Exit::IcmpMalformed)?;
        let frame =
            bytes.get(..TAGGED + Ipv6::LEN + usize::from(ip.payload_length.get())).ok_or(Exit::IcmpMalformed)?;
        let mut reply = self.fresh(frame.len()).ok_or(Exit::NoBuffer)?;
        reply.bytes_mut().copy_from_slice(frame);
        let source = Ipv6::view(inside(&reply)).map_or(Ipv6Addr::UNSPECIFIED, Ipv6::destination_addr);
        let answered = icmp6::echo_reply(inside_mut(&mut reply), source);
        let is_set = answered.is_some_and(|len| reply.set_len(TAGGED + len));
        if !is_set || self.tag(&mut reply, line.tags, port.mac, line.station, ethernet::IPV6).is_none() {
            self.out.unalloc(reply);
            return Err(Exit::IcmpIgnored);
        }
        self.emit(reply, line.tags.port, Exit::EchoReply);
        Ok(())
    }

    /// Drops a customer's packet and reports why to its source, if that may be done.
    pub(super) fn refuse6(&mut self, line: Line, packet: Held, problem: Problem, exit: Exit) {
        if let Some((error, reason)) = self.error6_for(line, inside(packet.packet()), problem) {
            self.emit(error, line.tags.port, reason);
        }
        self.lose(line.subscriber, packet, exit);
    }

    fn error6_for(&mut self, line: Line, about: &[u8], problem: Problem) -> Option<(Packet, Exit)> {
        let (_, port) = self.access_port(line.tags)?;
        let to = Ipv6::view(about)?.source_addr();
        let (bytes, reason) = self.error6(line.subscriber, about, line.to_group, problem, to)?;
        let mut error = self.fresh(TAGGED + bytes.len())?;
        inside_mut(&mut error).copy_from_slice(&bytes);
        if self.tag(&mut error, line.tags, port.mac, line.station, ethernet::IPV6).is_some() {
            return Some((error, reason));
        }
        self.out.unalloc(error);
        None
    }

    /// The message that reports a problem, as an IPv6 packet, and the reason under which it is counted; `None` if none may be sent. It
    /// comes from the gateway's address near `near`.
    fn error6(
        &mut self,
        subscriber: u32,
        about: &[u8],
        to_group: bool,
        problem: Problem,
        near: Ipv6Addr,
    ) -> Option<(Vec<u8>, Exit)> {
        let (kind, reason) = kind_of(problem);
        if !icmp6::may_report(problem, about, to_group) {
            return None;
        }
        let own = &self.control.addresses6;
        let source = own.iter().find(|own| own.contains(&near)).or(own.first())?.addr();
        let now = self.out.now();
        if !self.control.errors.take(now, kind, subscriber) {
            return None;
        }
        let mut bytes = vec![0; MAX_ERROR];
        let len = icmp6::write_error(problem, about, source, &mut bytes)?;
        bytes.truncate(len);
        Some((bytes, reason))
    }

    /// An IPv6 packet from the core that could not go on: its source is told, the way customers' packets go.
    pub(super) fn core6(&mut self, why: PuntReason, packet: Held) {
        let exit = match why {
            PuntReason::TooBig => Exit::TooBig,
            PuntReason::TtlExpired => Exit::TtlExpired,
            PuntReason::Local => return self.out.send(packet, Exit::NoProtocol),
            PuntReason::Unresolved => return self.wait_for_host(packet),
            _ => return self.out.send(packet, Exit::UnknownDestination),
        };
        let subscriber = self.tell_core6(why, &packet);
        match subscriber {
            Some(subscriber) => self.lose(subscriber, packet, exit),
            None => self.out.send(packet, exit),
        }
    }

    /// Whose the packet is, having told its source what is wrong.
    fn tell_core6(&mut self, why: PuntReason, packet: &Held) -> Option<u32> {
        let frame = packet.packet().bytes();
        let registry = &self.control.registry;
        let inner = inner(frame, registry.settings().has_keys)?;
        let about = frame.get(inner.at..)?;
        let ip = Ipv6::view(about)?;
        let key = BindingKey::new(inner.scope, Address::V6(half(ip.destination_addr())));
        let subscriber = registry.host(key)?.subscriber;
        let tags = registry.subscriber(subscriber)?.tags;
        let mtu = self.access_port(tags).map_or(0, |(_, port)| u32::from(port.mtu));
        let problem = if why == PuntReason::TooBig { Problem::TooBig { mtu } } else { Problem::HopLimitExceeded };
        if let Some((bytes, reason)) = self.error6(subscriber, about, false, problem, ip.destination_addr()) {
            let core = Arc::clone(&self.control.core);
            let hop = destination6(&bytes).and_then(|to| core.hop_to6(to.to_bits()).ok());
            hop.and_then(|hop| self.send_to_core(subscriber, &bytes, hop, true, reason));
        }
        Some(subscriber)
    }

    /// Neighbour discovery of a customer (RFC 4861). Where his networks are follows from where he speaks from.
    pub(super) fn neighbor_discovery(&mut self, line: Line, packet: Held) {
        let bytes = inside(packet.packet());
        if let Some(nd::RouterSolicitation { source: from, link }) = nd::parse_router_solicitation(bytes) {
            let done = self.hear6(line, from, link).map(|()| self.advertise(line, from));
            return match done {
                Ok(true) => self.out.send(packet, Exit::NdAnswered),
                Ok(false) => self.lose(line.subscriber, packet, Exit::NoBuffer),
                Err(exit) => self.lose(line.subscriber, packet, exit),
            };
        }
        let message = nd::parse(bytes);
        match message.map(|message| (message.source, message.body)) {
            Some((from, nd::Body::Solicitation { target, link, .. })) => {
                // Whoever looks for doubles of his own address (RFC 4862) has none yet, and will not have the gateway's.
                let heard = if from.is_unspecified() { Ok(()) } else { self.hear6(line, from, link) };
                match heard {
                    Err(exit) => self.lose(line.subscriber, packet, exit),
                    Ok(()) if from.is_unspecified() || !self.is_own6(line, target) => {
                        self.out.send(packet, Exit::NdLearned);
                    }
                    Ok(()) if self.answer6(line, from, target) => self.out.send(packet, Exit::NdAnswered),
                    Ok(()) => self.lose(line.subscriber, packet, Exit::NoBuffer),
                }
            }
            Some((_, nd::Body::Advertisement { target, link, .. })) => match self.hear6(line, target, link) {
                Ok(()) => self.out.send(packet, Exit::NdLearned),
                Err(exit) => self.lose(line.subscriber, packet, exit),
            },
            None => self.lose(line.subscriber, packet, Exit::NdIgnored),
        }
    }

    /// Notes that a station of a subscriber speaks from an address: one of its networks, or a link-local one.
    fn hear6(&mut self, line: Line, from: Ipv6Addr, link: Option<MacAddr>) -> Result<(), Exit> {
        if link.is_some_and(|link| link != line.station) || !line.station.is_unicast() {
            return Err(Exit::NdSpoofed);
        }
        let subscriber = self.control.registry.subscriber(line.subscriber);
        let fields = subscriber.map(|subscriber| subscriber.fields().clone()).unwrap_or_default();
        let is_local = from.is_unicast_link_local() || from.is_unspecified();
        if !is_local && !fields.ipv6.iter().any(|network| network.contains(&from)) {
            return Err(Exit::SpoofedSource);
        }
        if !is_local {
            return self.hear(line, Address::Host6(from));
        }
        // He is there, and says nothing of his addresses: his networks are his unless somebody else was heard.
        let registry = &self.control.registry;
        let scope = registry.subscriber(line.subscriber).map_or(0, |one| one.scope(registry.settings()));
        let networks = fields.ipv6.iter().flat_map(|network| {
            let is_link = network.prefix_len() == PREFIX_LENGTH;
            (half(network.network())..=half(network.broadcast())).map(move |half| (Address::V6(half), is_link))
        });
        let is_others = |address| registry.host(BindingKey::new(scope, address)).is_some_and(|host| host.mac.is_some());
        let networks = networks.filter(|(address, is_link)| !is_link || !is_others(*address));
        let networks: Vec<Address> = networks.map(|(address, _)| address).collect();
        networks.into_iter().try_for_each(|address| self.hear(line, address))
    }

    /// Where workers send packets for an IPv6 host.
    fn place6(&self, host: BindingKey) -> Option<MacAddr> {
        let tables = self.control.registry.tables().shared();
        let find = |key| tables.find(key, tables.hash(key)).and_then(|place| tables.binding(place));
        let binding =
            find(host.network6()).and_then(|network| if network.is_shared() { find(host) } else { Some(network) });
        let binding = binding.filter(|binding| binding.is_resolved())?;
        let [a, b, c, d, e, f, ..] = binding.mac_word().to_le_bytes();
        Some(MacAddr([a, b, c, d, e, f]))
    }

    /// Whether workers know where an address is: otherwise the packet would come back at once.
    pub(super) fn is_reached(&self, key: BindingKey) -> bool {
        if key.is_host6() { self.place6(key).is_some() } else { self.is_resolved(key) }
    }

    /// Asks who has an IPv6 address (RFC 4861 section 7.2.2): this station, or all on the line.
    pub(super) fn ask6(&mut self, tags: Tags, target: Ipv6Addr, mac: Option<MacAddr>) {
        let Some((_, port)) = self.access_port(tags) else { return };
        let mut frame = [0; nd::FRAME_LEN];
        let written = nd::write_solicitation(&mut frame, port.mac, nd::link_local(port.mac), target);
        let (Some(_), Some(link)) = (written, Ethernet::view_mut(&mut frame)) else { return };
        if let Some(mac) = mac {
            link.destination = mac;
        }
        self.send6(tags, &frame, Exit::NeighborSolicitation);
    }

    /// Whether an address is the gateway's own towards a line.
    fn is_own6(&self, line: Line, address: Ipv6Addr) -> bool {
        let link_local = self.access_port(line.tags).map(|(_, port)| nd::link_local(port.mac));
        link_local == Some(address) || self.control.addresses6.iter().any(|own| own.addr() == address)
    }

    fn answer6(&mut self, line: Line, asking: Ipv6Addr, target: Ipv6Addr) -> bool {
        let Some((_, port)) = self.access_port(line.tags) else { return false };
        let mut frame = [0; nd::FRAME_LEN];
        let answer = nd::Message::advertisement(target, port.mac, asking, true);
        let written = answer.write(&mut frame, port.mac, line.station);
        written.is_some() && self.send6(line.tags, &frame, Exit::NeighborAdvertisement)
    }

    /// Tells a customer of the gateway, and of his networks in which hosts may take addresses.
    fn advertise(&mut self, line: Line, from: Ipv6Addr) -> bool {
        /// RFC 4861 section 6.2.1: three times the longest time between two advertisements, here as they are asked for.
        const LIFETIME: u16 = 1800;
        let Some((_, port)) = self.access_port(line.tags) else { return false };
        let subscriber = self.control.registry.subscriber(line.subscriber);
        let prefixes: Vec<nd::PrefixInformation> = subscriber
            .into_iter()
            .flat_map(|subscriber| &subscriber.fields().ipv6)
            .filter(|network| network.prefix_len() == 64)
            .map(|network| nd::PrefixInformation::new(network.network(), network.prefix_len()))
            .collect();
        let to = (line.station, if from.is_unspecified() { nd::ALL_NODES } else { from });
        let says = nd::RouterAdvertisement {
            mtu: Some(u32::from(port.mtu)),
            prefixes: &prefixes,
            ..nd::RouterAdvertisement::new(port.mac, nd::link_local(port.mac), to, LIFETIME)
        };
        self.send6(line.tags, &says.to_frame(), Exit::RouterAdvertisement)
    }

    /// Sends an untagged frame of neighbour discovery to a line.
    fn send6(&mut self, tags: Tags, frame: &[u8], reason: Exit) -> bool {
        let (Some((link, message)), Some((_, port))) = (Ethernet::split(frame), self.access_port(tags)) else {
            return false;
        };
        let Some(mut packet) = self.fresh(TAGGED + message.len()) else { return false };
        inside_mut(&mut packet).copy_from_slice(message);
        if self.tag(&mut packet, tags, port.mac, link.destination, ethernet::IPV6).is_none() {
            self.out.unalloc(packet);
            return false;
        }
        self.emit(packet, tags.port, reason);
        true
    }
}

/// Where an IPv6 packet goes.
fn destination6(packet: &[u8]) -> Option<Ipv6Addr> {
    Ipv6::view(packet).map(Ipv6::destination_addr)
}
