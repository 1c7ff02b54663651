//! The keys that spread frames, beside a twin that knows what the frame was built of and reads no byte of it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed unwrap fails the test")]

use proptest::prelude::*;
use weir_wire::spread::{Key, WINDOW, hash};

const KEYS: [Key; 7] = [Key::Flow, Key::Addresses, Key::Source, Key::Destination, Key::Tags, Key::GreKey, Key::Inner];

/// An IP packet: with ports, in pieces, or with another one in it.
#[derive(Clone, Debug)]
struct Packet {
    six: bool,
    /// The last bytes of both addresses.
    addresses: [u8; 2],
    label: u8,
    /// 4-byte words of options, or of eight bytes of an extension header, without ports then.
    options: u8,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Udp([u8; 2]),
    Tcp([u8; 2]),
    Icmp,
    /// Pieces: the first one has ports, later ones anything.
    Piece {
        first: bool,
        bytes: [u8; 4],
    },
    Gre {
        key: Option<u8>,
        checksum: bool,
        inner: Option<Box<Packet>>,
    },
    In(Box<Packet>),
}

#[derive(Clone, Debug)]
enum Front {
    Plain,
    Labels(u8),
    Session,
}

#[derive(Clone, Debug)]
struct Frame {
    tags: Vec<(u16, u8, u8)>,
    front: Front,
    /// `None`: ARP.
    packet: Option<Packet>,
}

impl Packet {
    fn protocol(&self) -> u8 {
        match &self.body {
            Body::Udp(_) => 17,
            Body::Tcp(_) => 6,
            Body::Icmp => {
                if self.six {
                    58
                } else {
                    1
                }
            }
            Body::Piece { .. } => 17,
            Body::Gre { .. } => 47,
            Body::In(inner) => {
                if inner.six {
                    41
                } else {
                    4
                }
            }
        }
    }

    fn payload(&self) -> Vec<u8> {
        match &self.body {
            Body::Udp([a, b]) | Body::Tcp([a, b]) => vec![0, *a, 1, *b, 0, 0, 0, 0],
            Body::Icmp => vec![8; 8],
            Body::Piece { bytes, .. } => bytes.iter().chain(&[0; 4]).copied().collect(),
            Body::Gre { key, checksum, inner } => {
                let kind: [u8; 2] = match inner {
                    None => [0x88, 0xbe],
                    Some(inner) => {
                        if inner.six {
                            [0x86, 0xdd]
                        } else {
                            [8, 0]
                        }
                    }
                };
                let mut bytes = vec![u8::from(*checksum) << 7 | u8::from(key.is_some()) << 5, 0, kind[0], kind[1]];
                bytes.extend(checksum.then_some([1, 2, 0, 0]).into_iter().flatten());
                bytes.extend(key.map(|key| [0, 0, 7, key]).into_iter().flatten());
                bytes.extend(inner.iter().flat_map(|inner| inner.bytes()));
                bytes
            }
            Body::In(inner) => inner.bytes(),
        }
    }

