//! Who may send when: users in lists of those who may, and in a wheel until they may.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use weir_table::indexed::{Indexed, NONE};
use weir_table::wheel::Shape;

use crate::aside::Crowds;
use crate::dual::{Duals, is_dual};
use crate::flows::{Flows, Gone};
use crate::gates::{Gate, Gates, Loss, Standing};
use crate::heavy::Heavy;
use crate::inside::Inside;
use crate::judge::judge;
use crate::lines::{Judgement, Lines};
use crate::manage::State;
pub use crate::offer::{Displaced, Leaving, Offer, Offered, Refused};
use crate::profile::{Profile, Profiles, SubportProfile};
use crate::promises::Promises;
use crate::rate::{Fine, fine};
use crate::sharing::Share;
use crate::slab::Slab;
use crate::splits::{Splits, is_split};
use crate::state::{Rest, UserState};
use crate::users::{Floors, User, Users};

/// How large a scheduler is.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Users, numbered from 0.
    pub users: u32,
    /// Packets that it holds at most.
    pub buffers: u32,
    /// Packets that each user may hold whatever the others do.
    pub minimum: u32,
    /// Bytes that every packet counts more than it has.
    pub overhead: u16,
    /// How time is cut for those who wait.
    pub wheel: Shape,
}

impl Setup {
    /// Ticks of 256 ns, 2.1 ms of them near and 17 s far.
    pub const WHEEL: Shape = Shape { tick_bits: 8, near_bits: 13, far_bits: 13 };
}

/// A hierarchical scheduler of items for users with `C` classes and `Q` queues each, the lowest class having `Q - C + 1`.
///
/// A user with packets has one time from which on its next packet may go. At or after it, the user stands in a list of its
/// subport; before it, in a timing wheel. A subport without tokens is in the wheel itself, and its lists stay as they are. So
/// taking a packet and sending one cost the same however many users and packets there are, and nothing is searched.
///
/// With `TREE`, subports may be [below](SubportProfile::below) others; without, all of them are below the port.
pub struct Scheduler<T, const C: usize, const Q: usize, const TREE: bool = false> {
    pub(crate) users: Users<C, Q>,
    pub(crate) lines: Lines<TREE>,
    pub(crate) port_full_at: Fine,
    pub(crate) slab: Slab<T>,
    pub(crate) heavy: Heavy,
    pub(crate) profiles: Arc<Profiles>,
    /// What managements remember of each user's queues; none where no profile has one.
    pub(crate) states: Indexed<[State; Q]>,
    /// Flows of fair queues; none where no profile has one.
    pub(crate) flows: Flows,
    /// Queues with two lines; none where no profile has one.
    pub(crate) duals: Duals,
    /// Classes above the lowest with several queues; none where no profile has one.
    pub(crate) splits: Splits,
    /// Users whom rates of classes of subports hold back; none where no subport has any.
    pub(crate) crowds: Crowds,
    /// What classes of subports are guaranteed; nothing where none is.
    pub(crate) promises: Promises,
    /// Any queue may be fair, have two lines, or be several.
    pub(crate) apart: bool,
    /// What outsiders do not know.
    pub(crate) seed: u32,
    pub(crate) random: u64,
    /// Marks a packet that waits: see [`Offered::mark`].
    pub(crate) marker: fn(&mut T) -> bool,
    /// Asks for what whoever gets a packet that leaves needs of it.
    pub(crate) hint: fn(&T),
    pub(crate) setup: Setup,
}

/// Subports of a scheduler at most.
pub const MAX_SUBPORTS: usize = 4096;

impl<T, const C: usize, const Q: usize, const TREE: bool> Scheduler<T, C, Q, TREE> {
    /// A scheduler without users: see [`Scheduler::assign`].
    pub fn new(setup: Setup, profiles: Arc<Profiles>) -> Scheduler<T, C, Q, TREE> {
        const { assert!(C >= 1 && C <= 8 && Q >= C && Q <= C + 7) };
        let subports = profiles.subports.len().clamp(1, MAX_SUBPORTS);
        let managed = if profiles.managed() { setup.users } else { 0 };
        let mut scheduler = Scheduler {
            users: Users::new(setup.users, subports as u32),
            lines: Lines::new(setup.users, subports as u32, setup.wheel),
            port_full_at: 0,
            slab: Slab::new(setup.buffers),
            heavy: Heavy::new(setup.users, setup.minimum),
            profiles,
            states: Indexed::new(managed as usize, [State::default(); Q]),
            flows: Flows::new(0, 0),
            duals: Duals::new(0, 0),
            splits: Splits::new(0, 0),
            crowds: Crowds::none(),
            promises: Promises::none(),
            apart: false,
            seed: RandomState::new().hash_one(0) as u32,
            random: 0x9e37_79b9_7f4a_7c15,
            marker: |_| false,
            hint: |_| {},
            setup,
        };
        scheduler.make_room();
        for (number, subport) in (0..).zip(&scheduler.profiles.subports) {
            scheduler.lines.wanting.set(number, subport, 0);
        }
        scheduler.set_parents(0);
        scheduler
    }

