//! Who stands where: users that may send in the lists of their subport, subports in those of the port, and whoever must
//! wait in the wheel.

use std::hint::cold_path;

use weir_table::indexed::Indexed;
use weir_table::links::{Linked, Links, List};
use weir_table::wheel::{Shape, Wheel};

use crate::class::MAX_CLASSES;
use crate::gates::{Gate, Place};
use crate::hold::Level;
use crate::rate::{Fine, fine, nanos};
use crate::sharing::{Share, Wanting, Wants};

/// Numbers in lists by rank, the best first.
#[derive(Clone, Debug)]
pub(crate) struct Active<const RANKS: usize> {
    pub(crate) lists: [List; RANKS],
    /// Bit r: list r has entries.
    pub(crate) ranks: u32,
}

impl<const RANKS: usize> Active<RANKS> {
    pub(crate) const NONE: Active<RANKS> = Active { lists: [List::EMPTY; RANKS], ranks: 0 };

    #[inline(always)]
    pub(crate) fn push(&mut self, links: &mut Links, rank: u8, id: u32) {
        if let Some(list) = self.lists.get_mut(usize::from(rank)) {
            links.push_back(list, id);
            self.ranks |= 1 << rank;
        }
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, links: &mut Links, rank: u8, id: u32) {
        if let Some(list) = self.lists.get_mut(usize::from(rank)) {
            links.remove(list, id);
            if list.is_empty() {
                self.ranks &= !(1 << rank);
            }
        }
    }

    /// The best rank that has entries; 32 for none.
    #[inline(always)]
    fn best(&self) -> u8 {
        self.ranks.trailing_zeros() as u8
    }

    /// The first entry of a rank.
    #[inline(always)]
    fn first(&self, rank: u8) -> Option<u32> {
        self.lists.get(usize::from(rank)).map(List::first)
    }
}

/// A set of users with a rate of their own.
///
/// Its users that may send have a rank each: twice their best class, for those whose buckets hold enough for another packet
/// like the first (they have sent little of late, or less than they might), and one more for the others. So whoever
/// keeps to its rate does not stand in line behind all who always have packets waiting. Those get one turn in
/// [`STREAK`] all the same.
#[derive(Clone, Debug)]
pub(crate) struct Subport {
    pub(crate) full_at: Fine,
    pub(crate) place: Place,
    pub(crate) active: Active<{ 2 * MAX_CLASSES }>,
    /// Turns in a row of users of the better rank of a class, while others of that class stood in line.
    streak: u8,
}

/// So many turns in a row at most are for users of the better rank of a class while others of that class stand in line.
const STREAK: u8 = 8;

impl Subport {
    /// The user whose turn it is, and its class.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<(u8, u32)> {
        let best = self.active.best();
        let others = self.active.ranks & 2 << best != 0 && best.is_multiple_of(2);
        let rank = if others && self.streak >= STREAK { best + 1 } else { best };
        self.active.first(rank).map(|user| (rank / 2, user))
    }

    /// A user of a rank has had its turn.
    #[inline(always)]
    pub(crate) fn count_turn(&mut self, rank: u8) {
        let others = self.active.ranks & 2 << rank != 0 && rank.is_multiple_of(2);
        self.streak = if others { self.streak + 1 } else { 0 };
    }
}

/// What a user may do.
pub(crate) enum Judgement {
    /// Nothing waits.
    Nothing,
    /// Send what it is guaranteed, in line with those of a rank; and more, if it is one of those who share.
    May(u8, Wants),
    /// Send what it is guaranteed from this time on, and more before, if it wants that.
    /// It is held until then by a level of its own.
    From(Fine, Wants, Level),
    /// Nothing, until it comes back to one of its classes: see [`aside`](crate::aside).
    Aside(Level),
}

/// Where all users and subports stand.
#[derive(Clone, Debug)]
pub(crate) struct Lines<const TREE: bool> {
    /// Of users, and in a tree, behind them, of subports below others.
    pub(crate) links: Links,
    pub(crate) subports: Indexed<Subport>,
    subport_links: Links,
    /// Subports with users that may send, by their best class.
    pub(crate) port: Active<MAX_CLASSES>,
    pub(crate) wanting: Wanting<TREE>,
    /// Users until they may send what they are guaranteed, behind them subports until they may send at all, or lend, and behind those the classes of
    /// subports until somebody [comes back](crate::aside).
    pub(crate) wheel: Wheel,
    pub(crate) users: u32,
}

impl<const TREE: bool> Lines<TREE> {
    pub(crate) fn new(users: u32, subports: u32, shape: Shape) -> Lines<TREE> {
        let subport = Subport { full_at: 0, place: Place::Idle, active: Active::NONE, streak: 0 };
        Lines {
            links: Links::new(users as usize + if TREE { subports as usize } else { 0 }),
            subports: Indexed::new(subports as usize, subport),
            subport_links: Links::new(subports as usize),
            port: Active::NONE,
            wanting: Wanting::new(users, subports),
            wheel: Wheel::new(users.saturating_add(subports * (1 + MAX_CLASSES as u32)), shape),
            users,
        }
    }

