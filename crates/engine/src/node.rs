//! A stage on a worker: runs it and sends its packets where its ways are wired.

use weir_mem::tsc;
use weir_packet::{BATCH, Batch, Held, LaneSet, Slots};
use weir_stage::{Declaration, Fate, MAX_PASSES, Out, OutStore, Sent, Stage};

use crate::codes::like;
use crate::counters::{Count, Drops, StageCounters};
use crate::fabric::Fabric;
use crate::guard::{PAUSE, guarded, suffer};
use crate::hop::Beyond;
use crate::observe::What;
use crate::reason::Reason;
use crate::transmit::push_held;

/// What a code of a stage leads to on its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Another stage.
    Stage(u16),
    /// Another stage, or the same, in the next loop.
    Again(u16),
    /// A transmit queue.
    TransmitQueue(u16),
    /// A link to another worker.
    Link(u16),
    /// An end of a joint.
    JointHop(u16),
    /// Nowhere: the packet ends here and is counted.
    End,
}

/// A stage on a worker.
pub(crate) struct RunNode {
    pub(crate) name: String,
    pub(crate) stage: Box<dyn Stage>,
    pub(crate) declaration: Declaration,
    pub(crate) exits: Vec<Exit>,
    /// Lanes that are read behind the stage.
    behind: LaneSet,
    pub(crate) counters: StageCounters,
    pub(crate) drops: Drops,
    /// When it wants to be polled next; `u64::MAX` for never.
    pub(crate) wake: u64,
    /// Whether a panic of the stage ends there, as it does on the control side.
    pub(crate) is_guarded: bool,
    /// Whether it is to panic with the next batch; in builds for tests only.
    pub(crate) tormented: bool,
    pub(crate) store: OutStore,
    /// What each exit takes, for stages that are polled.
    room: Vec<u32>,
}

/// In [`RunNode::wake`]: the stage has run since it was polled last, and is to be polled whatever the time is.
const RAN: u64 = 0;

/// Cycles that two readings of the time stamp counter in a row are apart: what sampling itself costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadingCost(pub(crate) u64);

impl RunNode {
    pub(crate) fn new(
        name: String,
        stage: Box<dyn Stage>,
        declaration: Declaration,
        exits: Vec<Exit>,
        behind: LaneSet,
    ) -> RunNode {
        let counters = StageCounters::new(&declaration);
        let wake = if declaration.polled { 0 } else { u64::MAX };
        RunNode {
            name,
            stage,
            declaration,
            exits,
            behind,
            counters,
            drops: Drops::new(),
            wake,
            is_guarded: false,
            tormented: false,
            store: OutStore::new(),
            room: Vec::new(),
        }
    }

    /// Runs the stage on one batch and passes its packets on.
    #[inline]
    pub(crate) fn run(&mut self, mut batch: Box<Batch>, fabric: &mut Fabric, sample: Option<ReadingCost>) {
        let packets = batch.len() as u64;
        self.counters.batches += 1;
        self.counters.packets += packets;
        let started = sample.map(|cost| (cost, tsc::now()));
        if fabric.observers.any() {
            return self.run_observed(batch, fabric);
        }
        let leaving = self.call(&mut batch, fabric);
        if let Some((cost, started)) = started {
            let spent = tsc::now().wrapping_sub(started).saturating_sub(cost.0);
            self.counters.sampled_cycles += spent;
            self.counters.sampled_packets += packets;
        }
        self.pass_on(batch, leaving, fabric);
    }

    /// Calls the stage; returns the mask of packets that do not go straight on.
    #[inline]
    fn call(&mut self, batch: &mut Batch, fabric: &mut Fabric) -> u64 {
        if self.declaration.polled {
            // Who sends later must know what can be sent now.
            self.look_for_room(fabric);
            self.wake = RAN;
        }
        let (ways, before) = (self.declaration.ways.len(), self.in_hand(batch.len()));
        let mut out = Out::new(fabric.now, ways, &mut self.store, &mut *fabric.pool, &fabric.reader, &self.room)
            .with_clock(fabric.clock)
            .with_lanes_behind(self.behind);
        let run = || {
            suffer(&mut self.tormented);
            self.stage.run(batch, &mut out);
        };
        if guarded(self.is_guarded, run).is_some() {
            return out.leaving();
        }
        self.lose_batch(batch, before, fabric);
        0
    }

