//! Files on disk.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file, which is there whole or not at all: it is written beside and renamed. Answers its path.
///
/// # Errors
///
/// A sentence that names the file, what the system says, and what to do.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<PathBuf, String> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let written = fs::File::create(&beside)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
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
