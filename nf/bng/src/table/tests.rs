use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use proptest::prelude::*;
use weir_mem::Domain;
use weir_wire::{MacAddr, ethernet};

use super::*;

/// Numbers are below it.
const MOST: u32 = 1 << NUMBER_BITS;

const LIMITS: Limits =
    Limits { subscribers: 64, bindings: 64, svlans: 3, prefix_length: 56, is_balanced: false, has_keys: true };

fn tables(domain: &Domain) -> Tables {
    Tables::new(LIMITS, 2, domain, 5).unwrap()
}

fn tags(port: u8, svlan: u16, cvlan: u16) -> Tags {
    Tags { port, svlan, cvlan }
}

fn subscriber(tags: Tags, number: u32) -> SubscriberFields {
    SubscriberFields {
        number,
        tags,
        key: number.wrapping_mul(3),
        scope: number.wrapping_mul(3),
        user: number ^ 0x55,
        ipv4: Sources4::of(format!("10.0.{}.0/29", number % 256).parse().unwrap()),
        ipv6: Sources6::of(format!("2001:db8:{}::/56", number % 256).parse().unwrap()),
        mac: number.is_multiple_of(2).then_some(MacAddr::from_bits(u64::from(number) | 0x0200_0000_0000)),
    }
}

fn binding(key: BindingKey, number: u32) -> BindingFields {
    BindingFields {
        stations: Stations::Routed,
        key,
        mac: (!number.is_multiple_of(3)).then_some(MacAddr::from_bits(u64::from(number) | 0x0200_0000_0000)),
        tags: tags(1, number as u16 & 0xfff, 7),
        tpid: ethernet::SVLAN,
        subscriber: number,
        owner: 0,
    }
}

fn has_all(record: SubscriberRecord<'_>, fields: &SubscriberFields) -> bool {
    (record.key(), record.user(), record.number()) == (fields.key, fields.user, fields.number)
        && (record.scope(), record.tags()) == (fields.scope, fields.tags)
}

fn mac_word(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

fn is_binding(record: BindingRecord<'_>, fields: &BindingFields) -> bool {
    record.is(fields.key)
        && record.is_resolved() == fields.mac.is_some()
        && record.mac_word() == fields.mac.map_or(0, mac_word)
        && (record.port(), record.subscriber()) == (fields.tags.port, fields.subscriber)
}

#[derive(Clone, Debug)]
enum Step {
    Set(Tags, u32),
    Remove(Tags),
    Bind(BindingKey, u32),
    Unbind(BindingKey),
}

fn any_tags() -> impl Strategy<Value = Tags> {
    (0u8..2, 0u16..4, prop_oneof![Just(0u16), Just(1), Just(4095)])
        .prop_map(|(port, svlan, cvlan)| tags(port, svlan, cvlan))
}

fn any_key() -> impl Strategy<Value = BindingKey> {
    let address = prop_oneof![
        (0u32..9).prop_map(|n| Address::V4(std::net::Ipv4Addr::from_bits(n))),
        (0u64..9).prop_map(|n| Address::V6(n << 8)),
        // Some in the same network, some with the same second half.
        (0u128..3, 0u128..4).prop_map(|(network, n)| Address::Host6((network << 72 | n << 60 | n).into())),
    ];
    (any_scope(), address).prop_map(|(scope, address)| BindingKey::new(scope, address))
}

/// The first that has no word.
const FAR: u32 = 1 << 16;

fn any_scope() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..4, 1 => Just(FAR - 1), 1 => Just(FAR)]
}

/// The IPv4 address of this scope, if there is only one.
fn only_one(by_key: &HashMap<BindingKey, BindingFields>, scope: u32) -> Option<BindingKey> {
    let mut all = by_key.keys().filter(|key| key.scope() == scope && matches!(key.address(), Address::V4(_)));
    all.next().copied().filter(|_| all.next().is_none())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (any_tags(), 0..MOST).prop_map(|(tags, n)| Step::Set(tags, n)),
        any_tags().prop_map(Step::Remove),
        (any_key(), 0..MOST).prop_map(|(key, n)| Step::Bind(key, n)),
        any_key().prop_map(Step::Unbind),
    ]
}

