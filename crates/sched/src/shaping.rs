//! The control side of shaping: who has which profile, and what the stages are told of it.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use weir_mem::{Producer, ring};
use weir_packet::{Held, Key};
use weir_stage::Stage;

use crate::config::{self, Fault, SchedulerConfig};
use crate::dual::Duals;
use crate::flows::Flows;
use crate::gates::{Gates, UserCount};
use crate::hold::Hold;
use crate::orders::Orders;
use crate::profile::Profiles;
use crate::scheduler::{Scheduler, Setup};
use crate::shaper::Shaper;
use crate::share::{Limits, Shares, SubportLimits};
use crate::splits::Splits;
use crate::watch::{Asked, Told};
use weir_stage::ownership::Owners;

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
    /// Of each scheduler.
    pub(crate) setup: Setup,
    /// Users of all schedulers together.
    users: u32,
    /// Who has which users.
    pub(crate) owners: Owners,
    /// Classes that are used.
    classes: usize,
    /// Subports are below others.
    is_tree: bool,
    /// Profile and subport of each user, 16 bits each, or [`NOBODY`].
    assigned: Box<[AtomicU32]>,
    /// How often stages were to look at the book.
    pub(crate) generation: AtomicU64,
    pub(crate) book: Mutex<Book>,
}

/// What only the control side touches, but for the profiles when they have changed.
pub(crate) struct Book {
    /// Names of the profiles, by number. A number is never given to another name.
    names: Vec<String>,
    /// Names of the subports, by number; empty for those that are to spare.
    subports: Vec<String>,
    /// The rate of each profile, bit/s.
    rates: Vec<u64>,
    /// With the rates of the whole port.
    profiles: Arc<Profiles>,
    /// What the configuration says of the port and its subports.
    configured: Limits,
    /// What subports were given at run time instead.
    given: Vec<Option<SubportLimits>>,
    /// What counts.
    limits: Limits,
    shares: Shares,
    /// The profiles of each scheduler, with the rates of its share.
    parts: Vec<Arc<Profiles>>,
    stages: Vec<ToStage>,
    /// Ranges that the configuration assigned.
    ranges: Vec<(u32, u32)>,
    /// How often all users were to be looked at anew.
    pub(crate) sweeps: u64,
}

struct ToStage {
    /// Which of the schedulers it has.
    scheduler: u8,
    /// Gone when the stage is.
    stage: Weak<()>,
    changed: Producer<u32>,
    gates: Arc<Gates>,
}

impl fmt::Debug for Shaping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shaping({} users)", self.users)
    }
}

/// A checked configuration that is ready to be put in place.
#[derive(Debug)]
pub struct Change {
    names: Vec<String>,
    rates: Vec<u64>,
    profiles: Arc<Profiles>,
    limits: Limits,
    /// First and last user, and their word.
    ranges: Vec<(u32, u32, u32)>,
}

