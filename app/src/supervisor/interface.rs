//! Declared interfaces: what no schema can say of them, and how functions see them.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::{ConfigError, Element, ErrorKind};
use weir_stage::{Configured, InterfaceConfig, InterfaceInfo, TAG_LEN, TagInfo, Wrong};

use super::config::{DeclaredInterface, DeclaredPort, Loaded};
use super::routed::is_side;

/// What is wrong with the interfaces of a configuration, beyond their schema.
pub(super) fn check(loaded: &Loaded) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    let ports: BTreeSet<&str> = loaded.ports.iter().map(|(name, ..)| name.as_str()).collect();
    let mut tagged: BTreeMap<(&str, Vec<TagInfo>), &str> = BTreeMap::new();
    for (config, element) in &loaded.interfaces {
        let wrong = lacks_vlan(config).into_iter().chain(config.wrong());
        errors.extend(wrong.map(|wrong| wrong.at(element, &element.path())));
        if ports.contains(config.name.as_str()) {
            let problem = "is the name of a port too, whose untagged packets it stands for";
            let error = element.error(ErrorKind::Conflict, &element.path(), problem);
            errors.push(error.remedy("give it another name, as in \"lan.100\""));
        }
        let tags = config.tags();
        if let Some(port) = config.on.as_ref().filter(|_| !tags.is_empty())
            && let Some(other) = tagged.insert((port.as_str(), tags), &config.name)
        {
            let root = element.path();
            let problem = format!("interface \"{other}\" has the same tags on the same port");
            let error = element.error(ErrorKind::Conflict, &root.field("vlan"), problem);
            errors.push(error.remedy("give each a VLAN of its own"));
        }
        if let Err(error) = owner_of(loaded, config, element) {
            errors.push(*error);
        }
    }
    errors.extend(loaded.ports.iter().filter_map(|port| check_untagged(loaded, port)));
    errors
}

/// What is wrong with whom the untagged packets of a port belong to. Without an address it may be anybody.
fn check_untagged(loaded: &Loaded, (name, config, element): &DeclaredPort) -> Option<ConfigError> {
    let all: Vec<&Configured> = loaded.functions_on(name).collect();
    let shares = all.iter().all(|function| function.has_interfaces_on(name));
    let is_open = config.of.is_none() && (config.address.0.is_empty() || !shares);
    let owner = if is_open { Ok(None) } else { of_those_on(name, &all, config.of.as_deref(), element) };
    owner.err().map(|error| *error)
}

/// Only packets with tags are told apart on a port, unless it is a routed side.
fn lacks_vlan(config: &InterfaceConfig) -> Option<Wrong> {
    let is_on_port = config.on.as_ref().is_some_and(|port| !is_side(port.as_str()));
    (is_on_port && config.vlan.is_none()).then(|| {
        let problem = "is missing: the untagged packets of a port belong to the interface of the port's name";
        let wrong = Wrong { kind: ErrorKind::Missing, ..Wrong::field("vlan", problem) };
        wrong.remedy("write the VLAN, or give the port itself the address")
    })
}

/// The name of the function that an interface belongs to; none if its port belongs to none, which a warning says.
fn owner_of(loaded: &Loaded, config: &InterfaceConfig, element: &Element) -> Result<Option<String>, Box<ConfigError>> {
    let root = element.path();
    if let Some(port) = &config.on {
        let all: Vec<&Configured> = loaded.functions_on(port.as_str()).collect();
        if let Some(function) = all.iter().find(|function| !function.has_interfaces_on(port.as_str())) {
            let (name, kind) = (function.name(), function.function().kind());
            let where_not = if function.has_interfaces() { " on it" } else { "" };
            let problem = format!("port \"{port}\" belongs to {name}, and {kind} has no interfaces{where_not}");
            let error = element.error(ErrorKind::Conflict, &root.field("on"), problem);
            return Err(Box::new(error.allowed(on_what(loaded))));
        }
        return of_those_on(port.as_str(), &all, config.of.as_deref(), element);
    }
    let all = those_having(loaded);
    match (&config.of, all.as_slice()) {
        (Some(name), all) if all.contains(&name.as_str()) => Ok(Some(name.clone())),
        (None, [only]) => Ok(Some((*only).to_owned())),
        (Some(name), _) => {
            let problem = format!("\"{name}\" is no function that has interfaces");
            let error = element.error(ErrorKind::Dangling, &root.field("of"), problem);
            Err(Box::new(error.allowed(format!("one of {}", having(loaded)))))
        }
        (None, _) => {
            let problem = "is missing: a loopback belongs to a function, and which one is not clear";
            let error = element.error(ErrorKind::Missing, &root.field("of"), problem);
            Err(Box::new(error.allowed(format!("one of {}", having(loaded)))))
        }
    }
}

