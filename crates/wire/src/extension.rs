//! IPv6 extension headers one by one, as who processes them has to see them: RFC 8200 section 4.
//!
//! [`crate::ipv6::upper`] looks past them; this module looks into them, with bounds on their number, their bytes and their options, and
//! says of what is wrong whether and how its sender is told. A router that passes a packet on looks only at the hop-by-hop options
//! ([`in_transit`]); whom it is for, at all that comes before what it carries ([`at_destination`]).

use crate::ipv6::{DESTINATION, HOP_BY_HOP, ROUTING};
use crate::{Ipv6, View};
use std::fmt;

/// Parameter Problem: a field makes no sense (RFC 4443 section 3.4).
pub const ERRONEOUS_FIELD: u8 = 0;
/// Parameter Problem: a next header that is not known.
pub const UNKNOWN_NEXT_HEADER: u8 = 1;
/// Parameter Problem: an option that is not known.
pub const UNKNOWN_OPTION: u8 = 2;
/// Parameter Problem: the first fragment does not reach to what is carried (RFC 7112).
pub const INCOMPLETE_CHAIN: u8 = 3;
/// Parameter Problem: the extension headers are too long together (RFC 8883).
pub const CHAIN_TOO_LONG: u8 = 7;
/// Parameter Problem: there are too many extension headers (RFC 8883).
pub const TOO_MANY_HEADERS: u8 = 8;
/// Parameter Problem: a header has too many options (RFC 8883).
pub const TOO_MANY_OPTIONS: u8 = 9;

const PAD1: u8 = 0;
const PADN: u8 = 1;
/// Routers on the way should look at the packet (RFC 2711); multicast listeners set it.
pub const ROUTER_ALERT: u8 = 5;

/// How much of extension headers is looked at. RFC 8504 section 5.3 lets hosts set such bounds, RFC 8883 routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Extension headers.
    pub headers: usize,
    /// Bytes of all of them.
    pub bytes: usize,
    /// Options of one header, padding included.
    pub options: usize,
}

impl Default for Limits {
    /// 8 headers, 512 bytes, 16 options.
    fn default() -> Self {
        Limits { headers: 8, bytes: 512, options: 16 }
    }
}

/// What is wrong with extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The packet ends inside one.
    Truncated,
    /// There are more than [`Limits::headers`].
    TooManyHeaders,
    /// They are longer than [`Limits::bytes`].
    TooLong,
    /// One has more options than [`Limits::options`].
    TooManyOptions,
    /// Hop-by-hop options that do not follow the IPv6 header at once.
    Misplaced,
    /// An option that is longer than its header.
    OptionLength,
    /// An option that is not known, and must not be passed over.
    Option,
    /// A routing header with segments left.
    Routing,
}

impl Why {
    /// A sentence that explains it.
    pub const fn help(self) -> &'static str {
        match self {
            Why::Truncated => "the packet ends inside an extension header",
            Why::TooManyHeaders => "it has more extension headers than are looked at",
            Why::TooLong => "its extension headers are longer than is looked at",
            Why::TooManyOptions => "an extension header has more options than are looked at",
            Why::Misplaced => "hop-by-hop options do not come first",
            Why::OptionLength => "an option is longer than its header",
            Why::Option => "an option that must not be passed over is not known",
            Why::Routing => "it has a routing header with segments left, which is not followed (RFC 5095)",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.help())
    }
}

/// A packet cannot be processed, and is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub why: Why,
    /// Where, bytes from the start of the IPv6 header.
    pub pointer: usize,
    /// The code of the Parameter Problem that tells the sender; `None`: the packet is dropped silently.
    pub code: Option<u8>,
}

impl Fault {
    const fn new(why: Why, pointer: usize, code: u8) -> Fault {
        Fault { why, pointer, code: Some(code) }
    }

    const fn silent(why: Why, pointer: usize) -> Fault {
        Fault { why, pointer, code: None }
    }
}

