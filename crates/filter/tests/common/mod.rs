//! Frames of many kinds, built by hand.

/// A source of numbers that repeats itself from run to run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // xorshift64 (Marsaglia): good enough to vary things.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % limit
    }
}

const MAC_A: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0a];
const MAC_B: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0b];
const BROADCAST: [u8; 6] = [0xff; 6];
const MULTICAST: [u8; 6] = [0x01, 0, 0x5e, 0, 0, 5];

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn ether(destination: [u8; 6], source: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&destination, &source, &kind.to_be_bytes(), payload])
}

fn tag(kind: u16, tci: u16, frame: &[u8]) -> Vec<u8> {
    join(&[&frame[..12], &kind.to_be_bytes(), &tci.to_be_bytes(), &frame[12..]])
}

struct Ip4 {
    protocol: u8,
    source: [u8; 4],
    destination: [u8; 4],
    ttl: u8,
    fragment: u16,
    options: Vec<u8>,
}

fn ip4(protocol: u8, source: [u8; 4], destination: [u8; 4]) -> Ip4 {
    Ip4 { protocol, source, destination, ttl: 64, fragment: 0, options: Vec::new() }
}

impl Ip4 {
    fn with(&self, payload: &[u8]) -> Vec<u8> {
        let words = 5 + self.options.len() / 4;
        let total = u16::try_from(4 * words + payload.len()).unwrap();
        join(&[
            &[0x40 | u8::try_from(words).unwrap(), 0],
            &total.to_be_bytes(),
            &[0x12, 0x34],
            &self.fragment.to_be_bytes(),
            &[self.ttl, self.protocol, 0, 0],
            &self.source,
            &self.destination,
            &self.options,
            payload,
        ])
    }
}

fn ip6(next: u8, source: u128, destination: u128, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap();
    join(&[
        &[0x60, 0, 0, 0],
        &length.to_be_bytes(),
        &[next, 64],
        &source.to_be_bytes(),
        &destination.to_be_bytes(),
        payload,
    ])
}

fn ports(source: u16, destination: u16) -> Vec<u8> {
    join(&[&source.to_be_bytes(), &destination.to_be_bytes()])
}

fn udp(source: u16, destination: u16, data: usize) -> Vec<u8> {
    let length = u16::try_from(8 + data).unwrap();
    join(&[&ports(source, destination), &length.to_be_bytes(), &[0, 0], &vec![0x55; data]])
}

fn tcp(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    join(&[&ports(source, destination), &[0; 8], &[0x50, flags], &[0x20, 0, 0, 0, 0, 0]])
}

fn icmp(kind: u8, code: u8) -> Vec<u8> {
    vec![kind, code, 0, 0, 0, 1, 0, 1]
}

fn arp(operation: u16, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    join(&[&[0, 1, 8, 0, 6, 4], &operation.to_be_bytes(), &MAC_A, &sender, &[0; 6], &target])
}

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 1, 2, 3];
const C: [u8; 4] = [192, 0, 2, 9];
const A6: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_0001;
const B6: u128 = 0x2001_0db8_0001_0000_0000_0000_0000_0002;
const GROUP6: u128 = 0xff02_0000_0000_0000_0000_0000_0000_0001;

