//! The flow hash of an IPv4 or IPv6 packet: what spreads flows over equal-cost paths, workers and links.
//!
//! Packets of one flow get one hash, so that they keep their order on one path. A flow is (source, destination,
//! protocol) and, where the packet is whole and the protocol has ports, both ports. Fragments are hashed without ports, **the
//! first one too**: only it carries them, and it must go the way of the others. In IPv6 the flow label counts as well (RFC 6438).

use crate::{Ipv4, Ipv6, View, ipv4};

/// Odd numbers without structure (the fractional parts of the square roots of 2 and 3): they keep zeroes in the packet from making
/// a product of zero.
const KEY_A: u64 = 0x6a09_e667_f3bc_c909;
const KEY_B: u64 = 0xbb67_ae85_84ca_a73b;

/// Whether a protocol starts with two 16-bit port numbers.
#[inline]
const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, ipv4::UDP | ipv4::TCP | ipv4::SCTP | ipv4::DCCP | ipv4::UDP_LITE)
}

/// The flow hash of the packet at the start of `window`, of which `received` bytes arrived. Every value of every packet
/// is answered; what lies beyond `received` is not looked at.
///
/// `seed` should differ between routers that follow each other: with the same hash the second one would see only the
/// flows that the first one gave the same number, and use one of its paths. All bits of the result are equally good.
///
/// `N` is at least 64, so that the ports behind the longest header are inside (checked when compiled).
#[inline(always)]
pub fn hash<const N: usize>(window: &[u8; N], received: usize, seed: u64) -> u32 {
    const { assert!(N >= ipv4::MAX_HEADER + 4) };
    let Some(ip) = Ipv4::view(window) else { return 0 };
    let received = received.min(ip.total_len());
    let whole = has_ports(ip.protocol) && !ip.is_fragment();
    let ports = if !whole || received < ip.header_len() + 4 {
        0
    } else if ip.version_ihl == 0x45 {
        window.get(20..24).and_then(|bytes| bytes.first_chunk()).map_or(0, |ports| u32::from_ne_bytes(*ports))
    } else {
        ports_after_options(window, ip.header_len())
    };
    if received < Ipv4::LEN { 0 } else { mix(addresses(ip), u64::from(ip.protocol) << 32 | u64::from(ports), seed) }
}

/// As [`hash`], of an IPv6 packet. Ports count where they follow the header at once: what has an extension header in front of them,
/// a fragment among others, is told from others by its addresses, its flow label and the kind of that header.
///
/// `N` is at least 44, so that the ports behind the header are inside (checked when compiled).
#[inline(always)]
pub fn hash6<const N: usize>(window: &[u8; N], received: usize, seed: u64) -> u32 {
    const { assert!(N >= Ipv6::LEN + 4) };
    let Some(ip) = Ipv6::view(window) else { return 0 };
    if received < Ipv6::LEN {
        return 0;
    }
    let behind = (received - Ipv6::LEN).min(usize::from(ip.payload_length.get()));
    let ports = window.get(Ipv6::LEN..).and_then(|rest| rest.first_chunk());
    let ports =
        ports.filter(|_| has_ports(ip.next_header) && behind >= 4).map_or(0, |ports| u32::from_ne_bytes(*ports));
    let [source, destination] = [halves(&ip.source), halves(&ip.destination)];
    let networks = fold(source[0] ^ KEY_A ^ seed, destination[0] ^ KEY_B);
    let hosts = fold(source[1] ^ KEY_B ^ seed, destination[1] ^ KEY_A);
    let rest = u64::from(ip.flow_label()) << 40 | u64::from(ip.next_header) << 32 | u64::from(ports);
    mix(networks.rotate_left(32).wrapping_add(hosts), rest, seed)
}

/// An address as it lies in memory: its network, and its host in there.
#[inline]
fn halves(address: &[u8; 16]) -> [u64; 2] {
    let (halves, _) = address.as_chunks::<8>();
    [0, 1].map(|n| halves.get(n).map_or(0, |half| u64::from_ne_bytes(*half)))
}

