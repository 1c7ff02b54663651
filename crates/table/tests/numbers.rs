//! Values of numbers against a map, and under the eyes of readers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use weir_mem::Domain;
use weir_table::exact;
use weir_table::numbers::{Numbers, Refused};

proptest! {
    /// What is said of few numbers, so that many are said again and removed.
    #[test]
    fn it_is_as_a_map_says(
        steps in prop::collection::vec((0..40_u64, prop::option::of(any::<u32>())), 0..300), seed: u64, spread: bool,
    ) {
        let number = |n: u64| if spread { n << 40 | n } else { n };
        let mut table = Numbers::new(32, seed, &Domain::new()).unwrap();
        let mut twin = HashMap::new();
        for (n, value) in steps {
            let n = number(n);
            match value {
                Some(value) if twin.contains_key(&n) || twin.len() < 32 => {
                    prop_assert_eq!(table.insert(n, value), Ok(twin.insert(n, value)));
                }
                Some(value) => {
                    let full = Err(Refused::Index(exact::Refused::Full { capacity: 32 }));
                    prop_assert_eq!(table.insert(n, value), full);
                }
                None => prop_assert_eq!(table.remove(n), twin.remove(&n)),
            }
            let asked: Vec<u64> = (0..41).map(number).collect();
            let mut found = vec![None; asked.len()];
            table.reader().lookup_batch(&asked, &mut found);
            let by_definition: Vec<Option<u32>> = asked.iter().map(|n| twin.get(n).copied()).collect();
            prop_assert_eq!(&found, &by_definition);
            prop_assert_eq!(table.len() as usize, twin.len());
        }
    }
}

#[test]
fn room_is_used_again_when_readers_have_passed() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut table = Numbers::new(1, 0, &domain).unwrap();
    // One that is there, a quarter of one, and those that may always wait.
    let waiting = (0..1000).take_while(|n| table.insert(*n, 7).is_ok() && table.remove(*n) == Some(7)).count();
    assert_eq!(waiting, 65);
    assert_eq!(table.insert(7, 7), Err(Refused::Waiting));
    reader.quiescent();
    assert_eq!(table.insert(7, 7), Ok(None));
}

/// Numbers come and go, always with a value that says which they are: nobody finds that of another.
#[test]
fn readers_find_the_old_value_or_the_new_one() {
    let domain = Domain::new();
    let mut table = Numbers::new(64, 1, &domain).unwrap();
    table.insert(1000, 1000).unwrap();
    let (done, table_reader) = (AtomicBool::new(false), table.reader().clone());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (mut reader, table, done) = (domain.reader().unwrap(), &table_reader, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    for n in 0..200_u64 {
                        let found = table.lookup(n);
                        assert!(found.is_none_or(|value| u64::from(value) % 1000 == n), "{n}: {found:?}");
                    }
                    assert_eq!(table.lookup(1000), Some(1000), "what stays is there all the time");
                    reader.quiescent();
                }
            });
        }
        for round in 0..60_000_u64 {
            let n = round * 7 % 200;
            // Refused where readers are late: then it is not there.
            _ = table.insert(n, (round % 3 * 1000 + n) as u32);
            table.remove((round * 7 + 200 - 60 * 7 % 200) % 200);
        }
        done.store(true, Ordering::Relaxed);
    });
}
