//! VXLAN (RFC 7348): Ethernet frames in UDP datagrams, each of a segment with a number of 24 bits (VNI).

use crate::checksum::Sum;
use crate::udp::Udp;
use crate::{Ipv4, Ipv6, View, ethernet, ipv4, ipv6, udp, validity, validity6};

/// Bytes of the VXLAN header (RFC 7348 section 5).
pub const HEADER: usize = 8;

/// The flag I, in the first byte: it says that there is a VNI.
pub const HAS_VNI: u8 = 0x08;

/// The UDP port that it has by IANA: "the value of 4789 ... SHOULD be used by default" (RFC 7348 section 5).
pub const PORT: u16 = 4789;

/// Why a datagram to the port of tunnels has no frame that may be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It is the first fragment of a packet, or the only one (RFC 7348 section 4.3: "the destination VTEP MAY silently discard such VXLAN fragments").
    Fragment,
    /// Its UDP length is beyond its IP packet, or too short for a VXLAN header.
    Length,
    /// It has a UDP checksum, and that is wrong.
    Checksum,
    /// Its VXLAN header does not say that there is a VNI.
    NoVni,
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
) -> Result<Option<Carried<'_>>, Refusal> {
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
        return Err(Refusal::Fragment);
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
fn datagram<'p>(around: Around<'p>, header: &Udp) -> Result<(&'p [u8], u32), Refusal> {
    let length = header.length.get();
    let datagram = around.payload.get(..usize::from(length)).ok_or(Refusal::Length)?;
    let (front, frame) = datagram.split_first_chunk::<{ Udp::LEN + HEADER }>().ok_or(Refusal::Length)?;
    // "When a packet is received with a UDP checksum of zero, it MUST be accepted" (RFC 7348 section 5; over IPv6, RFC 6935).
    if header.checksum.get() != 0 && around.pseudo.word(length).bytes(datagram).fold() != 0xffff {
        return Err(Refusal::Checksum);
    }
    let [.., flags, _, _, _, a, b, c, _] = *front;
    if flags & HAS_VNI == 0 {
        return Err(Refusal::NoVni);
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
    let [source, destination] =
        [ip.source_addr(), ip.destination_addr()].map(|address| address.to_ipv6_mapped().to_bits());
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
    let [source, destination] = [ip.source_addr(), ip.destination_addr()].map(|address| address.to_bits());
    let (class, is_fragment) = (ip.traffic_class(), upper.fragment.is_some());
    is_ours.then_some(Around { source, destination, class, at, payload, is_fragment, pseudo })
}
