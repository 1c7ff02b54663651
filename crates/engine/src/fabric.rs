//! How packets get from stage to stage on one worker.

use std::collections::VecDeque;

use weir_mem::Reader;
use weir_packet::{BATCH, Batch, Held, LaneSet, Packet, Pool};
use weir_stage::EngineClock;

use crate::hop::{Beyond, JointHop};
use crate::link::LinkOut;
use crate::observe::Observers;
use crate::reason::Reason;
use crate::transmit::{Around, TransmitQueue};

/// Batches that are kept for reuse.
const SPARE: usize = 16;

/// Everything a stage's packets can go to, and what moving them needs.
pub(crate) struct Fabric {
    /// Per stage: batches that wait for it, in order.
    inputs: Vec<VecDeque<Box<Batch>>>,
    /// Stages for which batches wait.
    pending: Pending,
    /// Packets that enter a stage in the next loop.
    pub(crate) again: Vec<(u16, Held)>,
    #[allow(clippy::vec_box, reason = "batches are 4 KiB and move between queues by their address")]
    spare: Vec<Box<Batch>>,
    pub(crate) transmit_queues: Vec<TransmitQueue>,
    pub(crate) links: Vec<LinkOut>,
    pub(crate) hops: Vec<JointHop>,
    /// Packets that have just come over a link, on their way into a batch.
    pub(crate) came: Vec<Held>,
    pub(crate) pool: Box<dyn Pool>,
    pub(crate) reader: Reader,
    pub(crate) observers: Observers,
    pub(crate) now: u64,
    /// What stages may read the time from between two loops; `None` where time is virtual.
    pub(crate) clock: Option<EngineClock>,
}

impl Fabric {
    pub(crate) fn new(pool: Box<dyn Pool>, reader: Reader, clock: Option<EngineClock>) -> Fabric {
        Fabric {
            inputs: Vec::new(),
            pending: Pending::default(),
            again: Vec::new(),
            spare: Vec::new(),
            transmit_queues: Vec::new(),
            links: Vec::new(),
            hops: Vec::new(),
            came: Vec::with_capacity(BATCH),
            pool,
            reader,
            observers: Observers::default(),
            now: 0,
            clock,
        }
    }

    /// Makes room for the inputs of so many stages. Only between loops, when no input waits.
    pub(crate) fn set_stages(&mut self, stages: usize) {
        self.inputs.resize_with(stages, VecDeque::new);
        self.pending = Pending::new(stages);
    }

    #[inline]
    pub(crate) fn spare(&mut self) -> Box<Batch> {
        self.spare.pop().unwrap_or_else(Batch::new)
    }

    /// Takes an empty batch back.
    #[inline]
    pub(crate) fn put_spare(&mut self, batch: Box<Batch>) {
        if self.spare.len() < SPARE && batch.is_empty() {
            self.spare.push(batch);
        }
    }

    /// The next stage in topological order for which batches wait.
    #[inline]
    pub(crate) fn next_pending(&self) -> Option<usize> {
        self.pending.first()
    }

    /// Takes the first batch that waits for a stage.
    #[inline]
    pub(crate) fn take_input(&mut self, stage: usize) -> Option<Box<Batch>> {
        let queue = self.inputs.get_mut(stage)?;
        let batch = queue.pop_front();
        if queue.is_empty() {
            self.pending.clear(stage);
        }
        batch
    }

    /// A batch for a receive queue to add to: the last that waits for `stage` when it is at most half full, else a fresh one.
    /// It comes back by [`Fabric::deliver`].
    #[inline]
    pub(crate) fn open_input(&mut self, stage: usize) -> Box<Batch> {
        let last = self.inputs.get_mut(stage).and_then(|queue| queue.pop_back_if(|last| last.room() >= BATCH / 2));
        last.unwrap_or_else(|| self.spare())
    }

    /// Puts a batch into a stage's input: joined to what waits there when it fits.
    #[inline]
    pub(crate) fn deliver(&mut self, stage: usize, mut batch: Box<Batch>) {
        let Some(queue) = self.inputs.get_mut(stage) else { return };
        if batch.is_empty() {
            return self.put_spare(batch);
        }
        self.pending.set(stage);
        if let Some(last) = queue.back_mut()
            && last.room() >= batch.len()
        {
            batch.move_to(u64::MAX, last);
            return self.put_spare(batch);
        }
        queue.push_back(batch);
    }

    /// Moves the packets in `mask` to a stage's input, one by one.
    pub(crate) fn deliver_some(&mut self, stage: usize, batch: &mut Batch, mask: u64) {
        while batch.live() & mask != 0 {
            let mut to = self.collecting(stage);
            batch.move_to(mask, &mut to);
            self.put_back(stage, to);
        }
    }

    /// Puts packets that were held with these lanes into a stage's input.
    #[inline]
    pub(crate) fn deliver_all_held(&mut self, stage: usize, lanes: LaneSet, held: impl Iterator<Item = Held>) {
        let mut to = self.collecting(stage);
        for held in held {
            let Err(held) = to.restore_with(held, lanes) else { continue };
            self.put_back(stage, to);
            to = self.spare();
            if let Err(held) = to.restore_with(held, lanes) {
                self.pool.free(held.into_packet()); // not reached: the batch is empty
            }
        }
        self.put_back(stage, to);
    }

