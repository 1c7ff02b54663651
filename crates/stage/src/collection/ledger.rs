//! Who said what of entries: the configuration, and requests at run time, which go over it. A reload changes what the configuration said and
//! leaves the rest.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ops::Bound;

use serde_json::Value;

use crate::collection::{Collection, Entry};
use crate::request::Saved;

/// What is said of an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Versions<E> {
    /// By the configuration.
    pub config: Option<E>,
    /// By requests.
    pub added: Option<E>,
}

impl<E> Versions<E> {
    /// What counts: requests go over the configuration.
    pub fn counts(&self) -> Option<&E> {
        self.added.as_ref().or(self.config.as_ref())
    }
}

/// An entry, and what belongs to it beside what is said of it. There may be millions, of which few were added by requests.
#[derive(Clone, Debug)]
pub struct Record<E, S> {
    config: Option<E>,
    added: Option<Box<E>>,
    /// What belongs to it.
    pub state: S,
}

impl<E: Clone, S> Record<E, S> {
    /// What counts of what is said of it.
    pub fn counts(&self) -> Option<&E> {
        self.added().or(self.config.as_ref())
    }

    /// What the configuration says of it.
    pub fn config(&self) -> Option<&E> {
        self.config.as_ref()
    }

    /// What requests said of it.
    pub fn added(&self) -> Option<&E> {
        self.added.as_deref()
    }

    /// Whose word counts, as tables say it.
    pub fn source(&self) -> &'static str {
        if self.added.is_some() { "cli" } else { "config" }
    }

    fn versions(&self) -> Versions<E> {
        Versions { config: self.config.clone(), added: self.added().cloned() }
    }
}

/// The entries of a collection, in the order of their keys, each with something that belongs to it.
#[derive(Clone, Debug)]
pub struct Ledger<E: Entry, S = ()> {
    records: BTreeMap<E::Key, Record<E, S>>,
}

impl<E: Entry, S> Default for Ledger<E, S> {
    fn default() -> Ledger<E, S> {
        Ledger { records: BTreeMap::new() }
    }
}

impl<E: Entry, S: Default> Ledger<E, S> {
    /// An entry.
    pub fn get(&self, key: &E::Key) -> Option<&Record<E, S>> {
        self.records.get(key)
    }

    /// An entry, whose state is to change.
    pub fn get_mut(&mut self, key: &E::Key) -> Option<&mut Record<E, S>> {
        self.records.get_mut(key)
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&E::Key, &Record<E, S>)> {
        self.records.iter()
    }

