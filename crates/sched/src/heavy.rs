//! Who holds most packets, without a search: a list of users for each number of packets.

use weir_table::bits::Bits;
use weir_table::indexed::{Indexed, NONE};
use weir_table::links::{Linked, Links, List};

/// Users with so many packets or more count as equals.
const MOST: u32 = 4095;

/// The users that hold more than their minimum, and more than one packet, by how many they hold. Who holds one packet never makes room for another
/// user, who would hold as many then.
#[derive(Debug)]
pub(crate) struct Heavy {
    links: Links,
    lists: Indexed<List>,
    used: Bits,
    minimum: u32,
}

impl Heavy {
    /// Bytes per user.
    pub(crate) const BYTES: usize = Links::BYTES;

    pub(crate) fn new(users: u32, minimum: u32) -> Heavy {
        let lists = MOST as usize + 1;
        let links = Links::new(users as usize);
        Heavy { links, lists: Indexed::new(lists, List::EMPTY), used: Bits::new(lists), minimum: minimum.max(1) }
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
            self.move_user(user, from, to);
        }
    }

    fn move_user(&mut self, user: u32, from: u32, to: u32) {
        let (old, new) = (from.min(MOST), to.min(MOST));
        if from > self.minimum {
            let list = self.lists.at_mut(old);
            self.links.remove(list, user);
            if list.is_empty() {
                self.used.remove(old);
            }
        }
        if to > self.minimum {
            let list = self.lists.at_mut(new);
            if list.is_empty() {
                self.used.insert(new);
            }
            self.links.push_back(list, user);
        }
    }

    /// The user who holds most; of several, the one who has held so many for longest.
    #[inline]
    pub(crate) fn heaviest(&self) -> Option<u32> {
        let first = self.lists.at(self.used.last()?).first();
        (first != NONE).then_some(first)
    }
}
