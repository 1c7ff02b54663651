//! What a source says of a route: where it goes on.

use std::fmt;
use std::net::IpAddr;

use crate::family::Family;
use crate::interface::InterfaceId;
use crate::nexthop::Inlet;
use crate::vrf::{DEFAULT_VRF, VrfId};

/// One way on, as a source states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hop {
    /// The destination is on the link of this interface.
    On(InterfaceId),
    /// By this router, on whichever network it is that is connected in the route's VRF. Not for a link-local address.
    Via(IpAddr),
    /// By this router, on the link of this interface, whatever networks are connected there.
    ViaOn(IpAddr, InterfaceId),
    /// Into a function, which takes packets at any time.
    Into(Inlet),
    /// Nowhere; the only hop of its route.
    Discard(Discard),
}

/// How a packet is refused that a route leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Discard {
    /// Silently.
    Blackhole,
    /// Its sender is told that the destination cannot be reached.
    Unreachable,
    /// Its sender is told that the way is forbidden.
    Prohibit,
}

impl Discard {
    /// All of them.
    pub const ALL: [Discard; 3] = [Discard::Blackhole, Discard::Unreachable, Discard::Prohibit];

    /// The name in lower case, as commands and output use it.
    pub const fn name(self) -> &'static str {
        match self {
            Discard::Blackhole => "blackhole",
            Discard::Unreachable => "unreachable",
            Discard::Prohibit => "prohibit",
        }
    }
}

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hop::On(interface) => write!(f, "interface {interface}"),
            Hop::Via(gateway) => write!(f, "via {gateway}"),
            Hop::ViaOn(gateway, interface) => write!(f, "via {gateway} interface {interface}"),
            Hop::Into(inlet) => inlet.fmt(f),
            Hop::Discard(discard) => discard.fmt(f),
        }
    }
}

impl Hop {
    /// The router it goes by, if it goes by one.
    pub const fn gateway(self) -> Option<IpAddr> {
        match self {
            Hop::Via(gateway) | Hop::ViaOn(gateway, _) => Some(gateway),
            Hop::On(_) | Hop::Into(_) | Hop::Discard(_) => None,
        }
    }

    /// Whether it names a router of which nobody can know on which link it is.
    pub(super) fn lacks_port(self) -> bool {
        matches!(self, Hop::Via(IpAddr::V6(gateway)) if Family::is_link_local(gateway))
    }
}

/// A hop as seen from a VRF: only [`Hop::Via`] means something else in another one, so that all other hops are shared by all VRFs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Bound {
    pub(super) hop: Hop,
    pub(super) vrf: VrfId,
}

impl Bound {
    pub(super) const fn new(hop: Hop, vrf: VrfId) -> Bound {
        let vrf = if matches!(hop, Hop::Via(_)) { vrf } else { DEFAULT_VRF };
        Bound { hop, vrf }
    }
}
