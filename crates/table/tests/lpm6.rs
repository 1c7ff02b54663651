//! The compiled table against the list.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_mem::Domain;
use weir_table::lpm6::{Compiled, Config, Error, Linear, Lookup6, Lpm6, MAX_VALUE, Prefix6, Refused};

const MISS: u32 = 0x00ff_fffe;

fn config() -> Config {
    Config { max_routes: 1000, max_lines: 1 << 14, ..Config::new(MISS) }
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

    /// Random changes and lookups; ends with an empty table, whose lines are all free.
    #[test]
    fn follows_the_twin(acts in prop::collection::vec((act(), any::<u128>()), 50..250)) {
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
        prop_assert_eq!((table.len(), table.memory().used), (0, 0));
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
        assert_eq!(table.memory().used, 0);
    }
}

/// All sets of the 15 prefixes of a tree three bits high, one change from each to the next (a Gray code), at several depths: with
/// their bits side by side, and so far apart that nodes skip what is between.
#[test]
fn all_small_tables_are_right() {
    let spread = |bits: u32, depth: u32, apart: u32| {
        (0..3).fold(0_u128, |address, level| {
            address | u128::from(bits >> (2 - level) & 1) << (127 - depth - level * apart)
        })
    };
    for (depth, apart) in [(0, 1), (15, 1), (30, 1), (62, 1), (125, 1), (3, 7), (20, 16), (0, 40), (60, 33)] {
        let prefixes: Vec<Prefix6> = (0..=3_u32)
            .flat_map(|height| {
                let length = if height == 0 { depth } else { depth + (height - 1) * apart + 1 };
                (0..1 << height).map(move |bits: u32| (bits << (3 - height), length))
            })
            .map(|(bits, length)| Prefix6::new(spread(bits, depth, apart), length as u8).unwrap())
            .collect();
        let inside = (0..8).map(|bits| spread(bits, depth, apart));
        let addresses: Vec<u128> = inside.chain(prefixes.iter().copied().flat_map(around)).collect();
        let mut table = Compiled::new(&config(), &Domain::new()).unwrap();
        let mut held = 0_u32;
        for step in 1..=1_u32 << prefixes.len() {
            let at = step.trailing_zeros() as usize % prefixes.len();
            held ^= 1 << at;
            let done =
                if held & 1 << at == 0 { table.remove(prefixes[at]) } else { table.insert(prefixes[at], at as u32) };
            assert_eq!(done, Ok((held & 1 << at == 0).then_some(at as u32)));
            let mut values = vec![0; addresses.len()];
            table.reader().lookup_batch(&addresses, &mut values);
            for (&address, value) in addresses.iter().zip(values) {
                let mut covering =
                    (0..prefixes.len()).filter(|at| held & 1 << at != 0 && prefixes[*at].covers(address));
                // They are in the order of their lengths.
                let expected = covering.next_back().map_or(MISS, |at| at as u32);
                assert_eq!((value, table.reader().lookup(address)), (expected, expected), "{held:b} {address:#x}");
            }
        }
    }
}

