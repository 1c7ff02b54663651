//! A bridge among ports in memory, under the virtual clock.
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
use weir_bridge::Bridge;
use weir_config::{Catalogue, ConfigError, Declaration, Document, Element, Kind, Place, Table};
use weir_engine::{Account, Blueprint, Engine, GraphPart, Idle, PortPart, Settings};
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME, Pool};
use weir_port_mem::{MemHandle, MemPort};
use weir_stage::{AnyFunction, Env, Ground, Instance, Port, PortInfo, rehearsal};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// The ports there are; a bridge has some of them.
pub const PORTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

pub struct Rig {
    pub engine: Engine,
    pub instance: Box<dyn Instance>,
    pub handles: Vec<MemHandle>,
    infos: Vec<PortInfo>,
    pub domain: Domain,
    pool: HeapPool,
    ports: Vec<MemPort>,
}

/// A value of a script.
fn script(value: &Value) -> weir_config::Value {
    match value {
        Value::Null => weir_config::Value::Nil,
        Value::Bool(boolean) => (*boolean).into(),
        Value::Number(number) => number.as_i64().unwrap().into(),
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => weir_config::Value::List(list.iter().map(script).collect()),
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| (key.as_str().into(), script(value)));
            weir_config::Value::Table(entries.collect::<Table>())
        }
    }
}

fn element(config: &Value) -> Result<Arc<Element>, Vec<ConfigError>> {
    let declare = |kind: &str, line, table| Declaration {
        kind: kind.to_owned(),
        table: script(&table),
        place: Place::line("test.lua", line),
        incomplete: false,
    };
    let mut declarations = vec![declare("bridge", 1, config.clone())];
    declarations.extend(PORTS.map(|name| declare("port", 2, json!({ "name": name, "device": "mem:" }))));
    let document = Document { declarations, ..Document::default() };
    let kinds = [Kind::named("port", weir_stage::PortConfig::schema()), Kind::function("bridge", Bridge.schema())];
    let catalogue: Catalogue = kinds.into_iter().collect();
    let checked = document.check(&catalogue, None)?;
    Ok(checked.get("bridge", "bridge").unwrap().clone())
}

fn port_infos(opened: &[MemPort]) -> Vec<PortInfo> {
    let info = |(index, (name, port)): (usize, (&str, &MemPort))| PortInfo {
        name: name.to_owned(),
        index: index as u16,
        facts: port.facts(),
        addresses: Vec::new(),
        vrf: None,
        link_up: true,
    };
    PORTS.into_iter().zip(opened).enumerate().map(info).collect()
}

