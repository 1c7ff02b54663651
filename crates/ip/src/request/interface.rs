//! Interfaces that are added, changed and deleted at run time.

use ipnet::IpNet;
use serde_json::{Value, json};
use weir_config::{INTERFACE_NAME, InterfaceAddress};
use weir_net::RouteSource;
use weir_stage::interface::can_announce;
use weir_stage::{Argument, Collection, Saved, Verb};

use super::vrf_of;
use crate::state::Control;
use crate::state::checks::{Wrong, check_address, too_small};
use crate::state::links::WantedInterface;
use crate::state::own::nets;
use crate::{Fresh, InterfaceId, Tag, Tags, tags_of};

const NAME: Argument = Argument {
    name: "name",
    keyword: None,
    required: true,
    many: false,
    help: "The interface's name, such as lan.100",
};

const fn option(name: &'static str, help: &'static str) -> Argument {
    Argument { name, keyword: Some(name), required: false, many: false, help }
}

const ADDRESS: Argument = Argument {
    many: true,
    ..option("address", "An address of it, with the length of its network, such as 10.0.100.1/24; several may be given")
};

const MTU: Argument = option("mtu", "The largest IP packet that leaves by it, bytes; `port` for that of its port");

const STATE: Argument = option("state", "`up` or `down`: nothing comes or goes by one that is down");

/// Interfaces, which the configuration declares beside its functions.
const INTERFACES: Collection = Collection {
    noun: "interface",
    key: "interface",
    is_list: false,
    file_key: "interface",
    fields: &[
        NAME,
        option("on", "Its port; a loopback without"),
        option("vlan", "The VLAN in its tag, or in the outer one of two: 1 to 4094"),
        option("inner-vlan", "The VLAN in the inner tag"),
        option(
            "tpid",
            "The EtherType that announces the tag; 0x8100 of one tag, 0x88a8 of the outer of two when absent",
        ),
        option("inner-tpid", "That of the inner tag; 0x8100 when absent"),
        ADDRESS,
        option("vrf", "The VRF that it is in; the default one when absent"),
        MTU,
        STATE,
    ],
    has_labels: false,
};

pub(super) const ADD: Verb = Verb {
    noun: INTERFACES.noun,
    action: "add",
    arguments: INTERFACES.fields,
    help: "Adds an interface: packets with VLAN tags on a port, or a loopback",
    batch: true,
};

pub(super) const SET: Verb = Verb {
    noun: INTERFACES.noun,
    action: "set",
    arguments: &[NAME, ADDRESS, MTU, STATE],
    help: "Changes an interface; addresses that are given take the place of all that it had",
    batch: true,
};

pub(super) const DEL: Verb = Verb {
    noun: INTERFACES.noun,
    action: "del",
    arguments: &[NAME],
    help: "Deletes an interface that was added at run time, with its addresses and neighbours",
    batch: true,
};

/// One change, understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Add(WantedInterface),
    /// Lets an interface be this, but for its name, port and tags.
    Set(InterfaceId, WantedInterface),
    Delete(InterfaceId),
}

