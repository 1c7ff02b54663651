//! Stages with a few subscribers, routes and ports, and frames for them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use weir_ip::LineTally;
use weir_mem::Domain;
use weir_packet::{Key, Slot};
use weir_port_mem::MemPort;
use weir_simd::Kernel;
use weir_stage::harness::{Harness, Outcome};
use weir_stage::{AnyFunction, Env, Ground, Port, PortFacts, PortInfo};
use weir_wire::{MacAddr, ethernet};

use crate::Bng;
use crate::across::{Across, ReachOf};
use crate::core::Core;
use crate::downstream::{self, Down};
use crate::identification::{Identifications, Sequence};
use crate::loss::reasons;
use crate::marking::Marking;
use crate::ports::{BngPort, Ports, Side};
use crate::punt::{Policer, Rates};
use crate::running::Running;
use crate::table::counters::{Counters, Sums};
use crate::table::{
    Address, BindingFields, BindingKey, Limits, Sources4, Sources6, Stations, SubscriberFields, Tables, Tags,
};
use crate::upstream::{self, Up};

use super::graphs::{PORTS, element};

/// The ports' addresses: 02:00:00:00:00:01 towards customers, 02:00:00:00:00:02 towards the core.
pub(super) const ACCESS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(super) const CORE: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// Indices of the ports in the whole configuration.
pub(super) const ACCESS_INDEX: u16 = 4;
pub(super) const CORE_INDEX: u16 = 2;
/// The gateway's end of tunnels.
pub(super) const LOCAL: [u8; 4] = [21, 22, 23, 24];
/// Its address towards customers.
pub(super) const OWN: [u8; 4] = [10, 0, 0, 1];
pub(super) const TPID: u16 = ethernet::SVLAN;
pub(super) const MTU: u16 = 1500;

/// A subscriber of the tests.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) svlan: u16,
    pub(super) cvlan: u16,
    pub(super) key: u32,
    pub(super) source: [u8; 4],
    pub(super) length: u8,
    /// A further address that was learned, which needs a lookup.
    pub(super) learned: Option<[u8; 4]>,
    /// The only MAC address it may use.
    pub(super) mac: Option<MacAddr>,
    /// Whom packets to its first address go to, if that is known.
    pub(super) host: Option<MacAddr>,
}

/// Subscribers with tags at the edges, equal addresses, fixed addresses.
pub(super) fn lines() -> Vec<Line> {
    let line = |svlan, cvlan, key, source, length| Line {
        svlan,
        cvlan,
        key,
        source,
        length,
        learned: None,
        mac: None,
        host: Some(MacAddr([2, 0, 0, 1, cvlan as u8, 1])),
    };
    vec![
        line(1, 1, 7, [10, 0, 0, 9], 32),
        line(1, 4094, 0xffff_ffff, [10, 0, 0, 9], 32),
        line(4094, 1, 0, [10, 0, 1, 0], 29),
        Line { learned: Some([10, 0, 2, 77]), ..line(100, 200, 0x0001_0000, [10, 0, 2, 1], 32) },
        Line { mac: Some(MacAddr([2, 0, 0, 1, 9, 9])), ..line(100, 201, 0x0100, [10, 0, 3, 1], 32) },
        Line { host: None, ..line(100, 202, 0x0101, [10, 0, 4, 1], 32) },
    ]
}

/// A route of the tests: prefix, length, gateway.
pub(super) const ROUTES: &[([u8; 4], u8, usize)] = &[
    ([192, 0, 2, 0], 24, 0),
    ([192, 0, 2, 128], 25, 1),
    ([198, 51, 100, 0], 24, 2),
    ([198, 51, 100, 7], 32, 3),
    ([203, 0, 113, 0], 24, 4),
];

/// A gateway of the tests.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) labels: Vec<(u32, u8, u8)>,
    pub(super) address: [u8; 4],
    pub(super) mac: Option<MacAddr>,
    pub(super) mtu: u16,
}

/// Gateways with no label to three, one whose address is not known, one with a small MTU.
pub(super) fn gateways() -> Vec<Way> {
    let way = |n: u8, labels: &[(u32, u8, u8)]| Way {
        labels: labels.to_vec(),
        address: [198, 18, 0, n],
        mac: Some(MacAddr([2, 0, 0, 2, 0, n])),
        mtu: MTU,
    };
    vec![
        way(1, &[(0x12010, 5, 63)]),
        way(2, &[]),
        way(3, &[(16, 0, 1), (0xf_ffff, 7, 255), (17, 3, 64)]),
        Way { mac: None, ..way(4, &[(99, 0, 64)]) },
        Way { mtu: 576, ..way(5, &[(98, 0, 64), (97, 0, 64)]) },
    ]
}

