//! Shaping of subscribers, what is done before, and what is done where nothing is shaped: a scheduler for each access port and direction, or for both, in which each
//! subscriber has the profile that its entry names, behind [policers and remarking](conditioner).

mod check;
mod conditioner;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use weir_mem::{Domain, Published};
use weir_packet::Key;
use weir_sched::classify::Classifier;
use weir_sched::config::{CLASSES, OVERHEAD, SchedulerConfig};
use weir_sched::gates::UserCount;
use weir_sched::police::PolicerConfig;
use weir_sched::remark::RemarkConfig;
use weir_sched::shaping::{Change, Shaping};
use weir_sched::watch::{Asked, Told};
use weir_stage::Stage;
use weir_stage::ownership::Owners;

use crate::config::{PoliceConfig, QosConfig, RemarkingConfig};

pub(crate) use check::faults;
use conditioner::Conditioner;

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From customers: shaped before anything else is done with them.
    Up,
    /// To customers: shaped last, so that nothing is lost behind the scheduler.
    Down,
}

impl Direction {
    pub(crate) const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

/// What goes through a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shaped {
    /// What goes one way.
    Only(Direction),
    /// What goes either way.
    Both,
}

impl Shaped {
    const EACH: [Shaped; 3] = [Shaped::Only(Direction::Up), Shaped::Only(Direction::Down), Shaped::Both];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Shaped::Only(direction) => direction.name(),
            Shaped::Both => "both",
        }
    }

    fn has(self, direction: Direction) -> bool {
        self == Shaped::Both || self == Shaped::Only(direction)
    }
}

impl QosConfig {
    fn scheduler_of(&self, shaped: Shaped) -> Option<&SchedulerConfig> {
        match shaped {
            Shaped::Only(Direction::Up) => self.up.as_ref(),
            Shaped::Only(Direction::Down) => self.down.as_ref(),
            Shaped::Both => self.both.as_ref(),
        }
    }

    /// The scheduler for what goes one way.
    pub(crate) fn scheduler(&self, direction: Direction) -> Option<&SchedulerConfig> {
        self.both.as_ref().or_else(|| self.scheduler_of(Shaped::Only(direction)))
    }
}

