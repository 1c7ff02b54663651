//! Ports in memory meet what is asked of every port.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;

use weir_packet::{Batch, Burst, HeapPool, Pool};
use weir_port_mem::conformance::{self, Outside};
use weir_port_mem::{FaultPort, Faults, MemHandle, MemPort};
use weir_stage::{DeviceStats, Port, PortError, PortFacts, Queues, Rx, Traffic, Tx};

/// The outside of a port that is fed, with something around the port.
struct Fed<W> {
    around: W,
    handle: Option<MemHandle>,
}

impl<W: Fn(MemPort) -> Box<dyn Port>> Fed<W> {
    fn new(around: W) -> Fed<W> {
        Fed { around, handle: None }
    }
}

impl<W: Fn(MemPort) -> Box<dyn Port>> Outside for Fed<W> {
    fn pool(&self) -> Box<dyn Pool> {
        Box::new(HeapPool::new(4096, 9216))
    }

    fn make(&mut self, _frames: &[Vec<u8>]) -> Result<Box<dyn Port>, PortError> {
        let (port, handle) = MemPort::fed("conformance");
        self.handle = Some(handle);
        Ok((self.around)(port))
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        self.handle.as_ref().unwrap().send_all(frames.to_vec());
        frames.len()
    }

    fn collect(&mut self) -> Vec<Vec<u8>> {
        self.handle.as_ref().unwrap().received()
    }
}

#[test]
fn a_port_in_memory_conforms() {
    conformance::check_all(&mut Fed::new(|port| Box::new(port))).unwrap();
}

#[test]
fn a_jumbo_port_conforms() {
    conformance::check_all(&mut Fed::new(|port: MemPort| Box::new(port.with_mtu(9198)))).unwrap();
}

#[test]
fn delays_alone_change_nothing_that_is_asked() {
    let faults = Faults { delay: 1.0, delay_time: 0, ..Faults::default() };
    conformance::check_all(&mut Fed::new(|port| Box::new(FaultPort::new(Box::new(port), faults)))).unwrap();
}

#[test]
fn faults_are_found() {
    let found = |faults: Faults| {
        conformance::check_all(&mut Fed::new(|port| Box::new(FaultPort::new(Box::new(port), faults)))).unwrap_err().0
    };
    let usual = Faults::default();
    assert!(found(Faults { drop: 0.02, ..usual }).starts_with("receive: frame "));
    assert!(found(Faults { duplicate: 0.02, ..usual }).starts_with("receive: frame "));
    assert!(found(Faults { truncate: 0.02, ..usual }).starts_with("receive: frame "));
    assert!(found(Faults { corrupt: 0.02, ..usual }).starts_with("receive: "));
    assert!(found(Faults { reorder: 0.02, ..usual }).starts_with("receive: frame "));
}

/// The ways in which a port is made wrong, to see that the checks notice.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    CountsNothingReceived,
    CountsNothingSent,
    OverstatesRoom,
    TurnsTheRest,
    HidesBuffers,
    IsAGroup,
}

struct Broken(MemPort, Wrong);

struct BrokenRx(Box<dyn Rx>, Wrong);

struct BrokenTx(Box<dyn Tx>, Wrong, Burst);

impl Port for Broken {
    fn facts(&self) -> PortFacts {
        let facts = self.0.facts();
        PortFacts { mac: if self.1 == Wrong::IsAGroup { [1; 6] } else { facts.mac }, ..facts }
    }

    fn open(&mut self, rx_queues: u16, tx_queues: u16, pool: &dyn Pool) -> Result<Queues, PortError> {
        let (rx, tx) = self.0.open(rx_queues, tx_queues, pool)?;
        let wrong = self.1;
        let rx = rx.into_iter().map(|rx| Box::new(BrokenRx(rx, wrong)) as Box<dyn Rx>).collect();
        let tx = tx.into_iter().map(|tx| Box::new(BrokenTx(tx, wrong, Burst::new())) as Box<dyn Tx>).collect();
        Ok((rx, tx))
    }

    fn stats(&self) -> DeviceStats {
        self.0.stats()
    }

    fn link_up(&mut self) -> bool {
        self.0.link_up()
    }

    fn close(&mut self) {
        self.0.close();
    }
}

impl Rx for BrokenRx {
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn Pool, now: u64) -> Traffic {
        let traffic = self.0.receive(batch, pool, now);
        if self.1 == Wrong::CountsNothingReceived { Traffic::default() } else { traffic }
    }
}

impl Tx for BrokenTx {
    fn transmit(&mut self, burst: &mut Burst, pool: &mut dyn Pool, now: u64) -> Traffic {
        match self.1 {
            Wrong::CountsNothingSent => {
                self.0.transmit(burst, pool, now);
                Traffic::default()
            }
            Wrong::OverstatesRoom | Wrong::TurnsTheRest => {
                let mut some = Burst::new();
                some.append(burst, 5);
                let traffic = self.0.transmit(&mut some, pool, now);
                if self.1 == Wrong::TurnsTheRest {
                    burst.packets_mut().reverse();
                }
                traffic
            }
            Wrong::HidesBuffers => {
                let traffic = Traffic {
                    packets: burst.len() as u64,
                    bytes: burst.packets().iter().map(|packet| packet.len() as u64).sum(),
                };
                if self.2.is_empty() {
                    self.2.append(burst, 1);
                }
                self.0.transmit(burst, pool, now);
                traffic
            }
            _ => self.0.transmit(burst, pool, now),
        }
    }
}

#[test]
fn wrong_ports_are_found() {
    let found = |wrong: Wrong, check: fn(&mut dyn Outside) -> conformance::Verdict| {
        check(&mut Fed::new(|port| Box::new(Broken(port, wrong)))).unwrap_err().0
    };
    let receive = conformance::receives_in_order_and_intact;
    let rest = conformance::keeps_the_rest_of_a_burst_in_order;
    assert!(found(Wrong::CountsNothingReceived, receive).contains("are not in the lowest slots"));
    assert!(found(Wrong::CountsNothingReceived, conformance::never_overfills_a_batch).contains("the queue says"));
    assert!(found(Wrong::CountsNothingSent, rest).contains("the queue says"));
    assert!(found(Wrong::OverstatesRoom, rest).contains("it said that there was room for 128, and took 5 of 128"));
    assert!(found(Wrong::TurnsTheRest, rest).contains("the rest of the burst is not what stood behind"));
    assert!(found(Wrong::HidesBuffers, conformance::transmits_in_order_and_intact).contains("frame 0"));
    assert!(found(Wrong::HidesBuffers, conformance::gives_every_buffer_back).contains("buffers are in the device"));
    assert!(found(Wrong::IsAGroup, conformance::facts_are_sound).contains("is no host's address"));
}
