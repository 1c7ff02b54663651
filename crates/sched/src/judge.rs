//! What a user may do: which of its packets goes next, and from when on.

use crate::aside::Stood;
use crate::gates::Gate;
use crate::hold::Level;
use crate::lines::Judgement;
use crate::profile::Profile;
use crate::rate::Fine;
use crate::sharing::{Share, Wants};
use crate::slab::Slab;
use crate::state::{Rest, UserState};
use crate::users::Floors;

/// What a user may do at `now`: send a packet of a class, or from when on. The highest class whose cap allows it goes first; while
/// it waits for the user's own rate, no lower one takes the tokens away that it saves.
#[inline(always)]
pub(crate) fn judge<T, const C: usize, const Q: usize>(
    gate: &Gate,
    state: &mut UserState<C, Q>,
    rest: &mut Rest<C>,
    (share, floors): (&Share, &Floors<C>),
    profile: &Profile,
    slab: &Slab<T>,
    now: Fine,
) -> Judgement {
    if state.backlog == 0 {
        return Judgement::Nothing;
    }
    if profile.counted != 0 {
        return judge_counted(gate, state, rest, (share, floors), profile, slab, now);
    }
    let (full_at, class) = (gate.full_at(), state.classes().trailing_zeros() as usize);
    let queue = state.next_queue(rest, class, profile, slab);
    let length = slab.length(state.first(queue));
    let cost = profile.bucket.cost(length);
    let own = profile.bucket.due(full_at, cost);
    let wants = Wants::more(profile.sharing.is_some());
    let ceil = ceil_at(share, profile, length);
    if ceil > now {
        return Judgement::From(ceil, Wants::NO, Level::Ceil);
    }
    if own > now {
        return Judgement::From(own, wants, Level::Rate);
    }
    let spare = profile.bucket.due(full_at + cost, cost) <= now;
    Judgement::May(2 * class as u8 + u8::from(!spare), wants)
}

/// The same where classes have caps, here or in subports, or guarantees: of the classes that are not held back, the highest that is due what it is guaranteed goes
/// first, or else the highest.
#[inline(never)]
fn judge_counted<T, const C: usize, const Q: usize>(
    gate: &Gate,
    state: &mut UserState<C, Q>,
    rest: &mut Rest<C>,
    (share, floors): (&Share, &Floors<C>),
    profile: &Profile,
    slab: &Slab<T>,
    now: Fine,
) -> Judgement {
    let (full_at, mut from, mut level, mut aside) = (gate.full_at(), Fine::MAX, Level::Rate, None);
    let look = if profile.promised { Wants::LOOK } else { Wants::NO };
    let wanting = |wants: bool| Wants::more(wants).and(look);
    let mut classes = Turns::new(state, rest, floors, profile, slab, now);
    while let Some(class) = classes.next() {
        let of_subport = Level::SubportClass(class as u8);
        if state.is_aside(class, Stood::Line) {
            aside = aside.or(Some(of_subport));
            continue;
        }
        let queue = state.next_queue(rest, class, profile, slab);
        let length = slab.length(state.first(queue));
        let cost = profile.bucket.cost(length);
        let own = profile.bucket.due(full_at, cost);
        let cap = cap_at(rest, profile, class, length);
        // Of what others leave it can have nothing, where it stands aside for that.
        let has_left = state.is_aside(class, Stood::Ring);
        let wants = profile.sharing.is_some() && !has_left;
        if cap > now {
            // Who shares may do so as soon as the cap lets it.
            let until = if wants { cap } else { cap.max(own) };
            if until < from {
                (from, level) = (until, if until > cap { Level::Rate } else { Level::Class(class as u8) });
            }
            continue;
        }
        let ceil = ceil_at(share, profile, length);
        if ceil > now {
            return earlier(from, level, ceil, Level::Ceil, wanting(false));
        }
        if own <= now {
            let spare = profile.bucket.due(full_at + cost, cost) <= now;
            return Judgement::May(2 * class as u8 + u8::from(!spare), wanting(wants));
        }
        if !has_left {
            return earlier(from, level, own, Level::Rate, wanting(wants));
        }
        if own < from {
            (from, level) = (own, of_subport);
        }
    }
    match aside {
        Some(aside) if from == Fine::MAX => Judgement::Aside(aside),
        _ => Judgement::From(from, wanting(false), level),
    }
}

/// The classes of a user that have packets, in the order in which they go: those first that are due what they are guaranteed, the highest before the others.
struct Turns {
    /// Bit c: class c is still to come.
    classes: u8,
    /// Bit c: it is due what it is guaranteed.
    due: u8,
}