/// Which of the functions on a port something belongs to that names one, or has to if there are several; none where there are none.
fn of_those_on(
    port: &str,
    all: &[&Configured],
    of: Option<&str>,
    element: &Element,
) -> Result<Option<String>, Box<ConfigError>> {
    let names: Vec<&str> = all.iter().map(|function| function.name()).collect();
    let root = element.path();
    let wrong = |kind, problem: String| {
        let error = element.error(kind, &root.field("of"), problem);
        Box::new(error.allowed(format!("one of {}", names.join(", "))))
    };
    match (of, names.as_slice()) {
        (Some(name), names) if names.contains(&name) => Ok(Some(name.to_owned())),
        (_, []) => Ok(None),
        (Some(name), _) => {
            Err(wrong(ErrorKind::Dangling, format!("\"{name}\" is no function that has port \"{port}\"")))
        }
        (None, [only]) => Ok(Some((*only).to_owned())),
        (None, _) => {
            let problem = format!("is missing: {} share port \"{port}\"", names.join(" and "));
            Err(wrong(ErrorKind::Missing, problem))
        }
    }
}

/// The names of the functions that have interfaces.
fn those_having(loaded: &Loaded) -> Vec<&str> {
    loaded.functions().iter().filter(|function| function.has_interfaces()).map(Configured::name).collect()
}

/// The same for messages.
fn having(loaded: &Loaded) -> String {
    let names = those_having(loaded);
    if names.is_empty() { "there is none".to_owned() } else { names.join(", ") }
}

/// On which ports interfaces may be declared, for messages.
fn on_what(loaded: &Loaded) -> String {
    let names = |function: &Configured| {
        let its = function.ports().filter(|port| function.has_interfaces_on(port));
        its.map(ToString::to_string).collect::<Vec<_>>()
    };
    let ports: BTreeSet<String> = loaded.functions().iter().flat_map(names).collect();
    match ports.is_empty() {
        true => "a port of a function that has interfaces".to_owned(),
        false => format!("one of the ports {}", Vec::from_iter(ports).join(", ")),
    }
}

impl Loaded {
    /// The functions that have a port, in the order of their declarations.
    pub(super) fn functions_on(&self, port: &str) -> impl Iterator<Item = &Configured> {
        self.functions().iter().filter(move |function| function.has_port(port))
    }

    /// The name of the function that the untagged packets of a port belong to: where several share it, the one that it names, else the first.
    pub(super) fn untagged_owner(&self, port: &str, of: Option<&str>) -> Option<&str> {
        let named = of.and_then(|of| self.functions_on(port).find(|function| function.name() == of));
        named.or_else(|| self.functions_on(port).next()).map(Configured::name)
    }

    /// The function that has the interface of this name, be it declared or the untagged one of a port; none where nobody has it, or a function
    /// that has no interfaces.
    pub(super) fn interface_owner(&self, name: &str) -> Option<&Configured> {
        let declared = self.interfaces.iter().find(|(config, _)| config.name == name);
        if let Some((config, element)) = declared {
            let owner = owner_of(self, config, element).ok().flatten()?;
            return self.functions().iter().find(|function| function.name() == owner);
        }
        let (_, config, _) = self.ports.iter().find(|(known, ..)| known == name && !is_side(known))?;
        let owner = self.untagged_owner(name, config.of.as_deref())?;
        self.functions().iter().find(|function| function.name() == owner && function.has_interfaces_on(name))
    }

    /// The names of the interfaces that functions have, declared and untagged ones.
    pub(super) fn interfaces_owned(&self) -> BTreeSet<&str> {
        let declared = self.interfaces.iter().map(|(config, _)| config.name.as_str());
        let all = self.ports.iter().map(|(name, ..)| name.as_str()).chain(declared);
        all.filter(|name| self.interface_owner(name).is_some()).collect()
    }

    /// The declared interfaces as functions see them. Of ports that functions share, the untagged interfaces are among them, and that those of a
    /// routed side are nobody's, unless an interface is declared for them.
    pub(crate) fn interface_infos(&self) -> Vec<InterfaceInfo> {
        let info = |(config, element): &DeclaredInterface| {
            let owner = owner_of(self, config, element).ok().flatten()?;
            Some(InterfaceInfo::of(config, owner, element.place().clone()))
        };
        let is_on = |name: &str, config: &InterfaceConfig| config.on.as_ref().is_some_and(|on| on.as_str() == name);
        let untagged = |(name, config, element): &DeclaredPort| {
            let all: Vec<&Configured> = self.functions_on(name).collect();
            let has_own = self.interfaces.iter().any(|(config, _)| is_on(name, config) && config.vlan.is_none());
            let (is_side, is_shared) = (is_side(name), all.len() > 1);
            let is_told = if is_side { !has_own } else { is_shared };
            if !is_told || !all.iter().all(|function| function.has_interfaces_on(name)) {
                return None;
            }
            let owner = self.untagged_owner(name, config.of.as_deref())?;
            Some(InterfaceInfo {
                name: name.clone(),
                on: Some(name.clone()),
                of: if is_side { String::new() } else { owner.to_owned() },
                tags: Vec::new(),
                vrf: config.vrf.clone(),
                addresses: config.address.0.clone(),
                mtu: None,
                up: true,
                place: element.place().clone(),
            })
        };
        self.ports.iter().filter_map(untagged).chain(self.interfaces.iter().filter_map(info)).collect()
    }

    /// Bytes of the tags that declared interfaces put into frames of a port.
    pub(super) fn tag_bytes(&self, port: &str) -> u16 {
        let on_it =
            self.interfaces.iter().filter(|(config, _)| config.on.as_ref().is_some_and(|on| on.as_str() == port));
        on_it.map(|(config, _)| TAG_LEN * config.tags().len() as u16).max().unwrap_or(0)
    }
}
