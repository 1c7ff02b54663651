//! The tunnels as workers look them up: by what a packet says that came, and by the port of a frame that is to leave. They stay as they were made.

use std::net::IpAddr;

use weir_ip::Behind;
use weir_wire::udp::Udp;
use weir_wire::vxlan::{HAS_VNI, HEADER};
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ipv4};

use crate::config::TunnelConfig;

/// Bytes in front of a frame in a tunnel over IPv4, and over IPv6; with the Ethernet header.
pub(crate) const FRONT4: usize = Ethernet::LEN + Ipv4::LEN + Udp::LEN + HEADER;
pub(crate) const FRONT6: usize = Ethernet::LEN + Ipv6::LEN + Udp::LEN + HEADER;

/// An address of either family as one number.
pub(crate) const fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// What a packet that came says of its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub(crate) vni: u32,
    /// The own end, and the other one.
    pub(crate) source: u128,
    pub(crate) remote: u128,
}

/// A tunnel as frames enter it.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    /// Whether frames may have tags.
    pub(crate) is_tagged: bool,
    pub(crate) front: Front,
}

/// What stands in front of frames: all but lengths, the source port, and what follows from them.
#[derive(Clone, Debug)]
pub(crate) enum Front {
    Four {
        remote: u32,
        bytes: [u8; FRONT4],
        /// The sum of the IPv4 header, without its length.
        sum: u32,
    },
    Six {
        remote: u128,
        bytes: [u8; FRONT6],
    },
}

/// Why a packet is of no tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// No tunnel has the VNI.
    Vni,
    /// Some have it, but not with these ends.
    Peer,
}

/// See the module.
pub(crate) struct Tunnels {
    /// In their order, each with the position of the tunnel.
    by_ends: Vec<(Ends, u8)>,
    /// Own ends, in their order.
    sources: Vec<u128>,
    /// By position: the order of their ports in the configuration.
    all: Vec<Tunnel>,
    /// The position of a port's tunnel, by index of the port.
    by_port: Vec<Option<u8>>,
    pub(crate) udp_port: u16,
}

impl Tunnels {
    /// Those that are said to be, at this UDP port, with the indices of their ports in the same order.
    pub(crate) fn new<'t>(
        all: impl Iterator<Item = &'t TunnelConfig> + Clone,
        udp_port: u16,
        ports: &[u16],
    ) -> Tunnels {
        let said = || (0_u8..).zip(all.clone());
        let ends = |one: &TunnelConfig| Ends { vni: one.vni, source: number(one.source), remote: number(one.remote) };
        let mut by_ends: Vec<(Ends, u8)> = said().map(|(position, one)| (ends(one), position)).collect();
        by_ends.sort_unstable();
        let mut sources: Vec<u128> = by_ends.iter().map(|(ends, _)| ends.source).collect();
        sources.sort_unstable();
        sources.dedup();
        let mut by_port = vec![None; ports.iter().max().map_or(0, |most| usize::from(*most) + 1)];
        for (position, port) in (0..).zip(ports) {
            if let Some(place) = by_port.get_mut(usize::from(*port)) {
                *place = Some(position);
            }
        }
        let all = said().map(|(_, one)| Tunnel::new(one, udp_port)).collect();
        Tunnels { by_ends, sources, all, by_port, udp_port }
    }

    /// Whether an address is the own end of any tunnel.
    #[inline]
    pub(crate) fn is_own(&self, address: u128) -> bool {
        self.sources.binary_search(&address).is_ok()
    }

    /// The tunnel that a packet came by, and its position.
    ///
    /// # Errors
    ///
    /// Why it came by none.
    #[inline]
    pub(crate) fn find(&self, ends: Ends) -> Result<(u8, &Tunnel), Stranger> {
        let at = self.by_ends.partition_point(|(one, _)| *one < ends);
        let found = self.by_ends.get(at).filter(|(one, _)| *one == ends);
        if let Some((_, position)) = found
            && let Some(tunnel) = self.all.get(usize::from(*position))
        {
            return Ok((*position, tunnel));
        }
        let first = self.by_ends.partition_point(|(one, _)| one.vni < ends.vni);
        let is_known = self.by_ends.get(first).is_some_and(|(one, _)| one.vni == ends.vni);
        Err(if is_known { Stranger::Peer } else { Stranger::Vni })
    }

    /// The tunnel of the port of this index.
    #[inline]
    pub(crate) fn of_port(&self, port: u16) -> Option<&Tunnel> {
        let position = (*self.by_port.get(usize::from(port))?)?;
        self.all.get(usize::from(position))
    }
}

