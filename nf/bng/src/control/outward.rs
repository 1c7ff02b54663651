//! The core side: ARP with routers, customers' packets that wait for them, and packets to customers that could not be sent.

use weir_net::PortId;
use weir_net::icmp::Problem;
use weir_net::icmp6;
use weir_net::neighbor::{Heard, Ignored, MessageKind, Resolution};
use weir_packet::{Held, Packet};
use weir_wire::arp::{ArpFields, FRAME_LEN};
use weir_wire::gre::Gre;
use weir_wire::mpls::Label;
use weir_wire::{Ethernet, Ipv4, Ipv6, MacAddr, View, ethernet};

use super::{Awaited, Exit, Line, Turn, inside, is_six};
use crate::encap::{Each, TAGGED, TUNNEL};
use crate::fib::{Action, Hop};
use crate::punt::PuntReason;
use crate::registry::Wanted;
use crate::six::wrap;
use crate::table::{Address, BindingKey};

/// The least Ethernet frame without its check sequence.
const LEAST_FRAME: usize = 60;

const _: () = assert!(FRAME_LEN <= LEAST_FRAME);

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
    pub(super) fn core_packet(&mut self, why: PuntReason, mut packet: Held) {
        let position = self.control.ports.ingress(packet.port()).position;
        if why == PuntReason::Fragment {
            return self.outer_fragment(packet);
        }
        let frame = packet.packet().bytes();
        let inner = inner(frame, self.control.registry.settings().has_keys);
        if why != PuntReason::Arp && inner.is_some_and(|inner| is_six(frame.get(inner.at..).unwrap_or_default())) {
            return self.core6(why, packet);
        }
        match why {
            PuntReason::Arp => self.core_arp(packet),
            PuntReason::Local => self.core_local(position, packet),
            PuntReason::Unresolved => self.wait_for_host(packet),
            PuntReason::TtlExpired | PuntReason::TooBig => self.refuse_core(why, packet),
            PuntReason::NoRoute | PuntReason::UnknownSource => self.out.send(packet, Exit::UnknownDestination),
            PuntReason::Nd | PuntReason::Fragment | PuntReason::Originated => self.out.send(packet, Exit::NdIgnored),
        }
    }

    fn core_arp(&mut self, mut packet: Held) {
        let port = packet.port();
        let Some(arp) = packet.packet().bytes().get(Ethernet::LEN..).and_then(ArpFields::parse) else {
            return self.out.send(packet, Exit::ArpMalformed);
        };
        let now = self.out.now();
        let control = &mut *self.control;
        let exit = match control.core.heard(now, port, &arp, &mut control.fib) {
            Heard::Answered => Exit::ArpAnswered,
            Heard::Learned => Exit::ArpLearned,
            Heard::Conflict => Exit::ArpConflict,
            Heard::Ignored(Ignored::BadSender) => Exit::ArpMalformed,
            Heard::Ignored(_) => Exit::ArpIgnored,
        };
        self.out.send(packet, exit);
    }

    /// Sends an ARP packet to a link of the core. Without a buffer it is not sent: ARP repeats itself.
    pub(super) fn core_arp_out(&mut self, port: PortId, to: MacAddr, arp: &ArpFields, kind: MessageKind) {
        let position = self.control.ports.ingress(port).position;
        let Some(mut packet) = self.fresh(LEAST_FRAME) else { return };
        if arp.write(to, packet.bytes_mut()).is_none() {
            return self.out.unalloc(packet);
        }
        let reason = match kind {
            MessageKind::Request => Exit::ArpRequest,
            MessageKind::Revalidation => Exit::ArpRevalidation,
            MessageKind::Reply => Exit::ArpReply,
            MessageKind::Probe => Exit::ArpProbe,
            MessageKind::Announcement => Exit::ArpAnnouncement,
        };
        self.emit(packet, position, reason);
    }

    /// A customer's packet whose next router's Ethernet address is not known.
    pub(super) fn wait_for_router(&mut self, line: Line, packet: Held) {
        let destination = Ipv4::view(inside(packet.packet())).map(Ipv4::destination_addr);
        let gateway = destination.and_then(|destination| self.control.fib.gateway_of(destination));
        self.wait_for_gateway(line, packet, gateway);
    }

    /// The same, knowing the gateway.
    pub(super) fn wait_for_gateway(&mut self, line: Line, packet: Held, gateway: Option<usize>) {
        let now = self.out.now();
        let control = &mut *self.control;
        let Some(gateway) = gateway else { return self.unreachable(line, packet, false) };
        match control.core.wanted(now, gateway, &mut control.fib) {
            // It is fixed, or was found meanwhile.
            None | Some((_, Resolution::Known(_))) => self.out.send(packet, Exit::Up),
            Some(((port, via), Resolution::Pending)) => {
                self.wait(Awaited::Router(port, via), packet, Some(line.subscriber))
            }
            Some(_) => self.unreachable(line, packet, true),
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
            let to = Ipv4::view(&error).map(Ipv4::destination_addr);
            let hop = to.and_then(|to| self.control.fib.hop_to(to));
            hop.and_then(|hop| self.send_to_core(subscriber, &error, &hop, false, reason));
        }
        self.lose(subscriber, packet, exit);
    }

    /// Sends a packet of the gateway's own to the core as if it came from a subscriber.
    pub(super) fn send_to_core(
        &mut self,
        subscriber: u32,
        bytes: &[u8],
        hop: &Hop,
        is_six: bool,
        reason: Exit,
    ) -> Option<()> {
        if hop.action != Action::Forward || bytes.len() > usize::from(hop.longest) {
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
    pub(super) fn wrapped(&mut self, subscriber: u32, bytes: &[u8], hop: &Hop, is_six: bool) -> Option<Packet> {
        let registry = &self.control.registry;
        let is_tunnel = registry.settings().has_keys;
        let key = registry.subscriber(subscriber)?.fields().key.unwrap_or(0);
        // With the headers of a customer's frame in front, as the wrapping expects them, and room for a whole head.
        let mut packet = self.fresh(TAGGED + bytes.len())?;
        packet.bytes_mut().get_mut(TAGGED..)?.copy_from_slice(bytes);
        let tos = Ipv4::view(bytes).map_or(0, |ip| ip.tos);
        match (is_six, is_tunnel) {
            (true, _) => {
                let class = Ipv6::view(bytes).map_or(0, Ipv6::traffic_class);
                wrap(
                    &mut packet,
                    hop,
                    is_tunnel,
                    Each { key, total: bytes.len() as u16, tos: class, identification: None },
                );
            }
            (false, true) => {
                let each = Each { key, total: bytes.len() as u16, tos, identification: None };
                hop.rewrite.wrap::<false>(&mut packet, each);
            }
            (false, false) => {
                hop.rewrite.bare::<false>(&mut packet, bytes.len() as u16);
            }
        }
        Some(packet)
    }
}
