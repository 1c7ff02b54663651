use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;
use weir_mem::Domain;

use super::writer::Refused;
use super::*;

/// The obvious table.
#[derive(Default)]
struct Twin(BTreeMap<(Ipv4Addr, u16), (PortSets, Ends)>);

impl Twin {
    fn sets_of(&self, ipv4: Ipv4Addr) -> Option<PortSets> {
        self.0.iter().find(|((known, _), _)| *known == ipv4).map(|(_, (sets, _))| *sets)
    }

    fn owner(&self, ipv4: Ipv4Addr, port: Option<u16>) -> Option<Ends> {
        let all = self.0.iter().filter(|((known, _), _)| *known == ipv4);
        let has = |psid: u16, sets: PortSets| match port {
            Some(port) => sets.ports(psid).any(|one| one == port),
            None => sets == PortSets::WHOLE,
        };
        let mut found = all.filter(|((_, psid), (sets, _))| has(*psid, *sets)).map(|(_, (_, ends))| *ends);
        let owner = found.next();
        assert_eq!(found.next(), None, "one owner");
        owner
    }
}

fn ends(n: u64) -> Ends {
    Ends {
        b4: Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n)),
        aftr: Ipv6Addr::from_bits(u128::from(n % 3) + 1),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u16, u64),
    Remove(u8, u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6_u8, 0..8_u16, any::<u64>()).prop_map(|(address, psid, n)| Step::Put(address, psid, n)),
        (0..6_u8, 0..8_u16).prop_map(|(address, psid)| Step::Remove(address, psid)),
    ]
}

/// How an address of the tests divides its ports.
fn sets(address: u8) -> PortSets {
    [(0, 0), (3, 0), (3, 4), (8, 4), (16, 0), (1, 15)]
        .into_iter()
        .map(|(k, a)| PortSets::new(k, a).unwrap())
        .nth(usize::from(address))
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn the_table_answers_as_the_obvious_one(
        steps in prop::collection::vec(step(), 1..60),
        ports in prop::collection::vec(any::<u16>(), 20),
    ) {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut writer = Writer::new(Limits { softwires: 64, addresses: 8 }, &domain, 7).unwrap();
        let mut twin = Twin::default();
        for step in steps {
            match step {
                Step::Put(address, psid, n) => {
                    let (ipv4, sets) = (Ipv4Addr::new(192, 0, 2, address), sets(address));
                    let psid = psid & sets.highest();
                    let before = twin.0.insert((ipv4, psid), (sets, ends(n)));
                    let (_, moved) = writer.put(Key { ipv4, psid }, sets, ends(n)).unwrap();
                    prop_assert_eq!(moved.is_some(), before.is_some());
                }
                Step::Remove(address, psid) => {
                    let ipv4 = Ipv4Addr::new(192, 0, 2, address);
                    let removed = writer.remove(Key { ipv4, psid });
                    prop_assert_eq!(removed.is_some(), twin.0.remove(&(ipv4, psid)).is_some());
                }
            }
            prop_assert_eq!(writer.len() as usize, twin.0.len());
            let all: BTreeSet<PortSets> = twin.0.values().map(|(sets, _)| *sets).collect();
            let common = all.first().filter(|_| all.len() == 1).copied();
            prop_assert_eq!(writer.softwires().common_sets(), common);
            for address in [0, 0xc000_01ff, 0xc000_0206, u32::MAX].into_iter().chain(0xc000_0200..0xc000_0206) {
                let is_between = |all: Option<Ipv4Addr>, other: Option<Ipv4Addr>| {
                    all.zip(other).is_some_and(|(first, last)| (first..=last).contains(&Ipv4Addr::from_bits(address)))
                };
                let ends = (twin.0.keys().map(|(ipv4, _)| *ipv4).min(), twin.0.keys().map(|(ipv4, _)| *ipv4).max());
                prop_assert_eq!(writer.softwires().range().contains(&address), is_between(ends.0, ends.1));
            }
            for address in 0..6 {
                let ipv4 = Ipv4Addr::new(192, 0, 2, address);
                prop_assert_eq!(writer.softwires().sets_of(ipv4), twin.sets_of(ipv4));
                prop_assert_eq!(writer.sets_of(ipv4), twin.sets_of(ipv4));
                for port in ports.iter().copied().map(Some).chain([None, Some(0), Some(u16::MAX)]) {
                    let found = writer.softwires().owner(ipv4, port);
                    prop_assert_eq!(found.map(|found| found.ends), twin.owner(ipv4, port));
                }
            }
            reader.quiescent();
        }
    }
}

