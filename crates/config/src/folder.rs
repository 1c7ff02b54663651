//! Files that a configuration names: only below the folder of the script, whatever links lie there.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path as FsPath, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};

use crate::scalar::Malformed;

/// The folder of a script, held open: what is opened by way of it stays below it.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    descriptor: Arc<OwnedFd>,
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// What the system answers, such as that there is no such folder.
    pub fn open(path: &FsPath) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { FsPath::new(".") } else { path };
        let descriptor = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path: path.to_owned(), descriptor: Arc::new(descriptor) })
    }

    /// Opens the folder in which a file lies.
    ///
    /// # Errors
    /// What the system answers.
    pub fn of(file: &FsPath) -> io::Result<Self> {
        Self::open(file.parent().unwrap_or(FsPath::new("")))
    }

    /// The folder's path, as it was opened.
    pub fn path(&self) -> &FsPath {
        &self.path
    }

    /// Opens a regular file below the folder for reading. The kernel refuses every way out: `..`, absolute paths
    /// and symbolic links that lead elsewhere; a change of the folder meanwhile does not open one.
    ///
    /// # Errors
    /// What is wrong with the path or the file, as a phrase that follows it.
    pub fn open_file(&self, file: &FilePath) -> Result<File, String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let descriptor = openat2(&self.descriptor, file.path(), flags, Mode::empty(), beneath)
            .map_err(|error| self.reason(error))?;
        let kind = fstat(&descriptor).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::RegularFile) => Ok(File::from(descriptor)),
            Ok(_) => Err("is not a regular file".to_owned()),
            Err(error) => Err(format!("cannot be examined: {error}")),
        }
    }

    fn reason(&self, error: rustix::io::Errno) -> String {
        let folder = self.path.display();
        match error {
            rustix::io::Errno::NOENT => format!("does not exist in the folder {folder}"),
            rustix::io::Errno::XDEV => format!("leads out of the folder {folder} by a symbolic link"),
            other => format!("cannot be opened: {}", io::Error::from(other)),
        }
    }
}

/// The path of a file below the folder of the script: relative, without `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(PathBuf);

impl FilePath {
    /// A path that is right.
    pub const EXAMPLE: &'static str = "routes.csv";

    /// The path, relative to the folder of the script.
    pub fn path(&self) -> &FsPath {
        &self.0
    }

    /// Reads a path. Only its form is looked at; [`Folder::open_file`] decides.
    ///
    /// # Errors
    /// That it is empty, absolute or leads upwards.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let path = FsPath::new(text);
        let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if path.is_absolute() {
            Err(Malformed::because("is an absolute path").remedy("write the path from the folder of the script"))
        } else if !inside {
            Err(Malformed::because("leads out of the folder of the script").remedy("move the file below that folder"))
        } else if path.file_name().is_none() || text.contains('\0') {
            Err(Malformed::because("is not the path of a file"))
        } else {
            Ok(Self(path.components().filter(|part| matches!(part, Component::Normal(_))).collect()))
        }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_stay_below_the_folder_by_their_form() {
        for (text, plain) in [("routes.csv", "routes.csv"), ("./a//b.csv", "a/b.csv"), ("a/./b", "a/b")] {
            assert_eq!(FilePath::parse(text).unwrap().to_string(), plain);
        }
        for wrong in ["", ".", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "a\0b"] {
            FilePath::parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn links_do_not_lead_out() {
        let base = std::env::temp_dir().join(format!("weir-folder-{}", std::process::id()));
        let inner = base.join("inner");
        std::fs::create_dir_all(inner.join("sub")).unwrap();
        std::fs::write(base.join("secret"), "no").unwrap();
        std::fs::write(inner.join("sub/file"), "yes").unwrap();
        for (target, link) in [("../secret", "out"), ("sub/file", "within"), ("..", "up"), ("/proc/self", "magic")] {
            symlink(target, inner.join(link)).unwrap();
        }
        let folder = Folder::open(&inner).unwrap();
        let read = |path: &str| -> Result<String, String> {
            let mut text = String::new();
            let mut file = folder.open_file(&FilePath::parse(path).unwrap())?;
            file.read_to_string(&mut text).map_err(|error| error.to_string())?;
            Ok(text)
        };
        assert_eq!(read("sub/file").unwrap(), "yes");
        assert_eq!(read("within").unwrap(), "yes");
        for wrong in ["out", "up/secret", "magic/cmdline"] {
            assert!(read(wrong).unwrap_err().contains("leads out of the folder"), "{wrong}");
        }
        assert!(read("none").unwrap_err().contains("does not exist"));
        assert_eq!(read("sub").unwrap_err(), "is not a regular file");
        std::fs::remove_dir_all(&base).unwrap();
    }
}
