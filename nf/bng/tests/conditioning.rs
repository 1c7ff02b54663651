//! Subscribers that are policed, remarked and limited: in each direction, with schedulers and without, in every layout, and as reloads change it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_wire::vlan::Vlan;
use weir_wire::{Ipv4, View, checksum, ethernet, ipv4};

use crate::common;

use common::*;

const FAR: &str = "203.0.113.5";

/// The customers' addresses, by their CVLANs from 1.
const CUSTOMERS: [&str; 2] = ["10.0.0.7", "10.0.0.8"];

/// A gateway with plain IP and two subscribers, of whom the first has the profile `home`, the second that of `others` if it has any.
fn config(qos: Value, others: Option<&str>) -> Value {
    let mut config = plain();
    config["limits"] = json!({ "subscribers": 16 });
    for (n, cvlan) in [1, 2].into_iter().enumerate() {
        config["subscribers"][n]["mac"] = json!(host(cvlan).to_string());
    }
    config["subscribers"][0]["profile"] = json!("home");
    config["subscribers"][1]["profile"] = json!(others);
    config["qos"] = qos;
    config
}

/// Room for so many frames of 146 bytes, which is what those of these tests count with what is on the wire.
fn policer(frames: u64) -> Value {
    json!({ "cir": "8 kbit/s", "cbs": format!("{} B", 146 * frames) })
}

fn packet(source: &str, destination: &str, tos: u8) -> Vec<u8> {
    let mut packet = udp(source, destination, 100);
    packet[1] = tos;
    assert!(ipv4::write_checksum(&mut packet[..20]));
    packet
}

fn up(rig: &Rig, cvlan: u16, tos: u8) -> Vec<u8> {
    let packet = packet(CUSTOMERS[usize::from(cvlan) - 1], FAR, tos);
    tagged(rig.mac(CPE), host(cvlan), cvlan, ethernet::IPV4, &packet)
}

fn down(rig: &Rig, cvlan: u16, tos: u8) -> Vec<u8> {
    rig.untunneled(&packet(FAR, CUSTOMERS[usize::from(cvlan) - 1], tos))
}

/// So many packets of a customer, and to it; how many arrive at the core, and at the customer.
fn through(rig: &mut Rig, cvlan: u16, packets: usize) -> (usize, usize) {
    for _ in 0..packets {
        rig.send(CPE, up(rig, cvlan, 0));
        rig.send(CORE, down(rig, cvlan, 0));
    }
    rig.settle();
    (rig.sent(CORE).len(), rig.sent(CPE).len())
}

/// The type of service of the packet behind so many bytes, whose checksum is right.
fn tos(frame: &[u8], at: usize) -> u8 {
    assert!(checksum::is_valid(&frame[at..at + 20]), "the checksum is right");
    Ipv4::view(&frame[at..]).unwrap().tos
}

fn scheduler() -> Value {
    let profile = json!({ "tb_rate": "1 Gbit/s" });
    json!({ "rate": "10 Gbit/s", "users": 16, "buffers": 256, "profiles": { "home": profile, "other": profile } })
}

#[test]
fn subscribers_are_policed_in_each_direction_without_schedulers() {
    let police = json!({ "up": { "home": policer(10) }, "down": { "home": policer(4) } });
    let mut rig = rig(config(json!({ "police": police }), None));
    assert_eq!(through(&mut rig, 1, 20), (10, 4));
    // Who has no profile is not policed.
    assert_eq!(through(&mut rig, 2, 20), (20, 20));
    let drops = rig.drops();
    let expected = [("bng.police-down.cpe/policed", 16), ("bng.police-up.cpe/policed", 10)];
    let policed: BTreeMap<&str, u64> =
        drops.iter().filter(|(_, count)| **count > 0).map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(policed, BTreeMap::from(expected));
    rig.finish();
}

