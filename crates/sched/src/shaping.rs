//! The control side of shaping: who has which profile, and what the stages are told of it.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use weir_mem::{Consumer, Producer, ring};
use weir_packet::{Held, Key};
use weir_stage::Stage;

use crate::config::{Fault, SchedulerConfig};
use crate::gates::{Gates, UserCount};
use crate::profile::Profiles;
use crate::scheduler::{Scheduler, Setup};
use crate::shaper::Shaper;

/// A scheduler of packets with up to four classes.
pub(crate) type Four = Scheduler<Held, 4, 11>;
/// A scheduler of packets with up to eight classes.
pub(crate) type Eight = Scheduler<Held, 8, 15>;

/// The word of a user who does not exist.
const NOBODY: u32 = u32::MAX;

/// Users whose change a stage has not looked at yet, before it goes through all.
const CHANGES: usize = 4096;

/// Shaping as configured: makes the stages that do it, and tells them of changes while they run.
pub struct Shaping {
    setup: Setup,
    /// Classes that are used.
    classes: usize,
    subports: Vec<String>,
    /// Profile and subport of each user, 16 bits each, or [`NOBODY`].
    assigned: Box<[AtomicU32]>,
    /// How often all users were to be looked at anew.
    generation: AtomicU64,
    book: Mutex<Book>,
}

/// What only the control side touches, but for the profiles when they have changed.
struct Book {
    /// Names of the profiles, by number. A number is never given to another name.
    names: Vec<String>,
    profiles: Arc<Profiles>,
    stages: Vec<ToStage>,
    /// Ranges that the configuration assigned.
    ranges: Vec<(u32, u32)>,
}

struct ToStage {
    /// Gone when the stage is.
    stage: Weak<()>,
    changed: Producer<u32>,
    gates: Arc<Gates>,
}

impl fmt::Debug for Shaping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shaping({} users)", self.setup.users)
    }
}

/// A checked configuration that is ready to be put in place.
#[derive(Debug)]
pub struct Change {
    names: Vec<String>,
    profiles: Arc<Profiles>,
    /// First and last user, and their word.
    ranges: Vec<(u32, u32, u32)>,
}

impl Shaping {
    /// From a configuration, its users assigned.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn new(config: &SchedulerConfig) -> Result<Arc<Shaping>, Vec<Fault>> {
        let setup = Setup {
            users: config.users,
            buffers: config.buffers,
            minimum: config.minimum(),
            overhead: config.overhead,
            wheel: Setup::WHEEL,
        };
        let profiles = Arc::new(Profiles::new(config.port(), Vec::new(), Vec::new()));
        let shaping = Shaping {
            setup,
            classes: usize::from(config.classes),
            subports: config.subports.keys().cloned().collect(),
            assigned: (0..config.users).map(|_| AtomicU32::new(NOBODY)).collect(),
            generation: AtomicU64::new(0),
            book: Mutex::new(Book { names: Vec::new(), profiles, stages: Vec::new(), ranges: Vec::new() }),
        };
        let change = shaping.prepare(config)?;
        shaping.apply(change);
        Ok(Arc::new(shaping))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Prepares to run with a configuration that differs in `live` keys. Nothing changes before [`Shaping::apply`].
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn prepare(&self, config: &SchedulerConfig) -> Result<Change, Vec<Fault>> {
        let faults = config.faults();
        if !faults.is_empty() {
            return Err(faults);
        }
        let book = self.book();
        let mut names = book.names.clone();
        names.extend(config.profiles.keys().filter(|name| !book.names.contains(name)).cloned());
        let built = if self.classes <= 4 { 4 } else { 8 };
        let users = names.iter().enumerate().map(|(number, name)| match config.profiles.get(name) {
            Some(profile) => profile.profile(self.classes, built),
            // Whoever has it still goes by it.
            None => book.profiles.user(number as u16).clone(),
        });
        let profiles = Arc::new(Profiles::new(config.port(), config.subport_profiles(), users.collect()));
        let ranges = config.assign.iter().filter_map(|range| {
            let word = word(&names, &self.subports, &range.profile, range.subport.as_deref())?;
            Some((range.first, range.last.unwrap_or(range.first), word))
        });
        let ranges = ranges.collect();
        Ok(Change { names, profiles, ranges })
    }

