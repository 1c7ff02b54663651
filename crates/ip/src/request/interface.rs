//! Interfaces that are added, changed and deleted at run time.

use ipnet::IpNet;
use serde_json::Value;
use weir_config::{INTERFACE_NAME, InterfaceAddress, OneOrMany, PortName};
use weir_net::{DEFAULT_VRF, RouteSource};
use weir_stage::{Argument, Collection, Entry as _, InterfaceConfig, Saved, Verb};

use super::find_vrf;
use crate::state::Control;
use crate::state::checks::{Wrong, check_address, wrong_beside};
use crate::state::links::WantedInterface;
use crate::state::own::nets;
use crate::{Fresh, InterfaceId, Port, Tag, Tags, tags_of};

/// Interfaces, which the configuration declares beside its functions.
const INTERFACES: Collection = Collection::of::<InterfaceConfig>("interface", "interface");

const fn also(word: &'static str, help: &'static str) -> Argument {
    Argument { name: word, keyword: Some(word), required: false, many: false, help }
}

/// Words that requests have beside those of the configuration, and that [`as_configured`] knows the meaning of.
const ALSO: &[Argument] = &[
    also("state", "`up` or `down`, which is `up true` or `up false`"),
    also("inner-vlan", "Another word for inner_vlan"),
    also("inner-tpid", "Another word for inner_tpid"),
];

/// What is said of an interface, but the last: of which function it is. A request is one function's.
const SAID: &[&str] = InterfaceConfig::NAMES.split_at(InterfaceConfig::NAMES.len() - 1).0;

pub(super) const ADD: Verb = INTERFACES.verb(
    "add",
    const { &Argument::these::<{ SAID.len() + ALSO.len() }>(InterfaceConfig::FIELDS, SAID, ALSO) },
    "Adds an interface: packets with VLAN tags on a port, or a loopback",
);

pub(super) const SET: Verb = INTERFACES.verb(
    "set",
    const { &Argument::these::<5>(InterfaceConfig::FIELDS, &["name", "address", "mtu", "up"], &[ALSO[0]]) },
    "Changes an interface; addresses that are given take the place of all that it had. The word `none` takes a value away",
);

pub(super) const DEL: Verb = INTERFACES.verb(
    "del",
    InterfaceConfig::KEYS,
    "Deletes an interface that was added at run time, with its addresses and neighbours",
);

/// One change, understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Add(WantedInterface),
    /// Lets an interface be this, but for its name, port and tags.
    Set(InterfaceId, WantedInterface),
    Delete(InterfaceId),
}

pub(super) fn understand(control: &Control, action: &str, arguments: &Value) -> Result<Change, String> {
    let arguments = &as_configured(arguments)?;
    let mut source = INTERFACES.arguments(arguments);
    let key = InterfaceConfig::read_key(&mut source);
    let (name,) = source.finish(key)?;
    match action {
        "add" => add(control, read(arguments, None)?).map(Change::Add),
        "set" => {
            let id = find(control, &name)?;
            let before = wanted_of(control, id).ok_or("the interface is gone")?;
            let config = config_of(control, &before);
            let said = read(arguments, Some(&config))?;
            let fresh = Fresh { mtu: said.mtu, enabled: said.up, ..before.fresh };
            let addresses = match said.address == config.address {
                true => before.addresses,
                false => addresses_of(control, &said.address, &fresh, Some(id))?,
            };
            check(control, &fresh, &addresses)?;
            Ok(Change::Set(id, WantedInterface { fresh, addresses }))
        }
        "del" => {
            let id = find(control, &name)?;
            if control.ledger.source(id) == RouteSource::Config {
                return Err(format!("interface {name} stands in the configuration; delete it there and reload"));
            }
            Ok(Change::Delete(id))
        }
        _ => Err(format!("there is no request 'interface {action}'")),
    }
}

