//! Fair queues as they are defined, in the words of RFC 8290: lists of new and old flows, searched from end to end.

use weir_sched::manage::{Manage, State};

use super::Model;
use super::parts::{User, Waiting};

const QUANTUM: i64 = 1600;

/// What waited before a queue became fair.
const BEFORE: u32 = 1024;

#[derive(Clone, Debug)]
pub(super) struct Flow {
    number: u32,
    pub(super) state: State,
    credit: i64,
    /// What its packets weigh; of what waited before, each at first as much as a full frame.
    bytes: i64,
    /// When it came to be as fat as it is, and how fat that is.
    fat: Option<(u32, u64)>,
    /// When its last packet went, while none waits.
    rests: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Fair {
    new: Vec<Flow>,
    old: Vec<Flow>,
    /// Since when there are flows in it that rest.
    rests: Option<u64>,
}

impl Fair {
    fn all(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.new.iter_mut().chain(&mut self.old)
    }

    pub(super) fn flow(&mut self, number: u32) -> &mut Flow {
        self.all().find(|flow| flow.number == number).unwrap()
    }

    fn known(&self) -> usize {
        self.new.len() + self.old.len()
    }

    /// Whether flows rest may have changed.
    fn refresh(&mut self, step: u64) {
        let any = self.all().any(|flow| flow.rests.is_some());
        self.rests = any.then(|| self.rests.unwrap_or(step));
    }
}

/// How fat so many bytes are.
fn power(bytes: i64) -> u32 {
    bytes.max(1).ilog2().clamp(7, 22)
}

impl User {
    /// Packets of the flow whose packet is first.
    pub(super) fn of_flow(&self, queue: usize) -> usize {
        let flow = self.queues[queue][0].flow;
        self.queues[queue].iter().filter(|waiting| self.fair[queue].is_none() || waiting.flow == flow).count()
    }

    /// Something has come to a flow of a fair queue, or left it.
    fn weigh(&mut self, queue: usize, number: u32, bytes: i64, steps: &mut u64) {
        let packets = self.queues[queue].iter().filter(|waiting| waiting.flow == number).count();
        *steps += 1;
        let flow = self.fair[queue].as_mut().unwrap().flow(number);
        flow.bytes = if packets == 0 { 0 } else { (flow.bytes + bytes).max(0) };
        flow.rests = (packets == 0).then_some(*steps);
        let now = (packets > 1).then(|| power(flow.bytes));
        if now != flow.fat.map(|(power, _)| power) {
            flow.fat = now.map(|power| (power, *steps));
        }
        self.fair[queue].as_mut().unwrap().refresh(*steps);
    }

    /// Takes the first packet, which is sent or dropped, of a queue with flows or of one without.
    pub(super) fn take_from_flow(
        &mut self,
        queue: usize,
        is_sent: bool,
        manage: Option<&dyn Manage>,
        steps: &mut u64,
        now: u64,
    ) -> Waiting {
        let taken = self.queues[queue].pop_front().unwrap();
        if self.fair[queue].is_none() {
            return taken;
        }
        let number = taken.flow;
        self.weigh(queue, number, -i64::from(taken.length), steps);
        let flow = self.fair[queue].as_mut().unwrap().flow(number);
        if is_sent {
            flow.credit -= i64::from(taken.length);
        }
        let is_empty = flow.rests.is_some();
        if let Some(manage) = manage.filter(|_| is_empty && flow.state != State::default()) {
            manage.emptied(&mut flow.state, now);
        }
        if self.queues[queue].is_empty() {
            self.fair[queue] = None;
        } else if is_sent || is_empty {
            self.choose(queue);
        } else {
            self.put_first(queue, number);
        }
        taken
    }