    /// All entries, whose states are to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&E::Key, &mut Record<E, S>)> {
        self.records.iter_mut()
    }

    /// The entries from a bound on.
    pub fn from(&self, bound: Bound<E::Key>) -> impl Iterator<Item = (&E::Key, &Record<E, S>)> {
        self.records.range((bound, Bound::Unbounded))
    }

    /// What is said of an entry.
    pub fn versions(&self, key: &E::Key) -> Versions<E> {
        self.records.get(key).map_or(Versions { config: None, added: None }, Record::versions)
    }

    /// Sets what is said of an entry. One of which nothing is said keeps its state until it is [forgotten](Ledger::forget).
    pub fn say(&mut self, key: E::Key, versions: Versions<E>) {
        let Versions { config, added } = versions;
        let added = added.map(Box::new);
        match self.records.entry(key) {
            Slot::Occupied(slot) => {
                let record = slot.into_mut();
                (record.config, record.added) = (config, added);
            }
            Slot::Vacant(slot) => _ = slot.insert(Record { config, added, state: S::default() }),
        }
    }

    /// Forgets an entry if nothing is said of it.
    pub fn forget(&mut self, key: &E::Key) {
        if self.records.get(key).is_some_and(|record| record.counts().is_none()) {
            self.records.remove(key);
        }
    }

    /// Forgets all entries of which nothing is said.
    pub fn forget_unsaid(&mut self) {
        self.records.retain(|_, record| record.counts().is_some());
    }

    /// Makes what the configuration says of all entries what a new one says. Answers those of which something else counts now, in order; the ones
    /// of which nothing is said any more are among them, and are to be forgotten.
    pub fn configure(&mut self, mut wanted: BTreeMap<E::Key, E>) -> Vec<E::Key> {
        let mut changed = Vec::new();
        for (key, record) in &mut self.records {
            let now = wanted.remove(key);
            if record.added.is_none() && record.config != now {
                changed.push(key.clone());
            }
            record.config = now;
        }
        let is_changed = !changed.is_empty();
        changed.extend(wanted.keys().cloned());
        let fresh = |entry| Record { config: Some(entry), added: None, state: S::default() };
        // Trees are built from what is in order, and joined, far sooner than entry by entry.
        self.records.append(&mut wanted.into_iter().map(|(key, entry)| (key, fresh(entry))).collect());
        if is_changed {
            changed.sort_unstable();
        }
        changed
    }

    /// What is to be said of an entry after a request to add it, where there must be none yet.
    ///
    /// # Errors
    ///
    /// What is wrong with the request.
    pub fn add(&self, of: &Collection, arguments: &Value) -> Result<(E::Key, Versions<E>), String> {
        let (key, versions) = self.asked(of, arguments)?;
        if versions.counts().is_some() {
            let (name, noun) = (E::name_of(&key), of.noun);
            return Err(format!("there is a {noun} {name} already; `{noun} set` changes it"));
        }
        over(key, versions, None, of, arguments)
    }

    /// What is to be said of an entry after a request that says all of it, whatever was said of it before.
    ///
    /// # Errors
    ///
    /// What is wrong with the request.
    pub fn put(&self, of: &Collection, arguments: &Value) -> Result<(E::Key, Versions<E>), String> {
        let (key, versions) = self.asked(of, arguments)?;
        over(key, versions, None, of, arguments)
    }

    /// What is to be said of an entry after a request to change what it names.
    ///
    /// # Errors
    ///
    /// What is wrong with the request.
    pub fn set(&self, of: &Collection, arguments: &Value) -> Result<(E::Key, Versions<E>), String> {
        let (key, versions) = self.asked(of, arguments)?;
        let before = versions.counts().cloned();
        over(key, versions, before, of, arguments)
    }

    /// What is left said of an entry after a request to take back what requests said.
    ///
    /// # Errors
    ///
    /// What is wrong with the request.
    pub fn take_back(&self, of: &Collection, arguments: &Value) -> Result<(E::Key, Versions<E>), String> {
        let (key, versions) = self.asked(of, arguments)?;
        let name = || format!("{} {}", of.noun, E::name_of(&key));
        match versions {
            Versions { config, added: Some(_) } => Ok((key, Versions { config, added: None })),
            Versions { config: Some(_), added: None } => {
                Err(format!("{} stands in the configuration; delete it there and reload", name()))
            }
            Versions { config: None, added: None } => {
                Err(format!("there is no {}; `show {}` lists them", name(), of.key))
            }
        }
    }

    fn asked(&self, of: &Collection, arguments: &Value) -> Result<(E::Key, Versions<E>), String> {
        let mut source = of.arguments(arguments);
        let key = E::read_key(&mut source);
        let key = source.finish(key)?;
        let versions = self.versions(&key);
        Ok((key, versions))
    }

    /// What requests added, of the entries behind one, at most so many of them looked at: as requests `action` that add it again; and the last
    /// entry that was looked at.
    pub fn saved(
        &self,
        of: &Collection,
        action: &str,
        last: Option<&E::Key>,
        most: usize,
    ) -> (Vec<Saved>, Option<E::Key>) {
        let mut seen = None;
        let mut saved = Vec::new();
        let bound = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.clone()));
        for (key, record) in self.from(bound).take(most) {
            seen = Some(key);
            saved.extend(record.added().map(|entry| of.saved(action, entry.to_json().into())));
        }
        (saved, seen.cloned())
    }
}

