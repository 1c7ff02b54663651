//! One worker: its stages, its queues, its packets, its counters; and one time round its loop.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weir_mem::{Consumer, Reader, tsc};
use weir_packet::{BATCH, Held, LaneSet, Pool, Slots};
use weir_stage::{EngineClock, Rx};

use crate::bell::Bell;
use crate::counters::{Count, Cycles};
use crate::fabric::Fabric;
use crate::node::{ReadingCost, RunNode};
use crate::observe::What;
use crate::plan::Entry;
use crate::reason::Reason;
use crate::retired::Retired;
use crate::transmit::push_held;

/// Where packets come from.
pub(crate) enum Source {
    Port { name: String, port: u16, rx: Box<dyn Rx>, entry: u16, received: Count },
    Link { name: String, consumer: Consumer<Held>, entry: Entry, lanes: LaneSet, packets: u64 },
}

/// One data-plane thread's all.
pub(crate) struct Worker {
    pub(crate) id: String,
    pub(crate) core: Option<usize>,
    /// What wakes it, where it sleeps.
    pub(crate) bell: Arc<Bell>,
    pub(crate) nodes: Vec<RunNode>,
    pub(crate) sources: Vec<Source>,
    pub(crate) fabric: Fabric,
    pub(crate) cycles: Cycles,
    pub(crate) started: u64,
    /// Reading of the time stamp counter up to which all time is in `cycles`.
    pub(crate) accounted: u64,
    pub(crate) loops: u64,
    pub(crate) entered: u64,
    pub(crate) backpressure: u64,
    pub(crate) receiving: bool,
    /// Whether it has given up queues and waits for its next plan.
    pub(crate) waits: bool,
    halted: bool,
    pub(crate) retired: Retired,
    /// Indexes of all ports there are, by name.
    pub(crate) ports: HashMap<String, u16>,
    /// Whether any link may not drop, and so has to have room before anything is received.
    pub(crate) must_have_room: bool,
    /// Positions of the stages that are polled.
    pub(crate) polled: Vec<usize>,
    /// One loop in so many with work in it has its stages timed; `u32::MAX` for none.
    sample_every: u32,
    sample_in: u32,
    /// Busy loops until the next one whose receiving, graph and transmitting are timed apart.
    timed_in: u32,
    reading_cost: ReadingCost,
}

/// What a loop did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Whether anything came, was due or went.
    pub(crate) busy: bool,
    /// The time stamp counter at its end.
    pub(crate) ended: u64,
}

impl Worker {
    pub(crate) fn new(
        id: String,
        core: Option<usize>,
        pool: Box<dyn Pool>,
        reader: Reader,
        sample_every: u32,
        clock: Option<EngineClock>,
    ) -> Worker {
        let now = tsc::now();
        Worker {
            id,
            core,
            bell: Arc::new(Bell::new()),
            nodes: Vec::new(),
            sources: Vec::new(),
            fabric: Fabric::new(pool, reader, clock),
            cycles: Cycles::default(),
            started: now,
            accounted: now,
            loops: 0,
            entered: 0,
            backpressure: 0,
            receiving: true,
            waits: false,
            halted: false,
            retired: Retired::default(),
            ports: HashMap::new(),
            must_have_room: false,
            polled: Vec::new(),
            sample_every,
            sample_in: sample_every,
            timed_in: 0,
            reading_cost: reading_cost(),
        }
    }

