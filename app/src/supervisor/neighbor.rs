//! Neighbours of functions that stages of others send to.

use std::sync::Arc;

use weir_config::{ConfigError, ErrorKind, nearest};
use weir_stage::{Configured, FollowedNeighbor, NamedInterface};

use super::RunningFunction;
use super::config::Loaded;

/// What is wrong with the interfaces that functions name for neighbours on their links: each has to be one that a function has.
pub(super) fn check(loaded: &Loaded) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    for function in loaded.functions() {
        errors.extend(function.neighbors_on().iter().filter_map(|named| wrong(loaded, function, named)));
    }
    errors
}

/// As many interfaces as people read.
const NAMED: usize = 16;

fn wrong(loaded: &Loaded, function: &Configured, named: &NamedInterface) -> Option<ConfigError> {
    let name = named.name.as_str();
    if loaded.interface_owner(name).is_some() {
        return None;
    }
    let is_port = loaded.ports.iter().any(|(known, ..)| known == name);
    let problem = match loaded.functions_on(name).next().filter(|_| is_port) {
        Some(owner) => format!("\"{name}\" is a port of {}, which knows no neighbours there", owner.name()),
        None => format!("\"{name}\" names no interface"),
    };
    let known = loaded.interfaces_owned();
    let error = ConfigError::new(ErrorKind::Dangling, function.element().place(), &named.path, problem);
    if known.is_empty() {
        return Some(error.remedy("declare a router, and name one of its interfaces"));
    }
    let more = if known.len() > NAMED { ", ..." } else { "" };
    let some: Vec<&str> = known.iter().copied().take(NAMED).collect();
    let near = nearest(name, known.iter().copied()).map(|near| format!("did you mean \"{near}\"?"));
    Some(error.allowed(format!("one of {}{more}", some.join(", "))).remedy(near.unwrap_or_default()))
}

/// Tells each function which neighbours on its interfaces others send to.
pub(super) fn tell(functions: &[RunningFunction], loaded: &Loaded) {
    let followed: Vec<Arc<FollowedNeighbor>> =
        functions.iter().flat_map(|running| running.instance.followed()).collect();
    let owner = |neighbor: &FollowedNeighbor| loaded.interface_owner(neighbor.interface()).map(Configured::name);
    for running in functions.iter().filter(|running| running.configured.has_interfaces()) {
        let name = running.configured.name();
        let on_its = followed.iter().filter(|neighbor| owner(neighbor) == Some(name));
        running.instance.publish_neighbors(on_its.cloned().collect());
    }
}