    /// Puts a configuration in place. Users that the last one assigned and this one does not are dismissed; those of
    /// [`Shaping::assign`] stay.
    pub fn apply(&self, change: Change) {
        let mut book = self.book();
        for (first, last) in std::mem::take(&mut book.ranges) {
            self.write(first, last, NOBODY);
        }
        for (first, last, word) in &change.ranges {
            self.write(*first, *last, *word);
        }
        book.ranges = change.ranges.iter().map(|(first, last, _)| (*first, *last)).collect();
        book.names = change.names;
        book.profiles = change.profiles;
        drop(book);
        // Pairs with the acquire in `Orders::look`.
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn write(&self, first: u32, last: u32, word: u32) {
        let users = self.assigned.iter().take(last as usize + 1).skip(first as usize);
        users.for_each(|assigned| assigned.store(word, Ordering::Relaxed));
    }

    /// Gives a user a profile and a subport (the first when absent), by their names.
    ///
    /// # Errors
    ///
    /// A sentence that says which of them does not exist.
    pub fn assign(&self, user: u32, profile: &str, subport: Option<&str>) -> Result<(), String> {
        let assigned = self.assigned.get(user as usize).ok_or_else(|| {
            format!("there is no user {user}: users are 0 to {}; raise users", self.setup.users.saturating_sub(1))
        })?;
        let mut book = self.book();
        let word = word(&book.names, &self.subports, profile, subport).ok_or_else(|| {
            let (profiles, subports) = (book.names.join(", "), self.subports.join(", "));
            format!("profile {profile:?} or subport {subport:?} does not exist; profiles are {profiles}; subports are {subports}")
        })?;
        if assigned.swap(word, Ordering::Relaxed) != word {
            self.tell(&mut book, user);
        }
        Ok(())
    }

    /// From now on there is no such user: packets that come are refused, those that wait are sent.
    pub fn dismiss(&self, user: u32) {
        let mut book = self.book();
        if let Some(assigned) = self.assigned.get(user as usize)
            && assigned.swap(NOBODY, Ordering::Relaxed) != NOBODY
        {
            self.tell(&mut book, user);
        }
    }

    fn tell(&self, book: &mut Book, user: u32) {
        book.stages.retain(ToStage::is_there);
        for stage in &mut book.stages {
            if stage.changed.push(user).is_err() {
                // It goes through all users instead.
                self.generation.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// The names of the profile and the subport of a user.
    pub fn assigned(&self, user: u32) -> Option<(String, Option<String>)> {
        let (profile, subport) = unpack(self.word(user))?;
        let name = self.book().names.get(usize::from(profile)).cloned()?;
        Some((name, self.subports.get(usize::from(subport)).cloned()))
    }

    fn word(&self, user: u32) -> u32 {
        self.assigned.get(user as usize).map_or(NOBODY, |word| word.load(Ordering::Relaxed))
    }

    /// Users at most.
    pub fn users(&self) -> u32 {
        self.setup.users
    }

    /// What became of a user's packets, in all stages that there are.
    pub fn count(&self, user: u32) -> UserCount {
        self.book().stages.iter().map(|stage| stage.gates.count(user)).fold(UserCount::default(), UserCount::plus)
    }

    /// Bytes of state per user, and bytes per packet that may wait.
    pub fn bytes(&self) -> (usize, usize) {
        if self.classes <= 4 { Four::bytes() } else { Eight::bytes() }
    }

    /// A stage that shapes, at the rate of the whole port: one worker has it. It finds the user of a packet in the lane `user`, its class in
    /// the lane `class`, and, where `colours` says that somebody writes it, its colour.
    pub fn stage(self: &Arc<Shaping>, user: Key<u32>, colours: bool) -> Box<dyn Stage> {
        if self.classes <= 4 { self.build::<4, 11>(user, colours) } else { self.build::<8, 15>(user, colours) }
    }

    fn build<const C: usize, const Q: usize>(self: &Arc<Shaping>, user: Key<u32>, colours: bool) -> Box<dyn Stage> {
        let (producer, consumer) = ring(CHANGES);
        let mut book = self.book();
        let mut scheduler: Scheduler<Held, C, Q> = Scheduler::new(self.setup, Arc::clone(&book.profiles));
        for user in 0..self.setup.users {
            scheduler.assign(user, unpack(self.word(user)), 0);
        }
        let there = Arc::new(());
        book.stages.retain(ToStage::is_there);
        let gates = Arc::clone(scheduler.gates());
        book.stages.push(ToStage { stage: Arc::downgrade(&there), changed: producer, gates });
        let seen = self.generation.load(Ordering::Acquire);
        let orders =
            Orders { _there: there, shaping: Arc::clone(self), changed: consumer, seen, sweep: self.setup.users };
        Box::new(Shaper::new(scheduler, orders, user, colours, self.classes, self.setup.overhead))
    }
}

impl ToStage {
    fn is_there(&self) -> bool {
        self.stage.strong_count() > 0
    }
}

fn word(names: &[String], subports: &[String], profile: &str, subport: Option<&str>) -> Option<u32> {
    let profile = names.iter().position(|name| name == profile)?;
    let subport = match subport {
        Some(subport) => subports.iter().position(|name| name == subport)?,
        None => 0,
    };
    Some((profile as u32) << 16 | subport as u32)
}

fn unpack(word: u32) -> Option<(u16, u16)> {
    (word != NOBODY).then_some(((word >> 16) as u16, word as u16))
}

/// What a stage is told by the control side.
pub(crate) struct Orders {
    /// Says that the stage is there.
    _there: Arc<()>,
    shaping: Arc<Shaping>,
    changed: Consumer<u32>,
    seen: u64,
    /// Users from this one on are still to be looked at.
    sweep: u32,
}

/// Users that are looked at in one call.
const SWEEP: u32 = 256;

impl Orders {
    /// Lets a scheduler know of changes: some of them in each call. Whether there are more.
    #[inline(always)]
    pub(crate) fn look<const C: usize, const Q: usize>(
        &mut self,
        scheduler: &mut Scheduler<Held, C, Q>,
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
    fn follow<const C: usize, const Q: usize>(
        &mut self,
        generation: u64,
        scheduler: &mut Scheduler<Held, C, Q>,
        now: u64,
    ) {
        // Never waits: while the control side writes, there is another loop.
        if generation != self.seen
            && let Ok(book) = self.shaping.book.try_lock()
        {
            scheduler.set_profiles(Arc::clone(&book.profiles), now);
            self.seen = generation;
            self.sweep = 0;
        }
        for _ in 0..SWEEP {
            let Some(user) = self.changed.pop() else { break };
            scheduler.assign(user, unpack(self.shaping.word(user)), now);
        }
        let end = self.sweep.saturating_add(SWEEP).min(self.shaping.setup.users);
        for user in self.sweep..end {
            scheduler.assign(user, unpack(self.shaping.word(user)), now);
        }
        self.sweep = end;
    }
}