    /// The subport, the class and the user whose turn it is.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<(u32, u8, u32)> {
        let subport = self.port.first(self.port.best())?;
        if TREE {
            return self.first_below(subport);
        }
        let (class, user) = self.subports.at(subport).first()?;
        Some((subport, class, user))
    }

    /// Whether nobody stands in line.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.port.ranks == 0 && self.wanting.is_empty()
    }

    /// Moves a user to where it belongs, behind those who stand there. Whether it is to be looked at what it claims.
    #[inline(always)]
    pub(crate) fn settle(&mut self, user: u32, gate: &Gate, share: &mut Share, judgement: Judgement, now: u64) -> bool {
        let standing = gate.standing();
        let number = u32::from(standing.subport());
        let mut lists_changed = false;
        match standing.place() {
            Place::Idle => {}
            Place::Waiting => _ = self.wheel.remove(user),
            Place::Active(rank) => {
                self.subports.at_mut(number).active.remove(&mut self.links, rank, user);
                lists_changed = true;
            }
        }
        let wants = match judgement {
            Judgement::Nothing => {
                gate.move_to(Place::Idle);
                Wants::NO
            }
            Judgement::May(rank, wants) => {
                gate.move_to(Place::Active(rank));
                self.subports.at_mut(number).active.push(&mut self.links, rank, user);
                lists_changed = true;
                wants
            }
            Judgement::From(at, wants, _) => {
                gate.move_to(Place::Waiting);
                self.wait(user, at, now);
                wants
            }
            Judgement::Aside(_) => {
                gate.move_to(Place::Waiting);
                Wants::NO
            }
        };
        if lists_changed {
            self.settle_subport(number);
        }
        if share.wants == wants {
            return false;
        }
        let looks = share.wants.looks(wants);
        if !looks || share.wants.is_more() != wants.is_more() {
            self.wanting.change(number, user, share);
            self.settle_claims(number, now);
        }
        looks
    }

    /// Puts a subport where it belongs as a lender and as one who wants more.
    pub(crate) fn settle_claims(&mut self, number: u32, now: u64) {
        self.settle_own_claims(number, now);
        if TREE {
            self.path(number).skip(1).for_each(|above| self.settle_own_claims(above, now));
        }
    }

    #[inline(always)]
    fn settle_own_claims(&mut self, number: u32, now: u64) {
        let waits = self.subports.at(number).place == Place::Waiting;
        let lends_at = self.wanting.settle(number, !waits, now);
        // While it waits for tokens, it is in the wheel for that.
        match lends_at {
            _ if waits => {}
            Some(at) => self.wait(self.users + number, at, now),
            None => _ = self.wheel.remove(self.users + number),
        }
    }

    /// So many bytes of those whom a subport is guaranteed go.
    #[inline(always)]
    pub(crate) fn pay_guarantee(&mut self, number: u32, bytes: u16, now: u64) {
        if self.wanting.pay(number, bytes, fine(now)) {
            self.settle_claims(number, now);
        }
    }

    #[inline]
    pub(crate) fn wait(&mut self, id: u32, until: Fine, now: u64) {
        if self.wheel.is_empty() {
            cold_path();
            self.wheel.advance(now, 1, |_| {});
        }
        self.wheel.insert(id, nanos(until));
    }

    /// Puts a subport where it belongs, unless it waits for tokens.
    #[inline(always)]
    pub(crate) fn settle_subport(&mut self, number: u32) {
        let subport = self.subports.at(number);
        let place = match subport.active.ranks {
            0 => Place::Idle,
            _ => Place::Active(subport.active.best() / 2),
        };
        if subport.place != place && subport.place != Place::Waiting {
            self.move_subport(number, place);
        }
    }

    pub(crate) fn move_subport(&mut self, number: u32, to: Place) {
        let from = std::mem::replace(&mut self.subports.at_mut(number).place, to);
        if TREE && let Some(above) = self.above(number) {
            return self.move_below(above, number, (from, to));
        }
        if let Place::Active(class) = from {
            self.port.remove(&mut self.subport_links, class, number);
        }
        if let Place::Active(class) = to {
            self.port.push(&mut self.subport_links, class, number);
        }
    }

    /// A subport waits for tokens.
    #[cold]
    pub(crate) fn suspend(&mut self, number: u32, until: Fine, now: u64) {
        self.move_subport(number, Place::Waiting);
        self.wait(self.users + number, until, now);
        self.settle_claims(number, now);
    }

    /// A subport waits no longer, if it did; or it may lend again. Whether it did wait.
    #[cold]
    pub(crate) fn resume(&mut self, number: u32, now: u64) -> bool {
        self.wheel.remove(self.users + number);
        let subport = self.subports.at_mut(number);
        let waited = subport.place == Place::Waiting;
        if waited {
            subport.place = Place::Idle;
            self.settle_subport(number);
        }
        self.settle_claims(number, now);
        waited
    }

    /// A subport has had its turn, and goes behind the others.
    #[inline(always)]
    pub(crate) fn turn_subport(&mut self, number: u32) {
        if TREE {
            return self.turn_levels(number);
        }
        let place = self.subports.at(number).place;
        if let Place::Active(class) = place
            && let Some(list) = self.port.lists.get(usize::from(class))
            && list.first() != list.last()
        {
            self.move_subport(number, place);
        }
    }
}
