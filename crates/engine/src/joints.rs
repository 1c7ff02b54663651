//! Joints in a layout: where what leaves by one end enters by the other, and which of these hops have to wait.

use std::collections::{BinaryHeap, HashMap, HashSet};

use weir_stage::Fate;

use crate::layout::{Crossing, Goal, Layout};

/// One end of a joint: a port without a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointEnd {
    /// The port's name.
    pub name: String,
    /// Its index, by which graphs refer to it.
    pub index: u16,
}

/// The ends of all joints.
#[derive(Default)]
pub(crate) struct Joints {
    /// Name and far end of each, by the index of the port.
    ends: HashMap<u16, (String, u16)>,
}

impl Joints {
    pub(crate) fn new(joints: &[(JointEnd, JointEnd)]) -> Joints {
        let both = joints.iter().flat_map(|(one, other)| [(one, other), (other, one)]);
        Joints { ends: both.map(|(end, far)| (end.index, (end.name.clone(), far.index))).collect() }
    }

    /// The far end of the joint whose end is `port`.
    pub(crate) fn far_end(&self, port: u16) -> Option<u16> {
        self.ends.get(&port).map(|(_, far)| *far)
    }

    pub(crate) fn name(&self, port: u16) -> String {
        self.ends.get(&port).map_or_else(String::new, |(name, _)| name.clone())
    }

    /// Names and indexes of all ends.
    pub(crate) fn names(&self) -> impl Iterator<Item = (String, u16)> {
        self.ends.iter().map(|(index, (name, _))| (name.clone(), *index))
    }
}

/// Steps from stage to stage on one worker, each from what runs earlier to what runs later.
#[derive(Default)]
struct Steps(HashMap<usize, Vec<usize>>);

impl Steps {
    fn add(&mut self, from: usize, to: usize) {
        self.0.entry(from).or_default().push(to);
    }

    /// Whether steps lead from one to the other, or they are the same.
    fn lead(&self, from: usize, to: usize) -> bool {
        let (mut seen, mut open) = (HashSet::from([from]), vec![from]);
        while let Some(at) = open.pop() {
            if at == to {
                return true;
            }
            open.extend(self.0.get(&at).into_iter().flatten().copied().filter(|next| seen.insert(*next)));
        }
        false
    }
}

impl Layout<'_> {
    /// Leads what stages send to an end of a joint to where the packets of the other end enter: replica n to replica n, and
    /// where there are fewer, from the first again.
    pub(crate) fn join(&mut self) {
        let mut entries: HashMap<u16, Vec<usize>> = HashMap::new();
        for inlet in &self.inlets {
            entries.entry(inlet.port).or_default().push(inlet.at);
        }
        for placed in &mut self.placed {
            for goal in placed.goals.iter_mut().flatten() {
                let Goal::Port(out) = *goal else { continue };
                let Some(into) = self.joints.far_end(out) else { continue };
                let entries = entries.get(&into).map_or(&[][..], Vec::as_slice);
                let at = placed.replica.checked_rem(entries.len()).and_then(|n| entries.get(n)).copied();
                *goal = Goal::JointHop { out, into, at };
            }
        }
        self.find_waiting_hops();
        self.find_dropping_links();
    }

    /// Steps on one worker that are no hops, and those that are.
    fn steps(&self) -> (Steps, Vec<(usize, usize)>) {
        let (mut steps, mut hops) = (Steps::default(), Vec::new());
        for (from, placed) in self.placed.iter().enumerate() {
            for (code, goal) in placed.goals.iter().enumerate() {
                let stays = |at: &usize| self.placed.get(*at).is_some_and(|next| next.worker == placed.worker);
                match goal {
                    Some(Goal::Stage(at)) if stays(at) && placed.declaration.fate_of(code) != Fate::Again => {
                        steps.add(from, *at);
                    }
                    Some(Goal::JointHop { at: Some(at), .. }) if stays(at) => hops.push((from, *at)),
                    _ => {}
                }
            }
        }
        (steps, hops)
    }

    /// Finds the hops that would close a circle on their worker: what takes them waits for the next loop. Of a circle it is the
    /// hop that comes last in the order of the graphs.
    fn find_waiting_hops(&mut self) {
        let (mut steps, hops) = self.steps();
        for (from, at) in hops {
            if steps.lead(at, from) {
                self.waiting.insert((from, at));
            } else {
                steps.add(from, at);
            }
        }
    }

    /// Finds the hops to other workers that would close a ring of links that may not drop, each of which would wait for the others:
    /// their links drop, as the queue of a cable does.
    fn find_dropping_links(&mut self) {
        let mut leads = Steps::default();
        let (hops, links): (Vec<Crossing>, Vec<Crossing>) = self
            .crossings()
            .into_iter()
            .filter(|crossing| !self.may_drop(crossing) && !matches!(crossing.goal, Goal::Port(_)))
            .partition(|crossing| matches!(crossing.goal, Goal::JointHop { .. }));
        links.iter().for_each(|link| leads.add(link.from, link.to));
        for hop in hops {
            if leads.lead(hop.to, hop.from) {
                self.dropping.insert(hop);
            } else {
                leads.add(hop.from, hop.to);
            }
        }
    }

    /// The stages, each behind all that lead to it on its worker in the same loop; else in the order they were placed in.
    pub(crate) fn order(&self) -> Vec<usize> {
        let (mut steps, hops) = self.steps();
        hops.into_iter().filter(|hop| !self.waiting.contains(hop)).for_each(|(from, at)| steps.add(from, at));
        let mut before = vec![0_usize; self.placed.len()];
        for at in steps.0.values().flatten() {
            before.get_mut(*at).into_iter().for_each(|before| *before += 1);
        }
        let ready = before.iter().enumerate().filter(|(_, before)| **before == 0);
        let mut ready: BinaryHeap<std::cmp::Reverse<usize>> = ready.map(|(at, _)| std::cmp::Reverse(at)).collect();
        let mut order = Vec::with_capacity(self.placed.len());
        while let Some(std::cmp::Reverse(at)) = ready.pop() {
            order.push(at);
            for next in steps.0.get(&at).into_iter().flatten() {
                let Some(before) = before.get_mut(*next) else { continue };
                *before -= 1;
                if *before == 0 {
                    ready.push(std::cmp::Reverse(*next));
                }
            }
        }
        debug_assert_eq!(order.len(), self.placed.len(), "graphs have no circles but by joints, and those wait");
        order
    }
}
