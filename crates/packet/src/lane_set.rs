//! Which lanes go with packets where not all of them do.

use crate::lanes::{LaneId, Lanes, NEAR_USER_LANES, Row, Slot, USER_LANES};
use crate::packet::Held;

/// A set of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSet(u16);

/// The first bit of claimed lanes.
const USER: u8 = 6;

/// What dead lanes hold in builds with debug assertions, so that a stage that reads a lane which it did not declare is found out.
const POISON: u8 = 0xa5;

impl LaneSet {
    /// No lane.
    pub const EMPTY: LaneSet = LaneSet(0);

    /// Every lane.
    pub const ALL: LaneSet = LaneSet((1 << (USER + USER_LANES as u8)) - 1);

    /// Those of a list.
    pub fn of(lanes: &[LaneId]) -> LaneSet {
        lanes.iter().fold(LaneSet::EMPTY, |set, lane| set.with(*lane))
    }

    /// The bit of a lane; none of what is no lane.
    const fn bit(lane: LaneId) -> u16 {
        1 << match lane {
            LaneId::Time => 0,
            LaneId::Port => 1,
            LaneId::L3 => 2,
            LaneId::Class => 3,
            LaneId::Colour => 4,
            LaneId::Passes => 5,
            LaneId::User(n) => USER + n % USER_LANES as u8,
            LaneId::Ipv4 | LaneId::Ipv6 => return 0,
        }
    }

    /// With a lane.
    pub const fn with(self, lane: LaneId) -> LaneSet {
        LaneSet(self.0 | LaneSet::bit(lane))
    }

    /// With those of another set.
    pub const fn and(self, other: LaneSet) -> LaneSet {
        LaneSet(self.0 | other.0)
    }

    /// Without those of another set.
    pub const fn without(self, other: LaneSet) -> LaneSet {
        LaneSet(self.0 & !other.0)
    }

    /// Whether it has a lane.
    #[inline(always)]
    pub const fn has(self, lane: LaneId) -> bool {
        self.0 & LaneSet::bit(lane) != 0
    }

    /// Whether the first line of a packet's header has room for all of them.
    #[inline(always)]
    pub(crate) const fn is_near(self) -> bool {
        const NEAR: LaneSet = LaneSet::ALL.without(LaneSet::EMPTY.with(LaneId::Time).and(LaneSet::far_users()));
        self.without(NEAR).is_empty()
    }

    /// Claimed lanes that are saved elsewhere.
    const fn far_users() -> LaneSet {
        LaneSet(LaneSet::ALL.0 & !((1 << (USER as usize + NEAR_USER_LANES)) - 1))
    }

    /// Whether it has none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Lanes {
    /// Sets what is known about one packet in these lanes; the others mean nothing.
    #[inline]
    pub(crate) fn set_some(&mut self, slot: Slot, row: &Row, lanes: LaneSet) {
        if cfg!(debug_assertions) {
            self.set_row(slot, &Row::POISONED);
        }
        if lanes.has(LaneId::Time) {
            self.time[slot] = row.time;
        }
        if lanes.has(LaneId::Port) {
            self.port[slot] = row.port;
        }
        if lanes.has(LaneId::L3) {
            self.l3[slot] = row.l3;
        }
        if lanes.has(LaneId::Class) {
            self.class[slot] = row.class;
        }
        if lanes.has(LaneId::Colour) {
            self.colour[slot] = row.colour;
        }
        if lanes.has(LaneId::Passes) {
            self.passes[slot] = row.passes;
        }
        for (n, value) in (0..).zip(row.user) {
            if lanes.has(LaneId::User(n)) {
                self.set_user(n, slot, value);
            }
        }
    }
}

impl Held {
    /// Saves what nobody may read.
    pub(crate) fn poison(&mut self) {
        self.0.save(&Row::POISONED, LaneSet::ALL);
    }
}

impl Row {
    const POISONED: Row = Row {
        time: u64::from_ne_bytes([POISON; 8]),
        user: [u32::from_ne_bytes([POISON; 4]); USER_LANES],
        port: u16::from_ne_bytes([POISON; 2]),
        l3: POISON,
        class: POISON,
        colour: POISON,
        // No more rounds.
        passes: POISON,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, HeapPool, Key, Pool};

    const ALL: [LaneId; 10] = [
        LaneId::Time,
        LaneId::Port,
        LaneId::L3,
        LaneId::Class,
        LaneId::Colour,
        LaneId::Passes,
        LaneId::User(0),
        LaneId::User(1),
        LaneId::User(2),
        LaneId::User(3),
    ];

    #[test]
    fn sets_are_what_was_put_in() {
        for (n, lane) in ALL.into_iter().enumerate() {
            let set = LaneSet::of(&ALL[..n]);
            assert!(!set.has(lane) && set.with(lane).has(lane) && set.is_empty() == (n == 0));
            assert_eq!(set.with(lane).without(LaneSet::of(&[lane])), set);
            assert_eq!(LaneSet::EMPTY.with(lane).and(set), LaneSet::of(&ALL[..=n]));
        }
    }

    /// What is known in each lane of the packet in slot 0.
    fn known(lanes: &Lanes) -> [u64; 10] {
        let slot = Slot::new(0);
        let user = |n| u64::from(lanes.get(Key::<u32>::new(n).unwrap(), slot));
        let (class, colour) = (lanes.class[slot].into(), lanes.colour[slot].into());
        let [a, b, c, d] = [0, 1, 2, 3].map(user);
        let (port, l3, passes) = (lanes.port[slot].into(), lanes.l3[slot].into(), lanes.passes[slot].into());
        [lanes.time[slot], port, l3, class, colour, passes, a, b, c, d]
    }

    #[test]
    fn packets_take_along_what_they_are_told_to() {
        let mut pool = HeapPool::new(4, 256);
        for carried in 0..1 << ALL.len() {
            let set = ALL.into_iter().enumerate().filter(|(n, _)| carried >> n & 1 == 1);
            let set = LaneSet::of(&set.map(|(_, lane)| lane).collect::<Vec<_>>());
            let (mut from, mut to) = (Batch::new(), Batch::new());
            let slot = from.push(pool.alloc().unwrap()).unwrap();
            let row = Row { time: 11, user: [12, 13, 14, 15], port: 16, l3: 17, class: 18, colour: 19, passes: 20 };
            from.lanes.set_row(slot, &row);
            let held = from.hold_with(slot, set).unwrap();
            to.restore_with(held, set).unwrap();
            for (n, (before, after)) in known(&from.lanes).into_iter().zip(known(&to.lanes)).enumerate() {
                assert_eq!(before == after, carried >> n & 1 == 1, "{:?} of {set:?}", ALL[n]);
            }
            pool.free(to.take(slot).unwrap());
        }
    }
}