/// What a request says, in the words of the configuration: `inner-vlan` is `inner_vlan`, `mtu port` is `mtu none`, `state down` is `up false`.
fn as_configured(arguments: &Value) -> Result<Value, String> {
    let said = |(word, value): (&String, &Value)| {
        let (word, value) = match (word.as_str(), value.as_str()) {
            ("state", Some("up")) => ("up", true.into()),
            ("state", Some("down")) => ("up", false.into()),
            ("state", _) => return Err(format!("state {value} is not allowed; write up or down")),
            ("mtu", Some("port")) => ("mtu", "none".into()),
            ("inner-vlan", _) => ("inner_vlan", value.clone()),
            ("inner-tpid", _) => ("inner_tpid", value.clone()),
            (word, _) => (word, value.clone()),
        };
        Ok((word.to_owned(), value))
    };
    arguments.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).map(said).collect()
}

/// The interface that a request describes; what it does not say is as `before`.
fn read(arguments: &Value, before: Option<&InterfaceConfig>) -> Result<InterfaceConfig, String> {
    let mut source = INTERFACES.arguments(arguments);
    let said = InterfaceConfig::read_from(&mut source, before);
    source.finish(said)
}

pub(super) fn find(control: &Control, name: &str) -> Result<InterfaceId, String> {
    let found = control.interfaces.find(name).map(|interface| interface.id);
    found.ok_or_else(|| format!("there is no interface {name}; `show interfaces` lists them"))
}

/// An interface as it is, as somebody would want it.
fn wanted_of(control: &Control, id: InterfaceId) -> Option<WantedInterface> {
    let fresh = control.interfaces.get(id)?.wanted.clone();
    Some(WantedInterface { fresh, addresses: nets(control, id) })
}

/// An interface as a configuration would declare it.
fn config_of(control: &Control, wanted: &WantedInterface) -> InterfaceConfig {
    let WantedInterface { fresh, addresses } = wanted;
    let port = port_of(control, fresh).map(|port| PortName::new(&port.name));
    let (outer, inner) = (fresh.tags.outer(), fresh.tags.inner());
    let of_tag = |tag: Tag, number: u16| tag.is_some().then_some(number);
    let config = InterfaceConfig {
        name: fresh.name.clone(),
        on: port,
        vlan: of_tag(outer, outer.vlan),
        inner_vlan: of_tag(inner, inner.vlan),
        tpid: None,
        inner_tpid: None,
        address: OneOrMany(addresses.iter().filter_map(|net| InterfaceAddress::of(*net).ok()).collect()),
        vrf: (fresh.vrf != DEFAULT_VRF).then(|| control.vrf_name(fresh.vrf).to_owned()),
        mtu: fresh.mtu,
        up: fresh.enabled,
        of: None,
    };
    match tags_of(&config.tags()) == fresh.tags {
        true => config,
        false => InterfaceConfig { tpid: of_tag(outer, outer.tpid), inner_tpid: of_tag(inner, inner.tpid), ..config },
    }
}

fn add(control: &Control, said: InterfaceConfig) -> Result<WantedInterface, String> {
    let name = &said.name;
    if control.interfaces.find(name).is_some() {
        return Err(format!("there is an interface {name} already; `interface set` changes it"));
    }
    if !(INTERFACE_NAME.matches)(name) {
        return Err(format!("\"{name}\" is not {}; write one such as {}", INTERFACE_NAME.what, INTERFACE_NAME.example));
    }
    let port = said.on.as_ref().map(|on| position_of(control, on.as_str())).transpose()?;
    if let Some(wrong) = said.wrong().first() {
        return Err(wrong.to_string());
    }
    let tags = tags_of(&said.tags());
    let untagged = port.filter(|_| tags == Tags::NONE).and_then(|port| control.interfaces.with_tags(port, tags));
    if let Some(own) = untagged {
        return Err(format!("vlan is missing: interface {} has the untagged packets of its port", own.name()));
    }
    let vrf = said.vrf.as_deref().map_or(Ok(DEFAULT_VRF), |name| find_vrf(control, name))?;
    let fresh = Fresh { name: said.name, port, tags, vrf, mtu: said.mtu, enabled: said.up, tunnel: None };
    let addresses = addresses_of(control, &said.address, &fresh, None)?;
    check(control, &fresh, &addresses)?;
    check_others(control, &fresh)?;
    Ok(WantedInterface { fresh, addresses })
}

