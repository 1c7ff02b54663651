//! What is not wrong in a configuration, and hardly meant: ports that nobody uses, networks that lie in one another.

use std::collections::BTreeSet;

use weir_config::{ConfigError, Element, ErrorKind, InterfaceAddress};

use weir_stage::Configured;

use super::Loaded;

/// What is hardly meant, as far as can be told without building functions.
pub(super) fn warnings(loaded: &Loaded) -> Vec<ConfigError> {
    let mut warnings = unused_ports(loaded);
    warnings.extend(overlaps(loaded));
    warnings
}

fn unused_ports(loaded: &Loaded) -> Vec<ConfigError> {
    let used: BTreeSet<&str> = loaded.functions().iter().flat_map(Configured::ports).collect();
    let unused = loaded.ports.iter().filter(|(name, ..)| !used.contains(name.as_str()));
    unused
        .map(|(_, _, element)| {
            let error = element.error(
                ErrorKind::Conflict,
                &element.path(),
                "belongs to no function: what it receives is dropped",
            );
            error.remedy("name it among the ports of a function, or leave it out")
        })
        .collect()
}

/// A network of a port of a function.
struct Network<'a> {
    port: &'a str,
    element: &'a Element,
    address: InterfaceAddress,
}

impl Network<'_> {
    fn holds(&self, other: &Network<'_>) -> bool {
        self.address.net().trunc().contains(&other.address.net().trunc())
    }
}

/// Networks of two ports of one function, one inside of the other. The same network twice is the function's to judge.
fn overlaps(loaded: &Loaded) -> Vec<ConfigError> {
    let (mut warnings, interfaces) = (Vec::new(), loaded.interface_infos());
    for function in loaded.functions() {
        let of_ours = interfaces.iter().filter(|info| info.of == function.name()).map(|info| info.name.as_str());
        let of_ours: BTreeSet<&str> = of_ours.collect();
        let ours = loaded.ports.iter().filter(|(name, config, _)| {
            loaded.untagged_owner(name, config.of.as_deref()).is_some_and(|owner| owner == function.name())
        });
        let on_ours = loaded
            .interfaces
            .iter()
            .filter(|(config, _)| config.on.is_some() && of_ours.contains(config.name.as_str()));
        let networks = ours
            .map(|(name, config, element)| (name, &config.address, element))
            .chain(on_ours.map(|(config, element)| (&config.name, &config.address, element)));
        let mut networks: Vec<Network<'_>> = networks
            .flat_map(|(port, addresses, element)| {
                addresses.0.iter().map(move |&address| Network { port, element, address })
            })
            .collect();
        networks.sort_by_key(|network| network.address.net().trunc());
        warnings.extend(inside_others(&networks));
    }
    warnings
}

/// Of networks in their order: a network stands behind all that it lies in, and they are still open when it comes.
fn inside_others(networks: &[Network<'_>]) -> Vec<ConfigError> {
    let (mut warnings, mut around): (Vec<ConfigError>, Vec<&Network<'_>>) = (Vec::new(), Vec::new());
    for network in networks {
        while around.last().is_some_and(|outer| !outer.holds(network)) {
            around.pop();
        }
        let outer = around.iter().rev().find(|outer| outer.port != network.port && !network.holds(outer));
        if let Some(outer) = outer {
            let (inner, all) = (network.address.net().trunc(), outer.address.net().trunc());
            let problem = format!("its network {inner} lies in {all}, that of port \"{}\"", outer.port);
            let root = network.element.path();
            let error = network.element.error(ErrorKind::Conflict, &root.field("address"), problem);
            warnings.push(error.remedy(format!(
                "check the lengths of both: stations on \"{}\" take those on \"{}\" for neighbours of their own",
                outer.port, network.port
            )));
        }
        around.push(network);
    }
    warnings
}
