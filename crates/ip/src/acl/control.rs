//! The lists of a router, as people state them; the only writer of what workers look up.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use weir_acl::numbered::{MANY, Numbered};
use weir_acl::police::Police;
use weir_acl::request::{in_configuration, no_list, no_rule};
use weir_mem::{Domain, Published, arena};
use weir_net::VrfId;
use weir_packet::Key;

use super::load::{Misled, WantedAcls};
use super::rule::{Action, Rule};
use super::sets::Sets;
use super::stage::{Acl, Own, Side};
use super::tables::{Brief, Deed, List, Log, NO_LIST, Tables};
use super::{MAX_LISTS, MAX_RULES};
use crate::Interfaces;
use crate::fast::scope::Chosen;
use crate::tables::fib::Fib;
use crate::tables::prefixes::Readers;
use weir_table::counters::{Counters, Places};

/// A rule that is in a list.
#[derive(Clone, Debug)]
pub(super) struct Stated {
    pub(super) rule: Rule,
    /// Its number among the rules of the list.
    number: u32,
    /// Where it is counted, and what had been counted there before.
    pub(super) place: u32,
    pub(super) before: (u64, u64),
    /// Matches that it comes to, of IPv4 and of IPv6.
    matches: (usize, usize),
    /// Whether it was added at run time.
    pub(super) is_added: bool,
    police: Option<Arc<Police>>,
    /// The number of the VRF that it redirects to.
    redirect: Option<VrfId>,
}

/// A list, and what workers see of it.
#[derive(Clone, Debug)]
pub(super) struct ListOf {
    pub(super) rules: Vec<Stated>,
    pub(super) default: Action,
    pub(super) default_place: u32,
    pub(super) default_before: (u64, u64),
    free: Vec<u32>,
    seen: Arc<List>,
}

/// All that the control side knows.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) lists: BTreeMap<String, ListOf>,
    pub(super) sets: Sets,
    /// Names of the VRFs, by number.
    vrfs: Vec<String>,
    /// By the name of the interface, and of the VRF.
    inward: BTreeMap<String, String>,
    outward: BTreeMap<String, String>,
    of_vrfs: BTreeMap<String, String>,
    own: BTreeMap<String, String>,
    places: Places,
    /// What each interface is called, by number.
    pub(super) names: HashMap<u16, String>,
}

/// The lists of a router.
pub(crate) struct Acls {
    book: Mutex<Book>,
    tables: Arc<Published<Tables>>,
    pub(super) counters: Arc<Counters>,
    pub(super) log: Arc<Log>,
}

impl Acls {
    /// No lists yet, of a router with these VRFs.
    pub(crate) fn new(domain: &Domain, vrfs: &[String]) -> Acls {
        Acls {
            book: Mutex::new(Book { vrfs: vrfs.to_vec(), ..Book::default() }),
            tables: Arc::new(Published::new(domain, Box::default())),
            counters: Counters::new(MAX_RULES + MAX_LISTS),
            log: Arc::default(),
        }
    }

    /// What is stated. A panic elsewhere does not make it unusable: workers see whole versions only.
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage that judges by the lists.
    ///
    /// # Errors
    ///
    /// No memory.
    pub(crate) fn stage(
        &self,
        (side, chosen): (Side, Option<Key<Chosen>>),
        readers: &Arc<[Readers]>,
        fib: &Arc<Fib>,
    ) -> Result<Acl, arena::Error> {
        let (counters, own) = (self.counters.acquire()?, Own::new(Arc::clone(readers)));
        let tables = (Arc::clone(&self.tables), Arc::clone(fib));
        Ok(Acl::new((side, own, chosen), tables, (counters, Arc::clone(&self.log))))
    }

