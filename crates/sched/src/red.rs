//! Random early detection (Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993), with thresholds of
//! their own for each colour (weighted RED).
//!
//! Whether a packet that comes is dropped depends on the average length of its queue, in which bursts count little: up to
//! `min` none is, from `max` on every one, and between them the more, the longer the queue is on average, at
//! distances that are spread evenly. All in integers: averages are in units of 2^-32 packets, probabilities of 2^-32.

use weir_config::{Nanos, config};

use crate::manage::{Arrival, Manage, State, Verdict};

config! {
    /// Random early detection (RED) of packets of one colour.
    pub struct RedThresholds {
        /// Average length of the queue, in packets, up to which none is dropped.
        pub min: u32 = required, live, range(0..=65_535);
        /// Average length of the queue, in packets, from which on all are dropped.
        pub max: u32 = required, live, range(1..=65_536);
        /// Share of the packets that is dropped where the average comes close to `max`.
        pub probability: f64 = default(0.1), live, range(0.000_001..=1.0);
    }
}

config! {
    /// Random early detection (RED): drops packets at random before a queue is full, the more the longer it is on average.
    pub struct RedConfig {
        /// Average length of the queue, in packets, up to which none is dropped.
        pub min: u32 = required, live, range(0..=65_535);
        /// Average length of the queue, in packets, from which on all are dropped.
        pub max: u32 = required, live, range(1..=65_536);
        /// Share of the packets that is dropped where the average comes close to `max`.
        pub probability: f64 = default(0.1), live, range(0.000_001..=1.0);
        /// The weight of the newest length in the average, as a power: 9 stands for 1/512.
        pub weight: u8 = default(9), live, range(1..=16);
        /// The time in which a queue that is idle forgets as much as it does with one packet: about that of a packet at the user's rate.
        pub packet_time: Nanos = default(Nanos::new(1_000_000)), live, range(Nanos::new(100)..=Nanos::new(1_000_000_000));
        /// Marks packets whose ends know of that (ECN, RFC 3168) in place of dropping them, as long as the average is below `max`.
        pub ecn: bool = default(false), live;
        /// Other thresholds for yellow packets.
        pub yellow: Option<RedThresholds> = optional, live;
        /// Other thresholds for red packets.
        pub red: Option<RedThresholds> = optional, live;
    }
}

/// 1 in units of 2^-32.
const ONE: u64 = 1 << 32;

/// When packets of one colour are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Thresholds {
    min: u64,
    max: u64,
    /// What the probability grows by with each packet of average length, 2^-32.
    slope: u64,
}

impl Thresholds {
    fn new(min: u32, max: u32, probability: f64) -> Option<Thresholds> {
        // Between 0 and 2^32: the schema's range.
        let probability = (probability * ONE as f64) as u64;
        let slope = probability.min(ONE).checked_div(u64::from(max.checked_sub(min)?))?;
        Some(Thresholds { min: u64::from(min) * ONE, max: u64::from(max) * ONE, slope })
    }
}

/// RED for queues of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Red {
    thresholds: [Thresholds; 3],
    weight: u32,
    packet_time: u64,
    ecn: bool,
}

// What is remembered of a queue: its average; packets of each colour since the last that was dropped, plus one, 21 bits each;
// and when it became idle, plus one.
const AVERAGE: usize = 0;
const SINCE: usize = 1;
const IDLE: usize = 2;

/// Bits for the packets of one colour since the last that was dropped.
const SINCE_BITS: u32 = 21;
const SINCE_MAX: u64 = (1 << SINCE_BITS) - 1;

impl Red {
    /// From a configuration.
    ///
    /// # Errors
    ///
    /// The key whose value is wrong, and a sentence.
    pub fn new(config: &RedConfig) -> Result<Red, (&'static str, &'static str)> {
        const ORDER: &str = "max must be larger than min: choose a larger max or a smaller min";
        let green = Thresholds::new(config.min, config.max, config.probability).ok_or(("max", ORDER))?;
        let other = |key, thresholds: &Option<RedThresholds>| match thresholds {
            None => Ok(green),
            Some(own) => Thresholds::new(own.min, own.max, own.probability).ok_or((key, ORDER)),
        };
        let thresholds = [green, other("yellow", &config.yellow)?, other("red", &config.red)?];
        Ok(Red {
            thresholds,
            weight: config.weight.clamp(1, 16).into(),
            packet_time: config.packet_time.nanos().max(1),
            ecn: config.ecn,
        })
    }

    /// The average length of a queue, in packets times 2^32.
    pub fn average(state: &State) -> u64 {
        state[AVERAGE]
    }

    /// The average with one more length in it.
    fn update(&self, state: &mut State, arrival: &Arrival) {
        let average = state[AVERAGE];
        state[AVERAGE] = match state[IDLE] {
            since if since > 0 && arrival.queued == 0 => {
                // "The average queue size is estimated as if m small packets had arrived at an empty queue during the idle period."
                let packets = arrival.now.saturating_sub(since - 1) / self.packet_time;
                decayed(average, self.weight, packets)
            }
            _ => {
                // At most 2^32 * 2^32: an average never exceeds the longest length.
                let length = u64::from(arrival.queued.min(u32::MAX >> 1)) << 32;
                average - (average >> self.weight) + (length >> self.weight)
            }
        };
        state[IDLE] = 0;
    }
}

/// An average after so many packets that found an empty queue: times (1 - 2^-weight)^packets, by squaring.
fn decayed(average: u64, weight: u32, packets: u64) -> u64 {
    // Beyond that there is nothing left of it.
    if packets >> (weight + 6) > 0 {
        return 0;
    }
    let times = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 32) as u64;
    let (mut factor, mut power, mut left) = (ONE, ONE - (ONE >> weight), packets);
    while left > 0 {
        if left & 1 == 1 {
            factor = times(factor, power);
        }
        power = times(power, power);
        left >>= 1;
    }
    times(average, factor)
}

impl Manage for Red {
    fn marks(&self) -> bool {
        self.ecn
    }

    fn arrive(&self, state: &mut State, arrival: &Arrival) -> Verdict {
        self.update(state, arrival);
        let colour = arrival.colour.min(2);
        let shift = u32::from(colour) * SINCE_BITS;
        // Of three; the index is below.
        let Some(thresholds) = self.thresholds.get(colour as usize) else { return Verdict::Pass };
        let average = state[AVERAGE];
        let others = state[SINCE] & !(SINCE_MAX << shift);
        if average < thresholds.min {
            state[SINCE] = others;
            return Verdict::Pass;
        }
        // Packets since the last that was dropped, not counting this one.
        let since = (state[SINCE] >> shift) & SINCE_MAX;
        let drops = average >= thresholds.max || {
            let share = ((u128::from(average - thresholds.min) * u128::from(thresholds.slope)) >> 32) as u64;
            // share / (1 - since * share) against a random number, without dividing.
            let rest = ONE.saturating_sub(since.saturating_mul(share));
            (u64::from(arrival.random) * rest) >> 32 < share
        };
        let since = if drops { 1 } else { (since + 1).min(SINCE_MAX) };
        state[SINCE] = others | since << shift;
        match drops {
            false => Verdict::Pass,
            true if self.ecn && average < thresholds.max => Verdict::Mark,
            true => Verdict::Drop,
        }
    }

    fn emptied(&self, state: &mut State, now: u64) {
        state[IDLE] = now.saturating_add(1);
    }
}
