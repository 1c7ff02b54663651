//! What lies where in a packet, from the link to the ports of what it carries at last.
//!
//! [`Layers::of`] goes through the headers once, remembers where they begin, and copies nothing. The depth is bounded
//! ([`TAGS`], [`LABELS`], [`IPS`], ...), and no bytes can make it panic: a packet that is cut, contradicts itself or is deeper
//! than that is decoded as far as it goes, and [`Layers::end`] says why no further.

mod ip;
mod walk;

use weir_wire::mpls::Label;
use weir_wire::pppoe::Pppoe;
use weir_wire::vlan::Vlan;
use weir_wire::{Ethernet, View};
use weir_wire::{gre::Gre, icmp::Icmp, tcp::Tcp, udp::Udp};

use crate::link::LinkType;

pub use ip::{FiveTuple, Ip};

/// Ethernet headers of a packet at most: the link's, and those of frames that tunnels carry.
pub const ETHERNETS: usize = 3;
/// VLAN tags of a packet at most.
pub const TAGS: usize = 6;
/// MPLS labels of a packet at most.
pub const LABELS: usize = 8;
/// IP headers of a packet at most.
pub const IPS: usize = 4;
/// GRE headers of a packet at most: one for each IP header but the last.
pub const GRES: usize = IPS - 1;

/// Why decoding went no further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// There is no need: it came to TCP, UDP, ICMP or another protocol that ends the way.
    Transport,
    /// What follows is a later fragment, whose transport header is in another packet.
    Fragment,
    /// What follows is of a kind that is not looked into: ARP, LLC, OSPF, ESP, a version that is not known, ...
    #[default]
    Unknown,
    /// The packet, or what was captured of it, ends within a header.
    Short,
    /// A header contradicts itself: its length is shorter than itself, or its version another than its EtherType's.
    Malformed,
    /// There are more headers of one kind than are remembered.
    Deep,
}

/// Some offsets, bounded in number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offsets<const N: usize> {
    len: u8,
    at: [u16; N],
}

impl<const N: usize> Default for Offsets<N> {
    fn default() -> Self {
        Offsets { len: 0, at: [0; N] }
    }
}

impl<const N: usize> Offsets<N> {
    /// Adds one; false if there is no room.
    #[inline]
    fn push(&mut self, at: usize) -> bool {
        let (Some(slot), Ok(at)) = (self.at.get_mut(usize::from(self.len)), u16::try_from(at)) else { return false };
        *slot = at;
        self.len += 1;
        true
    }

    #[inline]
    fn all(&self) -> &[u16] {
        self.at.get(..usize::from(self.len)).unwrap_or_default()
    }

    #[inline]
    fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + use<'_, N> {
        self.all().iter().map(|at| usize::from(*at))
    }
}

/// The headers of a packet. All offsets count from the first captured byte.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    data: &'a [u8],
    ethernets: Offsets<ETHERNETS>,
    tags: Offsets<TAGS>,
    labels: Offsets<LABELS>,
    gres: Offsets<GRES>,
    pppoe: Option<u16>,
    ips: [ip::Header; IPS],
    ip_count: u8,
    transport: Option<(u8, u16)>,
    /// Where the last header ends.
    at: usize,
    end: End,
}

impl<'a> Layers<'a> {
    /// Decodes a packet, of which `data` was captured on a link.
    #[inline]
    pub fn of(data: &'a [u8], link: LinkType) -> Layers<'a> {
        let mut layers = Layers {
            data,
            ethernets: Offsets::default(),
            tags: Offsets::default(),
            labels: Offsets::default(),
            gres: Offsets::default(),
            pppoe: None,
            ips: [ip::Header::default(); IPS],
            ip_count: 0,
            transport: None,
            at: 0,
            end: End::Unknown,
        };
        walk::walk(&mut layers, link);
        layers
    }

    /// What was captured.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Why decoding went no further.
    #[inline]
    pub fn end(&self) -> End {
        self.end
    }

    /// Where decoding came to: of a packet that was decoded to its transport header ([`End::Transport`]) the start of that, else
    /// the first byte behind the last whole header.
    #[inline]
    pub fn rest_at(&self) -> usize {
        self.at
    }

    /// Where Ethernet headers begin, the outermost first.
    #[inline]
    pub fn ethernets_at(&self) -> impl DoubleEndedIterator<Item = usize> + use<'_, 'a> {
        self.ethernets.iter()
    }

    /// The outermost Ethernet header.
    #[inline]
    pub fn ethernet(&self) -> Option<&'a Ethernet> {
        self.view(self.ethernets.iter().next()?)
    }

    /// Where the control information of VLAN tags begins, the outermost first. A tag's own EtherType lies two bytes before; that of
    /// the first tag behind [`LinkType::LINUX_SLL2`] at the start of the packet.
    #[inline]
    pub fn tags_at(&self) -> impl DoubleEndedIterator<Item = usize> + use<'_, 'a> {
        self.tags.iter()
    }

