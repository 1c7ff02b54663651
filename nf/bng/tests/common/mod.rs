//! A gateway between ports in memory, under the virtual clock.
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
use weir_bng::Bng;
use weir_config::{ConfigError, Element, Folder, InterfaceAddress, Place, Scalar};
use weir_engine::{Account, Blueprint, Engine, GraphPart, PortPart, WorkerSnapshot};
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME};
use weir_port_mem::{MemHandle, MemPort};
use weir_rig::{assert_home, declared};
use weir_stage::{
    AnyFunction, Env, Ground, Instance, InterfaceInfo, Layout, Placement, Port, PortInfo, Redrawn, TagInfo, rehearsal,
};
use weir_wire::arp::{ArpFields, Operation};
use weir_wire::build::UdpFrame;
use weir_wire::{MacAddr, ethernet, icmp, ipv4};
use zerocopy::IntoBytes;

pub use weir_rig::all_rows;

pub const SECOND: u64 = 1_000_000_000;

/// A port of a test: its name, its addresses, its MTU.
#[derive(Clone, Copy)]
pub struct PortSpec(pub &'static str, pub &'static [&'static str], pub u16);

/// One port on each side.
pub const TWO: &[PortSpec] = &[PortSpec("cpe", &[], 1500), PortSpec("core", &["192.0.2.1/30"], 1500)];
/// Their positions.
pub const CPE: usize = 0;
pub const CORE: usize = 1;

/// The next router.
pub const ROUTER: &str = "192.0.2.2";
pub const ROUTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 2]);

/// Tunnels to one gateway, with one label; two subscribers with an address each, in a network where others are learned.
pub fn tunnels() -> Value {
    json!({
        "local_address": "192.0.2.1",
        "addresses": ["10.0.0.1/16"],
        "gateways": { "west": { "port": "core", "address": "198.51.100.9", "via": ROUTER, "labels": [17] } },
        "routes": { "0.0.0.0/0": "west" },
        "subscribers": [
            { "svlan": 100, "cvlan": 1, "key": 7, "ipv4": ["10.0.0.7"] },
            { "svlan": 100, "cvlan": 2, "key": 8, "ipv4": ["10.0.0.8"] },
        ],
        "learn": { "networks": ["10.0.0.0/16"] },
    })
}

/// The same with plain IP.
pub fn plain() -> Value {
    let mut config = tunnels();
    let keys = config.as_object_mut().unwrap();
    keys.remove("local_address");
    keys.insert("core_encapsulation".to_owned(), json!("ip"));
    keys["gateways"]["west"] = json!({ "port": "core", "address": ROUTER });
    config
}

pub struct Rig {
    pub engine: Engine,
    pub instance: Box<dyn Instance>,
    pub infos: Vec<PortInfo>,
    pub handles: Vec<MemHandle>,
    pub domain: Domain,
    pub pool: HeapPool,
    ports: Vec<MemPort>,
    placement: Placement,
    /// Declared interfaces.
    pub interfaces: Vec<InterfaceInfo>,
    /// Tags that all frames of the first core port have on its link, which tests do not see; what has others is kept as it is.
    link_tags: Vec<u8>,
}

/// A gateway whose next router is known.
pub fn rig(config: Value) -> Rig {
    let mut rig = Rig::new(TWO, config);
    rig.settle();
    rig.router_answers();
    rig.sent(CORE);
    rig
}

/// The checked declaration of a gateway; the first port is on the access side.
pub fn element(ports: &[&str], config: &Value) -> Result<Arc<Element>, Vec<ConfigError>> {
    let mut config = config.clone();
    let keys = config.as_object_mut().unwrap();
    let (access, core) = ports.split_at(1);
    keys.entry("access").or_insert(json!(access));
    keys.entry("core").or_insert(json!(core));
    declared(&Bng, ports, &config)
}

pub fn port_infos(ports: &[PortSpec], opened: &[MemPort]) -> Vec<PortInfo> {
    let info = |(index, (spec, port)): (usize, (&PortSpec, &MemPort))| PortInfo {
        name: spec.0.to_owned(),
        index: index as u16,
        facts: port.facts(),
        addresses: spec.1.iter().map(|text| InterfaceAddress::parse(text).unwrap()).collect(),
        vrf: None,
        link_up: true,
    };
    ports.iter().zip(opened).enumerate().map(info).collect()
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
    rehearsal::build(&Bng, &element(&names, config)?, &env, &ground)
}

