//! An engine over memory ports, and the checks that every test ends with.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::type_complexity,
    reason = "shared by tests, which fail by panicking"
)]

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_engine::{Account, Engine, GraphPart, Idle, PortPart, Settings, WorkerSnapshot};
use weir_mem::Domain;
use weir_packet::{Batch, HeapPool, Held, Pool};
use weir_port_mem::{MemHandle, MemPort};
use weir_stage::{Declaration, Graph, Out, Place, Port, Rx, Stage, Tx};

weir_stage::ways! {
    /// Ways of [`ByByte`].
    pub enum Exit {
        /// Straight on.
        Out => way "out",
        /// Beside.
        Side => way "side",
        /// Round again.
        Again => again "again",
        /// Dropped.
        Bad => drop "bad",
        /// Used up.
        Eaten => consume "eaten",
        /// A copy.
        Copy => create "copy",
    }
}

/// Tells that it has packets, and lets none pass until its gate is opened.
pub struct Stuck {
    pub begun: Sender<()>,
    pub gate: Arc<Mutex<Receiver<()>>>,
}

impl Stage for Stuck {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }

    fn run(&mut self, _: &mut Batch, _: &mut Out<'_>) {
        self.begun.send(()).unwrap();
        // Opened when the test is over.
        let _opened = self.gate.lock().unwrap().recv();
    }
}

/// Does with each packet what its first byte says: 0 out, 1 side, 2 again, 3 drop, 4 consume, 5 copied and out, 6 held, 7
/// held until polled, anything else out.
#[derive(Default)]
pub struct ByByte {
    pub held: Vec<Held>,
    pub timed: Vec<Held>,
}

impl Stage for ByByte {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>().polled()
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let now = out.now();
        for slot in batch.slots() {
            match batch.get(slot).and_then(|packet| packet.bytes().first().copied()) {
                Some(1) => out.answer(slot, Exit::Side),
                Some(2) => out.answer(slot, Exit::Again),
                Some(3) => out.answer(slot, Exit::Bad),
                Some(4) => out.answer(slot, Exit::Eaten),
                Some(5) => {
                    let packet = batch.get(slot).unwrap();
                    if let Some(copy) = out.copy(packet) {
                        out.emit(Held::fresh(copy, 0, now), Exit::Side, Exit::Copy);
                    }
                }
                Some(6) => self.held.extend(batch.hold(slot)),
                Some(7) => self.timed.extend(batch.hold(slot)),
                _ => {}
            }
        }
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        for held in self.timed.drain(..) {
            out.send(held, Exit::Out);
        }
        u64::MAX
    }

    fn held(&self) -> u64 {
        (self.held.len() + self.timed.len()) as u64
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.held.drain(..).chain(self.timed.drain(..)).for_each(give);
    }
}

/// Passes everything on.
pub struct Pass;

impl Stage for Pass {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }
    fn run(&mut self, _: &mut Batch, _: &mut Out<'_>) {}
}

/// Loses one packet in ten without a word: what the account exists to find.
#[derive(Default)]
pub struct Leaky(pub u64, pub Vec<weir_packet::Packet>);

impl Stage for Leaky {
    fn declare(&self) -> Declaration {
        Declaration::of::<Exit>()
    }
    fn run(&mut self, batch: &mut Batch, _: &mut Out<'_>) {
        for slot in batch.slots() {
            self.0 += 1;
            if self.0.is_multiple_of(10) {
                self.1.extend(batch.take(slot));
            }
        }
    }
}

/// Two memory ports, opened with one queue each.
pub struct Wires {
    pub handles: Vec<MemHandle>,
    pub ports: Vec<MemPort>,
    pub queues: Vec<(Option<Box<dyn Rx>>, Option<Box<dyn Tx>>)>,
    pub pool: HeapPool,
}