    /// What rules that were added at run time have against what a configuration wants, in a router with these VRFs: they redirect to one
    /// that it does not have, or their list would judge what is not looked up any more.
    pub(crate) fn objections(&self, wanted: &WantedAcls, vrfs: &[String]) -> Vec<String> {
        let book = self.book();
        let added = |list: &ListOf| list.rules.iter().filter(|stated| stated.is_added).cloned().collect::<Vec<_>>();
        let all = book.lists.iter().filter(|(name, _)| wanted.lists.contains_key(*name));
        let all = all.flat_map(|(name, list)| added(list).into_iter().map(move |stated| (name, stated.rule)));
        let wrong = all.filter_map(|(name, rule)| {
            let wrong = Misled::of(&rule, vrfs, wanted.judges_the_end(name))?;
            Some(format!("the rule \"{rule}\", which was added to {name} at run time, {}", wrong.problem))
        });
        let mut wrong: Vec<String> = wrong.collect();
        let stay = book.lists.iter().filter(|(name, _)| wanted.lists.contains_key(*name));
        let added: usize = stay.map(|(_, list)| list.rules.iter().filter(|stated| stated.is_added).count()).sum();
        let count = added + wanted.lists.values().map(|(rules, _)| rules.len()).sum::<usize>();
        if count > MAX_RULES && added > 0 {
            wrong.push(format!(
                "with {added} that were added at run time there are {count} rules, and there is room for {MAX_RULES}"
            ));
        }
        wrong
    }

    /// Becomes what a checked configuration wants; rules that were added at run time stay, in front of others. Those that stay as they are
    /// keep what they counted.
    pub(crate) fn reconcile(&self, wanted: &WantedAcls) {
        let book = &mut *self.book();
        book.sets.reconcile(&wanted.sets);
        // What goes gives its places back before what comes asks for some.
        let mut before = std::mem::take(&mut book.lists);
        let kept: Vec<Kept> =
            wanted.lists.iter().map(|(name, (rules, _))| book.part(before.remove(name), rules)).collect();
        for list in before.into_values() {
            book.forget(list.rules);
            book.places.give_back(list.default_place);
        }
        for ((name, (_, default)), kept) in wanted.lists.iter().zip(kept) {
            self.become_list(book, name, kept, *default);
        }
        book.inward.clone_from(&wanted.inward);
        book.outward.clone_from(&wanted.outward);
        book.of_vrfs.clone_from(&wanted.of_vrfs);
        book.own.clone_from(&wanted.own);
    }

    fn become_list(&self, book: &mut Book, name: &str, kept: Kept, default: Action) {
        let Kept { added, rules, default: before } = kept;
        let before = before.or_else(|| book.places.acquire(&self.counters)).unwrap_or_default();
        let mut all = added;
        for rule in rules {
            let stated = rule.or_else(|rule| self.state(book, *rule, false).ok_or(()));
            all.extend(stated);
        }
        let list = ListOf::new(name, (all, &book.sets), default, before);
        book.lists.insert(name.to_owned(), list);
    }

    fn state(&self, book: &mut Book, rule: Rule, is_added: bool) -> Option<Stated> {
        let (place, before) = book.places.acquire(&self.counters)?;
        let police = rule.police.map(|rate| Arc::new(Police::new(rate)));
        let redirect = rule.redirect.as_ref().and_then(|vrf| (0..).zip(&book.vrfs).find(|(_, known)| *known == vrf));
        let redirect = redirect.map(|(vrf, _)| vrf);
        Some(Stated { rule, number: 0, place, before, matches: (0, 0), is_added, police, redirect })
    }

    /// Adds rules to a list in front of the one at a position.
    ///
    /// # Errors
    ///
    /// There is no such list, or no room.
    pub(super) fn insert(&self, name: &str, position: usize, rule: Rule) -> Result<usize, String> {
        let book = &mut *self.book();
        let known = book.lists.get(name).map(|list| list.rules.len());
        let position = position.min(known.ok_or_else(|| book.unknown(name))?);
        let all: usize = book.lists.values().map(|list| list.rules.len()).sum();
        let no_room = || format!("there are {MAX_RULES} rules, as many as there is room for");
        if all >= MAX_RULES {
            return Err(no_room());
        }
        if let Some(set) = rule.sets().find(|set| !book.sets.has(set)) {
            return Err(format!("the rule names the set \"{set}\", which prefix_sets does not have"));
        }
        rule.check_with(&book.sets).map_err(|wrong| format!("the rule {}; {}", wrong.problem, wrong.remedy))?;
        let mut attached = book.outward.values().chain(book.own.values());
        if let Some(wrong) = Misled::of(&rule, &book.vrfs, attached.any(|list| list == name)) {
            return Err(format!("the rule {}; {}", wrong.problem, wrong.remedy));
        }
        let stated = self.state(book, rule, true).ok_or_else(no_room)?;
        if let Some(list) = book.lists.get_mut(name) {
            list.insert(position, stated, &book.sets);
        }
        Ok(position)
    }