/// Both stages over the same tables.
pub(super) struct Rig<const TUNNEL: bool> {
    pub(super) up: Harness<Up<TUNNEL>>,
    pub(super) down: Harness<Down<TUNNEL>>,
    counters: Arc<Counters>,
    // Workers read what it writes.
    _tables: Tables,
}

pub(super) fn key(scope: u32, address: [u8; 4]) -> BindingKey {
    BindingKey::new(scope, Address::V4(Ipv4Addr::from(address)))
}

/// No bound on what goes to the slow path that any test reaches.
pub(super) const MANY: Rates = Rates { all: 1 << 40, each: u64::MAX, subscribers: 64 };

impl<const TUNNEL: bool> Rig<TUNNEL> {
    pub(super) fn new() -> Rig<TUNNEL> {
        Rig::on(Kernel::detect(), MANY)
    }

    pub(super) fn on(kernel: Kernel, rates: Rates) -> Rig<TUNNEL> {
        let domain = Domain::new();
        let limits = Limits {
            subscribers: 64,
            bindings: 64,
            svlans: 16,
            prefix_length: 64,
            is_balanced: false,
            has_keys: TUNNEL,
        };
        let mut tables = Tables::new(limits, 1, &domain, 7).unwrap();
        for (number, line) in (0..).zip(lines()) {
            enter::<TUNNEL>(&mut tables, number, &line);
        }
        let ports = Arc::new(Ports::new(vec![
            port("cpe", ACCESS_INDEX, ACCESS, Side::Access),
            port("core", CORE_INDEX, CORE, Side::Core),
        ]));
        let (core, tally) = core::<TUNNEL>(&domain);
        let counters = Counters::new(64, 1, reasons(), 0);
        let worker = counters.acquire().unwrap();
        let kind = Key::new(0).unwrap();
        let down = || downstream::Shared {
            subscribers: Arc::clone(tables.shared()),
            ports: Arc::clone(&ports),
            counters: Arc::clone(&worker),
            tally: Arc::clone(&tally),
            marking: Marking::new(remarked, priority),
            local: u32::from_be_bytes(LOCAL),
            core: core.clone(),
            own6: Vec::new(),
        };
        let up = upstream::Shared {
            subscribers: Arc::clone(tables.shared()),
            core: core.clone(),
            ports: Arc::clone(&ports),
            counters: Arc::clone(&worker),
            tally: Arc::clone(&tally),
            across: Across { down: down(), reach: ReachOf::All },
            tpid: TPID,
        };
        let policer = |punted| Policer::new(punted, rates).unwrap();
        let mut up = Harness::reading(
            Up::<TUNNEL>::new(
                up,
                kernel,
                policer(upstream::PUNTED),
                kind,
                Identifications::new(&Sequence::default(), false),
            ),
            &domain,
        );
        let mut down =
            Harness::reading(Down::<TUNNEL>::new(down(), kernel, policer(downstream::PUNTED), kind, None), &domain);
        for slot in (0..weir_packet::BATCH).map(Slot::new) {
            up.lanes().port[slot] = ACCESS_INDEX;
            down.lanes().port[slot] = CORE_INDEX;
        }
        Rig { up, down, counters, _tables: tables }
    }

    /// One packet from a customer.
    pub(super) fn up(&mut self, frame: &[u8]) -> (String, Vec<u8>) {
        only(self.up.run(0, &[frame]))
    }

    /// One packet from the core.
    pub(super) fn down(&mut self, frame: &[u8]) -> (String, Vec<u8>) {
        only(self.down.run(0, &[frame]))
    }

    pub(super) fn counted(&self, subscriber: u32) -> Sums {
        self.counters.sum(subscriber)
    }
}

/// DSCPs of packets to customers are changed in these tests: 10 becomes 0.
pub(super) fn remarked(dscp: u8) -> u8 {
    if dscp == 10 { 0 } else { dscp }
}

/// The priority of a DSCP, after that change.
pub(super) fn priority(dscp: u8) -> u8 {
    dscp >> 3
}

