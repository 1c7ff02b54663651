//! A port of any kind with faults on its queues.

use std::sync::Arc;

use weir_packet::Pool;
use weir_stage::{DeviceStats, Port, PortError, PortFacts, Queues, Rx, Tx};

use super::{FaultFigures, FaultRx, FaultTx, Faults};

/// A port around which packets meet faults, in both directions.
pub struct FaultPort {
    inner: Box<dyn Port>,
    faults: Faults,
    figures: Arc<FaultFigures>,
}

impl FaultPort {
    /// Puts faults around the queues of `inner`, which is not open yet.
    pub fn new(inner: Box<dyn Port>, faults: Faults) -> FaultPort {
        FaultPort { inner, faults, figures: Arc::default() }
    }

    /// What the injectors do, to be looked at from anywhere.
    pub fn figures(&self) -> Arc<FaultFigures> {
        Arc::clone(&self.figures)
    }
}

impl Port for FaultPort {
    fn facts(&self) -> PortFacts {
        self.inner.facts()
    }

    fn open(&mut self, rx_queues: u16, tx_queues: u16, pool: &dyn Pool) -> Result<Queues, PortError> {
        let queues = self.inner.open(rx_queues, tx_queues, pool)?;
        Ok(surround(queues, self.faults, pool, &self.figures))
    }

    fn stats(&self) -> DeviceStats {
        let inner = self.inner.stats();
        DeviceStats { in_rings: inner.in_rings.map(|held| held + self.figures.held()), ..inner }
    }

    fn link_up(&mut self) -> bool {
        self.inner.link_up()
    }

    fn close(&mut self) {
        self.inner.close();
    }
}

/// Puts an injector with a seed of its own around each queue.
pub(crate) fn surround((rx, tx): Queues, faults: Faults, pool: &dyn Pool, figures: &Arc<FaultFigures>) -> Queues {
    if faults.is_none() {
        return (rx, tx);
    }
    let rx = rx
        .into_iter()
        .enumerate()
        .map(|(queue, rx)| Box::new(FaultRx::new(rx, faults.for_queue(queue, false), pool, figures)) as Box<dyn Rx>);
    if faults.receive_only {
        return (rx.collect(), tx);
    }
    let tx = tx
        .into_iter()
        .enumerate()
        .map(|(queue, tx)| Box::new(FaultTx::new(tx, faults.for_queue(queue, true), pool, figures)) as Box<dyn Tx>);
    (rx.collect(), tx.collect())
}