impl Rig {
    pub fn new(ports: &[PortSpec], config: Value) -> Rig {
        Rig::with_interfaces(ports, Vec::new(), config)
    }

    /// The first core port's addresses are those of an interface with these tags, and gateways are behind that.
    pub fn tagged(ports: &[PortSpec], mut config: Value, tags: &[TagInfo]) -> Rig {
        let mut ports = ports.to_vec();
        let core = interface(&ports[CORE], tags);
        ports[CORE].1 = &[];
        for gateway in config["gateways"].as_object_mut().unwrap().values_mut() {
            if gateway["port"] == *ports[CORE].0 {
                gateway["port"] = json!(core.name);
            }
        }
        let mut rig = Rig::with_interfaces(&ports, vec![core], config);
        rig.link_tags =
            tags.iter().flat_map(|tag| [tag.tpid.to_be_bytes(), tag.vlan.to_be_bytes()]).flatten().collect();
        rig
    }

    pub fn with_interfaces(ports: &[PortSpec], interfaces: Vec<InterfaceInfo>, config: Value) -> Rig {
        let domain = Domain::new();
        let pool = HeapPool::new(16_384, MAX_FRAME);
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
        let element = element(&names, &config).unwrap();
        let placement = Bng.configure(&element).unwrap().placement().clone();
        let instance = rehearsal::build(&Bng, &element, &env, &ground)
            .unwrap_or_else(|errors| panic!("{}", errors.iter().map(|e| format!("{e}\n")).collect::<String>()));
        let engine = weir_rig::engine(placement.workers.len(), &pool, &domain);
        let link_tags = Vec::new();
        let mut rig =
            Rig { engine, instance, infos, handles, domain, pool, ports: opened, placement, interfaces, link_tags };
        rig.install(true, false);
        rig
    }

    /// Gives the engine the instance's graph, and the ports' queues if they are `fresh`. Stages that there are `stay`, or all are new.
    fn install(&mut self, fresh: bool, stay: bool) {
        let count = self.placement.workers.len();
        let workers: Vec<usize> = (0..count).collect();
        let (rx, tx) = match self.placement.layout {
            Layout::RunToCompletion => (workers.clone(), workers.clone()),
            Layout::Distributor => (vec![0], vec![0]),
            Layout::Pipeline => (vec![0], vec![count - 1]),
        };
        let mut parts = Vec::new();
        for (port, info) in self.ports.iter_mut().zip(&self.infos) {
            let mut part = PortPart { name: info.name.clone(), index: info.index, rx: Vec::new(), tx: Vec::new() };
            if fresh {
                let (opened_rx, opened_tx) = port.open(rx.len() as u16, tx.len() as u16, &self.pool).unwrap();
                part.rx = rx.iter().copied().zip(opened_rx.into_iter().map(Some)).collect();
                part.tx = tx.iter().copied().zip(opened_tx.into_iter().map(Some)).collect();
            } else {
                part.rx = rx.iter().map(|owner| (*owner, None)).collect();
                part.tx = tx.iter().map(|owner| (*owner, None)).collect();
            }
            parts.push(part);
        }
        let part = |replica: usize, workers: Vec<usize>| {
            let graph = self.instance.graph(replica).unwrap();
            let keep: HashSet<String> = graph.nodes().iter().filter(|_| stay).map(|node| node.name.clone()).collect();
            GraphPart { graph, replica: 0, workers, receives: true, keep }
        };
        let graphs = match self.placement.layout {
            Layout::RunToCompletion => workers.iter().map(|worker| part(*worker, vec![*worker])).collect(),
            Layout::Distributor | Layout::Pipeline => vec![part(0, workers)],
        };
        let blueprint = Blueprint { workers: count, ports: parts, graphs, ..Blueprint::default() };
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
        let next = rehearsal::build(&Bng, &element(&names, config).unwrap(), &env, &ground);
        self.instance = next.unwrap();
        self.install(false, false);
    }

