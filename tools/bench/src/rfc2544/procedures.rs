//! The procedures, section by section.

use super::report::ThroughputReport;
use super::{BackToBack, Config, Device, FrameReport, LatencyReport, LossPoint, Report, ResetReport, Search, Test};
use crate::search::{Latency, SearchResult, Stop, Trial, Trials, binary_search, mlrsearch};

/// Carries out the experiments. `progress` is told what comes next, one line each. What `device` stops is reported as far as it went. The error is a list of
/// what is wrong with the configuration.
pub fn run(config: &Config, device: &mut dyn Device, progress: &mut dyn FnMut(&str)) -> Result<Report, Vec<String>> {
    let mistakes = config.mistakes();
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let (config_kept, deviations) = (config.clone(), config.deviations());
    let mut report = Report { version: 1, config: config_kept, deviations, ..Report::default() };
    for &frame_size in &config.frame_sizes {
        let mut frame = FrameReport { frame_size, ..FrameReport::default() };
        let ended = one_size(config, device, &mut frame, progress);
        frame.doubts = doubts(&frame);
        report.frames.push(frame);
        if let Err(stop) = ended {
            report.ended = Some(stop.to_string());
            break;
        }
    }
    Ok(report)
}

fn one_size(
    config: &Config,
    device: &mut dyn Device,
    frame: &mut FrameReport,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Stop> {
    frame.max_load = device.frame_size(frame.frame_size)?;
    for test in &config.tests {
        match test {
            Test::Throughput => throughput(config, device, frame, progress)?,
            Test::Latency => latency(config, device, frame, progress)?,
            Test::FrameLoss => frame_loss(config, device, frame, progress)?,
            Test::BackToBack => back_to_back(config, device, frame, progress)?,
            Test::Reset => reset(config, device, frame, progress)?,
        }
    }
    Ok(())
}

/// Passes trials on, and tells of each.
struct Told<'a> {
    device: &'a mut dyn Device,
    size: u32,
    progress: &'a mut dyn FnMut(&str),
    /// Why the device stopped, if it did: a search has only the sentence.
    stop: Option<Stop>,
}

impl Trials for Told<'_> {
    fn measure(&mut self, load: f64, duration: f64) -> Result<Trial, Stop> {
        let measured = self.device.measure(load, duration);
        match &measured {
            Ok(trial) => {
                let lost = 100.0 * trial.lost_ratio();
                let unsent = match trial.generator_limited() {
                    false => String::new(),
                    true => format!(", {:.1} % not sent by the generator", 100.0 * trial.unsent_ratio()),
                };
                (self.progress)(&format!(
                    "{} bytes: {load:.0} packets/s for {duration} s: {lost:.4} % lost{unsent}",
                    self.size
                ));
            }
            Err(stop) => self.stop = Some(stop.clone()),
        }
        measured
    }
}