    /// Once round the loop, at `now` nanoseconds, begun when the time stamp counter was `began`.
    pub(crate) fn turn(&mut self, now: u64, began: u64) -> Turn {
        self.fabric.now = now;
        self.fabric.reader.quiescent();
        self.loops += 1;
        if self.halted {
            let ended = tsc::now();
            self.cycles.idle += ended.wrapping_sub(began);
            self.accounted = ended;
            return Turn { busy: false, ended };
        }
        let waiting = self.fabric.held() > 0;
        let is_timed = self.timed_in == 0;
        let received = self.receive();
        let after_receive = if is_timed { tsc::now() } else { 0 };
        let ran = self.run_graph();
        let after_graph = if is_timed { tsc::now() } else { 0 };
        self.fabric.each_transmit_queue(|transmit_queue, around| transmit_queue.end_of_loop(around));
        let ended = tsc::now();
        let busy = received > 0 || ran || waiting;
        if busy {
            let parts = [(began, after_receive), (after_receive, after_graph), (after_graph, ended)];
            let parts = is_timed.then(|| parts.map(|(from, to)| to.wrapping_sub(from)));
            self.cycles.add_busy(ended.wrapping_sub(began), parts);
            self.timed_in = if is_timed { loops_until_timed(ended) } else { self.timed_in - 1 };
        } else {
            self.cycles.idle += ended.wrapping_sub(began);
        }
        self.accounted = ended;
        Turn { busy, ended }
    }

    /// Receives from every source that its links have room for; returns the packets that came.
    fn receive(&mut self) -> u64 {
        let mut room = if self.must_have_room { self.link_room() } else { usize::MAX };
        let mut came = 0;
        let sources = self.sources.len();
        // Where links have no room for all, another source comes first each time.
        let first = if self.must_have_room { self.loops as usize % sources.max(1) } else { 0 };
        for n in first..first + sources {
            let at = if n < sources { n } else { n - sources };
            let Some(source) = self.sources.get_mut(at) else { break };
            let gated = !matches!(source, Source::Link { entry: Entry::TransmitQueue(_), .. });
            if gated && room < BATCH {
                self.backpressure += 1;
                continue;
            }
            let got = match source {
                Source::Port { rx, port, entry, received, .. } if self.receiving => {
                    let (port, entry) = (*port, *entry as usize);
                    let first = receive_port(&mut **rx, port, entry, received, &mut self.fabric);
                    if first == BATCH as u64 && room >= 2 * BATCH {
                        first + receive_port(&mut **rx, port, entry, received, &mut self.fabric)
                    } else {
                        first
                    }
                }
                Source::Port { .. } => 0,
                Source::Link { consumer, entry, lanes, packets, .. } => {
                    receive_link(consumer, (*entry, *lanes), packets, &mut self.fabric)
                }
            };
            if gated {
                room = room.saturating_sub(got as usize);
                self.entered += got;
            }
            came += got;
        }
        came
    }

    /// The least room of all links that may not drop, after what waits for them was moved in.
    fn link_room(&mut self) -> usize {
        let mut least = usize::MAX;
        self.fabric.each_link(|link, _| {
            if !link.may_drop {
                link.unstage();
                least = least.min(link.room());
            }
        });
        least
    }

    /// Runs every stage for which packets wait or whose time has come; whether there was any.
    fn run_graph(&mut self) -> bool {
        self.deliver_again();
        let timed = self.sample_every < u32::MAX && self.sample_in <= 1;
        let sample = timed.then_some(self.reading_cost);
        let mut ran = self.run_pending(sample);
        for n in 0..self.polled.len() {
            let Some(node) = self.polled.get(n).and_then(|&at| self.nodes.get_mut(at)) else { continue };
            // Who is to stop makes no more packets either.
            if !self.receiving && node.declaration.makes.is_some() {
                continue;
            }
            if node.poll(&mut self.fabric, sample) {
                ran |= true;
                self.run_pending(sample);
            }
        }
        if ran {
            self.sample_in = if self.sample_in <= 1 { self.sample_every } else { self.sample_in - 1 };
        }
        ran
    }

    #[inline]
    fn run_pending(&mut self, sample: Option<ReadingCost>) -> bool {
        let mut next = self.fabric.next_pending();
        let ran = next.is_some();
        while let Some(at) = next {
            let Some(node) = self.nodes.get_mut(at) else { break };
            while let Some(batch) = self.fabric.take_input(at) {
                node.run(batch, &mut self.fabric, sample);
            }
            next = self.fabric.next_pending();
        }
        ran
    }

    fn deliver_again(&mut self) {
        if self.fabric.again.is_empty() {
            return;
        }
        for (stage, held) in std::mem::take(&mut self.fabric.again) {
            self.fabric.deliver_held(stage as usize, held);
        }
    }

