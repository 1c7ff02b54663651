//! Which flows are known: found by their numbers, made known, and forgotten.

use weir_table::indexed::NONE;
use weir_table::links::{Linked, List};

use super::{Fair, Flow, Flows, Others, SPAN, Turns};
use crate::profile::QUANTUM;

impl Flows {
    /// The flow of a number in a queue; [`NONE`] where none is known.
    #[inline(always)]
    pub(super) fn find(&self, fair: u32, bucket: u16) -> u32 {
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

    /// The chain of a number: one of [`SPAN`] that lie side by side for a queue. Queues share them as evenly as can be, and not before there are many.
    #[inline(always)]
    fn chain(&self, fair: u32, bucket: u16) -> u32 {
        let place = fair.wrapping_mul(SPAN).wrapping_add(u32::from(bucket) % SPAN);
        // A power of two, or none at all.
        place & (self.chains.len() as u32).wrapping_sub(1)
    }

    /// Hints that a packet comes to a fair queue soon, or leaves it, whose flow has this number.
    #[inline(always)]
    pub(crate) fn prefetch(&self, fair: u32, hash: u32) {
        self.fairs.prefetch(fair);
        self.chains.prefetch(self.chain(fair, super::bucket(hash)));
    }

    /// Some time after [`Flows::prefetch`]: hints the same of the first flow in its chain.
    #[inline(always)]
    pub(crate) fn prefetch_flow(&self, fair: u32, hash: u32) {
        self.flows.prefetch(*self.chains.at(self.chain(fair, super::bucket(hash))));
    }

    /// Hints that the chosen packet of a fair queue leaves it soon.
    #[inline(always)]
    pub(crate) fn prefetch_fair(&self, fair: u32) {
        self.fairs.prefetch(fair);
    }

    /// Some time after [`Flows::prefetch_fair`]: hints the same of its flow, which is answered; if its queue is about to be empty, of all that it knows.
    #[inline(always)]
    pub(crate) fn prefetch_chosen(&self, fair: u32) -> u32 {
        let Fair { chosen, packets, .. } = *self.fairs.at(fair);
        self.flows.prefetch(chosen);
        if packets == 1 {
            self.prefetch_known(fair);
        }
        chosen
    }

    /// Some time after [`Flows::prefetch_chosen`]: hints that the flow behind is looked at, which is answered.
    #[inline(always)]
    pub(crate) fn prefetch_behind(&self, flow: u32) -> u32 {
        let behind = self.flows.at(flow).turn.next();
        self.flows.prefetch(behind);
        behind
    }

    /// The first packet of a flow.
    #[inline(always)]
    pub(crate) fn first(&self, flow: u32) -> u32 {
        self.flows.at(flow).first
    }

    /// Hints that a queue's flows are forgotten soon: those of other queues in the same chains, too.
    fn prefetch_known(&self, fair: u32) {
        let first = self.chain(fair, 0) as usize;
        let span = self.chains.items().iter().skip(first).take(SPAN as usize);
        span.filter(|at| **at != NONE).for_each(|at| self.flows.prefetch(*at));
    }

    /// A new flow of a queue, with a packet; its number, [`NONE`] where there is no room.
    #[inline(always)]
    pub(super) fn begin(&mut self, number: u32, flow: Flow) -> u32 {
        if self.free == NONE {
            self.forget(self.fairs.at(self.rests.first()).resting.first());
        }
        let (at, chain) = (self.free, self.chain(number, flow.bucket));
        let behind = std::mem::replace(self.chains.at_mut(chain), at);
        let place = self.flows.at_mut(at);
        self.free = place.turn.next();
        *place = Flow { fair: number, behind, credit: QUANTUM as i32, is_new: true, ..flow };
        let fair = self.fairs.at_mut(number);
        fair.packets += 1;
        Turns(&mut self.flows).push_back(&mut fair.news, at);
        self.flows.prefetch(self.free);
        at
    }

    /// Forgets a flow that rests; nothing where there is none.
    #[cold]
    pub(super) fn forget(&mut self, at: u32) {
        if at == NONE {
            return;
        }
        self.unchain(at);
        let Flow { fair: number, is_new, .. } = *self.flows.at(at);
        let fair = self.fairs.at_mut(number);
        Turns(&mut self.flows).remove(fair.list(is_new), at);
        Others(&mut self.flows).remove(&mut fair.resting, at);
        if fair.resting.is_empty() {
            self.links.remove(&mut self.rests, number);
        }
        let mut alone = List::EMPTY;
        Turns(&mut self.flows).push_back(&mut alone, at);
        self.release(alone);
    }

    /// Takes a flow out of its chain.
    #[inline(always)]
    fn unchain(&mut self, at: u32) {
        let Flow { fair, bucket, behind, .. } = *self.flows.at(at);
        let first = self.chains.at_mut(self.chain(fair, bucket));
        if *first == at {
            *first = behind;
            return;
        }
        let mut before = *first;
        while before != NONE && self.flows.at(before).behind != at {
            before = self.flows.at(before).behind;
        }
        self.flows.at_mut(before).behind = behind;
    }

    /// A list of flows that are known no longer.
    #[inline(always)]
    fn release(&mut self, list: List) {
        if !list.is_empty() {
            let last = list.last();
            Turns(&mut self.flows).link(last).set_next(self.free);
            self.free = list.first();
        }
    }

    /// A queue in which something is about to wait.
    #[inline(always)]
    pub(super) fn open(&mut self) -> u32 {
        let number = self.free_fair;
        let fair = self.fairs.at_mut(number);
        self.free_fair = std::mem::replace(&mut fair.packets, 0);
        number
    }

    /// Forgets the flows of a queue, in which nothing waits any more.
    #[inline]
    pub(super) fn close(&mut self, number: u32) {
        let Fair { news, olds, resting, .. } = *self.fairs.at(number);
        for list in [news, olds] {
            let mut at = list.first();
            while at != NONE {
                self.unchain(at);
                at = self.flows.at(at).turn.next();
            }
            self.release(list);
        }
        if !resting.is_empty() {
            self.links.remove(&mut self.rests, number);
        }
        let fair = self.fairs.at_mut(number);
        (fair.news, fair.olds, fair.resting) = (List::EMPTY, List::EMPTY, List::EMPTY);
        (fair.chosen, fair.packets) = (NONE, self.free_fair);
        self.free_fair = number;
    }
}