    /// Removes the rule at a position from a list.
    ///
    /// # Errors
    ///
    /// There is no such list or rule, or it is not one that was added at run time.
    pub(super) fn remove(&self, name: &str, position: usize) -> Result<Rule, String> {
        let book = &mut *self.book();
        let Some(list) = book.lists.get_mut(name) else { return Err(book.unknown(name)) };
        let Some(stated) = list.rules.get(position) else {
            return Err(no_rule(name, list.rules.len()));
        };
        if !stated.is_added {
            return Err(in_configuration(name, position));
        }
        let gone = list.remove(position, &book.sets);
        book.places.give_back(gone.place);
        Ok(gone.rule)
    }

    /// Adds prefixes to a set, or removes some: all of them or none. Each list whose rules name the set is built anew; workers see all of it at once.
    ///
    /// # Errors
    ///
    /// Why it can not be; nothing has changed then.
    pub(super) fn change_set(&self, name: &str, nets: &[IpNet], is_added: bool) -> Result<(), String> {
        let book = &mut *self.book();
        let mut sets = book.sets.clone();
        nets.iter().try_for_each(|net| if is_added { sets.add(name, *net) } else { sets.remove(name, *net) })?;
        let names_it = |list: &ListOf| list.rules.iter().any(|stated| stated.rule.sets().any(|set| set == name));
        for (list, known) in book.lists.iter().filter(|(_, list)| names_it(list)) {
            let too_many = known.rules.iter().find_map(|stated| stated.rule.check_with(&sets).err());
            if let Some(wrong) = too_many {
                return Err(format!("then a rule of {list} {}; {}", wrong.problem, wrong.remedy));
            }
        }
        book.sets = sets;
        book.lists.values_mut().filter(|list| names_it(list)).for_each(|list| list.rebuild(&book.sets));
        Ok(())
    }

    /// Takes over from the instance that this one replaces the rules, and the prefixes of sets, that were added at run time.
    pub(crate) fn adopt(&self, old: &Acls) {
        let added: Vec<(String, usize, Rule)> = {
            let old = old.book();
            self.adopt_sets(&old.sets);
            let of = |(name, list): (&String, &ListOf)| {
                let added = list.rules.iter().filter(|stated| stated.is_added).enumerate();
                added.map(|(at, stated)| (name.clone(), at, stated.rule.clone())).collect::<Vec<_>>()
            };
            old.lists.iter().flat_map(of).collect()
        };
        for (name, at, rule) in added {
            // Of lists that are not there any more, rules are gone with them.
            drop(self.insert(&name, at, rule));
        }
    }

    fn adopt_sets(&self, old: &Sets) {
        let Book { sets, lists, .. } = &mut *self.book();
        sets.adopt(old);
        lists.values_mut().for_each(|list| list.rebuild(sets));
    }

    /// Lets workers see what is stated, with the interfaces as they are now, in VRFs of these names.
    pub(crate) fn publish(&self, interfaces: &Interfaces, vrfs: &[String]) {
        let book = &mut *self.book();
        let numbers: HashMap<&str, u16> = book.lists.keys().map(String::as_str).zip(0..).collect();
        let number =
            |list: Option<&String>| list.and_then(|name| numbers.get(name.as_str())).copied().unwrap_or(NO_LIST);
        let limit = interfaces.limit();
        let [mut inward, mut outward, mut own] = [(); 3].map(|()| vec![NO_LIST; limit]);
        let mut names = HashMap::new();
        for interface in interfaces.iter() {
            let vrf = vrfs.get(usize::from(interface.wanted.vrf));
            let of_vrf = |lists: &'_ BTreeMap<String, String>| vrf.and_then(|vrf| lists.get(vrf)).cloned();
            let wanted = [
                (&mut inward, book.inward.get(interface.name()).cloned().or_else(|| of_vrf(&book.of_vrfs))),
                (&mut outward, book.outward.get(interface.name()).cloned()),
                (&mut own, of_vrf(&book.own)),
            ];
            for (lists, wanted) in wanted {
                if let Some(list) = lists.get_mut(usize::from(interface.id)) {
                    *list = number(wanted.as_ref());
                }
                if wanted.is_some() {
                    names.insert(interface.id, interface.name().to_owned());
                }
            }
        }
        for lists in [&mut inward, &mut outward, &mut own] {
            if lists.iter().all(|list| *list == NO_LIST) {
                lists.clear();
            }
        }
        let lists = book.lists.values().map(|list| Arc::clone(&list.seen)).collect();
        book.names = names;
        self.tables.publish(Box::new(Tables { lists, inward, outward, own }));
    }
}

