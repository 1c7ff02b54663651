//! Fair queues with many flows: what packets do to them, and how a queue comes to be one.

use weir_table::indexed::NONE;
use weir_table::links::Linked;

use super::{BEFORE, Choice, FEW, Flow, Flows, Gone, Joining, Others, bucket};
use crate::profile::QUANTUM;
use crate::slab::Slab;

impl Flows {
    /// Has the flows of a queue with few elsewhere from now on: all stand where they stood.
    #[cold]
    pub(super) fn go_over<T>(&mut self, slab: &Slab<T>, number: u32) {
        self.many += 1;
        let few = self.fews.at(number).clone();
        let mut numbers = [NONE; FEW];
        for (n, flow) in few.members(slab) {
            let at = self.place(number, flow);
            numbers[usize::from(n) % FEW] = at;
        }
        let number_of = |n: u8| numbers[usize::from(n) % FEW];
        for at in few.others().map(number_of) {
            if self.flows.at(at).first == NONE {
                Others(&mut self.flows).push_back(&mut self.fairs.at_mut(number).resting, at);
            } else {
                self.fatten(at);
            }
        }
        self.fairs.at_mut(number).chosen = numbers[usize::from(few.chosen()) % FEW];
        self.fews.at_mut(number).go_over(&mut self.notes);
    }

    /// Makes a queue fair in which packets wait: they are an old flow, as if all of them were full frames.
    pub(crate) fn adopt<T>(&mut self, slab: &mut Slab<T>, queue: u32) {
        self.make_room();
        let (number, packets) = (self.open(), slab.count(queue));
        self.go_over(slab, number);
        let bytes = u32::from(packets) * QUANTUM;
        let flow = Flow { first: queue, bytes, packets, bucket: BEFORE, credit: QUANTUM as i32, ..Flow::FREE };
        let at = self.place(number, flow);
        self.known += 1;
        self.fews.at_mut(number).packets = packets.into();
        self.fairs.at_mut(number).chosen = at;
        self.fatten(at);
        slab.set_fair(queue, number);
    }

    /// Makes a fair queue a usual one: the chosen flow's packets come first, then those of the others, the new ones before the old.
    pub(crate) fn dissolve<T>(&mut self, slab: &mut Slab<T>, queue: u32) {
        let number = slab.fair(queue);
        self.have_many(slab, number);
        slab.set_fair(queue, NONE);
        for list in [self.fairs.at(number).news, self.fairs.at(number).olds] {
            let mut at = list.first();
            while at != NONE {
                let flow = self.flows.at(at);
                if flow.first != NONE && flow.first != queue {
                    slab.append(queue, flow.first);
                }
                at = flow.turn.next();
            }
        }
        self.close_many(number);
    }

    fn have_many<T>(&mut self, slab: &Slab<T>, number: u32) {
        if !self.fews.at(number).is_over {
            self.go_over(slab, number);
        }
    }

    /// Takes a packet of the fattest flow of a queue that is not chosen, if there is a fat one.
    pub(crate) fn lose<T>(&mut self, slab: &mut Slab<T>, queue: u32) -> Option<T> {
        let number = slab.fair(queue);
        self.have_many(slab, number);
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
        self.fews.at_mut(number).packets -= 1;
        self.fatten(at);
        Some(item)
    }

    /// Puts a packet in its flow. It is given back where there is no room.
    #[inline(never)]
    pub(super) fn join_many<T>(&mut self, slab: &mut Slab<T>, number: u32, packet: Joining<T>) -> Option<T> {
        let Joining { item, length, now, hash } = packet;
        let bucket = bucket(hash);
        let known = self.find(number, bucket);
        self.fews.at_mut(number).packets += 1;
        if known != NONE {
            return self.push(slab, known, item, length, now);
        }
        self.make_room();
        let mut first = NONE;
        let back = slab.push(&mut first, item, length, now);
        let (bytes, credit) = (length.into(), QUANTUM as i32);
        self.place(number, Flow { first, bytes, packets: 1, bucket, credit, is_new: true, ..Flow::FREE });
        self.known += 1;
        back
    }

