//! A port that takes packets in smaller bursts: as a driver would whose bursts are that long.

use weir_packet::{Burst, Pool};
use weir_port_mem::MemPort;
use weir_stage::{DeviceStats, Port, PortError, PortFacts, Queues, Traffic, Tx};

/// A port in memory whose transmit queues take so many packets at a time.
pub(super) struct Chunks {
    port: MemPort,
    most: usize,
}

impl Chunks {
    /// `most`: packets in one call of the queue, at least 1.
    pub(super) fn around(port: MemPort, most: usize) -> Chunks {
        Chunks { port, most: most.max(1) }
    }
}

impl Port for Chunks {
    fn facts(&self) -> PortFacts {
        self.port.facts()
    }

    fn open(&mut self, rx_queues: u16, tx_queues: u16, pool: &dyn Pool) -> Result<Queues, PortError> {
        let (rx, tx) = self.port.open(rx_queues, tx_queues, pool)?;
        if self.most >= Burst::ROOM {
            return Ok((rx, tx));
        }
        let most = self.most;
        let chunked = |tx| Box::new(ChunkTx { tx, most, chunk: Burst::new() }) as Box<dyn Tx>;
        Ok((rx, tx.into_iter().map(chunked).collect()))
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

struct ChunkTx {
    tx: Box<dyn Tx>,
    most: usize,
    chunk: Burst,
}

impl Tx for ChunkTx {
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, now: u64) -> Traffic {
        let mut sent = Traffic::default();
        let ChunkTx { tx, most, chunk } = self;
        let mut send = |chunk: &mut Burst, pool: &mut dyn Pool| {
            let traffic = tx.transmit(chunk, pool, now);
            sent.packets += traffic.packets;
            sent.bytes += traffic.bytes;
        };
        // A sink in memory takes everything; were it not so, the account would show it.
        burst.drain(|packet| {
            chunk.push(packet)?;
            if chunk.len() >= *most {
                send(chunk, pool);
            }
            Ok(())
        });
        if !chunk.is_empty() {
            send(chunk, pool);
        }
        sent
    }

    fn room(&mut self) -> usize {
        self.tx.room()
    }

    fn alive(&mut self) -> bool {
        self.tx.alive()
    }

    fn flush(&mut self) {
        self.tx.flush();
    }

    fn trouble(&self) -> Option<String> {
        self.tx.trouble()
    }
}
