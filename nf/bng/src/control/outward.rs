//! The core side: customers' packets that wait for routers, and packets to customers that could not be sent.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_ip::Reach;
use weir_net::icmp::Problem;
use weir_net::icmp6;
use weir_net::neighbor::Resolution;
use weir_packet::{Held, Packet};
use weir_wire::gre::Gre;
use weir_wire::mpls::Label;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet};

use super::{Awaited, Exit, Line, Turn, inside, is_six};
use crate::core::{Routed, ToCore, flow_of, flow_of6};
use crate::encap::{Each, TAGGED, TUNNEL};
use crate::punt::PuntReason;
use crate::registry::Wanted;
use crate::six::wrap;
use crate::table::{Address, BindingKey};

/// A packet to a customer inside a frame from the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inner {
    /// The scope of its destination: the GRE key, or 0.
    pub(crate) scope: u32,
    /// Where the outer IPv4 header begins, with a tunnel.
    pub(crate) outer: Option<usize>,
    /// Where it begins.
    pub(crate) at: usize,
}

/// Finds the packet to a customer in a frame that the fast path has checked.
pub(crate) fn inner(frame: &[u8], has_keys: bool) -> Option<Inner> {
    let at = behind_labels(frame)?;
    if !has_keys {
        return Some(Inner { scope: 0, outer: None, at });
    }
    let outer = frame.get(at..)?;
    let header = Ipv4::view(outer)?.header_len();
    let gre = Gre::parse(outer.get(header..)?)?;
    Some(Inner { scope: gre.key?, outer: Some(at), at: at + header + gre.len })
}

/// Where the IP packet of a frame from the core begins, behind the labels that the fast path has checked.
pub(super) fn behind_labels(frame: &[u8]) -> Option<usize> {
    let mut at = Ethernet::LEN;
    if Ethernet::view(frame)?.ethertype.get() == ethernet::MPLS {
        while !Label::view(frame.get(at..)?)?.is_bottom() {
            at += Label::LEN;
        }
        at += Label::LEN;
    }
    Some(at)
}

impl Turn<'_, '_> {
    /// A packet that came in from the core.
    pub(super) fn core_packet(&mut self, why: PuntReason, packet: Held) {
        if why == PuntReason::Fragment {
            return self.outer_fragment(packet);
        }
        let frame = packet.packet().bytes();
        let inner = inner(frame, self.control.registry.settings().has_keys);
        if inner.is_some_and(|inner| is_six(frame.get(inner.at..).unwrap_or_default())) {
            return self.core6(why, packet);
        }
        match why {
            PuntReason::Unresolved => self.wait_for_host(packet),
            PuntReason::TtlExpired | PuntReason::TooBig => self.refuse_core(why, packet),
            PuntReason::NoRoute | PuntReason::UnknownSource => self.out.send(packet, Exit::UnknownDestination),
            // For the gateway itself inside a tunnel, where nothing of it listens; the rest is the network layer's.
            _ => self.out.send(packet, Exit::NoProtocol),
        }
    }

    /// A customer's packet whose next router's Ethernet address is not known.
    pub(super) fn wait_for_router(&mut self, line: Line, packet: Held) {
        let to = inside(packet.packet());
        let destination = match is_six(to) {
            true => Ipv6::view(to).map(|ip| ip.destination_addr().into()),
            false => Ipv4::view(to).map(|ip| ip.destination_addr().into()),
        };
        let reach = destination.map_or(Reach::NoRoute, |destination| self.reach(&packet, destination));
        match reach {
            Reach::Neighbor(interface, router, Resolution::Pending) => {
                self.wait(Awaited::Router(interface, router), packet, Some(line.subscriber));
            }
            Reach::Neighbor(_, _, Resolution::Known(_)) | Reach::Here => self.again(line, packet),
            Reach::Neighbor(..) => self.unreachable(line, packet, true),
            Reach::NoRoute | Reach::Inlet(_) => self.unreachable(line, packet, false),
        }
    }

    /// Where a customer's packet goes, behind a tunnel if there is one.
    fn reach(&self, packet: &Held, destination: IpAddr) -> Reach {
        let hash = match destination {
            IpAddr::V4(_) => flow_of(packet.packet()),
            IpAddr::V6(_) => flow_of6(packet.packet()),
        };
        let (now, layer) = (self.out.now(), &self.control.layer);
        let reach = layer.reach(now, destination, hash);
        let Reach::Inlet(inlet) = reach else { return reach };
        self.control.core.end_of(inlet).map_or(reach, |end| layer.reach(now, Ipv4Addr::from(end).into(), hash))
    }