#[test]
fn who_names_no_profile_has_the_usual_one() {
    let police = json!({ "up": { "home": policer(10), "guest": policer(3) } });
    let mut rig = rig(config(json!({ "police": police, "usual": "guest" }), None));
    assert_eq!(through(&mut rig, 2, 20), (3, 20));
    assert_eq!(through(&mut rig, 1, 20), (10, 20));
    // One that comes while packets flow has the profile that it names.
    rig.request("subscriber set", json!({ "svlan": 100, "cvlan": 2, "profile": "home" })).unwrap();
    assert_eq!(through(&mut rig, 2, 20).1, 20);
    assert_eq!(
        rig.request("subscriber set", json!({ "svlan": 100, "cvlan": 2, "profile": "gold" })).unwrap_err(),
        "cpe 100.2: no profile is called \"gold\"; there are guest, home"
    );
    rig.finish();
}

#[test]
fn policers_stand_before_schedulers() {
    let police = json!({ "up": { "home": policer(10) }, "down": { "home": policer(4) } });
    let qos = json!({ "police": police, "up": scheduler(), "down": scheduler() });
    let mut rig = rig(config(qos, Some("other")));
    assert_eq!(through(&mut rig, 1, 20), (10, 4));
    assert_eq!(through(&mut rig, 2, 20), (20, 20));
    let stages: Vec<String> = rig.drops().into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name).collect();
    assert_eq!(stages, ["bng.police-down.cpe/policed", "bng.police-up.cpe/policed"]);
    rig.finish();
}

/// What customers send is remarked before it is wrapped, what they get behind all else.
#[test]
fn packets_are_remarked_in_each_direction() {
    let up_rules = json!([{ "class": 0, "dscp": "af41" }, { "from": "cs6", "dscp": "cs0" }]);
    let down_rules = json!([{ "class": 0, "priority": 5 }, { "from": "cs1", "dscp": "le", "drop_eligible": true }]);
    let qos = json!({
        "classify": { "dscp": { "ef": "0" } },
        "remark": { "up": up_rules, "down": down_rules },
    });
    let mut rig = rig(config(qos, None));
    for (sent, arrives) in [(0xb9, 0x89), (0xc2, 0x02), (0x23, 0x23)] {
        rig.send(CPE, up(&rig, 1, sent));
        rig.settle();
        assert_eq!(tos(&rig.sent(CORE)[0], 14), arrives, "{sent:x}");
    }
    for (sent, arrives, priority, eligible) in [(0xb9, 0xb9, 5, false), (0x22, 0x06, 0, true), (0, 0, 0, false)] {
        rig.send(CORE, down(&rig, 1, sent));
        rig.settle();
        let frame = &rig.sent(CPE)[0];
        let (outer, inner) = (Vlan::view(&frame[14..]).unwrap(), Vlan::view(&frame[18..]).unwrap());
        assert_eq!(
            (tos(frame, 22), outer.priority(), outer.drop_eligible()),
            (arrives, priority, eligible),
            "{sent:x}"
        );
        assert_eq!((outer.id(), inner.id(), inner.priority()), (100, 1, 0));
    }
    rig.finish();
}

/// What a policer colours may be remarked, and the tunnel's header has what the customer's packet was remarked with (RFC 2983).
#[test]
fn colours_reach_the_core() {
    let policer = json!({ "cir": "8 kbit/s", "cbs": "1460 B", "ebs": "730 B", "drop_red": false });
    let mut config = tunnels();
    config["subscribers"][0]["mac"] = json!(host(1).to_string());
    config["subscribers"][0]["profile"] = json!("home");
    let rules = json!([{ "colour": "green", "dscp": "af11" }, { "colour": "yellow", "dscp": "af12" }, { "colour": "red", "dscp": "af13" }]);
    config["qos"] = json!({ "police": { "up": { "home": policer } }, "remark": { "up": rules } });
    let mut rig = rig(config);
    (0..17).for_each(|_| rig.send(CPE, up(&rig, 1, 0)));
    rig.settle();
    let sent = rig.sent(CORE);
    let marks: Vec<(u8, u8)> = sent.iter().map(|frame| (tos(frame, 18), tos(frame, 18 + 28))).collect();
    let both = |tos: u8, times| vec![(tos, tos); times];
    assert_eq!(marks, [both(10 << 2, 10), both(12 << 2, 5), both(14 << 2, 2)].concat());
    rig.finish();
}

