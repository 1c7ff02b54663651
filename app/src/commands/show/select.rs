//! What a filter of `weir show` selects, and what is said of one that selects nothing.

use serde_json::Value;

use crate::cli;
use crate::failure::Failed;
use crate::graph::GraphView;
use crate::stats::Stats;

/// Names that are listed to whoever asked for another.
const LISTED: usize = 20;

/// Refuses options that mean nothing to what is shown.
pub(super) fn check(options: &cli::Show) -> Result<(), Failed> {
    let what = options.what.as_str();
    let own = cli::SHOWS.iter().any(|(known, _)| *known == what);
    let wrong = |problem: String| Err(Failed::Misused(problem));
    if options.dot && what != "graph" {
        return wrong(format!("--dot draws the graph, not {what}; write weir show graph --dot"));
    }
    if options.function.is_some() && own {
        return wrong(format!("{what} are those of the whole; --function goes with the tables of functions"));
    }
    if options.compare.is_some() && what != "routes" {
        return wrong(format!("--compare goes with routes, not {what}; write weir show routes --compare linux"));
    }
    match &options.filter {
        Some(word) if options.compare.is_some() => {
            wrong(format!("all routes are compared, and \"{word}\" selects none of them; leave it out"))
        }
        Some(word) if what == "version" => {
            wrong(format!("there is one version, and \"{word}\" selects nothing of it; write weir show version"))
        }
        _ => Ok(()),
    }
}

/// What is said of a word that selects nothing of what there is.
pub(super) fn nothing(what: &str, word: &str, names: &[String]) -> Failed {
    let near = weir_config::nearest(word, names.iter().map(String::as_str));
    let hint = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
    let listed = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    let there = match names.len() {
        0 => "there is nothing to select from yet; leave the word out".to_owned(),
        count if count > LISTED => format!("there are {count}: {listed}, ..."),
        _ => format!("there are {listed}"),
    };
    Failed::Misused(format!("show {what}: nothing is called \"{word}\"; {hint}{there}"))
}

/// Leaves of the numbers those rows that a word selects: what has it in its name, or is of the worker of that name. If none of
/// what is shown is left, returns the names that there were.
pub(super) fn stats(stats: &mut Stats, what: &str, word: &str) -> Option<Vec<String>> {
    let shown = |part: &str| what == part || (what == "stats" && !["stages", "links", "services"].contains(&part));
    let mut names = Vec::new();
    let mut left = 0;
    let mut see = |part: &str, all: Vec<String>, selected: usize| {
        if shown(part) {
            names.extend(all);
            left += selected;
        }
    };
    let all = stats.ports.keys().cloned().collect();
    stats.ports.retain(|name, _| name.contains(word));
    see("ports", all, stats.ports.len());
    let all = stats.workers.iter().map(|worker| worker.id.clone()).collect();
    stats.workers.retain(|worker| worker.id == word);
    see("cycles", all, stats.workers.len());
    let name = |stage: &str, reason: &str| format!("{stage}.{reason}");
    let all = stats.drops.iter().map(|drop| name(&drop.stage, &drop.reason)).collect();
    stats.drops.retain(|drop| name(&drop.stage, &drop.reason).contains(word));
    see("drops", all, stats.drops.len());
    stats.fates.retain(|fate| name(&fate.stage, &fate.reason).contains(word));
    let mut all: Vec<String> = stats.stages.iter().map(|stage| stage.name.clone()).collect();
    all.dedup();
    stats.stages.retain(|stage| stage.name.contains(word) || stage.worker == word);
    see("stages", all, stats.stages.len());
    let all = stats.links.iter().map(|link| link.name.clone()).collect();
    stats.links.retain(|link| link.name.contains(word));
    see("links", all, stats.links.len());
    let all = stats.services.iter().map(|service| service.name.clone()).collect();
    stats.services.retain(|service| service.name.contains(word));
    see("services", all, stats.services.len());
    (left == 0).then_some(names)
}

/// Leaves of the graph the stages that have a word in their names.
pub(super) fn graph(graph: &mut GraphView, word: &str) -> Result<(), Failed> {
    let names: Vec<String> = graph.stages.iter().map(|stage| stage.name.clone()).collect();
    graph.stages.retain(|stage| stage.name.contains(word));
    graph.entries.retain(|entry| entry.stage.contains(word));
    if graph.stages.is_empty() { Err(nothing("graph", word, &names)) } else { Ok(()) }
}

/// Leaves of the ports those that have a word in their names.
pub(super) fn ports(rows: &mut Vec<Value>, word: &str) -> Result<(), Failed> {
    let name = |row: &Value| row.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let names: Vec<String> = rows.iter().map(name).collect();
    rows.retain(|row| name(row).contains(word));
    if rows.is_empty() { Err(nothing("ports", word, &names)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::example;

    #[test]
    fn a_word_selects_by_name() {
        let left = |what: &str, word: &str| {
            let mut numbers = example();
            (stats(&mut numbers, what, word), numbers)
        };
        let (none, numbers) = left("stats", "wan");
        assert!(none.is_none() && numbers.ports.len() == 1 && numbers.drops.is_empty());
        let (none, numbers) = left("drops", "expired");
        assert!(none.is_none() && numbers.drops.len() == 1);
        let (none, numbers) = left("cycles", "2");
        assert!(none.is_none() && numbers.workers.len() == 1);
        let (names, _) = left("cycles", "7");
        assert_eq!(names.unwrap(), ["1", "2", "control"]);
        let (none, numbers) = left("services", "met");
        assert!(none.is_none() && numbers.services.len() == 1);
        assert_eq!(left("services", "wan").0.unwrap(), ["socket", "metrics"]);
        assert_eq!(left("drops", "wan").0.unwrap(), ["toy.ttl.expired", "lan.tx-full"], "ports are no drops");
        assert_eq!(left("stages", "foo").0.unwrap(), ["toy.ttl", "toy.slow"]);
    }

    #[test]
    fn what_selects_nothing_is_told_what_there_is() {
        let names = ["lan".to_owned(), "wan".to_owned()];
        let said = nothing("ports", "lam", &names).to_string();
        assert_eq!(said, "weir: show ports: nothing is called \"lam\"; did you mean lan? there are lan, wan\n");
        let many: Vec<String> = (0..30).map(|n| format!("s{n}")).collect();
        assert!(nothing("stages", "xyzzy", &many).to_string().contains("there are 30: s0, s1"));
        assert!(
            nothing("links", "x", &[])
                .to_string()
                .ends_with("there is nothing to select from yet; leave the word out\n")
        );
    }
}
