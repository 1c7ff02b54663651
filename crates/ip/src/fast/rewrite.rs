//! What forwarding does to a packet: one hop off its TTL or hop limit, a new Ethernet header, and no more than fits.

use weir_packet::Packet;
use weir_wire::{Ethernet, Ipv4, Ipv6, View, ethernet};

use crate::egress::{Egress, Shape};
use crate::fast::classify::Family;
use crate::tables::fib::Adjacency;

/// The least Ethernet frame without its check sequence: what is shorter is filled up on the wire.
const LEAST_FRAME: usize = 60;

/// What differs between the families where a packet is sent on.
pub(crate) trait Header {
    /// Which it is.
    const FAMILY: Family;

    /// In which bits the EtherType differs from that of IPv4, as it lies in the packet.
    const ETHERTYPE: u16;

    /// How many hops a packet may go, whose network header bytes begin with; 0 where they are none.
    fn hops(network: &[u8; NETWORK]) -> u8;

    /// Takes a hop off the network header that bytes begin with.
    fn take_hop(network: &mut [u8; NETWORK]);
}

/// Bytes of the longer network header, without options.
const NETWORK: usize = Ipv6::LEN;

/// IPv4.
pub(crate) struct Four;

/// IPv6.
pub(crate) struct Six;

impl Header for Four {
    const FAMILY: Family = Family::Four;

    const ETHERTYPE: u16 = 0;

    #[inline(always)]
    fn hops(network: &[u8; NETWORK]) -> u8 {
        Ipv4::view(network).map_or(0, |ip| ip.ttl)
    }

    #[inline(always)]
    fn take_hop(network: &mut [u8; NETWORK]) {
        if let Some(ip) = Ipv4::view_mut(network) {
            ip.decrement_ttl();
        }
    }
}

impl Header for Six {
    const FAMILY: Family = Family::Six;

    const ETHERTYPE: u16 = (ethernet::IPV4 ^ ethernet::IPV6).to_be();

    #[inline(always)]
    fn hops(network: &[u8; NETWORK]) -> u8 {
        Ipv6::view(network).map_or(0, |ip| ip.hop_limit)
    }

    #[inline(always)]
    fn take_hop(network: &mut [u8; NETWORK]) {
        if let Some(ip) = Ipv6::view_mut(network) {
            ip.hop_limit = ip.hop_limit.wrapping_sub(1);
        }
    }
}

/// Bytes 6 to 14 of frames that leave by an interface without tags.
#[inline(always)]
pub(crate) fn source_word<H: Header>(egress: &Egress) -> u64 {
    egress.source_word() ^ u64::from(H::ETHERTYPE) << BEHIND_SOURCE
}

/// Where the EtherType stands in [`Egress::source_word`], if there are no tags.
const BEHIND_SOURCE: u32 = 48;

/// Where it stands in [`Egress::behind_word`], behind one tag and behind two.
const BEHIND_ONE: u32 = 16;
const BEHIND_TWO: u32 = 48;

/// Takes a hop off a packet and writes the new Ethernet header, whose last bytes are the [`source_word`]. Neither the old nor the new one has tags.
#[inline(always)]
pub(crate) fn rewrite<H: Header>(packet: &mut Packet, adjacency: Adjacency, source: u64) {
    with_header::<H, { Ethernet::LEN }, { Ethernet::LEN + NETWORK }>(packet, |ethernet| {
        write_front(ethernet, adjacency, source);
    });
}

/// Takes a hop off a packet behind an Ethernet header of `N` bytes, which are rewritten; with the network header they are `ALL`. All is done in one
/// window: where it begins is read once.
#[inline(always)]
fn with_header<H: Header, const N: usize, const ALL: usize>(packet: &mut Packet, rewrite: impl FnOnce(&mut [u8; N])) {
    const { assert!(N + NETWORK == ALL) };
    let all = packet.window_mut::<ALL>(0);
    if let Some((ethernet, network)) = all.split_first_chunk_mut::<N>()
        && let Some(network) = network.first_chunk_mut()
    {
        H::take_hop(network);
        rewrite(ethernet);
    }
}

/// Writes the addresses of an Ethernet header and the two bytes behind them, by two words that overlap.
#[inline(always)]
pub(crate) fn write_front<const N: usize>(ethernet: &mut [u8; N], adjacency: Adjacency, source: u64) {
    if let Some(first) = ethernet.first_chunk_mut::<8>() {
        *first = adjacency.front();
    }
    if let Some(word) = ethernet.get_mut(6..).and_then(<[u8]>::first_chunk_mut::<8>) {
        *word = source.to_le_bytes();
    }
}

/// The same as [`rewrite`] from and to a header with whatever tags; the packet's network header begins at `l3`. False if there is no room in front of
/// the packet, which is as it was then.
#[inline(always)]
pub(crate) fn rewrite_tagged<H: Header>(
    packet: &mut Packet,
    l3: usize,
    adjacency: Adjacency,
    egress: &Egress,
    shape: Shape,
) -> bool {
    let header = shape.header_len();
    // Mostly it is as long as it was.
    if header != l3 {
        let has_moved = if header > l3 { packet.prepend(header - l3) } else { packet.trim_front(l3 - header) };
        if !has_moved {
            return false;
        }
    }
    let (ethertype, behind) = (u64::from(H::ETHERTYPE), egress.behind_word());
    match header {
        Ethernet::LEN => rewrite::<H>(packet, adjacency, source_word::<H>(egress)),
        ONE_TAG => with_header::<H, ONE_TAG, { ONE_TAG + NETWORK }>(packet, |ethernet| {
            write_front(ethernet, adjacency, egress.source_word());
            let [a, b, c, d, ..] = (behind ^ ethertype << BEHIND_ONE).to_le_bytes();
            let [.., e, f, g, h] = ethernet;
            (*e, *f, *g, *h) = (a, b, c, d);
        }),
        _ => with_header::<H, TWO_TAGS, { TWO_TAGS + NETWORK }>(packet, |ethernet| {
            write_front(ethernet, adjacency, egress.source_word());
            if let Some(last) = ethernet.last_chunk_mut() {
                *last = (behind ^ ethertype << BEHIND_TWO).to_le_bytes();
            }
        }),
    }
    true
}

/// The same from a header without tags, in a function of its own: who mostly forwards from ports without tags to such is not slowed down by it.
#[inline(never)]
pub(crate) fn rewrite_to_tags<H: Header>(packet: &mut Packet, adjacency: Adjacency, egress: &Egress) -> bool {
    rewrite_tagged::<H>(packet, Ethernet::LEN, adjacency, egress, egress.shape())
}

/// Bytes of an Ethernet header with one tag, and with two.
const ONE_TAG: usize = Ethernet::LEN + crate::tags::TAG_LEN;
const TWO_TAGS: usize = ONE_TAG + crate::tags::TAG_LEN;

/// Cuts off what follows the IP packet, but for what fills up the least Ethernet frame.
pub(crate) fn trim(packet: &mut Packet, l3: usize, family: Family) {
    let window = packet.window::<{ Ipv6::LEN }>(l3);
    let total = match family {
        Family::Four => Ipv4::view(window).map_or(0, Ipv4::total_len),
        Family::Six => Ipv6::view(window).map_or(0, |ip| Ipv6::LEN + usize::from(ip.payload_length.get())),
    };
    let end = (l3 + total).max(LEAST_FRAME);
    if packet.len() > end {
        packet.set_len(end);
    }
}
