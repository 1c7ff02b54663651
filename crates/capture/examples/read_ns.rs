//! Nanoseconds per record that reading a capture takes: `cargo run --release -p weir-capture --example read_ns -- FILE...`.
//! The files are read five times each; the first may come from the disk.

use std::path::Path;
use std::time::Instant;

use weir_capture::Reader;

#[allow(clippy::disallowed_methods, reason = "it measures time")]
fn main() {
    for file in std::env::args().skip(1) {
        for _ in 0..5 {
            let started = Instant::now();
            let mut reader = match Reader::open(Path::new(&file)) {
                Ok(reader) => reader,
                Err(problem) => {
                    eprintln!("{problem}");
                    std::process::exit(1);
                }
            };
            let (mut records, mut bytes, mut sum) = (0_u64, 0_u64, 0_u64);
            loop {
                match reader.next() {
                    Ok(Some(record)) => {
                        records += 1;
                        bytes += record.data.len() as u64;
                        sum = sum.wrapping_add(record.data.last().map_or(0, |byte| u64::from(*byte)));
                    }
                    Ok(None) => break,
                    Err(damage) => {
                        eprintln!("{damage}");
                        break;
                    }
                }
            }
            let took = started.elapsed().as_secs_f64();
            let each = took * 1e9 / records.max(1) as f64;
            println!("{file}: {records} records, {bytes} bytes, {took:.3} s, {each:.1} ns each (sum {sum})");
        }
    }
}
