//! Transmit queues: the sink that counts, checks and keeps.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_packet::{Burst, Pool};
use weir_stage::{Traffic, Tx};

use crate::handle::{Shared, SinkCounts};
use crate::recycle::Loop;

/// A transmit queue whose packets end here: counted, some of them checked, kept if asked for, their buffers given back.
pub(crate) struct Sink {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counts: Arc<SinkCounts>,
    /// Where buffers go; to the pool if `None`.
    pub(crate) recycle: Option<Loop>,
    /// One packet in so many is checked; 0: none.
    pub(crate) every: u64,
    /// Packets until the next that is checked.
    pub(crate) until: u64,
    /// Whether frames are kept for the outside.
    pub(crate) keeps: bool,
}

impl Sink {
    /// Looks at one packet in `every`, counted over all calls.
    #[inline(always)]
    fn verify(&mut self, burst: &Burst) {
        let count = burst.len() as u64;
        if self.until >= count {
            self.until -= count;
        } else {
            self.verify_some(burst);
        }
    }

    #[cold]
    fn verify_some(&mut self, burst: &Burst) {
        let mut checks = self.shared.checks();
        for packet in burst.packets() {
            if self.until == 0 {
                checks.look_at(packet.bytes());
                self.until = self.every;
            }
            self.until -= 1;
        }
    }

    fn keep(&self, burst: &Burst) {
        // Behind a cable that was pulled nobody is there to see them.
        if self.shared.link_up.load(Ordering::Relaxed) {
            let mut outbox = self.shared.outbox();
            burst.packets().iter().for_each(|packet| outbox.put(packet.bytes()));
        }
        self.shared.tell_arrival();
    }

    fn accept(&mut self, burst: &mut Burst, pool: &mut dyn Pool) -> Traffic {
        let traffic = Traffic {
            packets: burst.len() as u64,
            bytes: burst.packets().iter().map(|packet| packet.len() as u64).sum(),
        };
        if self.every > 0 {
            self.verify(burst);
        }
        if self.keeps {
            self.keep(burst);
        }
        match &self.recycle {
            Some(recycle) => recycle.give(burst, pool),
            None => pool.free_burst(burst),
        }
        self.counts.add(traffic);
        traffic
    }
}

impl Tx for Sink {
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, _now: u64) -> Traffic {
        let most = self.shared.accepts();
        if most >= burst.len() {
            return self.accept(burst, pool);
        }
        let mut some = Burst::new();
        some.append(burst, most);
        self.accept(&mut some, pool)
    }

    fn room(&mut self) -> usize {
        self.shared.accepts()
    }

    fn alive(&mut self) -> bool {
        !self.shared.gone.load(Ordering::Relaxed)
    }
}
