//! The lists of a bridge, as people state them; of them is made what workers look up.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_acl::numbered::{MANY, Numbered};
use weir_acl::police::Police;
use weir_acl::request::{in_configuration, no_list, no_rule};
use weir_table::counters::{Counters, Places};

use super::lists::{Deed, List, Lists};
use super::rule::{Action, Rule};
use super::{MAX_LISTS, MAX_MATCHES, MAX_RULES};
use crate::config::BridgeConfig;
use crate::plan::PORTS;

/// What a checked configuration wants: rules and default of each list.
pub(crate) type WantedAcls = BTreeMap<String, (Vec<Rule>, Action)>;

/// A rule that is in a list.
#[derive(Clone, Debug)]
pub(crate) struct Stated {
    pub(crate) rule: Rule,
    /// Its number among the rules of the list.
    number: u32,
    /// Where it is counted, and what had been counted there before.
    pub(crate) place: u32,
    pub(crate) before: (u64, u64),
    /// Whether it was added at run time.
    pub(crate) is_added: bool,
    police: Option<Arc<Police>>,
}

impl Stated {
    fn deed(&self) -> Deed {
        let Rule { action, is_logged, .. } = self.rule;
        Deed { place: self.place, action, is_logged, police: self.police.clone() }
    }
}

/// A list, and what workers see of it.
#[derive(Clone, Debug)]
pub(crate) struct ListOf {
    pub(crate) rules: Vec<Stated>,
    pub(crate) default: Action,
    pub(crate) default_place: u32,
    pub(crate) default_before: (u64, u64),
    /// Numbers that no rule has.
    free: Vec<u32>,
    seen: Arc<List>,
}

/// All lists.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    pub(crate) lists: BTreeMap<String, ListOf>,
    pub(crate) counters: Arc<Counters>,
    places: Places,
}

impl Default for Book {
    fn default() -> Book {
        Book { lists: BTreeMap::new(), counters: Counters::new(MAX_RULES + MAX_LISTS), places: Places::default() }
    }
}

/// What stays of a list.
struct Kept {
    /// Rules that were added at run time.
    added: Vec<Stated>,
    /// Those that are wanted: as they were, or new ones.
    rules: Vec<Result<Stated, Box<Rule>>>,
    /// Where its default was counted, and what had been counted there before.
    default: Option<(u32, (u64, u64))>,
}

impl Book {
    /// What rules that were added at run time have against what a configuration wants: there is no room for both.
    pub(crate) fn objections(&self, wanted: &WantedAcls) -> Vec<String> {
        let added = |name: &String| {
            self.lists.get(name).into_iter().flat_map(|list| &list.rules).filter(|stated| stated.is_added)
        };
        let mut wrong = Vec::new();
        for (name, (rules, _)) in wanted {
            let more: usize = added(name).map(|stated| stated.rule.count()).sum();
            let matches = more + rules.iter().map(Rule::count).sum::<usize>();
            if matches > MAX_MATCHES && more > 0 {
                wrong.push(format!("with rules that were added at run time, {name} comes to {matches} combinations of what they list, and there is room for {MAX_MATCHES}"));
            }
        }
        let more: usize = wanted.keys().map(|name| added(name).count()).sum();
        let rules = more + wanted.values().map(|(rules, _)| rules.len()).sum::<usize>();
        if rules > MAX_RULES && more > 0 {
            wrong.push(format!(
                "with {more} that were added at run time there are {rules} rules, and there is room for {MAX_RULES}"
            ));
        }
        wrong
    }

    /// Becomes what a checked configuration wants; rules that were added at run time stay, in front of others. Those that stay as they are keep what they
    /// counted.
    pub(crate) fn reconcile(&mut self, wanted: &WantedAcls) {
        // What goes gives its places back before what comes asks for some.
        let mut before = std::mem::take(&mut self.lists);
        let kept: Vec<Kept> = wanted.iter().map(|(name, (rules, _))| self.part(before.remove(name), rules)).collect();
        for list in before.into_values() {
            self.forget(list.rules);
            self.places.give_back(list.default_place);
        }
        for ((name, (_, default)), Kept { added, rules, default: place }) in wanted.iter().zip(kept) {
            let place = place.or_else(|| self.places.acquire(&self.counters)).unwrap_or_default();
            let mut all = added;
            // There is a place for each: their number was checked.
            all.extend(
                rules.into_iter().filter_map(|rule| rule.or_else(|rule| self.state(*rule, false).ok_or(())).ok()),
            );
            self.lists.insert(name.clone(), ListOf::new(name, all, *default, place));
        }
    }

    /// What stays of a list that becomes one of these rules. By what they say: rules that say the same are the same.
    fn part(&mut self, before: Option<ListOf>, rules: &[Rule]) -> Kept {
        let default = before.as_ref().map(|list| (list.default_place, list.default_before));
        let (mut added, mut known) = (Vec::new(), BTreeMap::<String, VecDeque<Stated>>::new());
        for stated in before.into_iter().flat_map(|list| list.rules) {
            match stated.is_added {
                true => added.push(stated),
                false => known.entry(stated.rule.to_string()).or_default().push_back(stated),
            }
        }
        let mut stays = |rule: &Rule| {
            known.get_mut(rule.text()).and_then(VecDeque::pop_front).ok_or_else(|| Box::new(rule.clone()))
        };
        let rules = rules.iter().map(&mut stays).collect();
        self.forget(known.into_values().flatten());
        Kept { added, rules, default }
    }

    fn forget(&mut self, gone: impl IntoIterator<Item = Stated>) {
        gone.into_iter().for_each(|stated| self.places.give_back(stated.place));
    }