/// What is said of an entry after a request, over what was.
fn over<E: Entry>(
    key: E::Key,
    versions: Versions<E>,
    before: Option<E>,
    of: &Collection,
    arguments: &Value,
) -> Result<(E::Key, Versions<E>), String> {
    let mut source = of.arguments(arguments);
    let entry = E::read_from(&mut source, before.as_ref());
    let entry = source.finish(entry)?;
    Ok((key, Versions { added: Some(entry), ..versions }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::collection::tests::{HOSTS, Host};

    type Key = <Host as Entry>::Key;

    fn host(name: &str, vlan: Option<u16>, seconds: u32) -> Host {
        Host { name: name.to_owned(), vlan, addresses: weir_config::OneOrMany::default(), seconds }
    }

    fn asked(ledger: &mut Ledger<Host>, verb: &str, arguments: &Value) -> Result<(), String> {
        let (key, said) = match verb {
            "add" => ledger.add(&HOSTS, arguments),
            "put" => ledger.put(&HOSTS, arguments),
            "set" => ledger.set(&HOSTS, arguments),
            _ => ledger.take_back(&HOSTS, arguments),
        }?;
        ledger.say(key.clone(), said);
        ledger.forget(&key);
        Ok(())
    }

    #[test]
    fn what_cannot_be_asked_is_told() {
        let mut ledger = Ledger::<Host>::default();
        ledger.configure(BTreeMap::from([(host("a", None, 1).key(), host("a", None, 1))]));
        let mut told = |verb: &str, arguments: Value| asked(&mut ledger, verb, &arguments).err().unwrap_or_default();
        assert_eq!(told("add", json!({ "name": "a" })), "there is a host a already; `host set` changes it");
        assert_eq!(
            told("del", json!({ "name": "a" })),
            "host a stands in the configuration; delete it there and reload"
        );
        assert_eq!(
            told("del", json!({ "name": "b", "vlan": 7 })),
            "there is no host b vlan 7; `show hosts` lists them"
        );
        assert_eq!(told("set", json!({ "vlan": 7 })), "name is missing");
        assert_eq!(told("set", json!({ "name": "a", "vlan": "x" })), "vlan: \"x\" is not an integer from 1 to 4094");
        assert_eq!(
            told("set", json!({ "name": "a", "seconds": {} })),
            "seconds: {} is not an integer from 0 to 4294967295"
        );
        let text = told("set", json!({ "name": "a", "addresses": ["192.0.2.1", "192.0.2"] }));
        assert_eq!(text, "addresses: \"192.0.2\" is not an IPv4 address; write it as in 192.0.2.9");
    }

    #[test]
    fn a_change_names_what_it_changes_and_none_takes_a_value_away() {
        let mut ledger = Ledger::<Host>::default();
        let mut now = |verb: &str, arguments: Value| {
            asked(&mut ledger, verb, &arguments).unwrap();
            ledger.get(&("a".to_owned(), None)).map(|record| Value::from(record.counts().unwrap().to_json()))
        };
        let added = json!({ "name": "a", "addresses": ["192.0.2.1"], "seconds": 7 });
        assert_eq!(now("add", json!({ "name": "a", "addresses": "192.0.2.1", "seconds": "7" })), Some(added));
        let changed = json!({ "name": "a", "addresses": ["192.0.2.1"], "seconds": 8 });
        assert_eq!(now("set", json!({ "name": "a", "seconds": 8 })), Some(changed));
        let without = json!({ "name": "a", "seconds": 300 });
        assert_eq!(now("set", json!({ "name": "a", "addresses": "none", "seconds": "none" })), Some(without));
        assert_eq!(now("put", json!({ "name": "a", "seconds": 9 })), Some(json!({ "name": "a", "seconds": 9 })));
        assert_eq!(now("del", json!({ "name": "a" })), None);
    }

    /// What is said, in the plainest way: a list of both sayings.
    #[derive(Default)]
    struct Twin {
        config: BTreeMap<Key, Host>,
        added: BTreeMap<Key, Host>,
    }

    impl Twin {
        fn counts(&self, key: &Key) -> Option<&Host> {
            self.added.get(key).or_else(|| self.config.get(key))
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Ask(&'static str, u8, u32),
        Configure(Vec<(u8, u32)>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let verb = prop_oneof![Just("add"), Just("put"), Just("set"), Just("del")];
        prop_oneof![
            (verb, 0_u8..6, 0_u32..4).prop_map(|(verb, name, seconds)| Step::Ask(verb, name, seconds)),
            proptest::collection::vec((0_u8..6, 0_u32..4), 0..6).prop_map(Step::Configure),
        ]
    }

    fn named(number: u8, seconds: u32) -> Host {
        host(["a", "b", "c"][usize::from(number % 3)], (number > 2).then_some(7), seconds)
    }

    proptest! {
        #[test]
        fn it_is_as_the_twin_says(steps in proptest::collection::vec(step(), 1..40)) {
            let (mut ledger, mut twin) = (Ledger::<Host>::default(), Twin::default());
            for step in steps {
                match step {
                    Step::Configure(list) => {
                        let wanted: BTreeMap<Key, Host> =
                            list.into_iter().map(|(n, seconds)| named(n, seconds)).map(|one| (one.key(), one)).collect();
                        let keys: std::collections::BTreeSet<Key> =
                            wanted.keys().chain(twin.config.keys()).chain(twin.added.keys()).cloned().collect();
                        let before: Vec<Option<Host>> = keys.iter().map(|key| twin.counts(key).cloned()).collect();
                        twin.config = wanted.clone();
                        let differ = keys.iter().zip(before).filter(|(key, before)| twin.counts(key) != before.as_ref());
                        let due: Vec<Key> = differ.map(|(key, _)| key.clone()).collect();
                        prop_assert_eq!(ledger.configure(wanted), due);
                        ledger.forget_unsaid();
                    }
                    Step::Ask(verb, number, seconds) => {
                        let host = named(number, seconds);
                        let (key, there) = (host.key(), twin.counts(&host.key()).is_some());
                        let is_done = match verb {
                            "add" => !there,
                            "del" => twin.added.contains_key(&key),
                            _ => true,
                        };
                        let arguments = match verb {
                            "del" => json!({ "name": key.0, "vlan": key.1 }),
                            _ => host.to_json().into(),
                        };
                        prop_assert_eq!(asked(&mut ledger, verb, &arguments).is_ok(), is_done);
                        match verb {
                            "del" => drop(twin.added.remove(&key)),
                            _ if is_done => drop(twin.added.insert(key, host)),
                            _ => {}
                        }
                    }
                }
                let due: BTreeMap<&Key, &Host> = twin.config.iter().chain(&twin.added).collect();
                let said: BTreeMap<&Key, &Host> = ledger.iter().filter_map(|(key, one)| Some((key, one.counts()?))).collect();
                prop_assert_eq!(&said, &due);
                prop_assert_eq!(ledger.iter().count(), due.len());
                let (saved, last) = ledger.saved(&HOSTS, "add", None, usize::MAX);
                let added: Vec<Value> = twin.added.values().map(|host| host.to_json().into()).collect();
                prop_assert_eq!(saved.into_iter().map(|saved| saved.arguments).collect::<Vec<_>>(), added);
                prop_assert_eq!(last.as_ref(), due.keys().last().copied());
            }
        }
    }
}