impl Shaping {
    /// From a configuration, its users assigned: one scheduler for all of them.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn new(config: &SchedulerConfig) -> Result<Arc<Shaping>, Vec<Fault>> {
        Shaping::divided(config, Owners::ONE)
    }

    /// The same with the [schedulers](Owners::schedulers) that workers have of their own. Each has its share of the port's rate and of the
    /// buffers, and only its own users.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn divided(config: &SchedulerConfig, owners: Owners) -> Result<Arc<Shaping>, Vec<Fault>> {
        let schedulers = owners.parts();
        let setup = Setup {
            users: config.users.div_ceil(u32::from(schedulers)),
            buffers: config.buffers_of_each(schedulers),
            minimum: config.minimum(),
            overhead: config.overhead,
            wheel: Setup::WHEEL,
        };
        let limits = config.limits();
        let shares = Shares::new(owners, limits.subports.len());
        let (port, subports) = shares.of(0, &limits);
        let profiles = Arc::new(Profiles::new(port, subports, Vec::new()));
        let parts = (0..schedulers).map(|_| Arc::clone(&profiles)).collect();
        let (names, rates, stages, ranges) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let shaping = Shaping {
            setup,
            users: config.users,
            owners,
            classes: usize::from(config.classes),
            is_tree: limits.subports.iter().any(|subport| subport.parent.is_some()),
            assigned: (0..config.users).map(|_| AtomicU32::new(NOBODY)).collect(),
            generation: AtomicU64::new(0),
            book: Mutex::new(Book {
                names,
                subports: padded(config.subports.keys().cloned().collect(), limits.subports.len()),
                rates,
                profiles,
                configured: limits.clone(),
                given: vec![None; limits.subports.len()],
                limits,
                shares,
                parts,
                stages,
                ranges,
                sweeps: 0,
            }),
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
        let built = self.built();
        let rate = |(number, name): (usize, &String)| match config.profiles.get(name) {
            Some(profile) => profile.tb_rate.bits_per_second(),
            None => book.rates.get(number).copied().unwrap_or(0),
        };
        let rates = names.iter().enumerate().map(rate).collect();
        let users = names.iter().enumerate().map(|(number, name)| match config.profiles.get(name) {
            Some(profile) => profile.profile(self.classes, built),
            // Whoever has it still goes by it.
            None => book.profiles.user(number as u16).clone(),
        });
        let limits = config.limits();
        let (port, subports) = Shares::new(Owners::ONE, limits.subports.len()).of(0, &limits);
        let profiles = Arc::new(Profiles::new(port, subports, users.collect()));
        let ranges = config.assign.iter().filter_map(|range| {
            let word = word(&names, &book.subports, &range.profile, range.subport.as_deref())?;
            Some((range.first, range.last.unwrap_or(range.first), word))
        });
        let ranges = ranges.collect();
        Ok(Change { names, rates, profiles, limits, ranges })
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
        book.rates = change.rates;
        book.configured = change.limits;
        book.merge(&change.profiles);
        book.shares = Shares::new(self.owners, book.limits.subports.len());
        for (user, word) in (0..).zip(&self.assigned) {
            book.weigh(user, NOBODY, word.load(Ordering::Relaxed));
        }
        book.divide();
        book.sweeps += 1;
        drop(book);
        self.call();
    }

    /// Has stages look at the book.
    fn call(&self) {
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
            format!("there is no user {user}: users are 0 to {}; raise users", self.users.saturating_sub(1))
        })?;
        let mut book = self.book();
        let word = word(&book.names, &book.subports, profile, subport).ok_or_else(|| {
            let (profiles, subports) = (book.names.join(", "), book.subports.join(", "));
            format!("profile {profile:?} or subport {subport:?} does not exist; profiles are {profiles}; subports are {subports}")
        })?;
        self.replace(&mut book, user, assigned, word);
        Ok(())
    }

    /// From now on there is no such user: packets that come are refused, those that wait are sent.
    pub fn dismiss(&self, user: u32) {
        let mut book = self.book();
        if let Some(assigned) = self.assigned.get(user as usize) {
            self.replace(&mut book, user, assigned, NOBODY);
        }
    }

    fn replace(&self, book: &mut Book, user: u32, assigned: &AtomicU32, word: u32) {
        let before = assigned.swap(word, Ordering::Relaxed);
        if before != word {
            book.stages.retain(ToStage::is_there);
            book.weigh(user, before, word);
            // With the first stage comes the first division.
            if book.shares.divides() && !book.stages.is_empty() {
                book.divide();
            }
            self.tell(book, user);
        }
    }

    fn tell(&self, book: &mut Book, user: u32) {
        let Book { stages, sweeps, .. } = book;
        for stage in stages {
            if stage.changed.push(user).is_err() {
                // It goes through all users instead.
                *sweeps += 1;
                self.call();
            }
        }
    }

    /// Classes that the schedulers are built for.
    fn built(&self) -> usize {
        config::built(self.classes)
    }

    /// The names of the profile and the subport of a user.
    pub fn assigned(&self, user: u32) -> Option<(String, Option<String>)> {
        let (profile, subport) = unpack(self.word(user))?;
        let book = self.book();
        let name = book.names.get(usize::from(profile)).cloned()?;
        Some((name, book.subports.get(usize::from(subport)).cloned()))
    }

    pub(crate) fn word(&self, user: u32) -> u32 {
        self.assigned.get(user as usize).map_or(NOBODY, |word| word.load(Ordering::Relaxed))
    }

    /// Classes that are used.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Users at most.
    pub fn users(&self) -> u32 {
        self.users
    }

    /// Packets that wait at most, in all schedulers together.
    pub fn buffers(&self) -> usize {
        self.setup.buffers as usize * usize::from(self.owners.parts())
    }

    /// What became of a user's packets, in all stages that there are.
    pub fn count(&self, user: u32) -> UserCount {
        let number = self.owners.number(user);
        let book = self.book();
        let stages = book.stages.iter().filter(|stage| self.owners.at(stage.scheduler, user));
        let sum = stages.map(|stage| stage.gates.count(number)).fold(UserCount::default(), UserCount::plus);
        sum.with_lowest(self.built() - 1, self.classes - 1)
    }

    /// What holds a user back at `now`, in nanoseconds since the engine started; `None` while none of its packets waits.
    pub fn hold(&self, user: u32, now: u64) -> Option<Hold> {
        let number = self.owners.number(user);
        let book = self.book();
        let stages = book.stages.iter().filter(|stage| self.owners.at(stage.scheduler, user));
        // Of a stage that is gone, the counts count, but nothing waits in it.
        let hold = stages.filter(|stage| stage.is_there()).find_map(|stage| stage.gates.hold(number, now))?;
        Some(Hold { level: hold.level.with_lowest(self.built() - 1, self.classes - 1), ..hold })
    }

    /// Somebody asks about a user, at `now`: it is watched from then on. What was seen of it so far, nothing at first.
    ///
    /// # Errors
    ///
    /// As many others are watched as can be.
    pub fn watch(&self, user: u32, now: u64) -> Result<Told, Asked> {
        let number = self.owners.number(user);
        let mut book = self.book();
        let mut stages =
            book.stages.iter_mut().filter(|stage| self.owners.at(stage.scheduler, user) && stage.is_there());
        let Some(stage) = stages.next() else { return Ok(Told::default()) };
        let asked = stage.gates.ask(number, now);
        match asked {
            Asked::Full => return Err(asked),
            Asked::Goes => {}
            Asked::Begins => {
                let gates = Arc::clone(&stage.gates);
                self.tell(&mut book, user);
                return Ok(gates.told(number, now).unwrap_or_default());
            }
        }
        Ok(stage.gates.told(number, now).unwrap_or_default())
    }

    /// Bytes of state per user, and bytes per packet that may wait.
    pub fn bytes(&self) -> (usize, usize) {
        let (user, packet) = if self.classes <= 4 { Four::bytes() } else { Eight::bytes() };
        let book = self.book();
        let flows = if book.profiles.fair() { Flows::BYTES } else { 0 };
        let lines = if book.profiles.duals() { Duals::BYTES } else { 0 };
        let parts = if book.profiles.splits() { Splits::BYTES } else { 0 };
        (user, packet + flows + lines + parts)
    }

    /// A stage that shapes, at the rate of the whole port: one worker has it. It finds the user of a packet in the lane `user`, its class and
    /// its colour in the lanes of those.
    pub fn stage(self: &Arc<Shaping>, user: Key<u32>) -> Box<dyn Stage> {
        self.stage_of(0, user)
    }

    /// The stage with the scheduler of an owner, which knows users by their [numbers there](Owners::number).
    pub fn stage_of(self: &Arc<Shaping>, scheduler: u8, user: Key<u32>) -> Box<dyn Stage> {
        match (self.classes <= 4, self.is_tree) {
            (true, false) => self.build::<4, 11, false>(scheduler, user),
            (true, true) => self.build::<4, 11, true>(scheduler, user),
            (false, false) => self.build::<8, 15, false>(scheduler, user),
            (false, true) => self.build::<8, 15, true>(scheduler, user),
        }
    }

    fn build<const C: usize, const Q: usize, const TREE: bool>(
        self: &Arc<Shaping>,
        scheduler_number: u8,
        user: Key<u32>,
    ) -> Box<dyn Stage> {
        let (producer, consumer) = ring(CHANGES);
        let mut book = self.book();
        book.divide();
        let mut scheduler: Scheduler<Held, C, Q, TREE> = Scheduler::new(self.setup, book.part(scheduler_number));
        for number in 0..self.setup.users {
            let user = self.owners.user(scheduler_number, number);
            scheduler.assign(number, unpack(self.word(user)), 0);
        }
        let there = Arc::new(());
        book.stages.retain(ToStage::is_there);
        let (gates, stage) = (Arc::clone(scheduler.gates()), Arc::downgrade(&there));
        book.stages.push(ToStage { scheduler: scheduler_number, stage, changed: producer, gates });
        let orders = Orders::new(self, &book, scheduler_number, (there, consumer));
        Box::new(Shaper::new(scheduler, orders, user, self.classes, self.setup.overhead))
    }
}

