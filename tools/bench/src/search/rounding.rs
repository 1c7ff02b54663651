//! Loads as whole numbers: [`Rounding`].

/// A grid of loads between the least and the greatest, in equal steps of the logarithm.
///
/// A search halves and doubles intervals. On whole numbers that can be undone exactly, which floating point numbers do not
/// promise. The step is chosen such that the widths of all goals are close to, and never more than, a whole number of steps.
#[derive(Clone, Debug)]
pub(super) struct Rounding {
    min: f64,
    max: f64,
    /// The whole number of the greatest load; that of the least is 0.
    steps: i64,
}

/// How close to a goal's width a whole number of steps must come: at least and at most this share of it.
const QUALITY: std::ops::RangeInclusive<f64> = 0.99..=0.999_999;

impl Rounding {
    /// For loads from `min` to `max`, 0 < `min` < `max`, and the relative widths of goals.
    pub(super) fn new(min: f64, max: f64, widths: &[f64]) -> Rounding {
        let range = max.ln() - min.ln();
        let logs: Vec<f64> = widths.iter().map(|width| -(-width).ln_1p()).collect();
        let mut steps = 1;
        // Each goal either is met or says by how much the step is too long for it, so this ends.
        while let Some(more) = next_try(&logs, range, steps) {
            steps = more;
        }
        Rounding { min, max, steps }
    }

    /// The whole number of the greatest load.
    pub(super) fn steps(&self) -> i64 {
        self.steps
    }

    /// The load of a whole number; the least or the greatest beyond the grid.
    pub(super) fn load(&self, number: i64) -> f64 {
        if number <= 0 {
            return self.min;
        }
        if number >= self.steps {
            return self.max;
        }
        self.descend(|middle, _| number.cmp(&middle)).1
    }

    /// The whole number of a load, rounded down.
    pub(super) fn number(&self, load: f64) -> i64 {
        if load <= self.min {
            return 0;
        }
        if load >= self.max {
            return self.steps;
        }
        self.descend(|_, middle| load.total_cmp(&middle)).0
    }

    /// Halves the grid until `side` says that it is there, or that there is nothing left between: then the lower end.
    fn descend(&self, side: impl Fn(i64, f64) -> std::cmp::Ordering) -> (i64, f64) {
        let (mut low, mut high) = ((0, self.min), (self.steps, self.max));
        while high.0 - low.0 >= 2 {
            let number = (low.0 + high.0) / 2;
            let share = (number - low.0) as f64 / (high.0 - low.0) as f64;
            let middle = (number, low.1 * ((high.1.ln() - low.1.ln()) * share).exp());
            match side(middle.0, middle.1) {
                std::cmp::Ordering::Equal => return middle,
                std::cmp::Ordering::Greater => low = middle,
                std::cmp::Ordering::Less => high = middle,
            }
        }
        low
    }

    /// A relative width in whole steps, rounded down.
    pub(super) fn width(&self, relative: f64) -> i64 {
        let number = self.number(self.min / (1.0 - relative));
        if self.load(number) > self.min / (1.0 - relative) { number - 1 } else { number }
    }
}

/// How many steps to try after `steps`; `None` if these meet all goals.
fn next_try(logs: &[f64], range: f64, steps: i64) -> Option<i64> {
    let step = range / steps as f64;
    let mut tries = Vec::new();
    for log in logs {
        let wanted = log / step;
        let whole = wanted.floor();
        if !QUALITY.contains(&(whole / wanted)) {
            tries.push((whole + 1.0) / QUALITY.end() / wanted * steps as f64);
        }
    }
    let most = tries.into_iter().reduce(f64::max)?;
    Some((most.ceil() as i64).max(steps + 1))
}
