//! The function `qos` as the program sees it.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use weir_config::{ConfigError, Element, ErrorKind, PacketRate};
use weir_mem::Published;
use weir_packet::Key;
use weir_sched::limit::Limit;
use weir_sched::police::{Police, Policers};
use weir_sched::remark::Remark;
use weir_sched::shaping::Shaping;
use weir_stage::ownership::balance::MakeBalancer;
use weir_stage::ownership::{Arrangement, Own};
use weir_stage::{
    Case, Description, Env, Function, Given, Graph, GraphError, Ground, Instance, Need, Prepared, Redrawn,
    RequestError, Saved, Show, ShowRows, Stage, Verb,
};

use crate::config::{QosConfig, Reverse};
use crate::graph::Shape;
use crate::identify::Rules;
use crate::load::{Wanted, load};
use crate::state::{Control, Direction, Live, Profiles, lock};
use crate::table::{IdentifyWith, Room, Table};
use crate::users::Users;
use crate::{cases, request, show};

/// The function `qos`.
#[derive(Debug)]
pub struct Qos;

impl Function for Qos {
    type Config = QosConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "qos"
    }

    fn balances(&self) -> bool {
        true
    }

    /// Frames pass as they are, with up to two tags.
    fn in_front(&self, _given: &Given<'_, QosConfig>, _port: &str) -> u16 {
        8
    }

    fn ports(&self, given: &Given<'_, QosConfig>) -> Vec<String> {
        vec![given.config.from.to_string(), given.config.to.to_string()]
    }

    fn holds(&self, given: &Given<'_, QosConfig>) -> usize {
        let owners = Arrangement::of(given.placement).owners();
        given.config.scheduler.holds(owners.parts()) * directions(given.config).len()
    }

    fn needs(&self, given: &Given<'_, QosConfig>) -> Vec<Need> {
        given.config.usage.iter().map(|usage| Need::export("users", usage)).collect()
    }

    fn describe(&self, given: &Given<'_, QosConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let wanted = load(given, env)?;
        let config = Arc::clone(given.config);
        let ports = [&config.from, &config.to].map(|name| env.port(name).map_or(0, |port| port.index));
        let arrangement = Arrangement::of(given.placement);
        let shape = Shape { name: given.name().to_owned(), config, ports, arrangement };
        Ok(Described { element: Arc::clone(given.element), shape, wanted })
    }

    fn verbs(&self) -> &'static [Verb] {
        request::VERBS
    }

    fn examples(&self) -> &'static [&'static str] {
        request::EXAMPLES
    }

    fn shows(&self) -> &'static [Show] {
        show::SHOWS
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }
}

/// The directions of the schedulers.
pub(crate) fn directions(config: &QosConfig) -> &'static [Direction] {
    match config.reverse {
        Reverse::Pass => &[Direction::Forth],
        Reverse::Shape => &[Direction::Forth, Direction::Back],
        Reverse::Together => &[Direction::Both],
    }
}

/// What a `qos` comes to.
pub struct Described {
    element: Arc<Element>,
    shape: Shape,
    wanted: Wanted,
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn instantiate(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        let running = self.build(ground)?;
        old.into_iter().for_each(|old| running.adopt(old));
        Ok(running)
    }

    /// Stages before the schedulers come and go; all others stay, with what waits in them.
    fn redraw(&self, running: &Running) -> Redrawn<Running> {
        let stages = |shape: &Shape| (shape.config.police.is_empty(), shape.config.remark.is_empty());
        match stages(&self.shape) == stages(&running.shape) {
            true => Redrawn::Same,
            false => Redrawn::As(Running { shape: self.shape.clone(), ..running.clone() }),
        }
    }

    fn change(self, running: &Running, _env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let Described { element, shape, wanted } = self;
        let shared = Arc::clone(&running.shared);
        let mut changes = Vec::new();
        for (_, shaping) in &lock(&running.shared).schedulers {
            let change = shaping.prepare(&shape.config.scheduler);
            let refused = |faults| {
                vec![element.error(ErrorKind::Conflict, &element.path().field("scheduler"), format!("{faults:?}"))]
            };
            changes.push(change.map_err(refused)?);
        }
        Ok(Box::new(move |_now| {
            let mut control = lock(&shared);
            control.schedulers.iter().zip(changes).for_each(|((_, shaping), change)| shaping.apply(change));
            // All there may be no room for is prefixes, and what takes too many of them is refused before.
            drop(control.reconcile(wanted));
        }))
    }
}