impl Wires {
    pub fn new(ports: usize) -> Wires {
        let pool = HeapPool::new(20_000, 256);
        let (mut all, mut handles, mut queues) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..ports {
            let (port, handle) = MemPort::fed(&format!("p{n}"));
            let mut port = port.with_keeping(1 << 22);
            let (mut rx, mut tx) = port.open(1, 1, &pool).unwrap();
            queues.push((rx.pop(), tx.pop()));
            all.push(port);
            handles.push(handle);
        }
        Wires { handles, ports: all, queues, pool }
    }

    /// The ports for a blueprint: their queues when `fresh`, else the ones that are there. Each has one owner.
    pub fn parts(&mut self, rx_owner: usize, tx_owner: usize, fresh: bool) -> Vec<PortPart> {
        let part = |(n, (rx, tx)): (usize, &mut (Option<Box<dyn Rx>>, Option<Box<dyn Tx>>))| PortPart {
            name: format!("p{n}"),
            index: n as u16,
            rx: vec![(rx_owner, fresh.then(|| rx.take().unwrap()))],
            tx: vec![(tx_owner, fresh.then(|| tx.take().unwrap()))],
        };
        self.queues.iter_mut().enumerate().map(part).collect()
    }

    /// Packets that exist, by the pool's books, less what workers and this test have at hand.
    pub fn missing(&self, snapshots: &[WorkerSnapshot]) -> usize {
        let at_hand: u64 = snapshots.iter().map(|worker| worker.buffers_at_hand).sum();
        self.pool.taken() - self.pool.at_hand() - at_hand as usize
    }
}

pub fn engine(workers: usize, virtual_clock: bool, pool: &HeapPool) -> Engine {
    let settings = Settings {
        cores: vec![None; workers],
        idle: Idle::Sleep,
        virtual_clock,
        hook: None,
        sample_every: weir_engine::SAMPLE_EVERY,
    };
    Engine::start(settings, pool, &Domain::new()).unwrap()
}

pub fn graph_part(graph: Graph, workers: &[usize], keep: &[&str]) -> GraphPart {
    let keep: HashSet<String> = keep.iter().map(|name| (*name).to_owned()).collect();
    GraphPart { graph, replica: 0, workers: workers.to_vec(), receives: true, keep }
}

pub fn worker(section: u8) -> Place {
    Place::Worker { section }
}

/// The sum of all workers' accounts, each of which must be exact.
pub fn total(snapshots: &[WorkerSnapshot]) -> Account {
    let mut total = Account::default();
    for worker in snapshots {
        assert_eq!(worker.account.unaccounted(), 0, "worker {}: {:?}", worker.id, worker.account);
        assert_eq!(
            worker.cycles.sum().abs_diff(worker.elapsed) * 1000 / worker.elapsed.max(1),
            0,
            "{:?}",
            worker.cycles
        );
        total.add(&worker.account);
    }
    total
}

/// A frame whose first byte says what is to become of it; the rest numbers it.
pub fn frame(what: u8, n: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[0] = what;
    frame[20..24].copy_from_slice(&n.to_be_bytes());
    frame
}

pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[20..24].try_into().unwrap())
}

/// Lets a virtual engine run until nothing happens any more.
pub fn settle(engine: &mut Engine) {
    let mut quiet = 0;
    for _ in 0..200_000 {
        quiet = if engine.step() { 0 } else { quiet + 1 };
        if quiet > 20 {
            return;
        }
    }
    panic!("the engine does not come to rest");
}

/// Waits until `done`, at most ten seconds.
pub fn wait(mut done: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if done() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    panic!("it did not happen in ten seconds");
}

/// Packets that a place dropped for a reason.
pub fn dropped(snapshots: &[WorkerSnapshot], place: &str, reason: &str) -> u64 {
    let drops = snapshots.iter().flat_map(|worker| &worker.drops);
    drops.filter(|drop| drop.stage == place && drop.reason == reason).map(|drop| drop.packets).sum()
}
