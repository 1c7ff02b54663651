//! Cycles per lookup, and the time that building and changing take, of the classifier with rule sets of three shapes:
//! `cargo run --release -p weir-table --example classifier_cycles -- [RULES...]`.
//!
//! The shapes are those of the seeds that `ClassBench` (Taylor and Turner, INFOCOM 2005) names: `acl`, access lists, whose destinations are long
//! prefixes; `fw`, firewalls, where much is open; `ipc`, chains of both. Networks are drawn from few, so that rules overlap. Each key matches a rule drawn
//! at random, unless one before it does, too; 65,536 of them.

use std::hint::black_box;

use weir_mem::{Clock, tsc};
use weir_simd::Kernel;
use weir_table::classifier::{BATCH, Classifier, Half, Keys, Linear, Match, most_bytes};

const KEYS: usize = 1 << 16;
const RUNS: usize = 9;

/// Source, destination, protocol, ports.
type Rule = Match<4>;
type Key = [u32; 4];

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let numbers = if numbers.is_empty() { vec![100, 1000, 10_000] } else { numbers };
    let clock = Clock::calibrate();
    for shape in [Shape::Acl, Shape::Fw, Shape::Ipc] {
        for &count in &numbers {
            measure(shape, count, &clock);
        }
    }
}

fn measure(shape: Shape, count: usize, clock: &Clock) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let made: Vec<(Rule, Key)> = make(shape, count, &mut random);
    let rules: Vec<Rule> = made.iter().map(|(rule, _)| *rule).collect();
    let start = tsc::now();
    let mut classifier = Classifier::new(&rules);
    let built = clock.span_nanos(tsc::now() - start) as f64 / 1e6;
    let batches: Vec<Keys<4>> = (0..KEYS / BATCH).map(|_| keys(&made, &mut random)).collect();
    check(&classifier, &rules, &batches);
    let kernel = Kernel::detect();
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = tsc::now();
            let mut found = [0; BATCH];
            for keys in &batches {
                classifier.lookup_batch(kernel, keys, BATCH, &mut found);
                black_box(&found);
            }
            (tsc::now() - start) as f64 / KEYS as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    let (depths, blocks) = classifier.shape();
    println!(
        "{shape:?} {count} rules: {:.1} cycles ({:.1} to {:.1}); built in {built:.2} ms; trees of {depths:?} steps, {blocks} blocks, {} KiB of {}",
        runs[RUNS / 2],
        runs[0],
        runs[RUNS - 1],
        classifier.bytes() >> 10,
        most_bytes(count) >> 10,
    );
    let mut worst = 0;
    let start = tsc::now();
    for n in 0..200 {
        let at = random.below(count as u64) as usize;
        let before = tsc::now();
        let mut next = classifier.clone();
        if n % 2 == 0 {
            next.insert(at, make(shape, 1, &mut random)[0].0);
        } else {
            next.remove(at);
        }
        classifier = next;
        worst = worst.max(tsc::now() - before);
    }
    let mean = clock.span_nanos(tsc::now() - start) as f64 / 200.0 / 1e6;
    println!(
        "    a change, in a copy: {mean:.3} ms on average, {:.3} ms at most",
        clock.span_nanos(worst) as f64 / 1e6
    );
}

/// A sample of what is found is what the twin finds.
fn check(classifier: &Classifier<4>, rules: &[Rule], batches: &[Keys<4>]) {
    let linear = Linear::new(rules);
    for keys in batches.iter().step_by(64) {
        for at in 0..BATCH {
            let key = keys.get(at);
            assert_eq!(classifier.lookup(&key), linear.lookup(&key), "{key:?}");
        }
    }
}

fn keys(made: &[(Rule, Key)], random: &mut Random) -> Keys<4> {
    let mut keys = Keys::default();
    for at in 0..BATCH {
        keys.set(at, made[random.below(made.len() as u64) as usize].1);
    }
    keys
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Acl,
    Fw,
    Ipc,
}

/// Rules, each with a key that it matches.
fn make(shape: Shape, count: usize, random: &mut Random) -> Vec<(Rule, Key)> {
    let networks: Vec<u32> = (0..(count / 8).max(4)).map(|_| random.next() as u32 & 0xffff_ff00).collect();
    (0..count)
        .map(|_| {
            // Of a hundred: how many sources and destinations are open.
            let (open_source, open_destination) = match shape {
                Shape::Acl => (15, 2),
                Shape::Fw => (45, 25),
                Shape::Ipc => (12, 12),
            };
            let source = prefix(&networks, open_source, random);
            // Few rules of a firewall leave both open: they would hide all behind them.
            let open_destination = if source.1 == 0 { open_destination / 12 } else { open_destination };
            let destination = prefix(&networks, open_destination, random);
            let protocol = [Some(6), Some(6), Some(6), Some(17), Some(17), Some(1), None][random.below(7) as usize];
            let high = if random.below(10) == 0 { range(random) } else { (0, u16::MAX) };
            let low = if random.below(10) < 7 { range(random) } else { (0, u16::MAX) };
            let rule = Rule::default()
                .word(0, source.0, source.1)
                .word(1, destination.0, destination.1)
                .range(Half::High, high.0, high.1)
                .range(Half::Low, low.0, low.1);
            let rule = protocol.map_or(rule, |protocol| rule.word(2, protocol, 0xff));
            let within = |(from, to): (u16, u16), random: &mut Random| {
                u32::from(from) + random.below(u64::from(to - from) + 1) as u32
            };
            let bits = |(value, mask): (u32, u32), random: &mut Random| value & mask | random.next() as u32 & !mask;
            let ports = within(high, random) << 16 | within(low, random);
            (rule, [bits(source, random), bits(destination, random), protocol.unwrap_or(47), ports])
        })
        .collect()
}

/// One of the networks, or a part of it; open in `open` of 100 cases.
fn prefix(networks: &[u32], open: u64, random: &mut Random) -> (u32, u32) {
    if random.below(100) < open {
        return (0, 0);
    }
    let network = networks[random.below(networks.len() as u64) as usize];
    let length = [16, 20, 22, 24, 24, 24, 26, 28, 30, 32, 32, 32][random.below(12) as usize];
    (network | random.next() as u32 & 0xff, u32::MAX << (32 - length))
}

fn range(random: &mut Random) -> (u16, u16) {
    let well_known = [80, 443, 53, 22, 25, 110, 123, 161, 179, 8080];
    match random.below(10) {
        0..=5 => {
            let port = well_known[random.below(10) as usize];
            (port, port)
        }
        6 => (1024, u16::MAX),
        7 => (0, 1023),
        8 => {
            let port = random.next() as u16;
            (port, port)
        }
        _ => {
            let from = random.next() as u16;
            (from, from.saturating_add(100))
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }
}
