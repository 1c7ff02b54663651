//! What a packet that need not wait touches of its user: half a cache line, in which its counts are, too.
//!
//! The scheduler alone writes; the control side reads the counts at any time. So all of it is atomic words, which cost what plain ones do.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use weir_stage::Ways as _;
use weir_table::indexed::{Indexed, NONE};

use crate::class::MAX_CLASSES;
use crate::hold::{Held, Hold, Level};
use crate::profile::LEVELS;
use crate::rate::Fine;
use crate::shaper::Exit;
pub(crate) use crate::standing::{Place, Standing};
use crate::watch::{Asked, Fate, Told, Watches};

/// Why the scheduler dropped a packet of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its queue was full.
    QueueFull,
    /// Its user held its share of the buffers, and nobody held more.
    OverShare,
    /// It made room for a packet of another user.
    PushedOut,
    /// Random early detection.
    Red,
    /// Controlled delay.
    Codel,
    /// The coupling of two lines (L4S).
    L4s,
}

impl Loss {
    /// All of them.
    pub const ALL: [Loss; 6] = [Loss::QueueFull, Loss::OverShare, Loss::PushedOut, Loss::Red, Loss::Codel, Loss::L4s];

    /// So many of them are counted in the line of each user; the last one apart, where anybody has it.
    const NEAR: usize = 5;

    /// Its name, as [`crate::shaper::Exit`] has it.
    pub fn name(self) -> &'static str {
        Exit::LIST.get(usize::from(Exit::from(self).code())).map_or("", |way| way.name)
    }
}

/// Counts of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserCount {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, without overhead.
    pub bytes: u64,
    /// Packets dropped, by reason.
    lost: [u64; Loss::ALL.len()],
    /// Packets marked, by class.
    marks: [u64; MAX_CLASSES],
}

impl UserCount {
    /// Packets dropped, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.losses().map(|(_, count)| count).sum()
    }

    /// Packets dropped, by reason.
    pub fn losses(&self) -> impl Iterator<Item = (Loss, u64)> {
        Loss::ALL.into_iter().zip(self.lost)
    }

    /// The names of the reasons for which packets were dropped, and how many.
    pub fn by_reason(&self) -> BTreeMap<&'static str, u64> {
        self.losses().filter(|(_, count)| *count > 0).map(|(loss, count)| (loss.name(), count)).collect()
    }

    /// Packets marked as such that have met congestion (RFC 3168).
    pub fn marked(&self) -> u64 {
        self.marks.iter().sum()
    }

    /// The classes in which packets were marked, and how many.
    pub fn marks(&self) -> BTreeMap<u8, u64> {
        (0..).zip(self.marks).filter(|(_, count)| *count > 0).collect()
    }

    /// The same, where the lowest class, which is that of the number `built`, is called by the number `named`.
    pub(crate) fn with_lowest(self, built: usize, named: usize) -> UserCount {
        let mut marks = self.marks;
        if built != named && built < marks.len() && named < marks.len() {
            marks.swap(built, named);
        }
        UserCount { marks, ..self }
    }

    /// The sums with another's.
    pub fn plus(self, other: UserCount) -> UserCount {
        UserCount {
            packets: self.packets.wrapping_add(other.packets),
            bytes: self.bytes.wrapping_add(other.bytes),
            lost: sums(self.lost, other.lost),
            marks: sums(self.marks, other.marks),
        }
    }
}

fn sums<const N: usize>(mut to: [u64; N], more: [u64; N]) -> [u64; N] {
    to.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
    to
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

/// What is noted of a user where its packets wait or are dropped: a line of its own, which those that go straight through never touch.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Tally {
    pub(crate) held: Held,
    lost: [AtomicU64; Loss::NEAR],
}

/// Those of all users of one scheduler.
#[derive(Debug)]
pub struct Gates {
    gates: Indexed<Gate>,
    tallies: Indexed<Tally>,
    subports: Indexed<Full>,
    /// Made when anybody's packets may be marked.
    marks: OnceLock<Marks>,
    /// Packets of each user that the coupling of two lines dropped; made when anybody has such.
    coupled: OnceLock<Box<[AtomicU64]>>,
    /// Of each user and class, the subport for which it [stood aside](crate::aside) last; made when any has rates of classes.
    spots: OnceLock<Spots>,
    pub(crate) watches: Watches,
}