fn svlans_of(twin: &HashMap<Tags, SubscriberFields>) -> usize {
    let mut pairs: Vec<_> = twin.keys().map(|tags| (tags.port, tags.svlan)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.len()
}

proptest! {
    #[test]
    fn readers_find_what_two_maps_hold(steps in prop::collection::vec(step(), 0..200)) {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut tables = tables(&domain);
        let mut by_tags: HashMap<Tags, SubscriberFields> = HashMap::new();
        let mut by_key: HashMap<BindingKey, BindingFields> = HashMap::new();
        // By scope, the address that was set while there was no other.
        let mut only: HashMap<u32, BindingKey> = HashMap::new();
        for step in steps {
            reader.quiescent();
            match step {
                Step::Set(tags, number) => {
                    let fields = subscriber(tags, number);
                    match tables.set_subscriber(&fields) {
                        Ok(()) => drop(by_tags.insert(tags, fields)),
                        Err(refused) => {
                            let others = by_tags.keys().all(|other| (other.port, other.svlan) != (tags.port, tags.svlan));
                            prop_assert!(others && svlans_of(&by_tags) == 3);
                            prop_assert_eq!(refused, Refused::TooManySvlans(3));
                        }
                    }
                }
                Step::Remove(tags) => {
                    tables.remove_subscriber(tags);
                    by_tags.remove(&tags);
                }
                Step::Bind(key, number) => match tables.set_binding(&binding(key, number)) {
                    Ok(()) => {
                        by_key.insert(key, binding(key, number));
                        match only_one(&by_key, key.scope()) {
                            Some(one) if one == key => drop(only.insert(key.scope(), one)),
                            Some(_) => {}
                            None => drop(only.remove(&key.scope())),
                        }
                    }
                    Err(refused) => {
                        let full = weir_table::exact::Refused::Full { capacity: 64 };
                        prop_assert_eq!((refused, by_key.len()), (Refused::Bindings(full), 64));
                    }
                },
                Step::Unbind(key) => {
                    tables.remove_binding(key);
                    by_key.remove(&key);
                    only.retain(|_, one| *one != key);
                }
            }
            for scope in [0, 1, 2, 3, FAR - 1] {
                let found = tables.shared().only4(scope);
                let wanted = only.get(&scope).and_then(|key| by_key.get(key));
                prop_assert_eq!((!found.is_none()).then(|| found.number()), wanted.map(|wanted| wanted.subscriber));
                let record = tables.shared().binding(found.place());
                prop_assert!(record.zip(wanted).is_none_or(|(record, wanted)| is_binding(record, wanted)));
                prop_assert_eq!(record.is_some(), wanted.is_some());
            }
            prop_assert!([FAR, u32::MAX].into_iter().all(|scope| tables.shared().only4(scope).is_none()));
        }
        let shared = tables.shared();
        for (port, svlan, cvlan) in (0..3).flat_map(|p| (0..4).flat_map(move |s| [0, 1, 2, 4095].map(move |c| (p, s, c)))) {
            let found = shared.by_tags(port, svlan, cvlan).and_then(|place| shared.subscriber(place));
            let wanted = by_tags.get(&tags(port, svlan, cvlan));
            prop_assert_eq!(found.is_some(), wanted.is_some());
            prop_assert!(found.zip(wanted).is_none_or(|(found, wanted)| has_all(found, wanted)));
            let found = shared.found(shared.seek(port, svlan, cvlan));
            prop_assert_eq!((!found.is_none()).then(|| found.number()), wanted.map(|wanted| wanted.number));
        }
        prop_assert_eq!(tables.bindings() as usize, by_key.len());
        for scope in [0, 1, 2, 3, FAR - 1, FAR] {
            for n in 0..10u32 {
                for key in [shared.key4(scope, n), shared.key6(scope, u64::from(n) << 8 | 0x7f)] {
                    let place = shared.find(key, shared.hash(key));
                    let found = place.and_then(|place| shared.binding(place));
                    let wanted = by_key.get(&key);
                    prop_assert_eq!(found.is_some(), wanted.is_some());
                    prop_assert!(found.zip(wanted).is_none_or(|(found, wanted)| is_binding(found, wanted)));
                    let candidate = shared.candidate(shared.hash(key));
                    let record = shared.binding(candidate.place()).filter(|found| found.is(key));
                    // Not every key has one: its bucket may have been full. But one that has the key is right.
                    let is_right = wanted.is_some_and(|wanted| wanted.subscriber == candidate.number());
                    prop_assert!(record.is_none() || is_right);
                }
            }
        }
    }
}

#[test]
fn sources_that_need_no_lookup() {
    let domain = Domain::new();
    let mut tables = tables(&domain);
    let here = tags(0, 1, 2);
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let fields = SubscriberFields { mac: Some(mac), ..subscriber(here, 3) };
    tables.set_subscriber(&fields).unwrap();
    let shared = std::sync::Arc::clone(tables.shared());
    let record = shared.by_tags(0, 1, 2).and_then(|place| shared.subscriber(place)).unwrap();
    assert!(record.is_first_source4(0x0a00_0300) && record.is_first_source4(0x0a00_0307));
    assert!(!record.is_first_source4(0x0a00_0308) && !record.is_first_source4(0x0a00_02ff));
    assert!(record.is_first_source6(0x2001_0db8_0003_0000) && record.is_first_source6(0x2001_0db8_0003_00ff));
    assert!(!record.is_first_source6(0x2001_0db8_0003_0100));
    assert!(record.may_send_from(mac_word(mac)) && record.may_send_from(mac_word(mac) | 0xabcd << 48));
    assert!(!record.may_send_from(mac_word(mac) ^ 1) && !record.may_send_from(mac_word(mac) ^ 1 << 47));
    assert_eq!(record.differs(0x0a00_0307, mac_word(mac) | 0xabcd << 48), 0);
    let others =
        [(0x0a00_0308, mac_word(mac)), (0x0a00_0300, mac_word(mac) ^ 1), (0x0a00_0300, mac_word(mac) ^ 1 << 47)];
    assert!(others.into_iter().all(|(source, mac)| record.differs(source, mac) != 0));
    let fields = SubscriberFields { mac: None, ipv4: Sources4::NONE, ipv6: Sources6::NONE, ..fields };
    tables.set_subscriber(&fields).unwrap();
    let record = shared.by_tags(0, 1, 2).and_then(|place| shared.subscriber(place)).unwrap();
    assert!(record.may_send_from(0) && record.may_send_from(mac_word(mac)));
    assert!(record.differs(0, mac_word(mac)) == 0 && record.differs(1, 0) != 0);
    assert!([1, 0x0a00_0300, u32::MAX].into_iter().all(|source| !record.is_first_source4(source)));
    assert!([1, 0x2001_0db8_0003_0000, u64::MAX].into_iter().all(|half| !record.is_first_source6(half)));
}

#[test]
fn tags_lie_as_in_a_packet() {
    let domain = Domain::new();
    let mut tables = tables(&domain);
    let key = tables.shared().key4(9, 1);
    let fields = BindingFields { tags: tags(1, 0x123, 0xabc), ..binding(key, 1) };
    tables.set_binding(&fields).unwrap();
    let shared = tables.shared();
    let record = shared.find(key, shared.hash(key)).and_then(|place| shared.binding(place)).unwrap();
    assert_eq!(record.tags_word().to_le_bytes(), [0x88, 0xa8, 0x01, 0x23, 0x81, 0x00, 0x0a, 0xbc]);
    assert_eq!(key.address().to_string(), "0.0.0.1");
    assert_eq!(
        (shared.key6(7, 0x2001_0db8_0000_01ff).address().to_string(), key.scope()),
        ("2001:db8:0:100::".to_owned(), 9)
    );
}

/// One worker looks all the time, while everything is replaced or moves.
#[test]
fn a_reader_sees_whole_records_and_never_misses_one() {
    const NUMBERS: u32 = 8;
    let domain = Domain::new();
    let mut tables = tables(&domain);
    let line = |number: u32| tags(0, (number % 2) as u16, number as u16);
    let key = |number: u32| BindingKey::new(number % 5, Address::V4(std::net::Ipv4Addr::from_bits(number)));
    for number in 0..NUMBERS {
        tables.set_subscriber(&subscriber(line(number), number)).unwrap();
        tables.set_binding(&binding(key(number), number)).unwrap();
    }
    let (stop, looks) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let (shared, mut reader) = (std::sync::Arc::clone(tables.shared()), domain.reader().unwrap());
        let (stop, looks) = (&stop, &looks);
        let reading = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for number in 0..NUMBERS {
                    let Tags { port, svlan, cvlan } = line(number);
                    let record = shared.by_tags(port, svlan, cvlan).and_then(|place| shared.subscriber(place)).unwrap();
                    // Versions differ in the number, of which everything else follows.
                    assert!(has_all(record, &subscriber(line(number), record.number())));
                    let place = shared.find(key(number), shared.hash(key(number))).unwrap();
                    let is_sound = |place| {
                        let record = shared.binding(place).unwrap();
                        let fields = binding(key(number), record.subscriber());
                        is_binding(record, &BindingFields { tags: tags(1, 0, 0), ..fields })
                    };
                    assert!(is_sound(place));
                    // Of five scopes, 3 and 4 have one address each.
                    let found = shared.only4(number % 5);
                    assert_eq!(found.is_none(), number % 5 < 3);
                    assert!(found.is_none() || is_sound(found.place()));
                }
                looks.fetch_add(1, Ordering::Relaxed);
                reader.quiescent();
            }
        });
        for round in NUMBERS..1_000_000 {
            if round > 20_000 && (looks.load(Ordering::Relaxed) >= 1000 || reading.is_finished()) {
                break;
            }
            let number = round % NUMBERS;
            // What has no room waits for the reader.
            let set = tables.set_subscriber(&subscriber(line(number), round));
            let bound = tables.set_binding(&binding(key(number), round));
            if set.is_err() || bound.is_err() {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        reading.join().unwrap();
    });
}

