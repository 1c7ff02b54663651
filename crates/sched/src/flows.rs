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
//! Most queues know few flows, and forget them all when nothing waits any more. Up to [`FEW`](few::FEW) are within their queue, in lines side by side. A queue that comes to know more has them [elsewhere](known)
//! until it is empty; as does one that loses a packet to make room.

mod few;
mod known;
mod many;
mod notes;
mod row;
mod turns;

use weir_table::indexed::{Indexed, NONE};
use weir_table::links::{Link, Linked, Links, List};

use self::few::{FEW, Few};
use self::notes::Notes;
use self::turns::{Choice, Fair, Others, Turns};
use crate::manage::{Departure, Manage, State};
use crate::profile::Profile;
#[cfg(doc)]
use crate::profile::QUANTUM;
use crate::slab::{Head, Slab};

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

/// How fat a flow of two packets or more is, which has so many bytes.
#[inline(always)]
fn band(bytes: u32) -> u8 {
    bytes.max(1).ilog2().saturating_sub(LEAST).min(BANDS as u32 - 1) as u8
}

/// Which flow of its queue it is that a number stands for.
#[inline(always)]
fn bucket(hash: u32) -> u16 {
    (hash % BUCKETS) as u16
}

/// A flow of a queue with many.
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
    /// What the management of its queue remembers of it, by its place; [`NONE`] where it remembers nothing.
    note: u32,
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
        note: NONE,
        behind: NONE,
        turn: Link::LOOSE,
        other: Link::LOOSE,
    };

    /// Where it belongs.
    #[inline(always)]
    fn fatness(&self) -> u8 {
        match self.packets {
            0 | 1 => NO_BAND,
            _ => band(self.bytes),
        }
    }
}

/// All flows of a scheduler.
#[derive(Debug)]
pub(crate) struct Flows {
    /// By the numbers of fair queues.
    fews: Indexed<Few>,
    /// The first fair queue in which nothing waits.
    free_fair: u32,
    /// Known flows of all queues.
    known: u32,
    rests: Rests,
    /// What managements remember of flows.
    notes: Notes,
    /// Of those queues that have many flows, by the same numbers.
    fairs: Indexed<Fair>,
    /// How many those are.
    many: u32,
    /// Their flows, of which there may be as many as of all.
    flows: Indexed<Flow>,
    /// The first flow that is not known.
    free: u32,
    chains: Indexed<u32>,
}

/// Queues with flows that rest, the one that has had such for longest first.
#[derive(Debug)]
struct Rests {
    list: List,
    links: Links,
}

impl Rests {
    /// Flows of a queue rest that did not before, or none do any more.
    #[inline(always)]
    fn settle(&mut self, number: u32, before: bool, now: bool) {
        match (before, now) {
            (false, true) => self.links.push_back(&mut self.list, number),
            (true, false) => self.links.remove(&mut self.list, number),
            (false, false) | (true, true) => {}
        }
    }
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
    pub(crate) const BYTES: usize = size_of::<Flow>()
        + size_of::<State>()
        + 2 * size_of::<u32>()
        + size_of::<Fair>()
        + size_of::<Few>()
        + Links::BYTES;

    /// For so many queues that hold no more than so many packets together.
    pub(crate) fn new(packets: u32, queues: u32) -> Flows {
        let queues = queues.min(packets);
        // The last one has none behind it.
        let few = |n: u32| Few::free(if n + 1 < queues { n + 1 } else { NONE });
        let chains = if packets == 0 { 0 } else { (2 * packets as usize).next_power_of_two().max(SPAN as usize) };
        let mut flows = Indexed::new(packets as usize, Flow::FREE);
        let mut free = List::EMPTY;
        (0..packets).for_each(|n| Turns(&mut flows).push_back(&mut free, n));
        Flows {
            fews: Indexed::from_fn(queues as usize, few, Few::FREE),
            free_fair: 0,
            known: 0,
            rests: Rests { list: List::EMPTY, links: Links::new(queues as usize) },
            notes: Notes::new(packets),
            fairs: Indexed::new(queues as usize, Fair::FREE),
            many: 0,
            flows,
            free: free.first(),
            chains: Indexed::new(chains, NONE),
        }
    }

