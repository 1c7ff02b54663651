//! Nanoseconds that it takes to put an expression to a frame, by the tests that it is made of and by machine code, and what making the code takes:
//! `cargo run --release -p weir-filter --example filter_ns [EXPRESSION...]`.
//!
//! Once for the same frame again and again (UDP to port 53), and once for 4,096 frames of seven kinds in no order, so that nothing is known beforehand of what
//! an expression will meet. The medians of nine rounds, in turns.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the clock, and says what came of it"
)]

use std::hint::black_box;
use std::time::Instant;

use weir_filter::{Filter, FilterError};

const EXPRESSIONS: [&str; 7] = [
    "udp",
    "udp dst port 53",
    "udp dst port 53 or (tcp and net 10.0.0.0/8)",
    "host 10.0.0.1 and not port 22",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "net 10.0.0.0/8 or 172.16.0.0/12 or 192.168.0.0/16",
    "ip6 host 2001:db8::1 or tcp portrange 6000-6063 or port 80 or 443 or 8080",
];

const FRAMES: usize = 4096;
const ROUNDS: usize = 9;

fn main() -> Result<(), FilterError> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let expressions = if given.is_empty() { EXPRESSIONS.map(str::to_owned).to_vec() } else { given };
    let kinds = kinds();
    let alike = vec![kinds[0].clone(); FRAMES];
    let mut number = 1_u64;
    let mixed: Vec<Vec<u8>> = (0..FRAMES)
        .map(|_| {
            // xorshift64 (Marsaglia).
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            kinds[(number >> 11) as usize % kinds.len()].clone()
        })
        .collect();
    println!("{:>9} {:>9} {:>9} {:>9} {:>9}   expression", "alike: ns", "code", "mixed: ns", "code", "made: us");
    for expression in expressions {
        let [tests, code] = [Filter::parse(&expression)?, Filter::parse(&expression)?];
        let start = Instant::now();
        code.compile();
        let made = start.elapsed().as_nanos() as f64 / 1e3;
        let [[one, other], [third, fourth]] = [&alike, &mixed].map(|frames| cost(&tests, &code, frames));
        let is = if code.is_compiled() { "" } else { " (no code)" };
        println!("{one:>9.1} {other:>9.1} {third:>9.1} {fourth:>9.1} {made:>9.0}   {expression}{is}");
    }
    Ok(())
}

/// Nanoseconds for a frame, by each.
fn cost(tests: &Filter, code: &Filter, frames: &[Vec<u8>]) -> [f64; 2] {
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (filter, round) in [tests, code].into_iter().zip(&mut rounds) {
            let start = Instant::now();
            let mut found = 0;
            for _ in 0..16 {
                found += frames.iter().filter(|frame| black_box(filter).matches(frame)).count();
            }
            black_box(found);
            round.push(start.elapsed().as_nanos() as f64 / (16 * frames.len()) as f64);
        }
    }
    rounds.map(|mut round| {
        round.sort_by(f64::total_cmp);
        round[ROUNDS / 2]
    })
}

/// UDP to port 53, and to another; TCP from 10.0.0.1, and SYN from elsewhere; with options; IPv6; ARP.
fn kinds() -> [Vec<u8>; 7] {
    let four = |words: u8, protocol, source: [u8; 4], ports: [u16; 2], flags| {
        let mut packet = vec![0x40 | words, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(source);
        packet.extend([198, 51, 100, 3]);
        packet.resize(4 * usize::from(words), 1);
        packet.extend(ports.map(u16::to_be_bytes).concat());
        packet.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags]);
        frame(0x0800, packet)
    };
    let mut six = vec![0x60, 0, 0, 0, 0, 20, 6, 64, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    six.extend([7; 16]);
    six.extend([1, 1, 0x23, 0x28]);
    [
        four(5, 17, [192, 0, 2, 1], [4096, 53], 0),
        four(5, 17, [192, 0, 2, 1], [4096, 4500], 0),
        four(5, 6, [10, 0, 0, 1], [443, 50_000], 0x10),
        four(5, 6, [203, 0, 113, 5], [50_000, 443], 2),
        four(6, 6, [192, 168, 0, 1], [6001, 22], 0x10),
        frame(0x86dd, six),
        frame(0x0806, vec![0, 1, 8, 0, 6, 4, 0, 1]),
    ]
}

/// A frame of 60 bytes at least.
fn frame(kind: u16, packet: Vec<u8>) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes(), &packet].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}
