//! Where a running Weir listens, and who may talk to it.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_protocol::Rights;

/// The name of a Weir that was given none.
pub(crate) const DEFAULT_NAME: &str = "weir";

/// Why there is no socket to listen on or talk to.
#[derive(Debug)]
pub(crate) enum SocketError {
    /// The user has no place for sockets: the folder that would be taken is not the user's alone.
    NoPlace(PathBuf),
    /// A name that cannot be part of a path.
    BadName(String),
    /// Another Weir listens there.
    Taken(PathBuf),
    /// Something else lies there.
    NotASocket(PathBuf),
    /// Nobody listens there.
    Nobody(PathBuf),
    /// Somebody listens there, and lets nobody in.
    Busy(PathBuf),
    /// The system refuses.
    System {
        /// Where.
        path: PathBuf,
        /// What was tried, as a verb.
        what: &'static str,
        /// What it says.
        cause: io::Error,
    },
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketError::NoPlace(folder) => write!(
                f,
                "XDG_RUNTIME_DIR is not set, and {} belongs to somebody else or is open to others, so there is no folder for \
                 the control socket; set it, or say --socket PATH",
                folder.display()
            ),
            SocketError::BadName(name) => {
                write!(f, "\"{name}\" cannot be the name of a Weir; write letters, digits, - and _, at most 64")
            }
            SocketError::Taken(path) => write!(
                f,
                "another Weir of that name is running: it listens on {}; choose another with --name NAME, or stop it",
                path.display()
            ),
            SocketError::NotASocket(path) => {
                write!(f, "{} exists and is no socket; move it away, or choose another --socket PATH", path.display())
            }
            SocketError::Nobody(path) => write!(
                f,
                "no Weir listens on {}; start one with `weir run FILE.lua`, or name the one meant with --name NAME or \
                 --socket PATH",
                path.display()
            ),
            SocketError::Busy(path) => write!(
                f,
                "the Weir that listens on {} lets nobody in: too many wait already; try again later, and look at its log",
                path.display()
            ),
            SocketError::System { path, what, cause } if cause.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "cannot {what} {}: permission denied; be the user who started Weir, a member of the socket's group, or \
                 root",
                path.display()
            ),
            SocketError::System { path, what, cause } => write!(f, "cannot {what} {}: {cause}", path.display()),
        }
    }
}

impl std::error::Error for SocketError {}

/// The path of the control socket: that given, else `NAME.sock` in the folder of the user's running programs.
pub(crate) fn path(given: Option<&Path>, name: &str) -> Result<PathBuf, SocketError> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let user = rustix::process::geteuid();
    let path = path_for(given, name, user.is_root(), runtime.unwrap_or_else(fallback))?;
    check_fallback(&path)?;
    Ok(path)
}

/// The folder of a Weir's files while it runs, where nobody says otherwise: only its user can write there.
pub(crate) fn folder(name: &str) -> Result<PathBuf, SocketError> {
    let path = path(None, name)?;
    Ok(path.parent().map(Path::to_owned).unwrap_or_default())
}

/// The folder for the files of a user's running programs where the system has none.
fn fallback() -> PathBuf {
    std::env::temp_dir().join(format!("runtime-{}", rustix::process::geteuid().as_raw()))
}

/// Everybody may make folders where the fallback lies: if it is there, it must be the user's alone.
fn check_fallback(path: &Path) -> Result<(), SocketError> {
    let folder = fallback();
    if !path.starts_with(&folder) {
        return Ok(());
    }
    match std::fs::symlink_metadata(&folder) {
        Err(_) => Ok(()),
        Ok(data) if data.is_dir() && is_private(&data) => Ok(()),
        Ok(_) => Err(SocketError::NoPlace(folder)),
    }
}

fn is_private(data: &std::fs::Metadata) -> bool {
    data.uid() == rustix::process::geteuid().as_raw() && data.mode() & 0o077 == 0
}

fn path_for(given: Option<&Path>, name: &str, root: bool, runtime: PathBuf) -> Result<PathBuf, SocketError> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
        return Err(SocketError::BadName(name.to_owned()));
    }
    let folder = if root { PathBuf::from("/run") } else { runtime };
    Ok(folder.join("weir").join(format!("{name}.sock")))
}

