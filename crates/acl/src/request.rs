//! `weir acl add` and `del`: one rule more or less in a list, while packets flow.

use serde_json::{Value, json};
use weir_config::Scalar;
use weir_stage::{Argument, Collection, Saved, Verb, Within};

const LIST: Argument =
    Argument { name: "list", keyword: None, required: true, many: false, help: "The name of the access list" };

const AT: Argument = Argument {
    name: "at",
    keyword: Some("at"),
    required: false,
    many: false,
    help: "Its position: 1 is the first, which is where it goes when nothing is said",
};

const RULE: Argument = Argument {
    name: "rule",
    keyword: Some("rule"),
    required: true,
    many: true,
    help: "The rule: permit or deny, then words, each with its value, and log. A router's: protocol, from, to, from-port, to-port, flags, \
           fragment, dscp, icmp, police, set-dscp, redirect. A bridge's: from, to, vlan, ethertype, police",
};

/// The rules of a list, as a file has them.
pub static RULES: Collection = Collection {
    noun: "acl",
    key: "acls",
    is_list: true,
    file_key: "rules_csv",
    fields: &[Argument { keyword: None, many: false, ..RULE }],
    has_labels: true,
};

/// Adds a rule.
pub const ADD: Verb = Verb {
    noun: "acl",
    action: "add",
    arguments: &[LIST, AT, RULE],
    help: "Adds a rule to an access list, in front of the one at its position",
    batch: true,
};

/// Deletes one.
pub const DEL: Verb = Verb {
    noun: "acl",
    action: "del",
    arguments: &[LIST, Argument { required: true, help: "The position of the rule, as `show acls` tells it", ..AT }],
    help: "Deletes a rule that was added at run time",
    batch: true,
};

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<R> {
    /// A rule in front of the one at a position, from 0 on.
    Add(R, usize),
    /// The rule at a position less.
    Del(usize),
}

impl<R: Scalar> Change<R> {
    /// What the request `acl add` or `acl del` asks for, and of which list.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn of(verb: &str, arguments: &Value) -> Result<(String, Change<R>), String> {
        let list = arguments.get("list").and_then(Value::as_str).ok_or("list is missing")?.to_owned();
        let at = position(arguments.get("at").unwrap_or(&Value::Null))?;
        if verb == "acl add" {
            let rule = R::parse(&text(arguments.get("rule").unwrap_or(&Value::Null))).map_err(|wrong| {
                let remedy = if wrong.remedy.is_empty() { R::EXAMPLE } else { &wrong.remedy };
                format!("the rule {}; {remedy}", wrong.problem)
            })?;
            return Ok((list, Change::Add(rule, at.unwrap_or(0))));
        }
        Ok((list, Change::Del(at.ok_or("at is missing; `show acls` numbers the rules")?)))
    }
}

/// A position from 1 on, as one from 0 on.
fn position(at: &Value) -> Result<Option<usize>, String> {
    let number = match at {
        Value::Null => return Ok(None),
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    let number = number.and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
    number.map(Some).ok_or_else(|| format!("at: {at} is no position; the first rule has 1"))
}

/// A rule in words, or in one text.
fn text(rule: &Value) -> String {
    match rule.as_array() {
        Some(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        None => rule.as_str().unwrap_or_default().to_owned(),
    }
}

/// A rule that was added at run time to a list, at a position from 1 on, as the request that would add it again.
pub fn saved(list: &str, at: usize, rule: &str) -> Saved {
    let within = Some(Within { key: "acls", argument: "list" });
    let arguments = json!({ "list": list, "at": at, "rule": rule });
    Saved { key: "rules".to_owned(), entry: Some(rule.into()), within, ..RULES.saved("add", arguments) }
}

/// Why nothing can be done to a list that is none of these.
pub fn no_list<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    match known.take(16).collect::<Vec<_>>().as_slice() {
        [] => format!("there is no access list \"{name}\"; the configuration has none"),
        names => format!("there is no access list \"{name}\"; write one of {}", names.join(", ")),
    }
}

/// Why there is no rule at a position (from 0 on) of a list to be deleted.
pub fn no_rule(list: &str, count: usize) -> String {
    format!("{list} has {count} rules; `show acls` numbers them")
}

/// Why a rule at a position (from 0 on) of a list is not deleted.
pub fn in_configuration(list: &str, position: usize) -> String {
    format!("rule {} of {list} stands in the configuration; delete it there and reload", position + 1)
}
