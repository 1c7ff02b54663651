//! Where customers' hosts are, as the engine runs it: ARP with them, learning, ageing, moves. By RFC 826, 1027, 1122, 5227.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::{CORE, CPE, Rig, SECOND, arps, host, plain, request, rig, tagged, tunnels, udp};
use serde_json::json;
use weir_wire::arp::Operation;
use weir_wire::{MacAddr, ethernet};

#[test]
fn the_gateway_answers_arp_for_itself_and_for_neighbours() {
    let mut rig = rig(tunnels());
    let answers = |rig: &mut Rig| {
        rig.settle();
        arps(&rig.sent(CPE))
    };
    rig.arp_request(1, "10.0.0.7", "10.0.0.1");
    let sent = answers(&mut rig);
    assert_eq!(sent.len(), 1);
    let (to, cvlan, arp) = sent[0];
    assert_eq!((to, cvlan, arp.operation), (host(1), 1, Operation::Reply));
    assert_eq!((arp.sender_mac, arp.target_mac), (rig.mac(CPE), host(1)));
    assert_eq!((arp.sender.to_string(), arp.target.to_string()), ("10.0.0.1".to_owned(), "10.0.0.7".to_owned()));
    // A neighbour behind other tags, by proxy; also one that nobody has yet.
    for target in ["10.0.0.8", "10.0.99.99"] {
        rig.arp_request(1, "10.0.0.7", target);
        let sent = answers(&mut rig);
        assert_eq!((sent.len(), sent[0].2.sender.to_string()), (1, target.to_owned()));
    }
    // Itself (gratuitous), its own other addresses, what is in no network of the gateway, the network's edges.
    rig.arp_request(1, "10.0.0.9", "10.0.0.1");
    assert_eq!(answers(&mut rig).len(), 1);
    for target in ["10.0.0.7", "10.0.0.9", "203.0.113.1", "10.0.0.0", "10.0.255.255"] {
        rig.arp_request(1, "10.0.0.7", target);
        assert_eq!(answers(&mut rig), [], "{target}");
    }
    // A probe (RFC 5227) is answered for what is the gateway's, and for nothing else.
    for (target, count) in [("10.0.0.1", 1), ("10.0.0.8", 0), ("10.0.77.1", 0)] {
        rig.arp_request(1, "0.0.0.0", target);
        assert_eq!(answers(&mut rig).len(), count, "{target}");
    }
    assert_eq!(rig.drops().values().sum::<u64>(), 0);
    rig.finish();
}

#[test]
fn without_proxy_only_the_gateway_itself_answers() {
    let mut config = tunnels();
    config["proxy_arp"] = json!(false);
    let mut rig = rig(config);
    for (target, count) in [("10.0.0.8", 0), ("10.0.0.1", 1)] {
        rig.arp_request(1, "10.0.0.7", target);
        rig.settle();
        assert_eq!(arps(&rig.sent(CPE)).len(), count, "{target}");
    }
    rig.finish();
}

#[test]
fn lies_in_arp_are_dropped_by_name_and_teach_nothing() {
    let mut rig = rig(plain());
    let gateway = rig.mac(CPE);
    // The frame comes from another station than the sender named inside.
    let arp = request(host(2), "10.0.0.7", "10.0.0.1");
    let frame = {
        use zerocopy::IntoBytes;
        tagged(gateway, host(1), 1, ethernet::ARP, arp.to_wire().as_bytes())
    };
    rig.send(CPE, frame);
    rig.arp_request(1, "10.0.0.8", "10.0.0.1"); // fixed for another
    rig.arp_request(1, "10.0.0.1", "10.0.0.7"); // the gateway's own
    rig.arp_request(1, "172.16.0.1", "10.0.0.1"); // nowhere
    rig.arp_request(2, "10.0.0.99", "10.0.0.1"); // may be learned
    rig.settle();
    rig.arp_request(1, "10.0.0.99", "10.0.0.1"); // and is another's then
    let short = tagged(gateway, host(1), 1, ethernet::ARP, &[0, 1, 8, 0]);
    rig.send(CPE, short);
    let group = request(MacAddr([3, 0, 0, 0, 0, 1]), "10.0.0.7", "10.0.0.1");
    rig.arp(1, gateway, &group);
    rig.settle();
    let (announced, answered): (Vec<_>, Vec<_>) =
        arps(&rig.sent(CPE)).into_iter().partition(|(to, ..)| to.is_broadcast());
    assert_eq!(answered.iter().map(|(_, cvlan, _)| *cvlan).collect::<Vec<_>>(), [2]);
    assert_eq!(announced.iter().map(|(_, cvlan, _)| *cvlan).collect::<Vec<_>>(), [1], "the gateway's own is defended");
    let drops = rig.drops();
    let of = |reason: &str| drops.get(&format!("bng.control/{reason}")).copied().unwrap_or(0);
    assert_eq!((of("arp-spoofed"), of("spoofed-source"), of("source-taken"), of("arp-malformed")), (1, 2, 1, 2));
    assert_eq!(of("gateway-address"), 1);
    let row = rig.show("subscribers").into_iter().find(|row| row["cvlan"] == 1).unwrap();
    let expected =
        json!({ "arp-malformed": 2, "arp-spoofed": 1, "gateway-address": 1, "source-taken": 1, "spoofed-source": 2 });
    assert_eq!(row["drops"], expected);
    rig.finish();
}

