//! What is different about IPv6 fragments (RFC 8200 section 4.5, RFC 5722, RFC 6946): where a piece belongs, and how pieces are joined.

use std::fmt;

use weir_wire::extension::{ERRONEOUS_FIELD, INCOMPLETE_CHAIN, Limits, at_destination};
use weir_wire::ipv4::{SCTP, TCP, UDP};
use weir_wire::ipv6::{self, FRAGMENT, Fragment, ICMPV6};
use weir_wire::{Ipv6, U16, View};

use super::{CONGESTED, Piece};
use crate::icmp6::Problem;

/// What the fragments of one IPv6 packet have in common: "a fragment packet is an original packet's if they have the same Source Address,
/// Destination Address, and Fragment Identification".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whole6 {
    source: [u8; 16],
    destination: [u8; 16],
    identification: u32,
}

/// What a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A piece of a packet, to be handed to [`super::Reassembly`].
    Piece(Whole6, Piece),
    /// The whole packet, with a fragment header all the same. It is joined by itself, whatever other fragments with its identification
    /// wait (RFC 6946 section 4).
    Atomic,
}

/// Why a fragment is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFragment {
    /// It is no fragment, or its headers are not whole.
    Malformed,
    /// It carries nothing.
    Empty,
    /// It is not the last, and no unit of 8 bytes.
    Length,
    /// The packet would be longer than 65,535 bytes; the field at fault is here.
    TooLong(u32),
    /// The first fragment ends before the header of what is carried (RFC 7112).
    Incomplete,
}

impl BadFragment {
    /// What the sender is told; `None`: nothing.
    pub const fn problem(self) -> Option<Problem> {
        /// Where the field "payload length" of the IPv6 header is.
        const PAYLOAD_LENGTH: u32 = 4;
        let (code, pointer) = match self {
            BadFragment::Malformed | BadFragment::Empty => return None,
            BadFragment::Length => (ERRONEOUS_FIELD, PAYLOAD_LENGTH),
            BadFragment::TooLong(pointer) => (ERRONEOUS_FIELD, pointer),
            BadFragment::Incomplete => (INCOMPLETE_CHAIN, 0),
        };
        Some(Problem::Parameter { code, pointer })
    }
}

impl fmt::Display for BadFragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadFragment::Malformed => "it is no whole fragment",
            BadFragment::Empty => "the fragment carries nothing",
            BadFragment::Length => "the fragment is not the last, and its length no multiple of 8",
            BadFragment::TooLong(_) => "the fragment ends beyond the longest packet",
            BadFragment::Incomplete => "the first fragment ends before the header of what is carried",
        })
    }
}

impl std::error::Error for BadFragment {}

/// A fragment taken apart.
struct Apart<'p> {
    /// What comes before the fragment header.
    ahead: &'p [u8],
    /// Where the number of the fragment header stands.
    named_at: usize,
    header: &'p Fragment,
    payload: &'p [u8],
}

/// Fragments were looked at before they came here: what is in front of the fragment header needs no other bounds.
const ANY: Limits = Limits { headers: ipv6::MAX_EXTENSIONS, bytes: usize::MAX - Ipv6::LEN, options: usize::MAX };

fn apart(packet: &[u8]) -> Option<Apart<'_>> {
    let ip = Ipv6::view(packet)?;
    let packet = packet.get(..Ipv6::LEN + usize::from(ip.payload_length.get()))?;
    let found = at_destination(packet, ANY).ok().filter(|found| found.protocol == FRAGMENT)?;
    let (ahead, rest) = packet.split_at_checked(found.at)?;
    let (header, payload) = Fragment::split(rest)?;
    Some(Apart { ahead, named_at: found.named_at, header, payload })
}

/// What part of which packet the valid IPv6 packet `packet` is.
///
/// # Errors
/// It is dropped; [`BadFragment::problem`] says what its sender is told.
pub fn part_of(packet: &[u8]) -> Result<Part, BadFragment> {
    let Apart { ahead, header, payload, .. } = apart(packet).ok_or(BadFragment::Malformed)?;
    let ip = Ipv6::view(packet).ok_or(BadFragment::Malformed)?;
    let (start, last) = (header.offset(), !header.more());
    if start == 0 && last {
        return Ok(Part::Atomic);
    }
    if payload.is_empty() {
        return Err(BadFragment::Empty);
    }
    if !last && payload.len() % 8 != 0 {
        return Err(BadFragment::Length);
    }
    let end = start + payload.len();
    // "the Payload Length of the packet reassembled from that fragment would exceed 65,535 octets": all but the IPv6 header counts.
    if ahead.len() - Ipv6::LEN + end > usize::from(u16::MAX) {
        return Err(BadFragment::TooLong(ahead.len() as u32 + 2));
    }
    if start == 0 && !reaches_upper(packet) {
        return Err(BadFragment::Incomplete);
    }
    let whole = Whole6 { source: ip.source, destination: ip.destination, identification: header.identification.get() };
    Ok(Part::Piece(whole, Piece { start, end, last }))
}

/// "If the first fragment does not include all headers through an Upper-Layer header, then that fragment should be discarded".
fn reaches_upper(packet: &[u8]) -> bool {
    let Some(upper) = ipv6::upper(packet).filter(|upper| upper.whole) else { return false };
    let least = match upper.protocol {
        TCP => 20,
        SCTP => 12,
        UDP => 8,
        ICMPV6 => 4,
        _ => 0,
    };
    let end = Ipv6::view(packet).map_or(0, |ip| Ipv6::LEN + usize::from(ip.payload_length.get()));
    upper.at + least <= end
}

/// The packet that fragments make, given in order and complete: the headers of the first, without the fragment header, and all payloads.
/// "The Next Header field of the last header of the Per-Fragment headers is obtained from the Next Header field of the first fragment's
/// Fragment header." It is marked with congestion if one of them is (RFC 3168 section 5.3). `None` if they make none.
pub fn join6<'p>(mut fragments: impl Iterator<Item = &'p [u8]>) -> Option<Vec<u8>> {
    let first = apart(fragments.next()?)?;
    let mut packet = [first.ahead, first.payload].concat();
    *packet.get_mut(first.named_at)? = first.header.next_header;
    let mut congested = false;
    for fragment in fragments {
        congested |= Ipv6::view(fragment)?.traffic_class() & CONGESTED == CONGESTED;
        packet.extend(apart(fragment)?.payload);
    }
    let payload = u16::try_from(packet.len().checked_sub(Ipv6::LEN)?).ok()?;
    let ip = Ipv6::view_mut(&mut packet)?;
    ip.payload_length = U16::new(payload);
    if congested {
        ip.set_traffic_class(ip.traffic_class() | CONGESTED);
    }
    Some(packet)
}

#[cfg(test)]
mod tests;
