//! Where buffers come from and go to.

use crate::{BATCH, Batch, Burst, Packet};

/// A worker's own handle to the buffers of the process.
///
/// A handle keeps some buffers at hand, so that taking and returning them touches nothing shared most of the time.
pub trait Pool: Send {
    /// An empty packet with the usual headroom; `None` when the pool is exhausted.
    fn alloc(&mut self) -> Option<Packet>;

    /// Adds up to `n` empty packets to `burst`; all or none. Returns whether it did.
    fn alloc_burst(&mut self, n: usize, burst: &mut Burst) -> bool;

    /// Takes a packet's buffer back.
    fn free(&mut self, packet: Packet);

    /// Takes the buffers of a whole burst back.
    fn free_burst(&mut self, burst: &mut Burst);

    /// Takes the buffers of those packets back that are live in `batch` and named by `mask`.
    fn free_batch(&mut self, batch: &mut Batch, mask: u64) {
        for slot in crate::Slots(batch.live() & mask) {
            if let Some(packet) = batch.take(slot) {
                self.free(packet);
            }
        }
    }

    /// A handle to the same buffers for another worker.
    fn another(&self) -> Box<dyn Pool>;

    /// Buffers in the pool as a whole.
    fn capacity(&self) -> usize;

    /// Buffers that are not in the common part of the pool: in packets, in device rings, or at hand in some handle.
    ///
    /// Less what all handles have [at hand](Pool::at_hand), these are the packets that exist just now.
    fn taken(&self) -> usize;

    /// Buffers that this handle keeps at hand and that are in no packet.
    fn at_hand(&self) -> usize;

    /// Bytes that a packet from this pool can hold behind the usual headroom.
    fn data_room(&self) -> usize;
}

/// How many buffers a process needs: as few as the rings can hold,
/// for what is not needed only cools the cache.
///
/// - `rings`: descriptors of all device queues, receive and transmit together;
/// - `links`: room of all links between workers together;
/// - `workers`: each has at most this many batches in flight, and as many buffers at hand in its handle and in DPDK's cache for its thread
///   as four bursts have room for;
/// - `held`: what stages may hold (neighbour queues, schedulers, reassembly).
pub const fn buffers_needed(rings: usize, links: usize, workers: usize, held: usize) -> usize {
    const BATCHES_IN_FLIGHT: usize = 8;
    rings + links + workers * (BATCHES_IN_FLIGHT * BATCH + 4 * Burst::ROOM) + held
}
