//! What of a packet rules look at.
//!
//! A fragment that is not the first has addresses, a protocol and a DSCP, but neither ports nor flags nor an ICMP type: no rule that asks for
//! one of these matches it. The same holds where a packet ends before them.
//!
//! A key has bytes of its packet as they stand there, whatever its protocol makes of them: ports are the first four bytes behind the header, flags the
//! byte where TCP has them, and the first half of what are ports elsewhere is the type and the code of ICMP. Rules that ask for one of these name
//! a protocol that has it. So the key of a usual packet is made by moving bytes alone.

use weir_packet::Packet;
use weir_simd::Kernel;
use weir_simd::plain4::{self, Front};
use weir_table::classifier::BATCH;
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
/// Where the DSCP is, behind two bits that mark congestion.
pub(crate) const DSCP_AT: u32 = CLASS_AT + 2;
const CLASS_AT: u32 = 16;
/// It is a fragment.
pub(crate) const FRAGMENT: u32 = 1 << 24;
/// It is not the first one.
pub(crate) const LATER: u32 = 1 << 25;
/// It has neither ports nor a type and a code of ICMP.
pub(crate) const NO_PORTS: u32 = 1 << 26;
/// It has no flags.
pub(crate) const NO_FLAGS: u32 = 1 << 27;

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

/// What tells packets of IPv4 that are as most are, whose keys are made by moving bytes.
pub(crate) struct Fronts {
    /// Version and header length, type of service, total length, as they lie there.
    first: [u32; BATCH],
    /// Identification, flags, fragment offset.
    second: [u32; BATCH],
    /// Bytes of the packet from the network header on.
    length: [i32; BATCH],
}

impl Default for Fronts {
    fn default() -> Fronts {
        Fronts { first: [0; BATCH], second: [0; BATCH], length: [0; BATCH] }
    }
}

/// What is read of one packet: all of it before anything is written, for what is read behind that is read anew.
pub(crate) struct Words {
    first: u32,
    second: u32,
    length: i32,
    key: [u32; FOUR],
}

impl Words {
    /// Those of a packet, whose network header begins at `l3` and is of IPv4.
    #[inline(always)]
    pub(crate) fn of(kernel: Kernel, packet: &Packet, l3: usize) -> Words {
        let front: &Front = packet.window(l3);
        let (words, _) = front.as_chunks();
        let [first, second] = [0, 1].map(|n| words.get(n).map_or(0, |word| u32::from_ne_bytes(*word)));
        let length = packet.len() as i32 - l3 as i32;
        Words { first, second, length, key: plain4::words(kernel, front) }
    }
}

/// Packets that are looked at together.
const GROUP: usize = 8;

/// Set in flags and fragment offset of fragments: there are more, or the offset is not 0 (RFC 791 section 3.1).
const ANY_FRAGMENT: u32 = 0x3fff;

impl Fronts {
    /// Takes note of one packet; answers its key, if it is as most are.
    #[inline(always)]
    pub(crate) fn take(&mut self, at: usize, front: Words) -> [u32; FOUR] {
        let at = at % BATCH;
        (self.first[at], self.second[at], self.length[at]) = (front.first, front.second, front.length);
        front.key
    }

    /// Answers, as a mask, of which of the first `count` packets [`Key::of`] alone knows the key: those in fragments, with options, or too short for all
    /// that rules look at.
    #[inline(always)]
    pub(crate) fn unusual(&self, count: usize) -> u64 {
        let mut unusual = 0;
        for from in (0..BATCH).step_by(GROUP).take(count.div_ceil(GROUP)) {
            let is = |at: usize| self.is_unusual(at % BATCH);
            if (from..from + GROUP).fold(0, |any, at| any | is(at)) != 0 {
                unusual |= (from..count.min(from + GROUP)).filter(|at| is(*at) != 0).fold(0, |mask, at| mask | 1 << at);
            }
        }
        unusual
    }

