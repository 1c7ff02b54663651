//! Readers see the old route or the new one while a writer changes them, and what does not change stays.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};

use weir_mem::Domain;
use weir_table::lpm4::{Config, Dir24, Lookup4, Lpm4, Packed, Prefix4, Refused};

/// 10.0.x.0/24 for x below this has nested prefixes that come and go: more networks than groups, so that groups are
/// handed from one to the other.
const NETWORKS: u32 = 6;
const GROUPS: u32 = 3;
const ROUNDS: u32 = 400;
const BASE: u32 = 0x0a00_0000;

/// Values say where they may be seen: the network in the upper half, the length of the prefix in the lower.
fn value(network: u32, length: u8) -> u32 {
    (network + 1) << 16 | u32::from(length)
}

fn nested(network: u32, length: u8) -> Prefix4 {
    Prefix4::covering(BASE | network << 8 | 0xc1, length).unwrap()
}

/// All may be seen inside all of them; the default value anywhere.
fn is_allowed(address: u32, seen: u32) -> bool {
    let length = (seen & 0xff) as u8;
    let network = address >> 8 & 0xff;
    seen == value(99, 8) || seen == value(network, length) && nested(network, length).covers(address)
}

fn settle(mut change: impl FnMut() -> Result<Option<u32>, Refused>) {
    // Refused while the groups or blocks freed last wait for the readers.
    while change().is_err() {
        std::thread::yield_now();
    }
}

fn flips_under_readers<T: Lpm4 + Send>(make: impl Fn(&Config, &Domain) -> T) {
    let domain = Domain::new();
    let mut table = make(&Config { max_groups: GROUPS, ..Config::new(1) }, &domain);
    table.insert(Prefix4::new(BASE, 8).unwrap(), value(99, 8)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let shared = std::sync::Arc::clone(table.reader());
            let mut reader = domain.reader().unwrap();
            let stop = &stop;
            scope.spawn(move || {
                let addresses: Vec<u32> =
                    (0..64).map(|i| BASE | (i % 8) << 8 | [0, 0xc0, 0xc1, 0xff][i as usize / 16]).collect();
                let mut values = [0; 64];
                let mut changed = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    shared.lookup_batch(&addresses, &mut values);
                    for (&address, &seen) in addresses.iter().zip(&values) {
                        assert!(is_allowed(address, seen), "{address:#x} has {seen:#x}");
                        changed += u32::from(seen != value(99, 8));
                    }
                    assert!(addresses.iter().zip(&values).all(|(a, &v)| a >> 8 & 7 < NETWORKS || v == value(99, 8)));
                    reader.quiescent();
                }
                assert!(changed > 0, "saw no change");
            });
        }
        for round in 0..ROUNDS {
            let network = round % NETWORKS;
            for length in [32, 24, 26] {
                settle(|| table.insert(nested(network, length), value(network, length)));
            }
            for length in [24, 26, 32] {
                settle(|| table.remove(nested(network, length)));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(table.len(), 1);
}

#[test]
fn dir24_is_never_torn() {
    flips_under_readers(|config, domain| Dir24::new(config, domain).unwrap());
}

#[test]
fn packed_is_never_torn() {
    flips_under_readers(|config, domain| Packed::new(config, domain).unwrap());
}
