//! What a router leaves as it is of an IP packet.

use weir_capture::decode::Ip;

use crate::packet::Packet;

/// An IP packet without what changes from hop to hop: TTL or hop limit, the checksum of IPv4, and ECN (RFC 3168: routers mark
/// congestion there).
pub(crate) struct Kept<'a> {
    header: [u8; 40],
    length: usize,
    /// What follows the fixed header: options, extension headers, payload; no padding of the frame.
    rest: &'a [u8],
}

impl<'a> Kept<'a> {
    /// Of the packet at `ip`, the first `limit` bytes of it at most. `None` if less than that was captured.
    #[inline]
    pub(crate) fn of(ip: &Ip<'a>, packet: &Packet<'a>, limit: Option<usize>) -> Option<Kept<'a>> {
        let (at, whole) = (ip.at(), claimed(ip)?);
        // Where more is claimed than there was on the wire, what there was is all there is.
        let there = (packet.length as usize).saturating_sub(at);
        let wanted = whole.min(there).min(limit.unwrap_or(usize::MAX));
        let data = packet.data.get(at..)?.get(..wanted)?;
        let fixed = if ip.version() == 4 { 20 } else { 40 };
        let (first, rest) = data.split_at_checked(fixed).unwrap_or((data, &[]));
        let mut header = [0; 40];
        header.get_mut(..first.len())?.copy_from_slice(first);
        let [_, class, _, _, _, _, _, hop_limit, ttl, _, check0, check1, ..] = &mut header;
        if ip.version() == 4 {
            *class &= !3;
            (*ttl, *check0, *check1) = (0, 0, 0);
        } else {
            // The traffic class begins four bits earlier.
            *class &= !0x30;
            *hop_limit = 0;
        }
        Some(Kept { header, length: first.len(), rest })
    }

    /// Its bytes, in two pieces.
    #[inline]
    pub(crate) fn pieces(&self) -> [&[u8]; 2] {
        [self.header.get(..self.length).unwrap_or_default(), self.rest]
    }
}

/// Bytes of the packet, as its header says.
#[inline]
fn claimed(ip: &Ip<'_>) -> Option<usize> {
    match ip.v4() {
        Some(four) => Some(four.total_len()),
        None => ip.v6().map(|six| six.payload_length.get() as usize + 40),
    }
}
