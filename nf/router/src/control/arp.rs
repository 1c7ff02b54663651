//! ARP, as the neighbour table decides it.

use weir_ip::InterfaceId;
use weir_net::PortId;
use weir_net::neighbor::{Heard, Ignored, MessageKind};
use weir_packet::Held;
use weir_wire::arp::{ArpFields, FRAME_LEN, Operation};
use weir_wire::{MacAddr, martian};

use super::{Exit, HEADER, Turn};
use crate::routing::Decision;

/// The least Ethernet frame without its check sequence. ARP frames are shorter, and not every device fills them up.
const LEAST_FRAME: usize = 60;

const _: () = assert!(FRAME_LEN <= LEAST_FRAME);

impl Turn<'_, '_> {
    /// An ARP packet came in by an interface.
    pub(super) fn arp(&mut self, packet: Held, port: InterfaceId) {
        let Some(arp) = packet.packet().bytes().get(HEADER..).and_then(ArpFields::parse) else {
            return self.out.send(packet, Exit::ArpMalformed);
        };
        let mut events = Vec::new();
        let heard = self.control.four.neighbors.arp_received(self.out.now(), port, &arp, &mut events);
        let answered_for = matches!(heard, Heard::Ignored(Ignored::NotForUs) | Heard::Learned)
            .then(|| self.answer_by_proxy(port, &arp))
            .flatten();
        let exit = match heard {
            _ if answered_for.is_some() => Exit::ArpAnswered,
            Heard::Answered => Exit::ArpAnswered,
            Heard::Learned => Exit::ArpLearned,
            Heard::Conflict => Exit::ArpConflict,
            Heard::Ignored(Ignored::BadSender) => Exit::ArpMalformed,
            Heard::Ignored(_) => Exit::ArpIgnored,
        };
        events.extend(answered_for);
        self.control.absorb(events);
        self.out.send(packet, exit);
    }

    /// The answer to a request for an address that is reached by another port (RFC 1027), where that is wanted.
    fn answer_by_proxy(&self, port: PortId, arp: &ArpFields) -> Option<weir_net::neighbor::Event> {
        if arp.operation != Operation::Request || !self.control.is_proxy(port) {
            return None;
        }
        // A probe (RFC 5227) asks whether the address is free: to claim it would keep its owner from using it.
        if arp.sender.is_unspecified() || arp.sender == arp.target {
            return None;
        }
        // No station has such an address, though a default route covers it; what comes for it is not forwarded.
        let target = arp.target.to_bits();
        if martian::is_martian_source(target) || martian::is_link_local(target) {
            return None;
        }
        match self.control.routing.decide(self.control.vrf_of(port), arp.target.into(), || 0) {
            Decision::Via(next_hop) if next_hop.port != port => self.control.four.neighbors.answer_for(port, arp),
            _ => None,
        }
    }

    /// Sends an ARP packet. Without a buffer it is not sent: ARP repeats itself.
    pub(super) fn send_arp(&mut self, port: PortId, to: MacAddr, arp: &ArpFields, kind: MessageKind) {
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
        let held = Held::fresh(packet, 0, self.out.now());
        self.send_by(held, port, Some(reason));
    }
}