#[test]
fn a_limit_holds_each_direction_before_anybody_looks_whose_packets_are() {
    let qos = json!({ "limit": "64 kpps", "remark": { "up": [{ "dscp": "cs1" }], "down": [{ "dscp": "cs1" }] } });
    let mut rig = rig(config(qos, None));
    // A batch is let through at once, then 64 in a millisecond.
    rig.run(SECOND);
    for _ in 0..200 {
        rig.send(CPE, up(&rig, 1, 0));
        rig.send(CORE, down(&rig, 2, 0));
    }
    rig.settle();
    // The gateway asks for its neighbour, too.
    let packets = rig.sent(CORE).into_iter().filter(|frame| frame[12..14] == ethernet::IPV4.to_be_bytes());
    let (core, cpe) = (packets.count() as u64, rig.sent(CPE).len() as u64);
    let drops = rig.drops();
    assert_eq!((core + drops["bng.limit-up.cpe/limited"], cpe + drops["bng.limit-down.cpe/limited"]), (200, 200));
    assert!((64..=130).contains(&core) && (64..=130).contains(&cpe), "{core} {cpe}");
    rig.finish();
}

/// Every owner polices its own subscribers, and each has what its profile says, neither more nor less.
#[test]
fn every_layout_polices_alike() {
    for (layout, workers) in [("distributor", 2), ("distributor", 4), ("pipeline", 2), ("pipeline", 3), ("pipeline", 5)]
    {
        for is_shaped in [false, true] {
            let police = json!({ "up": { "home": policer(10) }, "down": { "home": policer(4), "other": policer(7) } });
            let rules = json!([{ "dscp": "cs1" }]);
            let mut qos = json!({ "police": police, "remark": { "up": rules, "down": rules }, "limit": "1 Mpps" });
            if is_shaped {
                qos["up"] = scheduler();
                qos["down"] = scheduler();
            }
            let mut config = config(qos, Some("other"));
            config["layout"] = json!(layout);
            config["workers"] = json!((0..workers).collect::<Vec<usize>>());
            let mut rig = rig(config);
            for _ in 0..20 {
                for cvlan in [1, 2] {
                    rig.send(CPE, up(&rig, cvlan, 0));
                    rig.send(CORE, down(&rig, cvlan, 0));
                }
            }
            rig.settle();
            let what = format!("{layout} {workers} {is_shaped}");
            let (core, cpe) = (rig.sent(CORE), rig.sent(CPE));
            assert!(core.iter().all(|frame| tos(frame, 14) == 0x20), "{what}");
            assert!(cpe.iter().all(|frame| tos(frame, 22) == 0x20), "{what}");
            let from = |customer: &str| {
                let source: std::net::Ipv4Addr = customer.parse().unwrap();
                core.iter().filter(|frame| frame[26..30] == source.octets()).count()
            };
            let to = |cvlan| cpe.iter().filter(|frame| Vlan::view(&frame[18..]).unwrap().id() == cvlan).count();
            assert_eq!((from(CUSTOMERS[0]), from(CUSTOMERS[1]), to(1), to(2)), (10, 20, 4, 7), "{what}");
            rig.finish();
        }
    }
}

