//! Subports below others: what is above each, what they pay, and whose turn it is.

use weir_sched::rate::{Fine, fine, nanos};

use super::parts::Id;
use super::{Model, TICK};

/// A subport, and turns in a row.
type Streak = (usize, usize);

impl Model {
    /// A subport and those above it, the lowest first.
    pub(super) fn path(&self, at: usize) -> Vec<usize> {
        let mut path = vec![at];
        while let Some(parent) = self.subports[path[path.len() - 1]].parent {
            path.push(parent);
        }
        path
    }

    /// A subport and those above it, below one that lends or else the port.
    pub(super) fn below(&self, at: usize, lender: Option<usize>) -> Vec<usize> {
        self.path(at).into_iter().take_while(|at| Some(*at) != lender).collect()
    }

    /// What a user or a subport is in, or below.
    pub(super) fn above(&self, id: Id) -> Option<usize> {
        match id {
            Id::User(user) => Some(self.users[user].subport),
            Id::Subport(subport) | Id::Lender(subport) | Id::Class(subport, _) => self.subports[subport].parent,
        }
    }

    pub(super) fn subport_waits(&self, at: usize) -> bool {
        self.waiting.iter().any(|(_, id)| *id == Id::Subport(at))
    }

    /// From when on a subport and each of those above it may send so many bytes.
    pub(super) fn levels_due(&self, at: usize, length: u16) -> Vec<Fine> {
        let due = |at: usize| self.subports[at].bucket.eligible_at(self.subport_full_at[at], length);
        self.path(at).into_iter().map(due).collect()
    }

    /// A packet goes on account of what its subport and those above it may send, and of what is guaranteed to them from the one on whose account it is.
    pub(super) fn pay_levels(&mut self, at: usize, length: u16, guaranteed: Option<usize>, now: u64) {
        for at in self.path(at) {
            self.subport_full_at[at] = self.subports[at].bucket.after(self.subport_full_at[at], length, fine(now));
        }
        let path = guaranteed.map_or_else(Vec::new, |from| self.path(from));
        let paid: Vec<usize> = path.into_iter().filter(|at| self.subports[*at].guarantee.is_some()).collect();
        for at in &paid {
            let subport = &mut self.subports[*at];
            let guarantee = subport.guarantee.unwrap();
            subport.guarantee_full_at = guarantee.after(subport.guarantee_full_at, length, fine(now));
        }
        if let Some(lowest) = paid.first() {
            self.refresh_claims(*lowest, now);
        }
    }

    /// Whether a subport wants more, and whether it lends or one below it does; then the same of those above it.
    pub(super) fn refresh_claims(&mut self, at: usize, now: u64) {
        for at in self.path(at) {
            self.refresh_own_claims(at, now);
        }
    }

    pub(super) fn refresh_own_claims(&mut self, at: usize, now: u64) {
        let id = Id::Subport(at);
        let wants = !self.subport_waits(at) && self.wanting.iter().any(|other| self.above(*other) == Some(at));
        if wants != self.wanting.contains(&id) {
            self.subports[at].deficit = u32::from(self.subports[at].weight) * 1600;
            self.wanting.retain(|other| *other != id);
            self.wanting.extend(wants.then_some(id));
        }
        let subport = &self.subports[at];
        let lends_at =
            subport.guarantee.filter(|_| wants).map(|bucket| bucket.eligible_at(subport.guarantee_full_at, 0));
        let lends = lends_at.is_some_and(|from| from <= fine(now));
        let leads = wants && (lends || self.leading.iter().any(|other| self.subports[*other].parent == Some(at)));
        if leads != self.leading.contains(&at) {
            self.leading.retain(|other| *other != at);
            self.leading.extend(leads.then_some(at));
        }
        self.waiting.retain(|(_, id)| *id != Id::Lender(at));
        if let (Some(from), false) = (lends_at, lends) {
            self.waiting.push((nanos(from).div_ceil(TICK), Id::Lender(at)));
        }
    }

    /// A user wants more, or does not.
    pub(super) fn set_wants(&mut self, at: usize, wants: bool, now: u64) {
        let (subport, id) = (self.users[at].subport, Id::User(at));
        if wants != self.wanting.contains(&id) {
            self.users[at].deficit =
                self.profiles[self.users[at].profile].sharing.map_or(0, |(_, weight)| u32::from(weight) * 1600);
            self.wanting.retain(|other| *other != id);
            self.wanting.extend(wants.then_some(id));
            self.refresh_claims(subport, now);
        }
    }

    /// One who has had its turn to want more goes behind its neighbours.
    pub(super) fn turn(&mut self, id: Id) {
        let place = self.wanting.iter().position(|other| *other == id).unwrap();
        let turned = self.wanting.remove(place);
        self.wanting.push(turned);
    }

    /// Whose turn it is of those who may send what they are guaranteed, its class, and the streaks that there are when it has gone.
    pub(super) fn first_in_line(&self) -> Option<(usize, usize, Vec<Streak>)> {
        let of_port = self.line.iter().filter(|(id, ..)| self.above(*id).is_none());
        let (mut first, class, _) = *of_port.min_by_key(|(_, class, _)| *class)?;
        let mut streaks = Vec::new();
        while let Id::Subport(subport) = first {
            let in_line = |late: bool| {
                let mut members = self.line.iter().filter(|(id, ..)| self.above(*id) == Some(subport));
                members.find(|(_, may, is)| (*may, *is) == (class, late))
            };
            let (spare, late) = (in_line(false), in_line(true));
            let patient = spare.filter(|_| late.is_none() || self.streaks[subport] < 8);
            streaks.push((subport, if patient.is_some() && late.is_some() { self.streaks[subport] + 1 } else { 0 }));
            first = patient.or(late).unwrap().0;
        }
        match first {
            Id::User(user) => Some((user, class, streaks)),
            _ => None,
        }
    }

    /// Whose turn it is of those who want more, and who lends it to them: the lowest of those that do, else the port.
    pub(super) fn first_who_wants(&self) -> Option<(usize, Option<usize>)> {
        let mut lender = None;
        while let Some(below) = self.leading.iter().find(|at| self.subports[**at].parent == lender) {
            lender = Some(*below);
        }
        let mut at = lender;
        loop {
            match self.wanting.iter().find(|id| self.above(**id) == at)? {
                Id::User(user) => return Some((*user, lender)),
                Id::Subport(below) | Id::Lender(below) | Id::Class(below, _) => at = Some(*below),
            }
        }
    }
}
