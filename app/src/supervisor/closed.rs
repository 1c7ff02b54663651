//! What stands where a port was that is closed: its link is down, nothing comes from it, and what is sent there is dropped
//! as `link-down`.

use weir_packet::{Burst, Pool};
use weir_stage::{DeviceStats, Port, PortError, PortFacts, Queues, Traffic, Tx};

/// The port.
pub(super) struct ClosedPort(pub(super) PortFacts);

impl Port for ClosedPort {
    fn facts(&self) -> PortFacts {
        self.0.clone()
    }

    fn open(&mut self, _rx_queues: u16, _tx_queues: u16, _pool: &dyn Pool) -> Result<Queues, PortError> {
        Err(PortError(format!("{} is closed", self.0.device)))
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats { in_rings: Some(0), ..DeviceStats::default() }
    }

    fn link_up(&mut self) -> bool {
        false
    }

    fn close(&mut self) {}
}

/// A transmit queue of it.
pub(super) struct ClosedTx;

impl Tx for ClosedTx {
    fn transmit(&mut self, _burst: &mut Burst, _pool: &mut dyn Pool, _now: u64) -> Traffic {
        Traffic::default()
    }

    fn alive(&mut self) -> bool {
        false
    }
}
