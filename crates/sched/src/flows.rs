//! The flows of fair queues (FQ-CoDel, RFC 8290): the packets of each wait in a line of their own, and lines take turns.
//!
//! 1. A flow is what has one number of [`BUCKETS`] in its queue. It is known from its first packet on until its turn comes while nothing of it waits.
//! 2. Known flows stand in one of two lists of their queue: who comes stands at the end of the new ones, with a credit of [`QUANTUM`] bytes.
//! 3. Which packet goes next is chosen as soon as the one before it has left, and stays chosen. It is the first of the first new flow, of the first old
//!    one where there are no new ones. A flow without credit gets another quantum, and goes behind the old ones; one of which nothing waits
//!    goes behind the old ones if it was new, and is forgotten if it was old; and the next in its place is asked.
//! 4. What is sent costs its flow credit for its bytes. After a packet that is dropped when it was to go, its flow has its turn still.
//! 5. Where a packet has to make room, it is one of the fattest flow: of those of which two packets wait or more, and whose bytes are of the
//!    greatest power of two, the one that has come to be so first. It loses the first of its packets that is not chosen.
//! 6. When nothing waits in a queue any more, its flows are forgotten. Where there is no room for a flow, one of which nothing waits is forgotten: in the
//!    queue that has had such flows for longest, the one that has been so for longest.
//!
//! Choosing ahead is what Linux does where a rate is above `fq_codel`: it takes the packet out before that may go. There is room for as many flows as packets,
//! so that there is one whenever a packet is taken: either all flows have packets, and fewer than there may be, or one can be forgotten.
//!
//! All that a packet needs of its flow is in one line of memory, and what it needs of its queue in another; a flow's neighbours are flows of its queue. What a
//! management remembers is apart, and not looked at while it is nothing.

mod known;
mod turns;

use weir_table::indexed::{Indexed, NONE};
use weir_table::links::{Link, Linked, Links, List};

use self::turns::{Choice, Fair, Others, Turns};
use crate::manage::{Departure, Manage, State};
use crate::profile::{Profile, QUANTUM};
use crate::slab::Slab;

/// Flows of a queue that are told apart.
pub const BUCKETS: u32 = 1024;

/// Chains by which the flows of a queue are found: side by side in four lines of memory. A queue with all its flows has 16 in each.
const SPAN: u32 = 64;

/// What waited in a queue before it became fair is a flow of its own.
const BEFORE: u16 = BUCKETS as u16;

/// Powers of two by which fat flows are told apart: from [`LEAST`] on, and above the last all are alike.
const BANDS: usize = 16;
const LEAST: u32 = 7;
const NO_BAND: u8 = u8::MAX;

/// Which flow of its queue it is that a number stands for.
#[inline(always)]
fn bucket(hash: u32) -> u16 {
    (hash % BUCKETS) as u16
}

/// A flow.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Flow {
    /// Its packets, by the first; [`NONE`] while it rests.
    first: u32,
    /// Its queue.
    fair: u32,
    credit: i32,
    bytes: u32,
    packets: u16,
    bucket: u16,
    is_new: bool,
    /// Among which of the fat flows of its queue it is.
    band: u8,
    /// The management of its queue remembers something of it.
    noted: bool,
    /// The next flow in its chain.
    behind: u32,
    /// Among the new or old flows; of one that is not known, among those.
    turn: Link,
    /// Among the fat flows, or those that rest.
    other: Link,
}

/// A line of memory for a flow, and one for what a packet needs of its queue.
const _: () = assert!(size_of::<Flow>() == 64 && size_of::<Fair>() == 192);

impl Flow {
    const FREE: Flow = Flow {
        first: NONE,
        fair: NONE,
        credit: 0,
        bytes: 0,
        packets: 0,
        bucket: 0,
        is_new: false,
        band: NO_BAND,
        noted: false,
        behind: NONE,
        turn: Link::LOOSE,
        other: Link::LOOSE,
    };

    /// Where it belongs.
    #[inline(always)]
    fn fatness(&self) -> u8 {
        match self.packets {
            0 | 1 => NO_BAND,
            _ => self.bytes.max(1).ilog2().saturating_sub(LEAST).min(BANDS as u32 - 1) as u8,
        }
    }
}

/// All flows of a scheduler.
#[derive(Debug)]
pub(crate) struct Flows {
    flows: Indexed<Flow>,
    /// What managements remember of those of which they do.
    states: Indexed<State>,
    /// The first flow that is not known.
    free: u32,
    chains: Indexed<u32>,
    fairs: Indexed<Fair>,
    /// The first fair queue in which nothing waits.
    free_fair: u32,
    /// Queues with flows that rest, the one that has had such for longest first.
    rests: List,
    links: Links,
}

/// A packet that joins a flow.
pub(crate) struct Joining<T> {
    pub(crate) item: T,
    pub(crate) length: u16,
    pub(crate) now: u64,
    /// A number that all packets of its flow have.
    pub(crate) hash: u32,
}

