//! Packets of all the headers that are decoded, by chance but always the same.
#![allow(dead_code, reason = "each test program uses a part")]

use weir_capture::LinkType;

/// Numbers by chance, always the same: SplitMix64.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Whether one of `bound` cases is met.
    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

fn be16(value: usize) -> [u8; 2] {
    (value as u16).to_be_bytes()
}

/// A frame: Ethernet, and what it carries.
pub(crate) fn frame(chance: &mut Chance) -> Vec<u8> {
    let (ethertype, payload) = tagged(chance, 0, 3);
    [chance.bytes(12), be16(ethertype).to_vec(), payload].concat()
}

/// A packet of a link that is not Ethernet.
pub(crate) fn on_link(chance: &mut Chance, link: LinkType) -> Vec<u8> {
    let (ethertype, packet) = match link {
        LinkType::IPV4 => (0x0800, ipv4(chance, 0)),
        LinkType::IPV6 => (0x86dd, ipv6(chance, 0)),
        LinkType::LINUX_SLL | LinkType::LINUX_SLL2 => tagged(chance, 0, 2),
        _ => ip(chance, 0),
    };
    let six = ethertype == 0x86dd;
    let head = match link {
        // Families as Linux, FreeBSD and macOS number them, by little- and big-endian hosts.
        LinkType::NULL => match (six, chance.below(3)) {
            (false, 0) => vec![0, 0, 0, 2],
            (false, _) => vec![2, 0, 0, 0],
            (true, 0) => vec![0, 0, 0, 28],
            (true, 1) => vec![30, 0, 0, 0],
            (true, _) => vec![24, 0, 0, 0],
        },
        LinkType::LOOP => vec![0, 0, 0, if six { 24 } else { 2 }],
        LinkType::LINUX_SLL => {
            let kind = [&[0, chance.below(5) as u8, 0, 1, 0, 6][..], &chance.bytes(6), &[0, 0]].concat();
            [kind, be16(ethertype).to_vec()].concat()
        }
        LinkType::LINUX_SLL2 => {
            let rest = [&[0, 0, 0, 0, 0, 7, 0, 1, chance.below(5) as u8, 6][..], &chance.bytes(6), &[0, 0]].concat();
            [be16(ethertype).to_vec(), rest].concat()
        }
        _ => Vec::new(),
    };
    [head, packet].concat()
}

/// An EtherType and what is behind it. `depth` counts IP headers around it.
fn tagged(chance: &mut Chance, depth: u32, tags: u64) -> (usize, Vec<u8>) {
    if tags > 0 && chance.one_in(3) {
        let ethertype = [0x8100, 0x88a8, 0x9100][chance.below(3) as usize];
        let (next, payload) = tagged(chance, depth, tags - 1);
        return (ethertype, [chance.bytes(2), be16(next).to_vec(), payload].concat());
    }
    match chance.below(12) {
        0 | 1 => (0x8847 + usize::from(chance.one_in(4)), labels(chance, depth)),
        2 | 3 if depth == 0 => {
            let (next, payload) = ip(chance, depth);
            let ppp = if next == 0x0800 { 0x0021 } else { 0x0057 };
            let head = [&[0x11, 0][..], &chance.bytes(2), &be16(payload.len() + 2), &be16(ppp)].concat();
            (0x8864, [head, payload].concat())
        }
        // ARP, LLDP, LLC (spanning tree).
        4 if depth == 0 => match chance.below(3) {
            0 => (0x0806, [&[0, 1, 8, 0, 6, 4, 0, 1][..], &chance.bytes(20)].concat()),
            1 => (0x88cc, vec![2, 7, 4, 1, 2, 3, 4, 5, 6, 4, 2, 7, 1, 6, 2, 0, 120, 0, 0]),
            _ => (38, [&[0x42, 0x42, 3, 0, 0, 0, 0, 0][..], &[7; 30]].concat()),
        },
        _ => ip(chance, depth),
    }
}

fn labels(chance: &mut Chance, depth: u32) -> Vec<u8> {
    let mut stack = Vec::new();
    let count = 1 + chance.below(if depth == 0 { 4 } else { 2 });
    for n in 1..=count {
        // Not those below 16, which are special, and some of which say what lies below.
        let entry = (16 + chance.below((1 << 20) - 16)) << 12 | chance.below(8) << 9 | u64::from(n == count) << 8;
        stack.extend(((entry | chance.below(256)) as u32).to_be_bytes());
    }
    [stack, ip(chance, depth).1].concat()
}

fn ip(chance: &mut Chance, depth: u32) -> (usize, Vec<u8>) {
    if chance.one_in(2) { (0x0800, ipv4(chance, depth)) } else { (0x86dd, ipv6(chance, depth)) }
}

/// An address that means nothing in particular.
fn host(chance: &mut Chance) -> [u8; 4] {
    [20 + chance.below(100) as u8, chance.next() as u8, chance.next() as u8, 1 + chance.below(250) as u8]
}

fn host6(chance: &mut Chance) -> Vec<u8> {
    [&[0x20, 1, 0x0d, 0xb8][..], &chance.bytes(12)].concat()
}

