//! What is found in any packet is what its headers say: RFC 7348 section 5, and RFC 768 for lengths and checksums.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_wire::vxlan::{Carried, PORT, carried};
use weir_wire::{checksum, ethernet, ipv4};

/// UDP and VXLAN headers.
const HEADERS: usize = 16;

/// The datagram of a tunnel, with a right UDP checksum or none.
fn datagram(addresses: &[u8], has_sum: bool, frame: &[u8]) -> Vec<u8> {
    let length = ((HEADERS + frame.len()) as u16).to_be_bytes();
    let mut all =
        [&[0xc3, 0x50], &PORT.to_be_bytes()[..], &length, &[0, 0, 8, 0, 0, 0, 0xab, 0xcd, 0xef, 0], frame].concat();
    if has_sum {
        let sum = checksum::checksum(&[addresses, &[0, 17], &length, &all].concat());
        all[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    all
}

/// Packets in tunnels over both families, one of them with an extension header, each with its EtherType.
fn seeds() -> Vec<(u16, Vec<u8>)> {
    let inside: Vec<u8> = (0..60).collect();
    let four = |has_sum, more: u8| {
        let ends = [192, 0, 2, 9, 192, 0, 2, 1];
        let behind = datagram(&ends, has_sum, &inside);
        let total = (20 + behind.len()) as u16;
        let [high, low] = total.to_be_bytes();
        let mut packet = [&[0x45, 3, high, low, 0, 0, more, 0, 64, 17, 0, 0][..], &ends, &behind].concat();
        ipv4::write_checksum(&mut packet);
        (ethernet::IPV4, packet)
    };
    let six = |has_sum, extensions: &[u8]| {
        let ends = [[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9], [0xfd; 16]].concat();
        let behind = [extensions, &datagram(&ends, has_sum, &inside)].concat();
        let next = if extensions.is_empty() { 17 } else { 60 };
        (ethernet::IPV6, [&[0x60, 0x30, 0, 0, 0, behind.len() as u8, next, 64][..], &ends, &behind].concat())
    };
    vec![
        four(false, 0),
        four(true, 0),
        four(true, 0x20),
        six(false, &[]),
        six(true, &[]),
        six(true, &[17, 0, 1, 4, 0, 0, 0, 0]),
    ]
}

prop_compose! {
    fn mutated()(
        seed in 0..6_usize,
        changes in prop::collection::vec((0..120_usize, any::<u8>()), 0..4),
        length in prop::option::weighted(0.2, 0..200_usize),
        heals in any::<bool>(),
    ) -> (u16, Vec<u8>) {
        let (ethertype, mut packet) = seeds().swap_remove(seed);
        for (at, byte) in changes {
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
        }
        if let Some(length) = length {
            packet.resize(length, 0xa5);
        }
        // What is wrong with a header's checksum would hide all else.
        if heals && ethertype == ethernet::IPV4 {
            ipv4::write_checksum(&mut packet);
        }
        (ethertype, packet)
    }
}

/// Looks for a frame in a packet, and checks what is found; whether it is more than nothing.
fn look(ethertype: u16, packet: &[u8]) -> bool {
    let is_v6 = ethertype == ethernet::IPV6;
    let read = carried(ethertype, packet, PORT, |_| true);
    assert_eq!(carried(ethertype, packet, PORT, |_| false), Ok(None), "it is for somebody else");
    // What is behind a whole packet is padding.
    let padded = [packet, &[0xa5; 40]].concat();
    assert!(read == Ok(None) || carried(ethertype, &padded, PORT, |_| true) == read);
    match read {
        Ok(Some(found)) => is_right(is_v6, packet, found),
        // Only what is for the port is dropped.
        Err(why) => {
            let for_port = packet.windows(2).any(|pair| pair == PORT.to_be_bytes());
            assert!(for_port, "{why:?}");
        }
        Ok(None) => {}
    }
    read != Ok(None)
}

/// Checks what was found by the definition (RFC 7348 section 5, RFC 768).
fn is_right(is_v6: bool, packet: &[u8], found: Carried<'_>) {
    let Carried { source, destination, class, vni, at, frame } = found;
    let end = at + frame.len();
    assert_eq!(packet.get(at..end), Some(frame));
    let headers = &packet[at - HEADERS..at];
    assert_eq!(
        (headers[2..4].to_vec(), usize::from(headers[4]) << 8 | usize::from(headers[5])),
        (PORT.to_be_bytes().to_vec(), HEADERS + frame.len())
    );
    assert!(headers[8] & 8 != 0, "there is no VNI");
    assert_eq!(vni.to_be_bytes(), [0, headers[12], headers[13], headers[14]]);
    let (addresses, length) = if is_v6 { (8..40, 40 + half(packet, 4)) } else { (12..20, half(packet, 2)) };
    assert!(end <= usize::from(length) && usize::from(length) <= packet.len(), "it is beyond its packet");
    let first = half(packet, 0);
    assert_eq!(u16::from(class), if is_v6 { first >> 4 & 0xff } else { first & 0xff });
    let ends: Vec<u8> = packet[addresses].to_vec();
    let (from, to) = ends.split_at(ends.len() / 2);
    let number = |end: &[u8]| {
        end.iter().fold(if is_v6 { 0 } else { 0xffff }, |number: u128, byte| number << 8 | u128::from(*byte))
    };
    assert_eq!((source, destination), (number(from), number(to)));
    if headers[6..8] != [0, 0] {
        let datagram = &packet[at - HEADERS..end];
        let words = |bytes: &[u8]| -> u64 {
            bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum()
        };
        let sum = words(&ends) + 17 + datagram.len() as u64 + words(datagram);
        assert!(sum > 0 && sum.is_multiple_of(0xffff), "a wrong checksum was taken");
    }
}

fn half(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

#[test]
fn what_is_found_is_what_headers_say() {
    let (all, found) = (Cell::new(0_u64), Cell::new(0_u64));
    assert!(seeds().iter().all(|(ethertype, packet)| look(*ethertype, packet)), "one is in no tunnel");
    let config = ProptestConfig { cases: 200_000, source_file: Some(file!()), ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&mutated(), |(ethertype, packet)| {
        all.set(all.get() + 1);
        found.set(found.get() + u64::from(look(ethertype, &packet)));
        Ok(())
    });
    outcome.unwrap();
    // Else nothing was shown.
    assert!(found.get() * 4 > all.get() && all.get() > 50_000, "{} of {}", found.get(), all.get());
}
