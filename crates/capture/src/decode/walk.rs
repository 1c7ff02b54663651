//! The way through a packet, header by header.

use weir_wire::mpls::Label;
use weir_wire::pppoe::{self, Pppoe};
use weir_wire::vlan::{self, Vlan};
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet, gre::Gre, ipv4, ipv6};

use super::{End, Layers, ip};
use crate::link::LinkType;

/// What comes next.
enum Next {
    Ethernet,
    /// By an EtherType.
    Type(u16),
    /// IP, whose version is in its first four bits; `None` if any is right.
    Ip(Option<u8>),
    Protocol(u8),
    Stop(End),
}

/// A walk that is under way.
struct Walk<'w, 'a> {
    layers: &'w mut Layers<'a>,
    /// Where the packet at hand ends: padding does not belong to it.
    limit: usize,
}

/// Fills `layers`, which know nothing yet but the packet.
#[inline]
pub(super) fn walk(layers: &mut Layers<'_>, link: LinkType) {
    let mut walk = Walk { limit: layers.data.len(), layers };
    let mut next = if link == LinkType::ETHERNET { Next::Ethernet } else { walk.other_link(link) };
    loop {
        next = match next {
            Next::Ethernet => walk.ethernet(),
            Next::Type(ethertype) => walk.ethertype(ethertype),
            Next::Ip(version) => walk.ip(version),
            Next::Protocol(protocol) => walk.protocol(protocol),
            Next::Stop(end) => {
                walk.layers.end = end;
                return;
            }
        };
    }
}