/// Prefixes side by side, one more at a time and one less at a time: buckets, indexes of every number of buckets, and arrays; where bits
/// begin and where they end, with and without gaps, shorter ones around and longer ones inside, and with few values, so that many prefixes are
/// few ranges.
#[test]
fn nodes_of_every_size_are_right() {
    for (corner, depth, gap, inside, values) in [
        (0_u128, 32, 2, 0, 1000),
        (u128::MAX, 32, 2, 0, 3),
        (0x2001_0db8 << 96, 29, 1, 20, 1000),
        (0x2001_0db8 << 96, 29, 1, 17, 1),
        (u128::MAX, 61, 3, 3, 1000),
        (0, 96, 2, 0, 1000),
    ] {
        let size = 1_u128 << (128 - (depth + 16));
        let region = Prefix6::covering(corner, depth).unwrap();
        let at = |n: u128| {
            if corner == u128::MAX { region.last() - n * gap * size } else { region.address() + n * gap * size }
        };
        // Places in an order that looks random: 83 and 131 have no divisor in common.
        let prefixes: Vec<Prefix6> = (0..131)
            .map(|n| (at(n * 83 % 131), n % 7))
            .map(|(address, kind)| match kind {
                5 => Prefix6::covering(address, depth + 13).unwrap(),
                6 => Prefix6::covering(address, depth + 16 + inside).unwrap(),
                _ => Prefix6::covering(address, depth + 16).unwrap(),
            })
            .collect();
        let addresses: Vec<u128> = prefixes.iter().copied().flat_map(around).collect();
        let mut table = Compiled::new(&config(), &Domain::new()).unwrap();
        let mut truth: BTreeMap<Prefix6, u32> = BTreeMap::new();
        for step in 0..2 * prefixes.len() {
            let (prefix, value) = (prefixes[step % prefixes.len()], step as u32 % values);
            if step < prefixes.len() {
                assert_eq!(table.insert(prefix, value), Ok(truth.insert(prefix, value)));
            } else {
                assert_eq!(table.remove(prefix), Ok(truth.remove(&prefix)));
            }
            let mut found = vec![0; addresses.len()];
            table.reader().lookup_batch(&addresses, &mut found);
            for (&address, value) in addresses.iter().zip(found) {
                let covering = |length| truth.get(&Prefix6::covering(address, length).unwrap()).copied();
                let expected = (depth..=depth + 16 + inside).rev().find_map(covering).unwrap_or(MISS);
                assert_eq!((value, table.reader().lookup(address)), (expected, expected), "{step} {address:#x}");
            }
        }
        assert_eq!((table.len(), table.memory().used), (0, 0));
    }
}

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn address(&mut self) -> u128 {
        (0..5).fold(0, |address, _| address << 31 | u128::from(self.below(1 << 31)))
    }
}

/// A table that grows to thousands of prefixes and shrinks again, in clusters as real ones are: arrays become wider and narrower
/// on the way. Compared with the covering prefixes of the truth.
#[test]
fn grows_and_shrinks_by_thousands() {
    let mut random = Random(7);
    let clusters: Vec<Prefix6> =
        (0..12).map(|n| Prefix6::covering(random.address() >> 3 | 1 << 125, 16 + 8 * (n % 5)).unwrap()).collect();
    let mut table =
        Compiled::new(&Config { max_routes: 20_000, max_lines: 1 << 18, ..config() }, &Domain::new()).unwrap();
    let mut truth: BTreeMap<Prefix6, u32> = BTreeMap::new();
    let expected = |truth: &BTreeMap<Prefix6, u32>, address: u128| {
        let covering = |length| truth.get(&Prefix6::covering(address, length).unwrap()).copied();
        (0..=128).rev().find_map(covering).unwrap_or(MISS)
    };
    for round in 0..40_000_u32 {
        let cluster = clusters[random.below(12) as usize];
        let address = cluster.address() | random.address() & (cluster.last() - cluster.address());
        let length = cluster.length() + 1 + random.below(40) as u8;
        let mut prefix = Prefix6::covering(address, length).unwrap();
        // Rather more come than go, then rather more go.
        let goes = random.below(10) < if round < 20_000 { 2 } else { 9 };
        if goes && let Some((there, _)) = truth.range(prefix..).next() {
            prefix = *there;
        }
        if goes {
            assert_eq!(table.remove(prefix), Ok(truth.remove(&prefix)));
        } else {
            assert_eq!(table.insert(prefix, round), Ok(truth.insert(prefix, round)));
        }
        let mut values = [0; 5];
        table.reader().lookup_batch(&around(prefix), &mut values);
        for (address, value) in around(prefix).into_iter().zip(values) {
            assert_eq!(value, expected(&truth, address), "{round} {prefix} {address:#x}");
        }
        if round % 5000 == 4999 {
            assert_eq!(table.iter().collect::<BTreeMap<_, _>>(), truth);
            for prefix in truth.keys() {
                around(*prefix).into_iter().for_each(|a| assert_eq!(table.reader().lookup(a), expected(&truth, a)));
            }
        }
    }
    for prefix in truth.keys() {
        assert!(table.remove(*prefix).unwrap().is_some());
    }
    assert_eq!((table.len(), table.memory().used), (0, 0));
}

