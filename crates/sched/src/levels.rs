//! What must hold of subports below others, as they are configured.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::Rate;

use crate::class::MAX_CLASSES;
use crate::config::{Fault, SubportConfig};
use crate::profile::LEVELS;

/// Subports by name.
type Subports = BTreeMap<String, SubportConfig>;

/// What is wrong with the levels of subports: each key from the name of its subport on, and a sentence.
pub fn faults(subports: &Subports) -> Vec<Fault> {
    let mut faults: Vec<Fault> = subports.keys().filter_map(|name| parent_fault(subports, name)).collect();
    if faults.is_empty() && subports.values().any(|subport| subport.parent.is_some()) {
        let below = children(subports);
        faults.extend(subports.keys().filter_map(|name| promise_fault(subports, &below, name)));
        faults.extend(below.iter().flat_map(|(name, all)| class_faults(subports, name, all)));
    }
    faults
}

/// From the highest subport that guarantees classes anything down, what is guaranteed to a class below one is part of what that one guarantees it. All parents are sound.
fn class_faults(subports: &Subports, name: &str, below: &BTreeSet<&str>) -> Vec<Fault> {
    let Some(subport) = subports.get(name) else { return Vec::new() };
    let above = |at: &&SubportConfig| subports.get(at.parent.as_ref()?);
    let guarantees = |at: &SubportConfig| at.classes.iter().any(|class| class.tc_guarantee.is_some());
    if !std::iter::successors(Some(subport), above).any(guarantees) {
        return Vec::new();
    }
    let of = |at: &SubportConfig, class: usize| at.classes.get(class)?.tc_guarantee.map(Rate::bits_per_second);
    let fault = |class: usize| {
        let inner = below.iter().filter_map(|child| Some((*child, of(subports.get(*child)?, class)?)));
        let (names, rates): (Vec<&str>, Vec<u64>) = inner.unzip();
        let together = rates.into_iter().fold(0, u64::saturating_add);
        let own = of(subport, class);
        (together > own.unwrap_or(0)).then(|| {
            let (names, together) = (names.into_iter().take(8).collect::<Vec<_>>().join(", "), Rate::new(together));
            let problem = match own {
                Some(own) => format!(
                    "{} is less than what is guaranteed to the class right below it together ({names}), {together}: raise it, or lower their tc_guarantee",
                    Rate::new(own)
                ),
                None => format!(
                    "it is missing, and those right below it have one ({names}), {together} together, which is part of this: give it so much or more, or take theirs away"
                ),
            };
            (format!("{name}.classes[{}].tc_guarantee", class + 1), problem)
        })
    };
    (0..MAX_CLASSES).filter_map(fault).collect()
}

fn parent_fault(subports: &Subports, name: &str) -> Option<Fault> {
    let parent = subports.get(name)?.parent.as_ref()?;
    let told = |problem: String| Some((format!("{name}.parent"), problem));
    if !subports.contains_key(parent) {
        let known: Vec<&str> = subports.keys().map(String::as_str).filter(|other| *other != name).take(16).collect();
        return told(format!(
            "no subport is called {parent:?}; declare it in subports, or name one of {}",
            known.join(", ")
        ));
    }
    let mut path = vec![name];
    while let Some(above) = path.last().and_then(|at| subports.get(*at)?.parent.as_deref()) {
        if above == name {
            path.push(name);
            return told(format!(
                "it would be below itself ({}): leave one of these parents out",
                path.join(" below ")
            ));
        }
        if path.len() == LEVELS {
            path.push(above);
            return told(format!(
                "{} are more than {LEVELS} levels, which is the most: name a subport with fewer above it, or leave parent out",
                path.join(" below ")
            ));
        }
        path.push(above);
    }
    None
}

/// The subports right below each.
fn children(subports: &Subports) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut below: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, subport) in subports {
        subport.parent.iter().for_each(|parent| _ = below.entry(parent).or_default().insert(name));
    }
    below
}

/// A subport may send what is guaranteed to those right below it. All parents are sound.
fn promise_fault(subports: &Subports, below: &BTreeMap<&str, BTreeSet<&str>>, name: &str) -> Option<Fault> {
    let subport = subports.get(name)?;
    let (key, most) = match (subport.ceil, subport.tb_rate) {
        (Some(ceil), _) => ("ceil", ceil),
        (None, Some(rate)) => ("tb_rate", rate),
        (None, None) => return None,
    };
    let promised = promised_below(subports, below, name);
    let names: Vec<&str> = below.get(name).into_iter().flatten().copied().take(8).collect();
    (promised > most.bits_per_second()).then(|| {
        let problem = format!(
            "{most} is less than what is guaranteed to those below it together ({}), {}: raise {key}, or lower their tb_rate",
            names.join(", "),
            Rate::new(promised)
        );
        (format!("{name}.{key}"), problem)
    })
}