/// A change of three subscribers, and of three networks in the scope that they share.
#[derive(Clone, Debug)]
enum Move {
    /// A subscriber comes, or has another first network.
    Set(u32, u64),
    Remove(u32),
    /// A network is a subscriber's, at a station or at none that is known.
    Bind(u64, u32, Option<u8>, Stations),
    Unbind(u64),
}

fn movement() -> impl Strategy<Value = Move> {
    let stations = prop::sample::select(vec![Stations::Routed, Stations::One, Stations::Several]);
    prop_oneof![
        2 => (0u32..3, 0u64..3).prop_map(|(number, network)| Move::Set(number, network)),
        1 => (0u32..3).prop_map(Move::Remove),
        4 => (0u64..3, 0u32..3, prop::option::of(0u8..2), stations)
            .prop_map(|(network, number, mac, stations)| Move::Bind(network, number, mac, stations)),
        1 => (0u64..3).prop_map(Move::Unbind),
    ]
}

proptest! {
    /// What a subscriber's record says of its first network is what the binding says, whichever of them changed last.
    #[test]
    fn senders_are_those_of_the_binding(moves in prop::collection::vec(movement(), 0..60)) {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut tables = tables(&domain);
        let station = |n: u8| MacAddr([2, 0, 0, 0, 0, n]);
        let half = |network: u64| (network + 1) << 8;
        let line = |number: u32| tags(1, 5, number as u16 + 1);
        let (mut first, mut bound) = (HashMap::new(), HashMap::new());
        for one in moves {
            reader.quiescent();
            match one {
                Move::Set(number, network) => {
                    let prefix = ipnet::Ipv6Net::new((u128::from(half(network)) << 64).into(), 56).unwrap();
                    let (ipv6, mac) = (Sources6::of(prefix), None);
                    let fields = SubscriberFields { scope: 0, ipv6, mac, ..subscriber(line(number), number) };
                    tables.set_subscriber(&fields).unwrap();
                    first.insert(number, network);
                }
                Move::Remove(number) => {
                    tables.remove_subscriber(line(number));
                    first.remove(&number);
                }
                Move::Bind(network, number, mac, stations) => {
                    let key = BindingKey::new(0, Address::V6(half(network)));
                    let fields = BindingFields { mac: mac.map(station), stations, tags: line(number), ..binding(key, number) };
                    tables.set_binding(&fields).unwrap();
                    bound.insert(network, (number, mac, stations));
                }
                Move::Unbind(network) => {
                    tables.remove_binding(BindingKey::new(0, Address::V6(half(network))));
                    bound.remove(&network);
                }
            }
            let shared = tables.shared();
            for (number, network, sender) in (0..3).flat_map(|s| (0..4).flat_map(move |n| (0..2).map(move |m| (s, n, m)))) {
                let Tags { port, svlan, cvlan } = line(number);
                let record = shared.by_tags(port, svlan, cvlan).and_then(|place| shared.subscriber(place));
                let known = record.is_some_and(|record| record.is_known_sender6(half(network) | 0x7f, mac_word(station(sender))));
                let is_first = first.get(&number) == Some(&network);
                let is_wanted = is_first && bound.get(&network).is_some_and(|(owner, mac, stations)| {
                    let is_from = match stations {
                        Stations::Routed => mac.is_some(),
                        Stations::One => *mac == Some(sender),
                        Stations::Several => false,
                    };
                    *owner == number && is_from
                });
                prop_assert_eq!(known, is_wanted, "{} {} {}", number, network, sender);
            }
        }
    }
}
