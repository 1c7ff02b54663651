//! What the tests of this crate share: a worker's loop in its shortest form.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "these are tests")]

use weir_packet::{Batch, Burst, HeapPool, Pool};
use weir_stage::{Port, Rx, Tx};

/// Receives until nothing comes any more, and returns the bytes of what came.
pub(crate) fn drain(rx: &mut dyn Rx, pool: &mut dyn Pool, now: u64) -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    let mut got = Vec::new();
    loop {
        let traffic = rx.receive(&mut batch, pool, now);
        if traffic.packets == 0 {
            return got;
        }
        assert_eq!(traffic.packets, batch.len() as u64);
        assert_eq!(traffic.bytes, batch.bytes_in(u64::MAX));
        batch.each(|_, packet, _| got.push(packet.bytes().to_vec()));
        pool.free_batch(&mut batch, u64::MAX);
    }
}

/// Transmits frames one burst at a time until the queue takes no more; returns how many it took.
pub(crate) fn transmit(tx: &mut dyn Tx, pool: &mut dyn Pool, frames: &[Vec<u8>], now: u64) -> u64 {
    let mut sent = 0;
    for chunk in frames.chunks(Burst::ROOM) {
        let mut burst = Burst::new();
        for frame in chunk {
            let mut packet = pool.alloc().unwrap();
            assert!(packet.fill(frame));
            burst.push(packet).unwrap();
        }
        sent += tx.transmit(&mut burst, pool, now).packets;
        pool.free_burst(&mut burst);
    }
    sent
}

/// A pool with room for everything a test does.
pub(crate) fn pool() -> HeapPool {
    HeapPool::new(8192, 2048)
}

/// Opens a port with one queue of either kind.
pub(crate) fn open_one(port: &mut dyn Port, pool: &dyn Pool) -> (Box<dyn Rx>, Box<dyn Tx>) {
    let (mut rx, mut tx) = port.open(1, 1, pool).unwrap();
    (rx.pop().unwrap(), tx.pop().unwrap())
}

/// Frames of different lengths that can be told apart.
pub(crate) fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|n| (0..60 + n % 200).map(|at| (n * 31 + at) as u8).chain((n as u32).to_be_bytes()).collect())
        .collect()
}

/// Every buffer is back home when only the caller's handle is left.
pub(crate) fn assert_home(pool: &dyn Pool) {
    assert_eq!(pool.taken(), pool.at_hand());
    assert_eq!(weir_packet::defects(), 0);
}
