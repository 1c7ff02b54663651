//! Ports on Linux interfaces meet what is asked of every port. Each test has a network namespace of its own, which dies with it.
//! Needs root; skipped with a message elsewhere.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{in_namespace, ip, start, wait};
use weir_packet::{Batch, Burst, DATA_ROOM, HeapPool, Pool};
use weir_port_dpdk::eal::Eal;
use weir_port_dpdk::{Device, DpdkPool, PortConfig};
use weir_port_mem::conformance::{self, Outside};
use weir_stage::{Port, PortError, Rx, Tx};

/// An open port with a queue either way.
type End = (Box<dyn Port>, Box<dyn Rx>, Box<dyn Tx>);

/// A device, and packet sockets at the other end of its wire.
struct Wire {
    eal: Arc<Eal>,
    pool: DpdkPool,
    device: &'static str,
    peer: &'static str,
    /// The other end while there is one, and where its packets come from.
    far: Option<End>,
    theirs: HeapPool,
    batch: Box<Batch>,
}

impl Wire {
    fn attach(&self, device: &str) -> Result<Box<dyn Port>, PortError> {
        let device = Device::parse(device).unwrap();
        // The checks' longest frames have a tag.
        let config = PortConfig { in_front: 8, promiscuous: true, ..PortConfig::default() };
        weir_port_dpdk::attach(&self.eal, device, config, &self.pool).map_err(|error| PortError(error.to_string()))
    }

    /// The other end, opened when the interface is there and up: a TAP is made by the port.
    fn far(&mut self) -> &mut End {
        if self.far.is_none() {
            let mut port = self.attach(self.peer).unwrap();
            let (mut rx, mut tx) = port.open(1, 1, &self.theirs).unwrap();
            wait("the link is up", || port.link_up());
            self.far = Some((port, rx.pop().unwrap(), tx.pop().unwrap()));
        }
        self.far.as_mut().unwrap()
    }
}

impl Outside for Wire {
    fn pool(&self) -> Box<dyn Pool> {
        self.pool.another()
    }

    fn make(&mut self, _frames: &[Vec<u8>]) -> Result<Box<dyn Port>, PortError> {
        self.far = None;
        if !self.device.starts_with("tap") {
            ip("link add va type veth peer name vb");
        }
        let port = self.attach(self.device)?;
        if !self.device.starts_with("tap") {
            self.far();
        }
        Ok(Box::new(Linked(port)))
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut burst = Burst::new();
        for frame in frames.iter().take(64) {
            let mut packet = self.theirs.alloc().unwrap();
            assert!(packet.fill(frame));
            burst.push(packet).unwrap();
        }
        let mut theirs = std::mem::replace(&mut self.theirs, HeapPool::new(64, 64));
        let sent = self.far().2.transmit(&mut burst, &mut theirs, 0).packets;
        theirs.free_burst(&mut burst);
        self.theirs = theirs;
        usize::try_from(sent).unwrap()
    }

    fn collect(&mut self) -> Vec<Vec<u8>> {
        let mut batch = std::mem::replace(&mut self.batch, Batch::new());
        let mut theirs = std::mem::replace(&mut self.theirs, HeapPool::new(64, 64));
        let mut got = Vec::new();
        while let Some((_, rx, _)) = &mut self.far
            && rx.receive(&mut batch, &mut theirs, 0).packets > 0
        {
            batch.each(|_, packet, _| got.push(packet.bytes().to_vec()));
            theirs.free_batch(&mut batch, u64::MAX);
        }
        (self.theirs, self.batch) = (theirs, batch);
        got
    }

    /// Asked before anything is sent: whoever is to receive it has to be there.
    fn now(&mut self) -> u64 {
        self.far();
        0
    }

    fn pause(&mut self) {
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// A port that is open only once its link is up.
struct Linked(Box<dyn Port>);

impl Port for Linked {
    fn facts(&self) -> weir_stage::PortFacts {
        self.0.facts()
    }

    fn open(&mut self, rx: u16, tx: u16, pool: &dyn Pool) -> Result<weir_stage::Queues, PortError> {
        let queues = self.0.open(rx, tx, pool)?;
        wait("the link is up", || self.0.link_up());
        Ok(queues)
    }

    fn stats(&self) -> weir_stage::DeviceStats {
        self.0.stats()
    }

    fn link_up(&mut self) -> bool {
        self.0.link_up()
    }

    fn close(&mut self) {
        self.0.close();
        // Each check has a device of its own. (A TAP is gone by now.)
        if self.0.facts().device.ends_with(":va") {
            ip("link del va");
        }
    }
}

fn check(test: &str, device: &'static str, peer: &'static str) {
    in_namespace(test, || {
        // Else the kernel's own neighbour discovery is among the frames.
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        let (eal, pool) = start("conformance", DATA_ROOM);
        let theirs = HeapPool::new(4096, DATA_ROOM);
        let mut wire = Wire { eal, pool, device, peer, far: None, theirs, batch: Batch::new() };
        conformance::check_all(&mut wire).unwrap();
    });
}

#[test]
fn a_port_on_af_packet_conforms() {
    check("a_port_on_af_packet_conforms", "af_packet:va", "af_packet:vb");
}

#[test]
fn a_port_on_a_tap_conforms() {
    check("a_port_on_a_tap_conforms", "tap:wt2", "af_packet:wt2");
}
