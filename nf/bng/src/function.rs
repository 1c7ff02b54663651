//! The function `bng` as the program sees it: its configuration, and what that comes to.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, LazyLock, Mutex};

use ipnet::Ipv6Net;
use weir_config::{ConfigError, Element, ErrorKind, PortName};
use weir_ip::{FLOW_SHOWS, FunctionRoutes, Inlet, flow_needs, linux_needs};
use weir_net::RouteSource;
use weir_simd::Kernel;
use weir_stage::ownership::Arrangement;
use weir_stage::ownership::Owners;
use weir_stage::{
    Case, Description, Env, Function, Given, Graph, GraphError, Ground, Need, Prepared, Redrawn, Show, Site, Verb,
};
use weir_wire::MacAddr;

use crate::cases;
use crate::config::{BngConfig, CoreEncapsulation, QosConfig, SubscribersConfig};
use crate::control::Identifications;
use crate::core::Tunnels;
use crate::core::keys::Keys;
use crate::graph::Shape;
use crate::load::{Loader, Taken};
use crate::loss::{reasons, watched};
use crate::ports::{Ports, Side};
use crate::qos::{self, Direction, Schedulers};
use crate::registry::{Entry, PREFIX_LENGTH, Registry, Settings, ShapingSettings, Timing};
use crate::running::{Running, core_of};
use crate::state::{Control, Defences, lock};
use crate::table::counters::Counters;
use crate::table::{Limits, Tables, Tags};
use crate::wanted::{Wanted, wanted};
use crate::{request, show};

/// Where routes of customers lead: who has an address is found by it.
const INTO: Inlet = Inlet { number: 0, argument: Inlet::NOBODY };

/// The function `bng`.
#[derive(Debug)]
pub struct Bng;

impl Function for Bng {
    type Config = BngConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "bng"
    }

    fn balances(&self) -> bool {
        true
    }

    fn ports(&self, given: &Given<'_, BngConfig>) -> Vec<String> {
        given.config.access.iter().chain(&given.config.core).map(PortName::to_string).collect()
    }

    /// Customers' packets have two tags.
    fn in_front(&self, given: &Given<'_, BngConfig>, port: &str) -> u16 {
        const TWO_TAGS: u16 = 8;
        if given.config.access.iter().any(|access| access.as_str() == port) { TWO_TAGS } else { 0 }
    }

    /// Customers and routers send to the gateway; frames to other stations are dropped.
    fn promiscuous(&self, _given: &Given<'_, BngConfig>, _port: &str) -> bool {
        false
    }

    fn has_interfaces(&self, _given: &Given<'_, BngConfig>, _port: &str) -> bool {
        true
    }

    fn needs(&self, given: &Given<'_, BngConfig>) -> Vec<Need> {
        let mut all = linux_needs(None, &given.config.vrfs);
        all.extend(flow_needs(given.config.flow_export.as_ref()));
        all
    }

    fn holds(&self, given: &Given<'_, BngConfig>) -> usize {
        qos::holds(&given.config.qos, given.config.access.len(), Arrangement::of(given.placement).owners())
    }

    fn describe(&self, given: &Given<'_, BngConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let mut wanted = wanted(given, env);
        let arrangement = Arrangement::of(given.placement);
        let settings = settings(given.config, &wanted, arrangement.owners());
        let entries = entries(given, env, &settings);
        let mut wrong = std::mem::take(&mut wanted.wrong);
        let entries = entries.map_err(|more| wrong.extend(more)).unwrap_or_default();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let running: Option<&Running> = env.running.and_then(|running| running.downcast_ref());
        let keys = Keys::new(given.name(), given.config, &wanted);
        let name = format!("{}.core", given.name());
        let before = running.map(|running| &running.layer);
        let layer = weir_ip::Described::new((given.element, &name), keys.settings(), env, before, false)?;
        let layer = layer.with_flow_export(given.config.flow_export.as_ref())?;
        let ports = Arc::clone(&wanted.ports);
        let (name, config, stages) = (given.name().to_owned(), Arc::clone(given.config), layer.stages().clone());
        let shape = Shape { name, config, ports, arrangement, layer: stages };
        Ok(Described { element: Arc::clone(given.element), shape, wanted, settings, entries, layer })
    }

    fn verbs(&self) -> &'static [Verb] {
        static ALL: LazyLock<Vec<Verb>> = LazyLock::new(|| [request::VERBS, weir_ip::VERBS].concat());
        &ALL
    }

    fn examples(&self) -> &'static [&'static str] {
        request::EXAMPLES
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }

    fn shows(&self) -> &'static [Show] {
        static ALL: LazyLock<Vec<Show>> = LazyLock::new(|| [show::SHOWS, weir_ip::SHOWS, FLOW_SHOWS].concat());
        &ALL
    }
}

