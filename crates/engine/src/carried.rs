//! Which lanes go over links: those that somebody reads behind them, in the whole layout.

use weir_packet::{LaneId, LaneSet};
use weir_stage::Fate;

use crate::layout::{Crossing, Goal, Layout, Placed};

impl Layout<'_> {
    /// Of each stage, the lanes that it or somebody behind it reads before they are written.
    pub(crate) fn lanes_read(&self) -> Vec<LaneSet> {
        let mut read = vec![LaneSet::EMPTY; self.placed.len()];
        // Lanes only become more, so this ends; from behind, since most stages lead to later ones.
        loop {
            let mut settled = true;
            for (at, placed) in self.placed.iter().enumerate().rev() {
                let found = self.lanes_read_at(at, placed, &read);
                if let Some(before) = read.get_mut(at).filter(|before| **before != found) {
                    (*before, settled) = (found, false);
                }
            }
            if settled {
                return read;
            }
        }
    }

    fn lanes_read_at(&self, at: usize, placed: &Placed, read: &[LaneSet]) -> LaneSet {
        let declaration = &placed.declaration;
        let own = LaneSet::of(&declaration.reads).and(LaneSet::of(&declaration.updates));
        own.and(self.lanes_read_behind(at, placed, read).without(declaration.written()))
    }

    /// The lanes that are read behind a stage, given what each reads.
    pub(crate) fn lanes_read_behind(&self, at: usize, placed: &Placed, read: &[LaneSet]) -> LaneSet {
        let declaration = &placed.declaration;
        let behind = placed.goals.iter().enumerate().filter_map(|(code, goal)| {
            let of = |to: usize| read.get(to).copied().unwrap_or_default();
            // Whoever sends packets round counts how often.
            let counted = |read: LaneSet, counts: bool| if counts { read.with(LaneId::Passes) } else { read };
            match (*goal)? {
                Goal::Stage(to) => Some(counted(of(to), declaration.fate_of(code) == Fate::Again)),
                // A hop writes the port.
                Goal::JointHop { at: Some(to), .. } => {
                    Some(counted(of(to).without(LaneSet::of(&[LaneId::Port])), self.waiting.contains(&(at, to))))
                }
                Goal::JointHop { at: None, .. } | Goal::Port(_) => None,
            }
        });
        behind.fold(LaneSet::EMPTY, LaneSet::and)
    }
}

impl Crossing {
    /// What goes over its link, given what each stage reads: nothing to a port.
    pub(crate) fn lanes(&self, read: &[LaneSet]) -> LaneSet {
        match self.goal {
            Goal::Stage(at) | Goal::JointHop { at: Some(at), .. } => read.get(at).copied().unwrap_or_default(),
            Goal::JointHop { at: None, .. } | Goal::Port(_) => LaneSet::EMPTY,
        }
    }
}
