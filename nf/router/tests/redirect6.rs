//! Redirects of IPv6: when they are sent, and when not (RFC 4861 section 8.2).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use common::six::*;
use common::*;
use serde_json::json;
use weir_wire::MacAddr;

const NEAR: &str = "2001:db8:0:1::7";
const NEAR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 7, 0]);

fn router() -> Rig {
    let config = json!({
        "neighbors": {
            LEFT: LEFT_MAC.to_string(), RIGHT: RIGHT_MAC.to_string(), NEAR: NEAR_MAC.to_string(),
            "fe80::7%left": NEAR_MAC.to_string(),
        },
        "routes": {
            "2001:db8:7::/48": "fe80::7%left", "2001:db8:8::/48": NEAR, "2001:db8:9::/48": RIGHT,
        },
        "redirects": true,
    });
    Rig::new(TWO6, config).quiet()
}

/// The redirects among what a port sent, and the other packets.
fn redirects(rig: &mut Rig) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let is_redirect = |frame: &Vec<u8>| frame[20] == 58 && frame[54] == 137;
    rig.sent(0).into_iter().filter(|frame| frame[20] != 0).partition(is_redirect)
}

#[test]
fn the_source_is_told_of_the_nearer_node_and_its_packet_goes_on() {
    // By its link-local address a router is told, and a host by its own.
    for (destination, target) in [("2001:db8:7::7", "fe80::7"), (NEAR, NEAR)] {
        let mut rig = router();
        let frame = udp6(&rig, 0, LEFT, destination, 64, 1300);
        rig.send(0, frame.clone());
        rig.settle();
        let (told, others) = redirects(&mut rig);
        let [packet] = &others[..] else { panic!("{others:?}") };
        assert_eq!((&packet[..6], packet[21]), (&NEAR_MAC.0[..], 63));
        let [redirect] = &told[..] else { panic!("{told:?} {:?}", rig.fates()) };
        assert_sound(redirect);
        assert_eq!((&redirect[..6], redirect[21]), (&LEFT_MAC.0[..], 255));
        assert_eq!((&redirect[22..38], &redirect[38..54]), (&rig.link_local(0).octets()[..], &ip6(LEFT).octets()[..]));
        assert_eq!((&redirect[62..78], &redirect[78..94]), (&ip6(target).octets()[..], &ip6(destination).octets()[..]));
        // The target's address, and as much of the packet as 1,280 bytes allow.
        assert_eq!((&redirect[94..96], &redirect[96..102]), (&[2, 1][..], &NEAR_MAC.0[..]));
        assert_eq!((redirect[102], &redirect[110..]), (4, &frame[14..][..redirect.len() - 110]));
        assert!(redirect.len() - 14 <= 1280 && redirect.len() - 14 > 1270);
        let fates = rig.fates();
        assert_eq!((fates["redirect-copy"], fates["redirected"], fates["nd-redirect"]), (1, 1, 1));
        rig.finish();
    }
}

#[test]
fn no_redirect_is_sent_where_rfc_4861_forbids_it() {
    for (why, source, destination, hops) in [
        ("it leaves by another port", LEFT, "2001:db8:9::7", 64),
        ("the better router is not known by its link-local address", LEFT, "2001:db8:8::7", 64),
        ("the source is behind another router", "2001:db8:ffff::1", "2001:db8:7::7", 64),
        ("it goes nowhere", LEFT, "2001:db8:7::7", 1),
    ] {
        let mut rig = router();
        let frame = udp6(&rig, 0, source, destination, hops, 20);
        rig.send(0, frame);
        rig.settle();
        assert!(redirects(&mut rig).0.is_empty(), "{why}");
        rig.finish();
    }
}
