//! The stage around the scheduler.

use weir_packet::{BATCH, Batch, Held, Key, LaneId, Lanes, Packet, Slot, Slots};
use weir_stage::{Declaration, Out, Stage};

use crate::ahead::TOGETHER;
use crate::class::ClassQueue;
use crate::ecn;
use crate::flow;
use crate::gates::Loss;
use crate::offer::{Displaced, Leaving, Offer, Offered, Refused};
use crate::orders::Orders;
use crate::scheduler::Scheduler;

weir_stage::ways! {
    /// Ways out of [`Shaper`].
    pub enum Exit {
        /// Sent: at once, or when its user, subport and port may.
        Out => way "out",
        /// Its queue is full: the user sends more than its rate.
        QueueFull => drop "queue-full",
        /// Its user holds as many packets as its share of the buffers allows, and nobody holds more; the share shrinks as fewer are left.
        OverShare => drop "over-share",
        /// It had to make room for a packet of another user: its own user held most of all.
        PushedOut => drop "pushed-out",
        /// Random early detection: its queue has been long for a while.
        Red => drop "red",
        /// Controlled delay: packets of its queue have waited too long for a while.
        Codel => drop "codel",
        /// A class with two lines (L4S): packets of its classic line have waited too long for a while.
        L4s => drop "l4s",
        /// It belongs to no user that the scheduler knows.
        NoSuchUser => drop "no-such-user",
    }
}

impl From<Loss> for Exit {
    fn from(loss: Loss) -> Exit {
        match loss {
            Loss::QueueFull => Exit::QueueFull,
            Loss::OverShare => Exit::OverShare,
            Loss::PushedOut => Exit::PushedOut,
            Loss::Red => Exit::Red,
            Loss::Codel => Exit::Codel,
            Loss::L4s => Exit::L4s,
        }
    }
}

impl From<Refused> for Exit {
    fn from(refused: Refused) -> Exit {
        match refused {
            Refused::QueueFull => Exit::QueueFull,
            Refused::OverShare => Exit::OverShare,
            Refused::Managed => Exit::Red,
            Refused::NoSuchUser => Exit::NoSuchUser,
        }
    }
}

/// A packet in a batch that is offered to the scheduler.
struct Arriving<'a, 'o> {
    batch: &'a mut Batch,
    slot: Slot,
    out: &'a mut Out<'o>,
    /// The number of its flow, if that is known.
    flow: Option<u32>,
    seed: u32,
}

impl Offered<Held> for Arriving<'_, '_> {
    fn mark(&mut self) -> bool {
        mark(self.batch, self.slot)
    }

    fn ecn(&self) -> u8 {
        self.batch.get(self.slot).map_or(0, |packet| ecn::field(packet.bytes()))
    }

    fn flow(&self) -> u32 {
        self.flow.unwrap_or_else(|| flow_of(self.batch, self.slot, self.seed))
    }

    #[inline(always)]
    fn take(self) -> Option<Held> {
        self.out.hold(self.batch, self.slot)
    }
}

/// The number of the flow of a packet.
#[inline(always)]
fn flow_of(batch: &Batch, slot: Slot, seed: u32) -> u32 {
    batch.get(slot).map_or(0, |packet| flow::number(packet.window(0), packet.len(), seed.into()))
}

#[cold]
fn mark(batch: &mut Batch, slot: Slot) -> bool {
    batch.get_mut(slot).is_some_and(|packet| ecn::mark(packet.bytes_mut()))
}

/// Shapes users: holds each packet until its user, subport and port may send it, and there is room for it ahead. A packet that need not wait
/// goes on in the batch in which it came.
pub struct Shaper<const C: usize, const Q: usize, const TREE: bool = false> {
    scheduler: Scheduler<Held, C, Q, TREE>,
    orders: Orders,
    user: Key<u32>,
    /// The lowest class that is used; it is the lowest of the scheduler.
    lowest: u8,
    overhead: u16,
    /// The time of the last call.
    now: u64,
}

