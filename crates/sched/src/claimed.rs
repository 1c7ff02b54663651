//! Turns of those who claim what classes of their subport are [guaranteed](crate::promises).

use crate::aside::Stood;
use crate::dequeue::Served;
use crate::promises::Claimant;
use crate::rate::{Fine, fine};
use crate::scheduler::{Leaving, Scheduler};
use crate::sharing::Turn;

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Gives a user a packet's worth of what is left who claims it for what a class of a subport is guaranteed: as far as that, and the levels above it that share with others, have saved up enough.
    #[cold]
    pub(crate) fn share_claimed(
        &mut self,
        claimant: Claimant,
        lent: bool,
        lender: u32,
        now: u64,
        out: &mut impl FnMut(Leaving<T>),
    ) -> Served {
        let Claimant { level, user, next } = claimant;
        let (length, number) = (next.length, self.users.gates.at(user).standing().subport().into());
        let turn = Turn { subport: level, user, lent };
        if !self.lines.wanting.level_affords(turn, lender, length) {
            return Served::Passed;
        }
        match self.levels_let_go(number, length, now) {
            Served::Sent => {}
            held => return held,
        }
        self.turn_claims(level, user, next.class, Stood::Ring);
        if !self.may_go(user, next, Stood::Ring, now, out) {
            return Served::Passed;
        }
        self.pay_port_and_levels(number, length, fine(now));
        self.lines.wanting.level_sent(turn, lender, length);
        self.give(turn, lender, next, true, now, out)
    }

    /// A subport has its turn in line, and a user claims it for what a class is guaranteed there.
    #[cold]
    pub(crate) fn serve_claimed(&mut self, claimant: Claimant, now: u64, out: &mut impl FnMut(Leaving<T>)) -> Served {
        let Claimant { level, user, next } = claimant;
        let subport = self.users.gates.at(user).standing().subport().into();
        match self.levels_let_go(subport, next.length, now) {
            Served::Sent => {}
            held => return held,
        }
        self.turn_claims(level, user, next.class, Stood::Line);
        if !self.may_go(user, next, Stood::Line, now, out) {
            return Served::Passed;
        }
        self.pay_port_and_levels(subport, next.length, fine(now));
        self.lines.pay_guarantees(subport, next.length, now);
        let Some((judgement, emptied)) = self.send_first(user, next, true, now, out) else {
            return Served::Passed;
        };
        self.place(user, judgement, now);
        self.lines.turn_subport(level);
        if emptied {
            self.tell_emptied(user, next.queue, now);
        }
        Served::Sent
    }

    /// Whether port and subports let so many bytes go (`Sent`); where not, a subport waits for that, or the port does.
    #[cold]
    fn levels_let_go(&mut self, subport: u32, length: u16, now: u64) -> Served {
        let moment = fine(now);
        let due = self.profiles.port.eligible_at(self.port_full_at, length);
        if due > moment {
            return Served::PortWaits(due);
        }
        match self.full_level(subport, length, moment) {
            Some((full, due)) => {
                self.suspend(full, due, now);
                Served::Passed
            }
            None => Served::Sent,
        }
    }

    /// So many bytes go on account of what the port, a subport and those above it may send.
    #[cold]
    fn pay_port_and_levels(&mut self, subport: u32, length: u16, now: Fine) {
        self.port_full_at = self.profiles.port.after(self.port_full_at, length, now);
        self.pay_levels(subport, length, now);
    }
}
