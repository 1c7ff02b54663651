//! Asking one worker after the other for its numbers: what that makes of them.

use crate::snapshot::WorkerSnapshot;

/// The workers' numbers, or what is told of those that did not answer.
pub(crate) fn told_or(answers: Vec<Option<WorkerSnapshot>>, silent: Vec<WorkerSnapshot>) -> Vec<WorkerSnapshot> {
    answers.into_iter().zip(silent).map(|(told, silent)| told.unwrap_or(silent)).collect()
}

/// Whether a packet went into or out of a link between two sweeps over the same workers.
///
/// Workers are asked one after the other. One that was quiet may have got a packet by the time that the next is asked; then
/// all are quiet, and what went into the link has not come out. These counts only grow: where no worker's has changed
/// from one sweep to the next, all of them held at the moment in between.
pub(crate) fn has_crossed(before: &[WorkerSnapshot], after: &[WorkerSnapshot]) -> bool {
    let crossings = |worker: &WorkerSnapshot| (worker.account.links_in, worker.account.links_out);
    !before.iter().map(crossings).eq(after.iter().map(crossings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Account;

    /// Two workers, as what went in and out of their links.
    fn sweep(of: [(u64, u64); 2]) -> Vec<WorkerSnapshot> {
        let snapshot = |(links_in, links_out)| WorkerSnapshot {
            account: Account { links_in, links_out, ..Account::default() },
            ..WorkerSnapshot::default()
        };
        of.map(snapshot).to_vec()
    }

    /// The first worker was quiet when it was asked, then the second put two packets into a link, and the first took them
    /// before the second was asked: nobody holds them, and they are missing from the sum.
    #[test]
    fn what_crosses_during_a_sweep_is_seen_by_the_next() {
        let during = sweep([(0, 0), (0, 2)]);
        assert!(has_crossed(&during, &sweep([(2, 0), (0, 2)])));
        assert!(has_crossed(&sweep([(0, 0), (0, 0)]), &during));
        let after = sweep([(2, 0), (0, 2)]);
        assert!(!has_crossed(&after, &after.clone()));
    }
}
