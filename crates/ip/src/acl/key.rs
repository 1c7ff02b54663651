//! What of a packet rules look at.
//!
//! A fragment that is not the first has addresses, a protocol and a DSCP, but neither ports nor flags nor an ICMP type: no rule that asks for
//! one of these matches it. The same holds where a packet ends before them.

use weir_packet::Packet;
use weir_table::classifier::{BATCH, Keys};
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

/// Protocols that have ports in their first four bytes.
const PORTED: [u8; 5] = [ipv4::TCP, ipv4::UDP, ipv4::UDP_LITE, ipv4::SCTP, ipv4::DCCP];

/// Whether a protocol has ports in its first four bytes.
pub(crate) fn has_ports(protocol: u8) -> bool {
    PORTED.contains(&protocol)
}

/// What keys are made of, of packets of IPv4 as most are: words as they lie in packets.
pub(crate) struct Fronts {
    /// Version and header length, type of service, total length.
    first: [u32; BATCH],
    /// Flags and fragment offset, TTL, protocol.
    second: [u32; BATCH],
    source: [u32; BATCH],
    destination: [u32; BATCH],
    /// The first bytes behind the header.
    ports: [u32; BATCH],
    /// Where TCP has its flags.
    flags: [u32; BATCH],
    /// Bytes of the packet from the network header on.
    length: [i32; BATCH],
}

impl Default for Fronts {
    fn default() -> Fronts {
        let none = [0; BATCH];
        let (first, second, source, destination) = (none, none, none, none);
        Fronts { first, second, source, destination, ports: none, flags: none, length: [0; BATCH] }
    }
}

/// Bytes of a packet that are looked at: a header without options, and all of TCP up to its flags.
const FRONT: usize = Ipv4::LEN + 14;

/// Packets whose keys are made together.
const GROUP: usize = 8;

/// Set in flags, fragment offset, TTL and protocol of fragments: there are more, or the offset is not 0 (RFC 791 section 3.1).
const ANY_FRAGMENT: u32 = 0x3fff_0000;

impl Fronts {
    /// Takes what is needed of one packet, whose network header begins at `l3` and is of IPv4.
    #[inline(always)]
    pub(crate) fn set(&mut self, at: usize, packet: &Packet, l3: usize) {
        let at = at % BATCH;
        let bytes = packet.window::<FRONT>(l3);
        self.first[at] = word_at::<0>(bytes);
        self.second[at] = word_at::<6>(bytes);
        self.source[at] = word_at::<12>(bytes);
        self.destination[at] = word_at::<16>(bytes);
        self.ports[at] = word_at::<20>(bytes);
        self.flags[at] = bytes[FRONT - 1].into();
        self.length[at] = packet.len() as i32 - l3 as i32;
    }

    /// Makes the first `count` keys. Answers, as a mask, of which packets [`Key::of`] alone knows the key: those in fragments, of ICMP, with
    /// options, or too short for all that rules look at.
    #[inline(always)]
    pub(crate) fn keys(&self, count: usize, keys: &mut Keys<FOUR>) -> u64 {
        let mut others = 0;
        for from in (0..BATCH).step_by(GROUP).take(count.div_ceil(GROUP)) {
            let mut unusual = 0;
            for at in from..from + GROUP {
                let (key, is_unusual) = self.key(at % BATCH);
                keys.set(at, key);
                unusual |= is_unusual;
            }
            if unusual != 0 {
                others |= (from..count.min(from + GROUP))
                    .filter(|at| self.key(at % BATCH).1 != 0)
                    .fold(0, |mask, at| mask | 1 << at);
            }
        }
        others
    }

    /// The key of one packet, and anything but 0 if it is not as most are. Nothing branches, so that a group are looked at together, and protocols that
    /// take turns cost nothing.
    #[inline(always)]
    fn key(&self, at: usize) -> ([u32; FOUR], u32) {
        let (first, second) = (u32::from_be(self.first[at]), u32::from_be(self.second[at]));
        let (total, protocol) = (first & 0xffff, second & 0xff);
        let is = |number: u8| all_if(protocol == u32::from(number));
        let has_ports = PORTED.iter().fold(0, |any, number| any | is(*number));
        let behind = has_ports & HAS_PORTS | is(ipv4::TCP) & (HAS_FLAGS | self.flags[at] << FLAGS_AT);
        let facts = protocol | (first >> 18 & 0x3f) << DSCP_AT | behind;
        let is_short = all_if(total < FRONT as u32) | all_if(total as i32 > self.length[at]);
        let is_other = is(ipv4::ICMP) | is(ipv6::ICMPV6) | (first >> 24 ^ 0x45) | second & ANY_FRAGMENT;
        let [source, destination, ports] = [self.source[at], self.destination[at], self.ports[at]].map(u32::from_be);
        ([source, destination, facts, has_ports & ports], is_short | is_other)
    }
}

/// Four bytes as they lie there.
#[inline(always)]
fn word_at<const AT: usize>(bytes: &[u8; FRONT]) -> u32 {
    const { assert!(AT + 4 <= FRONT) };
    u32::from_ne_bytes([bytes[AT], bytes[AT + 1], bytes[AT + 2], bytes[AT + 3]])
}

/// All bits, or none.
#[inline(always)]
fn all_if(yes: bool) -> u32 {
    if yes { u32::MAX } else { 0 }
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
        fn packets_together_have_the_keys_that_each_has(packets in prop::collection::vec(packets(), 1..=BATCH)) {
            let (mut pool, mut fronts, mut keys) = (HeapPool::new(BATCH, 2048), Fronts::default(), Keys::default());
            let mut expected = Vec::new();
            for (n, (header, length, fragment, protocol, mut bytes)) in packets.into_iter().enumerate() {
                bytes[0] = header;
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
                bytes[9] = protocol;
                let mut packet = pool.alloc().unwrap();
                packet.window_mut::<128>(0).copy_from_slice(&[0x20; 128]);
                assert!(packet.set_len(14 + bytes.len()));
                packet.bytes_mut()[14..].copy_from_slice(&bytes);
                packet.bytes_mut()[12..14].copy_from_slice(&[8, 0]);
                fronts.set(n, &packet, 14);
                let Key::Four(key) = Key::of(&packet, 14) else { panic!("of IPv4") };
                let usual = header == 0x45 && fragment & 0x3fff == 0 && !matches!(protocol, 1 | 58);
                let is_short = usize::from(length) < 34 || usize::from(length) > bytes.len();
                expected.push((usual && !is_short).then_some(key));
            }
            let others = fronts.keys(expected.len(), &mut keys);
            for (n, key) in expected.iter().enumerate() {
                prop_assert_eq!(others >> n & 1 == 1, key.is_none());
                prop_assert!(key.is_none_or(|key| key == keys.get(n)));
            }
            prop_assert_eq!(others.checked_shr(expected.len() as u32).unwrap_or(0), 0);
        }
    }
}
