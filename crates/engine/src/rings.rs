//! Links that would wait for themselves.

use std::collections::{HashMap, HashSet};

use weir_stage::GraphError;

use crate::layout::{Goal, Layout};

impl Layout<'_> {
    /// Links that may not drop must not lead round: a worker that waits for room would wait for itself. Links to a port do
    /// not count, because what comes out of them always goes somewhere.
    pub(crate) fn check_rings(&self) -> Result<(), GraphError> {
        let mut leads: HashMap<usize, HashSet<usize>> = HashMap::new();
        for crossing in self.crossings() {
            if !matches!(crossing.goal, Goal::Port(_)) && !self.may_drop(&crossing) {
                leads.entry(crossing.from).or_default().insert(crossing.to);
            }
        }
        for start in 0..self.workers {
            let mut reached: HashSet<usize> = leads.get(&start).cloned().unwrap_or_default();
            for _ in 0..self.workers {
                let further: Vec<usize> = reached.iter().filter_map(|at| leads.get(at)).flatten().copied().collect();
                reached.extend(further);
            }
            if reached.contains(&start) {
                let worker = self.worker_name(start);
                return Err(GraphError(vec![format!(
                    "worker {worker}: links that may not drop lead from it back to it; put the stages of one section on one worker"
                )]));
            }
        }
        Ok(())
    }
}
