//! All lists, as workers look them up.

use std::sync::Arc;

use weir_acl::numbered::Numbered;
use weir_acl::police::Police;
use weir_acl::recent::Recent;
use weir_net::VrfId;

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
    fn is_plain(&self) -> bool {
        let more = self.is_logged || self.set_dscp.is_some() || self.police.is_some() || self.redirect.is_some();
        self.action == Action::Permit && !more
    }
}

/// What most packets need to know of their rule, in few bytes, so that many stay in the nearest cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Brief {
    /// The number of the rule.
    pub(super) rule: u32,
    /// Where its packets are counted, and whether they simply go on.
    place: u32,
}

impl Brief {
    /// Set where there is more to do with packets.
    const MORE: u32 = 1 << 31;

    /// That of a rule, which has a number and does this.
    pub(super) fn of(rule: u32, deed: &Deed) -> Brief {
        Brief { rule, place: deed.place & !Brief::MORE | if deed.is_plain() { 0 } else { Brief::MORE } }
    }

    /// Where its packets are counted.
    #[inline(always)]
    pub(super) fn place(self) -> u32 {
        self.place & !Brief::MORE
    }

    /// Whether its packets simply go on.
    #[inline(always)]
    pub(super) fn is_plain(self) -> bool {
        self.place & Brief::MORE == 0
    }
}

/// One list.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) name: Arc<str>,
    pub(super) four: Numbered<FOUR, Brief>,
    pub(super) six: Numbered<SIX, Brief>,
    /// What rules do, by their numbers.
    pub(super) deeds: Arc<Vec<Deed>>,
    /// Of packets that no rule matches.
    pub(super) default: Deed,
}

impl List {
    /// The brief of packets that no rule matches.
    pub(super) fn default_brief(&self) -> Brief {
        Brief::of(u32::MAX, &self.default)
    }

    /// What becomes of a packet that the rule of this number matches, or none.
    pub(super) fn deed(&self, rule: u32) -> &Deed {
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
