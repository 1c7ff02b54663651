//! The slow path as a whole: ARP, ICMP, options, fragments, waiting packets; with packets from the RFCs' definitions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod common;

use common::*;
use serde_json::json;
use weir_wire::{Ipv4, MacAddr, View, validity};

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 7, 7]);

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

#[test]
fn a_packet_waits_for_its_neighbour_and_then_goes_the_fast_way() {
    let mut rig = Rig::new(TWO, json!({}));
    let frame = rig.udp(0, "10.0.0.9", "10.0.1.9").to_vec(b"data");
    rig.send(0, frame.clone());
    rig.settle();
    let asked = rig.sent_arp(1);
    let request = asked.iter().find(|(_, arp)| arp.target == ip("10.0.1.9")).unwrap();
    assert_eq!((request.0, request.1.sender), (MacAddr::BROADCAST, ip("10.0.1.1")));
    assert_eq!(rig.account().held, 1);
    rig.arp_reply(1, ip("10.0.1.9"), HOST, ip("10.0.1.1"));
    rig.settle();
    let [first] = &rig.sent_ip(1)[..] else { panic!("one packet") };
    rig.send(0, frame.clone());
    rig.settle();
    let [second] = &rig.sent_ip(1)[..] else { panic!("one packet") };
    assert_eq!(first, second, "both paths do the same to a packet");
    assert_eq!((&first[..6], &first[6..12]), (&HOST.0[..], &rig.mac(1).0[..]));
    assert_eq!(validity::check_slice(&first[14..]), Ok(()));
    assert_eq!(Ipv4::view(&first[14..]).unwrap().ttl, 63);
    assert_eq!(first[14 + 12..], frame[14 + 12..first.len()]);
    let snapshot = rig.snapshot();
    let forwarded = snapshot[0].stages.iter().find(|stage| stage.name == "router.forward").unwrap();
    assert_eq!(forwarded.ways, [("unresolved".to_owned(), 1), ("arp".to_owned(), 1), ("port[1]".to_owned(), 1)]);
    rig.finish();
}
