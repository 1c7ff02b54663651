//! The function `bng` as the program sees it.

use std::any::Any;
use std::io::BufReader;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::Ipv6Net;
use serde_json::Value;
use weir_config::{ConfigError, Element, ErrorKind, PortName, Schema};
use weir_net::Author;
use weir_packet::Key;
use weir_sched::arrangement::Arrangement;
use weir_simd::Kernel;
use weir_stage::{
    Case, Env, Function, Graph, GraphError, Instance, Layout, Notice, Placement, RequestError, Saved, Show, ShowRows,
    Stage, Verb,
};
use weir_table::lpm4::Prefix4;
use weir_wire::MacAddr;

use crate::cases;
use crate::config::{BngConfig, CoreEncapsulation, SubscribersConfig};
use crate::control::{ErrorLimits, Room, SlowPath};
use crate::core_side::CoreSide;
use crate::down;
use crate::fib::{Fib, FibView};
use crate::identification::Sequence;
use crate::load::{Loader, Taken};
use crate::loss::{reasons, watched};
use crate::marking::Marking;
use crate::notice::Notices;
use crate::ports::{Ports, Side};
use crate::punt::{Kind, Rates};
use crate::qos::{self, Schedulers};
use crate::registry::{Entry, Fields, PREFIX_LENGTH, Registry, Settings, ShapingSettings, Timing};
use crate::save::Added;
use crate::six;
use crate::state::{Control, Defences, lock};
use crate::table::counters::{Counters, WorkerCounters};
use crate::table::{Limits, Subscribers, Tables, Tags};
use crate::up;
use crate::wanted::{Wanted, wanted};
use crate::{request, show};

/// The function `bng`.
#[derive(Debug)]
pub struct Bng;

impl Function for Bng {
    fn kind(&self) -> &'static str {
        "bng"
    }

    fn schema(&self) -> Schema {
        BngConfig::schema()
    }

    fn placement(&self, element: &Element) -> Placement {
        let workers = element.read_key("workers").unwrap_or(vec![0]);
        Placement { layout: element.read_key("layout").unwrap_or(Layout::RunToCompletion), workers }
    }

    fn ports(&self, element: &Element) -> Vec<String> {
        let ports = ["access", "core"].map(|key| element.read_key::<Vec<PortName>>(key).unwrap_or_default());
        ports.iter().flatten().map(PortName::to_string).collect()
    }

    /// Customers' packets have two tags.
    fn in_front(&self, element: &Element, port: &str) -> u16 {
        const TWO_TAGS: u16 = 8;
        let access: Vec<PortName> = element.read_key("access").unwrap_or_default();
        if access.iter().any(|access| access.as_str() == port) { TWO_TAGS } else { 0 }
    }

    fn holds(&self, element: &Element) -> usize {
        element
            .read::<BngConfig>()
            .map_or(0, |config| qos::holds(&config.qos, config.access.len(), arrangement(&config).owners()))
    }

    fn build(
        &self,
        element: &Element,
        env: &Env<'_>,
        old: Option<&dyn Instance>,
    ) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
        let (config, wanted) = wanted(element, env)?;
        if !wanted.wrong.is_empty() {
            return Err(with_subscribers(element, env, &config, wanted));
        }
        let old = old.and_then(|old| old.as_any().downcast_ref::<Running>());
        Ok(Box::new(Running::build(element, config, wanted, env, old)?))
    }

    fn verbs(&self) -> &'static [Verb] {
        request::VERBS
    }

    fn examples(&self) -> &'static [&'static str] {
        request::EXAMPLES
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }

    fn shows(&self) -> &'static [Show] {
        show::SHOWS
    }
}

/// A configured gateway.
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) config: BngConfig,
    pub(crate) ports: Arc<Ports>,
    fib: FibView,
    pub(crate) subscribers: Arc<Subscribers>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) kernel: Kernel,
    /// Own addresses, sorted.
    own: Vec<u32>,
    /// The same of IPv6.
    own6: Vec<u128>,
    local: u32,
    /// Identifications of all workers' outer packets.
    pub(crate) sequence: Sequence,
    /// What shapes subscribers, if anything does.
    pub(crate) schedulers: Option<Arc<Schedulers>>,
    /// What runs on which worker.
    pub(crate) arrangement: Arrangement,
    shared: Arc<Mutex<Control>>,
    notices: Mutex<Notices>,
}

