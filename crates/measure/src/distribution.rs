//! How values are distributed: [`Distribution`] takes them one by one, [`Spread`] is what to say of them.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::sparse::Sparse;

/// Values are told apart to one in 1,000, which costs a few hundred kilobytes for values from nanoseconds to minutes.
const DIGITS: u8 = 3;

/// The same in bits.
pub(crate) const BITS: u32 = 11;

/// Greater magnitudes count as this: 2^44 ns are almost five hours.
pub(crate) const LIMIT: u64 = 1 << 44;

/// A distribution of whole numbers (nanoseconds, most of the time), which may be negative.
///
/// Exact are the count, the least, the greatest and the mean. Quantiles are exact to 0.1 % of the value, and below 2,048
/// exact altogether. Memory is bounded: 16 KiB when the first value comes, 8 KiB more for each doubling of the greatest
/// magnitude beyond 2,048, twice that if there are values of both signs; at most 576 KiB. Where there are many
/// distributions, [`Distribution::sparse`] ones take 12 bytes for each value that differs from others.
///
/// Packets of a batch have the same time, so values come in runs; a run costs a comparison for each of its values.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// The value that came last, and how often in a row: not yet in the histograms.
    value: i64,
    run: u64,
    /// What is in the histograms.
    settled: Settled,
}

#[derive(Clone, Debug, Default)]
struct Settled {
    count: u64,
    min: i64,
    max: i64,
    sum: i128,
    values: Values,
}

/// How often each value came.
#[derive(Clone, Debug)]
enum Values {
    Dense(Box<Dense>),
    Sparse(Sparse),
}

impl Default for Values {
    fn default() -> Self {
        Values::Dense(Box::default())
    }
}

#[derive(Clone, Debug, Default)]
struct Dense {
    /// Of values from 0 up.
    above: Option<Histogram<u64>>,
    /// Of the magnitudes of negative values.
    below: Option<Histogram<u64>>,
}

impl Distribution {
    /// One that keeps at most `limit` values apart, 128 at least: where more come, all are known less well, and half as well again and
    /// again until there is room. It takes 12 bytes for each value that differs from the others, up to four times that while it grows.
    pub fn sparse(limit: usize) -> Distribution {
        let values = Values::Sparse(Sparse::new(limit));
        Distribution { settled: Settled { values, ..Settled::default() }, ..Distribution::default() }
    }

    /// To how many bits values are known: 11, or fewer if a sparse distribution had no room for more.
    pub fn precision(&self) -> u32 {
        match &self.settled.values {
            Values::Dense(_) => BITS,
            Values::Sparse(sparse) => sparse.bits(),
        }
    }

    /// Takes a value.
    #[inline]
    pub fn record(&mut self, value: i64) {
        if value != self.value {
            self.settled.add(self.value, self.run);
            (self.value, self.run) = (value, 0);
        }
        self.run += 1;
    }

    /// Takes a value `times` times.
    #[inline]
    pub fn record_run(&mut self, value: i64, times: u64) {
        if value != self.value {
            self.settled.add(self.value, self.run);
            (self.value, self.run) = (value, 0);
        }
        self.run += times;
    }

