//! Users whom the rate of a traffic class of their subport holds back.
//!
//! Whether that rate lets a packet go is looked at when its user has its turn. Where it does not, the user steps aside, with that class alone: it stands
//! behind those who did so before, and sends what it has in other classes meanwhile. Where subports are below others, each of those above it is asked in the same way,
//! the lowest first. When the bucket holds enough for the packet of the first of them, that one
//! comes back to where it stood, and with it as many as the bucket has tokens for. Who has come back goes before those who still stand aside as soon as its turn comes; if others were
//! faster, it steps aside again. Of those above where it stood, it asks as if it came anew. So nobody waits for one who has come back and cannot send, and each step costs the same however many stand aside.

use weir_table::indexed::Indexed;
use weir_table::links::{Links, List};

use crate::class::MAX_CLASSES;
use crate::judge::Next;
use crate::profile::Profiles;
use crate::rate::{Bucket, Fine, fine};
use crate::scheduler::{Offer, Scheduler};
use crate::state::UserState;

/// So many come back together at most.
const TOGETHER: usize = 16;

/// Where a user stood when it stepped aside: in line for what it is guaranteed, or in the ring for what others leave. The former come back first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stood {
    Line,
    Ring,
}

/// The rate of a class of a subport, and who stands aside for it.
#[derive(Clone, Debug)]
struct Crowd {
    /// When its bucket is full.
    full_at: Fine,
    /// By [`Stood`].
    lists: [List; 2],
}

impl Crowd {
    const NONE: Crowd = Crowd { full_at: 0, lists: [List::EMPTY; 2] };

    fn is_empty(&self) -> bool {
        self.lists.iter().all(List::is_empty)
    }

    /// Whether anybody comes back before one who would step aside now.
    fn goes_before(&self, stood: Stood) -> bool {
        let [line, ring] = &self.lists;
        !line.is_empty() || stood == Stood::Ring && !ring.is_empty()
    }
}

/// All of a scheduler; none where no subport has rates of classes.
#[derive(Debug)]
pub(crate) struct Crowds {
    /// By subport and class.
    crowds: Indexed<Crowd>,
    /// Of users and their classes.
    links: Links,
}

impl Crowds {
    pub(crate) fn none() -> Crowds {
        Crowds { crowds: Indexed::new(0, Crowd::NONE), links: Links::new(0) }
    }

    fn is_none(&self) -> bool {
        self.crowds.is_empty()
    }

    fn at(&self, number: u16, class: u8) -> &Crowd {
        self.crowds.at(place(number, class))
    }

    fn at_mut(&mut self, number: u16, class: u8) -> &mut Crowd {
        self.crowds.at_mut(place(number, class))
    }

    /// Whether the rate of a class lets a packet of so many bytes go, for which nobody has to be passed over.
    pub(crate) fn lets_pass(&self, bucket: Bucket, number: u16, class: u8, length: u16, now: Fine) -> bool {
        let crowd = self.at(number, class);
        bucket.is_unlimited() || crowd.is_empty() && bucket.eligible_at(crowd.full_at, length) <= now
    }

    /// So many bytes of a class go.
    pub(crate) fn pay(&mut self, bucket: Bucket, number: u16, class: u8, length: u16, now: Fine) {
        let crowd = self.at_mut(number, class);
        crowd.full_at = bucket.after(crowd.full_at, length, now);
    }

    fn first(&self, number: u16, class: u8) -> Option<u32> {
        let [line, ring] = &self.at(number, class).lists;
        [line, ring].into_iter().find(|list| !list.is_empty()).map(List::first)
    }

    fn change(&mut self, (number, class): (u16, u8), stood: Stood, link: u32, is_in: bool) {
        let Some(list) = self.crowds.at_mut(place(number, class)).lists.get_mut(stood as usize) else { return };
        crate::sharing::change(&mut self.links, list, link, is_in);
    }
}

