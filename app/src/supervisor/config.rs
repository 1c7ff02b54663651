//! Loading and checking a configuration, without touching a device.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::{Checked, ConfigError, Document, Element, ErrorKind, Folder, Plan, choice, config, nearest};
use weir_lua::Limits;
use weir_stage::graph::Node;
use weir_stage::{Configured, Env, Graph, GraphError, InterfaceConfig, PortConfig, PortFacts, PortInfo};

use super::routed::{self, Sides};
use super::{control, interface, joint, meant, neighbor};
use crate::catalogue;

choice! {
    /// What a worker does while nothing comes.
    pub(crate) enum IdleMode {
        /// Looks again at once: the lowest latency, and the core is never free.
        Spin = "spin",
        /// Looks again after a pause that leaves a sibling hyper-thread more of the core.
        Relax = "relax",
        /// Spins for a millisecond, then sleeps. Ports of most kinds wake it; workers with others look every 0.1 ms, which adds up to 0.2 ms to the first packet after a pause.
        Sleep = "sleep",
    }
}

choice! {
    /// What time is.
    pub(crate) enum ClockKind {
        /// The world's.
        Real = "real",
        /// As fast as the work allows: the same input gives the same output every time. For files and tests.
        Virtual = "virtual",
    }
}

choice! {
    /// What becomes of a packet that finds the link to another worker full.
    pub(crate) enum LinkKind {
        /// There is none: the worker before the link stops receiving, and the device drops what it has no room for.
        NoDrop = "no-drop",
        /// It is dropped as `link-full`, with all the work that was done on it.
        Drop = "drop",
    }
}

config! {
    /// The threads of the control side, where slow paths run: each function has its own on one of them, so that it waits for no slow path on another.
    pub(crate) struct ControlConfig {
        /// How many there are. Functions are spread over them evenly, in the order of their declarations.
        pub threads: u8 = default(1), restart_process, range(1..=16);
        /// The thread of a function, by its name, where it is not to be as it comes: `{ router = 2 }`. The first is 1.
        pub functions: BTreeMap<String, u8> = empty, restart_process;
    }
}

config! {
    /// The engine as a whole.
    pub(crate) struct EngineConfig {
        /// What workers do while nothing comes.
        pub idle: IdleMode = default(IdleMode::Sleep), restart_process;
        /// What becomes of packets for which links between workers have no room.
        pub links: LinkKind = default(LinkKind::NoDrop), restart_process;
        /// What time is.
        pub clock: ClockKind = default(ClockKind::Real), restart_process;
        /// Packet buffers of the process; as many as rings, links and workers can hold when absent.
        pub buffers: Option<u32> = optional, restart_process, range(1024..=8_388_608);
        /// Packets that stages may hold beside (neighbour queues): part of the number of buffers. What schedulers may hold comes on
        /// top by itself.
        pub held: u32 = default(4096), restart_process, range(0..=4_194_304);
        /// The threads of the control side.
        pub control: ControlConfig = empty, restart_process;
    }
}

/// A port as it is declared: its name, its configuration, its declaration.
pub(crate) type DeclaredPort = (String, PortConfig, Arc<Element>);

/// The same of an interface.
pub(super) type DeclaredInterface = (InterfaceConfig, Arc<Element>);

/// A configuration that was read and is right as far as can be told without devices.
pub(crate) struct Loaded {
    pub(crate) file: PathBuf,
    pub(crate) folder: Folder,
    pub(crate) checked: Checked,
    pub(crate) engine: EngineConfig,
    pub(crate) ports: Vec<DeclaredPort>,
    pub(super) interfaces: Vec<DeclaredInterface>,
    /// The functions, in the order of their declarations.
    functions: Vec<Configured>,
    /// What is not wrong and hardly meant; of graphs only where the functions were described.
    pub(crate) warnings: Vec<ConfigError>,
}

/// What follows once a configuration is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: the functions are described to find out what they object to.
    Nothing,
    /// They are described anyway, on the ports as they are; a million routes are not read twice. They are described here only to tell
    /// all mistakes at once when there are others.
    Build,
}

/// Reads, runs and checks a script against the schemas of the catalogue. `permissions` are the switches that were given;
/// `None` where the configuration is only checked, which needs none.
pub(crate) fn load(file: &Path, permissions: Option<&[&str]>, next: Next) -> Result<Loaded, Vec<ConfigError>> {
    load_by(own_program(), file, permissions, next)
}

/// The same where `program` is this one: under an emulator, what the kernel takes for it is the emulator.
pub(crate) fn load_by(
    program: &Path,
    file: &Path,
    permissions: Option<&[&str]>,
    next: Next,
) -> Result<Loaded, Vec<ConfigError>> {
    read(program, file, permissions, next, &Sides::default())
}

