//! Neighbour discovery on the slow path: neighbours, own addresses, proxies, routers, listeners; by the virtual clock.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use crate::common;

use std::net::Ipv6Addr;

use common::six::*;
use common::*;
use serde_json::{Value, json};
use weir_wire::MacAddr;
use weir_wire::nd::{ALL_NODES, ALL_ROUTERS, Body, Flags, Message, group_mac, solicited_node};

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 7, 7]);
const OWN: &str = "2001:db8:0:1::1";

fn neighbor(rig: &Rig, address: &str) -> Option<Value> {
    rig.show("neighbors").into_iter().find(|row| row["address"] == address)
}

/// The solicitations and advertisements that a frame list holds, with who they are from.
fn is_for(message: &Message, wanted: Ipv6Addr) -> bool {
    let (Body::Solicitation { target, .. } | Body::Advertisement { target, .. }) = message.body;
    target == wanted
}

/// RFC 4862 section 5.4 and RFC 4861 section 7.2.6.
#[test]
fn own_addresses_are_probed_used_and_announced() {
    let mut rig = Rig::new(TWO6, json!({}));
    let own = ip6(OWN);
    // Before nobody was found to have it, it does not answer.
    rig.nd(0, HOST, &Message::solicitation(ip6("2001:db8:0:1::7"), HOST, own));
    assert!(rig.sent_nd(0).iter().all(|(_, message)| !matches!(message.body, Body::Advertisement { .. })));
    rig.run(10 * SECOND);
    for own in [own, rig.link_local(0)] {
        assert!(neighbor(&rig, &own.to_string()).is_none());
    }
    let sent = rig.sent_nd(0);
    for own in [own, rig.link_local(0)] {
        let about: Vec<_> = sent.iter().filter(|(_, message)| is_for(message, own)).collect();
        let (probes, announcements): (Vec<_>, Vec<_>) =
            about.into_iter().partition(|(_, message)| matches!(message.body, Body::Solicitation { .. }));
        assert!(
            probes
                .iter()
                .all(|(to, message)| { *to == group_mac(solicited_node(own)) && message.source.is_unspecified() })
        );
        let says = Flags { router: true, solicited: false, over: true };
        let body = Body::Advertisement { target: own, link: Some(rig.mac(0)), flags: says };
        let expected = Message { source: own, destination: ALL_NODES, body };
        assert_eq!(announcements.len(), 3, "{own}");
        assert!(announcements.iter().all(|(to, message)| (*to, *message) == (group_mac(ALL_NODES), expected)));
    }
    rig.finish();
}

/// Nothing happened to the link: what was proven there still is.
#[test]
fn a_reload_leaves_own_addresses_in_use() {
    let hosts = json!({ "neighbors": { LEFT: LEFT_MAC.to_string() } });
    let mut rig = Rig::new(TWO6, hosts.clone()).quiet();
    let ping = frame6(&rig, 0, &packet6(LEFT, OWN, 58, 64, &icmp6(LEFT, OWN, 128, 0, [0; 4], b"ping")));
    for answered in 1..=2 {
        rig.reload(&hosts);
        rig.settle();
        rig.send(0, ping.clone());
        rig.settle();
        assert_eq!((rig.sent_six(0).len(), rig.fates()["echo-answered"]), (1, answered));
    }
    rig.finish();
}

/// RFC 4862 section 5.4.3: the address is not used, and not answered for.
#[test]
fn an_address_that_another_station_has_is_not_used() {
    let mut rig = Rig::new(TWO6, json!({}));
    let flags = Flags { router: false, solicited: false, over: true };
    let body = Body::Advertisement { target: ip6(OWN), link: Some(HOST), flags };
    rig.nd(0, HOST, &Message { source: ip6(OWN), destination: ALL_NODES, body });
    assert_eq!(rig.fates()["nd-conflict"], 1);
    let mut rig = rig.quiet();
    rig.nd(0, HOST, &Message::solicitation(ip6("2001:db8:0:1::7"), HOST, ip6(OWN)));
    assert!(rig.sent_nd(0).is_empty());
    let ping = frame6(&rig, 0, &packet6(LEFT, OWN, 58, 64, &icmp6(LEFT, OWN, 128, 0, [0; 4], b"ping")));
    rig.send(0, ping);
    rig.settle();
    assert!(rig.sent_six(0).is_empty() && !rig.fates().contains_key("echo-answered"));
    rig.finish();
}

