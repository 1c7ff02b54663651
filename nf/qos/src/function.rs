//! The function `qos` as the program sees it.

use std::any::Any;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use weir_config::{ConfigError, Element, ErrorKind, PortName, Schema};
use weir_mem::Published;
use weir_net::limit::{Rate, TokenBucket};
use weir_packet::Key;
use weir_sched::arrangement::Arrangement;
use weir_sched::classify::Classifier;
use weir_sched::owner::Own;
use weir_sched::police::{Police, Policers};
use weir_sched::shaping::Shaping;
use weir_stage::{
    Case, Env, Function, Graph, GraphError, Instance, Layout, Need, NodeId, Place, Placement, RequestError, Saved,
    Show, ShowRows, To, UsageConfig, Verb,
};

use crate::back::Back;
use crate::config::{QosConfig, Reverse};
use crate::limit::Limit;
use crate::load::{Wanted, load};
use crate::state::{Control, Direction, Profiles, lock};
use crate::table::{IdentifyWith, Room, Table};
use crate::users::Users;
use crate::{cases, request, show};

/// The function `qos`.
#[derive(Debug)]
pub struct Qos;

impl Function for Qos {
    fn kind(&self) -> &'static str {
        "qos"
    }

    fn schema(&self) -> Schema {
        QosConfig::schema()
    }

    fn placement(&self, element: &Element) -> Placement {
        let workers = element.read_key("workers").unwrap_or(vec![0]);
        Placement { layout: element.read_key("layout").unwrap_or(Layout::RunToCompletion), workers }
    }

    /// Frames pass as they are, with up to two tags.
    fn in_front(&self, _element: &Element, _port: &str) -> u16 {
        8
    }

    fn ports(&self, element: &Element) -> Vec<String> {
        let ports = ["from", "to"].into_iter().filter_map(|key| element.read_key::<PortName>(key));
        ports.map(|port| port.to_string()).collect()
    }

    fn holds(&self, element: &Element) -> usize {
        element.read::<QosConfig>().map_or(0, |config| {
            let schedulers = match config.reverse {
                Reverse::Pass => 1,
                Reverse::Shape => 2,
            };
            config.scheduler.holds(arrangement(&config).owners().schedulers()) * schedulers
        })
    }

    fn needs(&self, element: &Element) -> Vec<Need> {
        let usage = element.read_key::<UsageConfig>("usage");
        usage.iter().map(|usage| Need::export("users", usage)).collect()
    }

    fn build(
        &self,
        element: &Element,
        env: &Env<'_>,
        old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
        let (config, wanted) = load(element, env)?;
        let running = Running::build(element, config, wanted, env)?;
        if let Some(old) = old.and_then(|old| old.as_any().downcast_ref::<Running>()) {
            running.take_over(old);
        }
        Ok(Box::new(running))
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

/// What runs on which worker.
fn arrangement(config: &QosConfig) -> Arrangement {
    Arrangement::of(config.layout, config.workers.len())
}

/// A configured `qos`.
pub(crate) struct Running {
    name: String,
    config: QosConfig,
    /// Indices of the ports `from` and `to`.
    ports: [u16; 2],
    /// What runs on which worker.
    arrangement: Arrangement,
    classifier: Arc<Published<Classifier>>,
    policers: Arc<Published<Policers>>,
    pub(crate) shared: Arc<Mutex<Control>>,
    now: u64,
}

impl Running {
    fn build(element: &Element, config: QosConfig, wanted: Wanted, env: &Env<'_>) -> Result<Running, Vec<ConfigError>> {
        let limit = |problem: String| vec![element.error(ErrorKind::Limit, &element.path(), problem)];
        let limits = &config.limits;
        let room = Room { prefixes: limits.prefixes, networks: limits.networks };
        let table = Table::new(config.user_by, room, env.domain).map_err(limit)?;
        let directions: &[Direction] = match config.reverse {
            Reverse::Pass => &[Direction::Forth],
            Reverse::Shape => &[Direction::Forth, Direction::Back],
        };
        let arrangement = arrangement(&config);
        let owners = arrangement.owners();
        let mut schedulers = Vec::new();
        for direction in directions {
            // All that can be wrong has been looked for.
            let shaping = Shaping::divided(&config.scheduler, owners)
                .map_err(|faults| limit(format!("scheduler: {faults:?}")))?;
            schedulers.push((*direction, shaping));
        }
        let classifier = Arc::new(Published::new(env.domain, Box::new(wanted.classifier.clone())));
        let policers = Arc::new(Published::new(env.domain, Box::new(Policers::default())));
        let mut control = Control {
            users: Users::new(),
            names: wanted.names.clone(),
            others: None,
            table,
            schedulers,
            profiles: Profiles::new(owners, config.scheduler.users),
            classifier: Arc::clone(&classifier),
            policers: Arc::clone(&policers),
        };
        control.become_wanted(wanted).map_err(limit)?;
        let ports = [&config.from, &config.to].map(|name| env.port(name).map_or(0, |port| port.index));
        let shared = Arc::new(Mutex::new(control));
        let name = element.name().to_owned();
        Ok(Running { name, config, ports, arrangement, classifier, policers, shared, now: env.now })
    }

    /// What was changed at run time stays.
    fn take_over(&self, old: &Running) {
        let (mut control, old) = (lock(&self.shared), lock(&old.shared));
        let Control { users, names, .. } = &mut *control;
        users.take_over(&old.users, |number| names.profile(old.names.profiles.get(usize::from(number))?));
        control.assign_all();
    }

    /// The name of a stage of one direction.
    fn stage(&self, stage: &str, direction: Direction) -> String {
        match direction {
            Direction::Forth => format!("{}.{stage}", self.name),
            Direction::Back => format!("{}.{stage}-back", self.name),
        }
    }

    /// The stages of one direction; packets come in at the first.
    fn direction(&self, graph: &mut Graph, direction: Direction, user: Key<u32>, to: u16) -> Option<NodeId> {
        let control = lock(&self.shared);
        let (_, shaping) = control.schedulers.iter().find(|(one, _)| *one == direction)?;
        let mut shape = |scheduler: u8, place: Place| {
            let shaper = graph.add_at(self.stage("shape", direction), shaping.stage_of(scheduler, user, true), place);
            graph.wire(shaper, "out", To::Port(to));
            shaper
        };
        let arrangement = self.arrangement;
        let shapers: Vec<NodeId> = if arrangement.has_own_schedulers() {
            arrangement.sections().map(|(owner, place)| shape(owner, place)).collect()
        } else {
            let shaper = shape(0, arrangement.exit());
            arrangement.sections().map(|_| shaper).collect()
        };
        let sections = arrangement.sections().zip(shapers);
        let first: Vec<NodeId> = sections
            .map(|((owner, place), shaper)| {
                self.before_shaper(graph, &control, (direction, user), (owner, place), shaper)
            })
            .collect();
        let first = self.balanced(graph, &control, direction, &first)?;
        Some(self.limited(graph, direction, first))
    }

    /// What an owner does before its packets are shaped.
    fn before_shaper(
        &self,
        graph: &mut Graph,
        control: &Control,
        (direction, user): (Direction, Key<u32>),
        (owner, place): (u8, Place),
        shaper: NodeId,
    ) -> NodeId {
        let (own, strict) = (Own::of(owner), self.config.others.is_none());
        let with = IdentifyWith { classifier: Arc::clone(&self.classifier), user, own, strict };
        let identify = control.table.identify(direction == Direction::Back, with);
        let identify = graph.add_at(self.stage("identify", direction), identify, place);
        let profiles = control.profiles.of(owner).filter(|_| !self.config.police.is_empty());
        let Some(profiles) = profiles else {
            graph.wire(identify, "out", To::Stage(shaper));
            return identify;
        };
        let overhead = u32::from(self.config.scheduler.overhead);
        let police = Police::new(user, profiles, Arc::clone(&self.policers), overhead);
        let police = graph.add_at(self.stage("police", direction), Box::new(police), place);
        graph.wire(identify, "out", To::Stage(police));
        graph.wire(police, "out", To::Stage(shaper));
        identify
    }

    /// A balancer before the owners, if there is one.
    fn balanced(
        &self,
        graph: &mut Graph,
        control: &Control,
        direction: Direction,
        owners: &[NodeId],
    ) -> Option<NodeId> {
        let first = *owners.first()?;
        if !self.arrangement.is_balanced() {
            return Some(first);
        }
        let balance = control.table.balance(direction == Direction::Back, owners.len() as u8);
        let balance = graph.add_at(self.stage("balance", direction), balance, self.arrangement.entrance());
        graph.wire(balance, "first", To::Stage(first));
        for (n, owner) in owners.iter().enumerate() {
            graph.wire(balance, &format!("worker[{n}]"), To::Stage(*owner));
        }
        Some(balance)
    }

    /// A limiter before all others, if there is one.
    fn limited(&self, graph: &mut Graph, direction: Direction, next: NodeId) -> NodeId {
        let limit = self.config.limit.and_then(|limit| {
            // A millisecond's worth, and at least a batch.
            let rate = limit.packets_per_second();
            Rate::new(rate, (rate / 1_000).max(64))
        });
        let Some(limit) = limit else { return next };
        let limit = graph.add(self.stage("limit", direction), Limit(TokenBucket::new(limit, self.now)));
        graph.wire(limit, "out", To::Stage(next));
        limit
    }
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let user: Key<u32> = graph.claim("user")?;
        let [from, to] = self.ports;
        if let Some(first) = self.direction(&mut graph, Direction::Forth, user, to) {
            graph.receive(from, first);
        }
        let back = match self.direction(&mut graph, Direction::Back, user, from) {
            Some(first) => first,
            None => {
                let back = graph.add(format!("{}.back", self.name), Back);
                graph.wire(back, "out", To::Port(from));
                back
            }
        };
        graph.receive(to, back);
        Ok(graph)
    }

    fn balances(&self) -> bool {
        true
    }

    fn prepare(&self, element: &Element, env: &Env<'_>) -> Result<Box<dyn FnOnce(u64) + Send>, Vec<ConfigError>> {
        let (config, wanted) = load(element, env)?;
        let shared = Arc::clone(&self.shared);
        let mut changes = Vec::new();
        for (_, shaping) in &lock(&self.shared).schedulers {
            let change = shaping.prepare(&config.scheduler);
            let refused = |faults| {
                vec![element.error(ErrorKind::Conflict, &element.path().field("scheduler"), format!("{faults:?}"))]
            };
            changes.push(change.map_err(refused)?);
        }
        Ok(Box::new(move |_now| {
            let mut control = lock(&shared);
            control.schedulers.iter().zip(changes).for_each(|((_, shaping), change)| shaping.apply(change));
            // All there may be no room for is prefixes, and what takes too many of them is refused before.
            drop(control.become_wanted(wanted));
        }))
    }

    fn request(&self, verb: &str, arguments: &Value, _now: u64) -> Result<Value, RequestError> {
        request::carry_out(&mut lock(&self.shared), verb, arguments)
    }

    fn show(&self, what: &str, filter: Option<&str>, _now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        show::rows(&self.shared, what, filter)
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        show::saved(&self.shared)
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let control = lock(&self.shared);
        vec![("qos_users", "Users of the scheduler", control.users.len() as f64)]
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