impl PoliceConfig {
    pub(crate) fn of(&self, direction: Direction) -> &BTreeMap<String, PolicerConfig> {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

impl RemarkingConfig {
    pub(crate) fn of(&self, direction: Direction) -> &[RemarkConfig] {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// The schedulers of a gateway, and what stands before them.
pub(crate) struct Schedulers {
    /// What goes through them, and a scheduler for each access port, by its position.
    lists: Vec<(Shaped, Vec<Arc<Shaping>>)>,
    conditioner: Conditioner,
    classifier: Arc<Published<Classifier>>,
}

/// A change of schedulers that cannot fail any more.
#[derive(Debug)]
pub(crate) struct Prepared {
    changes: Vec<(Arc<Shaping>, Change)>,
    conditioner: conditioner::Prepared,
    classifier: Classifier,
}

impl fmt::Debug for Schedulers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lists.iter().map(|(shaped, list)| (shaped, list.len()))).finish()
    }
}

impl Schedulers {
    /// As configured, for so many access ports and subscribers, divided among these owners; `None` where nothing is shaped, policed or remarked. The
    /// configuration has no [`faults`].
    ///
    /// # Errors
    ///
    /// What is wrong all the same.
    pub(crate) fn new(
        config: &QosConfig,
        ports: usize,
        subscribers: u32,
        owners: Owners,
        domain: &Domain,
    ) -> Result<Option<Arc<Schedulers>>, String> {
        if !conditions_any(config) {
            return Ok(None);
        }
        let list = |(shaped, scheduler): (Shaped, &SchedulerConfig)| {
            let divided = |_| Shaping::divided(scheduler, owners).map_err(|faults| said(&faults));
            (0..ports).map(divided).collect::<Result<_, String>>().map(|list| (shaped, list))
        };
        let lists = schedulers(config).map(list).collect::<Result<_, String>>()?;
        let classifier = Arc::new(Published::new(domain, Box::new(classifier(config))));
        let conditioner = Conditioner::new(config, users(config, subscribers), owners, domain);
        Ok(Some(Arc::new(Schedulers { lists, conditioner, classifier })))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Shaping>> {
        self.lists.iter().flat_map(|(_, list)| list)
    }

    /// Gives a user a profile. Subscribers of the same user share what that may send.
    pub(crate) fn assign(&self, user: u32, profile: &str) {
        // Names and numbers were checked when the subscriber was entered.
        self.all().for_each(|shaping| drop(shaping.assign(user, profile, None)));
        self.conditioner.assign(user, Some(profile));
    }

    /// From now on there is no such user: what waits is still sent, and nobody's share is divided for it.
    pub(crate) fn dismiss(&self, user: u32) {
        self.all().for_each(|shaping| shaping.dismiss(user));
        self.conditioner.assign(user, None);
    }

    /// The profile that a user has in all schedulers; a failed assertion if they do not agree.
    #[cfg(test)]
    pub(crate) fn profile(&self, user: u32) -> Option<String> {
        let mut all = self.all().map(|shaping| shaping.assigned(user).map(|(profile, _)| profile));
        let first = all.next().unwrap();
        assert!(all.all(|other| other == first));
        first
    }

    /// What became of a user's packets, whichever way they went.
    pub(crate) fn count(&self, user: u32) -> UserCount {
        self.all().map(|shaping| shaping.count(user)).fold(UserCount::default(), UserCount::plus)
    }

    /// What holds a user back at `now`, in nanoseconds since the engine started, in one direction: at the first access port where something of it waits.
    /// How that is told, and for how many seconds it has.
    pub(crate) fn hold(&self, direction: Direction, user: u32, now: u64) -> Option<(String, f64)> {
        let told =
            |shaping: &Arc<Shaping>| shaping.hold(user, now).map(|hold| (shaping.held_by(&hold), hold.seconds(now)));
        self.of(direction).iter().find_map(told)
    }

    /// Has a user watched at the schedulers of an access port, by its position; what was seen of it so far.
    ///
    /// # Errors
    ///
    /// As many others are watched as can be.
    pub(crate) fn watch(&self, position: u8, user: u32, now: u64) -> Result<Vec<(Shaped, Told)>, Asked> {
        let of = |(shaped, list): &(Shaped, Vec<Arc<Shaping>>)| {
            Some((*shaped, Arc::clone(list.get(usize::from(position))?)))
        };
        self.lists.iter().filter_map(of).map(|(shaped, shaping)| Ok((shaped, shaping.watch(user, now)?))).collect()
    }

    /// Prepares to run with a configuration of which only live keys differ.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn prepare(&self, config: &QosConfig) -> Result<Prepared, String> {
        let mut changes = Vec::new();
        for (shaped, list) in &self.lists {
            let Some(scheduler) = config.scheduler_of(*shaped) else { continue };
            for shaping in list {
                let change = shaping.prepare(scheduler).map_err(|faults| said(&faults))?;
                changes.push((Arc::clone(shaping), change));
            }
        }
        Ok(Prepared { changes, conditioner: self.conditioner.prepare(config), classifier: classifier(config) })
    }

    /// Puts a change in place.
    pub(crate) fn apply(&self, prepared: Prepared) {
        prepared.changes.into_iter().for_each(|(shaping, change)| shaping.apply(change));
        self.conditioner.apply(prepared.conditioner);
        self.classifier.publish(Box::new(prepared.classifier));
    }

    /// The stage with a scheduler of an access port, by its number among those that the port's users are divided among.
    pub(crate) fn stage(
        &self,
        direction: Direction,
        position: u8,
        scheduler: u8,
        user: Key<u32>,
    ) -> Option<Box<dyn Stage>> {
        let shaping = self.of(direction).get(usize::from(position))?;
        Some(shaping.stage_of(scheduler, user))
    }

    /// A stage that polices the users of an owner who send, or get, packets.
    pub(crate) fn police(&self, direction: Direction, owner: u8, user: Key<u32>) -> Option<Box<dyn Stage>> {
        self.conditioner.police(direction, owner, user)
    }