/// The port of an interface.
fn port_of<'c>(control: &'c Control, fresh: &Fresh) -> Option<&'c Port> {
    control.interfaces.ports().get(usize::from(fresh.port?))
}

fn position_of(control: &Control, name: &str) -> Result<u8, String> {
    let ports = control.interfaces.ports();
    let found = ports.iter().zip(0..).find(|(port, _)| port.name == name).map(|(_, position)| position);
    found.ok_or_else(|| {
        let ours: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        format!("\"{name}\" is no port of this router; its ports are {}", ours.join(", "))
    })
}

/// The port and the tags of an interface that a request would add; none if it says no port, or nothing that could be.
pub fn requested_tags(arguments: &Value) -> Option<(PortName, Tags)> {
    let said = read(&as_configured(arguments).ok()?, None).ok()?;
    let tags = tags_of(&said.tags());
    Some((said.on?, tags))
}

/// Nothing is wrong with an interface beside its port.
fn check(control: &Control, fresh: &Fresh, addresses: &[IpNet]) -> Result<(), String> {
    let wrong = wrong_beside(port_of(control, fresh), fresh, addresses);
    wrong.first().map_or(Ok(()), |wrong| Err(wrong.to_string()))
}

/// No other function that shares the port has the tags.
fn check_others(control: &Control, fresh: &Fresh) -> Result<(), String> {
    let Some(port) = port_of(control, fresh) else { return Ok(()) };
    if fresh.name == port.name {
        return Err(format!("\"{}\" is the name of the port; choose another", port.name));
    }
    match control.ledger.other_owner(port.index, fresh) {
        None => Ok(()),
        Some(other) => Err(format!(
            "an interface of {other} has the tags {} on port {} already; choose others, or delete that one with --function {other}",
            fresh.tags, port.name
        )),
    }
}

/// The addresses that are given; none of them may be another interface's, or lie in the same network as one of another interface of the VRF.
fn addresses_of(
    control: &Control,
    given: &[InterfaceAddress],
    fresh: &Fresh,
    of: Option<InterfaceId>,
) -> Result<Vec<IpNet>, String> {
    let mut found: Vec<IpNet> = Vec::new();
    for net in given.iter().map(|address| address.net()) {
        check_address(control, fresh.vrf, of, net).map_err(|wrong| match wrong {
            Wrong::Bad(bad) => bad.to_string(),
            Wrong::Conflict(other, what) => {
                format!("{net}: interface {} has the same {what}; choose another", control.name_of(other))
            }
        })?;
        if found.iter().any(|other| other.addr() == net.addr()) {
            return Err(format!("{net} is given twice; leave one out"));
        }
        found.push(net);
    }
    Ok(found)
}

/// Carries out a change; answers what undoes it.
pub(super) fn apply(control: &mut Control, change: Change, now: u64) -> Result<Option<Change>, String> {
    match change {
        Change::Add(wanted) => {
            let name = wanted.fresh.name.clone();
            let id = control.place(&wanted, RouteSource::Cli, now).map_err(|refused| format!("{name}: {refused}"))?;
            Ok(Some(Change::Delete(id)))
        }
        Change::Set(id, wanted) => {
            let before = wanted_of(control, id).ok_or("the interface is gone")?;
            control.alter(id, wanted.fresh.mtu, wanted.fresh.enabled);
            control.set_addresses(id, &wanted.addresses, now);
            Ok(Some(Change::Set(id, before)))
        }
        Change::Delete(id) => {
            let before = wanted_of(control, id);
            control.remove_interface(id);
            Ok(before.map(Change::Add))
        }
    }
}

/// An interface that was added at run time, as a request that would add it again.
pub(crate) fn saved(control: &Control, id: InterfaceId) -> Option<Saved> {
    let config = config_of(control, &wanted_of(control, id)?);
    Some(INTERFACES.saved("add", config.to_json().into()))
}
