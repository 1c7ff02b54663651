//! Setting any field of any packet: the field has the value, the others have theirs, and checksums are right when summed
//! up from scratch (OpenFlow 1.3.5 section 5.12; RFC 791, 768, 9293, 792, 4443).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use weir_flow_tables::{Identity, Outcome, Packet, Switch};
use weir_openflow::port::Port;
use weir_openflow::{Action, Field, Oxm};

/// The sum of RFC 1071, word by word.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
    }
    total as u16
}

/// Where the checksum of a protocol stands, and how long its header is.
fn carried(protocol: u8) -> (usize, usize) {
    match protocol {
        6 => (16, 20),
        17 => (6, 8),
        _ => (2, 24),
    }
}

#[derive(Clone, Debug)]
struct Shape {
    tags: usize,
    is_v6: bool,
    protocol: u8,
    filling: Vec<u8>,
}

impl Shape {
    /// ICMP has no pseudo-header, whatever the header says that it is.
    fn pseudo(&self, addresses: &[u8], protocol: u8, length: usize) -> Vec<u8> {
        if self.protocol == 1 {
            return Vec::new();
        }
        [addresses, &(length as u32).to_be_bytes(), &[0, 0, 0, protocol]].concat()
    }

    fn ip_at(&self) -> usize {
        14 + 4 * self.tags
    }

    fn carried_at(&self) -> usize {
        self.ip_at() + if self.is_v6 { 40 } else { 20 }
    }

    /// A frame of this shape whose checksums are right.
    fn frame(&self) -> Vec<u8> {
        let mut filling = self.filling.iter().copied().cycle();
        let mut some = |count: usize| -> Vec<u8> { filling.by_ref().take(count).collect() };
        let mut bytes = some(12);
        for _ in 0..self.tags {
            bytes.extend([0x81, 0]);
            bytes.extend(some(2));
        }
        bytes.extend(if self.is_v6 { [0x86, 0xdd] } else { [8, 0] });
        let (at, header) = carried(self.protocol);
        let mut body = some(header + 9);
        if self.protocol == 58 {
            // A neighbour solicitation with the option.
            body = [vec![135, 0], some(22), vec![1, 1], some(6)].concat();
        }
        let addresses = some(if self.is_v6 { 32 } else { 8 });
        if self.is_v6 {
            bytes.extend([0x60 | some(1)[0] & 15]);
            bytes.extend(some(3));
            bytes.extend((body.len() as u16).to_be_bytes());
            bytes.extend([self.protocol, 64]);
            bytes.extend(&addresses);
        } else {
            let mut ip = vec![0x45, some(1)[0]];
            ip.extend((20 + body.len() as u16).to_be_bytes());
            ip.extend([1, 2, 0x40, 0, 64, self.protocol, 0, 0]);
            ip.extend(&addresses);
            let check = !sum(&[&ip]);
            ip[10..12].copy_from_slice(&check.to_be_bytes());
            bytes.extend(ip);
        }
        if self.protocol != 132 {
            body[at..at + 2].copy_from_slice(&[0, 0]);
            let check = !sum(&[&self.pseudo(&addresses, self.protocol, body.len()), &body]);
            let check = if self.protocol == 17 && check == 0 { 0xffff } else { check };
            body[at..at + 2].copy_from_slice(&check.to_be_bytes());
        }
        bytes.extend(body);
        bytes
    }

