//! Prints what the source and the sink of the measurements cost by themselves, in TSC cycles per packet:
//! `cargo run --release -p weir-port-mem --example bare`.

use weir_mem::tsc;
use weir_packet::HeapPool;
use weir_port_mem::{Frames, Generated, HEADER, Loop, MemPort, Pace, Pattern, bare};
use weir_stage::Port;

/// Runs of each kind, taken in turns.
const RUNS: usize = 7;

/// Batches in a run.
const BATCHES: u64 = 20_000;

/// Makes a pattern for one run.
type Make = fn() -> Box<dyn Pattern>;

fn main() -> Result<(), weir_stage::PortError> {
    let kinds: [(&str, Make); 4] = [
        ("one frame", || Box::new(Frames::headers(vec![vec![1; 60]]))),
        ("64 frames", || Box::new(Frames::headers(vec![vec![1; 60]; 64]))),
        ("a million generated", || {
            let addresses: Vec<u32> = (0..1 << 20).map(|n: u32| n.wrapping_mul(0x9e37_79b9)).collect();
            Box::new(Generated::new(60, None, move |number| {
                let mut header = [0; HEADER];
                let address = addresses.get(number as usize % (1 << 20)).copied().unwrap_or(0);
                header[30..34].copy_from_slice(&address.to_be_bytes());
                header
            }))
        }),
        ("one frame, copied whole", || Box::new(Frames::whole(vec![vec![1; 60]]))),
    ];
    let mut costs = vec![Vec::new(); kinds.len()];
    for _ in 0..RUNS {
        for ((_, pattern), costs) in kinds.iter().zip(&mut costs) {
            costs.push(run(pattern())?);
        }
    }
    for ((name, _), costs) in kinds.iter().zip(&mut costs) {
        costs.sort_by(f64::total_cmp);
        if let [least, .., most] = costs.as_slice() {
            println!("{name}: {:.1} cycles per packet ({least:.1} to {most:.1})", costs.get(RUNS / 2).unwrap_or(least));
        }
    }
    Ok(())
}

fn run(pattern: Box<dyn Pattern>) -> Result<f64, weir_stage::PortError> {
    let mut pool = HeapPool::new(2 * Loop::DEPTH, 2048);
    let check = Box::new(|frame: &[u8]| if frame.len() == 60 { Ok(()) } else { Err("wrong length".to_owned()) });
    let mut port = MemPort::replay("bench", vec![pattern], Pace::default()).with_check(1024, check);
    let (mut rx, mut tx) = port.open(1, 1, &pool)?;
    let (Some(rx), Some(tx)) = (rx.first_mut(), tx.first_mut()) else { return Ok(f64::NAN) };
    bare(&mut **rx, &mut **tx, &mut pool, BATCHES / 10);
    let start = tsc::now();
    let moved = bare(&mut **rx, &mut **tx, &mut pool, BATCHES);
    Ok((tsc::now() - start) as f64 / moved as f64)
}