pub(super) fn understand(control: &Control, action: &str, arguments: &Value) -> Result<Change, String> {
    let name: String = arguments.get("name").and_then(Value::as_str).ok_or("name is missing")?.to_owned();
    match action {
        "add" => add(control, name, arguments).map(Change::Add),
        "set" => {
            let id = find(control, &name)?;
            let before = wanted_of(control, id).ok_or("the interface is gone")?;
            let fresh = Fresh {
                mtu: mtu_of(arguments, before.fresh.mtu)?,
                enabled: state_of(arguments)?.unwrap_or(before.fresh.enabled),
                ..before.fresh
            };
            let addresses = match arguments.get("address") {
                Some(_) => addresses_of(control, arguments, &fresh, Some(id))?,
                None => before.addresses,
            };
            check_mtu(control, &fresh, &addresses)?;
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

pub(super) fn find(control: &Control, name: &str) -> Result<InterfaceId, String> {
    let found = control.interfaces.find(name).map(|interface| interface.id);
    found.ok_or_else(|| format!("there is no interface {name}; `show interfaces` lists them"))
}

/// An interface as it is, as somebody would want it.
fn wanted_of(control: &Control, id: InterfaceId) -> Option<WantedInterface> {
    let fresh = control.interfaces.get(id)?.wanted.clone();
    Some(WantedInterface { fresh, addresses: nets(control, id) })
}

fn add(control: &Control, name: String, arguments: &Value) -> Result<WantedInterface, String> {
    if control.interfaces.find(&name).is_some() {
        return Err(format!("there is an interface {name} already; `interface set` changes it"));
    }
    if !(INTERFACE_NAME.matches)(&name) {
        return Err(format!("\"{name}\" is not {}; write one such as {}", INTERFACE_NAME.what, INTERFACE_NAME.example));
    }
    let port = match arguments.get("on").and_then(Value::as_str) {
        None => None,
        Some(on) => Some(position_of(control, on)?),
    };
    let tags = tags(arguments)?;
    match (port, tags.count()) {
        (Some(port), 0) if let Some(own) = control.interfaces.with_tags(port, Tags::NONE) => {
            return Err(format!("vlan is missing: interface {} has the untagged packets of its port", own.name()));
        }
        (None, 1..) => return Err("on is missing: tags are those of packets on a port".to_owned()),
        _ => {}
    }
    let (vrf, mtu, enabled) = (vrf_of(control, arguments)?, mtu_of(arguments, None)?, state_of(arguments)?);
    let fresh = Fresh { name, port, tags, vrf, mtu, enabled: enabled.unwrap_or(true), tunnel: None };
    let addresses = addresses_of(control, arguments, &fresh, None)?;
    check_mtu(control, &fresh, &addresses)?;
    check_others(control, &fresh)?;
    Ok(WantedInterface { fresh, addresses })
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
pub fn requested_tags(arguments: &Value) -> Option<(&str, Tags)> {
    Some((arguments.get("on")?.as_str()?, tags(arguments).ok()?))
}

fn tags(arguments: &Value) -> Result<Tags, String> {
    let vlan = |key: &str| match arguments.get(key) {
        None => Ok(None),
        Some(_) => number(arguments, key, 1, 4094).map(Some),
    };
    let tpid = |key: &str| match arguments.get(key) {
        None => Ok(None),
        Some(text) => match number(arguments, key, 0x0600, 0xffff)? {
            tpid if can_announce(tpid) => Ok(Some(tpid)),
            _ => Err(format!("{key} {text} announces what interfaces carry themselves, and not a tag; write another")),
        },
    };
    let (outer, inner) = ((vlan("vlan")?, tpid("tpid")?), (vlan("inner-vlan")?, tpid("inner-tpid")?));
    if outer == (None, outer.1) && (outer.1, inner) != (None, (None, None)) {
        return Err("vlan is missing: what is said of tags belongs to it".to_owned());
    }
    if inner.0.is_none() && inner.1.is_some() {
        return Err("inner-vlan is missing: inner-tpid belongs to it".to_owned());
    }
    Ok(tags_of(&weir_stage::interface::tags(outer, inner)))
}

/// A number in decimal digits, or in hexadecimal ones behind `0x`.
fn number(arguments: &Value, key: &str, least: u16, most: u16) -> Result<u16, String> {
    let text = arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("{key} \"{text}\" is not allowed; write a number from {least} to {most}"))
}

fn mtu_of(arguments: &Value, otherwise: Option<u16>) -> Result<Option<u16>, String> {
    match arguments.get("mtu").and_then(Value::as_str) {
        None => Ok(otherwise),
        Some("port") => Ok(None),
        Some(_) => number(arguments, "mtu", 68, 9198).map(Some),
    }
}

fn check_mtu(control: &Control, fresh: &Fresh, addresses: &[IpNet]) -> Result<(), String> {
    let port = fresh.port.and_then(|port| control.interfaces.ports().get(usize::from(port)));
    let Some(port) = port else { return Ok(()) };
    let most = crate::interfaces::most_mtu(port, fresh.tags);
    match fresh.mtu {
        Some(mtu) if mtu > most => {
            Err(format!("mtu {mtu} is more than port {} carries behind these tags; write at most {most}", port.name))
        }
        mtu => too_small(&format!("interface {}", fresh.name), mtu.unwrap_or(most), addresses).map_or(Ok(()), Err),
    }
}

/// No other function that shares the port has the tags.
fn check_others(control: &Control, fresh: &Fresh) -> Result<(), String> {
    let port = fresh.port.and_then(|port| control.interfaces.ports().get(usize::from(port)));
    let Some(port) = port else { return Ok(()) };
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

fn state_of(arguments: &Value) -> Result<Option<bool>, String> {
    match arguments.get("state").and_then(Value::as_str) {
        None => Ok(None),
        Some("up") => Ok(Some(true)),
        Some("down") => Ok(Some(false)),
        Some(other) => Err(format!("state \"{other}\" is not allowed; write up or down")),
    }
}

/// The addresses that are given; none of them may be another interface's, or lie in the same network as one of another interface of the VRF.
fn addresses_of(
    control: &Control,
    arguments: &Value,
    fresh: &Fresh,
    of: Option<InterfaceId>,
) -> Result<Vec<IpNet>, String> {
    let mut arguments = INTERFACES.arguments(arguments);
    let given = arguments.list::<InterfaceAddress>("address");
    let mut found: Vec<IpNet> = Vec::new();
    for address in arguments.finish(given)? {
        let net = address.net();
        if fresh.port.is_none() && net.prefix_len() < net.max_prefix_len() {
            let whole = net.max_prefix_len();
            return Err(format!(
                "{net} is a network, and none is connected to a loopback; write {}/{whole}",
                net.addr()
            ));
        }
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
    let WantedInterface { fresh, addresses } = wanted_of(control, id)?;
    let mut arguments = json!({ "name": fresh.name });
    let table = arguments.as_object_mut()?;
    let port = fresh.port.and_then(|port| control.interfaces.ports().get(usize::from(port)));
    let mut say = |key: &str, value: Option<String>| {
        table.extend(value.map(|value| (key.to_owned(), Value::from(value))));
    };
    let (outer, inner) = (fresh.tags.outer(), fresh.tags.inner());
    let tag = |tag: Tag, text: fn(Tag) -> String| tag.is_some().then(|| text(tag));
    say("on", port.map(|port| port.name.clone()));
    say("vlan", tag(outer, |tag| tag.vlan.to_string()));
    say("inner-vlan", tag(inner, |tag| tag.vlan.to_string()));
    say("tpid", tag(outer, |tag| format!("{:#06x}", tag.tpid)));
    say("inner-tpid", tag(inner, |tag| format!("{:#06x}", tag.tpid)));
    say("vrf", (fresh.vrf != weir_net::DEFAULT_VRF).then(|| control.vrf_name(fresh.vrf).to_owned()));
    say("mtu", fresh.mtu.map(|mtu| mtu.to_string()));
    say("state", (!fresh.enabled).then(|| "down".to_owned()));
    if !addresses.is_empty() {
        let addresses: Vec<String> = addresses.iter().map(IpNet::to_string).collect();
        table.insert("address".to_owned(), addresses.into());
    }
    Some(INTERFACES.saved("add", arguments))
}