/// RFC 4861 sections 7.2.3 and 7.2.4.
#[test]
fn a_solicitation_is_answered_and_teaches() {
    let mut rig = Rig::new(TWO6, json!({})).quiet();
    for (asker, asked) in [(ip6("2001:db8:0:1::7"), ip6(OWN)), (ip6("fe80::7"), rig.link_local(0))] {
        rig.nd(0, HOST, &Message::solicitation(asker, HOST, asked));
        let [(to, reply)] = rig.sent_nd(0)[..] else { panic!("one reply") };
        let flags = Flags { router: true, solicited: true, over: true };
        let body = Body::Advertisement { target: asked, link: Some(rig.mac(0)), flags };
        assert_eq!((to, reply), (HOST, Message { source: asked, destination: asker, body }));
        assert_eq!(neighbor(&rig, &asker.to_string()).unwrap()["state"], "stale");
    }
    assert_eq!(rig.fates()["nd-answered"], 2);
    // What is learned is used at once: the first packet needs no question.
    let frame = udp6(&rig, 1, RIGHT, "2001:db8:0:1::7", 64, 20);
    rig.send(1, frame);
    rig.settle();
    assert_eq!((rig.sent_six(0).len(), rig.account().held), (1, 0));
    rig.finish();
}

/// RFC 4861 section 7.1, and what a router does not obey (sections 6.2.7 and 8.2).
#[test]
fn what_is_not_valid_or_for_hosts_is_told_by_name() {
    use weir_wire::nd::{Redirect, RouterAdvertisement};
    let mut rig = Rig::new(TWO6, json!({})).quiet();
    let host = ip6("fe80::7");
    let mut frame = vec![0; 86];
    Message::solicitation(host, HOST, ip6(OWN)).write(&mut frame, HOST, group_mac(solicited_node(ip6(OWN)))).unwrap();
    let [mut forwarded, mut broken] = [frame.clone(), frame];
    forwarded[21] = 254;
    broken[70] ^= 1;
    let to_all = (group_mac(ALL_NODES), ALL_NODES);
    let advertisement = RouterAdvertisement::new(HOST, host, to_all, 1800).to_frame();
    let redirect = Redirect {
        from: (HOST, host),
        to: (rig.mac(0), ip6(OWN)),
        target: host,
        destination: ip6("2001:db8:7::7"),
        link: None,
        packet: &[0; 48],
    };
    let other = solicited_node(ip6("2001:db8:0:1::55"));
    let mut between_others = vec![0; 86];
    let question = Message::solicitation(host, HOST, ip6("2001:db8:0:1::55"));
    question.write(&mut between_others, HOST, group_mac(other)).unwrap();
    for (reason, frame) in [
        ("nd-malformed", forwarded),
        ("nd-malformed", broken),
        ("other-router", advertisement),
        ("redirect-ignored", redirect.to_frame()),
        ("nd-ignored", between_others),
    ] {
        let before = rig.drops().get(&format!("router.control/{reason}")).copied().unwrap_or(0);
        rig.send(0, frame);
        rig.settle();
        assert_eq!(rig.drops().get(&format!("router.control/{reason}")), Some(&(before + 1)), "{:?}", rig.drops());
        assert!(rig.sent(0).is_empty(), "{reason}");
    }
    assert!(rig.show("neighbors").is_empty());
    rig.finish();
}