impl Book {
    /// A user had one word and has another.
    fn weigh(&mut self, user: u32, before: u32, now: u32) {
        for (word, is_new) in [(before, false), (now, true)] {
            let Some((profile, subport)) = unpack(word) else { continue };
            let rate = self.rates.get(usize::from(profile)).copied().unwrap_or(0);
            let (before, now) = if is_new { (0, rate) } else { (rate, 0) };
            self.shares.change(user, subport, before, now);
        }
    }

    /// Gives each scheduler its share of the rates.
    fn divide(&mut self) {
        let Book { profiles, limits, shares, parts, .. } = self;
        for (scheduler, part) in (0..).zip(parts.iter_mut()) {
            *part = if shares.divides() {
                let (port, subports) = shares.of(scheduler, limits);
                Arc::new(profiles.with_rates(port, subports))
            } else {
                Arc::clone(profiles)
            };
        }
    }

    /// From now on users have these profiles, and the port and its subports what counts.
    fn merge(&mut self, profiles: &Profiles) {
        self.limits = self.configured.clone();
        for (limits, given) in self.limits.subports.iter_mut().zip(&self.given) {
            *limits = given.unwrap_or(*limits);
        }
        let (port, subports) = Shares::new(Owners::ONE, self.limits.subports.len()).of(0, &self.limits);
        self.profiles = Arc::new(profiles.with_rates(port, subports));
    }

    /// The profiles of a scheduler.
    pub(crate) fn part(&self, scheduler: u8) -> Arc<Profiles> {
        Arc::clone(self.parts.get(usize::from(scheduler)).unwrap_or(&self.profiles))
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

pub(crate) fn unpack(word: u32) -> Option<(u16, u16)> {
    (word != NOBODY).then_some(((word >> 16) as u16, word as u16))
}

fn padded(mut names: Vec<String>, to: usize) -> Vec<String> {
    names.resize(to.max(names.len()), String::new());
    names
}

mod subports;
#[cfg(test)]
mod tests;
