use proptest::prelude::*;
use weir_mem::Domain;
use weir_packet::{HeapPool, Pool};
use weir_table::counters::Counters;
use weir_wire::MacAddr;
use weir_wire::build::UdpFrame;

use super::*;
use crate::fast::classify::{self, Family};
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Where packets belong, who is good and what is counted are found out in one pass as one by one.
    #[test]
    fn a_pass_says_what_each_packet_says(
        all in proptest::collection::vec((0_u16..2, 0_usize..3, any::<bool>(), 0_usize..8, 1_u8..3, 14_usize..70), 1..=64),
        gap: u64,
    ) {
        let (mut pool, interfaces) = (HeapPool::new(128, 2048), interfaces());
        let ingress = interfaces.ingress();
        let (counters, twin) = (Counters::new(16), Counters::new(16));
        let mut batch = Batch::new();
        for (port, to, is_six, tags, ttl, length) in all {
            let bytes = frame(*MACS.get(to).unwrap_or(&MacAddr([2; 6])), is_six, TAGS[tags], ttl, length);
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
        let (mut expected, own) = (Good::default(), twin.acquire().unwrap());
        batch.each_ref(|slot, packet| {
            let port = batch.lanes.port[slot];
            let interface = ingress.enter(port, packet.window(0)).interface;
            own.view(16).count(interface.into(), 1, packet.len() as u64);
            match classify::Frame::of(packet, port, ingress).map(|frame| classify::classify(packet, frame)) {
                Ok(Ok(Family::Four)) => expected.four |= slot.bit(),
                Ok(Ok(Family::Six)) => expected.six |= slot.bit(),
                _ => {}
            }
        });
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
        for slot in batch.slots() {
            pool.free(batch.take(slot).unwrap());
        }
    }
}
