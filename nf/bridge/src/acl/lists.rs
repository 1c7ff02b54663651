//! All lists, as workers look them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_mem::CacheAligned;
use weir_table::classifier::{self, Classifier, NONE};

use super::rule::{Action, Rule, WORDS};
use crate::config::{AclConfig, BridgeConfig};
use crate::plan::PORTS;

/// Lists of a bridge at most.
pub(crate) const MAX_LISTS: usize = 128;

/// Rules of all its lists together at most: each has a line of memory that workers count in.
pub(crate) const MAX_RULES: usize = 16_384;

/// Matches that the rules of one list come to at most.
pub(crate) const MAX_MATCHES: usize = classifier::MAX_RULES;

/// What a rule was for.
#[derive(Debug, Default)]
pub(crate) struct Count {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    /// So many frames more, with so many bytes.
    #[inline(always)]
    pub(super) fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Frames and bytes.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// A rule, or what holds where none matches.
#[derive(Clone, Debug)]
pub(super) struct Deed {
    pub(super) action: Action,
    pub(super) count: Arc<CacheAligned<Count>>,
}

/// One list.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) name: String,
    pub(crate) rules: Vec<Rule>,
    pub(crate) default: Action,
    pub(super) classifier: Classifier<WORDS>,
    /// The rule of each match, by its number.
    of_match: Vec<u32>,
    /// By rule.
    deeds: Vec<Deed>,
    of_default: Deed,
}

impl List {
    /// A list. A rule that the one `before` has, too, goes on counting.
    fn new(name: &str, config: &AclConfig, before: Option<&List>) -> List {
        let fresh = || Arc::new(CacheAligned::new(Count::default()));
        let mut known: std::collections::HashMap<String, Vec<&Deed>> = std::collections::HashMap::new();
        for (rule, deed) in before.iter().flat_map(|before| before.rules.iter().zip(&before.deeds).rev()) {
            known.entry(rule.to_string()).or_default().push(deed);
        }
        let deed = |rule: &Rule| {
            let counted = known.get_mut(&rule.to_string()).and_then(Vec::pop);
            Deed { action: rule.action, count: counted.map_or_else(fresh, |deed| Arc::clone(&deed.count)) }
        };
        let deeds = config.rules.iter().map(deed).collect();
        let (mut matches, mut of_match) = (Vec::new(), Vec::new());
        for (rule, number) in config.rules.iter().zip(0..) {
            for one in rule.matches() {
                matches.push(one);
                of_match.push(number);
            }
        }
        let counted = before.map(|before| Arc::clone(&before.of_default.count));
        List {
            name: name.to_owned(),
            rules: config.rules.clone(),
            default: config.default,
            classifier: Classifier::new(&matches),
            of_match,
            deeds,
            of_default: Deed { action: config.default, count: counted.unwrap_or_else(fresh) },
        }
    }

    fn is(&self, name: &str, config: &AclConfig) -> bool {
        self.name == name && self.default == config.default && self.rules == config.rules
    }

    /// What becomes of a frame of which a match was found.
    #[inline(always)]
    pub(super) fn deed(&self, found: u32) -> &Deed {
        if found == NONE {
            return &self.of_default;
        }
        let rule = self.of_match.get(found as usize).copied().unwrap_or(NONE);
        self.deeds.get(rule as usize).unwrap_or(&self.of_default)
    }

    /// What its rules have counted, in their order, and behind them what none matched.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.deeds.iter().chain([&self.of_default]).map(|deed| deed.count.read())
    }
}

/// One version of all.
#[derive(Clone, Debug)]
pub(crate) struct Lists {
    pub(crate) all: Vec<Arc<List>>,
    /// The list of each port, by its number, for what comes in, and for what leaves.
    inward: [Option<u8>; PORTS],
    outward: [Option<u8>; PORTS],
}

impl Lists {
    /// Those of a configuration. A list that is the same as `before` is not built anew.
    pub(crate) fn new(config: &BridgeConfig, before: Option<&Lists>) -> Lists {
        let known = |name: &str| before.and_then(|before| before.all.iter().find(|list| list.name == name));
        let list = |(name, config): (&String, &AclConfig)| match known(name) {
            Some(list) if list.is(name, config) => Arc::clone(list),
            list => Arc::new(List::new(name, config, list.map(|list| &**list))),
        };
        let all: Vec<Arc<List>> = config.acls.iter().take(MAX_LISTS).map(list).collect();
        let number = |name: &Option<String>| {
            let name = name.as_ref()?;
            all.iter().zip(0..).find(|(list, _)| list.name == *name).map(|(_, number)| number)
        };
        let (mut inward, mut outward) = ([None; PORTS], [None; PORTS]);
        for ((port, inward), outward) in config.ports.values().zip(&mut inward).zip(&mut outward) {
            (*inward, *outward) = (number(&port.acl_in), number(&port.acl_out));
        }
        Lists { all, inward, outward }
    }

    /// The list for what comes in by a port.
    #[inline(always)]
    pub(super) fn inward(&self, port: u8) -> Option<&List> {
        self.get(self.inward[usize::from(port) % PORTS])
    }

    /// The list for what leaves by a port.
    #[inline(always)]
    pub(super) fn outward(&self, port: u8) -> Option<&List> {
        self.get(self.outward[usize::from(port) % PORTS])
    }

    #[inline(always)]
    fn get(&self, number: Option<u8>) -> Option<&List> {
        self.all.get(usize::from(number?)).map(|list| &**list)
    }
}
