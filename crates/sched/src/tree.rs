//! Subports below others, up to [`LEVELS`] of them between the port and a user.
//!
//! A subport stands in the lists of the one above it as users do in those of theirs, and so up to the port: in lines while somebody below it may send,
//! in a ring while somebody below it wants more, and among those who lead to a lender. One that waits for tokens stands in none of them,
//! with all that is below it. So whose turn it is is found by going down from the port, one step for each level. A scheduler without levels
//! ([`Scheduler`] without `TREE`) has nothing of this compiled in.

use weir_table::indexed::NONE;
use weir_table::links::List;

use crate::gates::Place;
use crate::lines::Lines;
use crate::profile::LEVELS;
use crate::rate::{Fine, fine};
use crate::scheduler::Scheduler;
use crate::sharing::{Turn, Wanting, change, turn_round};

/// What is above and below a subport.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// The subport above it; [`NONE`] for the port.
    above: u32,
    /// Subports right below it that lead to lenders, in the order of their turns.
    lenders: List,
    /// It stands among those of what is above it: it lends, or one below it does.
    leads: bool,
}

impl Branch {
    /// Below the port, with nothing below it.
    pub(crate) const TOP: Branch = Branch { above: NONE, lenders: List::EMPTY, leads: false };
}

impl<const TREE: bool> Wanting<TREE> {
    /// [`Wanting::settle`] for one of several levels. What is above it is to be settled then, too.
    pub(crate) fn settle_in_tree(&mut self, number: u32, may_send: bool, now: u64) -> Option<Fine> {
        let Wanting { users, claims, all, lending, lenders, branches, first, .. } = self;
        let above = branches.at(number).above;
        let own = claims.at_mut(number);
        let wants = may_send && !own.users.is_empty();
        if own.wants != wants {
            (own.wants, own.deficit) = (wants, own.quantum);
            let ring = if above == NONE { all } else { &mut claims.at_mut(above).users };
            change(users, ring, *first + number, wants);
        }
        let own = claims.at_mut(number);
        let lends_at = own.lends_at(wants);
        own.lends = lends_at.is_some_and(|at| at <= fine(now));
        let (lends, branch) = (own.lends, branches.at_mut(number));
        let leads = wants && (lends || !branch.lenders.is_empty());
        if branch.leads != leads {
            branch.leads = leads;
            let list = if above == NONE { lenders } else { &mut branches.at_mut(above).lenders };
            change(lending, list, number, leads);
        }
        lends_at.filter(|_| !lends)
    }

    /// The lowest subport that lends what it is guaranteed; [`NONE`] where none does, and the port gives what it has left.
    pub(crate) fn lender(&self) -> u32 {
        let (mut lender, mut below) = (NONE, self.lenders.first());
        for _ in 0..LEVELS {
            if below == NONE {
                break;
            }
            (lender, below) = (below, self.branches.at(below).lenders.first());
        }
        lender
    }

    /// [`Wanting::first`] among several levels: of the lowest who lends, else of what the port has left.
    pub(crate) fn first_in_tree(&self) -> Option<Turn> {
        if self.all.is_empty() {
            return None;
        }
        let lender = self.lender();
        let ring = if lender == NONE { &self.all } else { &self.claims.at(lender).users };
        let (mut subport, mut user) = (lender, ring.first());
        for _ in 0..LEVELS {
            let Some(number) = user.checked_sub(self.first) else { break };
            (subport, user) = (number, self.claims.at(number).users.first());
        }
        Some(Turn { subport, user, lent: lender != NONE })
    }

    /// Whether each level below the one that gives has saved up so many bytes. The lowest that has not gets what its weight is worth, and goes behind
    /// its neighbours.
    pub(crate) fn levels_afford(&mut self, turn: Turn, lender: u32, bytes: u16) -> bool {
        let Wanting { users, claims, all, branches, .. } = self;
        let mut at = turn.subport;
        for _ in 0..LEVELS {
            if at == lender || at == NONE {
                break;
            }
            let above = branches.at(at).above;
            let own = claims.at_mut(at);
            if own.deficit < u32::from(bytes) {
                own.deficit += own.quantum;
                turn_round(users, if above == NONE { all } else { &mut claims.at_mut(above).users });
                return false;
            }
            at = above;
        }
        true
    }

    /// Somebody below a turn's levels has sent so many bytes.
    pub(crate) fn levels_sent(&mut self, turn: Turn, lender: u32, bytes: u16) {
        let mut at = turn.subport;
        for _ in 0..LEVELS {
            if at == lender || at == NONE {
                break;
            }
            let own = self.claims.at_mut(at);
            own.deficit -= u32::from(bytes).min(own.deficit);
            at = self.branches.at(at).above;
        }
        let Wanting { lending, lenders, branches, .. } = self;
        let mut at = lender;
        for _ in 0..LEVELS {
            if at == NONE {
                break;
            }
            at = branches.at(at).above;
            turn_round(lending, if at == NONE { lenders } else { &mut branches.at_mut(at).lenders });
        }
    }
}

impl<const TREE: bool> Lines<TREE> {
    /// The subport above one, if it is not the port.
    #[inline(always)]
    pub(crate) fn above(&self, number: u32) -> Option<u32> {
        Some(self.wanting.branches.at(number).above).filter(|above| *above != NONE)
    }