    /// Asks every exit how much it takes.
    #[inline]
    fn look_for_room(&mut self, fabric: &mut Fabric) {
        let RunNode { room, exits, .. } = self;
        room.clear();
        room.extend(exits.iter().map(|exit| room_behind(*exit, fabric)));
    }

    /// Sends the packets of a batch where the stage's answers lead.
    #[inline]
    fn pass_on(&mut self, mut batch: Box<Batch>, leaving: u64, fabric: &mut Fabric) {
        let leaving = leaving & batch.live();
        if leaving != 0 {
            self.route_leaving(&mut batch, leaving, fabric);
        }
        if !self.store.sent().is_empty() {
            self.route_sent(fabric);
        }
        self.route_straight(batch, fabric);
    }

    #[inline]
    fn route_straight(&mut self, mut batch: Box<Batch>, fabric: &mut Fabric) {
        let live = batch.live();
        if live == 0 {
            return fabric.put_spare(batch);
        }
        match self.exits.first() {
            Some(&Exit::Stage(stage)) => {
                self.counters.count(0, u64::from(live.count_ones()), 0);
                fabric.deliver(stage as usize, batch);
            }
            Some(&Exit::JointHop(hop)) => {
                self.counters.count(0, u64::from(live.count_ones()), 0);
                match fabric.cross(hop, &mut batch, live) {
                    Beyond::Stage(stage) => fabric.deliver(stage as usize, batch),
                    beyond => {
                        self.go_on(hop, beyond, live, &mut batch, fabric);
                        fabric.put_spare(batch);
                    }
                }
            }
            _ => {
                self.route(0, live, &mut batch, fabric);
                fabric.put_spare(batch);
            }
        }
    }

    /// Sends packets on that leave by another way than the first, together those with the same answer.
    fn route_leaving(&mut self, batch: &mut Batch, leaving: u64, fabric: &mut Fabric) {
        let mut rest = leaving;
        while rest != 0 {
            let code = self.store.codes()[rest.trailing_zeros() as usize % BATCH];
            let same = like(self.store.codes(), rest, code);
            rest &= !same;
            self.route(code as usize, same, batch, fabric);
        }
    }

    /// Sends the packets in `mask` where `code` leads.
    #[inline]
    fn route(&mut self, code: usize, mask: u64, batch: &mut Batch, fabric: &mut Fabric) {
        let packets = u64::from(mask.count_ones());
        match self.exits.get(code).copied().unwrap_or(Exit::End) {
            Exit::TransmitQueue(transmit_queue) => {
                self.counters.count(code, packets, 0);
                if let Some((transmit_queue, mut around)) = fabric.transmit_queue(transmit_queue) {
                    transmit_queue.push_batch(batch, mask, &mut around);
                }
            }
            Exit::Stage(stage) => {
                self.counters.count(code, packets, 0);
                fabric.deliver_some(stage as usize, batch, mask);
            }
            Exit::End => {
                self.counters.count(code, packets, batch.bytes_in(mask));
                fabric.pool.free_batch(batch, mask);
            }
            Exit::Link(link) => {
                self.counters.count(code, packets, 0);
                push_to_link(link, mask, batch, fabric);
            }
            Exit::Again(stage) => {
                self.counters.count(code, packets, 0);
                self.route_again(stage, mask, batch, fabric);
            }
            Exit::JointHop(hop) => {
                self.counters.count(code, packets, 0);
                let beyond = fabric.cross(hop, batch, mask);
                self.go_on(hop, beyond, mask, batch, fabric);
            }
        }
    }

    fn route_again(&mut self, stage: u16, mask: u64, batch: &mut Batch, fabric: &mut Fabric) {
        for held in Slots(mask).filter_map(|slot| batch.hold(slot)) {
            self.again(stage, held, fabric);
        }
    }