/// Both addresses as they lie in memory; byte order does not matter to a hash.
#[inline]
fn addresses(ip: &Ipv4) -> u64 {
    let source = u32::from_ne_bytes(ip.source.to_bytes());
    let destination = u32::from_ne_bytes(ip.destination.to_bytes());
    u64::from(source) | u64::from(destination) << 32
}

#[cold]
fn ports_after_options(window: &[u8], at: usize) -> u32 {
    let bytes = window.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |ports| u32::from_ne_bytes(*ports))
}

/// An IPv4 address as a number without structure.
#[inline]
pub(crate) fn address(address: crate::U32) -> u64 {
    fold(u64::from(u32::from_ne_bytes(address.to_bytes())) ^ KEY_A, KEY_B)
}

/// An IPv6 address as a number without structure.
#[inline]
pub fn address6(address: &[u8; 16]) -> u64 {
    let [network, host] = halves(address);
    fold(network ^ KEY_A, KEY_B).rotate_left(32).wrapping_add(fold(host ^ KEY_B, KEY_A))
}

/// The hash of one number; `seed` as in [`hash`].
#[inline]
pub fn one(number: u64, seed: u64) -> u32 {
    mix(number, 0, seed)
}

/// Multiplies to 128 bits and folds, twice: the first product spreads each input bit, the second evens out what the low bits of a
/// product know little about.
#[inline]
fn mix(addresses: u64, rest: u64, seed: u64) -> u32 {
    let hash = fold(addresses ^ KEY_A, rest ^ KEY_B ^ seed);
    (fold(hash, KEY_A) >> 16) as u32
}

