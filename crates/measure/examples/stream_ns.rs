//! Nanoseconds per packet to sign it, and to read its signature and count it:
//! `cargo run --release -p weir-measure --example stream_ns`.
//!
//! 2,048 packets of 60 bytes go round, in batches of 64.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use weir_measure::Receiver;
use weir_measure::signature::{Form, Signer};

const PACKETS: usize = 2048;
const BATCH: usize = 64;
const ROUNDS: u64 = 2_000;
const RUNS: usize = 7;

fn main() {
    let signer = Signer::new(Form::Full, 0, &[]);
    // One stamp for a batch on either side, as a generator and its receiver have it; then a stamp for each packet.
    run("sign", |number, packet, _| {
        signer.write(packet, number, number);
    });
    for (name, spread, swap) in
        [("sign, read and count", 0, 0), ("... with a stamp per packet", 1, 0), ("... one in 100 overtaken", 0, 100)]
    {
        let mut receiver = Receiver::new(1);
        run(name, |number, packet, batch| {
            let swapped = swap != 0 && number % swap < 2;
            let sequence = if swapped { number ^ 1 } else { number };
            let own = number.wrapping_mul(0x9e37_79b9) >> 20 & 0xff;
            signer.write(packet, sequence, batch * 1_000 + number % BATCH as u64 * spread);
            black_box(&mut *packet);
            receiver.receive(packet, batch * 1_000 + 5_000 + own * spread);
        });
        let counts = receiver.streams()[0].counts();
        assert_eq!(counts.received, ROUNDS * RUNS as u64 * PACKETS as u64);
        println!("    {} of {} out of order", counts.reordered, counts.received);
    }
}

fn run(name: &str, mut each: impl FnMut(u64, &mut [u8], u64)) {
    let mut packets = vec![[0u8; 128]; PACKETS];
    let mut number = 0;
    let mut figures: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                for batch in packets.chunks_mut(BATCH) {
                    let at = number / BATCH as u64;
                    for packet in batch {
                        each(number, &mut packet[..60], at);
                        number += 1;
                    }
                }
            }
            start.elapsed().as_nanos() as f64 / (ROUNDS * PACKETS as u64) as f64
        })
        .collect();
    black_box(&packets);
    figures.sort_by(f64::total_cmp);
    println!("{name}: {:.2} ns per packet (median of {RUNS}; best {:.2})", figures[RUNS / 2], figures[0]);
}
