//! Starting EAL, once per process, and calling it without being ended by it.

mod host;
mod last_words;
mod name;

use std::ffi::{CStr, CString, c_char, c_int};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_dpdk_sys as sys;
use weir_host::files;

pub use crate::options::{EalOptions, Memory};
pub(crate) use host::{check_pci, has_capability, is_at_vfio};

use crate::DpdkError;
use last_words::{Capture, Inside};
use name::{NameLock, make_folder};

/// EAL, started. It cannot be stopped and started again in one process; it ends with the process.
#[derive(Debug)]
pub struct Eal {
    log: PathBuf,
    /// Whether anything failed, so that somebody may want to read the log.
    failed: AtomicBool,
    huge: bool,
    /// DPDK's control functions (hot-plug above all) are called by one thread at a time.
    control: Mutex<()>,
    _name: NameLock,
}

impl Eal {
    /// Starts EAL, after having looked for what would make it fail.
    ///
    /// Takes 0.1 to 0.3 s. The calling thread becomes DPDK's main thread; where it may run stays as
    /// it was. DPDK's log and whatever it prints meanwhile go to the log file.
    ///
    /// # Errors
    ///
    /// [`DpdkError`]; nothing of DPDK's is running then, but only another process can try again.
    pub fn start(options: &EalOptions) -> Result<Eal, DpdkError> {
        let cpus = host::usable_cores();
        host::check_cores(&options.cores, &cpus)?;
        options.pci.iter().try_for_each(|address| host::check_closed_pci(address))?;
        let huge = host::choose_memory(options)?;
        if !huge {
            host::check_reach(&options.pci, options.megabytes.huge)?;
        }
        let name = NameLock::take(&options.run_dir, &options.name)?;
        let log = open_log(&options.log)?;
        last_words::arm(&options.log)?;
        let (path, failed) = (options.log.clone(), AtomicBool::new(false));
        let eal = Eal { log: path, failed, huge, control: Mutex::new(()), _name: name };
        eal.init(&options.arguments(huge, &cpus), log, options)?;
        Ok(eal)
    }

    /// Whether buffers are in huge pages.
    pub fn huge_pages(&self) -> bool {
        self.huge
    }

    /// DPDK's own version.
    pub fn version() -> &'static str {
        // SAFETY: takes nothing and changes nothing.
        let version = unsafe { sys::rte_version() };
        // SAFETY: a constant string of the library.
        let version = unsafe { CStr::from_ptr(version) };
        version.to_str().unwrap_or("DPDK")
    }

    /// Makes the calling thread known to DPDK, so that it gets a buffer cache of its own. `None` when
    /// DPDK has no number left; the thread then works without a cache, which is slower.
    pub fn register_thread(&self) -> Option<Registered> {
        let _calling = self.call();
        // SAFETY: EAL runs.
        let rc = unsafe { sys::rte_thread_register() };
        (rc == 0).then_some(Registered { _not_send: std::marker::PhantomData })
    }

    /// Held around every call to a control function.
    pub(crate) fn call(&self) -> Calling<'_> {
        let turn = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let from = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        Calling { log: &self.log, failed: &self.failed, from, _inside: Inside::enter(), _turn: turn }
    }

    fn init(&self, arguments: &[String], log: File, options: &EalOptions) -> Result<(), DpdkError> {
        let calling = self.call();
        let captured = Capture::into(&log).ok();
        let stream = open_stream(log, &options.log)?;
        // SAFETY: the stream is open for writing and is never closed.
        unsafe { sys::rte_openlog_stream(stream) };
        let mut owned: Vec<Vec<u8>> = arguments
            .iter()
            .filter_map(|argument| CString::new(argument.as_str()).ok())
            .map(CString::into_bytes_with_nul)
            .collect();
        let mut pointers: Vec<*mut c_char> = owned.iter_mut().map(|argument| argument.as_mut_ptr().cast()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
        pointers.push(std::ptr::null_mut());
        // SAFETY: `count` strings, each NUL-terminated and writable, and a null after the last one;
        // EAL copies what it keeps.
        let rc = unsafe { sys::rte_eal_init(count, pointers.as_mut_ptr()) };
        let code = errno();
        // SAFETY: as for EAL's log.
        unsafe { sys::weir_quiet_bpf(stream) };
        drop(captured);
        if rc < 0 {
            return Err(self.why(&calling, code, options));
        }
        remove_runtime_folder();
        Ok(())
    }

    fn why(&self, calling: &Calling<'_>, code: c_int, options: &EalOptions) -> DpdkError {
        match code {
            libc::EALREADY => DpdkError::Twice,
            libc::ENOMEM => DpdkError::TooLittleMemory {
                needed: u64::from(options.megabytes.of(self.huge)),
                free: 0,
                kind: if self.huge { "huge pages" } else { "memory" },
            },
            _ => calling.refused("starting DPDK", code),
        }
    }
}

impl Drop for Eal {
    /// Its log goes, unless somebody was told to read it.
    fn drop(&mut self) {
        if !self.failed.load(Ordering::Relaxed) {
            let _stays = std::fs::remove_file(&self.log);
        }
    }
}

