//! Both compiled kinds against the list.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use proptest::prelude::*;
use proptest::test_runner::{Config as Runner, TestRunner};
use weir_mem::Domain;
use weir_simd::Kernel;
use weir_table::lpm4::{BATCH, Config, Dir24, Error, Linear, Lookup4, Lpm4, MAX_VALUE, Packed, Prefix4, Refused};

const MISS: u32 = 0x00ff_fffe;

/// One that fits in a halfword of [`Dir24`], and one that does not.
const MISSES: [u32; 2] = [MISS, 5];

fn config() -> Config {
    config_with(MISS)
}

fn config_with(miss: u32) -> Config {
    Config { max_groups: 64, ..Config::new(miss) }
}

fn prefix(address: [u8; 4], length: u8) -> Prefix4 {
    Prefix4::new(u32::from_be_bytes(address), length).unwrap()
}

#[derive(Clone, Debug)]
enum Act {
    Insert(Prefix4, u32),
    Remove(Prefix4),
    /// Of what is there, this one.
    RemoveSome(usize),
}

/// Few places, so that prefixes nest; all lengths, the shortest seldom, as they are slow to write.
fn some_prefix() -> impl Strategy<Value = Prefix4> {
    let length = prop_oneof![1 => 0u8..8, 3 => 8u8..16, 20 => 16u8..=24, 20 => 25u8..=32];
    let network = prop::sample::select(vec![0u32, 0x0a00_0000, 0x0a01_ff00, 0xc633_6400, 0xffff_ff00]);
    (network, 0u32..0x2_0000, length).prop_map(|(network, host, length)| {
        let host = if length > 24 { host & 0x1ff } else { host };
        Prefix4::covering(network ^ host, length).unwrap()
    })
}

fn act() -> impl Strategy<Value = Act> {
    let edges = [0x3fff, 0x4000, 1 << 29, 1 << 30, 1 << 30 | 0x3fff, 1 << 30 | 0x4000, MAX_VALUE];
    let value = prop_oneof![10 => 0u32..4, 3 => prop::sample::select(edges.to_vec()), 1 => 0..=MAX_VALUE];
    prop_oneof![
        5 => (some_prefix(), value).prop_map(|(prefix, value)| Act::Insert(prefix, value)),
        1 => some_prefix().prop_map(Act::Remove),
        3 => any::<usize>().prop_map(Act::RemoveSome),
    ]
}

/// Addresses at and next to the ends of a prefix.
fn around(prefix: Prefix4) -> [u32; 5] {
    let (first, last) = (prefix.address(), prefix.last());
    [first, last, first.wrapping_sub(1), last.wrapping_add(1), first + (last - first) / 2]
}

fn agree(table: &impl Lpm4, twin: &Linear, addresses: &[u32]) {
    let mut values = vec![0; addresses.len()];
    table.reader().lookup_batch(addresses, &mut values);
    for (&address, value) in addresses.iter().zip(values) {
        assert_eq!(value, twin.reader().lookup(address), "{address:#x} of a batch");
        assert_eq!(value, table.reader().lookup(address), "{address:#x} alone");
    }
    addresses.chunks(BATCH).for_each(|some| agree_in_steps(table, twin, some));
}

/// What the second step does not say is still to come is what it will be.
fn agree_in_steps(table: &impl Lpm4, twin: &Linear, addresses: &[u32]) {
    let mut values = [0; BATCH];
    table.reader().approach(addresses, &mut values);
    let rest = table.reader().lookup_first(addresses, &mut values);
    let is_late = |at: usize| rest >> at & 1 == 1;
    assert!((addresses.len()..BATCH).all(|at| !is_late(at)), "nobody else is looked up");
    for (at, &address) in addresses.iter().enumerate().filter(|(at, _)| !is_late(*at)) {
        assert_eq!(values[at], twin.reader().lookup(address), "{address:#x} at once");
    }
    table.reader().lookup_rest(addresses, &mut values, rest);
    for (&address, value) in addresses.iter().zip(values) {
        assert_eq!(value, twin.reader().lookup(address), "{address:#x} in steps");
    }
}