/// The packet that is chosen has left its flow: of which queue, its bytes, and of which class of which profile the queue is.
pub(crate) struct Gone<'a> {
    pub(crate) fair: u32,
    pub(crate) length: u16,
    pub(crate) class: usize,
    pub(crate) profile: &'a Profile,
    pub(crate) now: u64,
}

impl Flows {
    /// Bytes for each packet that may wait.
    pub(crate) const BYTES: usize =
        size_of::<Flow>() + size_of::<State>() + 2 * size_of::<u32>() + size_of::<Fair>() + Links::BYTES;

    /// For so many queues that hold no more than so many packets together.
    pub(crate) fn new(packets: u32, queues: u32) -> Flows {
        let queues = queues.min(packets);
        // The last one has none behind it.
        let fair = |n: u32| Fair { packets: if n + 1 < queues { n + 1 } else { NONE }, ..Fair::FREE };
        let chains = if packets == 0 { 0 } else { (2 * packets as usize).next_power_of_two().max(SPAN as usize) };
        let mut flows = Indexed::new(packets as usize, Flow::FREE);
        let mut free = List::EMPTY;
        (0..packets).for_each(|n| Turns(&mut flows).push_back(&mut free, n));
        Flows {
            flows,
            states: Indexed::new(packets as usize, State::default()),
            free: free.first(),
            chains: Indexed::new(chains, NONE),
            fairs: Indexed::from_fn(queues as usize, fair, Fair::FREE),
            free_fair: 0,
            rests: List::EMPTY,
            links: Links::new(queues as usize),
        }
    }

    /// Whether there is room for any.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Packets in a fair queue.
    #[inline(always)]
    pub(crate) fn packets(&self, fair: u32) -> u32 {
        self.fairs.at(fair).packets
    }

    /// The flow of a fair queue whose packet is chosen.
    #[inline(always)]
    fn chosen(&self, fair: u32) -> u32 {
        self.fairs.at(fair).chosen
    }

    /// What the management of a fair queue remembers of the flow whose packet is chosen; nothing where it remembers nothing, and the packet is nothing to it.
    #[inline(always)]
    pub(crate) fn heeded(&mut self, fair: u32, manage: &dyn Manage, departure: &Departure) -> Option<&mut State> {
        let flow = self.chosen(fair);
        match self.noted(flow) {
            false if !manage.notes(departure) => None,
            false => Some(self.note(flow)),
            true => Some(self.state_mut(flow)),
        }
    }

    /// Whether the management of its queue remembers something of a flow.
    #[inline(always)]
    fn noted(&self, at: u32) -> bool {
        self.flows.at(at).noted
    }

    /// What that is.
    #[inline(always)]
    fn state_mut(&mut self, at: u32) -> &mut State {
        self.states.at_mut(at)
    }

    /// The management of its queue comes to remember something of a flow.
    #[cold]
    fn note(&mut self, at: u32) -> &mut State {
        self.flows.at_mut(at).noted = true;
        let state = self.states.at_mut(at);
        *state = State::default();
        state
    }

    /// Puts a packet in its flow. It is given back where there is no room.
    pub(crate) fn join<T>(&mut self, slab: &mut Slab<T>, queue: &mut u32, packet: Joining<T>) -> Option<T> {
        let Joining { item, length, now, hash } = packet;
        if slab.left() == 0 {
            return Some(item);
        }
        let is_first = *queue == NONE;
        let number = if is_first { self.open() } else { slab.fair(*queue) };
        let bucket = bucket(hash);
        let known = self.find(number, bucket);
        let back = if known == NONE {
            let mut first = NONE;
            let back = slab.push(&mut first, item, length, now);
            self.begin(number, Flow { first, bytes: length.into(), packets: 1, bucket, ..Flow::FREE });
            back
        } else {
            self.push(slab, known, item, length, now)
        };
        if is_first {
            *queue = self.choose(slab, number);
        }
        back
    }

    /// Puts a packet in a flow that is known.
    #[inline]
    fn push<T>(&mut self, slab: &mut Slab<T>, at: u32, item: T, length: u16, now: u64) -> Option<T> {
        let flow = self.flows.at_mut(at);
        let (rests, number) = (flow.first == NONE, flow.fair);
        let back = slab.push(&mut flow.first, item, length, now);
        flow.packets += 1;
        flow.bytes += u32::from(length);
        self.fairs.at_mut(number).packets += 1;
        if rests {
            self.wake(at);
        } else {
            self.fatten(at);
        }
        back
    }

