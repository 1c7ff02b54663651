//! Routed sides: interfaces on a function that switches, `interface { on = "bridge:lan" }`. Such a one stands for a joint between that function and
//! the one that the interfaces belong to, with a port at each end, which are written into the configuration before it is checked: so
//! everything else, reloads among it, knows ports and joints alone.
//!
//! Interfaces that are added at run time are no declarations. The first of them on a side has the running configuration replaced by the same with
//! the joint in it, before it is added; and what is read later has the joint as long as there are such interfaces.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use weir_config::{Checked, ConfigError, Declaration, Document, ErrorKind, NAME, Pattern, Place, Table, Value};
use weir_stage::{AnyFunction, JOINT, RequestError, Switched, Verb};

use super::{RunningFunction, Supervisor};
use crate::catalogue;

/// The form of a port's name: those of routed sides, which the configuration does not declare, have two parts.
pub(crate) static PORT_NAME: Pattern = Pattern {
    what: NAME.what,
    example: NAME.example,
    matches: |text| match text.split_once(':') {
        Some((kind, name)) => (NAME.matches)(kind) && (NAME.matches)(name),
        None => (NAME.matches)(text),
    },
};

/// Whether what an interface is on, or the name of a port, is a routed side.
pub(super) fn is_side(port: &str) -> bool {
    port.contains(':')
}

/// Bytes of IP packets on ports whose MTU is not said.
const USUAL_MTU: i64 = 1500;

/// Routed sides that there are to be beside those of the configuration, for interfaces that were added at run time or are about to be: the names
/// of the functions that those belong to, by what the interfaces are on.
pub(crate) type Sides = BTreeMap<String, BTreeSet<String>>;

/// The verb of requests that add interfaces.
pub(super) const ADDS: &str = "interface add";

/// What a request that adds an interface says it is on, if that is a routed side.
pub(super) fn side_of(arguments: &Json) -> Option<&str> {
    arguments.get("on").and_then(Json::as_str).filter(|on| is_side(on))
}

/// What keeps an interface that a request adds from being on a routed side in a running configuration, in a sentence.
pub(super) fn refusal(running: &Checked, side: &str, arguments: &Json) -> Option<String> {
    let elements = running.elements().iter();
    let all = switching(elements.filter_map(|one| Some((one.kind(), one.name(), one.value().as_table()?))));
    let Some((.., switched)) = all.iter().find(|(name, ..)| name == side) else {
        let (problem, allowed) = unknown(side, all.iter().map(|(name, ..)| name.as_str()));
        return Some(format!("{problem}; an interface is on {allowed}"));
    };
    let lacks_vlan = switched.tpid.is_some() && arguments.get("vlan").is_none();
    lacks_vlan.then(|| format!("vlan is missing: {side} tells VLANs apart; write {}", allowed(&switched.vlans)))
}

/// The functions that switch among declarations, given as kinds, names and keys, by the names of their routed sides.
fn switching<'d>(
    all: impl Iterator<Item = (&'d str, &'d str, &'d Table)>,
) -> Vec<(String, &'static dyn AnyFunction, Switched)> {
    let of = |(kind, name, keys): (&str, &str, &Table)| {
        let function = catalogue::function(kind)?;
        Some((format!("{kind}:{name}"), function, function.switched(keys)?))
    };
    all.filter_map(of).collect()
}

/// What is wrong with a side that is none, and what is allowed in its place: ports, or these sides.
fn unknown<'n>(side: &str, sides: impl Iterator<Item = &'n str>) -> (String, String) {
    let (kind, name) = side.split_once(':').unwrap_or_default();
    let empty = Table::default();
    let switches = |function: &&dyn AnyFunction| function.kind() == kind && function.switched(&empty).is_some();
    let problem = match (catalogue::FUNCTIONS.iter().any(switches), catalogue::function(kind)) {
        (true, _) => format!("there is no {kind} \"{name}\""),
        (false, Some(_)) => format!("\"{side}\" is nothing that interfaces may be on: {kind} has no routed side"),
        (false, None) => format!("\"{side}\" is nothing that interfaces may be on"),
    };
    let sides = sides.collect::<Vec<_>>().join(", ");
    let allowed = match sides.as_str() {
        "" => "a port; no function here has a routed side".to_owned(),
        sides => format!("a port, or one of {sides}"),
    };
    (problem, allowed)
}

