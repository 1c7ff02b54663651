//! A function on one worker, whose ports have no addresses.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use weir_config::{ConfigError, Element};
use weir_engine::{Account, Blueprint, Engine, GraphPart};
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME};
use weir_port_mem::{MemHandle, MemPort};
use weir_stage::{AnyFunction, Env, Ground, Instance, PortInfo, rehearsal};

use crate::{
    MS, account, all_rows, assert_home, built, declared, drops, engine, port_infos, port_parts, run, stop, told,
};

/// The ports there are; a function has some of them.
pub const PORTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// See the module.
pub struct Rig {
    /// What runs it.
    pub engine: Engine,
    /// The function.
    pub instance: Box<dyn Instance>,
    /// The other ends of the ports.
    pub handles: Vec<MemHandle>,
    /// The ports as the function sees them.
    pub infos: Vec<PortInfo>,
    /// The grace periods of its tables.
    pub domain: Domain,
    function: &'static dyn AnyFunction,
    pool: HeapPool,
    ports: Vec<MemPort>,
}

fn element(function: &'static dyn AnyFunction, keys: &Value) -> Result<Arc<Element>, Vec<ConfigError>> {
    declared(function, &PORTS, keys)
}

/// What is said of a configuration.
pub fn messages(function: &'static dyn AnyFunction, keys: &Value) -> Vec<String> {
    let infos = port_infos(&PORTS, &PORTS.map(|name| MemPort::fed(name).0));
    let domain = Domain::new();
    let env = Env { ports: &infos, interfaces: &[], folder: None, running: None };
    let ground = Ground { domain: &domain, now: 0 };
    told(element(function, keys).and_then(|element| rehearsal::build(function, &element, &env, &ground)))
}

impl Rig {
    /// A function with these keys, with 8,192 buffers.
    pub fn new(function: &'static dyn AnyFunction, keys: Value) -> Rig {
        Rig::with_buffers(function, keys, 8192)
    }

    /// One with so many buffers.
    pub fn with_buffers(function: &'static dyn AnyFunction, keys: Value, buffers: usize) -> Rig {
        let domain = Domain::new();
        let pool = HeapPool::new(buffers, MAX_FRAME);
        let (ports, handles): (Vec<_>, Vec<_>) = PORTS.into_iter().map(MemPort::fed).unzip();
        let infos = port_infos(&PORTS, &ports);
        let env = Env { ports: &infos, interfaces: &[], folder: None, running: None };
        let ground = Ground { domain: &domain, now: 0 };
        let instance = built(rehearsal::build(function, &built(element(function, &keys)), &env, &ground));
        let engine = engine(1, &pool, &domain);
        let mut rig = Rig { engine, instance, infos, handles, domain, function, pool, ports };
        rig.install(true);
        rig
    }

    /// Gives the engine the instance's graph, and the ports' queues if they are `fresh`.
    fn install(&mut self, fresh: bool) {
        let parts = port_parts(&mut self.ports, &self.infos, 0, fresh.then_some(&self.pool));
        let graph = self.instance.graph(0).unwrap();
        let graph = GraphPart { graph, replica: 0, workers: vec![0], receives: true, keep: HashSet::new() };
        self.engine
            .install(Blueprint { workers: 1, ports: parts, graphs: vec![graph], ..Blueprint::default() })
            .unwrap();
    }

    fn env(&self) -> Env<'_> {
        Env { ports: &self.infos, interfaces: &[], folder: None, running: Some(&*self.instance) }
    }

    /// Builds the instance that takes the place of this one.
    pub fn rebuilt(&self, keys: Value) -> Box<dyn Instance> {
        let ground = Ground { domain: &self.domain, now: self.engine.now() };
        built(rehearsal::build(self.function, &built(element(self.function, &keys)), &self.env(), &ground))
    }

    /// Puts an instance that was built anew in place.
    pub fn replace(&mut self, instance: Box<dyn Instance>) {
        self.instance = instance;
        self.install(false);
    }

    /// Changes live keys.
    pub fn reload(&mut self, keys: Value) {
        let now = self.engine.now();
        let change = built(rehearsal::change(self.function, &built(element(self.function, &keys)), &self.env()));
        change(now);
    }

    /// What a reload to these keys is told.
    pub fn refused(&self, keys: Value) -> Vec<String> {
        let element = element(self.function, &keys);
        told(element.and_then(|element| rehearsal::change(self.function, &element, &self.env())))
    }

    /// Lets time pass.
    pub fn run(&mut self, nanos: u64) {
        run(&mut self.engine, nanos);
    }

    /// A frame comes in by a port.
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

    /// Asks for something, as `weir` does.
    ///
    /// # Errors
    ///
    /// Why it was refused.
    pub fn request(&self, verb: &str, arguments: Value) -> Result<Value, String> {
        self.instance.request(verb, &arguments, self.engine.now()).map_err(|error| error.0)
    }

    /// The rows of a table.
    pub fn show(&self, what: &str, filter: Option<&str>) -> Vec<Value> {
        all_rows(self.instance.show(what, filter, self.engine.now()).unwrap())
    }

    /// A gauge.
    pub fn gauge(&self, name: &str) -> f64 {
        self.instance.gauges().iter().find(|(known, ..)| *known == name).unwrap().2
    }

    /// Drops by stage and reason, of those that there were.
    pub fn drops(&mut self) -> BTreeMap<String, u64> {
        let mut all = drops(&mut self.engine);
        all.retain(|_, count| *count > 0);
        all
    }

    /// The account, which must be exact.
    pub fn account(&mut self) -> Account {
        account(&mut self.engine)
    }

    /// Stops the engine; every buffer must have come home.
    pub fn finish(mut self) -> Account {
        self.account();
        let Rig { engine, pool, instance, ports, handles, .. } = self;
        let all = stop(engine);
        drop((instance, ports, handles));
        assert_home(&pool);
        all
    }
}