    /// Whether all checksums are right, summed up from scratch; `protocol` is the one that the checksum speaks of.
    fn is_right(&self, bytes: &[u8], protocol: u8) -> bool {
        let (ip, body) = (&bytes[self.ip_at()..self.carried_at()], &bytes[self.carried_at()..]);
        let addresses = if self.is_v6 { &ip[8..40] } else { &ip[12..20] };
        let header = self.is_v6 || sum(&[ip]) == 0xffff;
        let pseudo = self.pseudo(addresses, protocol, body.len());
        let carried = self.protocol == 132 || sum(&[&pseudo, body]) == 0xffff;
        header && carried
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let protocols = prop::sample::select(vec![
        (false, 1),
        (false, 6),
        (false, 17),
        (false, 132),
        (true, 6),
        (true, 17),
        (true, 58),
    ]);
    (0usize..3, protocols, proptest::collection::vec(any::<u8>(), 64..200))
        .prop_map(|(tags, (is_v6, protocol), filling)| Shape { tags, is_v6, protocol, filling })
}

/// What can be set: provider backbone bridges are not looked into.
fn settable() -> impl Iterator<Item = Field> {
    Field::ALL.iter().copied().filter(|field| field.is_settable() && *field != Field::PbbIsid)
}

fn set(bytes: Vec<u8>, field: Field, value: u128) -> Vec<u8> {
    let mut switch = Switch::new(Identity::default());
    for number in [1, 2] {
        switch.set_port(Port { number, ..Port::default() }, 0);
    }
    let actions = [Action::SetField(Oxm::exact(field, value)), Action::Output { port: 2, max_len: 0 }];
    match switch.packet_out(Packet::new(1, bytes), &actions, 0).unwrap().remove(0) {
        Outcome::Sent { bytes, .. } => bytes,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_field_of_any_packet(shape in shapes(), value in any::<u128>()) {
        let frame = shape.frame();
        prop_assert!(shape.is_right(&frame, shape.protocol));
        let before = Packet::new(1, frame.clone()).fields();
        for field in settable() {
            let value = value & field.ones();
            let after = set(frame.clone(), field, value);
            prop_assert_eq!(after.len(), frame.len());
            if before.get(field).is_none() {
                if field != Field::TunnelId {
                    prop_assert_eq!(&after, &frame, "{} was not there", field.name());
                }
                continue;
            }
            if field == Field::TunnelId || (field == Field::VlanVid && shape.tags == 0) {
                prop_assert_eq!(&after, &frame);
                continue;
            }
            let protocol = if field == Field::IpProto { value as u8 } else { shape.protocol };
            prop_assert!(shape.is_right(&after, protocol), "{} of {shape:?}", field.name());
            // These say what other fields there are.
            if matches!(field, Field::EthType | Field::IpProto | Field::Icmpv6Type) {
                continue;
            }
            let fields = Packet::new(1, after).fields();
            for other in Field::ALL.iter().copied() {
                let wanted = match other {
                    Field::VlanVid if other == field => Some(value | 0x1000),
                    _ if other == field => Some(value),
                    _ => before.get(other),
                };
                prop_assert_eq!(fields.get(other), wanted, "{} after {}", other.name(), field.name());
            }
        }
    }

    /// A packet whose checksums are wrong does not become right.
    #[test]
    fn what_is_wrong_stays_wrong(shape in shapes(), value in any::<u128>(), flip in 1u8..) {
        prop_assume!(shape.protocol != 132);
        let mut frame = shape.frame();
        let last = frame.len() - 1;
        frame[last] ^= flip;
        let zero = shape.carried_at() + carried(shape.protocol).0;
        prop_assume!(frame[zero..zero + 2] != [0, 0]);
        for field in [Field::Ipv4Src, Field::Ipv6Dst, Field::TcpDst, Field::UdpSrc, Field::Icmpv4Code, Field::Ipv6NdSll] {
            let after = set(frame.clone(), field, value & field.ones());
            prop_assert!(!shape.is_right(&after, shape.protocol), "{}", field.name());
        }
    }

    /// Any bytes: nothing panics, and what is set is what is read.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 14..120), kinds in any::<[u8; 4]>(), value in any::<u128>()) {
        let mut bytes = bytes;
        // Headers that are likely to be something.
        let kind = [[8u8, 0], [0x86, 0xdd], [0x88, 0x47], [8, 6], [0x81, 0]][usize::from(kinds[0]) % 5];
        bytes[12..14].copy_from_slice(&kind);
        if bytes.len() > 24 {
            bytes[14] = [0x45, 0x60, 0x4f, kinds[1]][usize::from(kinds[2]) % 4];
            bytes[20] = [0, 43, 44, 51, 58, 60][usize::from(kinds[3]) % 6];
        }
        let before = Packet::new(1, bytes.clone()).fields();
        for field in settable().filter(|field| before.get(*field).is_some()) {
            let after = Packet::new(1, set(bytes.clone(), field, value & field.ones())).fields();
            let changes_all = matches!(field, Field::EthType | Field::IpProto | Field::Icmpv6Type | Field::TunnelId);
            if !changes_all && (field != Field::VlanVid || before.get(field) != Some(0)) {
                let present = if field == Field::VlanVid { 0x1000 } else { 0 };
                prop_assert_eq!(after.get(field), Some(value & field.ones() | present), "{}", field.name());
            }
        }
    }
}

/// The CRC of SCTP (RFC 9260 section 6.8) is right again where it was right, and as wrong as it was where it was not.
#[test]
fn sctp() {
    let shape = Shape { tags: 0, is_v6: false, protocol: 132, filling: (1..100).collect() };
    let error = |frame: &[u8]| {
        let mut packet = frame[34..].to_vec();
        let stands = u32::from_le_bytes([packet[8], packet[9], packet[10], packet[11]]);
        packet[8..12].fill(0);
        stands ^ crc32c(&packet)
    };
    let wrong = shape.frame();
    assert_ne!(error(&wrong), 0);
    let after = set(wrong.clone(), Field::SctpDst, 0x1234);
    assert_eq!((after[36], after[37], error(&after)), (0x12, 0x34, error(&wrong)));
    let mut right = wrong.clone();
    let by = error(&wrong).to_le_bytes();
    right[42..46].iter_mut().zip(by).for_each(|(byte, by)| *byte ^= by);
    assert_eq!(error(&right), 0);
    let after = set(right, Field::SctpSrc, 0x4321);
    assert_eq!((after[34], after[35], error(&after)), (0x43, 0x21, 0));
}

/// The same of packets of all lengths over both versions of IP (0 is none in IPv6), and with padding behind, which is no part of them. A fragment has no CRC of its own.
#[test]
fn sctp_of_any_length() {
    for length in (1..30).chain((30..1500).step_by(7)) {
        for (is_v6, more) in [(false, 0), (true, 0), (false, 0x20)] {
            let carried: Vec<u8> = (0..length).map(|at| (at * 37 % 251) as u8).collect();
            let mut frame = vec![2; 12];
            if is_v6 {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, (length >> 8) as u8, length as u8, 132, 64]);
                frame.extend([7; 32]);
            } else {
                let total = 20 + length;
                frame.extend([8, 0, 0x45, 0, (total >> 8) as u8, total as u8, 0, 0, more, 0, 64, 132]);
                frame.extend([9; 10]);
            }
            let at = frame.len();
            frame.extend(&carried);
            frame.extend([0x55; 5]);
            let after = set(frame.clone(), Field::SctpDst, 0x1234);
            let mut wanted = frame;
            if length >= 4 {
                wanted[at + 2..at + 4].copy_from_slice(&[0x12, 0x34]);
            }
            if length >= 12 && more == 0 {
                let crc = |packet: &[u8]| crc32c(&[&packet[..8], &[0; 4], &packet[12..]].concat());
                let difference = (crc(&carried) ^ crc(&wanted[at..at + length])).to_le_bytes();
                wanted[at + 8..at + 12].iter_mut().zip(difference).for_each(|(byte, by)| *byte ^= by);
            }
            assert_eq!(after, wanted, "{length} bytes, IPv6: {is_v6}, {more:#x}");
        }
    }
}

/// By long division of polynomials, most significant bit first, on reflected bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut remainder = u32::MAX;
    for byte in bytes {
        remainder ^= u32::from(byte.reverse_bits()) << 24;
        for _ in 0..8 {
            remainder = remainder << 1 ^ if remainder >> 31 == 1 { 0x1edc_6f41 } else { 0 };
        }
    }
    !remainder.reverse_bits()
}
