//! What a packet that need not wait touches of its user: half a cache line, in which its counts are, too.
//!
//! The scheduler alone writes; the control side reads the counts at any time. So all of it is atomic words, which cost what plain ones do.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_table::indexed::Indexed;

use crate::rate::Fine;

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

/// Where a user or a subport stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing waits.
    Idle,
    /// In the wheel, until it may send.
    Waiting,
    /// In the list of those that may send: users by rank, subports by class.
    Active(u8),
}

/// Who a user is, and where it stands, in one word: its profile, its subport, whether there is such a user, and its [`Place`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing(u64);

const SUBPORT: u32 = 16;
const OPEN: u64 = 1 << 32;
const PLACE: u32 = 40;

impl Standing {
    /// Whoever is to be so in an instant, of whom nothing waits.
    pub(crate) fn new(profile: u16, subport: u16) -> Standing {
        Standing(u64::from(profile) | u64::from(subport) << SUBPORT | OPEN)
    }

    #[inline(always)]
    pub(crate) fn profile(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    pub(crate) fn subport(self) -> u16 {
        (self.0 >> SUBPORT) as u16
    }

    /// Whether there is such a user; what waits of one who is gone is still sent.
    #[inline(always)]
    pub(crate) fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }

    /// Whether nothing of it waits.
    #[inline(always)]
    pub(crate) fn is_idle(self) -> bool {
        self.0 >> PLACE == 0
    }

    #[inline(always)]
    pub(crate) fn place(self) -> Place {
        match self.0 >> PLACE {
            0 => Place::Idle,
            1 => Place::Waiting,
            code => Place::Active((code - 2) as u8),
        }
    }

    #[inline(always)]
    fn at(self, place: Place) -> Standing {
        let code = match place {
            Place::Idle => 0,
            Place::Waiting => 1,
            Place::Active(rank) => u64::from(rank) + 2,
        };
        Standing(self.0 & ((1 << PLACE) - 1) | code << PLACE)
    }

    fn closed(self) -> Standing {
        Standing(self.0 & !OPEN)
    }
}

/// A user's.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(crate) struct Gate {
    /// When its token bucket is full.
    full_at: AtomicU64,
    standing: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Gate {
    #[inline(always)]
    pub(crate) fn full_at(&self) -> Fine {
        self.full_at.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set_full_at(&self, full_at: Fine) {
        self.full_at.store(full_at, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn standing(&self) -> Standing {
        Standing(self.standing.load(Ordering::Relaxed))
    }

    pub(crate) fn set_standing(&self, standing: Standing) {
        self.standing.store(standing.0, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn move_to(&self, place: Place) {
        self.standing.store(self.standing().at(place).0, Ordering::Relaxed);
    }

    pub(crate) fn close(&self) {
        self.set_standing(self.standing().closed());
    }

    /// Counts a packet that is sent.
    #[inline(always)]
    pub(crate) fn sent(&self, bytes: u16) {
        add(&self.packets, 1);
        add(&self.bytes, u64::from(bytes));
    }
}

/// Those of all users of one scheduler.
#[derive(Debug)]
pub struct Gates {
    gates: Indexed<Gate>,
    dropped: Indexed<AtomicU64>,
}

impl Gates {
    /// Bytes per user.
    pub(crate) const BYTES: usize = size_of::<Gate>() + size_of::<AtomicU64>();

    /// For so many users, none of whom there is yet.
    pub(crate) fn new(users: u32) -> Gates {
        Gates {
            gates: Indexed::from_fn(users as usize, |_| Gate::default(), Gate::default()),
            dropped: Indexed::from_fn(users as usize, |_| AtomicU64::new(0), AtomicU64::new(0)),
        }
    }

    /// The counts of a user; zeros where there is no such user.
    pub fn count(&self, user: u32) -> UserCount {
        let at = user as usize;
        let (Some(gate), Some(dropped)) = (self.gates.items().get(at), self.dropped.items().get(at)) else {
            return UserCount::default();
        };
        UserCount {
            packets: gate.packets.load(Ordering::Relaxed),
            bytes: gate.bytes.load(Ordering::Relaxed),
            dropped: dropped.load(Ordering::Relaxed),
        }
    }

    /// Hints that a user is looked at soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, user: u32) {
        self.gates.prefetch(user);
    }

    #[inline(always)]
    pub(crate) fn at(&self, user: u32) -> &Gate {
        self.gates.at(user)
    }

    #[inline(always)]
    pub(crate) fn dropped(&self, user: u32) {
        add(self.dropped.at(user), 1);
    }
}

/// Adds where there is one writer.
#[inline(always)]
fn add(to: &AtomicU64, count: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_is_what_was_put_in() {
        let mut standing = Standing::new(u16::MAX, 0x1234);
        let ranks = (0..=u8::MAX).map(Place::Active);
        for place in [Place::Idle, Place::Waiting].into_iter().chain(ranks) {
            standing = standing.at(place);
            assert_eq!((standing.place(), standing.is_idle()), (place, place == Place::Idle));
            assert_eq!((standing.profile(), standing.subport(), standing.is_open()), (u16::MAX, 0x1234, true));
        }
        standing = standing.closed();
        assert_eq!((standing.place(), standing.is_open(), standing.profile()), (Place::Active(255), false, u16::MAX));
        assert!(!Standing::default().is_open() && Standing::default().is_idle());
    }
}