#[test]
fn a_packet_from_an_address_that_may_be_learned_goes_on() {
    for config in [tunnels(), plain()] {
        let mut rig = rig(config);
        let frame = rig.customer(1, "10.0.5.5", "203.0.113.1");
        rig.send(CPE, frame.clone());
        rig.settle();
        assert_eq!(rig.sent(CORE).len(), 1);
        // The second needs no slow path.
        let before = rig.fates();
        rig.send(CPE, frame);
        rig.settle();
        assert_eq!((rig.sent(CORE).len(), rig.fates()), (1, before));
        let hosts = rig.show("hosts");
        let learned = hosts.iter().find(|row| row["kind"] == "learned").unwrap();
        assert_eq!((&learned["address"], &learned["mac"]), (&json!("10.0.5.5"), &json!(host(1).to_string())));
        // Others are refused by name: no right to it, too many.
        for last in 6..20 {
            let frame = rig.customer(1, &format!("10.0.5.{last}"), "203.0.113.1");
            rig.send(CPE, frame);
            rig.settle();
        }
        let frame = rig.customer(1, "10.1.5.5", "203.0.113.1");
        rig.send(CPE, frame);
        rig.settle();
        assert_eq!(rig.sent(CORE).len(), 7);
        let drops = rig.drops();
        assert_eq!(drops.get("bng.control/too-many-addresses"), Some(&7));
        assert_eq!(drops.get("bng.control/spoofed-source"), Some(&1));
        rig.finish();
    }
}

#[test]
fn without_learning_from_traffic_only_arp_teaches() {
    let mut config = tunnels();
    config["learn"]["traffic"] = json!(false);
    let mut rig = rig(config);
    let frame = rig.customer(1, "10.0.5.5", "203.0.113.1");
    rig.send(CPE, frame.clone());
    rig.settle();
    assert_eq!((rig.sent(CORE).len(), rig.drops().get("bng.control/spoofed-source").copied()), (0, Some(1)));
    rig.arp_request(1, "10.0.5.5", "10.0.0.1");
    rig.settle();
    rig.send(CPE, frame);
    rig.settle();
    assert_eq!(rig.sent(CORE).len(), 1);
    rig.finish();
}

#[test]
fn a_host_is_asked_for_and_what_waits_is_delivered() {
    for has_keys in [true, false] {
        let mut rig = rig(if has_keys { tunnels() } else { plain() });
        let packet = udp("203.0.113.1", "10.0.0.7", 200);
        let frame = if has_keys { rig.tunneled(7, &packet) } else { rig.untunneled(&packet) };
        rig.send(CORE, frame.clone());
        rig.settle();
        let asked = arps(&rig.sent(CPE));
        assert_eq!(asked.len(), 1);
        let (to, cvlan, arp) = asked[0];
        assert_eq!(
            (to, cvlan, arp.operation, arp.sender_mac),
            (MacAddr::BROADCAST, 1, Operation::Request, rig.mac(CPE))
        );
        assert_eq!((arp.sender.to_string(), arp.target.to_string()), ("10.0.0.1".to_owned(), "10.0.0.7".to_owned()));
        // Asked again each second; ten more come meanwhile, of which the latest eight are kept.
        for _ in 0..10 {
            rig.send(CORE, frame.clone());
        }
        rig.run(SECOND);
        assert_eq!((arps(&rig.sent(CPE)).len(), rig.account().held), (1, 8));
        rig.arp_reply(1, "10.0.0.7", host(1));
        rig.settle();
        let sent = rig.sent(CPE);
        assert_eq!(sent.len(), 8);
        for frame in &sent {
            assert_eq!(frame[..20], [&host(1).0[..], &rig.mac(CPE).0, &[0x88, 0xa8, 0, 100, 0x81, 0, 0, 1]].concat());
            assert_eq!(frame.len(), 22 + 200);
        }
        rig.send(CORE, frame);
        rig.settle();
        assert_eq!(rig.sent(CPE).len(), 1);
        assert_eq!(rig.drops(), [("bng.control/queue-full".to_owned(), 3)].into());
        rig.finish();
    }
}

