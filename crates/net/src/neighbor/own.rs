//! The router's own addresses on a port: probing, announcing, defending (RFC 5227).
//!
//! A router's address must be stable. So it is used from the start, while it is still being probed, and defended for ever
//! (RFC 5227 section 2.4 (c)); a conflict is reported ([`super::duplicate`]), not obeyed.

use std::net::Ipv4Addr;

use crate::interface::Interface;
use weir_wire::MacAddr;

const SECOND: u64 = 1_000_000_000;

/// Time between two probes (PROBE_MIN), in nanoseconds.
pub const PROBE_INTERVAL: u64 = SECOND;
/// Time from the last probe to the first announcement.
pub const ANNOUNCE_WAIT: u64 = 2 * SECOND;
/// How often an address is announced.
pub const ANNOUNCEMENTS: u32 = 2;
/// Time between two announcements.
pub const ANNOUNCE_INTERVAL: u64 = 2 * SECOND;
/// An address is defended once in so long.
pub const DEFEND_INTERVAL: u64 = 10 * SECOND;

/// What an own address is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Probes are being sent; so many are left.
    Probing(u32),
    /// Announcements are being sent; so many are left.
    Announcing(u32),
    /// All is said, or the link is down.
    Quiet,
}

/// One own address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) interface: Interface,
    pub(super) phase: Phase,
    /// When the phase wants to go on.
    pub(super) deadline: Option<u64>,
    /// When it was last defended.
    pub(super) defended: Option<u64>,
    pub(super) rival: Option<MacAddr>,
}

/// What to send for an own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    Probe,
    Announcement,
}

impl Own {
    pub(super) const fn new(interface: Interface) -> Self {
        Own { interface, phase: Phase::Quiet, deadline: None, defended: None, rival: None }
    }

    /// The link came up: starts over. The first message is due at once.
    pub(super) fn start(&mut self, now: u64, probes: u32) {
        self.phase = if probes > 0 { Phase::Probing(probes) } else { Phase::Announcing(ANNOUNCEMENTS) };
        self.deadline = Some(now);
        self.rival = None;
    }

    /// The link went down.
    pub(super) fn stop(&mut self) {
        self.phase = Phase::Quiet;
        self.deadline = None;
    }

    /// The deadline has come: what to send. Sets the next one.
    pub(super) fn tick(&mut self, now: u64) -> Option<Say> {
        let (say, phase, wait) = match self.phase {
            Phase::Quiet => return None,
            Phase::Probing(left @ 2..) => (Say::Probe, Phase::Probing(left - 1), PROBE_INTERVAL),
            Phase::Probing(_) => (Say::Probe, Phase::Announcing(ANNOUNCEMENTS), ANNOUNCE_WAIT),
            Phase::Announcing(left @ 2..) => (Say::Announcement, Phase::Announcing(left - 1), ANNOUNCE_INTERVAL),
            Phase::Announcing(_) => (Say::Announcement, Phase::Quiet, 0),
        };
        self.phase = phase;
        self.deadline = (phase != Phase::Quiet).then(|| now.saturating_add(wait));
        Some(say)
    }

    /// `rival` was heard using the address. Answers whether to defend it now: "If this is not the first conflicting ARP
    /// packet the host has seen, and the time recorded for the previous conflicting ARP packet is within DEFEND_INTERVAL
    /// seconds, then the host MUST NOT send another defensive ARP Announcement." The time recorded is that of the packet that was
    /// answered by a defence: else a rival that speaks more often than that would never be answered again.
    pub(super) fn conflict(&mut self, now: u64, rival: MacAddr) -> bool {
        self.rival = Some(rival);
        let is_due = may_defend(self.defended, now);
        if is_due {
            self.defended = Some(now);
        }
        is_due
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        self.interface.address()
    }
}

/// Whether an address that was last defended at `before` may be defended at `now` (RFC 5227 section 2.4 (c)).
pub fn may_defend(before: Option<u64>, now: u64) -> bool {
    before.is_none_or(|before| now.saturating_sub(before) >= DEFEND_INTERVAL)
}

/// An own address as shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// Port and address.
    pub interface: Interface,
    /// Whether it is still being probed.
    pub probing: bool,
    /// Who else was heard using it since the link came up.
    pub rival: Option<MacAddr>,
}

impl From<&Own> for OwnAddress {
    fn from(own: &Own) -> Self {
        let probing = matches!(own.phase, Phase::Probing(_));
        OwnAddress { interface: own.interface, probing, rival: own.rival }
    }
}
