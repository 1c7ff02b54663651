//! What a function knows of frames that it has before its network layer: which packet is told of them, and where it goes.

use std::net::IpAddr;

use weir_net::VrfId;

use crate::InterfaceId;

/// A sampled frame, of which a function is asked.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The index of the port that it came in by.
    pub port: u16,
    /// The number of the interface.
    pub interface: InterfaceId,
    /// The number of the interface's VRF.
    pub vrf: VrfId,
    /// Where its network header begins.
    pub l3: usize,
    /// As many bytes as the frame had: the first ones are its own, the others 0.
    pub frame: &'a [u8],
}

/// What is told of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discerned {
    /// Where the IP packet begins that is told alone, without the tunnel around it; `None`: the frame is told.
    pub inside: Option<usize>,
    /// Where it goes.
    pub goes: Goes,
}

/// Where a sampled packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// Where the network layer leads it.
    On,
    /// Where routes of a VRF lead to an address, by the hash of its flow; its next hop is that address where it is the other end of a `tunnel`.
    Toward {
        /// The number of the VRF.
        vrf: VrfId,
        /// The address.
        address: IpAddr,
        /// The hash, which chooses among several next hops.
        hash: u32,
        /// Whether the packet goes in a tunnel to there.
        tunnel: bool,
    },
    /// To a [line](crate::Line), out of the port of this index, with tags of these VLANs, the outer one first.
    Out(u16, [u16; 2]),
    /// No further.
    Nowhere,
}

impl Discerned {
    /// A frame of which nothing more is known than the network layer knows.
    pub const NOTHING: Discerned = Discerned { inside: None, goes: Goes::On };
}

/// A function that has packets before its network layer.
pub trait Discern: Send + Sync {
    /// What is told of a frame. Nothing of the layer is locked meanwhile.
    fn discern(&self, seen: Seen<'_>) -> Discerned;
}