/// An extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header<'p> {
    at: usize,
    bytes: &'p [u8],
}

/// Goes from header to header within the bounds.
struct Walk<'p> {
    /// The packet, without what lies behind its payload.
    packet: &'p [u8],
    limits: Limits,
    /// The number of the header that comes next, and where it stands.
    next: u8,
    next_at: usize,
    /// Where the header that comes next begins.
    at: usize,
    /// Headers so far.
    headers: usize,
}

/// Where the field "next header" of the IPv6 header is.
const FIRST_NEXT: usize = 6;

impl<'p> Walk<'p> {
    /// `None`: there is no whole IPv6 header.
    fn new(packet: &'p [u8], limits: Limits) -> Option<Walk<'p>> {
        let ip = Ipv6::view(packet)?;
        let whole = packet.get(..Ipv6::LEN + usize::from(ip.payload_length.get())).unwrap_or(packet);
        Some(Walk { packet: whole, limits, next: ip.next_header, next_at: FIRST_NEXT, at: Ipv6::LEN, headers: 0 })
    }

    /// The extension header that comes next: of those that are processed, all begin with a next header and a length in units of 8 bytes.
    fn step(&mut self) -> Result<Header<'p>, Fault> {
        let at = self.at;
        let cut = Fault::silent(Why::Truncated, at);
        if self.headers >= self.limits.headers {
            return Err(Fault::new(Why::TooManyHeaders, at, TOO_MANY_HEADERS));
        }
        let rest = self.packet.get(at..).ok_or(cut)?;
        let [next, units, ..] = *rest else { return Err(cut) };
        let bytes = rest.get(..8 + 8 * usize::from(units)).ok_or(cut)?;
        let end = at + bytes.len();
        if end > Ipv6::LEN + self.limits.bytes {
            return Err(Fault::new(Why::TooLong, Ipv6::LEN + self.limits.bytes, CHAIN_TOO_LONG));
        }
        (self.next, self.next_at, self.at) = (next, at, end);
        self.headers += 1;
        Ok(Header { at, bytes })
    }
}

/// What hop-by-hop options ask of routers on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Routers should look at the packet; what is in it that may concern them (RFC 2711: 0 is multicast listeners).
    pub router_alert: Option<u16>,
}

/// Looks at the options of a header with options (RFC 8200 section 4.2). `to_group` says that the packet goes to a multicast address.
fn options(header: Header<'_>, limit: usize, to_group: bool) -> Result<Asked, Fault> {
    let mut asked = Asked::default();
    let (mut at, mut count) = (2, 0);
    while let Some(rest) = header.bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let pointer = header.at + at;
        if count >= limit {
            return Err(Fault::new(Why::TooManyOptions, pointer, TOO_MANY_OPTIONS));
        }
        count += 1;
        let (kind, length) = match *rest {
            [PAD1, ..] => (PAD1, 1),
            [kind, length, ..] => (kind, 2 + usize::from(length)),
            _ => return Err(Fault::new(Why::OptionLength, pointer, ERRONEOUS_FIELD)),
        };
        let Some(option) = rest.get(..length) else {
            return Err(Fault::new(Why::OptionLength, pointer + 1, ERRONEOUS_FIELD));
        };
        match (kind, option) {
            (PAD1 | PADN, _) => {}
            (ROUTER_ALERT, [_, 2, high, low]) => asked.router_alert = Some(u16::from_be_bytes([*high, *low])),
            _ => passed_over(kind, pointer, to_group)?,
        }
        at += length;
    }
    Ok(asked)
}

