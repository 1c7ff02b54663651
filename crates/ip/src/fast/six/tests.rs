use proptest::prelude::*;
use weir_mem::Domain;
use weir_packet::{Batch, HeapPool, Pool};
use weir_table::lpm6::{Compiled, Config, Lpm6, Prefix6};
use weir_wire::{MacAddr, martian6};

use super::*;
use crate::fast::classify::{self, Family, Finding, Verdict};
use crate::interfaces::{Fresh, Port};
use crate::tags::Tag;
use crate::{Ingress, Interfaces, Tags};

const MAC: MacAddr = MacAddr([2, 0x11, 0x22, 0x33, 0x44, 0x55]);

/// UDP from 2001:db8::1 to 2001:db8:1::2, 58 bytes long.
fn good() -> Vec<u8> {
    let mut frame = [&MAC.0[..], &[2, 0, 0, 0, 0, 9, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 4, 17, 64]].concat();
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    frame.extend([0x11, 0x22, 0, 9]);
    frame
}

/// Port 0 without tags, and with the tags 7, and 7 and 9.
fn ingress() -> Interfaces {
    let mut interfaces = Interfaces::new(8, 1, &Domain::new()).unwrap();
    let port = Port { name: "in".into(), index: 0, mac: MAC, mtu: 1500, tag_room: 8, link: true };
    interfaces.set_ports(vec![port]);
    for (name, tags) in [("in", &[][..]), ("in.7", &[(0x8100, 7)]), ("in.7.9", &[(0x88a8, 7), (0x8100, 9)])] {
        let tags = Tags::of(tags.iter().map(|&(tpid, vlan)| Tag { tpid, vlan }));
        interfaces.add(fresh(name, tags)).unwrap();
    }
    interfaces
}

fn fresh(name: &str, tags: Tags) -> Fresh {
    Fresh { name: name.into(), port: Some(0), tags, vrf: 0, mtu: None, enabled: true, tunnel: None }
}

struct Rig {
    pool: HeapPool,
    interfaces: Interfaces,
    six: Six,
}

impl Rig {
    fn new() -> Rig {
        Rig { pool: HeapPool::new(128, 2048), interfaces: ingress(), six: Six::new(Kernel::detect()) }
    }

    fn ingress(&self) -> &Ingress {
        self.interfaces.ingress()
    }

    /// What the fast check and the clauses one by one say of some frames, with tags and without.
    fn both(&mut self, frames: &[Vec<u8>]) -> Vec<(bool, Result<Family, Finding>)> {
        let mut batch = Batch::new();
        for frame in frames {
            let mut packet = self.pool.alloc().unwrap();
            // What lies behind a packet is never trusted.
            packet.window_mut::<128>(0).copy_from_slice(&[0x20; 128]);
            assert!(packet.set_len(frame.len()));
            packet.bytes_mut().copy_from_slice(frame);
            batch.push(packet).unwrap();
        }
        let mut ours = 0;
        let ingress = self.interfaces.ingress();
        batch.each(|slot, packet, lanes| {
            let entered = ingress.enter(0, packet.window(0));
            (lanes.l3[slot], lanes.port[slot]) = (entered.l3, 0);
            ours |= u64::from(entered.is_ours && packet.len() >= entered.l3.into()) << slot.index();
        });
        let (all, kernel) = (batch.live(), Kernel::detect());
        let tagged = self.six.check::<true>(kernel, &batch, all, (None, ours));
        let untagged = self.six.check::<false>(kernel, &batch, all, (Some(MAC.0), u64::MAX));
        let mut said = Vec::new();
        batch.each_ref(|slot, packet| {
            if untagged.good & slot.bit() != 0 {
                let noted = self.six.destinations.get(usize::from(self.six.ranks[slot.index()]));
                assert_eq!(noted, Some(&destination(packet.window(0))), "it is looked up where it goes");
            }
            let has = |seen: Seen| (seen.of & slot.bit() != 0, seen.good & slot.bit() != 0);
            if batch.lanes.l3[slot] == 14 {
                assert_eq!(has(tagged), has(untagged), "{:02x?}", packet.bytes());
            }
            let frame = classify::Frame::of(packet, 0, ingress);
            let slow = frame.map_err(Finding::Bad).and_then(|frame| classify::classify(packet, frame));
            if matches!(slow, Ok(Family::Six) | Err(Finding::Bad6(_) | Finding::Link | Finding::FromLink)) {
                assert!(has(tagged).0, "IPv6 is told for what it is");
            }
            said.push((has(tagged).1, slow));
        });
        for slot in batch.slots() {
            self.pool.free(batch.take(slot).unwrap());
        }
        said
    }

