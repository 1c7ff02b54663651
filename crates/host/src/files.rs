//! Making files, so that nobody else on the machine can have a say in it: the only place that does (`make layers` looks).
//!
//! Where others can write, they can put a link in the way of a file that is about to be made, or a file of their own, and what
//! Weir writes as root lands where they want. So no link is followed there, and what lies there must be ours.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Makes a file that is not there yet, to be written.
///
/// # Errors
///
/// There is something of that name already, were it a link; or the system refuses.
pub fn create(path: &Path, mode: u32) -> Result<File> {
    options().write(true).create_new(true).mode(mode).open(path)
}

/// Opens a file of Weir's own to be read and added to, and makes it if it is not there.
///
/// # Errors
///
/// What is there is a link, no file, somebody else's, or has another name elsewhere; or the system refuses.
pub fn own(path: &Path, mode: u32) -> Result<File> {
    let file = options().read(true).append(true).create(true).mode(mode).open(path)?;
    check_ours(path, &file)?;
    Ok(file)
}

/// Opens a file of Weir's own that is there, to be read.
///
/// # Errors
///
/// As of [`own`]; or there is none.
pub fn ours(path: &Path) -> Result<File> {
    // A pipe in its place must not make anybody wait.
    let file =
        OpenOptions::new().read(true).custom_flags(NOFOLLOW | OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    check_ours(path, &file)?;
    Ok(file)
}

/// Makes the file that a user has named, or empties it; links are followed in folders that not everybody can write to.
///
/// # Errors
///
/// In a folder that everybody can write to: what is there is a link, or somebody else's. Or the system refuses.
pub fn output(path: &Path) -> Result<File> {
    let file = named(path, OpenOptions::new().write(true))?;
    // A device or a pipe has nothing to be emptied of.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// As [`output`], but what is in the file stays: it is read, and more is added to it.
///
/// # Errors
///
/// As for [`output`].
pub fn append(path: &Path) -> Result<File> {
    named(path, OpenOptions::new().read(true).append(true))
}

fn named(path: &Path, how: &mut OpenOptions) -> Result<File> {
    how.create(true).truncate(false);
    if !is_shared(&std::fs::metadata(above(path))?) {
        return how.open(path);
    }
    let file = how.custom_flags(NOFOLLOW).open(path)?;
    if file.metadata()?.is_file() {
        check_ours(path, &file)?;
    }
    Ok(file)
}

/// Makes the folder that a user has named for what is to be written, and those above it, where they are missing.
///
/// # Errors
///
/// In a folder that everybody can write to: what is there is a link, or somebody else's. Or the system refuses.
pub fn output_folder(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).create(path)?;
    if is_shared(&std::fs::metadata(above(path))?) {
        check_folder(path, |_| false)?;
    }
    Ok(())
}

/// Makes a folder for files of Weir's own, and those above it, where they are missing.
///
/// # Errors
///
/// What is there is a link, no folder, somebody else's, or others can write to it; or the system refuses.
pub fn folder(path: &Path, mode: u32) -> Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)?;
    check_folder(path, is_open)
}

/// As [`folder`], but a folder that is there may be anybody's: what is made in it is made with care.
///
/// # Errors
///
/// As for [`folder`], where it is made.
pub fn folder_if_missing(path: &Path, mode: u32) -> Result<()> {
    if path.is_dir() { Ok(()) } else { folder(path, mode) }
}

fn check_folder(path: &Path, is_open: impl Fn(&Metadata) -> bool) -> Result<()> {
    let data = std::fs::symlink_metadata(path)?;
    let problem = match data {
        _ if !data.is_dir() => "is no folder",
        _ if !is_mine(&data) => "belongs to somebody else",
        _ if is_open(&data) => "can be written by others",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::PermissionDenied, format!("{} {problem}", path.display())))
}

/// The folder that something lies in.
fn above(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

const NOFOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(NOFOLLOW);
    options
}

/// Whether everybody can make files in a folder.
fn is_shared(folder: &Metadata) -> bool {
    folder.mode() & 0o002 != 0
}

/// Whether others than the owner can make and remove files in a folder.
fn is_open(folder: &Metadata) -> bool {
    folder.mode() & 0o022 != 0
}

/// Root's is as good as ours: it can do to us what it likes.
fn is_mine(data: &Metadata) -> bool {
    let user = rustix::process::geteuid();
    data.uid() == user.as_raw() || data.uid() == 0
}

fn check_ours(path: &Path, file: &File) -> Result<()> {
    let data = file.metadata()?;
    let problem = match data {
        _ if !data.is_file() => "is no file",
        _ if data.uid() != rustix::process::geteuid().as_raw() => "belongs to somebody else",
        _ if data.nlink() > 1 => "has another name elsewhere",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::PermissionDenied, format!("{} {problem}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;

    /// A folder of its own, in which others can write or not; gone when dropped.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str, mode: u32) -> Place {
            let path = std::env::temp_dir().join(format!("weir-files-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Place(path)
        }

        fn victim(&self) -> PathBuf {
            let path = self.0.join("victim");
            std::fs::write(&path, "precious").unwrap();
            path
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn write(file: Result<File>) -> bool {
        file.and_then(|mut file| file.write_all(b"ours")).is_ok()
    }

    #[test]
    fn no_link_leads_to_what_is_not_meant() {
        for (name, link) in [("sym", true), ("hard", false)] {
            let place = Place::new(name, 0o1777);
            let (victim, trap) = (place.victim(), place.0.join("trap"));
            match link {
                true => symlink(&victim, &trap).unwrap(),
                false => std::fs::hard_link(&victim, &trap).unwrap(),
            }
            assert!(!write(create(&trap, 0o600)), "{name}");
            assert!(!write(own(&trap, 0o600)), "{name}");
            assert!(!write(output(&trap)), "{name}");
            assert!(!write(append(&trap)), "{name}");
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious", "{name}");
        }
    }

    #[test]
    fn where_only_the_owner_writes_links_are_followed() {
        let place = Place::new("private", 0o755);
        let (victim, link) = (place.victim(), place.0.join("link"));
        symlink(&victim, &link).unwrap();
        assert!(write(append(&link)));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "preciousours");
        assert!(write(output(&link)));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "ours");
        assert!(output(Path::new("/dev/null")).is_ok(), "a device is no file");
    }

    #[test]
    fn files_are_made_kept_and_not_made_twice() {
        let place = Place::new("made", 0o700);
        let path = place.0.join("file");
        assert!(write(create(&path, 0o600)));
        assert_eq!(create(&path, 0o600).unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(own(&path, 0o600).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ours");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_folder_is_made_or_must_be_ours() {
        let place = Place::new("folder", 0o700);
        folder(&place.0.join("a/b"), 0o700).unwrap();
        assert_eq!(std::fs::metadata(place.0.join("a/b")).unwrap().permissions().mode() & 0o777, 0o700);
        symlink(place.0.join("a"), place.0.join("link")).unwrap();
        let said = |path: &str| folder(&place.0.join(path), 0o700).unwrap_err().to_string();
        assert!(said("link").contains("is no folder"), "{}", said("link"));
        assert!(output_folder(&place.0.join("link")).is_ok(), "nobody else can have put it there");
        let open = Place::new("open", 0o777);
        symlink(&place.0, open.0.join("report")).unwrap();
        assert!(output_folder(&open.0.join("report")).unwrap_err().to_string().contains("is no folder"));
        output_folder(&open.0.join("other/deep")).unwrap();
        assert!(folder(&open.0, 0o700).unwrap_err().to_string().contains("can be written by others"));
    }
}
