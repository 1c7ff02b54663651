//! Whether machine code that goes through the rules of a small list, one after the other, would be quicker than the classifier of access lists: cycles
//! per packet of both, on the same packets: `cargo run --release -p weir-ip --example small_lists -- [RULES...]`.
//!
//! Rules are those of usual lists: a network of sources, one of destinations, a protocol, a destination port. The code is what `weir-filter` makes of
//! them, joined by `or`, which says whether any of them matches; an access list needs to know which, and counts it, so that the code for one is not
//! shorter. What the classifier takes is without the making of keys, of which the code has no need: in a router that is 5 to 8 cycles. Each packet matches one rule
//! at random, or none.

use std::error::Error;
use std::hint::black_box;
use std::net::Ipv4Addr;

use weir_filter::Filter;
use weir_mem::tsc;
use weir_simd::Kernel;
use weir_stage::Random;
use weir_table::classifier::{BATCH, Classifier, Half, Keys, Match};
use weir_wire::build::UdpFrame;

const BATCHES: usize = 1 << 10;
const RUNS: usize = 9;

/// A rule: the networks of 24 bits, and the port.
#[derive(Clone, Copy)]
struct Rule {
    source: u32,
    destination: u32,
    port: u16,
}

impl Rule {
    fn new(random: &mut Random) -> Rule {
        let network = |random: &mut Random| 0x0a00_0000 | (random.next() as u32 & 0x00ff_ff00);
        let port = [80, 443, 53, 22, 8080][random.position(5)];
        Rule { source: network(random), destination: network(random), port }
    }

    fn as_match(self) -> Match<4> {
        const NETWORK: u32 = 0xffff_ff00;
        let both = Match::default().word(0, self.source, NETWORK).word(1, self.destination, NETWORK);
        both.word(2, 17, 0xff).range(Half::Low, self.port, self.port)
    }

    fn as_filter(self) -> String {
        let (source, destination) = (Ipv4Addr::from_bits(self.source), Ipv4Addr::from_bits(self.destination));
        format!("(src net {source}/24 and dst net {destination}/24 and udp dst port {})", self.port)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let numbers = if numbers.is_empty() { vec![1, 2, 4, 8, 16, 32] } else { numbers };
    for count in numbers {
        measure(count)?;
    }
    Ok(())
}

fn measure(count: usize) -> Result<(), Box<dyn Error>> {
    let mut random = Random::new(1);
    let rules: Vec<Rule> = (0..count).map(|_| Rule::new(&mut random)).collect();
    let classifier = Classifier::new(&rules.iter().map(|rule| rule.as_match()).collect::<Vec<_>>());
    let filter = Filter::parse(&rules.iter().map(|rule| rule.as_filter()).collect::<Vec<_>>().join(" or "))?;
    filter.compile();
    let mut batches: Vec<Keys<4>> = (0..BATCHES).map(|_| Keys::default()).collect();
    let mut frames = Vec::with_capacity(BATCHES * BATCH);
    for keys in &mut batches {
        for at in 0..BATCH {
            let mut rule = rules[random.position(count)];
            if random.below(4) == 0 {
                rule.port ^= 1;
            }
            let (source, destination) =
                (rule.source | random.below(256) as u32, rule.destination | random.below(256) as u32);
            let port = random.next() as u16;
            keys.set(at, [source, destination, 17, u32::from(port) << 16 | u32::from(rule.port)]);
            let frame = UdpFrame {
                source: Ipv4Addr::from_bits(source),
                destination: Ipv4Addr::from_bits(destination),
                source_port: port,
                destination_port: rule.port,
                ..UdpFrame::default()
            };
            frames.push(frame.to_vec(&[0; 18]));
        }
    }
    let kernel = Kernel::detect();
    let mut found = [0; BATCH];
    for (keys, frames) in batches.iter().zip(frames.chunks(BATCH)) {
        classifier.lookup_batch(kernel, keys, BATCH, &mut found);
        assert!(frames.iter().zip(found).all(|(frame, rule)| filter.matches(frame) == (rule < count as u32)));
    }
    let by_classifier = median(|| {
        for keys in &batches {
            classifier.lookup_batch(kernel, keys, BATCH, &mut found);
            black_box(&found);
        }
    });
    let by_code = median(|| {
        for frame in &frames {
            black_box(filter.matches(frame));
        }
    });
    println!("{count} rules: classifier {by_classifier:.1}, code {by_code:.1} cycles per packet");
    Ok(())
}

/// Cycles per packet of a pass over all.
fn median(mut pass: impl FnMut()) -> f64 {
    let mut runs: Vec<u64> = (0..RUNS)
        .map(|_| {
            let start = tsc::now();
            pass();
            tsc::now() - start
        })
        .collect();
    runs.sort_unstable();
    runs[RUNS / 2] as f64 / (BATCHES * BATCH) as f64
}