/// The same with routed sides for interfaces that were added to what runs.
pub(crate) fn load_with_sides(
    file: &Path,
    permissions: Option<&[&str]>,
    next: Next,
    sides: &Sides,
) -> Result<Loaded, Vec<ConfigError>> {
    read(own_program(), file, permissions, next, sides)
}

fn own_program() -> &'static Path {
    Path::new("/proc/self/exe")
}

fn read(
    program: &Path,
    file: &Path,
    permissions: Option<&[&str]>,
    next: Next,
    sides: &Sides,
) -> Result<Loaded, Vec<ConfigError>> {
    let kinds = catalogue::kinds();
    let document = weir_lua::evaluate(program, file, &kinds.names(), &Limits::default())?;
    let folder = Folder::of(file).map_err(|error| vec![unreadable(file, &error)])?;
    for message in &document.messages {
        crate::log::info("script", message, &[]);
    }
    check_document(&routed::join(&document, sides), file, folder, permissions, next)
}

/// As [`load`], of what a script declared, or what the program declares itself: files are looked for in `folder`.
pub(crate) fn load_document(
    document: &Document,
    file: &Path,
    folder: Folder,
    permissions: Option<&[&str]>,
    next: Next,
) -> Result<Loaded, Vec<ConfigError>> {
    check_document(&routed::join(document, &Sides::default()), file, folder, permissions, next)
}

/// As [`load_document`], of a document that has the joints of its routed sides.
fn check_document(
    document: &Document,
    file: &Path,
    folder: Folder,
    permissions: Option<&[&str]>,
    next: Next,
) -> Result<Loaded, Vec<ConfigError>> {
    let kinds = catalogue::kinds();
    let (checked, mut errors) = document.examine(&kinds, Some(&folder));
    let mut ports = Vec::new();
    for element in checked.of_kind("port") {
        ports.push((element.name().to_owned(), element.read::<PortConfig>()?, Arc::clone(element)));
    }
    let mut functions = Vec::new();
    for element in checked.elements() {
        if let Some(function) = catalogue::function(element.kind()) {
            functions.push(function.configure(element)?);
        }
    }
    let mut interfaces = Vec::new();
    for element in checked.of_kind("interface") {
        interfaces.push((element.read::<InterfaceConfig>()?, Arc::clone(element)));
    }
    let engine = match checked.of_kind("engine").next() {
        Some(element) => element.read()?,
        None => return Err(vec![unreadable(file, &"no engine element")]),
    };
    let mut loaded =
        Loaded { file: file.to_owned(), folder, checked, engine, ports, interfaces, functions, warnings: Vec::new() };
    loaded.warnings = meant::warnings(&loaded);
    let schema_holds = errors.is_empty();
    errors.extend(permissions.map_or_else(Vec::new, |given| loaded.check_permissions(given)));
    errors.extend(loaded.check_parts(schema_holds));
    if next == Next::Nothing || !errors.is_empty() {
        let (more, warnings) = loaded.check_functions(permissions);
        errors.extend(more);
        loaded.warnings.extend(warnings);
    }
    if errors.is_empty() { Ok(loaded) } else { Err(errors) }
}

/// The switches that a function needs and that were not given.
fn missing_permissions(function: &Configured, given: &[&str]) -> Vec<&'static str> {
    function.permissions().iter().filter(|switch| !given.contains(switch)).copied().collect()
}

fn unreadable(file: &Path, cause: &dyn std::fmt::Display) -> ConfigError {
    let place = weir_config::Place::line(file.to_string_lossy(), 0);
    ConfigError::new(ErrorKind::File, &place, file.display(), format!("cannot be read: {cause}"))
}

impl Loaded {
    /// What leads here from the configuration that runs.
    pub(crate) fn differs_from(&self, running: &Loaded) -> Plan {
        Plan::between(&catalogue::kinds(), &running.checked, &self.checked)
    }

    /// The same with routed sides that are not in it. Files that it names are read again.
    ///
    /// # Errors
    /// What keeps the functions from having them.
    pub(crate) fn with_sides(&self, added: &Sides, permissions: &[&str]) -> Result<Loaded, Vec<ConfigError>> {
        let document = routed::join_more(self.checked.document(self.file.to_string_lossy()), added);
        check_document(&document, &self.file, self.folder.clone(), Some(permissions), Next::Build)
    }

    /// The functions, in the order of their declarations.
    pub(crate) fn functions(&self) -> &[Configured] {
        &self.functions
    }

    /// Packets that stages may hold: so many buffers there are beside those of rings, links and workers.
    pub(crate) fn held(&self) -> usize {
        let schedulers: usize = self.functions.iter().map(Configured::holds).sum();
        schedulers.saturating_add(self.engine.held as usize)
    }

