//! Readers see the old route or the new one while a writer changes them, and what does not change stays.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use weir_mem::Domain;
use weir_table::lpm4::{Config, Dir24, Lookup4, Lpm4, Packed, Prefix4, Refused};

/// 10.0.x.0/24 for x below this has nested prefixes that come and go: more networks than groups, so that groups are
/// handed from one to the other.
const NETWORKS: u32 = 6;
const GROUPS: u32 = 3;
/// The writer goes on until the reader has seen this many changed answers.
const CHANGES: u32 = 1_000_000;
/// At most this many rounds, then the test fails.
const ROUNDS: u32 = 1_000_000;
const BASE: u32 = 0x0a00_0000;
/// Outside the nested prefixes longer than /24, inside the /26, at the /32, and at the end.
const HOSTS: [u32; 4] = [0, 0xc0, 0xc1, 0xff];

/// Values say where they may be seen: the network in the upper half, the length of the prefix in the lower.
fn value(network: u32, length: u8) -> u32 {
    (network + 1) << 16 | u32::from(length)
}

fn nested(network: u32, length: u8) -> Prefix4 {
    Prefix4::covering(BASE | network << 8 | 0xc1, length).unwrap()
}

/// Each inside its prefix; the value of all anywhere.
fn is_allowed(address: u32, seen: u32) -> bool {
    let length = (seen & 0xff) as u8;
    let network = address >> 8 & 0xff;
    seen == value(99, 8)
        || network < NETWORKS && seen == value(network, length) && nested(network, length).covers(address)
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
    let (stop, changes) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let (shared, mut reader) = (Arc::clone(table.reader()), domain.reader().unwrap());
        let (stop, changes) = (&stop, &changes);
        scope.spawn(move || {
            // Also networks that never change, in the same piece.
            let addresses: [u32; 64] = std::array::from_fn(|i| BASE | (i as u32 % 8) << 8 | HOSTS[i / 16]);
            let mut values = [0; 64];
            while !stop.load(Ordering::Relaxed) {
                shared.lookup_batch(&addresses, &mut values);
                for (&address, &seen) in addresses.iter().zip(&values) {
                    if !is_allowed(address, seen) {
                        // Lets the writer end, so that the test does.
                        changes.store(u32::MAX / 2, Ordering::Relaxed);
                    }
                    assert!(is_allowed(address, seen), "{address:#x} has {seen:#x}");
                }
                let changed = values.iter().filter(|&&seen| seen != value(99, 8)).count();
                changes.fetch_add(changed as u32, Ordering::Relaxed);
                reader.quiescent();
            }
        });
        let mut rounds = 0..ROUNDS;
        while changes.load(Ordering::Relaxed) < CHANGES {
            let network = rounds.next().expect("the reader saw too few changes") % NETWORKS;
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