    /// Whether there is room for any.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Packets in a fair queue.
    #[inline(always)]
    pub(crate) fn packets(&self, fair: u32) -> u32 {
        self.fews.at(fair).packets
    }

    /// Whether a packet that is chosen goes, of a class with fair queues, and its management comes to remember nothing by it. Where not, it is to be
    /// [asked](Flows::heeded).
    #[inline(always)]
    pub(crate) fn goes_unasked(&self, head: &Head, profile: &Profile, class: usize, now: u64) -> bool {
        if head.fair == NONE {
            // The class has become fair since it came: its queue becomes so when its user is looked at.
            return true;
        }
        let patience = profile.patience.get(class).copied().unwrap_or(0);
        let is_early = now.saturating_sub(head.since) < patience;
        self.note(head.fair) == NONE
            && (is_early || profile.manage(class).is_none_or(|manage| !manage.notes(&head.departure(now))))
    }

    /// What the management remembers of the flow whose packet is chosen, by its place; [`NONE`] where it remembers nothing.
    #[inline(always)]
    fn note(&self, fair: u32) -> u32 {
        let few = self.fews.at(fair);
        if few.is_over { self.flows.at(self.fairs.at(fair).chosen).note } else { few.chosen_note() }
    }

    /// What the management of a fair queue remembers of the flow whose packet is chosen; nothing where it remembers nothing, and the packet is nothing to it.
    #[inline(always)]
    pub(crate) fn heeded(&mut self, fair: u32, manage: &dyn Manage, departure: &Departure) -> Option<&mut State> {
        match self.note(fair) {
            NONE if !manage.notes(departure) => None,
            NONE => Some(self.remember(fair)),
            note => Some(self.notes.at_mut(note)),
        }
    }

    /// The management comes to remember something of the flow whose packet is chosen.
    #[cold]
    fn remember(&mut self, fair: u32) -> &mut State {
        let note = self.notes.take();
        let few = self.fews.at_mut(fair);
        if few.is_over {
            self.flows.at_mut(self.fairs.at(fair).chosen).note = note;
        } else {
            few.note(note);
        }
        self.notes.at_mut(note)
    }

    /// The last packet of the flow whose packet is chosen goes, and others wait.
    #[cold]
    fn tell_emptied(&mut self, gone: &Gone<'_>) {
        let note = self.note(gone.fair);
        if let Some(manage) = gone.profile.manage(gone.class) {
            manage.emptied(self.notes.at_mut(note), gone.now);
        }
    }

    /// Puts a packet in its flow. It is given back where there is no room.
    #[inline(never)]
    pub(crate) fn join<T>(&mut self, slab: &mut Slab<T>, queue: &mut u32, packet: Joining<T>) -> Option<T> {
        self.enter(slab, queue, slab.fair(*queue), packet)
    }

    /// [`Flows::join`] a queue whose number is known, if something waits in it.
    #[inline(always)]
    pub(crate) fn enter<T>(
        &mut self,
        slab: &mut Slab<T>,
        queue: &mut u32,
        number: u32,
        packet: Joining<T>,
    ) -> Option<T> {
        if slab.left() == 0 {
            return Some(packet.item);
        }
        if *queue == NONE {
            let number = self.open();
            let back = self.begin(slab, number, packet);
            *queue = self.fews.at_mut(number).choose(&mut self.notes);
            slab.set_fair(*queue, number);
            return back;
        }
        let few = self.fews.at_mut(number);
        if few.is_over {
            return self.join_many(slab, number, packet);
        }
        let Some(at) = few.find(bucket(packet.hash)) else { return self.begin(slab, number, packet) };
        let rested = few.rests();
        let back = few.push(slab, at, packet.item, packet.length, packet.now);
        self.rests.settle(number, rested, few.rests());
        back
    }

