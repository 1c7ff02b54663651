//! What runs on which worker, where users have owners.
//!
//! | layout | first worker | others | last worker |
//! |---|---|---|---|
//! | `run-to-completion` | everything | | |
//! | `distributor` | balances, sends | each everything for its own users, with all of their state | like the others |
//! | `pipeline` of two | everything but the last step | | the last step, sends |
//! | `pipeline` of more | balances | each everything but the last step, for its own users | the last step, sends |
//!
//! The last step is what all users share whose owners are several: a scheduler that sends at the rate of a port.

use crate::function::{Layout, Placement};
use crate::graph::Place;

use super::owner::Owners;

/// The sections of a graph that does its own balancing: section `n` is the `n`-th worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrangement {
    owners: Owners,
    /// The section of the first owner.
    first: u8,
    /// The section of the last step that all share.
    last: u8,
}

impl Arrangement {
    /// On these workers.
    pub fn of(placement: &Placement) -> Arrangement {
        let workers = u8::try_from(placement.workers.len()).unwrap_or(u8::MAX).max(1);
        match placement.layout {
            Layout::Distributor if workers > 1 => {
                Arrangement { owners: Owners::divided(workers - 1), first: 1, last: workers - 1 }
            }
            Layout::Pipeline if workers > 2 => {
                Arrangement { owners: Owners::sharing(workers - 2), first: 1, last: workers - 1 }
            }
            Layout::Pipeline => Arrangement { owners: Owners::ONE, first: 0, last: workers - 1 },
            Layout::Distributor | Layout::RunToCompletion => Arrangement { owners: Owners::ONE, first: 0, last: 0 },
        }
    }

    /// The workers that have users.
    pub fn owners(self) -> Owners {
        self.owners
    }

    /// Whether a balancer stands before them.
    pub fn is_balanced(self) -> bool {
        self.first > 0
    }

    /// Whether each owner has a last step of its own, with its part of the state.
    pub fn has_own_parts(self) -> bool {
        self.owners.parts() > 1 || self.first == self.last
    }

    /// The owners and where their stages run.
    pub fn sections(self) -> impl Iterator<Item = (u8, Place)> {
        (0..self.owners.count()).zip((self.first..).map(|section| Place::Worker { section }))
    }

    /// Where packets come in.
    pub fn entrance(self) -> Place {
        Place::Worker { section: 0 }
    }

    /// Where the last step before transmission runs that all owners share.
    pub fn exit(self) -> Place {
        Place::Worker { section: self.last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::SpreadBy;

    fn placement(layout: Layout, workers: u16) -> Placement {
        Placement { layout, workers: (0..workers).collect(), spread_by: SpreadBy::Flow }
    }

    /// Sections of owners, that of the shared last step, and whether somebody balances.
    fn arranged(layout: Layout, workers: u16) -> (Vec<u8>, u8, bool) {
        let arrangement = Arrangement::of(&placement(layout, workers));
        let section = |place| match place {
            Place::Worker { section } => section,
            Place::Control => panic!("a data path on the control side"),
        };
        let owners = arrangement.sections().map(|(_, place)| section(place)).collect();
        assert_eq!(section(arrangement.entrance()), 0);
        (owners, section(arrangement.exit()), arrangement.is_balanced())
    }

    #[test]
    fn layouts_have_their_sections() {
        assert_eq!(arranged(Layout::RunToCompletion, 3), (vec![0], 0, false));
        assert_eq!(arranged(Layout::Distributor, 1), (vec![0], 0, false));
        assert_eq!(arranged(Layout::Distributor, 2), (vec![1], 1, true));
        assert_eq!(arranged(Layout::Distributor, 4), (vec![1, 2, 3], 3, true));
        assert_eq!(arranged(Layout::Pipeline, 1), (vec![0], 0, false));
        assert_eq!(arranged(Layout::Pipeline, 2), (vec![0], 1, false));
        assert_eq!(arranged(Layout::Pipeline, 3), (vec![1], 2, true));
        assert_eq!(arranged(Layout::Pipeline, 63).0, (1..62).collect::<Vec<u8>>());
    }

    #[test]
    fn the_last_step_is_shared_in_a_pipeline_only() {
        let own = |layout, workers| Arrangement::of(&placement(layout, workers)).has_own_parts();
        assert!(own(Layout::RunToCompletion, 1) && own(Layout::Distributor, 2) && own(Layout::Distributor, 9));
        assert!(!own(Layout::Pipeline, 2) && !own(Layout::Pipeline, 3) && !own(Layout::Pipeline, 9));
        assert!(own(Layout::Pipeline, 1), "one worker is no pipeline");
    }
}