/// What is guaranteed below a subport, bit/s.
fn promised_below(subports: &Subports, below: &BTreeMap<&str, BTreeSet<&str>>, name: &str) -> u64 {
    let of = |child: &str| {
        let own = subports.get(child).and_then(|subport| subport.tb_rate).map_or(0, Rate::bits_per_second);
        own.max(promised_below(subports, below, child))
    };
    below.get(name).into_iter().flatten().map(|child| of(child)).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use weir_config::Size;

    use super::*;
    use crate::config::SubportClassConfig;

    fn subports(all: &[(&str, Option<&str>, u64, u64)]) -> Subports {
        let rate = |mbit: u64| (mbit > 0).then(|| Rate::new(mbit * 1_000_000));
        let subport = |(name, parent, tb_rate, ceil): &(&str, Option<&str>, u64, u64)| {
            let parent = parent.map(str::to_owned);
            let config = SubportConfig {
                tb_rate: rate(*tb_rate),
                ceil: rate(*ceil),
                tb_size: Size::new(65_536),
                weight: 1,
                parent,
                classes: Vec::new(),
            };
            ((*name).to_owned(), config)
        };
        all.iter().map(subport).collect()
    }

    fn told(all: &[(&str, Option<&str>, u64, u64)]) -> Vec<String> {
        faults(&subports(all)).into_iter().map(|(key, problem)| format!("{key}: {problem}")).collect()
    }

    #[test]
    fn three_levels_are_fine_and_four_are_not() {
        let three = [("a", None, 0, 0), ("b", Some("a"), 0, 0), ("c", Some("b"), 0, 0), ("d", Some("b"), 0, 0)];
        assert_eq!(told(&three), Vec::<String>::new());
        let four = [("a", None, 0, 0), ("b", Some("a"), 0, 0), ("c", Some("b"), 0, 0), ("d", Some("c"), 0, 0)];
        let words = "d.parent: d below c below b below a are more than 3 levels, which is the most: \
                     name a subport with fewer above it, or leave parent out";
        assert_eq!(told(&four), [words]);
    }

    #[test]
    fn who_is_below_itself_or_below_nobody_is_told_so_at_once() {
        let all = [("a", Some("a"), 0, 0), ("b", Some("c"), 0, 0), ("c", Some("b"), 0, 0), ("d", Some("x"), 0, 0)];
        assert_eq!(
            told(&all),
            [
                "a.parent: it would be below itself (a below a): leave one of these parents out",
                "b.parent: it would be below itself (b below c below b): leave one of these parents out",
                "c.parent: it would be below itself (c below b below c): leave one of these parents out",
                "d.parent: no subport is called \"x\"; declare it in subports, or name one of a, b, c",
            ]
        );
    }

    /// Subports by name, with what is above each and Mbit/s that are guaranteed to its classes.
    fn guarantees(all: &[(&str, Option<&str>, &[u64])]) -> Vec<String> {
        let plain: Vec<_> = all.iter().map(|(name, parent, _)| (*name, *parent, 0, 0)).collect();
        let mut subports = subports(&plain);
        for (name, _, classes) in all {
            let class = |mbit: &u64| SubportClassConfig {
                tc_guarantee: (*mbit > 0).then(|| Rate::new(mbit * 1_000_000)),
                ..SubportClassConfig::OPEN
            };
            subports.get_mut(*name).unwrap().classes = classes.iter().map(class).collect();
        }
        faults(&subports).into_iter().map(|(key, problem)| format!("{key}: {problem}")).collect()
    }

    #[test]
    fn what_classes_are_guaranteed_is_within_what_they_are_above() {
        let all: [(&str, Option<&str>, &[u64]); 4] =
            [("a", None, &[0, 50]), ("b", Some("a"), &[0, 30]), ("c", Some("a"), &[0, 20]), ("d", Some("b"), &[0, 30])];
        assert_eq!(guarantees(&all), Vec::<String>::new());
        // Above the highest that guarantees anything, nothing has to be said of it.
        let free = [("a", None, &[][..]), ("b", Some("a"), &[0, 5]), ("c", Some("a"), &[9]), ("d", Some("b"), &[0, 5])];
        assert_eq!(guarantees(&free), Vec::<String>::new());
        let more = [all[0], ("b", Some("a"), &[10, 40]), all[2], ("d", Some("b"), &[10, 41])];
        assert_eq!(
            guarantees(&more),
            [
                "a.classes[1].tc_guarantee: it is missing, and those right below it have one (b), 10 Mbit/s together, which is part of this: \
                 give it so much or more, or take theirs away",
                "a.classes[2].tc_guarantee: 50 Mbit/s is less than what is guaranteed to the class right below it together (b, c), 60 Mbit/s: \
                 raise it, or lower their tc_guarantee",
                "b.classes[2].tc_guarantee: 40 Mbit/s is less than what is guaranteed to the class right below it together (d), 41 Mbit/s: \
                 raise it, or lower their tc_guarantee",
            ]
        );
        // None is left out in between.
        let gap = [all[0], ("b", Some("a"), &[][..]), all[2], all[3]];
        let words =
            "b.classes[2].tc_guarantee: it is missing, and those right below it have one (d), 30 Mbit/s together";
        let told = guarantees(&gap);
        assert!(told.len() == 1 && told[0].starts_with(words), "{told:?}");
    }

    #[test]
    fn no_more_is_promised_than_may_be_sent() {
        let all = [
            ("a", None, 0, 1_000),
            ("b", Some("a"), 600, 0),
            ("c", Some("a"), 100, 400),
            ("d", Some("c"), 200, 0),
            ("e", Some("c"), 200, 0),
        ];
        assert_eq!(told(&all), Vec::<String>::new());
        let more = [all[0], all[1], ("c", Some("a"), 100, 399), all[3], ("e", Some("c"), 201, 0)];
        assert_eq!(
            told(&more),
            [
                "a.ceil: 1 Gbit/s is less than what is guaranteed to those below it together (b, c), 1001 Mbit/s: \
                 raise ceil, or lower their tb_rate",
                "c.ceil: 399 Mbit/s is less than what is guaranteed to those below it together (d, e), 401 Mbit/s: \
                 raise ceil, or lower their tb_rate",
            ]
        );
    }
}
