//! Neighbour discovery on Ethernet (RFC 4861): who has an IPv6 address, which routers there are, and who should be asked instead.
//!
//! [`Message`] is what neighbours tell each other of addresses; what it says is the same whether it was received or is to be sent.

mod redirect;
mod router;
#[cfg(test)]
mod tests;

use std::net::Ipv6Addr;

use crate::checksum::Sum;
use crate::ipv6::ICMPV6;
use crate::{Ethernet, Ipv6, MacAddr, U16, U32, View, ethernet};

pub use redirect::{Redirect, is_redirect};
pub use router::{
    Dns, PrefixInformation, RouterAdvertisement, RouterSolicitation, Search, is_router_advertisement,
    parse_router_solicitation,
};

/// Bytes of the frames of messages with one option: Ethernet, IPv6, the message, and an Ethernet address or a nonce.
pub const FRAME_LEN: usize = Ethernet::LEN + Ipv6::LEN + MESSAGE + OPTION;

/// All hosts and routers of a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of a link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

const MESSAGE: usize = 24;
/// Options come in units of so many bytes.
const OPTION: usize = 8;

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
const NONCE: u8 = 14;

/// A router does not pass these on, so that one with another hop limit is forged (RFC 4861 section 7.1).
const HOP_LIMIT: u8 = 255;

/// Bytes by which a station knows its own solicitations again (RFC 7527).
pub type Nonce = [u8; 6];

/// What an advertisement says of itself (RFC 4861 section 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Its sender is a router.
    pub router: bool,
    /// It was asked for.
    pub solicited: bool,
    /// It replaces what was known.
    pub over: bool,
}

impl Flags {
    const fn of(bits: u8) -> Flags {
        Flags { router: bits & 0x80 != 0, solicited: bits & 0x40 != 0, over: bits & 0x20 != 0 }
    }

    const fn bits(self) -> u8 {
        (self.router as u8) << 7 | (self.solicited as u8) << 6 | (self.over as u8) << 5
    }
}

/// What is said about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Its Ethernet address is asked for.
    Solicitation {
        /// Whose.
        target: Ipv6Addr,
        /// That of who asks, if he says so.
        link: Option<MacAddr>,
        /// By which he knows the question again, if it comes back.
        nonce: Option<Nonce>,
    },
    /// Its Ethernet address is told.
    Advertisement {
        /// Whose.
        target: Ipv6Addr,
        /// That address, if the message says so; else that of the frame.
        link: Option<MacAddr>,
        /// What it is worth.
        flags: Flags,
    },
}

/// A neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says it; unspecified: somebody who has no address yet (RFC 4862 section 5.4).
    pub source: Ipv6Addr,
    /// To whom: a station, or a group.
    pub destination: Ipv6Addr,
    /// What.
    pub body: Body,
}

/// Whom a solicitation for an address is sent to: the solicited-node multicast address (RFC 4291 section 2.7.1).
pub const fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | target.to_bits() & 0xff_ffff)
}

/// The Ethernet address of an IPv6 multicast group (RFC 2464 section 7).
pub const fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// The link-local address that a station with this Ethernet address gives itself (RFC 4291 appendix A, RFC 2464 section 5).
pub const fn link_local(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let identifier = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Addr::from_bits(0xfe80 << 112 | identifier as u128)
}

impl Message {
    /// The question of a station with the address `own` for the Ethernet address of `target`, put to all who may have it.
    pub const fn solicitation(own: Ipv6Addr, mac: MacAddr, target: Ipv6Addr) -> Message {
        let body = Body::Solicitation { target, link: Some(mac), nonce: None };
        Message { source: own, destination: solicited_node(target), body }
    }

    /// The answer to a question of `asker`: `target` has the address `mac`. Who has no address hears it with all others, and then it is
    /// not called solicited (RFC 4861 section 7.2.4).
    pub const fn advertisement(target: Ipv6Addr, mac: MacAddr, asker: Ipv6Addr, router: bool) -> Message {
        let solicited = !asker.is_unspecified();
        let destination = if solicited { asker } else { ALL_NODES };
        let flags = Flags { router, solicited, over: true };
        Message { source: target, destination, body: Body::Advertisement { target, link: Some(mac), flags } }
    }

