//! Faults on the way out.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_packet::{Burst, Packet, Pool};
use weir_stage::{Traffic, Tx};

use super::rx::copy_of;
use super::{FaultFigures, Faults, Injector, Waiters};

/// Packets that are through the faults and not yet in the inner queue, at most; more are not accepted.
const READY: usize = 2 * Burst::ROOM;

/// Packets that are held back at most; more are not accepted.
const LATE: usize = 4096;

/// A transmit queue with faults. Packets count as transmitted once they are in it, as with a device that loses some.
///
/// What it holds back leaves with a later call of `transmit`, or with `flush`.
pub struct FaultTx {
    inner: Box<dyn Tx>,
    injector: Injector,
    waiting: Waiters<Packet>,
    ready: VecDeque<Packet>,
    home: Box<dyn Pool>,
    now: u64,
}

impl FaultTx {
    /// Puts faults between whoever transmits and `inner`; what they hold back when the queue goes, goes to `pool`.
    pub fn new(inner: Box<dyn Tx>, faults: Faults, pool: &dyn Pool, figures: &Arc<FaultFigures>) -> FaultTx {
        FaultTx {
            inner,
            injector: Injector::new(faults, figures),
            waiting: Waiters::new(),
            ready: VecDeque::new(),
            home: pool.another(),
            now: 0,
        }
    }

    fn accept(&mut self, mut packet: Packet, pool: &mut dyn Pool) {
        let verdict = self.injector.strike(&mut packet);
        if verdict.drop {
            return pool.free(packet);
        }
        if verdict.duplicate {
            let copy = copy_of(packet.bytes(), pool);
            self.injector.count_copy(copy.is_some());
            self.ready.extend(copy);
        }
        match verdict.late {
            Some(late) => self.waiting.add(packet, late, self.now),
            None => {
                self.ready.push_back(packet);
                self.waiting.overtake();
            }
        }
        self.ready.extend(self.waiting.release(self.now));
    }

    /// Hands what is ready to the inner queue, as much as it takes.
    fn pass_on(&mut self, pool: &mut dyn Pool) {
        let mut burst = Burst::new();
        loop {
            while !burst.is_full()
                && let Some(packet) = self.ready.pop_front()
            {
                if let Err(packet) = burst.push(packet) {
                    self.ready.push_front(packet);
                }
            }
            if burst.is_empty() || self.inner.transmit(&mut burst, pool, self.now).packets == 0 {
                break;
            }
        }
        while let Some(packet) = burst.pop() {
            self.ready.push_front(packet);
        }
        self.injector.set_held(self.ready.len() + self.waiting.len());
    }

    fn space(&self) -> usize {
        // Each packet may become two.
        (READY.saturating_sub(self.ready.len()) / 2).min(LATE.saturating_sub(self.waiting.len()))
    }
}

impl Tx for FaultTx {
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, now: u64) -> Traffic {
        self.now = now;
        self.ready.extend(self.waiting.release(now));
        self.pass_on(pool);
        let most = self.room();
        let traffic = Traffic::drain(burst, most, |packet| self.accept(packet, pool));
        self.pass_on(pool);
        traffic
    }

    fn room(&mut self) -> usize {
        self.space().min(self.inner.room())
    }

    fn alive(&mut self) -> bool {
        self.inner.alive()
    }

    fn flush(&mut self) {
        let late = self.waiting.release(u64::MAX);
        self.ready.extend(late);
        if !self.ready.is_empty() {
            // A handle that goes at once keeps no buffer at hand that nobody counts.
            let mut pool = self.home.another();
            self.pass_on(&mut *pool);
        }
        self.inner.flush();
    }
}

impl Drop for FaultTx {
    fn drop(&mut self) {
        let waiting = self.waiting.drain();
        self.ready.drain(..).chain(waiting).for_each(|packet| self.home.free(packet));
        self.injector.set_held(0);
    }
}
