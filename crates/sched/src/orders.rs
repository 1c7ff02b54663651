//! What a stage follows of what the control side decides: some of it in each call.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_mem::Consumer;
use weir_packet::Held;

use crate::profile::Profiles;
use crate::scheduler::Scheduler;
use crate::shaping::{Book, Shaping, unpack};

/// What a stage is told by the control side.
pub(crate) struct Orders {
    /// Says that the stage is there.
    _there: Arc<()>,
    shaping: Arc<Shaping>,
    /// Which of its schedulers.
    scheduler: u8,
    /// Those that the scheduler goes by.
    profiles: Arc<Profiles>,
    changed: Consumer<u32>,
    seen: u64,
    /// How often all users were to be looked at anew, when it went through them last.
    swept: u64,
    /// Users, by their numbers at the scheduler, from this one on are still to be looked at.
    sweep: u32,
}

/// Users that are looked at in one call.
const SWEEP: u32 = 256;

impl Orders {
    /// Of a scheduler that goes by the book as it is, and is told by `changed` of users whose change it is to look at.
    pub(crate) fn new(
        shaping: &Arc<Shaping>,
        book: &Book,
        scheduler: u8,
        (there, changed): (Arc<()>, Consumer<u32>),
    ) -> Orders {
        Orders {
            _there: there,
            shaping: Arc::clone(shaping),
            scheduler,
            profiles: book.part(scheduler),
            changed,
            seen: shaping.generation.load(Ordering::Acquire),
            swept: book.sweeps,
            sweep: shaping.setup.users,
        }
    }

    /// Lets a scheduler know of changes: some of them in each call. Whether there are more.
    #[inline(always)]
    pub(crate) fn look<const C: usize, const Q: usize, const TREE: bool>(
        &mut self,
        scheduler: &mut Scheduler<Held, C, Q, TREE>,
        now: u64,
    ) -> bool {
        let generation = self.shaping.generation.load(Ordering::Acquire);
        if generation == self.seen && self.changed.is_empty() && self.sweep >= self.shaping.setup.users {
            return false;
        }
        self.follow(generation, scheduler, now);
        true
    }

    #[cold]
    fn follow<const C: usize, const Q: usize, const TREE: bool>(
        &mut self,
        generation: u64,
        scheduler: &mut Scheduler<Held, C, Q, TREE>,
        now: u64,
    ) {
        let Orders { shaping, scheduler: number, profiles, changed, seen, swept, sweep, .. } = self;
        let (shaping, number) = (&**shaping, *number);
        // Never waits: while the control side writes, there is another loop.
        let Ok(book) = shaping.book.try_lock() else { return };
        let (newest, sweeps) = (book.part(number), book.sweeps);
        drop(book);
        if !Arc::ptr_eq(&newest, profiles) {
            *profiles = Arc::clone(&newest);
            scheduler.set_profiles(newest, now);
        }
        *seen = generation;
        if sweeps != *swept {
            (*swept, *sweep) = (sweeps, 0);
        }
        for _ in 0..SWEEP {
            let Some(user) = changed.pop() else { break };
            if shaping.owners.at(number, user) {
                scheduler.assign(shaping.owners.number(user), unpack(shaping.word(user)), now);
            }
        }
        let end = sweep.saturating_add(SWEEP).min(shaping.setup.users);
        for user in *sweep..end {
            scheduler.assign(user, unpack(shaping.word(shaping.owners.user(number, user))), now);
        }
        *sweep = end;
    }
}
