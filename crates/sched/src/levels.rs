//! What must hold of subports below others, as they are configured.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::Rate;

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
        faults.extend(below.iter().filter_map(|(name, all)| class_fault(subports, name, all)));
    }
    faults
}

/// Classes are guaranteed something of what the users of their own subport send, and of nothing below that.
fn class_fault(subports: &Subports, name: &str, below: &BTreeSet<&str>) -> Option<Fault> {
    let class = subports.get(name)?.classes.iter().position(|class| class.tc_guarantee.is_some())?;
    let names: Vec<&str> = below.iter().copied().take(8).collect();
    let problem =
        format!("others are below it, to whose users it would be nothing: give it to those ({})", names.join(", "));
    Some((format!("{name}.classes[{}].tc_guarantee", class + 1), problem))
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