    /// A stage that remarks packets.
    pub(crate) fn remark(&self, direction: Direction) -> Box<dyn Stage> {
        self.conditioner.remark(direction)
    }

    /// How packets are told apart.
    pub(crate) fn classifier(&self) -> &Arc<Published<Classifier>> {
        &self.classifier
    }

    fn of(&self, direction: Direction) -> &[Arc<Shaping>] {
        let list = self.lists.iter().find(|(shaped, _)| shaped.has(direction));
        list.map_or(&[], |(_, list)| list.as_slice())
    }
}

/// Whether anything is shaped that goes this way.
pub(crate) fn shapes(config: &QosConfig, direction: Direction) -> bool {
    config.scheduler(direction).is_some()
}

/// Whether anything is shaped or policed that goes this way, so that each subscriber has an owner.
pub(crate) fn meters(config: &QosConfig, direction: Direction) -> bool {
    shapes(config, direction) || !config.police.of(direction).is_empty()
}

/// Whether anything is shaped or policed, in any direction, so that profiles mean something.
pub(crate) fn meters_any(config: &QosConfig) -> bool {
    Direction::BOTH.into_iter().any(|direction| meters(config, direction))
}

/// Whether anything is shaped, policed or remarked that goes this way.
pub(crate) fn conditions(config: &QosConfig, direction: Direction) -> bool {
    meters(config, direction) || !config.remark.of(direction).is_empty()
}

/// Whether anything is, in any direction.
pub(crate) fn conditions_any(config: &QosConfig) -> bool {
    Direction::BOTH.into_iter().any(|direction| conditions(config, direction))
}

/// Bytes that each frame counts more than it has.
fn overhead(config: &QosConfig, direction: Direction) -> u32 {
    u32::from(config.scheduler(direction).map_or(OVERHEAD, |scheduler| scheduler.overhead))
}

fn said(faults: &[(String, String)]) -> String {
    faults.iter().map(|(key, problem)| format!("{key}: {problem}")).collect::<Vec<_>>().join("; ")
}

/// Traffic classes of all schedulers; those that a scheduler has that says nothing, where there is none.
fn classes(config: &QosConfig) -> u8 {
    schedulers(config).map(|(_, scheduler)| scheduler.classes).min().unwrap_or(CLASSES)
}

fn classifier(config: &QosConfig) -> Classifier {
    Classifier::new(&config.classify, classes(config))
}

/// The schedulers' configurations, with what goes through them.
pub(crate) fn schedulers(config: &QosConfig) -> impl Iterator<Item = (Shaped, &SchedulerConfig)> {
    Shaped::EACH.into_iter().filter_map(|shaped| Some((shaped, config.scheduler_of(shaped)?)))
}

/// Names of profiles: those that all schedulers have; where there are none, those that policers are for.
pub(crate) fn profiles(config: &QosConfig) -> Vec<String> {
    let mut all = schedulers(config);
    let Some((_, first)) = all.next() else {
        let policed = Direction::BOTH.into_iter().flat_map(|direction| config.police.of(direction).keys());
        return policed.cloned().collect::<BTreeSet<String>>().into_iter().collect();
    };
    let others: Vec<&SchedulerConfig> = all.map(|(_, scheduler)| scheduler).collect();
    let in_all = |name: &&String| others.iter().all(|other| other.profiles.contains_key(*name));
    first.profiles.keys().filter(in_all).cloned().collect()
}

/// Users that all schedulers have room for; as many as there may be subscribers, where there are none.
pub(crate) fn users(config: &QosConfig, subscribers: u32) -> u32 {
    schedulers(config).map(|(_, scheduler)| scheduler.users).min().unwrap_or(subscribers)
}

/// Packets that the schedulers of so many access ports may hold, divided among these owners.
pub(crate) fn holds(config: &QosConfig, ports: usize, owners: Owners) -> usize {
    schedulers(config).map(|(_, scheduler)| scheduler.holds(owners.parts()) * ports).sum()
}
