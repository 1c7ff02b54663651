//! Capture files that users bring.

use weir_capture::Reader;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "pcap",
    help: "capture files: pcap in all its forms, and pcapng, plain and compressed",
    run,
    tokens: &[
        &[0xd4, 0xc3, 0xb2, 0xa1],
        &[0xa1, 0xb2, 0xc3, 0xd4],
        &[0x4d, 0x3c, 0xb2, 0xa1],
        &[0xa1, 0xb2, 0x3c, 0x4d],
        &[0x34, 0xcd, 0xb2, 0xa1],
        &[0x0a, 0x0d, 0x0d, 0x0a],
        &[0x1f, 0x8b, 8, 0],
        &[0x28, 0xb5, 0x2f, 0xfd],
        &[0x5a, 0x2a, 0x4d, 0x18],
        &[0x4d, 0x3c, 0x2b, 0x1a],
        &[0x1a, 0x2b, 0x3c, 0x4d],
        &[1, 0, 0, 0, 20, 0, 0, 0],
        &[6, 0, 0, 0, 32, 0, 0, 0],
        &[3, 0, 0, 0, 16, 0, 0, 0],
        &[9, 0, 1, 0, 6, 0, 0, 0],
        &[9, 0, 1, 0, 0xff, 0, 0, 0],
        &[14, 0, 8, 0],
    ],
    text: false,
    inputs: 2_000_000,
    deep: 35,
};

/// Bytes of a compressed input that are looked at: a few of its bytes may stand for millions.
const ENOUGH: usize = 1 << 20;

fn run(input: &[u8]) -> bool {
    let Ok(mut reader) = Reader::new(input) else { return false };
    let plain = !matches!(input, [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    let mut records = 0;
    let mut captured = 0;
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                records += 1;
                captured += record.data.len();
                // No record may be read twice, and what a record has must have been read.
                assert!(!plain || captured + 16 * records <= input.len(), "more was read than there is");
                assert!(reader.position() <= input.len() as u64, "more was read than there is");
                if captured + records > ENOUGH {
                    return true;
                }
            }
            Ok(None) => break,
            Err(damage) => {
                assert!(!plain || damage.offset <= input.len() as u64, "{damage}");
                assert!(!damage.what.is_empty() && damage.record == records as u64, "{damage}");
                break;
            }
        }
    }
    assert_eq!(reader.next(), Ok(None), "there was nothing more");
    records > 0
}
