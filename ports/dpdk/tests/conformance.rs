//! Ports on Linux interfaces and on memif meet what is asked of every port. Each test of an interface has a network namespace of its
//! own, which dies with it, and needs root; it is skipped with a message elsewhere.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{BUFFERS, alone, folder, in_namespace, ip, start, wait};
use weir_packet::{Batch, Burst, DATA_ROOM, HeapPool, Pool};
use weir_port_dpdk::eal::Eal;
use weir_port_dpdk::{Device, DpdkPool, PortConfig};
use weir_port_mem::conformance::{self, Outside};
use weir_stage::{Port, PortError, Rx, Tx};

/// An open port with a queue either way.
type End = (Box<dyn Port>, Box<dyn Rx>, Box<dyn Tx>);

/// A device, and what is at the other end of its wire: packet sockets, or another port of its kind.
struct Wire {
    eal: Arc<Eal>,
    pool: DpdkPool,
    device: String,
    peer: String,
    /// The other end while there is one, and where its packets come from.
    far: Option<End>,
    theirs: Box<dyn Pool>,
    /// Where its device has them from.
    far_pool: DpdkPool,
    batch: Box<Batch>,
}

impl Wire {
    fn attach(&self, device: &str, pool: &DpdkPool) -> Result<Box<dyn Port>, PortError> {
        let device = Device::parse(device).unwrap();
        // The checks' longest frames have a tag.
        let config = PortConfig { in_front: 8, promiscuous: true, ..PortConfig::default() };
        weir_port_dpdk::attach(&self.eal, device, config, pool).map_err(|error| PortError(error.to_string()))
    }

    fn is(&self, kind: &str) -> bool {
        self.device.starts_with(kind)
    }

    /// The other end, opened when the interface is there and up: a TAP is made by the port.
    fn far(&mut self) -> &mut End {
        if self.far.is_none() {
            let mut port = self.attach(&self.peer, &self.far_pool).unwrap();
            let (mut rx, mut tx) = port.open(1, 1, &*self.theirs).unwrap();
            // One that listens is up when somebody has come.
            if !self.is("memif") {
                wait("the link is up", || port.link_up());
            }
            self.far = Some((port, rx.pop().unwrap(), tx.pop().unwrap()));
        }
        let far = self.far.as_mut().unwrap();
        // As the engine asks it every now and then.
        far.0.link_up();
        far
    }
}

impl Outside for Wire {
    fn pool(&self) -> Box<dyn Pool> {
        self.pool.another()
    }

    fn make(&mut self, _frames: &[Vec<u8>]) -> Result<Box<dyn Port>, PortError> {
        self.far = None;
        if self.is("memif") {
            self.far();
        } else if !self.is("tap") {
            ip("link add va type veth peer name vb");
        }
        let port = self.attach(&self.device, &self.pool)?;
        if !self.is("tap") {
            self.far();
        }
        Ok(Box::new(Linked(port)))
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        self.far();
        let mut burst = Burst::new();
        for frame in frames.iter().take(64) {
            let mut packet = self.theirs.alloc().unwrap();
            assert!(packet.fill(frame));
            burst.push(packet).unwrap();
        }
        let (_, _, tx) = self.far.as_mut().unwrap();
        let sent = tx.transmit(&mut burst, &mut *self.theirs, 0).packets;
        self.theirs.free_burst(&mut burst);
        usize::try_from(sent).unwrap()
    }

    fn collect(&mut self) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        while let Some((_, rx, _)) = &mut self.far
            && rx.receive(&mut self.batch, &mut *self.theirs, 0).packets > 0
        {
            self.batch.each(|_, packet, _| got.push(packet.bytes().to_vec()));
            self.theirs.free_batch(&mut self.batch, u64::MAX);
        }
        got
    }

    /// The memif driver cannot tell: what its ring has no room for stays with the worker.
    fn knows_room(&self) -> bool {
        !self.is("memif")
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

fn conforms(device: &str, peer: &str) {
    let (eal, pool) = start("conformance", DATA_ROOM);
    let far_pool = DpdkPool::create(&eal, BUFFERS, DATA_ROOM).unwrap();
    // Packet sockets copy, and take packets from anywhere; a device of DPDK's hands over buffers of its pool.
    let theirs: Box<dyn Pool> =
        if peer.starts_with("af_packet") { Box::new(HeapPool::new(4096, DATA_ROOM)) } else { far_pool.another() };
    let (device, peer) = (device.to_owned(), peer.to_owned());
    let mut wire = Wire { eal, pool, device, peer, far: None, theirs, far_pool, batch: Batch::new() };
    conformance::check_all(&mut wire).unwrap();
}

fn check(test: &str, device: &str, peer: &str) {
    in_namespace(test, || {
        // Else the kernel's own neighbour discovery is among the frames.
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        conforms(device, peer);
    });
}

#[test]
fn a_port_on_af_packet_conforms() {
    check("a_port_on_af_packet_conforms", "af_packet:va", "af_packet:vb");
}

#[test]
fn a_port_on_af_xdp_conforms() {
    check("a_port_on_af_xdp_conforms", "af_xdp:va", "af_packet:vb");
}

#[test]
fn a_port_on_a_tap_conforms() {
    check("a_port_on_a_tap_conforms", "tap:wt2", "af_packet:wt2");
}

fn check_memif(test: &str, option: &str) {
    alone(test, &[], || {
        let socket = folder().join("memif.sock");
        let end = |role: &str| format!("memif:7,role={role},socket={}{option}", socket.display());
        conforms(&end("client"), &end("server"));
    });
}

#[test]
fn a_port_on_memif_conforms() {
    check_memif("a_port_on_memif_conforms", "");
}
