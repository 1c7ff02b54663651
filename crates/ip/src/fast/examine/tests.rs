use std::sync::Arc;

use proptest::prelude::*;
use weir_mem::Domain;
use weir_packet::{HeapPool, Pool};
use weir_table::counters::Counters;
use weir_wire::MacAddr;
use weir_wire::build::UdpFrame;

use super::*;
use crate::fast::classify::{self, Family};
use crate::fast::scope::Scope;
use crate::interfaces::{Fresh, Port};
use crate::tags::Tag;
use crate::{Interfaces, Tags};

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 7]), MacAddr([2, 0, 0, 0, 0, 8])];

/// Two ports, each without tags, with the tags 1, 2, and 3 and 9, and with 5, by which nothing comes in.
fn interfaces() -> Interfaces {
    let mut interfaces = Interfaces::new(16, 2, &Domain::new()).unwrap();
    let port = |index: u16| Port {
        name: format!("p{index}"),
        index,
        mac: MACS[usize::from(index)],
        mtu: 1500,
        tag_room: 8,
        link: true,
    };
    interfaces.set_ports(vec![port(0), port(1)]);
    for port in [0, 1] {
        for list in [&[][..], &[(0x8100, 1)], &[(0x8100, 2)], &[(0x88a8, 3), (0x8100, 9)], &[(0x8100, 5)]] {
            let tags = Tags::of(list.iter().map(|&(tpid, vlan)| Tag { tpid, vlan }));
            let name = format!("p{port}.{list:?}");
            let enabled = tags.outer().vlan != 5;
            interfaces.add(Fresh { name, port: Some(port), tags, vrf: 0, mtu: None, enabled, tunnel: None }).unwrap();
        }
    }
    interfaces
}

const TAGS: [&[u8]; 8] = [
    &[0x88, 0xa8, 0, 1],
    &[0x81, 0, 0, 5],
    &[],
    &[0x81, 0, 0, 1],
    &[0x81, 0, 0xe0, 2],
    &[0x88, 0xa8, 0, 3, 0x81, 0, 0, 9],
    &[0x81, 0, 0, 4],
    &[0x81, 0, 0, 1, 0x81, 0, 0, 1],
];

/// UDP in IPv4 or IPv6 to the station of a port, behind tags, cut to a length.
fn frame(to: MacAddr, is_six: bool, tags: &[u8], ttl: u8, length: usize) -> Vec<u8> {
    let mut frame = UdpFrame { destination_mac: to, ttl, ..UdpFrame::default() }.to_vec(&[0; 22]);
    if is_six {
        frame[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 10, 17, ttl]);
        frame[22..38].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame[38..54].copy_from_slice(&[0x20, 1, 0xd, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    }
    let mut frame = [&frame[..12], tags, &frame[12..]].concat();
    frame.truncate(length);
    frame
}

/// Half of all frames are whole.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![Just(70), 14_usize..70]
}

/// A batch of frames and the ports that they came in by, without those in `gap`.
fn fill(pool: &mut HeapPool, frames: impl Iterator<Item = (u16, Vec<u8>)>, gap: u64) -> Box<Batch> {
    let mut batch = Batch::new();
    for (port, bytes) in frames {
        let mut packet = pool.alloc().unwrap();
        packet.window_mut::<128>(0).copy_from_slice(&[0x20; 128]);
        assert!(packet.set_len(bytes.len()));
        packet.bytes_mut().copy_from_slice(&bytes);
        let slot = batch.push(packet).unwrap();
        batch.lanes.port[slot] = port;
    }
    for slot in batch.slots().filter(|slot| gap & slot.bit() != 0) {
        pool.free(batch.take(slot).unwrap());
    }
    batch
}

fn empty(pool: &mut HeapPool, mut batch: Box<Batch>) {
    for slot in batch.slots() {
        pool.free(batch.take(slot).unwrap());
    }
}

/// What each packet of a batch is by itself; all are counted.
fn one_by_one(batch: &Batch, ingress: &Ingress, twin: &Arc<Counters>) -> Good {
    let (mut good, own) = (Good::default(), twin.acquire().unwrap());
    batch.each_ref(|slot, packet| {
        let port = batch.lanes.port[slot];
        let interface = ingress.enter(port, packet.window(0)).interface;
        own.view(16).count(interface.into(), 1, packet.len() as u64);
        match classify::Frame::of(packet, port, ingress).map(|frame| classify::classify(packet, frame)) {
            Ok(Ok(Family::Four)) => good.four |= slot.bit(),
            Ok(Ok(Family::Six)) => good.six |= slot.bit(),
            _ => {}
        }
    });
    good
}

