//! Redirects: there is a better first hop (RFC 4861 section 4.5).

use std::net::Ipv6Addr;

use super::{Ends, HEADERS, REDIRECT, TARGET_LINK_ADDRESS, valid};
use crate::martian6::{is_link_local, is_multicast};
use crate::{Ipv6, MacAddr, View};

const REDIRECTED_HEADER: u8 = 4;

/// Longest message with its IPv6 header: the redirected packet is cut so that it "does not exceed the minimum MTU required to support
/// IPv6".
const LONGEST: usize = 1280;

/// Whether an IPv6 packet is a valid redirect (RFC 4861 section 8.1): "IP Source Address is a link-local address", "The ICMP Destination
/// Address field in the redirect message does not contain a multicast address", and the target is link-local or the destination.
pub fn is_redirect(packet: &[u8]) -> bool {
    let Some((ip, fixed, _)) = valid(packet, REDIRECT, 40) else { return false };
    let address = |at: usize| fixed.get(at..)?.first_chunk::<16>().map(|bytes| u128::from_be_bytes(*bytes));
    let (Some(target), Some(destination)) = (address(8), address(24)) else { return false };
    let is_to = is_link_local(target) || target == destination;
    is_link_local(ip.source_addr().to_bits()) && !is_multicast(destination) && is_to
}

/// What a host is told that sent a packet by a longer way than it need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect<'a> {
    /// Ethernet and link-local address of the router that tells it.
    pub from: (MacAddr, Ipv6Addr),
    /// Ethernet and IPv6 address of the host.
    pub to: (MacAddr, Ipv6Addr),
    /// The link-local address of the better router, or the destination itself, if that is on the link.
    pub target: Ipv6Addr,
    /// Where the packet was to go.
    pub destination: Ipv6Addr,
    /// The Ethernet address of the target, if it is known.
    pub link: Option<MacAddr>,
    /// The packet, from its IPv6 header on.
    pub packet: &'a [u8],
}

impl Redirect<'_> {
    /// The frame.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut frame = vec![0; HEADERS];
        frame.extend([REDIRECT, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(self.target.octets());
        frame.extend(self.destination.octets());
        if let Some(mac) = self.link {
            frame.extend([TARGET_LINK_ADDRESS, 1]);
            frame.extend(mac.0);
        }
        // The option has a header of 8 bytes, and comes in whole units.
        let room = (HEADERS - Ipv6::LEN + LONGEST).saturating_sub(frame.len() + 8) & !7;
        let quote = self.packet.get(..room).unwrap_or(self.packet);
        let units = 1 + quote.len().div_ceil(8);
        frame.extend([REDIRECTED_HEADER, units as u8, 0, 0, 0, 0, 0, 0]);
        frame.extend(quote);
        frame.resize(frame.len() + quote.len().next_multiple_of(8) - quote.len(), 0);
        Ends { from: self.from, to: self.to }.write_around(&mut frame);
        frame
    }
}