    /// Takes a value that is never negative.
    #[inline]
    pub fn record_count(&mut self, value: u64) {
        self.record(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Takes all values that `other` took.
    pub fn merge(&mut self, other: &Distribution) {
        self.settled.merge(&other.settled);
        self.settled.add(other.value, other.run);
    }

    /// Takes all values that `other` took, each less the least of them.
    pub fn merge_above(&mut self, other: &Distribution) {
        let other = other.all();
        for (value, count) in other.values.counts() {
            self.record_run(value.clamp(other.min, other.max).wrapping_sub(other.min), count);
        }
    }

    /// How many values it took.
    pub fn count(&self) -> u64 {
        self.settled.count + self.run
    }

    /// What to say of them; `None` if there were none.
    pub fn spread(&self) -> Option<Spread> {
        let settled = self.all();
        let steps = settled.steps();
        let at = |quantile| value_at(&steps, settled.count, quantile).clamp(settled.min, settled.max);
        (settled.count > 0).then(|| Spread {
            count: settled.count,
            min: settled.min,
            mean: settled.sum as f64 / settled.count as f64,
            p1: at(0.01),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: settled.max,
        })
    }

    /// The cumulative distribution, for plots: values in rising order, each with how many values were no greater.
    pub fn steps(&self) -> Vec<(i64, u64)> {
        self.all().steps()
    }

    fn all(&self) -> Settled {
        let mut settled = self.settled.clone();
        settled.add(self.value, self.run);
        settled
    }
}

impl Settled {
    #[cold]
    fn add(&mut self, value: i64, count: u64) {
        if count == 0 {
            return;
        }
        self.values.add(value, count);
        self.widen(value, value);
        self.count += count;
        self.sum += i128::from(value) * i128::from(count);
    }

    /// Before the values are counted.
    fn widen(&mut self, min: i64, max: i64) {
        let first = self.count == 0;
        self.min = if first { min } else { self.min.min(min) };
        self.max = if first { max } else { self.max.max(max) };
    }

    fn merge(&mut self, other: &Settled) {
        if other.count == 0 {
            return;
        }
        self.widen(other.min, other.max);
        self.count += other.count;
        self.sum += other.sum;
        match (&mut self.values, &other.values) {
            (Values::Dense(mine), Values::Dense(other)) => mine.merge(other),
            (mine, other) => other.counts().into_iter().for_each(|(value, count)| mine.add(value, count)),
        }
    }

    fn steps(&self) -> Vec<(i64, u64)> {
        let mut so_far = 0;
        let sum = |(value, count): (i64, u64)| {
            so_far += count;
            (value, so_far)
        };
        self.values.counts().into_iter().map(sum).collect()
    }
}

impl Values {
    fn add(&mut self, value: i64, count: u64) {
        match self {
            Values::Dense(dense) => dense.add(value, count),
            Values::Sparse(sparse) => sparse.add(value, count),
        }
    }

    /// Values in rising order, each with how often it came.
    fn counts(&self) -> Vec<(i64, u64)> {
        match self {
            Values::Dense(dense) => dense.counts(),
            Values::Sparse(sparse) => sparse.counts().collect(),
        }
    }
}

impl Dense {
    fn add(&mut self, value: i64, count: u64) {
        let histogram = if value < 0 { &mut self.below } else { &mut self.above };
        if histogram.is_none() {
            *histogram = Histogram::new(DIGITS).ok();
        }
        if let Some(histogram) = histogram {
            // It grows by itself, and LIMIT is far from where it could not.
            let _ = histogram.record_n(value.unsigned_abs().min(LIMIT), count);
        }
    }

    fn merge(&mut self, other: &Dense) {
        for (mine, other) in [(&mut self.above, &other.above), (&mut self.below, &other.below)] {
            match (mine, other) {
                (Some(mine), Some(other)) => drop(mine.add(other)),
                (mine, Some(other)) => *mine = Some(other.clone()),
                (_, None) => {}
            }
        }
    }

    fn counts(&self) -> Vec<(i64, u64)> {
        let values = |histogram: &Option<Histogram<u64>>| -> Vec<(u64, u64)> {
            let values = histogram.iter().flat_map(|histogram| histogram.iter_recorded());
            values.map(|value| (value.value_iterated_to(), value.count_since_last_iteration())).collect()
        };
        let below = values(&self.below).into_iter().rev().map(|(value, count)| (-(value as i64), count));
        let above = values(&self.above).into_iter().map(|(value, count)| (value as i64, count));
        below.chain(above).collect()
    }
}

/// The least value of `steps` such that at least `quantile` of all `count` values are no greater.
fn value_at(steps: &[(i64, u64)], count: u64, quantile: f64) -> i64 {
    let rank = ((count as f64 * quantile).ceil() as u64).clamp(1, count.max(1));
    let at = steps.partition_point(|&(_, so_far)| so_far < rank);
    steps.get(at).map_or(0, |&(value, _)| value)
}

/// A distribution in twelve numbers, in the unit of its values.
///
/// A quantile is the least value such that at least that share of all values is no greater (the nearest rank).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many values.
    pub count: u64,
    /// The least.
    pub min: i64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The first percentile.
    #[serde(default)]
    pub p1: i64,
    /// The 25th percentile.
    #[serde(default)]
    pub p25: i64,
    /// The median.
    pub p50: i64,
    /// The 75th percentile.
    #[serde(default)]
    pub p75: i64,
    /// The 90th percentile.
    pub p90: i64,
    /// The 99th percentile.
    pub p99: i64,
    /// The 99.9th percentile.
    pub p99_9: i64,
    /// The 99.99th percentile.
    pub p99_99: i64,
    /// The greatest.
    pub max: i64,
}

impl Spread {
    /// The same values with `base` taken off each.
    #[must_use]
    pub fn above(&self, base: i64) -> Spread {
        let less = |value: i64| value.saturating_sub(base);
        Spread {
            count: self.count,
            min: less(self.min),
            mean: self.mean - base as f64,
            p1: less(self.p1),
            p25: less(self.p25),
            p50: less(self.p50),
            p75: less(self.p75),
            p90: less(self.p90),
            p99: less(self.p99),
            p99_9: less(self.p99_9),
            p99_99: less(self.p99_99),
            max: less(self.max),
        }
    }
}
