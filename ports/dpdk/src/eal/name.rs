//! The name of a Weir that uses DPDK, and the files that go by it: `NAME.dpdk.lock` keeps the name, `NAME.eal.log` is DPDK's own
//! log, `NAME.interfaces` says what has been changed of Linux interfaces. Those of a process that was killed are cleared away by
//! the next one that starts in the same folder.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_host::files;

use crate::DpdkError;
use crate::claim::journal;

const LOCK: &str = ".dpdk.lock";
const LOG: &str = ".eal.log";
const INTERFACES: &str = ".interfaces";

/// How often, and how long apart, a name is tried for that a process which is gone seems to have.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// Keeps a name for as long as it lives: a locked file, which the kernel unlocks however the process ends.
#[derive(Debug)]
pub(super) struct NameLock {
    path: PathBuf,
    _file: File,
}

impl NameLock {
    /// Takes a name in a folder, which is made where it is missing, and clears away what is left there of processes that are gone.
    pub(super) fn take(run_dir: &Path, name: &str) -> Result<NameLock, DpdkError> {
        let path = run_dir.join(format!("{name}{LOCK}"));
        let wrong = |error: std::io::Error| refused(&path, &error);
        make_folder(run_dir).map_err(wrong)?;
        let mut tries = 0;
        let mut file = loop {
            let mut file = files::own(&path, 0o640).map_err(wrong)?;
            match file.try_lock() {
                // Whoever had it may have removed it since it was opened.
                Ok(()) if is_at(&file, &path) => break file,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let pid = pid_in(&mut file);
                    // Somebody may be clearing it away at this moment.
                    if tries == TRIES || pid.is_some_and(is_alive) {
                        return Err(DpdkError::NameTaken { name: name.to_owned(), pid });
                    }
                    std::thread::park_timeout(PAUSE);
                    tries += 1;
                }
                Err(TryLockError::Error(error)) => return Err(wrong(error)),
            }
        };
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(wrong)?;
        let lock = NameLock { path, _file: file };
        clear_away(run_dir, name);
        journal::begin(run_dir.join(format!("{name}{INTERFACES}")));
        Ok(lock)
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        // Before it is unlocked, so that nobody takes a name whose file then goes.
        let _stays = std::fs::remove_file(&self.path);
    }
}

/// The process that a lock's file names.
fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn is_at(file: &File, path: &Path) -> bool {
    let of_file = file.metadata().map(|data| (data.dev(), data.ino()));
    let of_path = std::fs::symlink_metadata(path).map(|data| (data.dev(), data.ino()));
    matches!((of_file, of_path), (Ok(one), Ok(other)) if one == other)
}

/// The folder that files of a Weir lie in.
pub(super) fn make_folder(path: &Path) -> std::io::Result<()> {
    // Root's is open to the members of the control socket's group.
    files::folder_if_missing(path, if host_is_root() { 0o755 } else { 0o700 })
}

fn host_is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Removes the files of names that nobody has any more, and puts back what their processes changed.
fn clear_away(run_dir: &Path, own: &str) {
    let entries = || std::fs::read_dir(run_dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let names = |end: &'static str| {
        entries().filter_map(move |path| Some(path.file_name()?.to_str()?.strip_suffix(end)?.to_owned()))
    };
    for name in names(LOCK).filter(|name| name != own) {
        let path = run_dir.join(format!("{name}{LOCK}"));
        let Ok(mut file) = files::ours(&path) else { continue };
        // One without a process is about to get one.
        if pid_in(&mut file).is_some_and(|pid| !is_alive(pid)) && file.try_lock().is_ok() && is_at(&file, &path) {
            journal::recover(&run_dir.join(format!("{name}{INTERFACES}")));
            remove_ours(&run_dir.join(format!("{name}{LOG}")));
            remove_ours(&path);
        }
    }
    // The log of a start that failed: it has been looked at, or never will be.
    for name in names(LOG).filter(|name| name != own && !run_dir.join(format!("{name}{LOCK}")).exists()) {
        remove_ours(&run_dir.join(format!("{name}{LOG}")));
    }
}

fn remove_ours(path: &Path) {
    if files::ours(path).is_ok() {
        let _stays = std::fs::remove_file(path);
    }
}

fn refused(path: &Path, error: &std::io::Error) -> DpdkError {
    DpdkError::NoPermission {
        what: format!("write {} ({error})", path.display()),
        remedy: "run weir as root, or set XDG_RUNTIME_DIR to a folder of your own".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("weir-name-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_name_is_kept_and_leaves_nothing() {
        let folder = Folder::new("kept");
        let first = NameLock::take(&folder.0, "a").unwrap();
        let taken = NameLock::take(&folder.0, "a").unwrap_err();
        assert_eq!(taken, DpdkError::NameTaken { name: "a".into(), pid: Some(std::process::id()) });
        drop(first);
        assert_eq!(folder.names(), [""; 0]);
        drop(NameLock::take(&folder.0, "a").unwrap());
    }

    #[test]
    fn what_the_dead_have_left_is_cleared_away() {
        let folder = Folder::new("dead");
        let alive = NameLock::take(&folder.0, "alive").unwrap();
        // More than there can be.
        std::fs::write(folder.0.join("dead.dpdk.lock"), "4194305\n").unwrap();
        for name in
            ["alive.eal.log", "starting.dpdk.lock", "dead.eal.log", "dead.interfaces", "failed.eal.log", "weir.sock"]
        {
            std::fs::write(folder.0.join(name), "").unwrap();
        }
        drop(NameLock::take(&folder.0, "new").unwrap());
        assert_eq!(folder.names(), ["alive.dpdk.lock", "alive.eal.log", "starting.dpdk.lock", "weir.sock"]);
        drop(alive);
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = Folder::new("link");
        let victim = folder.0.join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, folder.0.join("a.dpdk.lock")).unwrap();
        assert!(matches!(NameLock::take(&folder.0, "a"), Err(DpdkError::NoPermission { .. })));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
}