/// The document with the joints of its routed sides and of those that were `added`, and with what is wrong with its own among its errors. One that was
/// added and cannot be in this document is left out.
pub(super) fn join<'d>(document: &'d Document, added: &Sides) -> Cow<'d, Document> {
    let is_it = |one: &Declaration| {
        one.kind == "interface" && text(one, "on").is_some_and(is_side) || one.kind == "port" && is_side(name_of(one))
    };
    if added.is_empty() && !document.declarations.iter().any(is_it) {
        return Cow::Borrowed(document);
    }
    let mut document = document.clone();
    refuse_ports(&mut document);
    let mut sides: BTreeMap<String, Vec<usize>> = added.keys().map(|side| (side.clone(), Vec::new())).collect();
    for (at, one) in document.declarations.iter().enumerate().filter(|(_, one)| one.kind == "interface") {
        if let Some(side) = text(one, "on").filter(|on| is_side(on)) {
            sides.entry(side.to_owned()).or_default().push(at);
        }
    }
    for (side, interfaces) in sides {
        Joining { document: &mut document, side: &side, interfaces: &interfaces, added: added.get(&side) }.join();
    }
    Cow::Owned(document)
}

/// A document that has the joints of its sides already, with those that were `added` to it.
pub(super) fn join_more(mut document: Document, added: &Sides) -> Document {
    for (side, functions) in added {
        Joining { document: &mut document, side, interfaces: &[], added: Some(functions) }.join();
    }
    document
}

/// No port is declared by the name of a routed side.
fn refuse_ports(document: &mut Document) {
    for one in document.declarations.iter_mut().filter(|one| one.kind == "port") {
        let name = name_of(one).to_owned();
        if is_side(&name) && (PORT_NAME.matches)(&name) {
            let problem = format!("is the name of a routed side, and not {}", NAME.what);
            let error = ConfigError::new(ErrorKind::Malformed, &one.place, format!("port[{name:?}].name"), problem);
            document.errors.push(error.remedy(format!("write one such as {}", NAME.example)));
            one.incomplete = true;
        }
    }
}

/// The value of a key that is a text.
fn text<'d>(one: &'d Declaration, key: &str) -> Option<&'d str> {
    one.table.as_table().and_then(|table| table.get(key)).and_then(Value::as_text)
}

fn integer(one: &Declaration, key: &str) -> Option<i64> {
    one.table.as_table().and_then(|table| table.get(key)).and_then(Value::as_integer)
}

fn has(one: &Declaration, key: &str) -> bool {
    one.table.as_table().is_some_and(|table| table.get(key).is_some())
}

/// The name of a declaration; that of its kind where it has none.
fn name_of(one: &Declaration) -> &str {
    text(one, "name").unwrap_or(&one.kind)
}

impl Supervisor {
    /// The running function that carries out a request.
    pub(super) fn carrying_out(&self, verb: &str, function: Option<&str>) -> Result<&RunningFunction, RequestError> {
        let knows = |running: &RunningFunction| {
            running.configured.function().verbs().iter().any(|known| Verb::name(known) == verb)
        };
        self.having(function, &format!("the request '{verb}'"), knows)
    }

    /// The routed sides that have to be there before changes are carried out, and are not.
    ///
    /// # Errors
    ///
    /// There can be no such side, or no such interface on it.
    pub(crate) fn sides_before(
        &self,
        verb: &str,
        function: Option<&str>,
        changes: &[Json],
    ) -> Result<Sides, RequestError> {
        let mut sides = Sides::new();
        if verb != ADDS {
            return Ok(sides);
        }
        let running = self.carrying_out(verb, function)?;
        for (number, change) in (1..).zip(changes) {
            let Some(side) = side_of(change) else { continue };
            match refusal(&self.loaded.checked, side, change) {
                Some(problem) if changes.len() == 1 => return Err(RequestError(problem)),
                Some(problem) => return Err(RequestError::of_entry(number, problem)),
                None => {}
            }
            if running.configured.function().routes() && !running.configured.has_port(side) {
                sides.entry(side.to_owned()).or_default().insert(running.configured.name().to_owned());
            }
        }
        Ok(sides)
    }

    /// The routed sides with interfaces that were added at run time.
    pub(crate) fn sides_added(&self) -> Sides {
        let mut sides = Sides::new();
        for running in self.functions.iter().filter(|running| running.configured.function().routes()) {
            let own = self.ports.values().filter(|open| running.configured.has_port(&open.info.name));
            let added = own.filter(|open| is_side(&open.info.name) && running.instance.has_added_on(open.info.index));
            for open in added {
                sides.entry(open.info.name.clone()).or_default().insert(running.configured.name().to_owned());
            }
        }
        sides
    }
}

