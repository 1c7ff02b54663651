//! Cables between two ports in memory.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod common;

use common::{assert_home, drain, frames, open_one, pool, transmit};
use weir_packet::{BATCH, HeapPool, Pool};
use weir_port_mem::MemPort;
use weir_port_mem::conformance::{self, Outside};
use weir_stage::{Port, PortError, Rx, Tx};

const RING: usize = 1024;

#[test]
fn what_one_end_transmits_the_other_receives() {
    let mut pool = pool();
    let (mut west, mut east) = (MemPort::cable("west", "both-ways"), MemPort::cable("east", "both-ways"));
    let (mut west_rx, mut west_tx) = open_one(&mut west, &pool);
    assert!(!west.link_up());
    let (mut east_rx, mut east_tx) = open_one(&mut east, &pool);
    assert!(west.link_up() && east.link_up());
    transmit(&mut *west_tx, &mut pool, &frames(100), 0);
    assert_eq!(east.stats().in_rings, Some(100));
    assert!(west_rx.exhausted());
    transmit(&mut *east_tx, &mut pool, &frames(7), 0);
    assert!(!west_rx.exhausted());
    assert_eq!(drain(&mut *east_rx, &mut pool, 0), frames(100));
    assert_eq!(drain(&mut *west_rx, &mut pool, 0), frames(7));
    assert!(west_rx.exhausted());
    drop((west_rx, west_tx, east_rx, east_tx));
    assert_home(&pool);
}

#[test]
fn what_finds_the_ring_full_is_missed() {
    let mut pool = HeapPool::new(4096, 2048);
    let (mut west, mut east) = (MemPort::cable("west", "full"), MemPort::cable("east", "full"));
    let (_rx, mut tx) = open_one(&mut west, &pool);
    let (mut rx, _tx) = open_one(&mut east, &pool);
    let sent = frames(RING + 30);
    assert_eq!(transmit(&mut *tx, &mut pool, &sent, 0), RING as u64 + 30);
    assert_eq!((east.stats().missed, west.stats().missed), (Some(30), Some(0)));
    assert_eq!(drain(&mut *rx, &mut pool, 0), sent[..RING]);
    assert_home(&pool);
}

#[test]
fn what_is_sent_to_nobody_is_lost_and_packets_on_a_cable_that_is_pulled_go_home() {
    let mut pool = pool();
    let (mut west, mut east) = (MemPort::cable("west", "pulled"), MemPort::cable("east", "pulled"));
    let (west_rx, mut tx) = open_one(&mut west, &pool);
    assert_eq!(transmit(&mut *tx, &mut pool, &frames(10), 0), 10);
    let (mut rx, east_tx) = open_one(&mut east, &pool);
    assert_eq!(drain(&mut *rx, &mut pool, 0), Vec::<Vec<u8>>::new());
    transmit(&mut *tx, &mut pool, &frames(10), 0);
    east.close();
    assert!(!west.link_up());
    assert_eq!(transmit(&mut *tx, &mut pool, &frames(10), 0), 10);
    drop((rx, east_tx));
    // Another port may take the free end.
    let mut next = MemPort::cable("next", "pulled");
    let (mut rx, _tx) = open_one(&mut next, &pool);
    transmit(&mut *tx, &mut pool, &frames(3), 0);
    assert_eq!(drain(&mut *rx, &mut pool, 0), frames(3));
    west.close();
    drop((west_rx, tx));
    assert_home(&pool);
}

#[test]
fn a_cable_has_two_ends() {
    let pool = pool();
    let mut ports: Vec<MemPort> = (0..3).map(|n| MemPort::cable(&n.to_string(), "three")).collect();
    let opened: Vec<bool> = ports.iter_mut().map(|port| port.open(1, 1, &pool).is_ok()).collect();
    assert_eq!(opened, [true, true, false]);
    let error = MemPort::cable("fourth", "three").open(1, 1, &pool).err().unwrap();
    assert!(error.0.contains("both are taken; give this port another cable"), "{error}");
}

#[test]
fn flows_keep_to_their_queue() {
    let mut pool = pool();
    let (mut west, mut east) = (MemPort::cable("west", "flows"), MemPort::cable("east", "flows"));
    let (_rx, mut tx) = open_one(&mut west, &pool);
    let (rx, _tx) = east.open(3, 3, &pool).unwrap();
    let sent: Vec<Vec<u8>> = (0..600u16).map(|n| [&[n as u8 % 50; 14][..], &n.to_be_bytes()].concat()).collect();
    transmit(&mut *tx, &mut pool, &sent, 0);
    let got: Vec<Vec<Vec<u8>>> = rx.into_iter().map(|mut rx| drain(&mut *rx, &mut pool, 0)).collect();
    assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 600);
    for (queue, frames) in got.iter().enumerate() {
        assert!(frames.iter().all(|frame| got.iter().enumerate().all(|(other, frames)| {
            other == queue || frames.iter().all(|elsewhere| elsewhere[..12] != frame[..12])
        })));
        for flow in 0..50 {
            let numbers = frames.iter().filter(|frame| frame[0] == flow).map(|frame| [frame[14], frame[15]]);
            assert!(numbers.is_sorted(), "queue {queue}, flow {flow}");
        }
    }
}

/// The far end of a cable as the outside of a port. Its buffers are of the same pool: they go round by the cable.
struct FarEnd {
    made: u32,
    pool: HeapPool,
    far: Option<Far>,
    arrived: Vec<Vec<u8>>,
}

struct Far {
    _port: MemPort,
    rx: Box<dyn Rx>,
    tx: Box<dyn Tx>,
}

impl Outside for FarEnd {
    fn pool(&self) -> Box<dyn Pool> {
        self.pool.another()
    }

    fn make(&mut self, _frames: &[Vec<u8>]) -> Result<Box<dyn Port>, PortError> {
        self.made += 1;
        let cable = format!("conformance-{}", self.made);
        let mut far = MemPort::cable("far", &cable);
        let (rx, tx) = open_one(&mut far, &self.pool);
        self.far = Some(Far { _port: far, rx, tx });
        Ok(Box::new(MemPort::cable("near", &cable)))
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let far = self.far.as_mut().unwrap();
        transmit(&mut *far.tx, &mut *self.pool.another(), &frames[..frames.len().min(BATCH)], 0) as usize
    }

    fn collect(&mut self) -> Vec<Vec<u8>> {
        self.pause();
        std::mem::take(&mut self.arrived)
    }

    fn pause(&mut self) {
        let far = self.far.as_mut().unwrap();
        self.arrived.extend(drain(&mut *far.rx, &mut *self.pool.another(), 0));
    }
}

#[test]
fn a_cable_conforms() {
    let pool = HeapPool::new(8192, 9216);
    conformance::check_all(&mut FarEnd { made: 0, pool, far: None, arrived: Vec::new() }).unwrap();
}
