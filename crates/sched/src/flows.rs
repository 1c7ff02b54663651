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
//! 6. When nothing waits in a queue any more, its flows are forgotten. Where there is no room for a flow, that is forgotten, of all queues, of which
//!    nothing has waited for longest.
//!
//! Choosing ahead is what Linux does where a rate is above `fq_codel`: it takes the packet out before that may go. There is room for as many flows as packets,
//! so that there is one whenever a packet is taken: either all flows have packets, and fewer than there may be, or one can be forgotten.

use weir_table::indexed::{Indexed, NONE};
use weir_table::links::{Links, List};

use crate::manage::{Manage, State};
use crate::profile::QUANTUM;
use crate::slab::Slab;

/// Flows of a queue that are told apart.
pub const BUCKETS: u32 = 1024;

/// What waited in a queue before it became fair is a flow of its own.
const BEFORE: u16 = BUCKETS as u16;

/// Powers of two by which fat flows are told apart: from [`LEAST`] on, and above the last all are alike.
const BANDS: usize = 16;
const LEAST: u32 = 7;
const NO_BAND: u8 = u8::MAX;

/// A flow.
#[derive(Clone, Debug)]
struct Flow {
    /// What the management of its queue remembers of it.
    state: State,
    /// Its packets, by the first; [`NONE`] while it rests.
    first: u32,
    /// Its queue.
    fair: u32,
    /// The next flow in its chain; of one that is not known, the next of those.
    behind: u32,
    bytes: u32,
    credit: i32,
    packets: u16,
    bucket: u16,
    is_new: bool,
    /// Among which of the fat flows of its queue it is.
    band: u8,
}

/// A line of memory for a flow.
const _: () = assert!(size_of::<Flow>() == 64 && size_of::<Fair>() <= 160);

impl Flow {
    const FREE: Flow = Flow {
        state: [0; 4],
        first: NONE,
        fair: NONE,
        behind: NONE,
        bytes: 0,
        credit: 0,
        packets: 0,
        bucket: 0,
        is_new: false,
        band: NO_BAND,
    };

    /// Where it belongs.
    fn fatness(&self) -> u8 {
        match self.packets {
            0 | 1 => NO_BAND,
            _ => self.bytes.max(1).ilog2().saturating_sub(LEAST).min(BANDS as u32 - 1) as u8,
        }
    }
}

/// A fair queue in which something waits.
#[derive(Clone, Debug)]
struct Fair {
    news: List,
    olds: List,
    /// Packets of all flows; of one in which nothing waits, the next of those.
    packets: u32,
    /// Where its chains begin: those of its flows are next to each other, so that no two of them are in one.
    base: u32,
    /// Bit b: there are fat flows of that power of two.
    bands: u32,
    fat: [List; BANDS],
}

impl Fair {
    const FREE: Fair =
        Fair { news: List::EMPTY, olds: List::EMPTY, packets: NONE, base: 0, bands: 0, fat: [List::EMPTY; BANDS] };
}

/// All flows of a scheduler.
#[derive(Debug)]
pub(crate) struct Flows {
    flows: Indexed<Flow>,
    /// The first flow that is not known.
    free: u32,
    /// In the lists of new and old flows.
    links: Links,
    /// In the lists of fat flows, or of those that rest.
    others: Links,
    /// Flows of which nothing waits, the one that has rested for longest first.
    resting: List,
    chains: Indexed<u32>,
    fairs: Indexed<Fair>,
    /// The first fair queue in which nothing waits.
    free_fair: u32,
    /// What outsiders do not know of where chains begin.
    seed: u32,
}

/// A packet that joins a flow.
pub(crate) struct Joining<T> {
    pub(crate) item: T,
    pub(crate) length: u16,
    pub(crate) now: u64,
    /// A number that all packets of its flow have.
    pub(crate) hash: u32,
}