    /// Whether its plan has anything in it.
    pub(crate) fn has_work(&self) -> bool {
        !(self.nodes.is_empty() && self.sources.is_empty())
    }

    /// Has all its ports tell of packets that come from now on, if every one of them can, or no longer. Called before each look that it may follow by
    /// waiting.
    pub(crate) fn listen(&mut self, on: bool) {
        let can_tell = |source: &Source| match source {
            Source::Port { rx, .. } => rx.descriptor().is_some(),
            Source::Link { .. } => true,
        };
        // Else it does not wait for them, and nobody is to tell it anything.
        if on && !(self.receiving && self.sources.iter().all(can_tell)) {
            return;
        }
        for source in &mut self.sources {
            if let Source::Port { rx, .. } = source {
                rx.listen(on);
            }
        }
    }

    /// Waits in the kernel, out of the way of grace periods: `longest` nanoseconds if all its ports wake it, `shortest` if it has to look there
    /// itself; its bell ends the wait. Answers whether a port woke it.
    pub(crate) fn wait(&mut self, longest: u64, shortest: u64) -> bool {
        let Worker { sources, receiving, fabric, bell, .. } = self;
        let ports = sources.iter().filter_map(|source| match source {
            Source::Port { rx, .. } if *receiving => Some(rx.descriptor()),
            _ => None,
        });
        let ports: Option<Vec<BorrowedFd<'_>>> = if longest > shortest { ports.collect() } else { None };
        let (ports, nanos) = ports.map_or((Vec::new(), shortest), |ports| (ports, longest));
        fabric.reader.offline(|| bell.wait(&ports, nanos))
    }

    /// Packets in the hands of this worker, as every holder reports it.
    pub(crate) fn held(&self) -> u64 {
        self.nodes.iter().map(|node| node.stage.held()).sum::<u64>() + self.fabric.held()
    }

    /// Has every stage that is polled polled in the next turn, whatever the time is then: somebody may have left something for it.
    pub(crate) fn rouse(&mut self) {
        for &at in &self.polled {
            if let Some(node) = self.nodes.get_mut(at) {
                node.wake = 0;
            }
        }
    }

    /// When something is due, if nothing comes: the next poll of a stage, or the next packet of a file.
    pub(crate) fn next_at(&self) -> u64 {
        let polled = self.polled.iter().filter_map(|&at| self.nodes.get(at));
        // Who makes packets is not polled any more once nothing is to come.
        let polls = polled.filter(|node| self.receiving || node.declaration.makes.is_none()).map(|node| node.wake);
        let packets = self.sources.iter().filter_map(|source| match source {
            Source::Port { rx, .. } if self.receiving => rx.next_at(),
            _ => None,
        });
        polls.chain(packets).min().unwrap_or(u64::MAX)
    }

    /// Whether all receive queues have come to the end of their input, and all stages that make packets to that of theirs.
    pub(crate) fn exhausted(&self) -> bool {
        let makes = |node: &RunNode| node.declaration.makes.is_some() && node.wake != u64::MAX;
        if self.nodes.iter().any(makes) {
            return false;
        }
        self.sources.iter().all(|source| match source {
            Source::Port { rx, .. } => rx.exhausted(),
            Source::Link { .. } => true,
        })
    }

    /// Whether nothing waits in the links that lead here.
    pub(crate) fn links_empty(&self) -> bool {
        self.sources.iter().all(|source| match source {
            Source::Port { .. } => true,
            Source::Link { consumer, .. } => consumer.is_empty(),
        })
    }

    /// Hands over or drops everything in hand, and does nothing any more.
    pub(crate) fn halt(&mut self) {
        if std::mem::replace(&mut self.halted, true) {
            return;
        }
        for node in &mut self.nodes {
            node.clear(Reason::Shutdown, &mut self.fabric);
        }
        for (stage, held) in std::mem::take(&mut self.fabric.again) {
            let packet = held.into_packet();
            if let Some(node) = self.nodes.get_mut(stage as usize) {
                node.drops.count(Reason::Shutdown, 1, packet.len() as u64);
            }
            self.fabric.pool.free(packet);
        }
        self.fabric.each_transmit_queue(|transmit_queue, around| transmit_queue.finish(Reason::TxFull, around));
        self.fabric.each_link(|link, around| {
            link.unstage();
            link.drop_all(Reason::Shutdown, around);
        });
    }