    /// Writes the frame from `from` to `to`; its length, or `None` where `frame` is too short.
    pub fn write(&self, frame: &mut [u8], from: MacAddr, to: MacAddr) -> Option<usize> {
        let (kind, bits, target, options) = match self.body {
            Body::Solicitation { target, link, nonce } => {
                let link = link.map(|mac| (SOURCE_LINK_ADDRESS, mac.0));
                (SOLICITATION, 0, target, [link, nonce.map(|nonce| (NONCE, nonce))])
            }
            Body::Advertisement { target, link, flags } => {
                let link = link.map(|mac| (TARGET_LINK_ADDRESS, mac.0));
                (ADVERTISEMENT, flags.bits(), target, [link, None])
            }
        };
        let options = options.into_iter().flatten();
        let total = Ethernet::LEN + Ipv6::LEN + MESSAGE + OPTION * options.clone().count();
        let (fixed, rest) = frame.get_mut(HEADERS..total)?.split_at_mut_checked(MESSAGE)?;
        put(fixed, [&[kind, 0, 0, 0, bits, 0, 0, 0][..], &target.octets()]);
        for (place, (kind, bytes)) in rest.chunks_exact_mut(OPTION).zip(options) {
            put(place, [&[kind, 1][..], &bytes]);
        }
        let ends = Ends { from: (from, self.source), to: (to, self.destination) };
        ends.write_around(frame.get_mut(..total)?).then_some(total)
    }

    /// The Ethernet address that the message goes to, if it goes to a group.
    pub fn group(&self) -> Option<MacAddr> {
        self.destination.is_multicast().then(|| group_mac(self.destination))
    }
}

/// Writes the question of `mac`, which has the address `own`, for the Ethernet address of `target`; its length, or `None` where
/// `frame` is too short.
pub fn write_solicitation(frame: &mut [u8], mac: MacAddr, own: Ipv6Addr, target: Ipv6Addr) -> Option<usize> {
    let message = Message::solicitation(own, mac, target);
    message.write(frame, mac, group_mac(message.destination))
}

/// Bytes before a message.
const HEADERS: usize = Ethernet::LEN + Ipv6::LEN;

/// Ethernet and IPv6 addresses of who says something and to whom.
#[derive(Clone, Copy)]
struct Ends {
    from: (MacAddr, Ipv6Addr),
    to: (MacAddr, Ipv6Addr),
}

impl Ends {
    /// Writes the headers and the checksum around the message that fills `frame` from byte [`HEADERS`] on, its checksum still 0.
    fn write_around(self, frame: &mut [u8]) -> bool {
        self.try_write(frame).is_some()
    }

    fn try_write(self, frame: &mut [u8]) -> Option<()> {
        let (header, packet) = Ethernet::split_mut(frame)?;
        *header = Ethernet::new(self.to.0, self.from.0, ethernet::IPV6);
        let (ip, message) = Ipv6::split_mut(packet)?;
        *ip = Ipv6 {
            version_class_flow: U32::new(6 << 28),
            payload_length: U16::new(u16::try_from(message.len()).ok()?),
            next_header: ICMPV6,
            hop_limit: HOP_LIMIT,
            source: self.from.1.octets(),
            destination: self.to.1.octets(),
        };
        let sum = pseudo(ip, message.len()).bytes(message).checksum().to_be_bytes();
        message.get_mut(2..4)?.copy_from_slice(&sum);
        Some(())
    }
}

/// Writes pieces one behind the other.
fn put<'p>(to: &mut [u8], pieces: impl IntoIterator<Item = &'p [u8]>) {
    to.iter_mut().zip(pieces.into_iter().flatten()).for_each(|(to, from)| *to = *from);
}

fn pseudo(ip: &Ipv6, len: usize) -> Sum {
    Sum::new().bytes(&ip.source).bytes(&ip.destination).word(len as u16).word(u16::from(ICMPV6))
}