/// The packet that is chosen from a flow has left it: which flow, its bytes, and what manages the queue.
pub(crate) struct Gone<'a> {
    pub(crate) flow: u32,
    pub(crate) length: u16,
    pub(crate) manage: Option<&'a dyn Manage>,
    pub(crate) now: u64,
}

impl Flows {
    /// Bytes for each packet that may wait.
    pub(crate) const BYTES: usize = size_of::<Flow>() + 2 * Links::BYTES + 2 * size_of::<u32>() + size_of::<Fair>();

    /// For so many queues that hold no more than so many packets together.
    pub(crate) fn new(packets: u32, queues: u32, seed: u32) -> Flows {
        // The last one has none behind it.
        let behind = |n: u32, all: u32| if n + 1 < all { n + 1 } else { NONE };
        let queues = queues.min(packets);
        let flow = |n| Flow { behind: behind(n, packets), ..Flow::FREE };
        let fair = |n| Fair { packets: behind(n, queues), ..Fair::FREE };
        let chains = if packets == 0 { 0 } else { (2 * packets as usize).next_power_of_two().max(BUCKETS as usize) };
        let links = || Links::new(packets as usize);
        Flows {
            flows: Indexed::from_fn(packets as usize, flow, Flow::FREE),
            free: 0,
            links: links(),
            others: links(),
            resting: List::EMPTY,
            chains: Indexed::new(chains, NONE),
            fairs: Indexed::from_fn(queues as usize, fair, Fair::FREE),
            free_fair: 0,
            seed,
        }
    }

    /// Whether there is room for any.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Packets in the queue of a flow.
    pub(crate) fn packets(&self, flow: u32) -> u32 {
        self.fairs.at(self.flows.at(flow).fair).packets
    }

    /// What the management remembers of a flow.
    pub(crate) fn state_mut(&mut self, flow: u32) -> &mut State {
        &mut self.flows.at_mut(flow).state
    }

    /// Puts a packet in its flow, in a queue whose number among all is `place`. It is given back where there is no room.
    pub(crate) fn join<T>(&mut self, slab: &mut Slab<T>, queue: &mut u32, place: u32, packet: Joining<T>) -> Option<T> {
        let Joining { item, length, now, hash } = packet;
        if slab.left() == 0 {
            return Some(item);
        }
        let is_first = *queue == NONE;
        let fair = if is_first { self.open(place) } else { self.flows.at(slab.flow(*queue)).fair };
        let bucket = (hash % BUCKETS) as u16;
        let known = self.find(fair, bucket);
        let at = if known != NONE { known } else { self.begin(fair, bucket) };
        let flow = self.flows.at_mut(at);
        let back = slab.push(&mut flow.first, item, length, now);
        flow.packets += 1;
        flow.bytes += u32::from(length);
        if known != NONE && flow.packets == 1 {
            self.others.remove(&mut self.resting, at);
        }
        self.fairs.at_mut(fair).packets += 1;
        self.fatten(at);
        if is_first {
            *queue = self.choose(slab, fair);
        }
        back
    }

