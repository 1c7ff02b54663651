//! The function `lwaftr` as the program sees it: its configuration, and what that comes to.

use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use weir_config::{ConfigError, Element, ErrorKind, PortName};
use weir_ip::{FLOW_SHOWS, flow_needs, linux_needs};
use weir_stage::{
    Case, Description, Entry as _, Env, Function, Given, Graph, GraphError, Ground, Import, Need, Prepared, Redrawn,
    Show, Site, Verb, Versions,
};

use crate::cases;
use crate::config::{LwaftrConfig, SoftwireConfig};
use crate::keys;
use crate::load::load;
use crate::owned;
use crate::registry::{Key, Registry, Settings, Wanted};
use crate::rules::Rules;
use crate::running::{Running, Shape};
use crate::state::lock;
use crate::table::{Counters, Limits, Writer};
use crate::{request, show};
use weir_wire::port_sets::PortSets;

/// The function `lwaftr`.
#[derive(Debug)]
pub struct Lwaftr {
    /// Whether each packet is decided by itself, even where there is a faster way.
    by_the_letter: bool,
}

impl Lwaftr {
    /// As it is run.
    pub const USUAL: Lwaftr = Lwaftr { by_the_letter: false };

    /// One without a fast path, against which that is measured: the same comes out of it.
    pub const BY_THE_LETTER: Lwaftr = Lwaftr { by_the_letter: true };
}

impl Function for Lwaftr {
    type Config = LwaftrConfig;
    type Description = Described;

    fn kind(&self) -> &'static str {
        "lwaftr"
    }

    fn ports(&self, given: &Given<'_, LwaftrConfig>) -> Vec<String> {
        given.config.ports.iter().map(PortName::to_string).collect()
    }

    fn has_interfaces(&self, _given: &Given<'_, LwaftrConfig>, _port: &str) -> bool {
        true
    }

    /// Frames to other stations are dropped (RFC 1812 section 3.4).
    fn promiscuous(&self, _given: &Given<'_, LwaftrConfig>, _port: &str) -> bool {
        false
    }

    fn needs(&self, given: &Given<'_, LwaftrConfig>) -> Vec<Need> {
        let mut all = linux_needs(given.config.linux.as_ref(), &given.config.vrfs);
        all.extend(flow_needs(given.config.flow_export.as_ref()));
        all
    }

    fn spreads(&self) -> bool {
        true
    }

    /// Fragments wait in each worker, and in the one that spreads packets.
    fn holds(&self, given: &Given<'_, LwaftrConfig>) -> usize {
        let sides = [&given.config.ipv4, &given.config.ipv6];
        let each: usize = sides.iter().map(|side| side.reassembly.fragments as usize).sum();
        each * given.placement.workers.len()
    }

    fn describe(&self, given: &Given<'_, LwaftrConfig>, env: &Env<'_>) -> Result<Described, Vec<ConfigError>> {
        let (element, config) = (given.element, given.config);
        let mut wrong = keys::wrong_interfaces(given, env);
        let settings = settings(given).map_err(|more| wrong.extend(more)).unwrap_or_default();
        let site = Site { element, path: element.path(), folder: env.folder };
        let softwires = match wrong.is_empty() {
            true => load(config, &settings, site).map_err(|more| wrong.extend(more)).unwrap_or_default(),
            false => Wanted::new(),
        };
        let addresses = keys::own_addresses(given, env);
        let source = keys::icmp_source(given, &addresses).map_err(|error| wrong.push(*error));
        let own = keys::own(given, &addresses);
        let running: Option<&Running> = env.running.and_then(|running| running.downcast_ref());
        let before = running.map(|running| &running.layer);
        let routed = keys::function(given);
        let settings_of_layer = keys::settings(config, &own, &routed);
        let layer = weir_ip::Described::new((element, given.name()), settings_of_layer, env, before, false);
        let layer = layer.and_then(|layer| layer.with_flow_export(config.flow_export.as_ref()));
        let layer = layer.map_err(|more| wrong.extend(more));
        let (Ok(source), Ok(layer), true) = (source, layer, wrong.is_empty()) else { return Err(wrong) };
        let ports = config.ports.iter().filter_map(|name| env.port(name)).map(|port| port.index).collect();
        let (name, by_the_letter) = (given.name().to_owned(), self.by_the_letter);
        let shape = Shape { name, ports, layer: layer.stages().clone(), by_the_letter };
        Ok(Described {
            element: Arc::clone(element),
            config: Arc::clone(config),
            shape,
            settings,
            softwires,
            source,
            layer,
        })
    }

    fn verbs(&self) -> &'static [Verb] {
        static ALL: OnceLock<Vec<Verb>> = OnceLock::new();
        ALL.get_or_init(|| request::VERBS.iter().chain(weir_ip::VERBS).copied().collect())
    }

    fn examples(&self) -> &'static [&'static str] {
        request::EXAMPLES
    }

    fn imports(&self) -> &'static [Import] {
        &[
            Import {
                name: "snabb-lwaftr",
                help: "The configuration of Snabb's lwAFTR (softwire-config of snabb-softwire-v3)",
                read: |text| crate::snabb::import(text).map(|imported| imported.to_lua()),
            },
            Import {
                name: "dppd-lwaftr",
                help: "The binding table of DPPD-BNG's and PROX's lwAFTR (B4, MAC, IPv4, port), behind the lines of its configuration",
                read: |text| crate::dppd::import(text).map(|imported| imported.to_lua()),
            },
        ]
    }

    fn cases(&self) -> Vec<Case> {
        cases::all()
    }

    fn shows(&self) -> &'static [Show] {
        static ALL: LazyLock<Vec<Show>> = LazyLock::new(|| [show::SHOWS, weir_ip::SHOWS, FLOW_SHOWS].concat());
        &ALL
    }
}

