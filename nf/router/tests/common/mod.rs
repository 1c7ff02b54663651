//! A router between ports in memory, under the virtual clock.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared by tests, each of which uses a part of it; a failed unwrap fails the test"
)]

pub mod acl_twin;
pub mod kernel;
pub mod sides;
pub mod six;
pub mod traffic;
pub mod wired;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::{ConfigError, Element, Folder, InterfaceAddress, Place, Scalar};
use weir_engine::{Account, Blueprint, Engine, GraphPart, WorkerSnapshot};
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME};
use weir_port_mem::{MemHandle, MemPort};
use weir_rig::{assert_home, declared};
use weir_router::Router;
use weir_stage::{Env, Ground, Instance, InterfaceInfo, Port, PortInfo, TagInfo, rehearsal};
use weir_wire::arp::{ArpFields, Operation};
use weir_wire::build::UdpFrame;
use weir_wire::ipv4::write_checksum;
use weir_wire::{MacAddr, ethernet, icmp};

pub use weir_rig::all_rows;

pub use std::net::Ipv4Addr;

pub const SECOND: u64 = 1_000_000_000;

/// A port of a test: its name, its addresses, its MTU.
#[derive(Clone, Copy)]
pub struct PortSpec(pub &'static str, pub &'static [&'static str], pub u16);

/// Two ports with a network each.
pub const TWO: &[PortSpec] = &[PortSpec("left", &["10.0.0.1/24"], 1500), PortSpec("right", &["10.0.1.1/24"], 1500)];

/// Whether the router is a pipeline of two workers: in the tests that `pipeline.rs` runs once more.
fn is_parted() -> bool {
    module_path!().starts_with("pipeline::")
}

/// The workers of the router.
fn workers() -> Vec<usize> {
    if is_parted() { vec![0, 1] } else { vec![0] }
}

pub struct Rig {
    pub engine: Engine,
    pub instance: Box<dyn Instance>,
    pub infos: Vec<PortInfo>,
    pub interfaces: Vec<InterfaceInfo>,
    pub handles: Vec<MemHandle>,
    pub domain: Domain,
    pub pool: HeapPool,
    ports: Vec<MemPort>,
}

/// The checked declaration of a router between ports of these names.
pub fn element(ports: &[&str], config: &Value) -> Result<Arc<Element>, Vec<ConfigError>> {
    let mut config = config.clone();
    let keys = config.as_object_mut().unwrap();
    keys.entry("ports").or_insert(json!(ports));
    // The small table, as tests make many.
    keys.entry("table").or_insert(json!("packed"));
    if is_parted() {
        keys.entry("layout").or_insert(json!("pipeline"));
        keys.entry("workers").or_insert(json!(workers()));
    }
    declared(&Router, ports, &config)
}

/// An interface of the router on a port, or a loopback: its name, its port, TPIDs and VLANs, addresses.
pub fn interface(name: &str, on: Option<&str>, tags: &[(u16, u16)], addresses: &[&str]) -> InterfaceInfo {
    InterfaceInfo {
        name: name.to_owned(),
        on: on.map(str::to_owned),
        of: "router".to_owned(),
        tags: tags.iter().map(|&(tpid, vlan)| TagInfo { tpid, vlan }).collect(),
        addresses: addresses.iter().map(|text| InterfaceAddress::parse(text).unwrap()).collect(),
        vrf: None,
        mtu: None,
        up: true,
        place: Place::line("test.lua", 3),
    }
}

/// The ports as the function sees them; one whose name begins with `blue` is in the VRF of that name.
pub fn port_infos(ports: &[PortSpec], opened: &[MemPort]) -> Vec<PortInfo> {
    let info = |(index, (spec, port)): (usize, (&PortSpec, &MemPort))| PortInfo {
        name: spec.0.to_owned(),
        index: index as u16,
        facts: port.facts(),
        addresses: spec.1.iter().map(|text| InterfaceAddress::parse(text).unwrap()).collect(),
        vrf: spec.0.starts_with("blue").then(|| "blue".to_owned()),
        link_up: true,
    };
    ports.iter().zip(opened).enumerate().map(info).collect()
}

/// The stage of the fast path to which one of a pipeline belongs; other stages are themselves.
fn as_one_stage(stage: &str) -> &str {
    if stage == "router.check" { "router.forward" } else { stage }
}

/// What is wrong with these interfaces.
pub fn wrong_interfaces(ports: &[PortSpec], interfaces: &[InterfaceInfo], config: &Value) -> Vec<String> {
    let opened: Vec<MemPort> = ports.iter().map(|spec| MemPort::fed(spec.0).0.with_mtu(spec.2)).collect();
    let infos = port_infos(ports, &opened);
    let names: Vec<&str> = ports.iter().map(|spec| spec.0).collect();
    let domain = Domain::new();
    let env = Env { ports: &infos, interfaces, folder: None, running: None };
    let ground = Ground { domain: &domain, now: 0 };
    let built = rehearsal::build(&Router, &element(&names, config).unwrap(), &env, &ground);
    built.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// Builds an instance without running it.
pub fn build(ports: &[PortSpec], config: &Value) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
    build_in(ports, config, None)
}

pub fn build_in(
    ports: &[PortSpec],
    config: &Value,
    folder: Option<&Folder>,
) -> Result<Box<dyn Instance>, Vec<ConfigError>> {
    let opened: Vec<MemPort> = ports.iter().map(|spec| MemPort::fed(spec.0).0.with_mtu(spec.2)).collect();
    let infos = port_infos(ports, &opened);
    let names: Vec<&str> = ports.iter().map(|spec| spec.0).collect();
    let domain = Domain::new();
    let env = Env { ports: &infos, interfaces: &[], folder, running: None };
    let ground = Ground { domain: &domain, now: 0 };
    rehearsal::build(&Router, &element(&names, config)?, &env, &ground)
}

impl Rig {
    pub fn new(ports: &[PortSpec], config: Value) -> Rig {
        Rig::with(ports, Vec::new(), config)
    }

    /// A router that has these interfaces beside those of its ports.
    pub fn with(ports: &[PortSpec], interfaces: Vec<InterfaceInfo>, config: Value) -> Rig {
        let domain = Domain::new();
        let pool = HeapPool::new(8192, MAX_FRAME);
        let (opened, handles): (Vec<_>, Vec<_>) = ports
            .iter()
            .map(|spec| {
                let (port, handle) = MemPort::fed(spec.0);
                (port.with_mtu(spec.2), handle)
            })
            .unzip();
        let infos = port_infos(ports, &opened);
        let names: Vec<&str> = ports.iter().map(|spec| spec.0).collect();
        let env = Env { ports: &infos, interfaces: &interfaces, folder: None, running: None };
        let ground = Ground { domain: &domain, now: 0 };
        let instance = rehearsal::build(&Router, &element(&names, &config).unwrap(), &env, &ground)
            .unwrap_or_else(|errors| panic!("{}", errors.iter().map(|e| format!("{e}\n")).collect::<String>()));
        let engine = weir_rig::engine(workers().len(), &pool, &domain);
        let mut rig = Rig { engine, instance, infos, interfaces, handles, domain, pool, ports: opened };
        rig.install(true);
        rig
    }

    /// Gives the engine the instance's graph, and the ports' queues if they are `fresh`.
    fn install(&mut self, fresh: bool) {
        // The first worker receives, the last one sends.
        let last = workers().len() - 1;
        let parts = weir_rig::port_parts(&mut self.ports, &self.infos, last, fresh.then_some(&self.pool));
        let graph = self.instance.graph(0).unwrap();
        let graph = GraphPart { graph, replica: 0, workers: workers(), receives: true, keep: HashSet::new() };
        let blueprint =
            Blueprint { workers: workers().len(), ports: parts, graphs: vec![graph], ..Blueprint::default() };
        self.engine.install(blueprint).unwrap();
    }

    /// Replaces the instance by one of another configuration, as a reload does that rebuilds.
    pub fn rebuild(&mut self, config: &Value) {
        let names: Vec<String> = self.infos.iter().map(|info| info.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let now = self.engine.now();
        let env =
            Env { ports: &self.infos, interfaces: &self.interfaces, folder: None, running: Some(&*self.instance) };
        let ground = Ground { domain: &self.domain, now };
        let next = rehearsal::build(&Router, &element(&names, config).unwrap(), &env, &ground);
        self.instance = next.unwrap();
        self.install(false);
    }

    /// Changes live keys.
    pub fn reload(&mut self, config: &Value) {
        let names: Vec<String> = self.infos.iter().map(|info| info.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let now = self.engine.now();
        let env =
            Env { ports: &self.infos, interfaces: &self.interfaces, folder: None, running: Some(&*self.instance) };
        let change = rehearsal::change(&Router, &element(&names, config).unwrap(), &env).unwrap();
        change(now);
    }

    /// Lets time pass.
    pub fn run(&mut self, nanos: u64) {
        weir_rig::run(&mut self.engine, nanos);
    }

    /// Lets so little time pass that no timer matters.
    pub fn settle(&mut self) {
        self.run(1_000_000);
    }

    pub fn send(&mut self, port: usize, frame: Vec<u8>) {
        self.handles[port].send(frame);
    }

    /// What a port sent since the last call.
    pub fn sent(&mut self, port: usize) -> Vec<Vec<u8>> {
        self.handles[port].received()
    }

    /// What a port sent since the last call, without ARP.
    pub fn sent_ip(&mut self, port: usize) -> Vec<Vec<u8>> {
        self.sent(port).into_iter().filter(|frame| frame[12..14] == ethernet::IPV4.to_be_bytes()).collect()
    }

    /// The ARP packets that a port sent since the last call, with their Ethernet destination.
    pub fn sent_arp(&mut self, port: usize) -> Vec<(MacAddr, ArpFields)> {
        let frames = self.sent(port).into_iter().filter(|frame| frame[12..14] == ethernet::ARP.to_be_bytes());
        frames.map(|frame| (MacAddr(frame[..6].try_into().unwrap()), ArpFields::parse(&frame[14..]).unwrap())).collect()
    }

    pub fn mac(&self, port: usize) -> MacAddr {
        MacAddr(self.infos[port].facts.mac)
    }

    /// Answers as the host `address` with `mac` would.
    pub fn arp_reply(&mut self, port: usize, address: Ipv4Addr, mac: MacAddr, to: Ipv4Addr) {
        let reply = ArpFields {
            operation: Operation::Reply,
            sender_mac: mac,
            sender: address,
            target_mac: self.mac(port),
            target: to,
        };
        let mut frame = vec![0; 60];
        reply.write(self.mac(port), &mut frame).unwrap();
        self.send(port, frame);
    }

    /// A UDP frame to the router on a port.
    pub fn udp(&self, port: usize, source: &str, destination: &str) -> UdpFrame {
        UdpFrame {
            source_mac: MacAddr([2, 0, 0, 0, 9, port as u8]),
            destination_mac: self.mac(port),
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            ..UdpFrame::default()
        }
    }

    pub fn request(&self, verb: &str, arguments: Value) -> Result<Value, String> {
        self.instance.request(verb, &arguments, self.engine.now()).map_err(|error| error.0)
    }

    pub fn show(&self, what: &str) -> Vec<Value> {
        all_rows(self.instance.show(what, None, self.engine.now()).unwrap())
    }

    pub fn snapshot(&mut self) -> Vec<WorkerSnapshot> {
        self.engine.snapshot()
    }

    /// Drops by stage and reason; the account must be exact. What a pipeline drops where it checks counts as if its fast path were one
    /// stage.
    pub fn drops(&mut self) -> BTreeMap<String, u64> {
        self.account();
        let workers = self.engine.snapshot();
        let drops = workers.iter().flat_map(|worker| &worker.drops);
        let mut sum = BTreeMap::new();
        for drop in drops {
            *sum.entry(format!("{}/{}", as_one_stage(&drop.stage), drop.reason)).or_default() += drop.packets;
        }
        sum
    }

    /// Packets by the ways out of the fast path; in a pipeline those that pass its first stage stay inside.
    pub fn ways(&mut self) -> BTreeMap<String, u64> {
        let workers = self.engine.snapshot();
        let stages = workers.iter().flat_map(|worker| &worker.stages);
        let ways = stages.filter(|stage| as_one_stage(&stage.name) == "router.forward").flat_map(|stage| &stage.ways);
        let mut sum = BTreeMap::new();
        for (way, packets) in ways.filter(|(way, _)| way != "out") {
            *sum.entry(way.clone()).or_default() += packets;
        }
        sum
    }

    /// Packets consumed and created by reason.
    pub fn fates(&mut self) -> BTreeMap<String, u64> {
        let workers = self.engine.snapshot();
        let mut sum = BTreeMap::new();
        for fate in workers.iter().flat_map(|worker| &worker.fates) {
            *sum.entry(fate.reason.clone()).or_default() += fate.packets;
        }
        sum
    }

    /// The account of all workers, which must be exact, also against the pool.
    pub fn account(&mut self) -> Account {
        weir_rig::account(&mut self.engine)
    }

    /// Stops the engine; every buffer must have come home.
    pub fn finish(mut self) -> Account {
        self.account();
        let Rig { engine, pool, instance, ports, .. } = self;
        let all = weir_rig::stop(engine);
        drop((instance, ports));
        assert_home(&pool);
        all
    }
}

/// An IPv4 frame to the router on a port, from its parts.
pub fn ip_frame(rig: &Rig, port: usize, from: &str, to: &str, protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = rig.udp(port, from, to).to_vec(&[]);
    frame.truncate(34);
    frame.extend(options);
    frame.extend(payload);
    let total = (frame.len() - 14) as u16;
    frame[14] = 0x45 + (options.len() / 4) as u8;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[23] = protocol;
    write_checksum(&mut frame[14..]);
    frame
}

/// An ICMP message, its checksum right.
pub fn icmp_message(kind: u8, code: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 8];
    message.extend(data);
    icmp::write_header(&mut message, kind, code, rest);
    message
}
