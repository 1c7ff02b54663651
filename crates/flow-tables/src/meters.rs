//! Meters: OpenFlow 1.3.5 section 5.7.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_openflow::Error;
use weir_openflow::error::MeterModFailed;
use weir_openflow::group::Counted;
use weir_openflow::meter::{
    self, Band, BandKind, MeterCommand, MeterConfig, MeterFeatures, MeterMod, MeterStats, flags,
};
use weir_openflow::port::Duration;

/// How many bands a meter may have.
pub const MAX_BANDS: usize = 16;
/// Tokens are counted in billionths, so that a nanosecond adds a whole number of them.
const TOKEN: u128 = 1_000_000_000;
/// What a burst has at least where nobody says how large it may be: two long Ethernet frames, in bits.
const LEAST_BURST_BITS: u128 = 2 * 1_518 * 8;

/// A meter. All workers have it together, as its rate is that of all packets: one at a time.
#[derive(Debug)]
pub struct Meter {
    /// [`flags`].
    pub flags: u16,
    /// Its bands, as they were sent.
    pub bands: Vec<Band>,
    added: u64,
    taken: Mutex<Taken>,
}

/// What a meter has taken so far.
#[derive(Clone, Debug)]
struct Taken {
    counted: Counted,
    states: Vec<State>,
}

impl Clone for Meter {
    fn clone(&self) -> Meter {
        let Meter { flags, bands, added, .. } = self;
        Meter { flags: *flags, bands: bands.clone(), added: *added, taken: Mutex::new(self.taken().clone()) }
    }
}

/// The bucket of a band, and what it marked or dropped.
#[derive(Clone, Copy, Debug)]
struct State {
    tokens: u128,
    filled: u64,
    counted: Counted,
}

/// What a meter says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metered {
    /// It goes on.
    Pass,
    /// It ends.
    Drop,
    /// It goes on with a drop precedence that is higher by this.
    Remark(u8),
}

impl Meter {
    fn new(change: &MeterMod, now: u64) -> Meter {
        let states = change.bands.iter().map(|band| State {
            tokens: burst(change.flags, band),
            filled: now,
            counted: Counted::default(),
        });
        let taken = Taken { counted: Counted::default(), states: states.collect() };
        Meter { flags: change.flags, bands: change.bands.clone(), added: now, taken: Mutex::new(taken) }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a packet of `bytes` at `now`. Of the bands whose rate is exceeded the one with the highest rate is applied
    /// (section 5.7.1).
    fn take(&self, bytes: usize, now: u64) -> Metered {
        let Taken { counted, states } = &mut *self.taken();
        counted.add(bytes);
        let by_packets = self.flags & flags::PKTPS != 0;
        let cost = TOKEN * if by_packets { 1 } else { bytes as u128 * 8 };
        let mut exceeded: Option<(u32, usize)> = None;
        for (at, (band, state)) in self.bands.iter().zip(states.iter_mut()).enumerate() {
            let most = burst(self.flags, band);
            let passed = now.saturating_sub(state.filled);
            state.tokens = most.min(state.tokens + u128::from(rate(self.flags, band)) * u128::from(passed));
            state.filled = state.filled.max(now);
            // A packet larger than a burst passes when the bucket is full; otherwise it never would.
            if state.tokens >= cost.min(most) {
                state.tokens -= cost.min(most);
            } else if exceeded.is_none_or(|(rate, _)| band.rate > rate) {
                exceeded = Some((band.rate, at));
            }
        }
        let Some((_, at)) = exceeded else { return Metered::Pass };
        if let Some(state) = states.get_mut(at) {
            state.counted.add(bytes);
        }
        match self.bands.get(at).map(|band| &band.kind) {
            Some(BandKind::Drop) => Metered::Drop,
            Some(BandKind::DscpRemark(level)) => Metered::Remark(*level),
            _ => Metered::Pass,
        }
    }
}

/// Tokens per second: bits, or packets.
fn rate(flags: u16, band: &Band) -> u64 {
    u64::from(band.rate) * if flags & flags::PKTPS != 0 { 1 } else { 1_000 }
}

/// The most tokens of a band. Without a size of its own it is what comes in a tenth of a second.
fn burst(flags: u16, band: &Band) -> u128 {
    let by_packets = flags & flags::PKTPS != 0;
    let unit = if by_packets { 1 } else { 1_000 };
    let size = if flags & flags::BURST != 0 {
        u128::from(band.burst) * unit
    } else {
        (u128::from(rate(flags, band)) / 10).max(if by_packets { 1 } else { LEAST_BURST_BITS })
    };
    size.max(1) * TOKEN
}

/// The meters of a switch.
#[derive(Clone, Debug)]
pub struct Meters {
    meters: BTreeMap<u32, Meter>,
    max: usize,
}

impl Meters {
    /// No meters yet, and room for `max`.
    pub fn new(max: usize) -> Meters {
        Meters { meters: BTreeMap::new(), max }
    }

