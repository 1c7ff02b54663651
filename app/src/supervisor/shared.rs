//! Where functions meet by their interfaces: ports that several share, and ends of joints.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_engine::Demultiplexer;
use weir_stage::{Beyond, InterfaceInfo, InterfaceSet, Others};

use super::joint::pairs;
use super::{OpenPort, RunningFunction};
use crate::catalogue;

/// What stands before the functions that share a port, for each such port of these names and indexes; `graphs` are those of each function, as
/// positions in a blueprint.
pub(super) fn demultiplexers(
    functions: &[RunningFunction],
    graphs: &[Vec<usize>],
    ports: &[(String, u16)],
) -> Vec<Demultiplexer> {
    let before = |(name, index): &(String, u16)| {
        let on_it = functions.iter().zip(graphs).filter(|(running, _)| running.configured.has_port(name));
        let on_it = on_it.filter_map(|(running, graphs)| Some((running.instance.interfaces()?, graphs.clone())));
        let (sets, functions): (Vec<Arc<dyn InterfaceSet>>, Vec<Vec<usize>>) = on_it.unzip();
        (sets.len() > 1).then(|| Demultiplexer {
            name: format!("{name}.functions"),
            port: *index,
            stage: Box::new(move || catalogue::demultiplexer(sets.clone())),
            functions,
        })
    };
    ports.iter().filter_map(before).collect()
}

/// Tells functions of the others on their ports, and of the interfaces that the configuration gives to those.
pub(super) fn tell(functions: &[RunningFunction], declared: &[InterfaceInfo], now: u64) {
    for running in functions.iter().filter(|running| running.configured.has_interfaces()) {
        let own = running.configured.name();
        let others = functions.iter().filter(|other| {
            other.configured.name() != own && other.configured.ports().any(|port| running.configured.has_port(port))
        });
        let sets: Vec<_> = others
            .filter_map(|other| Some((other.configured.name().to_owned(), other.instance.interfaces()?)))
            .collect();
        let declared = match sets.is_empty() {
            true => Vec::new(),
            false => {
                let of_others = declared.iter().filter(|info| info.of != own && !info.of.is_empty());
                of_others.filter(|info| info.on.is_some()).cloned().collect()
            }
        };
        running.instance.share_with(Others { sets, declared }, now);
    }
}

/// Tells functions what lies beyond their ends of joints.
pub(super) fn tell_of_far_ends(functions: &[RunningFunction], ports: &BTreeMap<String, OpenPort>) {
    let ends = ports.values().map(|open| (open.info.name.as_str(), open.info.index, open.config.device.as_str()));
    for (one, other) in pairs(ends) {
        for (near, far) in [(&one, &other), (&other, &one)] {
            let Some(open) = ports.get(&far.name) else { continue };
            let there = functions.iter().filter(|running| running.configured.has_port(&far.name));
            let sets = there.filter_map(|running| running.instance.interfaces()).collect();
            let beyond = Beyond { port: far.index, mac: open.info.facts.mac, sets };
            let here = functions.iter().filter(|running| running.configured.has_port(&near.name));
            here.for_each(|running| running.instance.joined_to(near.index, &beyond));
        }
    }
}
