use std::net::Ipv4Addr;

use proptest::prelude::*;
use weir_config::{MacAddress, OneOrMany};
use weir_wire::MacAddr;

use super::testing::{SECOND, registry};
use super::*;
use crate::table::Address;
use crate::words::Source4;

fn tags(svlan: u16, cvlan: u16) -> Tags {
    Tags { port: 1, svlan, cvlan }
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn v4(text: &str) -> Address {
    Address::V4(text.parse().unwrap())
}

fn behind(tags: Tags) -> SubscriberConfig {
    SubscriberConfig::behind(tags.svlan, tags.cvlan)
}

/// `key` 0 is none; prefixes parted by blanks.
fn entry(tags: Tags, key: u32, ipv4: &str) -> Entry {
    let ipv4 = OneOrMany(ipv4.split_whitespace().map(|prefix| Source4(prefix.parse().unwrap())).collect());
    Entry { tags, fields: SubscriberConfig { key: (key > 0).then_some(key), ipv4, ..behind(tags) } }
}

fn put(registry: &mut Registry, entry: Entry) -> Result<(), String> {
    let done = registry.put(RouteSource::Config, entry);
    registry.settle();
    done
}

/// Where workers would send a packet: port, tags, MAC address if known.
fn found(registry: &Registry, scope: u32, address: &str) -> Option<(u32, Option<u64>)> {
    let shared = registry.tables().shared();
    let key = BindingKey::new(scope, v4(address));
    let record = shared.binding(shared.find(key, shared.hash(key))?)?;
    Some((record.subscriber(), record.is_resolved().then_some(record.mac_word())))
}

fn word(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

#[test]
fn workers_find_who_was_put() {
    let (_domain, mut registry) = registry(true);
    put(&mut registry, entry(tags(1, 7), 99, "192.0.2.9/32 198.51.100.0/30")).unwrap();
    let shared = Arc::clone(registry.tables().shared());
    let record = shared.by_tags(1, 1, 7).and_then(|place| shared.subscriber(place)).unwrap();
    assert_eq!((record.key(), record.scope(), record.number()), (99, 99, 0));
    assert!(record.is_first_source4(0xc000_0209) && !record.is_first_source4(0xc633_6401));
    assert_eq!(found(&registry, 99, "198.51.100.3"), Some((0, None)));
    assert_eq!((found(&registry, 99, "198.51.100.4"), found(&registry, 0, "192.0.2.9")), (None, None));
    registry.take_back(RouteSource::Config, tags(1, 7)).unwrap();
    registry.settle();
    assert_eq!((shared.by_tags(1, 1, 7), found(&registry, 99, "192.0.2.9")), (None, None));
    assert_eq!((registry.len(), registry.host_count(), registry.unsettled()), (0, 0, 0));
}

#[test]
fn conflicts_are_named_and_change_nothing() {
    let (_domain, mut registry) = registry(false);
    put(&mut registry, entry(tags(1, 1), 5, "192.0.2.1/32")).unwrap();
    let mut refuse = |entry: Entry, problem: &str| {
        assert_eq!(put(&mut registry, entry), Err(problem.to_owned()));
        assert_eq!((registry.len(), registry.host_count()), (1, 1));
    };
    refuse(entry(tags(1, 2), 5, ""), "the key 5 is that of west 1.1; keys are unique");
    refuse(entry(tags(1, 2), 6, "192.0.2.0/30"), "the address 192.0.2.1 is that of west 1.1");
    refuse(entry(Tags { port: 2, ..tags(1, 2) }, 6, ""), "the port is none of the access ports east, west");
    refuse(entry(tags(1, 2), 6, "10.0.0.0/8"), "the prefix 10.0.0.0/8 is too short; a subscriber has /24 to /32");
    refuse(entry(tags(1, 2), 6, "127.0.0.1/32"), "127.0.0.1/32 is no address of a host");
    refuse(entry(tags(1, 2), 6, "10.0.0.0/30"), "10.0.0.0/30 has the gateway's own address 10.0.0.1");
    refuse(entry(tags(1, 2), 6, "192.0.2.8/32 192.0.2.8/30"), "192.0.2.8 stands here twice");
    refuse(
        entry(tags(1, 2), 6, "192.0.2.16/28"),
        "subscribers have 1 addresses of at most 12; raise limits.bindings for more",
    );
    let group = SubscriberConfig { mac: Some(MacAddress::new([1, 0, 0, 0, 0, 1])), ..behind(tags(1, 2)) };
    refuse(Entry { tags: tags(1, 2), fields: group }, "01:00:00:00:00:01 is not the address of one station");
    let (_domain, mut registry) = self::registry(true);
    let problem = "the key is missing; with gre+mpls each subscriber has one";
    assert_eq!(put(&mut registry, entry(tags(1, 2), 0, "")), Err(problem.to_owned()));
    // With keys, equal addresses of others are others.
    put(&mut registry, entry(tags(1, 1), 5, "192.0.2.1/32")).unwrap();
    put(&mut registry, entry(tags(1, 2), 6, "192.0.2.1/32")).unwrap();
    assert_eq!(
        (found(&registry, 5, "192.0.2.1"), found(&registry, 6, "192.0.2.1")),
        (Some((0, None)), Some((1, None)))
    );
}

#[test]
fn what_a_command_covered_comes_back() {
    let (_domain, mut registry) = registry(true);
    put(&mut registry, entry(tags(1, 1), 5, "192.0.2.1/32")).unwrap();
    registry.put(RouteSource::Cli, entry(tags(1, 1), 6, "192.0.2.2/32")).unwrap();
    registry.settle();
    let now = |registry: &Registry| registry.by_tags(tags(1, 1)).map(|found| (found.source(), found.fields().key));
    assert_eq!(now(&registry), Some((RouteSource::Cli, Some(6))));
    assert!(found(&registry, 5, "192.0.2.1").is_none() && found(&registry, 6, "192.0.2.2").is_some());
    // The configuration goes on beneath.
    put(&mut registry, entry(tags(1, 1), 7, "192.0.2.3/32")).unwrap();
    assert_eq!(now(&registry), Some((RouteSource::Cli, Some(6))));
    // What is free may be taken, and then keeps what was covered from coming back.
    put(&mut registry, entry(tags(1, 2), 7, "")).unwrap();
    assert_eq!(
        registry.take_back(RouteSource::Cli, tags(1, 1)),
        Err("the key 7 is that of west 1.2; keys are unique".to_owned())
    );
    registry.take_back(RouteSource::Config, tags(1, 2)).unwrap();
    registry.take_back(RouteSource::Cli, tags(1, 1)).unwrap();
    registry.settle();
    assert_eq!(now(&registry), Some((RouteSource::Config, Some(7))));
    assert!(found(&registry, 7, "192.0.2.3").is_some() && found(&registry, 6, "192.0.2.2").is_none());
}

#[test]
fn a_configuration_becomes_another() {
    let (_domain, mut registry) = registry(true);
    let config = |entries: &[(u16, u32, &str)]| -> Vec<Entry> {
        entries.iter().map(|(cvlan, key, ipv4)| entry(tags(1, *cvlan), *key, ipv4)).collect()
    };
    let now = |registry: &Registry| -> Vec<(u16, Option<u32>, u32)> {
        let mut all: Vec<_> =
            registry.subscribers_from(0).map(|one| (one.tags.cvlan, one.fields().key, one.number)).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(registry.become_config(config(&[(1, 11, "192.0.2.1/32"), (2, 12, ""), (3, 13, "")])), []);
    assert_eq!(now(&registry), [(1, Some(11), 0), (2, Some(12), 1), (3, Some(13), 2)]);
    // Keys move on, to one that goes; and what is the same keeps its number.
    assert_eq!(registry.become_config(config(&[(1, 12, "192.0.2.1/32"), (2, 13, ""), (4, 14, "")])), []);
    assert_eq!(now(&registry), [(1, Some(12), 0), (2, Some(13), 1), (4, Some(14), 2)]);
    // They change places.
    assert_eq!(registry.become_config(config(&[(1, 13, ""), (2, 12, "192.0.2.1/32")])), []);
    assert_eq!(
        now(&registry).iter().map(|(cvlan, key, _)| (*cvlan, *key)).collect::<Vec<_>>(),
        [(1, Some(13)), (2, Some(12))]
    );
    assert!(found(&registry, 12, "192.0.2.1").is_some() && registry.host_count() == 1);
    // Others' entries stay.
    registry.put(RouteSource::Cli, entry(tags(1, 9), 99, "")).unwrap();
    let refused = registry.become_config(config(&[(1, 99, "")]));
    assert_eq!(refused, [(tags(1, 1), "the key 99 is that of west 1.9; keys are unique".to_owned())]);
    assert_eq!(registry.become_config(Vec::new()), []);
    assert_eq!((registry.len(), registry.unsettled()), (1, 0));
}

#[test]
fn addresses_are_learned_within_bounds() {
    let (_domain, mut registry) = registry(false);
    put(&mut registry, entry(tags(1, 1), 5, "192.0.2.1/32")).unwrap();
    put(&mut registry, entry(tags(1, 2), 6, "10.0.1.1/32")).unwrap();
    let cases = [
        (0, "10.0.0.9", Heard::Learned),
        (0, "10.0.0.9", Heard::Known),
        (1, "10.0.0.9", Heard::Taken),
        (0, "10.0.1.1", Heard::NotAllowed),
        (0, "10.0.0.1", Heard::NotAllowed), // the gateway's own
        (0, "10.0.0.0", Heard::NotAllowed),
        (0, "10.0.255.255", Heard::NotAllowed),
        (0, "10.1.0.1", Heard::NotAllowed),
        (0, "10.0.0.10", Heard::Learned),
        (0, "10.0.0.11", Heard::TooMany),
        (0, "192.0.2.1", Heard::Learned),    // its own
        (7, "10.0.0.12", Heard::NotAllowed), // nobody
    ];
    for (number, address, heard) in cases {
        assert_eq!(registry.heard(1, number, v4(address), mac(number as u8)), heard, "{number} {address}");
    }
    registry.settle();
    assert_eq!(found(&registry, 0, "10.0.0.9"), Some((0, Some(word(mac(0))))));
    assert_eq!(found(&registry, 0, "192.0.2.1"), Some((0, Some(word(mac(0))))));
    assert_eq!(found(&registry, 0, "10.0.1.1"), Some((1, None)));
    registry.take_back(RouteSource::Config, tags(1, 1)).unwrap();
    registry.settle();
    assert_eq!((registry.host_count(), found(&registry, 0, "10.0.0.9")), (1, None));
}

#[test]
fn the_table_of_addresses_is_bounded() {
    let (_domain, mut registry) = registry(false);
    for n in 1..=7 {
        put(&mut registry, entry(tags(1, n), n.into(), "")).unwrap();
    }
    let address = |n: u32| Address::V4(Ipv4Addr::from_bits(0x0a00_0100 + n));
    let heard: Vec<Heard> = (0..14).map(|n| registry.heard(0, n / 2, address(n), mac(1))).collect();
    assert_eq!(heard, [vec![Heard::Learned; 12], vec![Heard::Full; 2]].concat());
    registry.settle();
    assert_eq!(registry.unsettled(), 0);
}

#[test]
fn moves_are_counted_and_limited() {
    let (_domain, mut registry) = registry(false);
    put(&mut registry, entry(tags(1, 1), 5, "")).unwrap();
    let address = v4("10.0.0.9");
    assert_eq!(registry.heard(0, 0, address, mac(1)), Heard::Learned);
    assert_eq!(registry.heard(1, 0, address, mac(2)), Heard::Moved);
    assert_eq!(registry.heard(2, 0, address, mac(1)), Heard::MovesTooOften);
    assert_eq!(registry.heard(SECOND, 0, address, mac(1)), Heard::MovesTooOften);
    registry.settle();
    assert_eq!(found(&registry, 0, "10.0.0.9"), Some((0, Some(word(mac(2))))));
    assert_eq!(registry.heard(SECOND + 1, 0, address, mac(1)), Heard::Moved);
    assert_eq!(registry.by_tags(tags(1, 1)).map(|found| found.moves), Some(4));
    let only = SubscriberConfig { mac: Some(MacAddress::new(mac(3).0)), ..behind(tags(1, 1)) };
    put(&mut registry, Entry { tags: tags(1, 1), fields: only }).unwrap();
    assert_eq!((registry.host_count(), found(&registry, 0, "10.0.0.9")), (0, None));
    assert_eq!(registry.heard(9 * SECOND, 0, address, mac(1)), Heard::WrongMac);
    assert_eq!(registry.heard(9 * SECOND, 0, address, mac(3)), Heard::Learned);
}

#[test]
fn a_silent_address_is_asked_for_and_forgotten() {
    let (_domain, mut registry) = registry(false);
    put(&mut registry, entry(tags(1, 1), 5, "")).unwrap();
    let (address, key) = (v4("10.0.0.9"), BindingKey::new(0, v4("10.0.0.9")));
    registry.heard(0, 0, address, mac(1));
    registry.take_events();
    assert_eq!(registry.tick(50 * SECOND), 100 * SECOND);
    registry.heard(60 * SECOND, 0, address, mac(1));
    assert_eq!((registry.tick(100 * SECOND), registry.take_events()), (160 * SECOND, vec![]));
    for n in 0..3 {
        let next = registry.tick((160 + n) * SECOND);
        assert_eq!((next, registry.take_events()), ((161 + n) * SECOND, vec![HostEvent::Ask(key, Some(mac(1)))]));
        assert!(found(&registry, 0, "10.0.0.9").is_some());
    }
    assert_eq!(registry.tick(163 * SECOND), u64::MAX);
    assert!(registry.take_events().contains(&HostEvent::Lost(key)));
    assert_eq!((found(&registry, 0, "10.0.0.9"), registry.host_count()), (None, 0));
    assert_eq!(registry.heard(164 * SECOND, 0, address, mac(1)), Heard::Learned, "its place among the learned is free");
}

#[test]
fn a_wanted_address_is_asked_for() {
    let (_domain, mut registry) = registry(false);
    put(&mut registry, entry(tags(1, 1), 5, "192.0.2.1/32")).unwrap();
    let (address, key) = (v4("192.0.2.1"), BindingKey::new(0, v4("192.0.2.1")));
    assert_eq!(registry.wanted(0, BindingKey::new(0, v4("192.0.2.2"))), Wanted::Nobody);
    assert_eq!((registry.wanted(0, key), registry.wanted(1, key)), (Wanted::Asked, Wanted::Asked));
    assert_eq!(registry.take_events(), [HostEvent::Ask(key, None)]);
    for n in 1..3 {
        registry.tick(n * SECOND);
        assert_eq!(registry.take_events(), [HostEvent::Ask(key, None)]);
    }
    registry.tick(3 * SECOND);
    assert_eq!(
        (registry.take_events(), registry.wanted(4 * SECOND, key)),
        (vec![HostEvent::Lost(key)], Wanted::Failed)
    );
    registry.tick(8 * SECOND);
    assert_eq!(registry.wanted(8 * SECOND, key), Wanted::Asked);
    registry.take_events();
    assert_eq!(registry.heard(9 * SECOND, 0, address, mac(4)), Heard::Learned);
    assert_eq!(
        (registry.take_events(), registry.wanted(9 * SECOND, key)),
        (vec![HostEvent::Found(key)], Wanted::Known)
    );
    // Nothing that is known of an address that stays is lost when something else is changed.
    let mut changed = entry(tags(1, 1), 6, "192.0.2.1/32 192.0.2.7/32");
    changed.fields.user = Some(3);
    put(&mut registry, changed).unwrap();
    assert_eq!(found(&registry, 0, "192.0.2.1"), Some((0, Some(word(mac(4))))));
}

#[derive(Clone, Debug)]
enum Step {
    Put(RouteSource, Entry),
    TakeBack(RouteSource, Tags),
    Heard(u32, u8, u8),
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let source = || prop_oneof![Just(RouteSource::Config), Just(RouteSource::Cli)];
    let line = || (1u16..5, 1u16..3).prop_map(|(svlan, cvlan)| tags(svlan, cvlan));
    let prefix =
        (0u32..8, 30u8..=32).prop_map(|(n, length)| Ipv4Net::new((0x0a00_0010 + n).into(), length).unwrap().trunc());
    let prefix = prefix.prop_map(Source4);
    let entry = (line(), 1u32..6, prop::collection::vec(prefix, 0..3), prop::option::of(0u8..3)).prop_map(
        |(tags, key, ipv4, own)| {
            let mac = own.map(|n| MacAddress::new(mac(n).0));
            let fields = SubscriberConfig { key: Some(key), ipv4: OneOrMany(ipv4), mac, ..behind(tags) };
            Entry { tags, fields }
        },
    );
    prop_oneof![
        3 => (source(), entry).prop_map(|(source, entry)| Step::Put(source, entry)),
        1 => (source(), line()).prop_map(|(source, tags)| Step::TakeBack(source, tags)),
        2 => (0u32..8, 0u8..12, 0u8..3).prop_map(|(number, address, mac)| Step::Heard(number, address, mac)),
        1 => Just(Step::Tick),
    ]
}

/// What must hold of a registry, whatever was done to it.
fn check_whole(registry: &Registry) -> Result<(), TestCaseError> {
    let all: Vec<&Subscriber> = registry.subscribers_from(0).collect();
    prop_assert_eq!(all.len(), registry.len());
    prop_assert!(all.len() <= 8 && registry.host_count() <= 12);
    let shared = registry.tables().shared();
    for subscriber in &all {
        let Tags { port, svlan, cvlan } = subscriber.tags;
        let record = shared.by_tags(port, svlan, cvlan).and_then(|place| shared.subscriber(place));
        prop_assert_eq!(record.map(|record| record.number()), Some(subscriber.number));
        prop_assert_eq!(record.map(|record| record.key()), subscriber.fields().key);
        prop_assert!(subscriber.learned.len() <= 2);
        let fixed = subscriber.fixed_keys(registry.settings());
        for (key, is_fixed) in
            fixed.iter().map(|key| (key, true)).chain(subscriber.learned.iter().map(|key| (key, false)))
        {
            let host = registry.host(*key).copied();
            prop_assert_eq!(host.map(|host| (host.subscriber, host.is_fixed)), Some((subscriber.number, is_fixed)));
            let record = shared.find(*key, shared.hash(*key)).and_then(|place| shared.binding(place));
            prop_assert_eq!(record.map(|record| record.subscriber()), Some(subscriber.number));
            let known = host.and_then(|host| host.mac).map(word);
            prop_assert_eq!(record.and_then(|record| record.is_resolved().then_some(record.mac_word())), known);
            if let Some(only) = subscriber.fields().only_mac() {
                prop_assert!(known.is_none_or(|known| known == word(only)));
            }
        }
    }
    let owned: usize = all.iter().map(|one| one.fixed_keys(registry.settings()).len() + one.learned.len()).sum();
    prop_assert_eq!(owned, registry.host_count());
    prop_assert_eq!(registry.tables().bindings() as usize, registry.host_count());
    let mut keys: Vec<_> = all.iter().filter_map(|one| one.fields().key).collect();
    keys.sort_unstable();
    prop_assert!(keys.is_sorted_by(|one, other| one < other), "keys are unique");
    Ok(())
}

proptest! {
    #[test]
    fn registry_and_tables_agree_whatever_happens(steps in prop::collection::vec(step(), 0..60), has_keys: bool) {
        let (domain, mut registry) = registry(has_keys);
        let mut reader = domain.reader().unwrap();
        let mut now = 0;
        for step in steps {
            now += SECOND / 2;
            reader.quiescent();
            match step {
                Step::Put(source, entry) => {
                    let before = registry.versions(entry.tags);
                    let tags = entry.tags;
                    if registry.put(source, entry).is_err() {
                        prop_assert_eq!(before, registry.versions(tags));
                    }
                }
                Step::TakeBack(source, tags) => drop(registry.take_back(source, tags)),
                Step::Heard(number, address, n) => {
                    let address = Address::V4(Ipv4Addr::from_bits(0x0a00_0010 + u32::from(address)));
                    registry.heard(now, number, address, mac(n));
                }
                Step::Tick => {
                    now += 50 * SECOND;
                    registry.tick(now);
                }
            }
            registry.settle();
            prop_assert_eq!(registry.unsettled(), 0);
        }
        check_whole(&registry)?;
    }
}
