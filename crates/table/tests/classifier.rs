//! The classifier against its twin: rule sets of several shapes, masks and bounds at random, and changes one by one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use proptest::prelude::*;
use weir_simd::Kernel;
use weir_table::classifier::{BATCH, Classifier, Half, Keys, Linear, Match, NONE, most_bytes};

/// Source, destination, protocol and flags, ports.
type Rule = Match<4>;

const PROTOCOL: u32 = 0xff;

/// Addresses that prefixes are taken from: few networks, so that rules overlap.
fn address() -> impl Strategy<Value = u32> {
    (0..4_u32, any::<u32>()).prop_map(|(network, bits)| 10 << 24 | network << 22 | bits & 0x3f_ffff)
}

fn prefix(lengths: impl Strategy<Value = u32>) -> impl Strategy<Value = (u32, u32)> {
    (address(), lengths).prop_map(|(address, length)| (address, u32::MAX.checked_shl(32 - length).unwrap_or(0)))
}

fn ports() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![
        4 => Just((0, u16::MAX)),
        2 => any::<u16>().prop_map(|port| (port % 1024, port % 1024)),
        1 => Just((1024, u16::MAX)),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(one, other)| (one.min(other), one.max(other))),
        1 => (any::<u16>(), any::<u16>()),
    ]
}

/// Rules as lists for access have them, as firewalls have them (much is open), and as chains of addresses have them.
fn rule(shape: u8) -> BoxedStrategy<Rule> {
    let (source, destination) = match shape {
        0 => (prefix(prop_oneof![1 => Just(0), 3 => 16..=32_u32].boxed()), prefix((20..=32_u32).boxed())),
        1 => (
            prefix(prop_oneof![3 => Just(0), 1 => 8..=32_u32].boxed()),
            prefix(prop_oneof![2 => Just(0), 1 => 8..=32_u32].boxed()),
        ),
        _ => (prefix((8..=32_u32).boxed()), prefix(prop_oneof![1 => Just(0), 2 => 8..=32_u32].boxed())),
    };
    let protocol = prop_oneof![1 => Just(None), 4 => prop_oneof![Just(6_u32), Just(17), Just(1)].prop_map(Some)];
    let masked = prop_oneof![8 => Just((0, 0)), 1 => (any::<u32>(), any::<u32>())];
    (source, destination, protocol, ports(), ports(), masked)
        .prop_map(|(source, destination, protocol, high, low, masked)| {
            let rule = Rule::default().word(0, source.0, source.1).word(1, destination.0, destination.1);
            let rule = protocol.map_or(rule, |protocol| rule.word(2, protocol, PROTOCOL));
            // Masks that are no prefixes, as flow tables have them.
            let rule = if masked.1 == 0 { rule } else { rule.word(2, masked.0, masked.1 & 0x00ff_ff00) };
            rule.range(Half::High, high.0, high.1).range(Half::Low, low.0, low.1)
        })
        .boxed()
}

fn rules(most: usize) -> impl Strategy<Value = Vec<Rule>> {
    (0..3_u8).prop_flat_map(move |shape| prop::collection::vec(rule(shape), 0..most))
}

/// Keys near what rules match, so that many match several, and some of none.
fn key(seed: u64, around: Option<&Rule>) -> [u32; 4] {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let mut key =
        [10 << 24 | next() & 0xff_ffff, 10 << 24 | next() & 0xff_ffff, next() & 0x00ff_ff00 | 6, next() ^ next() << 16];
    // Shake a key until the rule takes it, word by word, as far as it goes.
    if let Some(rule) = around {
        key = inside(rule, key, next());
    }
    key
}

/// A key that a rule matches, if any does: the rule's own bits over random ones, and ports within bounds or at their edges.
fn inside(rule: &Rule, key: [u32; 4], dice: u32) -> [u32; 4] {
    let text = format!("{rule:?}");
    let numbers: Vec<u32> = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().unwrap())
        .collect();
    let (value, mask, bounds) = (&numbers[0..4], &numbers[4..8], &numbers[8..12]);
    let half = |low: u32, high: u32, bits: u32| match dice & 3 {
        0 => low,
        1 => high,
        2 => low.wrapping_add(bits % (high.wrapping_sub(low) & 0xffff).wrapping_add(1)) & 0xffff,
        _ => low.wrapping_sub(1) & 0xffff,
    };
    let mut inside = [0; 4];
    for n in 0..3 {
        inside[n] = value[n] | key[n] & !mask[n];
    }
    inside[3] = half(bounds[0], bounds[1], key[3] >> 16) << 16 | half(bounds[2], bounds[3], key[3] & 0xffff);
    inside
}