    /// The same, with a way to mark packets that wait as [`Offered::mark`] does; without one, none can be marked.
    pub fn with_marker(self, marker: fn(&mut T) -> bool) -> Scheduler<T, C, Q, TREE> {
        Scheduler { marker, ..self }
    }

    /// The same, with a way to hint that a packet leaves soon, which has left the caches as it waited: what whoever gets it needs of it comes while others are sent.
    pub fn with_hint(self, hint: fn(&T)) -> Scheduler<T, C, Q, TREE> {
        Scheduler { hint, ..self }
    }

    /// Makes room for what sharing, marks and flows need, once anybody shares, is marked, or has fair queues.
    fn make_room(&mut self) {
        self.make_flows();
        self.make_duals();
        self.make_splits();
        self.make_crowds();
        self.make_promises();
        self.apart = !self.flows.is_empty() || !self.duals.is_empty() || !self.splits.is_empty();
        if self.profiles.marks() {
            self.users.gates.make_marks(self.setup.users, C);
        }
        if self.profiles.guarantees() && self.users.floors.is_empty() {
            self.users.make_floors();
        }
        let promised = self.profiles.promised;
        if (self.profiles.shares() || promised) && self.users.shares.is_empty() {
            self.users.make_shares();
            self.lines.wanting.make_room(self.setup.users);
        }
    }

    /// Packets that it holds.
    #[inline(always)]
    pub fn held(&self) -> u32 {
        self.slab.room() - self.slab.left()
    }

