//! `weir acl add` and `del`, and what is shown of lists.

use std::sync::MutexGuard;

use serde_json::{Value, json};
use weir_acl::request::{Change, saved};
use weir_stage::{Entries, RequestError, Saved, ShowRows, entries, whole};
use weir_wire::MacAddr;

use super::book::ListOf;
use super::lists::Logged;
use super::rule::Rule;
use crate::show::shown;
use crate::state::{Control, Shared};

/// A bridge whose lists are changed.
struct Locked<'a> {
    shared: &'a Shared,
    control: MutexGuard<'a, Control>,
}

/// How a change is taken back.
enum Undo {
    Remove(String, usize),
    Insert(String, usize, Box<Rule>),
}

impl Entries for Locked<'_> {
    type Undo = Undo;

    fn change(&mut self, verb: &str, arguments: &Value, _now: u64) -> Result<Undo, String> {
        let (list, change) = Change::<Rule>::of(verb, arguments)?;
        let book = &mut self.control.acls;
        Ok(match change {
            Change::Add(rule, at) => {
                let at = book.insert(&list, at, rule)?;
                Undo::Remove(list, at)
            }
            Change::Del(at) => {
                let rule = Box::new(book.remove(&list, at)?);
                Undo::Insert(list, at, rule)
            }
        })
    }

    fn take_back(&mut self, undo: Undo, _now: u64) {
        // What was there a moment ago has room, and what was added is there to be removed.
        match undo {
            Undo::Remove(list, at) => drop(self.control.acls.remove(&list, at)),
            Undo::Insert(list, at, rule) => drop(self.control.acls.insert(&list, at, *rule)),
        }
    }

    fn settle(&mut self) {
        self.control.publish_acls(self.shared);
    }
}

/// Carries out a request for one or many rules: all of it or nothing, and workers see all of it at once.
pub(crate) fn carry_out(shared: &Shared, verb: &str, arguments: &Value, now: u64) -> Result<Value, RequestError> {
    entries::carry_out(|| Box::new(Locked { shared, control: shared.control() }), usize::MAX, (verb, arguments), now)
}

/// Rules that were added at run time, list by list, as requests that would add them again.
pub(crate) fn save(shared: &Shared) -> Box<dyn ShowRows<Saved>> {
    let control = shared.control();
    let all = control.acls.lists.iter().flat_map(|(name, list)| {
        let added = list.rules.iter().filter(|stated| stated.is_added).zip(1..);
        added.map(move |(stated, at)| saved(name, at, stated.rule.text()))
    });
    whole(all.collect())
}

/// The rows of a table, `acls` or `acl-log`: of all lists or of one.
pub(crate) fn rows(shared: &Shared, what: &str, filter: Option<&str>) -> Result<Box<dyn ShowRows>, RequestError> {
    let control = shared.control();
    if let Some(name) = filter.filter(|name| !control.acls.lists.contains_key(*name)) {
        return Err(RequestError(control.acls.unknown(name)));
    }
    let is_meant = |name: &str| filter.is_none_or(|meant| meant == name);
    if what == "acl-log" {
        let kept = shared.logged.all();
        return Ok(whole(
            kept.iter().filter(|logged| is_meant(&logged.list)).map(|logged| of_log(&control, logged)).collect(),
        ));
    }
    let lists = control.acls.lists.iter().filter(|(name, _)| is_meant(name));
    Ok(whole(lists.flat_map(|(name, list)| of_list(&control, name, list)).collect()))
}

fn of_list(control: &Control, name: &str, list: &ListOf) -> Vec<Value> {
    let row = |at: Option<usize>, rule: String, source: &str, (packets, bytes): (u64, u64)| json!({ "acl": name, "at": at, "rule": rule, "source": source, "packets": packets, "bytes": bytes });
    let rules = list.rules.iter().zip(1..).map(|(stated, at)| {
        let source = if stated.is_added { "cli" } else { "config" };
        row(Some(at), stated.rule.to_string(), source, control.acls.since(stated.place, stated.before))
    });
    let counted = control.acls.since(list.default_place, list.default_before);
    rules.chain([row(None, format!("{} (default)", list.default), "config", counted)]).collect()
}

fn of_log(control: &Control, logged: &Logged) -> Value {
    let list = control.acls.lists.get(&*logged.list);
    let rule = list.and_then(|list| list.rules.iter().find(|stated| stated.place == logged.place));
    json!({
        "time": logged.at,
        "acl": &*logged.list,
        "port": control.name(logged.port),
        "side": if logged.is_in { "in" } else { "out" },
        "source": MacAddr::from_bits(logged.facts.from).to_string(),
        "destination": MacAddr::from_bits(logged.facts.to).to_string(),
        "vlan": shown(control, logged.facts.vlan),
        "ethertype": format!("0x{:04x}", logged.facts.ethertype),
        "rule": rule.map(|stated| stated.rule.to_string()),
    })
}
