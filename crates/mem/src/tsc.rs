//! The time stamp counter, and nanoseconds from it.

/// The time stamp counter, in cycles of [`Clock::hz`]; costs some 10 to 40 cycles and is not ordered against its
/// neighbours. Where the architecture has none here: nanoseconds of `CLOCK_MONOTONIC`.
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC exists on every x86-64 CPU; Linux leaves it enabled for user programs.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        monotonic()
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the kernel's own clock: never steps back.
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec. The call cannot fail: every Linux has CLOCK_MONOTONIC.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * NANOS_PER_SECOND + u64::try_from(time.tv_nsec).unwrap_or(0)
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Cycles become nanoseconds by `(cycles * scale) >> SHIFT`. 2^48 keeps the rounding of the factor below one part in
/// 10^11 and the factor within 64 bits down to 16 kHz.
const SHIFT: u32 = 48;
/// How long the counter is compared with the kernel's clock: long against the 50 ns that reading both takes.
const CALIBRATION: u64 = 20_000_000;

/// Turns readings of [`now`] into nanoseconds of `CLOCK_MONOTONIC`.
///
/// Each reading is converted from the same origin by one multiplication and a shift, so roundings do not add up. The
/// rate is a measurement, right to some parts per million; [`Clock::refined`] measures again over the whole time since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    hz: u64,
    scale: u64,
    origin: Moment,
}

/// Both clocks read at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    tsc: u64,
    nanos: u64,
}

impl Moment {
    /// The kernel's clock between two readings of the counter; the tightest of a few tries, in case of a preemption.
    fn read() -> Self {
        let mut best = (u64::MAX, Self { tsc: 0, nanos: 0 });
        for _ in 0..5 {
            let before = now();
            let nanos = monotonic();
            let width = now().saturating_sub(before);
            if width < best.0 {
                best = (width, Self { tsc: before + width / 2, nanos });
            }
        }
        best.1
    }
}

impl Clock {
    /// A clock whose rate the CPU states (CPUID leaf 15H), or else is measured, which takes 20 ms.
    pub fn calibrate() -> Self {
        if let Some(hz) = stated_hz() {
            return Self::at(Moment::read(), hz);
        }
        let start = Moment::read();
        while monotonic() < start.nanos + CALIBRATION {
            std::hint::spin_loop();
        }
        Self::between(start, Moment::read())
    }

    /// A clock that counts `hz` cycles per second and reads 0 ns at counter 0, for tests and virtual time. A rate
    /// below 1 MHz is taken for 1 MHz.
    pub fn fixed(hz: u64) -> Self {
        Self::at(Moment { tsc: 0, nanos: 0 }, hz)
    }

    /// The same clock with its rate measured over the time since its origin: the longer ago, the better. Readings
    /// of the two may differ by what the old one was wrong.
    pub fn refined(&self) -> Self {
        let moment = Moment::read();
        if moment.nanos.saturating_sub(self.origin.nanos) < CALIBRATION {
            return *self;
        }
        Self::between(self.origin, moment)
    }

    fn between(start: Moment, end: Moment) -> Self {
        let cycles = u128::from(end.tsc.saturating_sub(start.tsc));
        let nanos = u128::from(end.nanos.saturating_sub(start.nanos).max(1));
        let hz = cycles * u128::from(NANOS_PER_SECOND) / nanos;
        Self::at(start, u64::try_from(hz).unwrap_or(u64::MAX))
    }

    fn at(origin: Moment, hz: u64) -> Self {
        let hz = hz.max(1_000_000);
        let scale = (u128::from(NANOS_PER_SECOND) << SHIFT) / u128::from(hz);
        Self { hz, scale: u64::try_from(scale).unwrap_or(u64::MAX), origin }
    }

    /// Cycles per second.
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// The time of a reading of [`now`], in nanoseconds of `CLOCK_MONOTONIC`; readings from before the clock's origin
    /// answer the origin. Monotonic in `tsc`.
    #[inline(always)]
    pub fn nanos(&self, tsc: u64) -> u64 {
        self.origin.nanos + self.span_nanos(tsc.saturating_sub(self.origin.tsc))
    }

    /// How long `cycles` last, in nanoseconds, rounded down.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
    pub fn span_nanos(&self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.scale)) >> SHIFT) as u64
    }

    /// How many cycles `nanos` last, rounded down; at most `u64::MAX`.
    pub fn cycles(&self, nanos: u64) -> u64 {
        let cycles = u128::from(nanos) * u128::from(self.hz) / u128::from(NANOS_PER_SECOND);
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }
}

/// The counter's rate as CPUID leaf 15H gives it: crystal frequency times a ratio. AMD CPUs and many virtual machines
/// leave it out.
#[cfg(target_arch = "x86_64")]
fn stated_hz() -> Option<u64> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let leaf = __cpuid(0x15);
    let hz = u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax.max(1));
    (hz > 0 && leaf.eax > 0).then_some(hz)
}

#[cfg(not(target_arch = "x86_64"))]
fn stated_hz() -> Option<u64> {
    Some(NANOS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_forwards() {
        let first = now();
        assert!((0..1000).map(|_| now()).try_fold(first, |last, t| (t >= last).then_some(t)).is_some());
    }

    #[test]
    fn agrees_with_the_kernel() {
        let clock = Clock::calibrate();
        assert!(clock.hz() >= 1_000_000);
        let moment = Moment::read();
        let difference = clock.nanos(moment.tsc).abs_diff(moment.nanos);
        assert!(difference < 1_000_000, "{difference} ns apart");
        let refined = clock.refined();
        assert!(refined.hz().abs_diff(clock.hz()) < clock.hz() / 1_000);
    }

    #[test]
    fn a_fixed_clock_counts_exactly_over_years() {
        let clock = Clock::fixed(2_000_000_000);
        let year = 365 * 24 * 3600;
        for seconds in [0, 1, 59, year, 100 * year] {
            assert_eq!(clock.nanos(seconds * 2_000_000_000), seconds * NANOS_PER_SECOND);
        }
        // A rate whose factor is not exact is off by less than one part in 10^11: 3 ms in ten years.
        let clock = Clock::fixed(2_596_140_001);
        let off = clock.nanos(10 * year * 2_596_140_001).abs_diff(10 * year * NANOS_PER_SECOND);
        assert!(off < 10 * year * NANOS_PER_SECOND / 100_000_000_000, "{off}");
        assert_eq!(clock.cycles(NANOS_PER_SECOND), 2_596_140_001);
        assert_eq!(clock.span_nanos(0), 0);
    }

    #[test]
    fn readings_before_the_origin_answer_the_origin() {
        let clock = Clock::at(Moment { tsc: 100, nanos: 7 }, 1_000_000_000);
        assert_eq!([clock.nanos(0), clock.nanos(100), clock.nanos(150)], [7, 7, 57]);
    }
}