    /// A packet of a flow that is not known comes to a queue.
    #[inline(always)]
    fn begin<T>(&mut self, slab: &mut Slab<T>, number: u32, packet: Joining<T>) -> Option<T> {
        self.make_room();
        let few = self.fews.at_mut(number);
        if usize::from(few.known) == FEW {
            self.go_over(slab, number);
            return self.join_many(slab, number, packet);
        }
        let mut first = NONE;
        let back = slab.push(&mut first, packet.item, packet.length, packet.now);
        few.begin(bucket(packet.hash), first);
        self.known += 1;
        back
    }

    /// Makes room for another flow.
    #[inline(always)]
    fn make_room(&mut self) {
        if self.known as usize >= self.flows.len() {
            self.forget_longest();
        }
    }

    /// Forgets the flow that has rested for longest of the queue that has had such flows for longest.
    #[cold]
    fn forget_longest(&mut self) {
        let number = self.rests.list.first();
        if number == NONE {
            return;
        }
        if self.fews.at(number).is_over {
            return self.forget(self.fairs.at(number).resting.first());
        }
        let few = self.fews.at_mut(number);
        few.forget_one(&mut self.notes);
        self.known -= 1;
        self.rests.settle(number, true, few.rests());
    }

    /// The chosen packet of a queue, whose flow has `first` now, is sent. Answers the next one.
    #[inline(never)]
    pub(crate) fn sent<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>) -> u32 {
        self.send(slab, first, gone)
    }

    /// [`Flows::sent`] within its caller.
    #[inline(always)]
    pub(crate) fn send<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>) -> u32 {
        let few = self.fews.at_mut(gone.fair);
        if few.is_over {
            return self.sent_of_many(slab, first, gone);
        }
        few.pay(gone.length);
        self.left(slab, first, gone, true)
    }

    /// The same of one that is dropped.
    pub(crate) fn dropped<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>) -> u32 {
        match self.fews.at(gone.fair).is_over {
            true => self.dropped_of_many(slab, first, gone),
            false => self.left(slab, first, gone, false),
        }
    }

    /// The chosen packet of a queue with few flows has left its flow, which has `first` now. Answers the next one.
    #[inline(always)]
    fn left<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>, is_sent: bool) -> u32 {
        let few = self.fews.at_mut(gone.fair);
        let (known, rested) = (few.known, few.rests());
        few.packets = few.packets.saturating_sub(1);
        let next = if few.packets == 0 {
            few.clear(&mut self.notes, self.free_fair);
            self.free_fair = gone.fair;
            NONE
        } else {
            if first == NONE && few.chosen_note() != NONE {
                self.tell_emptied(gone);
            }
            let few = self.fews.at_mut(gone.fair);
            few.leave(slab, first, gone.length);
            let next = if is_sent || first == NONE { few.choose(&mut self.notes) } else { first };
            slab.set_fair(next, gone.fair);
            next
        };
        let few = self.fews.at(gone.fair);
        self.known -= u32::from(known - few.known);
        self.rests.settle(gone.fair, rested, few.rests());
        next
    }

    /// A queue in which something is about to wait.
    #[inline(always)]
    fn open(&mut self) -> u32 {
        let number = self.free_fair;
        let few = self.fews.at_mut(number);
        self.free_fair = std::mem::replace(&mut few.packets, 0);
        number
    }

    /// Hints that a packet comes to a fair queue soon, or leaves it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, fair: u32) {
        self.fews.prefetch_lines(fair, Few::LINES);
    }

    /// Whether any queue has many flows.
    #[inline(always)]
    pub(crate) fn any_many(&self) -> bool {
        self.many > 0
    }

    /// Whether a queue has many flows.
    #[inline(always)]
    pub(crate) fn has_many(&self, fair: u32) -> bool {
        self.fews.at(fair).is_over
    }

    /// Some time after [`Flows::prefetch`]: the packet of a queue with few flows that is likely to be chosen next.
    #[inline(always)]
    pub(crate) fn next_first(&self, fair: u32) -> Option<u32> {
        let few = self.fews.at(fair);
        if few.has_more() {
            self.fews.prefetch_lines(fair, Few::ALL_LINES);
        }
        (!few.is_over).then(|| few.next_first())
    }
}