impl Described {
    fn build(self, ground: &Ground<'_>) -> Result<Running, Vec<ConfigError>> {
        let Described { element, shape, wanted } = self;
        let limit = |problem: String| vec![element.error(ErrorKind::Limit, &element.path(), problem)];
        let config = &shape.config;
        let room = Room { prefixes: config.limits.prefixes, networks: config.limits.networks };
        let table = Table::new(config.user_by, room, ground.domain).map_err(limit)?;
        let owners = shape.arrangement.owners();
        let mut schedulers = Vec::new();
        for direction in directions(config) {
            // All that can be wrong has been looked for.
            let shaping = Shaping::divided(&config.scheduler, owners)
                .map_err(|faults| limit(format!("scheduler: {faults:?}")))?;
            schedulers.push((*direction, shaping));
        }
        let rules = Rules { classifier: wanted.classifier.clone(), strict: wanted.others.is_none() };
        let live = Live {
            rules: Arc::new(Published::new(ground.domain, Box::new(rules))),
            policers: Arc::new(Published::new(ground.domain, Box::new(Policers::default()))),
            remarking: Arc::new(Published::new(ground.domain, Box::new(wanted.remarking.clone()))),
        };
        let mut control = Control {
            users: Users::new(),
            names: wanted.names.clone(),
            subports: wanted.subports.clone(),
            others: None,
            table,
            schedulers,
            profiles: Profiles::new(owners, config.scheduler.users),
            live: live.clone(),
        };
        control.reconcile(wanted).map_err(limit)?;
        let shared = Arc::new(Mutex::new(control));
        Ok(Running { shape, live, shared, now: ground.now })
    }
}

/// A configured `qos`.
#[derive(Clone)]
pub struct Running {
    shape: Shape,
    live: Live,
    pub(crate) shared: Arc<Mutex<Control>>,
    now: u64,
}

impl Running {
    /// What was changed at run time stays.
    fn adopt(&self, old: &Running) {
        let (mut control, old) = (lock(&self.shared), lock(&old.shared));
        control.adopt_subports(&old.subports);
        let Control { users, names, .. } = &mut *control;
        users.adopt(&old.users, |given| names.translate(given, &old.names));
        control.assign_all();
    }

    /// A scheduler of a direction.
    pub(crate) fn shaper(
        &self,
        direction: Direction,
        scheduler: u8,
        user: Key<u32>,
    ) -> Result<Box<dyn Stage>, GraphError> {
        let control = lock(&self.shared);
        let (_, shaping) = control
            .schedulers
            .iter()
            .find(|(one, _)| *one == direction)
            .ok_or_else(|| GraphError(vec![format!("nothing is shaped that goes {}", direction.name())]))?;
        Ok(shaping.stage_of(scheduler, user))
    }

    /// Finds the users of an owner.
    pub(crate) fn identify(&self, direction: Direction, own: Own, user: Key<u32>) -> Box<dyn Stage> {
        let with = IdentifyWith { rules: Arc::clone(&self.live.rules), user, own };
        lock(&self.shared).table.identify(direction == Direction::Back, with)
    }

    /// The policers of an owner.
    pub(crate) fn police(&self, owner: u8, user: Key<u32>) -> Result<Box<dyn Stage>, GraphError> {
        let profiles = lock(&self.shared).profiles.of(owner);
        let profiles = profiles.ok_or_else(|| GraphError(vec![format!("worker {owner} has no users")]))?;
        let overhead = u32::from(self.shape.config.scheduler.overhead);
        Ok(Box::new(Police::new(user, profiles, Arc::clone(&self.live.policers), overhead)))
    }

    /// Remarks packets.
    pub(crate) fn remark(&self) -> Box<dyn Stage> {
        Box::new(Remark::new(Arc::clone(&self.live.remarking)))
    }

    /// Brings packets to their owners.
    pub(crate) fn balance(&self, direction: Direction, make: MakeBalancer) -> Box<dyn Stage> {
        lock(&self.shared).table.balance(direction == Direction::Back, make)
    }

    /// Lets pass what a rate allows.
    pub(crate) fn limit(&self, rate: PacketRate) -> Result<Box<dyn Stage>, GraphError> {
        let limit = Limit::new(rate.packets_per_second(), self.now);
        Ok(Box::new(limit.ok_or_else(|| GraphError(vec!["limit: a rate of 0 lets nothing pass".to_owned()]))?))
    }
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(Some(self))
    }

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn request(&self, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
        request::carry_out(&self.shared, verb, arguments, now)
    }

    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        show::rows(&self.shared, what, filter, now)
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        show::saved(&self.shared)
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let control = lock(&self.shared);
        vec![("qos_users", "Users of the scheduler", control.users.len() as f64)]
    }
}