    /// The fast check passes exactly what nothing but its route can speak against, and whose addresses are of the usual kind.
    fn agree(&mut self, frames: &[Vec<u8>]) {
        for (frame, (fast, slow)) in frames.iter().zip(self.both(frames)) {
            let l3 = usize::from(self.ingress().front(&front(frame)).l3);
            let half =
                |at: usize| frame.get(l3 + at..l3 + at + 8).map_or(0, |b| u64::from_be_bytes(b.try_into().unwrap()));
            let is_usual = |half: u64| half > 0 && half < 0xfe80 << 48;
            let expected = slow == Ok(Family::Six) && is_usual(half(8)) && is_usual(half(24)) && frame[0] & 1 == 0;
            assert_eq!(fast, expected, "{frame:02x?}: {slow:?}");
        }
    }
}

fn front(frame: &[u8]) -> [u8; 22] {
    let mut front = [0x20; 22];
    front.iter_mut().zip(frame).for_each(|(to, from)| *to = *from);
    front
}

const TAGS: [&[u8]; 5] =
    [&[], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9], &[0x81, 0, 0xe0, 0], &[0x81, 0, 0, 8]];

/// The frame with tags behind its MAC addresses.
fn tagged(frame: &[u8], tags: &[u8]) -> Vec<u8> {
    [&frame[..12], tags, &frame[12..]].concat()
}

/// Good frames with bytes at a place of the network header and the frame, in each kind of tags.
fn each_with(places: &[usize], values: impl Iterator<Item = Vec<u8>>) {
    let mut rig = Rig::new();
    let mut frames = Vec::new();
    for value in values {
        let mut frame = good();
        for (&at, byte) in places.iter().zip(value) {
            frame[at] = byte;
        }
        frames.extend(TAGS.iter().map(|tags| tagged(&frame, tags)));
        if frames.len() >= 60 {
            rig.agree(&std::mem::take(&mut frames));
        }
    }
    rig.agree(&frames);
}

#[test]
fn every_pair_of_version_next_header_and_hop_limit() {
    let all = |at: [usize; 2]| each_with(&at, (0..=u16::MAX).map(|pair| pair.to_be_bytes().to_vec()));
    // Version and class with the next header; the next header with the hop limit.
    all([14, 20]);
    all([20, 21]);
}

#[test]
fn every_ethertype_and_every_start_of_an_address() {
    for at in [[12, 13], [22, 23], [38, 39]] {
        each_with(&at, (0..=u16::MAX).map(|pair| pair.to_be_bytes().to_vec()));
    }
}

#[test]
fn every_length() {
    let mut rig = Rig::new();
    for length in 1..=good().len() + 6 {
        for payload in (0..20).chain([u16::MAX - 1, u16::MAX]) {
            let mut frame = good();
            frame.resize(length.max(20), 0);
            frame[18..20].copy_from_slice(&payload.to_be_bytes());
            frame.truncate(length);
            let all: Vec<_> =
                TAGS.iter().map(|tags| if length < 14 { frame.clone() } else { tagged(&frame, tags) }).collect();
            rig.agree(&all);
        }
    }
}