/// A socket that is listened on; its file is removed when dropped.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The listening end.
    pub(crate) listener: Arc<UnixListener>,
    /// Its file.
    pub(crate) path: PathBuf,
}

impl Drop for Bound {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

/// Listens at `path`, readable and writable for the user and the group. The file of a process that has died is replaced.
pub(crate) fn bind(path: &Path) -> Result<Bound, SocketError> {
    bind_for(path, 0o660, ADMISSION)
}

/// The same with another mode, and another time within which somebody who listens there already lets a client in.
pub(crate) fn bind_for(path: &Path, mode: u32, patience: Duration) -> Result<Bound, SocketError> {
    let wrong = |what: &'static str| move |cause| SocketError::System { path: path.to_owned(), what, cause };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        // Root's is open to the members of the socket's group.
        let mode = if rustix::process::geteuid().is_root() { 0o755 } else { 0o700 };
        weir_host::files::folder_if_missing(folder, mode).map_err(wrong("make the folder of"))?;
        check_fallback(path)?;
    }
    let _turn = turn_in(path);
    remove_stale(path, patience)?;
    // So that nobody else gets in between these two lines.
    let usual = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777 & !mode));
    let listener = UnixListener::bind(path);
    rustix::process::umask(usual);
    let listener = listener.map_err(|cause| match cause.kind() {
        io::ErrorKind::AddrInUse => SocketError::Taken(path.to_owned()),
        _ => wrong("listen on")(cause),
    })?;
    let bound = Bound { listener: Arc::new(listener), path: path.to_owned() };
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).map_err(wrong("set the mode of"))?;
    Ok(bound)
}

/// Keeps others off who start in the same folder at the same moment: between the look for a socket and a new one that is listened on, and
/// one that somebody has made but does not listen on yet looks like that of a dead process. Whoever can read the folder can hold the
/// lock, so it is not waited for longer than a start takes.
fn turn_in(path: &Path) -> Option<File> {
    const TRIES: u32 = 200;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    for _ in 0..TRIES {
        match rustix::fs::flock(&folder, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::park_timeout(Duration::from_millis(5)),
            Err(_) => return None,
            Ok(()) => return Some(folder),
        }
    }
    None
}

/// Removes the socket file of a process that is gone.
fn remove_stale(path: &Path, patience: Duration) -> Result<(), SocketError> {
    let wrong = |what: &'static str| move |cause| SocketError::System { path: path.to_owned(), what, cause };
    let kind = match std::fs::symlink_metadata(path) {
        Ok(data) => data.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(wrong("look at")(error)),
    };
    if !std::os::unix::fs::FileTypeExt::is_socket(&kind) {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    match try_connect(path, patience) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(wrong("remove the left-over"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // It is alive, whether or not it has room for us or lets us in.
        Ok(_) | Err(_) => Err(SocketError::Taken(path.to_owned())),
    }
}

/// How long somebody who listens may take to let a client in.
const ADMISSION: Duration = Duration::from_secs(30);

/// Connects, or gives up where nobody lets it in for so long.
fn try_connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Connecting waits as long as sending may (unix(7)).
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

/// Connects to the Weir that listens at `path`.
pub(crate) fn connect(path: &Path) -> Result<UnixStream, SocketError> {
    try_connect(path, ADMISSION).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => SocketError::Nobody(path.to_owned()),
        io::ErrorKind::WouldBlock => SocketError::Busy(path.to_owned()),
        _ => SocketError::System { path: path.to_owned(), what: "talk to", cause },
    })
}

/// What the process at the other end may do, by the credentials that the kernel vouches for.
pub(crate) fn rights(stream: &UnixStream) -> Rights {
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) => rights_of(peer.uid.as_raw(), rustix::process::geteuid().as_raw()),
        Err(_) => Rights { read: false, change: false },
    }
}

