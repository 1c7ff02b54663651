//! The plain search, on devices that forward so much and no more.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use weir_bench::search::{BinaryConfig, Stop, Trial, Trials, binary_search};

struct Hard(f64);

impl Trials for Hard {
    fn measure(&mut self, load: f64, duration: f64) -> Result<Trial, Stop> {
        let intended = (load * duration) as u64;
        let lost = intended.saturating_sub((self.0 * duration) as u64);
        Ok(Trial { load, duration, intended, offered: intended, lost, elapsed: duration, ..Trial::default() })
    }
}

const CONFIG: BinaryConfig =
    BinaryConfig { loss_ratio: 0.0, relative_width: 0.001, duration: 1.0, min_load: 1e3, max_load: 1e7 };

#[test]
fn limits_are_found_within_the_width_in_no_more_trials_than_halvings() {
    for limit in [1.5e3, 1e4, 123_456.0, 5e6, 9_999_000.0] {
        let found = binary_search(&CONFIG, &mut Hard(limit)).unwrap();
        let (lower, upper) = (found.goals[0].lower.unwrap().load, found.goals[0].upper.unwrap().load);
        assert!(lower <= limit + 1.0 && limit <= upper, "{limit}: {lower} to {upper}");
        assert!(upper - lower <= upper * 0.001);
        // From 10^7 down to the limit, and there to a thousandth of it.
        let halvings = (1e7 / limit).log2() + 1_000f64.log2() + 3.0;
        assert!(found.trials.len() as f64 <= halvings, "{limit}: {} trials", found.trials.len());
    }
}

#[test]
fn a_device_that_takes_everything_takes_one_trial() {
    let found = binary_search(&CONFIG, &mut Hard(1e9)).unwrap();
    assert_eq!((found.trials.len(), found.goals[0].upper), (1, None));
    assert_eq!(found.goals[0].throughput, Some(1e7));
}

#[test]
fn a_device_that_takes_nothing_has_no_lower_bound() {
    let found = binary_search(&CONFIG, &mut Hard(0.0)).unwrap();
    assert_eq!((found.goals[0].lower, found.goals[0].upper.unwrap().load), (None, 1e3));
}

#[test]
fn mistakes_are_refused() {
    let config = BinaryConfig { duration: 0.0, min_load: -1.0, ..CONFIG };
    assert_eq!(binary_search(&config, &mut Hard(1.0)).unwrap_err().len(), 2);
}
