//! How long things take, and how many there may be.

use std::fmt;
use std::ops::RangeInclusive;

const SECOND: u64 = 1_000_000_000;

/// Times (in nanoseconds) and counts of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long an answer counts; each neighbour uses between 75 and 100 % of it, so that not all are asked at once. 1 s
    /// to 1 h; default 30 s (RFC 4861 REACHABLE_TIME).
    pub reachable: u64,
    /// How long a neighbour that is not used is remembered after that. 1 s to 24 h; default 5 min.
    pub stale: u64,
    /// Time between two requests for the same address. 100 ms to 60 s; default 1 s (RFC 1122 section 2.3.2.1).
    pub retransmit: u64,
    /// Broadcast requests without an answer until a neighbour is given up. 1 to 20; default 3.
    pub broadcast_requests: u32,
    /// Unicast requests without an answer until broadcasts are tried again. 0 to 20; default 2 (RFC 1122 section 2.3.2.1:
    /// "if no ARP Reply is received from N successive polls [...] typically N is 2").
    pub unicast_requests: u32,
    /// How long a stale neighbour is used before it is asked whether it is still there; something else may show it in the meantime. 0 to
    /// 60 s; default 0 for ARP, 5 s for ND (RFC 4861 DELAY_FIRST_PROBE_TIME).
    pub delay: u64,
    /// How long a neighbour that did not answer is not asked again. 0 to 60 s; default 1 s.
    pub failed: u64,
    /// Probes for one of the router's own addresses before it is announced; 0 announces at once. 0 to 20; default 3 (RFC
    /// 5227 PROBE_NUM), and 1 for ND.
    pub own_probes: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            reachable: 30 * SECOND,
            stale: 300 * SECOND,
            retransmit: SECOND,
            broadcast_requests: 3,
            unicast_requests: 2,
            delay: 0,
            failed: SECOND,
            own_probes: 3,
        }
    }
}

impl Timing {
    /// The times of RFC 4861 section 10 and RFC 4862 section 5.1: RETRANS_TIMER, MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT,
    /// DELAY_FIRST_PROBE_TIME, DupAddrDetectTransmits.
    pub fn for_ipv6() -> Timing {
        Timing { unicast_requests: 3, delay: 5 * SECOND, own_probes: 1, ..Timing::default() }
    }
}

/// A value of [`Timing`] or [`Limits`] is out of its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Which one.
    pub field: &'static str,
    /// What it is.
    pub value: u64,
    /// What it may be.
    pub range: RangeInclusive<u64>,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}; it must be {} to {}", self.field, self.value, self.range.start(), self.range.end())
    }
}

impl std::error::Error for OutOfRange {}

fn out_of_range(checks: impl IntoIterator<Item = (&'static str, u64, RangeInclusive<u64>)>) -> Vec<OutOfRange> {
    let wrong = checks.into_iter().filter(|(_, value, range)| !range.contains(value));
    wrong.map(|(field, value, range)| OutOfRange { field, value, range }).collect()
}

impl Timing {
    /// All values that are out of their ranges.
    pub fn check(&self) -> Vec<OutOfRange> {
        out_of_range([
            ("reachable", self.reachable, SECOND..=3_600 * SECOND),
            ("stale", self.stale, SECOND..=86_400 * SECOND),
            ("retransmit", self.retransmit, SECOND / 10..=60 * SECOND),
            ("broadcast_requests", self.broadcast_requests.into(), 1..=20),
            ("unicast_requests", self.unicast_requests.into(), 0..=20),
            ("delay", self.delay, 0..=60 * SECOND),
            ("failed", self.failed, 0..=60 * SECOND),
            ("own_probes", self.own_probes.into(), 0..=20),
        ])
    }
}

/// How many neighbours there may be, static ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// On one interface. 1 to 1,048,576; default 8,192.
    pub per_port: usize,
    /// In all. 1 to 1,048,576; default 65,536.
    pub total: usize,
    /// On one interface, of those that have not answered yet: where they are more, the oldest makes room, so that who asks for every address of
    /// a network (2^64 of them in IPv6) drives nobody else out. 1 to 1,048,576; default 1,048,576 for ARP, that is as many as there
    /// may be, and 1,024 for ND.
    pub incomplete: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { per_port: 8_192, total: 65_536, incomplete: 1 << 20 }
    }
}

impl Limits {
    /// Those for neighbour discovery.
    pub fn for_ipv6() -> Limits {
        Limits { incomplete: 1_024, ..Limits::default() }
    }
}

impl Limits {
    /// All values that are out of their ranges.
    pub fn check(&self) -> Vec<OutOfRange> {
        let range = 1..=1 << 20;
        out_of_range([
            ("per_port", self.per_port as u64, range.clone()),
            ("total", self.total as u64, range.clone()),
            ("incomplete", self.incomplete as u64, range),
        ])
    }
}