    /// Bytes that may stand between the Ethernet header and the IP packet on a port.
    pub(crate) fn in_front(&self, port: &str) -> u16 {
        let of_owners = self.functions.iter().filter_map(|function| function.in_front(port)).max().unwrap_or(0);
        of_owners.max(self.tag_bytes(port))
    }

    /// Whether a port has to be promiscuous: a function that has it takes frames to whatever Ethernet address.
    pub(crate) fn promiscuous(&self, port: &str) -> bool {
        self.functions.iter().any(|function| function.promiscuous(port))
    }

    /// The folder that relative paths of devices start from.
    pub(crate) fn base(&self) -> &Path {
        self.folder.path()
    }

    /// The cores of all workers, in the order they are named.
    pub(crate) fn cores(&self) -> Vec<u16> {
        let mut cores = Vec::new();
        for core in self.functions.iter().flat_map(|function| &function.placement().workers) {
            if !cores.contains(core) {
                cores.push(*core);
            }
        }
        cores
    }

    /// Ports as they would be on usual devices: for checking functions without touching any.
    pub(crate) fn assumed_ports(&self) -> Vec<PortInfo> {
        let info = |(index, (name, config, _)): (usize, &DeclaredPort)| PortInfo {
            name: name.clone(),
            index: index as u16,
            facts: PortFacts {
                device: config.device.clone(),
                mac: weir_stage::local_mac(name),
                mtu: config.mtu.unwrap_or(1500),
                max_rx_queues: u16::MAX,
                max_tx_queues: u16::MAX,
                rss: true,
                offloads: Vec::new(),
            },
            addresses: config.address.0.clone(),
            vrf: config.vrf.clone(),
            link_up: true,
        };
        self.ports.iter().enumerate().map(info).collect()
    }

    fn check_permissions(&self, given: &[&str]) -> Vec<ConfigError> {
        let refused = |function: &Configured| {
            let (missing, element) = (missing_permissions(function, given), function.element());
            (!missing.is_empty()).then(|| {
                let problem =
                    format!("{} runs code of your own in the data path, which was not allowed", element.kind());
                let error = element.error(ErrorKind::Conflict, &element.path(), problem);
                error.remedy(format!("start weir with {} if you trust it", missing.join(" and ")))
            })
        };
        self.functions.iter().filter_map(refused).collect()
    }

    /// What no schema can say of the whole: devices, who owns which port, that there is a function at all. Where a schema does not
    /// hold, of what is right by it.
    fn check_parts(&self, schemas_hold: bool) -> Vec<ConfigError> {
        if let Some((_, _, element)) = self.ports.get(usize::from(u16::MAX)) {
            let problem = format!("there are {} ports; Weir has numbers for {}", self.ports.len(), u16::MAX);
            return vec![element.error(ErrorKind::OutOfRange, &element.path(), problem).remedy("declare fewer")];
        }
        let mut errors = self.check_devices();
        errors.extend(joint::check(self));
        errors.extend(interface::check(self));
        errors.extend(neighbor::check(self));
        errors.extend(self.check_owners());
        errors.extend(self.check_workers());
        if schemas_hold {
            errors.extend(control::check(self));
        }
        if schemas_hold && self.functions.is_empty() && errors.is_empty() {
            let kinds: Vec<&str> = catalogue::FUNCTIONS.iter().map(|function| function.kind()).collect();
            let place = weir_config::Place::line(self.file.to_string_lossy(), 0);
            let error = ConfigError::new(ErrorKind::Missing, &place, "configuration", "declares no function");
            errors.push(error.allowed(format!("at least one of {}", kinds.join(", "))));
        }
        errors
    }

    /// What the functions themselves object to, and what they warn of. No table is built, and nothing runs that `permissions` are about.
    /// One that lacks one of those is left out, which was told; where none are asked for it is described.
    fn check_functions(&self, permissions: Option<&[&str]>) -> (Vec<ConfigError>, Vec<ConfigError>) {
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        let ports = self.assumed_ports();
        let interfaces = self.interface_infos();
        let env = Env { ports: &ports, interfaces: &interfaces, folder: Some(&self.folder), running: None };
        // Without one of its ports a function could only object to what follows from that.
        let known: BTreeSet<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        for function in self.functions.iter().filter(|function| function.ports().all(|name| known.contains(name))) {
            let element = function.element();
            if permissions.is_some_and(|given| !missing_permissions(function, given).is_empty()) {
                continue;
            }
            let conflict = |error: GraphError| element.error(ErrorKind::Conflict, &element.path(), error.to_string());
            let described = function.describe(&env).and_then(|described| {
                let graph = described.sketch(0).map_err(|error| vec![conflict(error)])?;
                graph.check().map_err(|error| vec![conflict(error)]).map(|_| graph)
            });
            match described {
                Ok(graph) => warnings.extend(loose_ends(element, &graph)),
                Err(more) => errors.extend(more),
            }
        }
        (errors, warnings)
    }

