//! The steps of the fast path, wired by hand: what makes them, and a chain of them that runs.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::{Catalogue, Declaration, Document, Element, Folder, Kind, Place};
use weir_engine::{Blueprint, Engine, GraphPart, Idle, Settings as EngineSettings};
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME, Pool};
use weir_port_mem::{MemHandle, MemPort};
use weir_rig::script;
use weir_stage::harness::{Boxed, Harness};
use weir_stage::{
    Env, Graph, Ground, MakeStage, NodeId, Place as StagePlace, PortConfig, PortInfo, Settings, StageKind, To,
};
use weir_wire::MacAddr;

use super::{PortSpec, port_infos};

/// Checked settings of a stage, in the place of a whole declaration.
pub fn settings(ports: &[PortSpec], kind: &dyn StageKind, config: &Value) -> Result<Arc<Element>, Vec<String>> {
    let declare = |kind: &str, table: &Value, line| Declaration {
        kind: kind.to_owned(),
        table: script(table),
        place: Place::line("test.lua", line),
        incomplete: false,
    };
    let ports = ports.iter().map(|port| json!({ "name": port.0, "device": "mem:" }));
    let mut declarations: Vec<Declaration> = ports.map(|port| declare("port", &port, 1)).collect();
    declarations.push(declare("stage", config, 2));
    let document = Document { declarations, ..Document::default() };
    let kinds = [Kind::named("port", PortConfig::schema()), Kind::function("stage", kind.schema())];
    let catalogue: Catalogue = kinds.into_iter().collect();
    let checked = document.check(&catalogue, None).map_err(sentences)?;
    Ok(checked.get("stage", "stage").unwrap().clone())
}

pub fn sentences(errors: Vec<weir_config::ConfigError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Ports in memory, and what makes stages between them.
pub struct Bench {
    pub handles: Vec<MemHandle>,
    pub folder: Option<Folder>,
    specs: &'static [PortSpec],
    ports: Vec<MemPort>,
    infos: Vec<PortInfo>,
    domain: Domain,
}

impl Bench {
    pub fn new(specs: &'static [PortSpec]) -> Bench {
        let opened = specs.iter().map(|spec| {
            let (port, handle) = MemPort::fed(spec.0);
            (port.with_mtu(spec.2), handle)
        });
        let (ports, handles): (Vec<_>, Vec<_>) = opened.unzip();
        let infos = port_infos(specs, &ports);
        Bench { handles, folder: None, specs, ports, infos, domain: Domain::new() }
    }

    pub fn env(&self) -> Env<'_> {
        Env { ports: &self.infos, interfaces: &[], folder: self.folder.as_ref(), running: None }
    }

    pub fn make(&self, kind: &dyn StageKind, config: &Value) -> Result<Box<dyn MakeStage>, Vec<String>> {
        let element = settings(self.specs, kind, config)?;
        let settings = Settings { element: &element, path: element.path(), value: element.value() };
        let ground = Ground { domain: &self.domain, now: 0 };
        let described = kind.describe(&settings, &self.env()).map_err(sentences)?;
        described.instantiate(&settings, &ground, None).map_err(sentences)
    }

    pub fn mac(&self, port: usize) -> MacAddr {
        MacAddr(self.infos[port].facts.mac)
    }
}

