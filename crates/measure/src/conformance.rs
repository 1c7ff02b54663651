//! Whether packets keep to a rate and a burst: [`TokenBucket`].

use serde::{Deserialize, Serialize};

/// A bit in the unit in which tokens are counted: at a rate of 1 bit/s, one falls in each nanosecond.
const BIT: u128 = 1_000_000_000;

/// A token bucket (RFC 2697 section 3, with one bucket): it holds `burst` bytes, is full at first, and is filled at `rate`. A packet
/// conforms if there are tokens for all of its bytes, which it then takes; else it exceeds, and takes none.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// Bits per second.
    rate: u64,
    /// Room for tokens.
    room: u128,
    tokens: u128,
    /// What a queue would hold that is filled by all packets, and emptied at `rate`.
    backlog: u128,
    longest: u128,
    /// When the last packet came, ns.
    latest: Option<i64>,
    counts: [u64; 4],
}

/// What a token bucket found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conformance {
    /// Packets that conform.
    pub conforming: u64,
    /// Their bytes.
    pub conforming_bytes: u64,
    /// Packets that exceed.
    pub exceeding: u64,
    /// Their bytes.
    pub exceeding_bytes: u64,
    /// The least burst with which all packets would have conformed to the rate, bytes.
    pub burst_needed: u64,
}

impl TokenBucket {
    /// Filled at `rate` bits per second, with room for `burst` bytes.
    pub fn new(rate: u64, burst: u64) -> TokenBucket {
        let room = u128::from(burst) * 8 * BIT;
        TokenBucket { rate, room, tokens: room, backlog: 0, longest: 0, latest: None, counts: [0; 4] }
    }

    /// Takes a packet of `bytes` bytes at `now`, ns, and says whether it conforms. Time that goes back counts as standing still.
    pub fn take(&mut self, bytes: u32, now: i64) -> bool {
        let latest = self.latest.unwrap_or(now);
        let elapsed = u128::from(now.max(latest).abs_diff(latest));
        self.latest = Some(now.max(latest));
        let fallen = elapsed * u128::from(self.rate);
        let size = u128::from(bytes) * 8 * BIT;
        self.tokens = self.room.min(self.tokens.saturating_add(fallen));
        self.backlog = self.backlog.saturating_sub(fallen) + size;
        self.longest = self.longest.max(self.backlog);
        let conforms = size <= self.tokens;
        let [conforming, conforming_bytes, exceeding, exceeding_bytes] = &mut self.counts;
        let (packets, sum) = if conforms {
            self.tokens -= size;
            (conforming, conforming_bytes)
        } else {
            (exceeding, exceeding_bytes)
        };
        *packets += 1;
        *sum += u64::from(bytes);
        conforms
    }

    /// What was found so far.
    pub fn conformance(&self) -> Conformance {
        let [conforming, conforming_bytes, exceeding, exceeding_bytes] = self.counts;
        let burst_needed = u64::try_from(self.longest.div_ceil(8 * BIT)).unwrap_or(u64::MAX);
        Conformance { conforming, conforming_bytes, exceeding, exceeding_bytes, burst_needed }
    }
}
