//! The difference between two checked configurations, as a list of actions: what a reload would do.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::contents;
use crate::document::{Catalogue, Checked, Element};
use crate::path::Path;
use crate::schema::{Change, Schema};
use crate::types::Type;
use crate::value::{Key, Table, Value};

/// What happens to one element.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Action {
    /// The element's kind.
    pub kind: String,
    /// The element's name.
    pub name: String,
    /// The start of its key paths.
    pub title: String,
    /// What happens to it.
    #[serde(flatten)]
    pub what: What,
}

/// What happens to an element.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum What {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It stays as it is, with its state and counters.
    Unchanged,
    /// Some of its keys change.
    Changed {
        /// The change that asks for most.
        strongest: Change,
        /// The keys, in order.
        keys: Vec<KeyChange>,
    },
}

/// A key that changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyChange {
    /// The key's path.
    pub path: String,
    /// The old value, in Lua's notation and shortened; absent if the key is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The new value; absent if the key is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What the change takes.
    pub change: Change,
}

/// What a reload would do: removals first, then the elements of the new configuration in their order.
///
/// `Display` is what `weir reload --dry-run` prints.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Plan {
    /// One action for each element of either configuration.
    pub actions: Vec<Action>,
}

impl Plan {
    /// The difference between two configurations that were checked against the same catalogue.
    pub fn between(catalogue: &Catalogue, old: &Checked, new: &Checked) -> Self {
        let (before, after) = (by_name(old), by_name(new));
        let removed = old
            .elements()
            .iter()
            .filter(|element| !after.contains_key(&(element.kind(), element.name())))
            .map(|element| action(element, What::Removed));
        let others = new.elements().iter().map(|element| {
            let what = match before.get(&(element.kind(), element.name())) {
                None => What::Added,
                Some(before) => compare(catalogue, before, element),
            };
            action(element, what)
        });
        Self { actions: removed.chain(others).collect() }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.actions.iter().all(|action| action.what == What::Unchanged)
    }

    /// The change of a key that asks for most, over all elements. Added and removed elements are rebuilt.
    pub fn strongest(&self) -> Option<Change> {
        let each = self.actions.iter().filter_map(|action| match &action.what {
            What::Unchanged => None,
            What::Added | What::Removed => Some(Change::Rebuild),
            What::Changed { strongest, .. } => Some(*strongest),
        });
        each.max()
    }
}

/// The elements by kind and name; a look through all for each of many would take long.
fn by_name(checked: &Checked) -> HashMap<(&str, &str), &Element> {
    checked.elements().iter().map(|element| ((element.kind(), element.name()), &**element)).collect()
}

fn action(element: &Element, what: What) -> Action {
    Action { kind: element.kind().to_owned(), name: element.name().to_owned(), title: element.path().to_string(), what }
}

fn compare(catalogue: &Catalogue, old: &Element, new: &Element) -> What {
    let mut keys = Vec::new();
    if let Some(kind) = catalogue.kind(new.kind()) {
        let empty = Table::default();
        let (before, after) = (old.value().as_table(), new.value().as_table());
        table(kind.schema(), before.unwrap_or(&empty), after.unwrap_or(&empty), &new.path(), &mut keys);
    }
    keys.extend(contents::changed(&old.files, &new.files));
    match keys.iter().map(|key| key.change).max() {
        None => What::Unchanged,
        Some(strongest) => What::Changed { strongest, keys },
    }
}

fn table(schema: &Schema, old: &Table, new: &Table, path: &Path<'_>, keys: &mut Vec<KeyChange>) {
    for key in &schema.keys {
        let here = path.field(key.name);
        either_side(&key.holds, old.get(key.name), new.get(key.name), &here, key.change, keys);
    }
}

fn either_side(
    holds: &Type,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &Path<'_>,
    change: Change,
    keys: &mut Vec<KeyChange>,
) {
    match (old, new) {
        (Some(old), Some(new)) if old == new => {}
        (Some(old), Some(new)) => value(holds, old, new, path, change, keys),
        (None, None) => {}
        (old, new) => keys.push(KeyChange { path: path.to_string(), from: old.map(shown), to: new.map(shown), change }),
    }
}

/// Two values that differ: goes down as far as both have the same shape.
fn value(holds: &Type, old: &Value, new: &Value, path: &Path<'_>, change: Change, keys: &mut Vec<KeyChange>) {
    match (holds, old, new) {
        (Type::Table(schema), Value::Table(old), Value::Table(new)) => table(schema, old, new, path, keys),
        (Type::Map { value: of, .. }, Value::Table(old), Value::Table(new)) => {
            let all: std::collections::BTreeSet<_> = old.0.keys().chain(new.0.keys()).collect();
            for key in all {
                either_side(of, old.0.get(key), new.0.get(key), &path.key(key), change, keys);
            }
        }
        (Type::List { of, .. }, Value::List(old), Value::List(new)) if old.len() == new.len() => {
            for (index, (old, new)) in (1_i64..).zip(old.iter().zip(new)) {
                either_side(of, Some(old), Some(new), &path.index(index), change, keys);
            }
        }
        (Type::Tagged { tag, cases }, Value::Table(before), Value::Table(after)) => {
            let word = before.get(tag).filter(|word| Some(*word) == after.get(tag)).and_then(Value::as_text);
            match cases.iter().find(|(known, _)| word == Some(known)) {
                Some((_, schema)) => table(schema, before, after, path, keys),
                None => replaced(old, new, path, change, keys),
            }
        }
        (Type::Either(types), Value::Table(before), Value::Table(after)) => {
            let known = |schema: &&Schema| {
                let mut all = before.0.keys().chain(after.0.keys());
                all.all(|key| matches!(key, Key::Name(name) if schema.key(name).is_some()))
            };
            match types.iter().filter_map(Type::as_table).find(known) {
                Some(schema) => table(schema, before, after, path, keys),
                None => replaced(old, new, path, change, keys),
            }
        }
        _ => replaced(old, new, path, change, keys),
    }
}

fn replaced(old: &Value, new: &Value, path: &Path<'_>, change: Change, keys: &mut Vec<KeyChange>) {
    keys.push(KeyChange { path: path.to_string(), from: Some(shown(old)), to: Some(shown(new)), change });
}

/// The value in full where it is short.
fn shown(value: &Value) -> String {
    const SHORT: usize = 4;
    match value {
        Value::List(list) if list.len() <= SHORT => value.to_string(),
        other => other.brief(),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for action in &self.actions {
            match &action.what {
                What::Added => writeln!(f, "+ {}: added", action.title)?,
                What::Removed => writeln!(f, "- {}: removed", action.title)?,
                What::Unchanged => writeln!(f, "= {}: unchanged", action.title)?,
                What::Changed { strongest, keys } => {
                    writeln!(f, "~ {}: changed ({strongest})", action.title)?;
                    write_keys(f, keys)?;
                }
            }
        }
        Ok(())
    }
}

/// The first changes of an element, and the number of the others.
fn write_keys(f: &mut fmt::Formatter<'_>, keys: &[KeyChange]) -> fmt::Result {
    const SHOWN: usize = 20;
    for key in keys.iter().take(SHOWN) {
        let from = key.from.as_deref().unwrap_or("absent");
        let to = key.to.as_deref().unwrap_or("absent");
        writeln!(f, "    {}: {from} -> {to} ({})", key.path, key.change)?;
    }
    match keys.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(f, "    and {more} more"),
    }
}