/// RFC 4861 section 7.2.8: for what is behind another interface, without the override flag, from an address of its own.
#[test]
fn a_proxy_advertises_what_is_behind_another_interface() {
    let config =
        json!({ "proxy_arp": ["left"], "routes": { "2001:db8:7::/48": "fe80::9%right", "2001:db8:8::/48": LEFT } });
    let mut rig = Rig::new(TWO6, config).quiet();
    let asker = ip6("2001:db8:0:1::7");
    for target in ["2001:db8:7::7", RIGHT] {
        rig.nd(0, HOST, &Message::solicitation(asker, HOST, ip6(target)));
        let [(to, reply)] = rig.sent_nd(0)[..] else { panic!("one reply: {target}") };
        let flags = Flags { router: true, solicited: true, over: false };
        let body = Body::Advertisement { target: ip6(target), link: Some(rig.mac(0)), flags };
        assert_eq!((to, reply.body, reply.destination), (HOST, body, asker));
        assert!([ip6(OWN), rig.link_local(0)].contains(&reply.source));
    }
    // What is on the link itself, behind no route, on the link only; who asks whether an address is free; and where it is not wanted.
    let probe = Message {
        source: Ipv6Addr::UNSPECIFIED,
        destination: solicited_node(ip6(RIGHT)),
        body: Body::Solicitation { target: ip6(RIGHT), link: None, nonce: None },
    };
    let asks = |target: &str| Message::solicitation(asker, HOST, ip6(target));
    for message in [asks("2001:db8:0:1::55"), asks("2001:db8:8::8"), asks("2001:db8:ffff::1"), asks("fe80::55"), probe]
    {
        rig.nd(0, HOST, &message);
        assert!(rig.sent_nd(0).is_empty(), "{message:?}");
    }
    rig.nd(1, HOST, &Message::solicitation(ip6("2001:db8:0:2::7"), HOST, ip6(LEFT)));
    assert!(rig.sent_nd(1).is_empty());
    rig.finish();
}

fn solicit_router(rig: &mut Rig, source: &str, link: bool) {
    let option: &[u8] = if link { &[1, 1, 2, 0, 0, 0, 7, 7] } else { &[] };
    let message = icmp6(source, "ff02::2", 133, 0, [0; 4], option);
    let packet = packet6(source, "ff02::2", 58, 255, &message);
    let frame = [&group_mac(ALL_ROUTERS).0[..], &HOST.0, &[0x86, 0xdd], &packet].concat();
    rig.send(0, frame);
    rig.settle();
}

/// Router advertisements among what a port sent: with their lifetimes.
fn advertisements(rig: &mut Rig, port: usize) -> Vec<(Vec<u8>, u16)> {
    let sent = rig.sent(port).into_iter().filter(|frame| frame[20] == 58 && frame[54] == 134);
    sent.inspect(|frame| assert_sound(frame))
        .map(|frame| (frame.clone(), u16::from_be_bytes([frame[60], frame[61]])))
        .collect()
}

/// RFC 4861 section 6.2: the first ones at most 16 seconds apart, answers within half a second, and the last ones with a lifetime of zero.
#[test]
fn hosts_are_told_of_the_router() {
    let config = |advertise: Value| json!({ "advertise": advertise, "neighbors": { LEFT: LEFT_MAC.to_string() } });
    let told = json!({ "left": { "dns": ["2001:db8::53"], "search": ["example.net"], "mtu": true } });
    let mut rig = Rig::new(TWO6, config(told));
    rig.run(60 * SECOND);
    let first = advertisements(&mut rig, 0);
    assert_eq!((first.len(), advertisements(&mut rig, 1).len()), (3, 0));
    for (frame, lifetime) in &first {
        assert_eq!((&frame[..6], &frame[38..54]), (&group_mac(ALL_NODES).0[..], &ALL_NODES.octets()[..]));
        assert_eq!((&frame[22..38], frame[21], *lifetime), (&rig.link_local(0).octets()[..], 255, 1800));
        let options = &frame[70..];
        let has = |wanted: &[u8]| options.windows(wanted.len()).any(|bytes| bytes == wanted);
        assert!(has(&[&[1, 1][..], &rig.mac(0).0].concat()) && has(&[5, 1, 0, 0, 0, 0, 0x23, 0x28]));
        assert!(has(&[3, 4, 64, 0xc0]) && has(&ip6("2001:db8:0:1::").octets()) && has(&ip6("2001:db8::53").octets()));
        assert!(has(b"\x07example\x03net\x00"));
    }
    for (source, link) in [("::", false), ("fe80::7", true)] {
        solicit_router(&mut rig, source, link);
        rig.run(SECOND);
        assert_eq!(advertisements(&mut rig, 0).len(), 1, "{source}");
        rig.run(4 * SECOND);
    }
    assert_eq!((&neighbor(&rig, "fe80::7").unwrap()["state"], rig.fates()["router-solicited"]), (&json!("stale"), 2));
    rig.reload(&config(json!({})));
    rig.run(60 * SECOND);
    let last = advertisements(&mut rig, 0);
    assert!(last.len() == 3 && last.iter().all(|(_, lifetime)| *lifetime == 0), "{last:?}");
    solicit_router(&mut rig, "fe80::7", true);
    rig.run(SECOND);
    assert!(advertisements(&mut rig, 0).is_empty());
    assert_eq!(rig.drops()["router.control/nd-ignored"], 1);
    rig.finish();
}

