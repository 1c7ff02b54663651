//! How fast a stream is sent: what a configuration writes, and the times of packets that it stands for.

use std::fmt;

use weir_config::{Malformed, PacketRate, Quantity, Rate, Scalar};

use crate::random::Random;

/// What goes over the wire with every frame and is no part of it, in bytes: preamble and start delimiter, and the smallest gap
/// (IEEE 802.3).
pub(crate) const PREAMBLE_AND_GAP: u64 = 20;

/// The frame check sequence, in bytes.
pub(crate) const CHECK_SEQUENCE: u64 = 4;

const SECOND: u64 = 1_000_000_000;

/// How fast a stream is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// As fast as the port takes packets.
    Max,
    /// Packets per second.
    Packets(u64),
    /// Bits per second on the wire: frames with check sequence, preamble and gap.
    Bits(u64),
    /// Millionths of the link's speed.
    Share(u64),
}

impl Load {
    /// The load with a share made absolute; `None` for a share of an unknown speed, and for what rounds to nothing.
    pub(crate) fn on(self, speed: Option<u64>) -> Option<Load> {
        let Load::Share(millionths) = self else { return Some(self) };
        let bits = u128::from(speed?) * u128::from(millionths) / 1_000_000;
        Some(Load::Bits(u64::try_from(bits).ok().filter(|&bits| bits > 0)?))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Max => f.write_str("max"),
            Load::Packets(rate) => PacketRate::new(*rate).fmt(f),
            Load::Bits(rate) => Rate::new(*rate).fmt(f),
            Load::Share(millionths) => write!(f, "{} %", *millionths as f64 / 10_000.0),
        }
    }
}

impl Scalar for Load {
    const WHAT: &'static str = "a rate of packets or bits, a percentage of the link's speed, or \"max\"";
    const EXAMPLE: &'static str = "1 Mpps";

    fn parse(text: &str) -> Result<Self, Malformed> {
        let text = text.trim();
        let load = match text {
            "max" => Load::Max,
            _ => match text.strip_suffix('%') {
                Some(percent) => share(percent.trim_end())?,
                None => match PacketRate::UNITS.parse(text) {
                    Ok(rate) => Load::Packets(rate),
                    Err(_) if text.ends_with("bit/s") => Load::Bits(Rate::UNITS.parse(text)?),
                    Err(malformed) => {
                        return Err(malformed.remedy("write it as in \"1 Mpps\", \"10 Gbit/s\", \"50 %\" or \"max\""));
                    }
                },
            },
        };
        match load {
            Load::Packets(0) | Load::Bits(0) | Load::Share(0) => {
                Err(Malformed::because("is no rate at which anything would be sent").remedy("leave the stream out"))
            }
            Load::Packets(rate) if rate > SECOND => {
                Err(Malformed::because("is more than a packet per nanosecond").remedy("write at most 1 Gpps"))
            }
            load => Ok(load),
        }
    }
}

fn share(percent: &str) -> Result<Load, Malformed> {
    let wrong = || Malformed::because("is not a percentage from 0 to 100").remedy("write it as in \"50 %\"");
    let value: f64 = percent.parse().map_err(|_| wrong())?;
    if !(0.0..=100.0).contains(&value) {
        return Err(wrong());
    }
    Ok(Load::Share((value * 10_000.0).round() as u64))
}

/// The distance from one packet to the next: whole nanoseconds, and a rest over a common divisor, so that no rounding adds up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    nanos: u64,
    rest: u64,
}

impl Gap {
    /// The divisor of all gaps of a load.
    pub(crate) fn divisor(load: Load) -> u64 {
        match load {
            Load::Packets(rate) | Load::Bits(rate) => rate,
            Load::Max | Load::Share(_) => 1,
        }
    }

    /// The gap behind a frame of so many bytes, with its check sequence.
    pub(crate) fn behind(load: Load, frame: u64) -> Gap {
        match load {
            Load::Packets(rate) => Gap { nanos: SECOND / rate, rest: SECOND % rate },
            Load::Bits(rate) => {
                let bits = u128::from((frame + PREAMBLE_AND_GAP) * 8) * u128::from(SECOND);
                let nanos = u64::try_from(bits / u128::from(rate)).unwrap_or(u64::MAX / 8);
                Gap { nanos, rest: (bits % u128::from(rate)) as u64 }
            }
            Load::Max | Load::Share(_) => Gap { nanos: 0, rest: 0 },
        }
    }

    fn as_f64(self, divisor: u64) -> f64 {
        self.nanos as f64 + self.rest as f64 / divisor as f64
    }
}

/// How packets lie in time.
#[derive(Debug, Clone)]
enum Shape {
    Constant,
    Poisson(Random),
    Burst { size: u32, left: u32 },
}

/// When packets are due: a schedule that starts at 0, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    divisor: u64,
    shape: Shape,
    /// Time up to which the packets so far take the load.
    spent: u64,
    /// Over `divisor`.
    rest: u64,
    /// When the next packet is due.
    due: u64,
    /// How far everything was put off.
    put_off: u64,
}

impl Pace {
    pub(crate) fn constant(load: Load) -> Pace {
        Pace { divisor: Gap::divisor(load).max(1), shape: Shape::Constant, spent: 0, rest: 0, due: 0, put_off: 0 }
    }

