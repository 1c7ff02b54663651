//! Access lists of ports: frames at random, and rules, against a definition of what rules mean.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Access ports `a` in VLAN 10 and `b` in 20, and a trunk `c`, with lists.
fn keys(acls: Value, ports: [(&str, &str); 3]) -> Value {
    let port = |(inward, outward): (&str, &str), more: Value| {
        let mut port = more;
        for (key, list) in [("acl_in", inward), ("acl_out", outward)] {
            if !list.is_empty() {
                port[key] = json!(list);
            }
        }
        port
    };
    json!({ "tagging": "802.1q", "acls": acls, "ports": {
        "a": port(ports[0], json!({ "vlan": 10 })),
        "b": port(ports[1], json!({ "vlan": 20, "tagged": "10" })),
        "c": port(ports[2], json!({ "tagged": "10,20" })),
    } })
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

fn in_vlan(frame: Vec<u8>, vlan: u16) -> Vec<u8> {
    tagged(frame, &[(0x8100, vlan)])
}

/// A rule of the definition: what each part asks for, as values and masks, or as lists.
#[derive(Clone, Debug)]
struct Rule {
    permits: bool,
    from: Vec<(u64, u64)>,
    to: Vec<(u64, u64)>,
    vlans: Vec<u16>,
    ethertypes: Vec<u16>,
}

fn text_of(mac: u64) -> String {
    let bytes: Vec<String> = mac.to_be_bytes()[2..].iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

impl Rule {
    fn text(&self) -> String {
        let mut text = if self.permits { "permit" } else { "deny" }.to_owned();
        let stations = |all: &[(u64, u64)]| {
            let one = |(address, mask): &(u64, u64)| format!("{}/{}", text_of(*address), text_of(*mask));
            all.iter().map(one).collect::<Vec<_>>().join(",")
        };
        let numbers = |all: &[u16], write: fn(&u16) -> String| all.iter().map(write).collect::<Vec<_>>().join(",");
        let parts = [
            ("from", stations(&self.from)),
            ("to", stations(&self.to)),
            ("vlan", numbers(&self.vlans, u16::to_string)),
            ("ethertype", numbers(&self.ethertypes, |number| format!("0x{number:04x}"))),
        ];
        parts.iter().filter(|(_, part)| !part.is_empty()).for_each(|(word, part)| text += &format!(" {word} {part}"));
        text
    }

    fn matches(&self, (to, from, vlan, ethertype): (u64, u64, u16, u16)) -> bool {
        let is_one =
            |all: &[(u64, u64)], mac: u64| all.is_empty() || all.iter().any(|(address, mask)| mac & mask == *address);
        let has = |all: &[u16], number: u16| all.is_empty() || all.contains(&number);
        is_one(&self.from, from) && is_one(&self.to, to) && has(&self.vlans, vlan) && has(&self.ethertypes, ethertype)
    }
}

/// The number of the first rule that matches; that behind the last for the default.
fn first(rules: &[Rule], frame: (u64, u64, u16, u16)) -> usize {
    rules.iter().position(|rule| rule.matches(frame)).unwrap_or(rules.len())
}

const ETHERTYPES: [u16; 4] = [0x0800, 0x0806, 0x86dd, 0x88b5];

fn masked() -> impl Strategy<Value = (u64, u64)> {
    let mask = prop_oneof![Just((1 << 48) - 1), Just(0xffff_ff00_0000), Just(1), Just(0xff00_0000_00ff), Just(0)];
    (0u64..6, mask).prop_map(|(n, mask)| (0x0200_0000_0000 | n, mask)).prop_map(|(mac, mask)| (mac & mask, mask))
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let stations = || prop::collection::vec(masked(), 0..3);
    let vlans = prop::sample::subsequence(vec![10u16, 20, 30], 0..3);
    let ethertypes = prop::sample::subsequence(ETHERTYPES.to_vec(), 0..3);
    let rule = (any::<bool>(), stations(), stations(), vlans, ethertypes)
        .prop_map(|(permits, from, to, vlans, ethertypes)| Rule { permits, from, to, vlans, ethertypes });
    prop::collection::vec(rule, 0..12)
}

/// A frame by a port: who to, who from, whether by a tag of VLAN 10 or 20, and what.
fn frames() -> impl Strategy<Value = Vec<(usize, u64, u64, u16, u16)>> {
    let one =
        (0usize..3, 0u64..6, 0u64..6, prop::sample::select(vec![10u16, 20]), prop::sample::select(ETHERTYPES.to_vec()));
    prop::collection::vec(one, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A bridge with a list for what comes in and one for what leaves, beside one without: what comes out of the first is what comes out of the second
    /// and both lists permit.
    #[test]
    fn frames_pass_that_the_definition_permits(inward in rules(), outward in rules(), defaults in any::<[bool; 2]>(), frames in frames()) {
        let texts = |rules: &[Rule]| rules.iter().map(Rule::text).collect::<Vec<_>>();
        let word = |permits: bool| if permits { "permit" } else { "deny" };
        let acls = json!({
            "in": { "default": word(defaults[0]), "rules": texts(&inward) },
            "out": { "default": word(defaults[1]), "rules": texts(&outward) },
        });
        let lists = ("in", "out");
        let mut judged = bridge(keys(acls, [lists, lists, lists]));
        let mut plain = bridge(keys(json!({}), [("", ""); 3]));
        let mut counts = [vec![0u64; inward.len() + 1], vec![0u64; outward.len() + 1]];
        for (number, (port, to, from, vlan, ethertype)) in (0u32..).zip(frames) {
            let (to, from) = (0x0200_0000_0000 | to, 0x0200_0000_0000 | from);
            let six = |mac: u64| -> [u8; 6] { mac.to_be_bytes()[2..].try_into().unwrap() };
            let mut bytes = frame(six(to), six(from), number);
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            // An access port's frames have no tag, and are in its VLAN.
            let vlan = [10, 20, vlan][port];
            if port == C {
                bytes = in_vlan(bytes, vlan);
            }
            let key = (to, from, vlan, ethertype);
            let place = first(&inward, key);
            counts[0][place] += 1;
            let enters = inward.get(place).map_or(defaults[0], |rule| rule.permits);
            let due: Vec<Vec<Vec<u8>>> = match enters {
                false => vec![Vec::new(); 3],
                true => {
                    let place = first(&outward, key);
                    let leaves = outward.get(place).map_or(defaults[1], |rule| rule.permits);
                    let sent = plain.pass(port, &[bytes.clone()]);
                    counts[1][place] += sent.iter().map(|sent| sent.len() as u64).sum::<u64>();
                    sent.into_iter().take(3).map(|sent| if leaves { sent } else { Vec::new() }).collect()
                }
            };
            let sent = judged.pass(port, &[bytes]);
            prop_assert_eq!(&sent[..3], &due[..]);
        }
        let shown: Vec<u64> = judged.show("acls", None).iter().map(|row| row["packets"].as_u64().unwrap()).collect();
        prop_assert_eq!(shown, counts.concat());
        judged.finish();
        plain.finish();
    }
}

#[test]
fn what_a_list_denies_is_not_learned() {
    let acls = json!({ "known": { "default": "deny", "rules": ["permit from 02:00:00:00:00:00/40", "permit ethertype arp to broadcast"] } });
    let mut rig = bridge(keys(acls, [("known", ""), ("", ""), ("", "")]));
    rig.pass(A, &[frame(BROADCAST, mac(1), 0), frame(BROADCAST, [6, 0, 0, 0, 0, 1], 0)]);
    assert_eq!(rig.show("macs", Some("a")).len(), 1);
    assert_eq!(rig.drops(), [("bridge.acl-in/acl-denied".to_owned(), 1)].into());
    // Other ports have no list.
    assert_eq!(rig.ways(B, frame(BROADCAST, [6, 0, 0, 0, 0, 2], 0)), "c");
    assert_eq!(rig.ways(C, in_vlan(frame(mac(1), mac(3), 0), 10)), "a");
    rig.finish();
}

#[test]
fn a_copy_may_be_denied_and_the_frame_go_on() {
    let acls = json!({ "quiet": { "default": "permit", "rules": ["deny to group ethertype 0x88b5"] } });
    let mut rig = bridge(keys(acls, [("", ""), ("", "quiet"), ("", "")]));
    assert_eq!(rig.ways(A, frame(BROADCAST, mac(1), 0)), "c", "b is in VLAN 10, too");
    assert_eq!(rig.drops(), [("bridge.acl-out-1/acl-denied".to_owned(), 1)].into());
    let account = rig.account();
    assert_eq!((account.received, account.created, account.transmitted, account.dropped), (1, 1, 1, 1), "{account:?}");
    rig.finish();
}

#[test]
fn rules_change_while_frames_flow_and_go_on_counting() {
    let acls = |rules: Value| json!({ "list": { "default": "permit", "rules": rules } });
    let with = |rules: Value| keys(acls(rules), [("list", ""), ("", ""), ("", "")]);
    let mut rig = bridge(with(json!(["permit ethertype arp", "permit vlan 10"])));
    rig.pass(A, &[frame(BROADCAST, mac(1), 0)]);
    let counts = |rig: &Rig| -> Vec<(String, u64)> {
        let rows = rig.show("acls", Some("list"));
        rows.iter().map(|row| (row["rule"].as_str().unwrap().to_owned(), row["packets"].as_u64().unwrap())).collect()
    };
    let row = |text: &str, packets| (text.to_owned(), packets);
    assert_eq!(counts(&rig), [row("permit ethertype arp", 0), row("permit vlan 10", 1), row("permit (default)", 0)]);
    rig.reload(with(json!(["deny from 02:00:00:00:00:01", "permit vlan 10"])));
    assert_eq!(rig.ways(A, frame(BROADCAST, mac(1), 0)), "");
    assert_eq!(rig.ways(A, frame(BROADCAST, mac(2), 0)), "bc");
    assert_eq!(
        counts(&rig),
        [row("deny from 02:00:00:00:00:01", 1), row("permit vlan 10", 2), row("permit (default)", 0)]
    );
    // Another port with a list builds the bridge anew.
    let anew = rig.rebuilt(keys(acls(json!(["permit vlan 10"])), [("list", ""), ("", "list"), ("", "")]));
    rig.replace(anew);
    assert_eq!(counts(&rig)[0], row("permit vlan 10", 2));
    rig.finish();
}

#[test]
fn rules_that_are_wrong_say_why() {
    let told = |rule: &str| {
        let told = messages(&keys(json!({ "x": { "default": "permit", "rules": [rule] } }), [("", ""); 3]));
        assert_eq!(told.len(), 1, "{told:?}");
        told[0].clone()
    };
    for (rule, words) in [
        ("allow", "does not begin with permit or deny; write one of them first"),
        ("deny port 7", "has the word port; use from, to, vlan, ethertype, police or log"),
        ("deny from", "has nothing behind from"),
        ("deny vlan 1 vlan 2", "has vlan twice; write several values as 1,2"),
        ("deny from 02:00:00:00:00", "has 02:00:00:00:00 for stations; write one as"),
        ("deny from 02:00:00:00:00:01/49", "for stations"),
        ("deny to 02:00:00:00:00:01/24", "has bits that do not count; write 02:00:00:00:00:00/24"),
        ("deny vlan 4095", "has 4095 for VLANs"),
        ("deny police 1Mbit/s", "denies, and says what becomes of frames that go on; leave police out"),
        ("permit police 0bit/s", "has 0bit/s for a rate; deny what is to have none"),
        ("permit log log", "has log twice"),
        ("deny ethertype ip", "has ip for an EtherType; write ipv4"),
        ("deny ethertype 0x05ff", "has 0x05ff for an EtherType"),
    ] {
        let told = told(rule);
        // Between the mistake and the remedy stands what a rule is.
        assert!(words.split("; ").all(|words| told.contains(words)), "{rule}: {told}");
    }
    let told = messages(&keys(json!({ "x": { "default": "permit" } }), [("y", ""), ("", "x"), ("", "")]));
    assert_eq!(told, ["test.lua:1: bridge.ports.a.acl_in: there is no access list \"y\"; expected one of x"]);
    let told = messages(&keys(json!({ "x y": { "default": "permit" } }), [("", ""); 3]));
    assert!(told.len() == 1 && told[0].contains("is not a name"), "{told:?}");
}

#[test]
fn words_mean_what_they_say() {
    let frames = |rule: &str, frames: &[Vec<u8>]| -> String {
        let acls = json!({ "x": { "default": "permit", "rules": [format!("deny {rule}")] } });
        let mut rig = bridge(keys(acls, [("x", ""), ("", ""), ("", "")]));
        let denied = frames.iter().map(|frame| if rig.ways(A, frame.clone()).is_empty() { 'x' } else { '.' }).collect();
        rig.finish();
        denied
    };
    let typed = |to: [u8; 6], ethertype: u16| {
        let mut frame = frame(to, mac(1), 0);
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        frame
    };
    let all = [
        typed(BROADCAST, 0x0806),
        typed([1, 0, 0x5e, 0, 0, 1], 0x0800),
        typed(mac(9), 0x86dd),
        typed(mac(9), 46),
        typed(mac(9), 0x88cc),
        // A tag that the bridge is not aware of is the EtherType.
        tagged(typed(mac(9), 0x0800), &[(0x88a8, 7)]),
    ];
    for (rule, denied) in [
        ("", "xxxxxx"),
        ("to broadcast", "x....."),
        ("to group", "xx...."),
        ("to any", "xxxxxx"),
        ("ethertype arp,ipv6", "x.x..."),
        ("ethertype ipv4", ".x...."),
        ("ethertype llc", "...x.."),
        ("ethertype lldp", "....x."),
        ("ethertype svlan", ".....x"),
        ("vlan 10", "xxxxxx"),
        ("vlan 1-9,11-4094", "......"),
        ("from 02:00:00:00:00:01", "xxxxxx"),
        ("from 02:00:00:00:00:02", "......"),
        ("from 02:00:00:00:00:00/ff:ff:ff:ff:ff:fe", "xxxxxx"),
        ("to 02:00:00:00:00:08/47", "..xxxx"),
        ("to 00:00:00:00:00:00/0", "xxxxxx"),
    ] {
        assert_eq!(frames(rule, &all), denied, "{rule}");
    }
}