    /// Puts one held packet into a stage's input.
    pub(crate) fn deliver_held(&mut self, stage: usize, held: Held) {
        let mut to = self.collecting(stage);
        if let Err(held) = to.restore(held) {
            self.pool.free(held.into_packet()); // not reached: the batch has room
        }
        self.put_back(stage, to);
    }

    /// The last batch that waits for a stage if it has any room, else a fresh one.
    fn collecting(&mut self, stage: usize) -> Box<Batch> {
        let last = self.inputs.get_mut(stage).and_then(|queue| queue.pop_back_if(|last| last.room() > 0));
        last.unwrap_or_else(|| self.spare())
    }

    fn put_back(&mut self, stage: usize, batch: Box<Batch>) {
        if let Some(queue) = self.inputs.get_mut(stage) {
            queue.push_back(batch);
            self.pending.set(stage);
        }
    }

    /// What transmit_queues and links need, with a transmit_queue.
    #[inline]
    pub(crate) fn transmit_queue(&mut self, index: u16) -> Option<(&mut TransmitQueue, Around<'_>)> {
        let around = Around { pool: &mut *self.pool, now: self.now, observers: &self.observers };
        Some((self.transmit_queues.get_mut(index as usize)?, around))
    }

    /// What transmit_queues and links need, with a link.
    #[inline]
    pub(crate) fn link(&mut self, index: u16) -> Option<(&mut LinkOut, Around<'_>)> {
        let around = Around { pool: &mut *self.pool, now: self.now, observers: &self.observers };
        Some((self.links.get_mut(index as usize)?, around))
    }

    /// Puts a held packet into a link.
    pub(crate) fn send_over(&mut self, link: u16, held: Held) {
        if let Some((link, mut around)) = self.link(link) {
            link.push(held, &mut around);
        }
    }

    /// Takes the packets in `mask` over a joint; they stay in the batch. Where they go on, if there is such a hop.
    #[inline]
    pub(crate) fn cross(&mut self, hop: u16, batch: &mut Batch, mask: u64) -> Beyond {
        let Some(hop) = self.hops.get_mut(hop as usize) else { return Beyond::Nowhere };
        hop.cross(batch, mask, &self.observers, self.now);
        hop.beyond
    }

    /// Takes one packet that was held over a joint. Where it goes on.
    pub(crate) fn cross_held(&mut self, hop: u16, held: &mut Held) -> Beyond {
        let Some(hop) = self.hops.get_mut(hop as usize) else { return Beyond::Nowhere };
        hop.cross_held(held, &self.observers, self.now);
        hop.beyond
    }

    /// Drops a packet that came to an end of a joint at whose other end nobody receives.
    #[cold]
    pub(crate) fn refuse_at(&mut self, hop: u16, packet: Packet) {
        if let Some(JointHop { out, drops, .. }) = self.hops.get_mut(hop as usize) {
            drops.count(Reason::LinkDown, 1, packet.len() as u64);
            self.observers.dropped(&out.0, Reason::LinkDown, &packet, self.now);
        }
        self.pool.free(packet);
    }

    /// Does `work` for every transmit_queue.
    #[inline]
    pub(crate) fn each_transmit_queue(&mut self, mut work: impl FnMut(&mut TransmitQueue, &mut Around<'_>)) {
        let mut around = Around { pool: &mut *self.pool, now: self.now, observers: &self.observers };
        self.transmit_queues.iter_mut().for_each(|transmit_queue| work(transmit_queue, &mut around));
    }

    /// Does `work` for every link.
    pub(crate) fn each_link(&mut self, mut work: impl FnMut(&mut LinkOut, &mut Around<'_>)) {
        let mut around = Around { pool: &mut *self.pool, now: self.now, observers: &self.observers };
        self.links.iter_mut().for_each(|link| work(link, &mut around));
    }

    /// Packets that wait in transmit bursts, at links and for the next loop.
    pub(crate) fn held(&self) -> u64 {
        let transmit_queues: u64 = self.transmit_queues.iter().map(TransmitQueue::held).sum();
        let links: u64 = self.links.iter().map(LinkOut::held).sum();
        transmit_queues + links + self.again.len() as u64
    }
}

/// A set of stages, ordered.
#[derive(Default)]
struct Pending(Vec<u64>);

impl Pending {
    fn new(stages: usize) -> Pending {
        Pending(vec![0; stages.div_ceil(64)])
    }

    #[inline]
    fn set(&mut self, stage: usize) {
        if let Some(word) = self.0.get_mut(stage / 64) {
            *word |= 1 << (stage % 64);
        }
    }

    #[inline]
    fn clear(&mut self, stage: usize) {
        if let Some(word) = self.0.get_mut(stage / 64) {
            *word &= !(1 << (stage % 64));
        }
    }

    #[inline]
    fn first(&self) -> Option<usize> {
        let (at, word) = self.0.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}
