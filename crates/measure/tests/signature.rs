//! Signatures: what is written is read again, every change is noticed that the check promises to notice, and sums above
//! stay the same.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use proptest::prelude::*;
use weir_measure::signature::{Form, Signature, Signer, distance, read};
use weir_wire::checksum::checksum;

fn forms() -> impl Strategy<Value = Form> {
    proptest::sample::select(&Form::ALL[..])
}

fn lower(number: u64, bits: u32) -> u64 {
    (u128::from(number) % (1 << bits)) as u64
}

/// A packet of `ahead` bytes of something, `covered` bytes of payload that the check covers, and the signature.
fn packet(form: Form, ahead: &[u8], payload: &[u8], stream: u16, sequence: u64, nanos: u64) -> Vec<u8> {
    let mut packet = [ahead, payload, &vec![0xaa; form.len()]].concat();
    assert!(Signer::new(form, stream, payload).write(&mut packet, sequence, nanos));
    assert_eq!(packet[..ahead.len() + payload.len()], [ahead, payload].concat());
    packet
}

#[test]
fn the_layout_is_as_documented() {
    let full = packet(Form::Full, &[], &[], 0x1234, 0x9901_0203_0405, 0xffa1_a2a3_a4a5);
    assert_eq!(full[..5], [0xa1, 0xa2, 0xa3, 0xa4, 0xa5]);
    assert_eq!(full[5..10], [1, 2, 3, 4, 5]);
    assert_eq!(full[10..14], [0x12, 0x34, 0, 18]);
    assert_eq!(full[16..], [0x77, 0xe1]);
    let short = packet(Form::Short, &[], &[], 0x1234, 0x99_0102_0304, 0xff_a1a2_a3a4);
    assert_eq!(short[..10], [0xa1, 0xa2, 0xa3, 0xa4, 1, 2, 3, 4, 0x12, 0x34]);
    assert_eq!(short[12..], [0x77, 0xe2]);
    let untimed = packet(Form::Untimed, &[], &[], 0x1234, 0x99_0102_0304, 5);
    assert_eq!(untimed[..6], [1, 2, 3, 4, 0x12, 0x34]);
    assert_eq!(untimed[8..], [0x77, 0xe3]);
}

#[test]
fn forms_take_the_room_there_is() {
    let expected = |room| match room {
        18.. => Some(Form::Full),
        14.. => Some(Form::Short),
        10.. => Some(Form::Untimed),
        _ => None,
    };
    for room in 0..40 {
        assert_eq!(Form::fitting(room), expected(room), "{room}");
    }
    assert!(Form::Full.gives_up().is_empty());
    assert!(Form::Untimed.gives_up().contains(&"latency"));
}

#[test]
fn too_little_room_is_said_and_nothing_written() {
    for form in Form::ALL {
        let mut packet = vec![7; form.len() - 1];
        assert!(!Signer::new(form, 1, &[]).write(&mut packet, 1, 1));
        assert_eq!(packet, vec![7; form.len() - 1]);
    }
}

#[test]
fn distances_are_those_to_the_nearest() {
    for bits in [3, 4, 7] {
        let size = 1i64 << bits;
        for near in 0..300u64 {
            for offset in -size / 2..size / 2 {
                let number = near as i64 + offset;
                let low = number.rem_euclid(size) as u64;
                assert_eq!(distance(low, bits, near), offset, "{number} near {near} in {bits} bits");
            }
        }
    }
    assert_eq!(distance(u64::MAX, 64, 0), -1);
}

#[test]
fn zeroes_behind_short_frames_are_padding() {
    for form in Form::ALL {
        for padding in 0..=64 {
            let mut frame = packet(form, &[1; 20], &[], 9, 77, 88);
            let len = frame.len();
            frame.extend(vec![0; padding]);
            assert_eq!(
                read(&frame).map(|signature| signature.sequence),
                (padding == 0 || len + padding <= 64).then_some(77)
            );
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        form in forms(), ahead: Vec<u8>, payload: Vec<u8>, stream: u16, sequence: u64, nanos: u64,
    ) {
        let packet = packet(form, &ahead, &payload, stream, sequence, nanos);
        let nanos = if form == Form::Untimed { 0 } else { lower(nanos, form.time_bits()) };
        let sequence = lower(sequence, form.sequence_bits());
        prop_assert_eq!(read(&packet), Some(Signature { form, stream, sequence, nanos, intact: true }));
    }

    #[test]
    fn checksums_above_do_not_depend_on_number_and_time(
        form in forms(), ahead: Vec<u8>, payload: Vec<u8>, a: (u64, u64), b: (u64, u64),
    ) {
        let sums = [a, b].map(|(sequence, nanos)| checksum(&packet(form, &ahead, &payload, 3, sequence, nanos)));
        prop_assert_eq!(sums[0], sums[1]);
        if form == Form::Full || payload.is_empty() {
            // Nor is there any need to know the signature at all. (One's complement has two zeroes: a sum of nothing.)
            let without = checksum(&ahead);
            prop_assert_eq!(if without == 0xffff { 0 } else { without }, sums[0]);
        }
    }

    #[test]
    fn up_to_fifteen_bits_in_a_row_are_noticed(
        form in forms(), payload: Vec<u8>, sequence: u64, nanos: u64, at: prop::sample::Index, burst in 1u16..0x8000,
    ) {
        let mut packet = packet(form, &[1, 2, 3], &payload, 5, sequence, nanos);
        let covered = if form == Form::Full { payload.len() } else { 0 } + form.len();
        let start = packet.len() - covered;
        // Anywhere but in the form, whose loss leaves no signature at all.
        let bit = start * 8 + at.index((covered - 2) * 8);
        let end = (packet.len() - 2) * 8;
        for n in (0..15).filter(|n| burst >> n & 1 == 1).map(|n| bit + n).filter(|n| *n < end) {
            packet[n / 8] ^= 0x80 >> (n % 8);
        }
        let changed = packet != self::packet(form, &[1, 2, 3], &payload, 5, sequence, nanos);
        prop_assert_eq!(read(&packet).map(|signature| signature.intact), Some(!changed));
    }

    #[test]
    fn whatever_comes_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), form in forms()) {
        let mut bytes = bytes;
        read(&bytes);
        bytes.extend((0x77e0 | form as u16).to_be_bytes());
        if let Some(signature) = read(&bytes) {
            prop_assert!(signature.sequence < 1 << 40 && signature.nanos < 1 << 40);
        }
    }

    #[test]
    fn age_is_what_passed(form in forms(), nanos in 1u64 << 41..u64::MAX / 2, passed in -2_000_000_000i64..2_000_000_000) {
        let signature = read(&packet(form, &[], &[], 1, 1, nanos)).unwrap();
        let age = signature.age(nanos.wrapping_add_signed(passed));
        prop_assert_eq!(age, (form != Form::Untimed).then_some(passed));
    }
}