    /// The chosen packet of a queue, whose flow has `first` now, is sent. Answers the next one.
    #[inline(never)]
    pub(crate) fn sent<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>) -> u32 {
        self.flows.at_mut(gone.flow).credit -= i32::from(gone.length);
        match self.leave(first, gone) {
            Some(fair) => self.choose(slab, fair),
            None => NONE,
        }
    }

    /// The same of one that is dropped.
    pub(crate) fn dropped<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>) -> u32 {
        match self.leave(first, gone) {
            Some(_) if first != NONE => {
                slab.set_flow(first, gone.flow);
                first
            }
            Some(fair) => self.choose(slab, fair),
            None => NONE,
        }
    }

    /// Takes a packet of the fattest flow of a queue that is not chosen, if there is a fat one.
    pub(crate) fn lose<T>(&mut self, slab: &mut Slab<T>, queue: u32) -> Option<T> {
        let number = self.flows.at(slab.flow(queue)).fair;
        let fair = self.fairs.at_mut(number);
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
    pub(crate) fn adopt<T>(&mut self, slab: &mut Slab<T>, queue: u32, place: u32) {
        let (fair, packets) = (self.open(place), slab.count(queue));
        let at = self.begin(fair, BEFORE);
        let flow = self.flows.at_mut(at);
        (flow.first, flow.packets, flow.bytes) = (queue, packets, u32::from(packets) * QUANTUM);
        flow.is_new = false;
        let fair = self.fairs.at_mut(fair);
        fair.turn(&mut self.links, at, true);
        fair.packets = packets.into();
        self.fatten(at);
        slab.set_flow(queue, at);
    }

    /// Makes a fair queue a usual one: the chosen flow's packets come first, then those of the others, the new ones before the old.
    pub(crate) fn dissolve<T>(&mut self, slab: &mut Slab<T>, queue: u32) {
        let number = self.flows.at(slab.flow(queue)).fair;
        slab.set_flow(queue, NONE);
        for list in [self.fairs.at(number).news, self.fairs.at(number).olds] {
            let mut at = list.first();
            while at != NONE {
                let flow = self.flows.at_mut(at);
                let first = std::mem::replace(&mut flow.first, NONE);
                if first != NONE {
                    flow.packets = 0;
                    self.fatten(at);
                    self.others.push_back(&mut self.resting, at);
                }
                if first != NONE && first != queue {
                    slab.append(queue, first);
                }
                at = self.links.next(at);
            }
        }
        self.close(number);
    }

    /// A packet has left a flow, which has `first` now. Its queue; `None` if nothing waits there any more.
    fn leave(&mut self, first: u32, gone: &Gone<'_>) -> Option<u32> {
        let flow = self.flows.at_mut(gone.flow);
        flow.first = first;
        flow.packets = flow.packets.saturating_sub(1);
        flow.bytes = flow.bytes.saturating_sub(u32::from(gone.length));
        let number = flow.fair;
        self.fatten(gone.flow);
        if first == NONE {
            self.rest(gone);
        }
        let fair = self.fairs.at_mut(number);
        fair.packets = fair.packets.saturating_sub(1);
        if fair.packets == 0 {
            self.close(number);
            return None;
        }
        Some(number)
    }

    /// The last packet of a flow has gone.
    fn rest(&mut self, gone: &Gone<'_>) {
        let flow = self.flows.at_mut(gone.flow);
        flow.bytes = 0;
        if let Some(manage) = gone.manage {
            manage.emptied(&mut flow.state, gone.now);
        }
        self.others.push_back(&mut self.resting, gone.flow);
    }

    /// The first packet of the flow whose turn it is, in a queue in which something waits.
    fn choose<T>(&mut self, slab: &mut Slab<T>, number: u32) -> u32 {
        loop {
            let (at, is_new) = self.fairs.at(number).first();
            let flow = self.flows.at_mut(at);
            if at == NONE || flow.credit > 0 && flow.first != NONE {
                slab.set_flow(flow.first, at);
                return flow.first;
            }
            if flow.credit <= 0 {
                flow.credit += QUANTUM as i32;
            } else if !is_new {
                self.forget(at);
                continue;
            }
            flow.is_new = false;
            self.fairs.at_mut(number).turn(&mut self.links, at, is_new);
        }
    }

    /// Puts a flow among the fat ones where it belongs.
    #[inline(always)]
    fn fatten(&mut self, at: u32) {
        let flow = self.flows.at_mut(at);
        let to = flow.fatness();
        if flow.band != to {
            let from = std::mem::replace(&mut flow.band, to);
            self.fairs.at_mut(flow.fair).refatten(&mut self.others, at, from, to);
        }
    }

    /// The flow of a number in a queue; [`NONE`] where none is known.
    fn find(&self, fair: u32, bucket: u16) -> u32 {
        let mut at = *self.chains.at(self.chain(fair, bucket));
        while at != NONE {
            let flow = self.flows.at(at);
            if flow.fair == fair && flow.bucket == bucket {
                break;
            }
            at = flow.behind;
        }
        at
    }

    fn chain(&self, fair: u32, bucket: u16) -> u32 {
        // A power of two, or none at all.
        self.fairs.at(fair).base.wrapping_add(bucket.into()) & (self.chains.len() as u32).wrapping_sub(1)
    }

    /// A new flow of a queue; [`NONE`] where there is no room.
    fn begin(&mut self, number: u32, bucket: u16) -> u32 {
        if self.free == NONE {
            let longest = self.resting.first();
            if longest == NONE {
                return NONE;
            }
            self.forget(longest);
        }
        let (at, chain) = (self.free, self.chain(number, bucket));
        let flow = self.flows.at_mut(at);
        self.free = flow.behind;
        let behind = std::mem::replace(self.chains.at_mut(chain), at);
        let credit = QUANTUM as i32;
        *flow = Flow { fair: number, behind, credit, bucket, is_new: true, ..Flow::FREE };
        self.links.push_back(&mut self.fairs.at_mut(number).news, at);
        at
    }

    /// Forgets a flow that rests.
    fn forget(&mut self, at: u32) {
        let Flow { fair, bucket, is_new, behind, .. } = *self.flows.at(at);
        self.others.remove(&mut self.resting, at);
        self.links.remove(self.fairs.at_mut(fair).list(is_new), at);
        let chain = self.chain(fair, bucket);
        let mut before = *self.chains.at(chain);
        if before == at {
            *self.chains.at_mut(chain) = behind;
        } else {
            while before != NONE && self.flows.at(before).behind != at {
                before = self.flows.at(before).behind;
            }
            self.flows.at_mut(before).behind = behind;
        }
        *self.flows.at_mut(at) = Flow { behind: self.free, ..Flow::FREE };
        self.free = at;
    }

    /// A queue in which something is about to wait.
    fn open(&mut self, place: u32) -> u32 {
        let number = self.free_fair;
        let fair = self.fairs.at_mut(number);
        self.free_fair = fair.packets;
        // The finalizer of MurmurHash3.
        let base = place ^ self.seed;
        let base = (base ^ base >> 16).wrapping_mul(0x85eb_ca6b);
        let base = (base ^ base >> 13).wrapping_mul(0xc2b2_ae35);
        *fair = Fair { packets: 0, base: base ^ base >> 16, ..Fair::FREE };
        number
    }

    /// Forgets the flows of a queue, all of which rest.
    fn close(&mut self, number: u32) {
        loop {
            let (at, _) = self.fairs.at(number).first();
            if at == NONE {
                break;
            }
            self.forget(at);
        }
        *self.fairs.at_mut(number) = Fair { packets: self.free_fair, ..Fair::FREE };
        self.free_fair = number;
    }
}

impl Fair {
    /// The flow whose turn it may be, and whether it is a new one.
    #[inline(always)]
    fn first(&self) -> (u32, bool) {
        match self.news.first() {
            NONE => (self.olds.first(), false),
            first => (first, true),
        }
    }

    fn list(&mut self, is_new: bool) -> &mut List {
        if is_new { &mut self.news } else { &mut self.olds }
    }

    /// A flow goes behind the old ones.
    fn turn(&mut self, links: &mut Links, at: u32, was_new: bool) {
        links.remove(self.list(was_new), at);
        links.push_back(&mut self.olds, at);
    }

    /// A flow is as fat as others are than before.
    fn refatten(&mut self, links: &mut Links, at: u32, from: u8, to: u8) {
        if let Some(list) = self.fat.get_mut(usize::from(from)) {
            links.remove(list, at);
            if list.is_empty() {
                self.bands &= !(1 << from);
            }
        }
        if let Some(list) = self.fat.get_mut(usize::from(to)) {
            links.push_back(list, at);
            self.bands |= 1 << to;
        }
    }
}