impl Turns {
    #[inline(always)]
    fn new<T, const C: usize, const Q: usize>(
        state: &mut UserState<C, Q>,
        rest: &mut Rest<C>,
        floors: &Floors<C>,
        profile: &Profile,
        slab: &Slab<T>,
        now: Fine,
    ) -> Turns {
        let classes = state.classes();
        let due = match classes & profile.guaranteed {
            0 => 0,
            guaranteed => due(state, rest, floors, guaranteed, profile, slab, now),
        };
        Turns { classes, due }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let of = if self.classes & self.due != 0 { self.classes & self.due } else { self.classes };
        self.classes &= !(of & of.wrapping_neg());
        (of != 0).then(|| of.trailing_zeros() as usize)
    }
}

/// Those of these classes whose guarantee covers their next packet at `now`.
#[cold]
fn due<T, const C: usize, const Q: usize>(
    state: &mut UserState<C, Q>,
    rest: &mut Rest<C>,
    floors: &Floors<C>,
    guaranteed: u8,
    profile: &Profile,
    slab: &Slab<T>,
    now: Fine,
) -> u8 {
    let classes = (0..C).filter(|class| guaranteed >> class & 1 != 0);
    classes.fold(0, |due, class| {
        let queue = state.next_queue(rest, class, profile, slab);
        let covers = covers(floors, profile, class, slab.length(state.first(queue)), now);
        due | u8::from(covers) << class
    })
}

/// Whether what a class is guaranteed covers so many bytes at `now`.
fn covers<const C: usize>(floors: &Floors<C>, profile: &Profile, class: usize, length: u16, now: Fine) -> bool {
    let guarantee = profile.classes.get(class).and_then(|class| class.guarantee);
    guarantee.zip(floors.get(class)).is_some_and(|(bucket, full_at)| bucket.eligible_at(*full_at, length) <= now)
}

/// A packet of a class goes: on account of what that is guaranteed, if that covers it.
#[cold]
pub(crate) fn pay_floor<const C: usize>(
    floors: &mut Floors<C>,
    profile: &Profile,
    class: usize,
    length: u16,
    now: Fine,
) {
    if !covers(floors, profile, class, length, now) {
        return;
    }
    let guarantee = profile.classes.get(class).and_then(|class| class.guarantee);
    if let (Some(bucket), Some(full_at)) = (guarantee, floors.get_mut(class)) {
        *full_at = bucket.after(*full_at, length, now);
    }
}

/// Held until the earlier of two times.
#[inline(always)]
fn earlier(from: Fine, level: Level, other: Fine, of_other: Level, wants: Wants) -> Judgement {
    if from < other { Judgement::From(from, wants, level) } else { Judgement::From(other, wants, of_other) }
}

/// A packet that a user sends next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) class: u8,
    pub(crate) queue: usize,
    /// Bytes with overhead.
    pub(crate) length: u16,
}

/// The packet that a user would send at `now`, whatever its own rate and its ceiling say.
pub(crate) fn next_packet<T, const C: usize, const Q: usize>(
    state: &mut UserState<C, Q>,
    rest: &mut Rest<C>,
    floors: &Floors<C>,
    profile: &Profile,
    slab: &Slab<T>,
    now: Fine,
) -> Option<Next> {
    let mut classes = Turns::new(state, rest, floors, profile, slab, now);
    while let Some(class) = classes.next() {
        let queue = state.next_queue(rest, class, profile, slab);
        let length = slab.length(state.first(queue));
        if is_open(state, rest, profile, class, length, now) {
            return Some(Next { class: class as u8, queue, length });
        }
    }
    None
}

/// Whether a class may have of what is left at `now`, as far as caps say.
#[inline(always)]
fn is_open<const C: usize, const Q: usize>(
    state: &UserState<C, Q>,
    rest: &Rest<C>,
    profile: &Profile,
    class: usize,
    length: u16,
    now: Fine,
) -> bool {
    let stands_aside = || state.is_aside(class, Stood::Line) || state.is_aside(class, Stood::Ring);
    profile.capped >> class & 1 == 0 || !stands_aside() && cap_at(rest, profile, class, length) <= now
}

/// From when on the ceiling of a user lets so many bytes go.
#[inline(always)]
pub(crate) fn ceil_at(share: &Share, profile: &Profile, length: u16) -> Fine {
    profile.sharing.map_or(0, |sharing| sharing.ceil.eligible_at(share.ceil_full_at, length))
}

/// A packet goes on account of the ceiling of its user.
#[inline(always)]
pub(crate) fn pay_ceil(share: &mut Share, profile: &Profile, length: u16, now: Fine) {
    if let Some(sharing) = profile.sharing {
        share.ceil_full_at = sharing.ceil.after(share.ceil_full_at, length, now);
    }
}

/// From when on the cap of a class lets so many bytes go.
#[inline(always)]
pub(crate) fn cap_at<const C: usize>(rest: &Rest<C>, profile: &Profile, class: usize, length: u16) -> Fine {
    if profile.capped >> class & 1 == 0 {
        return 0;
    }
    match (profile.classes.get(class), rest.class_full_at.get(class)) {
        (Some(class), Some(full_at)) => class.cap.eligible_at(*full_at, length),
        _ => 0,
    }
}