    fn state(&mut self, rule: Rule, is_added: bool) -> Option<Stated> {
        let (place, before) = self.places.acquire(&self.counters)?;
        let police = rule.police.map(|rate| Arc::new(Police::new(rate)));
        Some(Stated { rule, number: 0, place, before, is_added, police })
    }

    /// Adds a rule to a list in front of the one at a position, or as the last one. Answers where it is.
    ///
    /// # Errors
    ///
    /// There is no such list, or no room.
    pub(crate) fn insert(&mut self, name: &str, position: usize, rule: Rule) -> Result<usize, String> {
        let list = self.lists.get(name).ok_or_else(|| self.unknown(name))?;
        let position = position.min(list.rules.len());
        if list.matches() + rule.count() > MAX_MATCHES {
            return Err(format!(
                "with it {name} comes to more than {MAX_MATCHES} combinations of what its rules list; let it list less"
            ));
        }
        let all: usize = self.lists.values().map(|list| list.rules.len()).sum();
        let no_room = || format!("there are {MAX_RULES} rules, as many as there is room for; delete others first");
        if all >= MAX_RULES {
            return Err(no_room());
        }
        let stated = self.state(rule, true).ok_or_else(no_room)?;
        if let Some(list) = self.lists.get_mut(name) {
            list.insert(position, stated);
        }
        Ok(position)
    }

    /// Removes the rule at a position from a list.
    ///
    /// # Errors
    ///
    /// There is no such list or rule, or it is not one that was added at run time.
    pub(crate) fn remove(&mut self, name: &str, position: usize) -> Result<Rule, String> {
        let unknown = self.unknown(name);
        let list = self.lists.get_mut(name).ok_or(unknown)?;
        let Some(stated) = list.rules.get(position) else { return Err(no_rule(name, list.rules.len())) };
        if !stated.is_added {
            return Err(in_configuration(name, position));
        }
        let gone = list.remove(position);
        self.places.give_back(gone.place);
        Ok(gone.rule)
    }

    /// Why there is nothing of a name.
    pub(crate) fn unknown(&self, name: &str) -> String {
        no_list(name, self.lists.keys().map(String::as_str))
    }

    /// What was counted at a place since then.
    pub(crate) fn since(&self, place: u32, before: (u64, u64)) -> (u64, u64) {
        let (frames, bytes) = self.counters.sum(place);
        (frames.wrapping_sub(before.0), bytes.wrapping_sub(before.1))
    }

    /// What workers look up, by the ports that have lists.
    pub(crate) fn lists(&self, config: &BridgeConfig) -> Lists {
        let number = |name: &Option<String>| {
            let name = name.as_ref()?;
            self.lists.keys().zip(0..).find(|(known, _)| *known == name).map(|(_, number)| number)
        };
        let (mut inward, mut outward) = ([None; PORTS], [None; PORTS]);
        for ((port, inward), outward) in config.ports.values().zip(&mut inward).zip(&mut outward) {
            (*inward, *outward) = (number(&port.acl_in), number(&port.acl_out));
        }
        Lists { all: self.lists.values().map(|list| Arc::clone(&list.seen)).collect(), inward, outward }
    }
}

impl ListOf {
    fn new(name: &str, rules: Vec<Stated>, default: Action, place: (u32, (u64, u64))) -> ListOf {
        let (default_place, default_before) = place;
        let deed = Deed { place: default_place, action: default, is_logged: false, police: None };
        let seen = List { name: name.into(), rules: Numbered::default(), deeds: Arc::default(), default: deed };
        let mut list = ListOf { rules, default, default_place, default_before, free: Vec::new(), seen: Arc::new(seen) };
        list.rebuild();
        list
    }

    /// Matches that all rules come to.
    fn matches(&self) -> usize {
        self.front(self.rules.len())
    }

    /// Builds all anew.
    fn rebuild(&mut self) {
        self.rules.iter_mut().zip(0..).for_each(|(stated, number)| stated.number = number);
        self.free.clear();
        let rules = Numbered::new(self.rules.iter().map(|stated| (stated.number, stated.rule.matches())));
        let deeds = Arc::new(self.rules.iter().map(Stated::deed).collect());
        self.seen = Arc::new(List { rules, deeds, ..(*self.seen).clone() });
    }

    /// Matches in front of those of the rule at a position.
    fn front(&self, position: usize) -> usize {
        self.rules.iter().take(position).map(|stated| stated.rule.count()).sum()
    }

    fn insert(&mut self, position: usize, mut stated: Stated) {
        if stated.rule.count() > MANY {
            self.rules.insert(position, stated);
            return self.rebuild();
        }
        let front = self.front(position);
        // What workers see is copied; what the changes before this one of a batch have made is not, for nobody has seen it yet.
        let seen = Arc::make_mut(&mut self.seen);
        let deeds = Arc::make_mut(&mut seen.deeds);
        stated.number = self.free.pop().unwrap_or(deeds.len() as u32);
        match deeds.get_mut(stated.number as usize) {
            Some(deed) => *deed = stated.deed(),
            None => deeds.push(stated.deed()),
        }
        seen.rules.insert(front, stated.number, stated.rule.matches());
        self.rules.insert(position, stated);
    }

    fn remove(&mut self, position: usize) -> Stated {
        let front = self.front(position);
        let gone = self.rules.remove(position);
        if gone.rule.count() > MANY {
            self.rebuild();
            return gone;
        }
        Arc::make_mut(&mut self.seen).rules.remove(front, gone.rule.count());
        self.free.push(gone.number);
        gone
    }
}
