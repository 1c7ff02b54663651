//! Shaping between two ports in memory, under the virtual clock.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared by tests, each of which uses a part of it; a failed unwrap fails the test"
)]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::{ConfigError, Element, Folder};
use weir_engine::{Account, Blueprint, Engine, GraphPart};
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME};
use weir_port_mem::{MemHandle, MemPort};
use weir_qos::Qos;
use weir_rig::{all_rows, assert_home, declared, port_infos};
use weir_stage::{AnyFunction, Env, Ground, Instance, Layout, Placement, PortInfo, Redrawn, rehearsal};
use weir_wire::vlan::Vlan;
use weir_wire::{View, ethernet};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// What every frame counts more than it has.
pub const OVERHEAD: u64 = 24;

pub struct Rig {
    pub engine: Engine,
    pub instance: Box<dyn Instance>,
    pub handles: Vec<MemHandle>,
    infos: Vec<PortInfo>,
    domain: Domain,
    pool: HeapPool,
    ports: Vec<MemPort>,
    placement: Placement,
}

/// The keys that all configurations here have.
pub fn config(keys: Value) -> Value {
    let mut config = json!({ "from": "in", "to": "out" });
    let all = config.as_object_mut().unwrap();
    all.extend(keys.as_object().unwrap().clone());
    config
}

/// A scheduler of 1 Gbit/s with these profiles.
pub fn scheduler(profiles: Value) -> Value {
    json!({ "rate": "1 Gbit/s", "users": 64, "buffers": 2048, "profiles": profiles })
}

fn element(config: &Value) -> Result<Arc<Element>, Vec<ConfigError>> {
    declared(&Qos, &["in", "out"], config)
}

