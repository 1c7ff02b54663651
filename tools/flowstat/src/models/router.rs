//! A router of IPv4 and IPv6.

use crate::hash::Hasher;
use crate::kept::Kept;
use crate::model::{Identity, Model};
use crate::packet::{Packet, Side};
use crate::routes::Routes;

/// Link headers, TTL, checksum and ECN change; the rest of the IP packet stays. Headers between link and IP (tags, labels) do not
/// count, so that devices that tag are known by this too.
#[derive(Clone, Debug, Default)]
pub struct Router {
    /// Bytes from the start of the IP packet that are looked at; `None`: all.
    pub bytes: Option<usize>,
    /// Which packets leave where something was captured; `None`: all.
    pub routes: Option<Routes>,
}

impl Model for Router {
    fn name(&self) -> &'static str {
        "router"
    }

    #[inline]
    fn identify(&self, packet: &Packet<'_>, side: Side, hasher: &Hasher) -> Identity {
        let layers = packet.layers();
        let Some(ip) = layers.outer() else { return Identity::Unidentified };
        if side == Side::Sent
            && let Some(routes) = &self.routes
            && !routes.leaves_captured(ip.destination_addr())
        {
            return Identity::Elsewhere;
        }
        match Kept::of(&ip, packet, self.bytes) {
            Some(kept) => Identity::Key(hasher.key(&kept.pieces())),
            None => Identity::Cut,
        }
    }

    fn unidentified(&self) -> &'static str {
        "are neither IPv4 nor IPv6, which this model does not know again"
    }
}
