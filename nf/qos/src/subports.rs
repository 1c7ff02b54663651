//! What users of a subport may send together: as the configuration says, or as it was given at run time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weir_sched::config::{SubportClassConfig, SubportConfig};
use weir_sched::gates::UserCount;
use weir_sched::levels;
use weir_sched::profile::LEVELS;
use weir_stage::{Entry as _, Saved};

use crate::classes::{ClassRate, rates};
use crate::config::SubportEntry;
use crate::request::SUBPORTS;

/// A subport.
#[derive(Clone, Debug, PartialEq)]
struct Subport {
    name: String,
    configured: SubportConfig,
    /// It came at run time. Then it has what it was given alone.
    is_added: bool,
    /// What it was given at run time, in place of all that the configuration says.
    given: Option<SubportConfig>,
}

/// A number that is to spare.
const SPARE: Subport = Subport { name: String::new(), configured: SubportConfig::OPEN, is_added: false, given: None };

impl Subport {
    fn counts(&self) -> &SubportConfig {
        self.given.as_ref().unwrap_or(&self.configured)
    }

    /// The classes that have rates, or are guaranteed anything, and these.
    fn classes(&self) -> BTreeMap<String, String> {
        let said = |(class, n): (&SubportClassConfig, u8)| {
            class.tc_guarantee.or(class.tc_rate)?;
            Some((n.to_string(), rates(class.tc_guarantee, class.tc_rate)))
        };
        self.counts().classes.iter().zip(0..).filter_map(said).collect()
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
    /// As configured, in the order of their numbers, with room for others.
    pub(crate) fn new<'a>(
        configured: impl Iterator<Item = (&'a String, &'a SubportConfig)>,
        at_most: usize,
    ) -> Subports {
        let subport = |(name, configured): (&String, &SubportConfig)| Subport {
            name: name.clone(),
            configured: configured.clone(),
            is_added: false,
            given: None,
        };
        let mut all: Vec<Subport> = configured.map(subport).collect();
        all.resize(at_most.max(all.len()), SPARE);
        Subports(all)
    }

