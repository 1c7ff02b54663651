//! Instructions per packet, counted by an emulator: the same every time, whatever else the machine does.
//!
//! The program starts itself under `valgrind --tool=callgrind` twice, for few packets and for many; what the many cost more,
//! divided by how many more they are, is the cost of a packet, without that of starting. They are told apart by what they are for, as
//! figure 8 of "Benchmarking and Analysis of Software Data Planes" (FD.io, 2017) does: ports, each stage, and the engine.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_bench::{Better, Figure};
use weir_simd::Kernel;

use super::callgrind::{Profile, bare_type};
use super::children::output_within;
use super::cpp;
use super::rig::{Rig, Setup};

/// What a reader of such figures must know.
pub(super) const REMARK: &str = "Instructions are counted by valgrind's callgrind under the virtual clock, in one thread: own instructions = with the graph - \
     without. Those of ports, stages and the engine add up to the whole, per packet that came, whichever way it took; stages of one type are \
     counted together, and the control side's share of each loop is the engine's. Callgrind hides AVX-512, so its kernel may not be the one that \
     the cycles were measured with.";

/// Packets that go through before anything is compared: more than there are buffers that go round.
const FEW: u64 = 8192;

/// Packets of the longer count.
const MANY: u64 = FEW * 5;

/// How long a count may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// What was counted.
pub(super) struct Counted {
    /// The kernel that the emulated processor chose.
    pub(super) kernel: String,
    /// The figures.
    pub(super) figures: Vec<Figure>,
}

/// What the program does under the emulator.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    function: String,
    case: String,
    setup: Setup,
    bare: bool,
}

/// What the program says of itself when it has run under the emulator.
#[derive(Debug, Serialize, Deserialize)]
struct Ran {
    kernel: String,
    /// Name and type of each stage that packets came to.
    stages: Vec<(String, String)>,
}

/// What the figures of a part's instructions begin with.
pub(super) const OF: &str = "instructions of ";

/// Counts the instructions of a packet of a case.
pub(super) fn count(function: &str, case: &str, setup: &Setup) -> Result<Counted, String> {
    let run = |count: u64, bare: bool| {
        let setup = Setup { count: Some(count), ..setup.clone() };
        emulate(&Job { function: function.to_owned(), case: case.to_owned(), setup, bare })
    };
    let per_packet = |few: u64, many: u64| many.saturating_sub(few) as f64 / (MANY - FEW) as f64;
    let (few, _) = run(FEW, false)?;
    let (many, ran) = run(MANY, false)?;
    let whole = per_packet(few.whole, many.whole);
    let bare = per_packet(run(FEW, true)?.0.whole, run(MANY, true)?.0.whole);
    let figure = |name: &str, value| Figure::new(name, "instructions/packet", Better::Less, vec![value]);
    let mut figures = vec![figure("own instructions", whole - bare), figure("whole instructions", whole).as_detail()];
    let mut parts = vec![("ports".to_owned(), per_packet(few.ports, many.ports))];
    for (type_name, names) in by_type(&ran.stages) {
        parts.push((names.join(" + "), per_packet(few.of_type(type_name), many.of_type(type_name))));
    }
    let rest = whole - parts.iter().map(|(_, value)| value).sum::<f64>();
    parts.insert(1, ("the engine".to_owned(), rest));
    figures.extend(parts.into_iter().map(|(name, value)| figure(&format!("{OF}{name}"), value).as_detail()));
    Ok(Counted { kernel: ran.kernel, figures })
}

/// The names of stages by their type, in the order in which they came.
fn by_type(stages: &[(String, String)]) -> Vec<(&str, Vec<&str>)> {
    let mut types: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, type_name) in stages {
        let type_name = bare_type(type_name);
        match types.iter_mut().find(|(known, _)| *known == type_name) {
            Some((_, names)) => names.push(name),
            None => types.push((type_name, vec![name])),
        }
    }
    types
}

/// A file that valgrind writes its counts into, until this is dropped.
struct Counts(PathBuf);

impl Counts {
    fn new() -> Result<Counts, String> {
        let path = std::env::temp_dir().join(format!("weir-counts-{}", std::process::id()));
        // It is made here, where nobody else's is taken for it.
        let made = weir_host::files::create(&path, 0o600);
        made.map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Counts(path))
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        // Whoever cleans the folder may have been first.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Runs a job under the emulator; answers the instructions that it took, and what it said.
fn emulate(job: &Job) -> Result<(Profile, Ran), String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot tell which program this is: {error}"))?;
    let file = Counts::new()?;
    let mut command = Command::new("valgrind");
    // What it takes to start varies: calibrating the clock, for one, waits for the time to pass.
    let counted =
        if job.bare { "--toggle-collect=*bench::bare::Bare*pass*" } else { "--toggle-collect=*bench::rig::Rig*drain*" };
    command.args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no", counted]);
    command.arg(format!("--callgrind-out-file={}", file.0.display())).arg(program);
    command.args(["bench", "count"]).arg(serde_json::to_string(job).map_err(|error| error.to_string())?);
    command.stdin(Stdio::null());
    let output = output_within(&mut command, PATIENCE).map_err(|problem| match problem.absent {
        true => "instructions are counted by valgrind, which is not installed (apt-get install valgrind)".to_owned(),
        false => format!("valgrind {}", problem.sentence),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.starts_with("==")).map(str::to_owned);
        let why = last.unwrap_or_else(|| format!("what was counted ended with {}", output.status));
        return Err(format!("counting instructions failed: {why}"));
    }
    let counts = std::fs::read_to_string(&file.0).map_err(|error| format!("cannot read valgrind's counts: {error}"))?;
    let ran = serde_json::from_slice(&output.stdout).map_err(|error| format!("what was counted said {error}"))?;
    Ok((Profile::read(&counts)?, ran))
}

/// What runs under the emulator: as many packets as asked for. Says which kernel it used, and which stages, as JSON.
pub(crate) fn job(text: &str) -> Result<String, String> {
    let job: Job = serde_json::from_str(text).map_err(|error| format!("not a job: {error}"))?;
    let function = cpp::function(&job.function)?;
    let case = cpp::case(function, &job.case, job.setup.data.as_ref())?;
    let mut rig = Rig::new(&case, &job.setup)?;
    let count = job.setup.count.unwrap_or(FEW);
    let mut stages = Vec::new();
    if job.bare {
        rig.bare.pass(count);
    } else {
        rig.drain();
        rig.verdict()?;
        let workers = rig.seen().workers;
        let used = workers.iter().flat_map(|worker| &worker.stages).filter(|stage| stage.packets > 0);
        stages.extend(used.map(|stage| (stage.name.clone(), stage.type_name.to_owned())));
    }
    let ran = Ran { kernel: Kernel::detect().to_string(), stages };
    serde_json::to_string(&ran).map_err(|error| error.to_string())
}