/// Numbers of subports, by user and class; [`NOWHERE`] where there is none.
#[derive(Debug)]
struct Spots {
    numbers: Box<[AtomicU16]>,
    classes: usize,
}

const NOWHERE: u16 = u16::MAX;

/// Whether a subport is full, and what is above it.
#[derive(Debug)]
struct Full {
    held: Held,
    /// [`NONE`] for the port.
    above: AtomicU32,
}

impl Default for Full {
    fn default() -> Full {
        Full { held: Held::default(), above: AtomicU32::new(NONE) }
    }
}

/// Packets marked, by user and class.
#[derive(Debug)]
struct Marks {
    counts: Box<[AtomicU64]>,
    classes: usize,
}

impl Marks {
    fn of(&self, user: u32) -> impl Iterator<Item = &AtomicU64> {
        self.counts.iter().skip(user as usize * self.classes).take(self.classes)
    }
}

impl Gates {
    /// Bytes per user.
    pub(crate) const BYTES: usize = size_of::<Gate>();

    /// Bytes per user that say why it is slow.
    pub(crate) const TALLY_BYTES: usize = size_of::<Tally>();

    /// For so many users, none of whom there is yet, in so many subports.
    pub(crate) fn new(users: u32, subports: u32) -> Gates {
        Gates {
            gates: Indexed::from_fn(users as usize, |_| Gate::default(), Gate::default()),
            tallies: Indexed::from_fn(users as usize, |_| Tally::default(), Tally::default()),
            subports: Indexed::from_fn(subports as usize, |_| Full::default(), Full::default()),
            marks: OnceLock::new(),
            coupled: OnceLock::new(),
            spots: OnceLock::new(),
            watches: Watches::default(),
        }
    }

    /// Packets of so many users with so many classes may be marked.
    pub(crate) fn make_marks(&self, users: u32, classes: usize) {
        let counts = || (0..users as usize * classes).map(|_| AtomicU64::new(0)).collect();
        self.marks.get_or_init(|| Marks { counts: counts(), classes });
    }

    /// So many users may have queues with two lines.
    pub(crate) fn make_coupled(&self, users: u32) {
        self.coupled.get_or_init(|| (0..users).map(|_| AtomicU64::new(0)).collect());
    }

    /// So many users with so many classes may stand aside.
    pub(crate) fn make_spots(&self, users: u32, classes: usize) {
        let numbers = || (0..users as usize * classes).map(|_| AtomicU16::new(NOWHERE)).collect();
        self.spots.get_or_init(|| Spots { numbers: numbers(), classes });
    }

    fn spot_of(&self, user: u32, class: usize) -> Option<&AtomicU16> {
        self.spots.get().and_then(|all| all.numbers.get(user as usize * all.classes + class))
    }

    /// The subport for which a user stood aside last with a class.
    pub(crate) fn spot(&self, user: u32, class: usize) -> Option<u32> {
        let number = self.spot_of(user, class)?.load(Ordering::Relaxed);
        (number != NOWHERE).then_some(number.into())
    }

    pub(crate) fn set_spot(&self, user: u32, class: usize, number: u16) {
        if let Some(spot) = self.spot_of(user, class) {
            spot.store(number, Ordering::Relaxed);
        }
    }

    fn coupled(&self, user: u32) -> Option<&AtomicU64> {
        self.coupled.get()?.get(user as usize)
    }

