//! All lists, as workers look them up.

use std::sync::{Arc, Mutex, PoisonError};

use weir_net::VrfId;
use weir_table::classifier::{Classifier, NONE};

use super::Side;
use super::key::{FOUR, SIX};
use super::police::Police;
use super::rule::Action;
use crate::InterfaceId;

/// What a rule does.
#[derive(Clone, Debug)]
pub(super) struct Deed {
    /// Where its packets are counted.
    pub(super) place: u32,
    pub(super) action: Action,
    pub(super) is_logged: bool,
    pub(super) set_dscp: Option<u8>,
    pub(super) police: Option<Arc<Police>>,
    /// The VRF in which it is looked up where its packets go.
    pub(super) redirect: Option<VrfId>,
}

impl Deed {
    /// Whether its packets simply go on.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        let more = self.is_logged || self.set_dscp.is_some() || self.police.is_some() || self.redirect.is_some();
        self.action == Action::Permit && !more
    }
}

/// One list.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) name: Arc<str>,
    pub(super) four: Arc<Classifier<FOUR>>,
    pub(super) six: Arc<Classifier<SIX>>,
    /// The rule of each match, by its number.
    pub(super) rules_of_four: Arc<Vec<u32>>,
    pub(super) rules_of_six: Arc<Vec<u32>>,
    /// By number of the rule; none where nobody has the number.
    pub(super) deeds: Arc<Vec<Deed>>,
    /// Of packets that no rule matches.
    pub(super) default: Deed,
}

impl List {
    /// What becomes of a packet of which a match of IPv4, or of IPv6, was found.
    #[inline(always)]
    pub(super) fn deed(&self, is_six: bool, found: u32) -> &Deed {
        if found == NONE {
            return &self.default;
        }
        let rules = if is_six { &self.rules_of_six } else { &self.rules_of_four };
        let rule = rules.get(found as usize).copied().unwrap_or(NONE);
        self.deeds.get(rule as usize).unwrap_or(&self.default)
    }
}

/// No list.
pub(super) const NO_LIST: u16 = u16::MAX;

/// One version of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub(super) lists: Vec<Arc<List>>,
    /// The list of each interface for what comes in and for what leaves; [`NO_LIST`]. Empty where no interface has one.
    pub(super) inward: Vec<u16>,
    pub(super) outward: Vec<u16>,
    /// The list of each interface for what is for the router itself: that of its VRF.
    pub(super) own: Vec<u16>,
}

/// The list of an interface among those of a side.
#[inline(always)]
pub(super) fn list_of(lists: &[u16], interface: InterfaceId) -> u16 {
    lists.get(usize::from(interface)).copied().unwrap_or(NO_LIST)
}

/// A packet that a rule says to keep in mind.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    /// Nanoseconds.
    pub(super) at: u64,
    pub(super) list: Arc<str>,
    pub(super) place: u32,
    pub(super) interface: InterfaceId,
    pub(super) side: Side,
    /// The front of it, from the network header on.
    pub(super) front: [u8; 64],
}

/// The packets that came last, in a ring that does not grow.
#[derive(Debug)]
pub(super) struct Log(Mutex<(Box<[Option<Logged>]>, usize)>);

/// Packets that are kept.
const KEPT: usize = 256;

impl Default for Log {
    fn default() -> Log {
        Log(Mutex::new(((0..KEPT).map(|_| None).collect(), 0)))
    }
}

impl Log {
    /// Keeps a packet, unless somebody is looking: workers wait for nobody.
    pub(super) fn keep(&self, logged: Logged) {
        let Ok(mut kept) = self.0.try_lock() else { return };
        let (ring, next) = &mut *kept;
        if let Some(oldest) = ring.get_mut(*next % KEPT) {
            *oldest = Some(logged);
        }
        *next = next.wrapping_add(1);
    }

    /// All of them, the oldest first.
    pub(super) fn all(&self) -> Vec<Logged> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ring, next) = &*kept;
        let (newer, older) = ring.split_at(*next % KEPT);
        older.iter().chain(newer).flatten().cloned().collect()
    }
}
