//! Which flows are known of queues with many: found by their numbers, made known, and forgotten.

use weir_table::indexed::NONE;
use weir_table::links::{Linked, List};

use super::{Fair, Flow, Flows, Others, SPAN, Turns};

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
    pub(super) fn chain(&self, fair: u32, bucket: u16) -> u32 {
        let place = fair.wrapping_mul(SPAN).wrapping_add(u32::from(bucket) % SPAN);
        // A power of two, or none at all.
        place & (self.chains.len() as u32).wrapping_sub(1)
    }

    /// Hints that a queue's flows are forgotten soon: those of other queues in the same chains, too.
    pub(super) fn prefetch_known(&self, fair: u32) {
        let first = self.chain(fair, 0) as usize;
        let span = self.chains.items().iter().skip(first).take(SPAN as usize);
        span.filter(|at| **at != NONE).for_each(|at| self.flows.prefetch(*at));
    }

    /// Another flow of a queue; its number. There is room for it: as many as there may be in all queues.
    #[inline(always)]
    pub(super) fn place(&mut self, number: u32, flow: Flow) -> u32 {
        let (at, chain) = (self.free, self.chain(number, flow.bucket));
        let behind = std::mem::replace(self.chains.at_mut(chain), at);
        let to = self.flows.at_mut(at);
        self.free = to.turn.next();
        let is_new = flow.is_new;
        *to = Flow { fair: number, behind, ..flow };
        let fair = self.fairs.at_mut(number);
        Turns(&mut self.flows).push_back(fair.list(is_new), at);
        self.flows.prefetch(self.free);
        at
    }

    /// Forgets a flow that rests.
    #[cold]
    pub(super) fn forget(&mut self, at: u32) {
        self.unchain(at);
        let Flow { fair: number, is_new, note, .. } = *self.flows.at(at);
        self.notes.give_back(note);
        let fair = self.fairs.at_mut(number);
        Turns(&mut self.flows).remove(fair.list(is_new), at);
        Others(&mut self.flows).remove(&mut fair.resting, at);
        self.rests.settle(number, true, !fair.resting.is_empty());
        self.known -= 1;
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

    /// Forgets the flows of a queue, in which nothing waits any more.
    #[cold]
    pub(super) fn close_many(&mut self, number: u32) {
        let Fair { news, olds, resting, .. } = *self.fairs.at(number);
        for list in [news, olds] {
            let mut at = list.first();
            while at != NONE {
                self.unchain(at);
                self.known -= 1;
                self.notes.give_back(self.flows.at(at).note);
                at = self.flows.at(at).turn.next();
            }
            self.release(list);
        }
        self.rests.settle(number, !resting.is_empty(), false);
        *self.fairs.at_mut(number) = Fair::FREE;
        self.many -= 1;
        self.fews.at_mut(number).clear(&mut self.notes, self.free_fair);
        self.free_fair = number;
    }
}
