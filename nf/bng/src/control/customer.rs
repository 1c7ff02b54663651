//! Customers: ARP, and packets from addresses that are not known.

use std::net::Ipv4Addr;

use weir_packet::Held;
use weir_wire::arp::{ArpFields, FRAME_LEN, Operation};
use weir_wire::{Ipv4, Ipv6, MacAddr, View};

use super::{Call, Customer, Exit, inside, is_six};
use crate::encap::TAGS;
use crate::registry::Heard;
use crate::table::{Address, BindingKey};

/// The least Ethernet frame without its check sequence and two tags. ARP frames are shorter, and not every device fills them up.
const LEAST_FRAME: usize = 60 - TAGS;

const _: () = assert!(FRAME_LEN <= LEAST_FRAME);

impl Call<'_, '_> {
    /// An ARP packet of a customer (RFC 826). What it says of its sender is believed only where the subscriber may have the
    /// address, and the frame comes from the same station.
    pub(super) fn customer_arp(&mut self, customer: Customer, packet: Held) {
        let Some(arp) = ArpFields::parse(inside(packet.packet())) else {
            return self.lose(customer.subscriber, packet, Exit::ArpMalformed);
        };
        if !arp.sender_mac.is_unicast() {
            return self.lose(customer.subscriber, packet, Exit::ArpMalformed);
        }
        if arp.sender_mac != customer.station {
            return self.lose(customer.subscriber, packet, Exit::ArpSpoofed);
        }
        if arp.sender.is_unspecified() {
            return self.probed(customer, &arp, packet);
        }
        if self.is_gateway(arp.sender) {
            self.defend(customer, arp.sender);
            return self.lose(customer.subscriber, packet, Exit::GatewayAddress);
        }
        if let Err(exit) = self.hear(customer, Address::V4(arp.sender)) {
            return self.lose(customer.subscriber, packet, exit);
        }
        let answers = arp.operation == Operation::Request && self.answers_for(customer, &arp);
        let exit = if answers { Exit::ArpAnswered } else { Exit::ArpLearned };
        if answers && !self.answer(customer, &arp) {
            return self.lose(customer.subscriber, packet, Exit::NoBuffer);
        }
        self.out.send(packet, exit);
    }

    /// A customer asks whether an address is free (RFC 5227): the gateway's are not; others may be anybody's to come.
    fn probed(&mut self, customer: Customer, arp: &ArpFields, packet: Held) {
        let is_own = self.is_gateway(arp.target);
        if is_own && arp.operation == Operation::Request && !self.answer(customer, arp) {
            return self.lose(customer.subscriber, packet, Exit::NoBuffer);
        }
        self.out.send(packet, if is_own { Exit::ArpAnswered } else { Exit::ArpProbed });
    }

    /// Tells a line on which another station uses an address of the gateway whose it is, once in ten seconds (RFC 5227 section
    /// 2.4 (c)).
    fn defend(&mut self, customer: Customer, address: Ipv4Addr) {
        let Some(port) = self.access_port(customer.tags) else { return };
        // What the gateway said itself may come back.
        if customer.station == port.mac || !self.control.defences.may(customer.tags, self.out.now()) {
            return;
        }
        let announcement = ArpFields {
            operation: Operation::Request,
            sender_mac: port.mac,
            sender: address,
            target_mac: MacAddr::ZERO,
            target: address,
        };
        self.arp_out(Customer { station: MacAddr::BROADCAST, ..customer }, &announcement, Exit::ArpAnnouncement);
    }

    /// Notes that a station of a subscriber uses an address.
    pub(super) fn hear(&mut self, customer: Customer, address: Address) -> Result<(), Exit> {
        let now = self.out.now();
        match self.control.registry.heard(now, customer.subscriber, address, customer.station) {
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
    /// are not on the same customer, as customers can not reach each other but through here.
    fn answers_for(&self, customer: Customer, arp: &ArpFields) -> bool {
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
        let scope = control.registry.subscriber(customer.subscriber).map_or(0, |one| one.scope(settings));
        let host = control.registry.host(BindingKey::new(scope, Address::V4(arp.target)));
        let is_same_line = arp.target == arp.sender || host.is_some_and(|host| host.subscriber == customer.subscriber);
        control.config.proxy_arp && in_network && !is_same_line
    }

    /// Answers an ARP request; false if there is no buffer.
    fn answer(&mut self, customer: Customer, request: &ArpFields) -> bool {
        let Some(port) = self.access_port(customer.tags) else { return false };
        let reply = ArpFields {
            operation: Operation::Reply,
            sender_mac: port.mac,
            sender: request.target,
            target_mac: request.sender_mac,
            target: request.sender,
        };
        self.arp_out(customer, &reply, Exit::ArpReply)
    }

    /// Asks who has an address: this station, or all on the line.
    pub(super) fn ask(&mut self, key: BindingKey, mac: Option<MacAddr>) {
        let registry = &self.control.registry;
        let Some(subscriber) = registry.host(key).and_then(|host| registry.subscriber(host.subscriber)) else { return };
        let station = mac.unwrap_or(MacAddr::BROADCAST);
        let customer = Customer { subscriber: subscriber.number, tags: subscriber.tags, station };
        let target = match key.address() {
            Address::V4(target) => target,
            Address::Host6(target) => return self.ask6(customer, target),
            Address::V6(_) => return,
        };
        let Some(port) = self.access_port(customer.tags) else { return };
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
        self.arp_out(customer, &question, reason);
    }

    /// Sends an ARP packet to a line. Without a buffer it is not sent: ARP repeats itself.
    fn arp_out(&mut self, to: Customer, arp: &ArpFields, reason: Exit) -> bool {
        let mut frame = [0; LEAST_FRAME];
        arp.write(to.station, &mut frame).is_some() && self.send_line(to, &frame, reason)
    }

    /// A packet from an address that the subscriber is not known to have, or from another station than before: it goes on if it may have it.
    pub(super) fn unknown_source(&mut self, customer: Customer, packet: Held) {
        let bytes = inside(packet.packet());
        let source = match is_six(bytes) {
            true => Ipv6::view(bytes).map(|ip| Address::Host6(ip.source_addr())),
            false => Ipv4::view(bytes).map(|ip| Address::V4(ip.source_addr())),
        };
        let may_learn = |source: &Address| self.control.config.learn.traffic || matches!(source, Address::Host6(_));
        let Some(source) = source.filter(may_learn).filter(|_| customer.station.is_unicast()) else {
            return self.lose(customer.subscriber, packet, Exit::SpoofedSource);
        };
        if let Err(exit) = self.hear(customer, source) {
            return self.lose(customer.subscriber, packet, exit);
        }
        self.control.registry.settle();
        if self.is_bound(customer, source) {
            self.send_up(packet);
        } else {
            self.lose(customer.subscriber, packet, Exit::NotYetKnown);
        }
    }

    /// Whether workers know that a subscriber has an address there: otherwise it would come back at once.
    fn is_bound(&self, customer: Customer, address: Address) -> bool {
        let registry = &self.control.registry;
        let Some(subscriber) = registry.subscriber(customer.subscriber) else { return false };
        let key = BindingKey::new(subscriber.scope(registry.settings()), address);
        if key.is_host6() {
            return self.station_of(key) == Some(customer.station);
        }
        let tables = registry.tables().shared();
        let binding = tables.find(key, tables.hash(key)).and_then(|place| tables.binding(place));
        binding.is_some_and(|binding| binding.subscriber() == customer.subscriber)
    }
}