/// What would be right to expect of a batch of which these packets are good.
fn right(batch: &Batch, good: u64, ingress: &Ingress) -> Expected {
    let mut seen = std::collections::BTreeSet::new();
    batch.each_ref(|slot, packet| {
        let front = packet.window::<22>(0);
        let entered = ingress.enter(batch.lanes.port[slot], front);
        seen.insert((batch.lanes.port[slot], entered.l3, [front[12], front[13]], entered.interface));
    });
    let mut alike = seen.clone();
    let first = alike.pop_first();
    let is_like = |other: &(u16, u8, [u8; 2], _)| {
        first.is_some_and(|first| (first.0, first.1, first.2) == (other.0, other.1, other.2))
    };
    match first {
        Some((_, 18, ..)) if good == batch.live() && seen.len() == 1 => Expected::OneInterface,
        Some((_, 18, ..)) if good == batch.live() && alike.iter().all(is_like) => Expected::OneTag,
        _ => Expected::Nothing,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Where packets belong, who is good and what is counted are found out in one pass as one by one.
    #[test]
    fn a_pass_says_what_each_packet_says(
        all in proptest::collection::vec((0_u16..2, 0_usize..3, any::<bool>(), 0_usize..8, 1_u8..3, length()), 1..=64),
        gap: u64,
    ) {
        let (mut pool, interfaces) = (HeapPool::new(128, 2048), interfaces());
        let ingress = interfaces.ingress();
        let (counters, twin) = (Counters::new(16), Counters::new(16));
        let frames = all.into_iter().map(|(port, to, is_six, tags, ttl, length)| {
            (port, frame(*MACS.get(to).unwrap_or(&MacAddr([2; 6])), is_six, TAGS[tags], ttl, length))
        });
        let mut batch = fill(&mut pool, frames, gap);
        let expected = one_by_one(&batch, ingress, &twin);
        for kernel in Kernel::available() {
            let mut examiner = Examiner::new(kernel);
            let received = Received::new(counters.acquire().unwrap());
            let found = examiner.enter_and_check(&mut batch, &received, ingress, |_| {}, |_| {});
            prop_assert_eq!((found.four, found.six), (expected.four, expected.six));
            batch.each_ref(|slot, packet| {
                assert_eq!(batch.lanes.l3[slot], ingress.enter(batch.lanes.port[slot], packet.window(0)).l3);
            });
        }
        let times = Kernel::available().count() as u64;
        for interface in 0..16 {
            let (packets, bytes) = twin.sum(interface);
            prop_assert_eq!(counters.sum(interface), (times * packets, times * bytes));
        }
        empty(&mut pool, batch);
    }

    /// What is expected of a batch is found out of it as one by one, whether it is right or not, and counted.
    #[test]
    fn what_is_not_as_expected_is_found_out(
        usual in 0_usize..8,
        odd in proptest::collection::vec((0_usize..64, 0_u16..2, 0_usize..3, any::<bool>(), 0_usize..8, 1_u8..3, length()), 0..4),
        vlans: u64,
        (count, gap) in (1_usize..=64, 0_u64..4),
    ) {
        let (mut pool, interfaces) = (HeapPool::new(128, 2048), interfaces());
        let ingress = interfaces.ingress();
        let (counters, twin) = (Counters::new(16), Counters::new(16));
        let mut frames: Vec<(u16, Vec<u8>)> = (0..count)
            .map(|n| match (usual, vlans >> n & 1) {
                // The two VLANs of the port that take one tag, in turn.
                (3, 1) => (0, frame(MACS[0], false, TAGS[4], 2, 70)),
                _ => (0, frame(MACS[0], false, TAGS[usual], 2, 70)),
            })
            .collect();
        for (at, port, to, is_six, tags, ttl, length) in odd {
            frames[at % count] =
                (port, frame(*MACS.get(to).unwrap_or(&MacAddr([2; 6])), is_six, TAGS[tags], ttl, length));
        }
        let mut batch = fill(&mut pool, frames.into_iter(), gap);
        // What stands where no packet is counts, too, when it is asked whether all came in by one port: the same, as who receives writes it.
        let (live, first) = (batch.live(), batch.slots().next().map_or(0, |slot| batch.lanes.port[slot]));
        (0..BATCH).filter(|at| live >> at & 1 == 0).for_each(|at| batch.lanes.port.all_mut()[at] = first);
        let expected = one_by_one(&batch, ingress, &twin);
        let is_right = right(&batch, expected.four, ingress);
        if expected.four == batch.live() && batch.live() != 0 {
            prop_assert_eq!(Expected::after(&batch, ingress), is_right);
        }
        let mut times = 0;
        for (kernel, guess) in Kernel::available().flat_map(|kernel| [Expected::OneTag, Expected::OneInterface].map(|guess| (kernel, guess))) {
            let Some((tag, scope)) = guess.of(&batch, ingress) else { continue };
            let mut examiner = Examiner::new(kernel);
            examiner.expected = guess;
            let received = Received::new(counters.acquire().unwrap());
            let found = examiner.check_expected(&mut batch, &tag, &received, ingress, |_| {}, |_| {});
            times += 1;
            prop_assert_eq!((scope, found.six, found.four & !expected.four), (Scope::One(0), 0, 0));
            let holds = is_right == guess || is_right == Expected::OneInterface;
            prop_assert_eq!(found.four == batch.live(), holds);
            let less = if guess == Expected::OneInterface { Expected::OneTag } else { Expected::Nothing };
            prop_assert_eq!(examiner.expected, if holds { guess } else { less });
            let first = batch.get(batch.slots().next().unwrap()).unwrap().window::<22>(0);
            batch.each_ref(|slot, packet| {
                let (port, front) = (batch.lanes.port[slot], packet.window::<22>(0));
                let entered = ingress.enter(port, front);
                assert_eq!(batch.lanes.l3[slot], if found.four & slot.bit() == 0 { entered.l3 } else { 18 });
                let is_alike = front[..6] == first[..6] && front[12..14] == first[12..14]
                    && (guess == Expected::OneTag || entered.interface == ingress.enter(port, first).interface);
                assert_eq!(found.four & slot.bit() != 0, is_alike && entered.l3 == 18 && expected.four & slot.bit() != 0);
            });
        }
        for interface in 0..16 {
            let (packets, bytes) = twin.sum(interface);
            prop_assert_eq!(counters.sum(interface), (times * packets, times * bytes));
        }
        empty(&mut pool, batch);
    }
}
