//! Tunnels between ports in memory, under the virtual clock.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared by tests, each of which uses a part of it; a failed unwrap fails the test"
)]

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use serde_json::{Value, json};
use weir_config::{InterfaceAddress, Place, Scalar};
use weir_engine::{Account, Blueprint, Engine, GraphPart};
use weir_mem::Domain;
use weir_packet::{HeapPool, MAX_FRAME};
use weir_port_mem::{MemHandle, MemPort};
use weir_stage::{Env, Ground, Instance, InterfaceInfo, PortInfo, TagInfo, rehearsal};
use weir_vxlan::Vxlan;
use weir_wire::{checksum, ipv4};

/// The ports, by position.
pub const WAN: usize = 0;
pub const RED: usize = 1;
pub const BLUE: usize = 2;
pub const SIX: usize = 3;
const NAMES: [&str; 4] = ["wan", "red", "blue", "six"];

pub const MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
pub const ROUTER: [u8; 6] = [2, 0, 0, 0, 2, 1];

/// The MTU of the port that leads to the other ends.
pub const MTU: u16 = 1500;

/// Three tunnels: one to a neighbour, one behind a router that may have tags, one over IPv6.
pub fn usual() -> Value {
    json!({
        "ports": ["wan"],
        "tunnels": {
            "red": { "vni": 100, "source": "192.0.2.1", "remote": "192.0.2.9" },
            "blue": { "vni": 0x00ab_cdef, "source": "192.0.2.1", "remote": "198.51.100.7", "tagged": true, "ttl": 9, "dscp": 46 },
            "six": { "vni": 100, "source": "2001:db8::1", "remote": "2001:db8:9::9", "dscp": 46 },
        },
        "routes": { "198.51.100.0/24": "192.0.2.9", "2001:db8:9::/48": "2001:db8::9" },
        "neighbors": { "192.0.2.9": "02:00:00:00:02:01", "2001:db8::9": "02:00:00:00:02:01" },
        "neighbor_timers": { "own_probes": 0 },
    })
}

pub struct Rig {
    pub engine: Engine,
    instance: Box<dyn Instance>,
    handles: Vec<MemHandle>,
    pool: HeapPool,
    ports: Vec<MemPort>,
}

fn infos(opened: &[MemPort]) -> Vec<PortInfo> {
    let addresses = ["192.0.2.1/24", "2001:db8::1/64"].map(|text| InterfaceAddress::parse(text).unwrap());
    let mut infos = weir_rig::port_infos(&NAMES, opened);
    infos[WAN].addresses = addresses.to_vec();
    infos
}

fn opened() -> (Vec<MemPort>, Vec<MemHandle>) {
    let open = |name: &&str| {
        let (port, handle) = MemPort::fed(name);
        (port.with_mtu(MTU).with_mac(MAC), handle)
    };
    NAMES.iter().map(open).unzip()
}

/// An interface with a VLAN tag on the port that leads to the other ends.
pub fn tagged(name: &str, vlan: u16, address: &str) -> InterfaceInfo {
    InterfaceInfo {
        name: name.to_owned(),
        on: Some("wan".to_owned()),
        of: "vxlan".to_owned(),
        tags: vec![TagInfo { tpid: 0x8100, vlan }],
        addresses: vec![InterfaceAddress::parse(address).unwrap()],
        vrf: None,
        mtu: None,
        up: true,
        place: Place::line("test.lua", 3),
    }
}

/// What is wrong with a configuration.
pub fn wrong(config: &Value) -> Vec<String> {
    let (ports, _handles) = opened();
    let (infos, domain) = (infos(&ports), Domain::new());
    let env = Env { ports: &infos, interfaces: &[], folder: None, running: None };
    let ground = Ground { domain: &domain, now: 0 };
    let built = weir_rig::declared(&Vxlan, &NAMES, config)
        .and_then(|element| rehearsal::build(&Vxlan, &element, &env, &ground));
    weir_rig::told(built)
}

impl Rig {
    pub fn new(config: &Value) -> Rig {
        Rig::with(config, &[])
    }

    /// One with further interfaces.
    pub fn with(config: &Value, interfaces: &[InterfaceInfo]) -> Rig {
        let (mut ports, handles) = opened();
        let (infos, domain) = (infos(&ports), Domain::new());
        let pool = HeapPool::new(4096, MAX_FRAME);
        let env = Env { ports: &infos, interfaces, folder: None, running: None };
        let ground = Ground { domain: &domain, now: 0 };
        let element = weir_rig::built(weir_rig::declared(&Vxlan, &NAMES, config));
        let instance = weir_rig::built(rehearsal::build(&Vxlan, &element, &env, &ground));
        let mut engine = weir_rig::engine(1, &pool, &domain);
        let parts = weir_rig::port_parts(&mut ports, &infos, 0, Some(&pool));
        let graph = instance.graph(0).unwrap();
        let graph = GraphPart { graph, replica: 0, workers: vec![0], receives: true, keep: HashSet::new() };
        engine.install(Blueprint { workers: 1, ports: parts, graphs: vec![graph], ..Blueprint::default() }).unwrap();
        let mut rig = Rig { engine, instance, handles, pool, ports };
        // Own addresses are tried first.
        weir_rig::run(&mut rig.engine, 3 * weir_rig::SECOND);
        rig.received();
        rig
    }

    /// Hands frames to a port; answers what all ports send then.
    pub fn pass(&mut self, port: usize, frames: Vec<Vec<u8>>) -> [Vec<Vec<u8>>; 4] {
        self.pass_together(vec![(port, frames)])
    }