/// What stays of a list.
#[derive(Default)]
struct Kept {
    /// Rules that were added at run time.
    added: Vec<Stated>,
    /// Those that are wanted: as they were, or new ones.
    rules: Vec<Result<Stated, Box<Rule>>>,
    /// Where its default was counted, and what had been counted there before.
    default: Option<(u32, (u64, u64))>,
}

impl Book {
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

    fn unknown(&self, name: &str) -> String {
        no_list(name, self.lists.keys().map(String::as_str))
    }
}

impl ListOf {
    fn new(
        name: &str,
        (rules, sets): (Vec<Stated>, &Sets),
        default: Action,
        (place, before): (u32, (u64, u64)),
    ) -> ListOf {
        let deed = Deed { place, action: default, is_logged: false, set_dscp: None, police: None, redirect: None };
        let (four, six) = (Numbered::default(), Numbered::default());
        let seen = List { name: name.into(), four, six, deeds: Arc::default(), default: deed };
        let (default_place, default_before) = (place, before);
        let free = Vec::new();
        let mut list = ListOf { rules, default, default_place, default_before, free, seen: Arc::new(seen) };
        list.rebuild(sets);
        list
    }

    /// Builds all anew.
    fn rebuild(&mut self, sets: &Sets) {
        let (mut four, mut six, mut deeds) = (Vec::new(), Vec::new(), Vec::new());
        for (stated, number) in self.rules.iter_mut().zip(0..) {
            let (mine_four, mine_six) = (stated.rule.four(sets), stated.rule.six(sets));
            (stated.number, stated.matches) = (number, (mine_four.len(), mine_six.len()));
            let deed = deed_of(stated);
            four.push((Brief::of(number, &deed), mine_four));
            six.push((Brief::of(number, &deed), mine_six));
            deeds.push(deed);
        }
        self.free.clear();
        let (four, six, deeds) = (Numbered::new(four), Numbered::new(six), Arc::new(deeds));
        self.seen = Arc::new(List { four, six, deeds, ..(*self.seen).clone() });
    }

    /// Positions in front of the matches of the rule at a position.
    fn front(&self, position: usize) -> (usize, usize) {
        let front = self.rules.iter().take(position);
        front.fold((0, 0), |(four, six), stated| (four + stated.matches.0, six + stated.matches.1))
    }

    fn insert(&mut self, position: usize, mut stated: Stated, sets: &Sets) {
        let (four, six) = (stated.rule.four(sets), stated.rule.six(sets));
        if four.len() + six.len() > MANY {
            self.rules.insert(position, stated);
            return self.rebuild(sets);
        }
        stated.matches = (four.len(), six.len());
        let (at_four, at_six) = self.front(position);
        let mut seen = (*self.seen).clone();
        let deed = deed_of(&stated);
        stated.number = self.free.pop().unwrap_or(seen.deeds.len() as u32);
        let brief = Brief::of(stated.number, &deed);
        let deeds = Arc::make_mut(&mut seen.deeds);
        match deeds.get_mut(stated.number as usize) {
            Some(known) => *known = deed,
            None => deeds.push(deed),
        }
        seen.four.insert(at_four, brief, four);
        seen.six.insert(at_six, brief, six);
        self.rules.insert(position, stated);
        self.seen = Arc::new(seen);
    }

    fn remove(&mut self, position: usize, sets: &Sets) -> Stated {
        let (at_four, at_six) = self.front(position);
        let gone = self.rules.remove(position);
        if gone.matches.0 + gone.matches.1 > MANY {
            self.rebuild(sets);
            return gone;
        }
        let mut seen = (*self.seen).clone();
        seen.four.remove(at_four, gone.matches.0);
        seen.six.remove(at_six, gone.matches.1);
        self.free.push(gone.number);
        self.seen = Arc::new(seen);
        gone
    }
}

fn deed_of(stated: &Stated) -> Deed {
    let Stated { rule, place, police, redirect, .. } = stated;
    let (action, is_logged, set_dscp) = (rule.action, rule.is_logged, rule.set_dscp);
    Deed { place: *place, action, is_logged, set_dscp, police: police.clone(), redirect: *redirect }
}