impl Running {
    fn build(
        element: &Element,
        config: BngConfig,
        wanted: Wanted,
        env: &Env<'_>,
        old: Option<&Running>,
    ) -> Result<Running, Vec<ConfigError>> {
        let no_memory = |error: String| vec![element.error(ErrorKind::Limit, &element.path(), error)];
        let arrangement = arrangement(&config);
        let schedulers =
            Schedulers::new(&config.qos, config.access.len(), arrangement.owners(), env.domain).map_err(no_memory)?;
        let settings = settings(&config, &wanted, schedulers.as_ref());
        let taken = old.map_or_else(Taken::default, |old| Taken::of(&lock(&old.shared).registry));
        let entries = entries(element, env, &config, &settings, taken)?;
        let kernel = Kernel::detect();
        let Wanted { ports, gateways, routes, routes6, addresses, addresses6, core_addresses, local, .. } = wanted;
        let mut fib = Fib::new(gateways, config.limits.routes, kernel, env.domain)
            .map_err(|error| no_memory(error.to_string()))?;
        let core = core_addresses.iter().map(|(_, net)| net.addr());
        let mut own: Vec<u32> = addresses.iter().map(|net| net.addr()).chain(core).map(u32::from).collect();
        own.sort_unstable();
        for (prefix, gateway) in routes {
            if let Some(prefix) = Prefix4::new(prefix.addr().to_bits(), prefix.prefix_len()) {
                fib.add_route(prefix, gateway).map_err(|refused| no_memory(refused.to_string()))?;
            }
        }
        let own6: Vec<Ipv6Addr> = addresses6.iter().map(Ipv6Net::addr).collect();
        fib.set_routes6(&routes6, &own6).map_err(|error| no_memory(error.to_string()))?;
        for address in &own {
            fib.add_local((*address).into()).map_err(|refused| no_memory(refused.to_string()))?;
        }
        let limits = Limits {
            subscribers: settings.subscribers,
            bindings: settings.bindings,
            svlans: settings.svlans,
            prefix_length: PREFIX_LENGTH,
            is_balanced: arrangement.is_balanced(),
            has_keys: settings.has_keys,
        };
        let tables = Tables::new(limits, settings.ports.len(), env.domain, seed(&ports))
            .map_err(|error| no_memory(error.to_string()))?;
        let counters = Counters::new(settings.subscribers, settings.ports.len(), reasons(), watched());
        let subscribers = Arc::clone(tables.shared());
        let mut registry = Registry::new(settings, tables, Arc::clone(&counters));
        let mut refused = registry.become_config(entries);
        if let Some(old) = old {
            let old = lock(&old.shared);
            refused.extend(take_over(&mut registry, &old.registry));
            registry.remember(&old.registry);
        }
        registry.settle();
        let ports = Arc::new(ports);
        let mut core = CoreSide::new(&ports, &core_addresses, &fib, env.now);
        for port in env.ports.iter().filter(|port| port.link_up) {
            core.set_link(port.index, true, env.now, &mut fib);
        }
        let errors = ErrorLimits::new(config.icmp_rate.packets_per_second(), env.now);
        let running = Running {
            name: element.name().to_owned(),
            ports: Arc::clone(&ports),
            fib: fib.view(),
            subscribers,
            counters,
            kernel,
            own,
            own6: sorted6(&own6),
            local: local.to_bits(),
            // It goes on: what was sent last may still be under way.
            sequence: old.map(|old| old.sequence.clone()).unwrap_or_default(),
            config: config.clone(),
            schedulers,
            arrangement,
            shared: Arc::new(Mutex::new(Control {
                registry,
                core,
                defences: Defences::default(),
                errors,
                fib,
                ports,
                addresses,
                addresses6,
                config,
            })),
            notices: Mutex::default(),
        };
        let wrong: Vec<ConfigError> = refused.into_iter().map(|(_, problem)| refused_error(element, problem)).collect();
        if wrong.is_empty() { Ok(running) } else { Err(wrong) }
    }

    pub(crate) fn six(&self, counters: &Arc<WorkerCounters>, is_tunnel: bool) -> six::Shared {
        six::Shared {
            subscribers: Arc::clone(&self.subscribers),
            fib: self.fib.clone(),
            ports: Arc::clone(&self.ports),
            counters: Arc::clone(counters),
            is_tunnel,
            marking: self.marking(),
        }
    }

    pub(crate) fn up_shared(&self, counters: &Arc<WorkerCounters>) -> up::Shared {
        up::Shared {
            subscribers: Arc::clone(&self.subscribers),
            fib: self.fib.clone(),
            ports: Arc::clone(&self.ports),
            counters: Arc::clone(counters),
            tpid: self.config.tpid.ethertype(),
        }
    }

