//! What forwarding does to a packet: one hop off its TTL, a new Ethernet header, and no more than fits.

use weir_packet::Packet;
use weir_wire::{Ethernet, Ipv4, View};

use crate::fib::Entry;

/// The least Ethernet frame without its check sequence: what is shorter is filled up on the wire.
const LEAST_FRAME: usize = 60;

/// Bytes of an Ethernet header and the fixed part of an IPv4 header.
const HEADERS: usize = Ethernet::LEN + Ipv4::LEN;

/// Takes a hop off the TTL and writes the new Ethernet header, by two words that overlap.
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

/// Cuts off what follows the IP packet, but for what fills up the least Ethernet frame.
pub(crate) fn trim(packet: &mut Packet) {
    let total = Ipv4::view(packet.window::<20>(Ethernet::LEN)).map_or(0, Ipv4::total_len);
    let end = (Ethernet::LEN + total).max(LEAST_FRAME);
    if packet.len() > end {
        packet.set_len(end);
    }
}
