//! Other programs: started, waited for with a bound, and never left behind.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Why a program gave nothing.
pub(crate) struct Failed {
    /// Whether it is not there at all.
    pub(crate) absent: bool,
    /// What happened, as the rest of a sentence that begins with its name.
    pub(crate) sentence: String,
}

/// A program that is killed when this is dropped.
pub(crate) struct Guarded(pub(crate) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program.
pub(crate) fn start(command: &mut Command) -> Result<Guarded, Failed> {
    let child = command.spawn();
    child.map(Guarded).map_err(|error| Failed {
        absent: error.kind() == std::io::ErrorKind::NotFound,
        sentence: format!("cannot be started: {error}"),
    })
}

/// Runs a program to its end and gives its output; it is killed when its time is over.
pub(crate) fn output_within(command: &mut Command, patience: Duration) -> Result<Output, Failed> {
    let mut child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let failed = |sentence: String| Failed { absent: false, sentence };
    let (out, err) = (child.0.stdout.take(), child.0.stderr.take());
    std::thread::scope(|scope| {
        let out = scope.spawn(move || read_all(out));
        let err = scope.spawn(move || read_all(err));
        let status = wait_within(&mut child, patience);
        if status.is_none() {
            let _ = child.0.kill();
        }
        let (stdout, stderr) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
        let status = status.ok_or_else(|| failed(format!("was not done after {} s", patience.as_secs())))?;
        Ok(Output { status: status.map_err(|error| failed(format!("cannot be waited for: {error}")))?, stdout, stderr })
    })
}

/// How much of a program's output is kept, bytes.
const KEEP: u64 = 64 << 20;

fn read_all(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What was read before it failed is what there is.
        let _ = pipe.take(KEEP).read_to_end(&mut bytes);
    }
    bytes
}

#[allow(clippy::disallowed_methods, reason = "the patience is the world's")]
fn wait_within(child: &mut Guarded, patience: Duration) -> Option<std::io::Result<std::process::ExitStatus>> {
    let began = Instant::now();
    while began.elapsed() < patience {
        match child.0.try_wait() {
            Ok(Some(status)) => return Some(Ok(status)),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Some(Err(error)),
        }
    }
    None
}
