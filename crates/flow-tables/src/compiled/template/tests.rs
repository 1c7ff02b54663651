//! Code against the definition, list by list, on frames of all lengths.

use weir_codegen::{RESULTS, WINDOW};

use super::*;
use crate::compiled::Version;
use crate::fast::frame::{Frame, TAG};
use crate::packet::Packet;
use crate::{rewrite, tags, ttl};

/// A frame in a buffer that goes on in front of it and behind it, so that code sees bytes that are none of its own.
struct InBuffer {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

/// How much is in front of a frame.
const FRONT: usize = 32;

impl InBuffer {
    /// The first bytes of these.
    fn of(bytes: &[u8], length: usize) -> InBuffer {
        InBuffer { memory: [&[0x81; FRONT], bytes].concat(), start: FRONT, end: FRONT + length }
    }
}

impl Frame for InBuffer {
    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.end]
    }

    fn window(&mut self) -> Option<&mut [u8; WINDOW]> {
        self.memory[self.start..].first_chunk_mut()
    }

    fn has_room(&self, back: usize, _: usize) -> bool {
        back <= self.start
    }

    fn prepend(&mut self, bytes: usize) {
        self.start -= bytes;
    }

    fn trim_front(&mut self, bytes: usize) {
        self.start += bytes;
    }

    fn lengthen(&mut self, length: usize) {
        let before = self.end;
        self.end = self.start + length;
        self.memory[before..self.end].fill(0);
    }

    fn replace(&mut self, _: &[u8]) {}
}

/// What neighbours say behind so many tags, with a first option: as much as IP says of it, and more behind that.
fn said_by_neighbours(kind: u8, [option, units]: [u8; 2], said: u8, tags: u8) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    (0..tags).for_each(|_| bytes.extend([0x81, 0, 0, 1]));
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, said, 58, 64]);
    bytes.extend([0x77; 32]);
    bytes.extend([kind, 0, said, 0x35, 0, 0, 0, 0]);
    bytes.extend([0xfd; 16]);
    bytes.extend([option, units, 3, 3, 3, 3, 3, 3, 1, 1, 5, 5, 5, 5, 5, 5]);
    bytes.resize(200, 1);
    bytes
}

/// What becomes of a frame; nothing if its TTL ends.
fn by_definition(frame: &[u8], ops: &[Op]) -> Option<Vec<u8>> {
    let mut packet = Packet::new(1, frame.to_vec());
    for op in ops {
        match *op {
            Op::Set(field, value) => rewrite::set_field(&mut packet, field, value),
            Op::EthDst(_) | Op::EthSrc(_) => panic!("{op:?}"),
            Op::PushVlan(kind) => tags::push_vlan(&mut packet, kind),
            Op::PopVlan => tags::pop_vlan(&mut packet),
            Op::PushMpls(kind) => tags::push_mpls(&mut packet, kind),
            Op::PopMpls(kind) => tags::pop_mpls(&mut packet, kind),
            Op::DecrementTtl => ttl::decrement_ip(&mut packet.bytes).ok()?,
            Op::DecrementMplsTtl => ttl::decrement_mpls(&mut packet.bytes).ok()?,
            Op::SetTtl(to) => ttl::set_ip(&mut packet.bytes, to),
            Op::SetMplsTtl(to) => ttl::set_mpls(&mut packet.bytes, to),
            Op::CopyTtlOut => ttl::copy_out(&mut packet.bytes),
            Op::CopyTtlIn => ttl::copy_in(&mut packet.bytes),
        }
    }
    Some(packet.bytes)
}

/// Lists of changes with their code.
struct Lists(Templates);

impl Lists {
    fn fill(&mut self, ops: &[Op]) -> Filled {
        let filled = self.0.fill(ops).unwrap();
        filled.template.compile();
        assert!(matches!(filled.template.code.get(), Some(Ok(_))), "{ops:?}: {:?}", filled.template.code);
        filled
    }
}

/// Changes the first bytes of these by code: what becomes of them is what the definition says, or nothing if code leaves them alone. Whether it did not.
fn change(filled: &Filled, ops: &[Op], (bytes, length): (&[u8], usize), found: Found) -> bool {
    let mut frame = InBuffer::of(bytes, length);
    let has_changed = filled.change(&mut frame, found, &mut [0; RESULTS]);
    let (before, behind) = bytes.split_at(length);
    let wanted = if has_changed { by_definition(before, ops) } else { Some(before.to_vec()) };
    assert_eq!(Some(frame.bytes()), wanted.as_deref(), "{ops:?}, {found:?}, changed: {has_changed}, {before:x?}");
    // A frame that was filled up goes on into what was behind it.
    let behind_now = &frame.memory[frame.end..];
    assert!(behind.ends_with(behind_now) && behind.len() <= behind_now.len() + TAG * MOST_POPPED);
    has_changed
}