    /// Sends packets on that have crossed a joint.
    fn go_on(&mut self, hop: u16, beyond: Beyond, mask: u64, batch: &mut Batch, fabric: &mut Fabric) {
        match beyond {
            Beyond::Stage(stage) => fabric.deliver_some(stage as usize, batch, mask),
            Beyond::Again(stage) => self.route_again(stage, mask, batch, fabric),
            Beyond::Link(link) => push_to_link(link, mask, batch, fabric),
            Beyond::Nowhere => {
                Slots(mask).filter_map(|slot| batch.take(slot)).for_each(|packet| fabric.refuse_at(hop, packet));
            }
        }
    }

    /// As [`RunNode::go_on`], for one packet that was held and crosses now.
    fn hop_held(&mut self, hop: u16, mut held: Held, fabric: &mut Fabric) {
        match fabric.cross_held(hop, &mut held) {
            Beyond::Stage(stage) => fabric.deliver_held(stage as usize, held),
            Beyond::Again(stage) => self.again(stage, held, fabric),
            Beyond::Link(link) => fabric.send_over(link, held),
            Beyond::Nowhere => fabric.refuse_at(hop, held.into_packet()),
        }
    }

    /// Puts a packet off to the next loop, unless it went round too often.
    fn again(&mut self, stage: u16, mut held: Held, fabric: &mut Fabric) {
        if held.pass_again(MAX_PASSES) {
            return fabric.again.push((stage, held));
        }
        let packet = held.into_packet();
        self.drops.count(Reason::LoopLimit, 1, packet.len() as u64);
        fabric.observers.dropped(&self.name, Reason::LoopLimit, &packet, fabric.now);
        fabric.pool.free(packet);
    }

    /// Sends on what the stage sent beside its batch.
    fn route_sent(&mut self, fabric: &mut Fabric) {
        let mut sent = std::mem::take(self.store.sent());
        for item in sent.drain(..) {
            self.route_one(item, fabric);
        }
        *self.store.sent() = sent; // keeps its memory
    }

    fn route_one(&mut self, sent: Sent, fabric: &mut Fabric) {
        let Sent { packet: held, code, created } = sent;
        let (code, bytes) = (code as usize, held.packet().len() as u64);
        if let Some(reason) = created {
            self.counters.count(reason as usize, 1, bytes);
        }
        match self.exits.get(code).copied().unwrap_or(Exit::End) {
            Exit::Stage(stage) => fabric.deliver_held(stage as usize, held),
            Exit::Again(stage) => self.again(stage, held, fabric),
            Exit::TransmitQueue(transmit_queue) => {
                if let Some((transmit_queue, mut around)) = fabric.transmit_queue(transmit_queue) {
                    push_held(transmit_queue, held, &mut around);
                }
            }
            Exit::Link(link) => fabric.send_over(link, held),
            Exit::JointHop(hop) => self.hop_held(hop, held, fabric),
            Exit::End => fabric.pool.free(held.into_packet()),
        }
        self.counters.count(code, 1, bytes);
    }

    /// Polls the stage if its time has come; whether it sent anything.
    #[inline]
    pub(crate) fn poll(&mut self, fabric: &mut Fabric, sample: Option<ReadingCost>) -> bool {
        if self.wake > fabric.now {
            return false;
        }
        self.look_for_room(fabric);
        if let Some(reason) = self.declaration.makes {
            return self.make(reason, fabric, sample);
        }
        let ran = self.wake == RAN;
        let started = sample.map(|cost| (cost, tsc::now()));
        let (ways, before) = (self.declaration.ways.len(), self.in_hand(0));
        let mut out = Out::new(fabric.now, ways, &mut self.store, &mut *fabric.pool, &fabric.reader, &self.room)
            .with_clock(fabric.clock)
            .with_lanes_behind(self.behind);
        let polled = guarded(self.is_guarded, || self.stage.poll(&mut out));
        self.wake = polled.unwrap_or_else(|| {
            self.lose(before);
            fabric.now.saturating_add(PAUSE)
        });
        let sent = !self.store.sent().is_empty();
        // Polls of loops in which nothing happens are idle time, and such loops are not what is sampled.
        if let Some((cost, started)) = started.filter(|_| ran || sent) {
            self.counters.sampled_cycles += tsc::now().wrapping_sub(started).saturating_sub(cost.0);
        }
        if !sent {
            return false;
        }
        if fabric.observers.any() {
            self.tell_sent(fabric);
        }
        self.route_sent(fabric);
        true
    }

