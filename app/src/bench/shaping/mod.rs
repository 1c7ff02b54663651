//! `weir bench shaping`: what shaping promises, held to it.

mod checks;
mod probe;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_bench::search::Stop;
use weir_bench::shaping::simulated::{self, Greedy, Scale};
use weir_bench::shaping::{Finding, PARAMETERS, Verdicts};
use weir_bench::{Form, Plot, Record};

use super::begin;

/// What to check, and how.
#[derive(Clone, Debug)]
pub(crate) struct ShapingOptions {
    /// Names of checks; all when empty.
    pub(crate) checks: Vec<String>,
    /// Users in simulated time, and in the check of buffers.
    pub(crate) users: u32,
    /// How long the checks in real time take.
    pub(crate) time: Duration,
    /// The core of the worker; the last one when absent.
    pub(crate) core: Option<usize>,
}

/// All checks: name, and what they find out.
pub(crate) const CHECKS: [(&str, &str); 6] = [
    ("holding", "in simulated time: little is held where all conform"),
    ("conforming", "in simulated time: who conforms loses nothing and hardly waits, whatever others do"),
    ("rates", "in simulated time: every user who is offered twice its rate gets it"),
    ("real-time", "the same on an engine, for up to 1,024 users"),
    ("buffers", "receive never finds the pool empty while schedulers hold all that they may"),
    ("lone-packet", "how long a packet alone takes through the gateway with schedulers"),
];

/// Does the checks. `progress` is told what is being done.
pub(crate) fn shaping(
    options: &ShapingOptions,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(&str),
) -> Result<(Record, Verdicts), String> {
    let (mut record, clock) = begin("What shaping promises");
    describe(&mut record, options);
    let mut findings = Vec::new();
    let ended = run(options, stop, progress, &mut findings);
    let verdicts = Verdicts::of(&findings);
    record.remarks.extend(verdicts.lines());
    record.points = findings.into_iter().map(|finding| finding.point).collect();
    record.partial = match ended {
        Ok(()) => None,
        Err(Stop::Interrupted) => Some("it was interrupted".to_owned()),
        Err(Stop::Failed(why)) => return Err(why),
    };
    Ok((clock.end(record), verdicts))
}

fn run(
    options: &ShapingOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
    findings: &mut Vec<Finding>,
) -> Result<(), Stop> {
    let scale = Scale::of_users(options.users);
    let mut watch = |text: &str| {
        progress(text);
        !stop.load(Ordering::Relaxed)
    };
    let wanted =
        CHECKS.iter().filter(|(name, _)| options.checks.is_empty() || options.checks.iter().any(|one| one == name));
    for (name, _) in wanted {
        match *name {
            "holding" => findings.push(simulated::held(&scale, &mut watch)?),
            "conforming" => {
                for times in [2, 10] {
                    for greedy in Greedy::ALL {
                        findings.push(simulated::conforming(&scale, greedy, times, &mut watch)?);
                    }
                }
            }
            "rates" => findings.push(simulated::rates(&scale, &mut watch)?),
            "real-time" => findings.push(checks::real_time(options, &mut watch)?),
            "buffers" => findings.push(checks::buffers(options, &mut watch)?),
            _ => findings.extend(checks::lone_packet(options, &mut watch)?),
        }
    }
    Ok(())
}

fn describe(record: &mut Record, options: &ShapingOptions) {
    record.parameters = PARAMETERS.map(str::to_owned).to_vec();
    record.settings.insert("users".to_owned(), f64::from(options.users).into());
    record.settings.insert("time of checks in real time, s".to_owned(), options.time.as_secs_f64().into());
    let plot = |title: &str, y: &str, by: Option<&str>| Plot {
        title: title.to_owned(),
        form: Form::Bars,
        x: "others".to_owned(),
        y: y.to_owned(),
        by: by.map(str::to_owned),
    };
    record.plots = vec![
        plot(
            "The wait that one packet in 1,000 of users who conform exceeds, by how many send too much",
            "wait p99.9",
            Some("times"),
        ),
        plot("The longest wait of a packet of users who conform", "longest wait", Some("times")),
    ];
    record.remarks = vec![
        "Rates count the bytes of frames without their check sequence, and 24 more for each. In simulated time every arrival is an event, \
         and nothing depends on the machine."
            .to_owned(),
    ];
}
