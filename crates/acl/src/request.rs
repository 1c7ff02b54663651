//! `weir acl add` and `del`: one rule more or less in a list, while packets flow.

use serde_json::Value;
use weir_config::Scalar;
use weir_stage::{Argument, Collection, Entry as _, Saved, Verb, Within, entry};

entry! {
    /// A rule of a list, as requests say it.
    struct ListedRule by (list: String, at: Option<u32>) {
        /// The name of the access list.
        list: String = required, live;
        /// Its position: 1 is the first, which is where it goes when nothing is said.
        at: Option<u32> = optional, live, range(1..=u32::MAX);
        /// The rule: permit or deny, then words, each with its value, and log. A router's: protocol, from, to, from-port, to-port, flags,
        /// fragment, dscp, icmp, police, set-dscp, redirect. A bridge's: from, to, vlan, ethertype, police.
        rule: Vec<String> = required, live;
    }
}

/// The rules of a list, as a file has them: by themselves.
pub static RULES: Collection = Collection {
    file_key: "rules_csv",
    fields: const { &[Argument { keyword: None, many: false, ..ListedRule::FIELDS[2] }] },
    ..Collection::of::<ListedRule>("acl", "acls")
};

/// Adds a rule.
pub const ADD: Verb = Verb {
    noun: "acl",
    action: "add",
    arguments: ListedRule::FIELDS,
    help: "Adds a rule to an access list, in front of the one at its position",
    batch: true,
};

/// Deletes one.
pub const DEL: Verb = Verb {
    noun: "acl",
    action: "del",
    arguments: const {
        &[
            ListedRule::KEYS[0],
            Argument {
                required: true,
                help: "The position of the rule, as `show acls` tells it",
                ..ListedRule::KEYS[1]
            },
        ]
    },
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
        let mut source = RULES.arguments(arguments);
        if verb == "acl add" {
            let said = ListedRule::read_from(&mut source, None);
            let ListedRule { list, at, rule } = source.finish(said)?;
            let rule = R::parse(&rule.join(" ")).map_err(|wrong| {
                let remedy = if wrong.remedy.is_empty() { R::EXAMPLE } else { &wrong.remedy };
                format!("the rule {}; {remedy}", wrong.problem)
            })?;
            return Ok((list, Change::Add(rule, at.map_or(0, place))));
        }
        let key = ListedRule::read_key(&mut source);
        let (list, at) = source.finish(key)?;
        Ok((list, Change::Del(at.map(place).ok_or("at is missing; `show acls` numbers the rules")?)))
    }
}

/// A position from 1 on, as one from 0 on.
fn place(at: u32) -> usize {
    at.saturating_sub(1) as usize
}

/// A rule that was added at run time to a list, at a position from 1 on, as the request that would add it again.
pub fn saved(list: &str, at: u32, rule: &str) -> Saved {
    let within = Some(Within { key: "acls", argument: "list" });
    let said = ListedRule { list: list.to_owned(), at: Some(at), rule: vec![rule.to_owned()] };
    Saved { key: "rules".to_owned(), entry: Some(rule.into()), within, ..RULES.saved("add", said.to_json().into()) }
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