/// What the array says of a part: the place of its record, if that is so.
fn in_array(softwires: &Softwires, view: DenseView<'_>, key: Key, sets: PortSets) -> Option<u32> {
    let place = view.place(view.position(key.ipv4.to_bits(), key.psid));
    softwires.entry(place, tell(key.ipv4.to_bits(), key.psid, sets)).map(|_| place)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// The array has all softwires and no other while it is looked up in, wherever their addresses begin, and however they come and go.
    #[test]
    fn the_array_has_what_the_index_has(
        steps in prop::collection::vec((0..24_u32, 0..4_u16, prop::bool::weighted(0.7), any::<u64>()), 1..300),
        base in prop_oneof![Just(0), Just(u32::MAX - 40), any::<u32>().prop_map(|base| base.min(u32::MAX - 40))],
    ) {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut writer = Writer::new(Limits { softwires: 64, addresses: 64 }, &domain, 7).unwrap();
        let softwires = Arc::clone(writer.softwires());
        let sets = PortSets::new(2, 4).unwrap();
        for (address, psid, is_put, n) in steps {
            // Every eighth address is farther from the others than the array is long.
            let far = if address % 8 == 7 { 33 } else { 0 };
            let key = Key { ipv4: Ipv4Addr::from_bits(base.saturating_add(address / 8 * 3 + far)), psid };
            if is_put { _ = writer.put(key, sets, ends(n)) } else { _ = writer.remove(key) }
            reader.quiescent();
            let Some(view) = softwires.common_sets().and_then(|sets| softwires.dense(sets)) else { continue };
            for address in (base..=base.saturating_add(48)).chain([0, base.wrapping_sub(1), u32::MAX]) {
                for psid in 0..4 {
                    let key = Key { ipv4: address.into(), psid };
                    let place = softwires.find(key, sets).map(|found| found.place);
                    prop_assert_eq!(in_array(&softwires, view, key, sets), place, "{} {}", key.ipv4, psid);
                }
            }
        }
    }
}

#[test]
fn the_array_serves_addresses_that_lie_close_to_each_other_in_any_order() {
    let is_in_use =
        |writer: &Writer| writer.softwires().common_sets().is_some_and(|sets| writer.softwires().dense(sets).is_some());
    let sets = PortSets::new(4, 0).unwrap();
    let numbers: Vec<u32> = (0..1024).collect();
    let backwards: Vec<u32> = numbers.iter().rev().copied().collect();
    let mixed: Vec<u32> = numbers.iter().map(|n| n * 389 % 1024).collect();
    for order in [numbers, backwards, mixed] {
        let domain = Domain::new();
        let mut writer = Writer::new(Limits { softwires: 1024, addresses: 80 }, &domain, 7).unwrap();
        for n in order {
            let key = Key { ipv4: Ipv4Addr::from_bits(0xc000_0200 + n / 16), psid: (n % 16) as u16 };
            writer.put(key, sets, ends(n.into())).unwrap();
        }
        assert!(is_in_use(&writer), "it is in use when the table is full");
        // One far away, and it has no room for both; then it takes as many changes as filling it takes look-ups, of which there were enough at first.
        let far = Key { ipv4: Ipv4Addr::new(203, 0, 113, 9), psid: 3 };
        writer.remove(Key { ipv4: Ipv4Addr::from_bits(0xc000_0200), psid: 0 }).unwrap();
        for least in [0, 900] {
            writer.put(far, sets, ends(1)).unwrap();
            assert!(!is_in_use(&writer));
            writer.remove(far).unwrap();
            let again = Key { ipv4: Ipv4Addr::from_bits(0xc000_0210), psid: 1 };
            let needed = (0..2048).take_while(|n| {
                writer.put(again, sets, ends(*n)).unwrap();
                domain.reader().unwrap().quiescent();
                !is_in_use(&writer)
            });
            let needed = needed.count();
            assert!((least..1100).contains(&needed), "{needed} changes, at least {least}");
        }
        // Others whose ports are divided otherwise.
        let other = Key { ipv4: Ipv4Addr::from_bits(0xc000_0250), psid: 1 };
        writer.put(other, PortSets::new(5, 0).unwrap(), ends(5)).unwrap();
        assert!(!is_in_use(&writer));
    }
}

