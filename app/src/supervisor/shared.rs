//! Ports that several functions share by their interfaces.

use std::sync::Arc;

use weir_engine::Demultiplexer;
use weir_stage::{InterfaceInfo, InterfaceSet, Others};

use super::RunningFunction;
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
            false => declared.iter().filter(|info| info.of != own && info.on.is_some()).cloned().collect(),
        };
        running.instance.share_with(Others { sets, declared }, now);
    }
}
