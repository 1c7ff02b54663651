//! Ports on capture files meet what is asked of every port.

#![allow(clippy::unwrap_used, reason = "these are tests")]

#[path = "../../../crates/capture/tests/common/mod.rs"]
mod common;

use common::{Folder, Order, classic_file, ng_file};
use weir_capture::Reader;
use weir_packet::{HeapPool, Pool};
use weir_port_mem::conformance::{self, Outside};
use weir_port_pcap::PcapPort;
use weir_stage::{DeviceStats, Port, PortError, PortFacts, Queues};

/// A port with the MTU of its configuration.
struct Configured {
    port: PcapPort,
    mtu: u16,
}

impl Port for Configured {
    fn facts(&self) -> PortFacts {
        PortFacts { mtu: self.mtu, ..self.port.facts() }
    }

    fn open(&mut self, rx_queues: u16, tx_queues: u16, pool: &dyn Pool) -> Result<Queues, PortError> {
        self.port.open(rx_queues, tx_queues, pool)
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

struct Files {
    folder: Folder,
    format: fn(Order, &[Vec<u8>]) -> Vec<u8>,
    mtu: u16,
    /// Frames of the output that were collected.
    collected: usize,
}

impl Outside for Files {
    fn pool(&self) -> Box<dyn Pool> {
        Box::new(HeapPool::new(4096, 9216))
    }

    fn make(&mut self, frames: &[Vec<u8>]) -> Result<Box<dyn Port>, PortError> {
        self.folder.put("in", &(self.format)(Order::Big, frames));
        self.collected = 0;
        let port = PcapPort::new("conformance", "pcap:in,out", &self.folder.0)?;
        Ok(Box::new(Configured { port, mtu: self.mtu }))
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        frames.len()
    }

    fn collect(&mut self) -> Vec<Vec<u8>> {
        let mut reader = Reader::open(&self.folder.0.join("out")).unwrap();
        let mut frames = Vec::new();
        // While the file grows, its last record may be half there.
        while let Ok(Some(record)) = reader.next() {
            frames.push(record.data.to_vec());
        }
        let fresh = frames.split_off(self.collected.min(frames.len()));
        self.collected += fresh.len();
        fresh
    }

    fn now(&mut self) -> u64 {
        // Late enough for all stamps, where they count.
        1_000_000_000_000
    }
}

fn check(name: &str, format: fn(Order, &[Vec<u8>]) -> Vec<u8>, mtu: u16) {
    let folder = Folder::new(name);
    conformance::check_all(&mut Files { folder, format, mtu, collected: 0 }).unwrap();
}

#[test]
fn a_port_on_pcap_conforms() {
    check("classic", classic_file, 1500);
}

#[test]
fn a_jumbo_port_on_pcapng_conforms() {
    check("ng", ng_file, 9198);
}