impl Tunnel {
    fn new(said: &TunnelConfig, udp_port: u16) -> Tunnel {
        Tunnel { is_tagged: said.tagged, front: Front::new(said, udp_port) }
    }
}

impl Front {
    fn new(said: &TunnelConfig, udp_port: u16) -> Front {
        let mut behind = Vec::with_capacity(Udp::LEN + HEADER);
        behind.extend([0, 0]);
        behind.extend(udp_port.to_be_bytes());
        behind.extend([0; 4]);
        behind.extend([HAS_VNI, 0, 0, 0]);
        // 24 bits of VNI, and 8 that are reserved.
        behind.extend((said.vni << 8).to_be_bytes());
        let class = said.dscp << 2;
        let link = [0; Ethernet::LEN];
        match (said.source, said.remote) {
            (IpAddr::V6(source), IpAddr::V6(remote)) => {
                let [class_high, class_low] = [class >> 4, class << 4];
                let start = [0x60 | class_high, class_low, 0, 0, 0, 0, ipv4::UDP, said.ttl];
                let all = [&link[..], &start, &source.octets(), &remote.octets(), &behind].concat();
                Front::Six { remote: remote.to_bits(), bytes: array(&all) }
            }
            (source, remote) => {
                // The configuration was found to have one family at both ends.
                let [source, remote] = [source, remote].map(|end| number(end) as u32);
                let start = [0x45, class, 0, 0, 0, 0, 0x40, 0, said.ttl, ipv4::UDP, 0, 0];
                let header = [&start[..], &source.to_be_bytes(), &remote.to_be_bytes()].concat();
                let (words, _) = header.as_chunks::<2>();
                let sum = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
                Front::Four { remote, bytes: array(&[&link[..], &header, &behind].concat()), sum }
            }
        }
    }

    /// Its length.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        match self {
            Front::Four { .. } => FRONT4,
            Front::Six { .. } => FRONT6,
        }
    }

    /// What is behind the Ethernet header.
    #[inline]
    pub(crate) const fn behind(&self) -> Behind {
        match self {
            Front::Four { .. } => Behind::IPV4,
            Front::Six { .. } => Behind::IPV6,
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnels(said: &[(u32, &str, &str)]) -> Tunnels {
        let tunnel = |&(vni, source, remote): &(u32, &str, &str)| TunnelConfig {
            vni,
            source: source.parse().unwrap(),
            remote: remote.parse().unwrap(),
            ttl: 9,
            dscp: 46,
            tagged: false,
        };
        let all: Vec<TunnelConfig> = said.iter().map(tunnel).collect();
        Tunnels::new(all.iter(), 4789, &[5, 3, 4])
    }

    #[test]
    fn a_tunnel_is_found_by_its_segment_and_both_ends() {
        let said = [(7, "192.0.2.1", "192.0.2.9"), (7, "192.0.2.1", "192.0.2.8"), (9, "2001:db8::1", "2001:db8::9")];
        let all = tunnels(&said);
        let ends = |vni, source: &str, remote: &str| Ends {
            vni,
            source: number(source.parse().unwrap()),
            remote: number(remote.parse().unwrap()),
        };
        let find = |ends| all.find(ends).map(|(position, _)| position);
        for (position, (vni, source, remote)) in (0..).zip(said) {
            assert_eq!(find(ends(vni, source, remote)), Ok(position));
        }
        let has = |port, front: usize| all.of_port(port).is_some_and(|tunnel| tunnel.front.len() == front);
        assert!(has(5, FRONT4) && has(3, FRONT4) && has(4, FRONT6));
        assert!([0, 2, 6].iter().all(|port| all.of_port(*port).is_none()));
        assert_eq!(find(ends(7, "192.0.2.1", "192.0.2.7")), Err(Stranger::Peer));
        assert_eq!(find(ends(7, "192.0.2.9", "192.0.2.1")), Err(Stranger::Peer));
        assert_eq!(find(ends(8, "192.0.2.1", "192.0.2.9")), Err(Stranger::Vni));
        assert_eq!(find(ends(10, "2001:db8::1", "2001:db8::9")), Err(Stranger::Vni));
        assert!(all.is_own(number("192.0.2.1".parse().unwrap())));
        assert!(!all.is_own(number("192.0.2.9".parse().unwrap())));
    }
}