    /// Whether anybody stands in line: may send, and has not had its turn.
    #[inline(always)]
    pub fn has_line(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Packets that a user holds.
    pub fn held_by(&self, user: u32) -> u32 {
        self.users.states.at(user).held
    }

    /// The counts of its users.
    pub fn gates(&self) -> &Arc<Gates> {
        &self.users.gates
    }

    /// Bytes of state per user, whether anything waits or not, and bytes per packet that may wait beside the packet's own.
    pub const fn bytes() -> (usize, usize) {
        (crate::state::user_bytes::<C, Q>(), Slab::<T>::BYTES)
    }

    /// Takes a packet of the lowest queue of who holds most: the last one; of a fair queue one of a fat flow, of one with two lines, or a class
    /// with several queues, one of the longest, or the first where there is none.
    #[cold]
    pub(crate) fn push_out(&mut self, now: u64) -> Option<Displaced<T>> {
        let user = self.heavy.heaviest()?;
        let state = self.users.states.at_mut(user);
        let queue = state.backlog.checked_ilog2()? as usize;
        let first = state.queues.get_mut(queue)?;
        let before = *first;
        let taken = match self.slab.fair(before) {
            NONE => self.slab.pop_back(first),
            fair if is_dual(fair) => self.duals.lose(&mut self.slab, before),
            fair if is_split(fair) => self.lose_of_split(user, queue, now),
            _ => self.flows.lose(&mut self.slab, before),
        };
        let state = self.users.states.at_mut(user);
        let item = match taken {
            Some(item) => {
                let emptied = state.first(queue) == NONE;
                state.held -= 1;
                self.heavy.change(user, state.held + 1, state.held);
                if emptied {
                    self.emptied(user, queue, now);
                }
                item
            }
            None => self.pop(user, queue, now)?,
        };
        self.users.gates.dropped(user, Loss::PushedOut, now);
        if self.users.states.at(user).first(queue) != before {
            self.settle(user, now);
        }
        Some(Displaced { item, loss: Loss::PushedOut })
    }

    /// The last packet of a queue has gone.
    #[inline(always)]
    fn emptied(&mut self, user: u32, queue: usize, now: u64) {
        let User { gate, state, .. } = self.users.at_mut(user);
        state.emptied(queue);
        let managed =
            self.profiles.user(gate.standing().profile()).managed >> UserState::<C, Q>::class_of(queue) & 1 != 0;
        if managed {
            self.tell_emptied(user, queue, now);
        }
    }

    #[cold]
    pub(crate) fn tell_emptied(&mut self, user: u32, queue: usize, now: u64) {
        let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
        let number = UserState::<C, Q>::class_of(queue);
        if (profile.fair | profile.split) >> number & 1 != 0 {
            return; // that of each flow, or queue, has been told
        }
        if let Some(manage) = profile.manage(number)
            && let Some(state) = self.states.at_mut(user).get_mut(queue)
        {
            manage.emptied(state, now);
        }
    }

    /// Takes the first packet of a queue.
    pub(crate) fn pop(&mut self, user: u32, queue: usize, now: u64) -> Option<T> {
        let state = self.users.states.at_mut(user);
        let first = state.queues.get_mut(queue)?;
        let (fair, length) = (self.slab.fair(*first), self.slab.length(*first));
        let item = self.slab.pop_front(first)?;
        if fair != NONE {
            let profile = self.profiles.user(self.users.gates.at(user).standing().profile());
            let gone = Gone { fair, length, class: UserState::<C, Q>::class_of(queue), profile, now };
            *first = match fair {
                fair if is_dual(fair) => self.duals.dropped(&mut self.slab, (fair, *first)),
                fair if is_split(fair) => {
                    let mut inside = Inside { flows: &mut self.flows, duals: &mut self.duals };
                    self.splits.left(&mut self.slab, &mut inside, *first, &gone, (user, false))
                }
                _ => self.flows.dropped(&mut self.slab, *first, &gone),
            };
        }
        let emptied = *first == NONE;
        state.held -= 1;
        self.heavy.change(user, state.held + 1, state.held);
        if emptied {
            self.emptied(user, queue, now);
        }
        Some(item)
    }

    /// Puts a user where it belongs, behind those who stand there.
    pub(crate) fn settle(&mut self, user: u32, now: u64) {
        let User { gate, tally, state, rest, share, floors } = self.users.at_mut(user);
        let profile = self.profiles.user(gate.standing().profile());
        let judgement = judge(gate, state, rest, (share, floors), profile, &self.slab, fine(now));
        tally.held.judged(&judgement, now);
        if self.lines.settle(user, gate, share, judgement, now) {
            self.claim(user);
        }
    }

    /// What has waited in the wheel may have its turn.
    #[inline(always)]
    pub(crate) fn awake(&mut self, id: u32, now: u64) {
        match id.checked_sub(self.setup.users) {
            None => self.settle(id, now),
            Some(number) => {
                self.resume(number, now);
                if TREE && number < self.lines.subports.len() as u32 {
                    self.claim_above(number, u8::MAX);
                }
            }
        }
    }

    /// A subport may send again, or lend; or those who stand aside for one of its classes are to be looked at.
    #[cold]
    fn resume(&mut self, subport: u32, now: u64) {
        if let Some(place) = subport.checked_sub(self.lines.subports.len() as u32) {
            return self.come_back(place, now);
        }
        if self.lines.resume(subport, now) {
            self.users.gates.subport(subport).suspended(false, now);
        }
    }

    /// Gives a user a profile and a subport, by their numbers; whoever has none is no user, and its packets are refused. What
    /// waits stays, and goes by the new profile. Numbers beyond [`Setup::users`] are ignored.
    pub fn assign(&mut self, user: u32, to: Option<(u16, u16)>, now: u64) {
        if user >= self.setup.users {
            return;
        }
        let Some((profile, subport)) = to else {
            self.users.gates.at(user).close();
            return;
        };
        let last = (self.lines.subports.len() - 1) as u16;
        let watched = self.users.gates.watches.begin(user, now);
        self.forget_aside(user);
        let User { gate, share, .. } = self.users.at_mut(user);
        if self.lines.settle(user, gate, share, Judgement::Nothing, now) {
            self.claim(user);
        }
        let User { gate, rest, share, floors, .. } = self.users.at_mut(user);
        let before = gate.standing();
        gate.set_standing(Standing::new(profile, subport.min(last)).watched(watched));
        let new = self.profiles.user(profile);
        // Who is new has all that its profile allows.
        let old = if before.is_open() { self.profiles.user(before.profile()) } else { new };
        carry(gate, rest, (share, floors), (old, new), fine(now));
        self.reorder(user);
        self.settle(user, now);
    }

    /// Replaces the profiles. The number of subports stays; users are to be [assigned](Scheduler::assign) again where their profiles are
    /// not the same, or their subport is below another one, so that each goes by that at once and not when it is looked at next, or
    /// comes back from where it stands aside.
    pub fn set_profiles(&mut self, profiles: Arc<Profiles>, now: u64) {
        // Who stands aside for a class does so until it comes back, whoever has a rate for it then.
        let heeds = |profiles: &Profiles| (profiles.limited, profiles.promised);
        let (limited, promised) =
            (self.profiles.limited | profiles.limited, self.profiles.promised || profiles.promised);
        let profiles = match heeds(&profiles) == (limited, promised) {
            true => profiles,
            false => Arc::new(Profiles::clone(&profiles).heeding(limited, promised)),
        };
        let old = std::mem::replace(&mut self.profiles, profiles);
        if !Arc::ptr_eq(&old.users, &self.profiles.users) {
            if self.profiles.managed() && self.states.is_empty() {
                self.states = Indexed::new(self.setup.users as usize, [State::default(); Q]);
            }
            self.make_room();
        }
        if old.port != self.profiles.port {
            self.port_full_at = self.profiles.port.carry(&old.port, self.port_full_at, fine(now));
        }
        self.set_parents(now);
        let mut changed = false;
        for (number, before) in (0..self.lines.subports.len() as u32).zip(&old.subports) {
            let profile = self.profiles.subports.get(number as usize).filter(|profile| *profile != before);
            if let Some(profile) = profile.copied() {
                self.set_subport(number, before, &profile, now);
                changed = true;
            }
        }
        if changed {
            self.claim_anew();
        }
    }

    /// A subport, of which there were others before, has other rates.
    fn set_subport(&mut self, number: u32, before: &SubportProfile, profile: &SubportProfile, now: u64) {
        let subport = self.lines.subports.at_mut(number);
        subport.full_at = profile.bucket.carry(&before.bucket, subport.full_at, fine(now));
        self.lines.wanting.set(number, profile, fine(now));
        self.resume(number, now);
        self.set_classes(number as u16, &before.classes, now);
        self.set_promises(number as u16, &before.promises, now);
    }

    /// Hands over every packet in the order they came. For the end: users stay.
    pub fn clear(&mut self, now: u64, give: &mut dyn FnMut(T)) {
        let mut all = Vec::new();
        for user in 0..self.setup.users {
            while let Some(queue) = self.users.states.at(user).backlog.checked_ilog2() {
                let since = self.slab.since(self.users.states.at(user).first(queue as usize));
                let Some(item) = self.pop(user, queue as usize, now) else { break };
                all.push((since, item));
            }
            self.settle(user, now);
        }
        all.sort_by_key(|(since, _)| *since);
        all.into_iter().for_each(|(_, item)| give(item));
    }
}

/// The buckets of a user who has a new profile hold what those of the old one did.
fn carry<const C: usize>(
    gate: &Gate,
    rest: &mut Rest<C>,
    (share, floors): (&mut Share, &mut Floors<C>),
    (old, new): (&Profile, &Profile),
    now: Fine,
) {
    if let Some(sharing) = new.sharing {
        let before = old.sharing.map_or(sharing.ceil, |old| old.ceil);
        share.ceil_full_at = sharing.ceil.carry(&before, share.ceil_full_at, now);
    }
    gate.set_full_at(new.bucket.carry(&old.bucket, gate.full_at(), now));
    for (full_at, (old, new)) in rest.class_full_at.iter_mut().zip(old.classes.iter().zip(&new.classes)) {
        *full_at = new.cap.carry(&old.cap, *full_at, now);
    }
    for (full_at, (old, new)) in floors.iter_mut().zip(old.classes.iter().zip(&new.classes)) {
        if let Some(guarantee) = new.guarantee {
            *full_at = guarantee.carry(&old.guarantee.unwrap_or(guarantee), *full_at, now);
        }
    }
}

impl<T, const C: usize, const Q: usize, const TREE: bool> fmt::Debug for Scheduler<T, C, Q, TREE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scheduler({} packets)", self.held())
    }
}