#[test]
fn what_there_is_no_room_for_is_refused_and_changes_nothing() {
    let domain = Domain::new();
    let mut writer = Writer::new(Limits { softwires: 2, addresses: 1 }, &domain, 0).unwrap();
    let one = Ipv4Addr::new(192, 0, 2, 1);
    let sets = PortSets::new(4, 0).unwrap();
    let key = |psid| Key { ipv4: one, psid };
    writer.put(key(1), sets, ends(1)).unwrap();
    assert_eq!(writer.put(key(2), PortSets::WHOLE, ends(2)), Err(Refused::Sets(sets)));
    let other = Key { ipv4: Ipv4Addr::new(192, 0, 2, 2), psid: 0 };
    assert_eq!(writer.put(other, sets, ends(2)), Err(Refused::Addresses(1)));
    writer.put(key(2), sets, ends(2)).unwrap();
    assert_eq!(writer.put(key(3), sets, ends(3)), Err(Refused::Softwires(2)));
    writer.put(key(2), sets, ends(4)).unwrap();
    assert_eq!((writer.len(), writer.softwires().find(key(2), sets).unwrap().ends), (2, ends(4)));
    assert_eq!(writer.softwires().find(key(3), sets), None);
    assert_eq!((writer.remove(key(1)).is_some(), writer.remove(key(2)).is_some()), (true, true));
    assert_eq!((writer.softwires().sets_of(one), writer.len()), (None, 0));
    // Now the address may be divided otherwise.
    writer.put(key(0), PortSets::WHOLE, ends(9)).unwrap();
}

#[test]
fn what_routes_answered_is_known_at_its_version_alone_and_to_no_other_softwire() {
    let domain = Domain::new();
    let mut writer = Writer::new(Limits { softwires: 2, addresses: 2 }, &domain, 0).unwrap();
    let key = Key { ipv4: Ipv4Addr::new(192, 0, 2, 1), psid: 0 };
    let (place, _) = writer.put(key, PortSets::WHOLE, ends(1)).unwrap();
    let softwires = Arc::clone(writer.softwires());
    let told = tell(key.ipv4.to_bits(), key.psid, PortSets::WHOLE);
    let entry = || softwires.entry(place, told).unwrap();
    let known = |version| entry().known().answer(version);
    assert_eq!(known(0), None);
    for version in [0, 1, 7, u64::from(u32::MAX), (1 << 42) - 1] {
        // A next hop, and a group of several.
        for answer in [17, 1 << 30 | 3] {
            entry().keep_answer(version, answer);
            assert_eq!(known(version), Some(answer));
            assert_eq!((known(version + 1), known(version ^ 2)), (None, None));
        }
    }
    // The place is used again.
    entry().keep_answer(1, 17);
    let mut others = Vec::new();
    while !others.contains(&place) {
        assert!(others.len() < 100_000, "the place is never used again");
        others.push(writer.put(key, PortSets::WHOLE, ends(others.len() as u64)).unwrap().0);
    }
    assert_eq!(known(1), None);
}

/// While softwires come, change and go, a reader finds such ends alone as that softwire has had: each number belongs to one PSID.
#[test]
fn a_reader_never_finds_what_is_another_s() {
    let domain = Domain::new();
    let mut writer = Writer::new(Limits { softwires: 64, addresses: 4 }, &domain, 3).unwrap();
    let softwires = Arc::clone(writer.softwires());
    let (done, found, ipv4) = (AtomicBool::new(false), AtomicU64::new(0), Ipv4Addr::new(192, 0, 2, 1));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut reader = domain.reader().unwrap();
            while !done.load(Ordering::Relaxed) {
                for port in (0..=u16::MAX).step_by(509) {
                    let Some(owner) = softwires.owner(ipv4, Some(port)) else { continue };
                    // Whose it is at any time: one of 16 PSIDs, or of 64 when the address is divided anew.
                    let told = owner.ends.b4.to_bits() as u64;
                    let (length, psid) = (told >> 32 & 0xff, told as u16);
                    assert_eq!(PortSets::new(length as u8, 0).unwrap().psid(port), Some(psid));
                    found.fetch_add(1, Ordering::Relaxed);
                }
                reader.quiescent();
            }
        });
        let mut round = 0_u64;
        while !reading.is_finished() && (round < 4000 || found.load(Ordering::Relaxed) < 10_000) {
            let length = if (round / 40).is_multiple_of(2) { 4 } else { 6 };
            let sets = PortSets::new(length, 0).unwrap();
            if round.is_multiple_of(40) {
                for psid in 0..64 {
                    _ = writer.remove(Key { ipv4, psid });
                }
            }
            let psid = (round * 7 % 16) as u16;
            let ends = ends((round & 0xff_ffff) << 40 | u64::from(length) << 32 | u64::from(psid));
            // There may be no place until the reader has passed.
            _ = writer.put(Key { ipv4, psid }, sets, ends);
            round += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(found.into_inner() >= 10_000);
}