    /// Lets a customer's packet be looked up anew, unless it would come back at once: what it waited for is known.
    fn again(&mut self, line: Line, packet: Held) {
        let core = Arc::clone(&self.control.core);
        let to = inside(packet.packet());
        let hop = match is_six(to) {
            true => Ipv6::view(to).map(|ip| core.hop_to6(u128::from_be_bytes(ip.destination)).is_err()),
            false => Ipv4::view(to).map(|ip| core.hop_to(ip.destination.get()).is_err()),
        };
        match hop {
            Some(false) => self.out.send(packet, Exit::Up),
            _ => self.unreachable(line, packet, true),
        }
    }

    /// Refuses a packet whose next router does not answer, or that has none.
    fn unreachable(&mut self, line: Line, packet: Held, has_route: bool) {
        match (is_six(inside(packet.packet())), has_route) {
            (true, true) => self.refuse6(line, packet, icmp6::Problem::AddressUnreachable, Exit::RouterUnresolved),
            (true, false) => self.refuse6(line, packet, icmp6::Problem::NoRoute, Exit::NoRoute),
            (false, true) => self.refuse(line, packet, Problem::HostUnreachable, Exit::RouterUnresolved),
            (false, false) => self.refuse(line, packet, Problem::NetUnreachable, Exit::NoRoute),
        }
    }

    /// A router does not answer: what waited for it is dropped, and its senders are told.
    pub(super) fn give_up(&mut self, router: Awaited) {
        for mut packet in self.waiting.take(router) {
            let position = self.control.ports.ingress(packet.port()).position;
            match self.line(position, &packet) {
                Some(line) => self.unreachable(line, packet, true),
                None => self.out.send(packet, Exit::RouterUnresolved),
            }
        }
    }

    /// Holds a packet until an Ethernet address is found.
    fn wait(&mut self, awaited: Awaited, packet: Held, subscriber: Option<u32>) {
        if let Some(gone) = self.waiting.push(awaited, packet) {
            match subscriber {
                // Whoever waits for a host is its subscriber's; the one that goes waited for the same, or is the new one.
                Some(subscriber) if matches!(awaited, Awaited::Host(_)) => self.lose(subscriber, gone, Exit::QueueFull),
                _ => self.out.send(gone, Exit::QueueFull),
            }
        }
    }

    /// A packet to an address of a subscriber whose Ethernet address is not known.
    pub(super) fn wait_for_host(&mut self, packet: Held) {
        let now = self.out.now();
        let Some(key) = self.key_of(&packet) else { return self.out.send(packet, Exit::UnknownDestination) };
        let wanted = self.control.registry.wanted(now, key);
        let registry = &self.control.registry;
        let host = registry.host(key).or_else(|| registry.host(key.network6()).filter(|_| key.is_host6()));
        let subscriber = host.map(|host| host.subscriber);
        match (wanted, subscriber) {
            (Wanted::Known, Some(subscriber)) => {
                self.control.registry.settle();
                if self.is_reached(key) {
                    self.out.send(packet, Exit::Down);
                } else {
                    self.lose(subscriber, packet, Exit::NotYetKnown);
                }
            }
            (Wanted::Asked, Some(_)) => self.wait(Awaited::Host(key), packet, subscriber),
            (Wanted::Failed, Some(subscriber)) => self.lose(subscriber, packet, Exit::HostUnresolved),
            _ => match self.control.registry.by_key(key.scope()).map(|one| one.number) {
                Some(subscriber) if key.scope() != 0 => self.lose(subscriber, packet, Exit::UnknownDestination),
                _ => self.out.send(packet, Exit::UnknownDestination),
            },
        }
    }

    /// What the destination of a packet from the core is found by.
    fn key_of(&self, packet: &Held) -> Option<BindingKey> {
        let frame = packet.packet().bytes();
        let inner = inner(frame, self.control.registry.settings().has_keys)?;
        let packet = frame.get(inner.at..)?;
        let address = if is_six(packet) {
            Address::Host6(Ipv6::view(packet)?.destination_addr())
        } else {
            Address::V4(Ipv4::view(packet)?.destination_addr())
        };
        Some(BindingKey::new(inner.scope, address))
    }

