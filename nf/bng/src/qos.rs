//! Shaping of subscribers: a scheduler for each access port and direction, in which each subscriber has the profile that its entry
//! names.

use std::fmt;
use std::sync::Arc;

use weir_config::{ConfigError, ErrorKind};
use weir_mem::{Domain, Published};
use weir_packet::Key;
use weir_sched::classify::Classifier;
use weir_sched::config::SchedulerConfig;
use weir_sched::gates::UserCount;
use weir_sched::shaping::{Change, Shaping};
use weir_sched::watch::{Asked, Told};
use weir_stage::ownership::Owners;
use weir_stage::{Given, Layout, Stage};

use crate::config::{BngConfig, QosConfig};

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From customers: shaped before anything else is done with them.
    Up,
    /// To customers: shaped last, so that nothing is lost behind the scheduler.
    Down,
}

impl Direction {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

/// The schedulers of a gateway.
pub(crate) struct Schedulers {
    /// By position of the access port.
    up: Vec<Arc<Shaping>>,
    down: Vec<Arc<Shaping>>,
    classifier: Arc<Published<Classifier>>,
}

/// A change of schedulers that cannot fail any more.
#[derive(Debug)]
pub(crate) struct Prepared {
    changes: Vec<(Arc<Shaping>, Change)>,
    classifier: Classifier,
}

impl fmt::Debug for Schedulers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedulers({} up, {} down)", self.up.len(), self.down.len())
    }
}

