//! Which frames belong together, for whoever spreads them over workers: a number that is the same for all of them.
//!
//! What is asked for may not be there: a frame without tags, a tunnel without a key, a fragment of what was in a tunnel. Such frames are told
//! apart by their addresses, which all of them have, and those without addresses not at all.

use crate::ethernet::{self, Ethernet};
use crate::flow::{self, address, address6};
use crate::gre::Gre;
use crate::mpls::Label;
use crate::pppoe::{PPP_IPV4, PPP_IPV6, Pppoe};
use crate::vlan::{Vlan, is_tag};
use crate::{Ipv4, Ipv6, View, ipv4, ipv6};

/// Bytes of a frame that are looked at.
pub const WINDOW: usize = 128;

/// Tags that are looked past, and read.
const TAGS: usize = 2;

/// Labels that are looked past.
const LABELS: usize = 8;

/// Where the outermost packet begins at the latest is before this.
const WITHIN: usize = 64;
const _: () = assert!(Ethernet::LEN + TAGS * Vlan::LEN + LABELS * Label::LEN < WITHIN);

/// What frames that belong together have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Addresses, protocol and ports, in IPv6 the flow label, too ([`flow`]).
    Flow,
    /// Both addresses, whichever is the source: so both directions of a conversation belong together, and all fragments.
    Addresses,
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// The identifiers of up to two VLAN tags.
    Tags,
    /// The key of a GRE tunnel.
    GreKey,
    /// The flow in the outermost tunnel (GRE, or IP in IP), or that of a packet without one.
    Inner,
}

/// A frame's number by `key`; `None` of one that is told apart by nothing: neither IPv4 nor IPv6, behind up to two tags, labels of MPLS
/// or a session of PPPoE. Of the `len` bytes of the frame the first [`WINDOW`] are looked at. `seed` is as in [`flow::hash`].
#[inline(always)]
pub fn hash(key: Key, frame: &[u8; WINDOW], len: usize, seed: u64) -> Option<u32> {
    match key {
        Key::Flow => Layer::of(frame, len)?.flow(seed),
        Key::Addresses => Layer::of(frame, len)?.addresses(seed),
        Key::Source => Some(flow::one(Layer::of(frame, len)?.address(Which::Source)?, seed)),
        Key::Destination => Some(flow::one(Layer::of(frame, len)?.address(Which::Destination)?, seed)),
        Key::Tags => match tags(frame, len) {
            Some(tags) => Some(flow::one(tags.into(), seed)),
            None => Layer::of(frame, len)?.addresses(seed),
        },
        Key::GreKey => {
            let outer = Layer::of(frame, len)?;
            match outer.gre().and_then(|(gre, _)| gre.key) {
                Some(key) => Some(flow::one(key.into(), seed)),
                None => outer.addresses(seed),
            }
        }
        Key::Inner => {
            let outer = Layer::of(frame, len)?;
            match outer.inner() {
                Inside::Nothing => outer.flow(seed),
                Inside::Packet(inner) => inner.inner_flow(seed).or_else(|| outer.addresses(seed)),
                Inside::Hidden => outer.addresses(seed),
            }
        }
    }
}

/// The identifiers of up to two tags, the outer one above; `None` without any.
fn tags(frame: &[u8; WINDOW], len: usize) -> Option<u32> {
    let (mut found, mut at) = (None, Ethernet::LEN);
    for _ in 0..TAGS {
        if len < at + Vlan::LEN || !is_tag(type_before(frame, at)?) {
            break;
        }
        let id = u32::from(Vlan::view(frame.get(at..)?)?.id());
        // The identifier 0 is a tag as well: of a priority.
        found = Some(found.map_or(id << 16, |outer| outer | id | 1 << 15));
        at += Vlan::LEN;
    }
    found
}

/// The EtherType that stands right in front of what it is the type of.
#[inline(always)]
fn type_before(frame: &[u8; WINDOW], at: usize) -> Option<u16> {
    let (bytes, _) = frame.get(at.checked_sub(2)?..)?.split_first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// One of the two addresses.
#[derive(Clone, Copy)]
enum Which {
    Source,
    Destination,
}

/// What is in a packet.
enum Inside<'f> {
    /// No other packet.
    Nothing,
    /// A packet.
    Packet(Layer<'f>),
    /// One that cannot be seen, since it is in pieces, too far behind, or of an unknown kind.
    Hidden,
}

/// An IP packet in a frame.
#[derive(Clone, Copy)]
struct Layer<'f> {
    frame: &'f [u8; WINDOW],
    /// Bytes of the frame; no fewer than `at`.
    len: usize,
    /// Where the packet begins.
    at: usize,
    six: bool,
}

