//! Stage `NAME.decap`, the first for what comes by IP: takes frames out of tunnels and gives them to their ports. All else it leaves to the network
//! layer.

use std::sync::Arc;

use weir_ip::{Arrivals, Ingress};
use weir_packet::{Batch, LaneId, Packet, Slots};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::vxlan::{Carried, Refusal, carried};
use weir_wire::{Ethernet, View};

use crate::inner;
use crate::tunnels::{Ends, Stranger, Tunnels};

weir_stage::ways! {
    /// Ways out of the stage `decap`.
    pub enum Exit {
        /// In none of the tunnels: it is routed.
        Out => way "out",

        /// A fragment of a packet in a tunnel, which are not put together (RFC 7348 section 4.3).
        Fragment => drop "vxlan-fragment",
        /// Its UDP length is beyond its IP packet, or too short for a VXLAN header.
        Length => drop "vxlan-length",
        /// It has a UDP checksum, and that is wrong.
        Checksum => drop "vxlan-checksum",
        /// Its VXLAN header does not say that there is a VNI (flag I).
        NoVni => drop "vxlan-no-vni",
        /// No tunnel has its VNI.
        UnknownVni => drop "vxlan-unknown-vni",
        /// Tunnels have its VNI, but none from its source to its destination.
        UnknownPeer => drop "vxlan-unknown-peer",
        /// What is in it is too short for a frame.
        InnerTooShort => drop "vxlan-inner-too-short",
        /// What is in it has a VLAN tag, and the tunnel is not `tagged` (RFC 7348 section 6.1).
        InnerTagged => drop "vxlan-inner-tagged",
        /// Met congestion in the tunnel, and the ends of its flow do not know of such marks (RFC 6040 section 4.2).
        Congestion => drop "vxlan-congestion",
        /// There are more headers in front of the frame than a buffer may begin with.
        TooDeep => drop "vxlan-too-deep",
    }
}

impl From<Refusal> for Exit {
    fn from(why: Refusal) -> Exit {
        match why {
            Refusal::Fragment => Exit::Fragment,
            Refusal::Length => Exit::Length,
            Refusal::Checksum => Exit::Checksum,
            Refusal::NoVni => Exit::NoVni,
        }
    }
}

/// See the module.
pub(crate) struct Decap {
    pub(crate) tunnels: Arc<Tunnels>,
    pub(crate) ingress: Arc<Ingress>,
    pub(crate) arrivals: Arrivals,
    /// How many tunnels there are.
    pub(crate) count: usize,
}

/// What [`Decap`] declares.
pub(crate) fn declaration(tunnels: usize) -> Declaration {
    Declaration::of::<Exit>().indexed("port", tunnels).reads(&[LaneId::Port]).writes(&[LaneId::L3])
}

impl Stage for Decap {
    fn declare(&self) -> Declaration {
        declaration(self.count)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        self.arrivals.count(batch);
        for slot in Slots(batch.live()) {
            let port = batch.lanes.port[slot];
            let Some(packet) = batch.get_mut(slot) else { continue };
            match self.take_out(packet, port) {
                Ok(Some(tunnel)) => out.answer_indexed(slot, tunnel),
                Ok(None) => {}
                Err(exit) => out.answer(slot, exit),
            }
        }
    }
}

/// Where a frame is in a packet.
struct Found {
    tunnel: u8,
    /// Where the frame begins, and its length.
    at: usize,
    length: usize,
    class: u8,
}

impl Decap {
    /// Takes the frame out of a packet that came in by the port of this index; answers the position of its tunnel, or `None` if it is in none.
    ///
    /// # Errors
    ///
    /// Why it is dropped.
    #[inline]
    fn take_out(&self, packet: &mut Packet, port: u16) -> Result<Option<u8>, Exit> {
        let Some(Found { tunnel, at, length, class }) = self.look(packet, port)? else { return Ok(None) };
        if !packet.trim_front(at) || !packet.set_len(length) {
            return Err(Exit::TooDeep);
        }
        if inner::mark(packet, class) { Ok(Some(tunnel)) } else { Err(Exit::Congestion) }
    }

    #[inline]
    fn look(&self, packet: &Packet, port: u16) -> Result<Option<Found>, Exit> {
        let entered = self.ingress.enter(port, packet.window(0));
        let l3 = usize::from(entered.l3);
        let bytes = packet.bytes().get(l3..).unwrap_or_default();
        let ethertype = u16::from_be_bytes(*packet.window(l3.saturating_sub(2)));
        let Tunnels { udp_port, .. } = *self.tunnels;
        let is_own = |address| entered.is_ours && self.tunnels.is_own(address);
        let Some(Carried { source, destination, class, vni, at, frame }) = carried(ethertype, bytes, udp_port, is_own)?
        else {
            return Ok(None);
        };
        let ends = Ends { vni, source: destination, remote: source };
        let (position, tunnel) = self.tunnels.find(ends).map_err(|stranger| match stranger {
            Stranger::Vni => Exit::UnknownVni,
            Stranger::Peer => Exit::UnknownPeer,
        })?;
        if frame.len() < Ethernet::LEN {
            return Err(Exit::InnerTooShort);
        }
        if !tunnel.is_tagged && inner::is_tagged(frame) {
            return Err(Exit::InnerTagged);
        }
        Ok(Some(Found { tunnel: position, at: l3 + at, length: frame.len(), class }))
    }
}