    /// Whether workers know where an address is: otherwise the packet would come back at once.
    pub(super) fn is_resolved(&self, key: BindingKey) -> bool {
        let tables = self.control.registry.tables().shared();
        let binding = tables.find(key, tables.hash(key)).and_then(|place| tables.binding(place));
        binding.is_some_and(|binding| binding.is_resolved())
    }

    /// A packet to a customer that can not go on as it is: it goes in pieces if it may, else its source is told, the way customers'
    /// packets go.
    fn refuse_core(&mut self, why: PuntReason, mut packet: Held) {
        let exit = if why == PuntReason::TooBig { Exit::TooBig } else { Exit::TtlExpired };
        let host = self.key_of(&packet).and_then(|key| self.control.registry.host(key)).copied();
        let inner = inner(packet.packet().bytes(), self.control.registry.settings().has_keys);
        let (Some(host), Some(inner)) = (host, inner) else { return self.out.send(packet, Exit::UnknownDestination) };
        let subscriber = host.subscriber;
        let tags = self.control.registry.subscriber(subscriber).map(|one| one.tags);
        let mtu = tags.and_then(|tags| self.access_port(tags)).map_or(0, |(_, port)| port.mtu);
        if why == PuntReason::TooBig {
            match self.pieces_down(subscriber, packet, inner, mtu) {
                Ok(()) => return,
                Err(whole) => packet = whole,
            }
        }
        let problem =
            if why == PuntReason::TooBig { Problem::FragmentationNeeded { mtu } } else { Problem::TtlExceeded };
        let about = packet.packet().bytes().get(inner.at..).unwrap_or_default();
        if let Some((error, reason)) = self.error_to_core(subscriber, about, problem) {
            let core = Arc::clone(&self.control.core);
            let hop = Ipv4::view(&error).and_then(|ip| core.hop_to(ip.destination.get()).ok());
            hop.and_then(|hop| self.send_to_core(subscriber, &error, hop, false, reason));
        }
        self.lose(subscriber, packet, exit);
    }

    /// Sends a packet of the gateway's own to the core as if it came from a subscriber.
    pub(super) fn send_to_core(
        &mut self,
        subscriber: u32,
        bytes: &[u8],
        hop: Routed<'_>,
        is_six: bool,
        reason: Exit,
    ) -> Option<()> {
        if bytes.len() > usize::from(hop.longest) {
            return None;
        }
        let mut packet = self.wrapped(subscriber, bytes, hop, is_six)?;
        let control = &self.control;
        if control.registry.settings().has_keys && !control.config.tunnel.df {
            let at = packet.len().saturating_sub(bytes.len() + TUNNEL);
            self.identify(packet.bytes_mut().get_mut(at..).unwrap_or_default());
        }
        self.emit(packet, hop.port, reason);
        Some(())
    }

    /// A frame for the core with a packet as if it came from a subscriber, without an identification; `None` when there is no buffer for it.
    pub(super) fn wrapped(&mut self, subscriber: u32, bytes: &[u8], hop: Routed<'_>, is_six: bool) -> Option<Packet> {
        let registry = &self.control.registry;
        let key = registry.subscriber(subscriber)?.fields().key.unwrap_or(0);
        // With the headers of a customer's frame in front, as the wrapping expects them, and room for a whole head.
        let mut packet = self.fresh(TAGGED + bytes.len())?;
        packet.bytes_mut().get_mut(TAGGED..)?.copy_from_slice(bytes);
        let core = &self.control.core;
        let tos = match is_six {
            true => Ipv6::view(bytes).map_or(0, Ipv6::traffic_class),
            false => Ipv4::view(bytes).map_or(0, |ip| ip.tos),
        };
        let each = Each { key, total: bytes.len() as u16, tos, identification: None };
        match (is_six, core.is_tunnel) {
            (true, _) => wrap(core, hop, &mut packet, each),
            (false, true) => drop(hop.wrap::<true, false>(core.view(), &mut packet, each, |_| {})),
            (false, false) => drop(hop.wrap::<false, false>(core.view(), &mut packet, each, |_| {})),
        }
        Some(packet)
    }
}