/// What a gateway comes to.
pub struct Described {
    element: Arc<Element>,
    shape: Shape,
    wanted: Wanted,
    settings: Settings,
    entries: Vec<Entry>,
    layer: weir_ip::Described,
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn instantiate(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        self.build(ground, old)
    }

    fn redraw(&self, running: &Running) -> Redrawn<Running> {
        let (before, now) = (&running.shape.config.qos, &self.shape.config.qos);
        let has_same = |has: fn(&QosConfig, Direction) -> bool| {
            Direction::BOTH.into_iter().all(|direction| has(before, direction) == has(now, direction))
        };
        let stages = |qos: &QosConfig| {
            Direction::BOTH.map(|side| (qos.police.of(side).is_empty(), qos.remark.of(side).is_empty()))
        };
        match self.layer.redraw(&running.layer) {
            Redrawn::Same if stages(before) == stages(now) => Redrawn::Same,
            // Other stages go by whether anything is done in a direction, and by whether its subscribers have owners.
            Redrawn::Same if has_same(qos::conditions) && has_same(qos::meters) => {
                Redrawn::As(Running { shape: self.shape.clone(), ..running.clone() })
            }
            _ => Redrawn::Anew,
        }
    }

    fn change(self, running: &Running, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let Described { element, shape, settings, entries, layer, .. } = self;
        let layer = layer.change(&running.layer, env)?;
        let config = shape.config;
        let conflict = |problem| vec![element.error(ErrorKind::Conflict, &element.path().field("qos"), problem)];
        let prepared =
            |all: &Arc<Schedulers>| all.prepare(&config.qos).map_err(conflict).map(|change| (Arc::clone(all), change));
        let change = running.schedulers.as_ref().map(prepared).transpose()?;
        let shared = Arc::clone(&running.shared);
        Ok(Box::new(move |now| {
            layer(now);
            let mut control = lock(&shared);
            control.registry.configure(settings);
            if let Some((schedulers, change)) = change {
                schedulers.apply(change);
                control.registry.shape_all();
            }
            drop(control.registry.become_config(entries));
            control.registry.settle();
            control.settle_routes();
            control.config = config;
        }))
    }
}

impl Described {
    fn build(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        let Described { element, shape, wanted, settings, entries, layer } = self;
        let no_memory = |error: String| vec![element.error(ErrorKind::Limit, &element.path(), error)];
        let config = &shape.config;
        let owners = shape.arrangement.owners();
        let (ports, subscribers) = (config.access.len(), config.limits.subscribers);
        let schedulers = Schedulers::new(&config.qos, ports, subscribers, owners, ground.domain).map_err(no_memory)?;
        let kernel = Kernel::detect();
        let layer = layer.instantiate(ground, old.map(|old| &old.layer))?;
        let Wanted { gateways, addresses, addresses6, local, .. } = wanted;
        let mut tunnels = Tunnels::new(ground.domain);
        let mut routers = Vec::new();
        for gateway in gateways {
            if let Some(interface) = layer.interface(&gateway.port).filter(|_| gateway.mac.is_none())
                && !routers.contains(&(interface, gateway.via))
            {
                routers.push((interface, gateway.via));
            }
            let end = gateway.end.or(match gateway.via {
                IpAddr::V4(via) => Some(via),
                IpAddr::V6(_) => None,
            });
            if let (Some(inlet), Some(tunnel), Some(end)) = (layer.interface(&gateway.name), gateway.tunnel, end) {
                tunnels.insert(inlet, tunnel, end);
            }
        }
        let tunnels = Arc::new(tunnels);
        let own6: Vec<Ipv6Addr> = addresses6.iter().map(Ipv6Net::addr).collect();
        let limits = Limits {
            subscribers: settings.subscribers,
            bindings: settings.bindings,
            svlans: settings.svlans,
            prefix_length: PREFIX_LENGTH,
            is_balanced: shape.arrangement.is_balanced(),
            has_keys: settings.has_keys,
        };
        let tables = Tables::new(limits, settings.ports.len(), ground.domain, seed(&shape.ports))
            .map_err(|error| no_memory(error.to_string()))?;
        let counters = Counters::new(settings.subscribers, settings.ports.len(), reasons(), watched());
        let subscribers = Arc::clone(tables.shared());
        let mut registry = Registry::new(settings, tables, Arc::clone(&counters));
        registry.shape_by(schedulers.clone());
        let mut refused = registry.become_config(entries);
        if let Some(old) = old {
            let old = lock(&old.shared);
            refused.extend(adopt(&mut registry, &old.registry));
            registry.remember(&old.registry);
        }
        registry.settle();
        let wrong: Vec<ConfigError> =
            refused.into_iter().map(|(_, problem)| refused_error(&element, problem)).collect();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let core = core_of(&layer, &tunnels, &shape).map_err(|error| no_memory(error.0.join("; ")))?;
        let routes = (!shape.is_tunnel()).then(|| FunctionRoutes::new(layer.vrfs(), INTO));
        let mut control = Control {
            registry,
            layer: layer.clone(),
            routes,
            core: Arc::new(core),
            routers,
            next_look: 0,
            defences: Defences::default(),
            identifications: Identifications::new(!config.tunnel.df),
            ports: Arc::clone(&shape.ports),
            addresses,
            addresses6,
            config: Arc::clone(config),
        };
        control.settle_routes();
        Ok(Running {
            layer,
            tunnels,
            subscribers,
            counters,
            kernel,
            own6: sorted6(&own6),
            local: local.to_bits(),
            // It goes on: what was sent last may still be under way.
            sequence: old.map(|old| old.sequence.clone()).unwrap_or_default(),
            schedulers,
            shared: Arc::new(Mutex::new(control)),
            notices: Arc::default(),
            now: ground.now,
            shape,
        })
    }
}

