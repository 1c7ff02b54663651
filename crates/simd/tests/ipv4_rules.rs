//! The rules of IPv4 that every kernel keeps, against the definition and against the scalar twin.

use proptest::prelude::*;
use weir_simd::Kernel;
use weir_simd::frame_check::{self, BATCH, Destinations, Frame, LinkPattern, destination_of};

type Header = [u8; 20];

/// Answers for headers in frames to whomever, with `lengths` from the start of the header.
fn check(kernel: Kernel, headers: &[&Header; BATCH], lengths: &[u16; BATCH], count: usize) -> u64 {
    let frames = headers.map(|header| {
        let mut frame: Frame = [0; 34];
        frame[12] = 8;
        frame[14..].copy_from_slice(header);
        frame
    });
    let destinations = Destinations(frames.each_ref().map(destination_of));
    let lengths = lengths.map(|length| length.saturating_add(14));
    frame_check::check(kernel, LinkPattern::ANY, &frames.each_ref(), &lengths, &destinations, count)
}

/// A header that every rule accepts, for a packet of `length` bytes.
fn good_header(length: u16, source: u32, destination: u32) -> Header {
    let mut header: Header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[8] = 64;
    header[9] = 17;
    header[12..16].copy_from_slice(&source.to_be_bytes());
    header[16..20].copy_from_slice(&destination.to_be_bytes());
    seal(&mut header);
    header
}

/// Sets the checksum as RFC 1071 defines it.
fn seal(header: &mut Header) {
    header[10..12].fill(0);
    let mut sum: u32 = header.chunks(2).map(|word| u32::from(word[0]) * 256 + u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
}

/// The answer for one header, in slot `slot` of an otherwise good batch, which must stay good.
fn answer(kernel: Kernel, header: &Header, length: u16, slot: usize) -> bool {
    let other = good_header(100, 0x0a00_0001, 0xc000_0201);
    let mut headers = [&other; BATCH];
    let mut lengths = [100; BATCH];
    headers[slot] = header;
    lengths[slot] = length;
    let good = check(kernel, &headers, &lengths, BATCH);
    assert_eq!(good | 1 << slot, u64::MAX, "{kernel}: a neighbour of slot {slot} changed");
    good >> slot & 1 == 1
}

#[test]
fn each_rule_on_each_kernel() {
    let (source, destination) = (0x0a01_0203, 0xc633_6401);
    for (number, kernel) in Kernel::available().enumerate() {
        let base = good_header(60, source, destination);
        for slot in 0..BATCH {
            assert!(answer(kernel, &base, 60, slot), "{kernel} {slot}");
        }
        let slot = 7 * number + 3;
        for byte in 0..=255u8 {
            let mut header = base;
            header[0] = byte;
            seal(&mut header);
            assert_eq!(answer(kernel, &header, 60, slot), byte == 0x45, "{kernel} first byte {byte:#x}");
            let mut header = base;
            header[8] = byte;
            seal(&mut header);
            assert_eq!(answer(kernel, &header, 60, slot), byte > 1, "{kernel} TTL {byte}");
            let address = u32::from(byte) << 24 | 0x00ff_0001;
            let unicast = byte != 0 && byte != 127 && byte < 224;
            let header = good_header(60, address, destination);
            assert_eq!(answer(kernel, &header, 60, slot), unicast, "{kernel} from {byte}/8");
            let header = good_header(60, source, address);
            assert_eq!(answer(kernel, &header, 60, slot), unicast, "{kernel} to {byte}/8");
        }
        for total in [0, 1, 19, 20, 21, 255, 256, 0x1400, 0x7fff, 0x8000, 0xffff] {
            for length in [0, 19, 20, 21, 255, 256, 0x1400, 0x7fff, 0x8000, 0xfff1] {
                let header = good_header(total, source, destination);
                let expected = total >= 20 && total <= length;
                assert_eq!(answer(kernel, &header, length, slot), expected, "{kernel} {total} of {length}");
            }
        }
    }
}

#[test]
fn every_checksum_on_each_kernel() {
    let base = good_header(60, 0xdfff_ffff, 0xdfff_fffe);
    let right = u16::from_be_bytes([base[10], base[11]]);
    for kernel in Kernel::available() {
        for sum in 0..=u16::MAX {
            let mut header = base;
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(answer(kernel, &header, 60, usize::from(sum % 64)), sum == right, "{kernel} {sum:#x}");
        }
    }
}

prop_compose! {
    /// Good headers with random fields, most of them then damaged in one byte.
    fn header()(bytes in any::<[u8; 20]>(), at in 0usize..40, damage in 1u8.., raw in prop::bool::weighted(0.1)) -> Header {
        let mut header = bytes;
        if !raw {
            header[0] = 0x45;
            header[2] &= 0x0f;
            seal(&mut header);
        }
        if let Some(byte) = header.get_mut(at) {
            *byte ^= damage;
        }
        header
    }
}

proptest! {
    #[test]
    fn kernels_agree_with_the_twin(
        headers in prop::collection::vec(header(), BATCH),
        lengths in prop::collection::vec(0u16..5000, BATCH),
        count in 0..=BATCH,
    ) {
        let headers: [&Header; BATCH] = std::array::from_fn(|i| &headers[i]);
        let lengths: [u16; BATCH] = std::array::from_fn(|i| lengths[i]);
        let twin = check(Kernel::SCALAR, &headers, &lengths, count);
        for kernel in Kernel::available() {
            prop_assert_eq!(check(kernel, &headers, &lengths, count), twin, "{}", kernel);
        }
    }
}
