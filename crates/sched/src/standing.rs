//! Who a user is, and where it stands: a word that a packet that need not wait reads of it.

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
pub(crate) struct Standing(pub(crate) u64);

const SUBPORT: u32 = 16;
const OPEN: u64 = 1 << 32;
const WATCHED: u64 = 1 << 33;
const PLACE: u32 = 40;
/// Beside its place, and gone with it.
const RATED: u64 = 1 << 63;

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
        match (self.0 & !RATED) >> PLACE {
            0 => Place::Idle,
            1 => Place::Waiting,
            code => Place::Active((code - 2) as u8),
        }
    }

    #[inline(always)]
    pub(crate) fn at(self, place: Place) -> Standing {
        let code = match place {
            Place::Idle => 0,
            Place::Waiting => 1,
            Place::Active(rank) => u64::from(rank) + 2,
        };
        Standing(self.0 & ((1 << PLACE) - 1) | code << PLACE)
    }

    /// Whether what becomes of its packets is noted, second by second.
    #[inline(always)]
    pub(crate) fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    /// Whether it is in the wheel, and not watched.
    #[inline(always)]
    pub(crate) fn waits_unwatched(self) -> bool {
        self.0 & (u64::MAX << PLACE & !RATED | WATCHED) == 1 << PLACE
    }

    /// Whether it waits for its own rate, and is [noted](crate::hold::Held::rated) to do so: as long as it stays where it is, that need not be looked at.
    #[inline(always)]
    pub(crate) fn is_rated(self) -> bool {
        self.0 & RATED != 0
    }

    /// The same, where that is so.
    #[inline(always)]
    pub(crate) fn rated(self) -> Standing {
        Standing(self.at(Place::Waiting).0 | RATED)
    }

    /// The same, watched or not.
    pub(crate) fn watched(self, is: bool) -> Standing {
        Standing(self.0 & !WATCHED | if is { WATCHED } else { 0 })
    }

    pub(crate) fn closed(self) -> Standing {
        Standing(self.0 & !OPEN)
    }
}
