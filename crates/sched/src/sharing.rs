//! Who wants more than what it is guaranteed, and whose turn it is to have what others leave.
//!
//! A user wants more while it has packets, its ceiling lets it send, and its profile has one. It stands in a ring of its subport then; a subport with
//! such users stands in a ring of the port, unless it waits for its own ceiling. Each ring is served by deficit round robin (Shreedhar and
//! Varghese 1995): whoever is first and has too little for its packet gets what its weight is worth, and goes behind the others. A subport that has
//! not used up what it is guaranteed itself lends that to its users before the port gives away what is left. Where subports are below others, [`tree`](crate::tree) has the
//! same for all levels.

use weir_table::indexed::Indexed;
use weir_table::links::{Linked, Links, List};

use crate::profile::{QUANTUM, SubportProfile};
use crate::rate::{Bucket, Fine, fine};
use crate::tree::Branch;

/// Of a user who may have more than it is guaranteed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Share {
    /// When the bucket of its ceiling is full.
    pub(crate) ceil_full_at: Fine,
    /// Bytes that it may still send in this round.
    pub(crate) deficit: u32,
    /// Whether it stands in the ring of its subport, and claims anything of what classes of that are guaranteed.
    pub(crate) wants: Wants,
}

/// Whether a user wants more than it is guaranteed, and may have it; and whether there is something to see to of what its subport guarantees [classes](crate::promises).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants(u8);

impl Wants {
    pub(crate) const NO: Wants = Wants(0);
    /// What it claims is to be looked at, in a judgement.
    pub(crate) const LOOK: Wants = Wants(2);
    /// It claims something, where it stands.
    pub(crate) const CLAIMS: Wants = Wants(4);

    #[inline(always)]
    pub(crate) fn more(wants: bool) -> Wants {
        Wants(wants as u8)
    }

    #[inline(always)]
    pub(crate) fn is_more(self) -> bool {
        self.0 & 1 != 0
    }

    pub(crate) fn and(self, other: Wants) -> Wants {
        Wants(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Wants) -> Wants {
        Wants(self.0 & !other.0)
    }

    /// Whether what is claimed is to be looked at after a change from one to the other.
    #[inline(always)]
    pub(crate) fn looks(self, other: Wants) -> bool {
        (self.0 | other.0) > 1
    }
}

/// Of a subport, as a lender and as one who wants more.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    /// Its users who want more, and the subports below it with such users.
    pub(crate) users: List,
    /// What it is guaranteed, if anything.
    guarantee: Option<Bucket>,
    /// When the bucket of that is full.
    pub(crate) full_at: Fine,
    /// Bytes that it gets per round.
    pub(crate) quantum: u32,
    /// Bytes that it may still send in this round.
    pub(crate) deficit: u32,
    /// It stands in the ring of the port, or of the subport above it.
    pub(crate) wants: bool,
    /// It lends, and stands among the lenders where there is one level.
    pub(crate) lends: bool,
}

impl Claims {
    /// From when on it may lend what it is guaranteed, if it is, and somebody `wants` that. It lends while its bucket is not in debt: a frame may bring it there.
    #[inline(always)]
    pub(crate) fn lends_at(&self, wants: bool) -> Option<Fine> {
        self.guarantee.filter(|_| wants).map(|bucket| bucket.due(self.full_at, 0))
    }
}

/// The deficit of a user who has come since the last round: it has what its weight is worth when its turn comes first.
const FRESH: u32 = u32::MAX;

/// Those who want more.
#[derive(Clone, Debug)]
pub(crate) struct Wanting<const TREE: bool> {
    /// Rings of users, and in a tree of subports, which have the numbers from `first` on.
    pub(crate) users: Links,
    pub(crate) claims: Indexed<Claims>,
    ring: Links,
    /// Subports with users who want more; in a tree, those below the port itself.
    pub(crate) all: List,
    pub(crate) lending: Links,
    /// Those of them that lend what they are guaranteed; in a tree, those below the port itself that do, or below which some do.
    pub(crate) lenders: List,
    /// What is above and below each subport; none where there is one level.
    pub(crate) branches: Indexed<Branch>,
    pub(crate) first: u32,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) subport: u32,
    pub(crate) user: u32,
    /// The subport lends what it is guaranteed; else it is what the port has left.
    pub(crate) lent: bool,
}

impl<const TREE: bool> Wanting<TREE> {
    /// For so many users, of whom none shares yet.
    pub(crate) fn new(users: u32, subports: u32) -> Wanting<TREE> {
        let claims = Claims {
            users: List::EMPTY,
            guarantee: None,
            full_at: 0,
            // Where there are no subports, all users are in one of which nothing is said.
            quantum: QUANTUM,
            deficit: 0,
            wants: false,
            lends: false,
        };
        let links = || Links::new(subports as usize);
        let (all, lenders) = (List::EMPTY, List::EMPTY);
        let claims = Indexed::new(subports as usize, claims);
        let branches = Indexed::new(if TREE { subports as usize } else { 0 }, Branch::TOP);
        let (ring, lending) = (links(), links());
        Wanting { users: Links::new(0), claims, ring, all, lending, lenders, branches, first: users }
    }

    /// Makes room for so many users, none of whom stands in a ring.
    pub(crate) fn make_room(&mut self, users: u32) {
        let subports = if TREE { self.claims.len() } else { 0 };
        self.users = Links::new(users as usize + subports);
    }

