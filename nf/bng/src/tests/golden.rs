//! Whole frames in both directions, byte by byte.

use super::rig::*;
use super::twin::seal;
use crate::punt::Rates;
use weir_simd::Kernel;

/// A customer's UDP packet.
pub(super) fn packet(source: [u8; 4], destination: [u8; 4], payload: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0];
    packet.extend(source);
    packet.extend(destination);
    packet.extend([0x30, 0x39, 0, 53, 0, 0, 0, 0]);
    packet.extend((0..payload).map(|n| n as u8));
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    seal(&mut packet);
    packet
}

/// A frame from a customer with these tags.
pub(super) fn tagged(svlan: u16, cvlan: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = [ACCESS.0, [2, 0, 0, 1, cvlan as u8, 1]].concat();
    frame.extend([0x88, 0xa8]);
    frame.extend(svlan.to_be_bytes());
    frame.extend([0x81, 0]);
    frame.extend(cvlan.to_be_bytes());
    frame.extend([8, 0]);
    frame.extend(packet);
    frame
}

/// A frame from the core with these labels and this key.
pub(super) fn wrapped(labels: usize, key: u32, packet: &[u8]) -> Vec<u8> {
    let mut frame = [CORE.0, [2, 0, 0, 2, 0, 1]].concat();
    frame.extend(if labels == 0 { [8, 0] } else { [0x88, 0x47] });
    for n in 0..labels {
        frame.extend([0, 3, u8::from(n + 1 == labels), 0]);
    }
    let mut outer = vec![0x45, 0];
    outer.extend((packet.len() as u16 + 28).to_be_bytes());
    outer.extend([0, 0, 0x40, 0, 60, 47, 0, 0, 198, 18, 0, 1]);
    outer.extend(LOCAL);
    seal(&mut outer);
    frame.extend(outer);
    frame.extend([0x20, 0, 8, 0]);
    frame.extend(key.to_be_bytes());
    frame.extend(packet);
    frame
}

/// The sizes of the papers' tests: a frame of 50 bytes that was filled up to 60 leaves with 74 (78 with the check sequence).
#[test]
fn padding_is_cut_and_one_label_adds_24_bytes() {
    let mut rig = Rig::<true>::new();
    let frame = tagged(1, 1, &packet([10, 0, 0, 9], [192, 0, 2, 1], 0));
    assert_eq!(frame.len(), 50);
    let (way, bytes) = rig.up(&frame);
    assert_eq!((way.as_str(), bytes.len()), ("port[1]", 74));
    let padded = [&frame[..], &[0xee; 10]].concat();
    assert_eq!((padded.len(), rig.up(&padded)), (60, (way, bytes.clone())));
    // Ethernet and MPLS.
    assert_eq!(bytes[..18], [2, 0, 0, 2, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x47, 0x12, 0x01, 0x0b, 63]);
    // Outer IPv4: 56 bytes, DF, TTL 64, GRE, from the tunnel's end to the gateway; its checksum by hand is 0xa37f.
    let outer = [0x45, 0, 0, 56, 0, 0, 0x40, 0, 64, 47, 0, 0, 21, 22, 23, 24, 198, 18, 0, 1];
    let mut sealed = outer;
    seal(&mut sealed);
    assert_eq!(bytes[18..38], sealed);
    // GRE with key 7.
    assert_eq!(bytes[38..46], [0x20, 0, 0x08, 0, 0, 0, 0, 7]);
    // The customer's packet with one hop less.
    let mut inner = packet([10, 0, 0, 9], [192, 0, 2, 1], 0);
    inner[8] = 63;
    seal(&mut inner);
    assert_eq!(bytes[46..], inner);
}

#[test]
fn down_a_frame_shrinks_by_24_bytes_and_has_its_tags() {
    let mut rig = Rig::<true>::new();
    let mut inner = packet([192, 0, 2, 1], [10, 0, 0, 9], 0);
    inner[1] = 46 << 2;
    seal(&mut inner);
    let frame = wrapped(1, 7, &inner);
    let (way, bytes) = rig.down(&frame);
    assert_eq!((way.as_str(), frame.len(), bytes.len()), ("port[0]", 74, 50));
    assert_eq!(bytes[..12], [2, 0, 0, 1, 1, 1, 2, 0, 0, 0, 0, 1]);
    // DSCP 46 has priority 5 here.
    assert_eq!(bytes[12..22], [0x88, 0xa8, 0xa0, 1, 0x81, 0, 0xa0, 1, 8, 0]);
    inner[8] = 63;
    seal(&mut inner);
    assert_eq!(bytes[22..], inner);
}

#[test]
fn what_goes_up_comes_down_the_same_but_for_two_hops() {
    for payload in [0, 1, 18, 500, 1400] {
        let mut rig = Rig::<true>::new();
        let (_, core) = rig.up(&tagged(100, 200, &packet([10, 0, 2, 1], [192, 0, 2, 200], payload)));
        // As the other end would send it back: the outer addresses change places, the inner ones too.
        let mut back = [CORE.0, [2, 0, 0, 2, 0, 2]].concat();
        back.extend(&core[12..]);
        back[26..30].copy_from_slice(&[198, 18, 0, 2]);
        back[30..34].copy_from_slice(&LOCAL);
        back[54..58].copy_from_slice(&[192, 0, 2, 200]);
        back[58..62].copy_from_slice(&[10, 0, 2, 1]);
        let (way, bytes) = rig.down(&back);
        let mut expected = packet([192, 0, 2, 200], [10, 0, 2, 1], payload);
        expected[8] = 62;
        seal(&mut expected);
        assert_eq!((way.as_str(), &bytes[22..]), ("port[0]", &expected[..]));
    }
}

#[test]
fn subscribers_are_counted_with_their_losses() {
    let mut rig = Rig::<true>::new();
    let good = tagged(1, 1, &packet([10, 0, 0, 9], [192, 0, 2, 1], 10));
    let padded = [&good[..], &[0; 4]].concat();
    rig.up(&good);
    rig.up(&padded);
    rig.up(&tagged(1, 1, &packet([10, 0, 0, 9], [224, 0, 0, 1], 10)));
    rig.down(&wrapped(0, 7, &packet([192, 0, 2, 1], [10, 0, 0, 9], 3)));
    let sums = rig.counted(0);
    assert_eq!((sums.up_packets, sums.up_bytes), (2, 120));
    assert_eq!((sums.down_packets, sums.down_bytes), (1, 53));
    assert_eq!(sums.drops, [("multicast", 1)]);
    assert_eq!(rig.counted(1).up_packets, 0);
}

#[test]
fn a_subscriber_that_floods_the_slow_path_is_held_back_alone() {
    let mut rig = Rig::<true>::on(Kernel::detect(), Rates { all: 20_000, each: 10, subscribers: 64 });
    let from = |svlan, cvlan| tagged(svlan, cvlan, &packet([10, 9, 9, 9], [192, 0, 2, 1], 0));
    let ways: Vec<String> = (0..40).map(|_| rig.up(&from(1, 1)).0).collect();
    assert_eq!(ways.iter().filter(|way| *way == "unknown-source").count(), 16);
    assert!(ways[16..].iter().all(|way| way == "punt-policed-subscriber"));
    assert_eq!(rig.up(&from(1, 4094)).0, "unknown-source");
    assert_eq!(rig.counted(0).drops, [("punt-policed-subscriber", 24)]);
}
