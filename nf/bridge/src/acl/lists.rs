//! All lists, as workers look them up.

use std::sync::Arc;

use weir_acl::numbered::Numbered;
use weir_acl::police::Police;

use super::rule::{Action, Facts, WORDS};
use crate::plan::PORTS;

/// What a rule does.
#[derive(Clone, Debug)]
pub(super) struct Deed {
    /// Where its frames are counted.
    pub(super) place: u32,
    pub(super) action: Action,
    pub(super) is_logged: bool,
    pub(super) police: Option<Arc<Police>>,
}

impl Deed {
    /// Whether its frames simply go on, or are denied.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        !self.is_logged && self.police.is_none()
    }
}

/// One list.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) name: Arc<str>,
    pub(super) rules: Numbered<WORDS>,
    /// By number of the rule; none where nobody has the number.
    pub(super) deeds: Arc<Vec<Deed>>,
    /// Of frames that no rule matches.
    pub(super) default: Deed,
}

impl List {
    /// What becomes of a frame of which a match was found.
    #[inline(always)]
    pub(super) fn deed(&self, found: u32) -> &Deed {
        self.rules.rule(found).and_then(|rule| self.deeds.get(rule as usize)).unwrap_or(&self.default)
    }
}

/// One version of all.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(super) all: Vec<Arc<List>>,
    /// The list of each port, by its number, for what comes in, and for what leaves.
    pub(super) inward: [Option<u8>; PORTS],
    pub(super) outward: [Option<u8>; PORTS],
}

impl Lists {
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

/// A frame that a rule says to keep in mind.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    /// Nanoseconds.
    pub(crate) at: u64,
    pub(crate) list: Arc<str>,
    pub(crate) place: u32,
    /// The number of the port that it came in or left by.
    pub(crate) port: u8,
    pub(crate) is_in: bool,
    pub(crate) facts: Facts,
}
