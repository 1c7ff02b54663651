//! `weir bench cpp`: cycles per packet of a function's real graph, on one pinned worker, over memory ports.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use weir_bench::{Better, Counters, Figure, Form, Plot, Point, Record};
use weir_mem::Clock;
use weir_stage::{AnyFunction, Case};

use super::instructions;
use super::rig::{Rig, Seen, Setup};
use super::waiting::{TRIES, Waiting, thread_of, worked};
use crate::catalogue;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub(crate) struct CppOptions {
    /// The function.
    pub(crate) function: String,
    /// Names of cases; all when empty.
    pub(crate) cases: Vec<String>,
    /// Interleaved runs of each case.
    pub(crate) runs: usize,
    /// The folder of the files that cases need.
    pub(crate) data: Option<PathBuf>,
    /// The core to measure on; the last one when absent.
    pub(crate) core: Option<usize>,
    /// Packets per receive.
    pub(crate) fill: usize,
    /// Whether stages are timed, as they always are in operation; without, the cost of the timing itself shows.
    pub(crate) sampling: bool,
    /// Whether instructions are counted under an emulator as well.
    pub(crate) instructions: bool,
    /// Numbers for the cases' knobs, by name.
    pub(crate) numbers: BTreeMap<String, u64>,
}

/// How long each run of a case is measured.
pub(super) const WINDOW: Duration = Duration::from_millis(300);

/// How long a case runs before it is measured.
const WARM_UP: Duration = Duration::from_millis(200);

/// What a figure in cycles is given in.
pub(super) const CYCLES: &str = "cycles/packet";

/// Measures the cases of a function into a record, but not those whose names are in `beside`. `progress` is told what is being done.
pub(super) fn cases(
    options: &CppOptions,
    beside: &[&str],
    record: &mut Record,
    progress: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let function = function(&options.function)?;
    let cases = choose(function, options, beside)?;
    let core = options.core.unwrap_or_else(weir_engine::last_core);
    let mut setup = Setup::on(core);
    setup.data.clone_from(&options.data);
    setup.fill = options.fill;
    setup.sampling = options.sampling;
    setup.numbers.clone_from(&options.numbers);
    record.parameters = vec!["case".to_owned()];
    record.settings.insert("runs".to_owned(), (options.runs as f64).into());
    record.settings.insert("core".to_owned(), (core as f64).into());
    record.settings.insert("packets per receive".to_owned(), (options.fill as f64).into());
    for (name, number) in &options.numbers {
        record.settings.insert(name.clone(), (*number as f64).into());
    }
    record.settings.insert("stages timed".to_owned(), weir_bench::Value::Flag(options.sampling));
    let mut uncounted = None;
    for case in cases {
        progress(&format!("{}: {}", case.name, case.help));
        let measured = measure(&case, &setup, options.runs, WINDOW);
        let told = |problem| format!("case {}: {problem}", case.name);
        let Measured { mut point, configuration, uncounted: why } = measured.map_err(told)?;
        uncounted = uncounted.or(why);
        if options.instructions {
            progress(&format!("{}: counting instructions, which takes a while", case.name));
            let counted = instructions::count(&options.function, case.name, &setup).map_err(told)?;
            record.settings.insert("kernel whose instructions are counted".to_owned(), counted.kernel.as_str().into());
            point.figures.extend(counted.figures);
        }
        point.parameters.insert("case".to_owned(), case.name.into());
        case.help.clone_into(&mut point.help);
        record.points.push(point);
        record.configurations.insert(case.name.to_owned(), configuration);
    }
    let plot = |title: &str, y: &str| Plot {
        title: title.to_owned(),
        form: Form::Bars,
        x: "case".to_owned(),
        y: y.to_owned(),
        by: None,
    };
    record.plots.push(plot("What the graph itself costs", "own"));
    record.plots.extend(options.instructions.then(|| Plot {
        form: Form::Stacked,
        ..plot("Instructions per packet, by what they are for", instructions::OF)
    }));
    record.plots.push(plot("Packets per second of one core, source and sink included", "rate"));
    record.remarks = REMARKS.iter().map(|remark| (*remark).to_owned()).collect();
    record.remarks.extend(options.instructions.then(|| instructions::REMARK.to_owned()));
    if let Some(why) = uncounted {
        let other = if options.instructions { "" } else { " `--instructions` counts instructions under an emulator." };
        record.remarks.push(format!("Misses and the top-down breakdown are missing: {why}.{other}"));
    }
    Ok(())
}