    /// A meter.
    pub fn get(&self, meter: u32) -> Option<&Meter> {
        self.meters.get(&meter)
    }

    /// Adds or replaces a meter.
    ///
    /// # Errors
    ///
    /// The codes of [`MeterModFailed`]; nothing changed then.
    pub(crate) fn set(&mut self, change: &MeterMod, now: u64) -> Result<(), Error> {
        let before = self.meters.get(&change.meter);
        // Meters of the slow path and of controllers are optional, and not there.
        if change.meter == 0 || change.meter > meter::MAX {
            return Err(MeterModFailed::InvalidMeter.into());
        }
        match change.command {
            MeterCommand::Add if before.is_some() => return Err(MeterModFailed::MeterExists.into()),
            MeterCommand::Modify if before.is_none() => return Err(MeterModFailed::UnknownMeter.into()),
            MeterCommand::Add if self.meters.len() >= self.max => return Err(MeterModFailed::OutOfMeters.into()),
            _ => {}
        }
        if change.flags & (flags::KBPS | flags::PKTPS) == flags::KBPS | flags::PKTPS {
            return Err(MeterModFailed::BadFlags.into());
        }
        if change.bands.len() > MAX_BANDS {
            return Err(MeterModFailed::OutOfBands.into());
        }
        for band in &change.bands {
            check(change.flags, band)?;
        }
        let mut meter = Meter::new(change, now);
        // What it got goes on; what its bands got begins anew with them.
        if let Some(before) = before {
            meter.added = before.added;
            meter.taken().counted = before.taken().counted;
        }
        self.meters.insert(change.meter, meter);
        Ok(())
    }

    /// Removes a meter, or all; the numbers of those that are gone.
    pub(crate) fn delete(&mut self, meter: u32) -> Vec<u32> {
        if meter == meter::ALL {
            return std::mem::take(&mut self.meters).into_keys().collect();
        }
        self.meters.remove(&meter).map(|_| meter).into_iter().collect()
    }

    /// Hands a packet of `bytes` to a meter. One that does not exist lets it pass.
    pub fn take(&self, meter: u32, bytes: usize, now: u64) -> Metered {
        self.meters.get(&meter).map_or(Metered::Pass, |meter| meter.take(bytes, now))
    }

    fn asked(&self, meter: u32) -> impl Iterator<Item = (u32, &Meter)> {
        let asked = self.meters.iter().filter(move |(number, _)| meter == meter::ALL || **number == meter);
        asked.map(|(number, meter)| (*number, meter))
    }

    /// Meters, as they were sent.
    pub fn configs(&self, meter: u32) -> Vec<MeterConfig> {
        let configs = self.asked(meter).map(|(number, meter)| MeterConfig {
            flags: meter.flags,
            meter: number,
            bands: meter.bands.clone(),
        });
        configs.collect()
    }

    /// What went through meters; `flows` says how many flows use a meter.
    pub fn stats(&self, meter: u32, flows: impl Fn(u32) -> usize, now: u64) -> Vec<MeterStats> {
        let stats = self.asked(meter).map(|(number, meter)| {
            let Taken { counted, states } = meter.taken().clone();
            MeterStats {
                meter: number,
                flows: u32::try_from(flows(number)).unwrap_or(u32::MAX),
                counted,
                duration: Duration::from_nanoseconds(now.saturating_sub(meter.added)),
                bands: states.iter().map(|state| state.counted).collect(),
            }
        });
        stats.collect()
    }

    /// What meters can do.
    pub fn features(&self) -> MeterFeatures {
        MeterFeatures {
            max_meters: u32::try_from(self.max).unwrap_or(u32::MAX),
            band_kinds: 1 << meter::DROP | 1 << meter::DSCP_REMARK,
            capabilities: flags::ALL.into(),
            max_bands: MAX_BANDS as u8,
            max_color: 0,
        }
    }
}

fn check(flags: u16, band: &Band) -> Result<(), Error> {
    if matches!(band.kind, BandKind::Experimenter(..)) {
        return Err(MeterModFailed::BadBand.into());
    }
    if band.rate == 0 {
        return Err(MeterModFailed::BadRate.into());
    }
    if flags & flags::BURST != 0 && band.burst == 0 {
        return Err(MeterModFailed::BadBurst.into());
    }
    // There are three drop precedences (RFC 2597): nothing can be raised by more than two.
    if matches!(band.kind, BandKind::DscpRemark(0) | BandKind::DscpRemark(3..)) {
        return Err(MeterModFailed::BadBandValue.into());
    }
    Ok(())
}

/// A differentiated services code point whose drop precedence is `level` higher: those of assured forwarding have one, in
/// their lower bits (RFC 2597 section 6); others stay.
pub fn remark(dscp: u8, level: u8) -> u8 {
    let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
    if dscp & 1 == 0 && (1..=4).contains(&class) && precedence != 0 {
        class << 3 | (precedence + level).min(3) << 1
    } else {
        dscp
    }
}