    /// Changes live keys.
    pub fn reload(&mut self, config: &Value) {
        let names: Vec<String> = self.infos.iter().map(|info| info.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let now = self.engine.now();
        let env =
            Env { ports: &self.infos, interfaces: &self.interfaces, folder: None, running: Some(&*self.instance) };
        let element = element(&names, config).unwrap();
        let change = rehearsal::change(&Bng, &element, &env).unwrap();
        let redrawn = rehearsal::redraw(&Bng, &element, &env).unwrap();
        match redrawn {
            Redrawn::Same => {}
            Redrawn::As(instance) => {
                self.instance = instance;
                self.install(false, true);
            }
            Redrawn::Anew => panic!("a change of live keys takes a new instance"),
        }
        change(now);
    }

    /// What is said of a configuration that can not take the place of this one.
    pub fn refused(&self, config: &Value) -> Vec<String> {
        let names: Vec<&str> = self.infos.iter().map(|info| info.name.as_str()).collect();
        let env =
            Env { ports: &self.infos, interfaces: &self.interfaces, folder: None, running: Some(&*self.instance) };
        let wrong = rehearsal::change(&Bng, &element(&names, config).unwrap(), &env).err().unwrap_or_default();
        wrong.iter().map(ToString::to_string).collect()
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
        let frame = if port == CORE { self.on_the_link(frame) } else { frame };
        self.handles[port].send(frame);
    }

    /// A frame as it is on the link of the first core port.
    fn on_the_link(&self, mut frame: Vec<u8>) -> Vec<u8> {
        let at = frame.len().min(12);
        frame.splice(at..at, self.link_tags.iter().copied());
        frame
    }

    /// Sends a frame as it is, tags and all.
    pub fn send_as_is(&mut self, port: usize, frame: Vec<u8>) {
        self.handles[port].send(frame);
    }

    /// What a port sent since the last call.
    pub fn sent(&mut self, port: usize) -> Vec<Vec<u8>> {
        let mut frames = self.handles[port].received();
        if port == CORE {
            for frame in &mut frames {
                let tags: Vec<u8> = frame.drain(12..12 + self.link_tags.len()).collect();
                assert_eq!(tags, self.link_tags, "on its link");
            }
        }
        frames
    }

    pub fn mac(&self, port: usize) -> MacAddr {
        MacAddr(self.infos[port].facts.mac)
    }

    /// An IPv4 packet of a customer, with UDP, behind tags.
    pub fn customer(&self, cvlan: u16, source: &str, destination: &str) -> Vec<u8> {
        tagged(self.mac(CPE), host(cvlan), cvlan, ethernet::IPV4, &udp(source, destination, 100))
    }

    /// ARP of the host on a line.
    pub fn arp(&mut self, cvlan: u16, to: MacAddr, arp: &ArpFields) {
        self.send(CPE, tagged(to, arp.sender_mac, cvlan, ethernet::ARP, arp.to_wire().as_bytes()));
    }

    /// A request for an address by the host on a line.
    pub fn arp_request(&mut self, cvlan: u16, sender: &str, target: &str) {
        let arp = request(host(cvlan), sender, target);
        self.arp(cvlan, MacAddr::BROADCAST, &arp);
    }

    /// The reply of the host on a line.
    pub fn arp_reply(&mut self, cvlan: u16, sender: &str, mac: MacAddr) {
        let target = "10.0.0.1".parse().unwrap();
        let gateway = self.mac(CPE);
        let sender = sender.parse().unwrap();
        let arp = ArpFields { operation: Operation::Reply, sender_mac: mac, sender, target_mac: gateway, target };
        self.arp(cvlan, gateway, &arp);
    }

    /// The router of the core answers for itself.
    pub fn router_answers(&mut self) {
        let arp = ArpFields {
            operation: Operation::Reply,
            sender_mac: ROUTER_MAC,
            sender: ROUTER.parse().unwrap(),
            target_mac: self.mac(CORE),
            target: "192.0.2.1".parse().unwrap(),
        };
        let mut frame = vec![0; 60];
        arp.write(self.mac(CORE), &mut frame).unwrap();
        self.send(CORE, frame);
        self.settle();
    }

    /// A packet from the core, in a tunnel with this key.
    pub fn tunneled(&self, key: u32, packet: &[u8]) -> Vec<u8> {
        self.tunneled_as(ethernet::IPV4, key, packet)
    }

    /// The same for a packet of another protocol.
    pub fn tunneled_as(&self, ethertype: u16, key: u32, packet: &[u8]) -> Vec<u8> {
        let mut frame = [&self.mac(CORE).0[..], &ROUTER_MAC.0, &[0x88, 0x47, 0, 0, 0x11, 0x40]].concat();
        // Label 1 with the bottom bit, then the tunnel.
        let total = 28 + packet.len() as u16;
        let mut outer = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 47, 0, 0, 198, 51, 100, 9, 192, 0, 2, 1];
        outer[2..4].copy_from_slice(&total.to_be_bytes());
        ipv4::write_checksum(&mut outer);
        frame.extend(outer);
        frame.extend([0x20, 0]);
        frame.extend(ethertype.to_be_bytes());
        frame.extend(key.to_be_bytes());
        frame.extend(packet);
        frame
    }

