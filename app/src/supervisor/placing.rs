//! Functions on workers: who owns which queue, and the blueprint of it all.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use weir_engine::{Blueprint, Distributor, GraphPart, JointEnd, PortPart};
use weir_stage::{Configured, Instance, Layout, Place, Placement, PortInfo};

use super::config::LinkKind;
use super::control::ControlThreads;
use super::joint::{joint_of, pairs};
use super::ports::{OpenPort, Owners};
use super::shared::demultiplexers;
use crate::catalogue;

/// A function that runs.
#[derive(Clone)]
pub(crate) struct RunningFunction {
    pub(crate) configured: Configured,
    pub(crate) instance: Arc<dyn Instance>,
    /// Where it runs: as it is configured, unless somebody measures it elsewhere.
    pub(crate) placement: Placement,
    /// Whether its stages stay as they are at the next install.
    pub(crate) keep: bool,
}

/// The instances of those that have a port.
pub(super) fn with_port<'f>(functions: &'f [RunningFunction], port: &str) -> impl Iterator<Item = &'f dyn Instance> {
    functions.iter().filter(move |running| running.configured.has_port(port)).map(|running| &*running.instance)
}

impl RunningFunction {
    /// One that takes its place where it is configured.
    pub(crate) fn new(configured: &Configured, instance: Box<dyn Instance>) -> RunningFunction {
        let placement = configured.placement().clone();
        RunningFunction { configured: configured.clone(), instance: Arc::from(instance), placement, keep: false }
    }
}

/// The data-path workers: their cores, in the order of the engine's.
pub(crate) type Cores = Vec<u16>;

fn workers_of(placement: &Placement, cores: &Cores) -> Vec<usize> {
    placement.workers.iter().filter_map(|core| cores.iter().position(|other| other == core)).collect()
}

/// Which workers own the queues of the ports of a function.
pub(crate) fn owners(placement: &Placement, cores: &Cores) -> Owners {
    let workers = workers_of(placement, cores);
    let first = workers.first().copied().unwrap_or(0);
    let last = workers.last().copied().unwrap_or(0);
    match placement.layout {
        Layout::RunToCompletion => Owners { rx: workers.clone(), tx: workers },
        Layout::Distributor => Owners { rx: vec![first], tx: vec![first] },
        Layout::Pipeline => Owners { rx: vec![first], tx: vec![last] },
    }
}

/// What keeps a port from having the queues that a layout asks for.
pub(crate) fn too_few_queues(port: &PortInfo, owners: &Owners) -> Option<String> {
    let (rx, tx) = (owners.rx.len(), owners.tx.len());
    let (max_rx, max_tx) = (usize::from(port.facts.max_rx_queues), usize::from(port.facts.max_tx_queues));
    (rx > max_rx || tx > max_tx).then(|| {
        format!(
            "port \"{}\" ({}) has {max_rx} receive and {max_tx} transmit queues, and {rx} workers want one each; \
             use one worker, or layout = \"distributor\"",
            port.name, port.facts.device
        )
    })
}

/// The ports of a blueprint.
pub(crate) struct Parts {
    ports: Vec<PortPart>,
    joints: Vec<(JointEnd, JointEnd)>,
    /// Names and indexes of all, joints included.
    indexes: Vec<(String, u16)>,
}

impl Parts {
    /// These ports, with the owners that their queues are to have.
    pub(crate) fn of<'a>(ports: impl Iterator<Item = (&'a mut OpenPort, Owners)>) -> Parts {
        let (mut parts, mut ends, mut indexes) = (Vec::new(), Vec::new(), Vec::new());
        for (open, owners) in ports {
            indexes.push((open.info.name.clone(), open.info.index));
            match joint_of(&open.config.device) {
                Some(_) => ends.push((open.info.name.clone(), open.info.index, open.config.device.clone())),
                None => parts.push(open.part(&owners)),
            }
        }
        let ends = ends.iter().map(|(name, index, device)| (name.as_str(), *index, device.as_str()));
        Parts { ports: parts, joints: pairs(ends), indexes }
    }
}

