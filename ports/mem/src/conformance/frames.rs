//! The frames of the checks.

use super::{Failure, Verdict, ensure};

/// "IEEE Std 802 - Local Experimental Ethertype 1": used by nobody but experiments.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Bytes in front of the number: the Ethernet header.
pub(super) const NUMBER_AT: usize = 14;

/// From whom and to whom frames of the checks are: locally administered.
const SOURCE: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0a];
const DESTINATION: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0b];

/// A frame of the checks: `len` bytes, at least 14, the number in it where there is room.
pub(super) fn frame(number: u32, len: usize) -> Vec<u8> {
    let head = [&DESTINATION[..], &SOURCE[..], &ETHERTYPE[..], &number.to_be_bytes()].concat();
    let fill = (0..).map(|at: u32| (at.wrapping_mul(31).wrapping_add(number)) as u8);
    head.into_iter().chain(fill).take(len.max(NUMBER_AT)).collect()
}

/// Frames of the lengths that traffic has.
pub(super) fn mixed(count: u32, shortest: usize) -> Vec<Vec<u8>> {
    const LENGTHS: [usize; 6] = [60, 64, 128, 594, 1280, 1514];
    (0..count)
        .zip(LENGTHS.iter().cycle())
        .map(|(number, &len)| frame(number, (len - number as usize % 7).max(shortest)))
        .collect()
}

/// Whether a frame is one of the checks', whatever else passes the device.
pub(super) fn ours(bytes: &[u8]) -> bool {
    bytes.get(6..12) == Some(&SOURCE)
}

/// Whether `got` is `sent`, with padding if the device may add some.
pub(super) fn same(got: &[u8], sent: &[u8], pads_to: usize) -> bool {
    match got.strip_prefix(sent) {
        Some(rest) => rest.is_empty() || (got.len() <= pads_to && rest.iter().all(|&byte| byte == 0)),
        None => false,
    }
}

/// Says whether two sequences of frames are the same, and where they first differ.
pub(super) fn compare(got: &[Vec<u8>], sent: &[Vec<u8>], pads_to: usize) -> Verdict {
    let differs = got.iter().zip(sent).position(|(got, sent)| !same(got, sent, pads_to));
    if let Some((at, (got, sent))) = differs.and_then(|at| Some((at, (got.get(at)?, sent.get(at)?)))) {
        let (found, wanted) = (got.len(), sent.len());
        return Err(Failure(format!(
            "frame {at} of {found} bytes is not the one of {wanted} bytes that was sent as number {at}"
        )));
    }
    ensure(got.len() == sent.len(), || format!("{} of {} frames came", got.len(), sent.len()))
}

/// Frames that something on the way might want to put together, take apart, mend or merge.
pub(super) fn of_all_kinds() -> Vec<Vec<u8>> {
    let udp = [0x04, 0, 0x08, 0, 0, 0x28, 0x12, 0x34];
    let whole = ipv4(17, 0x4000, &udp);
    let mut frames: Vec<Vec<u8>> = TAGS.iter().map(|tags| with(tags, &[0x08, 0], &whole)).collect();
    // RFC 791: in units of eight bytes, with more to come or not; the last first.
    for fragment in [0x2000, 0x2000 | 4, 8, 0x2000] {
        frames.push(with(&[], &[0x08, 0], &ipv4(17, fragment, &udp)));
    }
    let mut wrong = whole.clone();
    if let Some(byte) = wrong.get_mut(10) {
        *byte ^= 0xff;
    }
    frames.push(with(&[], &[0x08, 0], &wrong));
    // No checksum (RFC 768), and segments that follow each other (RFC 9293): the same but for the sequence number.
    frames.push(with(&[], &[0x08, 0], &ipv4(17, 0x4000, &[0x04, 0, 0x08, 0, 0, 0x28, 0, 0])));
    for sequence in [0, 32, 64] {
        let tcp = [4, 0, 0, 80, 0, 0, 0, sequence, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0];
        frames.push(with(&[], &[0x08, 0], &ipv4(6, 0x4000, &tcp)));
    }
    // IPv6 with a fragment header, and a length in place of a type (IEEE 802.3).
    frames.push(with(
        &[],
        &[0x86, 0xdd],
        &[&[0x60, 0, 0, 0, 0, 16, 44, 64][..], &[0x20; 32], &[17, 0, 0, 1, 0, 0, 0, 9]].concat(),
    ));
    frames.push(with(&[], &[0, 46], &[0xaa; 46]));
    frames
}

/// None, one, two, and three tags (IEEE 802.1Q), priorities and all.
const TAGS: [&[u8]; 6] = [
    &[],
    &[0x81, 0, 0xe0, 7],
    &[0x88, 0xa8, 0x2f, 0xff],
    &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2],
    &[0x81, 0, 0, 1, 0x81, 0, 0, 2],
    &[0x91, 0, 0, 1, 0x88, 0xa8, 0, 2, 0x81, 0, 0, 3],
];

/// An IPv4 packet (RFC 791) of 60 bytes, with the checksum of its header.
fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let [flags, offset] = fragment.to_be_bytes();
    let mut header = [0x45, 0, 0, 60, 0x12, 0x34, flags, offset, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let word =
        |pair: &[u8]| u32::from(pair.first().copied().unwrap_or(0)) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let sum: u32 = header.chunks(2).map(word).sum();
    let [high, low] = (!(sum.wrapping_add(sum >> 16) as u16)).to_be_bytes();
    header[10] = high;
    header[11] = low;
    header.iter().chain(payload).copied().chain(std::iter::repeat(0x5a)).take(60).collect()
}

/// A frame of at least 60 bytes.
fn with(tags: &[u8], kind: &[u8], content: &[u8]) -> Vec<u8> {
    let mut frame = [&DESTINATION[..], &SOURCE[..], tags, kind, content].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}