    fn piece(&self) -> Option<u16> {
        match self.body {
            // In bytes: more follow, or it is a later one.
            Body::Piece { first, .. } => Some(if first { 1 } else { 8 }),
            _ => None,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let payload = self.payload();
        let [source, destination] = self.addresses;
        if self.six {
            let mut headers = Vec::new();
            let mut next = self.protocol();
            if let Some(piece) = self.piece() {
                headers.extend([next, 0, 0, piece as u8, 0, 0, 0, 9]);
                next = 44;
            } else if self.options > 0 {
                headers.extend([next, 0, 1, 4, 0, 0, 0, 0]);
                next = 60;
            }
            let mut bytes = vec![0x60, 0, 0, self.label, 0, (headers.len() + payload.len()) as u8, next, 64];
            for last in [source, destination] {
                bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
            return [bytes, headers, payload].concat();
        }
        let options = usize::from(self.options) * 4;
        let total = 20 + options + payload.len();
        let flags = match self.piece() {
            None => [0, 0],
            Some(1) => [0x20, 0],
            Some(_) => [0, 1],
        };
        let mut bytes =
            vec![0x45 + self.options, 0, 0, total as u8, 0, 7, flags[0], flags[1], 64, self.protocol(), 0, 0];
        bytes.extend([10, 0, 0, source, 10, 0, 0, destination]);
        bytes.resize(20 + options, 1);
        bytes.extend(payload);
        bytes
    }

    fn unordered(&self) -> String {
        let [a, b] = self.addresses;
        format!("{} {} {}", self.six, a.min(b), a.max(b))
    }

    /// By its definition: what is in the headers where the first packet of a flow has them.
    fn flow(&self) -> String {
        let next = match (self.six, self.piece(), self.options) {
            (true, Some(_), _) => 44,
            (true, None, 1..) => 60,
            _ => self.protocol(),
        };
        let ports = match self.body {
            Body::Udp(ports) | Body::Tcp(ports) if !self.six || self.options == 0 => Some(ports),
            _ => None,
        };
        let label = if self.six { self.label } else { 0 };
        format!("{} {:?} {label} {next} {ports:?}", self.six, self.addresses)
    }
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        for (tpid, id, priority) in &self.tags {
            bytes.extend(tpid.to_be_bytes());
            bytes.extend([*priority << 5, *id]);
        }
        let Some(packet) = &self.packet else {
            bytes.extend([8, 6]);
            bytes.resize(bytes.len() + 46, 1);
            return bytes;
        };
        match self.front {
            Front::Plain => bytes.extend(if packet.six { [0x86, 0xdd] } else { [8, 0] }),
            Front::Labels(labels) => {
                bytes.extend([0x88, 0x47]);
                (0..labels).for_each(|n| bytes.extend([0, 1, u8::from(n + 1 == labels), 64]));
            }
            Front::Session => bytes.extend([0x88, 0x64, 0x11, 0, 0, 5, 0, 99, 0, if packet.six { 0x57 } else { 0x21 }]),
        }
        bytes.extend(packet.bytes());
        bytes
    }

    /// What all frames have in common that belong together.
    fn twin(&self, key: Key) -> Option<String> {
        if key == Key::Tags && !self.tags.is_empty() {
            return Some(format!("tags {:?}", self.tags.iter().map(|(_, id, _)| id).collect::<Vec<_>>()));
        }
        let packet = self.packet.as_ref()?;
        Some(match (key, &packet.body) {
            (Key::Flow, _) => packet.flow(),
            (Key::Source, _) => format!("{} {}", packet.six, packet.addresses[0]),
            (Key::Destination, _) => format!("{} {}", packet.six, packet.addresses[1]),
            (Key::GreKey, Body::Gre { key: Some(key), .. }) => format!("key {key}"),
            (Key::Addresses | Key::Tags | Key::GreKey, _) => packet.unordered(),
            (Key::Inner, Body::Gre { inner: Some(inner), .. } | Body::In(inner)) => inner.flow(),
            (Key::Inner, Body::Gre { inner: None, .. } | Body::Piece { .. }) => packet.unordered(),
            (Key::Inner, _) => packet.flow(),
        })
    }

    fn hash(&self, key: Key) -> Option<u32> {
        let bytes = self.bytes();
        // Stale bytes behind its end.
        let mut window = [0xaa; WINDOW];
        let seen = bytes.len().min(WINDOW);
        window[..seen].copy_from_slice(&bytes[..seen]);
        hash(key, &window, bytes.len(), 7)
    }
}

fn leaf() -> impl Strategy<Value = Body> {
    let ports = || proptest::array::uniform2(0_u8..2);
    prop_oneof![
        4 => ports().prop_map(Body::Udp),
        2 => ports().prop_map(Body::Tcp),
        1 => Just(Body::Icmp),
        2 => (any::<bool>(), any::<[u8; 4]>()).prop_map(|(first, bytes)| Body::Piece { first, bytes }),
    ]
}

fn of(body: impl Strategy<Value = Body>) -> impl Strategy<Value = Packet> {
    let addresses = proptest::array::uniform2(0_u8..3);
    (any::<bool>(), addresses, 0_u8..2, prop_oneof![4 => Just(0_u8), 1 => Just(1)], body)
        .prop_map(|(six, addresses, label, options, body)| Packet { six, addresses, label, options, body })
}

/// What is in a tunnel has all its headers without options, so that they can be seen whatever is in front.
fn inner() -> impl Strategy<Value = Box<Packet>> {
    of(leaf()).prop_map(|packet| Box::new(Packet { options: 0, ..packet }))
}

fn packet() -> impl Strategy<Value = Packet> {
    let gre = (prop::option::of(0_u8..3), any::<bool>(), prop::option::weighted(0.9, inner()))
        .prop_map(|(key, checksum, inner)| Body::Gre { key, checksum, inner });
    of(prop_oneof![3 => leaf(), 2 => gre, 1 => inner().prop_map(Body::In)])
}

fn frame() -> impl Strategy<Value = Frame> {
    let tag = (prop::sample::select(vec![0x8100_u16, 0x88a8, 0x9100]), 0_u8..3, 0_u8..8);
    let front = prop_oneof![3 => Just(Front::Plain), 1 => (1_u8..4).prop_map(Front::Labels), 1 => Just(Front::Session)];
    (prop::collection::vec(tag, 0..3), front, prop::option::weighted(0.95, packet()))
        .prop_map(|(tags, front, packet)| Frame { tags, front, packet })
}

/// Whether the ports of what is in a tunnel lie within what is looked at; they do but behind a lot of headers.
fn is_seen(frame: &Frame) -> bool {
    frame.bytes().len() <= WINDOW
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn frames_belong_together_as_the_twin_says(one in frame(), other in frame(), swap: bool) {
        prop_assume!(is_seen(&one) && is_seen(&other));
        // Half of the time the other one has much in common with the first.
        let other = if swap { Frame { packet: one.packet.clone(), ..other } } else { Frame { tags: one.tags.clone(), ..other } };
        prop_assume!(is_seen(&other));
        for key in KEYS {
            let (wanted, got) = ([one.twin(key), other.twin(key)], [one.hash(key), other.hash(key)]);
            prop_assert_eq!(wanted[0].is_some(), got[0].is_some(), "{:?} of {:?}", key, one);
            prop_assert_eq!(wanted[0] == wanted[1], got[0] == got[1], "{:?}: {:?} and {:?}", key, wanted, got);
        }
    }

    #[test]
    fn any_bytes_are_answered_and_what_did_not_arrive_is_not_looked_at(
        bytes in prop::collection::vec(any::<u8>(), WINDOW), kind in 0_usize..6, len in 0_usize..WINDOW, stale: u8,
    ) {
        let mut window: [u8; WINDOW] = bytes.try_into().unwrap();
        let kinds: [[u8; 4]; 6] =
            [[8, 0, 0x45, 0], [0x86, 0xdd, 0x60, 0], [0x81, 0, 0, 1], [0x88, 0x47, 0, 0], [0x88, 0x64, 0x11, 0], [8, 6, 0, 0]];
        window[12..16].copy_from_slice(&kinds[kind]);
        for key in KEYS {
            let before = hash(key, &window, len, 3);
            let mut other = window;
            other[len..].fill(stale);
            prop_assert_eq!(before, hash(key, &other, len, 3), "{:?} of {} bytes", key, len);
        }
    }
}

/// Both directions of a conversation, and all pieces of its packets, belong together.
#[test]
fn conversations_stay_whole_by_addresses() {
    for six in [false, true] {
        let packet = |addresses, body| Packet { six, addresses, label: 0, options: 0, body };
        let frame = |packet| Frame { tags: vec![], front: Front::Plain, packet: Some(packet) };
        let there = frame(packet([1, 2], Body::Udp([1, 1]))).hash(Key::Addresses);
        let first = frame(packet([1, 2], Body::Piece { first: true, bytes: [1; 4] })).hash(Key::Addresses);
        let later = frame(packet([1, 2], Body::Piece { first: false, bytes: [9; 4] })).hash(Key::Addresses);
        let back = frame(packet([2, 1], Body::Tcp([0, 1]))).hash(Key::Addresses);
        assert!(there.is_some() && [first, later, back].iter().all(|other| *other == there));
        assert_ne!(there, frame(packet([1, 1], Body::Udp([1, 1]))).hash(Key::Addresses));
    }
}
