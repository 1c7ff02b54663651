//! The parent's side: it opens the files, starts the child, answers it, and ends it in time.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use rustix::process::{Pid, Resource, Signal, WaitId, WaitIdOptions, getrlimit, kill_process, waitid};
use weir_config::{ConfigError, Document, ErrorKind, FilePath, Folder, Place};

use crate::child::CHILD_ARGUMENT;
use crate::limits::Limits;
use crate::protocol::{FromChild, Included, Load, Run, Task, receive, send};

/// Runs a configuration script in a child process and returns what it declares, unchecked.
///
/// `program` is the program to start as the child, normally the current one; `kinds` are the words that the script may
/// call, such as `port`.
///
/// # Errors
/// What kept the script from running to its end: it cannot be read, is no Lua, failed, or exceeded a limit. Mistakes
/// that did not stop it stand in the document and are told when that is checked.
pub fn evaluate(program: &Path, file: &Path, kinds: &[&str], limits: &Limits) -> Result<Document, Vec<ConfigError>> {
    let place = Place::line(file.display().to_string(), 0);
    let failed = |kind, problem: String| vec![ConfigError::new(kind, &place, "", problem)];
    let unreadable = |problem| failed(ErrorKind::File, problem);
    let text = read_script(open(file), limits).map_err(unreadable)?;
    let folder = Folder::of(file).map_err(|error| unreadable(format!("lies in no readable folder: {error}")))?;
    *PROGRAM.write().unwrap_or_else(PoisonError::into_inner) = Some(program.to_owned());
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let task = Task::Run(Run { file: place.file, text, kinds, limits: limits.clone() });
    hand_over(program, &task, |path| included(path, &folder, limits))
}

/// The program by which the last configuration was run. The scripts that it names are loaded by the same.
static PROGRAM: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Bounds of loading the script of a stage. The machine that loads it has its own, so these are for what gets out of it.
fn load_limits() -> Limits {
    Limits { milliseconds: 20_000, memory: 512 << 20, output: 1 << 20, includes: 0, ..Limits::default() }
}

/// Loads the script of a stage in a child process, confined like a configuration, and says whether it loads. If `only_read`, it is
/// not run there either.
///
/// # Errors
/// What is wrong with it, or that it exceeded a limit.
pub(crate) fn try_load(file: &str, text: &str, only_read: bool) -> Result<(), Vec<ConfigError>> {
    let known = PROGRAM.read().unwrap_or_else(PoisonError::into_inner).clone();
    let program = known.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let task = Task::Load(Load { file: file.to_owned(), text: text.to_owned(), only_read, limits: load_limits() });
    let refused = |_: &str| Included::Refused("is not for stages".to_owned());
    hand_over(&program, &task, refused).map(drop)
}

/// Lets a child process carry out a task.
fn hand_over(program: &Path, task: &Task, include: impl FnMut(&str) -> Included) -> Result<Document, Vec<ConfigError>> {
    let (place, limits) = (Place::line(task.file(), 0), task.limits());
    let failed = |kind, problem: String| vec![ConfigError::new(kind, &place, "", problem)];
    let spawned = Command::new(program)
        .arg(CHILD_ARGUMENT)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let child =
        spawned.map_err(|error| failed(ErrorKind::Script, format!("cannot be run: {}: {error}", program.display())))?;
    let ended = converse(child, task, include);
    match ended.said {
        Some(FromChild::Done(document)) => Ok(document),
        Some(FromChild::Failed(errors)) if !errors.is_empty() => Err(errors),
        // How it ends after its last word tells nothing: it is not waited for.
        Some(_) => Err(failed(ErrorKind::Limit, UNDONE.to_owned())),
        None => Err(failed(ErrorKind::Limit, ended.reason(limits))),
    }
}

/// Opens a script without waiting: a pipe to which nobody writes would not open otherwise.
fn open(file: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file)
}

