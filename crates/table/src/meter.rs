//! Meters that colour packets: srTCM (RFC 2697), trTCM (RFC 2698) and the differentiated service meter of RFC 4115.
//!
//! What meters do is in a [`Profile`], which many share; what each remembers is a [`Meter`] of 24 bytes. Tokens are counted in
//! billionths of a bit: one nanosecond at `n` bit/s is exactly `n` of them, so that nothing is rounded and nothing drifts,
//! however often a meter is asked. Time is an argument.

use std::fmt;

/// Billionths of a bit in one byte.
const BYTE: u64 = 8_000_000_000;

/// The largest burst size, bytes.
pub const MAX_BURST: u64 = u64::MAX / BYTE;

/// The colour of a packet, as the lane `colour` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Colour {
    /// Within the committed rate.
    Green = 0,
    /// Within the excess or the peak rate.
    Yellow = 1,
    /// Beyond both.
    Red = 2,
}

impl Colour {
    /// All colours, best first.
    pub const ALL: [Colour; 3] = [Colour::Green, Colour::Yellow, Colour::Red];

    /// The colour behind a number of the lane; whatever is none is red.
    #[inline]
    pub const fn of(number: u8) -> Colour {
        match number {
            0 => Colour::Green,
            1 => Colour::Yellow,
            _ => Colour::Red,
        }
    }
}

/// One rate and how much may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens per second: bit/s.
    pub rate: u64,
    /// Bytes, at most [`MAX_BURST`].
    pub burst: u64,
}

/// Which meter, and its parameters. Lengths are the caller's affair: whether they count headers, or an overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameters {
    /// RFC 2697, single rate: what the committed bucket has no room for fills the excess bucket.
    SingleRate {
        /// CIR and CBS.
        committed: Bucket,
        /// EBS, bytes.
        excess_burst: u64,
    },
    /// RFC 2698, two rates: whatever is not red takes from the peak bucket, and what is green from both.
    TwoRate {
        /// CIR and CBS.
        committed: Bucket,
        /// PIR and PBS.
        peak: Bucket,
    },
    /// RFC 4115, two rates: green packets take from the committed bucket only, yellow ones from the excess bucket only, so that
    /// much yellow traffic leaves what is committed alone.
    Differentiated {
        /// CIR and CBS.
        committed: Bucket,
        /// EIR and EBS.
        excess: Bucket,
    },
}

/// Why parameters are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A burst size exceeds [`MAX_BURST`].
    BurstTooLarge,
    /// No burst size is larger than 0, so that every packet would be red (RFC 2697, section 2).
    NoBurst,
    /// A rate is larger than 0 whose burst size is 0: nothing of it could ever be used.
    RateWithoutBurst,
    /// The peak rate is less than the committed one (RFC 2698, section 2).
    PeakBelowCommitted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::BurstTooLarge => "a burst size must be at most 2305843009 bytes; choose a smaller one",
            Error::NoBurst => "one of the burst sizes must be larger than 0, or every packet would be red",
            Error::RateWithoutBurst => "a rate needs a burst size, at least that of the largest packet",
            Error::PeakBelowCommitted => "the peak rate must be at least the committed rate",
        })
    }
}

impl std::error::Error for Error {}

/// What a meter does, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    kind: Kind,
    committed: Scaled,
    other: Scaled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SingleRate,
    TwoRate,
    Differentiated,
}

/// A [`Bucket`] in billionths of a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scaled {
    rate: u64,
    room: u64,
}

impl Scaled {
    fn new(bucket: Bucket) -> Result<Scaled, Error> {
        let room = bucket.burst.checked_mul(BYTE).ok_or(Error::BurstTooLarge)?;
        if bucket.rate > 0 && room == 0 { Err(Error::RateWithoutBurst) } else { Ok(Scaled { rate: bucket.rate, room }) }
    }

    /// What a bucket that has `tokens` has after `elapsed` nanoseconds.
    #[inline(always)]
    fn fill(self, tokens: u64, elapsed: u64) -> u64 {
        let full = u128::from(tokens) + u128::from(elapsed) * u128::from(self.rate);
        u64::try_from(full).unwrap_or(u64::MAX).min(self.room)
    }
}