/// The steps of a family, and the next hops that their routes lead to: names, ports and MAC addresses, in order of their ways.
pub struct Steps {
    pub ports: &'static [PortSpec],
    pub check: &'static dyn StageKind,
    pub route: &'static dyn StageKind,
    pub rewrite: &'static dyn StageKind,
    pub next_hops: Vec<(&'static str, usize, MacAddr)>,
}

/// A chain of stages that runs: check, look up, rewrite for each next hop, transmit.
pub struct Chain {
    pub engine: Engine,
    pub bench: Bench,
    pool: HeapPool,
}

impl Chain {
    /// On one worker, or each step on one of its own.
    pub fn new(steps: &Steps, parted: bool, routes: &Value) -> Chain {
        let mut bench = Bench::new(steps.ports);
        let mut graph = Graph::new();
        let add = |graph: &mut Graph, name: &str, make: &dyn MakeStage, section: u8| -> NodeId {
            let section = if parted { section } else { 0 };
            graph.add_at(format!("wired.{name}"), make.stage(0).unwrap(), StagePlace::Worker { section })
        };
        let check = add(&mut graph, "check", &*bench.make(steps.check, &json!({})).unwrap(), 0);
        let names: Vec<&str> = steps.next_hops.iter().map(|hop| hop.0).collect();
        let route = json!({ "next_hops": names, "routes": routes });
        let route = add(&mut graph, "route", &*bench.make(steps.route, &route).unwrap(), 1);
        graph.wire(check, "out", To::Stage(route));
        for (n, (_, port, mac)) in steps.next_hops.iter().enumerate() {
            let config = json!({ "from": steps.ports[*port].0, "to": mac.to_string() });
            let make = bench.make(steps.rewrite, &config).unwrap();
            let rewrite = add(&mut graph, &format!("rewrite-{n}"), &*make, 2);
            graph.wire(route, &format!("way[{n}]"), To::Stage(rewrite));
            graph.wire(rewrite, "out", To::Port(*port as u16));
        }
        (0..steps.ports.len()).for_each(|port| graph.receive(port as u16, check));
        graph.check().unwrap();
        let workers: Vec<usize> = if parted { vec![0, 1, 2] } else { vec![0] };
        let pool = HeapPool::new(8192, MAX_FRAME);
        let settings = EngineSettings {
            cores: vec![None; workers.len()],
            idle: Idle::Spin,
            virtual_clock: true,
            hook: None,
            sample_every: weir_engine::SAMPLE_EVERY,
        };
        let engine = Engine::start(settings, &pool, &bench.domain).unwrap();
        let parts = weir_rig::port_parts(&mut bench.ports, &bench.infos, workers.len() - 1, Some(&pool));
        let count = workers.len();
        let graph = GraphPart { graph, replica: 0, workers, receives: true, keep: HashSet::new() };
        let blueprint = Blueprint { workers: count, ports: parts, graphs: vec![graph], ..Blueprint::default() };
        let mut chain = Chain { engine, bench, pool };
        chain.engine.install(blueprint).unwrap();
        chain
    }

    pub fn settle(&mut self) {
        let until = self.engine.now() + 1_000_000;
        // What was asked for or changed meanwhile is noticed at once, and time goes no further than it is let.
        self.engine.rouse();
        while self.engine.now() < until {
            self.engine.step_until(until);
        }
    }

    /// Drops by reason, whatever the stage; the account must be exact.
    pub fn drops(&mut self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for worker in self.engine.snapshot() {
            assert_eq!(worker.account.unaccounted(), 0, "{:?}", worker.account);
            worker.drops.iter().for_each(|drop| *sum.entry(drop.reason.clone()).or_default() += drop.packets);
        }
        sum
    }

    pub fn finish(self) {
        let Chain { engine, bench, pool } = self;
        for worker in engine.stop() {
            assert_eq!(worker.account.unaccounted(), 0, "{:?}", worker.account);
        }
        drop(bench);
        assert_eq!(pool.taken() - pool.at_hand(), 0, "buffers are missing");
    }
}

/// Runs one stage on frames; answers the frames by ways.
pub fn run(make: &dyn MakeStage, frames: &[Vec<u8>]) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut harness = Harness::small(Boxed(make.stage(0).unwrap()), 256);
    harness.run(0, frames).ways
}

/// What is said to settings that are wrong.
pub fn said(ports: &'static [PortSpec], kind: &dyn StageKind, config: Value) -> Vec<String> {
    Bench::new(ports).make(kind, &config).map_or_else(|said| said, |_| Vec::new())
}