    /// The chosen packet of a queue, whose flow has `first` now, is sent. Answers the next one.
    #[inline]
    pub(crate) fn sent<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>) -> u32 {
        let chosen = self.fairs.at(gone.fair).chosen;
        self.flows.at_mut(chosen).credit -= i32::from(gone.length);
        if self.leave(first, gone) { self.choose(slab, gone.fair) } else { NONE }
    }

    /// The same of one that is dropped.
    pub(crate) fn dropped<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>) -> u32 {
        match self.leave(first, gone) {
            true if first != NONE => {
                slab.set_fair(first, gone.fair);
                first
            }
            true => self.choose(slab, gone.fair),
            false => NONE,
        }
    }

    /// Takes a packet of the fattest flow of a queue that is not chosen, if there is a fat one.
    pub(crate) fn lose<T>(&mut self, slab: &mut Slab<T>, queue: u32) -> Option<T> {
        let fair = self.fairs.at_mut(slab.fair(queue));
        let band = fair.bands.checked_ilog2()?;
        let at = fair.fat.get(band as usize)?.first();
        let flow = self.flows.at_mut(at);
        let (item, length) = if flow.first == queue {
            slab.pop_second(flow.first)?
        } else {
            let length = slab.length(flow.first);
            (slab.pop_front(&mut flow.first)?, length)
        };
        flow.packets -= 1;
        flow.bytes = flow.bytes.saturating_sub(u32::from(length));
        fair.packets -= 1;
        self.fatten(at);
        Some(item)
    }

    /// Makes a queue fair in which packets wait: they are an old flow, as if all of them were full frames.
    pub(crate) fn adopt<T>(&mut self, slab: &mut Slab<T>, queue: u32) {
        let (number, packets) = (self.open(), slab.count(queue));
        let bytes = u32::from(packets) * QUANTUM;
        let at = self.begin(number, Flow { first: queue, bytes, packets, bucket: BEFORE, ..Flow::FREE });
        let fair = self.fairs.at_mut(number);
        (fair.packets, fair.chosen) = (packets.into(), at);
        fair.turn(&mut self.flows);
        self.fatten(at);
        slab.set_fair(queue, number);
    }

    /// Makes a fair queue a usual one: the chosen flow's packets come first, then those of the others, the new ones before the old.
    pub(crate) fn dissolve<T>(&mut self, slab: &mut Slab<T>, queue: u32) {
        let number = slab.fair(queue);
        slab.set_fair(queue, NONE);
        for list in [self.fairs.at(number).news, self.fairs.at(number).olds] {
            let mut at = list.first();
            while at != NONE {
                let flow = self.flows.at_mut(at);
                let first = std::mem::replace(&mut flow.first, NONE);
                let next = flow.turn.next();
                if first != NONE {
                    flow.packets = 0;
                    self.fatten(at);
                }
                if first != NONE && first != queue {
                    slab.append(queue, first);
                }
                at = next;
            }
        }
        self.close(number);
    }

    /// The chosen packet has left its flow, which has `first` now. Whether anything waits in its queue.
    #[inline(always)]
    fn leave(&mut self, first: u32, gone: &Gone<'_>) -> bool {
        let fair = self.fairs.at_mut(gone.fair);
        let chosen = fair.chosen;
        fair.packets = fair.packets.saturating_sub(1);
        if fair.packets == 0 {
            self.close(gone.fair);
            return false;
        }
        let flow = self.flows.at_mut(chosen);
        flow.first = first;
        if first == NONE {
            (flow.packets, flow.bytes) = (0, 0);
            self.rest(chosen, gone);
        } else {
            flow.packets = flow.packets.saturating_sub(1);
            flow.bytes = flow.bytes.saturating_sub(u32::from(gone.length));
            self.fatten(chosen);
        }
        true
    }

    /// The last packet of a flow has gone, which was not fat.
    #[inline(always)]
    fn rest(&mut self, at: u32, gone: &Gone<'_>) {
        if self.noted(at) {
            self.tell_emptied(at, gone);
        }
        let fair = self.fairs.at_mut(gone.fair);
        if fair.resting.is_empty() {
            self.links.push_back(&mut self.rests, gone.fair);
        }
        Others(&mut self.flows).push_back(&mut fair.resting, at);
    }

    #[cold]
    fn tell_emptied(&mut self, at: u32, gone: &Gone<'_>) {
        if let Some(manage) = gone.profile.manage(gone.class) {
            manage.emptied(self.state_mut(at), gone.now);
        }
    }

    /// A packet comes to a flow that rests.
    #[inline(always)]
    fn wake(&mut self, at: u32) {
        let number = self.flows.at(at).fair;
        let fair = self.fairs.at_mut(number);
        Others(&mut self.flows).remove(&mut fair.resting, at);
        if fair.resting.is_empty() {
            self.links.remove(&mut self.rests, number);
        }
    }

    /// The first packet of the flow whose turn it is, in a queue in which something waits.
    #[inline(always)]
    fn choose<T>(&mut self, slab: &mut Slab<T>, number: u32) -> u32 {
        loop {
            match self.fairs.at_mut(number).choose(&mut self.flows) {
                Choice::Packet(first) => {
                    slab.set_fair(first, number);
                    return first;
                }
                Choice::Forget(at) => self.forget(at),
                Choice::Nothing => return NONE,
            }
        }
    }

    /// Puts a flow among the fat ones where it belongs.
    #[inline(always)]
    fn fatten(&mut self, at: u32) {
        let flow = self.flows.at_mut(at);
        let to = flow.fatness();
        if flow.band != to {
            let from = std::mem::replace(&mut flow.band, to);
            let fair = flow.fair;
            self.fairs.at_mut(fair).refatten(&mut self.flows, at, from, to);
        }
    }
}
