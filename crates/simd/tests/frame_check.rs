//! The frame kernels against the definition; `ipv4_rules.rs` looks closer at the rules of IPv4.

use proptest::prelude::*;
use weir_simd::Kernel;
use weir_simd::frame_check::{self, BATCH, Destinations, Frame, LinkPattern, NO_FRAME, destination_of};

const MAC: [u8; 6] = [2, 0x11, 0x22, 0x33, 0x44, 0x55];

/// The answer, with the frames' own destinations.
fn check(kernel: Kernel, station: LinkPattern, frames: &[&Frame; BATCH], lengths: &[u16; BATCH], count: usize) -> u64 {
    let destinations = Destinations(frames.map(destination_of));
    let good = frame_check::check(kernel, station, frames, lengths, &destinations, count);
    for (i, (frame, length)) in frames.iter().zip(lengths).enumerate().take(count) {
        assert_eq!(frame_check::check_one(station, frame, *length), good >> i & 1 == 1, "{kernel}: slot {i} alone");
    }
    good
}

/// The rules one by one, in the words of `check`'s description.
fn is_good(frame: &Frame, length: u16) -> bool {
    let (link, ip) = frame.split_at(14);
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let sum: u32 = (0..20).step_by(2).map(|at| u32::from(word(at))).sum();
    let address = |at: usize| !matches!(ip[at], 0 | 127 | 224..=255) && (ip[at], ip[at + 1]) != (169, 254);
    link[..6] == MAC
        && link[12..] == [8, 0]
        && ip[0] == 0x45
        && word(2) >= 20
        && word(2) <= length.saturating_sub(14)
        && sum.is_multiple_of(0xffff)
        && sum > 0
        && ip[8] >= 2
        && address(12)
        && address(16)
}

/// A frame that every rule accepts.
fn good_frame() -> Frame {
    let mut frame = [0; 34];
    frame[..6].copy_from_slice(&MAC);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 8, 0]);
    frame[14..].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
    seal(&mut frame);
    frame
}