    pub(crate) fn down_shared(&self, counters: Arc<WorkerCounters>) -> down::Shared {
        down::Shared {
            subscribers: Arc::clone(&self.subscribers),
            ports: Arc::clone(&self.ports),
            counters,
            marking: self.marking(),
            local: self.local,
            own: self.own.clone(),
            own6: self.own6.clone(),
        }
    }

    fn marking(&self) -> Marking {
        let BngConfig { pcp, dscp, .. } = &self.config;
        Marking::new(|old| dscp.get(&old).copied().unwrap_or(old), |dscp| pcp.get(&dscp).copied().unwrap_or(0))
    }

    pub(crate) fn slow_path(&self, kind: Key<Kind>) -> Result<Box<dyn Stage>, GraphError> {
        let counters = self.counters.lend().map_err(no_memory)?;
        let limits = &self.config.limits;
        let room = Room { queue: limits.queue as usize, fragments: limits.fragments as usize };
        Ok(Box::new(SlowPath::new(Arc::clone(&self.shared), counters, kind, self.ports.list().len(), room)))
    }

    pub(crate) fn rates(&self) -> Rates {
        Rates {
            all: self.config.punt_rate.packets_per_second(),
            each: self.config.subscriber_punt_rate.packets_per_second(),
            subscribers: self.config.limits.subscribers,
        }
    }

    pub(crate) fn stage(&self, stage: &str) -> String {
        format!("{}.{stage}", self.name)
    }
}

/// Addresses as workers compare them, in order.
fn sorted6(addresses: &[Ipv6Addr]) -> Vec<u128> {
    let mut all: Vec<u128> = addresses.iter().copied().map(Ipv6Addr::to_bits).collect();
    all.sort_unstable();
    all
}

pub(crate) fn no_memory(error: weir_mem::arena::Error) -> GraphError {
    GraphError(vec![error.to_string()])
}

/// What decides where addresses stand in the index: other gateways have other Ethernet addresses.
fn seed(ports: &Ports) -> u64 {
    ports.list().iter().fold(0x9e37_79b9_7f4a_7c15, |seed, port| {
        let MacAddr([a, b, c, d, e, f]) = port.mac;
        (seed ^ u64::from_le_bytes([a, b, c, d, e, f, 0, 0])).wrapping_mul(0xd6e8_feb8_6659_fd93)
    })
}

/// What runs on which worker.
fn arrangement(config: &BngConfig) -> Arrangement {
    Arrangement::of(config.layout, config.workers.len())
}

/// What subscribers are subject to.
fn settings(config: &BngConfig, wanted: &Wanted, schedulers: Option<&Arc<Schedulers>>) -> Settings {
    const SECOND: u64 = 1_000_000_000;
    let access = wanted.ports.list().iter().filter(|port| port.side == Side::Access);
    Settings {
        ports: access.map(|port| port.name.clone()).collect(),
        tpid: config.tpid.ethertype(),
        has_keys: config.core_encapsulation == CoreEncapsulation::GreMpls,
        subscribers: config.limits.subscribers,
        bindings: config.limits.bindings,
        svlans: config.limits.svlans,
        addresses: config.limits.addresses,
        hosts6: config.limits.hosts_ipv6,
        learn: config.learn.networks.to_vec(),
        gateways: wanted.addresses.clone(),
        timing: Timing { ageing: config.learn.ageing.nanos(), retransmit: SECOND, questions: 3, failed: 10 * SECOND },
        shaping: schedulers.map(|schedulers| ShapingSettings {
            schedulers: Arc::clone(schedulers),
            profiles: qos::profiles(&config.qos),
            usual: config.qos.usual.clone(),
            users: qos::users(&config.qos),
        }),
        owners: arrangement(config).owners(),
    }
}

/// What is wrong with a configuration, and with its subscribers besides; with their profiles only where the schedulers are right.
fn with_subscribers(element: &Element, env: &Env<'_>, config: &BngConfig, wanted: Wanted) -> Vec<ConfigError> {
    let settings = settings(config, &wanted, None);
    let mut wrong = wanted.wrong;
    wrong.extend(entries(element, env, config, &settings, Taken::default()).err().unwrap_or_default());
    wrong
}

