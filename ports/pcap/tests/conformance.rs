//! Ports on capture files meet what is asked of every port.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;

use common::{Folder, Order, classic_file, ng_file};
use weir_packet::{HeapPool, Pool};
use weir_port_mem::conformance::{self, Outside};
use weir_port_pcap::{PcapPort, Reader};
use weir_stage::{Port, PortError};

struct Files {
    folder: Folder,
    format: fn(Order, &[Vec<u8>]) -> Vec<u8>,
    options: &'static str,
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
        let device = format!("pcap:in,out{}", self.options);
        Ok(Box::new(PcapPort::new("conformance", &device, &self.folder.0)?))
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        frames.len()
    }

    fn collect(&mut self) -> Vec<Vec<u8>> {
        let mut reader = Reader::open(&self.folder.0.join("out")).unwrap();
        let mut frames = Vec::new();
        let mut bytes = Vec::new();
        // While the file grows, its last record may be half there.
        while let Ok(Some(_)) = reader.next(&mut bytes) {
            frames.push(bytes.clone());
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

fn check(name: &str, format: fn(Order, &[Vec<u8>]) -> Vec<u8>, options: &'static str) {
    let folder = Folder::new(name);
    conformance::check_all(&mut Files { folder, format, options, collected: 0 }).unwrap();
}

#[test]
fn a_port_on_pcap_conforms() {
    check("classic", classic_file, "");
}

#[test]
fn a_jumbo_port_on_pcapng_conforms() {
    check("ng", ng_file, ",mtu=9198");
}
