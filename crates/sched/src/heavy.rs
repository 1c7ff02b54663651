//! Who holds most packets, without a search: a list of users for each number of packets.

use std::hint::select_unpredictable;

use weir_table::bits::Bits;
use weir_table::indexed::{Indexed, NONE};

/// Users with so many packets or more count as equals.
const MOST: u32 = 4095;

/// The neighbours of a user in the list that it is in, or of the head of a list: lists are rings, of users and the head, so that none has an end that would
/// have to be asked about.
#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
}

/// The users that hold more than their minimum, and more than one packet, by how many they hold. Who holds one packet never makes room for another
/// user, who would hold as many then.
#[derive(Debug)]
pub(crate) struct Heavy {
    /// Those of users, and behind them those of the heads, by how many packets users hold. Whoever holds too few is in the first list or in none.
    links: Indexed<Link>,
    /// Lists with users.
    used: Bits,
    users: u32,
    minimum: u32,
}

impl Heavy {
    /// Bytes per user.
    pub(crate) const BYTES: usize = size_of::<Link>();

    pub(crate) fn new(users: u32, minimum: u32) -> Heavy {
        let all = users as usize + MOST as usize + 1;
        let alone = |id| Link { next: id, prev: id };
        let links = Indexed::from_fn(all, alone, alone(NONE));
        Heavy { links, used: Bits::new(MOST as usize + 1), users, minimum: minimum.max(1) }
    }

    /// Hints that what a user holds changes soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, user: u32) {
        self.links.prefetch(user);
    }

    /// A user who held `from` packets holds `to`.
    #[inline(always)]
    pub(crate) fn change(&mut self, user: u32, from: u32, to: u32) {
        if from.max(to) > self.minimum {
            self.move_user(user, self.list(from), self.list(to));
        }
    }

    /// The list of users who hold so many packets: 0 for too few.
    #[inline(always)]
    fn list(&self, held: u32) -> u32 {
        select_unpredictable(held > self.minimum, held.min(MOST), 0)
    }

    /// Takes the user out of its list and puts it into another one in any case: whether it has one before and after is random, so that a branch would often be
    /// guessed wrong.
    #[inline(always)]
    fn move_user(&mut self, user: u32, from: u32, to: u32) {
        let Link { next, prev } = *self.links.at(user);
        self.links.at_mut(prev).next = next;
        self.links.at_mut(next).prev = prev;
        if next == prev {
            self.used.remove(from);
        }
        let head = self.users + to;
        let last = std::mem::replace(&mut self.links.at_mut(head).prev, user);
        self.links.at_mut(last).next = user;
        *self.links.at_mut(user) = Link { next: head, prev: last };
        if last == head {
            self.used.insert(to);
        }
    }

    /// The user who holds most; of several, the one who has held so many for longest.
    #[inline]
    pub(crate) fn heaviest(&self) -> Option<u32> {
        let list = self.used.last().filter(|list| *list > 0)?;
        Some(self.links.at(self.users + list).next)
    }
}
