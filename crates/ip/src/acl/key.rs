//! What of a packet rules look at.
//!
//! A fragment that is not the first has addresses, a protocol and a DSCP, but neither ports nor flags nor an ICMP type: no rule that asks for
//! one of these matches it. The same holds where a packet ends before them.

use weir_packet::Packet;
use weir_wire::tcp::Tcp;
use weir_wire::{Ipv4, Ipv6, View, ethernet, ipv4, ipv6};

use super::rule::words;

/// Words of a key of IPv4: source, destination, facts, ports.
pub(crate) const FOUR: usize = 4;

/// Words of a key of IPv6: source and destination, four each, facts, ports.
pub(crate) const SIX: usize = 10;

/// Facts: the protocol behind all extension headers.
pub(crate) const PROTOCOL: u32 = 0xff;
/// Where the flags of TCP are among the facts.
pub(crate) const FLAGS_AT: u32 = 8;
/// Where the DSCP is.
pub(crate) const DSCP_AT: u32 = 16;
/// It is a fragment.
pub(crate) const FRAGMENT: u32 = 1 << 22;
/// It is not the first one.
pub(crate) const LATER: u32 = 1 << 23;
/// It has ports, or a type and a code of ICMP.
pub(crate) const HAS_PORTS: u32 = 1 << 24;
/// It has flags.
pub(crate) const HAS_FLAGS: u32 = 1 << 25;

/// What the key of a packet is made of.
pub(crate) enum Key {
    Four([u32; FOUR]),
    Six([u32; SIX]),
    /// Not IP, or cut short: no rule is for it.
    Other,
}

impl Key {
    /// The key of a packet whose network header begins at `l3`.
    pub(crate) fn of(packet: &Packet, l3: usize) -> Key {
        let length = packet.len().saturating_sub(l3);
        match u16::from_be_bytes(*packet.window(l3.wrapping_sub(2))) {
            ethernet::IPV4 if length >= Ipv4::LEN => four(packet, l3, length),
            ethernet::IPV6 if length >= Ipv6::LEN => six(packet, l3, length),
            _ => Key::Other,
        }
    }
}

/// Whether a protocol has ports in its first four bytes.
pub(crate) const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ipv4::TCP | ipv4::UDP | ipv4::UDP_LITE | ipv4::SCTP | ipv4::DCCP)
}

/// Bytes of a packet that [`plain`] looks at: its EtherType, a header without options, and all of TCP up to its flags.
const PLAIN: usize = 2 + Ipv4::LEN + 14;

/// Set where more has to be looked at than [`plain`] does.
const LOOK_CLOSER: u32 = 1 << 31;

/// What is behind a header, by protocol: the facts that tell of it, all flags among them where there are any.
static BEHIND: [u32; 256] = {
    let mut facts = [0; 256];
    let mut protocol = 0;
    while protocol < facts.len() {
        if has_ports(protocol as u8) {
            facts[protocol] = HAS_PORTS;
        }
        protocol += 1;
    }
    facts[ipv4::TCP as usize] |= HAS_FLAGS | 0xff << FLAGS_AT;
    facts[ipv4::ICMP as usize] = LOOK_CLOSER;
    facts[ipv6::ICMPV6 as usize] = LOOK_CLOSER;
    facts
};

/// The key of a packet as most are: IPv4 without options and not in fragments, other than ICMP, and long enough for all that rules look at. Of others
/// `None`: [`Key::of`] knows theirs. Protocols that take turns cost nothing, as nothing branches on them.
#[inline(always)]
pub(crate) fn plain(packet: &Packet, l3: usize) -> Option<[u32; FOUR]> {
    let bytes = packet.window::<PLAIN>(l3.wrapping_sub(2));
    let ([high, low], bytes) = bytes.split_first_chunk()?;
    let ip = Ipv4::view(bytes)?;
    let total = ip.total_len();
    let known = BEHIND[usize::from(ip.protocol)];
    let is_usual = u32::from_be_bytes([0, *high, *low, ip.version_ihl]) == u32::from(ethernet::IPV4) << 8 | 0x45;
    if !is_usual || ip.is_fragment() || total < PLAIN - 2 || l3 + total > packet.len() || known & LOOK_CLOSER != 0 {
        return None;
    }
    let [a, b, c, d, .., flags] = *bytes.last_chunk::<14>()?;
    let behind = known & (HAS_PORTS | HAS_FLAGS | u32::from(flags) << FLAGS_AT);
    let ports = if known == 0 { 0 } else { u32::from_be_bytes([a, b, c, d]) };
    let facts = u32::from(ip.protocol) | u32::from(ip.tos >> 2) << DSCP_AT | behind;
    Some([ip.source.get(), ip.destination.get(), facts, ports])
}

