//! What the relay tells collectors of sampled packets: the IPv4 packet, whichever side it came by, and where the binding table and routes lead it.
//!
//! | packet | what is told | where it goes |
//! |---|---|---|
//! | IPv4 for a softwire | the packet | the next hop is the customer's end of the tunnel, by the interface that routes lead there |
//! | IPv4 in a tunnel from a customer | the packet in the tunnel | as routes of the side of IPv4 say, or into another customer's tunnel |
//! | all else | the packet | as the network layer says |
//!
//! Of packets with shared addresses that are fragments behind the first the softwire is not known.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_ip::{Discern, Discerned, Goes, Seen};
use weir_wire::{Ipv4, Ipv6, View, ethernet, flow, ipv4, ipv6, validity, validity6};

use crate::border::{HOP_LIMIT, Port, Whose, port_of};
use crate::rules::Rules;
use crate::table::{Softwire, Softwires};

/// See the module.
pub(crate) struct Told {
    pub(crate) softwires: Arc<Softwires>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) layer: weir_ip::Running,
}

impl Discern for Told {
    fn discern(&self, seen: Seen<'_>) -> Discerned {
        let ethertype = seen.frame.get(seen.l3.saturating_sub(2)..).and_then(|behind| behind.first_chunk());
        let packet = seen.frame.get(seen.l3..).unwrap_or_default();
        match ethertype.map(|bytes| u16::from_be_bytes(*bytes)) {
            Some(ethernet::IPV4) => Discerned { inside: None, goes: self.internet(seen, packet) },
            Some(ethernet::IPV6) => self.customer(seen, packet).unwrap_or(Discerned::NOTHING),
            _ => Discerned::NOTHING,
        }
    }
}

impl Told {
    /// Where an IPv4 packet goes that came in by an interface.
    fn internet(&self, seen: Seen<'_>, packet: &[u8]) -> Goes {
        let rules = &self.rules;
        let Some(ip) = Ipv4::view(packet).filter(|_| validity::check_slice(packet).is_ok()) else { return Goes::On };
        let to = ip.destination_addr();
        let is_side = seen.vrf == rules.vrfs[0];
        let is_ours = is_side && self.softwires.sets_of(to).is_some();
        if !is_ours && !self.layer.leads_into_function(seen.vrf, to.into()) {
            return Goes::On;
        }
        if is_side && !rules.four.has(seen.interface) {
            return Goes::Nowhere;
        }
        self.wrapped(packet)
    }

    /// What is told of an IPv6 packet that came in by an interface; `None` if it is no customer's IPv4.
    fn customer(&self, seen: Seen<'_>, packet: &[u8]) -> Option<Discerned> {
        let rules = &self.rules;
        let is_side = seen.vrf == rules.vrfs[1] && rules.six.has(seen.interface);
        let ip = Ipv6::view(packet).filter(|_| validity6::check_slice(packet).is_ok())?;
        let upper = ipv6::upper(packet).filter(|upper| upper.whole && upper.fragment.is_none())?;
        if !is_side || !rules.is_aftr(ip.destination_addr()) || upper.protocol != ipv4::IPIP {
            return None;
        }
        let inner = packet.get(upper.at..Ipv6::LEN + usize::from(ip.payload_length.get()))?;
        let inside = Ipv4::view(inner).filter(|_| validity::check_slice(inner).is_ok())?;
        let to = inside.destination_addr();
        let goes = match rules.hairpinning && self.softwires.sets_of(to).is_some() {
            true => self.wrapped(inner),
            false => self.unwrapped(inner, to),
        };
        Some(Discerned { inside: Some(seen.l3 + upper.at), goes })
    }

    /// Where a packet for a softwire goes; what is for none of them goes nowhere.
    fn wrapped(&self, packet: &[u8]) -> Goes {
        let Some(ip) = Ipv4::view(packet) else { return Goes::Nowhere };
        let is_whole = self.softwires.sets_of(ip.destination_addr()).is_some_and(|sets| sets.portless().is_some());
        if !is_whole && ip.fragment_offset() > 0 {
            return Goes::On;
        }
        let port = match port_of(packet, Whose::Destination, &self.rules.echo) {
            _ if is_whole => None,
            Port::Is(port) => Some(port),
            Port::None => None,
            Port::Missing => return Goes::Nowhere,
        };
        let Some(softwire) = self.softwires.owner(ip.destination_addr(), port) else { return Goes::Nowhere };
        Goes::Toward {
            vrf: self.rules.vrfs[1],
            address: softwire.ends.b4.into(),
            hash: self.hash_in(softwire, ip.total_len()),
            tunnel: true,
        }
    }

    /// The hash of the flow of a softwire's tunnel, by its outer header alone.
    fn hash_in(&self, softwire: Softwire, total: usize) -> u32 {
        let mut window = [0; 64];
        let [a, b, c, d] = (6 << 28 | self.rules.flow_label).to_be_bytes();
        let [e, f] = (total as u16).to_be_bytes();
        let head = [a, b, c, d, e, f, ipv4::IPIP, HOP_LIMIT];
        let ends = [softwire.ends.aftr.octets(), softwire.ends.b4.octets()];
        window.iter_mut().zip(head.into_iter().chain(ends.into_iter().flatten())).for_each(|(to, from)| *to = from);
        flow::hash6(&window, Ipv6::LEN + total, 0)
    }

    /// Where a packet goes that came out of a tunnel: what is for softwires has been in their tunnels, and goes where all else does.
    fn unwrapped(&self, packet: &[u8], to: Ipv4Addr) -> Goes {
        let vrf = self.rules.vrfs[0];
        let beyond = self.layer.leads_into_function(vrf, to.into());
        let mut window = [0; 64];
        window.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
        let total = Ipv4::view(packet).map_or(0, Ipv4::total_len);
        Goes::Toward {
            vrf,
            address: IpAddr::V4(if beyond { Ipv4Addr::UNSPECIFIED } else { to }),
            hash: flow::hash(&window, total, 0),
            tunnel: false,
        }
    }
}
