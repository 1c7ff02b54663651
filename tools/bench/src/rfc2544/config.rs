//! What to do, and for how long.

use serde::{Deserialize, Serialize};

use super::FRAME_SIZES;
use crate::search::{BinaryConfig, Goal, MlrConfig};

/// One experiment of RFC 2544 section 26.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Section 26.1.
    Throughput,
    /// Section 26.2, at the throughput found before.
    Latency,
    /// Section 26.3.
    FrameLoss,
    /// Section 26.4.
    BackToBack,
    /// Section 26.6, as RFC 6201 has it now.
    Reset,
}

/// How throughput is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// MLRsearch for NDR and PDR as FD.io's CSIT does it, with trials of 1 s, 21 s for each load that is in doubt.
    Mlr,
    /// MLRsearch with the definition of RFC 2544: no loss in a trial of the full duration; and PDR in such trials.
    MlrStrict,
    /// Halving, with trials of the full duration.
    Binary,
}

/// What to do, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Bytes with the frame check sequence, 64 to 9,216 each.
    pub frame_sizes: Vec<u32>,
    /// In this order. Latency and reset need the throughput.
    pub tests: Vec<Test>,
    /// How throughput is searched.
    pub search: Search,
    /// Seconds of a trial; section 24 wants at least 60.
    pub duration: f64,
    /// Seconds that each trial waits for late packets; section 23 wants 2.
    pub linger: f64,
    /// How far apart the bounds of throughput may lie at the end, as a share of the upper one.
    pub relative_width: f64,
    /// Packets per second that a device is expected to forward in any case.
    pub min_load: f64,
    /// Seconds that the search for the throughput of one frame size may take.
    pub budget: f64,
    /// Seconds of a trial for latency; section 26.2 wants at least 120.
    pub latency_duration: f64,
    /// Trials for latency; section 26.2 wants at least 20.
    pub latency_repeats: u32,
    /// By which share of the greatest load the load falls from one trial for frame loss to the next; section 26.3 wants at most 0.1.
    pub loss_step: f64,
    /// Seconds of the longest burst; section 26.4 wants at least 2.
    pub burst_duration: f64,
    /// How exactly the longest burst is found, as a share of it.
    pub burst_width: f64,
    /// How often it is searched; section 26.4 wants at least 50.
    pub burst_repeats: u32,
    /// How often the device is restarted.
    pub reset_repeats: u32,
}

impl Default for Config {
    /// All of it as the RFC wants it, but reset, for which a device needs a command, and the search, which is MLRsearch.
    fn default() -> Self {
        Config {
            frame_sizes: FRAME_SIZES.to_vec(),
            tests: vec![Test::Throughput, Test::Latency, Test::FrameLoss, Test::BackToBack],
            search: Search::Mlr,
            duration: 60.0,
            linger: 2.0,
            relative_width: 0.005,
            min_load: 1_000.0,
            budget: 3_600.0,
            latency_duration: 120.0,
            latency_repeats: 20,
            loss_step: 0.1,
            burst_duration: 2.0,
            burst_width: 0.01,
            burst_repeats: 50,
            reset_repeats: 3,
        }
    }
}