/// What neighbours say, of every length that IP may say and that a frame may have, with every first option: what code changes is what the definition does,
/// and it leaves alone what it does not see. The code of tables would have seen most of that before.
#[test]
fn neighbours_alone_are_changed_as_the_definition_does() {
    let (target, own, other) = (Field::Ipv6NdTarget, Field::Ipv6NdSll, Field::Ipv6NdTll);
    let lists: [&[Field]; 5] =
        [&[target], &[own], &[other], &[own, target, Field::Icmpv6Code], &[other, Field::Ipv6Dst]];
    let mut all = Lists(Templates::default());
    for fields in lists {
        let set = |field: &Field| Op::Set(*field, 0xfedc_ba98_7654_3210_0123_4567_89ab_cdef & field.ones());
        let ops: Vec<Op> = fields.iter().map(set).collect();
        let filled = all.fill(&ops);
        let mut counts = [0, 0];
        let mut try_one = |kind, option, said: u8, length: usize| {
            let tags = said % 3;
            let before = said_by_neighbours(kind, option, said, tags);
            let found = Found::new(0, 0, tags, Version::Six);
            counts[usize::from(change(&filled, &ops, (&before, length), found))] += 1;
        };
        for (kind, option, units) in (0..36).map(|n| (133 + n / 9, n / 3 % 3, n % 3)) {
            for said in 0..=40 {
                (50..=102).step_by(4).for_each(|length| try_one(kind, [option, units], said, length));
            }
        }
        assert!(counts.iter().all(|count| *count > 1000), "{counts:?} of {fields:?}");
    }
}

/// What stands behind tags: so many MPLS entries, and IP of this protocol and of so many bytes as it says, a fragment or not.
#[derive(Clone, Copy, Debug)]
struct Inside {
    labels: u8,
    is_v6: bool,
    protocol: u8,
    said: u8,
    fragment: [u8; 2],
    ttl: u8,
}

impl Inside {
    /// A frame of it behind so many tags, with more behind than IP says.
    fn frame(self, tags: u8) -> Vec<u8> {
        let Inside { labels, is_v6, protocol, said, fragment, ttl } = self;
        let mut bytes = vec![2; 12];
        (0..tags).for_each(|tag| bytes.extend([0x81, 0, 0x40, tag + 1]));
        let kind = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
        bytes.extend(if labels > 0 { [0x88, 0x47] } else { kind });
        (1..=labels).for_each(|label| bytes.extend([0, 0, label << 4 | u8::from(label == labels), ttl]));
        if is_v6 {
            bytes.extend([0x60, 0, 0, 0, 0, said, protocol, ttl]);
            bytes.extend([0x77; 32]);
        } else {
            bytes.extend([0x45, 0, 0, said, 0, 0, fragment[0], fragment[1], ttl, protocol, said, 9]);
            bytes.extend([0x77; 8]);
        }
        bytes.extend((0..240 - bytes.len()).map(|at| (at * 89) as u8));
        bytes
    }

    fn version(self) -> Version {
        match (self.labels, self.is_v6) {
            (1.., _) => Version::Mpls,
            (0, false) => Version::Four,
            (0, true) => Version::Six,
        }
    }
}

fn set(list: &[(Field, u128)]) -> Vec<Op> {
    list.iter().map(|(field, value)| Op::Set(*field, *value)).collect()
}

/// Whatever a checksum was, with words that add up to as much as they may, and to as little: also where one carry comes of another one.
#[test]
fn every_checksum_is_changed_as_the_definition_does() {
    let mut all = Lists(Templates::default());
    let addresses = [0, 0xffff_0000, 0x0000_ffff, u32::MAX];
    for (from, to) in addresses.into_iter().flat_map(|from| addresses.map(|to| (from, to))) {
        let ops = [set(&[(Field::Ipv4Dst, to.into())]), vec![Op::DecrementTtl]].concat();
        let filled = all.fill(&ops);
        let mut frame = Inside { labels: 0, is_v6: false, protocol: 47, said: 46, fragment: [0, 0], ttl: 64 }.frame(0);
        frame[30..34].copy_from_slice(&from.to_be_bytes());
        for sum in 0..=u16::MAX {
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            assert!(change(&filled, &ops, (&frame, 60), Found::new(0, 0, 0, Version::Four)));
        }
    }
}