/// A routed side, the places of the interfaces on it among the declarations, and the functions with interfaces there that are no declarations.
struct Joining<'d> {
    document: &'d mut Document,
    side: &'d str,
    interfaces: &'d [usize],
    added: Option<&'d BTreeSet<String>>,
}

impl Joining<'_> {
    fn join(mut self) {
        let Some((at, function, switched)) = self.switching() else { return };
        let vlans = self.check(&switched);
        let owners = self.owners();
        let is_right = |at: &usize| self.document.declarations.get(*at).is_some_and(|one| !one.incomplete);
        if owners.is_empty() || self.added.is_none() && !self.interfaces.iter().any(is_right) {
            return;
        }
        let (near, far) = (self.side.to_owned(), format!("{}:routed", name_of(&self.document.declarations[at])));
        let is_there = self.document.declarations.iter().any(|one| one.kind == "port" && name_of(one) == near);
        let mtu = self.mtu(&switched);
        for name in [&near, &far].into_iter().filter(|_| !is_there) {
            self.declare(name, mtu);
        }
        let mut add = |at: usize, function: &dyn AnyFunction, port: &str| {
            let keys = self.document.declarations.get_mut(at).map(|one| &mut one.table);
            match keys {
                Some(Value::Table(keys)) => function.add_port(keys, port, &vlans),
                // A declaration without keys.
                Some(Value::List(list)) if list.is_empty() => {
                    let mut keys = Table::default();
                    function.add_port(&mut keys, port, &vlans);
                    self.document.declarations[at].table = Value::Table(keys);
                }
                _ => {}
            }
        };
        if !is_there {
            add(at, function, &far);
        }
        owners.into_iter().for_each(|(at, function)| add(at, function, &near));
    }

    /// An error about a key of an interface. The rest of it is not looked at: what follows from this would be told as well.
    fn wrong(&mut self, at: usize, kind: ErrorKind, key: &str, problem: String, allowed: String, remedy: &str) {
        let Some(one) = self.document.declarations.get_mut(at) else { return };
        let path = format!("interface[{:?}].{key}", name_of(one));
        let error = ConfigError::new(kind, &one.place, path, problem).allowed(allowed).remedy(remedy);
        one.incomplete = true;
        self.document.errors.push(error);
    }

    /// All functions among the declarations.
    fn functions(&self) -> impl Iterator<Item = (usize, &Declaration, &'static dyn AnyFunction)> {
        let all = self.document.declarations.iter().enumerate();
        all.filter_map(|(at, one)| Some((at, one, catalogue::function(&one.kind)?)))
    }

    /// The function that the side is of. Where there is none, that is said of each interface.
    fn switching(&mut self) -> Option<(usize, &'static dyn AnyFunction, Switched)> {
        let empty = Table::default();
        let all =
            self.functions().map(|(_, one, _)| (&*one.kind, name_of(one), one.table.as_table().unwrap_or(&empty)));
        let all = switching(all);
        if let Some((_, function, switched)) = all.iter().find(|(name, ..)| name == self.side) {
            let is_it = |one: &Declaration| format!("{}:{}", one.kind, name_of(one)) == self.side;
            let at = self.document.declarations.iter().position(is_it)?;
            return Some((at, *function, switched.clone()));
        }
        let (problem, allowed) = unknown(self.side, all.iter().map(|(name, ..)| name.as_str()));
        for at in self.interfaces.iter().copied() {
            self.wrong(at, ErrorKind::Dangling, "on", problem.clone(), allowed.clone(), "");
        }
        None
    }

    /// Checks the tags of the interfaces, and gives them those that it switches by. Answers their VLANs.
    fn check(&mut self, switched: &Switched) -> BTreeSet<u16> {
        let mut vlans = BTreeSet::new();
        let mut untagged: Option<String> = None;
        for at in self.interfaces.iter().copied() {
            let Some(one) = self.document.declarations.get(at) else { continue };
            let (name, vlan, tpid) = (name_of(one).to_owned(), integer(one, "vlan"), integer(one, "tpid"));
            let vlan = vlan.and_then(|vlan| u16::try_from(vlan).ok()).filter(|vlan| (1..=4094).contains(vlan));
            match (switched.tpid, vlan) {
                (Some(_), None) if !has(one, "vlan") => {
                    let problem = format!("is missing: {} tells VLANs apart", self.side);
                    self.wrong(at, ErrorKind::Missing, "vlan", problem, allowed(&switched.vlans), "");
                }
                (Some(own), Some(vlan)) => {
                    if !switched.vlans.contains(&vlan) {
                        let problem = format!("{vlan} is in no port of {}: nobody would be reached there", self.side);
                        let remedy = "put one of its ports into this VLAN, or name another";
                        self.wrong(at, ErrorKind::Dangling, "vlan", problem, allowed(&switched.vlans), remedy);
                    } else if tpid.is_some_and(|tpid| tpid != i64::from(own)) {
                        let problem = format!("is not that of the tags of {}, which is {own:#06x}", self.side);
                        self.wrong(at, ErrorKind::Conflict, "tpid", problem, String::new(), "leave it out");
                    } else if let Some(Value::Table(keys)) =
                        self.document.declarations.get_mut(at).map(|one| &mut one.table)
                    {
                        keys.set("tpid", i64::from(own).into());
                    }
                    vlans.insert(vlan);
                }
                (None, None) if !has(one, "vlan") => match &untagged {
                    Some(other) => {
                        let problem = format!("is missing: interface \"{other}\" has the frames without a tag already");
                        self.wrong(at, ErrorKind::Conflict, "vlan", problem, String::new(), "leave one of the two out");
                    }
                    None => untagged = Some(name),
                },
                // What is no VLAN is the schema's to tell.
                _ => {}
            }
        }
        vlans
    }

    /// The functions that the interfaces belong to. Where that is not clear, it is said of each interface.
    fn owners(&mut self) -> Vec<(usize, &'static dyn AnyFunction)> {
        let routing = self.functions().filter(|(_, _, function)| function.routes());
        let routing: Vec<_> = routing.map(|(at, one, function)| (name_of(one).to_owned(), at, function)).collect();
        let names = routing.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>().join(", ");
        let kinds = catalogue::FUNCTIONS.iter().filter(|function| function.routes()).map(|function| function.kind());
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let is_added = |name: &String| self.added.is_some_and(|added| added.contains(name));
        let added = routing.iter().filter(|(name, ..)| is_added(name));
        let mut owners: BTreeMap<usize, &dyn AnyFunction> = added.map(|(_, at, function)| (*at, *function)).collect();
        for at in self.interfaces.iter().copied() {
            let of = self.document.declarations.get(at).and_then(|one| text(one, "of"));
            let found = routing.iter().find(|(name, ..)| of.is_none_or(|of| of == name));
            match (of, found, routing.len()) {
                (_, _, 0) => {
                    let problem = format!("\"{}\" has a routed side where there is a function that routes", self.side);
                    self.wrong(at, ErrorKind::Missing, "on", problem, String::new(), &format!("declare one: {kinds}"));
                }
                (Some(of), None, _) => {
                    let problem = format!("\"{of}\" is no function that routes");
                    self.wrong(at, ErrorKind::Dangling, "of", problem, format!("one of {names}"), "");
                }
                (None, _, 2..) => {
                    let problem = format!("is missing: who routes for {} is not clear", self.side);
                    self.wrong(at, ErrorKind::Missing, "of", problem, format!("one of {names}"), "");
                }
                (_, Some((_, owner, function)), _) => drop(owners.insert(*owner, *function)),
                (None, None, _) => {}
            }
        }
        owners.into_iter().collect()
    }

    /// The MTU of the joint, if it is another than is usual: what passes all ports of the function that switches.
    fn mtu(&self, switched: &Switched) -> Option<i64> {
        let ports = self.document.declarations.iter().filter(|one| one.kind == "port");
        let ports = ports.filter(|one| switched.ports.contains(name_of(one)));
        let least = ports.map(|one| integer(one, "mtu").unwrap_or(USUAL_MTU)).min();
        least.filter(|mtu| *mtu != USUAL_MTU)
    }

    /// Declares an end of the joint.
    fn declare(&mut self, name: &str, mtu: Option<i64>) {
        let place = self.interfaces.first().and_then(|at| self.document.declarations.get(*at));
        let place = place.map_or_else(|| Place::line(&self.document.file, 0), |one| one.place.clone());
        let mut table = Table::default();
        table.set("name", name.into());
        table.set("device", Value::text(format!("{}:{}", JOINT, self.side)));
        mtu.into_iter().for_each(|mtu| table.set("mtu", mtu.into()));
        let declaration = Declaration { kind: "port".to_owned(), table: Value::Table(table), place, incomplete: false };
        self.document.declarations.push(declaration);
    }
}

/// The VLANs that there are, for messages.
fn allowed(vlans: &BTreeSet<u16>) -> String {
    const MOST: usize = 16;
    let some: Vec<String> = vlans.iter().take(MOST).map(ToString::to_string).collect();
    let more = if vlans.len() > MOST { ", ..." } else { "" };
    if some.is_empty() { "a VLAN of one of its ports".to_owned() } else { format!("one of {}{more}", some.join(", ")) }
}