/// Random changes and lookups; ends with an empty table.
fn follows_the_twin(mut table: impl Lpm4, miss: u32) {
    let acts = prop::collection::vec((act(), any::<u32>()), 100..150);
    let mut runner = TestRunner::new(Runner { cases: 12, failure_persistence: None, ..Runner::default() });
    let table = std::cell::RefCell::new(&mut table);
    let result = runner.run(&acts, |acts| {
        let mut table = table.borrow_mut();
        let mut twin = Linear::new(&config_with(miss)).unwrap();
        let mut held: Vec<Prefix4> = Vec::new();
        for (act, elsewhere) in acts {
            let prefix = match act {
                Act::Insert(prefix, value) => {
                    assert_eq!(table.insert(prefix, value), twin.insert(prefix, value));
                    held.push(prefix);
                    prefix
                }
                Act::Remove(prefix) => prefix,
                Act::RemoveSome(which) if held.is_empty() => Prefix4::covering(which as u32, 8).unwrap(),
                Act::RemoveSome(which) => held.swap_remove(which % held.len()),
            };
            if !matches!(act, Act::Insert(..)) {
                assert_eq!(table.remove(prefix), twin.remove(prefix));
            }
            assert_eq!(table.get(prefix), twin.get(prefix));
            assert_eq!(table.len(), twin.len());
            let mut addresses: Vec<u32> = held.iter().rev().take(30).copied().flat_map(around).collect();
            addresses.extend(around(prefix));
            addresses.push(elsewhere);
            agree(&**table, &twin, &addresses);
        }
        for prefix in held {
            assert_eq!(table.remove(prefix), twin.remove(prefix));
            agree(&**table, &twin, &around(prefix));
        }
        assert_eq!((table.len(), table.memory().groups), (0, 0));
        Ok(())
    });
    result.unwrap();
}

#[test]
fn dir24_follows_the_twin() {
    for miss in MISSES {
        follows_the_twin(Dir24::new(&config_with(miss), &Domain::new()).unwrap(), miss);
    }
}

#[test]
fn packed_follows_the_twin() {
    for kernel in Kernel::available() {
        follows_the_twin(Packed::new(&Config { kernel, ..config() }, &Domain::new()).unwrap(), MISS);
    }
}

/// Nested prefixes of all lengths around one address, added shortest first, longest first, and removed both ways.
fn nests_at_every_length(mut table: impl Lpm4, corner: u32) {
    let nested: Vec<Prefix4> = (0..=32).map(|length| Prefix4::covering(corner, length).unwrap()).collect();
    let mut twin = Linear::new(&config()).unwrap();
    let addresses: Vec<u32> = nested.iter().copied().flat_map(around).collect();
    agree(&table, &twin, &addresses);
    for backwards in [false, true] {
        let mut order: Vec<(u32, Prefix4)> = (0..).zip(nested.iter().copied()).collect();
        if backwards {
            order.reverse();
        }
        for &(value, prefix) in &order {
            assert_eq!(table.insert(prefix, value), Ok(None));
            twin.insert(prefix, value).unwrap();
            agree(&table, &twin, &addresses);
        }
        for &(value, prefix) in &order {
            assert_eq!(table.remove(prefix), Ok(Some(value)));
            twin.remove(prefix).unwrap();
            agree(&table, &twin, &addresses);
        }
    }
}

#[test]
fn all_lengths_nest() {
    for corner in [0, u32::MAX] {
        nests_at_every_length(Dir24::new(&config(), &Domain::new()).unwrap(), corner);
        nests_at_every_length(Packed::new(&config(), &Domain::new()).unwrap(), corner);
    }
}

fn refuses_and_stays(mut table: impl Lpm4) {
    let short = prefix([10, 0, 0, 0], 24);
    let (first, second) = (prefix([10, 0, 0, 128], 25), prefix([10, 0, 1, 1], 32));
    let inside = prefix([10, 0, 0, 7], 32);
    let addresses: Vec<u32> = [short, first, second, inside].into_iter().flat_map(around).collect();
    let look = |table: &_| -> Vec<u32> { addresses.iter().map(|&address| lookup(table, address)).collect() };
    fn lookup(table: &impl Lpm4, address: u32) -> u32 {
        table.reader().lookup(address)
    }
    assert_eq!(table.insert(short, MAX_VALUE + 1), Err(Refused::ValueTooLarge { value: MAX_VALUE + 1 }));
    assert_eq!((table.len(), look(&table)), (0, vec![MISS; addresses.len()]));
    table.insert(first, 1).unwrap();
    let before = look(&table);
    assert_eq!(table.insert(second, 2), Err(Refused::TooManyGroups { max: 1 }));
    assert_eq!((table.len(), table.get(second), look(&table)), (1, None, before));
    // The network that has its group may hold more.
    table.insert(inside, 3).unwrap();
    table.insert(short, MAX_VALUE).unwrap();
    let before = look(&table);
    assert_eq!(table.insert(Prefix4::DEFAULT, 4), Err(Refused::TooManyRoutes { max: 3 }));
    assert_eq!((table.len(), table.get(Prefix4::DEFAULT), look(&table)), (3, None, before));
    // Replacing is no new route, and what was freed can be used again.
    assert_eq!(table.insert(short, 5), Ok(Some(MAX_VALUE)));
    assert_eq!((table.remove(first), table.remove(inside)), (Ok(Some(1)), Ok(Some(3))));
    assert_eq!(table.insert(second, 2), Ok(None));
    assert_eq!(lookup(&table, second.address()), 2);
    assert_eq!(table.remove(first), Ok(None));
}