    /// VLAN tags of any EtherType, the outermost first.
    #[inline]
    pub fn tags(&self) -> impl DoubleEndedIterator<Item = &'a Vlan> + use<'_, 'a> {
        self.tags.iter().filter_map(|at| self.view(at))
    }

    /// Where MPLS label stack entries begin, the outermost first.
    #[inline]
    pub fn labels_at(&self) -> impl DoubleEndedIterator<Item = usize> + use<'_, 'a> {
        self.labels.iter()
    }

    /// MPLS label stack entries, the outermost first.
    #[inline]
    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &'a Label> + use<'_, 'a> {
        self.labels.iter().filter_map(|at| self.view(at))
    }

    /// Where the PPPoE header begins.
    #[inline]
    pub fn pppoe_at(&self) -> Option<usize> {
        self.pppoe.map(usize::from)
    }

    /// The PPPoE header of a packet of a session.
    #[inline]
    pub fn pppoe(&self) -> Option<&'a Pppoe> {
        self.view(self.pppoe_at()?)
    }

    /// Where GRE headers begin, the outermost first.
    #[inline]
    pub fn gres_at(&self) -> impl DoubleEndedIterator<Item = usize> + use<'_, 'a> {
        self.gres.iter()
    }

    /// GRE headers, the outermost first.
    #[inline]
    pub fn gres(&self) -> impl DoubleEndedIterator<Item = Gre> + use<'_, 'a> {
        self.gres.iter().filter_map(|at| Gre::parse(self.data.get(at..)?))
    }

    /// IP headers, the outermost first.
    #[inline]
    pub fn ips(&self) -> impl DoubleEndedIterator<Item = Ip<'a>> + use<'_, 'a> {
        let headers = self.ips.get(..usize::from(self.ip_count)).unwrap_or_default();
        headers.iter().map(|header| header.of(self.data))
    }

    /// The outermost IP header.
    #[inline]
    pub fn outer(&self) -> Option<Ip<'a>> {
        self.ips().next()
    }

    /// The innermost IP header: the outermost of a packet that is in no tunnel.
    #[inline]
    pub fn inner(&self) -> Option<Ip<'a>> {
        self.ips().next_back()
    }

    /// The protocol of the transport header, and where it begins. There is one if any of its bytes were captured, or none but the
    /// packet was decoded to its place; a later fragment has none.
    #[inline]
    pub fn transport(&self) -> Option<(u8, usize)> {
        self.transport.map(|(protocol, at)| (protocol, usize::from(at)))
    }

    /// Source and destination port, of protocols that have some, if they were captured.
    #[inline]
    pub fn ports(&self) -> Option<(u16, u16)> {
        let (protocol, at) = self.transport()?;
        if !ip::has_ports(protocol) {
            return None;
        }
        let [s0, s1, d0, d1] = *self.payload_from(at)?.first_chunk::<4>()?;
        Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
    }

    /// The UDP header, if it was captured whole.
    #[inline]
    pub fn udp(&self) -> Option<&'a Udp> {
        self.transport_view(weir_wire::ipv4::UDP)
    }

    /// The fixed part of the TCP header, if it was captured whole and does not say that it is shorter than that.
    #[inline]
    pub fn tcp(&self) -> Option<&'a Tcp> {
        self.transport_view::<Tcp>(weir_wire::ipv4::TCP).filter(|tcp| tcp.header_len() >= Tcp::LEN)
    }

    /// The header of an ICMP or ICMPv6 message, if it was captured whole.
    #[inline]
    pub fn icmp(&self) -> Option<&'a Icmp> {
        self.transport_view(weir_wire::ipv4::ICMP).or_else(|| self.transport_view(weir_wire::ipv6::ICMPV6))
    }

    /// Addresses and protocol of the innermost IP header, and ports where there are some: `None` without IP.
    #[inline]
    pub fn five_tuple(&self) -> Option<FiveTuple> {
        let ip = self.inner()?;
        let (source, destination) = (ip.source_addr(), ip.destination_addr());
        Some(FiveTuple { source, destination, protocol: ip.protocol(), ports: self.ports() })
    }

    #[inline]
    fn transport_view<V: View>(&self, protocol: u8) -> Option<&'a V> {
        let (_, at) = self.transport().filter(|(is, _)| *is == protocol)?;
        V::view(self.payload_from(at)?)
    }

    /// What the innermost IP packet carries, from an offset on: not what pads its frame.
    #[inline]
    fn payload_from(&self, at: usize) -> Option<&'a [u8]> {
        self.data.get(at..self.inner()?.end())
    }

    #[inline]
    fn view<V: View>(&self, at: usize) -> Option<&'a V> {
        V::view(self.data.get(at..)?)
    }
}
