//! What forwarding does to a packet: one hop off its TTL, a new Ethernet header, and no more than fits.

use weir_ip::egress::{Egress, Shape};
use weir_packet::Packet;
use weir_wire::{Ethernet, Ipv4, View};

use crate::fib::Entry;

/// The least Ethernet frame without its check sequence: what is shorter is filled up on the wire.
const LEAST_FRAME: usize = 60;

/// Bytes of an Ethernet header without tags, and the fixed part of an IPv4 header.
const HEADERS: usize = Ethernet::LEN + Ipv4::LEN;

/// Takes a hop off the TTL and writes the new Ethernet header, by two words that overlap. Neither the old nor the new one has tags.
#[inline(always)]
pub(crate) fn rewrite(front: &mut [u8; HEADERS], entry: Entry, source: u64) {
    let (ethernet, ip) = front.split_at_mut(Ethernet::LEN);
    if let Some(ip) = Ipv4::view_mut(ip) {
        ip.decrement_ttl();
    }
    if let Some(first) = ethernet.first_chunk_mut::<8>() {
        *first = entry.front();
    }
    if let Some(last) = ethernet.last_chunk_mut::<8>() {
        *last = source.to_le_bytes();
    }
}

/// The same from and to a header with whatever tags; the packet's network header begins at `l3`. False if there is no room in front of the
/// packet, which is as it was then.
#[inline(always)]
pub(crate) fn rewrite_tagged(packet: &mut Packet, l3: usize, entry: Entry, egress: &Egress, shape: Shape) -> bool {
    let header = shape.header_len();
    let has_moved =
        if header > l3 { packet.prepend(header - l3) } else { header == l3 || packet.trim_front(l3 - header) };
    if !has_moved {
        return false;
    }
    if let Some(ip) = Ipv4::view_mut(packet.window_mut::<20>(header)) {
        ip.decrement_ttl();
    }
    *packet.window_mut(0) = entry.front();
    *packet.window_mut(6) = egress.source_word().to_le_bytes();
    let behind = egress.behind_word().to_le_bytes();
    if header == ONE_TAG {
        let [a, b, c, d, ..] = behind;
        *packet.window_mut(Ethernet::LEN) = [a, b, c, d];
    } else if header > ONE_TAG {
        *packet.window_mut(Ethernet::LEN) = behind;
    }
    true
}

/// The same from a header without tags, in a function of its own: who mostly forwards from ports without tags to such is not slowed down by it.
#[inline(never)]
pub(crate) fn rewrite_to_tags(packet: &mut Packet, entry: Entry, egress: &Egress) -> bool {
    rewrite_tagged(packet, Ethernet::LEN, entry, egress, egress.shape())
}

/// Bytes of an Ethernet header with one tag.
const ONE_TAG: usize = Ethernet::LEN + weir_ip::tags::TAG_LEN;

/// Cuts off what follows the IP packet, but for what fills up the least Ethernet frame.
pub(crate) fn trim(packet: &mut Packet, l3: usize) {
    let total = Ipv4::view(packet.window::<20>(l3)).map_or(0, Ipv4::total_len);
    let end = (l3 + total).max(LEAST_FRAME);
    if packet.len() > end {
        packet.set_len(end);
    }
}