/// RFC 4291 sections 2.4 to 2.8, RFC 4007 section 9, RFC 8200 sections 3 and 4: what becomes of what is not forwarded.
#[test]
fn what_is_not_forwarded_is_told_by_name() {
    use crate::fast::bad::{Bad, Bad6};
    let with = |changes: &[(usize, &[u8])]| {
        let mut frame = good();
        changes.iter().for_each(|(at, bytes)| frame[*at..at + bytes.len()].copy_from_slice(bytes));
        frame
    };
    let (source, destination) = (22, 38);
    let link = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let group = |scope: u8| [0xff, scope, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    let solicitation = |mut frame: Vec<u8>| {
        (frame[20], frame[54]) = (58, 135);
        frame
    };
    let bad6 = |bad| Err(Finding::Bad6(bad));
    let cases: Vec<(Vec<u8>, Result<Family, Finding>)> = vec![
        (good(), Ok(Family::Six)),
        (good()[..53].to_vec(), bad6(Bad6::Ip6TooShort)),
        (good()[..57].to_vec(), bad6(Bad6::Ip6Truncated)),
        (with(&[(14, &[0x40])]), bad6(Bad6::Ip6Version)),
        (with(&[(source, &[0; 16])]), bad6(Bad6::Ip6MartianSource)),
        (with(&[(source, &group(14))]), bad6(Bad6::Ip6MartianSource)),
        (with(&[(source, &mapped)]), bad6(Bad6::Ip6MartianSource)),
        (with(&[(destination, &mapped)]), bad6(Bad6::Ip6MartianDestination)),
        (with(&[(destination, &[0; 16])]), bad6(Bad6::Ip6MartianDestination)),
        (with(&[(destination, &group(1))]), bad6(Bad6::Ip6MartianDestination)),
        (with(&[(destination, &group(5))]), bad6(Bad6::Ip6Multicast)),
        (with(&[(0, &[0x33, 0x33])]), bad6(Bad6::Ip6LinkBroadcast)),
        (with(&[(0, &[0xff; 6]), (destination, &link)]), bad6(Bad6::Ip6LinkBroadcast)),
        (with(&[(destination, &group(2))]), Err(Finding::Link)),
        (with(&[(0, &[0x33, 0x33]), (source, &[0; 16]), (destination, &group(2))]), Err(Finding::Link)),
        (with(&[(destination, &link), (21, &[0])]), Err(Finding::Link)),
        (solicitation(with(&[(destination, &link)])), Err(Finding::Nd)),
        (solicitation(with(&[(0, &[0x33, 0x33]), (source, &[0; 16]), (destination, &group(2))])), Err(Finding::Nd)),
        (solicitation(good()), Ok(Family::Six)),
        (with(&[(source, &link)]), Err(Finding::FromLink)),
        (with(&[(source, &link), (20, &[0]), (21, &[1])]), Err(Finding::FromLink)),
        (with(&[(20, &[0]), (21, &[1])]), Err(Finding::Options)),
        (with(&[(21, &[1])]), Err(Finding::LastHop(Family::Six))),
        (with(&[(21, &[0])]), Err(Finding::LastHop(Family::Six))),
        (with(&[(5, &[0])]), Err(Finding::Bad(Bad::NotForUs))),
    ];
    let mut rig = Rig::new();
    for (frame, expected) in cases {
        for tags in &TAGS[..4] {
            assert_eq!(rig.both(&[tagged(&frame, tags)])[0].1, expected, "{frame:02x?}");
        }
    }
}

/// Who has arrived is not told that its hops are at an end, nor that it must not come from a link.
#[test]
fn findings_depend_on_whether_a_packet_has_arrived() {
    for finding in [Finding::LastHop(Family::Six), Finding::FromLink] {
        assert_eq!(finding.settle(|_| Some(Verdict::Nd)), Verdict::Nd);
    }
    assert_eq!(Finding::LastHop(Family::Four).settle(|_| None), Verdict::TtlExpired);
    assert_eq!(Finding::FromLink.settle(|_| None), Verdict::BeyondScope);
    assert_eq!(Finding::Link.settle(|_| unreachable!()), Verdict::Local);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// A third of these pass.
    #[test]
    fn the_fast_check_agrees_with_the_clauses_about_mutated_packets(
        frames in proptest::collection::vec((proptest::collection::vec((0_usize..58, edge()), 0..3), 0..5_usize, 0_usize..3, 50_usize..64), 1..32),
    ) {
        let frames: Vec<_> = frames.into_iter().map(|(edits, tags, cut, length)| {
            let mut frame = good();
            edits.into_iter().for_each(|(at, byte)| frame[at] = byte);
            if cut == 0 {
                frame.resize(length, 0);
            }
            tagged(&frame, TAGS[tags])
        }).collect();
        Rig::new().agree(&frames);
    }

    #[test]
    fn values_stand_at_the_slots_of_their_packets(good: u64, some: u64, addresses in proptest::array::uniform32(0_u8..4)) {
        let mut table = Compiled::new(&Config::for_any(99, 8), &Domain::new()).unwrap();
        for n in 0..3_u8 {
            table.insert(Prefix6::covering(u128::from(n) << 120, 8).unwrap(), u32::from(n) + 1).unwrap();
        }
        let address = |slot: usize| addresses[slot % 32] ^ (slot / 32) as u8;
        let expected = |slot: usize| if address(slot) < 3 { u32::from(address(slot)) + 1 } else { 99 };
        let (mut six, mut row) = (Six::new(Kernel::detect()), Row::default());
        for slot in Slots(good) {
            six.note(&mut row, slot, u128::from(address(slot.index())) << 120 | 5);
        }
        six.count = row.count;
        let reader = table.reader();
        let mut values = [7; BATCH];
        six.look_up(reader, &mut values);
        Slots(good).for_each(|slot| assert_eq!(values[slot.index()], expected(slot.index())));
        let mut values = [7; BATCH];
        six.look_up_some(reader, some & good, &mut values);
        for slot in Slots(u64::MAX) {
            let is_some = some & good & slot.bit() != 0;
            assert_eq!(values[slot.index()], if is_some { expected(slot.index()) } else { 7 });
        }
    }
}

/// Bytes at which rules turn over.
fn edge() -> impl Strategy<Value = u8> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(2),
        Just(4),
        Just(6),
        Just(0x60),
        Just(0x7f),
        Just(0x80),
        Just(0xbf),
        Just(0xfe),
        Just(0xff),
        any::<u8>()
    ]
}

/// What is passed surely is no address that RFC 4291 and RFC 6890 keep from being forwarded.
#[test]
fn usual_addresses_are_none_of_the_special_ones() {
    for half in [1, 2, 0xffff, 1 << 48, 0x2001_0db8 << 32, (0xfe80 << 48) - 1_u64] {
        for rest in [0, 1, 0xffff_0000_0000, u64::MAX] {
            let address = u128::from(half) << 64 | u128::from(rest);
            assert!(!martian6::is_martian_source(address) && !martian6::is_martian_destination(address));
            assert!(!martian6::is_link_local(address) && !martian6::is_multicast(address));
        }
    }
}
