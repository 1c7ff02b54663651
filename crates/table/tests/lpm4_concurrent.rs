//! Readers see the old route or the new one while a writer changes them, and what does not change stays.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_mem::{Domain, Reader};
use weir_table::lpm4::{Config, Dir24, Lookup4, Lpm4, Packed, Prefix4, Refused};

/// 10.0.x.0/24 for x below this has nested prefixes that come and go: more networks than groups, so that groups are
/// handed from one to the other.
const NETWORKS: u32 = 6;
const GROUPS: u32 = 3;
/// The writer goes on until the reader has seen this many changed answers.
const CHANGES: u32 = 1_000_000;
/// In at most this many batches of lookups, else the test fails.
const BATCHES: u32 = 10_000_000;
const BASE: u32 = 0x0a00_0000;
/// Outside the nested prefixes longer than /24, inside the /26, at the /32, and at the end.
const HOSTS: [u32; 4] = [0, 0xc0, 0xc1, 0xff];

/// A network that stands for all.
const ALL: u32 = 32;

/// Values say where they may be seen: in the network (of which there are fewer than 64), for the length of the prefix. Those of odd
/// networks do not fit in a halfword of [`Dir24`].
fn value(network: u32, length: u8) -> u32 {
    network << 8 | u32::from(length) | (network & 1) << 20
}

fn nested(network: u32, length: u8) -> Prefix4 {
    Prefix4::covering(BASE | network << 8 | 0xc1, length).unwrap()
}

/// Each inside its prefix; the value of all anywhere.
fn is_allowed(address: u32, seen: u32) -> bool {
    let length = (seen & 0xff) as u8;
    let network = address >> 8 & 0xff;
    seen == value(ALL, 8)
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
    table.insert(Prefix4::new(BASE, 8).unwrap(), value(ALL, 8)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (shared, reader, done) = (Arc::clone(table.reader()), domain.reader().unwrap(), &done);
        let reading = scope.spawn(move || {
            let wrong = watch(&*shared, reader);
            done.store(true, Ordering::Relaxed);
            wrong
        });
        // The next network is nested before the last is not, so that there is always something to see, also while the
        // writer waits for the reader.
        let mut networks = (0..NETWORKS).cycle();
        let mut last = None;
        while !done.load(Ordering::Relaxed) {
            let next = networks.next();
            for (network, length) in next.iter().flat_map(|&network| [32, 24, 26].map(|length| (network, length))) {
                settle(|| table.insert(nested(network, length), value(network, length)));
            }
            clear(&mut table, last);
            last = next;
        }
        clear(&mut table, last);
        assert_eq!(reading.join().unwrap(), None);
    });
    assert_eq!(table.len(), 1);
}

fn clear(table: &mut impl Lpm4, network: Option<u32>) {
    for (network, length) in network.iter().flat_map(|&network| [24, 26, 32].map(|length| (network, length))) {
        settle(|| table.remove(nested(network, length)));
    }
}

/// Looks until enough changed answers were seen; says what was wrong.
fn watch(table: &impl Lookup4, mut reader: Reader) -> Option<String> {
    // Also networks that never change, in the same piece.
    let addresses: [u32; 64] = std::array::from_fn(|i| BASE | (i as u32 % 8) << 8 | HOSTS[i / 16]);
    let mut values = [0; 64];
    let mut changes = 0;
    for _ in 0..BATCHES {
        table.lookup_batch(&addresses, &mut values);
        for (&address, &seen) in addresses.iter().zip(&values) {
            if !is_allowed(address, seen) {
                return Some(format!("{address:#x} has {seen:#x}"));
            }
        }
        changes += values.iter().filter(|&&seen| seen != value(ALL, 8)).count() as u32;
        if changes >= CHANGES {
            return None;
        }
        reader.quiescent();
    }
    Some(format!("only {changes} changes"))
}

#[test]
fn dir24_is_never_torn() {
    flips_under_readers(|config, domain| Dir24::new(config, domain).unwrap());
}

#[test]
fn packed_is_never_torn() {
    flips_under_readers(|config, domain| Packed::new(config, domain).unwrap());
}