/// Section 26.1.
fn throughput(
    config: &Config,
    device: &mut dyn Device,
    frame: &mut FrameReport,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Stop> {
    let max = frame.max_load;
    let mut told = Told { device, size: frame.frame_size, progress, stop: None };
    let found: Result<SearchResult, Vec<String>> = match config.search {
        Search::Binary => binary_search(&config.binary(max), &mut told),
        Search::Mlr | Search::MlrStrict => mlrsearch(&config.mlr(max), &mut told),
    };
    let search = found.map_err(|mistakes| Stop::Failed(mistakes.join("; ")))?;
    frame.throughput = Some(ThroughputReport::of(search, frame.frame_size));
    told.stop.map_or(Ok(()), Err)
}

/// The throughput found before, to which latency and reset are bound.
fn found(frame: &FrameReport) -> Option<f64> {
    frame.throughput.as_ref().and_then(|throughput| throughput.ndr)
}

/// Section 26.2: streams at the throughput, again and again, and the mean of what they say. Every packet carries a
/// stamp, where the RFC tags one of a stream, so that a trial has a distribution.
fn latency(
    config: &Config,
    device: &mut dyn Device,
    frame: &mut FrameReport,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Stop> {
    let Some(load) = found(frame) else { return Ok(()) };
    let name = format!("{} bytes: latency at {load:.0} packets/s", frame.frame_size);
    let (trials, ended) =
        repeat(config.latency_repeats, &name, progress, || device.measure(load, config.latency_duration));
    let latencies: Vec<_> = trials.iter().filter_map(|trial| trial.latency).collect();
    let median = |latency: &Latency| latency.calm.unwrap_or(latency.all).p50 as f64;
    let mean_of_medians = mean(latencies.iter().map(median)).unwrap_or(0.0);
    let set_aside = mean(latencies.iter().map(|latency| latency.set_aside)).unwrap_or(0.0);
    frame.latency = (!latencies.is_empty()).then_some(LatencyReport { load, mean_of_medians, set_aside, trials });
    ended
}

/// Section 26.3: from the greatest load down in steps, "until there are two successive trials in which no frames are lost".
fn frame_loss(
    config: &Config,
    device: &mut dyn Device,
    frame: &mut FrameReport,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Stop> {
    let (mut clean, mut step) = (0, 0);
    loop {
        let share = 1.0 - f64::from(step) * config.loss_step;
        // The last step may be a rounding error away from none.
        if clean == 2 || share < config.loss_step / 2.0 {
            return Ok(());
        }
        progress(&format!("{} bytes: frame loss at {:.1} % of the greatest load", frame.frame_size, 100.0 * share));
        let trial = device.measure(frame.max_load * share, config.duration)?;
        let loss_ratio = trial.lost_ratio();
        clean = if trial.lost == 0 { clean + 1 } else { 0 };
        frame.frame_loss.push(LossPoint { share, loss_ratio, trial });
        step += 1;
    }
}

/// Section 26.4: the "number of frames in the longest burst that the DUT will handle without the loss of any frames".
fn back_to_back(
    config: &Config,
    device: &mut dyn Device,
    frame: &mut FrameReport,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Stop> {
    let longest = ((frame.max_load * config.burst_duration) as u64).max(1);
    let name = format!("{} bytes: back-to-back", frame.frame_size);
    let (runs, ended) =
        repeat(config.burst_repeats, &name, progress, || longest_burst(device, longest, config.burst_width));
    if let Some(frames) = mean(runs.iter().map(|&frames| frames as f64)) {
        // RFC 9004: what was forwarded during the burst did not have to be stored.
        let buffered = found(frame).map(|rate| frames * (1.0 - rate / frame.max_load).max(0.0));
        frame.back_to_back = Some(BackToBack { frames, at_least: runs.contains(&longest), buffered, runs });
    }
    ended
}

/// The longest burst without loss, up to `longest`, to a share of `width` of it.
fn longest_burst(device: &mut dyn Device, longest: u64, width: f64) -> Result<u64, Stop> {
    let (mut good, mut bad) = (0, longest + 1);
    let mut next = longest;
    loop {
        let trial = device.burst(next)?;
        if trial.lost + trial.unsent() == 0 {
            good = next;
        } else {
            bad = next;
        }
        let apart = bad - good;
        if apart <= 1 || apart as f64 <= bad as f64 * width && good > 0 {
            return Ok(good);
        }
        next = good + apart / 2;
    }
}

/// RFC 6201: restarts under a load that the device forwards without loss.
fn reset(
    config: &Config,
    device: &mut dyn Device,
    frame: &mut FrameReport,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Stop> {
    let Some(load) = found(frame) else { return Ok(()) };
    let name = format!("{} bytes: restart", frame.frame_size);
    let (outages, ended) = repeat(config.reset_repeats, &name, progress, || device.restart(load));
    let recovered = || outages.iter().filter(|outage| outage.recovered);
    let by_loss = mean(recovered().map(|outage| outage.trial.lost as f64 / load));
    let by_time = mean(recovered().filter_map(|outage| outage.gap));
    if !outages.is_empty() {
        frame.reset = Some(ResetReport { load, by_loss, by_time, outages });
    }
    ended
}

/// What `one` gives when called `times` times, or until the device stops; and whether it did.
fn repeat<T>(
    times: u32,
    name: &str,
    progress: &mut dyn FnMut(&str),
    mut one: impl FnMut() -> Result<T, Stop>,
) -> (Vec<T>, Result<(), Stop>) {
    let mut all = Vec::new();
    for run in 1..=times {
        progress(&format!("{name}, {run} of {times}"));
        match one() {
            Ok(result) => all.push(result),
            Err(stop) => return (all, Err(stop)),
        }
    }
    (all, Ok(()))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

/// What makes the figures of one frame size doubtful.
fn doubts(frame: &FrameReport) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(throughput) = &frame.throughput {
        for (name, goal) in ["NDR", "PDR"].iter().zip(&throughput.search.goals) {
            if goal.upper.is_some_and(|bound| bound.generator_limited) {
                doubts.push(format!(
                    "{name}: the generator could not send more, so this is its limit and not the device's"
                ));
            }
            if let (None, Some(upper)) = (goal.lower, goal.upper) {
                doubts.push(format!("{name}: even {:.0} packets/s were too much", upper.load));
            }
            if goal.upper.is_none() && goal.lower.is_some() {
                doubts.push(format!("{name}: no greater load was tried, so the device may do more"));
            }
            let bounds = [goal.lower, goal.upper].into_iter().flatten();
            let disturbed: u64 = bounds.map(|bound| bound.disturbed).sum();
            if disturbed > 0 {
                doubts.push(format!("{name}: the generator was disturbed in {disturbed} of the trials that decided"));
            }
        }
        if throughput.search.ended.is_some() {
            doubts.push("throughput: the search ended early, so its bounds are wide or absent".to_owned());
        }
    }
    let disturbed = |trials: &mut dyn Iterator<Item = &Trial>| trials.filter(|trial| trial.disturbed.is_some()).count();
    let latency = frame.latency.iter().flat_map(|latency| &latency.trials);
    let loss = frame.frame_loss.iter().map(|point| &point.trial);
    for (name, count) in
        [("latency", disturbed(&mut latency.into_iter())), ("frame loss", disturbed(&mut loss.into_iter()))]
    {
        if count > 0 {
            doubts.push(format!("{name}: the generator was disturbed in {count} trials"));
        }
    }
    let short = frame.frame_loss.iter().filter(|point| point.trial.generator_limited()).count();
    if short > 0 {
        doubts.push(format!("frame loss: in {short} trials the generator sent less than the load that is named"));
    }
    if frame.back_to_back.as_ref().is_some_and(|bursts| bursts.at_least) {
        doubts.push("back-to-back: the longest burst that was tried got through, so the device may do more".to_owned());
    }
    let lasting = frame.reset.iter().flat_map(|reset| &reset.outages).filter(|outage| !outage.recovered).count();
    if lasting > 0 {
        doubts.push(format!(
            "reset: after {lasting} restarts the device did not forward again in time; they are left out"
        ));
    }
    doubts
}