fn ip4_frames() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (source, destination) in [(A, B), (B, A), (A, C), (C, [224, 0, 0, 5]), ([0; 4], [255; 4])] {
        for (from, to) in [(1024, 80), (53, 53), (443, 6000), (6063, 8080)] {
            packets.push(ip4(17, source, destination).with(&udp(from, to, 4)));
            packets.push(ip4(6, source, destination).with(&tcp(from, to, 0x02)));
        }
        for (kind, code) in [(8, 0), (0, 0), (3, 4), (11, 0)] {
            packets.push(ip4(1, source, destination).with(&icmp(kind, code)));
        }
        for protocol in [2, 9, 47, 50, 51, 89, 103, 112, 132] {
            packets.push(ip4(protocol, source, destination).with(&ports(80, 443)));
        }
    }
    for flags in [0x01, 0x04, 0x10, 0x12, 0x18, 0x29, 0xc2] {
        packets.push(ip4(6, A, C).with(&tcp(33_000, 443, flags)));
    }
    for fragment in [0x2000, 0x2005, 0x0005, 0x4000, 0x1fff] {
        for protocol in [6, 17, 1] {
            packets.push(Ip4 { fragment, ..ip4(protocol, A, B) }.with(&tcp(80, 80, 0x12)));
        }
    }
    for ttl in [0, 1, 4, 5, 255] {
        packets.push(Ip4 { ttl, ..ip4(17, A, B) }.with(&udp(5000, 80, 30)));
    }
    for words in [1, 2, 10] {
        let options = vec![1; 4 * words];
        packets.push(Ip4 { options: options.clone(), ..ip4(6, A, B) }.with(&tcp(80, 22, 0x02)));
        packets.push(Ip4 { options, ..ip4(17, C, B) }.with(&udp(53, 22, 0)));
    }
    // Headers that lie about their length.
    for first in [0x40, 0x41, 0x4f, 0x65] {
        let mut packet = ip4(6, A, B).with(&tcp(80, 80, 2));
        packet[0] = first;
        packets.push(packet);
    }
    packets.iter().map(|packet| ether(MAC_B, MAC_A, 0x0800, packet)).collect()
}

fn ip6_frames() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (source, destination) in [(A6, B6), (B6, A6), (A6, GROUP6), (0, 1)] {
        packets.push(ip6(17, source, destination, &udp(53, 1024, 8)));
        packets.push(ip6(6, source, destination, &tcp(80, 6001, 0x12)));
        packets.push(ip6(132, source, destination, &ports(80, 443)));
        for kind in [1, 2, 128, 129, 135, 136] {
            packets.push(ip6(58, source, destination, &icmp(kind, 0)));
        }
        for next in [6, 17, 58, 89] {
            let inner = join(&[&[next, 0, 0, 1, 0, 0, 0, 7], &tcp(80, 443, 2)]);
            packets.push(ip6(44, source, destination, &inner));
            packets.push(ip6(0, source, destination, &inner));
        }
    }
    packets.iter().map(|packet| ether(MAC_A, MAC_B, 0x86dd, packet)).collect()
}

fn link_frames() -> Vec<Vec<u8>> {
    let mut frames = vec![
        ether(BROADCAST, MAC_A, 0x0806, &arp(1, A, B)),
        ether(MAC_A, MAC_B, 0x0806, &arp(2, B, A)),
        ether(BROADCAST, MAC_A, 0x8035, &arp(3, C, C)),
        ether(MULTICAST, MAC_B, 0x88cc, &[2, 7, 4, 0]),
        ether(MAC_A, MAC_A, 0x9000, &[0; 46]),
        ether(MAC_B, MAC_B, 0x6003, &[0; 40]),
        ether(MAC_B, MAC_A, 0x809b, &[0; 20]),
        ether(MAC_B, MAC_A, 0x80f3, &[0; 20]),
        ether(MAC_B, MAC_A, 0x8137, &[0; 20]),
        ether(MAC_A, MAC_B, 0x8863, &[0x11, 9, 0, 0, 0, 0]),
        Vec::new(),
    ];
    for llc in [
        &[0x42, 0x42, 3, 0, 0, 0, 0][..],
        &[0xfe, 0xfe, 3, 0x83, 27, 1, 0, 15, 1],
        &[0xfe, 0xfe, 3, 0x82, 0, 0],
        &[0xfe, 0xfe, 3, 0x81, 0, 0],
        &[0xe0, 0xe0, 3, 0xff, 0xff],
        &[0xff, 0xff, 0, 30],
        &[0xf0, 0xf0, 3, 1],
        &[0x06, 0x06, 3, 0x45, 0],
        &[0xaa, 0xaa, 3, 0, 0, 0, 0x81, 0x37, 0],
        &[0xaa, 0xaa, 3, 8, 0, 7, 0x80, 0x9b, 0],
        &[0xaa, 0xaa, 3, 0, 0, 0, 0x80, 0xf3, 0],
        &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45, 0],
    ] {
        let length = u16::try_from(llc.len()).unwrap();
        frames.push(ether(MULTICAST, MAC_A, length, llc));
        frames.push(ether(MULTICAST, MAC_A, 1501, llc));
    }
    frames
}

