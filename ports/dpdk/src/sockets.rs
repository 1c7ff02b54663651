//! UNIX sockets that a driver binds or connects to: who is there, and what was left behind.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::DpdkError;

/// What is at a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Found {
    Nothing,
    /// A socket whose owner died.
    Stale,
    /// A socket that somebody has open.
    Alive,
    /// A file of another kind.
    Foreign,
}

/// Looks without disturbing whoever listens: a datagram socket is refused by a listener for
/// connections (`EPROTOTYPE`), and by a dead socket differently (`ECONNREFUSED`).
fn look(path: &Path) -> io::Result<Found> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(data) => data.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    if !kind.is_socket() {
        return Ok(Found::Foreign);
    }
    match UnixDatagram::unbound()?.connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Found::Stale),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(Found::Alive),
    }
}

/// Makes room for a device that binds `path`: removes a dead socket, and refuses when somebody is there
/// or the folder is missing.
pub(crate) fn clear(device: &str, path: &Path) -> Result<(), DpdkError> {
    match look(path).map_err(|error| denied(path, &error))? {
        Found::Nothing => check_folder(device, path),
        Found::Stale => std::fs::remove_file(path).map_err(|error| denied(path, &error)),
        Found::Alive => Err(DpdkError::Busy {
            device: device.to_owned(),
            by: "another process listens there".into(),
            remedy: format!("stop it (ss -xlp src {}), or choose another path", path.display()),
        }),
        Found::Foreign => Err(DpdkError::Busy {
            device: device.to_owned(),
            by: format!("{} is there and is no socket", path.display()),
            remedy: "choose another path".into(),
        }),
    }
}

/// A device that connects at once needs somebody to connect to.
pub(crate) fn expect_listener(device: &str, path: &Path) -> Result<(), DpdkError> {
    match look(path).map_err(|error| denied(path, &error))? {
        Found::Alive => Ok(()),
        // A device node, such as /dev/vhost-net: the driver knows.
        Found::Foreign => Ok(()),
        Found::Nothing | Found::Stale => Err(DpdkError::NoSuchDevice {
            device: device.to_owned(),
            missing: format!("nobody listens at {}", path.display()),
            remedy: "start the other side first, or listen here (server=1, of a memif role=server)".into(),
        }),
    }
}

fn check_folder(device: &str, path: &Path) -> Result<(), DpdkError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    match folder.is_dir() {
        true => Ok(()),
        false => Err(DpdkError::NoSuchDevice {
            device: device.to_owned(),
            missing: format!("the folder {} is missing", folder.display()),
            remedy: format!("make it (mkdir -p {})", folder.display()),
        }),
    }
}

fn denied(path: &Path, error: &io::Error) -> DpdkError {
    DpdkError::NoPermission {
        what: format!("use the socket {} ({error})", path.display()),
        remedy: "run weir as its owner or as root, or choose another path".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_is_alive_stale_or_missing() {
        let path = std::env::temp_dir().join(format!("weir-dpdk-{}.sock", std::process::id()));
        assert_eq!(look(&path).unwrap(), Found::Nothing);
        assert_eq!(clear("vhost:x", &path), Ok(()));
        assert!(matches!(expect_listener("virtio_user:x", &path), Err(DpdkError::NoSuchDevice { .. })));

        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(look(&path).unwrap(), Found::Alive);
        assert!(matches!(clear("vhost:x", &path), Err(DpdkError::Busy { .. })));
        assert_eq!(expect_listener("virtio_user:x", &path), Ok(()));
        assert!(listener.accept().is_err(), "nobody was disturbed");

        drop(listener);
        assert_eq!(look(&path).unwrap(), Found::Stale);
        assert_eq!(clear("vhost:x", &path), Ok(()));
        assert!(!path.exists());

        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(clear("vhost:x", &path), Err(DpdkError::Busy { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();
        let orphan = path.join("none/x.sock");
        assert!(matches!(clear("vhost:x", &orphan), Err(DpdkError::NoSuchDevice { .. })));
    }
}
