//! The table of stations against a map, over random operations, in crowded buckets, and with several writers at once.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use proptest::prelude::*;
use weir_table::mac::{BUCKET, Crowded, Entry, MacTable, PERIODS, Station};

fn entry(port: u8, stamp: u8, is_static: bool) -> Entry {
    if is_static { Entry::fixed(port) } else { Entry::learned(port, stamp) }
}

/// All that is in a table; a station that is there twice is a fault.
fn content(table: &MacTable) -> BTreeMap<Station, Entry> {
    let mut all = BTreeMap::new();
    table.retain(0..table.buckets(), |station, entry| {
        assert_eq!(all.insert(station, entry), None, "{station:?} is there twice");
        true
    });
    all
}

/// Stations that are all looked for first in one of `buckets` buckets.
fn crowd(table: &MacTable, buckets: usize, stations: usize) -> Vec<Station> {
    let all = (0..).map(|n| Station::new(n, (n % 3) as u16));
    all.filter(|station| first_bucket(table, *station) < buckets).take(stations).collect()
}

/// Where a lone station stands is the bucket that is looked at first.
fn first_bucket(table: &MacTable, station: Station) -> usize {
    let place = table.place(station);
    // The low bits of the permuted key, as `Place` shows them.
    let text = format!("{place:?}");
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u64>().unwrap() as usize & (table.buckets() - 1)
}

