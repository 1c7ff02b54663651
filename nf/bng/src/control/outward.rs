//! Packets to customers that could not be sent: what they are, and what waits for their hosts.

use weir_ip::{PuntReason, Side};
use weir_packet::Held;
use weir_wire::gre::Gre;
use weir_wire::mpls::Label;
use weir_wire::{Ethernet, Ipv4, Ipv6, MacAddr, View, ethernet};

use super::{Call, Customer, Exit, is_six};
use crate::registry::Wanted;
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

impl Call<'_, '_> {
    /// A packet that came in from the core.
    pub(super) fn core_packet(&mut self, why: PuntReason, packet: Held) {
        match why {
            PuntReason::Fragment => self.outer_fragment(packet),
            PuntReason::Unresolved => self.wait_for_host(packet),
            PuntReason::TtlExpired | PuntReason::TooBig => self.refuse(why, packet),
            PuntReason::NoRoute | PuntReason::UnknownSource => self.out.send(packet, Exit::UnknownDestination),
            // For the gateway itself inside a tunnel, where nothing of it listens; the rest is the network layer's.
            _ => self.out.send(packet, Exit::NoProtocol),
        }
    }

    /// Holds a packet until its host is found.
    fn wait(&mut self, host: BindingKey, packet: Held, subscriber: u32) {
        if let Some(gone) = self.waiting.push(host, packet) {
            // Whoever waits for a host is its subscriber's; the one that goes waited for the same, or is the new one.
            self.lose(subscriber, gone, Exit::QueueFull);
        }
    }

    /// A packet to an address of a subscriber whose Ethernet address is not known.
    fn wait_for_host(&mut self, packet: Held) {
        let now = self.out.now();
        let Some((key, _)) = self.key_of(&packet) else { return self.out.send(packet, Exit::UnknownDestination) };
        let wanted = self.control.registry.wanted(now, key);
        match (wanted, self.subscriber_of(key)) {
            (Wanted::Known, Some(subscriber)) => {
                self.control.registry.settle();
                // Otherwise the packet would come back at once.
                if self.station_of(key).is_some() {
                    self.out.send(packet, Exit::Down);
                } else {
                    self.lose(subscriber, packet, Exit::NotYetKnown);
                }
            }
            (Wanted::Asked, Some(subscriber)) => self.wait(key, packet, subscriber),
            (Wanted::Failed, Some(subscriber)) => self.lose(subscriber, packet, Exit::HostUnresolved),
            _ => match self.control.registry.by_key(key.scope()).map(|one| one.number) {
                Some(subscriber) if key.scope() != 0 => self.lose(subscriber, packet, Exit::UnknownDestination),
                _ => self.out.send(packet, Exit::UnknownDestination),
            },
        }
    }

    /// Whose an address is, or the network that a host is in.
    fn subscriber_of(&self, key: BindingKey) -> Option<u32> {
        let registry = &self.control.registry;
        let host = registry.host(key).or_else(|| registry.host(key.network6()).filter(|_| key.is_host6()));
        host.map(|host| host.subscriber)
    }

    /// What the destination of a packet from the core is found by, and where the packet begins.
    fn key_of(&self, packet: &Held) -> Option<(BindingKey, usize)> {
        let frame = packet.packet().bytes();
        let Inner { scope, at, .. } = inner(frame, self.control.registry.settings().has_keys)?;
        let packet = frame.get(at..)?;
        let address = if is_six(packet) {
            Address::Host6(Ipv6::view(packet)?.destination_addr())
        } else {
            Address::V4(Ipv4::view(packet)?.destination_addr())
        };
        Some((BindingKey::new(scope, address), at))
    }

    /// Where workers send packets for an address.
    pub(super) fn station_of(&self, key: BindingKey) -> Option<MacAddr> {
        let tables = self.control.registry.tables().shared();
        let find = |key| tables.find(key, tables.hash(key)).and_then(|place| tables.binding(place));
        let network = if key.is_host6() { find(key.network6()) } else { find(key) };
        let binding = network.and_then(|network| if network.is_shared() { find(key) } else { Some(network) });
        let [a, b, c, d, e, f, ..] = binding.filter(|binding| binding.is_resolved())?.mac_word().to_le_bytes();
        Some(MacAddr([a, b, c, d, e, f]))
    }

    /// A packet to a customer that can not go on as it is: the network layer takes it apart if it may, or tells its source.
    fn refuse(&mut self, why: PuntReason, mut packet: Held) {
        let found = self.key_of(&packet).and_then(|(key, at)| {
            let subscriber = self.control.registry.subscriber(self.subscriber_of(key)?)?;
            let station = self.station_of(key).unwrap_or(MacAddr::ZERO);
            Some((Customer { subscriber: subscriber.number, tags: subscriber.tags, station }, at))
        });
        let Some((customer, at)) = found else { return self.out.send(packet, Exit::UnknownDestination) };
        let frame = packet.packet_mut();
        let ethertype =
            if is_six(frame.bytes().get(at..).unwrap_or_default()) { ethernet::IPV6 } else { ethernet::IPV4 };
        // The header that the packet is to have, whose EtherType is the last of what is cut off.
        if let Some(end) = frame.bytes_mut().get_mut(at.saturating_sub(2)..at) {
            end.copy_from_slice(&ethertype.to_be_bytes());
        }
        if let Some(link) = Ethernet::view_mut(frame.bytes_mut()) {
            (link.destination, link.source) = (customer.station, MacAddr::ZERO);
        }
        self.hand_on(why, customer.line(Side::To), at.saturating_sub(Ethernet::LEN), packet);
    }
}