    /// Nobody wants more.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What a subport is guaranteed, and its weight, from `now` on.
    pub(crate) fn set(&mut self, number: u32, profile: &SubportProfile, now: Fine) {
        let claims = self.claims.at_mut(number);
        let old = std::mem::replace(&mut claims.guarantee, profile.guarantee);
        claims.quantum = profile.quantum;
        if let Some(bucket) = claims.guarantee {
            claims.full_at = bucket.carry(&old.unwrap_or(bucket), claims.full_at, now);
        }
    }

    /// A user comes to want more, or does no longer.
    pub(crate) fn change(&mut self, number: u32, user: u32, share: &mut Share) {
        share.deficit = FRESH;
        share.wants = Wants(share.wants.0 ^ 1);
        let list = &mut self.claims.at_mut(number).users;
        if share.wants.is_more() {
            self.users.push_back(list, user);
        } else {
            self.users.remove(list, user);
        }
    }

    /// Puts a subport where it belongs, after a change of its users, of its guarantee's bucket, or of whether it may send at all. Says from when
    /// on it lends, where that is to come.
    #[inline(always)]
    pub(crate) fn settle(&mut self, number: u32, may_send: bool, now: u64) -> Option<Fine> {
        if TREE {
            return self.settle_in_tree(number, may_send, now);
        }
        let claims = self.claims.at_mut(number);
        let wants = may_send && !claims.users.is_empty();
        if claims.wants != wants {
            (claims.wants, claims.deficit) = (wants, claims.quantum);
            change(&mut self.ring, &mut self.all, number, wants);
        }
        let lends_at = claims.lends_at(wants);
        let lends = lends_at.is_some_and(|at| at <= fine(now));
        if claims.lends != lends {
            claims.lends = lends;
            change(&mut self.lending, &mut self.lenders, number, lends);
        }
        lends_at.filter(|_| !lends)
    }

    /// Whose turn it is, if anybody wants more.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<Turn> {
        if TREE {
            return self.first_in_tree();
        }
        let lent = !self.lenders.is_empty();
        let subport = if lent { self.lenders.first() } else { self.all.first() };
        let user = self.claims.at(subport).users.first();
        (!self.all.is_empty()).then_some(Turn { subport, user, lent })
    }

    /// The user behind one who wants more.
    #[inline(always)]
    pub(crate) fn behind(&self, user: u32) -> u32 {
        self.users.next(user)
    }

    /// Whether whose turn it is has saved up enough for so many bytes; in a tree, of what `lender` gives. Who has not gets what its weight is worth, and goes behind the others.
    #[inline(always)]
    pub(crate) fn affords(&mut self, turn: Turn, lender: u32, share: &mut Share, quantum: u32, bytes: u16) -> bool {
        let claims = self.claims.at_mut(turn.subport);
        if share.deficit == FRESH {
            share.deficit = quantum;
        }
        if share.deficit < u32::from(bytes) {
            share.deficit += quantum;
            turn_round(&mut self.users, &mut claims.users);
            return false;
        }
        self.level_affords(turn, lender, bytes)
    }

    /// The same of the levels below the one that gives, without the user.
    #[inline(always)]
    pub(crate) fn level_affords(&mut self, turn: Turn, lender: u32, bytes: u16) -> bool {
        if TREE {
            return self.levels_afford(turn, lender, bytes);
        }
        let claims = self.claims.at_mut(turn.subport);
        if !turn.lent && claims.deficit < u32::from(bytes) {
            claims.deficit += claims.quantum;
            turn_round(&mut self.ring, &mut self.all);
            return false;
        }
        true
    }

    /// Whose turn it was has sent so many bytes; in a tree, of what `lender` gives.
    #[inline(always)]
    pub(crate) fn sent(&mut self, turn: Turn, lender: u32, share: &mut Share, bytes: u16) {
        share.deficit -= u32::from(bytes).min(share.deficit);
        self.level_sent(turn, lender, bytes);
    }

    /// The same of the levels below the one that gives, without the user.
    #[inline(always)]
    pub(crate) fn level_sent(&mut self, turn: Turn, lender: u32, bytes: u16) {
        if TREE {
            return self.levels_sent(turn, lender, bytes);
        }
        if turn.lent {
            turn_round(&mut self.lending, &mut self.lenders);
        } else {
            let claims = self.claims.at_mut(turn.subport);
            claims.deficit -= u32::from(bytes).min(claims.deficit);
        }
    }

    /// So many bytes go on account of what a subport is guaranteed. Whether it is guaranteed anything.
    #[inline(always)]
    pub(crate) fn pay(&mut self, number: u32, bytes: u16, now: Fine) -> bool {
        let claims = self.claims.at_mut(number);
        let Some(bucket) = claims.guarantee else { return false };
        claims.full_at = bucket.after(claims.full_at, bytes, now);
        true
    }
}

pub(crate) fn change(links: &mut Links, list: &mut List, number: u32, is_in: bool) {
    if is_in {
        links.push_back(list, number);
    } else {
        links.remove(list, number);
    }
}

/// One of them goes behind the others.
pub(crate) fn move_back(links: &mut Links, list: &mut List, number: u32) {
    if list.last() != number {
        links.remove(list, number);
        links.push_back(list, number);
    }
}

/// The first goes behind the others.
#[inline(always)]
pub(crate) fn turn_round(links: &mut Links, list: &mut List) {
    if list.first() != list.last()
        && let Some(first) = links.pop_front(list)
    {
        links.push_back(list, first);
    }
}