/// The subscribers that a configuration wants.
///
/// # Errors
///
/// Everything that is wrong with them.
fn entries(
    element: &Element,
    env: &Env<'_>,
    config: &BngConfig,
    settings: &Settings,
    taken: Taken,
) -> Result<Vec<Entry>, Vec<ConfigError>> {
    let mut loader = Loader::new(settings, taken);
    match &config.subscribers {
        SubscribersConfig::File(file) => {
            let opened = match env.folder {
                Some(folder) => folder.open_file(file),
                None => Err("can not be opened: the configuration has no folder".to_owned()),
            };
            let opened = opened.map_err(|reason| {
                let root = element.path();
                vec![element.error(ErrorKind::File, &root.field("subscribers"), format!("\"{file}\" {reason}"))]
            })?;
            loader.read_csv(&file.to_string(), BufReader::with_capacity(1 << 18, opened));
        }
        SubscribersConfig::List(list) => {
            for (n, one) in (1..).zip(list) {
                let fields = Fields {
                    key: one.key,
                    user: one.user,
                    ipv4: one.ipv4.iter().map(|source| source.0).collect(),
                    ipv6: one.ipv6.iter().map(|source| source.0).collect(),
                    mac: one.mac.map(|mac| MacAddr(mac.octets())),
                    profile: one.profile.as_deref().map(Arc::from),
                };
                loader.add_item(element, n, one.port.as_ref().map(PortName::as_str), (one.svlan, one.cvlan), fields);
            }
        }
    }
    loader.finish()
}

/// Enters what others than the configuration said about subscribers of a gateway that this one replaces. Answers what can not be.
fn take_over(registry: &mut Registry, old: &Registry) -> Vec<(Tags, String)> {
    let versions = old.subscribers_from(0).flat_map(|subscriber| {
        let others = subscriber.versions.iter().filter(|(author, _)| *author != Author::Config);
        others.map(|(author, fields)| (*author, Entry { tags: subscriber.tags, fields: fields.clone() }))
    });
    let refused = versions.filter_map(|(author, entry)| {
        let tags = entry.tags;
        registry.put(author, entry).err().map(|problem| (tags, problem))
    });
    refused.collect()
}

fn refused_error(element: &Element, problem: String) -> ConfigError {
    let root = element.path();
    element.error(ErrorKind::Conflict, &root.field("subscribers"), problem)
}

impl Instance for Running {
    fn graph(&self, _replica: usize) -> Result<Graph, GraphError> {
        match self.config.core_encapsulation {
            CoreEncapsulation::GreMpls => self.graph_of::<true>(),
            CoreEncapsulation::Ip => self.graph_of::<false>(),
        }
    }

    fn balances(&self) -> bool {
        true
    }

    fn prepare(&self, element: &Element, env: &Env<'_>) -> Result<Box<dyn FnOnce(u64) + Send>, Vec<ConfigError>> {
        let (config, wanted) = wanted(element, env)?;
        if !wanted.wrong.is_empty() {
            return Err(with_subscribers(element, env, &config, wanted));
        }
        let settings = settings(&config, &wanted, self.schedulers.as_ref());
        let taken = Taken::of(&lock(&self.shared).registry);
        let entries = entries(element, env, &config, &settings, taken)?;
        let conflict = |problem| vec![element.error(ErrorKind::Conflict, &element.path().field("qos"), problem)];
        let schedulers = self.schedulers.as_ref();
        let prepared =
            |all: &Arc<Schedulers>| all.prepare(&config.qos).map_err(conflict).map(|change| (Arc::clone(all), change));
        let change = schedulers.map(prepared).transpose()?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(move |now| {
            let mut control = lock(&shared);
            control.registry.configure(settings);
            if let Some((schedulers, change)) = change {
                schedulers.apply(change);
                control.registry.shape_all();
            }
            drop(control.registry.become_config(entries));
            control.registry.settle();
            control.errors.set_rate(config.icmp_rate.packets_per_second(), now);
            control.config = config;
        }))
    }

    fn request(&self, verb: &str, arguments: &Value, _now: u64) -> Result<Value, RequestError> {
        request::carry_out(&mut lock(&self.shared).registry, verb, arguments)
    }

    fn save(&self) -> Box<dyn ShowRows<Saved>> {
        Box::new(Added::new(&self.shared))
    }

    fn show(&self, what: &str, filter: Option<&str>, now: u64) -> Result<Box<dyn ShowRows>, RequestError> {
        show::rows(&self.shared, what, filter, now)
    }

    fn notices(&self, now: u64) -> Vec<Notice> {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        // The slow path is not held up to find that it is not time yet.
        if notices.is_due(now) { notices.look(now, &mut lock(&self.shared)) } else { Vec::new() }
    }

    fn link_changed(&self, port: u16, up: bool, now: u64) {
        let control = &mut *lock(&self.shared);
        control.core.set_link(port, up, now, &mut control.fib);
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
        show::gauges(&lock(&self.shared))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
