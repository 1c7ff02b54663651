//! The last step of a packet on a worker: it waits for a burst to fill, then goes to its port.

use weir_packet::{BATCH, Batch, Burst, Held, Packet, Pool, Slots};
use weir_stage::Tx;

use crate::counters::{Count, Drops};
use crate::moving::TxQueue;
use crate::observe::{Event, Observers, What};
use crate::reason::Reason;

/// Attempts to hand packets to a port without any progress before packets that find no room are dropped.
const TRIES: usize = 4;

/// A burst is handed over at the end of a loop when it has so many packets, however young it is.
const FULL: usize = BATCH / 2;

/// A transmit queue and the packets that wait for it.
pub(crate) struct TransmitQueue {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) tx: Box<dyn Tx>,
    pub(crate) sent: Count,
    pub(crate) drops: Drops,
    burst: Burst,
    /// When the oldest packet joined the burst.
    since: u64,
    /// A burst that more packets may still join is handed over at this age, nanoseconds.
    max_wait: u64,
    /// Packets that joined since the last flush.
    joined: usize,
}

/// What transmit_queues and links share while packets move: the pool, the time, and who watches.
pub(crate) struct Around<'a> {
    pub(crate) pool: &'a mut dyn Pool,
    pub(crate) now: u64,
    pub(crate) observers: &'a Observers,
}

impl TransmitQueue {
    pub(crate) fn new(name: String, port: u16, queue: TxQueue, now: u64) -> TransmitQueue {
        let TxQueue { tx, burst } = queue;
        let max_wait = tx.max_wait();
        let (sent, drops) = (Count::default(), Drops::new());
        TransmitQueue { name, port, tx, sent, drops, burst, since: now, max_wait, joined: 0 }
    }

    /// The queue and the packets that wait for it, without what was counted.
    pub(crate) fn into_queue(self) -> TxQueue {
        TxQueue { tx: self.tx, burst: self.burst }
    }

    pub(crate) fn held(&self) -> u64 {
        self.burst.len() as u64
    }

    /// Packets that find room for certain.
    pub(crate) fn room(&mut self) -> usize {
        self.tx.room().saturating_sub(self.burst.len())
    }

    /// Takes the packets in `mask` out of `batch`; those that find no room are dropped.
    ///
    /// They are handed over at the end of the loop, or now when the burst has no room for all: so the time that it takes counts
    /// as transmitting, and one call serves all that one loop has for the port.
    #[inline]
    pub(crate) fn push_batch(&mut self, batch: &mut Batch, mask: u64, around: &mut Around<'_>) {
        let mut tries = 0;
        loop {
            if self.burst.is_empty() {
                self.since = around.now;
            }
            self.joined += batch.move_to_burst(mask, &mut self.burst);
            if batch.live() & mask == 0 {
                return;
            }
            tries = if self.transmit(around) == 0 { tries + 1 } else { 0 };
            if tries >= TRIES {
                return self.refuse_batch(batch, mask, around);
            }
        }
    }