    /// Puts a packet in a flow that is known.
    #[inline(always)]
    fn push<T>(&mut self, slab: &mut Slab<T>, at: u32, item: T, length: u16, now: u64) -> Option<T> {
        let flow = self.flows.at_mut(at);
        let rests = flow.first == NONE;
        let back = slab.push(&mut flow.first, item, length, now);
        flow.packets += 1;
        flow.bytes += u32::from(length);
        if rests {
            self.wake(at);
        } else {
            self.fatten(at);
        }
        back
    }

    /// The chosen packet of a queue, whose flow has `first` now, is sent. Answers the next one.
    #[inline(never)]
    pub(super) fn sent_of_many<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>) -> u32 {
        let chosen = self.fairs.at(gone.fair).chosen;
        self.flows.at_mut(chosen).credit -= i32::from(gone.length);
        if self.leave(first, gone) { self.choose(slab, gone.fair) } else { NONE }
    }

    /// The same of one that is dropped.
    pub(super) fn dropped_of_many<T>(&mut self, slab: &mut Slab<T>, first: u32, gone: &Gone<'_>) -> u32 {
        match self.leave(first, gone) {
            true if first != NONE => {
                slab.set_fair(first, gone.fair);
                first
            }
            true => self.choose(slab, gone.fair),
            false => NONE,
        }
    }

    /// The chosen packet has left its flow, which has `first` now. Whether anything waits in its queue.
    #[inline(always)]
    fn leave(&mut self, first: u32, gone: &Gone<'_>) -> bool {
        let few = self.fews.at_mut(gone.fair);
        few.packets = few.packets.saturating_sub(1);
        if few.packets == 0 {
            self.close_many(gone.fair);
            return false;
        }
        let chosen = self.fairs.at(gone.fair).chosen;
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
        if self.flows.at(at).note != NONE {
            self.tell_emptied(gone);
        }
        let fair = self.fairs.at_mut(gone.fair);
        self.rests.settle(gone.fair, !fair.resting.is_empty(), true);
        Others(&mut self.flows).push_back(&mut fair.resting, at);
    }

    /// A packet comes to a flow that rests.
    #[inline(always)]
    fn wake(&mut self, at: u32) {
        let number = self.flows.at(at).fair;
        let fair = self.fairs.at_mut(number);
        Others(&mut self.flows).remove(&mut fair.resting, at);
        self.rests.settle(number, true, !fair.resting.is_empty());
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

    /// Hints that a packet comes soon to a queue with many flows, which has this number.
    #[inline(always)]
    pub(crate) fn prefetch_chain(&self, fair: u32, hash: u32) {
        self.fairs.prefetch(fair);
        self.chains.prefetch(self.chain(fair, bucket(hash)));
    }

    /// Some time after [`Flows::prefetch_chain`]: hints the same of the first flow in its chain.
    #[inline(always)]
    pub(crate) fn prefetch_flow(&self, fair: u32, hash: u32) {
        self.flows.prefetch(*self.chains.at(self.chain(fair, bucket(hash))));
    }

    /// Hints that the chosen packet of a queue with many flows leaves it soon.
    pub(crate) fn prefetch_many(&self, fair: u32) {
        self.fairs.prefetch(fair);
    }

    /// Some time after [`Flows::prefetch_many`]: hints the same of its flow; if its queue is about to be empty, of all that it knows.
    pub(crate) fn prefetch_chosen(&self, fair: u32) {
        self.flows.prefetch(self.fairs.at(fair).chosen);
        if self.packets(fair) == 1 {
            self.prefetch_known(fair);
        }
    }

    /// Some time after [`Flows::prefetch_chosen`]: hints that the flow behind is looked at.
    pub(crate) fn prefetch_behind(&self, fair: u32) {
        self.flows.prefetch(self.behind(fair));
    }

    /// Some time after [`Flows::prefetch_behind`]: the first packet of that flow.
    pub(crate) fn first_behind(&self, fair: u32) -> u32 {
        self.flows.at(self.behind(fair)).first
    }

    fn behind(&self, fair: u32) -> u32 {
        self.flows.at(self.fairs.at(fair).chosen).turn.next()
    }
}