/// What [`Config::for_any`] promises: so many prefixes find room, however they are chosen, and however often they change.
#[test]
fn room_for_any_prefixes_is_enough() {
    for count in [1, 4, 13, 40, 200, 3000] {
        let mut random = Random(count);
        let config = Config::for_any(MISS, count as usize);
        let nested = |random: &mut Random, n: u64| {
            let corner = random.address();
            Prefix6::covering(u128::MAX ^ corner >> (n % 120), 128 - (n % 7) as u8).unwrap()
        };
        let apart = |random: &mut Random| Prefix6::covering(random.address(), 128).unwrap();
        for is_nested in [false, true] {
            let mut table = Compiled::new(&config, &Domain::new()).unwrap();
            let mut held = Vec::new();
            for n in 0..3 * count {
                if held.len() as u64 == count {
                    let at = random.below(count) as usize;
                    table.remove(held.swap_remove(at)).unwrap();
                }
                let prefix = if is_nested { nested(&mut random, n) } else { apart(&mut random) };
                if table.insert(prefix, 1).unwrap().is_none() {
                    held.push(prefix);
                }
            }
        }
    }
}

/// A refused change leaves everything as it was, and room comes back when readers have passed.
#[test]
fn limits_are_kept() {
    let domain = Domain::new();
    let mut reader = domain.reader().unwrap();
    // A line for the root of a short prefix, and three on the way to one of more than 32 bits.
    let tight = Config { max_routes: 2, max_lines: 5, ..config() };
    let mut table = Compiled::new(&tight, &domain).unwrap();
    let prefix = |address: u128, length| Prefix6::covering(address, length).unwrap();
    let full = Err(Refused::NoRoom { max: 5 });
    assert_eq!(table.insert(prefix(0, 0), MAX_VALUE + 1), Err(Refused::ValueTooLarge { value: MAX_VALUE + 1 }));
    assert_eq!(table.insert(prefix(0, 65), 1), full);
    assert_eq!((table.memory().used, table.len(), table.reader().lookup(0)), (0, 0, MISS));
    assert_eq!(table.insert(prefix(0, 33), 1), Ok(None));
    assert_eq!(table.insert(prefix(u128::MAX, 17), 1), full, "the nodes that it replaces are three, too");
    assert_eq!((table.reader().lookup(0), table.reader().lookup(u128::MAX)), (1, MISS));
    assert_eq!(table.insert(prefix(0, 0), 2), Ok(None));
    assert_eq!(table.insert(prefix(u128::MAX, 8), 2), Err(Refused::TooManyRoutes { max: 2 }));
    assert_eq!(table.remove(prefix(0, 33)), Ok(Some(1)));
    assert_eq!(table.insert(prefix(0, 33), 1), full, "a reader may still be there");
    assert_eq!((table.reader().lookup(0), table.len(), table.get(prefix(0, 33))), (2, 1, None));
    reader.quiescent();
    assert_eq!(table.insert(prefix(0, 33), 3), Ok(None));
    assert_eq!((table.reader().lookup(0), table.reader().lookup(u128::MAX)), (3, 2));
    assert_eq!(table.insert(prefix(0, 33), 4), full);
    assert_eq!(table.get(prefix(0, 33)), Some(3), "the old value stays");
    let miss = Config { miss: MAX_VALUE + 1, ..tight };
    assert!(matches!(Compiled::new(&miss, &domain), Err(Error::MissTooLarge(_))));
}