    /// The counts of a user; zeros where there is no such user.
    pub fn count(&self, user: u32) -> UserCount {
        let at = user as usize;
        let (Some(gate), Some(tally)) = (self.gates.items().get(at), self.tallies.items().get(at)) else {
            return UserCount::default();
        };
        let mut marks = [0; MAX_CLASSES];
        let counted = self.marks.get().into_iter().flat_map(|all| all.of(user));
        marks.iter_mut().zip(counted).for_each(|(to, count)| *to = count.load(Ordering::Relaxed));
        let mut lost = [0; Loss::ALL.len()];
        let counted = tally.lost.iter().chain(self.coupled(user));
        lost.iter_mut().zip(counted).for_each(|(to, count)| *to = count.load(Ordering::Relaxed));
        UserCount {
            marks,
            lost,
            packets: gate.packets.load(Ordering::Relaxed),
            bytes: gate.bytes.load(Ordering::Relaxed),
        }
    }

    /// What holds a user back at `now`; `None` where nothing does, or where there is no such user.
    pub fn hold(&self, user: u32, now: u64) -> Option<Hold> {
        let at = user as usize;
        let subport = self.gates.items().get(at)?.standing().subport();
        let hold = self.tallies.items().get(at)?.held.at(self.levels(subport.into()), now)?;
        let Level::SubportClass(class) = hold.level else { return Some(hold) };
        // It may stand aside for one above its own.
        let spot = self.spot(user, class.into());
        let above = self.levels(subport.into()).skip(1).find(|(number, _)| spot == Some(*number));
        Some(above.map_or(hold, |(number, _)| Hold { level: Level::AboveClass(class, number as u16), ..hold }))
    }

    /// A subport and those above it, the lowest first.
    fn levels(&self, subport: u32) -> impl Iterator<Item = (u32, &Held)> {
        let above = |(_, full): &(u32, &Full)| self.level(full.above.load(Ordering::Relaxed));
        let levels = std::iter::successors(self.level(subport), above).take(LEVELS);
        levels.map(|(number, full)| (number, &full.held))
    }

    fn level(&self, number: u32) -> Option<(u32, &Full)> {
        Some((number, self.subports.items().get(number as usize)?))
    }

    /// A subport is below another one, or below the port, from now on.
    pub(crate) fn set_above(&self, number: u32, above: u32) {
        self.subports.at(number).above.store(above, Ordering::Relaxed);
    }

    /// Hints that a user is looked at soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, user: u32) {
        self.gates.prefetch(user);
    }

    /// Hints that a user comes to wait, or does so no longer, soon.
    #[inline(always)]
    pub(crate) fn prefetch_tally(&self, user: u32) {
        self.tallies.prefetch(user);
    }

    #[inline(always)]
    pub(crate) fn at(&self, user: u32) -> &Gate {
        self.gates.at(user)
    }

    #[inline(always)]
    pub(crate) fn tally(&self, user: u32) -> &Tally {
        self.tallies.at(user)
    }

    #[inline(always)]
    pub(crate) fn subport(&self, number: u32) -> &Held {
        &self.subports.at(number).held
    }

    #[inline(always)]
    pub(crate) fn dropped(&self, user: u32, loss: Loss, now: u64) {
        if let Some(count) = self.tally(user).lost.get(loss as usize).or_else(|| self.coupled(user)) {
            add(count, 1);
        }
        if self.at(user).standing().is_watched() {
            self.note(user, Fate::Lost(loss), now);
        }
    }

    /// A packet of a user is marked.
    #[cold]
    pub(crate) fn marked(&self, user: u32, class: usize, now: u64) {
        if let Some(count) = self.marks.get().and_then(|all| all.of(user).nth(class)) {
            add(count, 1);
        }
        if self.at(user).standing().is_watched() {
            self.note(user, Fate::Marked, now);
        }
    }

    /// Something became of a packet of a user who is watched.
    #[cold]
    pub(crate) fn note(&self, user: u32, fate: Fate, now: u64) {
        if !self.watches.note(user, fate, now) {
            let gate = self.at(user);
            gate.set_standing(gate.standing().watched(false));
        }
    }

    /// Somebody asks about a user, at `now`: it is watched once the scheduler is [told of it](crate::scheduler::Scheduler::assign). One at a time asks.
    pub fn ask(&self, user: u32, now: u64) -> Asked {
        self.watches.ask(user, now)
    }

    /// What was seen of a user, if it is watched.
    pub fn told(&self, user: u32, now: u64) -> Option<Told> {
        self.watches.told(user, now)
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
