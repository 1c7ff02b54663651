//! A program of others that runs while it is measured: in a process group of its own, which ends with it, with us, or with our end.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use weir_bench::search::Stop;

use super::lab::{Lab, TICK};

/// Lines of its output that are kept to be quoted.
const KEPT_LINES: usize = 12;

/// Bytes of a line that are looked at; a longer one counts as several.
const LINE: u64 = 4096;

/// Lines that may wait to be read; what comes beyond is quoted at most.
const WAITING_LINES: usize = 4096;

/// How long it may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(10);

/// A running program.
pub(super) struct Program {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    last: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
    status: Option<ExitStatus>,
}

/// Where a program is: in a folder of the search path, or where administrators' programs are.
pub(super) fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Words of a command line.
pub(super) fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

impl Program {
    /// Starts it. `name` is what it is called in messages; `environment` is added to ours.
    pub(super) fn start(
        lab: &Lab,
        name: &str,
        words: &[OsString],
        environment: &[(&str, OsString)],
    ) -> Result<Program, Stop> {
        lab.check()?;
        let mut all: Vec<OsString> = Vec::new();
        if let Some(setpriv) = found("setpriv") {
            // Were we killed, the kernel would kill it.
            all.extend([setpriv.into(), "--pdeathsig".into(), "KILL".into(), "--".into()]);
        }
        all.extend_from_slice(words);
        let mut all = all.into_iter();
        let mut command = Command::new(all.next().unwrap_or_default());
        command.args(all).envs(environment.iter().cloned()).process_group(0);
        // Where DPDK leaves a folder behind.
        command.env("RUNTIME_DIRECTORY", &lab.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Stop::Failed(format!("{name} cannot be started: {error}")))?;
        let (sender, lines) = sync_channel(WAITING_LINES);
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let readers = [
            out.map(|pipe| read(pipe, Some(sender), Arc::clone(&last))),
            err.map(|pipe| read(pipe, None, Arc::clone(&last))),
        ];
        let readers = readers.into_iter().flatten().collect();
        Ok(Program { name: name.to_owned(), child, stdin, lines, last, readers, status: None })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it, until [`Program::go_on`].
    pub(super) fn rest(&mut self) -> Result<(), Stop> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub(super) fn go_on(&mut self) -> Result<(), Stop> {
        self.signal(Signal::CONT)
    }

    fn signal(&mut self, signal: Signal) -> Result<(), Stop> {
        self.check()?;
        let group = Pid::from_child(&self.child);
        kill_process_group(group, signal)
            .map_err(|error| Stop::Failed(format!("{} cannot be sent a signal: {error}", self.name)))
    }

    /// Says a line to it.
    pub(super) fn say(&mut self, line: &str) -> Result<(), Stop> {
        self.check()?;
        let written = self.stdin.as_mut().map(|stdin| stdin.write_all(format!("{line}\n").as_bytes()));
        match written {
            Some(Ok(())) => Ok(()),
            // It has closed its end, most likely by ending.
            Some(Err(error)) => Err(self.failed(&format!("does not listen any more ({error})"))),
            None => Err(self.failed("has no input")),
        }
    }

    /// Forgets what it has said and nobody read.
    pub(super) fn forget(&mut self) {
        while self.lines.try_recv().is_ok() {}
    }

    /// The next line that it says; `what` tells what it is asked for.
    pub(super) fn line(&mut self, lab: &Lab, what: &str) -> Result<String, Stop> {
        let patience = lab.patience();
        loop {
            match self.lines.recv_timeout(TICK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => {}
                // It may still be about to end.
                Err(RecvTimeoutError::Disconnected) => lab.wait(TICK)?,
            }
            lab.check()?;
            self.check()?;
            if patience.is_over() {
                return Err(self.failed(&format!("did not {what} within {}", patience.text())));
            }
        }
    }

    /// All lines that it says up to one that `ends` is true for.
    pub(super) fn lines_until(&mut self, lab: &Lab, what: &str, ends: impl Fn(&str) -> bool) -> Result<String, Stop> {
        let patience = lab.patience();
        let mut text = String::new();
        loop {
            let line = self.line(lab, what)?;
            lab.check()?;
            let last = ends(&line);
            if text.len() < WAITING_LINES * 64 {
                text.push_str(&line);
                text.push('\n');
            }
            if last {
                return Ok(text);
            }
            if patience.is_over() {
                return Err(self.failed(&format!("did not {what} within {}", patience.text())));
            }
        }
    }

    /// Whether it still runs; what it said last, if it does not.
    pub(super) fn check(&mut self) -> Result<(), Stop> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                self.reaped(status);
                Err(self.failed(&format!("ended by itself ({status})")))
            }
            Err(error) => Err(self.failed(&format!("cannot be waited for: {error}"))),
        }
    }

    /// What has gone wrong with it, as a sentence that begins with its name, and what it said last.
    #[allow(clippy::disallowed_methods, reason = "what it said may still be on its way")]
    pub(super) fn failed(&self, what: &str) -> Stop {
        if self.status.is_some() {
            let read = |reader: &JoinHandle<()>| reader.is_finished();
            (0..50).take_while(|_| !self.readers.iter().all(read)).for_each(|_| std::thread::sleep(TICK));
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Stop::Failed(if last.is_empty() {
            format!("{} {what}; it said nothing", self.name)
        } else {
            let lines: Vec<&str> = last.iter().map(String::as_str).collect();
            format!("{} {what}; it last said:\n    {}", self.name, lines.join("\n    "))
        })
    }

    /// Asks it to end, and waits until it has.
    #[allow(clippy::disallowed_methods, reason = "other programs take their time")]
    pub(super) fn end(mut self) {
        if self.signal(Signal::CONT).and_then(|()| self.signal(Signal::TERM)).is_ok() {
            for _ in 0..GRACE.as_millis() / TICK.as_millis() {
                if self.check().is_err() {
                    return;
                }
                std::thread::sleep(TICK);
            }
        }
    }

    fn reaped(&mut self, status: ExitStatus) {
        if self.status.replace(status).is_none() {
            // What it started and left behind is in its group.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.status.is_none() {
            // It may have ended this very moment.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Reads lines on a thread of its own, until there are no more.
fn read(
    pipe: impl Read + Send + 'static,
    sender: Option<SyncSender<String>>,
    last: Arc<Mutex<VecDeque<String>>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while pipe.by_ref().take(LINE).read_until(b'\n', &mut bytes).is_ok_and(|length| length > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            bytes.clear();
            let shown: String = line.chars().filter(|c| !c.is_control()).take(300).collect();
            if !shown.is_empty() {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                last.push_back(shown);
                if last.len() > KEPT_LINES {
                    last.pop_front();
                }
            }
            // Nobody may be listening: then it is kept for quoting only.
            let _ = sender.as_ref().map(|sender| sender.try_send(line));
        }
    })
}
