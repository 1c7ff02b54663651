//! Where peers are measured: cores, a folder for files, and how long to wait for what.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bench::search::Stop;
use weir_mem::Clock;

use super::super::children::output_within;

/// How often it is looked whether something has happened.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// Free huge pages that make programs use them, bytes: enough for each of them.
const HUGE: u64 = 1 << 30;

/// The place.
pub(super) struct Lab {
    /// The core that Weir and its peers are measured on, in turns.
    pub(super) core: usize,
    /// Another core, for everything else; the same where there is one only.
    pub(super) other: usize,
    /// How many cores there are.
    pub(super) cores: usize,
    /// A folder for files, gone at the end.
    pub(super) folder: PathBuf,
    /// The folder of the real table.
    pub(super) data: Option<PathBuf>,
    /// This program.
    pub(super) weir: PathBuf,
    /// The clock that cycles are counted by.
    pub(super) clock: Clock,
    patience: Duration,
    stop: Arc<AtomicBool>,
}

impl Lab {
    /// Makes the folder.
    pub(super) fn new(
        core: Option<usize>,
        data: Option<PathBuf>,
        patience: Duration,
        stop: Arc<AtomicBool>,
    ) -> Result<Lab, String> {
        let usable = weir_engine::usable_cores();
        let core = core.or(usable.last().copied()).unwrap_or(0);
        if !usable.contains(&core) {
            return Err(format!("core {core} is none that this process may run on: choose of {usable:?}"));
        }
        let weir = std::env::current_exe().map_err(|error| format!("cannot tell which program this is: {error}"))?;
        let folder = std::env::temp_dir().join(format!("weir-peers-{}", std::process::id()));
        // Others may look in: scripts are run as nobody.
        let made = weir_host::files::folder(&folder, 0o755);
        made.map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
        let other = usable.iter().copied().find(|&other| other != core).unwrap_or(core);
        let cores = usable.len();
        Ok(Lab { core, other, cores, folder, data, weir, clock: Clock::calibrate(), patience, stop })
    }

    /// Fails if somebody wants this to end.
    pub(super) fn check(&self) -> Result<(), Stop> {
        if self.stop.load(Ordering::Relaxed) { Err(Stop::Interrupted) } else { Ok(()) }
    }

    /// Waits.
    #[allow(clippy::disallowed_methods, reason = "a measurement takes its time")]
    pub(super) fn wait(&self, time: Duration) -> Result<(), Stop> {
        let began = Instant::now();
        loop {
            self.check()?;
            let left = time.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    /// How long to wait from now on for what a program is asked for.
    #[allow(clippy::disallowed_methods, reason = "the patience is the world's")]
    pub(super) fn patience(&self) -> Patience {
        Patience { until: Instant::now() + self.patience, time: self.patience }
    }

    /// Looks until there is an answer; `what` is what took too long if there is none.
    pub(super) fn until<T>(&self, what: &str, mut look: impl FnMut() -> Result<Option<T>, Stop>) -> Result<T, Stop> {
        let patience = self.patience();
        loop {
            if let Some(answer) = look()? {
                return Ok(answer);
            }
            if patience.is_over() {
                return Err(Stop::Failed(format!("{what} took more than {}", patience.text())));
            }
            self.wait(TICK)?;
        }
    }

    /// A folder in the folder, with nothing in it.
    pub(super) fn fresh_folder(&self, name: &str) -> Result<PathBuf, Stop> {
        let folder = self.folder.join(name);
        let made = match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => weir_host::files::folder(&folder, 0o755),
        };
        made.map_err(|error| Stop::Failed(format!("cannot make the folder {}: {error}", folder.display())))?;
        Ok(folder)
    }

    /// Writes a file into the folder.
    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Stop> {
        let path = self.folder.join(name);
        let written = weir_host::files::output(&path).and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| Stop::Failed(format!("cannot write {}: {error}", path.display())))?;
        Ok(path)
    }

    /// Runs a program that does one thing and ends; answers what it printed.
    pub(super) fn tool(&self, command: &mut Command) -> Result<String, Stop> {
        self.check()?;
        let name = command.get_program().to_string_lossy().into_owned();
        let output = output_within(command.stdin(Stdio::null()), self.patience)
            .map_err(|problem| Stop::Failed(format!("{name} {}", problem.sentence)))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let arguments: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        Err(Stop::Failed(format!("{name} {} failed: {}", arguments.join(" "), said.trim())))
    }

    /// Whether there are huge pages enough.
    pub(super) fn has_huge_pages() -> bool {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        number("HugePages_Free:").saturating_mul(number("Hugepagesize:") << 10) >= HUGE
    }

    /// The words that start DPDK in another program: in huge pages as Weir itself, where there are enough, or in so many MiB.
    pub(super) fn eal(&self, name: &str, mebibytes: u32) -> Vec<String> {
        let mut words = vec![
            // The machine's own network card is left alone.
            "--no-pci".to_owned(),
            "--no-telemetry".to_owned(),
            "--iova-mode=va".to_owned(),
            format!("--file-prefix=weir-peers-{}-{name}", std::process::id()),
        ];
        if Lab::has_huge_pages() {
            // The other end of a vhost-user link can have few pieces of memory.
            words.extend(["--in-memory", "--single-file-segments"].map(str::to_owned));
        } else {
            words.extend(["--no-huge".to_owned(), "--no-shconf".to_owned(), "-m".to_owned(), mebibytes.to_string()]);
        }
        words
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                // Where nobody listens there is nobody to tell.
                let _ = writeln!(std::io::stderr(), "weir: cannot remove {}: {error}", self.folder.display());
            }
            _ => {}
        }
    }
}

/// A time that something may take.
pub(super) struct Patience {
    until: Instant,
    time: Duration,
}

impl Patience {
    /// Whether it is over.
    #[allow(clippy::disallowed_methods, reason = "the patience is the world's")]
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// The time as people write it.
    pub(super) fn text(&self) -> String {
        format!("{} s", self.time.as_secs_f64())
    }
}