#[test]
fn a_host_that_does_not_answer_is_given_up_for_a_while() {
    let mut rig = rig(tunnels());
    let frame = rig.tunneled(7, &udp("203.0.113.1", "10.0.0.7", 200));
    rig.send(CORE, frame.clone());
    rig.run(4 * SECOND);
    assert_eq!(arps(&rig.sent(CPE)).len(), 3);
    rig.send(CORE, frame.clone());
    let unknown = rig.tunneled(7, &udp("203.0.113.1", "10.0.0.77", 200));
    rig.send(CORE, unknown);
    let nobody = rig.tunneled(77, &udp("203.0.113.1", "10.0.0.7", 200));
    rig.send(CORE, nobody);
    rig.settle();
    assert_eq!(arps(&rig.sent(CPE)).len(), 0);
    let drops = rig.drops();
    assert_eq!(drops.get("bng.control/host-unresolved"), Some(&2));
    assert_eq!(drops.get("bng.control/unknown-destination"), Some(&2));
    rig.run(11 * SECOND);
    rig.send(CORE, frame);
    rig.settle();
    assert_eq!(arps(&rig.sent(CPE)).len(), 1);
    rig.finish();
}

#[test]
fn a_silent_host_is_asked_and_then_forgotten() {
    let mut config = tunnels();
    config["learn"]["ageing"] = json!("20 s");
    let mut rig = rig(config);
    let frame = rig.customer(1, "10.0.5.5", "203.0.113.1");
    rig.send(CPE, frame);
    rig.run(19 * SECOND);
    assert_eq!(arps(&rig.sent(CPE)), []);
    rig.run(2 * SECOND);
    // It answers, and has another 20 s.
    let asked = arps(&rig.sent(CPE));
    assert!(!asked.is_empty() && asked.iter().all(|(to, cvlan, _)| (*to, *cvlan) == (host(1), 1)), "{asked:?}");
    rig.arp_reply(1, "10.0.5.5", host(1));
    rig.run(18 * SECOND);
    assert_eq!((arps(&rig.sent(CPE)).len(), rig.show("hosts").len()), (0, 3));
    rig.run(6 * SECOND);
    assert_eq!((arps(&rig.sent(CPE)).len(), rig.show("hosts").len()), (3, 2));
    rig.finish();
}

#[test]
fn moves_are_limited() {
    let mut rig = rig(tunnels());
    for n in 0..6 {
        let arp = request(host(10 + n % 2), "10.0.5.5", "10.0.0.1");
        rig.arp(1, MacAddr::BROADCAST, &arp);
        rig.settle();
    }
    // Learned, moved once, refused for a second; what agrees with what is known is no move.
    let drops = rig.drops();
    assert_eq!(drops.get("bng.control/moves-too-often"), Some(&2));
    rig.run(2 * SECOND);
    let arp = request(host(10), "10.0.5.5", "10.0.0.1");
    rig.arp(1, MacAddr::BROADCAST, &arp);
    rig.settle();
    assert_eq!(rig.drops().get("bng.control/moves-too-often"), Some(&2));
    let hosts = rig.show("hosts");
    let host_row = hosts.iter().find(|row| row["address"] == "10.0.5.5").unwrap();
    assert_eq!(host_row["mac"], json!(host(10).to_string()));
    rig.finish();
}

#[test]
fn what_was_heard_outlives_a_rebuild() {
    let mut rig = rig(tunnels());
    rig.arp_request(1, "10.0.0.7", "10.0.0.1");
    rig.arp_request(1, "10.0.5.5", "10.0.0.1");
    rig.request("subscriber add", json!({ "svlan": 100, "cvlan": 3, "key": 9, "ipv4": ["10.0.0.33"] })).unwrap();
    rig.settle();
    rig.sent(CPE);
    let mut config = tunnels();
    config["limits"] = json!({ "queue": 99 });
    rig.rebuild(&config);
    rig.settle();
    rig.router_answers();
    for destination in ["10.0.0.7", "10.0.5.5"] {
        let frame = rig.tunneled(7, &udp("203.0.113.1", destination, 100));
        rig.send(CORE, frame);
        rig.settle();
        assert_eq!(rig.sent(CPE).len(), 1, "{destination}");
    }
    assert_eq!(rig.show("subscribers").len(), 3);
    rig.finish();
}