/// A script's text. Only a regular file is read: a pipe might never end.
pub(crate) fn read_script(file: io::Result<File>, limits: &Limits) -> Result<String, String> {
    let cannot = |error: io::Error| format!("cannot be read: {error}");
    let file = file.map_err(cannot)?;
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(limits.file.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limits.file {
        return Err(format!("is larger than {} bytes", limits.file));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())
}

/// What is said of a script whose process neither told what it declares nor why it failed.
const UNDONE: &str = "ended its process before it was done";

/// How a conversation with a child ended.
struct Ended {
    /// Its last word.
    said: Option<FromChild>,
    /// Why it could not be listened to any longer.
    fault: Option<io::Error>,
    /// Whether its time ran out.
    late: bool,
    /// How the process ended.
    status: io::Result<ExitStatus>,
}

impl Ended {
    /// Why there is no last word, as far as can be told.
    fn reason(&self, limits: &Limits) -> String {
        let seconds = Duration::from_millis(limits.milliseconds).as_secs_f64();
        let signal = self.status.as_ref().ok().and_then(ExitStatus::signal);
        let fault = self.fault.as_ref().map(io::Error::kind);
        if fault == Some(io::ErrorKind::FileTooLarge) {
            return format!("declares more than {} bytes", limits.output);
        }
        if self.late || signal == Some(Signal::XCPU.as_raw()) {
            return format!("is still running after {seconds} s");
        }
        if fault == Some(io::ErrorKind::InvalidData) {
            return "is answered by its process with what cannot be understood".to_owned();
        }
        // A failed allocation ends in an abort, or in a fault where the stack cannot grow.
        match signal {
            Some(_) => format!("needs more memory than the {} bytes that it may use", memory(limits)),
            None => UNDONE.to_owned(),
        }
    }
}

/// How much memory the script of a child may use: less than its limit where this process was given less altogether.
fn memory(limits: &Limits) -> u64 {
    getrlimit(Resource::As).maximum.map_or(limits.memory, |given| given.min(limits.memory))
}

/// Sends the script to the child and answers it until it has said its last word or its time is over.
fn converse(mut child: Child, task: &Task, include: impl FnMut(&str) -> Included) -> Ended {
    let limits = task.limits();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (done, watched) = channel::<()>();
    let (mut late, mut said, mut fault) = (false, None, None);
    let pipes = child.stdin.take().zip(child.stdout.take());
    std::thread::scope(|scope| {
        let timeout = Duration::from_millis(limits.milliseconds);
        // The child is not waited for before this thread has ended, so that its number is still its own.
        let watchdog = std::thread::Builder::new().name("lua-config".to_owned()).spawn_scoped(scope, move || {
            let late = watched.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
            if late && let Some(pid) = pid {
                // It may have ended by itself already.
                let _ = kill_process(pid, Signal::KILL);
            }
            late
        });
        let Ok(watchdog) = watchdog else {
            return;
        };
        if let Some((input, output)) = pipes {
            match talk(input, output, task, include) {
                Ok(word) => said = word,
                Err(error) => fault = Some(error),
            }
            if said.is_none() && !talks_nonsense(fault.as_ref()) {
                // It has closed its end, which is to say that it ends. How it did is the reason to tell, so that it must
                // not be killed first, unless it is late; nor may its number become free while the watchdog is there.
                let _ = pid.map(|pid| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
            }
        }
        drop(done);
        late = watchdog.join().unwrap_or(false);
    });
    // It has nothing more to say; if it is still there, it must not stay. Both fail only when it has ended.
    let _ = child.kill();
    Ended { said, fault, late, status: child.wait() }
}

/// Whether a child is there still, and is not to be listened to.
fn talks_nonsense(fault: Option<&io::Error>) -> bool {
    matches!(fault.map(io::Error::kind), Some(io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidData))
}

fn talk(
    mut input: ChildStdin,
    output: ChildStdout,
    task: &Task,
    mut include: impl FnMut(&str) -> Included,
) -> io::Result<Option<FromChild>> {
    send(&mut input, task)?;
    let mut output = BufReader::with_capacity(1 << 16, output);
    answer(&mut output, task.limits(), |path| send(&mut input, &include(path)))
}

/// Answers a child until its last word. `None` if it ends without one.
fn answer(
    output: &mut impl BufRead,
    limits: &Limits,
    mut include: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<Option<FromChild>> {
    let mut room = limits.output;
    // The sandbox counts inclusions; a child that has got out of it must not keep us busy either.
    for _ in 0..=limits.includes {
        match receive(output, &mut room)? {
            Some(FromChild::Include(path)) => include(&path)?,
            last => return Ok(last),
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// What a child that says `said` would have told: what its script declares, or why it failed; `None` if it ends without
/// either. Nothing is included. This is for fuzzing: a child that has got out of its sandbox may say anything.
///
/// # Errors
/// That it cannot be understood or is too much.
pub fn overhear(said: &[u8], limits: &Limits) -> io::Result<Option<Result<Document, Vec<ConfigError>>>> {
    let mut said = said;
    Ok(answer(&mut said, limits, |_| Ok(()))?.and_then(|last| match last {
        FromChild::Done(document) => Some(Ok(document)),
        FromChild::Failed(errors) => Some(Err(errors)),
        FromChild::Include(_) => None,
    }))
}

/// Opens a file below the script's folder for the child.
fn included(path: &str, folder: &Folder, limits: &Limits) -> Included {
    let opened = FilePath::parse(path)
        .map_err(|malformed| malformed.problem)
        .and_then(|path| folder.open_file(&path).map(|file| (path, file)));
    let read = opened.and_then(|(path, file)| read_script(Ok(file), limits).map(|text| (path, text)));
    match read {
        Ok((path, text)) => Included::Text { file: folder.path().join(path.path()).display().to_string(), text },
        Err(problem) => Included::Refused(problem),
    }
}
