//! A relay between ports in memory, under the virtual clock.
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
use weir_config::{ConfigError, Element, Folder, InterfaceAddress, Place, Scalar};
use weir_engine::{Account, Blueprint, Distributor, Engine, GraphPart, Idle, Settings};
use weir_lwaftr::Lwaftr;
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME};
use weir_port_mem::{MemHandle, MemPort};
use weir_rig::{assert_home, declared};
use weir_stage::{Env, Ground, Instance, InterfaceInfo, Port, PortInfo, TagInfo, rehearsal};
use weir_wire::ipv4;

pub use weir_rig::all_rows;

pub const SECOND: u64 = 1_000_000_000;

/// A port of a test.
#[derive(Clone)]
pub struct PortSpec {
    pub name: &'static str,
    pub addresses: Vec<String>,
    pub mac: [u8; 6],
    pub mtu: u16,
}

/// The MAC addresses of the ports, and of the routers behind them.
pub const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 1, 2]];
pub const ROUTERS: [[u8; 6]; 2] = [[2, 0, 0, 0, 2, 1], [2, 0, 0, 0, 2, 2]];

/// The ports.
pub const INTERNET: usize = 0;
pub const ACCESS: usize = 1;

/// The relay's end of tunnels, and others.
pub const AFTR: &str = "2001:db8:a::1";

/// A customer's end of tunnels, and somebody on the Internet.
pub const B4: &str = "2001:db8:c::1";
pub const HOST: &str = "198.51.100.3";

/// What a customer sends from a port to [`HOST`], in a tunnel with these ends.
pub fn up(b4: &str, aftr: &str, port: u16) -> Vec<u8> {
    six(b4, aftr, 4, 64, &four("203.0.113.1", HOST, 17, 64, &udp(port, 53, 30)))
}

/// One port on each side.
pub fn two() -> Vec<PortSpec> {
    let port = |name, address: &str, mac| PortSpec { name, addresses: vec![address.to_owned()], mac, mtu: 1500 };
    vec![port("internet", "192.0.2.1/24", MACS[0]), port("access", "2001:db8:f::1/64", MACS[1])]
}

/// Three softwires: two of one address, and one that has an address alone.
pub fn usual() -> Value {
    json!({
        "aftr": [AFTR, "2001:db8:a::2"],
        "softwires": [
            { "ipv4": "203.0.113.1", "psid": 1, "psid_length": 4, "b4": "2001:db8:c::1" },
            { "ipv4": "203.0.113.1", "psid": 2, "psid_length": 4, "b4": "2001:db8:c::2", "aftr": "2001:db8:a::2" },
            { "ipv4": "203.0.113.9", "b4": "2001:db8:c::9" },
        ],
        "routes": { "0.0.0.0/0": "192.0.2.9", "2001:db8:c::/48": "2001:db8:f::9" },
        "neighbors": { "192.0.2.9": "02:00:00:00:02:01", "2001:db8:f::9": "02:00:00:00:02:02" },
        "neighbor_timers": { "own_probes": 0 },
    })
}

pub struct Rig {
    pub engine: Engine,
    pub instance: Box<dyn Instance>,
    pub infos: Vec<PortInfo>,
    pub interfaces: Vec<InterfaceInfo>,
    pub handles: Vec<MemHandle>,
    pub domain: Domain,
    pub pool: HeapPool,
    /// What ports sent before there was anything to do.
    pub first: [Vec<Vec<u8>>; 2],
    ports: Vec<MemPort>,
    /// Workers that relay; where there are several, one more is before them.
    owners: u8,
}

/// The checked declaration of a relay between ports of these names.
pub fn element(ports: &[&str], config: &Value) -> Result<Arc<Element>, Vec<ConfigError>> {
    let mut config = config.clone();
    let keys = config.as_object_mut().unwrap();
    keys.entry("ports").or_insert(json!(ports));
    keys.entry("table_limits").or_insert(json!({ "softwires": 4096, "addresses": 1024 }));
    declared(&Lwaftr::USUAL, ports, &config)
}

/// An interface of the relay with a VLAN tag on a port.
pub fn interface(name: &str, on: &str, vlan: u16, addresses: &[&str]) -> InterfaceInfo {
    InterfaceInfo {
        name: name.to_owned(),
        on: Some(on.to_owned()),
        of: "lwaftr".to_owned(),
        tags: vec![TagInfo { tpid: 0x8100, vlan }],
        addresses: addresses.iter().map(|text| InterfaceAddress::parse(text).unwrap()).collect(),
        vrf: None,
        mtu: None,
        up: true,
        place: Place::line("test.lua", 3),
    }
}

