//! The function `bridge` as the program sees it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use weir_config::{ConfigError, Element, ErrorKind, Table};
use weir_mem::Published;
use weir_stage::{
    Beyond, Case, Description, Env, Function, Given, Graph, GraphError, Ground, Instance, Ledger, Notice, Place,
    Prepared, RequestError, Saved, Show, ShowRows, Switched, To, Verb, Versions, local_mac,
};
use weir_table::mac::{Entry, MacTable, PERIODS, Station};
use weir_wire::MacAddr;

use crate::acl::{self, Acl, Book, Side, WantedAcls};
use crate::config::BridgeConfig;
use crate::forward::Forward;
use crate::load::{self, Fixed, Wanted};
use crate::plan::{Plan, bit};
use crate::routed::{self, RoutedSide, RoutedSides};
use crate::snoop::{Forwarding, Listeners, Queriers};
use crate::state::{self, Shared};
use crate::{cases, control, forward, request, show};

/// The function `bridge`.
#[derive(Debug)]
pub struct Bridge;

impl Function for Bridge {
    type Config = BridgeConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "bridge"
    }

    fn ports(&self, given: &Given<'_, BridgeConfig>) -> Vec<String> {
        given.config.ports.keys().map(ToString::to_string).collect()
    }

    /// Frames pass as they are, with up to two tags.
    fn in_front(&self, _given: &Given<'_, BridgeConfig>, _port: &str) -> u16 {
        8
    }

    fn switched(&self, keys: &Table) -> Option<Switched> {
        Some(routed::switched(keys))
    }

    fn add_port(&self, keys: &mut Table, port: &str, vlans: &BTreeSet<u16>) {
        routed::add_port(keys, port, vlans);
    }

    fn describe(&self, given: &Given<'_, BridgeConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let wanted = load::load(given, env)?;
        let shape = Shape {
            name: given.name().to_owned(),
            ports: wanted.ports.iter().map(|port| port.index).collect(),
            acls: given.config.ports.values().map(|port| (port.acl_in.is_some(), port.acl_out.is_some())).collect(),
        };
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

/// What the graph is drawn from.
#[derive(Clone)]
struct Shape {
    name: String,
    /// Indices of the ports, by their numbers in the bridge.
    ports: Vec<u16>,
    /// Whether access lists judge what comes in by each, and what leaves.
    acls: Vec<(bool, bool)>,
}

impl Shape {
    /// The graph of one that runs, or one to be looked at.
    fn draw(&self, running: Option<&Running>) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let count = self.ports.len();
        let worker = Place::Worker { section: 0 };
        let name = format!("{}.forward", self.name);
        let forward = graph.add_of(name, forward::declaration(count), worker, running, |running| {
            Ok(Box::new(Forward::new(Arc::clone(&running.shared), count)))
        })?;
        let name = format!("{}.control", self.name);
        let control = graph.add_of(name, control::declaration(count), Place::Control, running, |running| {
            Ok(Box::new(control::Control::new(Arc::clone(&running.shared), count, running.now)))
        })?;
        graph.wire(forward, "snooped", To::Stage(control));
        graph.leave_open(control, "undecided");
        // The stages of a replica run on one worker, and count in the same places.
        let is_judged = self.acls.iter().any(|(inward, outward)| *inward || *outward);
        let counters = running.filter(|_| is_judged).map(|running| running.shared.control().acls.counters.acquire());
        let counters = counters.transpose().map_err(|error| GraphError(vec![error.to_string()]))?;
        let tables = running.zip(counters);
        let judging = |graph: &mut Graph, what: String, side| {
            let name = format!("{}.{what}", self.name);
            graph.add_of(name, acl::declaration(side), worker, tables.as_ref(), |(running, counters)| {
                Ok(Box::new(Acl::new(Arc::clone(&running.shared), side, Arc::clone(counters))))
            })
        };
        let first = match self.acls.iter().any(|(inward, _)| *inward) {
            true => {
                let inward = judging(&mut graph, "acl-in".to_owned(), Side::In)?;
                graph.wire(inward, "out", To::Stage(forward));
                inward
            }
            false => forward,
        };
        for ((number, port), (inward, outward)) in (0..).zip(&self.ports).zip(&self.acls) {
            let way = format!("port[{number}]");
            match outward {
                true => {
                    let judge = judging(&mut graph, format!("acl-out-{number}"), Side::Out(number))?;
                    graph.wire(judge, "out", To::Port(*port));
                    graph.wire(forward, &way, To::Stage(judge));
                }
                false => graph.wire(forward, &way, To::Port(*port)),
            }
            graph.wire(control, &way, To::Port(*port));
            graph.receive(*port, if *inward { first } else { forward });
        }
        Ok(graph)
    }
}