    /// The same without a tunnel.
    pub fn untunneled(&self, packet: &[u8]) -> Vec<u8> {
        [&self.mac(CORE).0[..], &ROUTER_MAC.0, &[8, 0], packet].concat()
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

    /// Drops by stage and reason; the account must be exact.
    pub fn drops(&mut self) -> BTreeMap<String, u64> {
        self.account();
        weir_rig::drops(&mut self.engine)
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

/// The interface that has a port's addresses and tags.
pub fn interface(port: &PortSpec, tags: &[TagInfo]) -> InterfaceInfo {
    InterfaceInfo {
        name: format!("{}.tagged", port.0),
        on: Some(port.0.to_owned()),
        of: "bng".to_owned(),
        tags: tags.to_vec(),
        addresses: port.1.iter().map(|text| InterfaceAddress::parse(text).unwrap()).collect(),
        vrf: None,
        mtu: None,
        up: true,
        place: Place::line("test.lua", 3),
    }
}

/// The MAC address of the host on a line.
pub fn host(cvlan: u16) -> MacAddr {
    MacAddr([2, 0, 0, 1, 0, cvlan as u8])
}

/// A frame behind SVLAN 100 and a CVLAN.
pub fn tagged(to: MacAddr, from: MacAddr, cvlan: u16, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&to.0[..], &from.0].concat();
    for word in [ethernet::SVLAN, 100, ethernet::CVLAN, cvlan, ethertype] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// An IPv4 packet with UDP of so many bytes.
pub fn udp(source: &str, destination: &str, bytes: usize) -> Vec<u8> {
    let frame =
        UdpFrame { source: source.parse().unwrap(), destination: destination.parse().unwrap(), ..UdpFrame::default() };
    frame.to_vec(&vec![0x5a; bytes - 28]).split_off(14)
}

/// An IPv4 packet with an ICMP echo request.
pub fn echo(source: &str, destination: &str) -> Vec<u8> {
    let mut packet = udp(source, destination, 60);
    packet[9] = ipv4::ICMP;
    icmp::write_header(&mut packet[20..], icmp::ECHO, 0, icmp::echo_rest(7, 1));
    ipv4::write_checksum(&mut packet[..20]);
    packet
}

/// An ARP request of a station.
pub fn request(mac: MacAddr, sender: &str, target: &str) -> ArpFields {
    ArpFields {
        operation: Operation::Request,
        sender_mac: mac,
        sender: sender.parse().unwrap(),
        target_mac: MacAddr::ZERO,
        target: target.parse().unwrap(),
    }
}

/// ARP in what a port sent to a line, with its Ethernet destination and CVLAN.
pub fn arps(frames: &[Vec<u8>]) -> Vec<(MacAddr, u16, ArpFields)> {
    let arps = frames.iter().filter(|frame| frame[20..22] == ethernet::ARP.to_be_bytes());
    arps.map(|frame| {
        assert_eq!(frame[12..16], [0x88, 0xa8, 0, 100]);
        let cvlan = u16::from_be_bytes([frame[18], frame[19]]);
        (MacAddr(frame[..6].try_into().unwrap()), cvlan, ArpFields::parse(&frame[22..]).unwrap())
    })
    .collect()
}
