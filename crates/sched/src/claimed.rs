//! Turns of those who claim what classes of their subport are [guaranteed](crate::promises).

use crate::aside::Stood;
use crate::dequeue::Served;
use crate::judge::Next;
use crate::rate::{Fine, fine};
use crate::scheduler::{Leaving, Scheduler};
use crate::sharing::Turn;

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Gives a user a packet's worth of what is left who claims it for what a class of its subport is guaranteed: as far as the levels that share with others have saved up enough.
    #[cold]
    pub(crate) fn share_claimed(
        &mut self,
        turn: Turn,
        lender: u32,
        next: Next,
        now: u64,
        out: &mut impl FnMut(Leaving<T>),
    ) -> Served {
        let Next { length, .. } = next;
        if !self.lines.wanting.level_affords(turn, lender, length) {
            return Served::Passed;
        }
        match self.levels_let_go(turn.subport, length, now) {
            Served::Sent => {}
            held => return held,
        }
        self.promises.turn_of(turn.subport, next.class, Stood::Ring);
        if !self.may_go(turn.user, next, Stood::Ring, now, out) {
            return Served::Passed;
        }
        self.pay_port_and_levels(turn.subport, length, fine(now));
        self.lines.wanting.level_sent(turn, lender, length);
        self.give(turn, lender, next, true, now, out)
    }

    /// The subport of a user has its turn in line, and the user claims it for what a class is guaranteed there.
    #[cold]
    pub(crate) fn serve_claimed(
        &mut self,
        subport: u32,
        user: u32,
        next: Next,
        now: u64,
        out: &mut impl FnMut(Leaving<T>),
    ) -> Served {
        match self.levels_let_go(subport, next.length, now) {
            Served::Sent => {}
            held => return held,
        }
        self.promises.turn_of(subport, next.class, Stood::Line);
        if !self.may_go(user, next, Stood::Line, now, out) {
            return Served::Passed;
        }
        let (moment, Next { queue, length, .. }) = (fine(now), next);
        self.pay_port_and_levels(subport, length, moment);
        self.lines.pay_guarantees(subport, length, now);
        let Some((judgement, emptied)) = self.send_first(user, next, true, now, out) else {
            return Served::Passed;
        };
        self.place(user, judgement, now);
        self.lines.turn_subport(subport);
        if emptied {
            self.tell_emptied(user, queue, now);
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