/// A message whose headers are what they must be (RFC 4861 sections 6.1 and 7.1): its IPv6 header, what has a fixed place, and the
/// options, of which each has a length.
fn valid(packet: &[u8], kind: u8, fixed: usize) -> Option<(&Ipv6, &[u8], &[u8])> {
    let (ip, rest) = Ipv6::split(packet)?;
    let message = rest.get(..usize::from(ip.payload_length.get()))?;
    let is_nd = ip.version() == 6 && ip.next_header == ICMPV6 && ip.hop_limit == HOP_LIMIT;
    if !is_nd || !matches!(message, [found, 0, ..] if *found == kind) {
        return None;
    }
    let (fixed, options) = message.split_at_checked(fixed)?;
    let is_whole = Options(options).all(|option| option.is_some());
    (is_whole && pseudo(ip, message.len()).bytes(message).fold() == 0xffff).then_some((ip, fixed, options))
}

/// The options of a message, each with its kind and length; `None` for one whose length is zero or beyond the message, which ends them:
/// "Nodes MUST silently discard an ND packet that contains an option with length zero" (RFC 4861 section 4.6).
struct Options<'p>(&'p [u8]);

impl<'p> Iterator for Options<'p> {
    type Item = Option<&'p [u8]>;

    fn next(&mut self) -> Option<Option<&'p [u8]>> {
        let rest = std::mem::take(&mut self.0);
        if rest.is_empty() {
            return None;
        }
        let length = rest.get(1).map_or(0, |units| usize::from(*units) * OPTION);
        let split = rest.split_at_checked(length).filter(|_| length > 0);
        Some(split.map(|(option, rest)| {
            self.0 = rest;
            option
        }))
    }
}

/// The six bytes of the first option of a kind that has as many.
fn option(options: &[u8], wanted: u8) -> Option<[u8; 6]> {
    let mut found = Options(options).flatten().filter(|option| option.first() == Some(&wanted));
    found.find(|option| option.len() == OPTION)?.last_chunk().copied()
}

fn link(options: &[u8], wanted: u8) -> Option<MacAddr> {
    option(options, wanted).map(MacAddr)
}

fn target(fixed: &[u8]) -> Option<Ipv6Addr> {
    let target = fixed.get(8..)?.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes))?;
    (!target.is_multicast()).then_some(target)
}

/// The solicitation or advertisement that an IPv6 packet is; `None` for any other, and for one that is not valid (RFC 4861 sections 7.1.1
/// and 7.1.2).
pub fn parse(packet: &[u8]) -> Option<Message> {
    parse_solicitation(packet).or_else(|| parse_advertisement(packet))
}

fn parse_solicitation(packet: &[u8]) -> Option<Message> {
    let (ip, fixed, options) = valid(packet, SOLICITATION, MESSAGE)?;
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    let (target, link) = (target(fixed)?, link(options, SOURCE_LINK_ADDRESS));
    // "If the IP source address is the unspecified address, the IP destination address is a solicited-node multicast address", and "there
    // is no source link-layer address option in the message".
    let is_node = destination == solicited_node(destination);
    if source.is_multicast() || source.is_unspecified() && (!is_node || link.is_some()) {
        return None;
    }
    let body = Body::Solicitation { target, link, nonce: option(options, NONCE) };
    Some(Message { source, destination, body })
}

fn parse_advertisement(packet: &[u8]) -> Option<Message> {
    let (ip, fixed, options) = valid(packet, ADVERTISEMENT, MESSAGE)?;
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    let flags = Flags::of(*fixed.get(4)?);
    let target = target(fixed)?;
    // "If the IP Destination Address is a multicast address the Solicited flag is zero."
    if source.is_multicast() || source.is_unspecified() || destination.is_multicast() && flags.solicited {
        return None;
    }
    let body = Body::Advertisement { target, link: link(options, TARGET_LINK_ADDRESS), flags };
    Some(Message { source, destination, body })
}