/// What is said of a configuration.
pub fn messages(config: &Value) -> Vec<String> {
    let opened = PORTS.map(|name| MemPort::fed(name).0);
    let infos = port_infos(&opened);
    let domain = Domain::new();
    let env = Env { ports: &infos, interfaces: &[], folder: None, running: None };
    let ground = Ground { domain: &domain, now: 0 };
    let built = element(config).and_then(|element| rehearsal::build(&Bridge, &element, &env, &ground));
    built.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// All rows of a table.
pub fn rows_of(instance: &dyn Instance, what: &str, filter: Option<&str>) -> Vec<Value> {
    let mut rows = instance.show(what, filter, 0).unwrap();
    let mut all = Vec::new();
    loop {
        match rows.piece() {
            piece if piece.is_empty() => return all,
            piece => all.extend(piece),
        }
    }
}

impl Rig {
    pub fn new(keys: Value) -> Rig {
        Rig::with_buffers(keys, 8192)
    }

    /// One with so many buffers.
    pub fn with_buffers(keys: Value, buffers: usize) -> Rig {
        let domain = Domain::new();
        let pool = HeapPool::new(buffers, MAX_FRAME);
        let (opened, handles): (Vec<_>, Vec<_>) = PORTS.into_iter().map(MemPort::fed).unzip();
        let infos = port_infos(&opened);
        let env = Env { ports: &infos, interfaces: &[], folder: None, running: None };
        let ground = Ground { domain: &domain, now: 0 };
        let element = element(&keys).unwrap();
        let instance = rehearsal::build(&Bridge, &element, &env, &ground)
            .unwrap_or_else(|errors| panic!("{}", errors.iter().map(|e| format!("{e}\n")).collect::<String>()));
        let settings = Settings {
            cores: vec![None],
            idle: Idle::Spin,
            virtual_clock: true,
            hook: None,
            sample_every: weir_engine::SAMPLE_EVERY,
        };
        let engine = Engine::start(settings, &pool, &domain).unwrap();
        let mut rig = Rig { engine, instance, infos, handles, domain, pool, ports: opened };
        rig.install();
        rig
    }

    fn install(&mut self) {
        let mut parts = Vec::new();
        for (port, info) in self.ports.iter_mut().zip(&self.infos) {
            let (rx, tx) = port.open(1, 1, &self.pool).unwrap();
            let rx = rx.into_iter().map(|queue| (0, Some(queue))).collect();
            let tx = tx.into_iter().map(|queue| (0, Some(queue))).collect();
            parts.push(PortPart { name: info.name.clone(), index: info.index, rx, tx });
        }
        let graph = self.instance.graph(0).unwrap();
        let graph = GraphPart { graph, replica: 0, workers: vec![0], receives: true, keep: HashSet::new() };
        self.engine
            .install(Blueprint { workers: 1, ports: parts, graphs: vec![graph], ..Blueprint::default() })
            .unwrap();
    }

    /// Builds the instance that takes the place of this one.
    pub fn rebuilt(&self, keys: Value) -> Box<dyn Instance> {
        let env = Env { ports: &self.infos, interfaces: &[], folder: None, running: Some(&*self.instance) };
        let ground = Ground { domain: &self.domain, now: self.engine.now() };
        rehearsal::build(&Bridge, &element(&keys).unwrap(), &env, &ground).unwrap()
    }

    /// Changes live keys.
    pub fn reload(&mut self, keys: Value) {
        let now = self.engine.now();
        let env = Env { ports: &self.infos, interfaces: &[], folder: None, running: Some(&*self.instance) };
        let change = rehearsal::change(&Bridge, &element(&keys).unwrap(), &env).unwrap();
        change(now);
    }

    /// What a reload to these keys is told.
    pub fn refused(&self, keys: Value) -> Vec<String> {
        let env = Env { ports: &self.infos, interfaces: &[], folder: None, running: Some(&*self.instance) };
        let prepared = element(&keys).and_then(|element| rehearsal::change(&Bridge, &element, &env));
        prepared.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    /// Lets time pass.
    pub fn run(&mut self, nanos: u64) {
        let until = self.engine.now() + nanos;
        // What was asked for or changed meanwhile is noticed at once, and time goes no further than it is let.
        self.engine.rouse();
        while self.engine.now() < until {
            self.engine.step_until(until);
        }
    }

    pub fn send(&mut self, port: usize, frame: Vec<u8>) {
        self.handles[port].send(frame);
    }

    /// What a port sent since the last call.
    pub fn sent(&mut self, port: usize) -> Vec<Vec<u8>> {
        self.handles[port].received()
    }

    /// What comes out of each port when one gets these frames.
    pub fn pass(&mut self, port: usize, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        frames.iter().for_each(|frame| self.send(port, frame.clone()));
        self.run(MS);
        (0..PORTS.len()).map(|port| self.sent(port)).collect()
    }

    /// The ports that a frame comes out of.
    pub fn ways(&mut self, port: usize, frame: Vec<u8>) -> String {
        let out = self.pass(port, &[frame]);
        PORTS.iter().zip(out).filter(|(_, frames)| !frames.is_empty()).map(|(name, _)| *name).collect()
    }

    pub fn request(&self, verb: &str, arguments: Value) -> Result<Value, String> {
        self.instance.request(verb, &arguments, self.engine.now()).map_err(|error| error.0)
    }

    pub fn show(&self, what: &str, filter: Option<&str>) -> Vec<Value> {
        rows_of(&*self.instance, what, filter)
    }

    /// A gauge.
    pub fn gauge(&self, name: &str) -> f64 {
        self.instance.gauges().iter().find(|(known, ..)| *known == name).unwrap().2
    }

    /// Drops by stage and reason.
    pub fn drops(&mut self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for drop in self.engine.snapshot().iter().flat_map(|worker| &worker.drops) {
            *sum.entry(format!("{}/{}", drop.stage, drop.reason)).or_default() += drop.packets;
        }
        sum.retain(|_, count| *count > 0);
        sum
    }

    pub fn account(&mut self) -> Account {
        let mut all = Account::default();
        for worker in self.engine.snapshot() {
            assert_eq!(worker.account.unaccounted(), 0, "{}: {:?}", worker.id, worker.account);
            all.add(&worker.account);
        }
        all
    }

    /// Stops the engine; every buffer must have come home.
    pub fn finish(mut self) -> Account {
        self.account();
        let Rig { engine, pool, instance, ports, handles, .. } = self;
        let mut all = Account::default();
        for worker in engine.stop() {
            assert_eq!(worker.account.unaccounted(), 0, "{}: {:?}", worker.id, worker.account);
            all.add(&worker.account);
        }
        assert_eq!(all.held, 0);
        drop((instance, ports, handles));
        assert_eq!(weir_packet::defects(), 0);
        assert_eq!(pool.taken(), pool.at_hand());
        all
    }
}

/// An Ethernet address of a station.
pub fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

pub const BROADCAST: [u8; 6] = [0xff; 6];

/// A frame of 60 bytes with a number in its payload.
pub fn frame(to: [u8; 6], from: [u8; 6], number: u32) -> Vec<u8> {
    let mut frame = [&to[..], &from[..], &[0x88, 0xb5], &number.to_be_bytes()[..]].concat();
    frame.resize(60, 0);
    frame
}

/// The same with tags: TPID and control information of each, the outer one first.
pub fn tagged(mut frame: Vec<u8>, tags: &[(u16, u16)]) -> Vec<u8> {
    let tags: Vec<u8> = tags.iter().flat_map(|(tpid, tci)| [tpid.to_be_bytes(), tci.to_be_bytes()].concat()).collect();
    frame.splice(12..12, tags);
    frame
}
