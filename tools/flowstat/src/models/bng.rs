//! A broadband network gateway: QinQ on the side of its subscribers, GRE in MPLS on that of the core.

use crate::hash::Hasher;
use crate::kept::Kept;
use crate::model::{Identity, Model};
use crate::packet::{Packet, Side};
use crate::routes::Routes;
use crate::subscribers::Subscribers;

use weir_capture::decode::{Ip, Layers};

/// A packet of a subscriber has two VLAN tags on one side and a GRE key on the other; a table says which belong together. Either
/// direction, or both, may be captured. What is known again is the subscriber's IP packet, but for what changes from hop to hop: a packet
/// that comes out for another subscriber is not the one that was sent.
#[derive(Clone, Debug, Default)]
pub struct Bng {
    /// Bytes from the start of the subscriber's IP packet that are looked at; `None`: all.
    pub bytes: Option<usize>,
    /// The subscribers.
    pub subscribers: Subscribers,
    /// Which packets to the core leave where something was captured; `None`: all.
    pub routes: Option<Routes>,
}

/// On which side of the gateway a packet was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Subscribers,
    Core,
}

impl Bng {
    /// Where a packet was captured, whose it is, and the IP packet.
    fn find<'a>(&self, layers: &Layers<'a>) -> Option<(Where, u32, Ip<'a>)> {
        let mut tags = layers.tags();
        if let (Some(outer), Some(inner)) = (tags.next(), tags.next()) {
            return Some((Where::Subscribers, self.subscribers.of_vlans(outer.id(), inner.id())?, layers.outer()?));
        }
        let (at, gre) = layers.gres_at().zip(layers.gres()).next()?;
        let ip = layers.ips().find(|ip| ip.at() > at)?;
        Some((Where::Core, self.subscribers.of_key(gre.key?)?, ip))
    }
}

impl Model for Bng {
    fn name(&self) -> &'static str {
        "bng"
    }

    fn identify(&self, packet: &Packet<'_>, side: Side, hasher: &Hasher) -> Identity {
        let Some((from, subscriber, ip)) = self.find(packet.layers()) else { return Identity::Unidentified };
        if (side, from) == (Side::Sent, Where::Subscribers)
            && let Some(routes) = &self.routes
            && !routes.leaves_captured(ip.destination_addr())
        {
            return Identity::Elsewhere;
        }
        match Kept::of(&ip, packet, self.bytes) {
            Some(kept) => {
                let [header, rest] = kept.pieces();
                Identity::Key(hasher.key(&[header, rest, &subscriber.to_be_bytes()]))
            }
            None => Identity::Cut,
        }
    }

    fn subscriber(&self, packet: &Packet<'_>, name: &mut Vec<u8>) {
        if let Some((_, subscriber, _)) = self.find(packet.layers()) {
            name.extend_from_slice(self.subscribers.name(subscriber).as_bytes());
        }
    }

    fn unidentified(&self) -> &'static str {
        "have neither two VLAN tags nor a GRE key of a subscriber in the table, or no IP packet"
    }
}
