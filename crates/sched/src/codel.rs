//! Controlled delay (CoDel, RFC 8289): drops the first packet of a queue in which every packet has waited too long for a while.

use weir_config::{Nanos, config};

use crate::manage::{Departure, Manage, State, Verdict};

config! {
    /// Controlled delay (CoDel, RFC 8289): drops packets of a queue in which all have waited for longer than `target` during a whole
    /// `interval`, at growing frequency until they do not.
    pub struct CodelConfig {
        /// How long packets may wait for good.
        pub target: Nanos = default(Nanos::new(5_000_000)), live, range(Nanos::new(1_000)..=Nanos::new(1_000_000_000));
        /// About the longest round trip of the connections in the queue.
        pub interval: Nanos = default(Nanos::new(100_000_000)), live, range(Nanos::new(10_000)..=Nanos::new(4_000_000_000));
        /// Marks packets whose ends know of that (ECN, RFC 3168) in place of dropping them.
        pub ecn: bool = default(false), live;
    }
}

/// CoDel for queues of one kind. A queue of a single packet is never too long, whatever that has waited; where RFC 8289 speaks of
/// one MTU in the queue, this counts packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    target: u64,
    interval: u64,
    ecn: bool,
}

// What is remembered of a queue.
/// When packets will have waited for too long for an interval; 0 while they have not begun to.
const FIRST_ABOVE: usize = 0;
/// When the next packet is dropped.
const DROP_NEXT: usize = 1;
/// Packets dropped since it began to drop; in the upper half, how many that was counted from when it began last.
const COUNTS: usize = 2;
const FLAGS: usize = 3;

/// It drops.
const DROPPING: u64 = 1;
/// It has dropped the packet before this one, and the time of the next drop is not settled yet.
const UNSETTLED: u64 = 2;

/// The longest interval, nanoseconds, whose square is a `u64`.
const LONGEST: u64 = 4_000_000_000;

impl Codel {
    /// From a configuration.
    pub fn new(config: &CodelConfig) -> Codel {
        Codel { target: config.target.nanos(), interval: config.interval.nanos().min(LONGEST), ecn: config.ecn }
    }

    /// With the usual values: 5 ms in 100 ms, without marks.
    pub(crate) fn usual() -> Codel {
        Codel { target: 5_000_000, interval: 100_000_000, ecn: false }
    }

    /// What becomes of a packet whose turn it is to be dropped.
    fn signal(&self) -> Verdict {
        if self.ecn { Verdict::Mark } else { Verdict::Drop }
    }

    /// `t + INTERVAL / sqrt(count)`.
    fn control_law(&self, time: u64, count: u64) -> u64 {
        time.saturating_add((self.interval * self.interval / count.max(1)).isqrt())
    }

    /// Whether a packet tells that its queue is short.
    #[inline(always)]
    fn is_short(&self, packet: &Departure) -> bool {
        packet.sojourn < self.target || packet.behind == 0
    }

    /// `ok_to_drop` of the RFC's `dodequeue`.
    fn above(&self, state: &mut State, packet: &Departure) -> bool {
        if self.is_short(packet) {
            state[FIRST_ABOVE] = 0;
            return false;
        }
        if state[FIRST_ABOVE] == 0 {
            state[FIRST_ABOVE] = packet.now.saturating_add(self.interval);
            return false;
        }
        packet.now >= state[FIRST_ABOVE]
    }

    /// While it drops.
    fn go_on(&self, state: &mut State, now: u64) -> Verdict {
        let count = state[COUNTS] as u32;
        if state[FLAGS] & UNSETTLED != 0 {
            state[DROP_NEXT] = self.control_law(state[DROP_NEXT], count.into());
            state[FLAGS] = DROPPING;
        }
        if now < state[DROP_NEXT] {
            return Verdict::Pass;
        }
        state[COUNTS] = state[COUNTS] & !u64::from(u32::MAX) | u64::from(count.saturating_add(1));
        state[FLAGS] = DROPPING | UNSETTLED;
        self.signal()
    }

    /// The first drop. Where the last time is not long ago, it goes on about as often as then.
    fn begin(&self, state: &mut State, now: u64) -> Verdict {
        let (count, last) = (state[COUNTS] as u32, (state[COUNTS] >> 32) as u32);
        let delta = count.saturating_sub(last);
        let recently = now < state[DROP_NEXT].saturating_add(16 * self.interval);
        let count = if delta > 1 && recently { delta } else { 1 };
        state[DROP_NEXT] = self.control_law(now, count.into());
        state[COUNTS] = u64::from(count) << 32 | u64::from(count);
        state[FLAGS] = DROPPING;
        self.signal()
    }
}

impl Manage for Codel {
    fn marks(&self) -> bool {
        self.ecn
    }

    fn depart(&self, state: &mut State, packet: &Departure) -> Verdict {
        let above = self.above(state, packet);
        match (state[FLAGS] & DROPPING != 0, above) {
            (_, false) => {
                state[FLAGS] = 0;
                Verdict::Pass
            }
            (true, true) => self.go_on(state, packet.now),
            (false, true) => self.begin(state, packet.now),
        }
    }

    fn notes(&self, packet: &Departure) -> bool {
        !self.is_short(packet)
    }

    fn patience(&self) -> u64 {
        self.target
    }

    /// The packet that was to go has its signal, and goes: the time of the next one is settled by it, not by the packet behind.
    fn marked(&self, state: &mut State, _now: u64) {
        if state[FLAGS] & UNSETTLED != 0 {
            state[DROP_NEXT] = self.control_law(state[DROP_NEXT], u64::from(state[COUNTS] as u32));
            state[FLAGS] = DROPPING;
        }
    }

    fn emptied(&self, state: &mut State, _now: u64) {
        state[FIRST_ABOVE] = 0;
        state[FLAGS] = 0;
    }
}