/// What decides where addresses stand in the index: other gateways have other Ethernet addresses.
fn seed(ports: &Ports) -> u64 {
    ports.list().iter().fold(0x9e37_79b9_7f4a_7c15, |seed, port| {
        let MacAddr([a, b, c, d, e, f]) = port.mac;
        (seed ^ u64::from_le_bytes([a, b, c, d, e, f, 0, 0])).wrapping_mul(0xd6e8_feb8_6659_fd93)
    })
}

/// Addresses as workers compare them, in order.
fn sorted6(addresses: &[Ipv6Addr]) -> Vec<u128> {
    let mut all: Vec<u128> = addresses.iter().copied().map(Ipv6Addr::to_bits).collect();
    all.sort_unstable();
    all
}

/// What subscribers are subject to; to profiles only where the schedulers are right.
fn settings(config: &BngConfig, wanted: &Wanted, owners: Owners) -> Settings {
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
        shaping: (wanted.wrong.is_empty() && qos::meters_any(&config.qos)).then(|| ShapingSettings {
            profiles: qos::profiles(&config.qos),
            usual: config.qos.usual.clone(),
            users: qos::users(&config.qos, config.limits.subscribers),
        }),
        owners,
    }
}

/// The subscribers that a configuration wants.
///
/// # Errors
///
/// Everything that is wrong with them.
fn entries(given: &Given<'_, BngConfig>, env: &Env<'_>, settings: &Settings) -> Result<Vec<Entry>, Vec<ConfigError>> {
    let Given { element, config, .. } = given;
    // Those that others have entered go together with these.
    let running: Option<&Running> = env.running.and_then(|running| running.downcast_ref());
    let taken = running.map_or_else(Taken::default, |running| Taken::of(&lock(&running.shared).registry));
    let taken = taken.with_interfaces(interfaces(given, env, settings, running).into_iter());
    let site = Site { element, path: element.path(), folder: env.folder };
    let mut loader = Loader::new(settings, taken);
    match &config.subscribers {
        SubscribersConfig::File(file) => loader.read_file(file, site),
        SubscribersConfig::List(list) => loader.read_list(list, site),
    }
    loader.finish()
}

/// Interfaces on access ports with tags as customers' lines have them: those of the configuration, and those that were added at run time.
fn interfaces(
    given: &Given<'_, BngConfig>,
    env: &Env<'_>,
    settings: &Settings,
    running: Option<&Running>,
) -> Vec<(Tags, String)> {
    let position = |port: &str| settings.ports.iter().zip(0..).find(|(name, _)| *name == port).map(|(_, at)| at);
    let declared = env.interfaces.iter().filter(|info| info.of == given.name()).filter_map(|info| {
        let port = position(info.on.as_deref()?)?;
        Some((settings.line_with(port, weir_ip::tags_of(&info.tags))?, info.name.clone()))
    });
    let added = running.map_or_else(Vec::new, |running| running.layer.added_interfaces());
    let added = added.into_iter().filter_map(|(name, index, tags)| {
        let port = env.ports.iter().find(|port| port.index == index)?;
        Some((settings.line_with(position(&port.name)?, tags)?, name))
    });
    declared.chain(added).collect()
}

/// Enters what others than the configuration said about subscribers of a gateway that this one replaces. Answers what can not be.
fn adopt(registry: &mut Registry, old: &Registry) -> Vec<(Tags, String)> {
    let versions = old.subscribers_from(0).flat_map(|subscriber| {
        let others = subscriber.versions.iter().filter(|(source, _)| *source != RouteSource::Config);
        others.map(|(source, fields)| (*source, Entry { tags: subscriber.tags, fields: fields.clone() }))
    });
    let refused = versions.filter_map(|(source, entry)| {
        let tags = entry.tags;
        registry.put(source, entry).err().map(|problem| (tags, problem))
    });
    refused.collect()
}

fn refused_error(element: &Element, problem: String) -> ConfigError {
    let root = element.path();
    element.error(ErrorKind::Conflict, &root.field("subscribers"), problem)
}