fn nested_frames(plain: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for frame in plain.iter().filter(|frame| frame.len() > 14).step_by(3) {
        for kind in [0x8100, 0x88a8, 0x9100] {
            frames.push(tag(kind, 0x2064, frame));
        }
        frames.push(tag(0x88a8, 200, &tag(0x8100, 100, frame)));
        let label = |label: u32, bottom: u32| ((label << 12) | (bottom << 8) | 64).to_be_bytes();
        frames.push(ether(MAC_A, MAC_B, 0x8847, &join(&[&label(16, 1), &frame[14..]])));
        let stack = join(&[&label(16, 0), &label(1024, 1), &frame[14..]]);
        frames.push(ether(MAC_A, MAC_B, 0x8847, &stack));
        frames.push(tag(0x8100, 100, &ether(MAC_A, MAC_B, 0x8847, &stack)));
        for (session, ppp) in [(7_u16, 0x0021_u16), (7, 0x0057), (8, 0x0021), (9, 0xc021)] {
            let length = u16::try_from(frame.len() - 12).unwrap();
            let header =
                join(&[&[0x11, 0], &session.to_be_bytes(), &length.to_be_bytes(), &ppp.to_be_bytes(), &frame[14..]]);
            frames.push(ether(MAC_A, MAC_B, 0x8864, &header));
        }
    }
    for frame in [
        tag(0x8100, 1, &tag(0x8100, 100, &tag(0x8100, 2, &plain[0]))),
        tag(0x8100, 1, &ether(MULTICAST, MAC_A, 7, &[0x42, 0x42, 3, 0, 0, 0, 0])),
        ether(MAC_A, MAC_B, 0x8847, &join(&[&[0, 0x40, 1, 64], &plain[0][14..]])),
        tag(0x8100, 100, &ether(MAC_A, MAC_B, 0x8847, &join(&[&[0, 1, 1, 64], &plain[0][14..]]))),
        ether(MAC_A, MAC_B, 0x8864, &[0x11, 0, 0, 7, 0, 6, 0, 0x23, 0x83, 27, 1, 0]),
        ether(MAC_A, MAC_B, 0x8864, &[0x11, 0, 0, 7, 0, 6, 2, 0x81, 0, 1, 1, 64]),
        ether(MAC_A, MAC_B, 0x8864, &[0x11, 0, 0, 7, 0, 6, 8, 6, 0, 1, 8, 0]),
        tag(0x8100, 7, &ether(MAC_A, MAC_B, 0x8864, &[0x11, 0, 0, 7, 0, 6, 0, 0x21, 0x45, 0, 0, 20])),
    ] {
        frames.push(frame);
    }
    frames
}

/// Frames as they were captured: their bytes, and their length on the wire.
pub(crate) fn corpus() -> Vec<(Vec<u8>, u32)> {
    let mut whole = ip4_frames();
    whole.extend(ip6_frames());
    whole.extend(link_frames());
    whole.extend(nested_frames(&whole));
    let mut random = Random(42);
    let mutated: Vec<Vec<u8>> = whole
        .iter()
        .filter(|frame| !frame.is_empty())
        .map(|frame| {
            let mut frame = frame.clone();
            for _ in 0..3 {
                let at = random.below(frame.len());
                frame[at] = u8::try_from(random.below(256)).unwrap();
            }
            frame
        })
        .collect();
    whole.extend(mutated);
    let mut frames = Vec::new();
    for (index, frame) in whole.into_iter().enumerate() {
        let length = u32::try_from(frame.len()).unwrap();
        // Cut at every length for some, at a few for the others; half of the cuts are the capture's.
        let step = if index % 9 == 0 { 1 } else { 23 };
        for cut in (0..frame.len()).rev().step_by(step) {
            let on_wire = if cut % 2 == 0 { u32::try_from(cut).unwrap() } else { length };
            frames.push((frame[..cut].to_vec(), on_wire));
        }
        frames.push((frame, length));
    }
    frames
}
