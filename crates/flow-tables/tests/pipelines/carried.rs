//! Packets of ARP, ICMP and neighbour discovery, and of what is below tags and labels.

use proptest::prelude::*;

use super::PORTS;

/// ARP, and ICMP of both versions, behind no tag or one, with checksums that are anything.
pub fn arp_or_icmp() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let end = proptest::collection::vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 28);
    let shape = (prop::sample::select(vec![1_u8, 58, 0]), prop::sample::select(vec![0_u8, 1, 2, 64]), any::<bool>());
    (1..=PORTS, shape, end, prop::option::weighted(0.2, 14_usize..70)).prop_map(
        |(port, (protocol, ttl, is_tagged), end, length)| {
            let (kind, headers): (u16, Vec<u8>) = match protocol {
                1 => (0x0800, vec![0x45, 0, 0, 48, 0, 0, 0, 0, ttl, 1, end[0], 9, 192, 0, 2, 1, 10, 0, 0, 1]),
                58 => (0x86dd, [&[0x60, 0, 0, 0, 0, 28, 58, ttl][..], &[0x20; 32]].concat()),
                _ => (0x0806, vec![0, 1, 8, 0, 6, if ttl == 0 { 5 } else { 4 }]),
            };
            let mut frame = vec![2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
            frame.extend(is_tagged.then_some([0x81, 0, 0, 1]).into_iter().flatten());
            frame.extend([&kind.to_be_bytes()[..], &headers, &end].concat());
            frame.truncate(length.unwrap_or(usize::MAX));
            (port, frame)
        },
    )
}

/// What neighbours say, behind no tag or one: a target, and options of which the one that is asked for is the first, a later one, or missing. Checksums are
/// anything, and lengths are right or not.
pub fn of_neighbours() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let units = prop_oneof![8 => Just(1_u8), 1 => Just(2), 1 => Just(0)];
    // Of the kind that is asked for, most often.
    let option = (prop::sample::select(vec![0_u8, 1, 1, 2, 2, 2]), units);
    let shape = (
        prop::sample::select(vec![135_u8, 136, 133]),
        proptest::collection::vec(option, 0..3),
        prop::sample::select(vec![1_u8, 64]),
        prop_oneof![4 => Just(0_usize), 1 => Just(1), 1 => Just(2)],
    );
    let rest = (prop::option::weighted(0.1, 0_u8..40), prop::option::weighted(0.1, 14_usize..110), any::<bool>());
    let bytes = proptest::collection::vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 64);
    (1..=PORTS, shape, rest, bytes).prop_map(|(port, (kind, options, hops, tags), (said, length, is_right), bytes)| {
        let mut message = vec![kind, 0, bytes[0], bytes[1], 0, 0, 0, 0];
        message.extend(&bytes[2..18]);
        for (at, (is, units)) in options.into_iter().enumerate() {
            let is = if at == 0 && is == 2 { kind.wrapping_sub(134) } else { is };
            let mut all = vec![is, units];
            all.extend(bytes.iter().skip(20).take(usize::from(units.max(1)) * 8 - 2));
            message.extend(all);
        }
        let said = said.unwrap_or(message.len() as u8);
        let mut packet = vec![0x60, 0, 0, 0, 0, said, 58, hops];
        packet.extend(&bytes[32..64]);
        if is_right {
            message[2..4].fill(0);
            let words = [&packet[8..], &[0, message.len() as u8, 0, 58], &message[..]].concat();
            let sum: u32 = words.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
            let sum = (sum >> 16) + (sum & 0xffff);
            message[2..4].copy_from_slice(&(!(sum + (sum >> 16)) as u16).to_be_bytes());
        }
        let mut frame = vec![2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 1]));
        frame.extend([&[0x86, 0xdd][..], &packet, &message].concat());
        frame.truncate(length.unwrap_or(usize::MAX));
        (port, frame)
    })
}

/// IP with TCP, UDP, SCTP or ICMP below tags and MPLS entries, of which the last one says so most often; checksums are anything, and lengths are right or not.
pub fn below_labels() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let is_last = prop::option::weighted(0.1, any::<bool>());
    let entries = proptest::collection::vec((0_u8..3, is_last, prop::sample::select(vec![1_u8, 2, 64, 64])), 1..3);
    let outside = (prop::sample::select(vec![0_u8, 0, 1, 2]), entries);
    let protocol = prop::sample::select(vec![6_u8, 17, 132, 132, 1, 58]);
    let inside = (any::<bool>(), protocol, prop::sample::select(vec![1_u8, 64, 64]), 0_u8..40);
    let rest = (prop::option::weighted(0.1, 0_u8..60), prop::option::weighted(0.3, 18_usize..120));
    let end = proptest::collection::vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 64);
    (1..=PORTS, outside, inside, rest, end).prop_map(
        |(port, (tags, entries), (is_v6, protocol, ttl, carried), (said, length), end)| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
            (0..tags).for_each(|tag| frame.extend([0x81, 0, 0x60, tag]));
            frame.extend([0x88, 0x47]);
            let count = entries.len();
            for (nth, (label, is_last, ttl)) in (1..).zip(entries) {
                frame.extend([0, 0, label << 4 | u8::from(is_last.unwrap_or(nth == count)), ttl]);
            }
            let said = said.unwrap_or(24 + carried);
            if is_v6 {
                frame.extend([0x60, 0, 0, 0, 0, said, protocol, ttl]);
                frame.extend([0x20; 32]);
            } else {
                frame.extend([0x45, 0, 0, 20 + said, 0, 0, 0, 0, ttl, protocol, end[0], 9, 192, 0, 2, 1, 10, 0, 0, 1]);
            }
            frame.extend(&end[..usize::from(24 + carried)]);
            frame.truncate(length.unwrap_or(usize::MAX));
            (port, frame)
        },
    )
}
