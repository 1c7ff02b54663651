//! The compiled table against the list.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use proptest::prelude::*;
use weir_mem::Domain;
use weir_table::lpm6::{Compiled, Config, Error, Linear, Lookup6, Lpm6, MAX_VALUE, Prefix6, Refused};

const MISS: u32 = 0x00ff_fffe;

fn config() -> Config {
    Config { max_routes: 1000, max_nodes: 4096, ..Config::new(MISS) }
}

/// Few places, so that prefixes nest; all lengths.
fn some_prefix() -> impl Strategy<Value = Prefix6> {
    let length =
        prop_oneof![1 => 0u8..16, 5 => 16u8..=48, 5 => 49u8..=64, 5 => 65u8..=128, 2 => Just(64), 2 => Just(128)];
    let network = prop::sample::select(vec![0u128, 0x2001_0db8_u128 << 96, 0x2001_0db8_0001_ff00 << 64, u128::MAX]);
    (network, 0u32..128, 0u8..4, length).prop_map(|(network, bit, more, length)| {
        let flipped = network ^ 1 << bit ^ u128::from(more) << 62;
        Prefix6::covering(flipped, length).unwrap()
    })
}

#[derive(Clone, Debug)]
enum Act {
    Insert(Prefix6, u32),
    Remove(Prefix6),
    /// Of what is there, this one.
    RemoveSome(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let value = prop_oneof![5 => 0u32..4, 1 => 0..=MAX_VALUE];
    prop_oneof![
        5 => (some_prefix(), value).prop_map(|(prefix, value)| Act::Insert(prefix, value)),
        1 => some_prefix().prop_map(Act::Remove),
        3 => any::<usize>().prop_map(Act::RemoveSome),
    ]
}

/// Addresses at and next to the ends of a prefix.
fn around(prefix: Prefix6) -> [u128; 5] {
    let (first, last) = (prefix.address(), prefix.last());
    [first, last, first.wrapping_sub(1), last.wrapping_add(1), first + (last - first) / 2]
}

fn agree(table: &Compiled, twin: &Linear, addresses: &[u128]) {
    let mut values = vec![0; addresses.len()];
    table.reader().lookup_batch(addresses, &mut values);
    for (&address, value) in addresses.iter().zip(values) {
        assert_eq!(value, twin.reader().lookup(address), "{address:#x} of a batch");
        assert_eq!(value, table.reader().lookup(address), "{address:#x} alone");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random changes and lookups; ends with an empty table, whose nodes are all free.
    #[test]
    fn follows_the_twin(acts in prop::collection::vec((act(), any::<u128>()), 50..120)) {
        let mut table = Compiled::new(&config(), &Domain::new()).unwrap();
        let mut twin = Linear::new(&config()).unwrap();
        let mut held: Vec<Prefix6> = Vec::new();
        for (act, elsewhere) in acts {
            let prefix = match act {
                Act::Insert(prefix, value) => {
                    prop_assert_eq!(table.insert(prefix, value), twin.insert(prefix, value));
                    held.push(prefix);
                    prefix
                }
                Act::Remove(prefix) => prefix,
                Act::RemoveSome(which) if held.is_empty() => Prefix6::covering(which as u128, 8).unwrap(),
                Act::RemoveSome(which) => held.swap_remove(which % held.len()),
            };
            if !matches!(act, Act::Insert(..)) {
                prop_assert_eq!(table.remove(prefix), twin.remove(prefix));
            }
            prop_assert_eq!((table.get(prefix), table.len()), (twin.get(prefix), twin.len()));
            let mut addresses: Vec<u128> = held.iter().rev().take(30).copied().flat_map(around).collect();
            addresses.extend(around(prefix));
            addresses.push(elsewhere);
            agree(&table, &twin, &addresses);
        }
        for prefix in held {
            prop_assert_eq!(table.remove(prefix), twin.remove(prefix));
            agree(&table, &twin, &around(prefix));
        }
        prop_assert_eq!((table.len(), table.nodes()), (0, 0));
    }
}

/// Nested prefixes of all lengths around one address, added shortest first, longest first, and removed both ways.
#[test]
fn nests_at_every_length() {
    for corner in [0u128, u128::MAX, 0x2001_0db8_5a5a_a5a5_1234_5678_9abc_def0] {
        let nested: Vec<Prefix6> = (0..=128).map(|length| Prefix6::covering(corner, length).unwrap()).collect();
        let addresses: Vec<u128> = nested.iter().copied().flat_map(around).collect();
        let mut table = Compiled::new(&config(), &Domain::new()).unwrap();
        let mut twin = Linear::new(&config()).unwrap();
        for backwards in [false, true] {
            let order: Vec<Prefix6> = if backwards { nested.iter().rev().copied().collect() } else { nested.clone() };
            for &prefix in &order {
                let value = u32::from(prefix.length());
                assert_eq!(table.insert(prefix, value), twin.insert(prefix, value));
                agree(&table, &twin, &addresses);
            }
            for &prefix in &order {
                assert_eq!(table.remove(prefix), twin.remove(prefix));
                agree(&table, &twin, &addresses);
            }
        }
        assert_eq!(table.nodes(), 0);
    }
}

/// A refused change leaves everything as it was, and room comes back when readers have passed.
#[test]
fn limits_are_kept() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    let tight = Config { max_routes: 2, max_nodes: 2, ..config() };
    let mut table = Compiled::new(&tight, &domain).unwrap();
    let prefix = |address: u128, length| Prefix6::covering(address, length).unwrap();
    assert_eq!(table.insert(prefix(0, 0), MAX_VALUE + 1), Err(Refused::ValueTooLarge { value: MAX_VALUE + 1 }));
    assert_eq!(table.insert(prefix(0, 33), 1), Err(Refused::TooManyNodes { max: 2 }));
    assert_eq!(table.nodes(), 0);
    assert_eq!(table.insert(prefix(0, 32), 1), Ok(None));
    assert_eq!(table.insert(prefix(u128::MAX, 17), 1), Err(Refused::TooManyNodes { max: 2 }));
    assert_eq!(table.insert(prefix(0, 0), 2), Ok(None));
    assert_eq!(table.insert(prefix(u128::MAX, 8), 2), Err(Refused::TooManyRoutes { max: 2 }));
    assert_eq!(table.remove(prefix(0, 32)), Some(1));
    assert_eq!(table.insert(prefix(0, 32), 1), Err(Refused::TooManyNodes { max: 2 }), "a reader may still be there");
    reader.quiescent();
    assert_eq!(table.insert(prefix(0, 32), 3), Ok(None));
    assert_eq!((table.reader().lookup(0), table.reader().lookup(u128::MAX)), (3, 2));
    let miss = Config { miss: MAX_VALUE + 1, ..tight };
    assert!(matches!(Compiled::new(&miss, &domain), Err(Error::MissTooLarge(_))));
}
