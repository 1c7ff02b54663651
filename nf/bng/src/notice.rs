//! Hostile and broken customers in the log: within bounds, whatever they do.
//!
//! Workers mark whose packets they drop for which reason, and once in a second somebody looks. A subscriber has one line for each
//! reason in an interval, and all subscribers together so many; what else there was is counted at the interval's end.

use std::collections::{BTreeMap, HashSet};

use weir_stage::Notice;

use crate::loss::help;
use crate::registry::Registry;
use crate::state::Control;

/// Time between two looks, nanoseconds.
const LOOK: u64 = 1_000_000_000;

/// What was told in this interval.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    next_look: u64,
    /// When the interval ends, which began with its first line.
    ends: Option<u64>,
    /// Subscribers and reasons that have had their line.
    told: HashSet<(u32, u32)>,
    /// Reasons of those for whom there was none, by subscriber.
    untold: BTreeMap<u32, u128>,
    /// Who comes first in the next interval, so that everybody does at times.
    first: u32,
}

impl Notices {
    /// Whether it is time to look.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.next_look
    }

    /// What there is to tell, when it is time.
    pub(crate) fn look(&mut self, now: u64, control: &Control) -> Vec<Notice> {
        self.next_look = now.saturating_add(LOOK);
        let (registry, log) = (&control.registry, &control.config.log);
        let most = log.lines as usize;
        if most == 0 {
            return Vec::new();
        }
        let has_ended = self.ends.is_some_and(|ends| now >= ends);
        let has_lines = self.told.len() < most;
        if !has_lines && !has_ended {
            // Marks wait for the end of the interval.
            return Vec::new();
        }
        let marks = registry.counters().take_marks();
        if has_ended {
            self.ends = None;
            if !has_lines {
                return self.sum_up(marks);
            }
            self.told.clear();
        }
        let lines = self.tell(registry, marks, most);
        if self.ends.is_none() && !lines.is_empty() {
            self.ends = Some(now.saturating_add(log.interval.nanos()));
        }
        lines
    }

    /// Ends an interval in which there were not lines enough.
    fn sum_up(&mut self, marks: BTreeMap<u32, u128>) -> Vec<Notice> {
        let told = std::mem::take(&mut self.told);
        let mut untold = std::mem::take(&mut self.untold);
        marks.into_iter().for_each(|(number, reasons)| *untold.entry(number).or_default() |= reasons);
        let of = |number: u32, reasons| bits(reasons).filter(|reason| !told.contains(&(number, *reason))).count();
        let count: usize = untold.into_iter().map(|(number, reasons)| of(number, reasons)).sum();
        let message = "more customers' packets are refused: 'weir show subscribers' has all";
        let facts = vec![("not_told", count.to_string())];
        if count > 0 { vec![Notice { message, facts }] } else { Vec::new() }
    }

    /// Tells one reason of each subscriber before the second of any, as long as there are lines.
    fn tell(&mut self, registry: &Registry, marks: BTreeMap<u32, u128>, most: usize) -> Vec<Notice> {
        let mut lines = Vec::new();
        let mut left = true;
        for nth in 0.. {
            if !left || self.told.len() >= most {
                break;
            }
            left = false;
            let first = self.first;
            for (number, reasons) in marks.range(first..).chain(marks.range(..first)) {
                let Some(reason) = bits(*reasons).nth(nth) else { continue };
                left = true;
                if self.told.len() >= most {
                    break;
                }
                if self.told.contains(&(*number, reason)) {
                    continue;
                }
                if let Some(line) = line(registry, *number, reason) {
                    self.told.insert((*number, reason));
                    self.first = number.saturating_add(1);
                    lines.push(line);
                }
            }
        }
        if self.told.len() >= most {
            self.untold = marks;
        }
        lines
    }
}

/// The line about a reason of a subscriber, or of a port behind the subscribers' numbers; `None` if it is gone.
fn line(registry: &Registry, number: u32, reason: u32) -> Option<Notice> {
    let (counters, ports) = (registry.counters(), &registry.settings().ports);
    let (sums, port, tags) = match counters.port_of(number) {
        Some(position) => (counters.sum(number), ports.get(position)?, None),
        None => {
            let subscriber = registry.subscriber(number)?;
            let tags = subscriber.tags;
            let sums = counters.since(number, &subscriber.zero);
            (sums, ports.get(usize::from(tags.port))?, Some(format!("{}.{}", tags.svlan, tags.cvlan)))
        }
    };
    let reason = counters.reason(reason as usize);
    let (_, packets) = sums.drops.iter().find(|(name, _)| *name == reason)?;
    let who = [("port", port.clone())].into_iter().chain(tags.map(|tags| ("subscriber", tags)));
    let what = [("reason", reason.to_owned()), ("packets", packets.to_string()), ("why", help(reason).to_owned())];
    Some(Notice { message: "a customer's packets are refused", facts: who.chain(what).collect() })
}

/// The bits that are set, lowest first.
fn bits(mut word: u128) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}
