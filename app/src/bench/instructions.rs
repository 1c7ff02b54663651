//! Instructions per packet, counted by an emulator: the same every time, whatever else the machine does.
//!
//! The program starts itself under `valgrind --tool=callgrind` twice, for few packets and for many; what the many cost more,
//! divided by how many more they are, is the cost of a packet, without that of starting.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_bench::{Better, Figure};
use weir_simd::Kernel;

use super::children::output_within;
use super::cpp;
use super::rig::{Rig, Setup};

/// What a reader of such figures must know.
pub(super) const REMARK: &str = "Instructions are counted by valgrind's callgrind under the virtual clock, in one thread: own instructions = with the graph - \
     without. The control side's share of each loop is in them. Callgrind hides AVX-512, so its kernel may not be the one that \
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

/// Counts the instructions of a packet of a case.
pub(super) fn count(function: &str, case: &str, setup: &Setup) -> Result<Counted, String> {
    let run = |count: u64, bare: bool| {
        let setup = Setup { count: Some(count), ..setup.clone() };
        emulate(&Job { function: function.to_owned(), case: case.to_owned(), setup, bare })
    };
    let per_packet = |bare: bool| -> Result<(f64, String), String> {
        let (few, _) = run(FEW, bare)?;
        let (many, kernel) = run(MANY, bare)?;
        Ok((many.saturating_sub(few) as f64 / (MANY - FEW) as f64, kernel))
    };
    let (whole, kernel) = per_packet(false)?;
    let (bare, _) = per_packet(true)?;
    let figure = |name: &str, value| Figure::new(name, "instructions/packet", Better::Less, vec![value]);
    let figures = vec![figure("own instructions", whole - bare), figure("whole instructions", whole).as_detail()];
    Ok(Counted { kernel, figures })
}

/// Runs a job under the emulator; answers the instructions that it took and the kernel that it used.
fn emulate(job: &Job) -> Result<(u64, String), String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot tell which program this is: {error}"))?;
    let mut command = Command::new("valgrind");
    // What it takes to start varies: calibrating the clock, for one, waits for the time to pass.
    let counted =
        if job.bare { "--toggle-collect=*bench::bare::Bare*pass*" } else { "--toggle-collect=*bench::rig::Rig*drain*" };
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", counted]).arg(program);
    command.args(["bench", "count"]).arg(serde_json::to_string(job).map_err(|error| error.to_string())?);
    command.stdin(Stdio::null());
    let output = output_within(&mut command, PATIENCE).map_err(|problem| match problem.absent {
        true => "instructions are counted by valgrind, which is not installed (apt-get install valgrind)".to_owned(),
        false => format!("valgrind {}", problem.sentence),
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = said.lines().rfind(|line| !line.starts_with("==")).unwrap_or_default();
        return Err(format!("counting instructions failed: {last}"));
    }
    let collected = said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    let kernel = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((collected.ok_or("valgrind did not say how many instructions it counted")?, kernel))
}

/// What runs under the emulator: as many packets as asked for. Prints the kernel that it used.
pub(crate) fn job(text: &str) -> Result<String, String> {
    let job: Job = serde_json::from_str(text).map_err(|error| format!("not a job: {error}"))?;
    let function = cpp::function(&job.function)?;
    let case = cpp::case(function, &job.case, job.setup.data.as_ref())?;
    let mut rig = Rig::new(&case, &job.setup)?;
    let count = job.setup.count.unwrap_or(FEW);
    if job.bare {
        rig.bare.pass(count);
    } else {
        rig.drain();
        rig.verdict()?;
    }
    Ok(Kernel::detect().to_string())
}
