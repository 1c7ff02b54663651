//! Customers: ARP, and packets from addresses that are not known.

use std::net::Ipv4Addr;

use weir_packet::Held;
use weir_wire::arp::{Arp, ArpFields, Operation};
use weir_wire::{Ipv4, MacAddr, View, ethernet};

use super::{Exit, Line, Turn, inside, inside_mut};
use crate::encap::TAGGED;
use crate::registry::Heard;
use crate::table::{Address, BindingKey, Tags};

/// The least Ethernet frame without its check sequence. ARP frames are shorter, and not every device fills them up.
const LEAST_FRAME: usize = 60;

const _: () = assert!(TAGGED + Arp::LEN <= LEAST_FRAME);

impl Turn<'_, '_> {
    /// An ARP packet of a customer (RFC 826). What it says of its sender is believed only where the subscriber may have the
    /// address, and the frame comes from the same station.
    pub(super) fn customer_arp(&mut self, line: Line, packet: Held) {
        let Some(arp) = ArpFields::parse(inside(packet.packet())) else {
            return self.lose(line.subscriber, packet, Exit::ArpMalformed);
        };
        if !arp.sender_mac.is_unicast() {
            return self.lose(line.subscriber, packet, Exit::ArpMalformed);
        }
        if arp.sender_mac != line.station {
            return self.lose(line.subscriber, packet, Exit::ArpSpoofed);
        }
        if arp.sender.is_unspecified() {
            return self.probed(line, &arp, packet);
        }
        if self.is_gateway(arp.sender) {
            self.defend(line, arp.sender);
            return self.lose(line.subscriber, packet, Exit::GatewayAddress);
        }
        if let Err(exit) = self.hear(line, Address::V4(arp.sender)) {
            return self.lose(line.subscriber, packet, exit);
        }
        let answers = arp.operation == Operation::Request && self.answers_for(line, &arp);
        let exit = if answers { Exit::ArpAnswered } else { Exit::ArpLearned };
        if answers && !self.answer(line, &arp) {
            return self.lose(line.subscriber, packet, Exit::NoBuffer);
        }
        self.out.send(packet, exit);
    }

    /// A customer asks whether an address is free (RFC 5227): the gateway's are not; others may be anybody's to come.
    fn probed(&mut self, line: Line, arp: &ArpFields, packet: Held) {
        let is_own = self.is_gateway(arp.target);
        if is_own && arp.operation == Operation::Request && !self.answer(line, arp) {
            return self.lose(line.subscriber, packet, Exit::NoBuffer);
        }
        self.out.send(packet, if is_own { Exit::ArpAnswered } else { Exit::ArpProbed });
    }

    /// Tells a line on which another station uses an address of the gateway whose it is, once in ten seconds (RFC 5227 section
    /// 2.4 (c)).
    fn defend(&mut self, line: Line, address: Ipv4Addr) {
        let Some((_, port)) = self.access_port(line.tags) else { return };
        // What the gateway said itself may come back.
        if line.station == port.mac || !self.control.defences.may(line.tags, self.out.now()) {
            return;
        }
        let announcement = ArpFields {
            operation: Operation::Request,
            sender_mac: port.mac,
            sender: address,
            target_mac: MacAddr::ZERO,
            target: address,
        };
        self.arp_out(line.tags, MacAddr::BROADCAST, &announcement, Exit::ArpAnnouncement);
    }

    /// Notes that a station of a subscriber uses an address.
    pub(super) fn hear(&mut self, line: Line, address: Address) -> Result<(), Exit> {
        let now = self.out.now();
        match self.control.registry.heard(now, line.subscriber, address, line.station) {
            Heard::Learned | Heard::Known | Heard::Moved => Ok(()),
            Heard::MovesTooOften => Err(Exit::MovesTooOften),
            Heard::NotAllowed => Err(Exit::SpoofedSource),
            Heard::Taken => Err(Exit::SourceTaken),
            Heard::WrongMac => Err(Exit::WrongMac),
            Heard::TooMany => Err(Exit::TooManyAddresses),
            Heard::Full => Err(Exit::TableFull),
        }
    }

    fn is_gateway(&self, address: Ipv4Addr) -> bool {
        self.control.addresses.iter().any(|own| own.addr() == address)
    }

