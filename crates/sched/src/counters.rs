//! What became of each user's packets, for the control side to read.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_table::indexed::Indexed;

/// Counts of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserCount {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, without overhead.
    pub bytes: u64,
    /// Packets dropped, for whatever reason.
    pub dropped: u64,
}

impl UserCount {
    /// The sums with another's.
    pub fn plus(self, other: UserCount) -> UserCount {
        UserCount {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
            dropped: self.dropped.wrapping_add(other.dropped),
        }
    }
}

#[derive(Debug, Default)]
#[repr(C, align(32))]
struct Cell {
    packets: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
}

/// Counts of all users of one scheduler. The scheduler alone writes them; anybody may read.
#[derive(Debug)]
pub struct UserCounters(Indexed<Cell>);

impl UserCounters {
    /// Bytes per user.
    pub(crate) const BYTES: usize = size_of::<Cell>();

    /// Counters for so many users.
    pub fn new(users: u32) -> UserCounters {
        UserCounters(Indexed::from_items((0..users).map(|_| Cell::default()).collect(), Cell::default()))
    }

    /// The counts of a user; zeros where there is no such user.
    pub fn get(&self, user: u32) -> UserCount {
        let Some(cell) = self.0.items().get(user as usize) else { return UserCount::default() };
        UserCount {
            packets: cell.packets.load(Ordering::Relaxed),
            bytes: cell.bytes.load(Ordering::Relaxed),
            dropped: cell.dropped.load(Ordering::Relaxed),
        }
    }

    #[inline(always)]
    pub(crate) fn sent(&self, user: u32, bytes: u64) {
        let cell = self.0.at(user);
        add(&cell.packets, 1);
        add(&cell.bytes, bytes);
    }

    #[inline(always)]
    pub(crate) fn dropped(&self, user: u32) {
        add(&self.0.at(user).dropped, 1);
    }
}

/// Adds where there is one writer.
#[inline(always)]
fn add(to: &AtomicU64, count: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}