/// Whether both find the same for some keys, one by one and together.
fn assert_same(
    classifier: &Classifier<4>,
    linear: &Linear<4>,
    all: &[Rule],
    seed: u64,
) -> Result<usize, TestCaseError> {
    let mut keys = Keys::default();
    let mut found_any = 0;
    for at in 0..BATCH {
        let around = all.get((seed as usize).wrapping_add(at * 7) % all.len().max(1));
        keys.set(at, key(seed.wrapping_mul(31).wrapping_add(at as u64), around.filter(|_| at % 4 != 0)));
    }
    for kernel in Kernel::available() {
        let mut found = [0; BATCH];
        classifier.lookup_batch(kernel, &keys, BATCH, &mut found);
        for (at, found) in found.iter().enumerate() {
            let key = keys.get(at);
            let expected = linear.lookup(&key);
            found_any += usize::from(expected != NONE);
            prop_assert_eq!(*found, expected, "{:?} of {} rules", key, linear.len());
            prop_assert_eq!(classifier.lookup(&key), expected);
        }
    }
    prop_assert!(classifier.bytes() <= most_bytes(linear.len()), "{} bytes", classifier.bytes());
    Ok(found_any)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_finds_what_its_twin_finds(rules in rules(400), seed in any::<u64>()) {
        let (classifier, linear) = (Classifier::new(&rules), Linear::new(&rules));
        for round in 0..8 {
            assert_same(&classifier, &linear, &rules, seed.wrapping_add(round))?;
        }
    }

    #[test]
    fn rules_come_and_go_one_by_one(
        first in rules(120),
        steps in prop::collection::vec((any::<bool>(), any::<usize>(), (0..3_u8).prop_flat_map(rule)), 1..160),
        seed in any::<u64>(),
    ) {
        let (mut classifier, mut linear) = (Classifier::new(&first), Linear::new(&first));
        let mut all = first;
        for (n, (adds, position, rule)) in steps.iter().enumerate() {
            let position = position % (linear.len() + 1);
            // A rule that matches everything comes now and then, too.
            let rule = if n % 17 == 5 { Rule::default() } else { *rule };
            if *adds {
                prop_assert_eq!(classifier.insert(position, rule), linear.insert(position, rule));
                all.push(rule);
            } else {
                prop_assert_eq!(classifier.remove(position), linear.remove(position));
            }
            prop_assert_eq!(classifier.len(), linear.len());
            if n % 8 == 0 {
                assert_same(&classifier, &linear, &all, seed.wrapping_add(n as u64))?;
            }
        }
        assert_same(&classifier, &linear, &all, seed)?;
    }
}

#[test]
fn the_edges_of_bounds_and_masks() {
    let one = Rule::default().range(Half::Low, 80, 80);
    let from = Rule::default().range(Half::Low, 1024, u16::MAX);
    let none = Rule::default().range(Half::High, 5, 4);
    let last = Rule::default().range(Half::High, u16::MAX, u16::MAX).range(Half::Low, u16::MAX, u16::MAX);
    let all: Vec<Rule> = [none, one, from, last].to_vec();
    let classifier = Classifier::new(&all);
    for (ports, expected) in
        [(80, 1), (79, NONE), (81, NONE), (1023, NONE), (1024, 2), (0xffff, 2), (0xffff_ffff, 2), (0x0005_0050, 1)]
    {
        assert_eq!(classifier.lookup(&[0, 0, 0, ports]), expected, "{ports:#x}");
    }
    assert_eq!(Classifier::new(&[none]).lookup(&[0, 0, 0, u32::MAX]), NONE);
    assert_eq!(Classifier::new(&[last]).lookup(&[7, 7, 7, u32::MAX]), 0);
    assert_eq!(Classifier::<4>::new(&[]).lookup(&[0; 4]), NONE);
    assert!(Rule::default().is_any() && !one.is_any() && none.is_never());
}

#[test]
fn what_cannot_be_told_apart_is_still_bounded() {
    // All rules are the same but for one open word after the other: no window parts them well.
    let many: Vec<Rule> = (0..4000_u32)
        .map(|n| Rule::default().range(Half::High, n as u16, u16::MAX).range(Half::Low, 0, (n as u16).wrapping_mul(7)))
        .collect();
    let (classifier, linear) = (Classifier::new(&many), Linear::new(&many));
    assert!(classifier.bytes() <= most_bytes(many.len()), "{classifier:?}");
    for n in 0..2000_u32 {
        let key = [0, 0, 0, n.wrapping_mul(0x9e37_79b9)];
        assert_eq!(classifier.lookup(&key), linear.lookup(&key));
    }
}