    /// Lets the stage make a batch of new packets; whether it made or sent any.
    #[inline]
    fn make(&mut self, reason: u8, fabric: &mut Fabric, sample: Option<ReadingCost>) -> bool {
        let mut batch = fabric.spare();
        batch.lanes.time.all_mut().fill(fabric.now);
        batch.lanes.port.all_mut().fill(0);
        batch.lanes.passes.all_mut().fill(0);
        let started = sample.map(|cost| (cost, tsc::now()));
        let ways = self.declaration.ways.len();
        let mut out = Out::new(fabric.now, ways, &mut self.store, &mut *fabric.pool, &fabric.reader, &self.room)
            .with_clock(fabric.clock)
            .with_lanes_behind(self.behind);
        self.wake = self.stage.make(&mut batch, &mut out);
        let leaving = out.leaving();
        let live = batch.live();
        if live == 0 && self.store.sent().is_empty() {
            fabric.put_spare(batch);
            return false;
        }
        let packets = u64::from(live.count_ones());
        if let Some((cost, started)) = started {
            self.counters.sampled_cycles += tsc::now().wrapping_sub(started).saturating_sub(cost.0);
            self.counters.sampled_packets += packets;
        }
        self.counters.batches += 1;
        self.counters.packets += packets;
        self.counters.count(reason as usize, packets, batch.bytes_in(live));
        if fabric.observers.any() {
            self.tell_made(reason, &batch, leaving, fabric);
        }
        self.pass_on(batch, leaving, fabric);
        // They left when they were due: none waits for others.
        if let Some(Exit::TransmitQueue(transmit_queue)) = self.exits.first()
            && let Some(transmit_queue) = fabric.transmit_queues.get_mut(*transmit_queue as usize)
        {
            transmit_queue.hurry();
        }
        true
    }

    #[cold]
    fn tell_made(&mut self, reason: u8, batch: &Batch, leaving: u64, fabric: &Fabric) {
        let reason = self.declaration.name_of(reason as usize);
        for slot in batch.slots() {
            let Some(packet) = batch.get(slot) else { continue };
            fabric.observers.packet(What::Created { stage: &self.name, reason: &reason }, packet, fabric.now);
            let left = leaving & slot.bit() != 0;
            let code = if left { self.store.codes()[slot.index()] as usize } else { 0 };
            let way = self.declaration.name_of(code);
            let what = What::Left { stage: &self.name, way: &way, fate: self.fate(code) };
            fabric.observers.packet(what, packet, fabric.now);
        }
        self.tell_sent(fabric);
    }

    /// Takes everything the stage holds and drops it.
    pub(crate) fn clear(&mut self, reason: Reason, fabric: &mut Fabric) {
        let RunNode { name, stage, drops, .. } = self;
        stage.clear(&mut |held| {
            let packet = held.into_packet();
            drops.count(reason, 1, packet.len() as u64);
            fabric.observers.dropped(name, reason, &packet, fabric.now);
            fabric.pool.free(packet);
        });
    }

    /// Whether the stage can go on by another declaration: it has the ways that it has, and perhaps more of those that have a number.
    pub(crate) fn fits(&self, declaration: &Declaration) -> bool {
        self.declaration.ways.len() == declaration.ways.len() && self.declaration.codes() <= declaration.codes()
    }

    /// Whether packets that the stage holds may lack what is to be read behind it: it held them [with](Out::hold) the lanes that were read there.
    pub(crate) fn lacks(&self, behind: LaneSet) -> bool {
        self.declaration.lean && !behind.without(self.behind).is_empty()
    }