/// What holds for all softwires of a configuration.
///
/// # Errors
///
/// What is wrong with it.
fn settings(given: &Given<'_, LwaftrConfig>) -> Result<Settings, Vec<ConfigError>> {
    let (element, config) = (given.element, given.config);
    let (mut sets, mut wrong) = (Vec::new(), Vec::new());
    for (addresses, said) in &config.port_sets {
        match PortSets::new(said.psid_length, said.psid_offset) {
            Some(one) => sets.push((*addresses, one)),
            None => {
                let (root, text) = (element.path(), addresses.to_string());
                let path = root.field("port_sets");
                let (length, offset) = (said.psid_length, said.psid_offset);
                let problem = format!("{length} bits of PSID behind {offset} others are more than the 16 of a port");
                wrong.push(element.error(ErrorKind::OutOfRange, &path.entry(&text), problem));
            }
        }
    }
    if wrong.is_empty() { Ok(Settings::new(config.aftr.to_vec(), sets)) } else { Err(wrong) }
}

/// What a relay comes to.
pub struct Described {
    element: Arc<Element>,
    config: Arc<LwaftrConfig>,
    shape: Shape,
    settings: Settings,
    softwires: Wanted,
    source: std::net::Ipv4Addr,
    layer: weir_ip::Described,
}

impl Described {
    fn refused(element: &Element, refused: Vec<(Key, String)>) -> Vec<ConfigError> {
        let told = |(key, problem): (Key, String)| {
            let root = element.path();
            let problem = format!("{}: {problem}", SoftwireConfig::name_of(&key));
            element.error(ErrorKind::Conflict, &root.field("softwires"), problem)
        };
        refused.into_iter().take(weir_config::Errors::KEPT).map(told).collect()
    }
}

impl Description for Described {
    type Running = Running;

    fn sketch(&self, _replica: usize) -> Result<Graph, GraphError> {
        self.shape.draw(None)
    }

    fn instantiate(self, ground: &Ground<'_>, old: Option<&Running>) -> Result<Running, Vec<ConfigError>> {
        let Described { element, config, shape, settings, softwires, source, layer } = self;
        let no_memory = |error: String| vec![element.error(ErrorKind::Limit, &element.path(), error)];
        let layer = layer.instantiate(ground, old.map(|old| &old.layer))?;
        let limits = &config.table_limits;
        let limits = Limits { softwires: limits.softwires, addresses: limits.addresses };
        let seed = ground.now ^ 0x9e37_79b9_7f4a_7c15;
        let writer = Writer::new(limits, ground.domain, seed).map_err(|error| no_memory(error.to_string()))?;
        let counters = Counters::new(writer.places());
        let table = Arc::clone(writer.softwires());
        let mut registry = Registry::new(settings.clone(), writer, Arc::clone(&counters));
        let mut refused = registry.become_config(settings, softwires);
        if let Some(old) = old {
            refused.extend(adopt(&mut registry, &lock(&old.shared)));
        }
        if !refused.is_empty() {
            return Err(Described::refused(&element, refused));
        }
        let rules = Arc::new(Rules::new(&config, source, layer.vrfs(), |name| layer.interface(name)));
        let owned = Mutex::new(owned::of(layer.vrfs(), &config));
        let tallies = old.map_or_else(Arc::default, |old| Arc::clone(&old.tallies));
        let shared = Arc::new(Mutex::new(registry));
        let running = Running { shape, config, layer, table, counters, tallies, rules, shared, owned: Arc::new(owned) };
        running.settle_routes();
        Ok(running)
    }

    fn redraw(&self, running: &Running) -> Redrawn<Running> {
        match self.layer.redraw(&running.layer) {
            Redrawn::Same => Redrawn::Same,
            Redrawn::As(_) | Redrawn::Anew => Redrawn::Anew,
        }
    }

    fn change(self, running: &Running, env: &Env<'_>) -> Result<Prepared, Vec<ConfigError>> {
        let Described { settings, softwires, layer, .. } = self;
        let layer = layer.change(&running.layer, env)?;
        let (shared, owned, routes) = (Arc::clone(&running.shared), Arc::clone(&running.owned), running.layer.clone());
        Ok(Box::new(move |now| {
            layer(now);
            let registry = &mut *lock(&shared);
            drop(registry.become_config(settings, softwires));
            owned::settle(registry, &owned, &routes);
        }))
    }
}

/// Enters what commands said of softwires of a relay that this one replaces. Answers what can not be.
fn adopt(registry: &mut Registry, old: &Registry) -> Vec<(Key, String)> {
    let added = old.ledger().iter().filter_map(|(key, one)| Some((*key, one.added()?.clone())));
    let refused = added.filter_map(|(key, one)| {
        let said = Versions { added: Some(one), ..registry.ledger().versions(&key) };
        registry.say(key, said).err().map(|problem| (key, problem))
    });
    refused.collect()
}