    /// Takes one packet; when it finds no room it is dropped.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet, around: &mut Around<'_>) {
        if self.burst.is_empty() {
            self.since = around.now;
        }
        match self.burst.push(packet) {
            Ok(()) => self.joined += 1,
            Err(packet) => self.push_to_full(packet, around),
        }
    }

    /// The same where the burst has no room.
    #[inline(never)]
    fn push_to_full(&mut self, packet: Packet, around: &mut Around<'_>) {
        let mut packet = packet;
        for _ in 0..TRIES {
            self.transmit(around);
            match self.burst.push(packet) {
                Ok(()) => {
                    self.joined += 1;
                    return;
                }
                Err(back) => packet = back,
            }
        }
        self.refuse(packet, Reason::TxFull, around);
    }

    /// Hands over what waits at the end of this loop, however little it is.
    #[inline]
    pub(crate) fn hurry(&mut self) {
        self.joined = 0;
    }

    /// At the end of a loop: hands over what should not wait longer.
    #[inline]
    pub(crate) fn end_of_loop(&mut self, around: &mut Around<'_>) {
        if self.burst.is_empty() {
            return;
        }
        let joined = std::mem::take(&mut self.joined);
        let more_may_come = joined > 0 && self.burst.len() < FULL;
        if more_may_come && around.now.saturating_sub(self.since) < self.max_wait {
            return;
        }
        self.transmit(around);
    }

    /// Hands packets to the port; returns how many it accepted or, being gone, lost.
    fn transmit(&mut self, around: &mut Around<'_>) -> usize {
        let before = self.burst.len();
        if around.observers.any() {
            self.transmit_observed(around);
        } else {
            let traffic = self.tx.transmit(&mut self.burst, around.pool, around.now);
            self.sent.add_traffic(traffic);
        }
        if self.burst.len() == before && !self.tx.alive() {
            self.drop_all(Reason::LinkDown, around);
        }
        before - self.burst.len()
    }

    /// As [`TransmitQueue::transmit`], with a copy of every packet for the observers.
    #[cold]
    fn transmit_observed(&mut self, around: &mut Around<'_>) {
        let copies: Vec<(usize, Vec<u8>)> =
            self.burst.packets().iter().map(|packet| (packet.id(), packet.bytes().to_vec())).collect();
        let traffic = self.tx.transmit(&mut self.burst, around.pool, around.now);
        self.sent.add_traffic(traffic);
        let accepted = copies.len() - self.burst.len();
        for (id, bytes) in copies.iter().take(accepted) {
            let what = What::Transmitted { port: self.port };
            around.observers.tell(&Event { now: around.now, packet: *id, bytes, what });
        }
    }

    fn refuse_batch(&mut self, batch: &mut Batch, mask: u64, around: &mut Around<'_>) {
        for slot in Slots(batch.live() & mask) {
            if let Some(packet) = batch.take(slot) {
                self.refuse(packet, Reason::TxFull, around);
            }
        }
    }

    fn refuse(&mut self, packet: Packet, reason: Reason, around: &mut Around<'_>) {
        self.drops.count(reason, 1, packet.len() as u64);
        around.observers.dropped(&self.name, reason, &packet, around.now);
        around.pool.free(packet);
    }

    /// Drops everything that waits.
    pub(crate) fn drop_all(&mut self, reason: Reason, around: &mut Around<'_>) {
        while let Some(packet) = self.burst.pop() {
            self.refuse(packet, reason, around);
        }
    }

    /// Hands over everything that waits, and drops what the port does not take.
    pub(crate) fn finish(&mut self, reason: Reason, around: &mut Around<'_>) {
        for _ in 0..TRIES {
            if self.burst.is_empty() {
                break;
            }
            self.transmit(around);
        }
        self.drop_all(reason, around);
        self.tx.flush();
    }
}

/// Takes a held packet whose way leads to a port.
pub(crate) fn push_held(transmit_queue: &mut TransmitQueue, held: Held, around: &mut Around<'_>) {
    transmit_queue.push(held.into_packet(), around);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use weir_packet::HeapPool;
    use weir_stage::{MAX_WAIT, Traffic};

    use super::*;

    /// Takes everything, and counts the calls.
    struct Counting(Arc<AtomicUsize>, u64);

    impl Tx for Counting {
        fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, _: u64) -> Traffic {
            self.0.fetch_add(1, Ordering::Relaxed);
            Traffic::drain(burst, usize::MAX, |packet| pool.free(packet))
        }

        fn max_wait(&self) -> u64 {
            self.1
        }
    }

    /// A packet comes every microsecond. Each waits until the first has waited as long as may be, or half a batch is there.
    #[test]
    fn packets_wait_for_others_as_long_as_the_device_says() {
        let observers = Observers::default();
        for (max_wait, together) in [(0, 1), (1_000, 2), (9_000, 10), (MAX_WAIT, FULL)] {
            let calls = Arc::new(AtomicUsize::new(0));
            let mut pool = HeapPool::new(256, 64);
            let queue = TxQueue::fresh(Box::new(Counting(Arc::clone(&calls), max_wait)));
            let mut queue = TransmitQueue::new("out".to_owned(), 0, queue, 0);
            for n in 0..together * 4 {
                let packet = pool.alloc().unwrap();
                let mut around = Around { pool: &mut pool, now: n as u64 * 1_000, observers: &observers };
                queue.push(packet, &mut around);
                queue.end_of_loop(&mut around);
                assert_eq!(calls.load(Ordering::Relaxed), (n + 1) / together, "packet {n}, {max_wait} ns");
            }
            // When no more come, they need not wait.
            let packet = pool.alloc().unwrap();
            let mut around = Around { pool: &mut pool, now: 1_000_000, observers: &observers };
            queue.push(packet, &mut around);
            queue.end_of_loop(&mut around);
            queue.end_of_loop(&mut around);
            assert_eq!((calls.load(Ordering::Relaxed), queue.held()), (5, 0));
        }
    }
}
