//! The function `switch` as the program sees it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use weir_config::{ConfigError, Element, ErrorKind};
use weir_flow_tables::agent::Options;
use weir_flow_tables::{Agent, Switch as Tables};
use weir_stage::{
    Case, ChannelSide, Description, Env, Function, Given, Graph, GraphError, Ground, Instance, LinkSpeed, Need, Place,
    PortInfo, Prepared, RequestError, Show, ShowRows, Stage, To,
};
use weir_table::mac::MacTable;

use crate::cases::yardstick::{Router, Yardstick};
use crate::config::{SwitchConfig, SwitchLimits};
use crate::control::{self, Control};
use crate::core::{Core, Shared};
use crate::forward::{self, Forward};
use crate::learn::Stations;
use crate::load::{self, Wanted};
use crate::{cases, show};

/// The most that waits for a controller that does not take what it is told, bytes; it is closed then.
const MOST_OUTPUT: usize = 16 << 20;

/// The function `switch`.
#[derive(Debug)]
pub struct Switch;

impl Function for Switch {
    type Config = SwitchConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "switch"
    }

    fn ports(&self, given: &Given<'_, SwitchConfig>) -> Vec<String> {
        given.config.ports.iter().map(ToString::to_string).collect()
    }

    /// Frames pass with whatever tags they have, or get; two are usual.
    fn in_front(&self, _given: &Given<'_, SwitchConfig>, _port: &str) -> u16 {
        8
    }

    fn needs(&self, given: &Given<'_, SwitchConfig>) -> Vec<Need> {
        given.config.channels().into_iter().map(Need::Channel).collect()
    }

    fn describe(&self, given: &Given<'_, SwitchConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let wanted = load::load(given, env)?;
        Ok(Described { element: Arc::clone(given.element), wanted })
    }

    fn shows(&self) -> &'static [Show] {
        show::SHOWS
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }
}

/// The graph of one that runs, or one to be looked at.
fn draw(wanted: &Wanted, running: Option<&Running>) -> Result<Graph, GraphError> {
    let Wanted { name, ports, .. } = wanted;
    let (mut graph, count) = (Graph::new(), ports.len());
    let worker = Place::Worker { section: 0 };
    let tables =
        graph.add_of(format!("{name}.tables"), forward::declaration(count), worker, running, Running::tables)?;
    let declared = control::declaration(count);
    let control = graph.add_of(format!("{name}.control"), declared, Place::Control, running, |running| {
        Ok(Box::new(Control::new(Arc::clone(&running.shared), ports, wanted.live())))
    })?;
    graph.leave_open(tables, "undecided");
    graph.leave_open(control, "undecided");
    for (number, port) in ports.iter().enumerate() {
        let way = format!("port[{number}]");
        graph.wire(tables, &way, To::Port(port.index));
        graph.wire(control, &way, To::Port(port.index));
        graph.receive(port.index, tables);
    }
    Ok(graph)
}

/// What a `switch` comes to.
pub struct Described {
    element: Arc<Element>,
    wanted: Wanted,
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        draw(&self.wanted, None)
    }

    /// Where nothing changed that controllers were told of but ports, their connections and all that they entered stay.
    fn instantiate(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        let Described { element, wanted } = self;
        if let Some(old) = old.filter(|old| is_same(&old.wanted, &wanted)) {
            return Ok(Running { shared: Arc::clone(&old.shared), wanted, yardstick: OnceLock::new() });
        }
        let SwitchLimits { stations, .. } = wanted.config.limits;
        // The seed differs from run to run: strangers choose addresses.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), ground.now);
        let table = MacTable::new(stations, seed).map_err(|error| {
            let place = element.path();
            vec![element.error(ErrorKind::Limit, &place.field("limits"), error.to_string())]
        })?;
        let options = Options { most_output: MOST_OUTPUT, ..Options::default() };
        let agent = Agent::new(Tables::new(wanted.identity()), options);
        let mut core = Core::new(agent, Stations::new(table, stations, ground.now));
        core.configure(&wanted.live());
        Ok(Running { shared: Arc::new(Shared::new(core, ground.now)), wanted, yardstick: OnceLock::new() })
    }

    fn change(self, running: &Running, _env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let (shared, live) = (Arc::clone(&running.shared), self.wanted.live());
        Ok(Box::new(move |_now| shared.core().configure(&live)))
    }
}