/// Multiplies to 128 bits and adds the halves without carry.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv6;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    struct Flow {
        addresses: [u8; 8],
        protocol: u8,
        ports: [u8; 4],
    }

    /// A packet of `flow` with `words` words of options and `fill` everywhere else.
    fn packet(flow: Flow, words: usize, fill: u8) -> [u8; 64] {
        let mut bytes = [fill; 64];
        bytes[0] = 0x45 + words as u8;
        bytes[2..4].copy_from_slice(&64u16.to_be_bytes());
        bytes[6..8].fill(0);
        bytes[9] = flow.protocol;
        bytes[12..20].copy_from_slice(&flow.addresses);
        bytes[20 + words * 4..24 + words * 4].copy_from_slice(&flow.ports);
        bytes
    }

    fn flow() -> impl Strategy<Value = Flow> {
        let protocol = prop_oneof![Just(6), Just(17), Just(1), any::<u8>()];
        (any::<[u8; 8]>(), protocol, any::<[u8; 4]>()).prop_map(|(addresses, protocol, ports)| Flow {
            addresses,
            protocol,
            ports,
        })
    }

    proptest! {
        #[test]
        fn only_the_five_tuple_counts(flow in flow(), words in 0usize..=10, fill: u8, other: u8, seed: u64) {
            let one = hash(&packet(flow, words, fill), 64, seed);
            prop_assert_eq!(one, hash(&packet(flow, words, other), 64, seed));
            prop_assert_eq!(one, hash(&packet(flow, 0, other), 64, seed), "options do not matter");
        }

        #[test]
        fn all_fragments_of_a_packet_hash_alike_whatever_they_carry(
            flow in flow(), words in 0usize..=10, ports: [u8; 4], offset in 1u16..0x2000, seed: u64,
        ) {
            let mut first = packet(flow, words, 1);
            first[6] = 0x20;
            let mut later = packet(Flow { ports, ..flow }, 0, 2);
            later[6..8].copy_from_slice(&offset.to_be_bytes());
            prop_assert_eq!(hash(&first, 64, seed), hash(&later, 64, seed));
            let mut shorter = later;
            shorter[2..4].copy_from_slice(&20u16.to_be_bytes());
            prop_assert_eq!(hash(&shorter, 20, seed), hash(&later, 64, seed));
        }

        #[test]
        fn any_bytes_are_answered_and_what_did_not_arrive_is_not_looked_at(
            bytes in proptest::array::uniform32(any::<u16>()), received in 0usize..64, stale: u8,
        ) {
            let mut window = [0; 64];
            for (to, from) in window.chunks_mut(2).zip(bytes) {
                to.copy_from_slice(&from.to_be_bytes());
            }
            let before = hash(&window, received, 1);
            window[received..].fill(stale);
            prop_assert!(received < 20 || before == hash(&window, received, 1));
        }

        /// Ports count only if all four bytes are there, by what arrived and by total length: padding is no port.
        #[test]
        fn ports_that_are_not_there_do_not_count(flow in flow(), other: [u8; 4], words in 0usize..=10, there in 0u16..4) {
            prop_assume!(flow.ports[usize::from(there)..] != other[usize::from(there)..]);
            let mut padding = flow;
            padding.ports[usize::from(there)..].copy_from_slice(&other[usize::from(there)..]);
            let length = 20 + words as u16 * 4 + there;
            let of = |flow, total: u16, received: u16| {
                let mut bytes = packet(flow, words, 0);
                bytes[2..4].copy_from_slice(&total.to_be_bytes());
                hash(&bytes, received.into(), 0)
            };
            prop_assert_eq!(of(flow, length, 64), of(padding, length, 64));
            prop_assert_eq!(of(flow, 64, length), of(padding, 64, length));
            let whole = 24 + words as u16 * 4;
            prop_assert_eq!(of(flow, whole, whole) != of(padding, whole, whole), has_ports(flow.protocol));
        }

        #[test]
        fn each_bit_of_the_tuple_changes_the_hash(flow in flow(), bit in 0usize..64) {
            let one = hash(&packet(flow, 0, 0), 64, 0);
            let mut other = flow;
            other.addresses[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(one, hash(&packet(other, 0, 0), 64, 0));
            let mut other = flow;
            other.ports[bit / 16] ^= 1 << (bit % 8);
            prop_assert_eq!(one != hash(&packet(other, 0, 0), 64, 0), has_ports(flow.protocol));
        }
    }

    /// Counts in `buckets` buckets must look like chance: the chi-squared statistic has mean `buckets` - 1 and deviation
    /// sqrt(2 (buckets - 1)); six deviations is far out, and the test is deterministic.
    fn assert_even(hashes: impl Iterator<Item = u32>, buckets: u32, what: &str) {
        let mut counts = vec![0u32; buckets as usize];
        let mut total = 0u32;
        for hash in hashes {
            counts[(hash % buckets) as usize] += 1;
            total += 1;
        }
        let expected = f64::from(total) / f64::from(buckets);
        let chi: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        let freedom = f64::from(buckets - 1);
        assert!(chi < freedom + 6.0 * (2.0 * freedom).sqrt(), "{what}: chi-squared {chi:.0} over {buckets} buckets");
    }

    /// What is a flow in IPv6.
    #[derive(Clone, Copy, Debug)]
    struct Flow6 {
        addresses: [u8; 32],
        label: u32,
        next: u8,
        ports: [u8; 4],
    }

    fn packet6(flow: Flow6, fill: u8) -> [u8; 64] {
        let mut bytes = [fill; 64];
        bytes[..4].copy_from_slice(&(6 << 28 | u32::from(fill) << 20 | flow.label).to_be_bytes());
        bytes[4..6].copy_from_slice(&24_u16.to_be_bytes());
        bytes[6] = flow.next;
        bytes[8..40].copy_from_slice(&flow.addresses);
        bytes[40..44].copy_from_slice(&flow.ports);
        bytes
    }

    fn flow6() -> impl Strategy<Value = Flow6> {
        let next = prop_oneof![Just(6), Just(17), Just(ipv6::FRAGMENT), any::<u8>()];
        (any::<[u8; 32]>(), 0_u32..1 << 20, next, any::<[u8; 4]>()).prop_map(|(addresses, label, next, ports)| Flow6 {
            addresses,
            label,
            next,
            ports,
        })
    }

    proptest! {
        #[test]
        fn in_ipv6_only_the_flow_counts(flow in flow6(), fill: u8, other: u8, received in 44_usize..=64, seed: u64) {
            prop_assert_eq!(hash6(&packet6(flow, fill), 64, seed), hash6(&packet6(flow, other), received, seed));
        }

        #[test]
        fn in_ipv6_what_is_not_there_does_not_count(flow in flow6(), other: [u8; 4], received in 0_usize..44, seed: u64) {
            let other = Flow6 { ports: other, ..flow };
            prop_assert_eq!(hash6(&packet6(flow, 0), received, seed), hash6(&packet6(other, 1), received, seed));
            let cut = |flow| {
                let mut bytes = packet6(flow, 0);
                bytes[4..6].copy_from_slice(&3_u16.to_be_bytes());
                hash6(&bytes, 64, seed)
            };
            prop_assert_eq!(cut(flow), cut(other));
        }

        #[test]
        fn in_ipv6_each_bit_of_the_flow_changes_the_hash(flow in flow6(), bit in 0_usize..256, seed: u64) {
            let one = hash6(&packet6(flow, 0), 64, seed);
            let mut other = flow;
            other.addresses[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(one, hash6(&packet6(other, 0), 64, seed));
            let other = Flow6 { label: flow.label ^ 1 << (bit % 20), ..flow };
            prop_assert_ne!(one, hash6(&packet6(other, 0), 64, seed));
            let mut other = flow;
            other.ports[bit / 8 % 4] ^= 1 << (bit % 8);
            prop_assert_eq!(one != hash6(&packet6(other, 0), 64, seed), has_ports(flow.next));
        }
    }

    #[test]
    fn neighbouring_flows_of_ipv6_spread_evenly() {
        type Vary6 = fn(u32, &mut Flow6);
        let variations: [(&str, Vary6); 5] = [
            ("source ports", |n, flow| flow.ports[..2].copy_from_slice(&(n as u16).to_be_bytes())),
            ("labels", |n, flow| flow.label = n),
            ("hosts", |n, flow| flow.addresses[14..16].copy_from_slice(&(n as u16).to_be_bytes())),
            ("networks", |n, flow| flow.addresses[4..6].copy_from_slice(&(n as u16).to_be_bytes())),
            ("both hosts", |n, flow| {
                flow.addresses[15] = n as u8;
                flow.addresses[31] = (n >> 8) as u8;
            }),
        ];
        for (what, vary) in variations {
            for buckets in [2, 3, 7, 64] {
                let hashes = (0..65_536).map(|n| {
                    let mut flow = Flow6 { addresses: [0x20; 32], label: 0, next: 17, ports: [0; 4] };
                    vary(n, &mut flow);
                    hash6(&packet6(flow, 0), 64, 0)
                });
                assert_even(hashes, buckets, what);
            }
        }
    }

    type Vary = fn(u32, &mut Flow);

    #[test]
    fn neighbouring_flows_spread_evenly() {
        let udp = |number: u32, vary: Vary| {
            let mut flow = Flow { addresses: [10, 0, 0, 1, 10, 0, 0, 2], protocol: 17, ports: [0; 4] };
            vary(number, &mut flow);
            packet(flow, 0, 0)
        };
        let variations: [(&str, Vary); 4] = [
            ("source ports", |n, flow| flow.ports[..2].copy_from_slice(&(n as u16).to_be_bytes())),
            ("destination ports", |n, flow| flow.ports[2..].copy_from_slice(&(n as u16).to_be_bytes())),
            ("hosts", |n, flow| flow.addresses[2..4].copy_from_slice(&(n as u16).to_be_bytes())),
            ("both addresses", |n, flow| {
                flow.addresses[3] = n as u8;
                flow.addresses[7] = (n >> 8) as u8;
            }),
        ];
        for (what, vary) in variations {
            for buckets in [2, 3, 7, 64, 256] {
                for shift in [0, 16, 24] {
                    let hashes = (0..65_536).map(|n| hash(&udp(n, vary), 64, 0) >> shift);
                    if buckets == 256 || shift < 24 {
                        assert_even(hashes, buckets, what);
                    }
                }
            }
        }
    }

    /// The flows that one router sends down one of its two paths must spread again at a router with another seed.
    #[test]
    fn seeds_decorrelate_routers() {
        let of = |n: u32, seed| {
            let flow = Flow { addresses: [10, 0, 0, 1, 10, 0, 0, 2], protocol: 6, ports: n.to_be_bytes() };
            hash(&packet(flow, 0, 0), 64, seed)
        };
        let one_path = (0..100_000).filter(|&n| of(n, 1) % 2 == 0);
        assert_even(one_path.map(|n| of(n, 2)), 2, "second router");
    }
}
