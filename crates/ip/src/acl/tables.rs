//! All lists, as workers look them up.

use std::sync::Arc;

use weir_acl::numbered::Numbered;
use weir_acl::police::Police;
use weir_acl::recent::Recent;
use weir_net::VrfId;
use weir_table::classifier::NONE;

use super::Side;
use super::key::{FOUR, SIX};
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
    pub(super) four: Numbered<FOUR>,
    pub(super) six: Numbered<SIX>,
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
        let rule = if is_six { self.six.rule(found) } else { self.four.rule(found) };
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

/// The packets that came last.
pub(super) type Log = Recent<Logged>;