/// Whether two are the same to controllers, but for their ports.
fn is_same(one: &Wanted, other: &Wanted) -> bool {
    let limits = |wanted: &Wanted| {
        let SwitchLimits { flows, groups, meters, stations } = wanted.config.limits;
        [flows, groups, meters, stations]
    };
    let identity = |wanted: &Wanted| (wanted.identity().datapath, wanted.config.tables);
    limits(one) == limits(other) && identity(one) == identity(other)
}

/// A configured `switch`.
pub struct Running {
    pub(crate) shared: Arc<Shared>,
    wanted: Wanted,
    /// What is measured in place of its tables: only [cases] set it.
    yardstick: OnceLock<Arc<Router>>,
}

impl Running {
    /// Its ports.
    pub(crate) fn ports(&self) -> &[PortInfo] {
        &self.wanted.ports
    }

    /// Lets something else be measured in place of its tables, before its graph is drawn.
    pub(crate) fn set_yardstick(&self, router: Router) {
        self.yardstick.get_or_init(|| Arc::new(router));
    }

    /// The stage of its tables.
    fn tables(&self) -> Result<Box<dyn Stage>, GraphError> {
        let ports = self.ports();
        match self.yardstick.get() {
            None => Ok(Box::new(Forward::new(Arc::clone(&self.shared), ports))),
            Some(router) => {
                let yardstick = Yardstick::new(Arc::clone(router), ports.len());
                Ok(Box::new(yardstick.map_err(|error| GraphError(vec![error]))?))
            }
        }
    }
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        draw(&self.wanted, Some(self))
    }

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        draw(&self.wanted, None)
    }

    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        show::rows(&self.shared, (&self.wanted.name, what), filter, now)
    }

    fn link_changed(&self, port: u16, up: bool, now: u64) {
        self.shared.core().set_link(port, up, now);
        self.shared.has_news.store(true, Ordering::Release);
    }

    fn speed_changed(&self, port: u16, speed: LinkSpeed, now: u64) {
        self.shared.core().set_speed(port, speed, now);
        self.shared.has_news.store(true, Ordering::Release);
    }

    fn channel_side(&self) -> Option<Arc<dyn ChannelSide>> {
        Some(Arc::<Shared>::clone(&self.shared))
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        let core = self.shared.core();
        let switch = &core.agent.switch;
        let flows: usize = switch.tables.iter().map(|(_, table)| table.len()).sum();
        let ids: Vec<_> = core.agent.connections().collect();
        let ready = ids.iter().filter(|id| core.agent.is_ready(**id)).count();
        let told = ids.iter().filter_map(|id| core.agent.statistics(*id));
        let (packets, dropped) = told.fold((0, 0), |(packets, dropped), statistics| {
            (packets + statistics.packets, dropped + statistics.packets_dropped)
        });
        vec![
            ("switch_flows", "Flows in all tables", flows as f64),
            ("switch_controllers", "Controllers that are connected", ready as f64),
            ("switch_packets_in", "Packets that the controllers now connected were told of", packets as f64),
            ("switch_packets_in_dropped", "Packets that they were not told of because others waited", dropped as f64),
            ("switch_stations", "Stations that are learned", f64::from(core.stations.count())),
            (
                "switch_copies_missed",
                "Copies that were not made: there was no buffer, or none that long",
                self.shared.missed.load(Ordering::Relaxed) as f64,
            ),
        ]
    }
}