impl<'f> Layer<'f> {
    /// The outermost one of a frame.
    #[inline(always)]
    fn of(frame: &'f [u8; WINDOW], len: usize) -> Option<Layer<'f>> {
        let mut at = Ethernet::LEN;
        for _ in 0..=TAGS {
            if len < at {
                return None;
            }
            match type_before(frame, at)? {
                ethernet::IPV4 => return Some(Layer { frame, len, at, six: false }),
                ethernet::IPV6 => return Some(Layer { frame, len, at, six: true }),
                announced if is_tag(announced) => at += Vlan::LEN,
                ethernet::MPLS | ethernet::MPLS_MULTICAST => return Layer::below_labels(frame, at, len),
                ethernet::PPPOE_SESSION => return Layer::in_session(frame, at, len),
                _ => return None,
            }
        }
        None
    }

    /// Below labels nothing says what it is but its version (RFC 4928 section 3).
    #[cold]
    fn below_labels(frame: &'f [u8; WINDOW], mut at: usize, len: usize) -> Option<Layer<'f>> {
        for _ in 0..LABELS {
            let label = *Label::view(seen(frame, at, len)?)?;
            at += Label::LEN;
            if label.is_bottom() {
                return match seen(frame, at, len)?.first()? >> 4 {
                    4 => Some(Layer { frame, len, at, six: false }),
                    6 => Some(Layer { frame, len, at, six: true }),
                    _ => None,
                };
            }
        }
        None
    }

    #[cold]
    fn in_session(frame: &'f [u8; WINDOW], at: usize, len: usize) -> Option<Layer<'f>> {
        let header = Pppoe::view(seen(frame, at, len)?)?;
        let at = at + Pppoe::LEN;
        match header.protocol.get() {
            PPP_IPV4 => Some(Layer { frame, len, at, six: false }),
            PPP_IPV6 => Some(Layer { frame, len, at, six: true }),
            _ => None,
        }
    }

    /// Its bytes that are looked at.
    fn seen(self) -> Option<&'f [u8]> {
        seen(self.frame, self.at, self.len)
    }

    /// The flow of the outermost packet; 0 of one that ends in its header.
    #[inline(always)]
    fn flow(self, seed: u64) -> Option<u32> {
        // The outermost packet begins there however many tags and labels there are; so the compiler knows that the window is inside.
        let window = self.frame.get(self.at % WITHIN..).and_then(|bytes| bytes.first_chunk())?;
        // What lies behind those that were received is not looked at.
        Some(self.flow_of(window, self.len - self.at, seed))
    }

    /// Its flow, if its header can be seen, wherever it begins.
    fn inner_flow(self, seed: u64) -> Option<u32> {
        let seen = self.seen().filter(|seen| seen.len() >= if self.six { Ipv6::LEN } else { Ipv4::LEN })?;
        let mut window = [0; 64];
        let from = seen.get(..seen.len().min(window.len()))?;
        window.get_mut(..from.len())?.copy_from_slice(from);
        Some(self.flow_of(&window, from.len(), seed))
    }

    #[inline(always)]
    fn flow_of(self, window: &[u8; 64], received: usize, seed: u64) -> u32 {
        if self.six { flow::hash6(window, received, seed) } else { flow::hash(window, received, seed) }
    }

    #[inline(always)]
    fn address(self, which: Which) -> Option<u64> {
        if self.six {
            let ip = Ipv6::view(self.seen()?)?;
            return Some(address6(match which {
                Which::Source => &ip.source,
                Which::Destination => &ip.destination,
            }));
        }
        let ip = Ipv4::view(self.seen()?)?;
        Some(address(match which {
            Which::Source => ip.source,
            Which::Destination => ip.destination,
        }))
    }

    #[inline(always)]
    fn addresses(self, seed: u64) -> Option<u32> {
        let [source, destination] = [self.address(Which::Source)?, self.address(Which::Destination)?];
        // A sum, so that it does not matter which is which.
        Some(flow::one(source.wrapping_add(destination), seed))
    }

    /// The protocol, and where in the frame it begins; `None` of pieces of packets.
    fn upper(self) -> Option<(u8, usize)> {
        let seen = self.seen()?;
        if self.six {
            let upper = ipv6::upper(seen).filter(|upper| upper.whole && upper.fragment.is_none())?;
            return Some((upper.protocol, self.at + upper.at));
        }
        let ip = Ipv4::view(seen).filter(|ip| !ip.is_fragment())?;
        Some((ip.protocol, self.at + ip.header_len().max(Ipv4::LEN)))
    }

    /// The GRE header of a packet that has one, and where in the frame what it carries begins.
    fn gre(self) -> Option<(Gre, usize)> {
        let (_, at) = self.upper().filter(|(protocol, _)| *protocol == ipv4::GRE)?;
        let gre = Gre::parse(seen(self.frame, at, self.len)?)?;
        Some((gre, at + gre.len))
    }

    fn inner(self) -> Inside<'f> {
        let Some((protocol, at)) = self.upper() else { return Inside::Hidden };
        let carried = match protocol {
            ipv4::IPIP => Some((false, at)),
            ipv4::IPV6 => Some((true, at)),
            ipv4::GRE => self.gre().and_then(|(gre, at)| match gre.protocol {
                ethernet::IPV4 => Some((false, at)),
                ethernet::IPV6 => Some((true, at)),
                _ => None,
            }),
            _ => return Inside::Nothing,
        };
        match carried.filter(|(_, at)| *at <= self.len) {
            Some((six, at)) => Inside::Packet(Layer { six, at, ..self }),
            None => Inside::Hidden,
        }
    }
}

/// The bytes of a frame from `at` on that are there and are looked at.
fn seen(frame: &[u8; WINDOW], at: usize, len: usize) -> Option<&[u8]> {
    frame.get(at..len.min(WINDOW))
}
