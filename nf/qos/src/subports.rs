//! What users of a subport may send together: as the configuration says, or as it was given at run time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weir_sched::config::SubportConfig;
use weir_sched::gates::UserCount;
use weir_sched::levels;
use weir_sched::profile::LEVELS;
use weir_stage::{Entry as _, Saved};

use crate::config::SubportEntry;
use crate::request::SUBPORTS;

/// A subport.
#[derive(Clone, Debug, PartialEq)]
struct Subport {
    name: String,
    configured: SubportConfig,
    /// What it was given at run time, in place of all that the configuration says.
    given: Option<SubportConfig>,
}

impl Subport {
    fn counts(&self) -> &SubportConfig {
        self.given.as_ref().unwrap_or(&self.configured)
    }

    fn source(&self) -> &'static str {
        if self.given.is_some() { "cli" } else { "config" }
    }
}

/// How many users there are, and what became of their packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) users: usize,
    pub(crate) count: UserCount,
}

impl Carried {
    pub(crate) fn plus(self, other: Carried) -> Carried {
        Carried { users: self.users + other.users, count: self.count.plus(other.count) }
    }
}

/// All subports, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Subports(Vec<Subport>);

impl Subports {
    /// As configured, in the order of their numbers.
    pub(crate) fn new<'a>(configured: impl Iterator<Item = (&'a String, &'a SubportConfig)>) -> Subports {
        let subport = |(name, configured): (&String, &SubportConfig)| Subport {
            name: name.clone(),
            configured: configured.clone(),
            given: None,
        };
        Subports(configured.map(subport).collect())
    }

    /// What counts for one.
    pub(crate) fn get(&self, number: u16) -> Option<&SubportConfig> {
        self.0.get(usize::from(number)).map(Subport::counts)
    }

    /// What the configuration says of one.
    pub(crate) fn configured(&self, number: u16) -> Option<&SubportConfig> {
        self.0.get(usize::from(number)).map(|subport| &subport.configured)
    }

    /// What one was given.
    pub(crate) fn given(&self, number: u16) -> Option<&SubportConfig> {
        self.0.get(usize::from(number)).and_then(|subport| subport.given.as_ref())
    }

    /// Gives one other rates, or takes that back.
    pub(crate) fn give(&mut self, number: u16, given: Option<SubportConfig>) {
        if let Some(subport) = self.0.get_mut(usize::from(number)) {
            subport.given = given;
        }
    }

    /// What subports of the same names were given counts here, too, but for what would be above them where that can no longer be.
    pub(crate) fn adopt(&mut self, old: &Subports) {
        for old in old.0.iter().filter(|old| old.given.is_some()) {
            if let Some(subport) = self.0.iter_mut().find(|subport| subport.name == old.name) {
                subport.given.clone_from(&old.given);
            }
        }
        let wrong: BTreeSet<String> = levels::faults(&self.all())
            .iter()
            .filter_map(|(key, _)| Some(key.strip_suffix(".parent")?.to_owned()))
            .collect();
        for subport in self.0.iter_mut().filter(|subport| wrong.contains(&subport.name)) {
            let parent = subport.configured.parent.clone();
            subport.given.iter_mut().for_each(|given| given.parent.clone_from(&parent));
        }
    }

    /// Those that were given anything, by number.
    pub(crate) fn all_given(&self) -> impl Iterator<Item = (u16, &SubportConfig)> {
        (0..).zip(&self.0).filter_map(|(number, subport)| Some((number, subport.given.as_ref()?)))
    }

    /// What counts for all of them, by name.
    pub(crate) fn all(&self) -> BTreeMap<String, SubportConfig> {
        self.0.iter().map(|subport| (subport.name.clone(), subport.counts().clone())).collect()
    }

    /// A row for each, with those below it behind it, or for one and those below it alone; `carried` is of those in each itself, by number.
    pub(crate) fn rows(&self, only: Option<u16>, carried: &[Carried]) -> Vec<Value> {
        let mut below: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        for (number, subport) in self.0.iter().enumerate() {
            below.entry(subport.counts().parent.as_deref()).or_default().push(number);
        }
        let mut tree = Tree { subports: &self.0, below, carried, rows: Vec::new() };
        match only.map(usize::from) {
            Some(number) => _ = tree.add(number, self.level(number)),
            None => _ = tree.add_below(None, 1),
        }
        tree.rows
    }

    /// How many levels there are down to a subport, with its own.
    fn level(&self, number: usize) -> usize {
        let above = |at: &&Subport| self.0.iter().find(|other| Some(&other.name) == at.counts().parent.as_ref());
        std::iter::successors(self.0.get(number), above).take(LEVELS).count()
    }

    /// What was given at run time, as requests that would give it again.
    pub(crate) fn saved(&self) -> Vec<Saved> {
        let saved = |subport: &Subport| {
            let mut stands = entry(&subport.name, subport.given.as_ref()?).to_json();
            let name = stands.remove("subport");
            // A request says of what is absent that it is.
            let said = |field: &&str| (stands.get(*field).cloned()).unwrap_or_else(|| "none".into());
            let mut arguments: Value =
                SubportEntry::NAMES.iter().map(|field| ((*field).to_owned(), said(field))).collect();
            arguments["subport"] = name.unwrap_or_default();
            Some(Saved {
                entry: Some(stands.into()),
                under: Some(subport.name.clone()),
                ..SUBPORTS.saved("set", arguments)
            })
        };
        self.0.iter().filter_map(saved).collect()
    }
}

/// Rows as they are made, from the port down.
struct Tree<'a> {
    subports: &'a [Subport],
    /// Those right below each, and right below the port.
    below: BTreeMap<Option<&'a str>, Vec<usize>>,
    carried: &'a [Carried],
    rows: Vec<Value>,
}

impl Tree<'_> {
    /// All that is below one, or below the port. What that carried.
    fn add_below(&mut self, above: Option<&str>, level: usize) -> Carried {
        let numbers = if level > LEVELS { Vec::new() } else { self.below.get(&above).cloned().unwrap_or_default() };
        numbers.into_iter().fold(Carried::default(), |all, number| all.plus(self.add(number, level)))
    }

    /// One, and all that is below it.
    fn add(&mut self, number: usize, level: usize) -> Carried {
        let Some(subport) = self.subports.get(number) else { return Carried::default() };
        let place = self.rows.len();
        self.rows.push(Value::Null);
        let own = self.carried.get(number).copied().unwrap_or_default();
        let all = own.plus(self.add_below(Some(&subport.name), level + 1));
        let Carried { users, count } = all;
        let more = json!({
            "level": level,
            "users": users,
            "source": subport.source(),
            "packets": count.packets,
            "bytes": count.bytes,
            "dropped": count.dropped(),
        });
        let row = entry(&subport.name, subport.counts()).row(more);
        if let Some(place) = self.rows.get_mut(place) {
            *place = row;
        }
        all
    }
}

/// A subport as requests and tables have it.
pub(crate) fn entry(name: &str, config: &SubportConfig) -> SubportEntry {
    let SubportConfig { tb_rate, ceil, tb_size, weight, parent } = config.clone();
    SubportEntry { subport: name.to_owned(), tb_rate, ceil, tb_size, weight, parent }
}

impl From<SubportEntry> for SubportConfig {
    fn from(entry: SubportEntry) -> SubportConfig {
        let SubportEntry { tb_rate, ceil, tb_size, weight, parent, .. } = entry;
        SubportConfig { tb_rate, ceil, tb_size, weight, parent }
    }
}