/// Sets the checksum as RFC 1071 defines it.
fn seal(frame: &mut Frame) {
    frame[24..26].fill(0);
    let mut sum: u32 = frame[14..].chunks(2).map(|word| u32::from(word[0]) * 256 + u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[24..26].copy_from_slice(&(!sum as u16).to_be_bytes());
}

/// The answer for one frame, in slot `slot` of an otherwise good batch, which must stay good.
fn answer(kernel: Kernel, station: LinkPattern, frame: &Frame, length: u16, slot: usize) -> bool {
    let other = good_frame();
    let mut frames = [&other; BATCH];
    let mut lengths = [60; BATCH];
    frames[slot] = frame;
    lengths[slot] = length;
    let good = check(kernel, station, &frames, &lengths, BATCH);
    assert_eq!(good | 1 << slot, u64::MAX, "{kernel}: a neighbour of slot {slot} changed");
    good >> slot & 1 == 1
}

#[test]
fn every_bit_of_the_link_header_on_each_kernel() {
    for kernel in Kernel::available() {
        for slot in 0..BATCH {
            assert!(answer(kernel, LinkPattern::only(MAC), &good_frame(), 60, slot), "{kernel} {slot}");
        }
        for bit in 0..14 * 8 {
            let mut frame = good_frame();
            frame[bit / 8] ^= 1 << (bit % 8);
            let is_source = (6..12).contains(&(bit / 8));
            let is_type = bit / 8 >= 12;
            assert_eq!(answer(kernel, LinkPattern::only(MAC), &frame, 60, bit % 64), is_source, "{kernel} bit {bit}");
            assert_eq!(answer(kernel, LinkPattern::ANY, &frame, 60, bit % 64), !is_type, "{kernel} bit {bit}");
        }
    }
}

/// A pattern counts exactly the bits of its mask.
#[test]
fn every_bit_of_a_pattern_on_each_kernel() {
    let value = [0xde, 0xad, 0xbe, 0xef, 0x88, 0xa8, 0x20, 0x07, 0x81, 0x00, 0x00, 0x2a, 0x86, 0xdd];
    let mask = [0, 0, 0, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0, 0, 0xff, 0x0f];
    let station = LinkPattern::pattern(value, mask);
    for kernel in Kernel::available() {
        for bit in 0..14 * 8 {
            let mut frame = good_frame();
            frame[..14].copy_from_slice(&value);
            let slot = bit % 64;
            // Those in other slots do not have the pattern.
            let answer = |frame: &Frame| {
                let mut frames = [&NO_FRAME; BATCH];
                frames[slot] = frame;
                check(kernel, station, &frames, &[60; BATCH], BATCH)
            };
            assert_eq!(answer(&frame), 1 << slot, "{kernel}");
            frame[bit / 8] ^= 1 << (bit % 8);
            let counts = mask[bit / 8] >> (bit % 8) & 1 == 1;
            assert_eq!(answer(&frame), u64::from(!counts) << slot, "{kernel} bit {bit}");
        }
    }
}

#[test]
fn link_local_addresses_and_lengths_on_each_kernel() {
    for kernel in Kernel::available() {
        for at in [26, 30] {
            for (first, second) in [(169, 254), (169, 253), (168, 254), (254, 169)] {
                let mut frame = good_frame();
                (frame[at], frame[at + 1]) = (first, second);
                seal(&mut frame);
                let expected = first != 254 && (first, second) != (169, 254);
                assert_eq!(
                    answer(kernel, LinkPattern::only(MAC), &frame, 60, 5),
                    expected,
                    "{kernel} {first}.{second}"
                );
            }
        }
        // The frame's IPv4 packet has 46 bytes.
        for length in 0..100 {
            assert_eq!(
                answer(kernel, LinkPattern::only(MAC), &good_frame(), length, 9),
                length >= 60,
                "{kernel} {length}"
            );
        }
    }
}

/// Lengths may count more or fewer bytes in front of the IPv4 header than those of the Ethernet header.
#[test]
fn lengths_count_from_where_they_are_told_to() {
    for kernel in Kernel::available() {
        for front in [0, 14, 22, 28, 1000] {
            let station = LinkPattern::only(MAC).with_front(front);
            // The frame's IPv4 packet has 46 bytes.
            for length in [0, front / 2, front, front + 45, front + 46, front + 47, u16::MAX] {
                let good = check(kernel, station, &[&good_frame(); BATCH], &[length; BATCH], BATCH);
                assert_eq!(good == u64::MAX, length >= front + 46, "{kernel} {front} {length}");
                assert!(good == 0 || good == u64::MAX);
            }
        }
    }
}

/// Every protocol, every bit of the flags and the offset, and every short length, with the rule that packets have ports and without it.
#[test]
fn packets_without_ports_are_refused_where_they_must_have_them() {
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = good_frame();
        frame[14 + at..14 + at + bytes.len()].copy_from_slice(bytes);
        seal(&mut frame);
        frame
    };
    for kernel in Kernel::available() {
        let is = |frame: &Frame, has_ports: bool, slot: usize| {
            assert!(answer(kernel, LinkPattern::only(MAC), frame, 60, slot), "{kernel}");
            let station = LinkPattern::only(MAC).with_ports();
            assert_eq!(answer(kernel, station, frame, 60, slot), has_ports, "{kernel} {frame:?}");
        };
        for protocol in 0..=255 {
            is(&with(9, &[protocol]), [6, 17].contains(&protocol), usize::from(protocol) % 64);
        }
        for bit in 0..16 {
            // The first two are no fragment's: reserved, and that it must not be one.
            is(&with(6, &(0x8000_u16 >> bit).to_be_bytes()), bit < 2, bit);
        }
        for total in 20..=46_u8 {
            is(&with(2, &[0, total]), total >= 24, usize::from(total));
        }
    }
}

#[test]
fn slots_without_a_packet_and_behind_the_count_are_refused() {
    let frame = good_frame();
    for kernel in Kernel::available() {
        for count in 0..=BATCH + 1 {
            let good = check(kernel, LinkPattern::ANY, &[&frame; BATCH], &[60; BATCH], count);
            assert_eq!(good, u64::MAX.checked_shr(64 - count.min(64) as u32).unwrap_or(0), "{kernel} {count}");
            let good = check(kernel, LinkPattern::ANY, &[&NO_FRAME; BATCH], &[60; BATCH], count);
            assert_eq!(good, 0);
        }
    }
}

prop_compose! {
    /// Good frames with random fields, most of them then damaged in one byte.
    fn frame()(bytes in any::<[u8; 34]>(), at in 0usize..50, damage in 1u8.., raw in prop::bool::weighted(0.1)) -> Frame {
        let mut frame = bytes;
        if !raw {
            frame[..6].copy_from_slice(&MAC);
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[16] &= 0x0f;
            seal(&mut frame);
        }
        if let Some(byte) = frame.get_mut(at) {
            *byte ^= damage;
        }
        frame
    }
}

proptest! {
    #[test]
    fn kernels_agree_with_the_definition(
        frames in prop::collection::vec(frame(), BATCH),
        lengths in prop::collection::vec(0u16..5000, BATCH),
        count in 0..=BATCH,
    ) {
        let refs: [&Frame; BATCH] = std::array::from_fn(|i| &frames[i]);
        let lengths: [u16; BATCH] = std::array::from_fn(|i| lengths[i]);
        let expected = (0..count).fold(0, |mask, i| mask | u64::from(is_good(&frames[i], lengths[i])) << i);
        for kernel in Kernel::available() {
            prop_assert_eq!(check(kernel, LinkPattern::only(MAC), &refs, &lengths, count), expected, "{}", kernel);
        }
    }
}