/// Root and the user who started Weir may do everything. Others come this far only if the file's mode let them in, as members
/// of its group; they may read.
fn rights_of(peer: u32, own: u32) -> Rights {
    if peer == 0 || peer == own { Rights::ALL } else { Rights::READ }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-socket-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn paths_follow_the_user() {
        let path = |given, name, root, runtime: &str| {
            path_for(given, name, root, PathBuf::from(runtime)).map_err(|error| error.to_string())
        };
        assert_eq!(path(None, "weir", true, "/x").unwrap(), Path::new("/run/weir/weir.sock"));
        assert_eq!(path(None, "lab-1", false, "/run/user/7").unwrap(), Path::new("/run/user/7/weir/lab-1.sock"));
        assert_eq!(path(Some(Path::new("s")), "weir", false, "/x").unwrap(), Path::new("s"));
        for name in ["", "../x", "a/b", "a b"] {
            assert!(path(None, name, true, "/x").unwrap_err().contains("cannot be the name"), "{name}");
        }
    }

    #[test]
    fn a_fallback_that_others_can_write_is_refused() {
        let folder = folder("private");
        let of = |mode| {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
            is_private(&std::fs::symlink_metadata(&folder).unwrap())
        };
        assert!(of(0o700));
        assert!(!of(0o755) && !of(0o777));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(check_fallback(Path::new("/run/weir/weir.sock")).is_ok());
        assert!(SocketError::NoPlace(folder).to_string().contains("--socket PATH"));
    }

    #[test]
    fn a_live_socket_is_left_alone_and_a_dead_one_replaced() {
        let folder = folder("stale");
        let at = folder.join("deep").join("weir.sock");
        let bound = bind(&at).unwrap();
        assert_eq!(std::fs::metadata(&at).unwrap().permissions().mode() & 0o777, 0o660);
        assert!(bind(&at).unwrap_err().to_string().starts_with("another Weir of that name is running"));
        assert!(connect(&at).is_ok());
        drop(bound);
        assert!(!at.exists());
        assert!(connect(&at).unwrap_err().to_string().starts_with("no Weir listens on"));
        // A process that is killed leaves its file behind.
        drop(UnixListener::bind(&at).unwrap());
        assert!(at.exists());
        assert!(connect(&at).unwrap_err().to_string().starts_with("no Weir listens on"));
        let own = bind_for(&at, 0o600, Duration::from_secs(1)).unwrap();
        assert_eq!(std::fs::metadata(&at).unwrap().permissions().mode() & 0o777, 0o600);
        drop(own);
        std::fs::write(&at, "precious").unwrap();
        assert!(bind(&at).unwrap_err().to_string().contains("is no socket"));
        assert_eq!(std::fs::read_to_string(&at).unwrap(), "precious");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn of_many_that_start_at_once_one_gets_the_name() {
        let folder = folder("race");
        let at = folder.join("weir.sock");
        for _ in 0..200 {
            let start = std::sync::Barrier::new(4);
            let bound: Vec<Result<Bound, SocketError>> = std::thread::scope(|scope| {
                let begin = || {
                    start.wait();
                    bind(&at)
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(begin)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let refused: Vec<String> =
                bound.iter().filter_map(|bound| bound.as_ref().err()).map(ToString::to_string).collect();
            assert_eq!(refused.len(), 3, "{refused:?}");
            assert!(refused.iter().all(|why| why.starts_with("another Weir of that name is running")), "{refused:?}");
            assert!(connect(&at).is_ok());
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nobody_waits_for_ever_to_be_let_in() {
        let folder = folder("full");
        let at = folder.join("weir.sock");
        let listener = UnixListener::bind(&at).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        // Nobody accepts, so the queue is full soon.
        let tries: Vec<_> = (0..5).map(|_| try_connect(&at, Duration::from_millis(100))).collect();
        assert!(tries[0].is_ok());
        assert_eq!(tries[4].as_ref().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(SocketError::Busy(at).to_string().contains("lets nobody in"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn rights_follow_the_credentials() {
        assert_eq!(rights_of(0, 1000), Rights::ALL);
        assert_eq!(rights_of(1000, 1000), Rights::ALL);
        assert_eq!(rights_of(1001, 1000), Rights::READ);
        assert_eq!(rights_of(1001, 0), Rights::READ);
        let (here, _there) = UnixStream::pair().unwrap();
        assert_eq!(rights(&here), Rights::ALL);
    }
}