#[derive(Clone, Debug)]
enum Step {
    Insert(usize, Entry),
    Replace(usize, Entry, Entry),
    Remove(usize),
    Age(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let entries = (any::<u8>(), 0..PERIODS, any::<bool>()).prop_map(|(port, stamp, fixed)| entry(port, stamp, fixed));
    // Few different entries, so that what is replaced is often what is meant.
    let few = (0..2_u8, 0..2_u8).prop_map(|(port, stamp)| entry(port, stamp, false));
    prop_oneof![
        4 => (any::<usize>(), entries).prop_map(|(n, entry)| Step::Insert(n, entry)),
        4 => (any::<usize>(), few.clone()).prop_map(|(n, entry)| Step::Insert(n, entry)),
        3 => (any::<usize>(), few.clone(), few).prop_map(|(n, old, new)| Step::Replace(n, old, new)),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (0..PERIODS, 0..PERIODS).prop_map(|(now, most)| Step::Age(now, most)),
    ]
}

/// Does the same to both, and compares what both answer.
fn follow(table: &MacTable, twin: &mut BTreeMap<Station, Entry>, stations: &[Station], step: &Step) {
    let chosen = |n: usize| stations[n % stations.len()];
    match *step {
        Step::Insert(n, entry) => {
            if let Vacant(absent) = twin.entry(chosen(n)) {
                let place = table.place(*absent.key());
                // Nobody else enters stations.
                if table.insert(place, entry, |gone| assert_eq!(gone, entry)).is_ok() {
                    absent.insert(entry);
                }
            }
        }
        Step::Replace(n, old, new) => {
            let station = chosen(n);
            let fits = twin.get(&station) == Some(&old);
            assert_eq!(table.replace(table.place(station), old, new), fits);
            if fits {
                twin.insert(station, new);
            }
        }
        Step::Remove(n) => assert_eq!(table.remove(table.place(chosen(n))), twin.remove(&chosen(n))),
        Step::Age(now, most) => {
            let keep = |entry: &Entry| entry.is_fixed() || entry.age(now) <= most;
            table.retain(0..table.buckets(), |_, entry| keep(&entry));
            twin.retain(|_, entry| keep(entry));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_table_is_a_map(steps in proptest::collection::vec(step(), 1..400), seed: u64, crowded: bool) {
        let table = MacTable::new(1, seed).unwrap();
        let spread: Vec<Station> = (0..50).map(|n| Station::new(n * 0x1234_5678_9abc, n as u16)).collect();
        let stations = if crowded { crowd(&table, 1, 50) } else { spread };
        let mut twin = BTreeMap::new();
        for step in &steps {
            follow(&table, &mut twin, &stations, step);
        }
        for station in &stations {
            prop_assert_eq!(table.find(table.place(*station)), twin.get(station).copied());
        }
        prop_assert_eq!(content(&table), twin);
    }
}

#[test]
fn every_part_of_an_entry_is_kept() {
    let table = MacTable::new(1, 1).unwrap();
    let station = Station::new(0xffff_ffff_fffe, 4095);
    assert_eq!((station.address(), station.vlan()), (0xffff_ffff_fffe, 4095));
    for port in 0..=255 {
        for stamp in 0..PERIODS {
            for is_static in [false, true] {
                let entry = entry(port, stamp, is_static);
                table.insert(table.place(station), entry, |_| ()).unwrap();
                assert_eq!(table.find(table.place(station)), Some(entry));
                assert_eq!(content(&table), BTreeMap::from([(station, entry)]));
                assert_eq!(table.remove(table.place(station)), Some(entry));
            }
        }
    }
    let ages: Vec<u8> = (0..PERIODS).map(|now| entry(0, 28, false).age(now)).collect();
    assert_eq!((&ages[..4], &ages[27..]), (&[4, 5, 6, 7][..], &[31, 0, 1, 2, 3][..]));
}

#[test]
fn stations_differ_by_every_bit() {
    let table = MacTable::new(1, 7).unwrap();
    let all = std::iter::once((0, 0))
        .chain((0..48).map(|bit| (1_u64 << bit, 0)))
        .chain((0..12).map(|bit| (0, 1_u16 << bit)))
        .map(|(address, vlan)| Station::new(address, vlan));
    for (station, port) in all.clone().zip(0..) {
        assert_eq!(table.find(table.place(station)), None);
        table.insert(table.place(station), entry(port, 0, false), |_| ()).unwrap();
    }
    assert!(all.zip(0..).all(|(station, port)| table.find(table.place(station)).unwrap().port() == port));
}

#[test]
fn a_table_holds_what_it_was_made_for() {
    for (capacity, seed) in [(65_536_u32, 3), (200_000, 4), (1 << 20, 5)] {
        let table = MacTable::new(capacity, seed).unwrap();
        assert!(table.bytes() <= 32 * capacity as usize);
        // Stations of few makers, in few VLANs: what a network has.
        let station = |n: u32| Station::new(u64::from(n % 5) << 24 | u64::from(n / 5), (n % 7) as u16);
        for n in 0..capacity {
            table.insert(table.place(station(n)), entry(n as u8, 1, false), |_| ()).unwrap();
        }
        assert!((0..capacity).all(|n| table.find(table.place(station(n))).unwrap().port() == n as u8));
        assert_eq!(table.find(table.place(station(capacity))), None);
    }
}

#[test]
fn where_all_buckets_are_full_a_station_is_refused() {
    let table = MacTable::new(1, 9).unwrap();
    let stations = crowd(&table, 1, 300);
    let refused = stations
        .iter()
        .filter(|station| table.insert(table.place(**station), entry(1, 1, false), |_| ()) == Err(Crowded));
    // One bucket is everybody's first; the others differ from station to station.
    let refused = refused.count();
    assert!(content(&table).len() + refused == 300 && content(&table).len() > 2 * BUCKET, "{refused}");
}

/// Stations that come and go, and others that stay, all in the same few buckets; several workers enter the same ones at once.
#[test]
fn several_workers_learn_and_nobody_misses_what_stays() {
    let table = MacTable::new(1, 11).unwrap();
    let stations = crowd(&table, 4, 48);
    let (staying, coming) = stations.split_at(12);
    for station in staying {
        table.insert(table.place(*station), entry(200, 0, true), |_| ()).unwrap();
    }
    let (stop, count) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        let learn = |worker: u8| {
            for n in 0..60_000_usize {
                let station = coming[n.wrapping_mul(7 + 2 * usize::from(worker)) % coming.len()];
                let place = table.place(station);
                match table.find(place) {
                    None => {
                        let gone = |_| _ = count.fetch_sub(1, Ordering::SeqCst);
                        if table.insert(place, entry(worker, 0, false), gone).is_ok() {
                            count.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                    Some(there) if n % 3 == 0 => _ = table.replace(place, there, entry(worker, n as u8, false)),
                    Some(_) if n % 5 == 0 => {
                        count.fetch_sub(i64::from(table.remove(place).is_some()), Ordering::SeqCst);
                    }
                    Some(there) => assert!(there.port() < 3, "{there:?} is what no worker enters"),
                }
            }
        };
        let workers: Vec<_> = (0..2).map(|worker| scope.spawn(move || learn(worker))).collect();
        let watching = scope.spawn(|| {
            let mut looks = 0;
            while !stop.load(Ordering::Relaxed) || looks < 1000 {
                let missed =
                    staying.iter().find(|station| table.find(table.place(**station)) != Some(entry(200, 0, true)));
                assert_eq!(missed, None);
                looks += 1;
            }
        });
        let ends: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(watching.join().is_ok() && ends.iter().all(Result::is_ok));
    });
    // None is there twice, and what was counted is what is there.
    let all = content(&table);
    assert_eq!(all.len() as i64, count.load(Ordering::SeqCst) + staying.len() as i64);
}