impl Config {
    /// What is wrong with it, one sentence each.
    pub fn mistakes(&self) -> Vec<String> {
        let seconds = |value: f64| value > 0.0 && value <= 86_400.0;
        let share = |value: f64| value > 0.0 && value < 1.0;
        let checks = [
            (!self.frame_sizes.is_empty(), "no frame size".to_owned()),
            (!self.tests.is_empty(), "no test".to_owned()),
            (share(self.relative_width), format!("width {}: above 0, below 1", self.relative_width)),
            (seconds(self.duration), format!("trials of {} s: above 0, up to a day", self.duration)),
            ((0.0..=60.0).contains(&self.linger), format!("waits of {} s: 0 to 60", self.linger)),
            (seconds(self.budget), format!("budget of {} s: above 0, up to a day", self.budget)),
            (self.min_load > 0.0, format!("least load of {} packets per second: above 0", self.min_load)),
            (
                seconds(self.latency_duration),
                format!("latency trials of {} s: above 0, up to a day", self.latency_duration),
            ),
            (seconds(self.burst_duration), format!("bursts of {} s: above 0, up to a day", self.burst_duration)),
            ((0.001..=1.0).contains(&self.loss_step), format!("loss step {}: 0.001 to 1", self.loss_step)),
            (share(self.burst_width), format!("burst width {}: above 0, below 1", self.burst_width)),
        ];
        let mut mistakes: Vec<String> = checks.into_iter().filter(|(right, _)| !right).map(|(_, text)| text).collect();
        let sizes = self.frame_sizes.iter().filter(|size| !(64..=9_216).contains(*size));
        mistakes
            .extend(sizes.map(|size| format!("frame size {size}: 64 to 9,216 bytes with the frame check sequence")));
        for (name, repeats) in
            [("latency", self.latency_repeats), ("back-to-back", self.burst_repeats), ("reset", self.reset_repeats)]
        {
            if !(1..=1_000).contains(&repeats) {
                mistakes.push(format!("{repeats} runs for {name}: 1 to 1,000"));
            }
        }
        let throughput = self.tests.iter().position(|test| *test == Test::Throughput);
        for (at, test) in self.tests.iter().enumerate() {
            if matches!(test, Test::Latency | Test::Reset) && throughput.is_none_or(|first| first > at) {
                mistakes.push(format!("{test:?} needs the throughput: put throughput before it").to_lowercase());
            }
        }
        mistakes
    }

    /// Where this does less than the RFC wants, one sentence each: they belong beside the results.
    pub fn deviations(&self) -> Vec<String> {
        let has = |test| self.tests.contains(&test);
        let trials = self.duration;
        let short = |value: f64, wanted: f64| value < wanted;
        let checks = [
            (
                has(Test::Throughput) && self.search == Search::Mlr,
                "throughput: NDR and PDR of trials of 1 s (MLRsearch), not of 60 s (RFC 2544 section 24)".to_owned(),
            ),
            (
                short(trials, 60.0) && (has(Test::FrameLoss) || has(Test::Throughput) && self.search != Search::Mlr),
                format!("trials of {trials} s, not 60 (RFC 2544 section 24)"),
            ),
            (true, "no pause of 5 s between trials (RFC 2544 section 23 e)".to_owned()),
            (
                short(self.linger, 2.0),
                format!("late packets waited for {} s, not 2 (RFC 2544 section 23 d)", self.linger),
            ),
            (
                has(Test::Latency) && short(self.latency_duration, 120.0),
                format!("latency: trials of {} s, not 120 (RFC 2544 section 26.2)", self.latency_duration),
            ),
            (
                has(Test::Latency) && self.latency_repeats < 20,
                format!("latency: {} trials, not 20 (RFC 2544 section 26.2)", self.latency_repeats),
            ),
            (
                has(Test::FrameLoss) && self.loss_step > 0.1,
                format!("frame loss: steps of {}, not 0.1 (RFC 2544 section 26.3)", self.loss_step),
            ),
            (
                has(Test::BackToBack) && short(self.burst_duration, 2.0),
                format!("back-to-back: bursts up to {} s, not 2 (RFC 2544 section 26.4)", self.burst_duration),
            ),
            (
                has(Test::BackToBack) && self.burst_repeats < 50,
                format!("back-to-back: {} runs, not 50 (RFC 2544 section 26.4)", self.burst_repeats),
            ),
        ];
        checks.into_iter().filter(|(deviates, _)| *deviates).map(|(_, text)| text).collect()
    }

    pub(super) fn mlr(&self, max_load: f64) -> MlrConfig {
        let goals = match self.search {
            Search::MlrStrict => {
                let ndr = Goal::rfc2544(self.duration);
                vec![ndr, Goal { loss_ratio: Goal::PDR.loss_ratio, ..ndr }]
            }
            Search::Mlr | Search::Binary => vec![Goal::NDR, Goal::PDR],
        };
        let goals = goals.into_iter().map(|goal| Goal { relative_width: self.relative_width, ..goal });
        MlrConfig { goals: goals.collect(), min_load: self.min_load, max_load, warmup: 1.0, budget: self.budget }
    }

    pub(super) fn binary(&self, max_load: f64) -> BinaryConfig {
        let (relative_width, duration, min_load) = (self.relative_width, self.duration, self.min_load);
        BinaryConfig { loss_ratio: 0.0, relative_width, duration, min_load, max_load }
    }
}
