//! Stage `NAME.decap`, the first for what comes by IP: takes frames out of tunnels and gives them to their ports. All else it leaves to the network
//! layer.

use std::sync::Arc;

use weir_ip::{Arrivals, Ingress};
use weir_packet::{Batch, LaneId, Packet, Slots};
use weir_stage::{Declaration, Out, Stage};
use weir_wire::checksum::Sum;
use weir_wire::udp::Udp;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, ipv4, ipv6, udp, validity, validity6};

use crate::inner;
use crate::tunnels::{Ends, HAS_VNI, HEADER, Stranger, Tunnels, number};

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

/// The IP packet around a datagram.
#[derive(Clone, Copy)]
struct Around<'p> {
    source: u128,
    destination: u128,
    /// Its type of service, or traffic class.
    class: u8,
    /// What is behind its headers, and where that begins.
    at: usize,
    payload: &'p [u8],
    is_fragment: bool,
    /// The sum of the pseudo header, but for the length of the datagram.
    pseudo: Sum,
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

/// A frame in a tunnel, and what the packet around it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'p> {
    /// Where the packet comes from; addresses of IPv4 as IPv6 has them (`::ffff:0:0/96`).
    pub source: u128,
    /// Where it goes to.
    pub destination: u128,
    /// Its type of service, or traffic class.
    pub class: u8,
    /// The segment.
    pub vni: u32,
    /// Where the frame begins, bytes from the start of the IP packet.
    pub at: usize,
    /// The frame: however short, and with whatever tags. What is behind the datagram is padding.
    pub frame: &'p [u8],
}

/// The frame in an IP packet of such an EtherType (RFC 7348 section 5), with whatever is behind it. `None`: it is no sound packet to one of the addresses that `is_own`
/// says, and to this UDP port.
///
/// # Errors
///
/// Why it is dropped, of which the address of the other end and the segment are no part.
#[inline]
pub fn carried(
    ethertype: u16,
    packet: &[u8],
    udp_port: u16,
    is_own: impl Fn(u128) -> bool,
) -> Result<Option<Carried<'_>>, Exit> {
    let around = match ethertype {
        ethernet::IPV4 => four(packet),
        ethernet::IPV6 => six(packet),
        _ => None,
    };
    let Some(around) = around.filter(|around| is_own(around.destination)) else { return Ok(None) };
    let Some(header) = Udp::view(around.payload) else { return Ok(None) };
    if header.destination.get() != udp_port {
        return Ok(None);
    }
    if around.is_fragment {
        return Err(Exit::Fragment);
    }
    let (frame, vni) = datagram(around, header)?;
    let Around { source, destination, class, at, .. } = around;
    Ok(Some(Carried { source, destination, class, vni, at: at + Udp::LEN + HEADER, frame }))
}

/// The frame in a datagram, and the number of its segment.
///
/// # Errors
///
/// Why it is dropped.
#[inline]
fn datagram<'p>(around: Around<'p>, header: &Udp) -> Result<(&'p [u8], u32), Exit> {
    let length = header.length.get();
    let datagram = around.payload.get(..usize::from(length)).ok_or(Exit::Length)?;
    let (front, frame) = datagram.split_first_chunk::<{ Udp::LEN + HEADER }>().ok_or(Exit::Length)?;
    // "When a packet is received with a UDP checksum of zero, it MUST be accepted" (RFC 7348 section 5; over IPv6, RFC 6935).
    if header.checksum.get() != 0 && around.pseudo.word(length).bytes(datagram).fold() != 0xffff {
        return Err(Exit::Checksum);
    }
    let [.., flags, _, _, _, a, b, c, _] = *front;
    if flags & HAS_VNI == 0 {
        return Err(Exit::NoVni);
    }
    Ok((frame, u32::from_be_bytes([0, a, b, c])))
}

/// An IPv4 packet that carries UDP, if it is a sound one. That of later fragments is data.
#[inline]
fn four(bytes: &[u8]) -> Option<Around<'_>> {
    validity::check_slice(bytes).ok()?;
    let ip = Ipv4::view(bytes)?;
    let at = ip.header_len();
    let payload = bytes.get(at..ip.total_len())?;
    let pseudo = udp::pseudo_header(ip, ipv4::UDP, 0);
    let [source, destination] = [ip.source_addr(), ip.destination_addr()].map(|address| number(address.into()));
    let is_ours = ip.protocol == ipv4::UDP && ip.fragment_offset() == 0;
    let (class, is_fragment) = (ip.tos, ip.is_fragment());
    is_ours.then_some(Around { source, destination, class, at, payload, is_fragment, pseudo })
}

/// The same of IPv6.
#[inline]
fn six(bytes: &[u8]) -> Option<Around<'_>> {
    validity6::check_slice(bytes).ok()?;
    let (ip, upper) = (Ipv6::view(bytes)?, ipv6::upper(bytes)?);
    let at = upper.at;
    let payload = bytes.get(at..Ipv6::LEN + usize::from(ip.payload_length.get()))?;
    let pseudo = Sum::new().bytes(&ip.source).bytes(&ip.destination).word(u16::from(ipv4::UDP));
    let is_ours = upper.protocol == ipv4::UDP && upper.whole && !upper.later;
    let [source, destination] = [ip.source_addr(), ip.destination_addr()].map(|address| number(address.into()));
    let (class, is_fragment) = (ip.traffic_class(), upper.fragment.is_some());
    is_ours.then_some(Around { source, destination, class, at, payload, is_fragment, pseudo })
}