/// A thread that DPDK knows; it is forgotten when this is dropped, by the same thread.
#[derive(Debug)]
pub struct Registered {
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        crate::pool::flush_thread();
        // SAFETY: this thread is registered; not being Send, this is that thread.
        unsafe { sys::rte_thread_unregister() };
    }
}

/// A call to DPDK's control functions under way: nobody else calls, and what DPDK logs meanwhile is
/// about it.
pub(crate) struct Calling<'a> {
    log: &'a Path,
    failed: &'a AtomicBool,
    from: u64,
    _inside: Inside,
    _turn: MutexGuard<'a, ()>,
}

impl Calling<'_> {
    /// The error of a call that failed with a (negative or positive) error number.
    pub(crate) fn refused(&self, doing: &str, code: c_int) -> DpdkError {
        refused(doing.to_owned(), code, &self.log(), self.log.to_owned())
    }

    /// Where DPDK logs.
    pub(crate) fn file(&self) -> &Path {
        self.log
    }

    /// What DPDK logged during this call, which failed; its end, if that is much.
    pub(crate) fn log(&self) -> String {
        self.failed.store(true, Ordering::Relaxed);
        tail(self.log, self.from).unwrap_or_default()
    }
}

/// The error of a call that failed, with the last line that DPDK logged meanwhile.
pub(crate) fn refused(doing: String, code: c_int, logged: &str, log: PathBuf) -> DpdkError {
    let code = code.saturating_abs();
    let reason = if code == 0 { "no reason given".to_owned() } else { strerror(code) };
    DpdkError::Refused { doing, reason, said: last_line(logged), log }
}

/// What is in a file from `from` on; the last of it, if that is much.
fn tail(path: &Path, from: u64) -> std::io::Result<String> {
    /// Enough for the last lines of any driver.
    const READ: u64 = 16 << 10;
    let mut file = File::open(path)?;
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(from.max(end.saturating_sub(READ))))?;
    let mut bytes = Vec::new();
    file.take(READ).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last line that tells something, shortened to what fits a sentence. EAL only repeats that a driver
/// failed.
fn last_line(text: &str) -> Option<String> {
    const LONGEST: usize = 200;
    let lines = || text.lines().map(str::trim).rev().filter(|line| !line.is_empty());
    let line = lines().find(|line| !line.starts_with("EAL: ")).or_else(|| lines().next())?;
    Some(line.chars().take(LONGEST).collect())
}

/// What DPDK left as the error of its last call by this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: reads a thread-local number.
    unsafe { sys::weir_errno() }
}

fn strerror(code: c_int) -> String {
    // SAFETY: any number is accepted.
    let text = unsafe { sys::rte_strerror(code) };
    // SAFETY: a string that stays until this thread's next call.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

fn open_log(path: &Path) -> Result<File, DpdkError> {
    let open = || {
        path.parent().map_or(Ok(()), make_folder)?;
        let log = files::own(path, 0o640)?;
        // That of the process which had this name before.
        log.set_len(0)?;
        Ok(log)
    };
    open().map_err(|error: std::io::Error| DpdkError::Log { path: path.to_owned(), reason: error.to_string() })
}

/// A C stream over the log. It is left open: DPDK writes to it until the process ends.
fn open_stream(log: File, path: &Path) -> Result<*mut sys::FILE, DpdkError> {
    // SAFETY: the descriptor is open for appending and is handed over; the mode is a C string.
    let stream = unsafe { libc::fdopen(log.into_raw_fd(), c"a".as_ptr()) };
    match stream.is_null() {
        false => Ok(stream),
        true => Err(DpdkError::Log { path: path.to_owned(), reason: std::io::Error::last_os_error().to_string() }),
    }
}

/// EAL makes a folder even when it shares nothing. `remove_dir` leaves it when something is in it.
fn remove_runtime_folder() {
    // SAFETY: EAL runs.
    let path = unsafe { sys::rte_eal_get_runtime_dir() };
    // SAFETY: a string of EAL's that stays.
    let path = unsafe { CStr::from_ptr(path) };
    let _ = path.to_str().map(std::fs::remove_dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_read() {
        let path = std::env::temp_dir().join(format!("weir-dpdk-log-{}", std::process::id()));
        std::fs::write(&path, "EAL: old\nEAL: new\n").unwrap();
        assert_eq!(tail(&path, 9).unwrap(), "EAL: new\n");
        assert_eq!(tail(&path, 18).unwrap(), "");
        std::fs::write(&path, "x".repeat(40_000)).unwrap();
        assert_eq!(tail(&path, 0).unwrap().len(), 16 << 10);
        std::fs::remove_file(&path).unwrap();
        assert!(tail(&path, 0).is_err());
    }

    #[test]
    fn the_last_line_is_found_and_shortened() {
        assert_eq!(last_line("PMD: one\n  PMD: two \n\n").as_deref(), Some("PMD: two"));
        assert_eq!(last_line("PMD: why\nEAL: Failed to attach device\n").as_deref(), Some("PMD: why"));
        assert_eq!(last_line("EAL: one\nEAL: two\n").as_deref(), Some("EAL: two"));
        assert_eq!(last_line(" \n"), None);
        assert_eq!(last_line(&"x".repeat(400)).map(|line| line.len()), Some(200));
    }

    #[test]
    fn the_version_is_that_of_the_library() {
        assert!(Eal::version().starts_with("DPDK "));
    }
}