    /// RFC 8290, section 4.2.
    fn choose(&mut self, queue: usize) {
        let fair = self.fair[queue].as_mut().unwrap();
        let number = loop {
            let is_new = !fair.new.is_empty();
            let mut flow = if is_new { fair.new.remove(0) } else { fair.old.remove(0) };
            if flow.credit <= 0 {
                flow.credit += QUANTUM;
                fair.old.push(flow);
            } else if flow.rests.is_none() {
                let number = flow.number;
                if is_new {
                    fair.new.insert(0, flow)
                } else {
                    fair.old.insert(0, flow)
                }
                break number;
            } else if is_new {
                fair.old.push(flow);
            }
        };
        fair.refresh(0); // flows may have been forgotten
        self.put_first(queue, number);
    }

    fn put_first(&mut self, queue: usize, number: u32) {
        let place = self.queues[queue].iter().position(|waiting| waiting.flow == number).unwrap();
        let chosen = self.queues[queue].remove(place).unwrap();
        self.queues[queue].push_front(chosen);
    }

    /// The fattest flow of a fair queue loses a packet that is not chosen.
    pub(super) fn lose(&mut self, queue: usize, steps: &mut u64) -> Option<Waiting> {
        let fair = self.fair[queue].as_mut()?;
        let fat = fair.all().filter_map(|flow| Some((flow.fat?, flow.number)));
        let (_, number) = fat.max_by_key(|((power, since), _)| (*power, u64::MAX - since))?;
        let place = self.queues[queue].iter().skip(1).position(|waiting| waiting.flow == number).unwrap() + 1;
        let lost = self.queues[queue].remove(place).unwrap();
        self.weigh(queue, number, -i64::from(lost.length), steps);
        Some(lost)
    }

    /// A queue in which something waits becomes fair, or is so no longer.
    pub(super) fn reorder(&mut self, queue: usize, is_fair: bool, steps: &mut u64) {
        if is_fair {
            let all = &mut self.queues[queue];
            all.iter_mut().for_each(|waiting| waiting.flow = BEFORE);
            let bytes = all.len() as i64 * QUANTUM;
            let flow = Flow { number: BEFORE, state: [0; 4], credit: QUANTUM, bytes: 0, fat: None, rests: None };
            self.fair[queue] = Some(Fair { new: Vec::new(), old: vec![flow], rests: None });
            return self.weigh(queue, BEFORE, bytes, steps);
        }
        let fair = self.fair[queue].take().unwrap();
        let chosen = self.queues[queue][0].flow;
        let place = |number| fair.new.iter().chain(&fair.old).position(|flow| flow.number == number).unwrap() + 1;
        let order = |waiting: &Waiting| if waiting.flow == chosen { 0 } else { place(waiting.flow) };
        self.queues[queue].make_contiguous().sort_by_key(order);
    }
}

impl Model {
    /// A packet comes to a fair queue, or to one that becomes so with it.
    pub(super) fn join_flow(&mut self, at: usize, queue: usize, waiting: Waiting) {
        let number = waiting.flow;
        let known = self.users[at].fair[queue].get_or_insert_default().all().any(|flow| flow.number == number);
        if !known {
            self.forget_one();
            let flow = Flow { number, state: [0; 4], credit: QUANTUM, bytes: 0, fat: None, rests: None };
            self.users[at].fair[queue].as_mut().unwrap().new.push(flow);
        }
        let length = i64::from(waiting.length);
        self.users[at].queues[queue].push_back(waiting);
        let mut steps = self.steps;
        self.users[at].weigh(queue, number, length, &mut steps);
        self.steps = steps;
    }

    /// Where as many flows are known as there are buffers, one that rests is forgotten: in the queue in which some have rested for longest, the one that has
    /// rested for longest.
    pub(super) fn forget_one(&mut self) {
        let fairs = || self.users.iter().flat_map(|user| user.fair.iter().flatten());
        if fairs().map(Fair::known).sum::<usize>() < self.buffers {
            return;
        }
        let fairs = self.users.iter_mut().flat_map(|user| user.fair.iter_mut().flatten());
        let fair = fairs.filter(|fair| fair.rests.is_some()).min_by_key(|fair| fair.rests).unwrap();
        let longest = fair.all().filter_map(|flow| flow.rests).min();
        fair.new.retain(|flow| flow.rests != longest);
        fair.old.retain(|flow| flow.rests != longest);
        fair.refresh(0);
    }
}