    fn check_devices(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut used: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, config, element) in &self.ports {
            let path = element.path();
            let path = path.field("device");
            let problem = match catalogue::port(name, &config.device, self.base()) {
                Some(opened) => opened.err().map(|error| error.to_string()),
                None => unknown_device(&config.device)
                    .or_else(|| weir_port_dpdk::Device::parse(&config.device).err().map(|error| error.to_string())),
            };
            if let Some(problem) = problem {
                errors.push(element.error(ErrorKind::Malformed, &path, problem));
            }
            errors.extend(wrong_tuning(config, element));
            let word = config.device.split(':').next();
            let shareable = matches!(word, Some("null" | "mem")) || joint::joint_of(&config.device).is_some();
            if let Some(other) = used.insert(&config.device, name).filter(|_| !shareable) {
                let problem = format!("\"{}\" is the device of port \"{other}\" too", config.device);
                let error = element.error(ErrorKind::Conflict, &path, problem);
                errors.push(error.remedy("give each port a device of its own"));
            }
        }
        errors
    }

    /// A core runs one worker, whatever it does.
    fn check_workers(&self) -> Vec<ConfigError> {
        let twice = |function: &Configured| {
            let (workers, element) = (&function.placement().workers, function.element());
            let mut seen = BTreeSet::new();
            let core = workers.iter().find(|core| !seen.insert(**core))?;
            let problem = format!("core {core} stands here twice; a core runs one worker");
            let root = element.path();
            let error = element.error(ErrorKind::Duplicate, &root.field("workers"), problem);
            Some(error.remedy("name each core once"))
        };
        self.functions.iter().filter_map(twice).collect()
    }

    fn check_owners(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut owners: BTreeMap<&str, &Configured> = BTreeMap::new();
        for function in &self.functions {
            let element = function.element();
            for port in function.ports() {
                let other = owners.insert(port, function);
                if let Some(other) =
                    other.filter(|other| !(other.has_interfaces_on(port) && function.has_interfaces_on(port)))
                {
                    let problem = format!("port \"{port}\" belongs to {} already", other.name());
                    let error = element.error(ErrorKind::Conflict, &element.path(), problem);
                    errors.push(error.remedy(
                        "a port belongs to one function, unless all that have it have interfaces; declare another port",
                    ));
                }
            }
        }
        errors
    }
}

/// The ways of a function's graph that lead nowhere though nobody said so.
pub(crate) fn loose_ends(element: &Element, graph: &Graph) -> Vec<ConfigError> {
    let warning = |(node, way): (&Node, String)| {
        let problem = format!("way {way} of stage {} leads nowhere: its packets are dropped as {way}", node.name);
        let error = element.error(ErrorKind::Missing, &element.path(), problem);
        error.remedy("lead it somewhere, or to \"drop\" if that is meant")
    };
    graph.loose_ends().map(warning).collect()
}

/// What a port says of how its device is driven, and which does not go with the device.
fn wrong_tuning(config: &PortConfig, element: &Element) -> Vec<ConfigError> {
    let device = weir_port_dpdk::Device::parse(&config.device).ok();
    let is_ours = catalogue::port_words().any(|word| config.device.split(':').next() == Some(word));
    if device.is_none() && !is_ours {
        // What is wrong with the device is told, and which it is meant to be is not known.
        return Vec::new();
    }
    let wrong = |key: &'static str| {
        let remedy = match &device {
            None => "leave it out: it is for devices of DPDK's and Linux interfaces",
            Some(device) if key == "descriptors" => device.takes_descriptors().err()?,
            Some(_) => return None,
        };
        let (path, problem) = (element.path(), format!("says nothing about \"{}\"", config.device));
        Some(element.error(ErrorKind::Conflict, &path.field(key), problem).remedy(remedy))
    };
    config.tuning().filter_map(wrong).collect()
}

/// What is wrong with a device whose first word is that of no kind.
fn unknown_device(device: &str) -> Option<String> {
    let (word, rest) = device.split_once(':').unwrap_or((device, ""));
    let known: Vec<&str> = catalogue::port_words().chain(weir_port_dpdk::words()).collect();
    if known.contains(&word) {
        return None;
    }
    let near = nearest(word, known.iter().copied());
    let hint = near.map(|near| if rest.is_empty() { near.to_owned() } else { format!("{near}:{rest}") });
    let hint = hint.map_or_else(String::new, |hint| format!("; did you mean \"{hint}\"?"));
    Some(format!("\"{device}\": \"{word}\" is no kind of device: it is one of {}{hint}", known.join(", ")))
}