const REMARKS: &[&str] = &[
    "Cycles are those of the time stamp counter. own = whole - bare: the graph, the engine around it, and the account; bare is \
     the same source and sink with nothing between them, measured in turns with whole.",
    "fill: packets per batch at the first stage. waited: the share of the time that the worker had to wait for its core, because \
     others ran there. It is left out of cycles and rates; but others also leave cold caches, so figures of runs with more than a \
     few per cent are disturbed. Stages are timed in one loop of 64, and one that was interrupted shows it.",
    "Every 1,024th packet was verified at the sink, and the account was exact at the end.",
];

/// The function of a name.
pub(super) fn function(name: &str) -> Result<&'static dyn AnyFunction, String> {
    catalogue::function(name).ok_or_else(|| {
        let known: Vec<&str> = catalogue::FUNCTIONS.iter().map(|function| function.kind()).collect();
        format!("no function is called '{name}'; choose one of {}", known.join(", "))
    })
}

/// The case of a name, whose files are at hand.
pub(super) fn case(function: &'static dyn AnyFunction, name: &str, data: Option<&PathBuf>) -> Result<Case, String> {
    own_case(function, name, data, &[])
}

/// The same where the cases in `beside` may be chosen, too, but do not come from the function.
fn own_case(
    function: &'static dyn AnyFunction,
    name: &str,
    data: Option<&PathBuf>,
    beside: &[&str],
) -> Result<Case, String> {
    let cases = function.cases();
    let known: Vec<&str> = cases.iter().map(|case| case.name).chain(beside.iter().copied()).collect();
    let Some(case) = cases.into_iter().find(|case| case.name == name) else {
        return Err(format!("{} has no case '{name}'; choose from {}", function.kind(), known.join(", ")));
    };
    match missing(&case, data) {
        Some(file) => Err(format!("case {name} needs {file}; name its folder with --data")),
        None => Ok(case),
    }
}

/// The first file that a case needs and that is not in the folder.
fn missing(case: &Case, data: Option<&PathBuf>) -> Option<&'static str> {
    let present = |file: &&&str| data.is_some_and(|folder| folder.join(file).exists());
    case.needs.iter().find(|file| !present(file)).copied()
}

/// The cases asked for, less those whose files are not at hand unless they were asked for by name.
fn choose(function: &'static dyn AnyFunction, options: &CppOptions, beside: &[&str]) -> Result<Vec<Case>, String> {
    let data = options.data.as_ref();
    if options.cases.is_empty() {
        return Ok(function.cases().into_iter().filter(|one| missing(one, data).is_none()).collect());
    }
    let own = options.cases.iter().filter(|name| !beside.contains(&name.as_str()));
    own.map(|name| own_case(function, name, data, beside)).collect()
}

/// What measuring a case gave.
pub(super) struct Measured {
    /// The figures.
    pub(super) point: Point,
    /// The text of the configuration that ran.
    pub(super) configuration: String,
    /// Why the processor's own counters are missing, if they are.
    uncounted: Option<String>,
}

/// Measures one case so many times.
pub(super) fn measure(case: &Case, setup: &Setup, runs: usize, window: Duration) -> Result<Measured, String> {
    let mut rig = Rig::new(case, setup)?;
    let mut point = Point::default();
    let thread = setup.cores.first().and_then(|core| thread_of(*core)).filter(|_| setup.cores.len() == 1);
    let mut counters = thread.map_or_else(|| Err("only a single worker is counted".to_owned()), Counters::of_thread);
    let clock = Clock::calibrate();
    pause(WARM_UP);
    let (mut done, mut tries) = (0, 0);
    while done < runs.max(1) {
        rig.feed(false);
        // With several workers, and where packets do not come from the source, there is nothing to compare with.
        let compared = setup.cores.len() == 1 && rig.seen().received() > 0;
        let bare = if compared { Some(rig.bare.cycles_per_packet(window)?) } else { None };
        rig.feed(true);
        pause(WARM_UP / 4);
        let waiting = Waiting::of_workers(&setup.cores);
        if let Ok(counters) = &mut counters {
            counters.restart().map_err(|error| format!("cannot restart the counters: {error}"))?;
        }
        let before = rig.seen();
        pause(window);
        let after = rig.seen();
        let elapsed = after.elapsed() - before.elapsed();
        let waited = waiting.cycles(&clock);
        let worked = match worked(elapsed, waited) {
            Some(worked) => worked,
            None if tries < TRIES => {
                tries += 1;
                continue;
            }
            None => waiting.ran(&clock).clamp(1, elapsed.max(1)),
        };
        let waited = elapsed.saturating_sub(worked);
        done += 1;
        if let Ok(counters) = &mut counters {
            let counted = counters.figures(after.received() - before.received());
            counted
                .map_err(|error| format!("cannot read the counters: {error}"))?
                .into_iter()
                .for_each(|f| point.add(f));
        }
        run_figures(&before, &after, bare, (worked, waited), &clock)?.into_iter().for_each(|figure| point.add(figure));
    }
    rig.verdict()?;
    point.add(Figure::new("verified", "packets", Better::Neither, vec![rig.verified() as f64]).as_detail());
    Ok(Measured { point, configuration: rig.configuration.clone(), uncounted: counters.err() })
}

