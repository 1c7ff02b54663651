//! Nanoseconds that decoding a packet takes: `cargo run --release -p weir-capture --example decode_ns -- FILE...`. A file's first
//! 4,096 packets are decoded again and again, so that they come from the cache.

use std::path::Path;
use std::time::Instant;

use weir_capture::decode::Layers;
use weir_capture::{LinkType, Reader};

const ROUNDS: u32 = 2000;

#[allow(clippy::disallowed_methods, reason = "it measures time")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in std::env::args().skip(1) {
        let mut reader = Reader::open(Path::new(&file))?;
        let mut packets: Vec<(LinkType, Vec<u8>)> = Vec::new();
        while packets.len() < 4096
            && let Some(record) = reader.next().map_err(|damage| damage.to_string())?
        {
            packets.push((record.link, record.data.to_vec()));
        }
        for _ in 0..5 {
            let started = Instant::now();
            let mut sum = 0_u64;
            for _ in 0..ROUNDS {
                for (link, data) in &packets {
                    let layers = Layers::of(std::hint::black_box(data), *link);
                    let (source, destination) = layers.ports().unwrap_or_default();
                    sum = sum.wrapping_add(u64::from(source) + u64::from(destination));
                    sum = sum.wrapping_add(layers.inner().map_or(0, |ip| u64::from(ip.ttl()) + u64::from(ip.dscp())));
                }
            }
            let each = started.elapsed().as_secs_f64() * 1e9 / (f64::from(ROUNDS) * packets.len() as f64);
            println!("{file}: {} packets, {each:.1} ns each (sum {sum})", packets.len());
        }
    }
    Ok(())
}