    /// Their names, by number; empty for those that are to spare.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|subport| subport.name.clone()).collect()
    }

    /// A number that is to spare.
    pub(crate) fn spare(&self) -> Option<u16> {
        self.0.iter().position(|subport| subport.name.is_empty()).and_then(|number| u16::try_from(number).ok())
    }

    /// Whether one came at run time.
    pub(crate) fn is_added(&self, number: u16) -> bool {
        self.0.get(usize::from(number)).is_some_and(|subport| subport.is_added)
    }

    /// The name of one right below a subport, if there is any.
    pub(crate) fn one_below(&self, name: &str) -> Option<&str> {
        let is = |subport: &&Subport| subport.counts().parent.as_deref() == Some(name);
        self.0.iter().find(is).map(|subport| subport.name.as_str())
    }

    /// Under a number that is to spare comes one of this name, with this; or that which came there goes.
    pub(crate) fn put(&mut self, number: u16, added: Option<(String, SubportConfig)>) {
        if let Some(place) = self.0.get_mut(usize::from(number)) {
            *place = match added {
                Some((name, given)) => Subport { name, is_added: true, given: Some(given), ..SPARE },
                None => SPARE,
            };
        }
    }

    /// Those that came at run time, by number.
    pub(crate) fn all_added(&self) -> impl Iterator<Item = (u16, &str)> {
        (0..)
            .zip(&self.0)
            .filter(|(_, subport)| subport.is_added)
            .map(|(number, subport)| (number, subport.name.as_str()))
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
        for (old, at) in old.0.iter().zip(0..).filter(|(old, _)| old.given.is_some()) {
            if let Some(subport) = self.0.iter_mut().find(|subport| subport.name == old.name) {
                subport.given.clone_from(&old.given);
                continue;
            }
            // What came at run time keeps its number where that is to spare here, too.
            let is_spare = self.0.get(at).is_some_and(|subport| subport.name.is_empty());
            let number = if is_spare { u16::try_from(at).ok() } else { self.spare() };
            if let Some(number) = number.filter(|_| old.is_added) {
                self.put(number, old.given.clone().map(|given| (old.name.clone(), given)));
            }
        }
        let wrong: BTreeSet<String> = levels::faults(&self.all())
            .iter()
            .filter_map(|(key, _)| Some(key.strip_suffix(".parent")?.to_owned()))
            .collect();
        // Where no subport is configured to be below another one, none can come to be so.
        let is_tree = self.0.iter().any(|subport| subport.configured.parent.is_some());
        for subport in self.0.iter_mut().filter(|subport| !is_tree || wrong.contains(&subport.name)) {
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
        let named = self.0.iter().filter(|subport| !subport.name.is_empty());
        named.map(|subport| (subport.name.clone(), subport.counts().clone())).collect()
    }

    /// A row for each, with those below it behind it, or for one and those below it alone; `carried` is of those in each itself, by number.
    pub(crate) fn rows(&self, only: Option<u16>, carried: &[Carried]) -> Vec<Value> {
        let mut below: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        for (number, subport) in self.0.iter().enumerate().filter(|(_, subport)| !subport.name.is_empty()) {
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

    /// What was given at run time, as requests that would give it again to subports with so many classes.
    pub(crate) fn saved(&self, number: u8) -> Vec<Saved> {
        let saved = |subport: &Subport| {
            let given = subport.given.as_ref()?;
            let mut stands = entry(&subport.name, given).to_json();
            let name = stands.remove("subport");
            // A request for one that is there says of what is absent that it is.
            let absent = || (!subport.is_added).then(|| Value::from("none"));
            let said = |field: &&str| Some(((*field).to_owned(), stands.get(*field).cloned().or_else(absent)?));
            let mut arguments: Value = SubportEntry::NAMES.iter().filter_map(said).collect();
            arguments["subport"] = name.unwrap_or_default();
            if !subport.is_added {
                arguments["classes"] =
                    ClassRate::each(&given.classes, number).iter().map(ClassRate::to_string).collect();
            }
            if !given.classes.is_empty() {
                stands.insert("classes".to_owned(), classes(given));
            }
            Some(Saved {
                entry: Some(stands.into()),
                under: Some(subport.name.clone()),
                ..SUBPORTS.saved(if subport.is_added { "add" } else { "set" }, arguments)
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
            "classes": subport.classes(),
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

/// The classes of a subport as a configuration says them.
fn classes(config: &SubportConfig) -> Value {
    let class = |class: &SubportClassConfig| {
        let mut said = json!({ "tc_period": class.tc_period.to_string() });
        if let Some(rate) = class.tc_rate {
            said["tc_rate"] = rate.to_string().into();
        }
        if let Some(guarantee) = class.tc_guarantee {
            said["tc_guarantee"] = guarantee.to_string().into();
        }
        said
    };
    config.classes.iter().map(class).collect()
}

/// A subport as requests and tables have it.
pub(crate) fn entry(name: &str, config: &SubportConfig) -> SubportEntry {
    let SubportConfig { tb_rate, ceil, tb_size, weight, parent, classes } = config.clone();
    SubportEntry { subport: name.to_owned(), tb_rate, ceil, tb_size, weight, parent, classes: ClassRate::all(&classes) }
}

/// What a request says a subport has from then on, whose classes, of so many, were these before.
pub(crate) fn config(entry: SubportEntry, before: &[SubportClassConfig], number: u8) -> Result<SubportConfig, String> {
    let SubportEntry { tb_rate, ceil, tb_size, weight, parent, classes: said, .. } = entry;
    // What is said is all that was there before, if nothing is said; and nothing, if that is to be so.
    let classes = if said.is_empty() { Vec::new() } else { ClassRate::over(before, &said, number)? };
    Ok(SubportConfig { tb_rate, ceil, tb_size, weight, parent, classes })
}
