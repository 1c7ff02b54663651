//! `weir bench run`: an experiment, from its Lua file to its report.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bench::{Combination, ExperimentConfig, Journal, Point, Record, Sample, experiment_kind};
use weir_config::{Catalogue, ConfigError};
use weir_lua::Limits;

use super::begin;
use super::children::output_within;
use super::sample::{Job, Taken};

/// What to run, and where its files go.
pub(crate) struct RunOptions {
    /// The Lua file.
    pub(crate) file: PathBuf,
    /// The folder of the journal and the report.
    pub(crate) folder: PathBuf,
    /// The folder of the files that cases need.
    pub(crate) data: Option<PathBuf>,
    /// Runs in place of the file's.
    pub(crate) runs: Option<u32>,
}

/// An experiment that ran, whole or not.
pub(crate) struct Ran {
    /// Its name, which its files have.
    pub(crate) name: String,
    /// What was found.
    pub(crate) record: Record,
}

/// How much longer than its window a sample may take: to load its tables and to warm up.
const PATIENCE: Duration = Duration::from_secs(300);

/// Whether an experiment can be run here, without measuring anything; answers how much it would measure.
pub(crate) fn check_only(options: &RunOptions) -> Result<String, String> {
    let (name, experiment, combinations) = prepare(options)?;
    let samples = combinations.len() * experiment.runs as usize;
    Ok(format!("{name}: {} combinations, {} runs of each, {samples} samples", combinations.len(), experiment.runs))
}

fn prepare(options: &RunOptions) -> Result<(String, ExperimentConfig, Vec<Combination>), String> {
    let (name, mut experiment) = read(&options.file)?;
    experiment.runs = options.runs.unwrap_or(experiment.runs);
    let combinations = experiment.combinations().map_err(|wrong| wrong.join("\n"))?;
    check(&experiment, &combinations, options)?;
    Ok((name, experiment, combinations))
}

/// Runs an experiment, or goes on with one that was interrupted. `progress` is told what is being done.
pub(crate) fn run(options: &RunOptions, progress: &mut dyn FnMut(&str)) -> Result<Ran, String> {
    let (name, experiment, combinations) = prepare(options)?;
    weir_host::files::output_folder(&options.folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", options.folder.display()))?;
    let (mut record, clock) = begin(&experiment.title);
    let identity = format!("{experiment:?} on {:?} with {:?}", record.machine, record.versions);
    let mut journal = Journal::open(&options.folder.join(format!("{name}.journal")), &identity)?;
    let stop = stop_flag()?;
    let ended =
        Runner { experiment: &experiment, combinations: &combinations, options, stop }.go(&mut journal, progress);
    describe(&mut record, &experiment, &name);
    record.points = points(&combinations, &experiment, &journal, &mut record);
    let (done, all) = (journal.samples.len(), combinations.len() * experiment.runs as usize);
    record.partial = ended.err().map(|why| format!("{done} of {all} samples are there: {why}")).or(record.partial);
    Ok(Ran { name, record: clock.end(record) })
}

/// Reads the file, which declares one experiment.
fn read(file: &Path) -> Result<(String, ExperimentConfig), String> {
    let lines = |errors: Vec<ConfigError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let kinds: Catalogue = std::iter::once(experiment_kind()).collect();
    let program = Path::new("/proc/self/exe");
    let document = weir_lua::evaluate(program, file, &kinds.names(), &Limits::default()).map_err(lines)?;
    let checked = document.check(&kinds, None).map_err(lines)?;
    let mut elements = checked.elements().iter();
    match (elements.next(), elements.next()) {
        (Some(element), None) => Ok((element.name().to_owned(), element.read().map_err(lines)?)),
        (None, _) => Err(format!("{}: declares no experiment; write experiment {{ name = ..., ... }}", file.display())),
        (Some(_), Some(_)) => {
            Err(format!("{}: declares several experiments; give each a file of its own", file.display()))
        }
    }
}

fn job(experiment: &ExperimentConfig, parameters: &Combination, options: &RunOptions) -> Job {
    Job {
        measures: experiment.measures.clone(),
        parameters: parameters.clone(),
        window: experiment.window.nanos(),
        data: options.data.clone(),
    }
}

/// Whether every combination can be measured here: all that is wrong at once, before anything is measured.
fn check(experiment: &ExperimentConfig, combinations: &[Combination], options: &RunOptions) -> Result<(), String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut wrong = String::new();
    for parameters in combinations {
        let job = job(experiment, parameters, options);
        let checked = job.check().and_then(|()| match job.busy_threads()? {
            busy if busy > cores => {
                Err(format!("{busy} threads never wait, and there are {cores} cores; use a larger machine"))
            }
            _ => Ok(()),
        });
        if let Err(sentence) = checked {
            let named: Vec<String> = parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let _ = writeln!(wrong, "{}: {}: {sentence}", options.file.display(), named.join(", "));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.trim_end().to_owned()) }
}