    /// Anything but 0 if a packet is not as most are. Nothing branches, so that a group are looked at together.
    #[inline(always)]
    fn is_unusual(&self, at: usize) -> u32 {
        let (first, second) = (u32::from_be(self.first[at]), u32::from_be(self.second[at]));
        let total = first & 0xffff;
        let is_short = all_if(total < size_of::<Front>() as u32) | all_if(total as i32 > self.length[at]);
        is_short | (first >> 24 ^ 0x45) | second & ANY_FRAGMENT
    }
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
    let mut facts = u32::from(ip.protocol) | u32::from(ip.tos) << CLASS_AT;
    if ip.is_fragment() {
        facts |= if later { FRAGMENT | LATER } else { FRAGMENT };
    }
    // What follows the IP packet in its frame is none of it.
    let left = if later { 0 } else { length.min(ip.total_len()).saturating_sub(header) };
    // A header and what rules look at behind it fit: at most 22, 60 and 14 bytes.
    let (more, ports) = behind(packet.window(l3 + header), left);
    Key::Four([ip.source.get(), ip.destination.get(), facts | more, ports])
}

fn six(packet: &Packet, l3: usize, length: usize) -> Key {
    let Some(ip) = Ipv6::view(packet.window::<{ Ipv6::LEN }>(l3)) else { return Key::Other };
    let class = u32::from(ip.traffic_class()) << CLASS_AT;
    let end = length.min(Ipv6::LEN + usize::from(ip.payload_length.get()));
    let (facts, (more, ports)) = if ipv6::is_extension(ip.next_header) {
        let whole = packet.bytes().get(l3..l3 + end).unwrap_or_default();
        let Some(upper) = ipv6::upper(whole) else { return Key::Other };
        let fragment = if upper.fragment.is_some() { FRAGMENT } else { 0 } | if upper.later { LATER } else { 0 };
        let rest = whole.get(upper.at..).filter(|_| !upper.later && upper.whole).unwrap_or_default();
        let mut bytes = [0; Tcp::LEN];
        bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        (u32::from(upper.protocol) | fragment, behind(&bytes, rest.len()))
    } else {
        let left = end.saturating_sub(Ipv6::LEN);
        (u32::from(ip.next_header), behind(packet.window(l3 + Ipv6::LEN), left))
    };
    let facts = facts | class | more;
    let [a, b, c, d] = words(u128::from_be_bytes(ip.source));
    let [e, f, g, h] = words(u128::from_be_bytes(ip.destination));
    Key::Six([a, b, c, d, e, f, g, h, facts, ports])
}

