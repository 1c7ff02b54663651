//! DPDK can end the process: `rte_panic` aborts it, `rte_exit` leaves it. Neither may pass without a
//! sentence on stderr, and what DPDK prints while it starts belongs into its log.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::DpdkError;

thread_local! {
    /// Calls into DPDK's control functions that are under way on this thread. What other threads are doing says nothing about
    /// why this one ends the process. Without a destructor, so that it can be read by a signal handler and at exit.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}
/// The sentences, made in advance: a signal handler may not make one. The first is for the end from
/// within a call of ours, the second for an abort by any other thread.
static SENTENCES: OnceLock<[String; 2]> = OnceLock::new();
/// Where the sentence goes: stderr, or what was stderr before it was captured.
static STDERR: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);

/// From here on, an abort and an exit from within DPDK say a sentence first.
pub(crate) fn arm(log: &Path) -> Result<(), DpdkError> {
    let log = log.display();
    let sentences = [
        format!("weir: DPDK ends this process: mend what the last lines of {log} complain of\n"),
        format!("weir: this process is aborted: if DPDK did it, the last lines of {log} say why\n"),
    ];
    if SENTENCES.set(sentences).is_err() {
        return Err(DpdkError::Twice);
    }
    // SAFETY: all zeros is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_abort as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the handler does only what signal-safety(7) allows.
    unsafe { libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut()) };
    // SAFETY: the function stays valid until the process ends.
    unsafe { libc::atexit(on_exit) };
    Ok(())
}

/// Held while DPDK is at work on our behalf, by the thread that asked it.
#[derive(Debug)]
pub(crate) struct Inside(std::marker::PhantomData<*const ()>);

impl Inside {
    pub(crate) fn enter() -> Inside {
        INSIDE.set(INSIDE.get() + 1);
        Inside(std::marker::PhantomData)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get().saturating_sub(1));
    }
}

/// Whoever aborts: DPDK's own threads and the drivers on the workers can do it too. Returning lets
/// abort(3) go on.
extern "C" fn on_abort(_signal: libc::c_int) {
    say(usize::from(INSIDE.get() == 0));
}

extern "C" fn on_exit() {
    if INSIDE.get() > 0 {
        say(0);
    }
}

fn say(which: usize) {
    if let Some(sentence) = SENTENCES.get().and_then(|sentences| sentences.get(which)) {
        let to = STDERR.load(Ordering::Relaxed);
        // SAFETY: the bytes are as long as is said, and never change.
        unsafe { libc::write(to, sentence.as_ptr().cast(), sentence.len()) };
    }
}

/// While it lives, what is written to stdout and stderr goes to a file.
pub(crate) struct Capture {
    saved: [(RawFd, OwnedFd); 2],
}

impl Capture {
    pub(crate) fn into(file: &File) -> std::io::Result<Capture> {
        std::io::stdout().flush()?;
        let saved = [
            (libc::STDOUT_FILENO, duplicate(libc::STDOUT_FILENO)?),
            (libc::STDERR_FILENO, duplicate(libc::STDERR_FILENO)?),
        ];
        STDERR.store(saved[1].1.as_raw_fd(), Ordering::Relaxed);
        let capture = Capture { saved };
        for (fd, _) in &capture.saved {
            replace(file.as_raw_fd(), *fd)?;
        }
        Ok(capture)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // What C has buffered for stdout is still DPDK's.
        // SAFETY: null stands for every stream.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        for (fd, saved) in &self.saved {
            // What fails here cannot be told anywhere.
            let _ = replace(saved.as_raw_fd(), *fd);
        }
        STDERR.store(libc::STDERR_FILENO, Ordering::Relaxed);
    }
}

fn duplicate(fd: RawFd) -> std::io::Result<OwnedFd> {
    // SAFETY: takes a number, gives a number.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

fn replace(with: RawFd, fd: RawFd) -> std::io::Result<()> {
    // SAFETY: takes numbers; `fd` is stdout or stderr, which nobody owns in Rust's sense.
    match unsafe { libc::dup2(with, fd) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    /// How the child ends: one of the ways in which DPDK ends a process.
    const END: &str = "WEIR_DPDK_TEST_END";

    fn child(end: &str) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["eal::last_words::tests::nothing_ends_the_process_silently", "--exact", "--nocapture"])
            .env(END, end)
            .output()
            .unwrap()
    }

    fn end(how: &str) {
        arm(Path::new("/var/log/eal.log")).unwrap();
        assert_eq!(arm(Path::new("/x")), Err(DpdkError::Twice));
        match how {
            "abort" => std::process::abort(),
            "panic" => {
                let _inside = Inside::enter();
                let log = File::options().write(true).open("/dev/null").unwrap();
                let _captured = Capture::into(&log).unwrap();
                eprintln!("captured");
                // SAFETY: it ends the process.
                unsafe { libc::abort() };
            }
            "exit beside" => {
                let (inside, is_inside) = std::sync::mpsc::channel();
                std::thread::spawn(move || {
                    let _inside = Inside::enter();
                    inside.send(()).unwrap();
                    loop {
                        std::thread::park();
                    }
                });
                is_inside.recv().unwrap();
                // SAFETY: it ends the process.
                unsafe { libc::exit(0) };
            }
            "exit" => {
                let _inside = Inside::enter();
                // SAFETY: it ends the process.
                unsafe { libc::exit(3) };
            }
            _ => {
                drop(Inside::enter());
                // SAFETY: it ends the process.
                unsafe { libc::exit(0) };
            }
        }
    }

    #[test]
    fn nothing_ends_the_process_silently() {
        if let Ok(how) = std::env::var(END) {
            return end(&how);
        }
        let said = |end: &str| String::from_utf8(child(end).stderr).unwrap();
        assert!(said("panic").contains("DPDK ends this process: mend what the last lines of /var/log/eal.log"));
        assert!(!said("panic").contains("captured"));
        assert!(said("exit").contains("DPDK ends this process"));
        assert_eq!(child("exit").status.code(), Some(3));
        assert!(said("abort").contains("this process is aborted: if DPDK did it, the last lines of /var/log/eal.log"));
        assert!(!said("leave").contains("weir:"), "a usual end is no matter");
        assert!(!said("exit beside").contains("weir:"), "whatever another thread is doing");
    }
}
