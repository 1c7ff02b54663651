//! Rates of single meters against a map, and under the eyes of readers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use weir_mem::Domain;
use weir_table::meter::Bucket;
use weir_table::rates::{Rates, Refused};

fn bucket() -> impl Strategy<Value = Bucket> {
    (any::<u64>(), any::<u64>()).prop_map(|(rate, burst)| Bucket { rate, burst })
}

proptest! {
    #[test]
    fn they_are_as_a_map_says(steps in prop::collection::vec((0..12_u32, prop::option::of(bucket())), 0..200)) {
        let mut rates = Rates::new(10, 8, &Domain::new()).unwrap();
        let mut twin = HashMap::new();
        for (meter, said) in steps {
            match said {
                Some(_) if meter >= 10 => {
                    prop_assert_eq!(rates.set(meter, said.unwrap()), Err(Refused::NoMeter { meters: 10 }));
                }
                Some(bucket) if twin.contains_key(&meter) || twin.len() < 8 => {
                    prop_assert_eq!(rates.set(meter, bucket), Ok(twin.insert(meter, bucket)));
                }
                Some(bucket) => prop_assert_eq!(rates.set(meter, bucket), Err(Refused::Full { capacity: 8 })),
                None => prop_assert_eq!(rates.clear(meter), twin.remove(&meter)),
            }
            let found: Vec<_> = (0..12).map(|meter| rates.reader().of(meter)).collect();
            let by_definition: Vec<_> = (0..12).map(|meter| twin.get(&meter).copied()).collect();
            prop_assert_eq!(found, by_definition);
            prop_assert_eq!(rates.len() as usize, twin.len());
        }
    }
}

/// The burst always is the rate's: nobody sees that of another.
#[test]
fn readers_see_rate_and_burst_together() {
    let domain = Domain::new();
    let mut rates = Rates::new(4, 4, &domain).unwrap();
    let (done, seen) = (AtomicBool::new(false), rates.reader().clone());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (mut reader, seen, done) = (domain.reader().unwrap(), &seen, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let found = (0..4).filter_map(|meter| seen.of(meter));
                    found.for_each(|bucket| assert_eq!(bucket.burst, bucket.rate ^ 0xffff));
                    reader.quiescent();
                }
            });
        }
        for round in 0..100_000_u64 {
            // Refused where readers are late.
            _ = rates.set((round % 4) as u32, Bucket { rate: round, burst: round ^ 0xffff });
        }
        done.store(true, Ordering::Relaxed);
    });
}