    /// Whether a request for an address is answered: for the gateway's own, and by proxy (RFC 1027) for others in its networks that
    /// are not on the same line, as customers can not reach each other but through here.
    fn answers_for(&self, line: Line, arp: &ArpFields) -> bool {
        if self.is_gateway(arp.target) {
            return true;
        }
        let control = &*self.control;
        let in_network = control.addresses.iter().any(|own| {
            let is_edge = own.prefix_len() < 31 && (arp.target == own.network() || arp.target == own.broadcast());
            own.contains(&arp.target) && !is_edge
        });
        // A gratuitous one asks for nobody else, and neighbours on the line answer for themselves.
        let settings = control.registry.settings();
        let scope = control.registry.subscriber(line.subscriber).map_or(0, |one| one.scope(settings));
        let host = control.registry.host(BindingKey::new(scope, Address::V4(arp.target)));
        let is_same_line = arp.target == arp.sender || host.is_some_and(|host| host.subscriber == line.subscriber);
        control.config.proxy_arp && in_network && !is_same_line
    }

    /// Answers an ARP request; false if there is no buffer.
    fn answer(&mut self, line: Line, request: &ArpFields) -> bool {
        let Some((_, port)) = self.access_port(line.tags) else { return false };
        let reply = ArpFields {
            operation: Operation::Reply,
            sender_mac: port.mac,
            sender: request.target,
            target_mac: request.sender_mac,
            target: request.sender,
        };
        self.arp_out(line.tags, line.station, &reply, Exit::ArpReply)
    }

    /// Asks who has an address: this station, or all on the line.
    pub(super) fn ask(&mut self, key: BindingKey, mac: Option<MacAddr>) {
        let registry = &self.control.registry;
        let subscriber = registry.host(key).and_then(|host| registry.subscriber(host.subscriber));
        let Some(tags) = subscriber.map(|subscriber| subscriber.tags) else { return };
        let target = match key.address() {
            Address::V4(target) => target,
            Address::Host6(target) => return self.ask6(tags, target, mac),
            Address::V6(_) => return,
        };
        let Some((_, port)) = self.access_port(tags) else { return };
        let own = &self.control.addresses;
        // Without an address of its own the gateway asks as a host does that has none yet (RFC 5227).
        let around = own.iter().find(|own| own.contains(&target)).or(own.first());
        let question = ArpFields {
            operation: Operation::Request,
            sender_mac: port.mac,
            sender: around.map_or(Ipv4Addr::UNSPECIFIED, |own| own.addr()),
            target_mac: MacAddr::ZERO,
            target,
        };
        let reason = if mac.is_some() { Exit::ArpRevalidation } else { Exit::ArpRequest };
        self.arp_out(tags, mac.unwrap_or(MacAddr::BROADCAST), &question, reason);
    }

    /// Sends an ARP packet to a line. Without a buffer it is not sent: ARP repeats itself.
    fn arp_out(&mut self, tags: Tags, to: MacAddr, arp: &ArpFields, reason: Exit) -> bool {
        let Some(mut packet) = self.fresh(LEAST_FRAME) else { return false };
        let tagged = self.tag(&mut packet, tags, arp.sender_mac, to, ethernet::ARP);
        match Arp::view_mut(inside_mut(&mut packet)) {
            Some(message) if tagged.is_some() => *message = arp.to_wire(),
            _ => {
                self.out.unalloc(packet);
                return false;
            }
        }
        self.emit(packet, tags.port, reason);
        true
    }

    /// A packet from an address that the subscriber is not known to have: it goes on if it may have it.
    pub(super) fn unknown_source(&mut self, line: Line, packet: Held) {
        let source = Ipv4::view(inside(packet.packet())).map(Ipv4::source_addr);
        let Some(source) = source.filter(|_| line.station.is_unicast()) else {
            return self.lose(line.subscriber, packet, Exit::SpoofedSource);
        };
        if !self.control.config.learn.traffic {
            return self.lose(line.subscriber, packet, Exit::SpoofedSource);
        }
        if let Err(exit) = self.hear(line, Address::V4(source)) {
            return self.lose(line.subscriber, packet, exit);
        }
        self.control.registry.settle();
        if self.is_bound(line, source) {
            self.out.send(packet, Exit::Up);
        } else {
            self.lose(line.subscriber, packet, Exit::NotYetKnown);
        }
    }

    /// Whether workers know that a subscriber has an address: otherwise it would come back at once.
    fn is_bound(&self, line: Line, address: Ipv4Addr) -> bool {
        let registry = &self.control.registry;
        let tables = registry.tables().shared();
        let Some(subscriber) = registry.subscriber(line.subscriber) else { return false };
        let key = BindingKey::new(subscriber.scope(registry.settings()), Address::V4(address));
        let binding = tables.find(key, tables.hash(key)).and_then(|place| tables.binding(place));
        binding.is_some_and(|binding| binding.subscriber() == line.subscriber)
    }
}