    /// Drops what is in the links that lead here, once nobody puts anything in any more.
    pub(crate) fn drain_links(&mut self) {
        for source in std::mem::take(&mut self.sources) {
            match source {
                Source::Link { name, consumer, packets, .. } => {
                    self.retired.link_in(packets);
                    self.drain_link(&name, consumer, Reason::Shutdown);
                }
                port => self.sources.push(port),
            }
        }
    }

    /// Drops what is still in a link whose way to its stage is gone.
    pub(crate) fn drain_link(&mut self, name: &str, mut consumer: Consumer<Held>, reason: Reason) {
        while let Some(held) = consumer.pop() {
            let packet = held.into_packet();
            self.retired.link_packet(name, reason, packet.len() as u64);
            self.fabric.pool.free(packet);
        }
    }
}

/// Receives from a port into the input of its entry stage.
#[inline]
fn receive_port(rx: &mut dyn Rx, port: u16, entry: usize, received: &mut Count, fabric: &mut Fabric) -> u64 {
    let mut batch = fabric.open_input(entry);
    let before = batch.live();
    let now = fabric.now;
    let traffic = rx.receive(&mut batch, &mut *fabric.pool, now);
    if traffic.packets > 0 {
        received.add_traffic(traffic);
        if before == 0 {
            batch.lanes.port.all_mut().fill(port);
            batch.lanes.time.all_mut().fill(now);
            batch.lanes.passes.all_mut().fill(0);
        } else {
            for slot in Slots(batch.live() & !before) {
                batch.lanes.port[slot] = port;
                batch.lanes.time[slot] = now;
                batch.lanes.passes[slot] = 0;
            }
        }
        if fabric.observers.any() {
            let fresh = Slots(batch.live() & !before);
            fresh.filter_map(|slot| batch.get(slot)).for_each(|packet| {
                fabric.observers.packet(What::Received { port }, packet, now);
            });
        }
    }
    fabric.deliver(entry, batch);
    traffic.packets
}

/// Takes at most a batch from a link.
#[inline]
fn receive_link(
    consumer: &mut Consumer<Held>,
    (entry, lanes): (Entry, LaneSet),
    packets: &mut u64,
    fabric: &mut Fabric,
) -> u64 {
    if consumer.is_empty() {
        return 0;
    }
    let mut came = std::mem::take(&mut fabric.came);
    let got = consumer.pop_into(BATCH, |held| came.push(held)) as u64;
    // Another core has just written them: their lines are asked for all at once.
    came.iter().for_each(|held| held.prefetch(lanes));
    came.iter().for_each(|held| held.packet().prefetch_data());
    match entry {
        Entry::Stage(stage) => fabric.deliver_all_held(stage as usize, lanes, came.drain(..)),
        Entry::TransmitQueue(transmit_queue) => {
            if let Some((transmit_queue, mut around)) = fabric.transmit_queue(transmit_queue) {
                came.drain(..).for_each(|held| push_held(transmit_queue, held, &mut around));
            }
        }
    }
    fabric.came = came; // keeps its memory
    *packets += got;
    got
}

/// How many busy loops pass until the next one is timed: 0 to 15, drawn from the last bits of a time stamp. A fixed number would go in step with
/// what comes round every so many loops, such as a burst that is handed to its port when it has filled.
fn loops_until_timed(stamp: u64) -> u32 {
    // The multiplier is 2^64 over the golden ratio, which carries the low bits, that look random, to the highest ones.
    (stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as u32
}

/// The least of a few distances between two readings in a row.
fn reading_cost() -> ReadingCost {
    let distance = |_| {
        let first = tsc::now();
        tsc::now().wrapping_sub(first)
    };
    ReadingCost((0..64).map(distance).min().unwrap_or(0))
}
