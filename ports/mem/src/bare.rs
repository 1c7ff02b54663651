//! The shortest path there is: what a source and a sink cost by themselves.

use weir_packet::{Batch, Burst, Pool};
use weir_stage::{Rx, Tx};

/// Moves packets straight from `rx` to `tx` for so many batches, with nothing in between; returns how many.
///
/// What it costs is what a measurement of a graph between the same two queues has in it that is not the graph.
pub fn bare(rx: &mut dyn Rx, tx: &mut dyn Tx, pool: &mut dyn Pool, batches: u64) -> u64 {
    let mut batch = Batch::new();
    let mut burst = Burst::new();
    let mut moved = 0;
    for now in 0..batches {
        rx.receive(&mut batch, pool, now);
        batch.move_to_burst(u64::MAX, &mut burst);
        moved += tx.transmit(&mut burst, pool, now).packets;
    }
    pool.free_batch(&mut batch, u64::MAX);
    pool.free_burst(&mut burst);
    moved
}