    /// The same of several ports at once, whose frames come into one batch.
    pub fn pass_together(&mut self, came: Vec<(usize, Vec<Vec<u8>>)>) -> [Vec<Vec<u8>>; 4] {
        came.into_iter().for_each(|(port, frames)| self.handles[port].send_all(frames));
        weir_rig::run(&mut self.engine, weir_rig::MS);
        self.received()
    }

    fn received(&self) -> [Vec<Vec<u8>>; 4] {
        [0, 1, 2, 3].map(|port| self.handles[port].received())
    }

    pub fn request(&self, verb: &str, arguments: &Value) -> Result<Value, String> {
        self.instance.request(verb, arguments, self.engine.now()).map_err(|error| error.0)
    }

    pub fn show(&self, filter: Option<&str>) -> Result<Vec<Value>, String> {
        let rows = self.instance.show("vxlans", filter, self.engine.now()).map_err(|error| error.0)?;
        Ok(weir_rig::all_rows(rows))
    }

    /// Packets dropped by the stages of tunnels, by stage and reason; the account must be exact.
    pub fn drops(&mut self) -> BTreeMap<String, u64> {
        weir_rig::account(&mut self.engine);
        let mut drops = weir_rig::drops(&mut self.engine);
        drops.retain(|_, packets| *packets > 0);
        drops
    }

    /// Stops the engine; every buffer must have come home.
    pub fn finish(self) -> Account {
        let Rig { engine, pool, instance, ports, .. } = self;
        let all = weir_rig::stop(engine);
        drop((instance, ports));
        weir_rig::assert_home(&pool);
        all
    }
}

/// An Ethernet frame with so many bytes of a protocol that is none of IP.
pub fn plain(length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 0x88, 0xb5];
    frame.extend((14..length).map(|n| n as u8));
    frame
}

/// A frame with an IP packet.
pub fn frame(packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&[2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa][..], &ethertype, packet].concat()
}

/// A packet on the wire between ends, by RFC 791, 8200, 768 and 7348 field by field.
#[derive(Clone, Debug)]
pub struct Outer {
    pub from: IpAddr,
    pub to: IpAddr,
    pub class: u8,
    pub ttl: u8,
    pub port: u16,
    pub to_port: u16,
    /// The UDP checksum: absent, right, or wrong.
    pub checksum: Option<bool>,
    pub flags: u8,
    /// 24 bits behind the flags, and 8 behind the VNI.
    pub reserved: [u8; 4],
    pub vni: u32,
    pub flags_offset: u16,
}

impl Outer {
    /// From the other end of a tunnel.
    pub fn from(from: &str, to: &str, vni: u32) -> Outer {
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        let (flags, reserved) = (8, [0; 4]);
        Outer {
            from,
            to,
            class: 0,
            ttl: 64,
            port: 50_000,
            to_port: 4789,
            checksum: None,
            flags,
            reserved,
            vni,
            flags_offset: 0,
        }
    }

    /// What `red` receives, `blue`, and `six`.
    pub fn red() -> Outer {
        Outer::from("192.0.2.9", "192.0.2.1", 100)
    }

    pub fn blue() -> Outer {
        Outer::from("198.51.100.7", "192.0.2.1", 0x00ab_cdef)
    }

    pub fn six() -> Outer {
        Outer::from("2001:db8:9::9", "2001:db8::1", 100)
    }

    /// The IP packet with a frame in it.
    pub fn packet(&self, frame: &[u8]) -> Vec<u8> {
        let [a, b, c, d] = self.reserved;
        let vni = self.vni.to_be_bytes();
        let vxlan = [self.flags, a, b, c, vni[1], vni[2], vni[3], d];
        let length = (16 + frame.len()) as u16;
        let mut udp = [self.port.to_be_bytes(), self.to_port.to_be_bytes(), length.to_be_bytes(), [0; 2]].concat();
        udp.extend(vxlan);
        udp.extend(frame);
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let (from, to) = (octets(self.from), octets(self.to));
        if let Some(is_right) = self.checksum {
            let pseudo = [&from[..], &to, &17_u16.to_be_bytes(), &length.to_be_bytes(), &udp].concat();
            let sum = checksum::checksum(&pseudo);
            let sum = if sum == 0 { 0xffff } else { sum };
            // A wrong one is never 0, which says that there is none.
            let wrong = if sum == 0x0100 { 0x0200 } else { sum ^ 0x0100 };
            let sum = if is_right { sum } else { wrong };
            udp[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        let [f0, f1] = self.flags_offset.to_be_bytes();
        if from.len() == 16 {
            let [l0, l1] = length.to_be_bytes();
            let start = [0x60 | self.class >> 4, self.class << 4, 0, 0, l0, l1, 17, self.ttl];
            return [&start[..], &from, &to, &udp].concat();
        }
        let [t0, t1] = (20 + length).to_be_bytes();
        let start = [0x45, self.class, t0, t1, 0, 0, f0, f1, self.ttl, 17, 0, 0];
        let mut packet = [&start[..], &from, &to, &udp].concat();
        ipv4::write_checksum(&mut packet);
        packet
    }

    /// As it comes to the function.
    pub fn framed(&self, frame: &[u8]) -> Vec<u8> {
        let ethertype = if self.from.is_ipv6() { [0x86, 0xdd] } else { [8, 0] };
        [&MAC[..], &ROUTER, &ethertype, &self.packet(frame)].concat()
    }
}