/// What a `bridge` comes to.
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
        let Described { element, shape, wanted } = self;
        let problem =
            |key: &str, problem: String| vec![element.error(ErrorKind::Limit, &element.path().field(key), problem)];
        let config = &wanted.config;
        // The seed differs from run to run: strangers choose addresses.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), ground.now);
        let table = MacTable::new(config.limits.macs, seed).map_err(|error| problem("limits", error.to_string()))?;
        let up = state::up(&wanted.ports);
        let plan = Published::new(ground.domain, Box::new(Plan::new(config, &wanted.ports, up, &RoutedSides::new())));
        let groups = Published::new(ground.domain, Box::new(Forwarding::default()));
        let mut book = old.map(|old| old.shared.control().acls.clone()).unwrap_or_default();
        check_added(&element, &book, &wanted.acls)?;
        book.reconcile(&wanted.acls);
        let acls = Published::new(ground.domain, Box::new(book.lists(config)));
        let control = state::Control {
            config: Arc::clone(config),
            ports: wanted.ports,
            up,
            fixed: Ledger::default(),
            routed: RoutedSides::new(),
            acls: book,
            listeners: Listeners::default(),
            queriers: Queriers::default(),
            mac: MacAddr(local_mac(&shape.name)),
            told: (0, 0),
        };
        let shared = Arc::new(Shared::new(table, plan, groups, acls, control));
        let running = Running { shape, shared, now: ground.now };
        let no_room = running.configure(wanted.fixed);
        if let Some(station) = no_room.first() {
            return Err(problem(
                "macs",
                format!("there is no room for {station:?}, and {} stations in all", no_room.len()),
            ));
        }
        old.into_iter().for_each(|old| running.adopt(old));
        Ok(running)
    }

    fn change(self, running: &Running, _env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let Described { element, shape, wanted } = self;
        check_added(&element, &running.shared.control().acls, &wanted.acls)?;
        let running = Running { shape, shared: Arc::clone(&running.shared), now: running.now };
        Ok(Box::new(move |_now| {
            running.reconfigure(&wanted);
            // A station that there is no room for, of which there is one in billions, is learned like others.
            drop(running.configure(wanted.fixed));
        }))
    }
}

