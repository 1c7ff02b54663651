//! What users of a subport may send together: as the configuration says, or as it was given at run time.

use serde_json::{Value, json};
use weir_sched::config::SubportConfig;
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
        self.0.get(usize::from(number)).map(|subport| subport.given.as_ref().unwrap_or(&subport.configured))
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

    /// What subports of the same names were given counts here, too.
    pub(crate) fn adopt(&mut self, old: &Subports) {
        for old in old.0.iter().filter(|old| old.given.is_some()) {
            if let Some(subport) = self.0.iter_mut().find(|subport| subport.name == old.name) {
                subport.given.clone_from(&old.given);
            }
        }
    }

    /// Those that were given anything, by number.
    pub(crate) fn all_given(&self) -> impl Iterator<Item = (u16, &SubportConfig)> {
        (0..).zip(&self.0).filter_map(|(number, subport)| Some((number, subport.given.as_ref()?)))
    }

    /// A row for each, with how many users it has.
    pub(crate) fn rows(&self, users: impl Fn(u16) -> usize) -> Vec<Value> {
        let row = |(number, subport): (u16, &Subport)| {
            let source = if subport.given.is_some() { "cli" } else { "config" };
            let counts = subport.given.as_ref().unwrap_or(&subport.configured);
            entry(&subport.name, counts).row(json!({ "users": users(number), "source": source }))
        };
        (0..).zip(&self.0).map(row).collect()
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

/// A subport as requests and tables have it.
pub(crate) fn entry(name: &str, config: &SubportConfig) -> SubportEntry {
    let SubportConfig { tb_rate, ceil, tb_size, weight } = config.clone();
    SubportEntry { subport: name.to_owned(), tb_rate, ceil, tb_size, weight }
}

impl From<SubportEntry> for SubportConfig {
    fn from(entry: SubportEntry) -> SubportConfig {
        let SubportEntry { tb_rate, ceil, tb_size, weight, .. } = entry;
        SubportConfig { tb_rate, ceil, tb_size, weight }
    }
}