#[allow(clippy::disallowed_methods, reason = "a measurement takes its time")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// The figures of one run.
fn run_figures(
    before: &Seen,
    after: &Seen,
    bare: Option<f64>,
    (worked, waited): (u64, u64),
    clock: &Clock,
) -> Result<Vec<Figure>, String> {
    let (received, went) = (after.received() - before.received(), after.transmitted() - before.transmitted());
    let came = if received > 0 { received } else { after.created() - before.created() };
    if came == 0 {
        return Err("no packets came".to_owned());
    }
    let one = |name: &str, unit: &str, better, value| Figure::new(name, unit, better, vec![value]);
    let elapsed = after.elapsed() - before.elapsed();
    let whole = worked as f64 / came as f64;
    let seconds = worked as f64 / before.workers.len().max(1) as f64 / clock.hz() as f64;
    let mut figures = Vec::new();
    if let Some(bare) = bare {
        figures.push(one("own", CYCLES, Better::Less, whole - bare));
    }
    figures.push(one("whole", CYCLES, Better::Less, whole));
    figures.extend(bare.map(|bare| one("bare", CYCLES, Better::Neither, bare)));
    figures.push(one("rate", "Mpps", Better::More, went as f64 / seconds / 1e6));
    figures.push(one("fill", "packets", Better::Neither, fill(before, after)));
    let dropped = after.dropped() - before.dropped();
    figures.push(one("dropped", "%", Better::Neither, dropped as f64 / came as f64 * 100.0));
    let held = after.workers.iter().map(|worker| worker.account.held).sum::<u64>();
    figures.push(one("held", "packets", Better::Neither, held as f64).as_detail());
    figures.push(one("waited", "%", Better::Neither, waited as f64 / elapsed.max(1) as f64 * 100.0));
    figures.push(one("packets", "packets", Better::Neither, came as f64).as_detail());
    figures.extend(stages(before, after));
    Ok(figures)
}

/// Packets per batch of the first stage.
fn fill(before: &Seen, after: &Seen) -> f64 {
    let stage = |seen: &Seen| {
        let first = seen.workers.iter().find_map(|worker| worker.stages.first());
        first.map_or((0, 0), |stage| (stage.packets, stage.batches))
    };
    let ((p0, b0), (p1, b1)) = (stage(before), stage(after));
    p1.saturating_sub(p0) as f64 / b1.saturating_sub(b0).max(1) as f64
}

/// Cycles per packet of each stage, over all workers that have it.
fn stages(before: &Seen, after: &Seen) -> Vec<Figure> {
    let mut sums: Vec<(String, u64, u64)> = Vec::new();
    let pairs = before.workers.iter().zip(&after.workers).flat_map(|(b, a)| b.stages.iter().zip(&a.stages));
    for (b, a) in pairs {
        let (packets, cycles) = (a.packets.saturating_sub(b.packets), a.cycles.saturating_sub(b.cycles));
        match sums.iter_mut().find(|(name, ..)| *name == a.name) {
            Some(sum) => (sum.1, sum.2) = (sum.1 + packets, sum.2 + cycles),
            None => sums.push((a.name.clone(), packets, cycles)),
        }
    }
    let sums = sums.into_iter().filter(|(_, packets, _)| *packets > 0);
    let figure = |(name, packets, cycles): (String, u64, u64)| {
        Figure::new(&name, CYCLES, Better::Less, vec![cycles as f64 / packets as f64]).as_detail()
    };
    sums.map(figure).collect()
}