/// The blueprint of all functions on these ports.
pub(crate) fn blueprint(
    functions: &[RunningFunction],
    parts: Parts,
    (cores, controls): (&Cores, &mut ControlThreads),
    links: LinkKind,
) -> Result<Blueprint, String> {
    let links_drop = links == LinkKind::Drop;
    let mut blueprint = Blueprint { workers: cores.len(), links_drop, ..Blueprint::default() };
    let mut graphs = Vec::new();
    for running in functions {
        let first = blueprint.graphs.len();
        add_function(running, cores, &mut blueprint)?;
        graphs.push((first..blueprint.graphs.len()).collect());
    }
    blueprint.controls = slow_paths(functions, controls, &blueprint.graphs, &graphs);
    blueprint.demultiplexers = demultiplexers(functions, &graphs, &parts.indexes);
    (blueprint.ports, blueprint.joints) = (parts.ports, parts.joints);
    Ok(blueprint)
}

/// The thread of the control side of each graph that has stages there, by its position: all graphs of a function have the same.
fn slow_paths(
    functions: &[RunningFunction],
    controls: &mut ControlThreads,
    parts: &[GraphPart],
    graphs: &[Vec<usize>],
) -> HashMap<usize, usize> {
    let is_slow = |at: &usize| {
        let nodes = parts.get(*at).map_or(&[][..], |part| part.graph.nodes());
        nodes.iter().any(|node| node.place == Place::Control)
    };
    let slow = || functions.iter().zip(graphs).filter(|(_, graphs)| graphs.iter().any(is_slow));
    let threads = controls.settle(slow().map(|(running, _)| running.configured.name()));
    slow().zip(threads).flat_map(|((_, graphs), thread)| graphs.iter().map(move |at| (*at, thread))).collect()
}

/// The ports of a blueprint, their queues owned as they are now.
pub(crate) fn parts(ports: &mut BTreeMap<String, OpenPort>) -> Parts {
    Parts::of(ports.values_mut().map(|open| {
        let owners = open.owners.clone();
        (open, owners)
    }))
}

fn add_function(running: &RunningFunction, cores: &Cores, blueprint: &mut Blueprint) -> Result<(), String> {
    let workers = workers_of(&running.placement, cores);
    let name = running.configured.name();
    match running.placement.layout {
        Layout::Pipeline => add_replica(running, 0, workers, true, blueprint),
        Layout::Distributor if running.configured.balances() => add_replica(running, 0, workers, true, blueprint),
        Layout::RunToCompletion => {
            let replicas = workers.into_iter().enumerate();
            replicas.into_iter().try_for_each(|(n, worker)| add_replica(running, n, vec![worker], true, blueprint))
        }
        Layout::Distributor => {
            let first = workers.first().copied().unwrap_or(0);
            // The first worker distributes; it works too when it is alone.
            let others = if workers.len() > 1 { workers.get(1..).unwrap_or_default() } else { &workers[..] };
            let (from, count, by) = (blueprint.graphs.len(), others.len() as u8, running.placement.spread_by);
            for (n, worker) in others.iter().enumerate() {
                add_replica(running, n, vec![*worker], false, blueprint)?;
            }
            let instance = Arc::clone(&running.instance);
            blueprint.distributors.push(Distributor {
                name: format!("{name}.distribute"),
                stage: Box::new(move || instance.spreader(count).unwrap_or_else(|| catalogue::distributor(by, count))),
                worker: first,
                replicas: (from..blueprint.graphs.len()).collect(),
                keep: running.keep,
            });
            Ok(())
        }
    }
}

fn add_replica(
    running: &RunningFunction,
    replica: usize,
    workers: Vec<usize>,
    receives: bool,
    blueprint: &mut Blueprint,
) -> Result<(), String> {
    let graph = running.instance.graph(replica).map_err(|error| format!("{}: {error}", running.configured.name()))?;
    let keep: HashSet<String> = match running.keep {
        true => graph.nodes().iter().map(|node| node.name.clone()).collect(),
        false => HashSet::new(),
    };
    blueprint.graphs.push(GraphPart { graph, replica, workers, receives, keep });
    Ok(())
}