/// Packets of SCTP of every length that IP may say and that a frame may have, fragments too, with their CRC: alone, and with tags and labels that come and go.
#[test]
fn sctp_is_changed_as_the_definition_does() {
    let ports = set(&[(Field::SctpDst, 0), (Field::SctpSrc, 0xffff)]);
    let lists = [
        set(&[(Field::SctpSrc, 0x1234)]),
        set(&[(Field::SctpDst, 0xfedc), (Field::IpDscp, 7), (Field::SctpDst, 9)]),
        [set(&[(Field::Ipv4Src, 0x0a01_0203), (Field::Ipv6Dst, 3)]), ports.clone()].concat(),
        [vec![Op::PopVlan], ports.clone()].concat(),
        [ports.clone(), vec![Op::PopVlan], ports.clone(), vec![Op::PopVlan]].concat(),
        [ports.clone(), vec![Op::PushVlan(0x8100)], set(&[(Field::SctpDst, 7), (Field::VlanVid, 0x1005)])].concat(),
        [vec![Op::PopVlan], ports.clone(), vec![Op::PushMpls(0x8847), Op::PushVlan(0x88a8)], ports].concat(),
    ];
    let mut all = Lists(Templates::default());
    for ops in lists {
        let (filled, mut counts) = (all.fill(&ops), [0, 0]);
        let mut try_one = |is_v6, said: u8, length: usize, fragment| {
            let (inside, tags) = (Inside { labels: 0, is_v6, protocol: 132, said, fragment, ttl: 64 }, said % 3);
            let found = Found::new(0, 0, tags, inside.version());
            counts[usize::from(change(&filled, &ops, (&inside.frame(tags), length), found))] += 1;
        };
        for said in 0..=150 {
            for length in (62..=200).step_by(3) {
                try_one(true, said, length, [0, 0]);
                let fragments = [[0, 0], [0x40, 0], [0x20, 0], [0, 1]];
                fragments.into_iter().for_each(|fragment| try_one(false, said, length, fragment));
            }
        }
        assert!(counts.iter().all(|count| *count > 1000), "{counts:?} of {ops:?}");
    }
}

/// Lists that take tags and labels off, change what is behind them, and put others on: on frames with each number of tags and labels, of each protocol, of every
/// length that IP may say and that a frame may have.
#[test]
fn what_is_below_tags_and_labels_is_changed_as_the_definition_does() {
    let addresses = set(&[(Field::Ipv4Dst, 0x0a01_0203), (Field::Ipv6Src, 0xfd << 120 | 9), (Field::Ipv4Src, 7)]);
    let ports = set(&[(Field::TcpDst, 7), (Field::UdpSrc, 0xffff), (Field::SctpDst, 9), (Field::Icmpv6Code, 3)]);
    let below = |kinds: &[u16], rest: &[&[Op]]| {
        let pops: Vec<Op> = kinds.iter().map(|kind| Op::PopMpls(*kind)).collect();
        [&[Op::DecrementMplsTtl][..], &pops, &rest.concat()].concat()
    };
    let again = [Op::PushVlan(0x8100), Op::PushMpls(0x8848), Op::PushVlan(0x88a8)];
    let lists = [
        below(&[0x0800], &[&addresses, &ports, &[Op::DecrementTtl]]),
        below(&[0x86dd], &[&addresses, &ports[1..], &[Op::DecrementTtl], &again]),
        below(&[0x8847, 0x0800], &[&[Op::DecrementTtl], &addresses]),
        below(&[0x8847, 0x86dd], &[&ports, &[Op::CopyTtlIn]]),
        below(&[0x8847, 0x8847, 0x0800], &[&addresses, &[Op::PushMpls(0x8847); 4]]),
        below(&[0x8847], &[&[Op::CopyTtlIn, Op::SetMplsTtl(3), Op::Set(Field::MplsLabel, 77)]]),
        [&[Op::CopyTtlIn, Op::PopVlan, Op::PopMpls(0x0800)][..], &addresses, &[Op::SetTtl(3)]].concat(),
        [&[Op::PopVlan, Op::PopVlan][..], &addresses, &ports, &[Op::PushVlan(0x8100)]].concat(),
        [&[Op::PopVlan, Op::PopVlan, Op::PopMpls(0x0806)][..], &ports].concat(),
    ];
    let mut all = Lists(Templates::default());
    for ops in lists {
        let (filled, mut counts) = (all.fill(&ops), [0, 0]);
        for case in 0..120_u8 {
            let (labels, is_v6, tags) = (case % 5, case / 5 % 2 == 1, case / 10 % 3);
            let protocol = [6, 17, 132, if is_v6 { 58 } else { 1 }][usize::from(case / 30)];
            let version_of = |inside: Inside| Found::new(0, 0, tags, inside.version());
            for said in (0..=100).step_by(9) {
                let ttl = if said == 99 { 1 } else { 64 };
                let fragment = if said % 4 == 3 { [0x20, 0] } else { [0, 0] };
                let inside = Inside { labels, is_v6, protocol, said, fragment, ttl };
                let frame = inside.frame(tags);
                // Code found what it says of the frame, which so is as long as that takes.
                let least = 14
                    + 4 * usize::from(tags)
                    + if labels > 0 {
                        4
                    } else if is_v6 {
                        40
                    } else {
                        20
                    };
                for length in (least..least + 120).step_by(5).chain(58..70).filter(|length| *length >= least) {
                    counts[usize::from(change(&filled, &ops, (&frame, length), version_of(inside)))] += 1;
                }
            }
        }
        assert!(counts.iter().all(|count| *count > 1000), "{counts:?} of {ops:?}");
    }
}
