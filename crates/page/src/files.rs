//! Files on disk.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file, which is there whole or not at all. Answers its path.
///
/// # Errors
///
/// As [`write_whole_by`].
pub fn write_whole(path: &Path, content: &[u8]) -> Result<PathBuf, String> {
    write_whole_by(path, |file| file.write_all(content))
}

/// Writes a file as `write` does it, piece by piece. It is there whole or not at all: it is written beside and renamed. Answers its
/// path.
///
/// # Errors
///
/// A sentence that names the file, what the system or `write` says, and what to do.
pub fn write_whole_by(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
) -> Result<PathBuf, String> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    // Of a process that was killed.
    let _ = fs::remove_file(&beside);
    let written = weir_host::files::create(Path::new(&beside), 0o666).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.into_inner().map_err(|error| error.into_error())?.sync_all()?;
        fs::rename(&beside, path)
    });
    written.map_err(|error| {
        // What cannot be removed either is in the way of nothing.
        let _ = fs::remove_file(&beside);
        cannot_write(path, &error)
    })?;
    Ok(path.to_owned())
}

/// What is said of a file that cannot be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room and run the command again",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "; choose another folder",
        _ => "",
    };
    format!("cannot write {}: {error}{remedy}", path.display())
}