/// Raised when somebody wants this to end.
fn stop_flag() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| format!("cannot listen to signals: {error}"))?;
    }
    Ok(stop)
}

struct Runner<'a> {
    experiment: &'a ExperimentConfig,
    combinations: &'a [Combination],
    options: &'a RunOptions,
    stop: Arc<AtomicBool>,
}

impl Runner<'_> {
    /// Takes every sample that the journal does not have. All combinations are measured once before any is measured again, so
    /// that a machine that drifts does so for all of them.
    #[allow(clippy::disallowed_methods, reason = "people want to know how long it takes")]
    fn go(&self, journal: &mut Journal, progress: &mut dyn FnMut(&str)) -> Result<(), String> {
        let runs = 0..self.experiment.runs;
        let all = runs.flat_map(|run| self.combinations.iter().map(move |parameters| (run, parameters)));
        let left: Vec<_> = all.filter(|(run, parameters)| !journal.has(parameters, *run)).collect();
        let (total, began) = (left.len() + journal.samples.len(), Instant::now());
        for (n, (run, parameters)) in left.iter().enumerate() {
            let remaining = match n {
                0 => String::new(),
                _ => {
                    let each = began.elapsed() / n as u32;
                    format!(", about {} left", duration(each * (left.len() - n) as u32))
                }
            };
            let label = Point { parameters: (*parameters).clone(), ..Point::default() }.label(&self.experiment.names());
            progress(&format!(
                "[{}/{total}] run {} of {}: {label}{remaining}",
                journal.samples.len() + 1,
                run + 1,
                self.experiment.runs
            ));
            let sample = self.take(parameters, *run);
            // What ended because all of this is to end is no result.
            if self.stop.load(Ordering::Relaxed) {
                return Err("it was interrupted; the same command goes on where it stopped".to_owned());
            }
            journal.add(sample)?;
        }
        Ok(())
    }

    fn take(&self, parameters: &Combination, run: u32) -> Sample {
        let mut sample = Sample {
            parameters: parameters.clone(),
            run,
            figures: Vec::new(),
            configuration: String::new(),
            failed: None,
        };
        match self.child(parameters) {
            Ok(taken) => (sample.figures, sample.configuration) = (taken.figures, taken.configuration),
            Err(sentence) => sample.failed = Some(sentence),
        }
        sample
    }

    fn child(&self, parameters: &Combination) -> Result<Taken, String> {
        let job = job(self.experiment, parameters, self.options);
        let mut command = Command::new("/proc/self/exe");
        command.args(["bench", "sample"]).arg(serde_json::to_string(&job).map_err(|error| error.to_string())?);
        command.stdin(Stdio::null());
        let patience = PATIENCE + Duration::from_nanos(self.experiment.window.nanos()) * 2;
        let output =
            output_within(&mut command, patience).map_err(|problem| format!("the sample {}", problem.sentence))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            return Err(if said.is_empty() {
                format!("its process ended with {}", output.status)
            } else {
                said.to_owned()
            });
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("its process said what cannot be read: {error}"))
    }
}

/// A time in words.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5999 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn describe(record: &mut Record, experiment: &ExperimentConfig, name: &str) {
    record.parameters = experiment.names();
    record.plots = experiment.drawn();
    record.settings.extend(experiment.fixed.clone());
    record.settings.insert("experiment".to_owned(), name.into());
    record.settings.insert("measures".to_owned(), experiment.measures.as_str().into());
    record.settings.insert("runs".to_owned(), f64::from(experiment.runs).into());
    record.settings.insert("window, ms".to_owned(), (experiment.window.nanos() as f64 / 1e6).into());
    if !experiment.about.is_empty() {
        record.remarks.push(experiment.about.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    record.remarks.push("Every sample was taken in a process of its own, all combinations in turns.".to_owned());
}

/// A point for each combination, from the samples of the journal.
fn points(
    combinations: &[Combination],
    experiment: &ExperimentConfig,
    journal: &Journal,
    record: &mut Record,
) -> Vec<Point> {
    let names = experiment.names();
    let mut points = Vec::new();
    for combination in combinations {
        let varied = combination.iter().filter(|(name, _)| names.contains(name));
        let mut point = Point {
            parameters: varied.map(|(name, value)| (name.clone(), value.clone())).collect(),
            ..Point::default()
        };
        for sample in journal.samples.iter().filter(|sample| sample.parameters == *combination) {
            sample.figures.iter().for_each(|figure| point.add(figure.clone()));
            if let Some(failed) = &sample.failed {
                point.trouble = Some(format!("run {} failed: {failed}", sample.run + 1));
                record.partial.get_or_insert_with(|| "some samples failed".to_owned());
            }
            if !sample.configuration.is_empty() {
                record.configurations.insert(point.label(&names), sample.configuration.clone());
            }
        }
        points.push(point);
    }
    points
}
