//! Ports that are watched: when a worker went round, when packets came, when they left, and whether there were buffers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_mem::tsc;
use weir_packet::{Batch, Burst, Packet, Pool};
use weir_stage::{DeviceStats, Port, PortError, PortFacts, Queues, Rx, Traffic, Tx};

/// What is watched, from outside. One worker writes, so that nobody waits for anybody.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The longest time between two receives, TSC cycles, since it was last asked for.
    longest: AtomicU64,
    /// Times that a receive asked for a buffer and there was none.
    no_buffer: AtomicU64,
    /// What left, as [`Watched::record`] says.
    left: Mutex<Vec<u64>>,
    /// When the packet that is on its way was due, TSC; 0 for none.
    due: AtomicU64,
    /// A loop took too long while the packet was on its way.
    disturbed: AtomicBool,
    /// Lone packets that did not leave.
    lost: AtomicU64,
}

/// What a port does beside being a port.
#[derive(Clone, Copy, Debug)]
pub(super) enum Watch {
    /// Notes of each packet that leaves when that was, by the engine's clock, and whose it was, as far as there is room.
    Sent {
        /// Packets at most.
        room: usize,
        /// Whose a frame is.
        user_of: fn(&[u8]) -> u32,
    },
    /// Lets packets come one by one, so far apart.
    Lone {
        /// TSC cycles from when one left to when the next one is due, at least.
        gap: u64,
        /// A loop that takes longer disturbs, TSC cycles.
        stall: u64,
        /// A packet that takes longer is lost, TSC cycles.
        patience: u64,
    },
    /// Notes how long a lone packet took, from when it was due until it leaves here.
    Took,
    /// Counts only.
    Count,
}

/// Bits of a user in what is noted.
const USER: u32 = 20;

/// The bit of a latency that was disturbed.
const DISTURBED: u64 = 1 << 63;

impl Watched {
    /// The longest time between two receives since this was last asked, TSC cycles.
    pub(super) fn longest_loop(&self) -> u64 {
        self.longest.swap(0, Ordering::Relaxed)
    }

    /// Times that a receive asked for a buffer and there was none.
    pub(super) fn no_buffer(&self) -> u64 {
        self.no_buffer.load(Ordering::Relaxed)
    }

    /// Lone packets that did not leave so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the last packet left, nanoseconds of the engine's clock; 0 if none has.
    pub(super) fn last_sent(&self) -> u64 {
        self.lock().last().map_or(0, |word| word >> USER)
    }

    /// What left so far: a time in nanoseconds and a user each.
    pub(super) fn sent(&self) -> Vec<(u64, u32)> {
        self.lock().iter().map(|word| (word >> USER, (word & ((1 << USER) - 1)) as u32)).collect()
    }

    /// What lone packets took so far, TSC cycles each, and whether that was disturbed.
    pub(super) fn latencies(&self) -> Vec<(u64, bool)> {
        self.lock().iter().map(|word| (word & !DISTURBED, word & DISTURBED != 0)).collect()
    }

    /// Something around a port.
    pub(super) fn around(self: &Arc<Watched>, port: Box<dyn Port>, watch: Watch) -> Box<dyn Port> {
        if let Watch::Sent { room, .. } = watch {
            self.lock().reserve_exact(room);
        }
        Box::new(Probe { port, watched: Arc::clone(self), watch })
    }
}

struct Probe {
    port: Box<dyn Port>,
    watched: Arc<Watched>,
    watch: Watch,
}

impl Port for Probe {
    fn facts(&self) -> PortFacts {
        self.port.facts()
    }

    fn open(&mut self, rx_queues: u16, tx_queues: u16, pool: &dyn Pool) -> Result<Queues, PortError> {
        let (rx, tx) = self.port.open(rx_queues, tx_queues, pool)?;
        let watched = || Arc::clone(&self.watched);
        let rx_of = |inner| Box::new(ProbeRx { inner, watched: watched(), watch: self.watch, last: 0, next: 0 }) as _;
        let tx_of = |inner| Box::new(ProbeTx { inner, watched: watched(), watch: self.watch }) as _;
        Ok((rx.into_iter().map(rx_of).collect(), tx.into_iter().map(tx_of).collect()))
    }

    fn stats(&self) -> DeviceStats {
        self.port.stats()
    }

    fn link_up(&mut self) -> bool {
        self.port.link_up()
    }

    fn close(&mut self) {
        self.port.close();
    }
}

