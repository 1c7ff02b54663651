//! The Mann-Whitney U test: whether one set of samples tends to be larger than another.
//!
//! It asks nothing of the distribution, which matters here: samples of a machine that others use too are anything but normal.
//! (H. B. Mann, D. R. Whitney, "On a test of whether one of two random variables is stochastically larger than the other",
//! Annals of Mathematical Statistics 18, 1947.)

/// Up to so many samples on both sides together the distribution of the rank sum is counted, not approximated.
const EXACT: usize = 60;

/// The probability that sets which do not differ lie at least this far apart (two-sided). 1 if either is empty.
///
/// Samples that are equal share the mean of their ranks. Up to 60 samples in all the value is exact: the share of all ways to
/// part the pooled ranks whose sum is as far from the middle. Beyond, it is the normal approximation with corrections for
/// ties and for continuity.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let ranks = doubled_ranks(a, b);
    let sum: u64 = ranks.iter().take(a.len()).sum();
    if ranks.len() <= EXACT { exact(&ranks, a.len(), sum) } else { approximate(&ranks, a.len(), sum) }
}

/// Twice the rank of each sample in the pool, those of `a` first: ties have the mean of their ranks, which may end in a half.
fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<u64> {
    let pool: Vec<f64> = a.iter().chain(b).copied().collect();
    let rank = |value: &f64| {
        let below = pool.iter().filter(|other| *other < value).count();
        let equal = pool.iter().filter(|other| *other == value).count();
        // The mean of below + 1 to below + equal, twice.
        (2 * below + equal + 1) as u64
    };
    pool.iter().map(rank).collect()
}

/// How far a doubled rank sum is from the middle of its distribution.
fn distance(sum: u64, total: u64, taken: usize, all: usize) -> f64 {
    (sum as f64 - total as f64 * taken as f64 / all as f64).abs()
}

fn exact(ranks: &[u64], taken: usize, sum: u64) -> f64 {
    let total: u64 = ranks.iter().sum();
    let width = total as usize + 1;
    // ways[n][s]: subsets of n ranks that sum up to s.
    let mut ways = vec![vec![0.0_f64; width]; taken + 1];
    if let Some(none) = ways.first_mut().and_then(|row| row.first_mut()) {
        *none = 1.0;
    }
    for rank in ranks {
        let rank = *rank as usize;
        for n in (1..=taken).rev() {
            let (fewer, more) = ways.split_at_mut(n);
            let (Some(from), Some(to)) = (fewer.last(), more.first_mut()) else { continue };
            for (to, from) in to.iter_mut().skip(rank).zip(from) {
                *to += from;
            }
        }
    }
    let far = distance(sum, total, taken, ranks.len());
    let row = ways.last().map_or(&[][..], Vec::as_slice);
    let all: f64 = row.iter().sum();
    // Sums are whole numbers: half a step of slack keeps rounding out of the comparison.
    let as_far = |s: usize| distance(s as u64, total, taken, ranks.len()) > far - 1e-6;
    let extreme: f64 = row.iter().enumerate().filter(|(s, _)| as_far(*s)).map(|(_, ways)| ways).sum();
    (extreme / all).min(1.0)
}

fn approximate(ranks: &[u64], taken: usize, sum: u64) -> f64 {
    let all = ranks.len() as f64;
    let (n, m) = (taken as f64, all - taken as f64);
    // U and its mean lie as far apart as the rank sum and its mean.
    let far = distance(sum, ranks.iter().sum(), taken, ranks.len()) / 2.0;
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|tie| (tie.len() as f64).powi(3) - tie.len() as f64).sum();
    let variance = n * m / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    (2.0 * upper_tail((far - 0.5).max(0.0) / variance.sqrt())).min(1.0)
}

/// The probability that a standard normal value is above `z` (at least 0): Abramowitz and Stegun 26.2.17, right to 7.5e-8.
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let factors = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let polynomial = factors.into_iter().fold(0.0, |sum, factor| (sum + factor) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}

/// The least value that the test can give for sets of these sizes: with too few samples nothing can be told.
pub fn least_possible(a: usize, b: usize) -> f64 {
    // The two extreme ways to part the ranks, of all.
    let ways: f64 = (1..=a.min(b)).map(|n| (a.max(b) + n) as f64 / n as f64).product();
    (2.0 / ways).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, spelt out: the share of all ways to choose which samples are `a`'s whose U is as far from its mean.
    fn twin(a: &[f64], b: &[f64]) -> f64 {
        let pool: Vec<f64> = a.iter().chain(b).copied().collect();
        let u_of = |chosen: u32| {
            let of = |own: bool| pool.iter().enumerate().filter(move |(n, _)| (chosen >> n & 1 == 1) == own);
            let against = |x: f64, y: f64| {
                if x > y {
                    1.0
                } else if x == y {
                    0.5
                } else {
                    0.0
                }
            };
            of(true).map(|(_, x)| of(false).map(|(_, y)| against(*x, *y)).sum::<f64>()).sum::<f64>()
        };
        let mean = (a.len() * b.len()) as f64 / 2.0;
        let seen = (u_of((1 << a.len()) - 1) - mean).abs();
        let choices = (0..1_u32 << pool.len()).filter(|chosen| chosen.count_ones() as usize == a.len());
        let far: Vec<bool> = choices.map(|chosen| (u_of(chosen) - mean).abs() >= seen - 1e-9).collect();
        far.iter().filter(|far| **far).count() as f64 / far.len() as f64
    }

    proptest! {
        #[test]
        fn it_agrees_with_its_definition(
            a in proptest::collection::vec(0..6_u8, 1..6),
            b in proptest::collection::vec(0..6_u8, 1..6),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
            prop_assert!((mann_whitney(&a, &b) - twin(&a, &b)).abs() < 1e-9);
        }

        #[test]
        fn the_approximation_is_near(
            a in proptest::collection::vec(0..1000_u32, 20..30),
            b in proptest::collection::vec(0..1000_u32, 20..30),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
            let ranks = doubled_ranks(&a, &b);
            let sum = ranks.iter().take(a.len()).sum();
            prop_assert!((exact(&ranks, a.len(), sum) - approximate(&ranks, a.len(), sum)).abs() < 0.02);
        }
    }

    #[test]
    fn known_values() {
        // Of the 252 ways to part ten ranks, two are as extreme as five below five.
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((mann_whitney(&low, &high) - 2.0 / 252.0).abs() < 1e-12);
        assert!((least_possible(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(mann_whitney(&low, &low), 1.0);
        assert_eq!(mann_whitney(&[], &low), 1.0);
        assert_eq!(least_possible(1, 1), 1.0);
        // The quantiles of the normal distribution that tables give.
        for (z, tail) in [(0.0, 0.5), (1.644_854, 0.05), (2.575_829, 0.005)] {
            assert!((upper_tail(z) - tail).abs() < 1e-6, "{z}");
        }
    }
}