impl<const C: usize, const Q: usize, const TREE: bool> Shaper<C, Q, TREE> {
    pub(crate) fn new(
        scheduler: Scheduler<Held, C, Q, TREE>,
        orders: Orders,
        user: Key<u32>,
        classes: usize,
        overhead: u16,
    ) -> Shaper<C, Q, TREE> {
        let lowest = classes.clamp(1, C) as u8 - 1;
        let scheduler = scheduler
            .with_marker(|packet| ecn::mark(packet.packet_mut().bytes_mut()))
            .with_hint(|packet| packet.packet().prefetch_header());
        Shaper { scheduler, orders, user, lowest, overhead, now: 0 }
    }

    /// Until when it may be left alone: while nothing waits, what changes is noticed with the next packet.
    fn look_again(&self, out: &Out<'_>) -> u64 {
        if self.scheduler.held() > 0 { out.look_again(ATTENTION) } else { u64::MAX }
    }

    #[inline(always)]
    fn class(&self, lanes: &Lanes, slot: Slot) -> ClassQueue {
        let class = ClassQueue::from_lane(lanes.class[slot]);
        if class.class() >= self.lowest { ClassQueue::new(C as u8 - 1, class.queue()) } else { class }
    }

    #[inline(always)]
    fn offer(&self, batch: &Batch, slot: Slot, packet: &Packet) -> Offer {
        Offer {
            user: batch.lanes.get(self.user, slot),
            class: self.class(&batch.lanes, slot),
            length: (packet.len() as u16).saturating_add(self.overhead),
            colour: batch.lanes.colour[slot],
        }
    }

    /// Sends what waits and may go, so many packets at most; how many that were, and when to go on.
    #[inline]
    fn send(&mut self, now: u64, room: usize, out: &mut Out<'_>) -> (usize, u64) {
        let mut sent = 0;
        let next = self.scheduler.dequeue(now, room, |leaving| match leaving {
            Leaving::Sent(packet) => {
                sent += 1;
                packet.packet().prefetch_header();
                out.send(packet, Exit::Out);
            }
            Leaving::Managed(packet) => out.send(packet, Exit::Codel),
            Leaving::Coupled(packet) => out.send(packet, Exit::L4s),
        });
        (sent, next)
    }

    #[inline(always)]
    fn pass(&mut self, offer: &Offer, slot: Slot, room: usize, batch: &mut Batch) -> Result<bool, Refused> {
        if room == 0 { Ok(false) } else { self.scheduler.pass_or_mark(offer, || mark(batch, slot), self.now) }
    }

    /// Where hardly any packet has to wait.
    #[inline(always)]
    fn pass_or_take(&mut self, offer: &Offer, slot: Slot, room: &mut usize, batch: &mut Batch, out: &mut Out<'_>) {
        match self.pass(offer, slot, *room, batch) {
            // It is where it has to be.
            Ok(true) => *room -= 1,
            Ok(false) => self.take_first(offer, slot, batch, out),
            Err(refused) => out.answer(slot, Exit::from(refused)),
        }
    }

    /// The packets in `live`, of which some are likely to have to wait.
    #[inline(never)]
    fn run_where_others_wait(&mut self, live: u64, room: usize, batch: &mut Batch, out: &mut Out<'_>) {
        self.scheduler.look_further();
        let mut room = room;
        let mut offers = [NOTHING; TOGETHER];
        for slot in Slots(live) {
            if let (Some(packet), Some(place)) = (batch.get(slot), offers.get_mut(slot.index())) {
                *place = self.offer(batch, slot, packet);
            }
        }
        let waits = self.scheduler.prepare(live, &offers, self.now);
        let seed = self.scheduler.seed;
        let flows = self.scheduler.prepare_flows(waits, &offers, |n| flow_of(batch, Slot::new(n), seed));
        for slot in Slots(live) {
            let (Some(offer), Some(flow)) = (offers.get(slot.index()), flows.get(slot.index())) else { break };
            let passes = if waits & slot.bit() != 0 { Ok(false) } else { self.pass(offer, slot, room, batch) };
            match passes {
                Ok(true) => room -= 1,
                // The one place from where most packets are taken: within this loop.
                Ok(false) => self.take(offer, slot, *flow, batch, out),
                Err(refused) => out.answer(slot, Exit::from(refused)),
            }
        }
        self.scheduler.look_furthest();
    }

