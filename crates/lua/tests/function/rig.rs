//! The function in an engine of one worker, between ports in memory, from a configuration in a file.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::{Catalogue, Checked, Element, Folder, Kind, Schema, config};
use weir_engine::{Account, Blueprint, Engine, GraphPart, Idle, PortPart, Settings, WorkerSnapshot};
use weir_lua::{Limits, LuaFunction, evaluate};
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME, Pool};
use weir_port_mem::{MemHandle, MemPort};
use weir_stage::{AnyFunction, Env, Ground, Instance, Port, PortConfig, PortInfo, Rx, Tx, rehearsal};

config! {
    /// What the program declares for the engine as a whole; no test here sets any of it.
    struct EngineConfig {}
}

/// A folder of its own for each test.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("weir-lua-function-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

pub(crate) fn read(file: &Path) -> Result<Checked, Vec<String>> {
    let engine: Schema = EngineConfig::schema();
    let kinds: Catalogue = [
        Kind::named("port", PortConfig::schema()),
        Kind::single("engine", engine),
        Kind::function("lua", LuaFunction.schema()),
    ]
    .into_iter()
    .collect();
    let said = |errors: Vec<weir_config::ConfigError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    let child = Path::new(env!("CARGO_BIN_EXE_weir-lua-child"));
    let document = evaluate(child, file, &kinds.names(), &Limits::default()).map_err(said)?;
    document.check(&kinds, Some(&Folder::of(file).unwrap())).map_err(said)
}

pub(crate) fn element_of(file: &Path) -> Result<Arc<Element>, Vec<String>> {
    read(file).map(|checked| checked.of_kind("lua").next().unwrap().clone())
}

/// The queues of a port that the engine does not have yet.
pub(crate) type Queue = (Option<Box<dyn Rx>>, Option<Box<dyn Tx>>);

/// Ports in memory that an engine of one worker under the virtual clock runs.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) instance: Box<dyn Instance>,
    pub(crate) infos: Vec<PortInfo>,
    pub(crate) handles: Vec<MemHandle>,
    queues: Vec<Queue>,
    pool: HeapPool,
    pub(crate) folder: Folder,
    _ports: Vec<MemPort>,
}

pub(crate) fn infos(ports: &[(String, MemPort)]) -> Vec<PortInfo> {
    let info = |(index, (name, port)): (usize, &(String, MemPort))| PortInfo {
        name: name.clone(),
        index: index as u16,
        facts: port.facts(),
        addresses: Vec::new(),
        vrf: None,
        link_up: true,
    };
    ports.iter().enumerate().map(info).collect()
}

pub(crate) fn build(file: &Path, infos: &[PortInfo], folder: &Folder) -> Result<Box<dyn Instance>, Vec<String>> {
    build_on(&Domain::new(), file, (infos, folder), None)
}

/// The same where tables are published in a domain, from an instance that runs.
pub(crate) fn build_on(
    domain: &Domain,
    file: &Path,
    (infos, folder): (&[PortInfo], &Folder),
    running: Option<&dyn Instance>,
) -> Result<Box<dyn Instance>, Vec<String>> {
    let env = Env { ports: infos, interfaces: &[], folder: Some(folder), running };
    let ground = Ground { domain, now: 0 };
    let said = |errors: Vec<weir_config::ConfigError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    LuaFunction.configure(&element_of(file)?).and_then(|configured| configured.instantiate(&env, &ground)).map_err(said)
}

impl Rig {
    /// Runs a configuration whose ports are kept in memory, whatever devices it names.
    pub(crate) fn new(file: &Path) -> Rig {
        let checked = read(file).unwrap();
        let pool = HeapPool::new(8192, MAX_FRAME);
        let (mut ports, mut handles, mut queues) = (Vec::new(), Vec::new(), Vec::new());
        for element in checked.of_kind("port") {
            let (port, handle) = MemPort::fed(element.name());
            let mut port = port.with_keeping(1 << 20);
            let (mut rx, mut tx) = port.open(1, 1, &pool).unwrap();
            queues.push((rx.pop(), tx.pop()));
            handles.push(handle);
            ports.push((element.name().to_owned(), port));
        }
        let infos = infos(&ports);
        let folder = Folder::of(file).unwrap();
        let domain = Domain::new();
        let instance = build_on(&domain, file, (&infos, &folder), None).unwrap();
        let settings =
            Settings { cores: vec![None], idle: Idle::Sleep, virtual_clock: true, hook: None, sample_every: None };
        let engine = Engine::start(settings, &pool, &domain).unwrap();
        let ports = ports.into_iter().map(|(_, port)| port).collect();
        let mut rig = Rig { engine, instance, infos, handles, queues, pool, folder, _ports: ports };
        rig.install(false);
        rig
    }

    /// Gives the engine the graph, as the first time or as a reload that keeps every stage.
    pub(crate) fn install(&mut self, keep: bool) {
        let graph = self.instance.graph(0).unwrap();
        graph.check().unwrap();
        let keep: HashSet<String> = graph.nodes().iter().filter(|_| keep).map(|node| node.name.clone()).collect();
        let part = |(info, (rx, tx)): (&PortInfo, &mut Queue)| PortPart {
            name: info.name.clone(),
            index: info.index,
            rx: vec![(0, rx.take())],
            tx: vec![(0, tx.take())],
        };
        let ports = self.infos.iter().zip(&mut self.queues).map(part).collect();
        let graphs = vec![GraphPart { graph, replica: 0, workers: vec![0], receives: true, keep }];
        self.engine.install(Blueprint { workers: 1, ports, graphs, ..Blueprint::default() }).unwrap();
    }

    /// What a reload does whose configuration is the same.
    pub(crate) fn reload(&mut self, file: &Path) -> Result<(), Vec<String>> {
        let element = element_of(file)?;
        let env =
            Env { ports: &self.infos, interfaces: &[], folder: Some(&self.folder), running: Some(&*self.instance) };
        let change = rehearsal::change(&LuaFunction, &element, &env).map_err(|errors| vec![errors[0].to_string()])?;
        self.install(true);
        change(0);
        Ok(())
    }

    pub(crate) fn send(&mut self, port: usize, frames: &[Vec<u8>]) {
        self.handles[port].send_all(frames.iter().cloned());
        let mut quiet = 0;
        while quiet < 20 {
            quiet = if self.engine.step() { 0 } else { quiet + 1 };
        }
    }

    pub(crate) fn received(&self) -> Vec<usize> {
        self.handles.iter().map(|handle| handle.received().len()).collect()
    }

    /// Packets dropped so far, by reason; the account must be exact.
    pub(crate) fn drops(&mut self) -> BTreeMap<String, u64> {
        let snapshots = self.engine.snapshot();
        account(&snapshots);
        let drops = snapshots.iter().flat_map(|worker| &worker.drops);
        drops.filter(|drop| drop.packets > 0).map(|drop| (drop.reason.clone(), drop.packets)).collect()
    }

    pub(crate) fn stop(self) {
        let last = account(&self.engine.stop());
        assert_eq!((last.held, self.pool.taken() - self.pool.at_hand()), (0, 0));
    }
}

pub(crate) fn account(snapshots: &[WorkerSnapshot]) -> Account {
    let mut total = Account::default();
    for worker in snapshots {
        assert_eq!(worker.account.unaccounted(), 0, "{:?}", worker.account);
        total.add(&worker.account);
    }
    total
}
