//! A generator on ports in memory, under the virtual clock.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared by tests, each of which uses a part of it; a failed unwrap fails the test"
)]

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::{ConfigError, Element, InterfaceAddress, Scalar};
use weir_engine::{Blueprint, Engine, GraphPart};
use weir_gen::{Gen, Report};
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME};
use weir_port_mem::{MemHandle, MemPort};
use weir_rig::declared;
use weir_stage::{Env, Ground, Instance, Port, PortInfo, rehearsal};

pub const GEN: Gen = Gen { captures: |_| Err("no files here".to_owned()) };

pub struct Rig {
    pub engine: Engine,
    pub instance: Box<dyn Instance>,
    pub handles: Vec<MemHandle>,
    pub infos: Vec<PortInfo>,
    _pool: HeapPool,
    _ports: Vec<MemPort>,
}

pub fn element(ports: &[&str], config: &Value) -> Result<Arc<Element>, Vec<ConfigError>> {
    declared(&GEN, ports, config)
}

pub fn infos(ports: &[(&str, MemPort)], addresses: &[&str]) -> Vec<PortInfo> {
    let info = |(index, (name, port)): (usize, &(&str, MemPort))| PortInfo {
        name: (*name).to_owned(),
        index: index as u16,
        facts: port.facts(),
        addresses: addresses.iter().map(|text| InterfaceAddress::parse(text).unwrap()).collect(),
        vrf: None,
        link_up: true,
    };
    ports.iter().enumerate().map(info).collect()
}

/// The errors of a configuration on one port, as lines.
pub fn errors(config: &Value) -> Vec<String> {
    errors_in(None, config)
}

/// The same, of a configuration whose files lie in a folder.
pub fn errors_in(folder: Option<&std::path::Path>, config: &Value) -> Vec<String> {
    let folder = folder.map(|folder| weir_config::Folder::open(folder).unwrap());
    let ports = [("a", MemPort::null("a"))];
    let infos = infos(&ports, &["192.0.2.2/24"]);
    let domain = Domain::new();
    let env = Env { ports: &infos, interfaces: &[], folder: folder.as_ref(), running: None };
    let ground = Ground { domain: &domain, now: 0 };
    let found = match element(&["a"], config) {
        Ok(element) => rehearsal::build(&GEN, &element, &env, &ground).err().unwrap_or_default(),
        Err(errors) => errors,
    };
    found.iter().map(ToString::to_string).collect()
}

impl Rig {
    pub fn new(ports: Vec<(&str, MemPort)>, config: &Value) -> Rig {
        Rig::with(ports, config, &["192.0.2.2/24", "2001:db8::2/64"])
    }

    pub fn with(ports: Vec<(&str, MemPort)>, config: &Value, addresses: &[&str]) -> Rig {
        Rig::in_folder(ports, config, addresses, None)
    }

    /// The same, with a folder in which the configuration's files lie.
    fn in_folder(
        mut ports: Vec<(&str, MemPort)>,
        config: &Value,
        addresses: &[&str],
        folder: Option<&weir_config::Folder>,
    ) -> Rig {
        let infos = infos(&ports, addresses);
        let names: Vec<&str> = ports.iter().map(|(name, _)| *name).collect();
        let domain = Domain::new();
        let pool = HeapPool::new(8192, MAX_FRAME);
        let env = Env { ports: &infos, interfaces: &[], folder, running: None };
        let ground = Ground { domain: &domain, now: 0 };
        let built = element(&names, config).and_then(|element| rehearsal::build(&GEN, &element, &env, &ground));
        let instance =
            built.unwrap_or_else(|errors| panic!("{}", errors.iter().map(|e| format!("{e}\n")).collect::<String>()));
        let mut engine = weir_rig::engine(1, &pool, &domain);
        let handles = ports.iter().map(|(_, port)| port.handle()).collect();
        let parts = weir_rig::port_parts(ports.iter_mut().map(|(_, port)| port), &infos, 0, Some(&pool));
        let graph = GraphPart {
            graph: instance.graph(0).unwrap(),
            replica: 0,
            workers: vec![0],
            receives: true,
            keep: HashSet::new(),
        };
        engine.install(Blueprint { workers: 1, ports: parts, graphs: vec![graph], ..Blueprint::default() }).unwrap();
        let ports = ports.into_iter().map(|(_, port)| port).collect();
        Rig { engine, instance, handles, infos, _pool: pool, _ports: ports }
    }

    /// Lets time pass.
    pub fn run(&mut self, nanos: u64) {
        let until = self.engine.now() + nanos;
        while self.engine.now() < until {
            self.engine.step_until(until);
        }
    }

    /// Lets time pass and says what was found; the account must be exact.
    pub fn report_after(&mut self, nanos: u64) -> Report {
        self.run(nanos);
        self.instance.show("report", None, 0).unwrap();
        self.engine.rouse();
        self.run(10_000_000);
        let unaccounted: i64 = self.engine.snapshot().iter().map(|worker| worker.account.unaccounted()).sum();
        assert_eq!(unaccounted, 0);
        serde_json::from_value(self.instance.show("report", None, 0).unwrap().piece().remove(0)).unwrap()
    }
}

/// The frames that a stream makes.
pub fn frames(stream: &Value, count: usize) -> Vec<Vec<u8>> {
    frames_of(&json!({ "streams": [stream] }), count)
}

pub fn frames_of(config: &Value, count: usize) -> Vec<Vec<u8>> {
    let (port, handle) = MemPort::fed("a");
    frames_by(Rig::new(vec![("a", port.with_mtu(9000))], config), &handle, count)
}

/// The same, of a configuration whose files lie in a folder.
pub fn frames_in(folder: &std::path::Path, config: &Value, count: usize) -> Vec<Vec<u8>> {
    let (port, handle) = MemPort::fed("a");
    let folder = weir_config::Folder::open(folder).unwrap();
    let rig = Rig::in_folder(vec![("a", port.with_mtu(9000))], config, &["192.0.2.2/24"], Some(&folder));
    frames_by(rig, &handle, count)
}

fn frames_by(mut rig: Rig, handle: &MemHandle, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for _ in 0..100_000 {
        if frames.len() >= count {
            break;
        }
        rig.engine.step();
        frames.extend(handle.received());
    }
    frames.truncate(count);
    frames
}

/// The checksum of RFC 1071, word by word.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