fn place(number: u16, class: u8) -> u32 {
    u32::from(number) * MAX_CLASSES as u32 + u32::from(class)
}

impl<const C: usize, const Q: usize> UserState<C, Q> {
    /// Whether it stands aside with a class, having stood so.
    pub(crate) fn is_aside(&self, class: usize, stood: Stood) -> bool {
        let [line, ring] = self.aside;
        (if stood == Stood::Line { line } else { ring }) >> class & 1 != 0
    }

    fn set_aside(&mut self, class: u8, stood: Stood, is: bool) {
        if let Some(classes) = self.aside.get_mut(stood as usize) {
            *classes = *classes & !(1 << class) | u8::from(is) << class;
        }
    }

    /// A packet of a class goes: it has used that it had come back, if it had.
    pub(crate) fn used(&mut self, class: u8) {
        self.came_back &= !(1 << class);
    }
}

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// Makes room for those who step aside, once any subport has rates of classes.
    pub(crate) fn make_crowds(&mut self) {
        if self.profiles.limited != 0 && self.crowds.is_none() {
            let (users, subports) = (self.setup.users as usize, self.lines.subports.len());
            let crowds = Indexed::new(subports * MAX_CLASSES, Crowd::NONE);
            self.crowds = Crowds { crowds, links: Links::new(users * C) };
            self.users.gates.make_spots(self.setup.users, C);
        }
    }

    /// Whether the rates of its class of the subport, and of those above, let the packet of a user go whose turn it is; where not, the user steps aside.
    #[cold]
    pub(crate) fn class_lets_go(&mut self, user: u32, next: Next, stood: Stood, now: u64) -> bool {
        let Next { class, length, .. } = next;
        let own = self.users.gates.at(user).standing().subport();
        let has_come_back = self.users.states.at(user).came_back >> class & 1 != 0;
        let spot = self.users.gates.spot(user, class.into()).filter(|_| has_come_back);
        // Up to where it stood, it goes before those who stand aside.
        let mut levels_passed =
            self.lines.path(own.into()).position(|at| spot == Some(at)).map_or(0, |place| place + 1);
        for at in self.lines.path(own.into()) {
            let goes_before = levels_passed > 0;
            levels_passed = levels_passed.saturating_sub(1);
            let bucket = self.profiles.class(at as u16, class);
            let crowd = self.crowds.at(at as u16, class);
            let due = bucket.eligible_at(crowd.full_at, length);
            if !bucket.is_unlimited() && (due > fine(now) || !goes_before && crowd.goes_before(stood)) {
                self.step_aside(user, (at as u16, class), stood, due, now);
                return false;
            }
        }
        true
    }

    /// A user stands aside for a class of a subport, in which there are enough tokens for it at `due`.
    fn step_aside(&mut self, user: u32, (number, class): (u16, u8), stood: Stood, due: Fine, now: u64) {
        if self.crowds.at(number, class).is_empty() {
            self.lines.wait(self.wakes(number, class), due, now);
        }
        self.leave_crowd(user, class);
        self.users.states.at_mut(user).set_aside(class, stood, true);
        self.users.gates.set_spot(user, class.into(), number);
        self.crowds.change((number, class), stood, link::<C>(user, class), true);
        self.settle(user, now);
    }

    /// Whether the rates of its class of the subport, and of those above, let a packet go straight through.
    pub(crate) fn class_passes(&self, offer: &Offer, class: u8, now: u64) -> bool {
        let number = self.users.gates.at(offer.user).standing().subport();
        self.lines.path(number.into()).all(|at| {
            let bucket = self.profiles.class(at as u16, class);
            self.crowds.lets_pass(bucket, at as u16, class, offer.length, fine(now))
        })
    }

    /// The number in the wheel of those who stand aside: behind users and subports.
    fn wakes(&self, number: u16, class: u8) -> u32 {
        self.setup.users + self.lines.subports.len() as u32 + place(number, class)
    }

    /// A user stands aside no longer with a class, and has not come back. Where it stood, if it did.
    fn leave_crowd(&mut self, user: u32, class: u8) -> Option<u16> {
        let spot = self.users.gates.spot(user, class.into());
        let state = self.users.states.at_mut(user);
        state.used(class);
        let (mut left, number) = (None, spot? as u16);
        for stood in [Stood::Line, Stood::Ring] {
            if state.is_aside(class.into(), stood) {
                state.set_aside(class, stood, false);
                self.crowds.change((number, class), stood, link::<C>(user, class), false);
                left = Some(number);
            }
        }
        left
    }

    /// The time has come at which the bucket of a class may hold enough for the first who stands aside for it; `place` tells subport and class.
    #[cold]
    pub(crate) fn come_back(&mut self, place: u32, now: u64) {
        let (number, class) = ((place / MAX_CLASSES as u32) as u16, (place % MAX_CLASSES as u32) as u8);
        let (bucket, wakes) = (self.profiles.class(number, class), self.wakes(number, class));
        // As if all who come back sent at once.
        let mut full_at = self.crowds.at(number, class).full_at;
        for _ in 0..TOGETHER {
            let Some(first) = self.crowds.first(number, class) else { return };
            let user = first / C as u32;
            let length = self.length_of(user, class);
            let due = bucket.eligible_at(full_at, length);
            if due > fine(now) {
                return self.lines.wait(wakes, due, now);
            }
            full_at = bucket.after(full_at, length, fine(now));
            self.leave_crowd(user, class);
            self.users.states.at_mut(user).came_back |= 1 << class;
            self.settle(user, now);
        }
        self.look_soon(number, class, now);
    }

    /// Bytes of the next packet of a class; 0 where none waits any more.
    fn length_of(&mut self, user: u32, class: u8) -> u16 {
        let crate::users::User { gate, state, rest, .. } = self.users.at_mut(user);
        if state.classes() >> class & 1 == 0 {
            return 0;
        }
        let profile = self.profiles.user(gate.standing().profile());
        let queue = state.next_queue(rest, class.into(), profile, &self.slab);
        self.slab.length(state.first(queue))
    }

    /// Those who stand aside for a class are looked at in the next tick.
    fn look_soon(&mut self, number: u16, class: u8, now: u64) {
        if !self.crowds.at(number, class).is_empty() {
            self.lines.wait(self.wakes(number, class), fine(now) + 1, now);
        }
    }

    /// A user is somebody else from now on, and stands aside nowhere.
    pub(crate) fn forget_aside(&mut self, user: u32) {
        let state = self.users.states.at_mut(user);
        state.came_back = 0;
        if state.aside == [0, 0] {
            return;
        }
        for class in 0..C as u8 {
            if let Some(number) = self.leave_crowd(user, class)
                && self.crowds.at(number, class).is_empty()
            {
                self.lines.wheel.remove(self.wakes(number, class));
            }
        }
    }

    /// A subport had the rates of classes that `before` says, and has others.
    pub(crate) fn set_classes(&mut self, number: u16, before: &[Bucket; MAX_CLASSES], now: u64) {
        if self.crowds.is_none() {
            return;
        }
        for (class, before) in (0..C as u8).zip(before) {
            let bucket = self.profiles.class(number, class);
            if bucket != *before {
                let crowd = self.crowds.at_mut(number, class);
                crowd.full_at = bucket.carry(before, crowd.full_at, fine(now));
                self.look_soon(number, class, now);
            }
        }
    }
}

fn link<const C: usize>(user: u32, class: u8) -> u32 {
    user * C as u32 + u32::from(class)
}

impl Profiles {
    /// The bucket of a class of a subport.
    pub(crate) fn class(&self, number: u16, class: u8) -> Bucket {
        let subport = self.subports.get(usize::from(number));
        subport.and_then(|subport| subport.classes.get(usize::from(class)).copied()).unwrap_or(Bucket::UNLIMITED)
    }
}
