//! Straight through: the packet of a user who has nothing waiting, and for whom nobody has to be passed over.

use crate::dequeue::pay_cap;
use crate::gates::{Loss, Place};
use crate::judge::{cap_at, ceil_at, pay_ceil, pay_floor};
use crate::profile::Profile;
use crate::rate::{Fine, fine};
use crate::scheduler::{Offer, Refused, Scheduler};
use crate::state::UserState;
use crate::users::User;
use crate::watch::Fate;

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Whether a packet may go at once, without waiting here; then it counts as sent. Else it is to be [offered](Scheduler::enqueue).
    ///
    /// It may when it would be the next that is sent: nobody stands in line, nothing of its user waits, and the buckets of its user, its
    /// class, its subport and the port let it go. It takes no buffer, and no turn from other queues of its user.
    ///
    /// # Errors
    ///
    /// The management of its queue says no: it is not taken.
    #[inline(always)]
    pub fn pass(&mut self, offer: &Offer, now: u64) -> Result<bool, Refused> {
        self.pass_or_mark(offer, || false, now)
    }

    /// The same, with what [marks](crate::offer::Offered::mark) the packet where its queue has a management that wants that.
    ///
    /// # Errors
    ///
    /// The management of its queue says no: it is not taken.
    #[inline(always)]
    pub fn pass_or_mark(&mut self, offer: &Offer, mark: impl FnMut() -> bool, now: u64) -> Result<bool, Refused> {
        let gate = self.users.gates.at(offer.user);
        let standing = gate.standing();
        if !standing.is_open() || !standing.is_idle() || !self.lines.is_empty() {
            return Ok(false);
        }
        let (moment, full_at) = (fine(now), gate.full_at());
        let profile = self.profiles.user(standing.profile());
        let (cost, port_cost) = (profile.bucket.cost(offer.length), self.profiles.port.cost(offer.length));
        let late = profile.bucket.due(full_at, cost) > moment;
        if late || self.profiles.port.due(self.port_full_at, port_cost) > moment {
            return Ok(false);
        }
        let subport = self.profiles.subport(standing.subport());
        let bounded = TREE || !subport.is_unlimited();
        if bounded && self.subport_waits(standing.subport(), offer.length, moment) {
            return Ok(false);
        }
        if profile.special && !self.class_lets_pass(offer, standing.profile(), mark, now)? {
            return Ok(false);
        }
        if TREE {
            self.pay_levels(standing.subport().into(), offer.length, moment);
            self.lines.pay_guarantees(standing.subport().into(), offer.length, now);
        } else if bounded {
            let set = self.lines.subports.at_mut(standing.subport().into());
            set.full_at = subport.after(set.full_at, offer.length, moment);
            self.lines.pay_guarantee(standing.subport().into(), offer.length, now);
        }
        let gate = self.users.gates.at(offer.user);
        self.port_full_at = self.port_full_at.max(moment) + port_cost;
        gate.set_full_at(full_at.max(moment) + cost);
        let bytes = offer.length.saturating_sub(self.setup.overhead);
        gate.sent(bytes);
        if standing.is_watched() {
            self.users.gates.note(offer.user, Fate::Sent(bytes, 0), now);
        }
        Ok(true)
    }

    /// Whether the bucket of a subport does not let so many bytes go, or others of the subport wait for that.
    #[inline]
    pub(crate) fn subport_waits(&self, number: u16, length: u16, now: Fine) -> bool {
        if TREE {
            return self.level_waits(number.into(), length, now);
        }
        let set = self.lines.subports.at(number.into());
        set.place == Place::Waiting || self.profiles.subport(number).eligible_at(set.full_at, length) > now
    }

    /// Whether the cap of its class, that of the subport, and the ceiling of its user let a packet go, for which it is paid for then.
    #[inline(never)]
    fn class_lets_pass(
        &mut self,
        offer: &Offer,
        profile: u16,
        mut mark: impl FnMut() -> bool,
        now: u64,
    ) -> Result<bool, Refused> {
        let queue = UserState::<C, Q>::queue_of(offer.class.class(), offer.class.queue());
        let class = UserState::<C, Q>::class_of(queue);
        let of = |profile: &Profile| {
            (profile.counted >> class & 1 != 0, (profile.managed & !profile.fair) >> class & 1 != 0)
        };
        let (counted, managed) = of(self.profiles.user(profile));
        let User { rest, share, .. } = self.users.at_mut(offer.user);
        if counted && cap_at(rest, self.profiles.user(profile), class, offer.length) > fine(now) {
            return Ok(false);
        }
        if ceil_at(share, self.profiles.user(profile), offer.length) > fine(now) {
            return Ok(false);
        }
        if counted && !self.class_passes(offer, class as u8, now) {
            return Ok(false);
        }
        if managed {
            let asked = match self.profiles.user(profile) {
                user if user.dual >> class & 1 != 0 => Ok(self.line_rests(offer.user, (class, queue), None, now)),
                user if user.split >> class & 1 != 0 => self.part_rests(offer, class, &mut mark, now),
                _ => self.ask_management(offer, queue, &mut mark, now).map(|()| {
                    // It has come to an empty queue, and leaves it empty.
                    self.tell_emptied(offer.user, queue, now);
                    true
                }),
            };
            match asked {
                Ok(true) => {}
                // It may be marked or dropped as it goes.
                Ok(false) => return Ok(false),
                Err(refused) => {
                    self.users.gates.dropped(offer.user, Loss::Red, now);
                    return Err(refused);
                }
            }
        }
        let User { gate, state, rest, share, floors, .. } = self.users.at_mut(offer.user);
        if counted {
            pay_floor(floors, self.profiles.user(profile), class, offer.length, fine(now));
            pay_cap(rest, self.profiles.user(profile), class as u8, offer.length, fine(now));
            let mut covered = false;
            for at in self.lines.path(gate.standing().subport().into()) {
                let bucket = self.profiles.class(at as u16, class as u8);
                self.crowds.pay(bucket, at as u16, class as u8, offer.length, fine(now));
                let promise = self.profiles.promise(at as u16, class as u8);
                covered = self.promises.pay(promise, (at, class as u8), offer.length, covered, fine(now));
            }
            state.used(class as u8);
        }
        pay_ceil(share, self.profiles.user(profile), offer.length, fine(now));
        Ok(true)
    }
}