/// What becomes of a packet with an option that is not known, by the two highest bits of its type: "00 - skip over this option", "01 -
/// discard the packet", "10 - discard the packet and, regardless of whether or not the packet's Destination Address was a multicast
/// address, send an ICMP Parameter Problem, Code 2", "11 - [...] only if the packet's Destination Address was not a multicast address".
const fn passed_over(kind: u8, pointer: usize, to_group: bool) -> Result<(), Fault> {
    match kind >> 6 {
        0 => Ok(()),
        2 => Err(Fault::new(Why::Option, pointer, UNKNOWN_OPTION)),
        3 if !to_group => Err(Fault::new(Why::Option, pointer, UNKNOWN_OPTION)),
        _ => Err(Fault::silent(Why::Option, pointer)),
    }
}

/// Where the routing type and the segments left of a routing header are.
const ROUTING_TYPE: usize = 2;
const SEGMENTS_LEFT: usize = 3;

/// "If Segments Left is zero, the node must ignore the Routing header [...]. If Segments Left is non-zero, the node must discard the
/// packet and send an ICMP Parameter Problem, Code 0, message to the packet's Source Address, pointing to the unrecognized Routing
/// Type" (RFC 8200 section 4.4). Type 0 counts as not recognized (RFC 5095 section 3), and so do all others here.
fn routing(header: Header<'_>) -> Result<(), Fault> {
    match header.bytes.get(SEGMENTS_LEFT) {
        Some(0) => Ok(()),
        _ => Err(Fault::new(Why::Routing, header.at + ROUTING_TYPE, ERRONEOUS_FIELD)),
    }
}

/// What a router that passes the packet on has to do about its hop-by-hop options; nothing about any other extension header (RFC 8200
/// section 4: they "are not processed, inserted, or deleted by any node along a packet's delivery path"). For a packet that begins
/// with an IPv6 header; any other asks nothing.
///
/// # Errors
/// The packet must not be passed on.
#[inline]
pub fn in_transit(packet: &[u8], limits: Limits) -> Result<Asked, Fault> {
    let Some(mut walk) = Walk::new(packet, limits) else { return Ok(Asked::default()) };
    if walk.next != HOP_BY_HOP {
        return Ok(Asked::default());
    }
    let to_group = is_to_group(packet);
    options(walk.step()?, limits.options, to_group)
}

fn is_to_group(packet: &[u8]) -> bool {
    Ipv6::view(packet).is_some_and(|ip| ip.destination.first() == Some(&0xff))
}

/// What a packet carries that is for this router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The protocol, or a header that is not processed here; [`crate::ipv6::FRAGMENT`] if the packet has to be put together first.
    pub protocol: u8,
    /// Where it begins, bytes from the start of the IPv6 header.
    pub at: usize,
    /// Where the number of the protocol stands: what a Parameter Problem about an unknown one points at.
    pub named_at: usize,
    /// What hop-by-hop options ask.
    pub asked: Asked,
}

/// Processes the extension headers of a packet that begins with a whole IPv6 header and is for this router, up to what it carries. They
/// are taken "in any order and occurring any number of times in the same packet, except for the Hop-by-Hop Options header" (RFC 8200
/// section 4.1), within the bounds.
///
/// # Errors
/// The packet cannot be processed.
pub fn at_destination(packet: &[u8], limits: Limits) -> Result<Carried, Fault> {
    let mut walk = Walk::new(packet, limits).ok_or(Fault::silent(Why::Truncated, packet.len()))?;
    let to_group = is_to_group(packet);
    let mut asked = Asked::default();
    loop {
        match walk.next {
            // Section 4: a zero "in any header other than the IPv6 header" is a next header that is not known.
            HOP_BY_HOP if walk.next_at != FIRST_NEXT => {
                return Err(Fault::new(Why::Misplaced, walk.next_at, UNKNOWN_NEXT_HEADER));
            }
            HOP_BY_HOP => asked = options(walk.step()?, limits.options, to_group)?,
            DESTINATION => drop(options(walk.step()?, limits.options, to_group)?),
            ROUTING => routing(walk.step()?)?,
            protocol => return Ok(Carried { protocol, at: walk.at, named_at: walk.next_at, asked }),
        }
    }
}

#[cfg(test)]
mod tests;