/// What is said of a configuration.
pub fn messages(config: &Value, folder: Option<&Folder>) -> Vec<String> {
    let opened = ["in", "out"].map(|name| MemPort::fed(name).0);
    let infos = port_infos(&["in", "out"], &opened);
    let domain = Domain::new();
    let env = Env { ports: &infos, interfaces: &[], folder, running: None };
    let ground = Ground { domain: &domain, now: 0 };
    let built = element(config).and_then(|element| rehearsal::build(&Qos, &element, &env, &ground));
    built.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

impl Rig {
    pub fn new(keys: Value) -> Rig {
        let domain = Domain::new();
        let pool = HeapPool::new(8192, MAX_FRAME);
        let (opened, handles): (Vec<_>, Vec<_>) = ["in", "out"].into_iter().map(MemPort::fed).unzip();
        let infos = port_infos(&["in", "out"], &opened);
        let env = Env { ports: &infos, interfaces: &[], folder: None, running: None };
        let ground = Ground { domain: &domain, now: 0 };
        let element = element(&config(keys)).unwrap();
        let placement = Qos.configure(&element).unwrap().placement().clone();
        let instance = rehearsal::build(&Qos, &element, &env, &ground)
            .unwrap_or_else(|errors| panic!("{}", errors.iter().map(|e| format!("{e}\n")).collect::<String>()));
        let engine = weir_rig::engine(placement.workers.len(), &pool, &domain);
        let mut rig = Rig { engine, instance, infos, handles, domain, pool, ports: opened, placement };
        rig.install(true);
        rig
    }

    /// Puts the graph in place; unless all is `fresh`, with the queues of ports and the stages that there are.
    fn install(&mut self, fresh: bool) {
        let count = self.placement.workers.len();
        // The first worker receives; in a pipeline the last one sends.
        let tx_owner = if self.placement.layout == Layout::Pipeline { count - 1 } else { 0 };
        let parts = weir_rig::port_parts(&mut self.ports, &self.infos, tx_owner, fresh.then_some(&self.pool));
        let graph = self.instance.graph(0).unwrap();
        let keep: HashSet<String> = graph.nodes().iter().filter(|_| !fresh).map(|node| node.name.clone()).collect();
        let graph = GraphPart { graph, replica: 0, workers: (0..count).collect(), receives: true, keep };
        let blueprint = Blueprint { workers: count, ports: parts, graphs: vec![graph], ..Blueprint::default() };
        self.engine.install(blueprint).unwrap();
    }

    /// Changes live keys.
    pub fn reload(&mut self, keys: Value) {
        let now = self.engine.now();
        let env = Env { ports: &self.infos, interfaces: &[], folder: None, running: Some(&*self.instance) };
        let element = element(&config(keys)).unwrap();
        let change = rehearsal::change(&Qos, &element, &env).unwrap();
        let redrawn = rehearsal::redraw(&Qos, &element, &env).unwrap();
        match redrawn {
            Redrawn::Same => {}
            Redrawn::As(instance) => {
                self.instance = instance;
                self.install(false);
            }
            Redrawn::Anew => panic!("a change of live keys takes a new instance"),
        }
        change(now);
    }

    /// What a reload to these keys is told.
    pub fn refused(&self, keys: Value) -> Vec<String> {
        let env = Env { ports: &self.infos, interfaces: &[], folder: None, running: Some(&*self.instance) };
        let prepared = element(&config(keys)).and_then(|element| rehearsal::change(&Qos, &element, &env));
        prepared.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    /// Lets time pass.
    pub fn run(&mut self, nanos: u64) {
        weir_rig::run(&mut self.engine, nanos);
    }

    pub fn send(&mut self, port: usize, frame: Vec<u8>) {
        self.handles[port].send(frame);
    }

    /// What a port sent since the last call.
    pub fn sent(&mut self, port: usize) -> Vec<Vec<u8>> {
        self.handles[port].received()
    }

    pub fn request(&self, verb: &str, arguments: Value) -> Result<Value, String> {
        self.instance.request(verb, &arguments, self.engine.now()).map_err(|error| error.0)
    }

    pub fn show(&self, what: &str, filter: Option<&str>) -> Vec<Value> {
        all_rows(self.instance.show(what, filter, self.engine.now()).unwrap())
    }

    /// Packets that are held, by the account, which must be exact.
    pub fn held(&mut self) -> u64 {
        self.account().held
    }

    /// Drops by stage and reason.
    pub fn drops(&mut self) -> BTreeMap<String, u64> {
        let mut all = weir_rig::drops(&mut self.engine);
        all.retain(|_, count| *count > 0);
        all
    }

    pub fn account(&mut self) -> Account {
        weir_rig::account(&mut self.engine)
    }

    /// Stops the engine; every buffer must have come home.
    pub fn finish(mut self) -> Account {
        self.account();
        let Rig { engine, pool, instance, ports, handles, .. } = self;
        let all = weir_rig::stop(engine);
        drop((instance, ports, handles));
        assert_home(&pool);
        all
    }
}

/// A frame of `length` bytes with two tags, a DSCP, and a number in its payload.
pub fn frame(tags: (u16, u16), dscp: u8, number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xa8];
    for (id, next) in [(tags.0, ethernet::CVLAN), (tags.1, ethernet::IPV4)] {
        let tag = Vlan::new(id, 0, false, next);
        bytes.extend(tag.control.to_bytes());
        bytes.extend(tag.ethertype.to_bytes());
    }
    ip(&mut bytes, [10, 0, tags.0 as u8, tags.1 as u8], [192, 0, 2, 1], dscp);
    bytes.resize(length - 4, 0);
    bytes.extend(number.to_be_bytes());
    bytes
}

/// A frame without tags, from one address to another.
pub fn untagged(source: [u8; 4], destination: [u8; 4], length: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    ip(&mut bytes, source, destination, 0);
    bytes.resize(length, 0);
    bytes
}

fn ip(bytes: &mut Vec<u8>, source: [u8; 4], destination: [u8; 4], dscp: u8) {
    bytes.extend([0x45, dscp << 2, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend([4, 0, 0, 53, 0, 20, 0, 0]);
}

/// The number at the end of a frame.
pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame.last_chunk().unwrap())
}

/// The inner VLAN of a frame.
pub fn inner(frame: &[u8]) -> u16 {
    Vlan::view(&frame[18..]).unwrap().id()
}