struct ProbeRx {
    inner: Box<dyn Rx>,
    watched: Arc<Watched>,
    watch: Watch,
    /// When it was last asked for packets, TSC.
    last: u64,
    /// When the next lone packet is due, TSC; 0 while one is on its way.
    next: u64,
}

impl ProbeRx {
    /// Whether the next lone packet is to come now.
    fn lone(&mut self, now: u64, gap: u64, stall: u64, patience: u64) -> bool {
        if self.last > 0 && now.wrapping_sub(self.last) > stall {
            self.watched.disturbed.store(true, Ordering::Relaxed);
        }
        let due = self.watched.due.load(Ordering::Relaxed);
        if due > 0 {
            if now.saturating_sub(due) > patience {
                self.watched.due.store(0, Ordering::Relaxed);
                self.watched.lost.fetch_add(1, Ordering::Relaxed);
            }
            return false;
        }
        if self.next == 0 {
            // Not in step with the loop: by how much it is off changes from packet to packet.
            self.next = now + gap + self.last % 997;
        }
        if now < self.next {
            self.watched.disturbed.store(false, Ordering::Relaxed);
            return false;
        }
        self.watched.due.store(self.next, Ordering::Relaxed);
        self.next = 0;
        true
    }
}

impl Rx for ProbeRx {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, now: u64) -> Traffic {
        let here = tsc::now();
        let come = match self.watch {
            Watch::Lone { gap, stall, patience } => self.lone(here, gap, stall, patience),
            Watch::Sent { .. } | Watch::Took | Watch::Count => true,
        };
        if self.last > 0 {
            self.watched.longest.fetch_max(here.wrapping_sub(self.last), Ordering::Relaxed);
        }
        self.last = here;
        if !come {
            return Traffic::default();
        }
        self.inner.receive(batch, &mut Counting { pool, watched: &self.watched }, now)
    }

    fn exhausted(&self) -> bool {
        self.inner.exhausted()
    }

    fn next_at(&self) -> Option<u64> {
        self.inner.next_at()
    }

    fn lost(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.inner.lost()
    }

    fn trouble(&self) -> Option<String> {
        self.inner.trouble()
    }
}

struct ProbeTx {
    inner: Box<dyn Tx>,
    watched: Arc<Watched>,
    watch: Watch,
}

impl Tx for ProbeTx {
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, now: u64) -> Traffic {
        match self.watch {
            Watch::Sent { user_of, .. } => {
                let mut left = self.watched.lock();
                let room = left.capacity() - left.len();
                left.extend(
                    burst.packets().iter().take(room).map(|packet| now << USER | u64::from(user_of(packet.bytes()))),
                );
            }
            Watch::Took if !burst.is_empty() => {
                let due = self.watched.due.swap(0, Ordering::Relaxed);
                // What was given up may come all the same.
                if due > 0 {
                    let took = tsc::now().wrapping_sub(due);
                    let disturbed = self.watched.disturbed.load(Ordering::Relaxed);
                    self.watched.lock().push(took & !DISTURBED | if disturbed { DISTURBED } else { 0 });
                }
            }
            Watch::Lone { .. } | Watch::Took | Watch::Count => {}
        }
        self.inner.transmit(burst, pool, now)
    }

    fn room(&mut self) -> usize {
        self.inner.room()
    }

    fn alive(&mut self) -> bool {
        self.inner.alive()
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn trouble(&self) -> Option<String> {
        self.inner.trouble()
    }
}

/// A pool that counts when it has nothing.
struct Counting<'a> {
    pool: &'a mut dyn Pool,
    watched: &'a Watched,
}

impl Counting<'_> {
    fn failed(&self, failed: bool) {
        if failed {
            self.watched.no_buffer.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Pool for Counting<'_> {
    fn alloc(&mut self) -> Option<Packet> {
        let packet = self.pool.alloc();
        self.failed(packet.is_none());
        packet
    }

    fn alloc_burst(&mut self, n: usize, burst: &mut Burst) -> bool {
        let there = self.pool.alloc_burst(n, burst);
        self.failed(!there);
        there
    }

    fn free(&mut self, packet: Packet) {
        self.pool.free(packet);
    }

    fn free_burst(&mut self, burst: &mut Burst) {
        self.pool.free_burst(burst);
    }

    fn another(&self) -> Box<dyn Pool> {
        self.pool.another()
    }

    fn capacity(&self) -> usize {
        self.pool.capacity()
    }

    fn taken(&self) -> usize {
        self.pool.taken()
    }

    fn at_hand(&self) -> usize {
        self.pool.at_hand()
    }

    fn data_room(&self) -> usize {
        self.pool.data_room()
    }
}
