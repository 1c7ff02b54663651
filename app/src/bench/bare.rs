//! The same source and sink with nothing between them: what a measurement would show of a graph that does nothing.

use std::time::Duration;

use weir_mem::tsc;
use weir_packet::{Batch, Burst, HeapPool, Pool};
use weir_port_mem::{Loop, MemPort, Pace};
use weir_stage::{Port, Rx, Tx};

use super::chunks::Chunks;
use super::pattern::Varying;
use super::rig::Setup;
use super::waiting::{TRIES, Waiting, worked};

/// A source and a sink.
pub(super) struct Bare {
    rx: Box<dyn Rx>,
    tx: Box<dyn Tx>,
    pool: Box<dyn Pool>,
    core: usize,
    // Their buffers go home when they are dropped.
    _ports: (MemPort, Chunks),
}

impl Bare {
    pub(super) fn new(pattern: Varying, setup: &Setup, pool: &HeapPool) -> Result<Bare, String> {
        let round = [Loop::new(Loop::DEPTH)];
        let pace = Pace { fill: Some(setup.fill), ..Pace::default() };
        let mut input = MemPort::replay("in", vec![Box::new(pattern)], pace).with_loops(&round);
        let mut output = Chunks::around(MemPort::null("out").with_loops(&round), setup.transmit);
        let (mut rx, _) = input.open(1, 1, pool).map_err(|error| error.to_string())?;
        let (_, mut tx) = output.open(1, 1, pool).map_err(|error| error.to_string())?;
        let (Some(rx), Some(tx)) = (rx.pop(), tx.pop()) else { return Err("a memory port has no queue".to_owned()) };
        let core = setup.cores.first().copied().unwrap_or(0);
        Ok(Bare { rx, tx, pool: pool.another(), core, _ports: (input, output) })
    }

    /// TSC cycles per packet from source to sink, on the core that the worker has too.
    pub(super) fn cycles_per_packet(&mut self, window: Duration) -> Result<f64, String> {
        let core = self.core;
        std::thread::scope(|scope| {
            let measured = scope.spawn(|| {
                weir_engine::pin(core).map_err(|error| error.to_string())?;
                _ = self.go_round(window / 10); // warm-up
                let mut measured = self.go_round(window);
                for _ in 0..TRIES {
                    measured = measured.or_else(|_| self.go_round(window));
                }
                Ok(measured.unwrap_or_else(|disturbed| disturbed))
            });
            measured.join().unwrap_or_else(|_| Err("the measuring thread ended".to_owned()))
        })
    }

    /// Lets so many packets go from source to sink. Not inlined: the emulator that counts instructions counts those in here.
    #[inline(never)]
    pub(super) fn pass(&mut self, count: u64) {
        let (mut batch, mut burst) = (Batch::new(), Burst::new());
        let mut packets = 0;
        while packets < count {
            packets += self.rx.receive(&mut batch, &mut *self.pool, 0).packets;
            batch.move_to_burst(u64::MAX, &mut burst);
            self.tx.transmit(&mut burst, &mut *self.pool, 0);
        }
    }

    /// Cycles per packet.
    ///
    /// # Errors
    ///
    /// The same, less exactly, where others had the core for most of the time.
    fn go_round(&mut self, window: Duration) -> Result<f64, f64> {
        let mut batch = Batch::new();
        let mut burst = Burst::new();
        let clock = weir_mem::Clock::calibrate();
        let cycles = clock.cycles(window.as_nanos() as u64);
        let waiting = Waiting::of_this_thread();
        let began = tsc::now();
        let mut packets = 0;
        loop {
            // As the engine does: the clock is read once per loop.
            let now = tsc::now();
            if now.wrapping_sub(began) > cycles {
                let elapsed = now.wrapping_sub(began);
                let each = |cycles: u64| cycles as f64 / packets.max(1) as f64;
                let worked = worked(elapsed, waiting.cycles(&clock));
                return worked.map(each).ok_or_else(|| each(waiting.ran(&clock).clamp(1, elapsed.max(1))));
            }
            packets += self.rx.receive(&mut batch, &mut *self.pool, 0).packets;
            batch.move_to_burst(u64::MAX, &mut burst);
            self.tx.transmit(&mut burst, &mut *self.pool, 0);
        }
    }
}
