//! Cycles per packet of each kernel for 64 frames that are hot in the first-level cache:
//! `cargo run --release -p weir-simd --example frame_check_cycles`.

use std::hint::black_box;

use weir_mem::tsc;
use weir_simd::Kernel;
use weir_simd::frame_check::{BATCH, Destinations, Frame, LinkPattern, NO_FRAME, check, destination_of};

const ROUNDS: u32 = 20_000;

fn main() {
    let stored: [[u8; 128]; BATCH] = std::array::from_fn(packet);
    let frames: [&Frame; BATCH] = std::array::from_fn(|i| stored[i].first_chunk().unwrap_or(&NO_FRAME));
    let (lengths, destinations) = ([60; BATCH], Destinations(frames.map(destination_of)));
    let station = LinkPattern::only([0; 6]);
    for kernel in Kernel::available() {
        let mut runs: Vec<f64> = (0..9)
            .map(|_| {
                let before = tsc::now();
                for _ in 0..ROUNDS {
                    let good = check(kernel, station, black_box(&frames), black_box(&lengths), &destinations, BATCH);
                    assert_eq!(black_box(good), u64::MAX);
                }
                (tsc::now() - before) as f64 / f64::from(ROUNDS) / BATCH as f64
            })
            .collect();
        runs.sort_by(f64::total_cmp);
        println!(
            "{kernel}: {:.2} cycles per packet (median of {}; best {:.2})",
            runs[runs.len() / 2],
            runs.len(),
            runs[0]
        );
    }
}

/// A UDP packet of 60 bytes to 198.51.100.0 + `i`.
fn packet(i: usize) -> [u8; 128] {
    let mut bytes = [0; 128];
    bytes[12] = 8;
    let words = [0x4500, 46, i as u16, 0, 0x4011, 0, 0x0a00, 1, 0xc633, 0x6400 + i as u16];
    let sum: u32 = words.iter().map(|&word| u32::from(word)).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    for (at, mut word) in words.into_iter().enumerate() {
        if at == 5 {
            word = !(sum as u16);
        }
        bytes[14 + 2 * at..16 + 2 * at].copy_from_slice(&word.to_be_bytes());
    }
    bytes
}
