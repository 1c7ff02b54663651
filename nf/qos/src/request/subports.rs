//! What requests say of subports, and whether that may be.

use serde_json::Value;
use weir_sched::config::SubportConfig;
use weir_sched::levels;
use weir_stage::Entry as _;

use super::{Given, SUBPORTS, numbered};
use crate::config::SubportEntry;
use crate::load::number;
use crate::state::Control;
use crate::subports::{config, entry};
use crate::users::User;

/// What a request gives a subport from then on.
pub(super) fn understand(control: &Control, verb: &str, arguments: &Value) -> Result<Given, String> {
    let (name, number) = named(control, arguments)?;
    if verb == "subport reset" && control.subports.is_added(number) {
        return Err(format!("subport \"{name}\" is not in the configuration: `weir subport del {name}` takes it away"));
    }
    if verb == "subport reset" {
        check_levels(control, &name, control.subports.configured(number))?;
        return Ok(Given::Subport(number, None));
    }
    let [_, fields @ ..] = SubportEntry::NAMES else { return Err("a subport has no fields".to_owned()) };
    if fields.iter().all(|field| arguments.get(field).is_none_or(Value::is_null)) {
        return Err(format!(
            "nothing is said of what subport {name} has from now on: give one of {}",
            fields.join(", ")
        ));
    }
    let before = control.subports.get(number).cloned().unwrap_or(SubportConfig::OPEN);
    let mut source = SUBPORTS.arguments(arguments);
    let read = SubportEntry::read_from(&mut source, Some(&entry(&name, &before)));
    let config = config(source.finish(read)?, &before.classes, control.classes())?;
    if let Some((key, problem)) = config.fault() {
        return Err(format!("{key}: {problem}"));
    }
    check_levels(control, &name, Some(&config))?;
    Ok(Given::Subport(number, Some(config)))
}

/// Whether a subport may have something from then on, as far as those above and below it go.
fn check_levels(control: &Control, name: &str, config: Option<&SubportConfig>) -> Result<(), String> {
    let mut all = control.subports.all();
    let before = all.get(name).and_then(|before| before.parent.clone());
    match config {
        Some(config) => _ = all.insert(name.to_owned(), config.clone()),
        None => _ = all.remove(name),
    }
    let parent = config.and_then(|config| config.parent.as_ref());
    if parent.is_some() && parent != before.as_ref() && control.schedulers.iter().any(|(_, shaping)| !shaping.is_tree())
    {
        return Err("parent: the scheduler was made for one level, as no subport had a parent: write a parent in scheduler.subports, and `weir reload`"
            .to_owned());
    }
    // What is wrong with the one that is asked for comes first.
    let own = format!("{name}.");
    let faults = levels::faults(&all);
    match faults.iter().find(|(key, _)| key.starts_with(&own)).or(faults.first()) {
        Some((key, problem)) => Err(format!("{}: {problem}", key.strip_prefix(&own).unwrap_or(key))),
        None => Ok(()),
    }
}

/// A subport that a request adds.
pub(super) fn understand_addition(control: &Control, arguments: &Value) -> Result<Given, String> {
    let mut source = SUBPORTS.arguments(arguments);
    let read = SubportEntry::read_from(&mut source, None);
    let read = source.finish(read)?;
    let name = read.subport.clone();
    if name.is_empty() || name == "none" {
        return Err(format!("subport: \"{name}\" is no name for one: give another"));
    }
    if number(&control.names.subports, &name).is_some() {
        return Err(format!("there is a subport \"{name}\" already: `weir subport set {name}` changes it"));
    }
    if control.names.subports.is_empty() {
        return Err("no subport is configured, so that all users are in one without a name: write one in scheduler.subports, and `weir reload`".to_owned());
    }
    let spare = control.subports.spare().ok_or_else(|| {
        let room = control.names.subports.len();
        format!("there are {room} subports, for which there is room: take away one that was added, or raise scheduler.spare_subports, and `weir reload`")
    })?;
    let config = config(read, &[], control.classes())?;
    if let Some((key, problem)) = config.fault() {
        return Err(format!("{key}: {problem}"));
    }
    check_levels(control, &name, Some(&config))?;
    Ok(Given::Added(spare, Some((name, config))))
}

/// A subport that a request takes away.
pub(super) fn understand_removal(control: &Control, arguments: &Value) -> Result<Given, String> {
    let (name, number) = named(control, arguments)?;
    if !control.subports.is_added(number) {
        return Err(format!(
            "subport \"{name}\" is in the configuration: leave it out of scheduler.subports there, and `weir reload`"
        ));
    }
    let mut users = control.users.iter().map(|(_, user)| user).filter(|user| user.subport() == number);
    if let Some(first) = users.next().and_then(|user: &User| user.keys.first()) {
        let others = users.count();
        return Err(format!(
            "user {first} is in subport \"{name}\", and {others} others: move them first (`weir user set {first} subport NAME`)"
        ));
    }
    if let Some(below) = control.subports.one_below(&name) {
        return Err(format!(
            "subport \"{below}\" is below \"{name}\": move it first (`weir subport set {below} parent NAME`, or `none`)"
        ));
    }
    Ok(Given::Added(number, None))
}

/// The name and the number of the subport that a request is about.
fn named(control: &Control, arguments: &Value) -> Result<(String, u16), String> {
    let mut source = SUBPORTS.arguments(arguments);
    let name = SubportEntry::read_key(&mut source);
    let (name,) = source.finish(name)?;
    let number = numbered("subport", Some(name.clone()), &control.names.subports)?.ok_or("subport is missing")?;
    Ok((name, number))
}
