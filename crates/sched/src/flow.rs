//! Which flow a frame belongs to, for queues in which flows take turns.

use weir_wire::{flow, spread};

/// The number of a frame's flow: that of its addresses, protocol and ports, or of its stations where it is no IP packet. `seed` is what outsiders do not
/// know, so that they cannot choose flows that share a number.
pub(crate) fn number(frame: &[u8; spread::WINDOW], len: usize, seed: u64) -> u32 {
    let stations = || {
        let mut both = [0; 16];
        both.iter_mut().zip(frame).take(12).for_each(|(to, from)| *to = *from);
        flow::one(flow::address6(&both), seed)
    };
    spread::hash(spread::Key::Flow, frame, len, seed).unwrap_or_else(stations)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of UDP between these addresses and ports, with these tags.
    fn frame(six: bool, tags: &[u16], ends: [u8; 2], ports: [u8; 2], fragment: u16) -> [u8; spread::WINDOW] {
        let mut bytes = [2; 12].to_vec();
        tags.iter().for_each(|tag| bytes.extend([tag.to_be_bytes(), [0, 7]].concat()));
        if six {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, 17, 64]);
            ends.iter().for_each(|end| bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, *end]));
        } else {
            bytes.extend([8, 0, 0x45, 0, 0, 60, 0, 9]);
            bytes.extend(fragment.to_be_bytes());
            bytes.extend([64, 17, 0, 0]);
            ends.iter().for_each(|end| bytes.extend([10, 0, 0, *end]));
        }
        ports.iter().for_each(|port| bytes.extend([4, *port]));
        let mut whole = [0; spread::WINDOW];
        whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        whole
    }

    fn of(frame: &[u8; spread::WINDOW]) -> u32 {
        number(frame, frame.len(), 7)
    }

    #[test]
    fn what_has_the_same_ends_is_one_flow_whatever_its_tags() {
        for six in [false, true] {
            let plain = of(&frame(six, &[], [1, 2], [3, 4], 0));
            for tags in [&[0x8100][..], &[0x88a8, 0x8100]] {
                assert_eq!(of(&frame(six, tags, [1, 2], [3, 4], 0)), plain);
            }
            for (ends, ports) in [([1, 3], [3, 4]), ([2, 1], [3, 4]), ([1, 2], [3, 5]), ([1, 2], [4, 3])] {
                assert_ne!(of(&frame(six, &[], ends, ports, 0)), plain, "{ends:?} {ports:?}");
            }
            assert_ne!(number(&frame(six, &[], [1, 2], [3, 4], 0), 128, 8), plain, "another secret");
        }
        // All fragments of a packet are of one flow: the first (more of them follow) and a later one, where ports would be data.
        let [first, later] =
            [0x2000, 0x0010].map(|fragment| of(&frame(false, &[], [1, 2], [fragment as u8, 4], fragment)));
        assert_eq!(first, later);
    }

    #[test]
    fn what_is_not_ip_is_told_apart_by_its_stations() {
        let arp = |station: u8, rest: u8| {
            let mut bytes = [rest; spread::WINDOW];
            bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, station, 8, 6]);
            of(&bytes)
        };
        assert_eq!(arp(1, 0), arp(1, 9));
        assert_ne!(arp(1, 0), arp(2, 0));
    }
}
