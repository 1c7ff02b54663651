//! Fragmentation of IPv6 packets by their source (RFC 8200 section 4.5): of those that this router sends itself. Routers do not fragment
//! what they pass on.

use weir_wire::ipv6::{DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING};
use weir_wire::{Ipv6, View};

use super::Refused;

/// Bytes of a fragment header.
const HEADER: usize = 8;

/// The fragments of one packet, in order.
#[derive(Clone, Debug)]
pub struct Fragments6<'p> {
    /// The headers that every fragment has.
    ahead: &'p [u8],
    /// Where the number of the first header behind them stands, and that number.
    named_at: usize,
    next: u8,
    payload: &'p [u8],
    done: usize,
    /// Most payload bytes of a fragment, a multiple of 8.
    room: usize,
    identification: u32,
}

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub struct Fragment6<'p> {
    ahead: &'p [u8],
    named_at: usize,
    header: [u8; HEADER],
    payload: &'p [u8],
}

impl<'p> Fragments6<'p> {
    /// Takes apart `packet`, a valid IPv6 packet (bytes after its payload are ignored), so that no piece is longer than `mtu` bytes. No
    /// other packet from its source to its destination may have the same identification for a while. Even one that fits gets a
    /// fragment header: ask before.
    ///
    /// # Errors
    /// The packet can not be fragmented to that size, or is a fragment.
    pub fn new(packet: &'p [u8], mtu: u16, identification: u32) -> Result<Self, Refused> {
        let ip = Ipv6::view(packet).ok_or(Refused::Invalid)?;
        let whole = packet.get(..Ipv6::LEN + usize::from(ip.payload_length.get())).ok_or(Refused::Invalid)?;
        let (at, named_at) = per_fragment(whole).ok_or(Refused::Invalid)?;
        let (ahead, payload) = whole.split_at_checked(at).ok_or(Refused::Invalid)?;
        let next = *whole.get(named_at).ok_or(Refused::Invalid)?;
        let room = usize::from(mtu).saturating_sub(at + HEADER) & !7;
        if room == 0 {
            return Err(Refused::MtuTooSmall);
        }
        Ok(Fragments6 { ahead, named_at, next, payload, done: 0, room, identification })
    }
}

/// Where the headers end that every fragment has, and where the number of the next one stands: "all headers up to and including the
/// Routing header if present, else the Hop-by-Hop Options header if present, else no extension headers". `None` for a fragment.
fn per_fragment(packet: &[u8]) -> Option<(usize, usize)> {
    let (mut at, mut named_at) = (Ipv6::LEN, 6);
    let mut end = (at, named_at);
    loop {
        let kind = *packet.get(named_at)?;
        match kind {
            HOP_BY_HOP | ROUTING | DESTINATION => {}
            FRAGMENT => return None,
            _ => return Some(end),
        }
        let units = usize::from(*packet.get(at + 1)?);
        (named_at, at) = (at, at + 8 + 8 * units);
        if kind != DESTINATION {
            end = (at, named_at);
        }
    }
}

impl<'p> Iterator for Fragments6<'p> {
    type Item = Fragment6<'p>;

    fn next(&mut self) -> Option<Fragment6<'p>> {
        let rest = self.payload.get(self.done..).filter(|rest| !rest.is_empty())?;
        let last = rest.len() <= self.room;
        let take = rest.len().min(self.room);
        let offset = u16::try_from(self.done).ok()? | u16::from(!last);
        let [high, low] = offset.to_be_bytes();
        let [a, b, c, d] = self.identification.to_be_bytes();
        let header = [self.next, 0, high, low, a, b, c, d];
        self.done += take;
        Some(Fragment6 { ahead: self.ahead, named_at: self.named_at, header, payload: rest.get(..take)? })
    }
}

impl Fragment6<'_> {
    /// Bytes of the fragment with its IPv6 header.
    pub const fn total_len(&self) -> usize {
        self.ahead.len() + HEADER + self.payload.len()
    }

    /// Writes the fragment to the start of `out`; answers its length, or `None` if there is no room.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let out = out.get_mut(..self.total_len())?;
        let (ahead, rest) = out.split_at_mut_checked(self.ahead.len())?;
        let (header, payload) = rest.split_at_mut_checked(HEADER)?;
        ahead.copy_from_slice(self.ahead);
        header.copy_from_slice(&self.header);
        payload.copy_from_slice(self.payload);
        *ahead.get_mut(self.named_at)? = FRAGMENT;
        let length = u16::try_from(self.total_len() - Ipv6::LEN).ok()?;
        Ipv6::view_mut(ahead)?.payload_length = length.into();
        Some(self.total_len())
    }
}
