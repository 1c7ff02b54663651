//! ICMP redirects: when they are sent, when they must not be (RFC 1812 section 5.2.7.2), and that packets go on all the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::*;
use serde_json::json;
use weir_wire::ipv4::write_checksum;
use weir_wire::{Ipv4, View, checksum};

/// Two networks on the left port, one on the right; routes lead back out of the left one.
const PORTS: &[PortSpec] =
    &[PortSpec("left", &["10.0.0.1/24", "10.5.0.1/24"], 1500), PortSpec("right", &["10.0.1.1/24"], 1500)];

fn router(extra: serde_json::Value) -> Rig {
    let mut config = json!({
        "neighbors": {
            "10.0.0.9": "02:00:00:00:09:00", "10.0.0.7": "02:00:00:00:07:00", "10.5.0.9": "02:00:00:00:09:05",
            "10.0.1.9": "02:00:00:00:09:01",
        },
        "routes": { "192.0.2.0/24": "10.0.0.7", "198.51.100.0/24": "10.0.1.9" },
        "neighbor_timers": { "own_probes": 0 },
        "redirects": true,
    });
    for (key, value) in extra.as_object().unwrap() {
        config[key] = value.clone();
    }
    let mut rig = Rig::new(PORTS, config);
    rig.run(5 * SECOND);
    (0..2).for_each(|port| drop(rig.sent(port)));
    rig
}

/// The redirects among the packets that a port sent, and the others.
fn redirects(sent: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    sent.into_iter().partition(|frame| frame[23] == 1 && frame[34] == 5)
}

#[test]
fn the_source_is_told_of_the_nearer_router_and_its_packet_goes_on() {
    for (destination, gateway) in [("192.0.2.7", [10, 0, 0, 7]), ("10.0.0.7", [10, 0, 0, 7])] {
        let mut rig = router(json!({}));
        let frame = rig.udp(0, "10.0.0.9", destination).to_vec(b"data");
        rig.send(0, frame.clone());
        rig.settle();
        let (told, others) = redirects(rig.sent_ip(0));
        let [packet] = &others[..] else { panic!("{others:?}") };
        assert_eq!((&packet[..6], packet[22]), (&[2, 0, 0, 0, 7, 0][..], 63));
        let [redirect] = &told[..] else { panic!("{told:?}") };
        // Host redirect (code 1), from the router's address on the source's network, to the source; the packet as it came.
        assert_eq!((&redirect[26..30], &redirect[30..34]), (&[10, 0, 0, 1][..], &[10, 0, 0, 9][..]));
        assert_eq!((redirect[34], redirect[35], &redirect[38..42]), (5, 1, &gateway[..]));
        let end = 14 + Ipv4::view(&redirect[14..]).unwrap().total_len();
        assert!(checksum::is_valid(&redirect[34..end]));
        let quoted = 14 + Ipv4::view(&frame[14..]).unwrap().total_len();
        assert_eq!(redirect[42..end], frame[14..quoted]);
        let fates = rig.fates();
        assert_eq!((fates["redirect-copy"], fates["redirected"], fates["icmp-redirect"]), (1, 1, 1));
        rig.finish();
    }
}

/// What makes a packet another.
type Change<'a> = &'a dyn Fn(&mut Vec<u8>);

#[test]
fn no_redirect_is_sent_where_rfc_1812_forbids_it() {
    let change = |frame: &mut Vec<u8>, change: Change<'_>| {
        change(frame);
        write_checksum(&mut frame[14..]);
    };
    let cases: [(&str, &str, &str, Change<'_>); 6] = [
        ("it leaves by another port", "10.0.0.9", "198.51.100.7", &|_| ()),
        ("the source is on another network of the same port", "10.5.0.9", "192.0.2.7", &|_| ()),
        ("the source is behind another router", "203.0.113.1", "192.0.2.7", &|_| ()),
        ("it is an ICMP error", "10.0.0.9", "192.0.2.7", &|frame| (frame[23], frame[34]) = (1, 3)),
        ("it is a later fragment", "10.0.0.9", "192.0.2.7", &|frame| {
            Ipv4::view_mut(&mut frame[14..]).unwrap().set_fragment(false, false, 64);
        }),
        ("it goes nowhere", "10.0.0.9", "192.0.2.7", &|frame| frame[22] = 1),
    ];
    for (why, source, destination, how) in cases {
        let mut rig = router(json!({}));
        let mut frame = rig.udp(0, source, destination).to_vec(b"data");
        change(&mut frame, how);
        rig.send(0, frame);
        rig.settle();
        assert!(redirects(rig.sent_ip(0)).0.is_empty(), "{why}");
        rig.account();
        rig.finish();
    }
    // To another station: the port hears it, the router does not forward it.
    let mut rig = router(json!({}));
    let mut frame = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(b"data");
    frame[5] ^= 0x55;
    rig.send(0, frame);
    rig.settle();
    assert!(rig.sent_ip(0).is_empty());
    rig.finish();
}

#[test]
fn redirects_are_few_and_can_be_switched_off() {
    let mut rig = router(json!({}));
    let frame = rig.udp(0, "10.0.0.9", "192.0.2.7").to_vec(b"data");
    for _ in 0..1000 {
        rig.send(0, frame.clone());
    }
    rig.settle();
    let (told, others) = redirects(rig.sent_ip(0));
    assert_eq!((told.len(), others.len()), (1, 1000), "they came within 10 ms");
    rig.run(SECOND / 10);
    rig.send(0, frame.clone());
    rig.settle();
    assert_eq!(redirects(rig.sent_ip(0)).0.len(), 1);
    rig.finish();

    let mut rig = router(json!({ "redirects": false }));
    rig.send(0, frame);
    rig.settle();
    let (told, others) = redirects(rig.sent_ip(0));
    assert_eq!((told.len(), others.len()), (0, 1));
    rig.finish();
}