/// What one meter remembers. The default one has empty buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    committed: u64,
    other: u64,
    filled_at: u64,
}

impl Profile {
    /// Checks parameters.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn new(parameters: Parameters) -> Result<Profile, Error> {
        let (kind, committed, other) = match parameters {
            Parameters::SingleRate { committed, excess_burst } => {
                // Its rate may fill the excess bucket alone.
                let rate = Bucket { rate: 0, ..committed };
                let committed = Scaled { rate: committed.rate, ..Scaled::new(rate)? };
                (Kind::SingleRate, committed, Scaled::new(Bucket { rate: 0, burst: excess_burst })?)
            }
            Parameters::TwoRate { committed, peak } => {
                if peak.rate < committed.rate {
                    return Err(Error::PeakBelowCommitted);
                }
                (Kind::TwoRate, Scaled::new(committed)?, Scaled::new(peak)?)
            }
            Parameters::Differentiated { committed, excess } => {
                (Kind::Differentiated, Scaled::new(committed)?, Scaled::new(excess)?)
            }
        };
        if committed.room == 0 && other.room == 0 {
            return Err(Error::NoBurst);
        }
        Ok(Profile { kind, committed, other })
    }

    /// A meter whose buckets are full at time `now` (nanoseconds).
    pub fn meter(&self, now: u64) -> Meter {
        Meter { committed: self.committed.room, other: self.other.room, filled_at: now }
    }

    /// Colours a packet of `length` bytes that arrives at `now` (nanoseconds) with the colour `before`; it never gets a better
    /// one. A colour-blind meter is one that is told [`Colour::Green`] of every packet: the RFCs' two modes agree there. A `now`
    /// before the last one counts as the last one. Of a meter that was another profile's, what it has stays as far as there is room, and time
    /// since its last packet counts by this one; [`adopt`](Self::adopt) tells the two apart.
    #[inline]
    pub fn colour(&self, meter: &mut Meter, now: u64, length: u32, before: Colour) -> Colour {
        self.fill(meter, now);
        // Where this overflows it exceeds what any bucket holds, and so does what stands for it.
        let cost = u64::from(length).saturating_mul(BYTE);
        match self.kind {
            Kind::SingleRate | Kind::Differentiated => {
                if before == Colour::Green && take(&mut meter.committed, cost) {
                    Colour::Green
                } else if before != Colour::Red && take(&mut meter.other, cost) {
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
            Kind::TwoRate => {
                if before == Colour::Red || !take(&mut meter.other, cost) {
                    Colour::Red
                } else if before == Colour::Yellow || !take(&mut meter.committed, cost) {
                    Colour::Yellow
                } else {
                    Colour::Green
                }
            }
        }
    }

    /// What a meter of another profile is worth with this one from `now` on: `before` fills it a last time, and what it has
    /// stays as far as there is room.
    pub fn adopt(&self, before: &Profile, meter: &Meter, now: u64) -> Meter {
        let mut meter = *meter;
        before.fill(&mut meter, now);
        meter.committed = meter.committed.min(self.committed.room);
        meter.other = meter.other.min(self.other.room);
        meter
    }

    #[inline(always)]
    fn fill(&self, meter: &mut Meter, now: u64) {
        let elapsed = now.saturating_sub(meter.filled_at);
        let committed = self.committed.fill(meter.committed, elapsed);
        if self.kind == Kind::SingleRate {
            let all = u128::from(elapsed) * u128::from(self.committed.rate);
            // It may have had more, by another profile.
            let spilt = all.saturating_sub(u128::from(committed.saturating_sub(meter.committed)));
            let other = u128::from(meter.other) + spilt;
            meter.other = u64::try_from(other).unwrap_or(u64::MAX).min(self.other.room);
        } else {
            meter.other = self.other.fill(meter.other, elapsed);
        }
        meter.committed = committed;
        meter.filled_at = meter.filled_at.max(now);
    }
}

/// Takes `cost` if it is there.
#[inline(always)]
fn take(tokens: &mut u64, cost: u64) -> bool {
    let left = tokens.checked_sub(cost);
    if let Some(left) = left {
        *tokens = left;
    }
    left.is_some()
}
