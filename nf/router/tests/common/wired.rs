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

/// What tests need to know of a family beside its steps.
pub struct Family {
    pub steps: Steps,
    /// A valid frame to a station that may go so many hops, from this source port: to a place that [`Family::shared`] leads to.
    pub plain: fn(MacAddr, u8, u16) -> Vec<u8>,
    /// A frame as it is sent on by the second port, from and to these stations.
    pub sent: fn(&[u8], MacAddr, MacAddr) -> Vec<u8>,
    /// Where the hops stand in a frame.
    pub hops: usize,
    /// A group of stations, and why frames to one are dropped.
    pub group: MacAddr,
    pub to_group: &'static str,
    /// A route to three of the next hops.
    pub shared: Value,
}

/// The check lets frames to any station pass where it is told to, but none to a group.
pub fn any_station_may_be_meant(family: &Family) {
    let Family { steps, plain, .. } = family;
    let bench = Bench::new(steps.ports);
    let (ours, others) = (bench.mac(0), MacAddr([2, 9, 9, 9, 9, 9]));
    let frames: Vec<Vec<u8>> = [ours, others, MacAddr::BROADCAST, family.group].map(|to| plain(to, 64, 1)).into();
    for at in [1, 2, 3] {
        // Alone and together with others: by the vector kernel and one by one.
        let strict = run(&*bench.make(steps.check, &json!({})).unwrap(), &frames[..=at]);
        assert_eq!(strict["out"], frames[..1]);
        assert_eq!(strict["not-for-us"], frames[1..2]);
        let loose = run(&*bench.make(steps.check, &json!({ "any_station": true })).unwrap(), &frames[..=at]);
        assert_eq!(loose["out"], frames[..2]);
        assert_eq!(loose.get(family.to_group).map_or(&[][..], |frames| frames), &frames[2..at + 1]);
    }
}

/// The check lets frames pass however few hops they may go, and the rewrite does not; answers what it sends on.
pub fn the_last_hop_is_found_by_the_rewrite(family: &Family) -> Vec<Vec<u8>> {
    let Family { steps, plain, sent, hops, .. } = family;
    let bench = Bench::new(steps.ports);
    let frames: Vec<Vec<u8>> = (0..=255).map(|hops| plain(bench.mac(0), hops, 1)).collect();
    let to = MacAddr([2, 0, 0, 0, 1, 9]);
    let check = bench.make(steps.check, &json!({})).unwrap();
    let config = json!({ "from": steps.ports[1].0, "to": to.to_string() });
    let rewrite = bench.make(steps.rewrite, &config).unwrap();
    let mut all = Vec::new();
    for frames in frames.chunks(64) {
        assert_eq!(run(&*check, frames)["out"], frames);
        let mut ways = run(&*rewrite, frames);
        let (over, on): (Vec<&Vec<u8>>, Vec<_>) = frames.iter().partition(|frame| frame[*hops] <= 1);
        assert_eq!(ways.get("expired").map_or(vec![], |frames| frames.iter().collect()), over);
        let expected: Vec<Vec<u8>> = on.iter().map(|frame| sent(frame, bench.mac(1), to)).collect();
        let out = ways.remove("out").unwrap();
        assert_eq!(out, expected);
        all.extend(out);
    }
    all
}

/// Three next hops that share a route get about as many flows each, and a flow is not split.
pub fn next_hops_share_flows(family: &Family) {
    let mut chain = Chain::new(&family.steps, false, &family.shared);
    let mut flows: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for flow in 0..600 {
        let frame = (family.plain)(chain.bench.mac(0), 64, flow);
        (0..3).for_each(|_| chain.bench.handles[0].send(frame.clone()));
        chain.settle();
        let sent: Vec<Vec<u8>> = chain.bench.handles.iter().flat_map(MemHandle::received).collect();
        assert_eq!(sent.len(), 3);
        assert!(sent.iter().all(|frame| *frame == sent[0]), "flow {flow} was split");
        *flows.entry(sent[0][..6].to_vec()).or_default() += 1;
    }
    // 200 expected each; 70 is six standard deviations of a fair draw.
    assert_eq!(flows.len(), 3);
    assert!(flows.values().all(|count| count.abs_diff(200) < 70), "{flows:?}");
    chain.finish();
}

/// Which way frames, all of them different, leave a stage by, in their order: `usize::MAX` where there is no route.
pub fn ways_of(make: &dyn MakeStage, frames: &[Vec<u8>]) -> Vec<usize> {
    let mut found = BTreeMap::new();
    for (way, left) in run(make, frames) {
        let number = way.strip_prefix("way[").and_then(|rest| rest.strip_suffix(']'));
        let number = number.map_or(usize::MAX, |number| number.parse().unwrap());
        found.extend(left.into_iter().map(|frame| (frame, number)));
    }
    frames.iter().map(|frame| found[frame]).collect()
}

/// Routes in a file: two next hops, three prefixes with a frame to each, and an address that is none of the next hops.
pub struct Filed<'t> {
    pub name: &'t str,
    pub next_hops: [&'t str; 2],
    pub prefixes: [&'t str; 3],
    pub frames: [Vec<u8>; 3],
    pub stranger: &'t str,
}

/// A file of routes is read anew, all of it or nothing; answers what is said of a next hop that is none.
pub fn a_file_is_read_anew(ports: &'static [PortSpec], route: &dyn StageKind, filed: &Filed<'_>) -> String {
    let Filed { name, next_hops: [first, second], prefixes: [one, two, three], frames, stranger } = filed;
    let path = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let write = |lines: String| std::fs::write(path.join("routes.csv"), format!("prefix,via\n{lines}\n")).unwrap();
    let mut bench = Bench::new(ports);
    bench.folder = Some(Folder::open(&path).unwrap());
    let config = json!({ "next_hops": [first, second], "routes_csv": "routes.csv", "max_routes": 16 });
    write(format!("{one},{first}\n{two},{second}"));
    let make = bench.make(route, &config).unwrap();
    let before = [0, 1, usize::MAX];
    assert_eq!(ways_of(&*make, frames), before);

    let element = settings(ports, route, &config).unwrap();
    let settings = Settings { element: &element, path: element.path(), value: element.value() };
    write(format!("{one},{stranger}"));
    let said = make.prepare(&settings, &bench.env()).err().unwrap();
    assert_eq!(ways_of(&*make, frames), before, "nothing has changed");

    write(format!("{one},{second}\n{three},{first}"));
    let change = make.prepare(&settings, &bench.env()).unwrap();
    assert_eq!(ways_of(&*make, frames), before, "nothing changes before it is told to");
    change(0);
    assert_eq!(ways_of(&*make, frames), [1, usize::MAX, 0]);
    std::fs::remove_dir_all(&path).unwrap();
    said[0].to_string()
}

/// What the schemas of the steps are wrong in.
pub fn defects(steps: &Steps) -> Vec<String> {
    [steps.check, steps.route, steps.rewrite].iter().flat_map(|kind| kind.schema().defects()).collect()
}