    /// Leads its ways elsewhere from here on.
    pub(crate) fn rewire(&mut self, declaration: Declaration, exits: Vec<Exit>, behind: LaneSet) {
        self.behind = behind;
        self.counters.extend(&declaration);
        self.declaration = declaration;
        let before: Vec<Fate> = (0..self.declaration.codes()).map(|code| self.fate(code)).collect();
        self.exits = exits;
        for (code, before) in before.into_iter().enumerate() {
            if self.fate(code) != before {
                self.counters.turn(code);
            }
        }
    }

    /// What was counted so far: code, fate, packets and bytes; only what occurred. A way that was wired at one time and not at
    /// another has both.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (usize, Fate, Count)> {
        let now = self.counters.codes.iter().enumerate().map(|(code, count)| (code, self.fate(code), *count));
        let before = self.counters.before.iter().enumerate().map(|(code, count)| {
            let fate = if self.fate(code) == Fate::Drop { self.declaration.fate_of(code) } else { Fate::Drop };
            (code, fate, *count)
        });
        now.chain(before).filter(|(_, _, count)| count.packets > 0)
    }

    /// What becomes of packets that leave with `code`: a way that is not wired drops them.
    pub(crate) fn fate(&self, code: usize) -> Fate {
        match (self.declaration.fate_of(code), self.exits.get(code)) {
            (Fate::Way | Fate::Again, Some(Exit::End) | None) => Fate::Drop,
            (fate, _) => fate,
        }
    }

    /// As [`RunNode::run`], telling the observers what became of every packet.
    #[cold]
    fn run_observed(&mut self, mut batch: Box<Batch>, fabric: &mut Fabric) {
        let before: Vec<_> = batch.slots().filter_map(|slot| Some((slot, batch.get(slot)?.id()))).collect();
        let leaving = self.call(&mut batch, fabric);
        for (slot, id) in before {
            let Some(packet) = batch.get(slot) else {
                if self.store.sent().iter().all(|sent| sent.packet.packet().id() != id) {
                    let what = What::Taken { stage: &self.name };
                    fabric.observers.tell(&crate::observe::Event { now: fabric.now, packet: id, bytes: &[], what });
                }
                continue;
            };
            let left = leaving & slot.bit() != 0;
            let code = if left { self.store.codes()[slot.index()] as usize } else { 0 };
            let way = self.declaration.name_of(code);
            let what = What::Left { stage: &self.name, way: &way, fate: self.fate(code) };
            fabric.observers.packet(what, packet, fabric.now);
        }
        self.tell_sent(fabric);
        self.pass_on(batch, leaving, fabric);
    }

    fn tell_sent(&mut self, fabric: &Fabric) {
        for sent in std::mem::take(self.store.sent()) {
            let packet = sent.packet.packet();
            if let Some(reason) = sent.created {
                let reason = self.declaration.name_of(reason as usize);
                fabric.observers.packet(What::Created { stage: &self.name, reason: &reason }, packet, fabric.now);
            }
            let way = self.declaration.name_of(sent.code as usize);
            let what = What::Left { stage: &self.name, way: &way, fate: self.fate(sent.code as usize) };
            fabric.observers.packet(what, packet, fabric.now);
            self.store.sent().push(sent);
        }
    }
}

/// Puts the packets in `mask` into a link.
fn push_to_link(link: u16, mask: u64, batch: &mut Batch, fabric: &mut Fabric) {
    if let Some((link, mut around)) = fabric.link(link) {
        link.push_batch(batch, mask, &mut around);
    }
}

fn room_behind(exit: Exit, fabric: &mut Fabric) -> u32 {
    let room = match exit {
        Exit::TransmitQueue(transmit_queue) => {
            fabric.transmit_queues.get_mut(transmit_queue as usize).map_or(0, |transmit_queue| transmit_queue.room())
        }
        Exit::Link(link) => fabric.links.get_mut(link as usize).map_or(0, |link| link.room()),
        Exit::JointHop(hop) => match fabric.hops.get(hop as usize).map(|hop| hop.beyond) {
            Some(Beyond::Link(link)) => return room_behind(Exit::Link(link), fabric),
            _ => weir_stage::SEND_LIMIT,
        },
        _ => weir_stage::SEND_LIMIT,
    };
    u32::try_from(room).unwrap_or(u32::MAX)
}