/// The groups that a port reported since the last call, each with what is said of it.
fn reported(rig: &mut Rig, port: usize) -> Vec<(u8, Ipv6Addr)> {
    let reports = rig.sent(port).into_iter().filter(|frame| frame[20] == 0 && frame[62] == 143);
    let records = |frame: Vec<u8>| {
        assert_eq!((&frame[38..54], frame[21]), (&ip6("ff02::16").octets()[..], 1));
        let records =
            frame[70..].chunks(20).map(|record| (record[0], Ipv6Addr::from_octets(record[4..20].try_into().unwrap())));
        records.collect::<Vec<_>>()
    };
    reports.flat_map(records).collect()
}

/// RFC 3810: the groups of its addresses at once, and again when a router asks.
#[test]
fn routers_are_told_of_groups() {
    let mut rig = Rig::new(TWO6, json!({}));
    rig.run(20 * SECOND);
    let groups: std::collections::BTreeSet<_> = reported(&mut rig, 0).into_iter().collect();
    let mut expected = [ALL_ROUTERS, solicited_node(ip6(OWN)), solicited_node(rig.link_local(0))];
    expected.sort_unstable();
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), expected.map(|group| (4, group)));
    let ask = |rig: &mut Rig, group: &str| {
        let body = [&ip6(group).octets()[..], &[0; 4]].concat();
        let message = icmp6("fe80::7", "ff02::1", 130, 0, [3, 232, 0, 0], &body);
        let packet = packet6("fe80::7", "ff02::1", 0, 1, &[&[58, 0, 5, 2, 0, 0, 1, 0][..], &message].concat());
        let frame = frame6(rig, 0, &packet);
        rig.send(0, frame);
        rig.run(2 * SECOND);
        let mut all = reported(rig, 0);
        all.sort_unstable();
        all
    };
    assert_eq!(ask(&mut rig, "::"), expected.map(|group| (2, group)));
    assert_eq!(ask(&mut rig, "ff02::2"), [(2, ALL_ROUTERS)]);
    assert_eq!(ask(&mut rig, "ff02::99"), []);
    assert_eq!((rig.fates()["mld-answered"], rig.drops()["router.control/mld-ignored"]), (2, 1));
    rig.finish();
}

/// 65,536 stations a second ask on one link, for longer than neighbours of another one count as reachable: those are asked again, and what
/// they answer is heard.
#[test]
fn a_flood_of_one_link_leaves_the_neighbours_of_others_alone() {
    let config = json!({ "neighbor_timers": { "reachable": "1 s" }, "limits": { "neighbors": 1024 } });
    let mut rig = Rig::new(TWO6, config).quiet();
    let (mut sent, mut arrived, mut asked) = (0, 0, 0);
    for millisecond in 0..20_000_u32 {
        for n in 0..65 {
            let host = Ipv6Addr::from_bits(ip6("fe80::9:0").to_bits() + u128::from(millisecond * 65 + n) % 65_536);
            let question = rig.nd_frame(0, HOST, &Message::solicitation(host, HOST, rig.link_local(0)));
            rig.send(0, question);
        }
        if millisecond % 50 == 0 {
            let frame = udp6(&rig, 0, LEFT, RIGHT, 64, 20);
            rig.send(0, frame);
            sent += 1;
        }
        rig.run(1_000_000);
        drop(rig.sent(0));
        for frame in rig.sent(1) {
            match weir_wire::nd::parse(&frame[14..]) {
                Some(message) if is_for(&message, ip6(RIGHT)) => {
                    asked += 1;
                    // It comes in the midst of the flood, behind what the other port received meanwhile.
                    let answer = rig.nd_frame(1, RIGHT_MAC, &answer6(RIGHT, RIGHT_MAC, message.source));
                    rig.send(1, answer);
                }
                Some(_) => {}
                None => arrived += usize::from(frame[20] == 17),
            }
        }
    }
    assert_eq!((sent, arrived), (400, 400), "asked {asked} times: {:?}", rig.drops());
    assert!(asked >= 3 && rig.drops()["router.forward/punt-policed-nd"] > 1_000_000);
    assert!(rig.show("neighbors").len() <= 1024);
    rig.finish();
}
