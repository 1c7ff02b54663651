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
                prop_assert_eq!(writer.softwires().is_beyond(address), !is_between(ends.0, ends.1));
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
    assert_eq!(softwires.answer(place, 0), None);
    for version in [0, 1, 7, u64::from(u32::MAX), (1 << 42) - 1] {
        // A next hop, and a group of several.
        for answer in [17, 1 << 30 | 3] {
            softwires.keep_answer(place, version, answer);
            assert_eq!(softwires.answer(place, version), Some(answer));
            assert_eq!((softwires.answer(place, version + 1), softwires.answer(place, version ^ 2)), (None, None));
        }
    }
    // The place is used again.
    softwires.keep_answer(place, 1, 17);
    let mut others = Vec::new();
    while !others.contains(&place) {
        assert!(others.len() < 100_000, "the place is never used again");
        others.push(writer.put(key, PortSets::WHOLE, ends(others.len() as u64)).unwrap().0);
    }
    assert_eq!(softwires.answer(place, 1), None);
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
