//! What the experiments say in a sentence for each frame size: what the device did, or that it was not the device that was measured.

use super::FrameReport;
use crate::search::{GoalResult, Trial};

/// The sentence that a reader needs first; none if the throughput was not searched.
pub(super) fn verdict(frame: &FrameReport) -> Option<String> {
    let throughput = frame.throughput.as_ref()?;
    let trials = &throughput.search.trials;
    let goal = throughput.search.goals.first().copied().unwrap_or_default();
    let found = if goal.upper.is_some_and(|upper| upper.generator_limited) {
        of_the_generator(&goal, trials)
    } else {
        of_the_device(&goal, trials)
    };
    Some(format!("{} bytes: {found}", frame.frame_size))
}

/// Where the generator could not send what the search asked for.
fn of_the_generator(goal: &GoalResult, trials: &[Trial]) -> String {
    let short: Vec<&Trial> = trials.iter().filter(|trial| trial.generator_limited()).collect();
    let rate = |trial: &Trial| trial.offered as f64 / trial.duration.max(f64::MIN_POSITIVE);
    let most = short.iter().map(|trial| rate(trial)).fold(0.0, f64::max);
    let (offered, lost) =
        short.iter().fold((0, 0), |(offered, lost), trial| (offered + trial.offered, lost + trial.lost));
    let device = match goal.lower {
        Some(lower) => format!("the device forwards at least {:.0} packets/s without loss", lower.load),
        None => "nothing is known of the throughput of the device".to_owned(),
    };
    format!(
        "the generator was the limit: it sent {most:.0} packets/s at most where it was asked for more; {lost} of the {offered} packets that it did \
         send then were lost; {device}; give the generator a core of its own, or test smaller loads"
    )
}

fn of_the_device(goal: &GoalResult, trials: &[Trial]) -> String {
    match (goal.lower, goal.upper) {
        (Some(lower), Some(_)) => format!("the device forwards {:.0} packets/s without loss", lower.load),
        (Some(lower), None) => {
            format!("the device forwards {:.0} packets/s without loss, the greatest load that was tried", lower.load)
        }
        (None, _) => {
            let least = trials.iter().min_by(|one, other| one.load.total_cmp(&other.load));
            least.map_or_else(
                || "nothing was measured".to_owned(),
                |trial| {
                    let lost = 100.0 * trial.lost_ratio();
                    format!(
                        "no load without loss was found: of {:.0} packets/s, the least that was tried, the device lost {lost:.4} %",
                        trial.load
                    )
                },
            )
        }
    }
}