impl<'a> Walk<'_, 'a> {
    /// What is left of the packet at hand.
    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.layers.data.get(self.layers.at..self.limit).unwrap_or_default()
    }

    /// The header that comes next, if it is whole.
    #[inline]
    fn view<V: View>(&self) -> Option<&'a V> {
        V::view(self.rest())
    }

    #[cold]
    fn other_link(&mut self, link: LinkType) -> Next {
        let (skip, kind) = match link {
            // Some systems wrote their own number of "raw" into files.
            LinkType::RAW | LinkType(12 | 14) => (0, None),
            LinkType::IPV4 => (0, Some(4)),
            LinkType::IPV6 => (0, Some(6)),
            LinkType::NULL | LinkType::LOOP => return self.family(link),
            LinkType::LINUX_SLL => return self.cooked(16, 14),
            LinkType::LINUX_SLL2 => return self.cooked(20, 0),
            _ => return Next::Stop(End::Unknown),
        };
        self.layers.at = skip;
        Next::Ip(kind)
    }

    /// A header of `len` bytes with an EtherType at `at`.
    fn cooked(&mut self, len: usize, at: usize) -> Next {
        let Some(header) = self.rest().get(..len) else { return Next::Stop(End::Short) };
        let Some([a, b]) = header.get(at..).and_then(<[u8]>::first_chunk) else { return Next::Stop(End::Short) };
        self.layers.at += len;
        Next::Type(u16::from_be_bytes([*a, *b]))
    }

    /// An address family of four bytes; of [`LinkType::NULL`] in the byte order of who captured, which nobody knows.
    fn family(&mut self, link: LinkType) -> Next {
        /// AF_INET everywhere, and AF_INET6 of NetBSD and OpenBSD, FreeBSD, macOS and Linux.
        const FOUR: u32 = 2;
        const SIX: [u32; 4] = [24, 28, 30, 10];
        let Some(bytes) = self.rest().first_chunk::<4>() else { return Next::Stop(End::Short) };
        let big = u32::from_be_bytes(*bytes);
        let family = if link == LinkType::LOOP || big < 1 << 16 { big } else { big.swap_bytes() };
        self.layers.at += bytes.len();
        match family {
            FOUR => Next::Ip(Some(4)),
            family if SIX.contains(&family) => Next::Ip(Some(6)),
            _ => Next::Stop(End::Unknown),
        }
    }

    #[inline]
    fn ethernet(&mut self) -> Next {
        let Some(header) = self.view::<Ethernet>() else { return Next::Stop(End::Short) };
        if !self.layers.ethernets.push(self.layers.at) {
            return Next::Stop(End::Deep);
        }
        self.layers.at += Ethernet::LEN;
        Next::Type(header.ethertype.get())
    }

    #[inline]
    fn ethertype(&mut self, ethertype: u16) -> Next {
        match ethertype {
            ethernet::IPV4 => Next::Ip(Some(4)),
            ethernet::IPV6 => Next::Ip(Some(6)),
            other if vlan::is_tag(other) => self.tag(),
            ethernet::MPLS | ethernet::MPLS_MULTICAST => self.labels(),
            ethernet::PPPOE_SESSION => self.pppoe(),
            weir_wire::gre::ETHERNET => Next::Ethernet,
            _ => Next::Stop(End::Unknown),
        }
    }

    fn tag(&mut self) -> Next {
        let Some(tag) = self.view::<Vlan>() else { return Next::Stop(End::Short) };
        if !self.layers.tags.push(self.layers.at) {
            return Next::Stop(End::Deep);
        }
        self.layers.at += Vlan::LEN;
        Next::Type(tag.ethertype.get())
    }

    /// A whole stack of labels. It does not say what lies below; IP says so itself.
    fn labels(&mut self) -> Next {
        loop {
            let Some(label) = self.view::<Label>() else { return Next::Stop(End::Short) };
            if !self.layers.labels.push(self.layers.at) {
                return Next::Stop(End::Deep);
            }
            self.layers.at += Label::LEN;
            if label.is_bottom() {
                break;
            }
        }
        match self.rest().first().map(|byte| byte >> 4) {
            Some(4 | 6) => Next::Ip(None),
            Some(_) => Next::Stop(End::Unknown),
            None => Next::Stop(End::Short),
        }
    }

    fn pppoe(&mut self) -> Next {
        let Some(header) = self.view::<Pppoe>() else { return Next::Stop(End::Short) };
        let Ok(at) = u16::try_from(self.layers.at) else { return Next::Stop(End::Deep) };
        if self.layers.pppoe.is_some() {
            return Next::Stop(End::Deep);
        }
        self.layers.pppoe = Some(at);
        self.layers.at += Pppoe::LEN;
        match header.protocol.get() {
            pppoe::PPP_IPV4 => Next::Ip(Some(4)),
            pppoe::PPP_IPV6 => Next::Ip(Some(6)),
            _ => Next::Stop(End::Unknown),
        }
    }

    #[inline]
    fn ip(&mut self, version: Option<u8>) -> Next {
        let Some(first) = self.rest().first() else { return Next::Stop(End::Short) };
        let header = match (first >> 4, version) {
            (4, None | Some(4)) => self.ipv4(),
            // What is announced as IPv4 may be either, as by protocol 4 or in a tunnel.
            (6, _) => self.ipv6(),
            (_, None) => Err(End::Unknown),
            _ => Err(End::Malformed),
        };
        let (header, later) = match header {
            Ok(found) => found,
            Err(end) => return Next::Stop(end),
        };
        let Some(slot) = self.layers.ips.get_mut(usize::from(self.layers.ip_count)) else {
            return Next::Stop(End::Deep);
        };
        *slot = header;
        self.layers.ip_count += 1;
        self.limit = header.end as usize;
        self.layers.at = self.limit.min(usize::from(header.payload));
        if self.limit < usize::from(header.payload) {
            // Its options are cut.
            return Next::Stop(End::Short);
        }
        if later { Next::Stop(End::Fragment) } else { Next::Protocol(header.protocol) }
    }

    /// An IPv4 header, and whether it is of a later fragment.
    #[inline]
    fn ipv4(&self) -> Result<(ip::Header, bool), End> {
        let rest = self.rest();
        let ip = Ipv4::view(rest).ok_or(End::Short)?;
        let header = ip.header_len();
        // Packets that a card is to cut into segments have no length yet.
        let total = if ip.total_len() == 0 { rest.len() } else { ip.total_len() };
        if header < Ipv4::LEN || total < header {
            return Err(End::Malformed);
        }
        Ok((self.header(4, ip.protocol, header, total, 0)?, ip.fragment_offset() > 0))
    }

    /// An IPv6 header, and whether it is of a later fragment.
    fn ipv6(&self) -> Result<(ip::Header, bool), End> {
        let rest = self.rest();
        let ip = Ipv6::view(rest).ok_or(End::Short)?;
        // As above; and jumbograms (RFC 2675) have their length elsewhere.
        let total = match usize::from(ip.payload_length.get()) {
            0 => rest.len(),
            payload => Ipv6::LEN + payload,
        };
        let upper = ipv6::upper(rest.get(..total).unwrap_or(rest)).ok_or(End::Short)?;
        let header = self.header(6, upper.protocol, upper.at, total, upper.fragment.unwrap_or(0))?;
        Ok((header, upper.later))
    }

    /// A header at hand, of a packet that has `total` bytes, whose payload begins after `payload` bytes.
    #[inline]
    fn header(
        &self,
        version: u8,
        protocol: u8,
        payload: usize,
        total: usize,
        fragment: usize,
    ) -> Result<ip::Header, End> {
        let at = self.layers.at;
        let narrow = |offset: usize| u16::try_from(offset).map_err(|_| End::Deep);
        Ok(ip::Header {
            at: narrow(at)?,
            payload: narrow(at + payload)?,
            end: u32::try_from(self.limit.min(at + total)).map_err(|_| End::Deep)?,
            fragment: narrow(fragment)?,
            version,
            protocol,
        })
    }

    #[inline]
    fn protocol(&mut self, protocol: u8) -> Next {
        match protocol {
            ipv4::TCP | ipv4::UDP | ipv4::ICMP | ipv6::ICMPV6 | ipv4::SCTP | ipv4::DCCP | ipv4::UDP_LITE => {
                let Ok(at) = u16::try_from(self.layers.at) else { return Next::Stop(End::Deep) };
                self.layers.transport = Some((protocol, at));
                Next::Stop(End::Transport)
            }
            ipv4::IPIP => Next::Ip(Some(4)),
            ipv4::IPV6 => Next::Ip(Some(6)),
            ipv4::GRE => self.gre(),
            // An extension header that was not passed: it is cut, or one too many.
            other if ipv6::is_extension(other) && self.layers.inner().is_some_and(|ip| ip.version() == 6) => {
                Next::Stop(End::Short)
            }
            _ => Next::Stop(End::Unknown),
        }
    }

    fn gre(&mut self) -> Next {
        let rest = self.rest();
        let Some(header) = Gre::parse(rest) else {
            // With 16 bytes any header that could be read is whole.
            return Next::Stop(if rest.len() < 16 { End::Short } else { End::Unknown });
        };
        if !self.layers.gres.push(self.layers.at) {
            return Next::Stop(End::Deep);
        }
        self.layers.at += header.len;
        Next::Type(header.protocol)
    }
}
