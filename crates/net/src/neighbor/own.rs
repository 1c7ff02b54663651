//! The router's own addresses on an interface: probing, announcing, defending (RFC 5227; for IPv6 RFC 4862 section 5.4).
//!
//! A router's address must be stable. So one of IPv4 is used from the start, while it is still being probed, and defended for ever
//! (RFC 5227 section 2.4 (c)); a conflict is reported ([`super::duplicate`]), not obeyed. One of IPv6 is not used before nobody was
//! heard to have it, and not at all when somebody was: RFC 4862 section 5.4.5 leaves no choice. It is probed again when the link comes
//! back, or when the address is taken and given anew.

use std::net::Ipv4Addr;

use super::{Protocol, Say};
use crate::family::Prefix;
use crate::interface::InterfaceAddress;
use weir_wire::MacAddr;

const SECOND: u64 = 1_000_000_000;

/// Time between two probes (PROBE_MIN), in nanoseconds.
pub const PROBE_INTERVAL: u64 = SECOND;
/// Time from the last probe to the first announcement.
pub const ANNOUNCE_WAIT: u64 = 2 * SECOND;
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
    /// Somebody else has the address, which is not used therefore.
    Taken,
}

/// One own address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own<A: Protocol> {
    pub(super) assigned: InterfaceAddress<A>,
    pub(super) phase: Phase,
    /// When the phase wants to go on.
    pub(super) deadline: Option<u64>,
    /// When it was last defended.
    pub(super) defended: Option<u64>,
    pub(super) rival: Option<MacAddr>,
    /// The address was found to be nobody else's since the link came up.
    pub(super) is_proven: bool,
}

impl<A: Protocol> Own<A> {
    pub(super) const fn new(assigned: InterfaceAddress<A>) -> Self {
        Own { assigned, phase: Phase::Quiet, deadline: None, defended: None, rival: None, is_proven: false }
    }

    /// The link came up: starts over. The first message is due at `at`.
    pub(super) fn start(&mut self, at: u64, probes: u32) {
        self.phase = if probes > 0 { Phase::Probing(probes) } else { Phase::Announcing(A::ANNOUNCEMENTS) };
        self.deadline = Some(at);
        self.rival = None;
        self.is_proven = false;
    }

    /// Tells all of the address again.
    pub(super) fn announce(&mut self, now: u64) {
        if matches!(self.phase, Phase::Announcing(_) | Phase::Quiet) {
            (self.phase, self.deadline) = (Phase::Announcing(A::ANNOUNCEMENTS), Some(now));
        }
    }

    /// Somebody else has the address, and it must be the router's alone: it is not used any more.
    pub(super) fn give_up(&mut self, rival: MacAddr) {
        (self.phase, self.deadline, self.rival, self.is_proven) = (Phase::Taken, None, Some(rival), false);
    }

    /// Whether the address may be used: to speak from, and to be asked for.
    pub(super) const fn is_usable(&self) -> bool {
        !A::MUST_BE_PROVEN || self.is_proven
    }

    /// The link went down.
    pub(super) fn stop(&mut self) {
        self.phase = Phase::Quiet;
        self.deadline = None;
        self.is_proven = false;
    }

    /// The deadline has come: what to send. Sets the next one.
    pub(super) fn tick(&mut self, now: u64) -> Option<Say> {
        let (say, phase, wait) = match self.phase {
            Phase::Quiet | Phase::Taken => return None,
            Phase::Probing(left @ 2..) => (Say::Probe, Phase::Probing(left - 1), PROBE_INTERVAL),
            Phase::Probing(_) => (Say::Probe, Phase::Announcing(A::ANNOUNCEMENTS), A::ANNOUNCE_WAIT),
            Phase::Announcing(left @ 2..) => (Say::Announcement, Phase::Announcing(left - 1), A::ANNOUNCE_INTERVAL),
            Phase::Announcing(_) => (Say::Announcement, Phase::Quiet, 0),
        };
        self.is_proven |= say == Say::Announcement;
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

    pub(super) fn prefix_length(&self) -> u8 {
        self.assigned.net().length()
    }

    pub(super) fn address(&self) -> A {
        self.assigned.address()
    }
}

/// Whether an address that was last defended at `before` may be defended at `now` (RFC 5227 section 2.4 (c)).
pub fn may_defend(before: Option<u64>, now: u64) -> bool {
    before.is_none_or(|before| now.saturating_sub(before) >= DEFEND_INTERVAL)
}

/// An own address as shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress<A: Protocol = Ipv4Addr> {
    /// Interface and address.
    pub assigned: InterfaceAddress<A>,
    /// Whether it is still being probed.
    pub probing: bool,
    /// Whether it is used: one of IPv4 always is, one of IPv6 once it was found to be nobody else's.
    pub usable: bool,
    /// Who else was heard using it since the link came up.
    pub rival: Option<MacAddr>,
}

impl<A: Protocol> From<&Own<A>> for OwnAddress<A> {
    fn from(own: &Own<A>) -> Self {
        // The last probe has been sent, and its answer not been waited for.
        let probing = matches!(own.phase, Phase::Probing(_)) || own.deadline.is_some() && !own.is_usable();
        OwnAddress { assigned: own.assigned, probing, usable: own.is_usable(), rival: own.rival }
    }
}