/// The way and bytes of the only packet of an outcome.
fn only(outcome: Outcome) -> (String, Vec<u8>) {
    let mut ways = outcome.ways.into_iter();
    let (way, mut packets) = ways.next().unwrap();
    assert!(ways.next().is_none() && packets.len() == 1);
    (way, packets.remove(0))
}

fn port(name: &str, index: u16, mac: MacAddr, side: Side) -> BngPort {
    BngPort { name: name.to_owned(), index, mac, mtu: MTU, side }
}

/// The core side of a gateway with the routes and gateways of the tests, and what counts by its interfaces.
fn core<const TUNNEL: bool>(domain: &Domain) -> (Core, Arc<LineTally>) {
    let address = |address: [u8; 4]| Ipv4Addr::from(address).to_string();
    let named = |(n, way): (usize, &Way)| {
        let entry = |&(label, tc, ttl): &(u32, u8, u8)| json!({ "label": label, "tc": tc, "ttl": ttl });
        let labels: Vec<Value> = way.labels.iter().filter(|_| TUNNEL).map(entry).collect();
        let mut keys = json!({ "port": "core", "address": address(way.address), "labels": labels, "mtu": way.mtu });
        if let Some(mac) = way.mac {
            keys["mac"] = json!(mac.to_string());
        }
        (format!("g{n}"), keys)
    };
    let gateways: Map<String, Value> = gateways().iter().enumerate().map(named).collect();
    let route = |(prefix, length, gateway): &([u8; 4], u8, usize)| {
        (format!("{}/{length}", address(*prefix)), json!(format!("g{gateway}")))
    };
    let routes: Map<String, Value> = ROUTES.iter().map(route).collect();
    let config = json!({
        "access": ["cpe"], "core": ["core"], "core_encapsulation": if TUNNEL { "gre+mpls" } else { "ip" },
        "local_address": address(LOCAL), "addresses": [format!("{}/16", address(OWN))],
        "gateways": gateways, "routes": routes, "limits": { "subscribers": 8, "bindings": 16 },
    });
    let info = |(name, index, mac): (&str, u16, MacAddr)| PortInfo {
        name: name.to_owned(),
        index,
        facts: PortFacts { mac: mac.0, mtu: MTU, ..MemPort::fed(name).0.facts() },
        addresses: Vec::new(),
        vrf: None,
        link_up: true,
    };
    let infos: Vec<PortInfo> = PORTS
        .into_iter()
        .zip([ACCESS_INDEX, CORE_INDEX])
        .zip([ACCESS, CORE])
        .map(|((name, index), mac)| info((name, index, mac)))
        .collect();
    let env = Env { ports: &infos, interfaces: &[], folder: None, running: None };
    let configured = Bng.configure(&element(&config)).unwrap();
    let instance = configured.instantiate(&env, &Ground { domain, now: 0 }).unwrap();
    let running = instance.downcast_ref::<Running>().unwrap();
    let core = running.core().unwrap();
    assert!(core.prepare());
    (core, Arc::new(running.layer.line_tally().unwrap()))
}

fn enter<const TUNNEL: bool>(tables: &mut Tables, number: u32, line: &Line) {
    let tags = Tags { port: 0, svlan: line.svlan, cvlan: line.cvlan };
    let scope = if TUNNEL { line.key } else { 0 };
    let prefix = format!("{}/{}", Ipv4Addr::from(line.source), line.length);
    let fields = SubscriberFields {
        number,
        tags,
        key: line.key,
        scope,
        user: number,
        ipv4: Sources4::of(prefix.parse().unwrap()),
        ipv6: Sources6::NONE,
        mac: line.mac,
    };
    tables.set_subscriber(&fields).unwrap();
    let first = if line.length == 32 { line.source } else { first_host(line.source) };
    let both = [Some((first, line.host)), line.learned.map(|address| (address, line.host))];
    for (address, mac) in both.into_iter().flatten() {
        let fields = BindingFields {
            key: key(scope, address),
            mac,
            tags,
            tpid: TPID,
            subscriber: number,
            stations: Stations::Routed,
            owner: 0,
        };
        tables.set_binding(&fields).unwrap();
    }
}

/// The second address of a prefix.
pub(super) fn first_host([a, b, c, d]: [u8; 4]) -> [u8; 4] {
    [a, b, c, d + 1]
}