/// What rules look at behind the network header, where so many bytes are left: more facts, and ports.
#[inline(always)]
fn behind(bytes: &[u8; Tcp::LEN], left: usize) -> (u32, u32) {
    let [a, b, c, d, ..] = *bytes;
    let ports = u32::from_be_bytes([a, b, c, d]);
    match left {
        0..4 => (NO_PORTS | NO_FLAGS, 0),
        4..14 => (NO_FLAGS, ports),
        _ => (u32::from(bytes[13]) << FLAGS_AT, ports),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::rule::Rule;
    use crate::acl::sets::Sets;
    use proptest::prelude::*;
    use weir_config::Scalar;
    use weir_packet::{HeapPool, Pool};
    use weir_table::classifier::Keys;

    /// A packet of IPv4 that is often as most are: header length, length, fragment field, protocol, and all bytes.
    fn packets() -> impl Strategy<Value = (u8, u16, u16, u8, Vec<u8>)> {
        let header = prop_oneof![8 => Just(0x45), 1 => 0x40..=0x4f_u8];
        let protocol =
            prop_oneof![6 => prop::sample::select(vec![6, 17, 33, 132, 136, 1, 58, 47, 4]), 1 => any::<u8>()];
        let fragment = prop_oneof![12 => prop::sample::select(vec![0, 0x4000]), 1 => prop::sample::select(vec![0x2000, 0x6000, 1]), 1 => any::<u16>()];
        (header, 0..100_u16, fragment, protocol, prop::collection::vec(any::<u8>(), 34..100))
    }

    proptest! {
        /// Where packets are as most are, it is the same key; and nearly all are.
        #[test]
        fn packets_together_have_the_keys_that_each_has(packets in prop::collection::vec(packets(), 1..=BATCH)) {
            let mut pool = HeapPool::new(BATCH, 2048);
            let (mut made, mut expected) = (Vec::new(), Vec::new());
            for (header, length, fragment, protocol, mut bytes) in packets {
                bytes[0] = header;
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
                bytes[9] = protocol;
                let mut packet = pool.alloc().unwrap();
                packet.window_mut::<128>(0).copy_from_slice(&[0x20; 128]);
                assert!(packet.set_len(14 + bytes.len()));
                packet.bytes_mut()[14..].copy_from_slice(&bytes);
                packet.bytes_mut()[12..14].copy_from_slice(&[8, 0]);
                let Key::Four(key) = Key::of(&packet, 14) else { panic!("of IPv4") };
                let usual = header == 0x45 && fragment & 0x3fff == 0;
                let is_short = usize::from(length) < 34 || usize::from(length) > bytes.len();
                expected.push((usual && !is_short).then_some(key));
                made.push(packet);
            }
            for kernel in Kernel::available() {
                let (mut fronts, mut keys) = (Fronts::default(), Keys::default());
                made.iter().enumerate().for_each(|(n, packet)| keys.set(n, fronts.take(n, Words::of(kernel, packet, 14))));
                let others = fronts.unusual(made.len());
                for (n, key) in expected.iter().enumerate() {
                    prop_assert_eq!(others >> n & 1 == 1, key.is_none());
                    prop_assert!(key.is_none_or(|key| key == keys.get(n)));
                }
                prop_assert_eq!(others.checked_shr(expected.len() as u32).unwrap_or(0), 0);
            }
        }
    }

    /// Whether a rule matches a packet of IPv4 with so many bytes of ones behind its header, whose type of service is 0xb9.
    fn matches(rule: &str, protocol: u8, left: usize) -> bool {
        let mut pool = HeapPool::new(1, 2048);
        let mut packet = pool.alloc().unwrap();
        assert!(packet.set_len(14 + 20 + left));
        packet.bytes_mut().fill(0xff);
        packet.bytes_mut()[12..24].copy_from_slice(&[8, 0, 0x45, 0xb9, 0, 20 + left as u8, 0, 0, 0, 0, 64, protocol]);
        let Key::Four(key) = Key::of(&packet, 14) else { panic!("of IPv4") };
        Rule::parse(rule).unwrap().four(&Sets::default()).iter().any(|one| one.matches(&key))
    }

    #[test]
    fn what_a_packet_lacks_no_rule_finds_in_it() {
        for left in [0, 3, 4, 13, 14, 40] {
            let has = [
                ("protocol tcp", 6, true),
                ("dscp ef", 6, true),
                ("dscp 47", 6, false),
                ("protocol tcp to-port 65535", 6, left >= 4),
                ("protocol tcp from-port 1-65535", 6, left >= 4),
                ("protocol tcp flags ack", 6, left >= 14),
                ("protocol tcp flags !ack", 6, false),
                ("protocol udp to-port 65535", 17, left >= 4),
                ("protocol udp to-port 65534", 17, false),
                ("protocol udp to-port 65535", 47, false),
                ("protocol icmp icmp 255", 1, left >= 4),
                ("protocol icmp icmp 255/255", 1, left >= 4),
                ("protocol icmp icmp 255/254", 1, false),
                ("protocol icmp icmp 254", 1, false),
            ];
            for (rule, protocol, expected) in has {
                assert_eq!(matches(&format!("permit {rule}"), protocol, left), expected, "{rule}, {left} bytes");
            }
        }
    }
}