fn ipv4(chance: &mut Chance, depth: u32) -> Vec<u8> {
    let (protocol, payload) = above(chance, depth);
    let options = if chance.one_in(8) { [1, 1, 1, 0].repeat(1 + chance.below(10) as usize) } else { Vec::new() };
    let (offset, more) = fragment(chance);
    let header = 20 + options.len();
    let flags = u16::from(more) << 13 | u16::from(chance.one_in(2)) << 14 | offset;
    let mut packet = vec![0x40 | (header / 4) as u8, chance.next() as u8];
    packet.extend(be16(header + payload.len()));
    packet.extend(chance.bytes(2));
    packet.extend(flags.to_be_bytes());
    packet.extend([chance.next() as u8, protocol]);
    packet.extend(chance.bytes(2));
    packet.extend(host(chance));
    packet.extend(host(chance));
    [packet, options, payload].concat()
}

/// An offset in units of 8 bytes, and whether more follow.
fn fragment(chance: &mut Chance) -> (u16, bool) {
    match chance.below(16) {
        0 => (0, true),
        1 => (1 + chance.below(1000) as u16, true),
        2 => (1 + chance.below(1000) as u16, false),
        _ => (0, false),
    }
}

fn ipv6(chance: &mut Chance, depth: u32) -> Vec<u8> {
    let (mut next, mut payload) = above(chance, depth);
    if chance.one_in(6) {
        let (offset, more) = fragment(chance);
        let head = [&[next, 0][..], &(offset << 3 | u16::from(more)).to_be_bytes(), &chance.bytes(4)].concat();
        (next, payload) = (44, [head, payload].concat());
    }
    if chance.one_in(8) {
        // Routing, of a type that nobody knows, with no segments left.
        let units = chance.below(3) as u8;
        let head = [&[next, units, 253, 0][..], &vec![0; 4 + 8 * usize::from(units)]].concat();
        (next, payload) = (43, [head, payload].concat());
    }
    for kind in [60, 0] {
        if chance.one_in(8) {
            let units = chance.below(3) as u8;
            let padding = 4 + 8 * units;
            let head = [&[next, units, 1, padding][..], &vec![0; usize::from(padding)]].concat();
            (next, payload) = (kind, [head, payload].concat());
        }
    }
    let mut packet = (6 << 28 | chance.below(1 << 28) as u32).to_be_bytes().to_vec();
    packet.extend(be16(payload.len()));
    packet.extend([next, chance.next() as u8]);
    packet.extend(host6(chance));
    packet.extend(host6(chance));
    [packet, payload].concat()
}

/// What an IP header carries: its protocol number, and the bytes.
fn above(chance: &mut Chance, depth: u32) -> (u8, Vec<u8>) {
    if depth < 2 && chance.one_in(3) {
        return match chance.below(3) {
            0 => (4, ipv4(chance, depth + 1)),
            1 => (41, ipv6(chance, depth + 1)),
            _ => (47, gre(chance, depth + 1)),
        };
    }
    transport(chance)
}

fn gre(chance: &mut Chance, depth: u32) -> Vec<u8> {
    let (key, sequence) = (chance.one_in(2), chance.one_in(2));
    let (protocol, payload) = if chance.one_in(4) {
        (0x6558, frame_in(chance, depth))
    } else {
        match chance.below(3) {
            0 => (0x8847, labels(chance, depth)),
            _ => ip(chance, depth),
        }
    };
    // With a checksum tshark looks at nothing behind a wrong one, so that it has to be right.
    let checksum = chance.one_in(3);
    let mut head = vec![u8::from(checksum) << 7 | u8::from(key) << 5 | u8::from(sequence) << 4, 0];
    head.extend(be16(protocol));
    if checksum {
        head.extend([0; 4]);
    }
    if key {
        head.extend(chance.bytes(4));
    }
    if sequence {
        head.extend(chance.bytes(4));
    }
    let mut whole = [head, payload].concat();
    if checksum {
        let sum = weir_wire::checksum::checksum(&whole);
        whole[4..6].copy_from_slice(&sum.to_be_bytes());
    }
    whole
}

fn frame_in(chance: &mut Chance, depth: u32) -> Vec<u8> {
    let (ethertype, payload) = tagged(chance, depth, 1);
    [chance.bytes(12), be16(ethertype).to_vec(), payload].concat()
}

fn transport(chance: &mut Chance) -> (u8, Vec<u8>) {
    let len = chance.below(40) as usize;
    let data = chance.bytes(len);
    // Ports that belong to nobody.
    let mut port = || be16(50_000 + chance.below(9_000) as usize).to_vec();
    let ports = [port(), port()].concat();
    match chance.below(9) {
        0..3 => (17, [ports, be16(8 + data.len()).to_vec(), chance.bytes(2), data].concat()),
        3..5 => {
            let (numbers, rest) = (chance.bytes(8), chance.bytes(4));
            (6, [ports, numbers, vec![0x50, 0x10 | chance.below(16) as u8], rest, vec![0, 0], data].concat())
        }
        5 => (1, [&[8 * chance.below(2) as u8, 0][..], &chance.bytes(6), &data].concat()),
        6 => (58, [&[128 + chance.below(2) as u8, 0][..], &chance.bytes(6), &data].concat()),
        // An error, which quotes a packet.
        7 => (1, [&[3, 1][..], &chance.bytes(2), &[0; 4], &ipv4(chance, 9)].concat()),
        // Nothing that is looked into.
        _ => ([50, 253][chance.below(2) as usize], data),
    }
}