fn infos(ports: &[PortSpec], opened: &[MemPort]) -> Vec<PortInfo> {
    let info = |(index, (spec, port)): (usize, (&PortSpec, &MemPort))| PortInfo {
        name: spec.name.to_owned(),
        index: index as u16,
        facts: port.facts(),
        addresses: spec.addresses.iter().map(|text| InterfaceAddress::parse(text).unwrap()).collect(),
        vrf: None,
        link_up: true,
    };
    ports.iter().zip(opened).enumerate().map(info).collect()
}

/// What is wrong with a configuration.
pub fn wrong(config: &Value, folder: Option<&Folder>) -> Vec<String> {
    let specs = two();
    let opened: Vec<MemPort> = specs.iter().map(|spec| MemPort::fed(spec.name).0.with_mac(spec.mac)).collect();
    let infos = infos(&specs, &opened);
    let domain = Domain::new();
    let env = Env { ports: &infos, interfaces: &[], folder, running: None };
    let ground = Ground { domain: &domain, now: 0 };
    let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
    let built = element(&names, config).and_then(|element| rehearsal::build(&Lwaftr::USUAL, &element, &env, &ground));
    built.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

impl Rig {
    pub fn new(config: Value) -> Rig {
        Rig::with(&two(), Vec::new(), config)
    }

    pub fn with(ports: &[PortSpec], interfaces: Vec<InterfaceInfo>, config: Value) -> Rig {
        Rig::on(1, ports, interfaces, config)
    }

    /// One where so many workers relay, in the layout `distributor` if there are several.
    pub fn on(owners: u8, ports: &[PortSpec], interfaces: Vec<InterfaceInfo>, config: Value) -> Rig {
        Rig::built(&Lwaftr::USUAL, owners, ports, interfaces, config, true).started()
    }

    /// One without a fast path.
    pub fn by_the_letter(config: Value) -> Rig {
        Rig::built(&Lwaftr::BY_THE_LETTER, 1, &two(), Vec::new(), config, true).started()
    }

    fn started(mut self) -> Rig {
        // Own addresses are tried first.
        self.run(3 * SECOND);
        self.first = [0, 1].map(|port| self.handles.get(port).map(MemHandle::received).unwrap_or_default());
        self
    }

    /// One whose worker runs by itself, by the clock on the wall.
    pub fn live(config: Value) -> Rig {
        Rig::built(&Lwaftr::USUAL, 1, &two(), Vec::new(), config, false)
    }

    fn built(
        function: &'static Lwaftr,
        owners: u8,
        ports: &[PortSpec],
        interfaces: Vec<InterfaceInfo>,
        mut config: Value,
        virtual_clock: bool,
    ) -> Rig {
        let workers = usize::from(owners) + usize::from(owners > 1);
        if owners > 1 {
            config["layout"] = json!("distributor");
            config["workers"] = json!((0..workers).collect::<Vec<usize>>());
        }
        let domain = Domain::new();
        let pool = HeapPool::new(8192, MAX_FRAME);
        let (opened, handles): (Vec<_>, Vec<_>) = ports
            .iter()
            .map(|spec| {
                let (port, handle) = MemPort::fed(spec.name);
                (port.with_mtu(spec.mtu).with_mac(spec.mac), handle)
            })
            .unzip();
        let infos = infos(ports, &opened);
        let names: Vec<&str> = ports.iter().map(|spec| spec.name).collect();
        let env = Env { ports: &infos, interfaces: &interfaces, folder: None, running: None };
        let ground = Ground { domain: &domain, now: 0 };
        let told = |errors: Vec<ConfigError>| panic!("{}", errors.iter().map(|e| format!("{e}\n")).collect::<String>());
        let element = element(&names, &config).unwrap_or_else(told);
        let instance = rehearsal::build(function, &element, &env, &ground)
            .unwrap_or_else(|errors| panic!("{}", errors.iter().map(|e| format!("{e}\n")).collect::<String>()));
        let settings = Settings {
            cores: vec![None; workers],
            idle: Idle::Spin,
            virtual_clock,
            hook: None,
            sample_every: weir_engine::SAMPLE_EVERY,
        };
        let engine = Engine::start(settings, &pool, &domain).unwrap();
        let first = [Vec::new(), Vec::new()];
        let mut rig = Rig { engine, instance, infos, interfaces, handles, domain, pool, first, ports: opened, owners };
        rig.install(true);
        rig
    }

    fn install(&mut self, fresh: bool) {
        let parts = weir_rig::port_parts(&mut self.ports, &self.infos, 0, fresh.then_some(&self.pool));
        let (owners, is_spread) = (usize::from(self.owners), self.owners > 1);
        let part = |replica: usize| GraphPart {
            graph: self.instance.graph(replica).unwrap(),
            replica,
            workers: vec![replica + usize::from(is_spread)],
            receives: !is_spread,
            keep: HashSet::new(),
        };
        let graphs = (0..owners).map(part).collect();
        let spreader = Distributor {
            name: "lwaftr.distribute".to_owned(),
            // Made when it is installed, as the program does.
            stage: {
                let made = std::cell::RefCell::new(self.instance.spreader(self.owners));
                Box::new(move || made.borrow_mut().take().unwrap())
            },
            worker: 0,
            replicas: (0..owners).collect(),
            keep: false,
        };
        let distributors = Vec::from_iter(is_spread.then_some(spreader));
        let workers = owners + usize::from(is_spread);
        self.engine.install(Blueprint { workers, ports: parts, graphs, distributors, ..Blueprint::default() }).unwrap();
    }

    /// Changes live keys.
    pub fn reload(&mut self, config: &Value) {
        let names: Vec<String> = self.infos.iter().map(|info| info.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let now = self.engine.now();
        let env =
            Env { ports: &self.infos, interfaces: &self.interfaces, folder: None, running: Some(&*self.instance) };
        let change = rehearsal::change(&Lwaftr::USUAL, &element(&names, config).unwrap(), &env).unwrap();
        change(now);
    }

    /// Replaces the instance by one of another configuration, as a reload does that rebuilds.
    pub fn rebuild(&mut self, config: &Value) {
        let names: Vec<String> = self.infos.iter().map(|info| info.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let now = self.engine.now();
        let env =
            Env { ports: &self.infos, interfaces: &self.interfaces, folder: None, running: Some(&*self.instance) };
        let ground = Ground { domain: &self.domain, now };
        self.instance = rehearsal::build(&Lwaftr::USUAL, &element(&names, config).unwrap(), &env, &ground).unwrap();
        self.install(false);
    }

    /// Lets time pass.
    pub fn run(&mut self, nanos: u64) {
        weir_rig::run(&mut self.engine, nanos);
    }

    /// Lets so little time pass that no timer matters.
    pub fn settle(&mut self) {
        self.run(1_000_000);
    }

    /// Sends IP packets in frames to the relay on a port; answers what both ports send then.
    pub fn pass(&mut self, port: usize, packets: &[Vec<u8>]) -> [Vec<Vec<u8>>; 2] {
        let frames: Vec<Vec<u8>> = packets.iter().map(|packet| framed(port, packet)).collect();
        self.pass_frames(port, frames)
    }

    pub fn pass_frames(&mut self, port: usize, frames: Vec<Vec<u8>>) -> [Vec<Vec<u8>>; 2] {
        self.handles[port].send_all(frames);
        self.settle();
        [0, 1].map(|port| self.handles[port].received())
    }

    pub fn request(&self, verb: &str, arguments: Value) -> Result<Value, String> {
        self.instance.request(verb, &arguments, self.engine.now()).map_err(|error| error.0)
    }

    pub fn show(&self, what: &str, filter: Option<&str>) -> Vec<Value> {
        all_rows(self.instance.show(what, filter, self.engine.now()).unwrap())
    }

    /// What the relay counted, by names with `-packets` and `-bytes`.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for row in self.show("relay", None) {
            let name = row["count"].as_str().unwrap();
            let (packets, bytes) = (row["packets"].as_u64().unwrap(), row["bytes"].as_u64().unwrap());
            if name.contains("v4-frag") || name.contains("v6-frag") {
                counts.insert(name.to_owned(), packets);
            } else {
                counts.insert(format!("{name}-packets"), packets);
                counts.insert(format!("{name}-bytes"), bytes);
            }
        }
        counts.retain(|_, count| *count > 0);
        counts
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

/// A frame to the relay with an IP packet.
pub fn framed(port: usize, packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&MACS[port][..], &ROUTERS[port], &ethertype, packet].concat()
}

/// An IPv4 packet.
pub fn four(from: &str, to: &str, protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, ttl, protocol, 0, 0];
    packet.extend(address(from));
    packet.extend(address(to));
    packet.extend(payload);
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    ipv4::write_checksum(&mut packet);
    packet
}

/// A UDP datagram between ports, without a checksum.
pub fn udp(from: u16, to: u16, data: usize) -> Vec<u8> {
    let mut datagram = [from.to_be_bytes(), to.to_be_bytes(), (8 + data as u16).to_be_bytes(), [0; 2]].concat();
    datagram.extend((0..data).map(|n| n as u8));
    datagram
}

/// An IPv6 packet.
pub fn six(from: &str, to: &str, next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, hops]);
    packet.extend(address(from));
    packet.extend(address(to));
    packet.extend(payload);
    packet
}