    /// A subport and those above it, the lowest first.
    pub(crate) fn path(&self, number: u32) -> impl Iterator<Item = u32> + use<TREE> {
        let (mut path, mut at) = ([NONE; LEVELS], number);
        for place in &mut path {
            (*place, at) = (at, self.wanting.branches.at(at).above);
        }
        path.into_iter().take_while(|number| *number != NONE)
    }

    /// [`Lines::first`], below the first subport of the port.
    pub(crate) fn first_below(&self, subport: u32) -> Option<(u32, u8, u32)> {
        let mut subport = subport;
        let (mut class, mut id) = self.subports.at(subport).first()?;
        for _ in 1..LEVELS {
            let Some(number) = id.checked_sub(self.users) else { break };
            subport = number;
            (class, id) = self.subports.at(subport).first()?;
        }
        Some((subport, class, id))
    }

    /// A subport that has moved stands elsewhere in the lines of the one above it, in which it is one of those who have sent little of late.
    pub(crate) fn move_below(&mut self, above: u32, number: u32, (from, to): (Place, Place)) {
        let (id, active) = (self.users + number, &mut self.subports.at_mut(above).active);
        if let Place::Active(class) = from {
            active.remove(&mut self.links, 2 * class, id);
        }
        if let Place::Active(class) = to {
            active.push(&mut self.links, 2 * class, id);
        }
        self.settle_subport(above);
    }

    /// [`Lines::turn_subport`] for a subport and those above it.
    pub(crate) fn turn_levels(&mut self, number: u32) {
        for at in self.path(number) {
            let Place::Active(class) = self.subports.at(at).place else { continue };
            let list = match self.above(at) {
                Some(above) => self.subports.at(above).active.lists.get(2 * usize::from(class)),
                None => self.port.lists.get(usize::from(class)),
            };
            if list.is_some_and(|list| list.first() != list.last()) {
                self.move_subport(at, Place::Active(class));
            }
        }
    }

    /// A user who stood at `place` has its turn: so do the subport it is in, and those above.
    pub(crate) fn count_turns(&mut self, number: u32, place: Place) {
        let mut rank = match place {
            Place::Active(rank) => Some(rank),
            Place::Idle | Place::Waiting => None,
        };
        for at in self.path(number) {
            let subport = self.subports.at_mut(at);
            if let Some(rank) = rank {
                subport.count_turn(rank);
            }
            rank = match subport.place {
                Place::Active(class) => Some(2 * class),
                Place::Idle | Place::Waiting => None,
            };
        }
    }

    /// So many bytes go on account of what a subport and those above it are guaranteed.
    pub(crate) fn pay_guarantees(&mut self, number: u32, bytes: u16, now: u64) {
        let mut lowest = None;
        for at in self.path(number) {
            if self.wanting.pay(at, bytes, fine(now)) {
                lowest = lowest.or(Some(at));
            }
        }
        if let Some(lowest) = lowest {
            self.settle_claims(lowest, now);
        }
    }

    /// Puts a subport below another one, or the port, with all that stands in its lines.
    fn set_above(&mut self, number: u32, above: u32, now: u64) {
        let waits = self.subports.at(number).place == Place::Waiting;
        if !waits {
            self.move_subport(number, Place::Idle);
        }
        self.wanting.settle_in_tree(number, false, now);
        if let Some(before) = self.above(number) {
            self.settle_claims(before, now);
        }
        self.wanting.branches.at_mut(number).above = above;
        if !waits {
            self.settle_subport(number);
        }
        self.settle_claims(number, now);
    }
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Whether a subport or one above it waits for tokens, or has too few for so many bytes.
    pub(crate) fn level_waits(&self, number: u32, length: u16, now: Fine) -> bool {
        let waits = |at: u32| self.lines.subports.at(at).place == Place::Waiting;
        self.lines.path(number).any(waits) || self.full_level(number, length, now).is_some()
    }

    /// The lowest of a subport and those above it that has too few tokens for so many bytes, and from when on it has enough.
    pub(crate) fn full_level(&self, number: u32, length: u16, now: Fine) -> Option<(u32, Fine)> {
        let due = |at: u32| self.profiles.subport(at as u16).eligible_at(self.lines.subports.at(at).full_at, length);
        self.lines.path(number).map(|at| (at, due(at))).find(|(_, due)| *due > now)
    }

    /// So many bytes go on account of what a subport and those above it may send.
    pub(crate) fn pay_levels(&mut self, number: u32, length: u16, now: Fine) {
        for at in self.lines.path(number) {
            let set = self.lines.subports.at_mut(at);
            set.full_at = self.profiles.subport(at as u16).after(set.full_at, length, now);
        }
    }

    /// Puts subports below those that the profiles say.
    #[cold]
    pub(crate) fn set_parents(&mut self, now: u64) {
        if !TREE {
            return;
        }
        let all = 0..self.lines.subports.len() as u32;
        // First they leave what they were below, so that none is below itself meanwhile.
        for number in all.clone() {
            let (is, wanted) = (self.lines.above(number), self.wanted_above(number));
            if is.is_some() && is != wanted {
                self.set_above(number, NONE, now);
            }
        }
        for number in all {
            if let (None, Some(above)) = (self.lines.above(number), self.wanted_above(number)) {
                self.set_above(number, above, now);
            }
        }
    }

    fn set_above(&mut self, number: u32, above: u32, now: u64) {
        self.leave_claims(number);
        self.lines.set_above(number, above, now);
        self.users.gates.set_above(number, above);
    }

    fn wanted_above(&self, number: u32) -> Option<u32> {
        self.profiles.above(number).map(u32::from)
    }
}