    pub(crate) fn poisson(load: Load, random: Random) -> Pace {
        Pace { shape: Shape::Poisson(random), ..Pace::constant(load) }
    }

    pub(crate) fn bursts(load: Load, size: u32) -> Pace {
        Pace { shape: Shape::Burst { size: size.max(1), left: size.max(1) }, ..Pace::constant(load) }
    }

    /// When the next packet is due.
    #[inline(always)]
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Goes on behind a packet whose share of the load is `gap`.
    #[inline]
    pub(crate) fn pass(&mut self, gap: Gap) {
        match &mut self.shape {
            Shape::Constant => {
                self.spent += gap.nanos;
                self.rest += gap.rest;
                if self.rest >= self.divisor {
                    self.rest -= self.divisor;
                    self.spent += 1;
                }
                self.due = self.spent;
            }
            Shape::Burst { size, left } => {
                self.spent += gap.nanos;
                self.rest += gap.rest;
                if self.rest >= self.divisor {
                    self.rest -= self.divisor;
                    self.spent += 1;
                }
                *left -= 1;
                if *left == 0 {
                    *left = *size;
                    self.due = self.spent;
                }
            }
            Shape::Poisson(random) => {
                // The distances of a Poisson process are exponential; the rest carries what the clock cannot show.
                let exact = gap.as_f64(self.divisor) * -random.unit().ln() + self.rest as f64 / self.divisor as f64;
                let whole = exact.floor();
                self.spent += whole as u64;
                self.rest = ((exact - whole) * self.divisor as f64) as u64;
                self.due = self.spent;
            }
        }
    }

    /// Says when the next packet is due, by a schedule that was not put off.
    pub(crate) fn set_due(&mut self, due: u64) {
        self.due = due.saturating_add(self.put_off);
    }

    /// Puts everything that is still to come off by `nanos`: what could not be sent in its time is given up.
    pub(crate) fn slip(&mut self, nanos: u64) {
        self.spent += nanos;
        self.due += nanos;
        self.put_off += nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Load {
        Load::parse(text).unwrap()
    }

    #[test]
    fn texts_are_loads() {
        assert_eq!(load("1 Mpps"), Load::Packets(1_000_000));
        assert_eq!(load("10 Gbit/s"), Load::Bits(10_000_000_000));
        assert_eq!(load("12.5 %"), Load::Share(125_000));
        assert_eq!(load("max"), Load::Max);
        assert_eq!(load("50 %").on(Some(10_000_000_000)), Some(Load::Bits(5_000_000_000)));
        assert_eq!(load("50 %").on(None), None);
        for text in ["max", "3 kpps", "7 Mbit/s", "12.5 %"] {
            assert_eq!(load(text).to_string(), text);
        }
        for text in ["", "0 pps", "101 %", "-1 Mpps", "1", "2 Gpps", "x", "0 %", "-1 %", "NaN %"] {
            assert!(Load::parse(text).is_err(), "{text}");
        }
    }

    /// The due times of so many packets of a frame size.
    fn times(mut pace: Pace, load: Load, frame: u64, count: usize) -> Vec<u64> {
        let gap = Gap::behind(load, frame);
        let mut next = || {
            let due = pace.due();
            pace.pass(gap);
            due
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn no_rounding_adds_up() {
        // Packet n is due at n seconds by the rate, rounded down: for rates that divide a second and rates that do not.
        for rate in [1, 3, 7, 1_000, 999_983, 14_880_952, 999_999_937] {
            let load = Load::Packets(rate);
            let times = times(Pace::constant(load), load, 64, 10_000);
            for (n, time) in times.into_iter().enumerate() {
                assert_eq!(u128::from(time), n as u128 * 1_000_000_000 / u128::from(rate), "{rate} {n}");
            }
        }
    }

    #[test]
    fn bits_on_the_wire_count_preamble_and_gap() {
        // 64-byte frames on 10 Gbit/s: 84 bytes take 67.2 ns, 14.88 Mpps.
        let load = load("10 Gbit/s");
        let times = times(Pace::constant(load), load, 64, 1001);
        assert_eq!((times[5], times[1000]), (336, 67_200));
    }

    #[test]
    fn bursts_come_at_once_and_keep_the_rate() {
        let load = Load::Packets(1_000_000);
        let times = times(Pace::bursts(load, 4), load, 64, 12);
        assert_eq!(times, [0, 0, 0, 0, 4000, 4000, 4000, 4000, 8000, 8000, 8000, 8000]);
    }

    #[test]
    fn poisson_has_its_mean_and_variance() {
        // Counts in windows of a mean of 10 packets: mean and variance are both 10 (three standard errors of 20,000 windows).
        let load = Load::Packets(1_000_000);
        let times = times(Pace::poisson(load, Random::new(3, 0)), load, 64, 220_000);
        let mut counts = vec![0_u64; 20_000];
        for time in times {
            if let Some(count) = counts.get_mut((time / 10_000) as usize) {
                *count += 1;
            }
        }
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let variance = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((mean - 10.0).abs() < 0.07, "mean {mean}");
        assert!((variance - 10.0).abs() < 0.33, "variance {variance}");
    }
}
