//! Capture files that users bring.

use weir_port_pcap::Reader;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "pcap",
    help: "capture files: pcap in its four forms, and pcapng",
    run,
    tokens: &[
        &[0xd4, 0xc3, 0xb2, 0xa1],
        &[0xa1, 0xb2, 0xc3, 0xd4],
        &[0x4d, 0x3c, 0xb2, 0xa1],
        &[0xa1, 0xb2, 0x3c, 0x4d],
        &[0x0a, 0x0d, 0x0d, 0x0a],
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

fn run(input: &[u8]) -> bool {
    let Ok(mut reader) = Reader::new(input) else { return false };
    let mut bytes = Vec::new();
    let mut records = 0;
    let mut captured = 0;
    loop {
        match reader.next(&mut bytes) {
            Ok(Some(_)) => {
                records += 1;
                captured += bytes.len();
                // A length that lies must not cost memory, nor may a record be read twice.
                assert!(bytes.capacity() <= 2 * input.len() + 64, "{} bytes for {}", bytes.capacity(), input.len());
                assert!(captured <= input.len() && records <= input.len(), "more was read than there is");
            }
            Ok(None) => return records > 0,
            Err(damage) => {
                assert!(damage.offset <= input.len() as u64 && !damage.what.is_empty(), "{damage}");
                return records > 0;
            }
        }
    }
}