impl Schedulers {
    /// As configured, for so many access ports, divided among these owners; `None` where nothing is shaped. The configuration has no [`faults`].
    ///
    /// # Errors
    ///
    /// What is wrong all the same.
    pub(crate) fn new(
        config: &QosConfig,
        ports: usize,
        owners: Owners,
        domain: &Domain,
    ) -> Result<Option<Arc<Schedulers>>, String> {
        if config.up.is_none() && config.down.is_none() {
            return Ok(None);
        }
        let all = |scheduler: &Option<SchedulerConfig>| match scheduler {
            Some(scheduler) => {
                let divided = |_| Shaping::divided(scheduler, owners).map_err(|faults| said(&faults));
                (0..ports).map(divided).collect()
            }
            None => Ok(Vec::new()),
        };
        let classifier = Arc::new(Published::new(domain, Box::new(classifier(config))));
        Ok(Some(Arc::new(Schedulers { up: all(&config.up)?, down: all(&config.down)?, classifier })))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Shaping>> {
        self.up.iter().chain(&self.down)
    }

    /// Gives a user a profile. Subscribers of the same user share what that may send.
    pub(crate) fn assign(&self, user: u32, profile: &str) {
        // Names and numbers were checked when the subscriber was entered.
        self.all().for_each(|shaping| drop(shaping.assign(user, profile, None)));
    }

    /// From now on there is no such user: what waits is still sent, and nobody's share is divided for it.
    pub(crate) fn dismiss(&self, user: u32) {
        self.all().for_each(|shaping| shaping.dismiss(user));
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
    pub(crate) fn watch(&self, position: u8, user: u32, now: u64) -> Result<Vec<(Direction, Told)>, Asked> {
        let of = |direction| self.of(direction).get(usize::from(position)).map(|shaping| (direction, shaping));
        let both = [Direction::Up, Direction::Down].into_iter().filter_map(of);
        both.map(|(direction, shaping)| Ok((direction, shaping.watch(user, now)?))).collect()
    }

    /// Prepares to run with a configuration of which only live keys differ.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn prepare(&self, config: &QosConfig) -> Result<Prepared, String> {
        let mut changes = Vec::new();
        for (shapings, scheduler) in [(&self.up, &config.up), (&self.down, &config.down)] {
            let Some(scheduler) = scheduler else { continue };
            for shaping in shapings {
                let change = shaping.prepare(scheduler).map_err(|faults| said(&faults))?;
                changes.push((Arc::clone(shaping), change));
            }
        }
        Ok(Prepared { changes, classifier: classifier(config) })
    }

    /// Puts a change in place.
    pub(crate) fn apply(&self, prepared: Prepared) {
        prepared.changes.into_iter().for_each(|(shaping, change)| shaping.apply(change));
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
        Some(shaping.stage_of(scheduler, user, false))
    }

    /// How packets are told apart.
    pub(crate) fn classifier(&self) -> &Arc<Published<Classifier>> {
        &self.classifier
    }

    fn of(&self, direction: Direction) -> &[Arc<Shaping>] {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// Whether anything is shaped that goes this way.
pub(crate) fn shapes(config: &QosConfig, direction: Direction) -> bool {
    match direction {
        Direction::Up => config.up.is_some(),
        Direction::Down => config.down.is_some(),
    }
}

fn said(faults: &[(String, String)]) -> String {
    faults.iter().map(|(key, problem)| format!("{key}: {problem}")).collect::<Vec<_>>().join("; ")
}

/// Traffic classes of all schedulers.
fn classes(config: &QosConfig) -> u8 {
    both(config).map(|(_, scheduler)| scheduler.classes).min().unwrap_or(1)
}

fn classifier(config: &QosConfig) -> Classifier {
    Classifier::new(&config.classify, classes(config))
}

/// The schedulers' configurations, with their keys.
pub(crate) fn both(config: &QosConfig) -> impl Iterator<Item = (&'static str, &SchedulerConfig)> {
    [("up", &config.up), ("down", &config.down)]
        .into_iter()
        .filter_map(|(key, scheduler)| Some((key, scheduler.as_ref()?)))
}

/// Names of profiles that all schedulers have.
pub(crate) fn profiles(config: &QosConfig) -> Vec<String> {
    let mut all = both(config);
    let Some((_, first)) = all.next() else { return Vec::new() };
    let others: Vec<&SchedulerConfig> = all.map(|(_, scheduler)| scheduler).collect();
    let in_all = |name: &&String| others.iter().all(|other| other.profiles.contains_key(*name));
    first.profiles.keys().filter(in_all).cloned().collect()
}

/// Users that all schedulers have room for.
pub(crate) fn users(config: &QosConfig) -> u32 {
    both(config).map(|(_, scheduler)| scheduler.users).min().unwrap_or(u32::MAX)
}

/// Packets that the schedulers of so many access ports may hold, divided among these owners.
pub(crate) fn holds(config: &QosConfig, ports: usize, owners: Owners) -> usize {
    both(config).map(|(_, scheduler)| scheduler.holds(owners.parts()) * ports).sum()
}

/// What is wrong with the part of a configuration that is about shaping, beyond its schema.
pub(crate) fn faults(given: &Given<'_, BngConfig>) -> Vec<ConfigError> {
    let Given { element, config, placement } = given;
    let mut errors = Vec::new();
    let root = element.path();
    let here = root.field("qos");
    let qos = &config.qos;
    let mut wrong =
        |key: &'static str, problem: String| errors.push(element.error(ErrorKind::Conflict, &here.field(key), problem));
    for (key, scheduler) in both(qos) {
        scheduler.faults().into_iter().for_each(|(at, problem)| wrong(key, format!("{at}: {problem}")));
        if scheduler.users < config.limits.subscribers {
            let (users, subscribers) = (scheduler.users, config.limits.subscribers);
            wrong(
                key,
                format!(
                    "users: is {users}, but there may be {subscribers} subscribers; raise it or lower limits.subscribers"
                ),
            );
        }
        if !scheduler.assign.is_empty() {
            wrong(key, "assign: subscribers name their profiles themselves; leave it out".to_owned());
        }
    }
    let queues = |class| both(qos).map(|(_, scheduler)| scheduler.queues(class)).max().unwrap_or(1);
    let faults = qos.classify.faults(classes(qos), queues);
    faults.into_iter().for_each(|(at, problem)| wrong("classify", format!("{at}: {problem}")));
    let counts: Vec<u8> = both(qos).map(|(_, scheduler)| scheduler.classes).collect();
    if counts.windows(2).any(|pair| pair[0] != pair[1]) {
        wrong("down", "classes: must be as many as those of up, since both go by the same classify".to_owned());
    }
    let names = profiles(qos);
    if let Some(usual) = qos.usual.as_ref().filter(|usual| both(qos).next().is_some() && !names.contains(usual)) {
        let problem = format!("no profile is called \"{usual}\" in each scheduler; there are {}", names.join(", "));
        wrong("usual", problem);
    }
    if both(qos).next().is_some() && placement.workers.len() > 1 && placement.layout == Layout::RunToCompletion {
        let workers = placement.workers.len();
        let problem = format!(
            "{workers} workers that each take what their queues give them: packets of one subscriber would come to several, and a \
             scheduler has one owner"
        );
        let error = element.error(ErrorKind::Conflict, &root.field("workers"), problem);
        errors.push(error.remedy(
            "choose layout = \"distributor\" (the others share the subscribers), layout = \"pipeline\" (one schedules for all), or one worker",
        ));
    }
    errors
}