fn four(packet: &Packet, l3: usize, length: usize) -> Key {
    let Some(ip) = Ipv4::view(packet.window::<{ Ipv4::LEN }>(l3)) else { return Key::Other };
    let header = ip.header_len();
    let later = ip.fragment_offset() > 0;
    let mut facts = u32::from(ip.protocol) | u32::from(ip.tos >> 2) << DSCP_AT;
    if ip.is_fragment() {
        facts |= if later { FRAGMENT | LATER } else { FRAGMENT };
    }
    // What follows the IP packet in its frame is none of it.
    let left = if later { 0 } else { length.min(ip.total_len()).saturating_sub(header) };
    // A header and what rules look at behind it fit: at most 22, 60 and 14 bytes.
    let (more, ports) = behind(packet.window(l3 + header), ip.protocol, left);
    Key::Four([ip.source.get(), ip.destination.get(), facts | more, ports])
}

fn six(packet: &Packet, l3: usize, length: usize) -> Key {
    let Some(ip) = Ipv6::view(packet.window::<{ Ipv6::LEN }>(l3)) else { return Key::Other };
    let dscp = u32::from(ip.traffic_class() >> 2) << DSCP_AT;
    let end = length.min(Ipv6::LEN + usize::from(ip.payload_length.get()));
    let (facts, (more, ports)) = if ipv6::is_extension(ip.next_header) {
        let whole = packet.bytes().get(l3..l3 + end).unwrap_or_default();
        let Some(upper) = ipv6::upper(whole) else { return Key::Other };
        let fragment = if upper.fragment.is_some() { FRAGMENT } else { 0 } | if upper.later { LATER } else { 0 };
        let rest = whole.get(upper.at..).filter(|_| !upper.later && upper.whole).unwrap_or_default();
        let mut bytes = [0; Tcp::LEN];
        bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        (u32::from(upper.protocol) | fragment, behind(&bytes, upper.protocol, rest.len()))
    } else {
        let left = end.saturating_sub(Ipv6::LEN);
        (u32::from(ip.next_header), behind(packet.window(l3 + Ipv6::LEN), ip.next_header, left))
    };
    let facts = facts | dscp | more;
    let [a, b, c, d] = words(u128::from_be_bytes(ip.source));
    let [e, f, g, h] = words(u128::from_be_bytes(ip.destination));
    Key::Six([a, b, c, d, e, f, g, h, facts, ports])
}

/// What rules look at behind the network header, where so many bytes are left: more facts, and ports.
#[inline(always)]
fn behind(bytes: &[u8; Tcp::LEN], protocol: u8, left: usize) -> (u32, u32) {
    let [a, b, c, d, ..] = *bytes;
    if left < 4 {
        return (0, 0);
    }
    match protocol {
        ipv4::TCP if left > 13 => {
            (HAS_PORTS | HAS_FLAGS | u32::from(bytes[13]) << FLAGS_AT, u32::from_be_bytes([a, b, c, d]))
        }
        ipv4::ICMP | ipv6::ICMPV6 => (HAS_PORTS, u32::from(a) << 16 | u32::from(b)),
        protocol if has_ports(protocol) => (HAS_PORTS, u32::from_be_bytes([a, b, c, d])),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_packet::{HeapPool, Pool};

    /// A packet of IPv4 that is often as most are: header length, length, fragment field, protocol, and all bytes.
    fn packets() -> impl Strategy<Value = (u8, u16, u16, u8, Vec<u8>)> {
        let header = prop_oneof![8 => Just(0x45), 1 => 0x40..=0x4f_u8];
        let protocol =
            prop_oneof![6 => prop::sample::select(vec![6, 17, 33, 132, 136, 1, 58, 47, 4]), 1 => any::<u8>()];
        let fragment = prop_oneof![6 => prop::sample::select(vec![0, 0x4000]), 1 => any::<u16>()];
        (header, 0..100_u16, fragment, protocol, prop::collection::vec(any::<u8>(), 34..100))
    }

    proptest! {
        /// Where packets are as most are, it is the same key; and nearly all are.
        #[test]
        fn plain_packets_have_the_key_that_all_have((header, length, fragment, protocol, mut bytes) in packets()) {
            bytes[0] = header;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
            bytes[9] = protocol;
            let mut packet = HeapPool::new(1, 2048).alloc().unwrap();
            packet.window_mut::<128>(0).copy_from_slice(&[0x20; 128]);
            assert!(packet.set_len(14 + bytes.len()));
            packet.bytes_mut()[14..].copy_from_slice(&bytes);
            let usual = header == 0x45 && fragment & 0x3fff == 0 && !matches!(protocol, 1 | 58);
            packet.bytes_mut()[12..14].copy_from_slice(&[8, 0]);
            let is_short = usize::from(length) < 34 || usize::from(length) > bytes.len();
            match (plain(&packet, 14), Key::of(&packet, 14)) {
                (Some(plain), Key::Four(four)) => prop_assert_eq!(plain, four),
                (None, Key::Four(_)) => prop_assert!(!usual || is_short),
                _ => prop_assert!(false),
            }
            // And of nothing else.
            packet.bytes_mut()[13] = 6;
            prop_assert_eq!(plain(&packet, 14), None);
        }
    }
}
