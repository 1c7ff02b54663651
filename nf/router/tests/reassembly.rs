//! Fragments to the router's own addresses: what they come to, and what becomes of them when they come to nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::json;
use weir_wire::ipv4::write_checksum;
use weir_wire::{Ipv4, View, checksum, icmp, validity};

const HOST: [u8; 4] = [10, 0, 0, 9];
const OWN: [u8; 4] = [10, 0, 0, 1];

fn router(fragments: u32) -> Rig {
    let config = json!({
        "neighbors": { "10.0.0.9": "02:00:00:00:09:00" },
        "neighbor_timers": { "own_probes": 0 },
        "limits": { "fragments": fragments },
    });
    let mut rig = Rig::new(TWO, config);
    rig.run(5 * SECOND);
    (0..2).for_each(|port| drop(rig.sent(port)));
    rig
}

/// A part of the payload of a packet from the host to the router, in a frame.
fn fragment(rig: &Rig, identification: u16, protocol: u8, payload: &[u8], from: usize, to: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(rig.mac(0).0);
    frame.extend([2, 0, 0, 0, 9, 0, 8, 0]);
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 9, protocol, 0, 0];
    ip.extend(HOST);
    ip.extend(OWN);
    ip.extend(&payload[from..to]);
    let total = ip.len() as u16;
    let header = Ipv4::view_mut(&mut ip).unwrap();
    header.total_length = total.into();
    header.identification = identification.into();
    header.set_fragment(false, to < payload.len(), from);
    write_checksum(&mut ip);
    frame.extend(ip);
    frame
}

fn echo_request(data: usize) -> Vec<u8> {
    let mut message = vec![0; 8];
    message.extend((0..data).map(|n| (n % 251) as u8));
    icmp::write_header(&mut message, icmp::ECHO, 0, icmp::echo_rest(7, 9));
    message
}

#[test]
fn an_echo_request_in_fragments_is_answered_in_fragments() {
    let mut rig = router(256);
    let request = echo_request(20_000);
    let bounds: Vec<usize> = (0..request.len()).step_by(1480).chain([request.len()]).collect();
    // From the last to the first.
    for pair in bounds.windows(2).rev() {
        let [from, to] = pair else { panic!() };
        assert!(rig.sent_ip(0).is_empty());
        rig.send(0, fragment(&rig, 1, 1, &request, *from, *to));
        rig.settle();
    }
    let mut reply = vec![0; request.len()];
    let pieces = rig.sent_ip(0);
    assert_eq!(pieces.len(), bounds.len() - 1);
    for piece in &pieces {
        assert_eq!(validity::check_slice(&piece[14..]), Ok(()));
        let ip = Ipv4::view(&piece[14..]).unwrap();
        assert_eq!((ip.source_addr().octets(), ip.destination_addr().octets(), ip.ttl), (OWN, HOST, 64));
        assert!(ip.total_len() <= 1500);
        reply[ip.fragment_offset()..][..ip.total_len() - 20].copy_from_slice(&piece[34..14 + ip.total_len()]);
    }
    assert!(checksum::is_valid(&reply));
    assert_eq!((reply[0], &reply[4..]), (icmp::ECHO_REPLY, &request[4..]));
    let fates = rig.fates();
    let all = pieces.len() as u64;
    assert_eq!((fates["reassembled"], fates["echo-answered"]), (all - 1, 1));
    assert_eq!((fates["echo-reply"], fates["fragment"]), (1, all - 1));
    rig.finish();
}

#[test]
fn one_whose_reply_has_no_way_back_is_not_counted_as_answered() {
    let mut rig = router(256);
    let request = echo_request(2000);
    rig.send(0, fragment(&rig, 1, 1, &request, 0, 1480));
    rig.settle();
    rig.instance.link_changed(0, false, rig.engine.now());
    rig.send(0, fragment(&rig, 1, 1, &request, 1480, request.len()));
    rig.settle();
    assert!(rig.sent_ip(0).is_empty());
    let fates = rig.fates();
    assert_eq!((fates.get("echo-answered"), fates.get("echo-reply")), (None, None));
    assert_eq!(rig.drops()["router.control/echo-unanswered"], 1);
    rig.finish();
}

#[test]
fn what_nobody_listens_to_is_refused_when_it_is_whole() {
    let mut rig = router(256);
    let payload: Vec<u8> = (0..64).collect();
    let first = fragment(&rig, 1, 17, &payload, 0, 32);
    rig.send(0, first.clone());
    rig.settle();
    assert_eq!((rig.sent_ip(0).len(), rig.account().held), (0, 1));
    rig.send(0, fragment(&rig, 1, 17, &payload, 32, 64));
    rig.settle();
    let [error] = &rig.sent_ip(0)[..] else { panic!("one error") };
    // Port Unreachable, which quotes the first fragment.
    assert_eq!((error[34], error[35]), (3, 3));
    assert_eq!(error[42..], first[14..]);
    assert_eq!((rig.drops()["router.control/local-port"], rig.fates()["reassembled"]), (1, 1));
    rig.finish();
}

#[test]
fn the_source_is_told_when_time_is_over_if_the_first_fragment_came() {
    let mut rig = router(256);
    let request = echo_request(100);
    let first = fragment(&rig, 1, 1, &request, 0, 48);
    rig.send(0, first.clone());
    rig.send(0, fragment(&rig, 2, 1, &request, 48, 96));
    rig.run(59 * SECOND);
    assert_eq!((rig.sent_ip(0).len(), rig.account().held), (0, 2));
    rig.run(2 * SECOND);
    let [error] = &rig.sent_ip(0)[..] else { panic!("one error") };
    // Time Exceeded, code 1: fragment reassembly time exceeded (RFC 792).
    assert_eq!((error[34], error[35]), (11, 1));
    assert_eq!(error[42..], first[14..]);
    assert_eq!(rig.drops()["router.control/fragment-timeout"], 2);
    assert_eq!((rig.fates()["icmp-reassembly-exceeded"], rig.account().held), (1, 0));
    // What comes now begins a new one.
    rig.send(0, fragment(&rig, 1, 1, &request, 48, 108));
    rig.settle();
    assert_eq!(rig.account().held, 1);
    rig.finish();
}

#[test]
fn fragments_that_overlap_are_dropped_with_their_packet() {
    let mut rig = router(256);
    let request = echo_request(100);
    for (from, to) in [(0, 48), (0, 48), (40, 108), (48, 108)] {
        rig.send(0, fragment(&rig, 1, 1, &request, from, to));
        rig.settle();
    }
    assert!(rig.sent_ip(0).is_empty());
    let drops = rig.drops();
    assert_eq!((drops["router.control/fragment-duplicate"], drops["router.control/fragment-overlap"]), (1, 3));
    assert_eq!(rig.account().held, 0);
    rig.finish();
}

#[test]
fn no_more_wait_than_there_is_room_for() {
    let mut rig = router(4);
    let request = echo_request(100);
    for identification in 0..10 {
        rig.send(0, fragment(&rig, identification, 1, &request, 0, 48));
    }
    rig.settle();
    assert_eq!((rig.account().held, rig.drops()["router.control/fragment-queue-full"]), (4, 6));
    // Whole packets are answered all the same.
    rig.send(0, fragment(&rig, 99, 1, &request, 0, request.len()));
    rig.settle();
    assert_eq!(rig.sent_ip(0).len(), 1);
    // What waits when the engine stops is accounted for.
    rig.finish();
}
