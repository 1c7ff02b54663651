//! ARP, as the neighbour table decides it.

use weir_net::Family;
use weir_net::neighbor::{Heard, Ignored, MessageKind};
use weir_packet::Held;
use weir_wire::arp::{ArpFields, FRAME_LEN, Operation};
use weir_wire::{MacAddr, martian};

use super::parcel::{Origin, Parcel};
use super::{Call, Exit};
use crate::InterfaceId;
use crate::state::routing::Decision;

/// The least Ethernet frame without its check sequence. ARP frames are shorter, and not every device fills them up.
const LEAST_FRAME: usize = 60;

const _: () = assert!(FRAME_LEN <= LEAST_FRAME);

impl Call<'_, '_> {
    /// An ARP packet came in.
    pub(super) fn arp(&mut self, parcel: Parcel) {
        let Some(arp) = ArpFields::parse(parcel.ip()) else { return self.end(parcel, Exit::ArpMalformed) };
        let mut events = Vec::new();
        let now = self.out.now();
        let heard = self.control.four.neighbors.arp_received(now, parcel.origin.interface, &arp, &mut events);
        let answered_for = matches!(heard, Heard::Ignored(Ignored::NotForUs) | Heard::Learned)
            .then(|| self.answer_by_proxy(parcel.origin, &arp))
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
        self.end(parcel, exit);
    }

    /// The answer to a request for an address that is reached by another port (RFC 1027), where that is wanted.
    fn answer_by_proxy(&self, origin: Origin, arp: &ArpFields) -> Option<weir_net::neighbor::Event> {
        // A probe (RFC 5227) asks whether the address is free: to claim it would keep its owner from using it.
        if arp.operation != Operation::Request || arp.sender.is_unspecified() || arp.sender == arp.target {
            return None;
        }
        // No station has such an address, though a default route covers it; what comes for it is not forwarded.
        if martian::is_link_local(arp.target.to_bits()) || !self.is_behind(origin, arp.target) {
            return None;
        }
        self.control.four.neighbors.answer_for(origin.interface, arp)
    }

    /// Whether an address that is asked for on an interface is to be answered for: it is reached by another one.
    pub(super) fn is_behind<A: Family>(&self, origin: Origin, target: A) -> bool {
        let is_elsewhere = || match self.control.routing.decide(origin.vrf, target.into(), || 0) {
            Decision::Via(next_hop) => next_hop.interface != origin.interface,
            // The function has it, wherever it sends it on.
            Decision::Into(_) => true,
            _ => false,
        };
        self.control.is_proxy(origin.interface) && target.is_source() && is_elsewhere()
    }

    /// Sends an ARP packet. Without a buffer it is not sent: ARP repeats itself.
    pub(super) fn send_arp(&mut self, interface: InterfaceId, to: MacAddr, arp: &ArpFields, kind: MessageKind) {
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
        self.send_by(held, interface, Some(reason));
    }
}