    #[cold]
    fn take_first(&mut self, offer: &Offer, slot: Slot, batch: &mut Batch, out: &mut Out<'_>) {
        self.take(offer, slot, None, batch, out);
    }

    /// Takes a packet that has to wait, if only until [`Stage::poll`].
    #[inline(always)]
    fn take(&mut self, offer: &Offer, slot: Slot, flow: Option<u32>, batch: &mut Batch, out: &mut Out<'_>) {
        match self.scheduler.enqueue(*offer, self.now, Arriving { batch, slot, out, flow, seed: self.scheduler.seed }) {
            Ok(None) => {}
            Ok(Some(Displaced { item, loss })) => out.send(item, Exit::from(loss)),
            Err(refused) => out.answer(slot, Exit::from(refused)),
        }
    }
}

/// An offer of which nothing is known yet.
const NOTHING: Offer = Offer { user: u32::MAX, class: ClassQueue::new(0, 0), length: 0, colour: 0 };

/// Packets that are sent in one loop at most: more than a worker receives in one, which may be two batches from each of several queues.
/// Else what comes would have to wait, and be dropped in the end, though everybody may send.
const AT_ONCE: usize = 16 * BATCH;

/// How long a change for users whose packets wait may take to be noticed, nanoseconds.
const ATTENTION: u64 = 1_000_000;

/// What [`Shaper`] declares that finds users in the lane `user`.
pub fn declaration(user: Key<u32>) -> Declaration {
    Declaration::of::<Exit>().reads(&[user.into(), LaneId::Class, LaneId::Colour]).polled().lean()
}

impl<const C: usize, const Q: usize, const TREE: bool> Stage for Shaper<C, Q, TREE> {
    fn declare(&self) -> Declaration {
        declaration(self.user)
    }

    fn run(&mut self, batch: &mut Batch, out: &mut Out<'_>) {
        let now = out.now();
        self.now = now;
        self.orders.look(&mut self.scheduler, now);
        let mut room = out.room_at(Exit::Out);
        if self.scheduler.has_line() {
            // Whoever stands in line since the last poll goes first, so that it does not keep all others from passing.
            room -= self.send(now, room.min(AT_ONCE), out).0.min(room);
        }
        // The users of all slots, so that there is nothing to choose; only those of live ones count.
        let lanes = &batch.lanes;
        let (known, waiting) = self.scheduler.look(|n| lanes.get(self.user, Slot::new(n)));
        out.answer_all(batch.live() & !known, Exit::NoSuchUser);
        let live = batch.live() & known;
        if live & waiting != 0 || self.scheduler.held() > 0 {
            return self.run_where_others_wait(live, room, batch, out);
        }
        for slot in Slots(live) {
            let Some(packet) = batch.get(slot) else { continue };
            let offer = self.offer(batch, slot, packet);
            self.pass_or_take(&offer, slot, &mut room, batch, out);
        }
    }

    fn poll(&mut self, out: &mut Out<'_>) -> u64 {
        let now = out.now();
        self.now = now;
        let more = self.orders.look(&mut self.scheduler, now);
        let room = out.room_at(Exit::Out).min(AT_ONCE);
        let (_, next) = self.send(now, room, out);
        if more { now } else { next.min(self.look_again(out)) }
    }

    fn held(&self) -> u64 {
        u64::from(self.scheduler.held())
    }

    fn clear(&mut self, give: &mut dyn FnMut(Held)) {
        self.scheduler.clear(self.now, give);
    }
}