/// Whether there is room for rules that were added at run time beside those of a configuration.
fn check_added(element: &Element, book: &Book, wanted: &WantedAcls) -> Result<(), Vec<ConfigError>> {
    let root = element.path();
    let error =
        |problem| element.error(ErrorKind::Limit, &root.field("acls"), problem).remedy("delete some (weir acl del)");
    let errors: Vec<ConfigError> = book.objections(wanted).into_iter().map(error).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A configured `bridge`.
pub struct Running {
    shape: Shape,
    pub(crate) shared: Arc<Shared>,
    now: u64,
}

impl Running {
    /// Enters what the configuration says of stations. Answers those that there is no room for.
    fn configure(&self, fixed: Fixed) -> Vec<Station> {
        let mut control = self.shared.control();
        let changed = control.fixed.configure(fixed);
        let no_room = changed.iter().filter_map(|key| self.shared.follow(&control, key).err()).collect();
        control.fixed.forget_unsaid();
        no_room
    }

    /// Takes over what may change while packets flow.
    fn reconfigure(&self, wanted: &Wanted) {
        let mut control = self.shared.control();
        control.config = Arc::clone(&wanted.config);
        control.publish(&self.shared);
        control.acls.reconcile(&wanted.acls);
        control.publish_acls(&self.shared);
        let plan = control.plan();
        // What was learned and heard in VLANs that a port is no longer in does not count.
        self.shared.flush(|station, entry| plan.vlan(station.vlan()).members & bit(entry.port()) == 0);
        control.listeners.keep_members(|vlan| plan.vlan(vlan).members);
        if plan.snooping.is_none() {
            control.listeners.forget(|_, _| true);
        }
        if control.asks().is_none() {
            control.queriers.forget();
        }
        self.shared.groups.publish(Box::new(control.listeners.forwarding()));
    }

    /// What was learned, heard and requested stays.
    fn adopt(&self, old: &Running) {
        let before = old.shared.control();
        let mut control = self.shared.control();
        if before.config.tagging != control.config.tagging {
            return;
        }
        let numbers: Vec<Option<u8>> = before.ports.iter().map(|port| control.number(&port.name)).collect();
        let number = |port: u8| numbers.get(usize::from(port)).copied().flatten();
        for (port, side) in &before.routed {
            // It is told anew at once whether they are still there; until then no packet is to miss its way.
            number(*port).into_iter().for_each(|port| control.lead(&self.shared, port, Some(side.clone())));
        }
        for (key, record) in before.fixed.iter() {
            let Some(entry) = record.added().filter(|entry| load::number(&control.config, entry).is_some()) else {
                continue;
            };
            let said = control.fixed.versions(key);
            control.fixed.say(*key, Versions { added: Some(entry.clone()), ..said.clone() });
            if self.shared.follow(&control, key).is_err() {
                control.fixed.say(*key, said);
                control.fixed.forget(key);
            }
        }
        let plan = control.plan();
        let most = control.config.limits.macs;
        old.shared.table.retain(0..old.shared.table.buckets(), |station, entry| {
            let port = number(entry.port()).filter(|port| plan.vlan(station.vlan()).members & bit(*port) != 0);
            if let Some(port) = port.filter(|_| !entry.is_fixed())
                && self.shared.counts.learned.load(Ordering::Relaxed) < most
            {
                let stamp = self.shared.period().wrapping_sub(entry.age(old.shared.period()));
                self.shared.enter(station, Entry::learned(port, stamp % PERIODS));
            }
            true
        });
        if plan.snooping.is_some() {
            control.listeners.adopt(&before.listeners, number);
            control.listeners.keep_members(|vlan| plan.vlan(vlan).members);
            self.shared.groups.publish(Box::new(control.listeners.forwarding()));
        }
    }
}

/// Time between two notices, nanoseconds.
const NOTICE_EVERY: u64 = 10_000_000_000;

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
        request::saved(&self.shared)
    }

    fn notices(&self, now: u64) -> Vec<Notice> {
        let refused = self.shared.counts.refused.load(Ordering::Relaxed);
        let mut control = self.shared.control();
        let (before, at) = control.told;
        if refused == before || now < at {
            return Vec::new();
        }
        control.told = (refused, now + NOTICE_EVERY);
        let learned = self.shared.counts.learned.load(Ordering::Relaxed);
        let facts = vec![("frames", (refused - before).to_string()), ("learned", learned.to_string())];
        vec![Notice { message: "stations are not learned: a limit is reached", facts }]
    }

    fn link_changed(&self, port: u16, up: bool, _now: u64) {
        let mut control = self.shared.control();
        let Some(number) = control.by_index(port) else { return };
        control.up = if up { control.up | bit(number) } else { control.up & !bit(number) };
        control.publish(&self.shared);
        if !up {
            // Whoever was there is elsewhere now, or nowhere.
            self.shared.flush(|_, entry| entry.port() == number);
            control.listeners.forget(|_, port| port == number);
            self.shared.groups.publish(Box::new(control.listeners.forwarding()));
        }
    }

    fn joined_to(&self, port: u16, beyond: &Beyond) {
        let mut control = self.shared.control();
        let Some(number) = control.by_index(port) else { return };
        let is_routed = control.config.ports.values().nth(usize::from(number)).is_some_and(|port| port.routed);
        let side = is_routed.then(|| RoutedSide::of(&control.config, beyond));
        control.lead(&self.shared, number, side);
    }

    fn explain(&self, stage: &str, way: &str, packet: &[u8], _then: u64) -> Option<String> {
        let is_out = stage == format!("{}.forward", self.shape.name) && way.starts_with("port[");
        if is_out { show::explain(&self.shared, packet) } else { None }
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let counts = &self.shared.counts;
        let moves: u64 = counts.moves.iter().map(|moves| moves.load(Ordering::Relaxed)).sum();
        let (groups, groups_refused) = self.shared.control().listeners.counts();
        vec![
            ("bridge_macs", "Stations that are learned", f64::from(counts.learned.load(Ordering::Relaxed))),
            ("bridge_mac_moves", "How often stations moved from port to port", moves as f64),
            (
                "bridge_macs_refused",
                "Frames of stations that were not learned because a limit was reached",
                counts.refused.load(Ordering::Relaxed) as f64,
            ),
            ("bridge_groups", "Multicast groups that somebody listens to", groups as f64),
            ("bridge_groups_refused", "Reports of groups that there was no room for", groups_refused as f64),
            (
                "bridge_copies_missed",
                "Floods that did not reach all ports because there were no buffers",
                counts.missed.load(Ordering::Relaxed) as f64,
            ),
        ]
    }
}