/// Policers and remarking come and go in a reload, and change; subscribers, and what waits in schedulers, stay.
#[test]
fn a_reload_brings_them_and_takes_them_away() {
    let with = |more: Value| {
        let mut slow = scheduler();
        slow["profiles"]["other"] = json!({ "tb_rate": "100 kbit/s", "tb_size": "300 B" });
        let mut qos = json!({ "up": slow.clone(), "down": slow });
        qos.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config(qos, Some("other"))
    };
    let mut rig = rig(with(json!({})));
    (0..30).for_each(|_| rig.send(CORE, down(&rig, 2, 0)));
    rig.settle();
    let before = rig.sent(CPE).len() as u64;
    let waiting = rig.account().held;
    assert_eq!(before + waiting, 30);
    assert!(waiting > 20, "{waiting}");
    let police = json!({ "up": { "home": policer(3) }, "down": { "home": policer(3) } });
    rig.reload(&with(json!({ "police": police, "remark": { "down": [{ "dscp": "cs1" }] } })));
    assert_eq!(rig.account().held, waiting, "what waits goes on waiting");
    assert_eq!(through(&mut rig, 1, 10), (3, 3));
    // A policer changes, and with it what is in force.
    let police = json!({ "up": { "home": policer(6) }, "down": {} });
    rig.reload(&with(json!({ "police": police })));
    rig.run(2 * SECOND);
    rig.sent(CPE);
    let (core, cpe) = through(&mut rig, 1, 20);
    assert!((5..=8).contains(&core) && cpe == 20, "{core} {cpe}");
    rig.reload(&with(json!({})));
    assert_eq!(through(&mut rig, 1, 20), (20, 20));
    rig.run(3 * SECOND);
    assert_eq!(rig.account().held, 0);
    rig.finish();
}

/// Where it decides which stages a direction has, the gateway is built anew, and subscribers who were learned or added stay.
#[test]
fn a_reload_from_nothing_builds_the_gateway_anew() {
    let mut rig = rig(config(json!({}), None));
    assert_eq!(through(&mut rig, 1, 20), (20, 20));
    let added = json!({ "svlan": 100, "cvlan": 3, "key": 9, "ipv4": ["10.0.0.9"], "mac": host(3).to_string() });
    rig.request("subscriber add", added).unwrap();
    rig.rebuild(&config(json!({ "police": { "up": { "home": policer(3) } } }), None));
    rig.router_answers();
    rig.sent(CORE);
    assert_eq!(through(&mut rig, 1, 20), (3, 20));
    assert_eq!(rig.show("subscribers").len(), 3);
    rig.finish();
}

#[test]
fn mistakes_are_told_together() {
    let told = |qos: Value| {
        let wrong = build(TWO, &config(qos, None)).err().unwrap_or_default();
        wrong.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let police = json!({ "up": { "home": policer(1), "nobody": policer(1) }, "down": { "home": { "cir": "1 kbit/s", "cbs": "0 B" } } });
    let rules = json!([{ "class": 7, "dscp": "ef" }, { "class": 1 }]);
    let wrong = told(json!({ "up": scheduler(), "police": police, "remark": { "up": rules } }));
    assert_eq!(wrong.len(), 4, "{wrong:?}");
    assert_eq!(
        wrong[0],
        "test.lua:1: bng.qos.police: up.nobody: no profile is called \"nobody\" in each scheduler; there are home, other"
    );
    assert!(wrong[1].starts_with("test.lua:1: bng.qos.police: down.home: "), "{wrong:?}");
    assert_eq!(wrong[2], "test.lua:1: bng.qos.remark: up[1] class: there is no class 7; the classes are 0 to 3");
    assert!(wrong[3].starts_with("test.lua:1: bng.qos.remark: up[2] sets nothing"), "{wrong:?}");
    let wrong = told(json!({ "limit": "1 Mpps" }));
    assert!(wrong[0].starts_with("test.lua:1: bng.qos.limit: nothing is shaped, policed or remarked"), "{wrong:?}");
    let wrong = told(json!({ "police": { "up": { "home": policer(1) } }, "usual": "guest" }));
    assert_eq!(wrong, ["test.lua:1: bng.qos.usual: no policer is for a profile called \"guest\"; there are home"]);
}

/// Who polices has to have all packets of a subscriber.
#[test]
fn workers_that_share_nothing_are_refused() {
    let told = |qos: Value| {
        let mut config = config(qos, None);
        config["workers"] = json!([0, 1]);
        build(TWO, &config).err().unwrap_or_default().len()
    };
    assert_eq!(told(json!({ "police": { "up": { "home": policer(1) } } })), 1);
    assert_eq!(told(json!({ "remark": { "up": [{ "dscp": "ef" }] } })), 0);
}