#[test]
fn limits_refuse_cleanly() {
    let config = Config { max_routes: 3, max_groups: 1, ..Config::new(MISS) };
    refuses_and_stays(Dir24::new(&config, &Domain::new()).unwrap());
    refuses_and_stays(Packed::new(&config, &Domain::new()).unwrap());
    let miss = Config::new(MAX_VALUE + 1);
    assert_eq!(Linear::new(&miss).unwrap_err(), Error::MissTooLarge(MAX_VALUE + 1));
    assert_eq!(Dir24::new(&miss, &Domain::new()).unwrap_err(), Error::MissTooLarge(MAX_VALUE + 1));
}

#[test]
fn freed_groups_wait_for_readers() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let mut table = Dir24::new(&Config { max_groups: 1, ..config() }, &domain).unwrap();
    let (first, second) = (prefix([10, 0, 0, 1], 32), prefix([10, 0, 1, 1], 32));
    table.insert(first, 1).unwrap();
    table.remove(first).unwrap();
    assert_eq!((table.memory().groups, table.memory().waiting), (0, 1));
    assert_eq!(table.insert(second, 2), Err(Refused::TooManyGroups { max: 1 }));
    reader.quiescent();
    assert_eq!(table.insert(second, 2), Ok(None));
    assert_eq!((table.memory().groups, table.memory().waiting), (1, 0));
}

/// More than the halfwords of [`Dir24`] point to.
const MANY_GROUPS: u32 = (1 << 14) + 100;

fn has_many_groups(mut table: impl Lpm4) {
    let host = |n: u32| Prefix4::new(0x0a00_0000 | n << 8 | 7, 32).unwrap();
    (0..MANY_GROUPS).for_each(|n| assert_eq!(table.insert(host(n), n), Ok(None)));
    for n in 0..MANY_GROUPS {
        let address = host(n).address();
        let addresses = [address, address - 1, host(MANY_GROUPS - 1 - n).address(), address + 1];
        let mut values = [0; 4];
        table.reader().lookup_batch(&addresses, &mut values);
        assert_eq!(values, [n, MISS, MANY_GROUPS - 1 - n, MISS]);
        assert_eq!(table.reader().lookup(address), n);
    }
    (0..MANY_GROUPS).for_each(|n| assert_eq!(table.remove(host(n)), Ok(Some(n))));
    assert!((0..MANY_GROUPS).all(|n| table.reader().lookup(host(n).address()) == MISS));
}

#[test]
fn many_groups_are_told_apart() {
    let config = Config { max_groups: MANY_GROUPS, ..Config::new(MISS) };
    has_many_groups(Dir24::new(&config, &Domain::new()).unwrap());
    has_many_groups(Packed::new(&config, &Domain::new()).unwrap());
}

#[test]
fn memory_is_reported_and_bounded() {
    let domain = Domain::new();
    let mut table = Dir24::new(&config_with(1), &domain).unwrap();
    let dir24 = table.memory();
    let packed = Packed::new(&config(), &domain).unwrap().memory();
    assert_eq!((dir24.lookup, dir24.used), ((96 << 20) + 64 * 1024, 32 << 20));
    // Values that do not fit in halfwords take words of their own, as long as they are there.
    table.insert(prefix([10, 0, 0, 0], 16), 1 << 14).unwrap();
    assert_eq!(table.memory().used, (32 << 20) + 256 * 4);
    table.insert(prefix([10, 0, 1, 0], 24), 1 << 20).unwrap();
    table.insert(prefix([10, 0, 2, 0], 24), 2).unwrap();
    assert_eq!(table.memory().used, (32 << 20) + 255 * 4);
    table.remove(prefix([10, 0, 0, 0], 16)).unwrap();
    assert_eq!(table.memory().used, (32 << 20) + 4);
    assert_eq!(packed.used, 4 << 20);
    assert!(packed.lookup < 80 << 20);
    assert!(dir24.control > 16 << 20 && dir24.control < 32 << 20);
}
