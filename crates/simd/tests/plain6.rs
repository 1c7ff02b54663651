//! The kernels for IPv6 against the definition.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use proptest::prelude::*;
use weir_simd::Kernel;
use weir_simd::frame_check::BATCH;
use weir_simd::plain6::{Frame, NO_FRAME, check, is_six};

const MAC: [u8; 6] = [2, 0x11, 0x22, 0x33, 0x44, 0x55];

/// A frame of 58 bytes that every rule accepts.
fn good_frame() -> Frame {
    let mut frame = [0; 64];
    frame[..6].copy_from_slice(&MAC);
    frame[6..22].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x86, 0xdd, 0x61, 0x23, 0x45, 0x67, 0, 4, 17, 64]);
    frame[22..26].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    frame[38..42].copy_from_slice(&[0x20, 1, 0xd, 0xb9]);
    frame
}

const LENGTH: u16 = 58;

/// The rules one by one, in the words of `check`'s description.
fn said(frame: &Frame, length: u16, station: Option<[u8; 6]>) -> (bool, bool) {
    let is_six = frame[12..14] == [0x86, 0xdd];
    let address = |at: usize| {
        let half = u64::from_be_bytes(frame[at..at + 8].try_into().unwrap());
        (1..0xfe80_0000_0000_0000).contains(&half)
    };
    let is_good = is_six
        && station.is_none_or(|station| frame[..6] == station)
        && frame[14] >> 4 == 6
        && u32::from(frame[18]) * 256 + u32::from(frame[19]) + 54 <= u32::from(length)
        && frame[20] != 0
        && frame[21] >= 2
        && address(22)
        && address(38);
    (is_six, is_good)
}

/// What all kernels say of a frame in each of some slots of an otherwise good batch, which must stay good.
fn agree(frame: &Frame, length: u16) {
    let other = good_frame();
    for kernel in Kernel::available() {
        for station in [None, Some(MAC)] {
            for slot in [0, 31, 63] {
                let (mut frames, mut lengths) = ([&other; BATCH], [LENGTH; BATCH]);
                (frames[slot], lengths[slot]) = (frame, length);
                let (carries_six, is_good) = said(frame, length, station);
                let expected = if is_good { u64::MAX } else { !(1 << slot) };
                assert_eq!(is_six(frame), carries_six);
                assert_eq!(
                    check(kernel, station, &frames, &lengths, BATCH),
                    expected,
                    "{kernel}: {frame:02x?}, {length}"
                );
            }
        }
    }
}

#[test]
fn every_value_of_every_byte_that_a_rule_looks_at() {
    for at in (0..6).chain(12..15).chain(18..54) {
        for byte in 0..=255 {
            let mut frame = good_frame();
            frame[at] = byte;
            agree(&frame, LENGTH);
        }
    }
}

#[test]
fn the_edges_of_addresses_and_lengths() {
    let edges = [0, 1, 0xffff, (0xfe80 << 48) - 1, 0xfe80 << 48, 0xfe7f << 48, 0xff02 << 48, u64::MAX, 1 << 63];
    for at in [22, 38] {
        for half in edges {
            for rest in [0_u64, u64::MAX] {
                let mut frame = good_frame();
                frame[at..at + 8].copy_from_slice(&half.to_be_bytes());
                frame[at + 8..at + 16].copy_from_slice(&rest.to_be_bytes());
                agree(&frame, LENGTH);
            }
        }
    }
    for payload in [0, 1, 4, 5, 255, 256, 0x8000, u16::MAX] {
        for length in [0, 13, 14, 53, 54, 55, 58, 59, 310, u16::MAX] {
            let mut frame = good_frame();
            frame[18..20].copy_from_slice(&payload.to_be_bytes());
            agree(&frame, length);
        }
    }
}

#[test]
fn only_the_frames_that_are_there_are_answered() {
    let (other, lengths) = (good_frame(), [LENGTH; BATCH]);
    for kernel in Kernel::available() {
        for count in 0..=BATCH {
            let all = u64::MAX.checked_shr(64 - count as u32).unwrap_or(0);
            assert_eq!(check(kernel, Some(MAC), &[&other; BATCH], &lengths, count), all);
            assert_eq!(check(kernel, None, &[&NO_FRAME; BATCH], &lengths, count), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_frames_are_told_alike(edits in proptest::collection::vec((0_usize..64, any::<u8>()), 0..4), length in 40_u16..70) {
        let mut frame = good_frame();
        edits.into_iter().for_each(|(at, byte)| frame[at] = byte);
        agree(&frame, length);
    }

    #[test]
    fn any_bytes_are_told_alike(halves in proptest::array::uniform2(any::<[u8; 32]>()), length: u16) {
        let mut frame = [0; 64];
        frame[..32].copy_from_slice(&halves[0]);
        frame[32..].copy_from_slice(&halves[1]);
        agree(&frame, length);
    }
}
