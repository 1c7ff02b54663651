//! Faults on the way in.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_packet::{Batch, Held, Pool, Slots};
use weir_stage::{Rx, Traffic};

use super::{FaultFigures, Faults, Injector, Waiters};

/// A receive queue with faults.
pub struct FaultRx {
    inner: Box<dyn Rx>,
    injector: Injector,
    arrived: Box<Batch>,
    waiting: Waiters<Held>,
    /// Packets that are through, and for which there was no room yet.
    ready: VecDeque<Held>,
    home: Box<dyn Pool>,
    dropped: u64,
}

impl FaultRx {
    /// Puts faults between `inner` and whoever receives; what they hold back when the queue goes, goes to `pool`.
    pub fn new(inner: Box<dyn Rx>, faults: Faults, pool: &dyn Pool, figures: &Arc<FaultFigures>) -> FaultRx {
        FaultRx {
            inner,
            injector: Injector::new(faults, figures),
            arrived: Batch::new(),
            waiting: Waiters::new(),
            ready: VecDeque::new(),
            home: pool.another(),
            dropped: 0,
        }
    }

    /// Takes one batch from the inner queue through the faults.
    fn pull(&mut self, pool: &mut dyn Pool, now: u64) {
        self.inner.receive(&mut self.arrived, pool, now);
        for slot in Slots(self.arrived.live()) {
            let Some(mut held) = self.arrived.hold(slot) else { continue };
            let verdict = self.injector.strike(held.packet_mut());
            if verdict.drop {
                self.dropped += 1;
                pool.free(held.into_packet());
                continue;
            }
            if verdict.duplicate {
                self.duplicate(&mut held, pool);
            }
            match verdict.late {
                Some(late) => self.waiting.add(held, late, now),
                None => {
                    self.ready.push_back(held);
                    self.waiting.overtake();
                }
            }
            self.ready.extend(self.waiting.release(now));
        }
    }

    fn duplicate(&mut self, original: &mut Held, pool: &mut dyn Pool) {
        let copy = copy_of(original.packet().bytes(), pool);
        self.injector.count_copy(copy.is_some());
        self.ready.extend(copy.map(|copy| Held::fresh(copy, original.port(), original.time())));
    }
}

/// A packet of its own with these bytes, where there is a buffer that holds them.
pub(super) fn copy_of(bytes: &[u8], pool: &mut dyn Pool) -> Option<weir_packet::Packet> {
    let mut copy = pool.alloc()?;
    if copy.fill(bytes) {
        return Some(copy);
    }
    pool.free(copy);
    None
}

impl Rx for FaultRx {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, now: u64) -> Traffic {
        let mut traffic = Traffic::default();
        self.ready.extend(self.waiting.release(now));
        if self.ready.len() < batch.room() {
            self.pull(pool, now);
        }
        while batch.room() > 0
            && let Some(held) = self.ready.pop_front()
        {
            let bytes = held.packet().len() as u64;
            match batch.restore(held) {
                Ok(_) => {
                    traffic.packets += 1;
                    traffic.bytes += bytes;
                }
                Err(held) => self.ready.push_front(held),
            }
        }
        self.injector.set_held(self.ready.len() + self.waiting.len());
        traffic
    }

    fn exhausted(&self) -> bool {
        self.inner.exhausted() && self.ready.is_empty() && self.waiting.len() == 0
    }

    fn next_at(&self) -> Option<u64> {
        let inner = self.inner.next_at();
        let late = self.waiting.next_at();
        inner.into_iter().chain(late).min()
    }

    fn lost(&self) -> Vec<(&'static str, &'static str, u64)> {
        let mut lost = self.inner.lost();
        lost.push(("fault-drop", "The fault injector dropped the packet.", self.dropped));
        lost
    }
}

impl Drop for FaultRx {
    fn drop(&mut self) {
        let waiting = self.waiting.drain();
        self.ready.drain(..).chain(waiting).for_each(|held| self.home.free(held.into_packet()));
        self.injector.set_held(0);
    }
}
